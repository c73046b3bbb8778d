/* SPDX-License-Identifier: MPL-2.0 */
/* trip.h -- whether the round trip of a connection is long.
 *
 * A busy machine answers late, too.  So no single answer makes a link long, and one quick answer
 * makes it short for as long as the connection lasts: no link is quicker than it can be.  A link
 * is long when answers, one after the other, took TRIP_JUDGED_NS together, TRIP_JUDGED_COUNT of
 * them at least, and none was quick.  Until then it counts as short. */
#ifndef BASE_TRIP_H
#define BASE_TRIP_H

#include "libbus/base/limits.h"

#include <stdbool.h>
#include <stdint.h>

/* A round trip as short as this is on one machine or in one room.  A fixed window is enough for it:
 * half a MiB in a millisecond are 4 Gbit/s. */
#define TRIP_NEAR_NS INT64_C(1000000)
#define TRIP_JUDGED_NS INT64_C(300000000)
enum { TRIP_JUDGED_COUNT = 3 };

struct trip {
    int64_t least_ns; /* the quickest answer; 0: none came */
    int64_t sum_ns;   /* of all that count */
    uint32_t count;
    bool is_near; /* one answer was quick */
};

/* An answer that came at once took so long. */
static inline void trip_see(struct trip *trip, int64_t ns)
{
    if (ns < TRIP_NEAR_NS)
        trip->is_near = true;
    if (trip->is_near)
        return;
    if (trip->count == 0 || ns < trip->least_ns)
        trip->least_ns = ns;
    if (trip->sum_ns >= TRIP_JUDGED_NS && trip->count >= TRIP_JUDGED_COUNT)
        return;
    trip->sum_ns = ns < TRIP_JUDGED_NS ? trip->sum_ns + ns : TRIP_JUDGED_NS;
    trip->count += 1;
}

static inline bool trip_is_far(const struct trip *trip)
{
    return !trip->is_near && trip->sum_ns >= TRIP_JUDGED_NS && trip->count >= TRIP_JUDGED_COUNT;
}

/* Whether more answers are needed. */
static inline bool trip_is_open(const struct trip *trip)
{
    return !trip->is_near && !trip_is_far(trip);
}

/* The round trip of a long link; 0: it counts as short. */
static inline int64_t trip_far_ns(const struct trip *trip)
{
    if (!trip_is_far(trip))
        return 0;
    return trip->least_ns < LIMIT_TRIP_NS_MAX ? trip->least_ns : LIMIT_TRIP_NS_MAX;
}

#endif
