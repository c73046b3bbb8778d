/* SPDX-License-Identifier: MPL-2.0 */
/* new_connections.c -- see new_connections.h. */
#include "broker/io/new_connections.h"

#include "libbus/base/limits.h"

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
}

void new_connections_fini(struct new_connections *connections)
{
    memory_give(connections->memory, connections->items,
                connections->room * sizeof *connections->items);
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

/* ---- the list -------------------------------------------------------------------------------- */

static void wait_push(struct new_connections *connections, struct new_connection *entry,
                      int64_t now_ns)
{
    uint32_t at = (uint32_t)(entry - connections->items) + 1;
    entry->state = CONNECTION_WAITING;
    entry->since_ns = now_ns;
    entry->prev = connections->last;
    entry->next = 0;
    if (connections->last != 0)
        connections->items[connections->last - 1].next = at;
    else
        connections->first = at;
    connections->last = at;
    connections->waiting += 1;
}

static void wait_take(struct new_connections *connections, struct new_connection *entry)
{
    if (entry->prev != 0)
        connections->items[entry->prev - 1].next = entry->next;
    else
        connections->first = entry->next;
    if (entry->next != 0)
        connections->items[entry->next - 1].prev = entry->prev;
    else
        connections->last = entry->prev;
    connections->waiting -= 1;
}

/* ---- what becomes of a connection ------------------------------------------------------------ */

static void leave(struct new_connections *connections, struct new_connection *entry)
{
    if (entry->state == CONNECTION_NONE)
        return;
    if (entry->state == CONNECTION_WAITING)
        wait_take(connections, entry);
    connections->leaving -= entry->state == CONNECTION_LEAVING;
    connections->open -= 1;
    entry->state = CONNECTION_NONE;
}

void new_connections_came(struct new_connections *connections, enum lane lane, int fd,
                          int64_t now_ns)
{
    struct new_connection *entry = entry_of(connections, lane, fd);
    if (entry == NULL)
        return;
    leave(connections, entry); /* the connection that had this descriptor is gone */
    connections->open += 1;
    wait_push(connections, entry, now_ns);
}

void new_connections_spoke(struct new_connections *connections, enum lane lane, int fd)
{
    struct new_connection *entry = entry_of(connections, lane, fd);
    if (entry == NULL || entry->state != CONNECTION_WAITING)
        return;
    wait_take(connections, entry);
    entry->state = CONNECTION_SPEAKS;
}

void new_connections_forgotten(struct new_connections *connections, enum lane lane, int fd,
                               int64_t now_ns)
{
    struct new_connection *entry = entry_of(connections, lane, fd);
    if (entry != NULL && entry->state == CONNECTION_SPEAKS)
        wait_push(connections, entry, now_ns);
}

void new_connections_left(struct new_connections *connections, enum lane lane, int fd)
{
    struct new_connection *entry = entry_of(connections, lane, fd);
    if (entry != NULL)
        leave(connections, entry);
}

/* ---- who goes -------------------------------------------------------------------------------- */

static bool are_too_many(const struct new_connections *connections)
{
    return connections->waiting > LIMIT_NEW_CONNECTIONS ||
           connections->open - connections->leaving > connections->open_max;
}

int64_t new_connections_due_ns(const struct new_connections *connections)
{
    if (connections->first == 0)
        return INT64_MAX;
    int64_t since_ns = connections->items[connections->first - 1].since_ns;
    return are_too_many(connections) ? since_ns : since_ns + connections->wait_ns;
}

bool new_connections_next(struct new_connections *connections, int64_t now_ns, int *out_fd)
{
    if (new_connections_due_ns(connections) > now_ns)
        return false;
    struct new_connection *entry = &connections->items[connections->first - 1];
    *out_fd = (int)((connections->first - 1) / LANE_COUNT);
    wait_take(connections, entry);
    entry->state = CONNECTION_LEAVING;
    connections->leaving += 1;
    return true;
}
