/* SPDX-License-Identifier: MPL-2.0 */
/* new_connections.h -- connections that nobody stands for: those that have not said a word yet, and
 * those that the core does not want to hear of any more.
 *
 * libzmq tells of them by their descriptors alone (its monitor), keeps them as long as they like,
 * and accepts all that come until there are no descriptors; then nobody gets in, and its I/O thread
 * spins (pitfalls 7).  So each has its time, and the one that waits longest goes when there are
 * too many of them, or too many connections in all.  Who has said something is no stranger:
 * whoever keeps to the protocol is not let go here.
 *
 * Pure: descriptors are numbers, and to let one go is the caller's. */
#ifndef IO_NEW_CONNECTIONS_H
#define IO_NEW_CONNECTIONS_H

#include "broker/io/peers.h"

#include <stdbool.h>
#include <stdint.h>

/* A descriptor of one lane. */
struct stranger {
    uint8_t state;       /* new_connections.c */
    uint32_t prev, next; /* place + 1 of those that wait; 0: none */
    int64_t since_ns;
};

struct strangers {
    struct memory *memory;
    struct stranger *items; /* by descriptor, then lane */
    uint32_t room;
    uint32_t first, last; /* place + 1, the one that waits longest first */
    uint32_t waiting;     /* strangers */
    uint32_t leaving;     /* let go, and not closed yet */
    uint32_t open;        /* connections, all of them */
    uint32_t open_max;
    int64_t wait_ns;
};

/* open_max: connections of both lanes that there are descriptors for; wait_ns: a stranger's
 * time. */
void strangers_init(struct strangers *strangers, struct memory *memory, uint32_t open_max,
                    int64_t wait_ns);
void strangers_fini(struct strangers *strangers);

/* A connection was accepted.  Without memory it is not known here, and stays as long as it
 * likes. */
void strangers_came(struct strangers *strangers, enum lane lane, int fd, int64_t now_ns);
/* The first part of it was read, and it has a place among the peers. */
void strangers_spoke(struct strangers *strangers, enum lane lane, int fd);
/* It is not heard any more; what was said to it last has a stranger's time to arrive. */
void strangers_forgotten(struct strangers *strangers, enum lane lane, int fd, int64_t now_ns);
/* It is closed. */
void strangers_left(struct strangers *strangers, enum lane lane, int fd);

/* When the next one has to go if nobody comes; INT64_MAX: never. */
int64_t strangers_due_ns(const struct strangers *strangers);
/* One that has to go now; false: none.  It counts as leaving until it is closed. */
bool strangers_next(struct strangers *strangers, int64_t now_ns, int *out_fd);

#endif
