/* SPDX-License-Identifier: MPL-2.0 */
/* core_dump.h -- all durable state of a core as text: what a replay must bring back.  Equal states
 * give equal texts.  State that is not durable is left out: connections, positions that clients
 * tell again, what was sent to whom, floors, timers. */
#ifndef TEST_CORE_DUMP_H
#define TEST_CORE_DUMP_H

#include "broker/core/core.h"

#include <stddef.h>
#include <stdint.h>

/* Grows as needed; used again. */
struct core_dump {
    char *text; /* ends with NUL */
    size_t bytes, room;
};

void core_dump_take(struct core_dump *dump, const struct core *core);
void core_dump_fini(struct core_dump *dump);
/* The first line in which they differ, as "LEFT | RIGHT", or NULL: none; borrowed until the next
 * call. */
const char *core_dump_differ(const struct core_dump *left, const struct core_dump *right);

/* Of all jobs the most bytes of values that one keeps, whole ones and parts of large ones.
 * Those of dead letters are not counted: their payloads are those of the slots that they were, and
 * no value was let in that had no room beside both. */
uint64_t core_dump_value_bytes(const struct core *core);
/* About as many bytes as the events of jobs and the refusals of sessions take, which are kept for
 * whoever asks again: both are bounded by number (LIMIT_EVENTS, REFUSALS_KEPT), not by the slots
 * that are open.  An error that several of them refer to is counted each time.  Errors that nobody
 * refers to any more are counted, too: the next step frees them. */
uint64_t core_dump_told_bytes(const struct core *core);

/* Of all groups that have a member: tasks that are not done, and slots behind one that is settled
 * and was given to nobody.  text: unless NULL, room for CORE_DUMP_TEXT bytes, gets the first
 * of them. */
#define CORE_DUMP_TEXT 256
uint64_t core_dump_undone(const struct core *core, char *text);
/* What the subscriptions of connected sessions that are no group were not sent and may be: slots,
 * and bytes of values. */
uint64_t core_dump_unsent(const struct core *core);
/* NULL, or what is wrong with leases: each leased task has one holder, that holds it and no more
 * than its credit allows, and each member what it is said to hold. */
const char *core_dump_wrong_lease(const struct core *core);

#endif
