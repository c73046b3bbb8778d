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
    clock_offset_sample(&clock, 2000, 102700, 3002); /* longer */
    cr_assert_eq(clock_offset_broker_ns(&clock, 5000, NULL), 105000);
    clock_offset_sample(&clock, 4000, 104250, 4100); /* shorter */
    cr_assert_eq(clock_offset_broker_ns(&clock, 5000, NULL), 105200);
}

/* Behind a trip of 1 us, 1 ms ago, one of 4 us may be off by 500 + 100 + 2000. */
Test(clock_offset, takes_the_newer_of_two_samples_that_cannot_both_be_right)
{
    static const struct {
        int64_t off_ns;
        bool is_taken;
    } cases[] = {
        {2599, false},  {2600, false},  {2601, true},         {3600 * S, true},  {INT64_MAX, true},
        {-2599, false}, {-2600, false}, {-2601, true},        {-3600 * S, true}, {INT64_MIN, true},
        {0, false},     {1, false},     {INT64_C(-1), false},
    };
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct clock_offset clock = {0};
        const int64_t now_ns = 1001000;
        uint64_t uncertainty;
        clock_offset_sample(&clock, 0, 5 * S + 500, 1000); /* off by 0 from a clock 5 s ahead */
        int64_t broker_ns =
            (int64_t)((uint64_t)(5 * S + now_ns - 2000) + (uint64_t)cases[i].off_ns);
        clock_offset_sample(&clock, now_ns - 4000, broker_ns, now_ns);
        int64_t off_ns = (int64_t)((uint64_t)clock_offset_broker_ns(&clock, now_ns, &uncertainty) -
                                   (uint64_t)(5 * S + now_ns));
        cr_expect_eq(off_ns, cases[i].is_taken ? cases[i].off_ns : 0, "case %u", i);
        cr_expect_eq(uncertainty, cases[i].is_taken ? 2000 : 600, "case %u", i);
    }
}

Test(clock_offset, lets_a_sample_age)
{
    struct clock_offset clock = {0};
    uint64_t uncertainty;
    clock_offset_sample(&clock, 0, 100, 200);
    (void)clock_offset_broker_ns(&clock, 10 * S + 200, &uncertainty);
    cr_assert_eq(uncertainty, 100 + 1000000); /* 100 ppm of 10 s */
    /* Now a trip of 2 ms is as good. */
    clock_offset_sample(&clock, 10 * S, 10 * S + 1002000, 10 * S + 2002000);
    cr_assert_eq(clock_offset_broker_ns(&clock, 10 * S, NULL), 10 * S, "0.999 ms is better still");
    clock_offset_sample(&clock, 10 * S, 10 * S + 1002000, 10 * S + 2000000);
    cr_assert_eq(clock_offset_broker_ns(&clock, 10 * S, NULL), 10 * S + 2000);
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
