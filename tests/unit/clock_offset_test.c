/* SPDX-License-Identifier: MPL-2.0 */
/* clock_offset_test.c -- the shortest trip counts, and ages. */
#include "libbus/session/clock_offset.h"

#include <criterion/criterion.h>

#define S INT64_C(1000000000)

Test(clock_offset, is_unknown_before_the_first_sample)
{
    struct clock_offset clock = {0};
    uint64_t uncertainty;
    cr_assert_eq(clock_offset_broker_ns(&clock, 42, &uncertainty), 42);
    cr_assert_eq(uncertainty, UINT64_MAX);
    cr_assert_eq(clock_offset_broker_ns(&clock, 42, NULL), 42);
}

Test(clock_offset, takes_the_echo_to_be_from_the_middle_of_the_trip)
{
    struct clock_offset clock = {0};
    uint64_t uncertainty;
    clock_offset_sample(&clock, 1000, 50500, 2000);
    cr_assert_eq(clock_offset_broker_ns(&clock, 2000, &uncertainty), 51000);
    cr_assert_eq(uncertainty, 500);
}

Test(clock_offset, keeps_the_sample_of_the_shortest_trip)
{
    struct clock_offset clock = {0};
    clock_offset_sample(&clock, 0, 100500, 1000);
    clock_offset_sample(&clock, 2000, 999999, 3002); /* longer */
    cr_assert_eq(clock_offset_broker_ns(&clock, 5000, NULL), 105000);
    clock_offset_sample(&clock, 4000, 200050, 4100); /* shorter */
    cr_assert_eq(clock_offset_broker_ns(&clock, 5000, NULL), 201000);
}

Test(clock_offset, lets_a_sample_age)
{
    struct clock_offset clock = {0};
    uint64_t uncertainty;
    clock_offset_sample(&clock, 0, 100, 200);
    (void)clock_offset_broker_ns(&clock, 10 * S + 200, &uncertainty);
    cr_assert_eq(uncertainty, 100 + 1000000); /* 100 ppm of 10 s */
    /* Now a trip of 2 ms is as good. */
    clock_offset_sample(&clock, 10 * S, 77 * S, 10 * S + 2002000);
    cr_assert_eq(clock_offset_broker_ns(&clock, 10 * S, NULL), 10 * S, "0.999 ms is better still");
    clock_offset_sample(&clock, 10 * S, 77 * S, 10 * S + 2000000);
    cr_assert_eq(clock_offset_broker_ns(&clock, 10 * S + 1000000, NULL), 77 * S);
}

Test(clock_offset, ignores_what_is_no_sample)
{
    struct clock_offset clock = {0};
    clock_offset_sample(&clock, 1001, 5, 1000); /* ends before it began */
    clock_offset_sample(&clock, -1, 5, 1000);
    clock_offset_sample(&clock, INT64_MIN, 5, 1000);
    cr_assert_not(clock.is_known);
    clock_offset_sample(&clock, 0, INT64_MIN, INT64_MAX); /* any number is only a number */
    cr_assert(clock.is_known);
    (void)clock_offset_broker_ns(&clock, INT64_MAX, NULL);
    (void)clock_offset_broker_ns(&clock, INT64_MIN, NULL);
}
