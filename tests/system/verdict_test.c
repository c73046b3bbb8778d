/* SPDX-License-Identifier: MPL-2.0 */
/* verdict_test.c -- why a job failed, as its parties, operators and the history are told. */
#include "tests/lib/expect.h"
#include "tests/lib/revival.h"

#include <criterion/criterion.h>
#include <poll.h>
#include <jansson.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

TestSuite(verdict, .init = stage_open, .fini = stage_close, .timeout = 240);

static const char *const quick[] = {"reconnect_grace_ms=300", NULL};

static void fail_blaming(struct bus *bus, const char *type, const char *party)
{
    struct bus_error *error = bus_error_new(type, NULL, "connection reset by peer");
    expect_code(bus_error_set_blame(error, party), BUS_OK);
    bus_fail(bus, error);
    bus_error_unref(&error);
}

static struct bus_error *must_verdict(struct bus *bus)
{
    struct bus_error *verdict = NULL;
    expect_code(bus_verdict(bus, SOON_MS, &verdict), BUS_OK);
    return verdict;
}

/* The line that errbus verdict --json prints, and with what it ends. */
static json_t *ask(const char *job, int status)
{
    const char *const argv[] = {"errbus", "verdict", "-s", stage.control,
                                "--json", "-j",      job,  NULL};
    struct process process;
    cr_assert(process_start(&process, argv, NULL));
    cr_assert_eq(process_wait(&process, SOON_MS), status, "%s", process_complained(&process));
    json_t *line = json_loads(process_said(&process), 0, NULL);
    cr_assert_not_null(line, "%s", process_said(&process));
    process_fini(&process);
    return line;
}

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text != NULL ? text : "";
}

/* Of whom the root is, and how many lead to it. */
static void expect_answer(const char *party, json_int_t victims)
{
    json_t *line = ask("default", 3);
    cr_expect_str_eq(text_of(line, "state"), "final");
    cr_expect_str_eq(text_of(json_object_get(line, "root"), "party"), party);
    cr_expect_eq(json_integer_value(json_object_get(line, "victims")), victims);
    cr_expect_eq(json_array_size(json_object_get(line, "errors")), (size_t)victims + 1);
    json_decref(line);
}

/* For people: what stands below what. */
static void expect_text(const char *first, const char *second, const char *third)
{
    const char *const argv[] = {"errbus", "verdict", "--final", "-s", stage.control, NULL};
    struct process process;
    cr_assert(process_start(&process, argv, NULL));
    cr_assert_eq(process_wait(&process, SOON_MS), 3, "%s", process_complained(&process));
    const char *at = process_said(&process);
    const char *const parts[] = {first, second, third};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0] && at != NULL; i++) {
        at = strstr(at, parts[i]);
    }
    cr_expect_not_null(at, "%s", process_said(&process));
    process_fini(&process);
}

/* Those who had a connection to the dead speak first, and she cannot. */
Test(verdict, is_the_death_that_others_blame)
{
    struct party alice;
    struct bus_tap *watch = must_tap(NULL, BUS_TAP_NOW);
    party_start(&alice, "alice", quick);
    struct bus *bob = must_open("bob");
    struct bus *carol = must_open("carol");
    process_signal(&alice.process, SIGKILL);
    fail_blaming(bob, "app.reset", "alice");
    fail_blaming(carol, "app.reset", "alice");
    struct bus_error *verdicts[] = {must_verdict(bob), must_verdict(carol)};
    for (int i = 0; i < 2; i++) {
        cr_expect_str_eq(bus_error_kind(verdicts[i]), "party_lost");
        cr_expect_str_eq(bus_error_party(verdicts[i]), "alice");
        cr_expect_eq(bus_error_pid(verdicts[i]), alice.process.pid, "it ran there");
        cr_expect_str_neq(bus_error_host(verdicts[i]), "");
        cr_expect_str_eq(bus_error_id(verdicts[i]), bus_error_id(verdicts[0]));
    }
    const struct bus_event *event = expect_event(watch, "verdict.final", "alice");
    cr_expect_eq(bus_event_count(event), 2);
    cr_expect_str_eq(bus_error_id(bus_event_error(event)), bus_error_id(verdicts[0]));
    expect_answer("alice", 2);
    expect_text("final verdict on attempt 1 (causal)\n"
                "  alice/1: party_lost errbus.connection_closed: party alice lost",
                "\n    bob/1: application app.reset: connection reset by peer (",
                "\nwhy: no other error could be the root\n");
    struct bus_error *own = bus_failure(bob);
    cr_expect_str_eq(bus_error_type(own), "app.reset", "what ended bob is another question");
    bus_error_unref(&own);
    bus_error_unref(&verdicts[0]);
    bus_error_unref(&verdicts[1]);
    expect_code(bus_close(&bob, SOON_MS), BUS_OK);
    expect_code(bus_close(&carol, SOON_MS), BUS_OK);
    bus_tap_close(&watch);
    party_fini(&alice);
}

/* An error that reached another by a slot, and made that one fail. */
Test(verdict, follows_causes_over_slots)
{
    struct bus *alice = must_open("alice");
    struct bus *bob = must_open("bob");
    struct bus_slot *slot = must_reserve(alice, "w");
    must_flush(alice);
    fail_slot(&slot, "app.disk_full", "no room");
    struct bus_error *cause = expect_await_failed(bob, "alice/w", 0, "application");
    struct bus_error *error = bus_error_new("app.no_input", cause, "it did not come");
    bus_fail(bob, error);
    must_close(&alice);
    struct bus_error *verdict = must_verdict(bob);
    cr_expect_str_eq(bus_error_type(verdict), "app.disk_full");
    cr_expect_str_eq(bus_error_id(verdict), bus_error_id(cause));
    expect_answer("alice", 1);
    bus_error_unref(&verdict);
    bus_error_unref(&error);
    bus_error_unref(&cause);
    expect_code(bus_close(&bob, SOON_MS), BUS_OK);
}

struct waiting {
    struct bus *bus;
    enum bus_err err;
    struct bus_error *verdict;
};

/* The same, passed on as it came. */
Test(verdict, is_whose_error_it_was_that_others_passed_on)
{
    struct bus *alice = must_open("alice");
    struct bus *bob = must_open("bob");
    struct bus *carol = must_open("carol");
    struct bus_slot *slot = must_reserve(alice, "w");
    struct bus_slot *next = must_reserve(bob, "w");
    must_flush(alice);
    must_flush(bob);
    fail_slot(&slot, "app.disk_full", "no room");
    struct bus_error *first = expect_await_failed(bob, "alice/w", 0, "application");
    bus_slot_fail(&next, first);
    struct bus_error *second = expect_await_failed(carol, "bob/w", 0, "application");
    cr_expect_str_eq(bus_error_party(second), "bob");
    cr_expect_str_eq(bus_error_type(second), "app.disk_full");
    cr_expect_str_eq(bus_error_message(second), "no room");
    cr_expect_str_eq(bus_error_id(bus_error_root(second)), bus_error_id(first));
    bus_fail(carol, second);
    must_close(&alice);
    must_close(&bob);
    struct bus_error *verdict = must_verdict(carol);
    cr_expect_str_eq(bus_error_party(verdict), "alice");
    cr_expect_str_eq(bus_error_id(verdict), bus_error_id(first));
    expect_answer("alice", 2);
    bus_error_unref(&verdict);
    bus_error_unref(&second);
    bus_error_unref(&first);
    expect_code(bus_close(&carol, SOON_MS), BUS_OK);
}

static void *wait_for_verdict(void *arg)
{
    struct waiting *waiting = arg;
    waiting->err = bus_verdict(waiting->bus, 3 * SOON_MS, &waiting->verdict);
    return NULL;
}

/* While somebody runs there is none, and who waits is told when there is. */
Test(verdict, comes_when_the_last_party_has_ended)
{
    struct waiting waiting = {.bus = must_open("bob")};
    struct bus *alice = must_open("alice");
    struct bus_error *none = NULL;
    pthread_t thread;
    fail_blaming(waiting.bus, "app.early", "nobody");
    expect_code(bus_verdict(waiting.bus, BUS_POLL, &none), BUS_ETIMEDOUT);
    json_t *line = ask("default", 8);
    cr_expect_str_eq(text_of(line, "state"), "running");
    json_decref(line);
    cr_assert_eq(pthread_create(&thread, NULL, wait_for_verdict, &waiting), 0);
    fail_blaming(alice, "app.late", "bob");
    pthread_join(thread, NULL);
    expect_code(waiting.err, BUS_OK);
    cr_expect_str_eq(bus_error_type(waiting.verdict), "app.early");
    bus_error_unref(&waiting.verdict);
    expect_code(bus_close(&alice, SOON_MS), BUS_OK);
    expect_code(bus_close(&waiting.bus, SOON_MS), BUS_OK);
}

Test(verdict, of_a_job_that_ended_well_is_none)
{
    struct bus *alice = must_open("alice");
    struct bus *bob = must_open("bob");
    struct bus_tap *watch = must_tap(NULL, BUS_TAP_NOW);
    fail_blaming(bob, "app.early", "alice");
    (void)expect_event(watch, "party.failed", "bob");
    bus_tap_close(&watch);
    expect_code(bus_complete(alice, SOON_MS), BUS_OK);
    must_close(&alice);
    json_t *line = ask("default", 0);
    cr_expect_str_eq(text_of(line, "state"), "ended");
    cr_expect_eq(json_integer_value(json_object_get(line, "aside")), 1);
    json_decref(line);
    expect_code(bus_close(&bob, SOON_MS), BUS_OK);
}

/* ---- jobs that need all ---------------------------------------------------------------------- */

static void make_job_of(uint32_t min, enum bus_strategy strategy)
{
    struct bus_job_options options;
    struct bus_error *error = NULL;
    bus_job_options_init(&options);
    options.min = min;
    options.max = min;
    options.join_window_ms = 0;
    options.settle_ms = SOON_MS; /* it closes when all have ended */
    options.strategy = strategy;
    enum bus_err err = bus_admin_job_create(stage_admin(), NULL, &options, SOON_MS, &error);
    expect_code_of(err, BUS_OK, &error);
}

static void make_job(uint32_t min)
{
    make_job_of(min, BUS_STRATEGY_CAUSAL);
}

/* What a failure handler saw. */
struct seen {
    struct bus *bus;
    int count;
    char type[64];
    struct bus_error *own; /* reported from the handler, or NULL */
    int told[2];           /* a pipe: a byte for each time */
};

static void on_failure(const struct bus_error *verdict, void *arg)
{
    struct seen *seen = arg;
    seen->count++;
    snprintf(seen->type, sizeof seen->type, "%s", bus_error_type(verdict));
    if (seen->own != NULL) {
        bus_fail(seen->bus, seen->own);
    }
    cr_expect_eq(write(seen->told[1], "x", 1), 1);
}

static void seen_open(struct seen *seen, const char *party)
{
    struct bus_options options;
    cr_assert_eq(pipe(seen->told), 0);
    bus_options_init(&options);
    options.party = party;
    options.reconnect_grace_ms = SOON_MS; /* nobody is lost here, however busy the machine is */
    options.on_failure = on_failure;
    options.on_failure_arg = seen;
    seen->bus = must_open_with(&options);
}

static void expect_seen(struct seen *seen, const char *type)
{
    char byte;
    cr_assert_eq(read(seen->told[0], &byte, 1), 1);
    cr_expect_str_eq(seen->type, type);
    cr_expect_eq(seen->count, 1);
}

static void seen_close(struct seen *seen, enum bus_err expected)
{
    expect_code(bus_close(&seen->bus, SOON_MS), expected);
    cr_expect_eq(seen->count, 1, "the handler ran %d times", seen->count);
    close(seen->told[0]);
    close(seen->told[1]);
}

/* The first cause of each: its own failure, or the provisional verdict.  The final one is for all
 * the same, and here it is another. */
Test(verdict, is_corrected_by_what_a_handler_reports)
{
    struct seen alice = {0};
    struct seen bob = {0};
    struct bus_error *error = bus_error_new("app.consequence", NULL, "what alice knows");
    bob.own = bus_error_new("app.root", NULL, "what bob knew all along");
    int64_t earlier_ns = bus_error_occurred_ns(error) - INT64_C(200000000);
    expect_code(bus_error_set_occurred(bob.own, earlier_ns, UINT64_C(1000000000)), BUS_OK);
    make_job(2);
    seen_open(&alice, "alice");
    seen_open(&bob, "bob");
    struct bus_tap *watch = must_tap(NULL, 1);
    (void)expect_event(watch, "job.epoch", "");
    bus_fail(alice.bus, error);
    expect_seen(&alice, "app.consequence");
    expect_seen(&bob, "app.consequence");
    struct bus_error *verdicts[] = {must_verdict(alice.bus), must_verdict(bob.bus)};
    for (int i = 0; i < 2; i++) {
        cr_expect_str_eq(bus_error_type(verdicts[i]), "app.root");
        cr_expect_str_eq(bus_error_party(verdicts[i]), "bob");
        cr_expect_str_eq(bus_error_id(verdicts[i]), bus_error_id(verdicts[0]));
    }
    bus_error_unref(&verdicts[0]);
    bus_error_unref(&verdicts[1]);
    (void)expect_event(watch, "verdict.provisional", "alice");
    (void)expect_event(watch, "verdict.final", "bob");
    bus_tap_close(&watch);
    seen_close(&alice, BUS_OK);
    seen_close(&bob, BUS_EFENCED);
    bus_error_unref(&error);
    bus_error_unref(&bob.own);
}

/* In any order, each blaming one that failed for a reason nearer to the first, and all of them told
 * of the others' failures meanwhile. */
static void expect_one_of_many(uint64_t *seed)
{
    enum { COUNT = 64 };
    struct bus *buses[COUNT];
    struct bus_error *errors[COUNT];
    int order[COUNT];
    char name[16];
    make_job(COUNT);
    for (int i = 0; i < COUNT; i++) {
        snprintf(name, sizeof name, "p%d", i);
        buses[i] = must_open(name);
        order[i] = i;
    }
    for (int i = 0; i < COUNT; i++) {
        *seed = *seed * UINT64_C(6364136223846793005) + 1442695040888963407U;
        int other = (int)((*seed >> 33) % (uint64_t)(i + 1));
        snprintf(name, sizeof name, "p%d", i > 0 ? other % i : 0);
        errors[i] = bus_error_new(i == 0 ? "app.root" : "app.reset", NULL, "of p%d", i);
        expect_code(i > 0 ? bus_error_set_blame(errors[i], name) : BUS_OK, BUS_OK);
        order[i] = order[other];
        order[other] = i;
    }
    for (int i = 0; i < COUNT; i++) {
        bus_fail(buses[order[i]], errors[order[i]]);
    }
    for (int i = 0; i < COUNT; i++) {
        struct bus_error *verdict = must_verdict(buses[i]);
        cr_expect_str_eq(bus_error_id(verdict), bus_error_id(errors[0]), "p%d", i);
        bus_error_unref(&verdict);
    }
    expect_answer("p0", COUNT - 1);
    expect_text("final verdict on attempt 1 (causal)\n  p0/", ": application app.root: of p0 (",
                "\nwhy: ");
    for (int i = 0; i < COUNT; i++) {
        enum bus_err err =
            bus_close(&buses[i], SOON_MS); /* by its own failure, or by the verdict */
        cr_expect(err == BUS_OK || err == BUS_EFENCED, "%s", bus_strerror(err));
        bus_error_unref(&errors[i]);
    }
}

Test(verdict, is_one_for_64_parties_that_fail_at_once)
{
    uint64_t seed = 1;
    for (int round = 0; round < 4; round++) {
        expect_one_of_many(&seed);
        stage_close();
        stage_open();
    }
}

/* What the command line lists of a job's history. */
static json_t *late_error(void)
{
    const char *const argv[] = {"errbus", "errors", "-s", stage.control, "--json", NULL};
    struct process process;
    json_t *late = NULL;
    cr_assert(process_start(&process, argv, NULL));
    cr_assert_eq(process_wait(&process, SOON_MS), 0, "%s", process_complained(&process));
    const char *rest = process_said(&process);
    for (const char *end; late == NULL && (end = strchr(rest, '\n')) != NULL; rest = end + 1) {
        json_t *line = json_loadb(rest, (size_t)(end - rest), 0, NULL);
        if (json_is_true(json_object_get(json_object_get(line, "event"), "late"))) {
            late = json_incref(line);
        }
        json_decref(line);
    }
    process_fini(&process);
    return late;
}

/* By its stamp it would have been the root. */
Test(verdict, is_not_changed_by_what_is_reported_behind_it)
{
    struct bus_job_options options;
    struct bus_error *error = bus_error_new("app.consequence", NULL, "what alice knows");
    struct bus_error *late = bus_error_new("app.root", NULL, "what bob did not say in time");
    int64_t earlier_ns = bus_error_occurred_ns(error) - INT64_C(200000000);
    expect_code(bus_error_set_occurred(late, earlier_ns, UINT64_C(1000000000)), BUS_OK);
    bus_job_options_init(&options);
    options.min = 2;
    options.max = 2;
    options.join_window_ms = 0;
    options.settle_ms = 100;
    expect_code(bus_admin_job_create(stage_admin(), NULL, &options, SOON_MS, NULL), BUS_OK);
    struct bus *alice = must_open("alice");
    struct bus *bob = must_open("bob");
    struct bus_tap *watch = must_tap(NULL, 1);
    (void)expect_event(watch, "job.epoch", "");
    bus_fail(alice, error);
    (void)expect_event(watch, "verdict.final", "alice");
    (void)expect_event(watch, "job.failed", "");
    bus_fail(bob, late);
    const struct bus_event *event = expect_event(watch, "party.failed", "bob");
    cr_expect_eq(bus_event_is_late(event), 1);
    cr_expect_str_eq(bus_error_type(bus_event_error(event)), "app.root");
    cr_expect_eq(bus_error_attempt(bus_event_error(event)), 1);
    expect_answer("alice", 0);
    json_t *line = late_error();
    cr_expect_str_eq(text_of(line, "id"), bus_error_id(late));
    json_decref(line);
    struct bus_error *verdict = must_verdict(bob);
    cr_expect_str_eq(bus_error_type(verdict), "app.consequence");
    bus_error_unref(&verdict);
    bus_tap_close(&watch);
    expect_code(bus_close(&alice, SOON_MS), BUS_OK);
    expect_code(bus_close(&bob, SOON_MS), BUS_EFENCED);
    bus_error_unref(&error);
    bus_error_unref(&late);
}

/* Waits for the final word, which comes while it does. */
static void wait_inside(const struct bus_error *verdict, void *arg)
{
    struct seen *seen = arg;
    struct bus_error *final = NULL;
    snprintf(seen->type, sizeof seen->type, "%s", bus_error_type(verdict));
    seen->count++;
    cr_expect_eq(write(seen->told[1], "x", 1), 1);
    expect_code(bus_verdict(seen->bus, 3 * SOON_MS, &final), BUS_OK);
    snprintf(seen->type, sizeof seen->type, "%s", bus_error_type(final));
    bus_error_unref(&final);
    cr_expect_eq(write(seen->told[1], "x", 1), 1);
}

Test(verdict, may_be_waited_for_in_the_handler)
{
    struct seen bob = {0};
    struct bus_options options;
    make_job(3);
    cr_assert_eq(pipe(bob.told), 0);
    bus_options_init(&options);
    options.party = "bob";
    options.on_failure = wait_inside;
    options.on_failure_arg = &bob;
    struct bus *alice = must_open("alice");
    struct bus *carol = must_open("carol");
    bob.bus = must_open_with(&options);
    struct bus_tap *watch = must_tap(NULL, 1);
    (void)expect_event(watch, "job.epoch", "");
    struct bus_error *error = bus_error_new("app.consequence", NULL, "what alice knows");
    expect_code(bus_error_set_blame(error, "carol"), BUS_OK);
    bus_fail(alice, error);
    (void)expect_event(watch, "verdict.provisional", "alice");
    fail_blaming(carol, "app.root", "nobody");
    expect_seen(&bob, "app.consequence");
    bus_fail(bob.bus, error); /* the last one, while its handler waits */
    expect_seen(&bob, "app.root");
    bus_tap_close(&watch);
    seen_close(&bob, BUS_EFENCED);
    expect_code(bus_close(&alice, SOON_MS), BUS_OK);
    (void)bus_close(&carol, SOON_MS); /* by its own failure, or by the verdict */
    bus_error_unref(&error);
}

/* Who is told of a failure where it waited for a value, and goes on, has not failed. */
static void expect_no_handler(void)
{
    struct seen bob = {0};
    seen_open(&bob, "bob");
    struct bus *alice = must_open("alice");
    struct bus_slot *slot = must_reserve(alice, "w");
    must_flush(alice);
    fail_blaming(alice, "app.early", "nobody");
    struct bus_error *error = expect_await_failed(bob.bus, "alice/w", 0, "application");
    cr_expect_str_eq(bus_error_type(error), "app.early");
    bus_error_unref(&error);
    struct pollfd poll_fd = {.fd = bus_failure_fd(bob.bus), .events = POLLIN};
    must_publish(bob.bus, "w", "all the same");
    must_flush(bob.bus);
    cr_expect_eq(poll(&poll_fd, 1, 0), 0);
    expect_code(bus_complete(bob.bus, SOON_MS), BUS_OK);
    must_close(&bob.bus);
    cr_expect_eq(bob.count, 0, "the handler ran %d times", bob.count);
    close(bob.told[0]);
    close(bob.told[1]);
    bus_slot_fail(&slot, NULL); /* it is settled: this frees it */
    expect_code(bus_close(&alice, SOON_MS), BUS_OK);
}

Test(verdict, is_no_matter_for_the_handlers_of_a_job_that_goes_on)
{
    expect_no_handler();
}

Test(verdict, is_no_matter_for_the_handlers_of_a_job_that_has_its_minimum)
{
    struct bus_job_options options;
    bus_job_options_init(&options);
    options.min = 1;
    options.max = 2;
    options.join_window_ms = 0;
    expect_code(bus_admin_job_create(stage_admin(), NULL, &options, SOON_MS, NULL), BUS_OK);
    struct bus_tap *watch = must_tap(NULL, 1);
    expect_no_handler();
    (void)expect_event(watch, "job.completed", "");
    bus_tap_close(&watch);
    json_t *line = ask("default", 0);
    cr_expect_str_eq(text_of(line, "state"), "ended");
    json_decref(line);
}

/* ---- stamps from before a party was open ----------------------------------------------------- */

static void fail_with(struct bus **bus, struct bus_error **error)
{
    bus_fail(*bus, *error);
    bus_error_unref(error);
    (void)bus_close(bus, SOON_MS); /* it failed */
}

static void expect_root(const char *party)
{
    json_t *line = ask("default", 3);
    cr_expect_str_eq(text_of(line, "state"), "final");
    cr_expect_str_eq(text_of(json_object_get(line, "root"), "party"), party);
    json_decref(line);
}

/* alice fails in her start-up, and bob of that: the first to say so is not the first to fail. */
Test(verdict, finds_a_root_that_failed_before_it_was_open)
{
    struct bus *bob = must_open("bob");
    struct bus_error *error = bus_error_new("app.no_model", NULL, "the model is missing");
    struct bus *alice = must_open("alice");
    struct bus_error *victim = bus_error_new("app.no_value", NULL, "alice did not come");
    fail_with(&bob, &victim);
    fail_with(&alice, &error);
    expect_root("alice");
}

/* Ten minutes ago this process was not there, so that is no time of its clock. */
Test(verdict, never_puts_a_stamp_from_before_its_process_first)
{
    struct bus *bob = must_open("bob");
    struct bus *alice = must_open("alice");
    struct bus_error *error = bus_error_new("app.bob", NULL, "first");
    struct bus_error *absurd = bus_error_new("app.alice", NULL, "ten minutes ago, it says");
    expect_code(bus_error_set_occurred(absurd, (time(NULL) - 600) * INT64_C(1000000000), 0),
                BUS_OK);
    fail_with(&bob, &error);
    fail_with(&alice, &absurd);
    expect_root("bob");
}

/* ---- a broker that is killed ----------------------------------------------------------------- */

TestSuite(verdict_restart, .init = revival_open, .fini = revival_close, .timeout = 240);

Test(verdict_restart, is_the_same_afterwards)
{
    revival_start("process", NULL);
    struct bus *alice = must_open("alice");
    struct bus *bob = must_open("bob");
    fail_blaming(alice, "app.first", "nobody");
    fail_blaming(bob, "app.second", "alice");
    struct bus_error *before = must_verdict(bob);
    cr_expect_str_eq(bus_error_type(before), "app.first");
    must_close(&alice);
    must_close(&bob);
    revival_kill();
    revival_start("process", NULL);
    expect_answer("alice", 1);
    json_t *line = ask("default", 3);
    cr_expect_str_eq(text_of(json_object_get(line, "root"), "id"), bus_error_id(before));
    json_decref(line);
    bus_error_unref(&before);
}

/* What was said is provisional, the broker ends, and what comes when it is back is the root. */
Test(verdict_restart, is_corrected_though_the_broker_ends_in_the_window)
{
    struct seen alice = {0};
    struct seen bob = {0};
    struct bus_error *root = bus_error_new("app.root", NULL, "what bob knew all along");
    struct bus_error *error = bus_error_new("app.consequence", NULL, "what alice knows");
    int64_t earlier_ns = bus_error_occurred_ns(error) - INT64_C(200000000);
    expect_code(bus_error_set_occurred(root, earlier_ns, UINT64_C(1000000000)), BUS_OK);
    revival_start("process", NULL);
    make_job(2);
    seen_open(&alice, "alice");
    seen_open(&bob, "bob");
    struct bus_tap *watch = must_tap(NULL, 1);
    (void)expect_event(watch, "job.epoch", "");
    bus_tap_close(&watch);
    bus_fail(alice.bus, error);
    expect_seen(&alice, "app.consequence");
    expect_seen(&bob, "app.consequence");
    seen_close(&alice, BUS_OK); /* so it is in the journal */
    revival_kill();
    revival_start("process", NULL);
    bus_fail(bob.bus, root);
    struct bus_error *verdict = must_verdict(bob.bus);
    cr_expect_str_eq(bus_error_type(verdict), "app.root");
    watch = must_tap(NULL, 1);
    (void)expect_event(watch, "verdict.provisional", "alice");
    (void)expect_event(watch, "verdict.final", "bob");
    (void)expect_event(watch, "job.failed", "");
    bus_tap_close(&watch);
    json_t *line = ask("default", 3);
    cr_expect_str_eq(text_of(json_object_get(line, "root"), "id"), bus_error_id(verdict));
    cr_expect_str_eq(text_of(line, "state"), "final");
    json_decref(line);
    seen_close(&bob, BUS_EFENCED);
    bus_error_unref(&verdict);
    bus_error_unref(&root);
    bus_error_unref(&error);
}

/* ---- clocks that are wrong ------------------------------------------------------------------- */

#define HOUR_NS (INT64_C(3600) * 1000000000)

/* The broker's clocks are an hour ahead of carol's, and an hour behind bob's; alice's are right. */
static const char *const broker_skew[] = {"ERRBUS_SKEW_MONOTONIC=3600", "ERRBUS_SKEW_WALL=0", NULL};
static const char *const bob_skew[] = {"ERRBUS_SKEW_MONOTONIC=7200", "ERRBUS_SKEW_WALL=3600", NULL};
static const char *const carol_skew[] = {"ERRBUS_SKEW_MONOTONIC=0", "ERRBUS_SKEW_WALL=-3600", NULL};

struct skewed {
    struct party bob;
    struct party carol;
    struct bus_tap *watch;
};

static void skewed_open(struct skewed *skewed)
{
    cr_assert(revival_start_failing("process", broker_skew, NULL));
    make_job_of(3, BUS_STRATEGY_EARLIEST);
    party_start_in(&skewed->bob, "bob", NULL, bob_skew);
    party_start_in(&skewed->carol, "carol", NULL, carol_skew);
    skewed->watch = must_tap(NULL, 1);
}

static void skewed_close(struct skewed *skewed)
{
    bus_tap_close(&skewed->watch);
    party_fini(&skewed->bob);
    party_fini(&skewed->carol);
}

/* Their clocks for people are as wrong as they are, and by the broker's all is within minutes. */
static void expect_stamps_after(const json_t *line, int64_t least_ns)
{
    size_t index;
    json_t *row;
    const json_t *root = json_object_get(line, "root");
    json_int_t root_ns = json_integer_value(json_object_get(root, "broker_ns"));
    cr_expect_gt(root_ns, least_ns, "the broker's clock is so far ahead");
    json_array_foreach(json_object_get(line, "errors"), index, row)
    {
        json_int_t stamp_ns = json_integer_value(json_object_get(row, "stamp_ns"));
        cr_expect_lt(llabs(stamp_ns - root_ns), HOUR_NS / 6, "%s", text_of(row, "party"));
        json_int_t uncertainty_ns = json_integer_value(json_object_get(row, "uncertainty_ns"));
        cr_expect_lt(uncertainty_ns, HOUR_NS / 6, "%s", text_of(row, "party"));
    }
}

static void expect_stamps(const json_t *line)
{
    expect_stamps_after(line, HOUR_NS);
}

TestSuite(verdict_clocks, .init = revival_open, .fini = revival_close, .timeout = 240);

/* Whoever witnesses a death is believed, however wrong its clocks are. */
Test(verdict_clocks, an_hour_off_do_not_hide_the_death_that_others_blame)
{
    struct skewed skewed;
    struct party alice;
    cr_assert(revival_start_failing("process", broker_skew, NULL));
    party_start(&alice, "alice", quick);
    party_start_in(&skewed.bob, "bob", NULL, bob_skew);
    party_start_in(&skewed.carol, "carol", NULL, carol_skew);
    skewed.watch = must_tap(NULL, 1);
    process_signal(&alice.process, SIGKILL);
    party_do(&skewed.bob, "OK", "fail_party app.reset connection-reset-by-peer alice");
    party_do(&skewed.carol, "OK", "fail_party app.reset connection-reset-by-peer alice");
    (void)expect_event(skewed.watch, "verdict.final", "alice");
    json_t *line = ask("default", 3);
    cr_expect_str_eq(text_of(json_object_get(line, "root"), "kind"), "party_lost");
    cr_expect_eq(json_integer_value(json_object_get(line, "victims")), 2);
    expect_stamps(line);
    json_decref(line);
    skewed_close(&skewed);
    party_fini(&alice);
}

/* The machine is started anew, or the journal goes to another one, where the monotonic clock begins
 * hours before.  What alice failed of is earlier all the same, and bob does not notice. */
Test(verdict_clocks, of_another_machine_do_not_turn_the_order_either)
{
    static const char *const old_machine[] = {"ERRBUS_SKEW_MONOTONIC=36000", NULL};
    static const char *const new_machine[] = {"ERRBUS_SKEW_MONOTONIC=0", NULL};
    struct party alice;
    struct party bob;
    cr_assert(revival_start_failing("process", old_machine, NULL));
    make_job_of(2, BUS_STRATEGY_EARLIEST);
    party_start(&alice, "alice", NULL);
    party_start(&bob, "bob", NULL);
    struct bus_tap *watch = must_tap(NULL, 1);
    (void)expect_event(watch, "job.epoch", "");
    party_do(&alice, "OK", "fail_party app.first it-broke");
    party_do(&alice, "OK", "close 20000"); /* so it is in the journal */
    (void)expect_event(watch, "verdict.provisional", "alice");
    bus_tap_close(&watch);
    revival_kill();
    cr_assert(revival_start_failing("process", new_machine, NULL));
    watch = must_tap(NULL, 1);
    (void)expect_event(watch, "verdict.provisional", "alice");
    party_do(&bob, "OK", "compute 1000");
    party_do(&bob, "OK", "fail_party app.second it-broke-too");
    const struct bus_event *event = expect_event(watch, "verdict.final", "alice");
    cr_expect_eq(bus_event_is_late(event), 0);
    bus_tap_close(&watch);
    json_t *line = ask("default", 3);
    cr_expect_str_eq(text_of(json_object_get(line, "root"), "type"), "app.first");
    cr_expect_eq(json_integer_value(json_object_get(line, "candidates")), 2);
    expect_stamps_after(line, 9 * HOUR_NS);
    json_decref(line);
    party_fini(&alice);
    party_fini(&bob);
}

/* By her own clock carol failed an hour before bob did, and she is the second. */
Test(verdict_clocks, an_hour_off_do_not_turn_the_order_of_what_happened)
{
    struct skewed skewed;
    skewed_open(&skewed);
    struct bus *alice = must_open("alice");
    (void)expect_event(skewed.watch, "job.epoch", "");
    party_do(&skewed.bob, "OK", "fail_party app.first it-broke");
    const struct bus_event *event = expect_event(skewed.watch, "party.failed", "bob");
    int64_t bob_ns = bus_error_occurred_ns(bus_event_error(event));
    party_do(&skewed.carol, "OK", "compute 1000"); /* longer than any trip that a clock goes by */
    party_do(&skewed.carol, "OK", "fail_party app.second it-broke-too");
    event = expect_event(skewed.watch, "party.failed", "carol");
    int64_t carol_ns = bus_error_occurred_ns(bus_event_error(event));
    cr_expect_gt(bob_ns - carol_ns, HOUR_NS, "by the clocks of people: %lld, %lld",
                 (long long)bob_ns, (long long)carol_ns);
    expect_code(bus_close(&alice, SOON_MS), BUS_EFENCED);
    (void)expect_event(skewed.watch, "verdict.final", "bob");
    json_t *line = ask("default", 3);
    cr_expect_str_eq(text_of(json_object_get(line, "root"), "type"), "app.first");
    cr_expect_str_eq(text_of(line, "strategy"), "earliest");
    expect_stamps(line);
    json_decref(line);
    skewed_close(&skewed);
}

/* ---- the program, where there is no verdict -------------------------------------------------- */

/* errbus verdict -j JOB FLAG ends with status, and prints said and complained somewhere. */
static void expect_outlook(const char *job, const char *flag, int status, const char *said,
                           const char *complained)
{
    const char *const argv[] = {"errbus", "verdict", "-s", stage.control, "-j", job, flag, NULL};
    struct process process;
    cr_assert(process_start(&process, argv, NULL));
    cr_expect_eq(process_wait(&process, SOON_MS), status, "%s", process_complained(&process));
    cr_expect_not_null(strstr(process_said(&process), said), "%s", process_said(&process));
    cr_expect_not_null(strstr(process_complained(&process), complained), "%s",
                       process_complained(&process));
    process_fini(&process);
}

Test(verdict, that_is_none_says_whether_the_job_goes_on_ended_or_is_not_known)
{
    struct bus *alice = must_open("alice");
    struct bus *bob = must_open("bob");
    expect_outlook("default", NULL, 8, "no verdict: job default goes on (2 running)\n", "");
    expect_outlook("default", "--json", 8, "{\"state\":\"running\",", "");
    expect_outlook("defalut", NULL, 2, "", "there is no job defalut; the jobs are default");
    expect_outlook("defalut", "--final", 2, "", "there is no job defalut; the jobs are default");
    expect_code(bus_complete(alice, SOON_MS), BUS_OK);
    expect_code(bus_close(&alice, SOON_MS), BUS_OK);
    expect_code(bus_close(&bob, SOON_MS), BUS_OK);
    expect_outlook("default", NULL, 0, "no verdict: job default ended well (1 completed, 1 left)\n",
                   "");
    expect_outlook("default", "--json", 0, "{\"state\":\"ended\",", "");
}

/* Her loss was the verdict until carol joined.  The job ended without one, but not well for all. */
Test(verdict, that_is_over_leaves_a_word_of_who_was_lost)
{
    struct party alice;
    struct bus_tap *watch = must_tap(NULL, BUS_TAP_NOW);
    party_start(&alice, "alice", quick);
    process_signal(&alice.process, SIGKILL);
    (void)expect_event(watch, "verdict.final", "alice");
    struct bus *carol = must_open("carol");
    expect_outlook("default", NULL, 8, "no verdict: job default goes on (1 running, 1 lost)\n", "");
    expect_code(bus_close(&carol, SOON_MS), BUS_OK);
    expect_outlook("default", NULL, 0,
                   "no verdict: job default ended (1 lost, 1 left); "
                   "errbus errors -j default says what went wrong\n",
                   "");
    bus_tap_close(&watch);
    party_fini(&alice);
}

/* It waits as long as the job goes on, and sees that it ends without a verdict. */
Test(verdict, that_is_awaited_ends_with_a_job_that_ends_well)
{
    struct bus *alice = must_open("alice");
    const char *const argv[] = {"errbus", "verdict", "--final", "-s", stage.control, NULL};
    struct process process;
    cr_assert(process_start(&process, argv, NULL));
    cr_expect_eq(process_wait(&process, 1500), -1, "%s", process_said(&process));
    expect_code(bus_close(&alice, SOON_MS), BUS_OK);
    cr_expect_eq(process_wait(&process, SOON_MS), 0, "%s", process_complained(&process));
    cr_expect_not_null(strstr(process_said(&process), "ended well (1 left)"), "%s",
                       process_said(&process));
    process_fini(&process);
}
