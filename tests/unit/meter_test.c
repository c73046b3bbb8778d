/* SPDX-License-Identifier: MPL-2.0 */
/* meter_test.c -- what a soak takes for flat, and what not. */
#include "tests/lib/meter.h"

#include <criterion/criterion.h>
#include <stdlib.h>

enum { SECONDS = 600, PID = 7, ENOUGH = 16 };

/* A run of that many seconds, with so much of each a second more. */
static struct meter run_of(size_t seconds, int64_t kib, int64_t fds, int64_t latency_us)
{
    struct meter meter = {.count = seconds};
    meter.seconds = calloc(seconds, sizeof *meter.seconds);
    cr_assert_not_null(meter.seconds);
    for (size_t i = 0; i < seconds; i++) {
        int64_t at = (int64_t)i;
        meter.seconds[i] = (struct meter_second){.at_ms = 1000 * at,
                                                 .broker_pid = PID,
                                                 .broker_kib = 50000 + kib * at,
                                                 .broker_fds = 40 + fds * at,
                                                 .client_pid = PID + 1,
                                                 .client_kib = 10000 + kib * at,
                                                 .client_fds = 20 + fds * at,
                                                 .late_us = 60,
                                                 .median_us = 500 + latency_us * at};
    }
    return meter;
}

Test(meter, takes_what_stays_for_flat)
{
    struct meter_slope slopes[METER_SLOPES];
    struct meter meter = run_of(SECONDS, 0, 0, 0);
    cr_assert_eq(meter_slopes(&meter, slopes), METER_SLOPES);
    for (int i = 0; i < METER_SLOPES; i++) {
        cr_expect(slopes[i].is_flat, "%s", slopes[i].name);
        cr_expect_float_eq(slopes[i].an_hour, 0, 1e-3);
    }
    cr_expect_float_eq(slopes[0].mean, 50000, 1e-3);
    meter_fini(&meter);
}

Test(meter, takes_nothing_that_grows_for_flat)
{
    struct meter_slope slopes[METER_SLOPES];
    struct meter meter = run_of(SECONDS, 100, 1, 100);
    cr_assert_eq(meter_slopes(&meter, slopes), METER_SLOPES);
    int judged = 0;
    for (int i = 0; i < METER_SLOPES; i++) {
        cr_expect(!slopes[i].is_judged || !slopes[i].is_flat, "%s", slopes[i].name);
        judged += slopes[i].is_judged;
    }
    cr_expect_eq(judged, METER_SLOPES - 1);
    cr_expect_float_eq(slopes[0].an_hour, 360000, 1);
    meter_fini(&meter);
}

/* Beats that take longer on a machine that has more and more else to do. */
Test(meter, judges_no_latency_of_a_machine_that_gets_slower)
{
    struct meter_slope slopes[METER_SLOPES];
    struct meter meter = run_of(SECONDS, 0, 0, 100);
    for (int i = 0; i < SECONDS; i++)
        meter.seconds[i].late_us += 10 * i;
    cr_assert_eq(meter_slopes(&meter, slopes), METER_SLOPES);
    for (int i = 0; i < METER_SLOPES; i++)
        cr_expect(!slopes[i].is_judged || slopes[i].is_flat, "%s", slopes[i].name);
    meter_fini(&meter);
}

Test(meter, says_nothing_of_a_few_seconds)
{
    struct meter_slope slopes[METER_SLOPES];
    struct meter meter = run_of(ENOUGH - 1, 0, 0, 0);
    cr_expect_eq(meter_slopes(&meter, slopes), 0);
    meter_fini(&meter);
    meter = run_of(ENOUGH, 0, 0, 0);
    cr_expect_eq(meter_slopes(&meter, slopes), METER_SLOPES);
    /* A client that came late has too few of its own, and so has a broker. */
    meter.seconds[ENOUGH - 1].client_pid = PID + 2;
    cr_expect_eq(meter_slopes(&meter, slopes), METER_SLOPES - 2);
    meter.seconds[ENOUGH - 1].broker_pid = PID + 1;
    cr_expect_eq(meter_slopes(&meter, slopes), 0);
    meter_fini(&meter);
}

Test(meter, counts_frames_by_time_and_writer)
{
    struct meter meter;
    meter_begin(&meter);
    meter_frames(&meter, 0, 3);
    meter_frames(&meter, 1, 4);
    int64_t from_ms = meter.begin_ms;
    int64_t to_ms = from_ms + (int64_t)METER_BINS / 2 * METER_BIN_MS;
    double seconds = (double)(to_ms - from_ms) / 1000;
    cr_expect_float_eq(meter_rate(&meter, METER_ALL, from_ms, to_ms) * seconds, 7, 1e-6);
    cr_expect_float_eq(meter_rate(&meter, 2, from_ms, to_ms) * seconds, 4, 1e-6);
    cr_expect_float_eq(meter_rate(&meter, 4, from_ms, to_ms) * seconds, 0, 1e-6);
    meter_fini(&meter);
}
