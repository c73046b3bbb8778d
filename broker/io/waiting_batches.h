/* SPDX-License-Identifier: MPL-2.0 */
/* waiting_batches.h -- batches that came while the disk is full, until there is room for them.
 *
 * A bound holds for each connection, and for all together.  A connection that sends more is shed:
 * its next batches are dropped, because a stream must have no gap.  Its client has them all in its
 * outbox, gets no acceptance, and reconnects as after a dead connection.  So any client can attach,
 * read and make room, however much others send. */
#ifndef IO_WAITING_BATCHES_H
#define IO_WAITING_BATCHES_H

#include "broker/io/held_output.h"
#include "broker/io/peers.h"

#include <stdbool.h>
#include <stddef.h>

/* Of one connection: what a client has under way before it can know that the disk is full. */
#define WAITING_BATCHES_PEER_BYTES ((size_t)4 * 1024 * 1024)
#define WAITING_BATCHES_BYTES ((size_t)64 * 1024 * 1024)
/* What a batch takes beside its bytes. */
enum { WAITING_BATCHES_BATCH_BYTES = 128 };

struct waiting_batches {
    struct held_output output;
    size_t bytes;
};

void waiting_batches_init(struct waiting_batches *batches, struct memory *memory);
void waiting_batches_fini(struct waiting_batches *batches);
bool waiting_batches_is_empty(const struct waiting_batches *batches);

/* Takes a batch over; false: the peer is shed, and the batch is still the caller's. */
bool waiting_batches_take(struct waiting_batches *batches, struct peer *peer, struct buffer **part);
/* The next in the order in which they came, the caller's; false: none.  Its peer may be gone. */
bool waiting_batches_next(struct waiting_batches *batches, struct peers *peers,
                          struct held *out_held);
/* What came by this connection is not wanted any more. */
void waiting_batches_drop(struct waiting_batches *batches, struct peer *peer);

#endif
