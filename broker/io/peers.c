/* SPDX-License-Identifier: MPL-2.0 */
/* peers.c -- who is connected; see peers.h. */
#include "broker/io/peers.h"

#include "libbus/base/limits.h"
#include "libbus/base/must.h"

enum { ROOM_FIRST = 64, TURNS_SPARE = 16 };

void peers_init(struct peers *peers, struct memory *memory)
{
    *peers = (struct peers){.memory = memory};
    id_map_init(&peers->by_conn, memory);
    for (int i = 0; i < LANE_COUNT; i++)
        id_map_init(&peers->lanes[i].by_routing, memory);
}

void peers_fini(struct peers *peers)
{
    for (int i = 0; i < LANE_COUNT; i++) {
        id_map_fini(&peers->lanes[i].by_routing);
        memory_give(peers->memory, peers->lanes[i].fds,
                    peers->lanes[i].fd_room * sizeof *peers->lanes[i].fds);
    }
    id_map_fini(&peers->by_conn);
    memory_give(peers->memory, peers->items, peers->room * sizeof *peers->items);
    *peers = (struct peers){.memory = peers->memory};
}

struct peer *peers_by_routing(struct peers *peers, enum lane lane, uint32_t routing)
{
    uint32_t place;
    bool is_there = id_map_get(&peers->lanes[lane].by_routing, routing, &place);
    return is_there ? &peers->items[place] : NULL;
}

struct peer *peers_by_conn(struct peers *peers, conn_id conn)
{
    uint32_t place;
    return id_map_get(&peers->by_conn, conn, &place) ? &peers->items[place] : NULL;
}

/* ---- descriptors ----------------------------------------------------------------------------- */

/* NULL: unknown descriptor, or no memory: closing is then learnt from a send. */
static struct peer_fd *fd_entry(struct peers *peers, enum lane lane, int fd)
{
    if (fd < 0)
        return NULL;
    uint32_t old = peers->lanes[lane].fd_room;
    if ((uint32_t)fd >= old) {
        uint32_t room = old > 0 ? old : ROOM_FIRST;
        while (room <= (uint32_t)fd)
            room *= 2;
        size_t size = sizeof *peers->lanes[lane].fds;
        struct peer_fd *fds =
            memory_resize(peers->memory, peers->lanes[lane].fds, old * size, room * size);
        if (fds == NULL)
            return NULL;
        peers->lanes[lane].fds = fds;
        peers->lanes[lane].fd_room = room;
    }
    return &peers->lanes[lane].fds[fd];
}

/* ROUTER's numbers run on and wrap. */
static bool is_older(const struct peer *a, const struct peer *b)
{
    return (int32_t)(a->routing - b->routing) < 0;
}

/* The new connection has this descriptor.  Another connection that had it is gone. */
static void fd_claim(struct peers *peers, struct peer *peer)
{
    struct peer_fd *entry = fd_entry(peers, peer->lane, peer->fd);
    if (entry == NULL)
        return;
    struct peer *other = entry->peer != 0 ? &peers->items[entry->peer - 1] : NULL;
    if (other != NULL && is_older(peer, other)) {
        peers_close(peers, peer);
        return;
    }
    if (other != NULL)
        peers_close(peers, other);
    entry->peer = (uint32_t)(peer - peers->items) + 1;
    if (entry->is_closed)
        peers_close(peers, peer);
}

void peers_fd_accepted(struct peers *peers, enum lane lane, int fd)
{
    struct peer_fd *entry = fd_entry(peers, lane, fd);
    if (entry == NULL)
        return;
    if (entry->peer != 0)
        peers_close(peers, &peers->items[entry->peer - 1]);
    *entry = (struct peer_fd){0};
}

void peers_fd_closed(struct peers *peers, enum lane lane, int fd)
{
    struct peer_fd *entry = fd_entry(peers, lane, fd);
    if (entry == NULL)
        return;
    if (entry->peer != 0)
        peers_close(peers, &peers->items[entry->peer - 1]);
    entry->is_closed = true;
}

/* ---- connections ----------------------------------------------------------------------------- */

static bool peers_grow(struct peers *peers)
{
    if (peers->free != 0 || peers->used < peers->room)
        return true;
    uint32_t room = peers->room > 0 ? peers->room * 2 : ROOM_FIRST;
    size_t size = sizeof *peers->items;
    struct peer *items =
        memory_resize(peers->memory, peers->items, peers->room * size, room * size);
    if (items == NULL)
        return false;
    peers->items = items;
    peers->room = room;
    return true;
}

struct peer *peers_add(struct peers *peers, enum lane lane, uint32_t routing, int fd)
{
    if (peers->lanes[lane].count >= LIMIT_CONNECTIONS || peers->last_conn == UINT32_MAX)
        return NULL;
    if (!peers_grow(peers) || !id_map_reserve(&peers->by_conn) ||
        !id_map_reserve(&peers->lanes[lane].by_routing))
        return NULL;
    uint32_t place = peers->free != 0 ? peers->free - 1 : peers->used++;
    struct peer *peer = &peers->items[place];
    if (peers->free != 0)
        peers->free = peer->next;
    *peer = (struct peer){.conn = ++peers->last_conn, .lane = lane, .routing = routing, .fd = fd};
    must(id_map_put(&peers->by_conn, peer->conn, place));
    must(id_map_put(&peers->lanes[lane].by_routing, routing, place));
    peers->lanes[lane].count += 1;
    fd_claim(peers, peer);
    return peer;
}

/* ---- closing --------------------------------------------------------------------------------- */

/* Closing connections wait in the order in which they may be reported.  One that is read from goes
 * back to the end.  So only the first is ever checked. */
static void closing_push(struct peers *peers, struct peer *peer)
{
    uint32_t place = (uint32_t)(peer - peers->items);
    uint32_t last = peers->lanes[peer->lane].closing_last;
    peer->last_read = peers->lanes[peer->lane].read;
    peer->last_empty = peers->lanes[peer->lane].empty;
    peer->prev = last;
    peer->next = 0;
    if (last != 0)
        peers->items[last - 1].next = place + 1;
    else
        peers->lanes[peer->lane].closing_first = place + 1;
    peers->lanes[peer->lane].closing_last = place + 1;
}

static void closing_take(struct peers *peers, struct peer *peer)
{
    if (peer->prev != 0)
        peers->items[peer->prev - 1].next = peer->next;
    else
        peers->lanes[peer->lane].closing_first = peer->next;
    if (peer->next != 0)
        peers->items[peer->next - 1].prev = peer->prev;
    else
        peers->lanes[peer->lane].closing_last = peer->prev;
}

void peers_remove(struct peers *peers, struct peer *peer)
{
    uint32_t place = (uint32_t)(peer - peers->items);
    struct peer_fd *entry = fd_entry(peers, peer->lane, peer->fd);
    if (entry != NULL && entry->peer == place + 1)
        entry->peer = 0;
    id_map_remove(&peers->by_conn, peer->conn);
    id_map_remove(&peers->lanes[peer->lane].by_routing, peer->routing);
    peers->lanes[peer->lane].count -= 1;
    if (peer->is_closing)
        closing_take(peers, peer);
    *peer = (struct peer){.next = peers->free};
    peers->free = place + 1;
}

void peers_close(struct peers *peers, struct peer *peer)
{
    if (peer->is_closing)
        return;
    peer->is_closing = true;
    closing_push(peers, peer);
}

void peers_read(struct peers *peers, struct peer *peer)
{
    peer->last_read = ++peers->lanes[peer->lane].read;
    if (peer->is_closing) {
        closing_take(peers, peer);
        closing_push(peers, peer);
    }
}

void peers_empty(struct peers *peers, enum lane lane)
{
    peers->lanes[lane].empty += 1;
    peers->lanes[lane].read_until_empty = peers->lanes[lane].read;
}

/* After so many parts of others, a connection has had its turn. */
static uint64_t turns(const struct peers *peers, enum lane lane)
{
    return (uint64_t)peers->lanes[lane].count * 2 + TURNS_SPARE;
}

struct peer *peers_closed(struct peers *peers, enum lane lane)
{
    uint32_t first = peers->lanes[lane].closing_first;
    if (first == 0)
        return NULL;
    struct peer *peer = &peers->items[first - 1];
    bool is_empty = peers->lanes[lane].empty > peer->last_empty;
    bool has_had_turns = peers->lanes[lane].read - peer->last_read > turns(peers, lane);
    return is_empty || has_had_turns ? peer : NULL;
}

bool peers_lane_is_closing(const struct peers *peers, enum lane lane)
{
    return peers->lanes[lane].closing_first != 0;
}

bool peers_are_closing(const struct peers *peers)
{
    return peers_lane_is_closing(peers, LANE_CONTROL) || peers_lane_is_closing(peers, LANE_DATA);
}

uint64_t peers_settled(const struct peers *peers, enum lane lane)
{
    uint64_t read = peers->lanes[lane].read;
    uint64_t until_empty = peers->lanes[lane].read_until_empty;
    uint64_t recent = turns(peers, lane) + 1;
    return read > recent && read - recent > until_empty ? read - recent : until_empty;
}
