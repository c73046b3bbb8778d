/* SPDX-License-Identifier: MPL-2.0 */
/* new_connections.h -- connections without a session: those that have sent nothing yet, and those
 * that the core dropped.
 *
 * libzmq reports them by their descriptors alone (its monitor), and keeps them for any time.  It
 * accepts all that come until there are no descriptors left.  Then no client can connect, and its
 * I/O thread spins.  So each new connection has a time.  When there are too many of them, or too
 * many connections in all, one goes: of the address that has most of them, the one that waits
 * longest.  So one host cannot push out the others.  A connection that has sent something is not
 * new, and is never closed here.
 *
 * A party has two connections, and is let in by its control connection.  So each control connection
 * keeps a place for a data connection, whether it comes or not: otherwise the next party's control
 * connection could take it, and who was let in could not go on.
 *
 * A handshake with keys costs the broker a millisecond, before it learns that a key is unknown.  So
 * a connection that ends without having sent anything counts against its address.  An address may
 * have so many of them in a second.  When they are used up, the address is refused for a while:
 * listen_filter.h lets none of its connections begin.  Those that were accepted by then are closed,
 * and do not count.  Clients that greet count nothing, however many share an address.
 *
 * A client ends a connection in the middle of its handshake when the broker is slow: it asks on
 * another one what listens there, or tries again.  A thousand good clients of one address may do so
 * at once.  Such an end costs the broker less, and has a wider bound of its own.  Whoever has shown
 * a known key may end without a word: a client dials for data early, and may not need it then.
 *
 * Pure: descriptors and addresses are numbers, and the caller closes connections. */
#ifndef IO_NEW_CONNECTIONS_H
#define IO_NEW_CONNECTIONS_H

#include "broker/io/peers.h"
#include "broker/io/refused_addresses.h"
#include "libbus/base/token_bucket.h"

#include <stdbool.h>
#include <stdint.h>

/* Places are numbered from 1 here; 0: none. */
struct new_place {
    uint32_t prev, next;
};

/* A descriptor of one lane. */
struct new_connection {
    uint8_t state;            /* new_connections.c */
    bool has_spoken;          /* it is new again, because the core dropped it */
    bool is_refused;          /* it counts nothing against its address */
    struct new_place all;     /* of those that wait */
    struct new_place of_host; /* ... and have the same address */
    int64_t since_ns;
    uint64_t address;
};

/* An address with new connections, or with failed ones in the last seconds. */
struct new_host {
    uint64_t address;
    uint32_t waiting;
    uint32_t proved;      /* handshakes of these that had a known key, and have said nothing */
    uint32_t first, last; /* of these, the one that waits longest first */
    struct token_bucket failures;   /* that it may have */
    struct token_bucket unfinished; /* handshakes that it may leave in the middle */
    struct new_place place;         /* in busy, or in idle */
};

struct new_hosts {
    uint32_t first, last;
};

struct new_connections {
    struct memory *memory;
    struct new_connection *items; /* by descriptor, then lane */
    uint32_t room;
    struct new_host *hosts;
    uint32_t host_count, host_room;
    struct id_map host_ids;      /* address -> place */
    struct new_hosts busy, idle; /* with new connections; without, the longest idle first */
    struct refused_addresses refused;
    bool counts_failures;      /* a handshake costs something */
    uint32_t first, last;      /* the one that waits longest first */
    uint32_t waiting;          /* new ones */
    uint32_t leaving;          /* let go, and not closed yet */
    uint32_t open;             /* connections, all of them */
    uint32_t here[LANE_COUNT]; /* ... but for those that leave, by lane */
    uint32_t open_max;
    int64_t wait_ns;
};

/* open_max: connections of both lanes that there are descriptors for; wait_ns: a new connection's
 * time. */
void new_connections_init(struct new_connections *connections, struct memory *memory,
                          uint32_t open_max, int64_t wait_ns);
void new_connections_fini(struct new_connections *connections);

/* A connection was accepted.  address 0: not known, or on this machine.  false: it is refused, and
 * the caller closes it.  Without memory it is not known here, and stays as long as it likes. */
bool new_connections_came(struct new_connections *connections, enum lane lane, int fd,
                          uint64_t address, int64_t now_ns);
/* Whether it was let go: what it says is not heard. */
bool new_connections_is_leaving(struct new_connections *connections, enum lane lane, int fd);
/* A handshake of this address had a key that is known; which of its connections that was, libzmq
 * does not say.  So as many of them may end without a word, and count nothing. */
void new_connections_proved(struct new_connections *connections, uint64_t address, int64_t now_ns);
/* The first part of it was read, and it has a place among the peers.  Those that are too many must
 * have been let go before (new_connections_next()), or more than open_max would speak. */
void new_connections_spoke(struct new_connections *connections, enum lane lane, int fd);
/* It is not heard any more; what was said to it last has a new connection's time to arrive. */
void new_connections_forgotten(struct new_connections *connections, enum lane lane, int fd,
                               int64_t now_ns);
/* It is closed; is_unfinished: in the middle of its handshake, which was right up to there. */
void new_connections_left(struct new_connections *connections, enum lane lane, int fd,
                          bool is_unfinished, int64_t now_ns);

/* When the next one has to go if nobody comes; INT64_MAX: never. */
int64_t new_connections_due_ns(const struct new_connections *connections);
/* One that has to go now; false: none.  It counts as leaving until it is closed. */
bool new_connections_next(struct new_connections *connections, int64_t now_ns, int *out_fd);

#endif
