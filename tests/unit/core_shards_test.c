/* SPDX-License-Identifier: MPL-2.0 */
/* core_shards_test.c -- the answer to SHARDS: what io knows of them, and nothing where it knows
 * nothing. */
#include "tests/unit/core_driver.h"

enum { OBSERVER = 6 };

TestSuite(core_shards, .init = init, .fini = fini);

static void ask(const struct event_shards *shards)
{
    static const struct msg msg = {.type = MSG_SHARDS, .as.shards = {.request = 3}};
    forget();
    step((struct event){.type = EVENT_MESSAGE, .conn = OBSERVER, .shards = shards, .as.msg = &msg});
}

static const struct msg_shard_row *row_at(uint32_t at)
{
    cr_assert_lt(at, effects.msg_count);
    cr_assert_eq(effects.msgs[at].type, MSG_SHARD_ROW);
    return &effects.msgs[at].as.shard_row;
}

static void expect_end(uint32_t at)
{
    cr_assert_eq(effects.msg_count, at + 1);
    cr_expect_eq(effects.msgs[at].type, MSG_SHARDS_END);
    cr_expect_eq(effects.msgs[at].as.shards_end.request, 3);
}

Test(core_shards, are_told_as_they_are)
{
    const struct event_shard items[] = {
        {.number = 0, .endpoint = span_text("tcp://a:1")},
        {.number = 7, .endpoint = span_text("tcp://b:1"), .is_here = true}};
    observe(OBSERVER, "");
    ask(&(struct event_shards){.items = items, .count = 2});
    cr_expect_eq(row_at(0)->shard, 0);
    cr_expect(span_equal(row_at(0)->endpoint, span_text("tcp://a:1")));
    cr_expect_eq(row_at(0)->is_here, 0);
    cr_expect_eq(row_at(0)->request, 3);
    cr_expect_eq(row_at(1)->shard, 7);
    cr_expect_eq(row_at(1)->is_here, 1);
    expect_end(2);
}

Test(core_shards, are_none_where_the_broker_is_alone)
{
    observe(OBSERVER, "");
    ask(NULL);
    expect_end(0);
}
