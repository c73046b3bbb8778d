/* SPDX-License-Identifier: MPL-2.0 */
/* storms.h -- similar events of a job: which are told one by one, and which together.
 *
 * Two events are similar if they say the same of the same incarnation, in the same topic, for the
 * same reason (the type of their error).  The first LIMIT_STORM_TOLD of them are told one by one.
 * Those that follow within LIMIT_STORM_MS are held, and told as one event with a count.  When none
 * came for that time, the storm is over: the next event is told at once.
 *
 * A job has at most LIMIT_STORMS storms at a time.  While there are so many, events in all other
 * places count as similar.  So a bound holds for all events that a job tells in a second.
 * Failures are numbers here; the caller counts the references. */
#ifndef CORE_STORMS_H
#define CORE_STORMS_H

#include "libbus/base/limits.h"
#include "libbus/base/memory.h"
#include "libbus/base/span.h"

#include <stdbool.h>
#include <stdint.h>

enum storm_event { STORM_SLOT_FAILED, STORM_REFUSED, STORM_EVENT_COUNT };

struct storm_key {
    enum storm_event event;
    uint32_t party;
    uint32_t incarnation;
    uint32_t topic;   /* 0: in no topic */
    struct span like; /* the reason; the first LIMIT_ERROR_TYPE_BYTES count */
};

struct storm {
    bool is_used;
    enum storm_event event;
    uint32_t party; /* 0, with topic 0: events of several parties */
    uint32_t incarnation;
    uint32_t topic;
    uint32_t like_bytes;
    uint32_t told;  /* events told one by one */
    uint64_t held;  /* slots of the held events; 0: no event is held */
    uint64_t seq;   /* of the first held event */
    uint32_t first; /* failures of the first and the last held event; 0: none */
    uint32_t last;
    char like[LIMIT_ERROR_TYPE_BYTES];
};

struct storms {
    struct memory *memory;
    struct storm *items; /* LIMIT_STORMS, and one for each kind of event; NULL: none so far */
    uint32_t recent;     /* the one that was found last */
};
enum { STORMS_ROOM = LIMIT_STORMS + STORM_EVENT_COUNT };

void storms_init(struct storms *storms, struct memory *memory);
void storms_fini(struct storms *storms);
/* The storm that an event belongs to; NULL: no memory. */
struct storm *storms_find(struct storms *storms, const struct storm_key *key);
/* Whether the next event of the storm is told at once.  Then it counts as one of the told_max that
 * are.  Otherwise the caller holds it. */
bool storm_tells(struct storm *storm, uint32_t told_max);
/* By index below STORMS_ROOM; NULL: there is none. */
struct storm *storms_at(const struct storms *storms, uint32_t index);

#endif
