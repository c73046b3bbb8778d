/* SPDX-License-Identifier: MPL-2.0 */
/* session_verdict_test.c -- what a session makes of a verdict: the party is over, its connection is
 * not; and asking about any job. */
#include "tests/unit/session_driver.h"

static struct driver d;

static void tell(uint64_t request, uint64_t state, bool is_over, const char *type)
{
    driver_say(&d, &(struct msg){.type = MSG_VERDICT,
                                 .as.verdict = {.request = request,
                                                .state = state,
                                                .is_over = is_over,
                                                .error = error_of(type)}});
}

static void expect_verdict(unsigned state, const char *type)
{
    struct buffer *error = NULL;
    struct error_record record;
    uint32_t count;
    cr_assert_eq(session_verdict(d.session, &error), state);
    cr_assert_eq(error_decode(buffer_span(error), &record, 1, &count), WIRE_OK);
    cr_expect(span_equal(record.type, span_text(type)));
    buffer_unref(&error);
}

Test(session_verdict, ends_the_party_but_not_its_connection)
{
    struct buffer *error = NULL;
    driver_up(&d);
    cr_expect_eq(session_verdict(d.session, &error), 0);
    tell(0, 1, true, "app.first");
    driver_expect_end(&d, CODE_EFENCED, "app.first");
    cr_expect(session_is_failing(d.session));
    cr_expect_eq(session_action(d.session), SESSION_NOTHING, "the link stands");
    expect_verdict(1, "app.first");
    uint32_t topic;
    cr_expect_eq(session_topic(d.session, span_text("alice/w"), &topic), CODE_EFENCED);

    tell(0, 2, true, "app.root");
    driver_expect_end(&d, CODE_EFENCED, "app.first"); /* the first cause stays */
    expect_verdict(2, "app.root");
    tell(0, 1, true, "app.older");
    expect_verdict(2, "app.root");
    driver_fini(&d);
}

/* The broker's WELCOME waits for its journal, and a verdict does not. */
Test(session_verdict, may_come_before_the_welcome_of_who_goes_on)
{
    driver_up(&d);
    driver_break_link(&d);
    (void)driver_dial(&d);
    tell(0, 1, true, "app.first");
    driver_say_welcome(&d, true);
    driver_expect_attach(&d);
    (void)driver_expect(&d, MSG_READY);
    driver_say(&d, &(struct msg){.type = MSG_ATTACHED});
    (void)driver_expect(&d, MSG_BEAT);
    driver_expect_end(&d, CODE_EFENCED, "app.first");
    expect_verdict(1, "app.first");
    session_fail_party(d.session, error_of("app.mine"));
    (void)driver_expect(&d, MSG_FAIL_PARTY);
    driver_fini(&d);
}

Test(session_verdict, is_nothing_to_whom_no_broker_knows)
{
    driver_init(&d);
    (void)session_action(d.session);
    (void)driver_expect(&d, MSG_HELLO);
    tell(0, 1, true, "app.first");
    driver_expect_end(&d, CODE_EPROTO, ERROR_TYPE_PROTOCOL);
    driver_fini(&d);
}

Test(session_verdict, leaves_room_for_a_failure_of_its_own_and_a_farewell)
{
    driver_up(&d);
    tell(0, 1, true, "app.first");
    session_fail_party(d.session, error_of("app.mine"));
    struct msg said = driver_expect(&d, MSG_FAIL_PARTY);
    cr_expect_eq(said.as.fail_party.number, 1);
    cr_expect_not(session_is_failing(d.session), "it has said farewell");
    session_fail_party(d.session, error_of("app.again"));
    session_leave(d.session);
    cr_expect_eq(driver_hear(&d).type, MSG_NONE);
    driver_expect_end(&d, CODE_EFENCED, "app.first");
    driver_say(&d, &(struct msg){.type = MSG_OVER, .as.over = {.code = CODE_ECLOSED}});
    cr_expect_eq(session_action(d.session), SESSION_DISCONNECT);
    driver_expect_end(&d, CODE_EFENCED, "app.first");
    driver_fini(&d);
}

Test(session_verdict, lets_a_party_of_a_failing_job_leave)
{
    driver_up(&d);
    tell(0, 2, true, "app.root");
    session_leave(d.session);
    (void)driver_expect(&d, MSG_LEAVE);
    driver_say(&d, &(struct msg){.type = MSG_OVER, .as.over = {.code = CODE_ECLOSED}});
    cr_expect_eq(session_action(d.session), SESSION_DISCONNECT);
    driver_fini(&d);
}

/* It has completed, or failed before: it is told, and that is all. */
Test(session_verdict, ends_nobody_who_is_not_over_by_it)
{
    driver_up(&d);
    tell(0, 2, false, "app.root");
    cr_expect_eq(session_end(d.session, NULL), CODE_OK);
    expect_verdict(2, "app.root");
    driver_fini(&d);
}

Test(session_verdict, is_no_cause_for_who_had_one)
{
    driver_up(&d);
    session_fail_party(d.session, error_of("app.mine"));
    (void)driver_expect(&d, MSG_FAIL_PARTY);
    tell(0, 1, true, "app.first");
    driver_expect_end(&d, CODE_ECLOSED, "app.mine");
    cr_expect_not(session_is_failing(d.session));
    driver_fini(&d);
}

Test(session_verdict, is_asked_for_again_on_a_new_connection)
{
    struct msg row;
    driver_up(&d);
    session_ask_verdict(d.session, span_text("train"), 3, true);
    struct msg asked = driver_expect(&d, MSG_VERDICT_ASK);
    cr_expect_eq(asked.as.verdict_ask.request, 1);
    cr_expect_eq(asked.as.verdict_ask.is_waiting, 1);
    cr_expect_eq(asked.as.verdict_ask.attempt, 3);
    driver_say(&d, &(struct msg){.type = MSG_VERDICT_ROW,
                                 .as.verdict_row = {.request = 1, .id = span_text("a")}});
    cr_expect_not(session_verdict_take(d.session, &row), "not all of it came");
    driver_break_link(&d);
    driver_greet(&d, true);
    do
        asked = driver_hear(&d);
    while (asked.type == MSG_BEAT);
    cr_expect_eq(asked.type, MSG_VERDICT_ASK);
    cr_expect_eq(asked.as.verdict_ask.request, 2);
    tell(1, 2, false, "app.other"); /* late */
    cr_expect_not(session_verdict_take(d.session, &row));
    driver_say(&d, &(struct msg){.type = MSG_VERDICT_ROW,
                                 .as.verdict_row = {.request = 2, .id = span_text("a")}});
    tell(2, 2, false, "app.root");
    cr_assert(session_verdict_take(d.session, &row));
    cr_expect_eq(row.type, MSG_VERDICT_ROW);
    cr_assert(session_verdict_take(d.session, &row));
    cr_expect_eq(row.type, MSG_VERDICT);
    cr_expect_not(session_verdict_take(d.session, &row));
    tell(3, 2, false, "app.root");
    driver_expect_end(&d, CODE_EPROTO, ERROR_TYPE_PROTOCOL);
    driver_fini(&d);
}
