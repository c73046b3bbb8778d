/* SPDX-License-Identifier: MPL-2.0 */
/* core_need_test.c -- slots that need others: what falls, when, and over a crash in between. */
#include "broker/core/model.h"
#include "tests/unit/core_driver.h"

TestSuite(core_need, .init = init, .fini = fini);

static uint32_t a, b;

/* alice writes a, bob writes b, carol (3) taps. */
static void meet(void)
{
    join(1);
    join(2);
    tap(3);
    a = open_topic(1, "alice/a");
    b = open_topic(2, "bob/b");
}

Test(core_need, fails_what_needs_it_and_nothing_else)
{
    meet();
    reserve(1, a, 0);
    reserve(1, a, 1);
    reserve_after(2, b, 0, "alice/a", 0);
    reserve_after(2, b, 1, "alice/a", 1);
    reserve_after(1, a, 2, "bob/b", 0);
    forget();
    fail(1, a, 0, frames[1]);
    EXPECT("2 < refusal #0 (dependency of bob)\n"
           "1 < refusal #2 (dependency of alice)\n"
           "1 < accepted 3 1\n"
           "3 < slot.failed alice/1 alice/a#0 x1 (application of alice)\n"
           "3 < slot.failed bob/1 bob/b#0 x1 (dependency of bob)\n"
           "3 < slot.failed alice/1 alice/a#2 x1 (dependency of alice)\n");
    commit(1, a, 1, 5);
    commit(2, b, 1, 6);
    EXPECT("1 < accepted 4 1\n2 < accepted 3 0\n");
}

/* The kinds along the chain of an error, as "kind party <- kind party". */
static void expect_chain(struct span bytes, const char *expected)
{
    struct error_record records[LIMIT_ERROR_RECORDS];
    char text[400] = "";
    uint32_t count;
    cr_assert_eq(error_decode(bytes, records, LIMIT_ERROR_RECORDS, &count), WIRE_OK);
    for (uint32_t i = 0; i < count; i++)
        (void)snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s %.*s",
                       i > 0 ? " <- " : "", error_kind_name(records[i].kind),
                       (int)records[i].party.bytes, (const char *)records[i].party.data);
    cr_expect_str_eq(text, expected);
}

static struct span error_of_refusal(uint64_t seq)
{
    for (uint32_t i = 0; i < effects.count; i++) {
        const struct effect *effect = &effects.items[i];
        const struct msg *msg = &effects.msgs[effect->index];
        if (effect->type == EFFECT_SEND_MSG && msg->type == MSG_REFUSAL &&
            msg->as.refusal.seq <= seq && seq - msg->as.refusal.seq <= msg->as.refusal.count)
            return msg->as.refusal.error;
    }
    cr_assert_fail("no refusal of #%llu", (unsigned long long)seq);
    return SPAN_NONE;
}

Test(core_need, names_what_all_began_with_however_long_the_way)
{
    meet();
    reserve(1, a, 0);
    reserve_after(2, b, 0, "alice/a", 0);
    reserve_after(2, b, 1, "bob/b", 0);
    reserve_after(2, b, 2, "bob/b", 1);
    fail(1, a, 0, frames[1]);
    expect_chain(error_of_refusal(0), "dependency bob <- application alice");
    expect_chain(error_of_refusal(2), "dependency bob <- application alice");
    reserve_after(2, b, 3, "bob/b", 2); /* of what has fallen already */
    expect_chain(error_of_refusal(3), "dependency bob <- application alice");
    reserve_after(1, a, 1, "bob/b", 3);
    expect_chain(error_of_refusal(1), "dependency alice <- application alice");
}

Test(core_need, refuses_cycles_and_what_is_unknown)
{
    meet();
    reserve(1, a, 0);
    forget();
    const struct {
        const char *topic;
        uint64_t seq;
    } wrong[] = {{"alice/a", 1},  {"alice/a", 2}, {"alice/other", 0},
                 {"nobody/a", 0}, {"bob/b", 0},   {"no topic", 0}};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        uint64_t seq = i + 1;
        struct frame_need needs[] = {{span_text("alice/a"), 0}, {span_text(wrong[i].topic), 0}};
        needs[1].seq = i == 0 ? seq : wrong[i].seq + (i == 1 ? seq : 0);
        reserve_needing(1, a, seq, needs, 2);
        struct error_record record;
        uint32_t count;
        cr_assert_eq(error_decode(error_of_refusal(seq), &record, 1, &count), WIRE_OK);
        cr_expect_eq(record.kind, ERROR_REJECTED);
        cr_expect(
            span_equal(record.type, span_text(i == 0 ? ERROR_TYPE_CYCLE : ERROR_TYPE_NEED_UNKNOWN)),
            "%zu: %.*s", i, (int)record.type.bytes, (const char *)record.type.data);
    }
    reserve_after(1, a, 10, "alice/a", 0);
    forget();
    commit(1, a, 10, 7);
    EXPECT("1 < accepted 9 0\n");
}

Test(core_need, knows_no_slot_before_the_first_of_a_topic_nor_one_that_went)
{
    options.topic_keep_slots = 2;
    restart();
    meet();
    publish(1, a, 1000, 1, 5);
    reserve_after(2, b, 0, "alice/a", 999);
    struct error_record record;
    uint32_t count;
    cr_assert_eq(error_decode(error_of_refusal(0), &record, 1, &count), WIRE_OK);
    cr_expect(span_equal(record.type, span_text(ERROR_TYPE_NEED_UNKNOWN)));
    for (uint64_t i = 1; i < 8; i++)
        publish(1, a, 1000 + i, 1, 5);
    reserve_after(2, b, 1, "alice/a", 1000);
    cr_assert_eq(error_decode(error_of_refusal(1), &record, 1, &count), WIRE_OK);
    cr_expect(span_equal(record.type, span_text(ERROR_TYPE_NOT_KEPT)));
}

Test(core_need, fails_by_whatever_way_the_other_fails)
{
    meet();
    reserve(1, a, 0); /* its party is lost */
    promise(1, a, 1, 50);
    publish(1, a, 2, 1, 5); /* taken back */
    publish(1, a, 5, 1, 5); /* jumps over 3 and 4 */
    reserve_after(2, b, 0, "alice/a", 0);
    reserve_after(2, b, 1, "alice/a", 1);
    reserve_after(2, b, 2, "alice/a", 2);
    forget();
    reserve_after(2, b, 3, "alice/a", 4);
    EXPECT("2 < refusal #3 (dependency of bob)\n2 < accepted 4 0\n"
           "3 < slot.failed bob/1 bob/b#3 x1 (dependency of bob)\n");
    pass_ms(60);
    EXPECT("2 < refusal #1 (dependency of bob)\n"
           "3 < slot.failed alice/1 alice/a#1 x1 (deadline of alice)\n"
           "3 < slot.failed bob/1 bob/b#1 x1 (dependency of bob)\n");
    retract(1, a, 2);
    EXPECT("1 < result 0\n2 < refusal #2 (dependency of bob)\n1 < accepted 4 1\n"
           "3 < slot.failed alice/1 alice/a#2 x1 (application of alice)\n"
           "3 < slot.failed bob/1 bob/b#2 x1 (dependency of bob)\n");
    break_down(1);
    EXPECT("1 < over 13\n1 dropped\n11 dropped\n2 < refusal #0 (dependency of bob)\n"
           "3 < party.failed alice/1 #0 x1 (application of alice)\n"
           "3 < slot.failed bob/1 bob/b#0 x1 (dependency of bob)\n");
}

Test(core_need, is_over_with_its_own_outcome)
{
    meet();
    reserve(1, a, 0);
    reserve_after(2, b, 0, "alice/a", 0);
    commit(2, b, 0, 5); /* it could do without */
    forget();
    fail(1, a, 0, frames[1]);
    EXPECT("1 < accepted 1 1\n3 < slot.failed alice/1 alice/a#0 x1 (application of alice)\n");
}

/* A fan that is wider than what falls in a step. */
Test(core_need, takes_no_value_for_what_is_about_to_fall)
{
    enum { WIDE = 1000 };
    meet();
    is_alone = true;
    reserve(1, a, 0);
    for (uint64_t seq = 0; seq < WIDE; seq++)
        reserve_after(2, b, seq, "alice/a", 0);
    fail(1, a, 0, frames[1]);
    cr_expect_leq(core_deadline_ns(core), now_ns, "there is more to do at once");
    forget();
    commit(2, b, WIDE - 1, 5);
    cr_expect_not_null(strstr(said, "2 < refusal #999 (dependency of bob)\n"));
    pass_ms(0);
    cr_expect_gt(core_deadline_ns(core), now_ns);
    is_alone = false;
    compact();
}

/* ---- against a naive computation ------------------------------------------------------------- */

enum { TASKS = 1000, STARTS = 30, SOURCES = 10, NEEDS_MAX = 3, LANES = 16 };

static struct work {
    uint32_t needs[NEEDS_MAX];
    uint32_t need_count;
    bool is_source; /* fails by itself */
    bool is_doomed; /* has to fall, computed naively */
    uint64_t seq;
} tasks[TASKS];

static uint64_t seed;

static uint32_t draw(uint32_t below)
{
    seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(seed >> 33) % below;
}

static char lane_names[LANES][32];
static uint32_t lane_topics[LANES];

static void plan(uint64_t of_seed)
{
    seed = of_seed;
    memset(tasks, 0, sizeof tasks);
    for (uint32_t i = STARTS; i < TASKS; i++) {
        tasks[i].need_count = draw(NEEDS_MAX + 1);
        for (uint32_t k = 0; k < tasks[i].need_count; k++)
            tasks[i].needs[k] = i - 1 - draw(STARTS);
    }
    for (uint32_t i = 0; i < SOURCES; i++)
        tasks[draw(STARTS)].is_source = true;
    for (bool is_news = true; is_news;) { /* naively: until nothing changes */
        is_news = false;
        for (uint32_t i = 0; i < TASKS; i++)
            for (uint32_t k = 0; k < tasks[i].need_count && !tasks[i].is_doomed; k++) {
                const struct work *need = &tasks[tasks[i].needs[k]];
                tasks[i].is_doomed = need->is_doomed || need->is_source;
                is_news = is_news || tasks[i].is_doomed;
            }
    }
}

static conn_id writer_of(uint32_t task)
{
    return task % LANES % 2 + 1;
}

static void promise_all(void)
{
    for (uint32_t lane = 0; lane < LANES; lane++) {
        (void)snprintf(lane_names[lane], sizeof lane_names[lane], "%s/lane%u",
                       name_of(writer_of(lane)), lane);
        lane_topics[lane] = open_topic(writer_of(lane), lane_names[lane]);
    }
    for (uint32_t i = 0; i < TASKS; i++) {
        struct frame_need needs[NEEDS_MAX];
        for (uint32_t k = 0; k < tasks[i].need_count; k++)
            needs[k] = (struct frame_need){span_text(lane_names[tasks[i].needs[k] % LANES]),
                                           tasks[i].needs[k] / LANES};
        tasks[i].seq = i / LANES;
        reserve_needing(writer_of(i), lane_topics[i % LANES], tasks[i].seq, needs,
                        tasks[i].need_count);
    }
}

static void expect_closure(uint64_t of_seed)
{
    for (uint32_t i = 0; i < TASKS; i++) {
        uint32_t index;
        const struct topic *topic = pool_find(&core->topics, lane_topics[i % LANES]);
        cr_assert(slot_table_find(&topic->slots, tasks[i].seq, &index));
        const struct slot_entry *entry = slot_table_at(&topic->slots, index);
        bool has_failed = entry->state == SLOT_ERROR;
        cr_assert_eq(has_failed, tasks[i].is_doomed || tasks[i].is_source, "seed %llu: task %u",
                     (unsigned long long)of_seed, i);
        if (!has_failed)
            continue;
        const struct failure *failure = pool_find(&core->failures, entry->ref);
        cr_assert_eq(failure->kind, tasks[i].is_source ? ERROR_APPLICATION : ERROR_DEPENDENCY);
    }
}

static void maybe_crash(bool with_crashes)
{
    if (!with_crashes || draw(2) == 0)
        return;
    crash(1);
    resume(1, tokens[1], 0);
    resume(2, tokens[2], 0);
}

static unsigned falls; /* steps in which some fell, but not all */

/* Sources fail one after the other; with crashes the broker ends in the middle of it all. */
static void run_one(uint64_t of_seed, bool with_crashes)
{
    plan(of_seed);
    join(1);
    join(2);
    is_alone = true;
    promise_all();
    is_alone = false;
    compact();
    for (uint32_t i = 0; i < STARTS; i++) {
        if (!tasks[i].is_source)
            continue;
        fail(writer_of(i), lane_topics[i % LANES], tasks[i].seq, frames[writer_of(i)]);
        maybe_crash(with_crashes);
        while (core_deadline_ns(core) <= now_ns) {
            falls += 1;
            step((struct event){.type = EVENT_TICK});
            maybe_crash(with_crashes);
        }
    }
    expect_closure(of_seed);
    forget();
    is_alone = true;
    for (uint32_t i = 0; i < TASKS; i++) /* all the rest completes */
        if (!tasks[i].is_doomed && !tasks[i].is_source)
            commit(writer_of(i), lane_topics[i % LANES], tasks[i].seq, 500);
    cr_assert_null(strstr(said, "refusal #"), "seed %llu", (unsigned long long)of_seed);
    complete(1);
    complete(2);
    cr_assert_not_null(strstr(said, "1 < result 0\n"));
    cr_assert_not_null(strstr(said, "2 < result 0\n"));
    is_alone = false;
    compact();
    leave(1, 0);
    leave(2, 0);
    pass_ms(5000);
    forget();
}

Test(core_need, fails_exactly_the_transitive_closure)
{
    for (uint64_t of_seed = 1; of_seed <= 20; of_seed++)
        run_one(of_seed, false);
    cr_expect_gt(falls, 20, "they fell in more than one step");
}

Test(core_need, fails_exactly_the_transitive_closure_over_crashes)
{
    for (uint64_t of_seed = 101; of_seed <= 120; of_seed++)
        run_one(of_seed, true);
    cr_expect_gt(falls, 20);
}

/* ---- many ------------------------------------------------------------------------------------ */

enum { MANY = 100000 };

/* Of the last step: how many there were, and of how many slots they speak. */
static void count_refusals(uint32_t *refusals, uint64_t *slots)
{
    for (uint32_t i = 0; i < effects.count; i++) {
        const struct effect *effect = &effects.items[i];
        const struct msg *msg = &effects.msgs[effect->index];
        if (effect->type != EFFECT_SEND_MSG || msg->type != MSG_REFUSAL)
            continue;
        *refusals += 1;
        *slots += msg->as.refusal.count > 0 ? msg->as.refusal.count : 1;
    }
}

/* So many fall in so many steps, each of them bounded, and every one is settled. */
static void expect_all_fall(const char *what)
{
    uint32_t steps_taken = 0;
    uint32_t refusals = 0;
    uint64_t refused = 0;
    forget();
    fail(1, a, 0, frames[1]);
    count_refusals(&refusals, &refused);
    for (; core_deadline_ns(core) <= now_ns; steps_taken++) {
        uint32_t before = core->needs.edges.used;
        forget();
        step((struct event){.type = EVENT_TICK});
        count_refusals(&refusals, &refused);
        cr_assert_leq(before - core->needs.edges.used, 256);
    }
    cr_expect_geq(steps_taken, MANY / 256 - 1, "%s", what);
    cr_expect_eq(core->needs.edges.used + core->needs.heads.used, 0);
    cr_expect_leq(refusals, steps_taken + 1, "slots in a row are one refusal");
    cr_expect_eq(refused, MANY);
    cr_expect_eq(pool_next(&core->open_slots, 0), NULL);
    forget();
}

static void promise_many(bool is_chain)
{
    options.topic_window_bytes = UINT64_C(1) << 40;
    restart();
    meet();
    is_alone = true;
    reserve(1, a, 0);
    for (uint64_t seq = 1; seq <= MANY; seq++) {
        reserve_after(1, a, seq, "alice/a", is_chain ? seq - 1 : 0);
        forget();
    }
}

Test(core_need, lets_a_long_chain_fall_in_bounded_steps)
{
    promise_many(true);
    expect_all_fall("chain");
    is_alone = false;
    compact();
}

Test(core_need, lets_a_wide_fan_fall_in_bounded_steps)
{
    promise_many(false);
    expect_all_fall("fan");
    is_alone = false;
    compact();
}
