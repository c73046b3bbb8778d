/* SPDX-License-Identifier: MPL-2.0 */
/* once_test.c -- own failure, an error from elsewhere, SIGTERM and the broker's end at one instant:
 * the failure handler runs once, and the process ends when it is told to. */
#include "tests/lib/expect.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
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

/* ---- with a verdict on its way --------------------------------------------------------------- */

static void make_job_of_two(void)
{
    struct bus_job_options options;
    bus_job_options_init(&options);
    options.min = options.max = 2;
    options.join_window_ms = 0;
    options.settle_ms = SOON_MS; /* it is final when both have ended */
    expect_code(bus_admin_job_create(stage_admin(), NULL, &options, SOON_MS, NULL), BUS_OK);
}

/* Whose handler counts, and who fails of its own when the other one does, or not. */
struct doomed {
    struct bus *bus;
    pthread_barrier_t *start;
    int fails;
    int stops;
    atomic_int count;
};

static void count_failure(const struct bus_error *verdict, void *arg)
{
    struct doomed *doomed = arg;
    cr_expect_not_null(verdict);
    atomic_fetch_add(&doomed->count, 1);
}

static void *be_doomed(void *arg)
{
    struct doomed *doomed = arg;
    struct bus_error *error = bus_error_new("app.local", NULL, "boom");
    pthread_barrier_wait(doomed->start);
    if (doomed->stops) {
        bus_stop(doomed->bus);
    }
    if (doomed->fails) {
        bus_fail(doomed->bus, error);
    }
    bus_error_unref(&error);
    return NULL;
}

static void doomed_open(struct doomed *doomed, const char *party)
{
    struct bus_options options;
    bus_options_init(&options);
    options.party = party;
    options.heartbeat_ms = 50;
    options.broker_lost_ms = 300;
    options.on_failure = count_failure;
    options.on_failure_arg = doomed;
    doomed->bus = must_open_with(&options);
    atomic_init(&doomed->count, 0);
}

/* Its own failure, the verdict that the other's brings, the broker's end, bus_stop(): all at one
 * instant, each bit of round for one of them. */
static void expect_once_each(int round)
{
    struct doomed doomed[2] = {{.fails = 1, .stops = round / 2 % 2 != 0}, {.fails = round % 2}};
    pthread_barrier_t start;
    pthread_t threads[2];
    stage_open();
    make_job_of_two();
    cr_assert_eq(pthread_barrier_init(&start, NULL, 3), 0);
    doomed_open(&doomed[0], "alice");
    doomed_open(&doomed[1], "bob");
    struct bus_tap *watch = must_tap(NULL, 1);
    (void)expect_event(watch, "job.epoch", "");
    bus_tap_close(&watch);
    for (int i = 0; i < 2; i++) {
        doomed[i].start = &start;
        cr_assert_eq(pthread_create(&threads[i], NULL, be_doomed, &doomed[i]), 0);
    }
    pthread_barrier_wait(&start);
    if (round / 4 % 2 != 0) {
        process_signal(&stage.process, SIGKILL);
    }
    for (int i = 0; i < 2; i++) {
        struct pollfd over = {.fd = bus_failure_fd(doomed[i].bus), .events = POLLIN};
        pthread_join(threads[i], NULL);
        cr_expect_eq(poll(&over, 1, (int)SOON_MS), 1, "round %d: it goes on", round);
    }
    for (int i = 0; i < 2; i++) {
        (void)bus_close(&doomed[i].bus, SOON_MS); /* what was lost on the way is not its matter */
        cr_expect_eq(atomic_load(&doomed[i].count), 1, "round %d: %d of %d", round,
                     atomic_load(&doomed[i].count), i);
    }
    pthread_barrier_destroy(&start);
    stage_close();
}

Test(once, is_how_often_the_handler_runs_with_a_verdict_on_its_way)
{
    for (int round = 0; round < ROUNDS; round++) {
        expect_once_each(round);
    }
}

/* The thread is blocked in a call that is none of ours, and comes out of it by the signal, before
 * the handler is heard of. */
Test(once, lets_a_blocked_thread_out_of_its_call)
{
    struct bus_options options;
    struct sigaction action = {.sa_handler = on_usr1};
    sigset_t blocked;
    sigset_t before;
    int nothing[2];
    stage_open();
    make_job_of_two();
    sigaction(SIGUSR1, &action, NULL);
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &blocked, &before); /* it comes when ppoll() lets it, not earlier */
    bus_options_init(&options);
    options.party = "alice";
    options.failure_signal = SIGUSR1;
    struct bus *alice = must_open_with(&options);
    struct bus *bob = must_open("bob");
    struct bus_tap *watch = must_tap(NULL, 1);
    (void)expect_event(watch, "job.epoch", "");
    bus_tap_close(&watch);
    cr_assert_eq(pipe(nothing), 0);
    struct bus_error *error = bus_error_new("app.remote", NULL, "boom");
    bus_fail(bob, error);
    bus_error_unref(&error);
    struct pollfd never = {.fd = nothing[0], .events = POLLIN};
    const struct timespec bound = {.tv_sec = SOON_MS / 1000};
    cr_expect_eq(ppoll(&never, 1, &bound, &before), -1);
    cr_expect_eq(errno, EINTR);
    cr_expect_eq(signals_seen, 1);
    cr_expect(pthread_equal(signalled_thread, pthread_self()));
    struct bus_error *failure = bus_failure(alice);
    cr_expect_str_eq(bus_error_type(failure), "app.remote");
    bus_error_unref(&failure);
    expect_code(bus_close(&bob, SOON_MS), BUS_OK);
    expect_code(bus_close(&alice, SOON_MS), BUS_EFENCED);
    cr_expect_eq(signals_seen, 1, "and once");
    close(nothing[0]);
    close(nothing[1]);
}
