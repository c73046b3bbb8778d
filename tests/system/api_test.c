/* SPDX-License-Identifier: MPL-2.0 */
/* api_test.c -- what bus.h says of arguments, limits, timeouts, incarnations and threads, call by
 * call. */
#include "tests/lib/expect.h"

#include <criterion/criterion.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

TestSuite(api, .init = stage_open, .fini = stage_close, .timeout = 120);

/* ---- timeouts -------------------------------------------------------------------------------- */

Test(api, refuses_negative_timeouts_but_the_named_ones)
{
    struct bus *bus = must_open("alice");
    struct bus_sub *sub = must_subscribe(bus, "bob/w");
    struct bus_want want = {.topic = "bob/w"};
    struct bus_options options;
    bus_options_init(&options);
    options.party = "carol";
    const int64_t wrong[] = {BUS_SLICE, BUS_SLICE_LIMITED, BUS_SLICE_LIMITED - 1, -1000, INT64_MIN};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct bus *other = NULL;
        struct bus_slot *slot = NULL;
        struct bus_msg *msg = NULL;
        struct bus_error *error = NULL;
        expect_code_of(bus_open(stage.control, &options, wrong[i], &other, &error), BUS_EINVAL,
                       &error);
        /* These wait in slices, too. */
        enum bus_err waited = wrong[i] >= BUS_SLICE_LIMITED ? BUS_ETIMEDOUT : BUS_EINVAL;
        expect_code_of(bus_sub_recv(sub, wrong[i], &msg, &error), waited, &error);
        expect_code_of(bus_await(bus, "bob/w", 0, wrong[i], &msg, &error), waited, &error);
        expect_code_of(bus_gather(bus, &want, 1, 1, 0, wrong[i], &error), waited, &error);
        expect_code(bus_flush(bus, wrong[i]), BUS_EINVAL);
        expect_code(bus_complete(bus, wrong[i]), BUS_EINVAL);
        expect_code(bus_verdict(bus, wrong[i], &error), BUS_EINVAL);
        expect_code(bus_notice(bus, wrong[i], &error), BUS_EINVAL);
        expect_code(bus_retract(bus, "w", 0, NULL, wrong[i]), BUS_EINVAL);
        expect_code(bus_slot_reserve(bus, "w", wrong[i], &slot), BUS_EINVAL);
        struct bus_tap *tap = NULL;
        struct bus_admin *admin = NULL;
        struct bus_status *status = NULL;
        expect_code_of(bus_tap_open(stage.control, NULL, wrong[i], &tap, &error), BUS_EINVAL,
                       &error);
        expect_code_of(bus_admin_open(stage.control, NULL, wrong[i], &admin, &error), BUS_EINVAL,
                       &error);
        expect_code_of(bus_admin_status_get(stage_admin(), NULL, wrong[i], &status, &error),
                       BUS_EINVAL, &error);
    }
    struct bus_slot *slot = NULL;
    expect_code(bus_slot_reserve(bus, "w", 0, &slot), BUS_EINVAL);
    bus_sub_close(&sub);
    must_close(&bus);
}

Test(api, polls_where_the_timeout_is_zero)
{
    struct bus *bus = must_open("alice");
    struct bus_sub *sub = must_subscribe(bus, "bob/w");
    struct bus_want want = {.topic = "bob/w"};
    struct bus_msg *msg = NULL;
    struct bus_error *error = NULL;
    int64_t start_ms = test_now_ms();
    for (int i = 0; i < 100; i++) {
        expect_code_of(bus_sub_recv(sub, BUS_POLL, &msg, &error), BUS_ETIMEDOUT, &error);
        expect_code_of(bus_await(bus, "bob/w", 0, BUS_POLL, &msg, &error), BUS_ETIMEDOUT, &error);
        expect_code_of(bus_gather(bus, &want, 1, 1, 0, BUS_POLL, &error), BUS_ETIMEDOUT, &error);
        expect_code(bus_verdict(bus, BUS_POLL, &error), BUS_ETIMEDOUT);
        expect_code(bus_refusal(bus, &error), BUS_ETIMEDOUT);
        expect_code(bus_notice(bus, BUS_POLL, &error), BUS_ETIMEDOUT);
    }
    cr_expect_lt(test_now_ms() - start_ms, AT_ONCE_MS);
    start_ms = test_now_ms();
    expect_code_of(bus_sub_recv(sub, 150, &msg, &error), BUS_ETIMEDOUT, &error);
    int64_t took_ms = test_now_ms() - start_ms;
    cr_expect(took_ms >= 149 && took_ms < 150 + AT_ONCE_MS, "%lld ms", (long long)took_ms);
    bus_sub_close(&sub);
    must_close(&bus);
}

/* ---- limits ---------------------------------------------------------------------------------- */

static char *name_of(size_t bytes, char *text)
{
    memset(text, 'n', bytes);
    text[bytes] = '\0';
    return text;
}

static enum bus_err try_open(const char *job, const char *party)
{
    struct bus_options options;
    struct bus *bus = NULL;
    struct bus_error *error = NULL;
    bus_options_init(&options);
    options.job = job;
    options.party = party;
    enum bus_err err = bus_open(stage.control, &options, SOON_MS, &bus, &error);
    if (err == BUS_OK) {
        cr_assert_str_eq(bus_party(bus), party);
        cr_assert_str_eq(bus_job(bus), job);
        must_close(&bus);
    }
    bus_error_unref(&error);
    return err;
}

Test(api, holds_names_to_their_limit)
{
    char text[BUS_NAME_BYTES_MAX + 2];
    for (size_t bytes = BUS_NAME_BYTES_MAX - 1; bytes <= BUS_NAME_BYTES_MAX + 1; bytes++) {
        enum bus_err due = bytes <= BUS_NAME_BYTES_MAX ? BUS_OK : BUS_EINVAL;
        expect_code(try_open("job", name_of(bytes, text)), due);
        expect_code(try_open(name_of(bytes, text), "party"), due);
    }
    static const char *const wrong[] = {"", "a\nb", "a\x7f", "\xc3\x28", "\xed\xa0\x80"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        expect_code(try_open("job", wrong[i]), BUS_EINVAL);
        expect_code(try_open(wrong[i], "party"), BUS_EINVAL);
    }
    static const char *const topical[] = {"a/b", "+", "a#"};
    for (size_t i = 0; i < sizeof topical / sizeof topical[0]; i++) {
        struct bus_tap_options options;
        struct bus_tap *tap = NULL;
        struct bus_status *status = NULL;
        expect_code(try_open("job", topical[i]), BUS_EINVAL);
        expect_code(try_open(topical[i], "party"), BUS_EINVAL);
        bus_tap_options_init(&options);
        options.job = topical[i];
        expect_code(bus_tap_open(stage.control, &options, SOON_MS, &tap, NULL), BUS_EINVAL);
        expect_code(bus_admin_status_get(stage_admin(), topical[i], SOON_MS, &status, NULL),
                    BUS_EINVAL);
    }
    expect_code(try_open("job", "Zo\xc3\xab"), BUS_OK);
}

/* The whole topic counts, "alice/" included. */
Test(api, holds_topics_to_their_limit)
{
    struct bus *alice = must_open("alice");
    struct bus *bob = must_open("bob");
    char text[BUS_NAME_BYTES_MAX + 2];
    char whole[BUS_NAME_BYTES_MAX + 8];
    for (size_t bytes = BUS_NAME_BYTES_MAX - 1; bytes <= BUS_NAME_BYTES_MAX + 1; bytes++) {
        enum bus_err due = bytes <= BUS_NAME_BYTES_MAX ? BUS_OK : BUS_EINVAL;
        expect_code(bus_publish(alice, name_of(bytes - 6, text), "x", 1), due);
        snprintf(whole, sizeof whole, "alice/%s", text);
        struct bus_msg *msg = NULL;
        struct bus_error *error = NULL;
        enum bus_err err = bus_await(bob, whole, 0, SOON_MS, &msg, &error);
        expect_code_of(err, due, &error);
        bus_msg_free(&msg);
    }
    /* Sixteen levels. */
    for (int levels = 15; levels <= 17; levels++) {
        char deep[64] = "alice";
        for (int i = 1; i < levels; i++) {
            snprintf(deep + 5 + 2 * (i - 1), 3, "/l");
        }
        expect_code(bus_publish(alice, deep, "x", 1), levels <= 16 ? BUS_OK : BUS_EINVAL);
    }
    must_flush(alice);
    must_close(&alice);
    must_close(&bob);
}

/* 64 patterns of a subscription, 65536 wants of a call, 16 causes of an error that travels. */
Test(api, holds_numbers_and_deadlines_to_their_limits)
{
    static const struct {
        int64_t seq;
        int64_t deadline_ms;
        enum bus_err due;
    } rows[] = {
        {-2, BUS_FOREVER, BUS_EINVAL},
        {0, BUS_FOREVER, BUS_OK},
        {INT64_MAX - 1, BUS_FOREVER, BUS_OK},
        {INT64_MAX, BUS_FOREVER, BUS_EINVAL},
        {BUS_NEXT, -2, BUS_EINVAL},
        {BUS_NEXT, 0, BUS_EINVAL},
        {BUS_NEXT, 1, BUS_OK},
        {BUS_NEXT, INT64_C(86400000), BUS_OK},
        {BUS_NEXT, INT64_C(86400001), BUS_EINVAL},
    };
    struct bus *alice = must_open("alice");
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct bus_slot_options options;
        struct bus_slot *slot = NULL;
        struct bus_error *error = NULL;
        char topic[8];
        snprintf(topic, sizeof topic, "w%zu", i);
        bus_slot_options_init(&options);
        options.seq = rows[i].seq;
        options.deadline_ms = rows[i].deadline_ms;
        enum bus_err err = bus_slot_reserve_with(alice, topic, &options, &slot, &error);
        cr_expect_eq(err, rows[i].due, "row %zu: %s", i, code_name(err));
        if (err == BUS_EINVAL) {
            cr_expect_str_eq(bus_error_type(error), "errbus.argument");
        }
        bus_error_unref(&error);
        bus_slot_fail(&slot, NULL);
    }

    /* The last number can be waited for, and nothing comes behind it. */
    struct bus_error *error = expect_await_failed(alice, "alice/w2", INT64_MAX - 1, "application");
    cr_expect_str_neq(bus_error_message(error), "");
    bus_error_unref(&error);
    struct bus_msg *msg = NULL;
    enum bus_err err = bus_await(alice, "alice/w2", INT64_MAX, BUS_POLL, &msg, &error);
    cr_expect_str_eq(bus_error_type(error), "errbus.argument");
    expect_code_of(err, BUS_EINVAL, &error);
    struct bus_want want = {.topic = "alice/w2", .seq = INT64_MAX};
    expect_code(bus_gather(alice, &want, 1, 1, 0, BUS_POLL, NULL), BUS_EINVAL);
    expect_code(bus_publish(alice, "w2", "x", 1), BUS_EFULL);
    error = bus_last_error();
    cr_expect_str_eq(bus_error_type(error), "errbus.never_fits");
    bus_error_unref(&error);
    bus_close(&alice, SOON_MS);
}

Test(api, holds_counts_to_their_limits)
{
    struct bus *alice = must_open("alice");
    struct bus_sub *sub = must_subscribe(alice, "bob/w0");
    struct bus_error *error = NULL;
    struct bus_msg *msg = NULL;
    for (int patterns = 2; patterns <= 65; patterns++) {
        char pattern[32];
        snprintf(pattern, sizeof pattern, "bob/w%d", patterns - 1);
        expect_code(bus_sub_add(sub, pattern), BUS_OK); /* a refusal is what a receive returns */
        must_flush(alice);
        enum bus_err err = bus_sub_recv(sub, BUS_POLL, &msg, &error);
        expect_code_of(err, patterns <= 64 ? BUS_ETIMEDOUT : BUS_EFULL, &error);
    }
    expect_code_of(bus_sub_recv(sub, BUS_FOREVER, &msg, &error), BUS_EFULL, &error);

    static struct bus_want wants[65537];
    for (size_t i = 0; i < 65537; i++) {
        wants[i] = (struct bus_want){.topic = "bob/w", .seq = i};
    }
    for (size_t count = 65535; count <= 65537; count++) {
        enum bus_err err = bus_gather(alice, wants, count, count, 0, BUS_POLL, &error);
        expect_code_of(err, count <= 65536 ? BUS_ETIMEDOUT : BUS_EINVAL, &error);
    }

    /* As many causes as one likes, of which sixteen travel. */
    for (int causes = 15; causes <= 17; causes++) {
        struct bus_slot *slot = must_reserve(alice, "w");
        error = bus_error_new("app.effect", NULL, "x");
        for (int i = 1; i <= causes; i++) {
            struct bus_error *cause = bus_error_new("app.cause", NULL, "%d", i);
            expect_code(bus_error_add_cause(error, cause), BUS_OK);
            bus_error_unref(&cause);
        }
        uint64_t seq = bus_slot_seq(slot);
        bus_slot_fail(&slot, error);
        bus_error_unref(&error);
        error = expect_await_failed(alice, "alice/w", seq, "application");
        size_t arrived = 0;
        while (bus_error_cause_at(error, arrived) != NULL) {
            arrived++;
        }
        cr_expect_eq(arrived, causes <= 16 ? (size_t)causes : 16);
        cr_expect_str_eq(bus_error_message(bus_error_cause(error)), "1");
        bus_error_unref(&error);
    }
    bus_sub_close(&sub);
    must_close(&alice);
}

Test(api, refuses_topics_and_patterns_that_are_none)
{
    static const char *const no_topics[] = {"",    "/", "a/", "/a",   "a//b",
                                            "a/+", "#", "+",  "a\nb", "\xff"};
    static const char *const no_patterns[] = {"",  "a//b", "a/#/b", "a#", "a",
                                              "+", "a/b+", "/a",    "a/", "\xff"};
    static const char *const patterns[] = {"#", "+/+", "a/#", "a/+/b", "+/w", "alice/w"};
    struct bus *alice = must_open("alice");
    for (size_t i = 0; i < sizeof no_topics / sizeof no_topics[0]; i++) {
        struct bus_slot *slot = NULL;
        enum bus_err err = bus_publish(alice, no_topics[i], "x", 1);
        cr_expect_eq(err, BUS_EINVAL, "publish '%s': %s", no_topics[i], code_name(err));
        err = bus_slot_reserve(alice, no_topics[i], BUS_FOREVER, &slot);
        cr_expect_eq(err, BUS_EINVAL, "reserve '%s': %s", no_topics[i], code_name(err));
    }
    for (size_t i = 0; i < sizeof no_patterns / sizeof no_patterns[0]; i++) {
        struct bus_sub *sub = NULL;
        enum bus_err err = bus_sub_open(alice, no_patterns[i], NULL, &sub);
        cr_expect_eq(err, BUS_EINVAL, "subscribe '%s': %s", no_patterns[i], code_name(err));
    }
    for (size_t i = 0; i < sizeof patterns / sizeof patterns[0]; i++) {
        struct bus_sub *sub = must_subscribe(alice, patterns[i]);
        bus_sub_close(&sub);
    }
    must_close(&alice);
}

/* The last error of this thread says what to write instead. */
static void expect_refused_topic(enum bus_err err)
{
    struct bus_error *error = bus_last_error();
    expect_code(err, BUS_EDENIED);
    cr_expect_str_eq(bus_error_type(error), "errbus.not_yours");
    cr_expect(strstr(bus_error_message(error), "is 'alice/") != NULL, "%s",
              bus_error_message(error));
    bus_error_unref(&error);
}

Test(api, knows_ones_own_topic_by_either_name)
{
    struct bus *alice = must_open("alice");
    must_publish(alice, "w", "short");
    must_publish(alice, "alice/w", "whole");
    expect_awaited(alice, "alice/w", 0, "short");
    expect_awaited(alice, "alice/w", 1, "whole");

    must_publish(alice, "alice/bob/w", "levels");
    expect_awaited(alice, "alice/bob/w", 0, "levels");

    /* A name with levels is whole: what looks like bob's topic is not taken for one of alice. */
    struct bus *bob = must_open("bob");
    struct bus_slot *slot = NULL;
    struct bus_msg *msg = NULL;
    struct bus_error *error = NULL;
    uint64_t seq = 0;
    expect_refused_topic(bus_publish(alice, "bob/w", "x", 1));
    expect_refused_topic(bus_publish_many(alice, "bob/w", &(struct bus_value){"x", 1}, 1));
    expect_refused_topic(bus_slot_reserve(alice, "bob/w", BUS_FOREVER, &slot));
    expect_refused_topic(bus_request(alice, "bob/w", "x", 1, BUS_FOREVER, &seq));
    expect_refused_topic(bus_retract(alice, "bob/w", 0, NULL, SOON_MS));
    expect_refused_topic(bus_publish(alice, "alices/w", "x", 1));
    expect_code_of(bus_await(bob, "bob/w", 0, BUS_POLL, &msg, &error), BUS_ETIMEDOUT, &error);
    must_close(&alice);
    must_close(&bob);
}

static void expect_last(enum bus_err err, enum bus_err expected, const char *text)
{
    struct bus_error *error = bus_last_error();
    expect_code(err, expected);
    cr_expect(strstr(bus_error_message(error), text) != NULL, "'%s' has no '%s'",
              bus_error_message(error), text);
    bus_error_unref(&error);
}

static void *ask_last(void *arg)
{
    (void)arg;
    return bus_last_error();
}

Test(api, tells_why_a_call_without_an_error_failed)
{
    struct bus *alice = must_open("alice");
    struct bus_sub *sub = NULL;
    struct bus_sub_options options;
    struct bus_error *error = NULL;
    pthread_t other;
    void *of_other = &other;
    bus_sub_options_init(&options);
    options.keep_ms = -1;
    expect_last(bus_sub_open(alice, "bob/#/x", NULL, &sub), BUS_EINVAL, "'bob/#/x'");
    expect_last(bus_sub_open(alice, "bob/#", &options, &sub), BUS_EINVAL, "keep_ms");
    expect_last(bus_publish(alice, "a+b", "x", 1), BUS_EINVAL, "'a+b'");
    expect_last(bus_publish(alice, "w", "x", (size_t)3 << 30), BUS_ETOOBIG, "3221225472 bytes");
    expect_last(bus_refusal(alice, &error), BUS_ETIMEDOUT, "timeout");
    struct bus_slot *slot = must_reserve(alice, "w");
    expect_last(bus_complete(alice, SOON_MS), BUS_EINVAL, "alice cannot complete");
    expect_last(bus_slot_commit(&slot, "x", (size_t)3 << 30), BUS_ETOOBIG, "3221225472 bytes");
    must_commit(&slot, "x");
    expect_last(bus_open(NULL, NULL, -2, &alice, NULL), BUS_EINVAL, "bus_open()");
    cr_assert_eq(pthread_create(&other, NULL, ask_last, NULL), 0);
    cr_assert_eq(pthread_join(other, &of_other), 0);
    cr_expect_null(of_other, "each thread has its own");
    expect_code(bus_complete(alice, SOON_MS), BUS_OK);
    expect_last(bus_publish(alice, "w", "x", 1), BUS_EENDED, "alice has completed");
    must_close(&alice);
}

Test(api, refuses_options_of_another_shape)
{
    struct {
        struct bus_options known;
        int64_t unknown;
    } larger;
    struct bus *bus = NULL;
    struct bus_error *error = NULL;
    bus_options_init_sized(&larger.known, sizeof larger);
    larger.unknown = 0;
    larger.known.party = "alice";
    expect_code_of(bus_open(stage.control, &larger.known, SOON_MS, &bus, &error), BUS_OK, &error);
    must_close(&bus);
    larger.unknown = 1;
    expect_code_of(bus_open(stage.control, &larger.known, SOON_MS, &bus, &error), BUS_EINVAL,
                   &error);

    struct bus_options options;
    memset(&options, 0, sizeof options);
    expect_code_of(bus_open(stage.control, &options, SOON_MS, &bus, &error), BUS_EINVAL, &error);
    bus_options_init(&options);
    options.lost_after_ms = 2 * options.heartbeat_ms;
    expect_code_of(bus_open(stage.control, &options, SOON_MS, &bus, &error), BUS_EINVAL, &error);
    bus_options_init(&options);
    options.heartbeat_ms = 0;
    expect_code_of(bus_open(stage.control, &options, SOON_MS, &bus, &error), BUS_EINVAL, &error);
    bus_options_init(&options);
    expect_code_of(bus_open("nonsense", &options, SOON_MS, &bus, &error), BUS_EINVAL, &error);
}

/* The broker says it, or the call itself. */
Test(api, tells_why_a_question_of_operators_failed)
{
    struct bus_error *error = NULL;
    expect_last(bus_admin_job_cancel(stage_admin(), "no-such-job", NULL, SOON_MS, NULL), BUS_EINVAL,
                "no-such-job");
    expect_code(bus_admin_job_cancel(stage_admin(), "nor-this", NULL, SOON_MS, &error), BUS_EINVAL);
    struct bus_error *last = bus_last_error();
    cr_expect_not_null(strstr(bus_error_message(last), "no-such-job"), "the newest has a place");
    bus_error_unref(&last);
    bus_error_unref(&error);
}

/* No topic matches a pattern of one level.  Whoever gives one is told what a topic is. */
static void expect_one_level_refused(struct bus *bus, const struct bus_sub_options *options)
{
    struct bus_sub *sub = NULL;
    expect_code(bus_sub_open(bus, "hello", options, &sub), BUS_EINVAL);
    struct bus_error *why = bus_last_error();
    cr_expect_not_null(strstr(bus_error_message(why), "did you mean '+/hello'?"), "%s",
                       bus_error_message(why));
    bus_error_unref(&why);
}

Test(api, refuses_a_pattern_of_one_level)
{
    struct bus *alice = must_open("alice");
    struct bus_sub *sub = must_subscribe(alice, "#");
    expect_one_level_refused(alice, NULL);
    expect_code(bus_sub_add(sub, "hello"), BUS_EINVAL);
    bus_sub_close(&sub);
    must_close(&alice);
}

Test(api, refuses_groups_and_requests_that_are_none)
{
    struct bus *alice = must_open("alice");
    struct bus_sub_options options;
    struct bus_sub *sub = NULL;
    struct bus_msg *none = NULL;
    uint64_t seq = 0;
    bus_sub_options_init(&options);
    options.group = "a/b";
    expect_code(bus_sub_open(alice, "bob/w", &options, &sub), BUS_EINVAL);
    options.group = "workers";
    options.name = "mine";
    expect_code(bus_sub_open(alice, "bob/w", &options, &sub), BUS_EINVAL);
    options.name = NULL;
    options.credit = 1025;
    expect_code(bus_sub_open(alice, "bob/w", &options, &sub), BUS_EINVAL);
    options.credit = 1024;
    options.deliver_max = 17;
    expect_code(bus_sub_open(alice, "bob/w", &options, &sub), BUS_EINVAL);
    options.deliver_max = 16;
    options.overflow = BUS_OVERFLOW_GAP;
    expect_code(bus_sub_open(alice, "bob/w", &options, &sub), BUS_EINVAL);
    options.overflow = BUS_OVERFLOW_BLOCK;
    expect_one_level_refused(alice, &options);
    expect_code(bus_request(alice, "work", "x", 1, 0, &seq), BUS_EINVAL);
    expect_last(bus_request(alice, "_replies", "x", 1, 1000, &seq), BUS_EINVAL,
                "'_replies' has the replies to the requests of alice");
    expect_last(bus_request(alice, "w", NULL, 1, 1000, &seq), BUS_EINVAL, "bus_request()");
    expect_code(bus_msg_reply(&none, "x", 1), BUS_EINVAL);
    cr_expect_str_eq(bus_replies(alice), "alice/_replies");
    must_close(&alice);
}

/* ---- signals --------------------------------------------------------------------------------- */

static atomic_int signals;

static void count_signal(int number)
{
    (void)number;
    atomic_fetch_add(&signals, 1);
}

/* Nor is one delivered to a thread of the library: it waits for one that takes it. */
Test(api, ends_no_wait_at_a_signal)
{
    struct sigaction action = {.sa_handler = count_signal}; /* without SA_RESTART */
    struct bus *alice = must_open("alice");
    struct bus *bob = must_open("bob");
    struct waiter awaiting = {.bus = bob, .topic = "alice/w"};
    struct waiter receiving = {.sub = must_subscribe(bob, "alice/w")};
    sigaction(SIGUSR1, &action, NULL);
    waiter_start(&awaiting);
    waiter_start(&receiving);
    for (int count = 1; count <= 20; count++) {
        cr_assert_eq(pthread_kill(awaiting.thread, SIGUSR1), 0);
        cr_assert_eq(pthread_kill(receiving.thread, SIGUSR1), 0);
        must_flush(alice); /* some time, in which they are delivered */
    }
    int64_t until_ms = test_now_ms() + SOON_MS;
    while (atomic_load(&signals) < 2 && test_now_ms() < until_ms) {
        must_flush(alice);
    }
    cr_expect_geq(atomic_load(&signals), 2);
    must_publish(alice, "w", "worth waiting for");
    waiter_join(&awaiting);
    waiter_join(&receiving);
    expect_code(awaiting.err, BUS_OK);
    expect_code(receiving.err, BUS_OK);

    sigset_t blocked;
    sigset_t pending;
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGUSR2);
    sigaction(SIGUSR2, &action, NULL);
    cr_assert_eq(pthread_sigmask(SIG_BLOCK, &blocked, NULL), 0);
    atomic_store(&signals, 0);
    kill(getpid(), SIGUSR2);
    struct bus *both[] = {alice, bob};
    for (int i = 0; i < 20; i++) { /* each thread of theirs has something to do */
        must_publish(both[i % 2], "busy", "x");
        must_flush(both[i % 2]);
    }
    sigpending(&pending);
    cr_expect(sigismember(&pending, SIGUSR2), "another thread than ours took it");
    cr_expect_eq(atomic_load(&signals), 0);
    waiter_fini(&awaiting);
    waiter_fini(&receiving);
    bus_sub_close(&receiving.sub);
    must_close(&alice);
    must_close(&bob);
}

/* ---- many at once ---------------------------------------------------------------------------- */

Test(api, publishes_many_at_the_price_of_one)
{
    struct bus *alice = must_open("alice");
    struct bus *bob = must_open("bob");
    struct bus_sub *sub = must_subscribe(bob, "alice/w");
    enum { MANY = 200 }; /* more than the library keeps on its stack */
    struct bus_value values[MANY];
    char texts[MANY][8];
    for (size_t i = 0; i < MANY; i++) {
        snprintf(texts[i], sizeof texts[i], "v%zu", i);
        values[i] = (struct bus_value){texts[i], strlen(texts[i])};
    }
    expect_code(bus_publish_many(alice, "w", values, MANY), BUS_OK);
    expect_code(bus_publish_many(alice, "w", values, 0), BUS_OK);
    for (size_t i = 0; i < MANY; i++) {
        expect_value(sub, "alice/w", i, "%s", texts[i]);
    }
    values[50].data = NULL;
    expect_code(bus_publish_many(alice, "w", values, MANY), BUS_EINVAL);
    expect_nothing(bob, sub);
    bus_sub_close(&sub);
    must_close(&alice);
    must_close(&bob);
}

/* Ten values of 1 MiB are more than the broker lets a writer be ahead. */
Test(api, publishes_a_set_that_needs_more_than_the_window_of_a_topic)
{
    enum { COUNT = 10, BYTES = 1 << 20 };
    struct bus_options options;
    struct bus_value values[COUNT];
    char *bytes = calloc(1, BYTES);
    cr_assert_not_null(bytes);
    for (size_t i = 0; i < COUNT; i++)
        values[i] = (struct bus_value){bytes, BYTES};
    bus_options_init(&options);
    options.party = "alice";
    options.send_timeout_ms = BUS_FOREVER;
    struct bus *alice = must_open_with(&options);
    struct bus *bob = must_open("bob");
    expect_code(bus_publish_many(alice, "w", values, COUNT), BUS_OK);
    expect_code(bus_publish_many(alice, "w", values, COUNT), BUS_OK);
    expect_code(bus_flush(alice, SOON_MS), BUS_OK);
    struct bus_sub *sub = must_subscribe(bob, "alice/read");
    for (int round = 0; round < 2; round++) {
        expect_code(bus_publish_many(alice, "read", values, COUNT), BUS_OK);
        for (size_t i = 0; i < COUNT; i++) {
            struct bus_msg *msg = NULL;
            expect_code(bus_sub_recv(sub, SOON_MS, &msg, NULL), BUS_OK);
            cr_expect_eq(bus_msg_seq(msg), (uint64_t)round * COUNT + i);
            bus_msg_free(&msg);
        }
    }
    free(bytes);
    bus_sub_close(&sub);
    must_close(&alice);
    must_close(&bob);
}

/* Values "v00" up to "v99", from the first on. */
static void publish_numbered(struct bus *bus, size_t first, size_t count)
{
    struct bus_value values[100];
    char texts[100][8];
    for (size_t i = 0; i < count; i++) {
        snprintf(texts[i], sizeof texts[i], "v%02zu", first + i);
        values[i] = (struct bus_value){texts[i], strlen(texts[i])};
    }
    expect_code(bus_publish_many(bus, "w", values, count), BUS_OK);
}

/* One message with so many of them; seq: of the first. */
static void expect_many(struct bus_sub *sub, uint64_t seq, size_t first, size_t count)
{
    struct bus_msg *msg = NULL;
    struct bus_error *error = NULL;
    size_t bytes = 0;
    size_t stride = 0;
    expect_code_of(bus_sub_recv_many(sub, SOON_MS, &msg, &error), BUS_OK, &error);
    const char *value = bus_msg_value(msg, &bytes);
    cr_assert_eq(bus_msg_count(msg, &stride), count, "%zu", bus_msg_count(msg, NULL));
    cr_expect_str_eq(bus_msg_topic(msg), "alice/w");
    cr_expect_eq(bus_msg_seq(msg), seq);
    cr_expect_eq(bytes, 3);
    cr_expect_eq(stride, 8);
    cr_expect_eq((uintptr_t)value % 8, 0);
    for (size_t i = 0; i < count; i++) {
        char text[8];
        snprintf(text, sizeof text, "v%02zu", first + i);
        cr_expect_eq(memcmp(value + i * stride, text, bytes), 0);
    }
    bus_msg_free(&msg);
}

Test(api, receives_what_came_together_as_one)
{
    struct bus *alice = must_open("alice");
    struct bus *bob = must_open("bob");
    struct bus_sub *sub = must_subscribe(bob, "alice/w");
    struct bus_msg *msg = NULL;
    struct bus_error *error = NULL;
    uint64_t seq = 0;
    publish_numbered(alice, 0, 100);
    expect_many(sub, 0, 0, 100);
    struct bus_slot *slot = must_reserve(alice, "w");
    fail_slot(&slot, "app.broken", "no");
    publish_numbered(alice, 10, 20);
    expect_code_of(bus_sub_recv_many(sub, SOON_MS, &msg, &error), BUS_EFAILED, &error);
    cr_expect_str_eq(bus_sub_slot(sub, &seq), "alice/w");
    cr_expect_eq(seq, 100);
    expect_many(sub, 101, 10, 20);
    /* What was ready for one by one is given so. */
    publish_numbered(alice, 30, 3);
    expect_value(sub, "alice/w", 121, "v30");
    expect_many(sub, 122, 31, 1);
    expect_many(sub, 123, 32, 1);
    publish_numbered(alice, 40, 2);
    expect_many(sub, 124, 40, 2);
    expect_code(bus_sub_recv_many(sub, 0, &msg, NULL), BUS_ETIMEDOUT);
    expect_code(bus_sub_recv_many(sub, 0, NULL, NULL), BUS_EINVAL);
    bus_sub_close(&sub);
    must_close(&alice);
    must_close(&bob);
}

Test(api, gathers_all_or_enough_or_the_first)
{
    struct bus *alice = must_open("alice");
    struct bus *bob = must_open("bob");
    struct bus_want wants[4];
    struct bus_error *error = NULL;
    char topics[4][16];
    for (size_t i = 0; i < 4; i++) {
        snprintf(topics[i], sizeof topics[i], "alice/w%zu", i);
        wants[i] = (struct bus_want){.topic = topics[i], .seq = 0};
    }
    must_publish(alice, "w0", "zero");
    must_publish(alice, "w1", "one");
    struct bus_slot *slot = must_reserve(alice, "w2");
    struct bus_slot *open = must_reserve(alice, "w3");
    fail_slot(&slot, "app.two", "no");
    must_flush(alice);

    /* All of four, but three must do: the last is still out. */
    expect_code_of(bus_gather(bob, wants, 4, 4, 1, 300, &error), BUS_ETIMEDOUT, &error);
    cr_expect_not_null(wants[0].msg);
    cr_expect_not_null(wants[1].msg);
    cr_expect_not_null(wants[2].error);
    cr_expect(wants[3].msg == NULL && wants[3].error == NULL);
    must_commit(&open, "three");
    expect_code_of(bus_gather(bob, wants, 4, 4, 1, SOON_MS, &error), BUS_OK, &error);
    expect_message(wants[3].msg, "three");
    bus_wants_free(wants, 4);

    /* All or nothing. */
    for (size_t i = 0; i < 4; i++) {
        wants[i] = (struct bus_want){.topic = topics[i], .seq = 0};
    }
    enum bus_err err = bus_gather(bob, wants, 4, 4, 0, SOON_MS, &error);
    expect_code(err, BUS_EFAILED);
    cr_expect_not_null(bus_error_find(error, "app.two"));
    bus_error_unref(&error);
    bus_wants_free(wants, 4);

    /* The first that comes, of one that is there and one that never will be. */
    wants[0] = (struct bus_want){.topic = "alice/never"};
    wants[1] = (struct bus_want){.topic = "alice/w1"};
    expect_code_of(bus_gather(bob, wants, 2, 1, 1, SOON_MS, &error), BUS_OK, &error);
    cr_expect(wants[0].msg == NULL && wants[0].error == NULL);
    expect_message(wants[1].msg, "one");
    bus_wants_free(wants, 2);
    must_close(&alice);
    must_close(&bob);
}

Test(api, adds_patterns_to_one_queue_and_repeats_nothing)
{
    struct bus *alice = must_open("alice");
    struct bus *bob = must_open("bob");
    struct bus_sub *sub = must_subscribe(bob, "alice/w");
    expect_code(bus_sub_add(sub, "alice/v"), BUS_OK);
    expect_code(bus_sub_add(sub, "alice/+"), BUS_OK);
    must_flush(bob);
    must_publish(alice, "w", "w");
    expect_value(sub, "alice/w", 0, "w");
    must_publish(alice, "v", "v");
    expect_value(sub, "alice/v", 0, "v");
    must_publish(alice, "u", "u");
    expect_value(sub, "alice/u", 0, "u");
    must_flush(alice);
    expect_nothing(bob, sub);
    bus_sub_close(&sub);
    must_close(&alice);
    must_close(&bob);
}

Test(api, matches_patterns_as_mqtt_does)
{
    static const struct {
        const char *pattern;
        bool is_matched[3]; /* "w", "a/w", "a/b/w" of alice */
    } cases[] = {
        {"alice/#", {true, true, true}},     {"#", {true, true, true}},
        {"alice/+", {true, false, false}},   {"alice/+/w", {false, true, false}},
        {"+/+/+/w", {false, false, true}},   {"alice/a/#", {false, true, true}},
        {"alice/w/#", {true, false, false}}, {"+/w", {true, false, false}},
        {"bob/#", {false, false, false}},    {"alice/wa", {false, false, false}},
    };
    static const char *const names[] = {"alice/w", "alice/a/w", "alice/a/b/w"};
    struct bus *alice = must_open("alice");
    struct bus *bob = must_open("bob");
    for (size_t i = 0; i < 3; i++) {
        must_publish(alice, names[i], "%s", names[i]);
    }
    must_flush(alice);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct bus_sub *sub = must_subscribe(bob, cases[i].pattern);
        bool is_matched[3] = {false, false, false};
        size_t due = 0;
        for (size_t k = 0; k < 3; k++) {
            due += cases[i].is_matched[k];
        }
        for (size_t k = 0; k < due; k++) {
            struct bus_msg *msg = NULL;
            struct bus_error *error = NULL;
            enum bus_err err = bus_sub_recv(sub, SOON_MS, &msg, &error);
            cr_assert_eq(err, BUS_OK, "%s: %s", cases[i].pattern, code_name(err));
            for (size_t n = 0; n < 3; n++) {
                is_matched[n] |= strcmp(bus_msg_topic(msg), names[n]) == 0;
            }
            bus_msg_free(&msg);
        }
        expect_nothing(bob, sub);
        cr_expect_eq(memcmp(is_matched, cases[i].is_matched, sizeof is_matched), 0, "%s",
                     cases[i].pattern);
        bus_sub_close(&sub);
    }
    must_close(&alice);
    must_close(&bob);
}

/* ---- incarnations and threads ----------------------------------------------------------------*/

Test(api, lets_things_outlive_their_bus)
{
    struct bus *alice = must_open("alice");
    struct bus *bob = must_open("bob");
    struct bus_sub *sub = must_subscribe(bob, "alice/w");
    struct bus_slot *slot = must_reserve(alice, "v");
    struct bus_msg *msg = NULL;
    struct bus_msg *other = NULL;
    struct bus_error *error = NULL;
    must_publish(alice, "w", "held");
    expect_code(bus_sub_recv(sub, SOON_MS, &msg, &error), BUS_OK);
    bus_close(&alice, SOON_MS);
    must_close(&bob);

    expect_message(msg, "held");
    cr_expect_str_eq(bus_msg_topic(msg), "alice/w");
    cr_expect_eq(bus_msg_delivery(msg), 1);
    bus_msg_free(&msg);
    expect_code_of(bus_sub_recv(sub, BUS_FOREVER, &other, &error), BUS_ECLOSED, &error);
    cr_expect_eq(bus_slot_seq(slot), 0);
    expect_code(bus_slot_commit(&slot, "x", 1), BUS_ECLOSED);
    bus_slot_fail(&slot, NULL);
    bus_sub_close(&sub);
    cr_expect_null(sub);
}

Test(api, takes_null_where_nothing_is_there)
{
    struct bus *no_bus = NULL;
    struct bus_sub *no_sub = NULL;
    struct bus_msg *no_msg = NULL;
    struct bus_slot *no_slot = NULL;
    struct bus_error *no_error = NULL;
    struct bus_tap *no_tap = NULL;
    struct bus_status *no_status = NULL;
    expect_code(bus_close(&no_bus, BUS_FOREVER), BUS_OK);
    bus_sub_close(&no_sub);
    bus_sub_drop(&no_sub);
    bus_msg_free(&no_msg);
    bus_msg_return(&no_msg);
    bus_slot_fail(&no_slot, NULL);
    bus_error_unref(&no_error);
    bus_tap_close(&no_tap);
    bus_status_free(&no_status);
    bus_wants_free(NULL, 0);
    cr_expect_null(bus_error_ref(NULL));
    cr_expect_str_neq(bus_strerror(BUS_OK), "");
    cr_expect_not_null(bus_strerror((enum bus_err)12345));
    char version[32];
    snprintf(version, sizeof version, "%d.%d.%d", BUS_VERSION_MAJOR, BUS_VERSION_MINOR,
             BUS_VERSION_PATCH);
    cr_expect_str_eq(bus_version(), version);
}

Test(api, ends_every_wait_when_stopped_and_settles_still)
{
    struct bus *alice = must_open("alice");
    struct bus *bob = must_open("bob");
    struct bus_slot *slots[2] = {must_reserve(alice, "w"), must_reserve(alice, "w")};
    struct waiter receiving = {.sub = must_subscribe(alice, "bob/w"), .timeout_ms = BUS_FOREVER};
    struct waiter awaiting = {.bus = alice, .topic = "bob/w", .timeout_ms = BUS_FOREVER};
    waiter_start(&receiving);
    waiter_start(&awaiting);
    bus_stop(alice);
    waiter_join(&receiving);
    waiter_join(&awaiting);
    expect_code(receiving.err, BUS_ECLOSED);
    expect_code(awaiting.err, BUS_ECLOSED);
    cr_expect_not_null(receiving.error);
    cr_expect_not_null(awaiting.error);

    struct bus_slot *more = NULL;
    expect_code(bus_slot_reserve(alice, "w", BUS_FOREVER, &more), BUS_ECLOSED);
    must_commit(&slots[0], "still kept");
    fail_slot(&slots[1], "app.leaving", "told to stop");
    must_flush(alice);
    expect_awaited(bob, "alice/w", 0, "still kept");
    struct bus_error *error = expect_await_failed(bob, "alice/w", 1, "application");
    bus_error_unref(&error);
    waiter_fini(&receiving);
    waiter_fini(&awaiting);
    bus_sub_close(&receiving.sub);
    must_close(&alice);
    must_close(&bob);
}

Test(api, makes_its_descriptors_readable_when_it_says)
{
    struct bus *alice = must_open("alice");
    struct bus *bob = must_open("bob");
    struct bus_sub *sub = must_subscribe(bob, "alice/w");
    struct pollfd fds[] = {{.fd = bus_sub_fd(sub), .events = POLLIN},
                           {.fd = bus_failure_fd(bob), .events = POLLIN}};
    cr_assert_geq(fds[0].fd, 0);
    cr_expect_eq(poll(fds, 2, 0), 0);
    must_publish(alice, "w", "one");
    must_publish(alice, "w", "two");
    cr_expect_eq(poll(fds, 1, (int)SOON_MS), 1);
    cr_expect_eq(poll(fds, 1, 0), 1, "it is level-triggered");
    expect_value(sub, "alice/w", 0, "one");
    cr_expect_eq(poll(fds, 1, (int)SOON_MS), 1);
    expect_value(sub, "alice/w", 1, "two");
    cr_expect_eq(poll(fds, 1, 0), 0);
    struct bus_error *error = bus_error_new("app.over", NULL, "x");
    bus_fail(bob, error);
    bus_error_unref(&error);
    cr_expect_eq(poll(fds + 1, 1, (int)SOON_MS), 1);
    bus_sub_close(&sub);
    bus_close(&bob, SOON_MS);
    must_close(&alice);
}

#define THREADS 4
#define PER_THREAD 2000

struct load {
    struct bus *bus;
    int index;
    pthread_t thread;
    int troubles;
};

/* One topic for all and one of its own, with slots, values and waits in between. */
static void *load_bus(void *arg)
{
    struct load *load = arg;
    char own[16];
    char whole[32];
    snprintf(own, sizeof own, "t%d", load->index);
    snprintf(whole, sizeof whole, "alice/t%d", load->index);
    for (uint64_t i = 0; i < PER_THREAD; i++) {
        struct bus_slot *slot = NULL;
        struct bus_msg *msg = NULL;
        load->troubles += bus_publish(load->bus, "shared", "x", 1) != BUS_OK;
        load->troubles += bus_slot_reserve(load->bus, own, BUS_FOREVER, &slot) != BUS_OK;
        load->troubles += bus_slot_seq(slot) != i;
        load->troubles += bus_slot_commit(&slot, &i, sizeof i) != BUS_OK;
        if (i % 100 == 0) {
            load->troubles += bus_await(load->bus, whole, i, SOON_MS, &msg, NULL) != BUS_OK;
            bus_msg_free(&msg);
        }
    }
    load->troubles += bus_flush(load->bus, SOON_MS) != BUS_OK;
    return NULL;
}

Test(api, may_be_used_by_several_threads)
{
    struct bus *alice = must_open("alice");
    struct bus *bob = must_open("bob");
    struct load loads[THREADS];
    struct bus_sub *sub = must_subscribe(bob, "alice/shared");
    for (int i = 0; i < THREADS; i++) {
        loads[i] = (struct load){.bus = alice, .index = i};
        cr_assert_eq(pthread_create(&loads[i].thread, NULL, load_bus, &loads[i]), 0);
    }
    for (uint64_t seq = 0; seq < THREADS * PER_THREAD; seq++) {
        expect_value(sub, "alice/shared", seq, "x");
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(loads[i].thread, NULL);
        cr_expect_eq(loads[i].troubles, 0, "thread %d: %d calls failed", i, loads[i].troubles);
    }
    bus_sub_close(&sub);
    must_close(&alice);
    must_close(&bob);
}

/* ---- errors ---------------------------------------------------------------------------------- */

Test(api, keeps_errors_as_they_were_made)
{
    struct bus_error *cause = bus_error_new("app.cause", NULL, "first");
    struct bus_error *error = bus_error_new("app.effect", cause, "%d%%", 42);
    struct bus_error *second = bus_error_new("app.second", NULL, "too");
    expect_code(bus_error_add_cause(error, second), BUS_OK);
    bus_error_unref(&second);
    bus_error_unref(&cause);
    cr_expect_str_eq(bus_error_message(error), "42%");
    cr_expect_str_eq(bus_error_type(bus_error_cause(error)), "app.cause");
    cr_expect_str_eq(bus_error_type(bus_error_cause_at(error, 1)), "app.second");
    cr_expect_null(bus_error_cause_at(error, 2));
    cr_expect_str_eq(bus_error_type(bus_error_root(error)), "app.cause");
    cr_expect_str_eq(bus_error_type(bus_error_find(error, "app.second")), "app.second");
    cr_expect_null(bus_error_find(error, "app.absent"));
    cr_expect_eq(bus_error_recoverable(error), -1);
    cr_expect_eq(bus_error_retry_after_ms(error), -1);
    cr_expect_eq(bus_error_code(error), 0);
    cr_expect_str_eq(bus_error_stacktrace(error), "");
    cr_expect_null(bus_error_topic(error, NULL));

    /* Used as a cause, it does not change any more. */
    struct bus_error *later = bus_error_new("app.later", error, "x");
    expect_code(bus_error_set_code(error, 5), BUS_EINVAL);
    cr_expect_eq(bus_error_code(error), 0);

    char whole[1024];
    char part[16];
    size_t bytes = bus_error_describe(later, whole, sizeof whole);
    cr_expect_eq(bytes, strlen(whole));
    cr_expect_eq(bus_error_describe(later, NULL, 0), bytes);
    cr_expect_eq(bus_error_describe(later, part, sizeof part), bytes);
    cr_expect_eq(strncmp(part, whole, sizeof part - 1), 0);
    struct bus_error *again = bus_error_ref(later);
    bus_error_unref(&later);
    cr_expect_str_eq(bus_error_type(again), "app.later");
    bus_error_unref(&again);
    bus_error_unref(&error);
}

/* A chain longer than travels keeps its two ends. */
Test(api, keeps_both_ends_of_a_very_long_chain)
{
    struct bus *alice = must_open("alice");
    struct bus *bob = must_open("bob");
    struct bus_error *error = bus_error_new("app.root", NULL, "%s", "the first");
    static char text[4000];
    memset(text, 'x', sizeof text - 1);
    for (int i = 0; i < 300; i++) {
        struct bus_error *next = bus_error_new("app.link", error, "%d %s", i, text);
        bus_error_unref(&error);
        error = next;
    }
    struct bus_slot *slot = must_reserve(alice, "w");
    bus_slot_fail(&slot, error);
    bus_error_unref(&error);
    error = expect_await_failed(bob, "alice/w", 0, "application");
    cr_expect_str_eq(bus_error_type(error), "app.link");
    cr_expect_eq(strncmp(bus_error_message(error), "299 ", 4), 0, "%.20s",
                 bus_error_message(error));
    cr_expect_str_eq(bus_error_type(bus_error_root(error)), "app.root");
    bus_error_unref(&error);
    must_close(&alice);
    must_close(&bob);
}
