/* SPDX-License-Identifier: MPL-2.0 */
/* core_late_test.c -- what parties say when the final verdict on them was said: heard for a while,
 * told as history, and of no consequence. */
#include "tests/unit/core_driver.h"

TestSuite(core_late, .init = init, .fini = fini);

/* Alice fails, and bob is over: the job of two has its final verdict, and so many more attempts. */
static void fail_the_job(uint64_t restarts)
{
    make_job(a_strict_job(2, restarts, 0));
    join(1);
    join(2);
    tap(4);
    break_down(1);
    pass_ms(0);
    cr_assert_not_null(strstr(said, "4 < verdict.final alice/1 "), "%s", said);
    cr_assert_not_null(strstr(said, "4 < party.terminated bob/1 "), "%s", said);
    cr_assert_null(strstr(said, "2 < over"), "its connection stands: %s", said);
    forget();
}

static const struct error_record *told_error(void)
{
    static struct error_record record;
    uint32_t count = 0;
    for (uint32_t i = 0; i < effects.msg_count; i++) {
        const struct msg *msg = &effects.msgs[i];
        if (msg->type == MSG_EVENT && msg->as.event.error.bytes > 0) /* not that for the log */
            cr_assert_eq(error_decode(msg->as.event.error, &record, 1, &count), WIRE_OK);
    }
    cr_assert_eq(count, 1);
    return &record;
}

Test(core_late, failure_is_history_and_nothing_else)
{
    fail_the_job(0);
    break_down_with(2, 0, an_error("job/bob/1/1"));
    EXPECT("2 < over 11 (cancelled of )\n2 dropped\n"
           "4 < party.failed bob/1 #0 x0 (application of bob), late\n");
    cr_expect(span_equal(told_error()->id, span_text("job/bob/1/1")));
    show_job(5);
    EXPECT("5 < failed, attempt 1, epoch 1 of 0 (application of alice)\n");
    ask_verdict(5, 0);
    EXPECT("5 < row 0 root alice/1\n5 < verdict 2 (application of alice) x0\n");
    crash(50); /* and so says the history */
    tap(4);
    tap_from(4, 1, 1000);
    cr_expect_not_null(strstr(said, "4 < party.failed bob/1 #0 x0 (application of bob), durable, "
                                    "late\n"),
                       "%s", said);
    forget();
}

/* The next attempt has begun, and bob is in it already: it is about the one before. */
Test(core_late, failure_is_of_the_attempt_and_incarnation_that_is_over)
{
    fail_the_job(1);
    message(6, hello(1, 0));
    message(7, hello(2, 0));
    pass_ms(1000);
    cr_assert_not_null(strstr(said, "7 < epoch 2: rank 1 of 2, attempt 2\n"), "%s", said);
    forget();
    break_down_with(2, 0, an_error("job/bob/1/1"));
    EXPECT("2 < over 11 (cancelled of )\n2 dropped\n"
           "4 < party.failed bob/1 #0 x0 (application of bob), late\n");
    cr_expect_eq(told_error()->attempt, 1);
    cr_expect_eq(told_error()->incarnation, 1);
    show_job(5);
    EXPECT("5 < member 0 alice/2 running\n5 < member 1 bob/2 running\n"
           "5 < running, attempt 2, epoch 2 of 2 (application of alice)\n");
}

Test(core_late, one_that_leaves_is_told_that_it_is_over)
{
    fail_the_job(0);
    leave(2, 0);
    EXPECT("2 < over 11 (cancelled of )\n2 dropped\n");
}

/* It asks for nothing that it could be given, and breaks nothing by it. */
Test(core_late, one_is_answered_its_beats_and_no_more)
{
    fail_the_job(0);
    uint64_t refused = count_refused(5);
    beat(2);
    EXPECT("2 < echo\n");
    subscribe(2, 1, "alice/#", "", 0, 0);
    await_slot(2, 1, "alice/a", 0);
    barrier(2, 1, 1, 1);
    message(2, (struct msg){.type = MSG_ACK});
    message(2, (struct msg){.type = MSG_TAKEN});
    message(2, (struct msg){.type = MSG_TOPIC_OPEN,
                            .as.topic_open = {.request = 1, .topic = span_text("bob/a")}});
    EXPECT("");
    cr_expect_eq(count_refused(5), refused);
}

static void beat_for_ms(conn_id conn, int64_t ms)
{
    for (; ms > 0; ms -= 1000) {
        pass_ms(ms < 1000 ? ms : 1000);
        beat(conn);
        beat(4);
        beat(5);
        forget();
    }
}

Test(core_late, one_is_heard_for_a_minute)
{
    fail_the_job(0);
    beat_for_ms(2, DEFAULT_LATE_MS - 1);
    cr_expect_eq(core_session_count(core), 3);
    pass_ms(1);
    EXPECT("2 < over 11 (cancelled of )\n2 dropped\n");
    cr_expect_eq(core_session_count(core), 2);
}

Test(core_late, one_that_is_silent_is_forgotten)
{
    fail_the_job(0);
    for (int i = 0; i < 9; i++) {
        pass_ms(1000);
        beat(4);
        beat(5);
        forget();
    }
    pass_ms(999);
    EXPECT("");
    pass_ms(1);
    EXPECT("2 dropped\n");
}

Test(core_late, one_that_is_gone_is_forgotten)
{
    fail_the_job(0);
    closed(2);
    EXPECT("2 dropped\n");
    message(6, hello(2, tokens[2]));
    EXPECT("6 < refused 11 errbus.fenced\n6 dropped\n");
}

/* What is no error, or says that it is another's, is counted, and that is all. */
Test(core_late, failure_that_cannot_be_read_is_refused)
{
    static const struct {
        const char *id; /* NULL: no error */
    } cases[] = {{NULL}, {""}, {"job/alice/1/1"}, {"job/bob/2/1"}, {"other/bob/1/1"}};
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fail_the_job(0);
        uint64_t refused = count_refused(5);
        break_down_with(2, 0, cases[i].id != NULL ? an_error(cases[i].id) : span_text("\x05"));
        EXPECT("2 < over 11 (cancelled of )\n2 dropped\n");
        cr_expect_eq(count_refused(5), refused + 1, "case %u", i);
        restart();
    }
}

/* Nor does it hold up a broker that stops. */
Test(core_late, one_is_over_when_the_broker_stops)
{
    fail_the_job(0);
    step((struct event){.type = EVENT_STOP});
    cr_expect_not_null(strstr(said, "2 < over 11 (cancelled of )\n2 dropped\n"), "%s", said);
    cr_expect_eq(core_session_count(core), 2, "a tap, and who asks");
}

/* Who was told nothing of a verdict is told at once that it is over. */
Test(core_late, one_is_not_heard_when_its_job_was_cancelled)
{
    ask_from(5);
    create_job(5, a_job(1, 1));
    join(1);
    forget();
    cancel_job(5);
    EXPECT("5 < done 0 \n1 < over 11 (cancelled of )\n1 dropped\n11 dropped\n");
}

/* Guard and program each have a connection, and each may speak. */
Test(core_late, ones_are_both_processes_of_a_guarded_party)
{
    make_job(a_strict_job(2, 0, 0));
    join(1);
    struct msg guard = hello(2, 0);
    guard.as.hello.role = 2;
    message(2, guard);
    struct msg program = hello(2, 0);
    program.as.hello.guard = tokens[2];
    message(3, program);
    tap(4);
    break_down(1);
    pass_ms(0);
    forget();
    break_down_with(3, 0, an_error("job/bob/1/16777217"));
    EXPECT("3 < over 11 (cancelled of )\n3 dropped\n"
           "4 < party.failed bob/1 #0 x0 (application of bob), late\n");
    break_down_with(2, 0, an_error("job/bob/1/1"));
    EXPECT("2 < over 11 (cancelled of )\n2 dropped\n"
           "4 < party.failed bob/1 #0 x0 (application of bob), late\n");
}

/* Without memory for that, it is over as ever. */
Test(core_late, one_is_over_at_once_where_memory_is_short)
{
    uint64_t most = 0;
    bool was_heard = false;
    unsigned told = 0;
    for (most = 0; !was_heard; most += 8) {
        make_job(a_strict_job(2, 0, 1000));
        join(1);
        join(2);
        break_down(1);
        now_ns += 1000 * MS;
        step((struct event){.type = EVENT_TICK}); /* the final word; the end is the next step's */
        forget();
        memory.bytes_max = memory.bytes_used + most;
        step((struct event){.type = EVENT_TICK});
        memory.bytes_max = UINT64_MAX;
        bool was_over = strncmp(said, "2 < over 11 (", 13) == 0;
        was_heard = strcmp(said, "12 dropped\n") == 0;
        told += was_over;
        cr_assert(was_heard || was_over || strcmp(said, "12 dropped\n2 dropped\n") == 0, "%s",
                  said);
        restart();
    }
    cr_expect_gt(told, 0);
}
