/* SPDX-License-Identifier: MPL-2.0 */
/* core.h -- the broker as a function: event in, effects out.
 *
 * No clock, no I/O, no threads, no randomness; memory from the allocator handed in.  The same
 * events give the same effects, byte for byte.  broker/DESIGN.md names the invariants and the line
 * that upholds each. */
#ifndef CORE_CORE_H
#define CORE_CORE_H

#include "broker/core/effect.h"
#include "broker/core/event.h"
#include "libbus/base/memory.h"

#include <stdint.h>

struct core;

struct core_options {
    uint64_t broker; /* which life of which broker: random, not 0 */
    const char *version;
    const char *data_endpoint;   /* as clients are told it; host '*': as they reached control */
    uint64_t topic_window_bytes; /* not yet taken, of one topic; beyond it its writer waits */
    uint64_t topic_keep_bytes;   /* settled and done with, kept of one topic for late subscribers */
    uint64_t topic_keep_slots;
    uint64_t job_bytes_max; /* kept of one job in all; beyond it values are refused */
    uint64_t value_bytes_max;
    int64_t linger_ms; /* how long a job without parties is kept */
    uint32_t open_slots_max;
    uint32_t topics_max;
    uint32_t parties_max; /* of one job */
};
void core_options_init(struct core_options *options);

/* Options and their strings are copied.  NULL: no memory. */
struct core *core_new(struct memory *memory, const struct core_options *options, int64_t now_ns);
void core_free(struct core **core);

/* Appends to effects, which the caller has cleared. */
void core_step(struct core *core, const struct event *event, struct effects *effects);

/* When the next TICK is due at the latest; INT64_MAX: none.  At or before the last event's time:
 * at once, there is more to send. */
int64_t core_deadline_ns(const struct core *core);

/* Parties that would be told by STOP: 0 when nothing holds a stopping broker any more. */
uint32_t core_session_count(const struct core *core);

#endif
