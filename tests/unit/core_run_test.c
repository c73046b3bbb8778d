/* SPDX-License-Identifier: MPL-2.0 */
/* core_run_test.c -- the runs of a job that nobody created, in conversations: who begins the next
 * one, who continues the last, and what is never thrown away; see core_driver.h. */
#include "broker/core/lifecycle/run.h"
#include "broker/core/model.h"
#include "broker/core/record/failure.h"
#include "tests/unit/core_driver.h"

enum { HOUR_MS = 3600000 };

static void begin(void)
{
    init();
    options.linger_ms = HOUR_MS; /* jobs stay */
    options.resume_ms = 1;
    restart();
    attempt = 1;
}

TestSuite(core_run, .init = begin, .fini = fini);

/* ---- parties --------------------------------------------------------------------------------- */

/* By a rule, or of a run with a name.  The number of the run that the party is in; 0: refused. */
static uint32_t come_as(conn_id conn, enum run_rule rule, const char *run)
{
    struct msg msg = hello(conn, 0);
    msg.as.hello.run_rule = rule;
    msg.as.hello.run = span_text(run);
    closed(conn);
    closed(conn + 10);
    forget();
    welcomed.attempt = 0;
    message(conn, msg);
    if (welcomed.attempt == 0)
        return 0;
    attach(conn, conn + 10, tokens[conn]);
    numbers[conn] = 0;
    frames[conn] = 0;
    forget();
    attempt = (uint32_t)welcomed.attempt;
    return attempt;
}

static uint32_t come(conn_id conn)
{
    return come_as(conn, RUN_AS_FOUND, "");
}

static void go(conn_id conn)
{
    leave(conn, frames[conn]);
    forget();
}

static void finish(conn_id conn)
{
    message(conn, (struct msg){.type = MSG_COMPLETE,
                               .as.complete = {.number = ++numbers[conn], .after = frames[conn]}});
    go(conn);
}

static void crash_party(conn_id conn)
{
    closed(conn);
    pass_ms(1000);
    forget();
}

static void write_one(conn_id conn, const char *topic, payload_id payload)
{
    uint32_t number = open_topic(conn, topic);
    uint64_t seq = 0;
    message(conn, (struct msg){.type = MSG_TOPIC_OPEN,
                               .as.topic_open = {.request = 1, .topic = span_text(topic)}});
    for (uint32_t i = 0; i < effects.msg_count; i++)
        if (effects.msgs[i].type == MSG_TOPIC_OPENED)
            seq = effects.msgs[i].as.topic_opened.next_seq;
    publish(conn, number, seq, 1, payload);
    forget();
}

/* A run in which alice and bob were, and left one value of alice's. */
static void run_once(void)
{
    cr_assert_eq(come(1), 1);
    cr_assert_eq(come(2), 1);
    write_one(1, "alice/a", 1);
    go(1);
    go(2);
}

/* ---- who ended well begins the next run ------------------------------------------------------ */

Test(core_run, begins_again_with_whoever_left)
{
    run_once();
    tap(5);
    say_hello(1);
    EXPECT(
        "1 < welcome incarnation 2\n5 < job.run alice/2 #0 x2\n5 < party.joined alice/2 #0 x0\n");
    cr_expect_eq(welcomed.attempt, 2);
    cr_expect_eq(welcomed.is_continued, 0);
    cr_expect_eq(welcomed.run_incarnations, 1);
    attach(1, 11, tokens[1]);
    numbers[1] = frames[1] = 0;
    forget();
    message(1, (struct msg){.type = MSG_TOPIC_OPEN,
                            .as.topic_open = {.request = 1, .topic = span_text("alice/a")}});
    EXPECT("1 < opened 0 next 0\n");
    attempt = 2;
    publish(1, topic_number, 0, 1, 2);
    forget();
    cr_expect_eq(come(2), 2);
    subscribe(2, 1, "alice/a", "", 0, 0);
    EXPECT("2 < subscribed 0\n2 < accepted 0 1\n12 < sub 1 payload 2 x1\n");
}

Test(core_run, begins_again_with_whoever_completed)
{
    cr_assert_eq(come(1), 1);
    write_one(1, "alice/a", 1);
    finish(1);
    cr_expect_eq(come(1), 2);
}

Test(core_run, each_run_counts_on)
{
    for (uint32_t run = 1; run < 6; run++) {
        cr_expect_eq(come(1), run);
        write_one(1, "alice/a", run);
        go(1);
        compact();
        forget();
    }
}

Test(core_run, waits_for_a_party_that_ended_in_an_earlier_run)
{
    run_once();
    cr_assert_eq(come(1), 2);
    await_slot(1, 7, "bob/a", 0);
    subscribe(1, 1, "bob/#", "", 0, 0);
    EXPECT("1 < subscribed 0\n1 < accepted 0 1\n"); /* no word that he has ended: he may come */
    go(1);
}

/* ---- who continues it ------------------------------------------------------------------------ */

Test(core_run, goes_on_with_a_party_that_is_new_to_it)
{
    run_once();
    int64_t rest_ns = now_ns + wall_ahead_ns;
    pass_ms(5000);
    cr_expect_eq(come(3), 1);
    cr_expect_eq(welcomed.is_continued, 1);
    cr_expect_eq(welcomed.rest_ns, rest_ns);
    cr_expect_eq(welcomed.run_incarnations, 1);
    subscribe(3, 1, "alice/a", "", 0, 0);
    EXPECT("3 < subscribed 0\n3 < accepted 0 1\n13 < sub 1 payload 1 x1\n13 < sub 1 end #1\n");
}

/* A viewer has left nothing that could be continued. */
Test(core_run, is_not_continued_because_a_viewer_came_first)
{
    cr_assert_eq(come_as(3, RUN_FOLLOW, ""), 1);
    cr_assert_eq(come(1), 1);
    cr_expect_eq(welcomed.is_continued, 0);
    go(1);
    cr_assert_eq(come(2), 1);
    cr_expect_eq(welcomed.is_continued, 1);
}

Test(core_run, is_not_continued_because_a_viewer_was_there)
{
    cr_assert_eq(come_as(3, RUN_FOLLOW, ""), 1);
    go(3);
    compact();
    cr_assert_eq(come(1), 1);
    cr_expect_eq(welcomed.is_continued, 0);
}

/* Values from a shell, one at a time, and a program that reads them, started again and again. */
Test(core_run, goes_on_with_what_a_shell_wrote_since)
{
    for (int i = 0; i < 3; i++) {
        cr_expect_eq(come_as(1, RUN_CONTINUE, ""), 1);
        write_one(1, "alice/a", 1);
        pass_ms(10);
        go(1);
        if (i == 1)
            crash(100);
        cr_expect_eq(come(2), 1);
        cr_expect_eq(welcomed.is_continued, 1);
        pass_ms(10);
        go(2);
    }
    cr_expect_eq(come_as(3, RUN_CONTINUE, ""), 1); /* and writes nothing */
    pass_ms(10);
    go(3);
    cr_expect_eq(come(2), 2);
}

Test(core_run, goes_on_with_a_party_that_was_lost)
{
    cr_assert_eq(come(1), 1);
    write_one(1, "alice/a", 1);
    crash_party(1);
    cr_expect_eq(come(1), 1);
    cr_expect_eq(welcomed.is_continued, 1);
    cr_expect_eq(welcomed.run_incarnations, 2);
    go(1); /* and this time it ends well */
    cr_expect_eq(come(1), 2);
    cr_expect_eq(welcomed.run_incarnations, 1);
}

Test(core_run, goes_on_with_a_party_that_failed)
{
    cr_assert_eq(come(1), 1);
    write_one(1, "alice/a", 1);
    message(1,
            (struct msg){.type = MSG_FAIL_PARTY,
                         .as.fail_party = {
                             .number = ++numbers[1], .after = frames[1], .error = an_error("")}});
    forget();
    cr_expect_eq(come(1), 1);
}

Test(core_run, never_ends_while_somebody_is_in_it)
{
    cr_assert_eq(come(1), 1);
    cr_assert_eq(come(2), 1);
    go(1);
    cr_expect_eq(come(1), 1); /* bob is there */
    cr_expect_eq(welcomed.is_continued, 0);
    cr_expect_eq(welcomed.run_incarnations, 2);
    go(1);
    closed(2); /* and now bob is suspect, in his grace */
    pass_ms(500);
    cr_expect_eq(come(1), 1);
    go(1);
    pass_ms(500);
    cr_expect_eq(come(1), 2); /* bob is lost */
}

Test(core_run, never_ends_while_a_party_that_completed_reads_on)
{
    cr_assert_eq(come(1), 1);
    cr_assert_eq(come(2), 1);
    message(2, (struct msg){.type = MSG_COMPLETE,
                            .as.complete = {.number = ++numbers[2], .after = frames[2]}});
    go(1);
    cr_expect_eq(come(1), 1);
}

/* ---- what is owed ---------------------------------------------------------------------------- */

/* Bob's durable name reads what alice writes, and bob is away. */
static void owe_to_a_diary(void)
{
    cr_assert_eq(come(2), 1);
    subscribe(2, 1, "alice/#", "diary", 0, 0);
    go(2);
    cr_assert_eq(come(1), 1);
    write_one(1, "alice/a", 1);
    go(1);
}

Test(core_run, never_ends_while_a_durable_name_has_not_read_it)
{
    owe_to_a_diary();
    cr_expect_eq(come(1), 1); /* each night alice's values follow those of the last */
    write_one(1, "alice/a", 2);
    go(1);
    cr_expect_eq(come_as(1, RUN_NEXT, ""), 0);
    EXPECT("1 < refused 12 errbus.run_under_way\n1 dropped\n");
    cr_assert_eq(come(2), 1);
    subscribe(2, 1, "alice/#", "diary", 0, 0);
    EXPECT("2 < subscribed 0\n2 < accepted 0 1\n12 < sub 1 payload 1 x1\n12 < sub 1 end #1\n"
           "12 < sub 1 payload 2 x1\n12 < sub 1 end #2\n");
    message(
        2, (struct msg){
               .type = MSG_ACK,
               .as.ack = {.number = ++numbers[2], .sub = 1, .topic = topic_number, .next_seq = 2}});
    go(2);
    cr_expect_eq(come(1), 2);
}

Test(core_run, ends_when_a_durable_name_stayed_away_for_too_long)
{
    owe_to_a_diary();
    pass_ms(6000); /* its keeping time is 5 s */
    cr_expect_eq(come(1), 2);
}

Test(core_run, never_ends_while_a_group_has_a_task)
{
    cr_assert_eq(come(2), 1);
    share(2, 1, "alice/a", "crew", 1);
    go(2);
    cr_assert_eq(come(1), 1);
    write_one(1, "alice/a", 1);
    go(1);
    cr_expect_eq(come(1), 1);
    go(1);
    cr_assert_eq(come(2), 1);
    uint32_t topic = topic_number;
    share(2, 1, "alice/a", "crew", 1);
    done(2, topic, 0, 1);
    go(2);
    cr_expect_eq(come(1), 2);
}

Test(core_run, a_job_stays_while_a_durable_name_has_not_read_it)
{
    options.linger_ms = 1000;
    restart();
    owe_to_a_diary();
    pass_ms(4000); /* four times its linger time, and less than the name is kept */
    cr_assert_eq(come(2), 1);
    subscribe(2, 1, "alice/#", "diary", 0, 0);
    EXPECT("2 < subscribed 0\n2 < accepted 0 1\n12 < sub 1 payload 1 x1\n12 < sub 1 end #1\n");
}

/* ---- those who come first -------------------------------------------------------------------- */

/* Carol was lost in the first run; bob and alice ended well. */
static void lose_carol(void)
{
    cr_assert_eq(come(1), 1);
    cr_assert_eq(come(2), 1);
    cr_assert_eq(come(3), 1);
    write_one(1, "alice/a", 1);
    crash_party(3);
    go(2);
    go(1);
}

Test(core_run, whoever_came_too_early_is_told_to_come_again)
{
    lose_carol();
    cr_assert_eq(come(3), 1); /* it may be a late restart, for all that is known */
    pass_ms(9000);
    beat(3);
    forget();
    say_hello(1);
    EXPECT("3 < over 11 (cancelled of )\n3 dropped\n13 dropped\n1 < welcome incarnation 2\n");
    cr_expect_str_eq(error_message,
                     "run 2 of the job began when alice joined: open the bus again to take part");
    cr_expect_eq(welcomed.attempt, 2);
    cr_expect_eq(come(3), 2);
    cr_expect_eq(welcomed.run_incarnations, 1);
    cr_expect_eq(come(2), 2);
}

Test(core_run, whoever_was_there_for_a_minute_is_not_thrown_out)
{
    lose_carol();
    cr_assert_eq(come(3), 1);
    beat_on(60, 1000, (conn_id[]){3, 0});
    forget();
    cr_expect_eq(come(1), 1);
    cr_expect_eq(welcomed.is_continued, 1);
}

Test(core_run, a_worker_of_every_run_is_not_thrown_out)
{
    run_once();
    cr_assert_eq(come_as(3, RUN_CONTINUE, ""), 1);
    cr_expect_eq(come(1), 1);
}

Test(core_run, a_broker_that_was_away_throws_nobody_out)
{
    lose_carol();
    cr_assert_eq(come(3), 1);
    crash(100);
    cr_expect_eq(come(1), 1);
}

/* ---- viewers --------------------------------------------------------------------------------- */

Test(core_run, a_viewer_holds_no_run)
{
    cr_assert_eq(come_as(4, RUN_FOLLOW, ""), 1);
    run_once();
    say_hello(1);
    EXPECT("4 < over 11 (cancelled of )\n4 dropped\n14 dropped\n1 < welcome incarnation 2\n");
    cr_expect_eq(come_as(4, RUN_FOLLOW, ""), 2);
}

Test(core_run, a_viewer_that_has_not_got_all_holds_it)
{
    cr_assert_eq(come_as(4, RUN_FOLLOW, ""), 1);
    subscribe(4, 1, "+/a", "", 0, 0);
    run_once(); /* dave was sent it, and has not taken it */
    cr_expect_eq(come(1), 1);
    go(1);
    const struct sub *sub = pool_find(&core->subs, 1);
    message(4, (struct msg){.type = MSG_TAKEN, .as.taken = {.sub = 1, .bytes = sub->sent_bytes}});
    forget();
    cr_expect_eq(come(1), 2);
}

Test(core_run, a_viewer_neither_continues_nor_begins_one)
{
    run_once();
    cr_expect_eq(come_as(4, RUN_FOLLOW, ""), 1);
    go(4);
    cr_expect_eq(come_as(4, RUN_FOLLOW, ""), 1);
    cr_expect_eq(come(1), 2);
}

/* ---- what a party says of itself ------------------------------------------------------------- */

Test(core_run, one_step_from_a_shell_begins_none)
{
    for (int i = 0; i < 3; i++) {
        cr_expect_eq(come_as(1, RUN_CONTINUE, ""), 1);
        write_one(1, "alice/a", 1);
        go(1);
    }
    cr_expect_eq(come_as(1, RUN_NEXT, ""), 2);
    cr_expect_eq(come_as(2, RUN_NEXT, ""), 0);
    EXPECT("2 < refused 12 errbus.run_under_way\n2 dropped\n");
    crash_party(1);
    cr_expect_eq(come_as(1, RUN_NEXT, ""), 3); /* also if it was lost */
}

/* The process before has its grace, and may be on its way back. */
Test(core_run, who_is_refused_another_run_ends_nobody)
{
    cr_assert_eq(come(1), 1);
    cr_assert_eq(come(2), 1);
    uint64_t token = tokens[1];
    closed(1);
    closed(11);
    cr_expect_eq(come_as(1, RUN_NEXT, ""), 0);
    EXPECT("1 < refused 12 errbus.run_under_way\n1 dropped\n");
    cr_expect_eq(come_as(1, RUN_AS_FOUND, "tuesday"), 0);
    EXPECT("1 < refused 12 errbus.run_under_way\n1 dropped\n");
    resume(1, token, 0);
    keep_lines("1 < welcome", "1 < refused");
    EXPECT("1 < welcome incarnation 1, resumed\n");
}

Test(core_run, who_is_refused_for_what_a_name_has_not_read_ends_nobody)
{
    cr_assert_eq(come(1), 1);
    cr_assert_eq(come(2), 1);
    subscribe(2, 1, "alice/a", "daily", 0, 0);
    go(2);
    write_one(1, "alice/a", 1);
    uint64_t token = tokens[1];
    closed(1);
    closed(11);
    cr_expect_eq(come_as(1, RUN_NEXT, ""), 0);
    EXPECT("1 < refused 12 errbus.run_under_way\n1 dropped\n");
    resume(1, token, 0);
    keep_lines("1 < welcome", "1 < refused");
    EXPECT("1 < welcome incarnation 1, resumed\n");
}

/* Its last incarnation holds nothing: it is lost, and the next run begins. */
Test(core_run, who_comes_again_for_another_run_does_not_wait_for_itself)
{
    cr_assert_eq(come(1), 1);
    closed(1);
    cr_expect_eq(come_as(1, RUN_NEXT, ""), 2);
}

Test(core_run, a_name_continues_the_run_of_that_name)
{
    cr_assert_eq(come_as(1, RUN_AS_FOUND, "monday"), 1);
    go(1);
    cr_expect_eq(come_as(1, RUN_AS_FOUND, "monday"), 1);
    cr_expect_eq(come_as(2, RUN_AS_FOUND, "tuesday"), 0);
    EXPECT("2 < refused 12 errbus.run_under_way\n2 dropped\n");
    crash_party(1);
    cr_expect_eq(come_as(2, RUN_AS_FOUND, "tuesday"), 2); /* new to the job, and alice was lost */
    cr_expect_eq(come_as(1, RUN_AS_FOUND, "tuesday"), 2);
    go(1);
    go(2);
    crash(100);
    cr_expect_eq(come_as(1, RUN_AS_FOUND, "tuesday"), 2);
    go(1);
    cr_expect_eq(come(1), 3); /* without a name: by the rule */
}

Test(core_run, says_who_holds_a_run)
{
    for (conn_id conn = 1; conn < 6; conn++)
        cr_assert_eq(come(conn), 1);
    struct msg msg = hello(6, 0);
    msg.as.hello.run = span_text("x");
    message(6, msg);
    cr_expect_str_eq(core->why_held.data,
                     "run 1 of the job is not over: alice, bob, carol and 2 more did not "
                     "end yet; stop them, or join their run");
}

/* ---- guards ---------------------------------------------------------------------------------- */

Test(core_run, a_program_follows_its_guard)
{
    run_once();
    struct msg msg = hello(1, 0);
    msg.as.hello.role = 2;
    message(1, msg);
    cr_assert_eq(welcomed.attempt, 2);
    msg = hello(21, 0);
    msg.as.hello.guard = tokens[1];
    msg.as.hello.run = span_text("another");
    message(21, msg);
    cr_expect_eq(welcomed.attempt, 2);
    cr_expect_eq(welcomed.incarnation, 2);
    forget();
}

/* ---- over restarts of the broker ------------------------------------------------------------- */

Test(core_run, is_the_same_behind_a_restart)
{
    run_once();
    crash(100);
    pass_ms(10);
    cr_expect_eq(come(3), 1);
    go(3);
    compact();
    crash(100);
    cr_expect_eq(come(1), 2);
}

/* Errors that are kept under this id. */
static uint32_t count_errors(const char *id)
{
    uint32_t count = 0;
    const struct failure *failure = NULL;
    while ((failure = pool_next(&core->failures, failure != NULL ? failure->id : 0)) != NULL)
        count += span_equal(failure_id(failure), span_text(id));
    return count;
}

/* Carol was told that her run was over, and that is kept as what she ended with. */
Test(core_run, no_error_of_the_job_has_the_id_of_one_from_before_a_restart)
{
    for (int is_compact = 0; is_compact <= 1; is_compact++) {
        lose_carol();
        cr_assert_eq(come(3), 1);
        cr_assert_eq(come(1), 2);
        cr_expect_eq(count_errors("job//0/1"), 1);
        if (is_compact)
            compact();
        crash(100);
        cr_expect_eq(count_errors("job//0/1"), 1);
        ask_from(5);
        cancel_job(5);
        cr_expect_eq(count_errors("job//0/1"), 1);
        cr_expect_eq(count_errors("job//0/2"), 1);
        fini();
        begin();
    }
}

Test(core_run, who_took_part_is_known_behind_a_checkpoint)
{
    lose_carol();
    compact();
    crash(100);
    cr_expect_eq(come(3), 1);
    go(3);
    compact();
    crash(100);
    cr_expect_eq(come(3), 2);
}

Test(core_run, what_a_later_run_fails_of_is_known_behind_a_checkpoint)
{
    run_once();
    cr_assert_eq(come(1), 2);
    crash_party(1);
    compact(); /* compares, too */
}

/* ---- jobs that were cancelled, or are made again --------------------------------------------- */

Test(core_run, a_cancelled_job_is_free_again_when_nobody_comes_late)
{
    run_once();
    cr_assert_eq(come(1), 2);
    ask_from(5);
    cancel_job(5);
    forget();
    say_hello(2);
    EXPECT("2 < refused 12 errbus.job_over\n2 dropped\n");
    pass_ms(DEFAULT_SETTLE_MS);
    forget();
    uint64_t token = tokens[1];
    cr_expect_eq(come(2), 3);
    struct msg old = hello(21, token);
    old.as.hello.attempt = 2;
    message(21, old);
    EXPECT("21 < refused 11 errbus.job_cancelled\n21 dropped\n");
    crash(100);
    cr_expect_eq(come(1), 3);
}

Test(core_run, a_job_that_is_over_is_made_again)
{
    struct msg_job_create wanted = a_job(1, 1);
    wanted.settle_ms = 100;
    ask_from(5);
    create_job(5, wanted);
    cr_assert_eq(come(1), 1);
    write_one(1, "alice/a", 1);
    finish(1);
    create_job(5, wanted);
    EXPECT("5 < done 12 errbus.job_over\n");
    pass_ms(100);
    create_job(5, wanted);
    EXPECT("5 < done 0 \n");
    compact();
    cr_expect_eq(come(1), 2);
    show_job(5);
    EXPECT("5 < member 0 alice/2 running\n5 < running, attempt 2, epoch 2 of 1\n");
}

static void forget_job(conn_id conn, const char *job)
{
    message(conn, (struct msg){.type = MSG_JOB_FORGET,
                               .as.job_forget = {.request = 4, .job = span_text(job)}});
}

Test(core_run, a_job_is_forgotten_when_nobody_is_in_it)
{
    cr_assert_eq(come(2), 1);
    subscribe(2, 1, "alice/#", "diary", 0, 0);
    cr_assert_eq(come(1), 1);
    write_one(1, "alice/a", 1);
    go(1);
    ask_from(5);
    tap(4);
    forget_job(5, "job");
    EXPECT("5 < done 12 errbus.run_under_way\n");
    cr_expect_str_eq(core->why_held.data, "bob did not end yet: stop them, or cancel the job");
    go(2);
    forget_job(5, "job");
    EXPECT("4 dropped\n5 < done 0 \n");
    forget_job(5, "job");
    EXPECT("5 < done 1 errbus.no_job\n");
    crash(100);
    cr_expect_eq(come(1), 1); /* a job of the same name that begins */
    cr_expect_eq(welcomed.incarnation, 1);
    cr_expect_eq(welcomed.is_continued, 0);
}

Test(core_run, an_observer_of_the_job_may_have_it_forgotten)
{
    run_once();
    tap(5);
    forget_job(5, "job");
    EXPECT("5 < done 0 \n");
    beat(5);
    EXPECT("5 < echo\n");
}

Test(core_run, an_unknown_job_is_answered_with_those_there_are)
{
    run_once();
    ask_from(5);
    forget_job(5, "jbo");
    EXPECT("5 < done 1 errbus.no_job\n");
    cr_expect_str_eq(core->why_held.data, "there is no job jbo; the jobs are job");
}
