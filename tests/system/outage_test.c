/* SPDX-License-Identifier: MPL-2.0 */
/* outage_test.c -- the broker dies, stops, freezes, or is not there: nobody waits for ever. */
#include "tests/lib/expect.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

TestSuite(outage, .init = stage_open, .fini = stage_close, .timeout = 120);

#define BROKER_LOST_MS 500
#define ENDED_WITHIN_MS (10 * BROKER_LOST_MS)

static atomic_int handled;

static void count_failure(const struct bus_error *verdict, void *arg)
{
    snprintf(arg, 64, "%s", bus_error_kind(verdict));
    atomic_fetch_add(&handled, 1);
}

/* Of a bus whose broker vanished without a word. */
static void expect_vanished(const struct bus *bus)
{
    struct bus_error *error = bus_failure(bus);
    cr_assert_not_null(error);
    cr_expect_str_eq(bus_error_type(error), "errbus.broker_lost");
    cr_expect_not_null(strstr(bus_error_message(error), stage.control), "%s",
                       bus_error_message(error));
    bus_error_unref(&error);
}

static struct bus *open_with_beats(const char *party, int64_t heartbeat_ms, char kind[64])
{
    struct bus_options options;
    bus_options_init(&options);
    options.party = party;
    options.heartbeat_ms = heartbeat_ms;
    options.lost_after_ms = 60000;
    options.broker_lost_ms = BROKER_LOST_MS;
    options.send_timeout_ms = SOON_MS;
    options.on_failure = count_failure;
    options.on_failure_arg = kind;
    return must_open_with(&options);
}

static struct bus *open_impatient(const char *party, char kind[64])
{
    return open_with_beats(party, 100, kind);
}

/* ---- calls that wait --------------------------------------------------------------------------*/

static enum bus_err in_recv(struct bus *bus)
{
    struct bus_sub *sub = NULL;
    struct bus_msg *msg = NULL;
    enum bus_err err = bus_sub_open(bus, "nobody/#", NULL, &sub);
    if (err == BUS_OK) {
        err = bus_sub_recv(sub, BUS_FOREVER, &msg, NULL);
    }
    bus_sub_close(&sub);
    return err;
}

static enum bus_err in_await(struct bus *bus)
{
    struct bus_msg *msg = NULL;
    return bus_await(bus, "nobody/w", 3, BUS_FOREVER, &msg, NULL);
}

static enum bus_err in_gather(struct bus *bus)
{
    struct bus_want wants[2] = {{.topic = "nobody/w"}, {.topic = "nobody/v", .seq = 1}};
    enum bus_err err = bus_gather(bus, wants, 2, 2, 0, BUS_FOREVER, NULL);
    bus_wants_free(wants, 2);
    return err;
}

static enum bus_err in_verdict(struct bus *bus)
{
    struct bus_error *verdict = NULL;
    enum bus_err err = bus_verdict(bus, BUS_FOREVER, &verdict);
    bus_error_unref(&verdict);
    return err;
}

/* What is owed an answer while the broker does not give one. */
static enum bus_err in_flush(struct bus *bus)
{
    return bus_flush(bus, BUS_FOREVER);
}

/* A party numbers its first topics itself, without an answer: sixteen (PROTOCOL.md). */
static enum bus_err in_first_number(struct bus *bus)
{
    struct bus_slot *slot = NULL;
    enum bus_err err = BUS_OK;
    for (int i = 0; i < 16 && err == BUS_OK; i++) {
        char name[16];
        snprintf(name, sizeof name, "own-%d", i);
        err = bus_publish(bus, name, "unanswered", 10);
    }
    if (err == BUS_OK)
        err = bus_slot_reserve(bus, "first", BUS_FOREVER, &slot);
    bus_slot_fail(&slot, NULL);
    return err;
}

static enum bus_err in_complete(struct bus *bus)
{
    return bus_complete(bus, BUS_FOREVER);
}

static enum bus_err in_retract(struct bus *bus)
{
    return bus_retract(bus, "w", 0, NULL, BUS_FOREVER);
}

struct call {
    const char *name;
    enum bus_err (*run)(struct bus *bus);
    struct bus *bus;
    pthread_t thread;
    enum bus_err err;
    int64_t ended_ms;
};

static void *run_call(void *arg)
{
    struct call *call = arg;
    call->err = call->run(call->bus);
    call->ended_ms = test_now_ms();
    return NULL;
}

/* Frozen first, so that calls which need an answer wait too; then what the test is about. */
static void expect_every_call_ended(int number, const char *kind)
{
    struct call calls[] = {
        {"recv", in_recv, NULL, 0, BUS_OK, 0},
        {"await", in_await, NULL, 0, BUS_OK, 0},
        {"gather", in_gather, NULL, 0, BUS_OK, 0},
        {"flush", in_flush, NULL, 0, BUS_OK, 0},
        {"reserve", in_first_number, NULL, 0, BUS_OK, 0},
        {"retract", in_retract, NULL, 0, BUS_OK, 0},
        {"complete", in_complete, NULL, 0, BUS_OK, 0},
        {"verdict", in_verdict, NULL, 0, BUS_OK, 0},
    };
    const size_t count = sizeof calls / sizeof calls[0];
    char kinds[sizeof calls / sizeof calls[0]][64] = {""};
    for (size_t i = 0; i < count; i++) {
        char name[32];
        snprintf(name, sizeof name, "p%zu", i);
        calls[i].bus = open_impatient(name, kinds[i]);
        must_publish(calls[i].bus, "w", "known");
        must_flush(calls[i].bus);
    }
    process_signal(&stage.process, SIGSTOP);
    int64_t start_ms = test_now_ms();
    for (size_t i = 0; i < count; i++) {
        enum bus_err err = bus_publish(calls[i].bus, "w", "unanswered", 10);
        cr_assert(err == BUS_OK || err == BUS_ELOST, "%s", code_name(err)); /* so slow are we */
        cr_assert_eq(pthread_create(&calls[i].thread, NULL, run_call, &calls[i]), 0);
    }
    process_signal(&stage.process, number);
    for (size_t i = 0; i < count; i++) {
        pthread_join(calls[i].thread, NULL);
        bool is_verdict = calls[i].run == in_verdict;
        cr_expect(calls[i].err == BUS_ELOST || (is_verdict && calls[i].err == BUS_OK),
                  "%s ended with %s", calls[i].name, code_name(calls[i].err));
        cr_expect_lt(calls[i].ended_ms - start_ms, ENDED_WITHIN_MS, "%s took too long",
                     calls[i].name);
        struct pollfd poll_fd = {.fd = bus_failure_fd(calls[i].bus), .events = POLLIN};
        cr_expect_eq(poll(&poll_fd, 1, (int)SOON_MS), 1);
        expect_vanished(calls[i].bus);
        enum bus_err err = bus_close(&calls[i].bus, SOON_MS);
        cr_expect_eq(err, BUS_ELOST, "%s", code_name(err));
        cr_expect_str_eq(kinds[i], kind);
    }
    cr_expect_lt(test_now_ms() - start_ms, 2 * ENDED_WITHIN_MS);
    cr_expect_eq(atomic_load(&handled), (int)count, "%d handlers ran", atomic_load(&handled));
}

Test(outage, of_a_killed_broker_ends_every_call)
{
    expect_every_call_ended(SIGKILL, "broker_lost");
}

Test(outage, of_a_frozen_broker_ends_every_call)
{
    expect_every_call_ended(SIGSTOP, "broker_lost");
    process_signal(&stage.process, SIGCONT);
}

/* ---- a broker that goes on ------------------------------------------------------------------- */

static struct bus *open_patient(const char *party, int64_t lost_after_ms, int64_t grace_ms)
{
    struct bus_options options = patient_options(party);
    options.lost_after_ms = lost_after_ms;
    options.reconnect_grace_ms = grace_ms;
    options.broker_lost_ms = 600000;
    return must_open_with(&options);
}

/* It is heard again, and nobody took it for lost.  If not, all that is known of it is said. */
static void expect_unharmed(struct bus *bus, int64_t frozen_ms, int64_t since_ms)
{
    static const char text[] = "here I am";
    char described[2048] = "";
    enum bus_err err = bus_publish(bus, "back", text, sizeof text);
    if (err == BUS_OK)
        err = bus_flush(bus, SOON_MS);
    struct bus_error *failure = bus_failure(bus);
    if (failure != NULL)
        bus_error_describe(failure, described, sizeof described);
    bool is_well = err == BUS_OK && failure == NULL;
    cr_expect(is_well,
              "%s, %lld ms after the broker, which was frozen for %lld ms, went on: %s\n"
              "the job's events:%s\nthe broker's log:\n%s",
              code_name(err), (long long)(test_now_ms() - since_ms), (long long)frozen_ms,
              described, is_well ? "" : tell_story(), process_complained(&stage.process));
    bus_error_unref(&failure);
}

/* For many times as long as silence is forgiven, a minute if TEST_LONG asks for it: nobody could be
 * heard, so nobody is blamed.  What was said meanwhile arrives, once and in order. */
Test(outage, of_a_broker_that_is_frozen_and_goes_on_costs_nobody_anything)
{
    enum { BEFORE = 50, DURING = 50 };
    int64_t frozen_ms = is_asked("TEST_LONG") ? 60000 : 6000;
    struct bus *alice = open_patient("alice", 1500, 600);
    struct bus *bob = open_patient("bob", 1500, 600);
    struct bus_sub *sub = must_subscribe(bob, "alice/w");
    struct bus_slot *promised = must_reserve(alice, "promised");
    for (int i = 0; i < BEFORE + DURING; i++) {
        if (i == BEFORE) {
            struct bus_msg *msg = NULL;
            expect_value(sub, "alice/w", 0, "0");
            process_signal(&stage.process, SIGSTOP);
            expect_code(bus_await(bob, "alice/promised", 0, frozen_ms, &msg, NULL), BUS_ETIMEDOUT);
        }
        must_publish(alice, "w", "%d", i);
        if (i < BEFORE)
            must_flush(alice);
    }
    process_signal(&stage.process, SIGCONT);
    int64_t since_ms = test_now_ms();
    expect_unharmed(bob, frozen_ms, since_ms);
    expect_unharmed(alice, frozen_ms, since_ms);
    for (int i = 1; i < BEFORE + DURING; i++) {
        expect_value(sub, "alice/w", (uint64_t)i, "%d", i);
    }
    must_commit(&promised, "kept");
    expect_awaited(bob, "alice/promised", 0, "kept");
    struct bus *last = open_patient("last", 1500, 600);
    must_close(&last);
    struct bus_tap *tap = must_tap(NULL, 1);
    cr_expect_eq(count_events_until(tap, "party.lost", "party.left"), 0, "%s", tell_story());
    bus_tap_close(&tap);
    bus_sub_close(&sub);
    must_close(&alice);
    must_close(&bob);
}

/* As many connections as wait at the broker's door, and some: whoever knocks then is not heard, and
 * has to knock again.  They are closed at once; the broker will find out. */
static void crowd_the_door(void)
{
    enum { CROWD = 1200 };
    unsigned port = 0;
    cr_assert_eq(sscanf(stage.control, "tcp://127.0.0.1:%u", &port), 1, "%s", stage.control);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    for (int i = 0; i < CROWD; i++) {
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        cr_assert(fd >= 0);
        if (connect(fd, (struct sockaddr *)&address, sizeof address) != 0)
            cr_assert_eq(errno, EINPROGRESS, "%s", strerror(errno));
        close(fd);
    }
}

/* Who has no answer tries one connection after the other, and keeps the newest.  So the broker,
 * when it goes on, finds that the one it knew is closed, and cannot know that another is on its
 * way: here that takes longer than what a party has for it otherwise. */
Test(outage, of_a_broker_that_is_frozen_for_long_begins_no_grace)
{
    enum { PARTIES = 4, FROZEN_MS = 9000 };
    struct bus *parties[PARTIES];
    struct bus_msg *msg = NULL;
    for (int i = 0; i < PARTIES; i++) {
        char name[16];
        snprintf(name, sizeof name, "p%d", i);
        parties[i] = open_patient(name, 3000, 100);
        must_publish(parties[i], "back", "for the first time");
        must_flush(parties[i]);
    }
    process_signal(&stage.process, SIGSTOP);
    crowd_the_door();
    expect_code(bus_await(parties[0], "p1/w", 0, FROZEN_MS, &msg, NULL), BUS_ETIMEDOUT);
    process_signal(&stage.process, SIGCONT);
    int64_t since_ms = test_now_ms();
    for (int i = 0; i < PARTIES; i++)
        expect_unharmed(parties[i], FROZEN_MS, since_ms);
    for (int i = 0; i < PARTIES; i++)
        must_close(&parties[i]);
}

/* A broker that says goodbye may come back: what is lost is said when it does not in time.  Beats
 * are far apart: who finds the broker silent on a busy machine is on its way to another connection
 * when the goodbye comes. */
Test(outage, in_good_order_ends_every_call_too)
{
    char kind[64] = "";
    struct bus *alice = open_with_beats("alice", 10000, kind);
    struct waiter waiter = {.bus = alice, .topic = "bob/w"};
    waiter_start(&waiter);
    int64_t start_ms = test_now_ms();
    cr_expect_eq(broker_stop(&stage, SOON_MS), 0, "%s", process_complained(&stage.process));
    waiter_join(&waiter);
    expect_code(waiter.err, BUS_ELOST);
    cr_expect_lt(waiter.ended_ms - start_ms, ENDED_WITHIN_MS + AT_ONCE_MS);
    struct bus_error *error = bus_failure(alice);
    cr_assert_not_null(error);
    cr_expect_str_eq(bus_error_kind(error), "broker_lost");
    cr_expect_str_eq(bus_error_type(error), "errbus.broker_stopped");
    cr_expect_not_null(strstr(bus_error_message(error), stage.control), "%s",
                       bus_error_message(error));
    bus_error_unref(&error);
    waiter_fini(&waiter);
    cr_expect_eq(bus_close(&alice, SOON_MS), BUS_ELOST);
    cr_expect_eq(atomic_load(&handled), 1);
    cr_expect_str_eq(kind, "broker_lost");
}

Test(outage, ends_a_tap_too)
{
    struct bus_tap_options options;
    struct bus_tap *tap = NULL;
    const struct bus_event *event = NULL;
    struct bus_error *error = NULL;
    bus_tap_options_init(&options);
    options.heartbeat_ms = 100;
    options.broker_lost_ms = BROKER_LOST_MS;
    expect_code(bus_tap_open(stage.control, &options, SOON_MS, &tap, NULL), BUS_OK);
    process_signal(&stage.process, SIGKILL);
    int64_t start_ms = test_now_ms();
    enum bus_err err = bus_tap_next(tap, BUS_FOREVER, &event, &error);
    expect_code_of(err, BUS_ELOST, &error);
    cr_expect_lt(test_now_ms() - start_ms, ENDED_WITHIN_MS);
    bus_tap_close(&tap);
}

Test(outage, when_opening_is_told_with_what_each_endpoint_said)
{
    struct bus *bus = NULL;
    struct bus_error *error = NULL;
    char endpoints[600];
    process_signal(&stage.process, SIGKILL);
    cr_assert_eq(process_wait(&stage.process, SOON_MS), 128 + SIGKILL);
    snprintf(endpoints, sizeof endpoints, "%s,ipc:///nonexistent/errbus", stage.control);
    int64_t start_ms = test_now_ms();
    expect_code(bus_open(endpoints, NULL, 300, &bus, &error), BUS_ETIMEDOUT);
    cr_expect_lt(test_now_ms() - start_ms, 300 + AT_ONCE_MS);
    char text[2048];
    bus_error_describe(error, text, sizeof text);
    cr_expect_not_null(strstr(text, stage.control), "%s", text);
    cr_expect_not_null(strstr(text, "ipc:///nonexistent/errbus"), "%s", text);
    bus_error_unref(&error);
}

/* The second of two endpoints is as good as the first. */
Test(outage, of_one_endpoint_is_none_of_the_other)
{
    struct bus *bus = NULL;
    struct bus_error *error = NULL;
    char endpoints[600];
    snprintf(endpoints, sizeof endpoints, "ipc:///nonexistent/errbus,%s", stage.control);
    enum bus_err err = bus_open(endpoints, NULL, SOON_MS, &bus, &error);
    expect_code_of(err, BUS_OK, &error);
    must_close(&bus);
}

struct opening {
    const char *endpoint;
    enum bus_err err;
    struct bus *bus;
};

static void *open_early(void *arg)
{
    struct opening *opening = arg;
    opening->err = bus_open(opening->endpoint, NULL, SOON_MS, &opening->bus, NULL);
    return NULL;
}

Test(outage, before_the_broker_starts_is_waited_for)
{
    struct folder folder;
    char control[FOLDER_PATH_BYTES_MAX + 16];
    char data[FOLDER_PATH_BYTES_MAX + 16];
    pthread_t thread;
    stage_close();
    cr_assert(folder_make(&folder));
    snprintf(control, sizeof control, "ipc://%s/control", folder.path);
    snprintf(data, sizeof data, "ipc://%s/data", folder.path);
    struct opening opening = {.endpoint = control};
    cr_assert_eq(pthread_create(&thread, NULL, open_early, &opening), 0);
    const char *const more[] = {"--control", control, "--data", data, NULL};
    stage_open_with(more);
    cr_expect_str_eq(stage.control, control);
    pthread_join(thread, NULL);
    expect_code(opening.err, BUS_OK);
    must_publish(opening.bus, "w", "over ipc");
    must_flush(opening.bus);
    must_close(&opening.bus);
    stage_close();
    folder_fini(&folder);
}
