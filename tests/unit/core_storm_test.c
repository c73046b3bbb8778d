/* SPDX-License-Identifier: MPL-2.0 */
/* core_storm_test.c -- many errors that are alike: told as one, settled each. */
#include "broker/core/model.h"
#include "tests/unit/core_driver.h"

TestSuite(core_storm, .init = init, .fini = fini);

static uint32_t a;
static uint64_t next_seq;

static void meet(void)
{
    join(1);
    tap(3);
    a = open_topic(1, "alice/a");
}

static void fail_slots(uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        reserve(1, a, next_seq);
        fail(1, a, next_seq++, frames[1]);
    }
}

/* The events of slots that failed, and for how many slots they stand. */
static uint64_t count_told(uint32_t *out_events)
{
    static const char event[] = "3 < slot.failed";
    uint64_t told = 0;
    *out_events = 0;
    for (const char *at = said; (at = strstr(at, event)) != NULL; at += sizeof event - 1) {
        const char *count = strstr(at, " x");
        told += strtoull(count + 2, NULL, 10);
        *out_events += 1;
    }
    return told;
}

Test(core_storm, tells_like_errors_as_one_beyond_a_rate)
{
    uint32_t events;
    meet();
    fail_slots(LIMIT_STORM_TOLD);
    cr_expect_eq(count_told(&events), LIMIT_STORM_TOLD);
    cr_expect_eq(events, LIMIT_STORM_TOLD);
    forget();
    fail_slots(100);
    cr_expect_eq(count_told(&events), 0);
    forget();
    pass_ms(1000);
    EXPECT("3 < slot.failed alice/1 alice/a#64 x100 (application of alice)"
           " job/alice/1/130 .. job/alice/1/328\n");
    fail_slots(1); /* it goes on: held, too */
    cr_expect_eq(count_told(&events), 0);
    forget();
    pass_ms(1000);
    EXPECT("3 < slot.failed alice/1 alice/a#164 x1 (application of alice)\n");
    pass_ms(1000); /* it is over */
    fail_slots(1);
    cr_expect_eq(count_told(&events), 1);
}

Test(core_storm, tells_apart_what_is_not_alike)
{
    uint32_t events;
    meet();
    fail_slots(2 * LIMIT_STORM_TOLD);
    forget();
    uint32_t b = open_topic(1, "alice/b");
    reserve(1, b, 0);
    fail(1, b, 0, frames[1]);
    cr_expect_eq(count_told(&events), 1, "another place");
    promise(1, a, next_seq++, 10);
    pass_ms(20);
    cr_expect_eq(count_told(&events), 2, "another type");
    join(2);
    uint32_t c = open_topic(2, "bob/a");
    reserve(2, c, 0);
    forget();
    fail(2, c, 0, frames[2]);
    cr_expect_eq(count_told(&events), 1, "another party");
}

Test(core_storm, tells_what_it_holds_before_the_party_ends)
{
    meet();
    fail_slots(LIMIT_STORM_TOLD + 2);
    forget();
    leave(1, frames[1]);
    EXPECT("1 < over 13\n1 dropped\n11 dropped\n"
           "3 < slot.failed alice/1 alice/a#64 x2 (application of alice)"
           " job/alice/1/130 .. job/alice/1/132\n"
           "3 < party.left alice/1 #0 x0\n");
}

Test(core_storm, tells_what_it_holds_before_the_broker_stops)
{
    meet();
    fail_slots(LIMIT_STORM_TOLD + 1);
    forget();
    step((struct event){.type = EVENT_STOP});
    cr_expect_not_null(strstr(said, "3 < slot.failed alice/1 alice/a#64 x1"));
}

Test(core_storm, takes_together_what_is_refused)
{
    meet();
    publish(1, a, 0, 1, 5);
    forget();
    for (int i = 0; i < LIMIT_STORM_TOLD + 10; i++)
        commit(1, a, 0, 6);
    pass_ms(1000);
    cr_expect_not_null(strstr(said, "3 < refused alice/1 alice/a#0 x10\n"));
}

/* In more topics than are told apart: the rest as one. */
Test(core_storm, bounds_what_is_told_of_many_places)
{
    enum { TOPICS = 2 * LIMIT_STORMS, EACH = 3 };
    uint32_t events;
    uint32_t all = 0;
    meet();
    for (uint32_t i = 0; i < TOPICS; i++) {
        char name[32];
        snprintf(name, sizeof name, "alice/t%u", i);
        uint32_t topic = open_topic(1, name);
        for (uint64_t seq = 0; seq < EACH; seq++) {
            reserve(1, topic, seq);
            fail(1, topic, seq, frames[1]);
            all += (uint32_t)count_told(&events);
            forget();
        }
    }
    cr_expect_eq(all, LIMIT_STORMS * EACH + LIMIT_STORM_TOLD);
    pass_ms(1000);
    cr_expect_eq(count_told(&events), TOPICS * EACH - all);
    cr_expect_eq(events, 1);
}

/* What has no place of its own is told before its party ends, too. */
Test(core_storm, tells_what_it_holds_together_before_one_of_its_parties_ends)
{
    uint32_t events;
    meet();
    for (uint32_t i = 0; i < LIMIT_STORMS; i++) {
        char name[32];
        snprintf(name, sizeof name, "alice/t%u", i);
        uint32_t topic = open_topic(1, name);
        reserve(1, topic, 0);
        fail(1, topic, 0, frames[1]);
    }
    join(2);
    uint32_t b = open_topic(2, "bob/b");
    for (uint64_t seq = 0; seq < LIMIT_STORM_TOLD + 7; seq++) {
        reserve(2, b, seq);
        fail(2, b, seq, frames[2]);
    }
    forget();
    leave(2, frames[2]);
    cr_expect_eq(count_told(&events), 7);
    cr_expect_eq(events, 1);
    const char *held = strstr(said, "3 < slot.failed");
    cr_expect_lt(held, strstr(said, "3 < party.left bob/1"), "%s", said);
    forget();
    pass_ms(3000);
    cr_expect_eq(count_told(&events), 0, "%s", said);
}

/* 1,000,000: each is settled, each is told of, and a tap that reads is sent some hundreds. */
Test(core_storm, loses_no_settlement_among_1_000_000)
{
    enum { ALL = 1000000, PER_STEP = 1000 };
    uint64_t told = 0;
    uint32_t sent = 0;
    options.topic_keep_slots = ALL;
    options.topic_keep_bytes = UINT64_C(1) << 40;
    restart();
    is_alone = true;
    meet();
    for (uint32_t i = 0; i < ALL; i++) {
        uint32_t events;
        fail_slots(1);
        if (i % PER_STEP == 0)
            pass_ms(1);
        told += count_told(&events);
        sent += events;
        forget();
    }
    uint32_t events;
    pass_ms(1000);
    told += count_told(&events);
    cr_expect_eq(told, ALL);
    cr_expect_leq(sent + events, 2 * LIMIT_STORM_TOLD);
    const struct topic *topic = pool_find(&core->topics, a);
    uint64_t settled = 0;
    for (uint32_t i = 0; i < topic->slots.count; i++)
        if (slot_table_at(&topic->slots, i)->state == SLOT_ERROR)
            settled += slot_table_at(&topic->slots, i)->count;
    cr_expect_eq(settled, ALL);
}
