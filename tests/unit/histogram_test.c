/* SPDX-License-Identifier: MPL-2.0 */
/* histogram_test.c -- which bucket a duration falls into. */
#include "libbus/base/histogram.h"

#include <criterion/criterion.h>

Test(histogram, counts_a_bound_below_itself_and_what_is_more_above)
{
    for (unsigned i = 0; i < HISTOGRAM_BOUNDS; i++) {
        struct histogram histogram = {.sum_ns = 0};
        histogram_see(&histogram, histogram_bounds_ns[i] - 1);
        histogram_see(&histogram, histogram_bounds_ns[i]);
        histogram_see(&histogram, histogram_bounds_ns[i] + 1);
        cr_expect_eq(histogram.counts[i], 2, "bound %u", i);
        cr_expect_eq(histogram.counts[i + 1], 1, "bound %u", i);
        cr_expect_eq(histogram.sum_ns, 3 * (uint64_t)histogram_bounds_ns[i]);
        cr_expect(i == 0 || histogram_bounds_ns[i - 1] < histogram_bounds_ns[i]);
    }
}

Test(histogram, takes_a_duration_below_0_for_0)
{
    struct histogram histogram = {.sum_ns = 0};
    histogram_see(&histogram, -5);
    histogram_see(&histogram, 0);
    cr_expect_eq(histogram.counts[0], 2);
    cr_expect_eq(histogram.sum_ns, 0);
}
