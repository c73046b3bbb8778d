/* SPDX-License-Identifier: MPL-2.0 */
/* core_dump.h -- all durable state of a core as text, the same for the same state: what a replay
 * must bring back.  What is not durable (connections, positions that clients tell anew, what was
 * sent to whom, floors, timers) is not in it. */
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

/* Of all jobs the most bytes of values that one keeps, whole ones and parts of large ones. */
uint64_t core_dump_value_bytes(const struct core *core);

#endif
