/* SPDX-License-Identifier: MPL-2.0 */
/* tape.h -- the journal of a simulated broker on a simulated disk: until it is synced, what was
 * written may be lost, in any order, and any part of it may be torn.  Or a journal that others
 * have, and lend. */
#ifndef SIM_TAPE_H
#define SIM_TAPE_H

#include "libbus/base/span.h"

#include <stdbool.h>
#include <stdint.h>

struct journal;
struct tape;

struct tape *tape_new(uint64_t seed);
/* Of a journal that others open, sync and close: tape_write(), tape_probe() and tape_read() alone,
 * until the journal is over. */
struct tape *tape_new_lent(struct journal *journal);
void tape_free(struct tape **tape); /* NULL inside is a no-op */

/* The records of one step, all or none; is_snapshot: nothing before them is needed any more. */
void tape_write(struct tape *tape, const struct span *records, uint32_t count, bool is_snapshot);
/* A record that says nothing, so that there is something to sync. */
void tape_probe(struct tape *tape);
void tape_sync(struct tape *tape);
/* The broker ends, and the journal is opened again: tape_read() then tells what is there. */
enum tape_end {
    TAPE_PROCESS, /* it is killed: all that was written is there */
    TAPE_MACHINE, /* its machine is switched off: what was not synced is there or not */
    TAPE_MOVES,   /* the disk is another machine's now, which has what was synced alone */
};
void tape_kill(struct tape *tape, enum tape_end end);
/* Another broker begins with the same journal while this one lives: it must be told so, and touch
 * nothing.  NULL, or what it does instead. */
const char *tape_contend(struct tape *tape, uint64_t seed);
/* The next record, borrowed until the next call; false: no more. */
bool tape_read(struct tape *tape, struct span *out_record);

#endif
