/* SPDX-License-Identifier: MPL-2.0 */
/* failpoint.h -- places where a test lets the broker die, and sizes that a test makes small.
 *
 * In errbusd they do nothing (failpoint.c); the broker for tests has others
 * (tests/lib/failpoint/).  Between any two of these places something has become true that a restart
 * must find true again:
 *
 *   decided                     a step is decided, nothing of it is on its way
 *   append, appended            in the journal's thread, around the write
 *   sync, synced                ... around the fdatasync
 *   flush, flushed              in the second thread, around what syncs beside the first
 *   answer, answered            around a message to a client
 *   deliver, delivered          around a batch to a reader
 *   move, moved                 an old value that is in the way of a checkpoint is on its way to a
 *                               new place; all are there, and the checkpoint is not told yet
 *   checkpoint, checkpointing   a checkpoint is due; its first piece is on its way
 *   trim, trimmed               it is whole; what lies before it is given up */
#ifndef IO_FAILPOINT_H
#define IO_FAILPOINT_H

#include <stdint.h>

/* [any] */
void failpoint_reach(const char *name);
/* The usual number, or the test's. */
uint64_t failpoint_number(const char *name, uint64_t usual);

#endif
