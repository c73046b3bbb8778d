/* SPDX-License-Identifier: MPL-2.0 */
/* histogram.h -- how often a duration fell between fixed bounds.  Whoever has a clock measures. */
#ifndef BASE_HISTOGRAM_H
#define BASE_HISTOGRAM_H

#include <stdint.h>

enum { HISTOGRAM_BOUNDS = 17, HISTOGRAM_BUCKETS = HISTOGRAM_BOUNDS + 1 };

/* From 50 us to 10 s, ascending. */
extern const int64_t histogram_bounds_ns[HISTOGRAM_BOUNDS];

struct histogram {
    uint64_t counts[HISTOGRAM_BUCKETS]; /* up to each bound, with it; the last: above all */
    uint64_t sum_ns;
};

/* A duration below 0 counts as 0. */
void histogram_see(struct histogram *histogram, int64_t duration_ns);

#endif
