/* SPDX-License-Identifier: MPL-2.0 */
/* admission.h -- connections that are not yet those of a party: which of them stay.
 *
 * new_connections.h decides.  Here descriptors are closed, addresses are refused, and it is told
 * why. */
#ifndef IO_ADMISSION_H
#define IO_ADMISSION_H

#include "broker/io/connection_warnings.h"
#include "broker/io/figures.h"
#include "broker/io/new_connections.h"

#include <stdbool.h>
#include <stdint.h>

struct admission {
    struct new_connections connections;
    struct connection_warnings warnings;
    struct figures *figures;
    int listening[LANE_COUNT];      /* what the addresses meet that are refused; -1: none */
    bool is_unfinished[LANE_COUNT]; /* as admission_saw() found */
};

/* figures: count what is closed.  The rest as in new_connections_init(). */
void admission_init(struct admission *admission, struct memory *memory, struct figures *figures,
                    uint32_t open_max, int64_t wait_ns);
void admission_fini(struct admission *admission);

/* The socket of this descriptor listens. */
void admission_listens(struct admission *admission, enum lane lane, int fd);
/* A connection was accepted.  It is closed if its address has had too many failures. */
void admission_came(struct admission *admission, enum lane lane, int fd, int64_t now_ns);
/* An event of a lane's monitor, of any type.  That a connection ends in the middle of its handshake
 * is told in the event before: libzmq reports both at once, and a lane has one thread. */
void admission_saw(struct admission *admission, enum lane lane, unsigned type);
/* A connection is closed; before admission_saw() has its event. */
void admission_left(struct admission *admission, enum lane lane, int fd, int64_t now_ns);
/* When admission_review() has work if nobody comes; INT64_MAX: never. */
int64_t admission_due_ns(const struct admission *admission);
/* Refuses the addresses that have had too many failures, or no longer.  Closes new connections
 * whose time is over, and those that are too many; not all at once.  The caller has emptied the
 * monitors, if there was work: a descriptor may be another connection by now.  If it becomes one
 * just now, that client connects again. */
void admission_review(struct admission *admission, int64_t now_ns);

/* Ends a connection: libzmq reads its end, and closes it.  fd -1: not known, it stays. */
void admission_cut(int fd);

#endif
