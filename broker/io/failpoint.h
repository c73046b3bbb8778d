/* SPDX-License-Identifier: MPL-2.0 */
/* failpoint.h -- places where a test ends or slows the broker, and sizes that a test makes small.
 *
 * In errbusd they do nothing (failpoint.c); the broker for tests has others (tests/lib/failpoint/).
 * Between any two of these places something changes that a restart must find again:
 *
 *   record                      at a start, a record of the journal was read, or is replayed
 *   decided                     a step is decided; none of it is sent or written
 *   append, appended            in the journal's thread, around the write
 *   sync, synced                in whichever thread syncs, around that, where somebody waits for it
 *   flush, flushed              in the second thread, around its syncs, where nobody does
 *   answer, answered            around a message to a client
 *   deliver, delivered          around a batch to a reader
 *   move, moved                 an old value is written anew, so that a checkpoint can follow; all
 *                               are, and the checkpoint is not written yet
 *   checkpoint, checkpointing   a checkpoint is due; its first piece is being written
 *   trim, trimmed               it is whole; the records before it are given up
 *   round                       at the end of each round of the loop */
#ifndef IO_FAILPOINT_H
#define IO_FAILPOINT_H

#include <stdint.h>

/* [any] */
void failpoint_reach(const char *name);
/* The usual number, or the test's. */
uint64_t failpoint_number(const char *name, uint64_t usual);

#endif
