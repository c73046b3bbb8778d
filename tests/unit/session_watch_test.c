/* SPDX-License-Identifier: MPL-2.0 */
/* Observers: following the control topic, asking for a status. */
#include "libbus/session/session.h"

#include "tests/unit/session_driver.h"

static struct driver d;

/* An observer's conversation is on the control channel alone. */
static void observe(uint64_t broker)
{
    cr_assert_eq(session_action(d.session), SESSION_CONNECT_CONTROL);
    struct msg hello = driver_expect(&d, MSG_HELLO);
    cr_assert_eq(hello.as.hello.role, 1);
    cr_assert_eq(hello.as.hello.token, 0);
    struct msg welcome = driver_welcome(&d, false);
    welcome.as.welcome.broker = broker;
    driver_say(&d, &welcome);
    cr_assert_eq(session_state(d.session), SESSION_UP);
    cr_assert_eq(session_action(d.session), SESSION_NOTHING);
    cr_assert_null(session_data_out(d.session, d.now_ns));
    (void)driver_expect(&d, MSG_BEAT);
}

static void up(void)
{
    struct session_options options = driver_options("");
    driver_init_with(&d, &options);
    observe(DRIVER_BROKER);
}

static void happen(uint64_t id)
{
    driver_say(&d, &(struct msg){.type = MSG_EVENT,
                                 .as.event = {.id = id, .name = span_text("party.joined")}});
}

static void row(uint64_t request)
{
    driver_say(&d, &(struct msg){.type = MSG_STATUS_ROW,
                                 .as.status_row = {.request = request, .name = span_text("x")}});
}

Test(session_watch, hands_events_out_and_tells_which_were_taken)
{
    up();
    struct msg event;
    cr_assert_not(session_event_take(d.session, &event));
    session_tap(d.session, 5);
    struct msg tap = driver_expect(&d, MSG_TAP);
    cr_assert_eq(tap.as.tap.from_id, 5);
    cr_assert_eq(tap.as.tap.window, LIMIT_TAP_WINDOW / 2);
    uint64_t taken = 4;
    for (uint64_t id = 5; id < 5 + LIMIT_TAP_WINDOW / 2; id++)
        happen(id);
    cr_assert(session_news(d.session).is_tap);
    for (int told = 0; told < 4; told++) {
        for (int i = 0; i < LIMIT_TAP_WINDOW / 8; i++) {
            cr_assert_eq(driver_hear(&d).type, MSG_NONE);
            cr_assert(session_event_take(d.session, &event));
            cr_assert_eq(event.as.event.id, ++taken);
        }
        cr_assert_eq(driver_expect(&d, MSG_TAP_TAKEN).as.tap_taken.id, taken);
    }
    happen(++taken);
    cr_assert(session_event_take(d.session, &event));
    cr_assert_eq(driver_hear(&d).type, MSG_NONE);
    d.now_ns += 1000 * DRIVER_MS;
    (void)driver_expect(&d, MSG_BEAT);
    cr_assert_eq(driver_expect(&d, MSG_TAP_TAKEN).as.tap_taken.id, taken);
    driver_fini(&d);
}

Test(session_watch, goes_on_with_the_next_event)
{
    up();
    session_tap(d.session, UINT64_MAX);
    cr_assert_eq(driver_expect(&d, MSG_TAP).as.tap.from_id, UINT64_MAX);
    driver_break_link(&d);
    observe(DRIVER_BROKER);
    cr_assert_eq(driver_expect(&d, MSG_TAP).as.tap.from_id, UINT64_MAX);
    happen(9);
    driver_say(&d, &(struct msg){.type = MSG_MISSED, .as.missed = {.first_id = 10, .last_id = 30}});
    driver_break_link(&d);
    observe(DRIVER_BROKER);
    cr_assert_eq(driver_expect(&d, MSG_TAP).as.tap.from_id, 31);
    struct msg event;
    cr_assert(session_event_take(d.session, &event)); /* what was here is still here */
    cr_assert_eq(event.as.event.id, 9);
    cr_assert(session_event_take(d.session, &event));
    cr_assert_eq(event.type, MSG_MISSED);
    cr_assert_eq(event.as.missed.last_id, 30);
    cr_assert_not(session_event_take(d.session, &event));
    driver_break_link(&d);
    observe(DRIVER_BROKER + 1); /* it counts from 1 again */
    cr_assert_eq(driver_expect(&d, MSG_TAP).as.tap.from_id, 1);
    driver_fini(&d);
}

Test(session_watch, bounds_the_events_it_keeps)
{
    up();
    session_tap(d.session, 1);
    (void)driver_expect(&d, MSG_TAP);
    for (uint64_t id = 1; id <= LIMIT_TAP_WINDOW; id++)
        happen(id);
    cr_assert_eq(session_state(d.session), SESSION_UP);
    happen(LIMIT_TAP_WINDOW + 1);
    driver_expect_end(&d, CODE_EPROTO, ERROR_TYPE_PROTOCOL);
    driver_fini(&d);
}

Test(session_watch, hands_a_status_out_once_it_is_complete)
{
    up();
    struct msg out;
    session_status(d.session, span_text("train"));
    struct msg status = driver_expect(&d, MSG_STATUS);
    cr_assert_eq(status.as.status.request, 1);
    cr_assert(span_equal(status.as.status.job, span_text("train")));
    row(1);
    row(1);
    cr_assert_not(session_status_take(d.session, &out));
    cr_assert_not(session_news(d.session).is_status);
    driver_break_link(&d); /* it is asked again, and what came does not count */
    observe(DRIVER_BROKER);
    cr_assert_eq(driver_expect(&d, MSG_STATUS).as.status.request, 2);
    row(1);
    row(2);
    driver_say(
        &d, &(struct msg){.type = MSG_STATUS_END, .as.status_end = {.request = 2, .uptime_ms = 7}});
    cr_assert(session_news(d.session).is_status);
    cr_assert(session_status_take(d.session, &out));
    cr_assert_eq(out.type, MSG_STATUS_ROW);
    cr_assert(session_status_take(d.session, &out));
    cr_assert_eq(out.type, MSG_STATUS_END);
    cr_assert_eq(out.as.status_end.uptime_ms, 7);
    cr_assert_not(session_status_take(d.session, &out));
    driver_break_link(&d); /* it is not asked again */
    observe(DRIVER_BROKER);
    cr_assert_eq(driver_hear(&d).type, MSG_NONE);
    session_status(d.session, SPAN_NONE);
    cr_assert_eq(driver_expect(&d, MSG_STATUS).as.status.request, 3);
    cr_assert_not(session_status_take(d.session, &out));
    driver_fini(&d);
}

Test(session_watch, bounds_the_rows_it_keeps)
{
    up();
    session_status(d.session, SPAN_NONE);
    (void)driver_expect(&d, MSG_STATUS);
    for (uint64_t i = 0; i < LIMIT_CONTROL_QUEUE; i++)
        row(1);
    cr_assert_eq(session_state(d.session), SESSION_UP);
    row(1);
    driver_expect_end(&d, CODE_EFULL, ERROR_TYPE_FULL);
    driver_fini(&d);
}

Test(session_watch, asks_for_a_status_without_a_job)
{
    struct session_options options = driver_options("");
    options.job = SPAN_NONE;
    driver_init_with(&d, &options);
    cr_assert_eq(session_action(d.session), SESSION_CONNECT_CONTROL);
    cr_assert_eq(driver_expect(&d, MSG_HELLO).as.hello.job.bytes, 0);
    struct msg welcome = driver_welcome(&d, false);
    driver_say(&d, &welcome);
    (void)driver_expect(&d, MSG_BEAT);
    session_status(d.session, span_text("train"));
    cr_assert(span_equal(driver_expect(&d, MSG_STATUS).as.status.job, span_text("train")));
    driver_say(&d, &(struct msg){.type = MSG_STATUS_END, .as.status_end.request = 1});
    struct msg end;
    cr_assert(session_status_take(d.session, &end));
    driver_say(&d, &(struct msg){.type = MSG_ATTACHED}); /* breaks the protocol */
    driver_expect_end(&d, CODE_EPROTO, ERROR_TYPE_PROTOCOL);
    driver_fini(&d);
}
