/* SPDX-License-Identifier: MPL-2.0 */
/* job_test.c -- jobs that are created, with real processes: ranks, epochs, barriers, ends. */
#include "tests/lib/expect.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

TestSuite(job, .init = stage_open, .fini = stage_close, .timeout = 240);

#define ARGUMENTS_MAX 24

/* `errbus job ...` on the default job; words end with NULL.  What it said is kept until the next
 * one. */
static const char *errbus_job(int code, ...)
{
    static struct process process;
    const char *argv[ARGUMENTS_MAX] = {"errbus", "job", "-s", stage.control};
    size_t count = 4;
    va_list args;
    process_fini(&process);
    va_start(args, code);
    for (const char *word = va_arg(args, const char *); word != NULL && count + 1 < ARGUMENTS_MAX;
         word = va_arg(args, const char *))
        argv[count++] = word;
    va_end(args);
    cr_assert(process_start(&process, argv, NULL));
    int got = process_wait(&process, SOON_MS);
    cr_assert_eq(got, code, "ended with %d, not %d: %s", got, code, process_complained(&process));
    return code == 0 ? process_said(&process) : process_complained(&process);
}

static void expect_within(const char *text, const char *part)
{
    cr_assert_not_null(strstr(text, part), "not '%s' in: %s", part, text);
}

static const char *const quick[] = {"reconnect_grace_ms=100", NULL};

/* ---- the command ----------------------------------------------------------------------------- */

Test(job, is_created_shown_and_cancelled_from_the_shell)
{
    errbus_job(0, "create", "--min", "2", "--max", "4", "--max-restarts", "1", "--join-window",
               "1.5", "--join-timeout", "90", "--deadline", "60", "--strategy", "first",
               "--pending", "replace", NULL);
    cr_expect_str_eq(
        errbus_job(0, "show", NULL),
        "job default: gathering, attempt 1, no members yet\n"
        "  min 2, max 4, restarts 1, join window 1.500 s, join timeout 90.000 s, settle window "
        "2.000 s, deadline 60.000 s, pending replace, strategy first\n");
    expect_within(errbus_job(1, "create", "--min", "3", NULL), "errbus.job_differs");
    expect_within(errbus_job(0, "show", "--json", NULL),
                  "\"state\":\"gathering\",\"attempt\":1,\"epoch\":0,\"world_size\":0,\"min\":2");
    errbus_job(0, "cancel", "--why", "wrong data", "default", NULL);
    expect_within(errbus_job(0, "show", NULL), "  why: the job was cancelled: wrong data "
                                               "(cancelled errbus.job_cancelled");
    expect_within(errbus_job(6, "create", NULL), "errbus.job_over");
}

Test(job, says_what_is_wrong_with_the_call)
{
    expect_within(errbus_job(2, NULL), "expected create, show, cancel or forget");
    expect_within(errbus_job(2, "create", "now", "then", NULL), "unexpected operand 'then'");
    expect_within(errbus_job(2, "create", "--strategy", "last", NULL), "causal, earliest or first");
    expect_within(errbus_job(2, "create", "--pending", "drop", NULL), "deliver or replace");
    expect_within(errbus_job(2, "create", "--min", "0", NULL), "--min takes 1 to 16384, not 0");
    expect_within(errbus_job(2, "create", "--min", "3", "--max", "2", NULL),
                  "--max takes 3 to 16384, not 2");
    expect_within(errbus_job(2, "create", "--join-timeout", "86400.001", NULL),
                  "--join-timeout takes 0 to 86400 seconds, not 86400.001");
    expect_within(errbus_job(2, "create", "--deadline", "0", NULL),
                  "--deadline takes 0.001 to 31536000 seconds, not 0");
    expect_within(errbus_job(2, "show", NULL), "errbus job: there is no job default");
    expect_within(errbus_job(2, "cancel", "-j", "other", NULL),
                  "errbus job: there is no job other; there are no jobs (rejected errbus.no_job)");
}

/* ---- parties --------------------------------------------------------------------------------- */

Test(job, a_job_that_nobody_created_has_no_members)
{
    struct bus *bus = must_open("alice");
    struct bus_membership membership;
    struct bus_error *error = NULL;
    expect_code(bus_membership_wait(bus, 0, BUS_FOREVER, &membership, &error), BUS_EINVAL);
    cr_expect_str_eq(bus_error_type(error), "errbus.no_job");
    bus_error_unref(&error);
    expect_code(bus_barrier(bus, 1, BUS_FOREVER, &error), BUS_EINVAL);
    bus_error_unref(&error);
    must_close(&bus);
}

Test(job, ranks_its_parties_and_replaces_one_that_is_killed)
{
    struct party alice = {0}, bob = {0}, carol = {0};
    errbus_job(0, "create", "--min", "2", "--max", "2", NULL);
    party_start(&alice, "alice", quick);
    party_start(&bob, "bob", quick);
    party_do(&alice, "OK 1 0 2 1", "membership 0");
    party_do(&bob, "OK 1 1 2 1", "membership 0");
    party_start(&carol, "carol", quick);
    expect_within(errbus_job(0, "show", NULL), "  rank 0: alice/1, running\n"
                                               "  rank 1: bob/1, running\n"
                                               "  waiting: carol/1, scheduling\n");
    process_signal(&alice.process, SIGKILL);
    party_do(&carol, "OK 2 0 2 1", "membership 0");
    party_do(&bob, "OK 2 1 2 1", "membership 1");
    party_do(&bob, "FAILED errbus.epoch", "barrier 1 20000");
    party_command(&bob, "barrier 2 20000");
    party_do(&carol, "OK", "barrier 2 20000");
    party_expect(&bob, "OK");
    party_do(&bob, "OK", "complete 20000");
    party_do(&carol, "ENDED errbus.completed", "barrier 2 20000");
    party_do(&carol, "OK", "complete 20000");
    expect_within(errbus_job(0, "show", NULL), "job default: completed");
    party_fini(&alice);
    party_fini(&bob);
    party_fini(&carol);
}

Test(job, tells_a_late_one_that_it_is_over)
{
    errbus_job(0, "create", "--min", "1", NULL);
    struct bus *alice = must_open("alice");
    struct bus_membership membership;
    expect_code(bus_membership_wait(alice, 0, BUS_POLL, &membership, NULL), BUS_ETIMEDOUT);
    errbus_job(0, "cancel", "default", NULL);
    struct bus_error *error = NULL;
    expect_code(bus_membership_wait(alice, 0, SOON_MS, &membership, &error), BUS_EFENCED);
    cr_expect_str_eq(bus_error_kind(error), "cancelled");
    cr_expect_str_eq(bus_error_type(error), "errbus.job_cancelled");
    bus_error_unref(&error);
    struct bus *late = NULL;
    struct bus_options options;
    bus_options_init(&options);
    options.party = "bob";
    expect_code(bus_open(stage.control, &options, SOON_MS, &late, &error), BUS_EDENIED);
    cr_expect_str_eq(bus_error_type(error), "errbus.job_over");
    bus_error_unref(&error);
    (void)bus_close(&alice, SOON_MS); /* fenced */
}

/* One wait of each sort, by threads of their own. */
Test(job, ends_every_wait_when_it_is_cancelled)
{
    errbus_job(0, "create", "--min", "1", "--join-window", "0", NULL);
    struct bus *alice = must_open("alice");
    struct bus *bob = must_open("bob");
    struct bus_slot *slot = must_reserve(alice, "w");
    struct bus_sub *sub = must_subscribe(bob, "alice/w");
    must_flush(alice);
    struct waiter promised = {.bus = bob, .topic = "alice/w", .seq = 0, .timeout_ms = BUS_FOREVER};
    struct waiter never = {.bus = bob, .topic = "carol/w", .seq = 3, .timeout_ms = BUS_FOREVER};
    struct waiter received = {.bus = bob, .sub = sub, .timeout_ms = BUS_FOREVER};
    struct waiter *const waiters[] = {&promised, &never, &received};
    for (size_t i = 0; i < 3; i++)
        waiter_start(waiters[i]);
    errbus_job(0, "cancel", "default", NULL);
    for (size_t i = 0; i < 3; i++) {
        waiter_join(waiters[i]);
        expect_code(waiters[i]->err, BUS_EFENCED);
        cr_expect_str_eq(bus_error_kind(waiters[i]->error), "cancelled");
        waiter_fini(waiters[i]);
    }
    bus_slot_fail(&slot, NULL);
    bus_sub_close(&sub);
    (void)bus_close(&alice, SOON_MS); /* both are fenced */
    (void)bus_close(&bob, SOON_MS);
}

Test(job, ends_a_wait_at_a_barrier_when_it_is_cancelled)
{
    struct party alice = {0}, bob = {0};
    errbus_job(0, "create", "--min", "2", "--max", "2", NULL);
    party_start(&alice, "alice", NULL);
    party_start(&bob, "bob", NULL);
    party_do(&alice, "OK 1 0 2 1", "membership 0");
    party_command(&alice, "barrier 1 20000");
    party_command(&bob, "membership 1");
    errbus_job(0, "cancel", "default", NULL);
    party_expect(&alice, "FENCED errbus.job_cancelled");
    party_expect(&bob, "FENCED errbus.job_cancelled");
    party_fini(&alice);
    party_fini(&bob);
}

/* It beats all the while, for its library has a thread for that. */
Test(job, fails_a_party_that_does_not_move_and_tells_where_it_was)
{
    struct party alice = {0};
    struct bus *bob = must_open("bob");
    struct bus_sub *sub = must_subscribe(bob, "alice/w");
    party_start(&alice, "alice", NULL);
    party_do(&alice, "OK", "reserve w 1");
    party_do(&alice, "OK", "subscribe bob/w");
    party_do(&alice, "OK", "progress 20000 step-1");
    party_do(&alice, "OK", "progress 300 step-2");
    struct bus_error *error = expect_error(sub, "alice/w", 0, "stalled");
    cr_expect_str_eq(bus_error_message(error), "alice beats, but made no progress within 300 ms; "
                                               "it last was at: step-2");
    bus_error_unref(&error);
    party_do(&alice, "FENCED", "receive 20000");
    party_do(&alice, "OK stalled", "failure");
    expect_end(sub, "stalled");
    bus_sub_close(&sub);
    must_close(&bob);
    party_fini(&alice);
}

/* Each of the two incarnations of an attempt is a process of its own. */
static void run_attempt(const char *attempt, const char *epoch)
{
    struct party alice = {0}, bob = {0};
    char place[64];
    party_start(&alice, "alice", NULL);
    party_start(&bob, "bob", NULL);
    snprintf(place, sizeof place, "OK %s 0 2 %s", epoch, attempt);
    party_do(&alice, place, "membership 0");
    party_do(&bob, "OK", "fail_party app.flaky no_luck");
    party_do(&alice, "FENCED app.flaky", "membership %s", epoch);
    party_fini(&alice);
    party_fini(&bob);
}

/* What failed, oldest first, as far as there is history: who, in which incarnation. */
static void expect_failures(struct bus_tap *tap, uint32_t count)
{
    for (uint32_t incarnation = 1; incarnation <= count; incarnation++) {
        const struct bus_event *event = expect_event(tap, "party.failed", "bob");
        cr_expect_eq(bus_event_incarnation(event), incarnation);
        cr_expect_str_eq(bus_error_type(bus_event_error(event)), "app.flaky");
    }
}

Test(job, tries_a_flaky_group_again_twice_and_keeps_all_errors)
{
    errbus_job(0, "create", "--min", "2", "--max", "2", "--join-window", "0", "--settle-window",
               "0.1", "--max-restarts", "2", NULL);
    run_attempt("1", "1");
    run_attempt("2", "2");
    run_attempt("3", "3");
    struct bus_tap *tap = must_tap("default", 0);
    expect_failures(tap, 3);
    cr_expect_eq(bus_event_count(expect_event(tap, "job.failed", NULL)), 3);
    bus_tap_close(&tap);
    expect_within(errbus_job(0, "show", NULL),
                  "job default: failed, attempt 3, epoch 3, members: 0\n");
}

/* ---- what was not read when an attempt ended ------------------------------------------------- */

/* Of whoever has such a topic, so that ends of incarnations do not come in between. */
static struct bus_sub *subscribe_durably(struct bus *bus)
{
    struct bus_sub_options options;
    bus_sub_options_init(&options);
    options.name = "mine";
    return must_subscribe_with(bus, "+/w", &options);
}

/* What alice publishes: three numbers of an attempt. */
static void publish_attempt(struct bus *alice, const char *attempt)
{
    for (int i = 0; i < 3; i++) {
        must_publish(alice, "w", "%s.%d", attempt, i);
    }
    must_flush(alice);
}

static void expect_past(struct bus_sub *sub, uint64_t first, uint64_t count)
{
    struct bus_msg *msg = NULL;
    struct bus_error *error = NULL;
    uint64_t from = 0;
    expect_code(bus_sub_recv(sub, SOON_MS, &msg, &error), BUS_EOVERRUN);
    cr_assert_str_eq(bus_error_type(error), "errbus.attempt_over");
    cr_assert_eq(bus_sub_gap(sub, &from), count);
    cr_assert_eq(from, first);
    bus_error_unref(&error);
}

/* Whoever fails is bob; both are gone then. */
static void end_attempt(struct bus **alice, struct bus **bob)
{
    struct bus_error *error = bus_error_new("app.flaky", NULL, "no luck");
    bus_fail(*bob, error);
    bus_error_unref(&error);
    (void)bus_close(bob, SOON_MS);
    (void)bus_close(alice, SOON_MS);
}

/* The first attempt of a job that needs both: what alice has published in it, bob can read. */
static struct bus_sub *begin_attempts(const char *restarts, struct bus **alice, struct bus **bob)
{
    errbus_job(0, "create", "--min", "2", "--max", "2", "--join-window", "0", "--settle-window",
               "0.1", "--max-restarts", restarts, NULL);
    *alice = must_open("alice");
    *bob = must_open("bob");
    struct bus_sub *sub = subscribe_durably(*bob);
    publish_attempt(*alice, "1");
    return sub;
}

Test(job, tells_a_durable_name_what_it_missed_of_an_attempt)
{
    struct bus *alice = NULL;
    struct bus *bob = NULL;
    struct bus_sub *sub = begin_attempts("2", &alice, &bob);
    expect_value(sub, "alice/w", 0, "1.0");
    must_flush(bob);
    bus_sub_close(&sub);
    end_attempt(&alice, &bob);

    alice = must_open("alice");
    bob = must_open("bob");
    sub = subscribe_durably(bob);
    publish_attempt(alice, "2");
    expect_past(sub, 1, 2);
    expect_value(sub, "alice/w", 0, "2.0");
    must_flush(bob);
    bus_sub_close(&sub);
    sub = subscribe_durably(bob);
    expect_value(sub, "alice/w", 1, "2.1"); /* told once, being acknowledged */
    expect_value(sub, "alice/w", 2, "2.2");
    bus_sub_close(&sub);
    must_close(&bob);
    (void)bus_close(&alice, SOON_MS); /* the job needs bob: it may have failed by now */
}

Test(job, shows_what_was_missed_of_an_attempt)
{
    struct process reader;
    const char *const read[] = {"errbus", "sub",    "-s", stage.control, "-p",  "bob", "--durable",
                                "mine",   "--json", "-C", "1",           "+/w", NULL};
    struct bus *alice = NULL;
    struct bus *bob = NULL;
    struct bus_sub *sub = begin_attempts("1", &alice, &bob);
    bus_sub_close(&sub);
    end_attempt(&alice, &bob);
    alice = must_open("alice");
    publish_attempt(alice, "2");
    cr_assert(process_start(&reader, read, NULL));
    cr_assert_eq(process_wait(&reader, SOON_MS), 0, "%s", process_complained(&reader));
    cr_expect_str_eq(process_said(&reader),
                     "{\"kind\":\"gap\",\"topic\":\"alice/w\",\"seq\":0,\"missing\":3,"
                     "\"type\":\"errbus.attempt_over\"}\n"
                     "{\"kind\":\"value\",\"topic\":\"alice/w\",\"seq\":0,\"incarnation\":2,"
                     "\"value\":\"2.0\"}\n");
    process_fini(&reader);
    (void)bus_close(&alice, SOON_MS); /* as above */
}

Test(job, is_told_on_the_control_topic)
{
    errbus_job(0, "create", "--min", "1", "--max", "1", NULL);
    struct bus_tap *tap = must_tap("default", 0);
    struct bus *alice = must_open("alice");
    const struct bus_event *event = expect_event(tap, "job.created", NULL);
    cr_expect_str_eq(bus_event_text(event), "min 1, max 1, restarts 0");
    event = expect_event(tap, "job.epoch", NULL);
    cr_expect_eq(bus_event_seq(event), 1);
    cr_expect_eq(bus_event_count(event), 1);
    expect_code(bus_complete(alice, SOON_MS), BUS_OK);
    (void)expect_event(tap, "job.completed", NULL);
    must_close(&alice);
    bus_tap_close(&tap);
}

/* ---- the join timeout ------------------------------------------------------------------------ */

static void expect_too_few(const struct bus_error *error)
{
    const struct bus_error *found = bus_error_find(error, "errbus.too_few_joined");
    cr_assert_not_null(found, "%s: %s", bus_error_type(error), bus_error_message(error));
    cr_expect_str_eq(bus_error_message(found),
                     "1 of 2 parties joined within the join timeout of 500 ms: alice");
}

static void note_failure(const struct bus_error *error, void *arg)
{
    struct bus_error **told = arg;
    *told = bus_error_ref(error);
}

static void *await_place(void *arg)
{
    struct bus_membership place;
    struct bus_error *error = NULL;
    expect_code(bus_membership_wait(arg, 0, BUS_FOREVER, &place, &error), BUS_EFENCED);
    return error;
}

/* Whatever a party waits for, alone in a job that needs two, ends with who is missing. */
Test(job, ends_every_wait_for_parties_that_do_not_come)
{
    struct bus_job_options options;
    struct bus_options with;
    struct bus_error *told = NULL;
    struct bus_error *error = NULL;
    struct bus_msg *msg = NULL;
    void *place_error = NULL;
    pthread_t waiter;
    bus_job_options_init(&options);
    cr_expect_eq(options.join_timeout_ms, 600000);
    options.min = 2;
    options.join_timeout_ms = 500;
    expect_code(bus_admin_job_create(stage_admin(), NULL, &options, SOON_MS, NULL), BUS_OK);
    bus_options_init(&with);
    with.party = "alice";
    with.on_failure = note_failure;
    with.on_failure_arg = &told;
    struct bus *alice = must_open_with(&with);
    cr_assert_eq(pthread_create(&waiter, NULL, await_place, alice), 0);
    enum bus_err err = bus_await(alice, "bob/w", 0, BUS_FOREVER, &msg, &error);
    expect_code(err, BUS_EFENCED);
    expect_too_few(error);
    bus_error_unref(&error);
    cr_assert_eq(pthread_join(waiter, &place_error), 0);
    expect_too_few(place_error);
    error = place_error;
    bus_error_unref(&error);
    expect_code(bus_verdict(alice, SOON_MS, &error), BUS_OK);
    expect_too_few(error);
    bus_error_unref(&error);
    expect_too_few(told);
    bus_error_unref(&told);
    (void)bus_close(&alice, SOON_MS); /* it is over */
}
