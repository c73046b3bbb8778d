/* SPDX-License-Identifier: MPL-2.0 */
/* memory_test.c -- a conversation of two parties by the whole library, with a real broker, once for
 * each allocation of the library that can fail: calls, sessions, sockets' threads and all.
 *
 * Whatever failed says BUS_ENOMEM, or is done again by the library itself; tried again it succeeds,
 * and the conversation comes to the same end.  And values are received without an allocation or a
 * lock for each, and sent without waking the library's thread. */
#include "tests/lib/failpoint/allocation.h"
#include "tests/lib/expect.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

TestSuite(memory, .init = stage_open, .fini = stage_close, .timeout = 900);
TestSuite(library_thread, .init = stage_open, .fini = stage_close, .timeout = 120);

/* ---- allocations ----------------------------------------------------------------------------- */

static atomic_bool is_counting;
static atomic_ulong asked;   /* allocations while counting */
static atomic_ulong fail_at; /* this one of them fails; 0: none */

/* By this thread, always. */
static _Thread_local unsigned long own_allocations;
static _Thread_local unsigned long own_locks;
static _Thread_local unsigned long own_wakes;

bool allocation_is_granted(void)
{
    own_allocations++;
    return !atomic_load(&is_counting) || atomic_fetch_add(&asked, 1) + 1 != atomic_load(&fail_at);
}

int __real_pthread_mutex_lock(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex);

int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex)
{
    own_locks++;
    return __real_pthread_mutex_lock(mutex);
}

struct link;
void __real_link_wake(struct link *link);
void __wrap_link_wake(struct link *link);

void __wrap_link_wake(struct link *link)
{
    own_wakes++;
    __real_link_wake(link);
}

/* ---- the conversation ------------------------------------------------------------------------ */

/* Once more, if memory was short: only one allocation fails. */
#define TRY(call)                                                                                  \
    do {                                                                                           \
        enum bus_err try_err = (call);                                                             \
        if (try_err == BUS_ENOMEM)                                                                 \
            try_err = (call);                                                                      \
        cr_assert(try_err == BUS_OK, "allocation %lu: %s gave %s", atomic_load(&fail_at), #call,   \
                  code_name(try_err));                                                             \
    } while (0)

static char job[32]; /* another one for each run: topics begin anew */

static struct bus *open_party(const char *party)
{
    struct bus_options options;
    struct bus *bus = NULL;
    bus_options_init(&options);
    options.job = job;
    options.party = party;
    options.heartbeat_ms = 20;
    options.lost_after_ms = 20000;
    options.reconnect_grace_ms = 20000;
    options.send_timeout_ms = SOON_MS;
    TRY(bus_open(stage.control, &options, SOON_MS, &bus, NULL));
    return bus;
}

static void write_some(struct bus *alice)
{
    static char large[300 * 1024];
    struct bus_slot *slot = NULL;
    struct bus_value values[2] = {{.data = "1", .bytes = 1}, {.data = "2", .bytes = 1}};
    TRY(bus_publish(alice, "w", "0", 1));
    TRY(bus_publish_many(alice, "w", values, 2));
    TRY(bus_publish(alice, "w", large, sizeof large));
    TRY(bus_slot_reserve(alice, "w", BUS_FOREVER, &slot));
    TRY(bus_slot_commit(&slot, "4", 1));
    TRY(bus_slot_reserve(alice, "w", BUS_FOREVER, &slot));
    struct bus_error *cause = bus_error_new("app.cause", NULL, "%s", "why");
    struct bus_error *error = bus_error_new("app.bad", cause, "%s", "bad");
    bus_slot_fail(&slot, error);
    bus_error_unref(&error);
    bus_error_unref(&cause);
    TRY(bus_publish(alice, "w", "6", 1));
    TRY(bus_flush(alice, SOON_MS));
}

static void read_some(struct bus_sub *sub)
{
    for (uint64_t seq = 0; seq < 7; seq++) {
        struct bus_msg *msg = NULL;
        uint64_t found = 0;
        enum bus_err err = bus_sub_recv(sub, SOON_MS, &msg, NULL);
        if (err == BUS_ENOMEM)
            err = bus_sub_recv(sub, SOON_MS, &msg, NULL);
        cr_assert(err == (seq == 5 ? BUS_EFAILED : BUS_OK), "allocation %lu: slot %d gave %s",
                  atomic_load(&fail_at), (int)seq, code_name(err));
        (void)bus_sub_slot(sub, &found);
        cr_assert_eq(found, seq, "allocation %lu: slot %d where %d was due", atomic_load(&fail_at),
                     (int)found, (int)seq);
        size_t bytes = 0;
        if (msg != NULL)
            (void)bus_msg_value(msg, &bytes);
        cr_assert_eq(bytes, seq == 3 ? 300 * 1024 : seq == 5 ? 0 : 1);
        bus_msg_free(&msg);
    }
}

static void ask_some(struct bus *bob)
{
    struct bus_want wants[2] = {{.topic = "alice/w"}, {.topic = "alice/w", .seq = 1}};
    struct bus_msg *msg = NULL;
    struct bus_admin *admin = NULL;
    struct bus_status *status = NULL;
    struct bus_tap *tap = NULL;
    const struct bus_event *event = NULL;
    struct bus_tap_options options;
    bus_tap_options_init(&options);
    options.job = job;
    options.from_id = 1;
    TRY(bus_await(bob, "alice/w", 6, SOON_MS, &msg, NULL));
    bus_msg_free(&msg);
    TRY(bus_gather(bob, wants, 2, 2, 0, SOON_MS, NULL));
    bus_wants_free(wants, 2);
    TRY(bus_admin_open(stage.control, NULL, SOON_MS, &admin, NULL));
    TRY(bus_admin_status_get(admin, job, SOON_MS, &status, NULL));
    bus_status_free(&status);
    bus_admin_close(&admin);
    TRY(bus_tap_open(stage.control, &options, SOON_MS, &tap, NULL));
    enum bus_err err = bus_tap_next(tap, SOON_MS, &event, NULL);
    if (err == BUS_EOVERRUN) /* an event for which memory was short is one that was missed */
        err = bus_tap_next(tap, SOON_MS, &event, NULL);
    cr_assert(err == BUS_OK, "allocation %lu: the tap gave %s", atomic_load(&fail_at),
              code_name(err));
    bus_tap_close(&tap);
}

/* How many allocations it took. */
static unsigned long converse(unsigned long which)
{
    struct bus_sub *sub = NULL;
    snprintf(job, sizeof job, "job%lu", which);
    atomic_store(&fail_at, which);
    atomic_store(&asked, 0);
    atomic_store(&is_counting, true);
    struct bus *alice = open_party("alice");
    struct bus *bob = open_party("bob");
    struct bus_sub_options options;
    bus_sub_options_init(&options);
    options.from_seq = BUS_FROM_NOW;
    TRY(bus_sub_open(bob, "alice/#", &options, &sub));
    TRY(bus_flush(bob, SOON_MS));
    write_some(alice);
    read_some(sub);
    ask_some(bob);
    bus_sub_close(&sub);
    TRY(bus_complete(alice, SOON_MS));
    TRY(bus_close(&alice, SOON_MS));
    TRY(bus_close(&bob, SOON_MS));
    atomic_store(&is_counting, false);
    return atomic_load(&asked);
}

/* How often another one is asked for differs a little from run to run: threads take turns. */
Test(memory, is_missing_at_one_place_and_the_conversation_comes_to_its_end)
{
    unsigned long count = converse(0);
    cr_assert_gt(count, 100);
    for (unsigned long which = 1; which <= count + 20; which++)
        (void)converse(which);
    cr_log_info("%lu allocations", count);
}

/* ---- answers --------------------------------------------------------------------------------- */

/* A question, once for each of its allocations that can fail: the answer is whole or is none.  Each
 * time a connection is there, which failing closes. */
static void ask_without_memory(enum bus_err (*ask)(struct bus_admin *admin))
{
    struct bus_admin *admin = NULL;
    unsigned failed = 0;
    expect_code(bus_admin_open(stage.control, NULL, SOON_MS, &admin, NULL), BUS_OK);
    atomic_store(&asked, 0);
    expect_code(ask(admin), BUS_OK);
    unsigned long count = atomic_load(&asked);
    for (unsigned long which = 1; which <= count + 20; which++) {
        atomic_store(&fail_at, 0);
        expect_code(ask(admin), BUS_OK);
        atomic_store(&fail_at, which);
        atomic_store(&asked, 0);
        enum bus_err err = ask(admin);
        cr_assert(err == BUS_OK || err == BUS_ENOMEM, "allocation %lu gave %s", which,
                  code_name(err));
        failed += err == BUS_ENOMEM;
    }
    cr_expect_gt(failed, 0);
    bus_admin_close(&admin);
}

static enum bus_err ask_for_job(struct bus_admin *admin)
{
    struct bus_job *shown = NULL;
    atomic_store(&is_counting, true);
    enum bus_err err = bus_admin_job_get(admin, job, SOON_MS, &shown, NULL);
    atomic_store(&is_counting, false);
    if (err == BUS_OK)
        cr_assert_eq(bus_job_info(shown)->member_count, 2, "allocation %lu", atomic_load(&fail_at));
    bus_job_free(&shown);
    return err;
}

Test(memory, is_missing_while_a_job_is_shown)
{
    struct bus_job_options options;
    bus_job_options_init(&options);
    options.min = 2;
    options.max = 2;
    snprintf(job, sizeof job, "shown");
    expect_code(bus_admin_job_create(stage_admin(), job, &options, SOON_MS, NULL), BUS_OK);
    struct bus *alice = open_party("alice");
    struct bus *bob = open_party("bob");
    ask_without_memory(ask_for_job);
    must_close(&alice);
    must_close(&bob);
}

static enum bus_err ask_for_verdict(struct bus_admin *admin)
{
    struct bus_report *report = NULL;
    atomic_store(&is_counting, true);
    enum bus_err err = bus_admin_report_get(admin, job, 1, SOON_MS, &report, NULL);
    atomic_store(&is_counting, false);
    if (err == BUS_OK)
        cr_assert_eq(bus_report_count(report), 2, "allocation %lu", atomic_load(&fail_at));
    bus_report_free(&report);
    return err;
}

static void fail_party(struct bus **bus)
{
    struct bus_error *error = bus_error_new("app.bad", NULL, "bad");
    bus_fail(*bus, error);
    bus_error_unref(&error);
    must_close(bus);
}

Test(memory, is_missing_while_a_verdict_is_shown)
{
    snprintf(job, sizeof job, "failed");
    struct bus *alice = open_party("alice");
    struct bus *bob = open_party("bob");
    fail_party(&alice);
    fail_party(&bob);
    ask_without_memory(ask_for_verdict);
}

/* ---- many values ----------------------------------------------------------------------------- */

enum { VALUES = 40000, WARM = 10000, AT_ONCE = 64, FEW = 10, LEISURELY = 1000, TRIES = 100 };

static void publish_many(struct bus *bus)
{
    struct bus_value values[AT_ONCE];
    for (int i = 0; i < AT_ONCE; i++)
        values[i] = (struct bus_value){.data = "sixteen bytes..", .bytes = 16};
    for (int i = 0; i < VALUES / AT_ONCE; i++)
        expect_code(bus_publish_many(bus, "w", values, AT_ONCE), BUS_OK);
    must_flush(bus);
}

/* All that there are, of which some came first; at least so many for one allocation or lock. */
static void expect_few(struct bus_sub *sub,
                       enum bus_err (*receive)(struct bus_sub *, int64_t, struct bus_msg **,
                                               struct bus_error **))
{
    size_t count = 0;
    bool is_warm = false;
    while (count < VALUES) {
        struct bus_msg *msg = NULL;
        if (count >= WARM && !is_warm) {
            is_warm = true;
            own_allocations = own_locks = 0;
        }
        expect_code(receive(sub, SOON_MS, &msg, NULL), BUS_OK);
        size_t stride = 0;
        count += bus_msg_count(msg, &stride);
        bus_msg_free(&msg);
    }
    cr_expect_leq(own_allocations, (VALUES - WARM) / FEW, "%lu allocations", own_allocations);
    cr_expect_leq(own_locks, (VALUES - WARM) / FEW, "%lu locks", own_locks);
}

Test(memory, is_not_asked_for_with_each_value_nor_is_a_lock)
{
    struct bus *alice = must_open("alice");
    struct bus *bob = must_open("bob");
    struct bus_sub *sub = must_subscribe(bob, "alice/w");
    publish_many(alice);
    expect_few(sub, bus_sub_recv);
    publish_many(alice);
    expect_few(sub, bus_sub_recv_many);
    bus_sub_close(&sub);
    must_close(&alice);
    must_close(&bob);
}

/* ---- one value after the other ------------------------------------------------------------- */

/* Whoever sends or receives while the library's thread sleeps does so by itself: to wake it for
 * each value would take the processor from whom the value is for.  Now and then there is a reason
 * to. */
Test(library_thread, sleeps_on_while_values_come_one_by_one)
{
    struct bus *alice = must_open("alice");
    struct bus *bob = must_open("bob");
    struct bus_sub *sub = must_subscribe(bob, "alice/w");
    for (int i = 0; i < LEISURELY; i++) {
        struct bus_msg *msg = NULL;
        if (i == LEISURELY / 10)
            own_wakes = 0; /* they have joined, the topic is known */
        expect_code(bus_publish(alice, "w", "value", 5), BUS_OK);
        expect_code(bus_sub_recv(sub, SOON_MS, &msg, NULL), BUS_OK);
        bus_msg_free(&msg);
    }
    cr_expect_leq(own_wakes, LEISURELY / FEW, "%lu wakes", own_wakes);
    bus_sub_close(&sub);
    must_close(&alice);
    must_close(&bob);
}

Test(library_thread, sleeps_on_while_a_writer_waits_for_room)
{
    static const char value[65536];
    struct bus_options options;
    bus_options_init(&options);
    options.party = "alice";
    options.send_timeout_ms = 5;
    struct bus *alice = must_open_with(&options);
    struct bus *bob = must_open("bob");
    struct bus_sub *sub = must_subscribe(bob, "alice/w"); /* who takes nothing */
    int full = 0; /* in a row: where credit is only late, the next one has room */
    while (full < TRIES)
        full = bus_publish(alice, "w", value, sizeof value) == BUS_EFULL ? full + 1 : 0;
    own_wakes = 0;
    for (int i = 0; i < TRIES; i++)
        expect_code(bus_publish(alice, "w", value, sizeof value), BUS_EFULL);
    cr_expect_leq(own_wakes, TRIES / FEW, "%lu wakes", own_wakes);
    bus_sub_close(&sub);
    must_close(&alice);
    must_close(&bob);
}
