/* SPDX-License-Identifier: MPL-2.0 */
/* runs_test.c -- programs that are started again: whose values a reader gets, and what it is told.
 */
#include "tests/lib/expect.h"
#include "tests/lib/relay.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <string.h>

TestSuite(runs, .init = stage_open, .fini = stage_close, .timeout = 240);

static void expect_run(const struct bus *bus, uint32_t number)
{
    struct bus_run run;
    expect_code(bus_run_get(bus, &run), BUS_OK);
    cr_assert_eq(run.number, number, "in run %u, not %u", run.number, number);
}

/* ---- beginning ------------------------------------------------------------------------------- */

static struct relay relay;

static void open_with_relay(void)
{
    stage_open_with_relay(&relay);
}

static void *open_late(void *arg)
{
    struct bus **out_bus = arg;
    *out_bus = must_open_over(&relay, "late", 0);
    return NULL;
}

/* The broker has welcomed late to the first run, which ends before late hears of it. */
Test(runs, are_joined_by_who_was_still_joining_the_last_one, .init = open_with_relay)
{
    struct bus *early = must_open("early");
    struct bus *late = NULL;
    pthread_t thread;
    struct bus_tap *tap = must_tap(NULL, BUS_TAP_NOW);
    must_close(&early);
    relay_set(&relay, RELAY_LATE);
    cr_assert_eq(pthread_create(&thread, NULL, open_late, &late), 0);
    expect_event(tap, "party.joined", "late");
    early = must_open("early");
    expect_run(early, 2);
    relay_set(&relay, RELAY_WHOLE);
    pthread_join(thread, NULL);
    cr_assert_not_null(late);
    expect_run(late, 2);
    must_publish(late, "x", "here");
    expect_awaited(early, "late/x", 0, "here");
    must_close(&late);
    must_close(&early);
    bus_tap_close(&tap);
}
