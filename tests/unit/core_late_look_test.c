/* SPDX-License-Identifier: MPL-2.0 */
/* core_late_look_test.c -- a broker that is late by less than half a second judges nobody at once:
 * what came in time may not be read yet, so it looks a second time. */
#include "tests/unit/core_driver.h"

TestSuite(core_late_look, .init = init, .fini = fini);

enum { DEADLINE_MS = 100, LEASE_MS = 4000, SLACK_MS = 500, NEAR_MS = 10 };

/* The broker looks so late; what came meanwhile is not read. */
static void tick_late(int64_t ms)
{
    now_ns += ms * MS;
    step((struct event){.type = EVENT_TICK});
}

static bool is_said(const char *words)
{
    return strstr(said, words) != NULL;
}

/* ---- deadlines of slots ---------------------------------------------------------------------- */

/* Alice promises a value to bob, and the broker looks so late behind the deadline. */
static uint32_t promise_and_look(int64_t late_ms)
{
    uint32_t topic = open_for_bob();
    promise(1, topic, 0, DEADLINE_MS);
    forget();
    tick_late(DEADLINE_MS + late_ms);
    return topic;
}

Test(core_late_look, takes_a_value_that_it_had_not_read_at_the_deadline)
{
    uint32_t topic = promise_and_look(200);
    EXPECT("");
    pass_ms(199);
    EXPECT("");
    commit(1, topic, 0, 7);
    EXPECT("1 < accepted 2 0\n12 < sub 1 payload 7 x1\n");
    pass_ms(1000);
    cr_expect_not(is_said("deadline"), "%s", said);
}

Test(core_late_look, fails_the_slot_as_much_later_as_it_was_late)
{
    static const int64_t lates_ms[] = {NEAR_MS + 1, SLACK_MS - 1};
    for (size_t i = 0; i < sizeof lates_ms / sizeof *lates_ms; i++) {
        (void)promise_and_look(lates_ms[i]);
        EXPECT("");
        pass_ms(lates_ms[i] - 1);
        EXPECT("");
        pass_ms(1);
        EXPECT("12 < sub 1 error #0 (deadline of alice)\n");
        fini();
        init();
    }
}

Test(core_late_look, fails_the_slot_at_once_if_it_was_in_time)
{
    (void)promise_and_look(NEAR_MS);
    EXPECT("12 < sub 1 error #0 (deadline of alice)\n");
}

Test(core_late_look, looks_no_third_time)
{
    (void)promise_and_look(200);
    tick_late(200 + 300); /* the second look is late, too */
    EXPECT("12 < sub 1 error #0 (deadline of alice)\n");
}

/* ---- leases ---------------------------------------------------------------------------------- */

/* Bob has a task of alice for as long as he says something.  The broker looks so late. */
static void lease_and_look(int64_t late_ms)
{
    join(1);
    join(2);
    uint32_t topic = open_topic(1, "alice/tasks");
    subscribe_as(2, (struct msg_subscribe){.sub = 1,
                                           .pattern = span_text("alice/tasks"),
                                           .group = span_text("work"),
                                           .window_bytes = 4096,
                                           .lease_ms = LEASE_MS});
    publish(1, topic, 0, 1, 5);
    beat_on(3, 1000, (conn_id[]){1, 0}); /* bob is silent */
    pass_ms(LEASE_MS - 3000 - 1);
    beat(1);
    forget();
    tick_late(1 + late_ms);
}

Test(core_late_look, leaves_the_task_with_a_member_whose_beat_it_had_not_read)
{
    lease_and_look(200);
    EXPECT("");
    pass_ms(199);
    EXPECT("");
    beat(2);
    EXPECT("2 < echo\n");
    pass_ms(1000);
    cr_expect_not(is_said("over"), "%s", said);
}

Test(core_late_look, ends_the_leases_of_the_silent_as_much_later_as_it_was_late)
{
    lease_and_look(200);
    pass_ms(199);
    EXPECT("");
    pass_ms(1);
    cr_expect(is_said("2 < over: sub 1 task 1#0, delivery 1 (worker_lost of bob)\n"), "%s", said);
}

Test(core_late_look, ends_the_leases_at_once_if_it_was_in_time)
{
    lease_and_look(NEAR_MS);
    cr_expect(is_said("2 < over: sub 1 task 1#0, delivery 1 (worker_lost of bob)\n"), "%s", said);
}
