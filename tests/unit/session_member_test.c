/* SPDX-License-Identifier: MPL-2.0 */
/* session_member_test.c -- what a session makes of its place in a job, how it comes to
 * barriers, and what it asks about jobs. */
#include "tests/unit/session_driver.h"

static struct driver d;

static void place(uint64_t epoch, uint64_t rank, uint64_t world_size)
{
    driver_say(&d, &(struct msg){
                       .type = MSG_MEMBERSHIP,
                       .as.membership = {
                           .epoch = epoch, .attempt = 1, .rank = rank, .world_size = world_size}});
}

static void done(uint64_t epoch, uint64_t round, enum wire_code code, const char *type)
{
    driver_say(&d, &(struct msg){
                       .type = MSG_BARRIER_DONE,
                       .as.barrier_done = {
                           .epoch = epoch, .round = round, .code = code, .type = span_text(type)}});
}

static void expect_barrier(uint64_t epoch, uint64_t round, uint64_t is_there)
{
    struct msg msg = driver_expect(&d, MSG_BARRIER);
    cr_expect_eq(msg.as.barrier.epoch, epoch);
    cr_expect_eq(msg.as.barrier.round, round);
    cr_expect_eq(msg.as.barrier.is_there, is_there);
}

static void init(void)
{
    driver_up(&d);
    place(3, 1, 2);
    (void)session_news(d.session);
}

static void fini(void)
{
    driver_fini(&d);
}

TestSuite(session_member, .init = init, .fini = fini);

Test(session_member, takes_the_highest_epoch)
{
    struct session_membership membership = session_membership(d.session);
    cr_expect_eq(membership.epoch, 3);
    cr_expect_eq(membership.rank, 1);
    cr_expect_eq(membership.world_size, 2);
    cr_expect(session_job_is_created(d.session));
    place(3, 1, 2); /* again, on a new connection */
    cr_expect_not(session_news(d.session).is_result);
    place(5, 0, 1);
    cr_expect(session_news(d.session).is_result);
    place(4, 1, 2);
    cr_expect_eq(session_membership(d.session).epoch, 5);
}

Test(session_member, does_not_take_a_place_that_cannot_be)
{
    place(6, 2, 2);
    driver_expect_end(&d, CODE_EPROTO, ERROR_TYPE_PROTOCOL);
}

Test(session_member, says_that_it_is_there_and_passes)
{
    cr_expect_eq(session_barrier(d.session, 3, NULL), CODE_ETIMEDOUT);
    expect_barrier(3, 1, 1);
    cr_expect_eq(session_barrier(d.session, 3, NULL), CODE_ETIMEDOUT);
    (void)driver_expect(&d, MSG_NONE);
    done(3, 1, CODE_OK, "");
    cr_expect(session_news(d.session).is_result);
    cr_expect_eq(session_barrier(d.session, 3, NULL), CODE_OK);
    cr_expect_eq(session_barrier(d.session, 3, NULL), CODE_ETIMEDOUT);
    expect_barrier(3, 2, 1);
}

Test(session_member, goes_away_and_comes_back_to_the_same)
{
    (void)session_barrier(d.session, 3, NULL);
    expect_barrier(3, 1, 1);
    session_barrier_leave(d.session);
    expect_barrier(3, 1, 0);
    (void)session_barrier(d.session, 3, NULL);
    expect_barrier(3, 1, 1);
    session_barrier_leave(d.session);
    done(3, 1, CODE_OK, ""); /* it was on its way */
    (void)driver_expect(&d, MSG_NONE);
    cr_expect_eq(session_barrier(d.session, 3, NULL), CODE_OK);
}

Test(session_member, says_it_again_on_a_new_connection)
{
    (void)session_barrier(d.session, 3, NULL);
    expect_barrier(3, 1, 1);
    driver_break_link(&d);
    driver_greet(&d, true);
    expect_barrier(3, 1, 1);
    done(3, 1, CODE_OK, "");
    driver_break_link(&d);
    driver_greet(&d, true);
    (void)driver_expect(&d, MSG_NONE);
    cr_expect_eq(session_barrier(d.session, 3, NULL), CODE_OK);
}

Test(session_member, does_not_wait_in_an_epoch_that_is_over)
{
    struct buffer *why = NULL;
    (void)session_barrier(d.session, 3, NULL);
    expect_barrier(3, 1, 1);
    place(4, 0, 2);
    cr_expect_eq(session_barrier(d.session, 3, &why), CODE_EFAILED);
    cr_expect_not_null(why);
    buffer_unref(&why);
    cr_expect_eq(session_barrier(d.session, 5, NULL), CODE_EINVAL);
    cr_expect_eq(session_barrier(d.session, 0, NULL), CODE_EINVAL);
    done(3, 1, CODE_EFAILED, ERROR_TYPE_EPOCH); /* of the one before */
    cr_expect_eq(session_barrier(d.session, 4, NULL), CODE_ETIMEDOUT);
    expect_barrier(4, 1, 1);
    done(4, 1, CODE_EENDED, ERROR_TYPE_COMPLETED);
    cr_expect_eq(session_barrier(d.session, 4, &why), CODE_EENDED);
    cr_expect_not_null(why);
    buffer_unref(&why);
    cr_expect_eq(session_barrier(d.session, 4, NULL), CODE_ETIMEDOUT, "it may ask again");
}

Test(session_member, ends_with_its_session)
{
    (void)session_barrier(d.session, 3, NULL);
    driver_say(&d, &(struct msg){.type = MSG_OVER, .as.over = {.code = CODE_EFENCED}});
    cr_expect_eq(session_barrier(d.session, 3, NULL), CODE_EFENCED);
}

Test(session_member, asks_about_a_job_until_it_is_answered)
{
    struct msg out;
    session_ask(d.session, &(const struct msg){.type = MSG_JOB_CANCEL,
                                               .as.job_cancel = {.job = span_text("train"),
                                                                 .message = span_text("why")}});
    struct msg asked = driver_expect(&d, MSG_JOB_CANCEL);
    cr_expect_eq(asked.as.job_cancel.request, 1);
    cr_expect(span_equal(asked.as.job_cancel.message, span_text("why")));
    driver_break_link(&d);
    driver_greet(&d, true);
    session_ask(d.session, &(const struct msg){.type = MSG_JOB_SHOW,
                                               .as.job_show = {.job = span_text("train")}});
    asked = driver_expect(&d, MSG_JOB_SHOW);
    cr_expect_eq(asked.as.job_show.request, 2);
    driver_say(&d, &(struct msg){.type = MSG_JOB_MEMBER,
                                 .as.job_member = {.request = 2,
                                                   .party = span_text("alice"),
                                                   .state = span_text("running")}});
    cr_expect_not(session_answer_take(d.session, &out), "not before it is whole");
    driver_say(&d, &(struct msg){.type = MSG_JOB_SHOWN,
                                 .as.job_shown = {.request = 2, .state = span_text("running")}});
    cr_assert(session_answer_take(d.session, &out));
    cr_expect_eq(out.type, MSG_JOB_MEMBER);
    cr_assert(session_answer_take(d.session, &out));
    cr_expect_eq(out.type, MSG_JOB_SHOWN);
    cr_expect_not(session_answer_take(d.session, &out));
    driver_say(&d, &(struct msg){.type = MSG_JOB_DONE, .as.job_done = {.request = 3}});
    driver_expect_end(&d, CODE_EPROTO, ERROR_TYPE_PROTOCOL);
}

/* Greeted while an attempt is ending, it tries again: there may be another. */
Test(session_member, waits_for_the_next_attempt)
{
    driver_fini(&d);
    driver_init(&d); /* one that was never welcome */
    (void)driver_dial(&d);
    driver_say(&d, &(struct msg){.type = MSG_REFUSED,
                                 .as.refused = {.code = CODE_EDENIED,
                                                .type = span_text(ERROR_TYPE_JOB_ENDING)}});
    cr_expect_eq(session_end(d.session, NULL), CODE_OK);
    d.now_ns = session_deadline_ns(d.session);
    session_tick(d.session, d.now_ns);
    driver_greet(&d, false);
    driver_break_link(&d);
    cr_assert_eq(session_action(d.session), SESSION_CONNECT_CONTROL);
    cr_expect_eq(driver_expect(&d, MSG_HELLO).as.hello.attempt, 1);
}
