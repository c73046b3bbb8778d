/* SPDX-License-Identifier: MPL-2.0 */
/* histogram.c -- see histogram.h. */
#include "libbus/base/histogram.h"

#define US INT64_C(1000)
#define MS (1000 * US)
#define S (1000 * MS)

/* 1, 2.5 and 5 in each decade, as the libraries of Prometheus have them. */
const int64_t histogram_bounds_ns[HISTOGRAM_BOUNDS] = {
    50 * US, 100 * US, 250 * US, 500 * US, 1 * MS,    2500 * US, 5 * MS, 10 * MS, 25 * MS,
    50 * MS, 100 * MS, 250 * MS, 500 * MS, 1000 * MS, 2500 * MS, 5 * S,  10 * S,
};

void histogram_see(struct histogram *histogram, int64_t duration_ns)
{
    int64_t ns = duration_ns > 0 ? duration_ns : 0;
    unsigned at = 0;
    while (at < HISTOGRAM_BOUNDS && ns > histogram_bounds_ns[at])
        at++;
    histogram->counts[at] += 1;
    histogram->sum_ns += (uint64_t)ns;
}
