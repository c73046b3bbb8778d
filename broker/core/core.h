/* SPDX-License-Identifier: MPL-2.0 */
/* core.h -- the broker as a function: event in, effects out.
 *
 * No clock, no I/O, no threads, no randomness; memory from the allocator handed in.  The same
 * events give the same effects, byte for byte.  broker/DESIGN.md names the invariants and the line
 * that upholds each. */
#ifndef CORE_CORE_H
#define CORE_CORE_H

#include "broker/core/tables/effect.h"
#include "broker/core/tables/event.h"
#include "libbus/base/access.h"
#include "libbus/base/memory.h"
#include "libbus/base/span.h"

#include <stdbool.h>
#include <stdint.h>

struct core;

struct core_options {
    uint64_t broker; /* the broker instance: random, not 0 */
    const char *version;
    const char *data_endpoint;   /* as clients are told it; host '*': as they reached control */
    uint64_t topic_window_bytes; /* not yet taken, of one topic; beyond it its writer waits */
    uint64_t topic_keep_bytes;   /* settled and done with, kept of one topic for late subscribers */
    uint64_t topic_keep_slots;
    uint64_t job_bytes_max; /* kept of one job in all; beyond it values are refused */
    uint64_t value_bytes_max;
    uint64_t parked_bytes_max; /* errors of one session that wait for their data */
    int64_t linger_ms;         /* how long a job without parties is kept */
    int64_t unserved_ms;       /* a request waits so long for a group that has a member */
    int64_t resume_ms;   /* sessions wait so long at least after a replay, or behind a standstill */
    int64_t patience_ms; /* clients look so long at least for a broker that is out of reach */
    uint64_t attachment_bytes_max; /* of errors of one job; beyond it the oldest go */
    uint32_t attachments_max;      /* the same, those known included of which nothing is kept */
    uint32_t storm_told_max;       /* like errors that are told each, before they are told as one */
    uint32_t open_slots_max;
    uint32_t topics_max;
    uint32_t parties_max;        /* of one job */
    const struct access *access; /* borrowed; NULL: everybody may do everything */
    bool has_facts;              /* what is decided is told as EFFECT_FACT, for a journal */
    uint8_t durability;          /* of what is acknowledged, which says it */
    bool holds_outcomes;         /* frames are held until event.kept says that their step is kept */
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

/* ---- beginning again: broker/design/facts.md ------------------------------------------------- */

/* On a core that is new: one fact after the other, as they were told by another core, or by
 * core_snapshot() and from there on.  payload: what stands beside the fact, under the number it has
 * now; 0: none.  Appends RETAIN and RELEASE to effects, nothing else.  NULL: done; otherwise a
 * sentence about what is wrong with it, and the core is good for core_free() alone. */
const char *core_replay(struct core *core, struct span record, payload_id payload,
                        struct effects *effects);
/* Both clocks at the newest moment that facts tell of so far: 0 if they tell of none. */
struct core_moment {
    int64_t now_ns;
    int64_t wall_ns;
};
struct core_moment core_seen(const struct core *core);
/* Ends the replay: from now on sessions wait for their clients, and all clocks run anew.  Only
 * now_ns and wall_ns of the event are read; now_ns is not before core_seen(). */
void core_resume(struct core *core, const struct event *now, struct effects *effects);
/* Facts that build all that is durable from nothing, between two steps. */
void core_snapshot(struct core *core, struct effects *effects);

/* Parties that would be told by STOP: 0 when nothing holds a stopping broker any more. */
uint32_t core_session_count(const struct core *core);
uint32_t core_job_count(const struct core *core);

/* Whether there is a job of this name; whether somebody observes it before there is one. */
bool core_has_job(const struct core *core, struct span name);
bool core_is_observed(const struct core *core, struct span name);
/* One job behind the other; *at begins at 0; the name stands until the next step.  false: no more.
 */
bool core_next_job(const struct core *core, uint32_t *at, struct span *out_name);

#endif
