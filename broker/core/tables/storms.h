/* SPDX-License-Identifier: MPL-2.0 */
/* storms.h -- like events of a job: which are told by themselves, and which together.
 *
 * Events are alike if they say the same of one incarnation of a party, in one place (a topic), and
 * for the same reason (the type of their error).  Of those that are, so many (LIMIT_STORM_TOLD) are
 * told each; what comes beyond them before LIMIT_STORM_MS have passed is held, and told as one,
 * with a count.  A storm that is quiet for that time is over, and the next event is told by itself
 * again.
 *
 * There are LIMIT_STORMS at a time; what comes in other places meanwhile is taken for alike, so all
 * that a job can be told by in a second is bounded.  Failures are numbers here: whoever holds them
 * counts them. */
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
    uint32_t topic;   /* 0: no place */
    struct span like; /* why; of it LIMIT_ERROR_TYPE_BYTES count */
};

struct storm {
    bool is_used;
    enum storm_event event;
    uint32_t party; /* 0, with topic 0: of several, taken together */
    uint32_t incarnation;
    uint32_t topic;
    uint32_t like_bytes;
    uint32_t told;  /* by themselves */
    uint64_t held;  /* what those that are held stand for; 0: none are */
    uint64_t seq;   /* of the first that is held */
    uint32_t first; /* failures of the first and the last that are held; 0: none */
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
/* Whether the next event of the storm is told by itself, as told_max of them are, and counts as
 * that; else it is to be held. */
bool storm_tells(struct storm *storm, uint32_t told_max);
/* By index below STORMS_ROOM; NULL: there is none. */
struct storm *storms_at(const struct storms *storms, uint32_t index);

#endif
