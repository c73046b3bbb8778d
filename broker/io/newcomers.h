/* SPDX-License-Identifier: MPL-2.0 */
/* newcomers.h -- what a new connection says waits until it is told who is gone.
 *
 * A process that was killed and started again greets by another connection.  If the loop was busy
 * meanwhile, it reads the greeting before it gives out the old connection as closed (peers.h says
 * why that takes a while).  The core would then refuse the process its own name, as one that is
 * taken.  So the greeting waits while connections of its channel are still to be given out.  That
 * ends in the same round as a rule, once there is nothing more to read. */
#ifndef IO_NEWCOMERS_H
#define IO_NEWCOMERS_H

#include "broker/io/held_output.h"
#include "broker/io/peers.h"
#include "libbus/base/span.h"

#include <stdbool.h>
#include <stddef.h>

/* How much may wait.  When more comes, all of it is let in. */
#define NEWCOMERS_BYTES ((size_t)4 * 1024 * 1024)

struct newcomers {
    struct held_output output;
    size_t bytes;
};

void newcomers_init(struct newcomers *newcomers, struct memory *memory);
void newcomers_fini(struct newcomers *newcomers);

/* Whether this message waits; a copy of it is kept.  That is the first one of a connection, and
 * what it says behind one that waits.  false: there is no need, no room or no memory; then let in
 * what is waiting of this peer, and this message next. */
bool newcomers_hold(struct newcomers *newcomers, const struct peers *peers, struct peer *peer,
                    struct span said);
/* Whose message has waited long enough, in the order in which they came; is_all: whatever waits.
 * The message is the caller's.  What a peer said that is gone, or is not heard any more, is passed
 * over: its client says it again.  NULL: no more. */
struct peer *newcomers_next(struct newcomers *newcomers, struct peers *peers, bool is_all,
                            struct buffer **out_said);

#endif
