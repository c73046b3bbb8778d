/* SPDX-License-Identifier: MPL-2.0 */
/* need_test.c -- slots that need others, over a real broker: a dataflow, and many at once. */
#include "tests/lib/expect.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

TestSuite(need, .init = stage_open, .fini = stage_close, .timeout = 300);

static enum bus_err reserve_needing(struct bus *bus, const char *topic,
                                    const struct bus_slot_ref *needs, size_t count,
                                    struct bus_slot **out_slot, struct bus_error **reterr)
{
    struct bus_slot_options options;
    bus_slot_options_init(&options);
    options.needs = needs;
    options.need_count = count;
    return bus_slot_reserve_with(bus, topic, &options, out_slot, reterr);
}

static struct bus_slot *must_need(struct bus *bus, const char *topic,
                                  const struct bus_slot_ref *needs, size_t count)
{
    struct bus_slot *slot = NULL;
    struct bus_error *error = NULL;
    expect_code_of(reserve_needing(bus, topic, needs, count, &slot, &error), BUS_OK, &error);
    return slot;
}

Test(need, fails_a_slot_without_its_writer_and_tells_it)
{
    struct bus *alice = must_open("alice");
    struct bus *bob = must_open("bob");
    struct bus *carol = must_open("carol");
    struct bus_slot *grads = must_reserve(alice, "grads");
    must_flush(alice);
    const struct bus_slot_ref need = {.topic = "alice/grads", .seq = 0};
    struct bus_slot *model = must_need(bob, "model", &need, 1);
    struct bus_slot *other = must_reserve(bob, "model");
    cr_expect_eq(bus_slot_is_settled(model), 0);
    must_flush(bob);
    struct bus_sub *sub = must_subscribe(carol, "bob/model");

    fail_slot(&grads, "app.disk_full", "no space");
    struct bus_error *raised = expect_error(sub, "bob/model", 0, "dependency");
    cr_expect_str_eq(bus_error_type(raised), "errbus.dependency");
    cr_expect_str_eq(bus_error_party(raised), "bob");
    cr_expect_str_eq(bus_error_type(bus_error_cause(raised)), "app.disk_full");
    cr_expect_str_eq(bus_error_party(bus_error_root(raised)), "alice");
    bus_error_unref(&raised);

    must_publish(bob, "later", "so that the answer comes behind the refusal");
    expect_code(bus_flush(bob, SOON_MS), BUS_ESETTLED);
    expect_code(bus_refusal(bob, &raised), BUS_OK);
    cr_expect_str_eq(bus_error_kind(raised), "dependency");
    uint64_t refused_seq = 7;
    const char *refused = bus_error_topic(raised, &refused_seq);
    cr_assert_not_null(refused, "it says which slot");
    cr_expect_str_eq(refused, "bob/model");
    cr_expect_eq(refused_seq, 0);
    cr_expect_str_eq(bus_error_topic(bus_error_cause(raised), NULL), "alice/grads");
    cr_expect_str_eq(bus_error_type(bus_error_cause(raised)), "app.disk_full");
    bus_error_unref(&raised);
    cr_expect_eq(bus_slot_is_settled(model), 1);
    expect_code(bus_slot_commit(&model, "late", 4), BUS_ESETTLED);
    must_commit(&other, "fine");
    expect_value(sub, "bob/model", 1, "fine");
    expect_code(bus_complete(bob, SOON_MS), BUS_OK);
    bus_sub_close(&sub);
    must_close(&alice);
    expect_code(bus_close(&bob, SOON_MS), BUS_OK);
    must_close(&carol);
}

/* The two slots share one error, and one REFUSAL. */
Test(need, says_of_each_slot_that_falls_which_it_is)
{
    struct bus *alice = must_open("alice");
    struct bus *bob = must_open("bob");
    struct bus_slot *grads = must_reserve(alice, "grads");
    must_flush(alice);
    const struct bus_slot_ref need = {.topic = "alice/grads", .seq = 0};
    struct bus_slot *slots[2];
    for (int i = 0; i < 2; i++)
        slots[i] = must_need(bob, "model", &need, 1);
    must_flush(bob);
    fail_slot(&grads, "app.disk_full", "no space");
    must_flush(alice);
    must_publish(bob, "later", "so that the answer comes behind the refusals");
    expect_code(bus_flush(bob, SOON_MS), BUS_ESETTLED);
    for (uint64_t i = 0; i < 2; i++) {
        uint64_t seq = 7;
        struct bus_error *error = NULL;
        expect_code(bus_refusal(bob, &error), BUS_OK);
        cr_expect_str_eq(bus_error_topic(error, &seq), "bob/model");
        cr_expect_eq(seq, i);
        bus_error_unref(&error);
        expect_code(bus_slot_commit(&slots[i], "late", 4), BUS_ESETTLED);
    }
    must_close(&alice);
    must_close(&bob);
}

/* Why a slot of bob's that needs this was not taken: at once, or by a refusal. */
static void expect_wrong(struct bus *bob, const struct bus_slot_ref *needs, size_t count,
                         enum bus_err expected, const char *type)
{
    struct bus_slot *slot = NULL;
    struct bus_error *error = NULL;
    enum bus_err err = reserve_needing(bob, "w", needs, count, &slot, &error);
    cr_expect_eq(err, expected, "%s: %s", type, code_name(err));
    if (err == BUS_OK) {
        expect_code(bus_flush(bob, SOON_MS), BUS_ESETTLED);
        expect_code(bus_refusal(bob, &error), BUS_OK);
        cr_expect_str_eq(bus_error_kind(error), "rejected");
        expect_code(bus_slot_commit(&slot, "late", 4), BUS_ESETTLED);
    }
    cr_expect_str_eq(bus_error_type(error), type);
    bus_error_unref(&error);
}

Test(need, refuses_cycles_and_unknown_slots)
{
    struct bus *bob = must_open("bob");
    static struct bus_slot_ref many[1025];
    const struct bus_slot_ref own = {.topic = "bob/w", .seq = 0};
    const struct bus_slot_ref later = {.topic = "bob/w", .seq = 7};
    const struct bus_slot_ref unknown = {.topic = "alice/x", .seq = 0};
    const struct bus_slot_ref none = {.topic = "bob", .seq = 0};
    const struct bus_slot_ref missing = {.topic = NULL, .seq = 0};
    expect_wrong(bob, &own, 1, BUS_EINVAL, "errbus.cycle");
    expect_wrong(bob, &later, 1, BUS_EINVAL, "errbus.cycle");
    expect_wrong(bob, &none, 1, BUS_EINVAL, "errbus.name");
    expect_wrong(bob, &missing, 1, BUS_EINVAL, "errbus.name");
    expect_wrong(bob, NULL, 1, BUS_EINVAL, "errbus.argument");
    expect_wrong(bob, &unknown, 1, BUS_OK, "errbus.need_unknown");
    struct bus_slot *slot = must_reserve(bob, "w");
    for (size_t i = 0; i < sizeof many / sizeof many[0]; i++)
        many[i] = (struct bus_slot_ref){.topic = "bob/w", .seq = bus_slot_seq(slot)};
    expect_wrong(bob, many, 1025, BUS_EINVAL, "errbus.argument");
    struct bus_slot *full = must_need(bob, "w", many, 1024);
    struct bus_slot *nearly = must_need(bob, "w", many, 1023);
    must_flush(bob);
    bus_slot_fail(&slot, NULL);
    struct bus_error *error = expect_await_failed(bob, "bob/w", bus_slot_seq(full), "dependency");
    bus_error_unref(&error);
    error = expect_await_failed(bob, "bob/w", bus_slot_seq(nearly), "dependency");
    bus_error_unref(&error);
    (void)bus_flush(bob, SOON_MS); /* it was refused much */
    expect_code(bus_slot_commit(&full, "late", 4), BUS_ESETTLED);
    expect_code(bus_slot_commit(&nearly, "late", 4), BUS_ESETTLED);
    (void)bus_close(&bob, SOON_MS); /* it was refused much */
}

/* ---- a dataflow of 1,000 tasks, of which 10 sources fail ------------------------------------- */

enum { TASKS = 1000, LAYER = 100, WORKERS = 4, NEEDS_MAX = 3, FAILING = 10 };

static struct task {
    struct bus_slot_ref needs[NEEDS_MAX];
    uint32_t need_tasks[NEEDS_MAX];
    size_t need_count;
    bool is_source;
    bool is_doomed; /* computed naively */
    struct bus_slot *slot;
    uint64_t seq;
} tasks[TASKS];
static struct bus *workers[WORKERS];
static const char *const worker_names[WORKERS] = {"w0", "w1", "w2", "w3"};
static const char *const worker_topics[WORKERS] = {"w0/t", "w1/t", "w2/t", "w3/t"};

static uint64_t seed = 20261122;

static uint32_t draw(uint32_t below)
{
    seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(seed >> 33) % below;
}

/* Each layer needs what lies in the two before it. */
static void plan(void)
{
    for (uint32_t i = LAYER; i < TASKS; i++) {
        tasks[i].need_count = 1 + draw(NEEDS_MAX);
        uint32_t first = i / LAYER >= 2 ? (i / LAYER - 2) * LAYER : 0;
        for (size_t k = 0; k < tasks[i].need_count; k++)
            tasks[i].need_tasks[k] = first + draw(i / LAYER * LAYER - first);
    }
    for (int failing = 0; failing < FAILING;) {
        struct task *task = &tasks[draw(LAYER)];
        failing += !task->is_source;
        task->is_source = true;
    }
    for (bool is_news = true; is_news;) {
        is_news = false;
        for (uint32_t i = 0; i < TASKS; i++)
            for (size_t k = 0; k < tasks[i].need_count && !tasks[i].is_doomed; k++) {
                const struct task *need = &tasks[tasks[i].need_tasks[k]];
                tasks[i].is_doomed = need->is_doomed || need->is_source;
                is_news = is_news || tasks[i].is_doomed;
            }
    }
}

static void promise_all(void)
{
    for (uint32_t i = 0; i < TASKS; i++) {
        struct task *task = &tasks[i];
        if (i % LAYER == 0)
            for (int w = 0; w < WORKERS; w++)
                must_flush(workers[w]); /* what lies before is known to the broker */
        for (size_t k = 0; k < task->need_count; k++) {
            uint32_t need = task->need_tasks[k];
            task->needs[k] = (struct bus_slot_ref){.topic = worker_topics[need % WORKERS],
                                                   .seq = tasks[need].seq};
        }
        task->slot = must_need(workers[i % WORKERS], "t", task->needs, task->need_count);
        task->seq = bus_slot_seq(task->slot);
    }
    for (int w = 0; w < WORKERS; w++)
        must_flush(workers[w]);
}

/* As a worker does it: waits for what the task needs, and computes; where that failed it does
 * nothing at all. */
static void work(struct task *task, struct bus *bus)
{
    struct bus_want wants[NEEDS_MAX];
    if (task->is_source) {
        fail_slot(&task->slot, "app.broken", "a source failed");
        return;
    }
    for (size_t k = 0; k < task->need_count; k++)
        wants[k] = (struct bus_want){.topic = task->needs[k].topic, .seq = task->needs[k].seq};
    struct bus_error *error = NULL;
    enum bus_err err = BUS_OK;
    if (task->need_count > 0)
        err = bus_gather(bus, wants, task->need_count, task->need_count, 0, SOON_MS, &error);
    cr_assert_eq(err, task->is_doomed ? BUS_EFAILED : BUS_OK, "%s", code_name(err));
    if (err == BUS_OK)
        must_commit(&task->slot, "done");
    bus_error_unref(&error);
    bus_wants_free(wants, task->need_count);
}

static void expect_outcome(const struct task *task, struct bus *bus, const char *topic)
{
    struct bus_msg *msg = NULL;
    struct bus_error *error = NULL;
    enum bus_err err = bus_await(bus, topic, task->seq, SOON_MS, &msg, &error);
    bool has_failed = task->is_source || task->is_doomed;
    cr_assert_eq(err, has_failed ? BUS_EFAILED : BUS_OK, "%s#%llu: %s", topic,
                 (unsigned long long)task->seq, code_name(err));
    if (has_failed) {
        cr_assert_str_eq(bus_error_kind(error), task->is_source ? "application" : "dependency");
        cr_assert_str_eq(bus_error_type(bus_error_root(error)), "app.broken");
    }
    bus_msg_free(&msg);
    bus_error_unref(&error);
}

Test(need, fails_the_transitive_closure_of_a_dataflow_and_nothing_else)
{
    plan();
    for (int w = 0; w < WORKERS; w++)
        workers[w] = must_open(worker_names[w]);
    struct bus *reader = must_open("reader");
    promise_all();
    for (uint32_t i = 0; i < TASKS; i++)
        work(&tasks[i], workers[i % WORKERS]);
    uint32_t doomed = 0;
    for (uint32_t i = 0; i < TASKS; i++) {
        doomed += tasks[i].is_doomed;
        expect_outcome(&tasks[i], reader, worker_topics[i % WORKERS]);
    }
    cr_expect(doomed > 50 && doomed < TASKS - 50, "%u fell", doomed);
    for (int w = 0; w < WORKERS; w++)
        (void)bus_flush(workers[w], SOON_MS); /* some was refused: what fell */
    for (uint32_t i = 0; i < TASKS; i++)
        if (tasks[i].is_doomed)
            expect_code(bus_slot_commit(&tasks[i].slot, "late", 4), BUS_ESETTLED);
    for (int w = 0; w < WORKERS; w++) {
        expect_code(bus_complete(workers[w], SOON_MS), BUS_OK);
        (void)bus_close(&workers[w], SOON_MS); /* refusals were left untaken */
    }
    must_close(&reader);
}

/* ---- 100,000 --------------------------------------------------------------------------------- */

enum { MANY = 100000 };

static int64_t now_ms(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now); /* there always is one */
    return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* The last of them is settled within a second, and whoever else speaks to the broker meanwhile is
 * answered.  Bounds ten times as wide as what a loaded machine of two cores takes. */
static void expect_many_fall(bool is_chain)
{
    struct bus *alice = must_open("alice");
    struct bus *bob = must_open("bob");
    struct bus_slot **slots = calloc(MANY + 1, sizeof *slots);
    cr_assert_not_null(slots);
    slots[0] = must_reserve(alice, "many");
    for (uint64_t seq = 1; seq <= MANY; seq++) {
        const struct bus_slot_ref need = {.topic = "alice/many", .seq = is_chain ? seq - 1 : 0};
        slots[seq] = must_need(alice, "many", &need, 1);
    }
    must_flush(alice);
    fail_slot(&slots[0], "app.broken", "the first of many");
    int64_t begin_ms = now_ms();
    int64_t longest_ms = 0;
    enum bus_err err = BUS_ETIMEDOUT;
    struct bus_error *error = NULL;
    while (err == BUS_ETIMEDOUT && now_ms() - begin_ms < SOON_MS) {
        int64_t asked_ms = now_ms();
        must_publish(bob, "ping", "are you there?");
        must_flush(bob);
        if (now_ms() - asked_ms > longest_ms)
            longest_ms = now_ms() - asked_ms;
        bus_error_unref(&error);
        err = bus_await(bob, "alice/many", MANY, BUS_POLL, NULL, &error);
    }
    expect_code(err, BUS_EFAILED);
    cr_expect_str_eq(bus_error_kind(error), "dependency");
    bus_error_unref(&error);
    cr_expect_lt(now_ms() - begin_ms, 10000);
    cr_expect_lt(longest_ms, AT_ONCE_MS);
    struct bus_status_row row;
    cr_assert(find_row("default", BUS_STATUS_PARTY, "alice", &row));
    cr_expect_eq(row.open, 0, "every one is settled");
    (void)bus_flush(alice, SOON_MS); /* it was refused much */
    for (uint64_t seq = 1; seq <= MANY; seq++)
        expect_code(bus_slot_commit(&slots[seq], "late", 4), BUS_ESETTLED);
    free(slots);
    (void)bus_close(&alice, SOON_MS); /* refusals were left untaken */
    must_close(&bob);
}

Test(need, lets_100_000_in_a_chain_fall_at_once)
{
    expect_many_fall(true);
}

Test(need, lets_100_000_in_a_fan_fall_at_once)
{
    expect_many_fall(false);
}
