/* SPDX-License-Identifier: MPL-2.0 */
/* trip_test.c -- which links are long: a busy machine is none. */
#include "libbus/base/trip.h"

#include <criterion/criterion.h>

#define MS INT64_C(1000000)

static struct trip trip;

static void see(unsigned times, int64_t ns)
{
    for (unsigned i = 0; i < times; i++)
        trip_see(&trip, ns);
}

TestSuite(trip);

Test(trip, is_short_until_it_is_known)
{
    cr_assert_eq(trip_far_ns(&trip), 0);
    cr_assert(trip_is_open(&trip));
    see(1, 200 * MS);
    see(1, 250 * MS);
    cr_assert_eq(trip_far_ns(&trip), 0, "two late answers");
    cr_assert(trip_is_open(&trip));
    see(1, 300 * MS);
    cr_assert_eq(trip_far_ns(&trip), 200 * MS);
    cr_assert(!trip_is_open(&trip));
}

Test(trip, of_a_few_milliseconds_needs_many_answers)
{
    see(59, 5 * MS);
    cr_assert(trip_is_open(&trip));
    see(1, 5 * MS);
    cr_assert_eq(trip_far_ns(&trip), 5 * MS);
    see(5, 4 * MS);
    cr_assert_eq(trip_far_ns(&trip), 4 * MS, "a quicker one counts, whenever it comes");
}

Test(trip, is_short_for_good_after_one_quick_answer)
{
    see(2, 80 * MS);
    see(1, TRIP_NEAR_NS - 1);
    cr_assert(!trip_is_open(&trip));
    see(1000, 80 * MS);
    cr_assert_eq(trip_far_ns(&trip), 0);
    trip = (struct trip){0};
    see(1000, 80 * MS);
    cr_assert_eq(trip_far_ns(&trip), 80 * MS);
    see(1, 0);
    cr_assert_eq(trip_far_ns(&trip), 0, "a busy machine was taken for a long link");
}

/* Who was stopped for a year, or whose clock went back. */
Test(trip, bears_any_time)
{
    see(3, INT64_MAX);
    cr_assert_eq(trip_far_ns(&trip), LIMIT_TRIP_NS_MAX);
    see(1, INT64_MIN);
    cr_assert_eq(trip_far_ns(&trip), 0);
}
