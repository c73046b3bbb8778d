/* SPDX-License-Identifier: MPL-2.0 */
/* core_status_test.c -- the answer to STATUS: parts of bounded size, which have all together. */
#include "broker/core/model.h"
#include "libbus/base/pool.h"
#include "tests/unit/core_driver.h"

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
        cr_expect_leq(effects.msg_count, LIMIT_WHY_STEP / ROW_COST + 2, "%u messages in a step",
                      effects.msg_count);
        topics += more;
        *out_parts += 1;
    } while (cursor != 0);
    return topics;
}

/* A row costs 9 looks.  One of the job, one of alice, and numbers that are not in use come before
 * the topics. */
enum { BEFORE = 2 * 9 + 2 * (POOL_CHUNK_ITEMS - 1), FIRST = (LIMIT_WHY_STEP - BEFORE + 8) / 9 };

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
    expect_parts(2 * LIMIT_WHY_STEP, 2 * ROW_COST, 4 * ROW_COST);
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
