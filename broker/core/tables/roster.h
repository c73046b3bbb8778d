/* SPDX-License-Identifier: MPL-2.0 */
/* roster.h -- who takes part in a job, and as which of how many.
 *
 * Parties that came wait, in the order in which they came; roster_seat() gives them places.  The
 * places of an epoch are its ranks: 0 and up without a hole, each once.  Who ends leaves a hole,
 * and the epoch stands as it was until the next roster_seat(): there the longest waiting fill the
 * holes, so that nobody else's rank changes; what holes are left close, and those behind move up
 * in order; then more are taken in, up to max.  Who completed well keeps the place: it was there,
 * and what is counted against min counts it.
 *
 * Parties are numbers, never 0.  What must not fail is reserved when a party comes. */
#ifndef CORE_ROSTER_H
#define CORE_ROSTER_H

#include "libbus/base/memory.h"

#include <stdbool.h>
#include <stdint.h>

struct roster_place {
    uint32_t party; /* 0: a hole */
    bool is_completed;
};

struct roster {
    struct memory *memory;
    struct roster_place *places; /* by rank */
    uint32_t *waiting;           /* the longest waiting first */
    uint32_t room;               /* of both */
    uint32_t place_count;        /* the world size, with holes since */
    uint32_t waiting_count;
    uint32_t hole_count;
    uint32_t completed_count;
    uint64_t epoch; /* counts from 1 over all attempts; 0: there was none */
};

void roster_init(struct roster *roster, struct memory *memory);
void roster_fini(struct roster *roster);

/* Room for one party more; false: no memory. */
bool roster_reserve(struct roster *roster);
/* The party waits; room is reserved. */
void roster_add(struct roster *roster, uint32_t party);
/* What it is in the job, and takes along when it goes. */
enum roster_role { ROSTER_NONE, ROSTER_WAITS, ROSTER_HAS_PLACE };
enum roster_role roster_role(const struct roster *roster, uint32_t party);
/* Whether it waited or had a place; it has neither now. */
bool roster_remove(struct roster *roster, uint32_t party);
/* Whether it had a place, which it keeps; who waited does not any more. */
bool roster_complete(struct roster *roster, uint32_t party);
/* As said above.  Whether anything changed, and so a new epoch began. */
bool roster_seat(struct roster *roster, uint32_t max);
/* All go: there will be another attempt. */
void roster_clear(struct roster *roster);

/* With a place and live, or completed well. */
static inline uint32_t roster_present(const struct roster *roster)
{
    return roster->place_count - roster->hole_count;
}
/* With a place, and live. */
static inline uint32_t roster_live(const struct roster *roster)
{
    return roster_present(roster) - roster->completed_count;
}
/* false: it has none. */
bool roster_rank(const struct roster *roster, uint32_t party, uint32_t *out_rank);

/* For rebuilding: a party gets this rank, which is a hole or beyond the last; false: it is neither,
 * or there is no memory.  is_completed: of one that has no rank yet. */
bool roster_place(struct roster *roster, uint32_t party, uint32_t rank, bool is_completed);
/* ... and the ranks from world_size on, if any, are none any more; false: somebody has one. */
bool roster_begin(struct roster *roster, uint64_t epoch, uint32_t world_size);

#endif
