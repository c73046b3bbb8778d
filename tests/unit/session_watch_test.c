/* SPDX-License-Identifier: MPL-2.0 */
/* Observers: following the control topic, asking for a status. */
#include "libbus/base/trip.h"
#include "libbus/session/session.h"

#include "tests/unit/session_driver.h"

static struct driver d;
static uint64_t event_next; /* for WELCOME */

/* An observer's conversation is on the control channel alone. */
static void observe(uint64_t broker)
{
    struct msg hello = driver_dial(&d);
    cr_assert_eq(hello.as.hello.role, 1);
    cr_assert_eq(hello.as.hello.token, 0);
    struct msg welcome = driver_welcome(&d, false);
    welcome.as.welcome.broker = broker;
    welcome.as.welcome.event_next = event_next;
    welcome.as.welcome.durability = 2;
    driver_say(&d, &welcome);
    cr_assert_eq(session_state(d.session), SESSION_UP);
    cr_assert_eq(session_durability(d.session), 2);
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
    for (uint64_t id = 5; id < 5 + DEFAULT_TAP_WINDOW; id++)
        happen(id);
    cr_assert(session_news(d.session).is_tap);
    for (int told = 0; told < 4; told++) {
        for (int i = 0; i < DEFAULT_TAP_WINDOW / 4; i++) {
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

/* Over a link with such a round trip: the round trip in the BEAT that follows an answer at once;
 * MSG_NONE: none follows. */
static struct msg answer_late(int64_t ms)
{
    driver_echo_late(&d, ms);
    return driver_hear(&d);
}

static void up_late(int64_t ms)
{
    struct session_options options = driver_options("");
    driver_init_with(&d, &options);
    (void)driver_dial(&d);
    d.now_ns += ms * DRIVER_MS;
    struct msg welcome = driver_welcome(&d, false);
    driver_say(&d, &welcome);
    (void)driver_expect(&d, MSG_BEAT);
}

Test(session_watch, a_tap_judges_its_link_without_waiting_for_the_next_heartbeat)
{
    enum { TRIP_MS = 20, COUNT = 300 / TRIP_MS };
    for (int asks_first = 0; asks_first < 2; asks_first++) {
        up_late(TRIP_MS);
        if (!asks_first)
            session_tap(d.session, 1);
        else
            cr_assert_eq(answer_late(TRIP_MS).type, MSG_NONE, "who taps nothing has no hurry");
        if (asks_first) {
            session_tap(d.session, 1);
            (void)driver_expect(&d, MSG_BEAT);
        }
        (void)driver_expect(&d, MSG_TAP);
        for (int i = 1 + asks_first; i < COUNT; i++) {
            struct msg beat = answer_late(TRIP_MS);
            cr_assert_eq(beat.type, MSG_BEAT, "answer %d", i);
            cr_assert_eq(beat.as.beat.trip_ns, 0, "it is not known after %d answers", i);
        }
        struct msg beat = answer_late(TRIP_MS);
        cr_assert_eq(beat.type, MSG_BEAT);
        cr_assert_eq(beat.as.beat.trip_ns, TRIP_MS * DRIVER_MS);
        cr_assert_eq(answer_late(TRIP_MS).type, MSG_NONE, "it is known");
        driver_fini(&d);
    }
}

Test(session_watch, a_tap_on_a_short_link_asks_no_more_once_it_said_so)
{
    up_late(TRIP_NEAR_NS / DRIVER_MS);
    session_tap(d.session, 1);
    (void)driver_expect(&d, MSG_TAP);
    cr_assert_eq(answer_late(20).type, MSG_BEAT);
    cr_assert_eq(answer_late(0).type, MSG_BEAT);
    cr_assert_eq(answer_late(0).type, MSG_NONE);
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

/* A broker that crashed may have lost events that it told; their ids are other events' now. */
Test(session_watch, goes_on_where_a_crashed_broker_does)
{
    for (uint64_t kept = 5; kept <= 12; kept++) { /* ids told: 7 to 10 */
        struct msg event;
        event_next = 7;
        up();
        session_tap(d.session, UINT64_MAX);
        cr_assert_eq(driver_expect(&d, MSG_TAP).as.tap.from_id, 7);
        for (uint64_t id = 7; id <= 10; id++)
            happen(id);
        cr_assert(session_event_take(d.session, &event));
        driver_break_link(&d);
        event_next = kept;
        observe(DRIVER_BROKER);
        uint64_t from_id = kept < 11 ? kept : 11;
        cr_expect_eq(driver_expect(&d, MSG_TAP).as.tap.from_id, from_id);
        cr_expect_eq(session_event_next(d.session), kept);
        if (kept < 11) {
            happen(from_id);
            d.now_ns += 1000 * DRIVER_MS;
            (void)driver_expect(&d, MSG_BEAT);
            for (uint64_t id = 8; id <= 10; id++) { /* what was told before is still here */
                cr_assert(session_event_take(d.session, &event));
                cr_expect_eq(event.as.event.id, id);
            }
            d.now_ns += 1000 * DRIVER_MS;
            (void)driver_expect(&d, MSG_BEAT);
            cr_expect_eq(driver_hear(&d).type, MSG_NONE, "it takes nothing that was not sent");
            cr_assert(session_event_take(d.session, &event));
            cr_expect_eq(event.as.event.id, from_id);
            d.now_ns += 1000 * DRIVER_MS;
            (void)driver_expect(&d, MSG_BEAT);
            cr_expect_eq(driver_expect(&d, MSG_TAP_TAKEN).as.tap_taken.id, from_id);
        }
        driver_fini(&d);
    }
    event_next = 0;
}

/* What happens while the first connection is lost, before any event came, is not missed. */
Test(session_watch, begins_from_now_at_the_same_event_after_a_reconnect)
{
    event_next = 9;
    up();
    session_tap(d.session, UINT64_MAX);
    cr_assert_eq(driver_expect(&d, MSG_TAP).as.tap.from_id, 9);
    event_next = 12;
    driver_break_link(&d);
    observe(DRIVER_BROKER);
    cr_assert_eq(driver_expect(&d, MSG_TAP).as.tap.from_id, 9);
    event_next = 3;
    driver_break_link(&d);
    observe(DRIVER_BROKER + 1);
    cr_assert_eq(driver_expect(&d, MSG_TAP).as.tap.from_id, 1);
    driver_fini(&d);
}

Test(session_watch, begins_where_it_was_asked_to)
{
    for (uint64_t from_id = 0; from_id <= 10; from_id++) {
        event_next = 9;
        up();
        session_tap(d.session, from_id);
        cr_assert_eq(driver_expect(&d, MSG_TAP).as.tap.from_id, from_id < 9 ? from_id : 9);
        driver_fini(&d);
    }
}

/* Nobody takes, and the connection is lost again and again. */
Test(session_watch, asks_for_no_more_events_than_it_has_room_for)
{
    up();
    session_tap(d.session, 1);
    uint64_t id = 0;
    uint64_t window = driver_expect(&d, MSG_TAP).as.tap.window;
    while (window > 0) {
        for (uint64_t i = 0; i < window; i++)
            happen(++id);
        driver_break_link(&d);
        observe(DRIVER_BROKER);
        struct msg tap = driver_hear(&d);
        cr_assert(tap.type == MSG_NONE || tap.as.tap.from_id == id + 1);
        window = tap.type == MSG_NONE ? 0 : tap.as.tap.window;
    }
    cr_assert_eq(session_state(d.session), SESSION_UP);
    cr_assert_leq(id, LIMIT_TAP_WINDOW);

    /* It goes on as soon as there is room. */
    struct msg event;
    cr_assert(session_event_take(d.session, &event));
    cr_assert(session_event_take(d.session, &event));
    cr_assert_eq(driver_expect(&d, MSG_TAP).as.tap.window, 1);
    cr_assert_eq(driver_expect(&d, MSG_TAP_TAKEN).as.tap_taken.id, 2);
    driver_fini(&d);
}

/* Events of one broker are not taken from another. */
Test(session_watch, tells_no_broker_what_another_has_sent)
{
    up();
    session_tap(d.session, 1);
    (void)driver_expect(&d, MSG_TAP);
    for (uint64_t id = 1; id <= 300; id++)
        happen(id);
    struct msg event;
    cr_assert(session_event_take(d.session, &event));
    driver_break_link(&d);
    observe(DRIVER_BROKER + 1);
    cr_assert_eq(driver_expect(&d, MSG_TAP).as.tap.from_id, 1);
    while (session_event_take(d.session, &event))
        cr_assert_eq(driver_hear(&d).type, MSG_NONE);
    happen(1);
    cr_assert(session_event_take(d.session, &event));
    d.now_ns += 1000 * DRIVER_MS;
    (void)driver_expect(&d, MSG_BEAT);
    cr_assert_eq(driver_expect(&d, MSG_TAP_TAKEN).as.tap_taken.id, 1);
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

static void ask_status(struct span job)
{
    session_ask(d.session, &(const struct msg){.type = MSG_STATUS, .as.status = {.job = job}});
}

Test(session_watch, hands_a_status_out_once_it_is_complete)
{
    up();
    struct msg out;
    ask_status(span_text("train"));
    struct msg status = driver_expect(&d, MSG_STATUS);
    cr_assert_eq(status.as.status.request, 1);
    cr_assert(span_equal(status.as.status.job, span_text("train")));
    row(1);
    row(1);
    cr_assert_not(session_answer_take(d.session, &out));
    cr_assert_not(session_news(d.session).is_status);
    driver_break_link(&d); /* it is asked again, and what came does not count */
    observe(DRIVER_BROKER);
    cr_assert_eq(driver_expect(&d, MSG_STATUS).as.status.request, 2);
    row(1);
    row(2);
    driver_say(
        &d, &(struct msg){.type = MSG_STATUS_END, .as.status_end = {.request = 2, .uptime_ms = 7}});
    cr_assert(session_news(d.session).is_status);
    cr_assert(session_answer_take(d.session, &out));
    cr_assert_eq(out.type, MSG_STATUS_ROW);
    cr_assert(session_answer_take(d.session, &out));
    cr_assert_eq(out.type, MSG_STATUS_END);
    cr_assert_eq(out.as.status_end.uptime_ms, 7);
    cr_assert_not(session_answer_take(d.session, &out));
    driver_break_link(&d); /* it is not asked again */
    observe(DRIVER_BROKER);
    cr_assert_eq(driver_hear(&d).type, MSG_NONE);
    ask_status(SPAN_NONE);
    cr_assert_eq(driver_expect(&d, MSG_STATUS).as.status.request, 3);
    cr_assert_not(session_answer_take(d.session, &out));
    driver_fini(&d);
}

Test(session_watch, bounds_the_rows_it_keeps)
{
    up();
    ask_status(SPAN_NONE);
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
    driver_say_welcome(&d, false);
    (void)driver_expect(&d, MSG_BEAT);
    ask_status(span_text("train"));
    cr_assert(span_equal(driver_expect(&d, MSG_STATUS).as.status.job, span_text("train")));
    driver_say(&d, &(struct msg){.type = MSG_STATUS_END, .as.status_end.request = 1});
    struct msg end;
    cr_assert(session_answer_take(d.session, &end));
    driver_say(&d, &(struct msg){.type = MSG_ATTACHED}); /* breaks the protocol */
    driver_expect_end(&d, CODE_EPROTO, ERROR_TYPE_PROTOCOL);
    driver_fini(&d);
}
