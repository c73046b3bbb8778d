/* SPDX-License-Identifier: MPL-2.0 */
/* new_connections.c -- see new_connections.h. */
#include "broker/io/new_connections.h"

#include "libbus/base/limits.h"
#include "libbus/base/must.h"

enum { ROOM_FIRST = 128 };

enum new_connection_state {
    CONNECTION_NONE = 0, /* no connection has this descriptor, or none that is known */
    CONNECTION_WAITING,  /* in the list */
    CONNECTION_SPEAKS,   /* a peer */
    CONNECTION_LEAVING,  /* let go */
};

void new_connections_init(struct new_connections *connections, struct memory *memory,
                          uint32_t open_max, int64_t wait_ns)
{
    *connections =
        (struct new_connections){.memory = memory, .open_max = open_max, .wait_ns = wait_ns};
    id_map_init(&connections->host_ids, memory);
}

void new_connections_fini(struct new_connections *connections)
{
    memory_give(connections->memory, connections->items,
                connections->room * sizeof *connections->items);
    memory_give(connections->memory, connections->hosts,
                connections->host_room * sizeof *connections->hosts);
    id_map_fini(&connections->host_ids);
    new_connections_init(connections, connections->memory, 0, 0);
}

/* NULL: no descriptor, or no memory. */
static struct new_connection *entry_of(struct new_connections *connections, enum lane lane, int fd)
{
    if (fd < 0 || fd > INT32_MAX / LANE_COUNT / 2)
        return NULL;
    uint32_t place = (uint32_t)fd * LANE_COUNT + (uint32_t)lane;
    if (place >= connections->room) {
        uint32_t room = connections->room > 0 ? connections->room : ROOM_FIRST;
        while (room <= place)
            room *= 2;
        size_t size = sizeof *connections->items;
        struct new_connection *items = memory_resize(connections->memory, connections->items,
                                                     connections->room * size, room * size);
        if (items == NULL)
            return NULL;
        connections->items = items;
        connections->room = room;
    }
    return &connections->items[place];
}

/* ---- addresses ------------------------------------------------------------------------------- */

static struct new_host *host_at(struct new_connections *connections, uint32_t place)
{
    return &connections->hosts[place - 1];
}

static void hosts_push(struct new_connections *connections, struct new_hosts *hosts,
                       struct new_host *host)
{
    uint32_t at = (uint32_t)(host - connections->hosts) + 1;
    host->place = (struct new_place){.prev = hosts->last};
    if (hosts->last != 0)
        host_at(connections, hosts->last)->place.next = at;
    else
        hosts->first = at;
    hosts->last = at;
}

static void hosts_take(struct new_connections *connections, struct new_hosts *hosts,
                       struct new_host *host)
{
    if (host->place.prev != 0)
        host_at(connections, host->place.prev)->place.next = host->place.next;
    else
        hosts->first = host->place.next;
    if (host->place.next != 0)
        host_at(connections, host->place.next)->place.prev = host->place.prev;
    else
        hosts->last = host->place.prev;
}

static bool hosts_grow(struct new_connections *connections)
{
    if (connections->host_count < connections->host_room)
        return true;
    uint32_t room = connections->host_room > 0 ? 2 * connections->host_room : ROOM_FIRST;
    size_t size = sizeof *connections->hosts;
    struct new_host *hosts = memory_resize(connections->memory, connections->hosts,
                                           connections->host_room * size, room * size);
    if (hosts == NULL)
        return false;
    connections->hosts = hosts;
    connections->host_room = room;
    return true;
}

/* The place for another address, which is idle: a new one, or that of the address that was idle
 * longest.  0: no memory. */
static uint32_t host_place(struct new_connections *connections)
{
    uint32_t place = connections->idle.first;
    if (connections->host_count < LIMIT_NEW_ADDRESSES && hosts_grow(connections)) {
        place = ++connections->host_count;
        *host_at(connections, place) = (struct new_host){0};
        hosts_push(connections, &connections->idle, host_at(connections, place));
    } else if (place != 0) {
        id_map_remove(&connections->host_ids, host_at(connections, place)->address);
    }
    return place;
}

/* NULL: no memory. */
static struct new_host *host_of(struct new_connections *connections, uint64_t address,
                                int64_t now_ns)
{
    uint32_t place;
    if (id_map_get(&connections->host_ids, address, &place))
        return host_at(connections, place);
    if (!id_map_reserve(&connections->host_ids) || (place = host_place(connections)) == 0)
        return NULL;
    struct new_host *host = host_at(connections, place);
    host->address = address;
    token_bucket_init(&host->failures, LIMIT_HANDSHAKE_FAILURES, LIMIT_HANDSHAKE_BURST, now_ns);
    token_bucket_init(&host->unfinished, LIMIT_HANDSHAKES_UNFINISHED, LIMIT_UNFINISHED_BURST,
                      now_ns);
    must(id_map_put(&connections->host_ids, address, place));
    return host;
}

/* Whether an address has had more failures than it may.  When too many addresses are refused, the
 * next one is looked up here alone. */
static bool is_used_up(struct new_connections *connections, uint64_t address, int64_t now_ns)
{
    uint32_t place;
    if (!connections->counts_failures || address == 0)
        return false;
    if (refused_addresses_has(&connections->refused, address, now_ns))
        return true;
    if (!id_map_get(&connections->host_ids, address, &place))
        return false;
    struct new_host *host = host_at(connections, place);
    return token_bucket_level(&host->failures, now_ns) <= 0 ||
           token_bucket_level(&host->unfinished, now_ns) <= 0;
}

static void count_failure(struct new_connections *connections, uint64_t address, bool is_unfinished,
                          int64_t now_ns)
{
    struct new_host *host = host_of(connections, address, now_ns);
    if (host == NULL)
        return;
    struct token_bucket *bucket = is_unfinished ? &host->unfinished : &host->failures;
    if (token_bucket_level(bucket, now_ns) <= 0)
        return;
    token_bucket_spend(bucket, 1);
    if (bucket->level <= 0)
        refused_addresses_add(&connections->refused, address, now_ns);
}

/* ---- lists of those that wait ---------------------------------------------------------------- */

static struct new_connection *item_at(struct new_connections *connections, uint32_t place)
{
    return &connections->items[place - 1];
}

static void host_wait_push(struct new_connections *connections, struct new_host *host,
                           struct new_connection *entry)
{
    uint32_t at = (uint32_t)(entry - connections->items) + 1;
    entry->of_host = (struct new_place){.prev = host->last};
    if (host->last != 0)
        item_at(connections, host->last)->of_host.next = at;
    else
        host->first = at;
    host->last = at;
    if (host->waiting++ > 0)
        return;
    hosts_take(connections, &connections->idle, host);
    hosts_push(connections, &connections->busy, host);
}

static void host_wait_take(struct new_connections *connections, struct new_host *host,
                           struct new_connection *entry)
{
    if (entry->of_host.prev != 0)
        item_at(connections, entry->of_host.prev)->of_host.next = entry->of_host.next;
    else
        host->first = entry->of_host.next;
    if (entry->of_host.next != 0)
        item_at(connections, entry->of_host.next)->of_host.prev = entry->of_host.prev;
    else
        host->last = entry->of_host.prev;
    if (--host->waiting > 0)
        return;
    host->proved = 0;
    hosts_take(connections, &connections->busy, host);
    hosts_push(connections, &connections->idle, host);
}

/* false: no memory. */
static bool wait_push(struct new_connections *connections, struct new_connection *entry,
                      int64_t now_ns)
{
    uint32_t at = (uint32_t)(entry - connections->items) + 1;
    struct new_host *host = host_of(connections, entry->address, now_ns);
    if (host == NULL)
        return false;
    entry->state = CONNECTION_WAITING;
    entry->since_ns = now_ns;
    entry->all = (struct new_place){.prev = connections->last};
    if (connections->last != 0)
        item_at(connections, connections->last)->all.next = at;
    else
        connections->first = at;
    connections->last = at;
    connections->waiting += 1;
    host_wait_push(connections, host, entry);
    return true;
}

static void wait_take(struct new_connections *connections, struct new_connection *entry)
{
    uint32_t place;
    if (entry->all.prev != 0)
        item_at(connections, entry->all.prev)->all.next = entry->all.next;
    else
        connections->first = entry->all.next;
    if (entry->all.next != 0)
        item_at(connections, entry->all.next)->all.prev = entry->all.prev;
    else
        connections->last = entry->all.prev;
    connections->waiting -= 1;
    must(id_map_get(&connections->host_ids, entry->address, &place)); /* it is busy, and stays */
    host_wait_take(connections, host_at(connections, place), entry);
}

/* Whether one that waits may be one of those that showed a known key; then it is none of them any
 * more. */
static bool take_proof(struct new_connections *connections, const struct new_connection *entry)
{
    uint32_t place;
    if (entry->state != CONNECTION_WAITING ||
        !id_map_get(&connections->host_ids, entry->address, &place) ||
        host_at(connections, place)->proved == 0)
        return false;
    host_at(connections, place)->proved -= 1;
    return true;
}

void new_connections_proved(struct new_connections *connections, uint64_t address, int64_t now_ns)
{
    struct new_host *host =
        address != 0 && connections->counts_failures ? host_of(connections, address, now_ns) : NULL;
    if (host != NULL)
        host->proved += 1;
}

/* ---- what becomes of a connection ------------------------------------------------------------ */

static enum lane lane_of(const struct new_connections *connections,
                         const struct new_connection *entry)
{
    return (enum lane)((entry - connections->items) % LANE_COUNT);
}

static void leave(struct new_connections *connections, struct new_connection *entry,
                  bool is_unfinished, int64_t now_ns)
{
    if (entry->state == CONNECTION_NONE)
        return;
    bool is_silent = entry->state != CONNECTION_SPEAKS && !entry->has_spoken;
    bool is_failure = is_silent && (is_unfinished || !take_proof(connections, entry));
    if (entry->state == CONNECTION_WAITING)
        wait_take(connections, entry);
    if (is_failure && !entry->is_refused && entry->address != 0 && connections->counts_failures)
        count_failure(connections, entry->address, is_unfinished, now_ns);
    if (entry->state == CONNECTION_LEAVING)
        connections->leaving -= 1;
    else
        connections->here[lane_of(connections, entry)] -= 1;
    connections->open -= 1;
    entry->state = CONNECTION_NONE;
}

bool new_connections_came(struct new_connections *connections, enum lane lane, int fd,
                          uint64_t address, int64_t now_ns)
{
    bool is_refused = is_used_up(connections, address, now_ns);
    struct new_connection *entry = entry_of(connections, lane, fd);
    if (entry == NULL)
        return !is_refused;
    leave(connections, entry, false, now_ns); /* the connection that had this descriptor is gone */
    *entry = (struct new_connection){.address = address, .is_refused = is_refused};
    if (is_refused) {
        entry->state = CONNECTION_LEAVING;
        connections->leaving += 1;
    } else if (!wait_push(connections, entry, now_ns)) {
        return true;
    } else {
        connections->here[lane] += 1;
    }
    connections->open += 1;
    return !is_refused;
}

bool new_connections_is_leaving(struct new_connections *connections, enum lane lane, int fd)
{
    const struct new_connection *entry = entry_of(connections, lane, fd);
    return entry != NULL && entry->state == CONNECTION_LEAVING;
}

void new_connections_spoke(struct new_connections *connections, enum lane lane, int fd)
{
    struct new_connection *entry = entry_of(connections, lane, fd);
    if (entry == NULL || entry->state != CONNECTION_WAITING)
        return;
    (void)take_proof(connections, entry);
    wait_take(connections, entry);
    entry->state = CONNECTION_SPEAKS;
    entry->has_spoken = true;
}

void new_connections_forgotten(struct new_connections *connections, enum lane lane, int fd,
                               int64_t now_ns)
{
    struct new_connection *entry = entry_of(connections, lane, fd);
    if (entry != NULL && entry->state == CONNECTION_SPEAKS)
        (void)wait_push(connections, entry, now_ns); /* or it stays as long as it likes */
}

void new_connections_left(struct new_connections *connections, enum lane lane, int fd,
                          bool is_unfinished, int64_t now_ns)
{
    struct new_connection *entry = entry_of(connections, lane, fd);
    if (entry != NULL)
        leave(connections, entry, is_unfinished, now_ns);
}

/* ---- who goes -------------------------------------------------------------------------------- */

/* Of descriptors: those that are taken, and those of data connections that are to come. */
static uint32_t places_needed(const struct new_connections *connections)
{
    uint32_t control = connections->here[LANE_CONTROL];
    uint32_t data = connections->here[LANE_DATA];
    return control + (data > control ? data : control);
}

static bool are_too_many(const struct new_connections *connections)
{
    return connections->waiting > LIMIT_NEW_CONNECTIONS ||
           places_needed(connections) > connections->open_max;
}

int64_t new_connections_due_ns(const struct new_connections *connections)
{
    if (connections->first == 0)
        return INT64_MAX;
    int64_t since_ns = connections->items[connections->first - 1].since_ns;
    return are_too_many(connections) ? since_ns : since_ns + connections->wait_ns;
}

/* The one that waits longest, of the address that has most.  Addresses are as many as those that
 * wait at most. */
static uint32_t one_too_many(struct new_connections *connections)
{
    const struct new_host *most = host_at(connections, connections->busy.first);
    for (uint32_t at = connections->busy.first; at != 0; at = host_at(connections, at)->place.next)
        if (host_at(connections, at)->waiting > most->waiting)
            most = host_at(connections, at);
    return most->first;
}

bool new_connections_next(struct new_connections *connections, int64_t now_ns, int *out_fd)
{
    if (new_connections_due_ns(connections) > now_ns)
        return false;
    bool is_late =
        connections->items[connections->first - 1].since_ns + connections->wait_ns <= now_ns;
    uint32_t place = is_late ? connections->first : one_too_many(connections);
    struct new_connection *entry = item_at(connections, place);
    *out_fd = (int)((place - 1) / LANE_COUNT);
    wait_take(connections, entry);
    entry->state = CONNECTION_LEAVING;
    connections->leaving += 1;
    connections->here[lane_of(connections, entry)] -= 1;
    return true;
}
