/* SPDX-License-Identifier: MPL-2.0 */
/* once_test.c -- own failure, an error from elsewhere, SIGTERM and the broker's end at one instant:
 * the failure handler runs once, and the process ends when it is told to. */
#include "tests/lib/expect.h"

#include <criterion/criterion.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

TestSuite(once, .fini = stage_close, .timeout = 300);

#define ROUNDS 40

/* What happens in one round; each bit of round decides about one of the four. */
static void strike(struct party *bob, struct bus_slot **slot, int round)
{
    if (round % 2 == 0) {
        fail_slot(slot, "app.remote", "raised at bob's");
    }
    if (round / 2 % 2 == 0) {
        process_signal(&stage.process, SIGKILL);
    }
    if (round / 4 % 2 == 0) {
        process_signal(&bob->process, SIGTERM);
    }
    party_command(bob, "fail_party app.local boom");
    if (round / 2 % 2 != 0) {
        process_signal(&stage.process, SIGKILL);
    }
}

static void expect_once(int round)
{
    static const char *const words[] = {"heartbeat_ms=50", "broker_lost_ms=300", NULL};
    struct party bob;
    struct bus_options options;
    struct bus *alice = NULL;
    stage_open();
    party_start(&bob, "bob", words);
    bus_options_init(&options);
    options.party = "alice";
    options.heartbeat_ms = 50;
    options.broker_lost_ms = 300;
    alice = must_open_with(&options);
    struct bus_slot *slot = must_reserve(alice, "w");
    must_flush(alice);
    party_do(&bob, "OK", "subscribe alice/#");
    party_command(&bob, "receive 60000");

    strike(&bob, &slot, round);

    int64_t start_ms = test_now_ms();
    party_command(&bob, "close 1000");
    cr_assert_eq(process_wait(&bob.process, SOON_MS), 0, "round %d: it did not end: %s", round,
                 process_said(&bob.process));
    cr_expect_lt(test_now_ms() - start_ms, 10 * 1300, "round %d: %lld ms: %s", round,
                 (long long)(test_now_ms() - start_ms), process_said(&bob.process));
    cr_expect_eq(party_count(&bob, "handler"), 1, "round %d: %s", round,
                 process_said(&bob.process));
    bus_slot_fail(&slot, NULL);
    bus_close(&alice, BUS_POLL);
    party_fini(&bob);
    stage_close();
}

Test(once, is_how_often_the_handler_runs)
{
    for (int round = 0; round < ROUNDS; round++) {
        expect_once(round);
    }
}

/* Nothing of that is needed for a party that is well: no handler, ever. */
Test(once, is_too_often_for_a_party_that_is_well)
{
    struct party bob;
    stage_open();
    struct bus *alice = must_open("alice");
    struct bus_slot *slot = must_reserve(alice, "w");
    party_start(&bob, "bob", NULL);
    party_do(&bob, "OK", "subscribe alice/#");
    fail_slot(&slot, "app.remote", "raised, and that is all");
    party_do(&bob, "FAILED alice/w 0 application app.remote alice", "receive 20000");
    party_command(&bob, "receive 60000");
    process_signal(&bob.process, SIGTERM);
    party_expect(&bob, "CLOSED");
    party_do(&bob, "OK", "close 20000");
    cr_expect_eq(process_wait(&bob.process, SOON_MS), 0);
    cr_expect_eq(party_count(&bob, "handler"), 0, "%s", process_said(&bob.process));
    party_fini(&bob);
    must_close(&alice);
}

struct seen {
    struct bus *bus;
    pthread_t thread;
    int count;
    int done[2]; /* a pipe: the handler has come to its end */
};

static volatile sig_atomic_t signals_seen;
static pthread_t signalled_thread;

static void on_usr1(int number)
{
    (void)number;
    signals_seen = signals_seen + 1;
    signalled_thread = pthread_self();
}

/* By then the signal was sent, and closing here leaves. */
static void close_inside(const struct bus_error *verdict, void *arg)
{
    struct seen *seen = arg;
    (void)verdict;
    seen->count++;
    seen->thread = pthread_self();
    bus_close(&seen->bus, 1000);
    ssize_t written = write(seen->done[1], "x", 1);
    (void)written; /* the test says so if it does not come */
}

Test(once, may_close_the_bus_and_signals_the_thread_that_opened_it)
{
    struct seen seen = {.count = 0};
    struct bus_options options;
    struct sigaction action = {.sa_handler = on_usr1};
    stage_open();
    sigaction(SIGUSR1, &action, NULL);
    bus_options_init(&options);
    options.party = "alice";
    options.failure_signal = SIGUSR1;
    options.on_failure = close_inside;
    options.on_failure_arg = &seen;
    cr_assert_eq(pipe(seen.done), 0);
    seen.bus = must_open_with(&options);
    struct bus *bob = must_open("bob");
    struct bus_tap *tap = must_tap(NULL, BUS_TAP_NOW);
    struct bus_error *error = bus_error_new("app.local", NULL, "boom");
    bus_fail(seen.bus, error);
    bus_error_unref(&error);
    expect_event(tap, "party.failed", "alice");

    /* The name is free again once the handler has closed. */
    struct pollfd done = {.fd = seen.done[0], .events = POLLIN};
    cr_assert_eq(poll(&done, 1, (int)SOON_MS), 1);
    options.on_failure = NULL;
    struct bus *again = must_open_with(&options);
    cr_expect_eq(seen.count, 1);
    cr_expect_null(seen.bus);
    cr_expect_eq(signals_seen, 1);
    cr_expect(pthread_equal(signalled_thread, pthread_self()));
    cr_expect_not(pthread_equal(seen.thread, pthread_self()));
    close(seen.done[0]);
    close(seen.done[1]);
    bus_tap_close(&tap);
    must_close(&again);
    must_close(&bob);
}
