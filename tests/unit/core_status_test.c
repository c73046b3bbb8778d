/* SPDX-License-Identifier: MPL-2.0 */
/* core_status_test.c -- the answer to STATUS: parts of bounded size, which have all together. */
#include "broker/core/model.h"
#include "libbus/base/pool.h"
#include "tests/unit/core_driver.h"

#include <inttypes.h>

TestSuite(core_status, .init = init, .fini = fini);

enum { OBSERVER = 9, ROW_COST = 8 };

static void make_topics(unsigned count)
{
    static char name[32];
    is_alone = true;
    join(1);
    for (unsigned i = 0; i < count; i++) {
        snprintf(name, sizeof name, "alice/%u", i);
        (void)open_topic(1, name);
        forget();
    }
}

/* One part of the answer; where the next one begins. */
static uint64_t ask_part(uint64_t cursor, uint32_t *out_rows)
{
    *out_rows = 0;
    message(OBSERVER,
            (struct msg){.type = MSG_STATUS, .as.status = {.request = 1, .cursor = cursor}});
    forget();
    for (uint32_t i = 0; i < effects.msg_count; i++) {
        if (effects.msgs[i].type == MSG_STATUS_ROW)
            *out_rows += effects.msgs[i].as.status_row.kind == 2;
        if (effects.msgs[i].type == MSG_STATUS_END)
            return effects.msgs[i].as.status_end.cursor;
    }
    cr_assert_fail("the part has no end");
    return 0;
}

/* How many topics all parts have; parts: how many they are. */
static uint32_t ask_all(unsigned *out_parts)
{
    uint32_t topics = 0;
    uint64_t cursor = 0;
    *out_parts = 0;
    do {
        uint32_t more = 0;
        cursor = ask_part(cursor, &more);
        cr_expect_leq(effects.msg_count, LIMIT_ANSWER_STEP / ROW_COST + 2, "%u messages in a step",
                      effects.msg_count);
        topics += more;
        *out_parts += 1;
    } while (cursor != 0);
    return topics;
}

/* A row costs 9 looks.  One of the job, one of alice, and numbers that are not in use come before
 * the topics. */
enum { BEFORE = 2 * 9 + 2 * (POOL_CHUNK_ITEMS - 1), FIRST = (LIMIT_ANSWER_STEP - BEFORE + 8) / 9 };

static void expect_parts(unsigned topics, unsigned least, unsigned most)
{
    unsigned parts = 0;
    make_topics(topics);
    ask_from(OBSERVER);
    cr_expect_eq(ask_all(&parts), topics);
    cr_expect(parts >= least && parts <= most, "%u parts of %u topics", parts, topics);
}

Test(core_status, gives_a_status_of_one_topic_less_than_a_step_tells)
{
    uint32_t told = 0;
    make_topics(FIRST - 1);
    ask_from(OBSERVER);
    (void)ask_part(0, &told);
    cr_expect_eq(told, FIRST - 1, "all topics are in the first part");
}

Test(core_status, gives_a_status_of_as_many_topics_as_a_step_tells)
{
    uint32_t told = 0;
    make_topics(FIRST);
    ask_from(OBSERVER);
    (void)ask_part(0, &told);
    cr_expect_eq(told, FIRST);
}

Test(core_status, gives_a_status_of_one_topic_more_than_a_step_tells)
{
    uint32_t told = 0;
    make_topics(FIRST + 1);
    ask_from(OBSERVER);
    uint64_t cursor = ask_part(0, &told);
    cr_expect_eq(told, FIRST);
    cr_assert_neq(cursor, 0);
    (void)ask_part(cursor, &told);
    cr_expect_eq(told, 1);
}

Test(core_status, gives_a_large_status_in_parts, .timeout = 120)
{
    expect_parts(2 * LIMIT_ANSWER_STEP, 2 * ROW_COST, 4 * ROW_COST);
}

Test(core_status, tells_once_what_stays_while_others_come_and_go)
{
    uint32_t told = 0;
    uint32_t more = 0;
    make_topics(FIRST + 1);
    ask_from(OBSERVER);
    uint64_t cursor = ask_part(0, &told);
    (void)open_topic(1, "alice/late");
    forget();
    cursor = ask_part(cursor, &more);
    cr_expect_eq(told + more, FIRST + 2, "it came behind the cursor");
    (void)cursor;
}

Test(core_status, takes_any_cursor)
{
    uint32_t told = 0;
    make_topics(1);
    ask_from(OBSERVER);
    cr_expect_eq(ask_part(UINT64_MAX, &told), 0);
    cr_expect_eq(ask_part(UINT64_C(2) << 32 | UINT32_MAX, &told), 0);
    cr_expect_eq(told, 0);
}

/* ---- rows of a kind, and what a row of a party says ------------------------------------------ */

/* The first row about this party; it lasts until the next event. */
static const struct msg_status_row *row_of(const char *party)
{
    message(OBSERVER, (struct msg){.type = MSG_STATUS, .as.status = {.request = 1}});
    for (uint32_t i = 0; i < effects.msg_count; i++) {
        const struct msg_status_row *row = &effects.msgs[i].as.status_row;
        if (effects.msgs[i].type == MSG_STATUS_ROW && row->kind == 1 &&
            span_equal(row->name, span_text(party)))
            return row;
    }
    cr_assert_fail("no row of %s", party);
    return NULL;
}

Test(core_status, says_where_a_party_is_and_what_it_has_owed_longest)
{
    is_alone = true;
    join(1);
    uint32_t x = open_topic(1, "alice/x");
    uint32_t y = open_topic(1, "alice/y");
    ask_from(OBSERVER);
    cr_expect_eq(row_of("alice")->open_topic.bytes, 0, "she owes nothing");
    cr_expect_eq(row_of("alice")->where.bytes, 0);
    reserve(1, y, 0);
    pass_ms(700);
    reserve(1, x, 0);
    message(1, (struct msg){.type = MSG_PROGRESS, .as.progress = {0, span_text("round 3")}});
    pass_ms(300);
    const struct msg_status_row *row = row_of("alice");
    cr_expect(span_equal(row->open_topic, span_text("alice/y")));
    cr_expect_eq(row->open_seq, 0);
    cr_expect_eq(row->open_ms, 1000, "%" PRIu64, row->open_ms);
    cr_expect(span_equal(row->where, span_text("round 3")));
    publish(1, y, 1, 1, 5);
    commit(1, y, 0, 6);
    row = row_of("alice");
    cr_expect(span_equal(row->open_topic, span_text("alice/x")), "the next one is the oldest");
    cr_expect_eq(row->open_ms, 300, "%" PRIu64, row->open_ms);
}

/* Kinds of the rows that an answer has, as bits. */
static unsigned kinds_told(uint64_t kinds)
{
    unsigned told = 0;
    message(OBSERVER,
            (struct msg){.type = MSG_STATUS, .as.status = {.request = 1, .kinds = kinds}});
    for (uint32_t i = 0; i < effects.msg_count; i++) {
        const struct msg_status_row *row = &effects.msgs[i].as.status_row;
        if (effects.msgs[i].type == MSG_STATUS_ROW)
            told |= row->is_group ? 16 : 1u << row->kind;
    }
    return told;
}

Test(core_status, tells_the_kinds_that_are_asked_for)
{
    is_alone = true;
    join(1);
    join(2);
    (void)open_topic(1, "alice/x");
    subscribe(2, 1, "alice/#", "", 0, 0);
    share(2, 2, "alice/x", "crew", 1);
    ask_from(OBSERVER);
    cr_expect_eq(kinds_told(0), 31, "0 is for all: %u", kinds_told(0));
    for (uint64_t kinds = 1; kinds <= 31; kinds++)
        cr_expect_eq(kinds_told(kinds), kinds, "%u for %" PRIu64, kinds_told(kinds), kinds);
}

/* An answer without topics is one part, however many there are. */
Test(core_status, looks_at_no_topic_where_none_is_asked_for)
{
    make_topics(2 * LIMIT_ANSWER_STEP);
    ask_from(OBSERVER);
    message(OBSERVER, (struct msg){.type = MSG_STATUS, .as.status = {.request = 1, .kinds = 3}});
    const struct msg *last = &effects.msgs[effects.msg_count - 1];
    cr_assert_eq(last->type, MSG_STATUS_END);
    cr_expect_eq(last->as.status_end.cursor, 0);
    cr_expect_eq(effects.msg_count, 3, "a job, a party and the end");
}
