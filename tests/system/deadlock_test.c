/* SPDX-License-Identifier: MPL-2.0 */
/* deadlock_test.c -- processes that wait for each other: one wait fails if nothing else can end
 * them, and none fails if another thread of a process can. */
#include "tests/lib/expect.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

TestSuite(deadlock, .init = stage_open, .fini = stage_close, .timeout = 120);

static void create_job(void)
{
    struct bus_job_options options;
    bus_job_options_init(&options);
    options.min = 2;
    options.max = 2;
    options.deadlock = BUS_DEADLOCK_FAIL;
    expect_code(bus_admin_job_create(stage_admin(), NULL, &options, SOON_MS, NULL), BUS_OK);
}

static void start_both(struct party *alice, struct party *bob)
{
    create_job();
    party_start(alice, "alice", NULL);
    party_start(bob, "bob", NULL);
    party_do(alice, "OK 1 0 2 1", "membership 0");
    party_do(bob, "OK 1 1 2 1", "membership 0");
}

/* Until the broker knows that the party waits. */
static void wait_for_wait(const char *party)
{
    const struct timespec pause = {.tv_nsec = 20000000};
    bool is_there = false;
    for (int64_t i = 0; i < SOON_MS / 20 && !is_there; i++) {
        struct bus_why *why = NULL;
        expect_code(bus_why_get(stage_admin(), NULL, NULL, 0, SOON_MS, &why, NULL), BUS_OK);
        for (size_t k = 0; k < bus_why_edge_count(why); k++) {
            const struct bus_why_edge *edge = bus_why_edge_at(why, k);
            is_there |= strcmp(bus_why_node_at(why, edge->from)->name, party) == 0;
        }
        bus_why_free(&why);
        (void)nanosleep(&pause, NULL);
    }
    cr_assert(is_there, "%s never waited", party);
}

Test(deadlock, fails_the_youngest_wait_and_the_other_goes_on)
{
    struct party alice = {0}, bob = {0};
    start_both(&alice, &bob);
    struct bus_tap *tap = must_tap("default", BUS_TAP_NOW);
    party_command(&bob, "await alice/x 0");
    wait_for_wait("bob");
    party_command(&alice, "await bob/x 0");
    party_expect(&alice, "FAILED dependency errbus.deadlock, 1 causes");
    const struct bus_event *event = expect_event(tap, "job.deadlock", "alice");
    cr_expect_not_null(strstr(bus_event_text(event), ": none can go on"), "%s",
                       bus_event_text(event));
    party_do(&alice, "OK", "publish x 1 late");
    party_expect(&bob, "OK");
    bus_tap_close(&tap);
    party_fini(&alice);
    party_fini(&bob);
}

/* The other thread takes longer than two looks of the broker, and says nothing before. */
Test(deadlock, fails_no_wait_while_another_thread_can_help)
{
    struct party alice = {0}, bob = {0};
    start_both(&alice, &bob);
    struct bus_tap *tap = must_tap("default", BUS_TAP_NOW);
    party_do(&alice, "OK", "helper 9000 x");
    party_command(&bob, "await alice/x 0");
    party_command(&alice, "await bob/x 0");
    const struct bus_event *event = expect_event(tap, "job.deadlock", NULL);
    cr_expect_not_null(strstr(bus_event_text(event), ": each waits for the next"), "%s",
                       bus_event_text(event));
    party_expect(&bob, "OK");
    party_do(&bob, "OK", "publish x 1 next");
    party_expect(&alice, "OK");
    bus_tap_close(&tap);
    party_fini(&alice);
    party_fini(&bob);
}

Test(deadlock, fails_a_reader_at_its_subscription)
{
    struct party alice = {0}, bob = {0};
    start_both(&alice, &bob);
    party_do(&alice, "OK", "reserve x 1");
    party_do(&bob, "OK", "subscribe alice/x");
    party_command(&alice, "await bob/x 0");
    wait_for_wait("alice");
    party_command(&bob, "receive_forever");
    cr_expect_str_eq(party_answer(&bob), "FAILED - 0 dependency errbus.deadlock bob");
    party_do(&bob, "OK", "publish x 1 late");
    party_expect(&alice, "OK");
    party_do(&alice, "OK", "commit x 0 value");
    party_do(&bob, "OK alice/x 0 value", "receive 20000");
    party_fini(&alice);
    party_fini(&bob);
}
