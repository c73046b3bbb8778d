/* SPDX-License-Identifier: MPL-2.0 */
/* core_job_test.c -- jobs that were created, in conversations: who takes part, how it goes on
 * without some, and how it ends; see core_driver.h. */
#include "tests/unit/core_driver.h"

TestSuite(core_job, .init = init, .fini = fini);

/* erin (5) asks for all; whoever joins is there, and says so. */
static void made(uint64_t min, uint64_t max)
{
    make_job(a_job(min, max));
}

/* By another connection than that of an earlier attempt, which may be heard still. */
static void come(conn_id conn)
{
    closed(conn);
    join(conn);
    forget();
}

/* The job as it is now; what was said before is of no interest. */
#define EXPECT_JOB(text)                                                                           \
    do {                                                                                           \
        forget();                                                                                  \
        show_job(5);                                                                               \
        EXPECT(text);                                                                              \
    } while (0)

static void come_all(conn_id last)
{
    for (conn_id conn = 1; conn <= last; conn++)
        come(conn);
}

static void made_of_two(void)
{
    made(2, 2);
    come_all(2);
}

/* All of them beat, so that nobody is lost meanwhile. */
static void pass_alive_ms(int64_t ms, conn_id last)
{
    for (; ms > 0; ms -= 500) {
        pass_ms(ms < 500 ? ms : 500);
        size_t kept_bytes = said_bytes;
        for (conn_id conn = 1; conn <= last; conn++)
            beat(conn);
        said_bytes = kept_bytes; /* echoes */
        said[said_bytes] = '\0';
    }
}

/* ---- creating -------------------------------------------------------------------------------- */

Test(core_job, is_made_once_and_the_same_for_all_who_ask)
{
    ask_from(5);
    create_job(5, a_job(2, 4));
    EXPECT("5 < done 0 \n");
    create_job(5, a_job(2, 4));
    EXPECT("5 < done 0 \n");
    create_job(5, a_job(2, 5));
    EXPECT("5 < done 10 errbus.job_differs\n");
    show_job(5);
    EXPECT("5 < gathering, attempt 1, epoch 0 of 0\n");
}

Test(core_job, is_not_made_of_what_makes_no_sense)
{
    ask_from(5);
    create_job(5, a_job(0, 4));
    create_job(5, a_job(3, 2));
    struct msg_job_create job = a_job(1, 1);
    job.strategy = 3;
    create_job(5, job);
    job = a_job(1, 1);
    job.job = span_text("a/b");
    create_job(5, job);
    EXPECT("5 < done 1 errbus.argument\n5 < done 1 errbus.argument\n5 < done 1 errbus.argument\n"
           "5 < done 1 errbus.argument\n");
    show_job(5);
    EXPECT("5 < done 1 errbus.no_job\n");
    cancel_job(5);
    EXPECT("5 < done 1 errbus.no_job\n");
}

Test(core_job, is_not_made_of_one_in_which_parties_are)
{
    ask_from(5);
    come(1);
    create_job(5, a_job(1, 0));
    EXPECT("5 < done 10 errbus.job_differs\n");
    show_job(5);
    EXPECT("5 < free, attempt 1, epoch 0 of 0\n");
    leave(1, 0);
    forget();
    create_job(5, a_job(1, 0));
    EXPECT("5 < done 0 \n");
}

Test(core_job, is_forgotten_when_nobody_comes)
{
    made(1, 1);
    pass_ms(999);
    show_job(5);
    EXPECT("5 < gathering, attempt 1, epoch 0 of 0\n");
    pass_ms(1);
    show_job(5);
    EXPECT("5 < done 1 errbus.no_job\n");
}

Test(core_job, tells_its_story_on_the_control_topic)
{
    made(1, 2);
    tap(4);
    say_hello(1);
    forget();
    pass_ms(3000);
    EXPECT("4 < party.suspect alice/1 #0 x0\n1 < epoch 1: rank 0 of 1, attempt 1\n"
           "4 < job.epoch /0 #1 x1\n");
}

/* ---- names ----------------------------------------------------------------------------------- */

/* She has written nothing, and nobody names her: but her place in the job is hers. */
Test(core_job, keeps_a_member_that_completed_and_left)
{
    options.parties_max = 2;
    restart();
    made_of_two();
    complete(1);
    leave(1, 0);
    forget();
    say_hello(3);
    EXPECT("3 < refused 4 errbus.full\n3 dropped\n");
    complete(2);
    show_job(5);
    keep_lines("attempt", "completed");
    EXPECT("5 < member 0 alice/1 completed\n5 < member 1 bob/1 completed\n"
           "5 < completed, attempt 1, epoch 1 of 2\n");
}

Test(core_job, gives_the_places_of_names_away_when_the_attempt_is_over)
{
    options.parties_max = 2;
    restart();
    make_job(a_strict_job(2, 1, 0));
    come_all(2);
    complete(1);
    leave(1, 0);
    compact(); /* a snapshot tells of her place, too */
    break_down(2);
    pass_ms(1000);
    forget();
    say_hello(3); /* bob's */
    EXPECT("3 < welcome incarnation 1\n");
    say_hello(4); /* hers */
    keep_lines("4 < welcome", "4 < refused");
    EXPECT("4 < welcome incarnation 1\n");
}

/* ---- gathering ------------------------------------------------------------------------------- */

Test(core_job, starts_as_soon_as_max_are_there)
{
    made(2, 3);
    come_all(2);
    say_hello(3);
    EXPECT("3 < welcome incarnation 1\n1 < epoch 1: rank 0 of 3, attempt 1\n"
           "2 < epoch 1: rank 1 of 3, attempt 1\n3 < epoch 1: rank 2 of 3, attempt 1\n");
}

Test(core_job, starts_with_min_when_its_window_is_over)
{
    made(2, 3);
    come(2);
    come(1);
    pass_alive_ms(2999, 2);
    EXPECT("");
    show_job(5);
    EXPECT("5 < member -1 bob/1 scheduling\n5 < member -1 alice/1 scheduling\n"
           "5 < gathering, attempt 1, epoch 0 of 0\n");
    pass_ms(1);
    EXPECT("2 < epoch 1: rank 0 of 2, attempt 1\n1 < epoch 1: rank 1 of 2, attempt 1\n");
    show_job(5);
    EXPECT("5 < member 0 bob/1 running\n5 < member 1 alice/1 running\n"
           "5 < running, attempt 1, epoch 1 of 2\n");
}

Test(core_job, waits_for_min_however_long_that_takes)
{
    made(2, 3);
    come(1);
    pass_alive_ms(100000, 1);
    EXPECT("5 dropped\n"); /* erin said no more */
    say_hello(2);
    EXPECT("2 < welcome incarnation 1\n1 < epoch 1: rank 0 of 2, attempt 1\n"
           "2 < epoch 1: rank 1 of 2, attempt 1\n");
}

Test(core_job, opens_its_window_anew_for_whoever_comes_first_again)
{
    made(1, 2);
    come(1);
    pass_ms(1500);
    leave(1, 0);
    come(2);
    pass_alive_ms(2999, 0);
    forget();
    pass_ms(1);
    EXPECT("2 < epoch 1: rank 0 of 1, attempt 1\n");
}

/* Its window ended with too few, and they left: that is nothing to those who come next. */
Test(core_job, opens_its_window_anew_when_all_who_were_too_few_have_left)
{
    made(2, 3);
    come(1);
    pass_alive_ms(3500, 1);
    leave(1, 0);
    come(2);
    come(3);
    pass_alive_ms(2999, 3);
    EXPECT("");
    pass_ms(1);
    EXPECT("2 < epoch 1: rank 0 of 2, attempt 1\n3 < epoch 1: rank 1 of 2, attempt 1\n");
}

/* ---- running --------------------------------------------------------------------------------- */

Test(core_job, takes_more_in_up_to_max_and_lets_others_wait)
{
    made(1, 2);
    come(1);
    pass_ms(3000);
    EXPECT("1 < epoch 1: rank 0 of 1, attempt 1\n");
    say_hello(2);
    EXPECT("2 < welcome incarnation 1\n1 < epoch 2: rank 0 of 2, attempt 1\n"
           "2 < epoch 2: rank 1 of 2, attempt 1\n");
    say_hello(3);
    EXPECT("3 < welcome incarnation 1\n");
    show_job(5);
    EXPECT("5 < member 0 alice/1 running\n5 < member 1 bob/1 running\n"
           "5 < member -1 carol/1 scheduling\n5 < running, attempt 1, epoch 2 of 2\n");
}

Test(core_job, gives_the_place_of_who_is_lost_to_who_waits)
{
    made(2, 2);
    come_all(3);
    closed(1);
    EXPECT("1 dropped\n11 dropped\n");
    pass_ms(999);
    EXPECT("");
    pass_ms(1);
    EXPECT("3 < epoch 2: rank 0 of 2, attempt 1\n2 < epoch 2: rank 1 of 2, attempt 1\n");
}

Test(core_job, moves_ranks_up_where_nobody_waits)
{
    made(1, 3);
    come_all(3);
    leave(1, 0);
    EXPECT("1 < over 13\n1 dropped\n11 dropped\n2 < epoch 2: rank 0 of 2, attempt 1\n"
           "3 < epoch 2: rank 1 of 2, attempt 1\n");
}

Test(core_job, makes_one_epoch_of_what_happens_at_once)
{
    made(1, 4);
    come_all(4);
    closed(1);
    closed(3);
    forget();
    pass_ms(1000);
    EXPECT("2 < epoch 2: rank 0 of 2, attempt 1\n4 < epoch 2: rank 1 of 2, attempt 1\n");
}

Test(core_job, gives_a_party_that_comes_again_its_own_place)
{
    made_of_two();
    closed(1);
    forget();
    say_hello(1); /* it does not know of its old incarnation, which is lost now */
    EXPECT("1 < welcome incarnation 2\n1 < epoch 2: rank 0 of 2, attempt 1\n"
           "2 < epoch 2: rank 1 of 2, attempt 1\n");
}

Test(core_job, tells_its_place_to_who_comes_back)
{
    made_of_two();
    closed(1);
    forget();
    say_hello_again(1);
    attach(1, 11, tokens[1]);
    EXPECT("1 < welcome incarnation 1, resumed\n1 < attached\n"
           "1 < epoch 1: rank 0 of 2, attempt 1\n");
}

/* ---- too few --------------------------------------------------------------------------------- */

Test(core_job, waits_for_spares_when_fewer_than_min_are_left)
{
    made_of_two();
    leave(1, 0);
    forget();
    pass_alive_ms(2500, 0);
    beat(2);
    EXPECT_JOB("5 < member 1 bob/1 running\n5 < short, attempt 1, epoch 1 of 2\n");
    say_hello(3);
    EXPECT("3 < welcome incarnation 1\n3 < epoch 2: rank 0 of 2, attempt 1\n"
           "2 < epoch 2: rank 1 of 2, attempt 1\n");
}

Test(core_job, fails_when_nobody_comes_in_its_window)
{
    made_of_two();
    uint32_t topic = open_topic(2, "bob/a");
    reserve(2, topic, 0);
    tap(4);
    break_down(1);
    EXPECT("1 < over 13\n1 dropped\n11 dropped\n"
           "4 < party.failed alice/1 #0 x0 (application of alice)\n"
           "4 < job.short /0 #0 x1 (application of alice)\n");
    pass_alive_ms(2400, 0);
    beat(2);
    forget();
    pass_ms(600);
    EXPECT("2 < verdict 2 (application of alice) x0, over\n"
           "4 < job.failing /0 #0 x1 (application of alice)\n"
           "4 < verdict.final alice/1 #0 x0 (application of alice)\n"
           "12 dropped\n"
           "4 < party.terminated bob/1 #0 x1 (cancelled of )\n"
           "4 < job.failed /0 #0 x1 (application of alice)\n");
    show_job(5);
    EXPECT("5 < failed, attempt 1, epoch 1 of 0 (application of alice)\n");
}

Test(core_job, fails_at_once_without_a_window)
{
    make_job(a_strict_job(2, 0, 0));
    come_all(2);
    leave(1, 0);
    pass_ms(0);
    EXPECT("1 < over 13\n1 dropped\n11 dropped\n2 < verdict 2 (party_left of ) x0, over\n"
           "12 dropped\n");
    show_job(5);
    EXPECT("5 < failed, attempt 1, epoch 1 of 0 (party_left of )\n");
}

/* ---- the join timeout ------------------------------------------------------------------------ */

/* A job of three, whose parties wait for a second. */
static void made_hasty(uint64_t restarts)
{
    struct msg_job_create job = a_job_with_timeout(3, 3);
    job.max_restarts = restarts;
    make_job(job);
}

Test(core_job, fails_when_too_few_join_within_its_timeout)
{
    made_hasty(3);
    tap(4);
    pass_ms(5000); /* nobody waits */
    EXPECT("");
    come_all(2);
    pass_alive_ms(999, 2);
    EXPECT("");
    pass_alive_ms(1, 2);
    EXPECT("1 < verdict 2 (deadline of ) x0, over\n"
           "2 < verdict 2 (deadline of ) x0, over\n"
           "4 < job.failing /0 #0 x0 (deadline of )\n"
           "4 < verdict.final /0 #0 x0 (deadline of )\n"
           "11 dropped\n"
           "12 dropped\n"
           "4 < party.terminated alice/1 #0 x0 (cancelled of )\n"
           "4 < party.terminated bob/1 #0 x0 (cancelled of )\n"
           "4 < job.failed /0 #0 x1 (deadline of )\n");
    show_job(5);
    EXPECT("5 < failed, attempt 1, epoch 0 of 0 (deadline of )\n");
}

/* The error says how many came, who, and how many were needed. */
Test(core_job, says_who_came_within_its_join_timeout)
{
    const struct span text = span_text("2 of 3 parties joined within the join timeout of 1000 ms: "
                                       "alice, bob");
    made_hasty(0);
    tap(4);
    come_all(2);
    pass_ms(1000);
    bool is_told = false;
    for (uint32_t i = 0; i < effects.msg_count; i++) {
        struct error_record records[LIMIT_ERROR_RECORDS];
        uint32_t count = 0;
        struct span error = effects.msgs[i].as.event.error;
        if (effects.msgs[i].type != MSG_EVENT || error.bytes == 0 ||
            error_decode(error, records, LIMIT_ERROR_RECORDS, &count) != WIRE_OK)
            continue;
        is_told |= span_equal(records[0].message, text) &&
                   span_equal(records[0].type, span_text("errbus.too_few_joined"));
    }
    cr_expect(is_told, "%s", said);
}

Test(core_job, counts_its_join_timeout_from_the_first_who_still_waits)
{
    made_hasty(0);
    come(1);
    pass_ms(600);
    leave(1, 0);
    forget();
    pass_ms(900); /* nobody waits */
    come(2);
    pass_ms(500);
    come(3);
    pass_ms(499);
    EXPECT("");
    come(1);
    forget();
    pass_alive_ms(5000, 3);
    ask_from(6);
    forget();
    show_job(6);
    EXPECT("6 < member 0 bob/1 running\n6 < member 1 carol/1 running\n"
           "6 < member 2 alice/2 running\n6 < running, attempt 1, epoch 1 of 3\n");
}

Test(core_job, waits_for_its_join_window_beyond_its_join_timeout)
{
    make_job(a_job_with_timeout(1, 2));
    come(1);
    pass_ms(2999);
    EXPECT("");
    pass_ms(1);
    EXPECT("1 < epoch 1: rank 0 of 1, attempt 1\n");
}

Test(core_job, counts_who_completed_as_there)
{
    made_of_two();
    complete(1);
    EXPECT("1 < result 0\n1 < accepted 0 1\n");
    leave(2, 0);
    EXPECT_JOB("5 < member 0 alice/1 completed\n5 < short, attempt 1, epoch 1 of 2\n");
    come(3);
    complete(3);
    EXPECT_JOB("5 < member 0 alice/1 completed\n5 < member 1 carol/1 completed\n"
               "5 < completed, attempt 1, epoch 2 of 2\n");
}

/* ---- ends ------------------------------------------------------------------------------------ */

Test(core_job, completes_with_its_members_and_sends_others_away)
{
    made(2, 2);
    come_all(3);
    tap(4);
    complete(1);
    forget();
    complete(2);
    EXPECT("2 < result 0\n3 < over 11 (terminated of )\n3 dropped\n13 dropped\n"
           "2 < accepted 0 1\n4 < party.completed bob/1 #0 x0\n"
           "4 < party.terminated carol/1 #0 x0 (terminated of )\n4 < job.completed /0 #0 x2\n");
    say_hello(3);
    EXPECT("3 < refused 12 errbus.job_over\n3 dropped\n");
    create_job(5, a_job(2, 2));
    EXPECT("5 < done 12 errbus.job_over\n");
    cancel_job(5);
    EXPECT("5 < done 12 errbus.job_over\n");
}

Test(core_job, does_not_let_a_completed_party_begin_again)
{
    made_of_two();
    complete(1);
    leave(1, 0);
    forget();
    say_hello(1);
    EXPECT("1 < refused 12 errbus.completed\n1 dropped\n");
}

Test(core_job, ends_every_wait_when_it_is_cancelled)
{
    made(1, 2);
    come_all(2);
    uint32_t topic = open_topic(1, "alice/a");
    reserve(1, topic, 0);
    await_slot(2, 7, "alice/a", 0);
    await_slot(2, 8, "alice/a", 9);
    subscribe(2, 1, "alice/a", "", 0, 0);
    forget();
    cancel_job(5);
    EXPECT("5 < done 0 \n1 < over 11 (cancelled of )\n1 dropped\n11 dropped\n"
           "2 < over 11 (cancelled of )\n2 dropped\n12 dropped\n");
    cancel_job(5);
    EXPECT("5 < done 0 \n");
    say_hello(3);
    EXPECT("3 < refused 12 errbus.job_over\n3 dropped\n");
}

Test(core_job, can_be_cancelled_though_nobody_created_it)
{
    ask_from(5);
    come(1);
    cancel_job(5);
    EXPECT("5 < done 0 \n1 < over 11 (cancelled of )\n1 dropped\n11 dropped\n");
    say_hello(1);
    EXPECT("1 < refused 12 errbus.job_over\n1 dropped\n");
}

Test(core_job, fails_when_its_deadline_passes)
{
    struct msg_job_create job = a_job(1, 2);
    job.deadline_ms = 4000;
    job.max_restarts = 3;
    make_job(job);
    come(1);
    pass_alive_ms(3999, 1);
    EXPECT("1 < epoch 1: rank 0 of 1, attempt 1\n");
    pass_ms(1);
    EXPECT("1 < verdict 2 (deadline of ) x0, over\n"
           "11 dropped\n");
    show_job(5);
    EXPECT("5 < failed, attempt 1, epoch 1 of 0 (deadline of )\n");
}

/* ---- attempts -------------------------------------------------------------------------------- */

static void made_strict_of_two(uint64_t restarts, int64_t settle_ms)
{
    make_job(a_strict_job(2, restarts, settle_ms));
    come_all(2);
}

static void break_down_as(conn_id conn, const char *type, uint64_t recoverable)
{
    struct error_record record;
    size_t bytes;
    error_record_init(&record);
    record.type = span_text(type);
    record.recoverable = recoverable;
    record.occurred_ns = now_ns;
    cr_assert_eq(error_encode(&record, 1, error_bytes, sizeof error_bytes, &bytes), WIRE_OK);
    break_down_with(conn, 0, span_of(error_bytes, bytes));
    pass_ms(0);
}

/* For another attempt a job waits before the first is back. */
Test(core_job, fails_when_nobody_comes_back_for_another_attempt)
{
    struct msg_job_create job = a_strict_job(2, 1, 0);
    job.join_timeout_ms = 1000;
    make_job(job);
    come_all(2);
    break_down_as(1, "app.flaky", RECOVERABLE_YES);
    pass_ms(2500); /* of which it pauses for a second at most */
    ask_from(6);
    forget();
    show_job(6);
    EXPECT("6 < failed, attempt 2, epoch 1 of 0 (deadline of )\n");
}

/* The journal hears of it, though the job's state stays as it is: a broker that begins again in
 * between would make another attempt. */
Test(core_job, is_not_tried_again_if_its_deadline_passes_while_it_fails)
{
    struct msg_job_create job = a_strict_job(2, 3, 2000);
    job.deadline_ms = 1000;
    make_job(job);
    come_all(2);
    pass_alive_ms(500, 2);
    break_down_as(1, "app.flaky", RECOVERABLE_YES);
    forget();
    pass_alive_ms(500, 2);
    pass_alive_ms(2500, 2);
    EXPECT_JOB("5 < failed, attempt 1, epoch 1 of 0 (application of alice)\n");
}

/* Of what a new tap is told of the job from its beginning, the lines with this name. */
static void tell_history(const char *name)
{
    observe(3, "job");
    tap_from(3, 1, 1000);
    keep_lines(name, name);
}

Test(core_job, tries_a_flaky_group_as_often_as_it_may)
{
    options.linger_ms = 60000;
    restart();
    make_job(a_strict_job(2, 2, 0));
    for (unsigned attempt_now = 1; attempt_now <= 3; attempt_now++) {
        come_all(2);
        show_job(5);
        EXPECT_OF("5 < member 0 alice/%u running\n5 < member 1 bob/%u running\n"
                  "5 < running, attempt %u, epoch %u of 2%s\n",
                  attempt_now, attempt_now, attempt_now, attempt_now,
                  attempt_now > 1 ? " (application of alice)" : "");
        break_down_as(1, "app.flaky", RECOVERABLE_UNKNOWN);
        forget();
        pass_ms(2 * DEFAULT_PAUSE_MS);
    }
    show_job(5);
    EXPECT("5 < failed, attempt 3, epoch 3 of 0 (application of alice)\n");
    say_hello(1);
    EXPECT("1 < refused 12 errbus.job_over\n1 dropped\n");
    tell_history("party.failed");
    EXPECT("3 < party.failed alice/1 #0 x0 (application of alice)\n"
           "3 < party.failed alice/2 #0 x0 (application of alice)\n"
           "3 < party.failed alice/3 #0 x0 (application of alice)\n");
    closed(3);
    tell_history("job.");
    EXPECT("3 < job.created /0 #0 x0\n3 < job.epoch /0 #1 x2\n"
           "3 < job.short /0 #0 x1 (application of alice)\n"
           "3 < job.failing /0 #0 x1 (application of alice)\n"
           "3 < job.attempt /0 #0 x2 (application of alice)\n3 < job.epoch /0 #2 x2\n"
           "3 < job.short /0 #0 x1 (application of alice)\n"
           "3 < job.failing /0 #0 x1 (application of alice)\n"
           "3 < job.attempt /0 #0 x3 (application of alice)\n3 < job.epoch /0 #3 x2\n"
           "3 < job.short /0 #0 x1 (application of alice)\n"
           "3 < job.failing /0 #0 x1 (application of alice)\n"
           "3 < job.failed /0 #0 x3 (application of alice)\n");
}

Test(core_job, does_not_try_again_what_is_not_recoverable)
{
    made_strict_of_two(2, 0);
    break_down_as(1, "app.wrong_data", RECOVERABLE_NO);
    EXPECT_JOB("5 < failed, attempt 1, epoch 1 of 0 (application of alice)\n");
}

Test(core_job, does_not_try_again_because_somebody_left)
{
    made_strict_of_two(2, 0);
    leave(1, 0);
    pass_ms(0);
    EXPECT_JOB("5 < failed, attempt 1, epoch 1 of 0 (party_left of )\n");
}

Test(core_job, tells_the_provisional_verdict_and_waits_for_the_others_to_go)
{
    made_strict_of_two(1, 2000);
    uint32_t topic = open_topic(2, "bob/a");
    reserve(2, topic, 0);
    tap(4);
    break_down_as(1, "app.flaky", RECOVERABLE_YES);
    EXPECT("1 < over 13\n1 dropped\n11 dropped\n2 < verdict 1 (application of alice) x0, over\n"
           "4 < party.failed alice/1 #0 x0 (application of alice)\n"
           "4 < job.short /0 #0 x1 (application of alice)\n"
           "4 < job.failing /0 #0 x1 (application of alice)\n"
           "4 < verdict.provisional alice/1 #0 x0 (application of alice)\n");
    say_hello(3);
    EXPECT("3 < refused 12 errbus.job_ending\n3 dropped\n");
    leave(2, 1);
    pass_ms(0);
    EXPECT("2 < over 13\n2 dropped\n12 dropped\n"
           "4 < party.terminated bob/1 #0 x1 (cancelled of )\n"
           "4 < verdict.final alice/1 #0 x0 (application of alice)\n"
           "4 < job.attempt /0 #0 x2 (application of alice)\n");
}

Test(core_job, ends_who_does_not_go_when_the_window_closes)
{
    made_strict_of_two(1, 2000);
    break_down_as(1, "app.flaky", RECOVERABLE_YES);
    forget();
    pass_ms(1999);
    EXPECT("");
    pass_ms(1);
    EXPECT("2 < verdict 2 (application of alice) x0, over\n12 dropped\n");
}

Test(core_job, pauses_between_attempts_and_lets_the_next_gather_meanwhile)
{
    made_strict_of_two(1, 0);
    break_down_as(1, "app.flaky", RECOVERABLE_YES);
    forget();
    come(2);
    come(1);
    show_job(5);
    EXPECT("5 < member -1 bob/2 scheduling\n5 < member -1 alice/2 scheduling\n"
           "5 < pausing, attempt 2, epoch 1 of 0 (application of alice)\n");
    pass_ms(DEFAULT_PAUSE_MS / 2 - 1);
    EXPECT("");
    pass_ms(DEFAULT_PAUSE_MS / 2 + 1);
    EXPECT("2 < epoch 2: rank 0 of 2, attempt 2\n1 < epoch 2: rank 1 of 2, attempt 2\n");
}

Test(core_job, begins_each_attempt_with_empty_topics)
{
    made_strict_of_two(1, 0);
    uint32_t topic = open_topic(1, "alice/a");
    publish(1, topic, 0, 3, 5);
    reserve(1, topic, 3);
    subscribe(2, 1, "alice/a", "deep", 0, 0);
    forget();
    break_down_as(2, "app.flaky", RECOVERABLE_YES);
    cr_expect_eq(references, 0, "values of the old attempt are gone");
    forget();
    closed(1);
    forget();
    struct msg stale = hello(1, tokens[1]);
    stale.as.hello.attempt = 1;
    message(1, stale);
    EXPECT("1 < refused 11 errbus.attempt_over\n1 dropped\n");
    say_hello_again(1); /* one that does not say of which */
    EXPECT("1 < refused 11 errbus.fenced\n1 dropped\n");
    come_all(2);
    pass_ms(1000);
    forget();
    attempt = 2;
    message(1, (struct msg){.type = MSG_TOPIC_OPEN,
                            .as.topic_open = {.request = 1, .topic = span_text("alice/a")}});
    EXPECT("1 < opened 0 next 0\n");
    publish(1, topic, 0, 1, 6);
    forget();
    attempt = 1;
    publish(1, topic, 1, 1, 7);
    EXPECT("1 dropped\n11 dropped\n");
}

/* alice and bob begin the next attempt. */
static uint32_t begin_again(const char *topic)
{
    come_all(2);
    pass_ms(DEFAULT_PAUSE_MS * 4);
    attempt += 1;
    uint32_t number = open_topic(1, topic);
    forget();
    return number;
}

/* bob's handle, the one with the number before this, is closed, and this one is opened. */
static void reopen(const char *name, uint32_t sub)
{
    message(2, (struct msg){.type = MSG_UNSUBSCRIBE,
                            .as.unsubscribe = {.number = ++numbers[2], .sub = sub - 1}});
    subscribe(2, sub, "alice/a", name, 0, 0);
    char *sent = strstr(said, "12 <");
    memmove(said, sent != NULL ? sent : "", sent != NULL ? strlen(sent) + 1 : 1);
    said_bytes = strlen(said);
}

static void acknowledge(conn_id conn, uint32_t sub, uint32_t topic, uint64_t next_seq)
{
    ack(conn, sub, topic, next_seq);
    forget();
}

/* What nobody could do stays on record, and is given again as what it is: a slot of the letters'
 * topic, for its own number is another task's now. */
Test(core_job, keeps_dead_letters_for_later_attempts)
{
    made_strict_of_two(3, 0);
    uint32_t tasks = open_topic(1, "alice/tasks");
    share(2, 1, "alice/tasks", "work", 2);
    publish(1, tasks, 0, 3, 5);
    done(2, tasks, 0, 1);
    settle(2, tasks, 1, 1, TASK_REJECTED, -1, "");
    settle(2, tasks, 2, 1, TASK_REJECTED, -1, "");
    ask_letters(5, "work", 2, 1); /* under way when the attempt ends */
    break_down_as(2, "app.flaky", RECOVERABLE_YES);

    tasks = begin_again("alice/tasks");
    compact();
    ask_letters(5, "work", 0, 0);
    EXPECT("5 < letter 0: alice/tasks#1 x1, 16 bytes: app.broken\n"
           "5 < letter 1: alice/tasks#2 x1, 16 bytes: app.broken\n5 < letters 0  x2\n");
    share(2, 1, "alice/tasks", "work", 4);
    publish(1, tasks, 0, 1, 6);
    forget();
    ask_letters(5, "work", 2, UINT64_MAX);
    EXPECT("5 < letters 0  x2\n12 < sub 1 task 2#0, delivery 2, payload 5 skip 1\n"
           "12 < sub 1 task 2#1, delivery 2, payload 5 skip 2\n");
    compact();
    closed(2);
    say_hello_again(2);
    message(2,
            (struct msg){.type = MSG_POSITION,
                         .as.position = {.sub = 1, .topic = 2, .next_seq = 0, .chunk_offset = 2}});
    forget();
    attach(2, 12, tokens[2]);
    cr_expect_null(strstr(said, "task 2#0"), "it has that");
    cr_expect_not_null(strstr(said, "task 2#1"));
    cr_expect_not_null(strstr(said, "task 1#0"));
    forget();
    done(2, tasks, 0, 1); /* the task of this attempt, and not that of the last */
    ask_letters(5, "work", 0, 0);
    cr_expect_not_null(strstr(said, "letter 0: alice/tasks#1 x1, 16 bytes, again: app.broken\n"));
    done(2, 2, 0, 2);
    settle(2, 2, 1, 2, TASK_FAILED, 0, "");
    forget();
    ask_letters(5, "work", 0, 0);
    EXPECT("5 < letter 2: alice/tasks#2 x2, 16 bytes: app.broken\n5 < letters 0  x1\n");
    ask_letters(5, "work", 2, 2);
    break_down_as(2, "app.flaky", RECOVERABLE_YES);

    (void)begin_again("alice/tasks"); /* that was under way, and is not any more */
    crash(100);
    compact();
    ask_from(5);
    ask_letters(5, "work", 0, 0);
    EXPECT("5 < letter 2: alice/tasks#2 x2, 16 bytes: app.broken\n5 < letters 0  x1\n");
    ask_letters(5, "work", 3, 2);
    EXPECT("5 < letters 0  x1\n");
}

/* A group reads nothing itself, so that nobody has a gap: operators are told. */
Test(core_job, tells_what_groups_had_not_done_when_an_attempt_ended)
{
    made_strict_of_two(3, 0);
    uint32_t tasks = open_topic(1, "alice/tasks");
    share(2, 1, "alice/tasks", "work", 2);
    share(2, 2, "alice/tasks", "none", 2);
    publish(1, tasks, 0, 5, 5);
    reserve(1, tasks, 5); /* it fails with the attempt */
    settle(2, tasks, 0, 1, TASK_DONE, 0, NULL);
    settle(2, tasks, 1, 1, TASK_REJECTED, -1, ""); /* that is a letter */
    for (uint64_t seq = 0; seq < 5; seq++)
        message(
            2,
            (struct msg){
                .type = MSG_TASK,
                .as.task = {
                    .number = ++numbers[2], .sub = 2, .topic = tasks, .seq = seq, .delivery = 1}});
    tap(4);
    break_down_as(2, "app.flaky", RECOVERABLE_YES);
    pass_ms(DEFAULT_PAUSE_MS);
    cr_expect_not_null(strstr(said, "4 < tasks.dropped /0 #0 x4 (cancelled of )\n"), "%s", said);
    const char *of_none = strstr(said, "4 < tasks.dropped /0 #0 x1 (cancelled of )\n");
    cr_expect_not_null(of_none, "%s", said);
}

Test(core_job, tells_a_durable_name_what_it_missed_of_earlier_attempts)
{
    made_strict_of_two(3, 0);
    uint32_t topic = open_topic(1, "alice/a");
    subscribe(2, 1, "alice/a", "deep", 0, 0);
    publish(1, topic, 0, 3, 5);
    reserve(1, topic, 3);
    acknowledge(2, 1, topic, 1);
    break_down_as(2, "app.flaky", RECOVERABLE_YES);

    topic = begin_again("alice/a"); /* bob does not look */
    publish(1, topic, 0, 2, 6);
    break_down_as(2, "app.flaky", RECOVERABLE_YES);

    topic = begin_again("alice/a");
    publish(1, topic, 0, 1, 7);
    forget();
    subscribe(2, 1, "alice/a", "deep", 0, 0);
    EXPECT("2 < subscribed 0\n2 < accepted 0 1\n"
           "12 < sub 1 gap #1 x5 of the past\n12 < sub 1 end #1 (cancelled of )\n"
           "12 < sub 1 end #2 (cancelled of )\n12 < sub 1 payload 7 x1\n");

    reopen("deep", 2); /* until it is acknowledged */
    EXPECT("12 < sub 2 gap #1 x5 of the past\n12 < sub 2 end #1 (cancelled of )\n"
           "12 < sub 2 end #2 (cancelled of )\n12 < sub 2 payload 7 x1\n");
    acknowledge(2, 2, topic, 0);
    reopen("deep", 3);
    cr_expect_null(strstr(said, "of the past"), "%s", said);
    forget();
    acknowledge(2, 3, topic, 1);
    break_down_as(1, "app.flaky", RECOVERABLE_YES);
    (void)begin_again("alice/a");
    subscribe(2, 1, "alice/a", "deep", 0, 0);
    cr_expect_null(strstr(said, "of the past"), "%s", said);
}

/* ---- what a failed party had committed ------------------------------------------------------- */

/* bob reads one topic of alice's to its end, and another up to an open slot; then she fails. */
static void fail_behind_values(uint64_t pending)
{
    struct msg_job_create job = a_job(1, 2);
    job.pending = pending;
    make_job(job);
    come_all(2);
    subscribe(2, 1, "alice/#", "", 0, 0);
    uint32_t seen = open_topic(1, "alice/seen");
    uint32_t unseen = open_topic(1, "alice/unseen");
    publish(1, seen, 0, 2, 5);
    reserve(1, unseen, 0);
    publish(1, unseen, 1, 2, 6);
    forget();
    break_down(1);
}

Test(core_job, delivers_what_a_failed_party_had_committed)
{
    fail_behind_values(0);
    EXPECT("1 < over 13\n1 dropped\n11 dropped\n2 < epoch 2: rank 0 of 1, attempt 1\n"
           "12 < sub 1 error #0 (application of alice)\n12 < sub 1 payload 6 x1\n"
           "12 < sub 1 end #1 (application of alice)\n");
}

Test(core_job, replaces_what_nobody_was_sent_if_that_is_asked_for)
{
    fail_behind_values(1);
    EXPECT("1 < over 13\n1 dropped\n11 dropped\n2 < epoch 2: rank 0 of 1, attempt 1\n"
           "12 < sub 1 error #0 (application of alice)\n"
           "12 < sub 1 error #1 (application of alice)\n"
           "12 < sub 1 error #2 (application of alice)\n"
           "12 < sub 1 end #1 (application of alice)\n");
    await_slot(2, 1, "alice/seen", 1);
    EXPECT("12 < sub 0 payload 5 part 1 x1\n"); /* what was sent stands */
}

Test(core_job, replaces_nothing_of_an_earlier_incarnation)
{
    struct msg_job_create job = a_job(1, 2);
    job.pending = 1;
    make_job(job);
    come_all(2);
    uint32_t topic = open_topic(1, "alice/a");
    publish(1, topic, 0, 1, 5);
    leave(1, 0);
    come(1);
    (void)open_topic(1, "alice/a");
    publish(1, topic, 1, 1, 6);
    break_down(1);
    forget();
    await_slot(2, 1, "alice/a", 0);
    EXPECT("12 < sub 0 payload 5 x1\n");
    await_slot(2, 2, "alice/a", 1);
    EXPECT("12 < sub 0 error #1 (application of alice)\n");
}

/* ---- stalls ---------------------------------------------------------------------------------- */

static void progress(conn_id conn, uint64_t within_ms, const char *where)
{
    message(conn,
            (struct msg){.type = MSG_PROGRESS,
                         .as.progress = {.next_within_ms = within_ms, .where = span_text(where)}});
}

Test(core_job, replaces_a_member_that_beats_and_does_not_move)
{
    made(2, 2);
    come_all(3);
    tap(4);
    progress(1, 700, "step 1");
    progress(2, 700, "step 1");
    pass_alive_ms(600, 3);
    progress(1, 700, "step 2");
    pass_alive_ms(99, 3);
    EXPECT("");
    pass_ms(1);
    EXPECT("2 < over 11 (stalled of bob)\n2 dropped\n12 dropped\n"
           "1 < epoch 2: rank 0 of 2, attempt 1\n3 < epoch 2: rank 1 of 2, attempt 1\n"
           "4 < party.failed bob/1 #0 x0 (stalled of bob)\n4 < job.epoch /0 #2 x2\n");
    progress(1, 0, "done");
    pass_ms(2000);
    EXPECT("");
}

/* ---- barriers -------------------------------------------------------------------------------- */

/* At the first barrier of the first epoch. */
static void arrive(conn_id conn)
{
    barrier(conn, 1, 1, 1);
}

Test(core_job, meets_when_all_are_there)
{
    made_of_two();
    arrive(1);
    EXPECT("");
    arrive(2);
    EXPECT("1 < barrier 1/1: 0 \n2 < barrier 1/1: 0 \n");
    barrier(2, 1, 2, 1);
    EXPECT("");
    arrive(2); /* again: its answer was lost */
    EXPECT("2 < barrier 1/1: 0 \n");
}

Test(core_job, does_not_meet_with_who_went_away_again)
{
    made_of_two();
    arrive(1);
    barrier(1, 1, 1, 0);
    arrive(2);
    EXPECT("");
    arrive(1);
    EXPECT("1 < barrier 1/1: 0 \n2 < barrier 1/1: 0 \n");
}

Test(core_job, does_not_meet_while_one_of_them_is_in_doubt)
{
    made_of_two();
    arrive(1);
    pass_ms(2400);
    beat(2);
    pass_ms(200);
    forget();
    arrive(2);
    EXPECT("");
    beat(1);
    EXPECT("1 < barrier 1/1: 0 \n2 < barrier 1/1: 0 \n1 < echo\n");
}

Test(core_job, forgets_who_is_there_with_the_connection)
{
    made_of_two();
    arrive(1);
    closed(1);
    say_hello_again(1);
    attach(1, 11, tokens[1]);
    forget();
    arrive(2);
    EXPECT("");
    arrive(1);
    EXPECT("1 < barrier 1/1: 0 \n2 < barrier 1/1: 0 \n");
}

Test(core_job, tells_who_waits_that_the_membership_changed)
{
    made(1, 3);
    come_all(3);
    arrive(1);
    leave(2, 0);
    EXPECT("2 < over 13\n2 dropped\n12 dropped\n1 < barrier 1/1: 9 errbus.epoch\n"
           "1 < epoch 2: rank 0 of 2, attempt 1\n3 < epoch 2: rank 1 of 2, attempt 1\n");
    arrive(3);
    EXPECT("3 < barrier 1/1: 9 errbus.epoch\n");
}

Test(core_job, tells_who_waits_that_a_member_will_not_come)
{
    made_of_two();
    arrive(1);
    complete(2);
    EXPECT("1 < barrier 1/1: 14 errbus.completed\n2 < result 0\n2 < accepted 0 1\n");
    arrive(1);
    EXPECT("1 < barrier 1/1: 14 errbus.completed\n");
}

Test(core_job, takes_a_barrier_that_cannot_be_for_a_violation)
{
    made_of_two();
    barrier(1, 2, 1, 1);
    EXPECT("1 dropped\n11 dropped\n");
    barrier(2, 1, 2, 1);
    EXPECT("2 dropped\n12 dropped\n");
}
