/* SPDX-License-Identifier: MPL-2.0 */
/* sync_round.h -- how much a reader takes while what is sent to it waits for the disk.
 *
 * Where outcomes wait for the disk, io holds what is sent until its step is kept.  With a window of
 * fixed size one such window would be all that a reader gets for each sync.  So the window has as
 * much more as the reader takes in that time, twice: it may take more than before.  One round
 * follows the other: from a step in which something is sent until that step is kept. */
#ifndef CORE_TABLES_SYNC_ROUND_H
#define CORE_TABLES_SYNC_ROUND_H

#include <stdint.h>

enum { SYNC_ROUNDS = 2 }; /* the largest of the last counts: what is taken comes in bursts */

/* All zero: a new connection. */
struct sync_round {
    uint64_t step;              /* it ends when this step is kept; 0: none is under way */
    uint64_t taken;             /* position of the reader when it began */
    uint64_t took[SYNC_ROUNDS]; /* bytes, the last round first */
};

/* Something is sent in this step to a reader that has taken so much. */
void sync_round_sent(struct sync_round *round, uint64_t step, uint64_t taken);
/* So many bytes the window has more, now that so many steps are kept. */
uint64_t sync_round_bytes(struct sync_round *round, uint64_t kept_steps, uint64_t taken);

#endif
