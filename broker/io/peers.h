/* SPDX-License-Identifier: MPL-2.0 */
/* peers.h -- who is connected: ROUTER's ids, our numbers, descriptors, and who is gone.
 *
 * ROUTER gives each connection an id of 5 bytes, a zero and a running number; we number them on
 * (conn_id), for ROUTER's ids may come again after 2^32.  That a connection closed is learnt from
 * the socket's monitor, which names a descriptor only, or from a send that meets
 * nobody. Three things follow from descriptors being used again at once:
 *
 *   - The monitor is emptied before a new connection is added: then whatever it said of that
 *     descriptor until now is about older ones.
 *   - Of two connections with one descriptor the older is closed.  Which is older, ROUTER's numbers
 *     tell, not the order in which their first parts are read.
 *   - A closed connection may have parts in the queue still, its LEAVE perhaps.  It is given out as
 *     closed only when the socket is empty, or when more parts of others have been read than there
 *     are connections, none of it among them: the socket serves its connections in turn. */
#ifndef IO_PEERS_H
#define IO_PEERS_H

#include "broker/core/tables/event.h"
#include "broker/io/identity.h"
#include "libbus/base/map.h"
#include "libbus/base/memory.h"

#include <stdbool.h>
#include <stdint.h>

enum { PEER_ADDRESS_BYTES = 48 };

enum lane { LANE_CONTROL = 0, LANE_DATA = 1, LANE_COUNT = 2 };

struct peer {
    conn_id conn;
    enum lane lane;
    uint32_t routing;   /* ROUTER's running number */
    int fd;             /* -1: unknown */
    uint32_t principal; /* whose it is: authentication.h */
    struct identity identity;
    char address[PEER_ADDRESS_BYTES]; /* of its host, as libzmq has it; for people */
    bool is_closing;                  /* known to be closed; parts of it may still come */
    bool is_forgotten;                /* the core does not want to hear of it any more */
    bool was_forgotten;  /* ... nor before the access table that came into force last */
    bool is_revoked;     /* its connection is cut when it has heard why */
    bool is_asking;      /* it wants the access file to be read again, and has no answer yet */
    bool is_clogged;     /* does not read: to be reported as a violation */
    bool is_shed;        /* more of it came than can be parked: nothing is kept any more */
    bool is_put_off;     /* what it said must wait, and so must what it says behind that */
    bool is_mute;        /* nothing of it is heard: it comes back by another connection */
    bool is_heard;       /* it has said something */
    size_t parked_bytes; /* see waiting_batches.h */
    uint32_t waiting;    /* so many messages of it wait: newcomers.h */
    uint64_t last_read;  /* how many parts the lane had read when the last of it came */
    uint64_t
        last_empty; /* closing: how often the lane had been empty then, or when that was known */
    uint32_t prev, next; /* place + 1 of those closing before and after it; next of free places */
};

struct peer_fd {
    uint32_t peer; /* place + 1 of the connection that has it; 0: none known */
    bool is_closed;
};

struct peers {
    struct memory *memory;
    struct peer *items;
    uint32_t used, room;
    uint32_t free; /* place + 1 */
    struct id_map by_conn;
    conn_id last_conn;
    struct {
        struct id_map by_routing;
        struct peer_fd *fds;
        uint32_t fd_room;
        uint32_t count;
        uint32_t closing_first, closing_last; /* place + 1; by last_read and last_empty */
        uint64_t read;                        /* parts read so far */
        uint64_t empty;                       /* how often there was nothing to read */
        uint64_t read_until_empty;            /* parts read when there was nothing to read last */
    } lanes[LANE_COUNT];
};

void peers_init(struct peers *peers, struct memory *memory);
void peers_fini(struct peers *peers);

/* Pointers are good until the next peers_add(). */
struct peer *peers_by_routing(struct peers *peers, enum lane lane, uint32_t routing);
struct peer *peers_by_conn(struct peers *peers, conn_id conn);

/* A connection whose first part was read.  NULL: LIMIT_CONNECTIONS, or no memory. */
struct peer *peers_add(struct peers *peers, enum lane lane, uint32_t routing, int fd);
void peers_remove(struct peers *peers, struct peer *peer);

/* What the monitor says. */
void peers_fd_accepted(struct peers *peers, enum lane lane, int fd);
void peers_fd_closed(struct peers *peers, enum lane lane, int fd);

void peers_close(struct peers *peers, struct peer *peer); /* known to be closed; twice is once */
void peers_read(struct peers *peers, struct peer *peer);  /* a part of it was read */

void peers_empty(struct peers *peers, enum lane lane); /* there was nothing to read just now */

/* A connection that is closed and of which nothing more will be read, or NULL; to be removed by the
 * caller. */
struct peer *peers_closed(struct peers *peers, enum lane lane);
/* Whether closed connections are still to be given out. */
bool peers_are_closing(const struct peers *peers);
bool peers_lane_is_closing(const struct peers *peers, enum lane lane);
/* The number of the newest part, counted from 1, for which this holds: whoever had closed when it
 * was read is given out by now.  The caller has asked peers_closed() until NULL. */
uint64_t peers_settled(const struct peers *peers, enum lane lane);

#endif
