/* SPDX-License-Identifier: MPL-2.0 */
/* new_connections.h -- connections without a session: those that have sent nothing yet, and those
 * that the core dropped.
 *
 * libzmq reports them by their descriptors alone (its monitor), and keeps them for any time.  It
 * accepts all that come until there are no descriptors left.  Then no client can connect, and its
 * I/O thread spins.  So each new connection has a time.  The one that waits longest is closed when
 * there are too many of them, or too many connections in all.  A connection that has sent something
 * is not new, and is never closed here.
 *
 * Pure: descriptors are numbers, and the caller closes them. */
#ifndef IO_NEW_CONNECTIONS_H
#define IO_NEW_CONNECTIONS_H

#include "broker/io/peers.h"

#include <stdbool.h>
#include <stdint.h>

/* A descriptor of one lane. */
struct new_connection {
    uint8_t state;       /* new_connections.c */
    uint32_t prev, next; /* place + 1 of those that wait; 0: none */
    int64_t since_ns;
};

struct new_connections {
    struct memory *memory;
    struct new_connection *items; /* by descriptor, then lane */
    uint32_t room;
    uint32_t first, last; /* place + 1, the one that waits longest first */
    uint32_t waiting;     /* new ones */
    uint32_t leaving;     /* let go, and not closed yet */
    uint32_t open;        /* connections, all of them */
    uint32_t open_max;
    int64_t wait_ns;
};

/* open_max: connections of both lanes that there are descriptors for; wait_ns: a new connection's
 * time. */
void new_connections_init(struct new_connections *connections, struct memory *memory,
                          uint32_t open_max, int64_t wait_ns);
void new_connections_fini(struct new_connections *connections);

/* A connection was accepted.  Without memory it is not known here, and stays as long as it
 * likes. */
void new_connections_came(struct new_connections *connections, enum lane lane, int fd,
                          int64_t now_ns);
/* The first part of it was read, and it has a place among the peers. */
void new_connections_spoke(struct new_connections *connections, enum lane lane, int fd);
/* It is not heard any more; what was said to it last has a new connection's time to arrive. */
void new_connections_forgotten(struct new_connections *connections, enum lane lane, int fd,
                               int64_t now_ns);
/* It is closed. */
void new_connections_left(struct new_connections *connections, enum lane lane, int fd);

/* When the next one has to go if nobody comes; INT64_MAX: never. */
int64_t new_connections_due_ns(const struct new_connections *connections);
/* One that has to go now; false: none.  It counts as leaving until it is closed. */
bool new_connections_next(struct new_connections *connections, int64_t now_ns, int *out_fd);

#endif
