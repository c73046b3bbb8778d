/* SPDX-License-Identifier: MPL-2.0 */
/* core_standstill_test.c -- a broker that stood still blames nobody for it: who had no answer
 * meanwhile has closed what the broker knows, and is on its way by another connection. */
#include "tests/unit/core_driver.h"

TestSuite(core_standstill, .init = init, .fini = fini);

enum { BEAT_MS = 100, LOST_AFTER_MS = 600, GRACE_MS = 200 };

static void greet_quickly(conn_id conn, uint64_t token)
{
    struct msg msg = hello(conn, token);
    msg.as.hello.heartbeat_ms = BEAT_MS;
    msg.as.hello.lost_after_ms = LOST_AFTER_MS;
    msg.as.hello.grace_ms = GRACE_MS;
    message(conn, msg);
}

static void join_quickly(conn_id conn)
{
    greet_quickly(conn, 0);
    attach(conn, conn + 10, tokens[conn]);
    forget();
}

/* Of alice. */
static void come_back_on(conn_id conn)
{
    greet_quickly(conn, tokens[1]);
    forget();
    attach(conn, conn + 10, tokens[1]);
    cr_expect_not_null(strstr(said, "< attached"), "%s", said);
    forget();
}

static void come_back(void)
{
    come_back_on(1);
}

static void tick(void)
{
    step((struct event){.type = EVENT_TICK});
}

/* Who is there to see takes what it was told, which is a sign of life of it. */
static void look(void)
{
    message(3, (struct msg){.type = MSG_TAP_TAKEN, .as.tap_taken.id = 1});
}

/* Nothing is looked at. */
static void stand_ms(int64_t ms)
{
    now_ns += ms * MS;
}

/* Alice, and who is there to see. */
static void begin(void)
{
    join_quickly(1);
    tap(3);
    forget();
}

static void wait_ms(int64_t ms)
{
    for (; ms > 1000; ms -= 1000) {
        pass_ms(1000);
        look();
    }
    pass_ms(ms);
    look();
}

#define LOST                                                                                       \
    "3 < party.lost alice/1 #0 x0 (party_lost of alice)\n"                                         \
    "3 < verdict.final alice/1 #0 x0 (party_lost of alice)\n"

/* Her connection closes, and she has her grace. */
static void expect_grace(void)
{
    closed(1);
    forget();
    wait_ms(GRACE_MS - 1);
    EXPECT("");
    wait_ms(1);
    EXPECT(LOST);
}

/* She has heard the broker after its standstill, so she is here. */
Test(core_standstill, gives_no_window_to_who_heard_the_broker_since)
{
    for (int64_t ago_ns = 0; ago_ns <= 1; ago_ns++) {
        begin();
        stand_ms(60000);
        tick();
        int64_t back_ns = now_ns;
        pass_ms(10);
        message(1, (struct msg){.type = MSG_BEAT, .as.beat.broker_ns = back_ns - ago_ns});
        forget();
        closed(1);
        forget();
        wait_ms(GRACE_MS - 1);
        EXPECT("");
        wait_ms(1);
        EXPECT(ago_ns == 0 ? LOST : "");
        fini();
        init();
    }
}

/* What she said is read, that she closed is seen first, or a timer: whatever comes first. */
Test(core_standstill, gives_who_has_closed_meanwhile_the_resume_window)
{
    enum { CLOSED, TICK, SAID, ORDERS };
    for (int first = 0; first < ORDERS; first++) {
        begin();
        stand_ms(60000);
        if (first == TICK)
            tick();
        if (first == SAID)
            beat(1);
        stand_ms(first == CLOSED ? 0 : 3);
        closed(1);
        EXPECT(first == SAID ? "1 < echo\n1 dropped\n11 dropped\n"
                               "3 < party.suspect alice/1 #0 x0\n"
                             : "1 dropped\n11 dropped\n3 < party.suspect alice/1 #0 x0\n");
        wait_ms(options.resume_ms - 10);
        EXPECT("");
        come_back();
        fini();
        init();
    }
}

Test(core_standstill, gives_it_to_who_is_silent_too)
{
    begin();
    stand_ms(60000);
    tick();
    beat(1); /* of before; by now she is elsewhere */
    EXPECT("1 < echo\n");
    wait_ms(options.resume_ms - 10);
    EXPECT("3 < party.suspect alice/1 #0 x0\n");
    come_back_on(21);
    wait_ms(LOST_AFTER_MS - 1);
    EXPECT("3 < party.suspect alice/1 #0 x0\n");
    wait_ms(1);
    EXPECT("21 < over 11 (party_lost of alice)\n21 dropped\n31 dropped\n" LOST);
}

Test(core_standstill, loses_who_does_not_come_back_in_the_window)
{
    begin();
    stand_ms(60000);
    tick();
    closed(1);
    forget();
    wait_ms(options.resume_ms - 1);
    EXPECT("");
    wait_ms(1);
    EXPECT(LOST);
    cr_expect_str_eq(error_message, "party alice lost: its connection closed and did not come back "
                                    "within its grace of 10000 ms");
}

/* Who has found its way is there, and has its grace again. */
Test(core_standstill, gives_it_once)
{
    begin();
    stand_ms(60000);
    tick();
    closed(1);
    come_back();
    expect_grace();
}

/* It closes, in vain, the connection on which it greeted before it is welcome. */
Test(core_standstill, gives_it_until_both_channels_stand)
{
    begin();
    stand_ms(60000);
    closed(1);
    greet_quickly(1, tokens[1]);
    closed(1);
    forget();
    wait_ms(options.resume_ms - 10);
    EXPECT("");
    come_back();
}

/* Her connection outlived it, and she all that followed from it. */
Test(core_standstill, is_forgotten_when_the_window_is_over)
{
    begin();
    stand_ms(60000);
    tick();
    for (int64_t ms = 0; ms <= options.resume_ms; ms += BEAT_MS) {
        wait_ms(BEAT_MS);
        beat(1);
    }
    expect_grace();
    cr_expect_str_eq(error_message, "party alice lost: its connection closed and did not come back "
                                    "within its grace of 200 ms");
}

/* So her client did not even notice. */
Test(core_standstill, that_is_shorter_than_a_beat_gives_nothing)
{
    join(1);
    tap(3);
    wait_ms(2400);
    stand_ms(900); /* 800 later than what was due */
    tick();
    beat(1);
    closed(1);
    forget();
    wait_ms(999);
    EXPECT("");
    wait_ms(1);
    EXPECT(LOST);
}

/* She was away when the broker stood still, with most of her grace left. */
Test(core_standstill, is_no_part_of_a_grace)
{
    begin();
    closed(1);
    stand_ms(60000);
    tick();
    forget();
    wait_ms(GRACE_MS + 10);
    EXPECT("");
    come_back();
}

/* The second one comes too soon to stop the clock: what counts is that she was heard in between. */
Test(core_standstill, may_follow_another_at_once)
{
    begin();
    for (int i = 0; i < 3; i++) {
        stand_ms(60000);
        look();
        tick();
        stand_ms(1);
        beat(1);
        closed(1);
        wait_ms(2000);
        stand_ms(60000);
        look();
        tick();
        forget();
        wait_ms(2000);
        EXPECT("");
        come_back();
    }
}

/* Nor has there to be time to hear anybody: but no more than once. */
Test(core_standstill, may_be_two)
{
    begin();
    for (int i = 0; i < 2; i++) {
        stand_ms(60000);
        look();
        tick();
        stand_ms(1);
        closed(1);
        stand_ms(60000);
        look();
        tick();
        forget();
        wait_ms(options.resume_ms - 10);
        EXPECT("");
        if (i == 0)
            come_back();
    }
    wait_ms(10);
    EXPECT(LOST);
}

/* The dead are not heard in between. */
Test(core_standstill, keeps_nobody_for_ever)
{
    static const int64_t late_ms[] = {501, 1000, 4000, 9000, 11000, 25000};
    for (size_t i = 0; i < sizeof late_ms / sizeof late_ms[0]; i++) {
        begin();
        closed(1);
        forget();
        int64_t begin_ns = now_ns;
        while (strstr(said, "party.lost") == NULL) {
            cr_assert_lt(now_ns - begin_ns, 3600 * 1000 * MS, "she is never lost");
            stand_ms(late_ms[i]);
            look();
            tick();
        }
        cr_expect_leq((now_ns - begin_ns) / MS, 2 * (options.resume_ms + 3 * late_ms[i]),
                      "late by %d ms: after %d ms", (int)late_ms[i],
                      (int)((now_ns - begin_ns) / MS));
        fini();
        init();
    }
}

/* Shorter ones do not stop the clock: who looks late looks once more, for what was said meanwhile
 * may not be read yet. */
Test(core_standstill, that_is_short_is_followed_by_a_second_look)
{
    begin();
    for (int i = 0; i < 2; i++) {
        closed(1);
        forget();
        stand_ms(GRACE_MS + 400);
        tick();
        wait_ms(BEAT_MS / 2 - 1);
        EXPECT("");
        if (i == 0)
            come_back();
    }
    wait_ms(1);
    EXPECT(LOST);
}

/* A broker that is a little late loses nobody much later than it would. */
Test(core_standstill, is_waited_out_for_as_long_as_it_was)
{
    static const struct {
        int64_t late_ms, wait_ms;
    } cases[] = {
        {10, 0}, {11, 11}, {BEAT_MS / 2 - 1, BEAT_MS / 2 - 1}, {BEAT_MS / 2 + 1, BEAT_MS / 2}};
    begin();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        closed(1);
        forget();
        stand_ms(GRACE_MS + cases[i].late_ms);
        tick();
        if (cases[i].wait_ms > 0) {
            wait_ms(cases[i].wait_ms - 1);
            EXPECT("");
            wait_ms(1);
        }
        EXPECT(LOST);
        fini();
        init();
        begin();
    }
}

Test(core_standstill, that_is_short_makes_nobody_silent)
{
    begin();
    for (int i = 0; i < 2; i++) {
        wait_ms(LOST_AFTER_MS - 200);
        EXPECT("3 < party.suspect alice/1 #0 x0\n");
        stand_ms(600);
        tick();
        wait_ms(BEAT_MS / 2 - 1);
        EXPECT("");
        if (i == 0)
            beat(1);
        forget();
    }
    wait_ms(1);
    EXPECT("1 < over 11 (party_lost of alice)\n1 dropped\n11 dropped\n" LOST);
}

/* Who has to come back first cannot say how far it is; whoever stalls is found all the same. */
Test(core_standstill, is_no_part_of_a_promise_of_progress)
{
    begin();
    message(1, (struct msg){.type = MSG_PROGRESS, .as.progress = {.next_within_ms = 500}});
    wait_ms(400);
    beat(1);
    stand_ms(60000);
    tick();
    closed(1);
    forget();
    wait_ms(1000);
    EXPECT("");
    come_back();
    message(1, (struct msg){.type = MSG_PROGRESS, .as.progress = {.next_within_ms = 500}});
    wait_ms(499);
    EXPECT("3 < party.suspect alice/1 #0 x0\n");
    wait_ms(1);
    cr_expect_not_null(strstr(said, "party.failed alice/1 #0 x0 (stalled of alice)"), "%s", said);
}

Test(core_standstill, that_is_short_makes_nobody_stall)
{
    begin();
    for (int i = 0; i < 2; i++) {
        beat(1);
        message(1, (struct msg){.type = MSG_PROGRESS, .as.progress = {.next_within_ms = 100}});
        forget();
        stand_ms(500);
        tick();
        wait_ms(BEAT_MS / 2 - 1);
        EXPECT("3 < party.suspect alice/1 #0 x0\n");
    }
    wait_ms(1);
    cr_expect_not_null(strstr(said, "party.failed alice/1 #0 x0 (stalled of alice)"), "%s", said);
}

/* What waits for data that may not be read yet goes on waiting: it is not over with her. */
Test(core_standstill, that_is_short_gives_up_nothing_that_waits_for_its_data)
{
    begin();
    beat(1);
    message(1, (struct msg){.type = MSG_PROGRESS, .as.progress = {.next_within_ms = 100}});
    message(1, (struct msg){.type = MSG_COMPLETE,
                            .as.complete = {.number = ++numbers[1], .after = frames[1] + 1}});
    forget();
    stand_ms(500);
    tick();
    EXPECT("3 < party.suspect alice/1 #0 x0\n");
}

/* The value may lie in a socket: the broker looks once more, as much later as it was late. */
Test(core_standstill, that_is_short_lets_no_value_miss_its_deadline)
{
    enum { DEADLINE_MS = 200, LATE_MS = 300 };
    begin();
    uint32_t topic = open_topic(1, "alice/x");
    for (uint64_t seq = 0; seq < 2; seq++) {
        promise(1, topic, seq, DEADLINE_MS);
        forget();
        stand_ms(DEADLINE_MS + LATE_MS);
        tick();
        look();
        cr_expect_null(strstr(said, "slot.failed"), "%s", said);
        if (seq == 0)
            commit(1, topic, seq, 5);
        beat(1);
        wait_ms(LATE_MS - 1);
        cr_expect_null(strstr(said, "slot.failed"), "%s", said);
        cr_expect_null(strstr(said, "refusal"), "%s", said);
        beat(1);
        wait_ms(1);
        cr_expect_eq(strstr(said, "slot.failed") != NULL, seq == 1, "%s", said);
    }
}

/* On time, a deadline is one. */
Test(core_standstill, that_is_none_changes_no_deadline)
{
    begin();
    uint32_t topic = open_topic(1, "alice/x");
    promise(1, topic, 0, 200);
    forget();
    wait_ms(199);
    EXPECT("");
    wait_ms(1);
    EXPECT("3 < slot.failed alice/1 alice/x#0 x1 (deadline of alice)\n");
}

/* A sign of life may lie in a socket. */
Test(core_standstill, that_is_short_ends_no_lease)
{
    enum { LEASE_MS = 400, LATE_MS = 100 };
    begin();
    join_quickly(2);
    for (int i = 0; i < 2; i++) {
        if (i == 0) {
            uint32_t tasks = open_topic(1, "alice/tasks");
            subscribe_as(2, (struct msg_subscribe){.sub = 1,
                                                   .pattern = span_text("alice/tasks"),
                                                   .group = span_text("work"),
                                                   .credit = 1,
                                                   .lease_ms = LEASE_MS,
                                                   .window_bytes = DEFAULT_SUB_WINDOW_BYTES});
            publish(1, tasks, 0, 1, 5);
        }
        beat(2);
        forget();
        stand_ms(LEASE_MS + LATE_MS);
        tick();
        look();
        cr_expect_null(strstr(said, "2 < over: sub"), "%s", said);
        if (i == 0)
            beat(2);
        wait_ms(BEAT_MS / 2 - 1);
        cr_expect_null(strstr(said, "2 < over: sub"), "%s", said);
        wait_ms(1);
        cr_expect_eq(strstr(said, "2 < over: sub 1 task") != NULL, i == 1, "%s", said);
    }
}

/* ---- verdicts -------------------------------------------------------------------------------- */

/* A job of three that the first loss breaks, and frank, who sees what is said of it. */
static void begin_job(int64_t settle_ms)
{
    struct msg_job_create job = a_strict_job(3, 0, settle_ms);
    job.strategy = VERDICT_EARLIEST;
    make_job(job);
    join_all(3);
    tap(6);
    pass_ms(100);
    forget();
}

static void fail_at(conn_id conn, int64_t occurred_ns)
{
    struct error_record record;
    size_t bytes;
    error_record_init(&record);
    record.type = span_text("app.broken");
    record.message = span_text("it broke");
    record.occurred_ns = occurred_ns;
    cr_assert_eq(error_encode(&record, 1, error_bytes, sizeof error_bytes, &bytes), WIRE_OK);
    break_down_with(conn, 0, span_of(error_bytes, bytes));
}

/* Alice's report lay in the socket while the broker stood still, longer than the window. */
Test(core_standstill, makes_no_report_too_late_for_a_verdict)
{
    for (int is_ticked = 0; is_ticked <= 1; is_ticked++) {
        begin_job(2000);
        int64_t begin_ns = now_ns;
        fail_at(2, begin_ns - 100);
        pass_ms(100);
        stand_ms(3000);
        forget();
        if (is_ticked)
            tick(); /* before it reads what came */
        fail_at(1, begin_ns - 200);
        complete(3);
        leave(3, 0);
        keep_lines("6 < party.failed", "6 < verdict");
        EXPECT("6 < party.failed alice/1 #0 x0 (application of alice)\n"
               "6 < verdict.final alice/1 #0 x0 (application of alice)\n");
        fini();
        init();
    }
}

/* What was left of it is left: no more, and no less. */
Test(core_standstill, is_no_part_of_the_window_of_a_verdict)
{
    begin_job(2000);
    fail_at(2, now_ns);
    pass_ms(100);
    tick();
    stand_ms(3000);
    tick();
    pass_ms(1899);
    keep_lines("6 < verdict.final", "6 < verdict.final");
    EXPECT("");
    pass_ms(1);
    keep_lines("6 < verdict.final", "6 < verdict.final");
    EXPECT("6 < verdict.final bob/1 #0 x0 (application of bob)\n");
}

/* The job has not gone on for a window after the loss. */
Test(core_standstill, is_no_part_of_the_window_in_which_a_loss_is_survived)
{
    join_all(3);
    tap(6);
    pass_ms(100);
    int64_t begin_ns = now_ns;
    fail_at(1, begin_ns);
    leave(3, 0);
    pass_ms(100);
    stand_ms(10000);
    forget();
    fail_at(2, now_ns);
    keep_lines("6 < verdict", "6 < verdict");
    EXPECT("6 < verdict.final alice/1 #0 x0 (application of alice)\n");
}
