/* SPDX-License-Identifier: MPL-2.0 */
/* session_courier_test.c -- a courier's session: what answers a fetch, and what comes too late. */
#include "libbus/session/session_courier.h"

#include "tests/unit/session_driver.h"

static struct driver d;

/* A courier names no party. */
static void courier_up(void)
{
    struct session_options options = driver_options("");
    options.is_courier = true;
    driver_init_with(&d, &options);
    driver_greet_to_attach(&d, false);
    driver_attached(&d);
}

Test(session_courier, beats_while_it_waits_to_be_attached)
{
    struct session_options options = driver_options("");
    options.is_courier = true;
    driver_init_with(&d, &options);
    driver_greet_to_attach(&d, false);
    int64_t due_ns = d.now_ns + options.heartbeat_ms * DRIVER_MS;
    cr_assert_eq(session_deadline_ns(d.session), due_ns);
    d.now_ns = due_ns - 1;
    session_tick(d.session, d.now_ns);
    (void)driver_expect(&d, MSG_NONE);
    d.now_ns = due_ns;
    session_tick(d.session, d.now_ns);
    (void)driver_expect(&d, MSG_BEAT);
    driver_attached(&d);
    driver_fini(&d);
}

static uint64_t fetch(const char *name)
{
    session_fetch(d.session, &(struct session_attachment){.job = span_text("train"),
                                                          .error = span_text("train/bob/1/1"),
                                                          .name = span_text(name)});
    return driver_expect(&d, MSG_FETCH).as.fetch.request;
}

static enum wire_code fetched(void)
{
    struct session_attached attached;
    struct span why;
    return session_fetched(d.session, &attached, &why);
}

static void say_fetched(uint64_t request, uint64_t count)
{
    driver_say(
        &d, &(struct msg){.type = MSG_FETCHED, .as.fetched = {.request = request, .count = count}});
}

Test(session_courier, is_done_with_the_answer_to_what_it_asked_last_alone)
{
    courier_up();
    uint64_t first = fetch("log");
    uint64_t second = fetch("stderr");
    cr_assert_eq(second, first + 1);
    say_fetched(first, 0); /* given up: it says nothing of the second */
    cr_expect_eq(fetched(), CODE_ETIMEDOUT);
    say_fetched(second, 0);
    cr_expect_eq(fetched(), CODE_OK);
    driver_fini(&d);
}

static void say_piece(uint64_t request, uint64_t offset, uint32_t bytes)
{
    static uint8_t part_bytes[LIMIT_ATTACHMENT_PIECE_BYTES + 64];
    static const char content[LIMIT_ATTACHMENT_PIECE_BYTES];
    size_t count = 0;
    const struct msg msg = {.type = MSG_FETCHED_PIECE,
                            .as.fetched_piece = {.request = request,
                                                 .offset = offset,
                                                 .bytes = span_of(content, bytes)}};
    cr_assert_eq(msg_encode(&msg, part_bytes, sizeof part_bytes, &count), WIRE_OK);
    struct buffer *part = buffer_copy(span_of(part_bytes, count));
    session_data_in(d.session, d.now_ns, SPAN_NONE, &part);
}

static void take(uint32_t bytes)
{
    struct span got;
    cr_assert(session_fetch_take(d.session, &got));
    cr_assert_eq(got.bytes, bytes);
}

/* The broker drops what it sends.  What came until then counts. */
Test(session_courier, asks_again_where_a_second_answer_ends_the_first)
{
    courier_up();
    uint64_t request = fetch("log");
    say_fetched(request, 100);
    cr_expect_eq(fetched(), CODE_ETIMEDOUT, "none of the 100 bytes is here");
    say_piece(request, 0, 60);
    driver_say(
        &d, &(struct msg){.type = MSG_FETCHED, .as.fetched = {.request = request, .offset = 60}});
    cr_expect_eq(driver_hear(&d).type, MSG_NONE, "60 bytes are not taken");
    take(60);
    struct msg again = driver_expect(&d, MSG_FETCH);
    cr_expect_eq(again.as.fetch.offset, 60);
    cr_expect_eq(again.as.fetch.received, 60);
    say_fetched(request, 0); /* it was of the first */
    cr_expect_eq(fetched(), CODE_ETIMEDOUT);
    say_fetched(again.as.fetch.request, 0);
    cr_expect_eq(fetched(), CODE_OK);
    driver_fini(&d);
}

Test(session_courier, breaks_with_a_broker_whose_second_answer_does_not_fit)
{
    static const struct msg_fetched others[] = {
        {.offset = 59}, {.offset = 101}, {.offset = 60, .count = 1}};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        courier_up();
        struct msg second = {.type = MSG_FETCHED, .as.fetched = others[i]};
        second.as.fetched.request = fetch("log");
        say_fetched(second.as.fetched.request, 100);
        say_piece(second.as.fetched.request, 0, 60);
        driver_say(&d, &second);
        cr_expect_eq(session_state(d.session), SESSION_OVER);
        driver_fini(&d);
    }
}

/* So the broker sends more before the courier has taken all. */
Test(session_courier, tells_what_it_took_of_what_it_fetches)
{
    enum { PIECE = LIMIT_ATTACHMENT_PIECE_BYTES };
    courier_up();
    uint64_t request = fetch("log");
    driver_say(&d, &(struct msg){.type = MSG_FETCHED,
                                 .as.fetched = {.request = request,
                                                .count = 5 * PIECE,
                                                .total = 5 * PIECE,
                                                .state = ATTACHMENT_WHOLE}});
    for (uint64_t i = 0; i < 4; i++)
        say_piece(request, i * PIECE, PIECE);
    cr_expect_eq(driver_hear(&d).type, MSG_NONE);
    take(PIECE);
    cr_expect_eq(driver_hear(&d).type, MSG_NONE);
    take(PIECE);
    cr_expect_eq(driver_expect(&d, MSG_FETCH_TAKEN).as.fetch_taken.bytes, 2 * PIECE);
    take(PIECE);
    cr_expect_eq(driver_hear(&d).type, MSG_NONE);
    take(PIECE);
    cr_expect_eq(driver_expect(&d, MSG_FETCH_TAKEN).as.fetch_taken.bytes, 4 * PIECE);
    cr_expect_eq(driver_hear(&d).type, MSG_NONE);
    say_piece(request, 4 * PIECE, PIECE);
    cr_expect_eq(fetched(), CODE_ETIMEDOUT, "the last piece is not taken");
    take(PIECE);
    cr_expect_eq(fetched(), CODE_OK);
    cr_expect_eq(driver_hear(&d).type, MSG_NONE, "it is whole: nobody asks again");
    driver_fini(&d);
}

/* What was taken on one connection is not said on the next. */
Test(session_courier, goes_on_with_the_next_connection_behind_what_came)
{
    courier_up();
    uint64_t request = fetch("log");
    say_fetched(request, 100);
    say_piece(request, 0, 60);
    driver_break_link(&d);
    driver_greet_to_attach(&d, false);
    driver_attached(&d);
    cr_expect_eq(driver_hear(&d).type, MSG_NONE);
    take(60);
    struct msg again = driver_expect(&d, MSG_FETCH);
    cr_expect_eq(again.as.fetch.offset, 60);
    cr_expect_eq(again.as.fetch.received, 0);
    driver_fini(&d);
}

Test(session_courier, breaks_with_a_broker_that_answers_what_was_not_asked)
{
    courier_up();
    uint64_t request = fetch("log");
    say_fetched(request + 1, 0);
    cr_expect_eq(session_state(d.session), SESSION_OVER);
    cr_expect_eq(fetched(), CODE_EPROTO);
    driver_fini(&d);
}

/* ---- pings ----------------------------------------------------------------------------------- */

/* The request of the ping that the session sends now; 0: it sends none. */
static uint64_t hear_ping(void)
{
    struct buffer *part = session_data_out(d.session, d.now_ns);
    struct msg msg;
    if (part == NULL)
        return 0;
    cr_assert_eq(msg_decode(buffer_span(part), MSG_LANE_DATA, MSG_TO_BROKER, &msg, NULL), WIRE_OK);
    cr_assert_eq(msg.type, MSG_DATA_PING);
    session_data_sent(d.session);
    return msg.as.data_ping.request;
}

static void say_pong(uint64_t request)
{
    uint8_t bytes[64];
    size_t count = 0;
    const struct msg msg = {.type = MSG_DATA_PONG,
                            .as.data_pong = {.request = request, .uptime_ms = 9}};
    cr_assert_eq(msg_encode(&msg, bytes, sizeof bytes, &count), WIRE_OK);
    struct buffer *part = buffer_copy(span_of(bytes, count));
    session_data_in(d.session, d.now_ns, SPAN_NONE, &part);
}

Test(session_courier, takes_the_answer_to_its_last_ping)
{
    struct msg_data_pong pong;
    courier_up();
    cr_expect_eq(hear_ping(), 0);
    session_ping_data(d.session);
    cr_expect(session_data_is_due(d.session));
    uint64_t first = hear_ping();
    cr_expect(!session_data_is_due(d.session));
    session_ping_data(d.session);
    uint64_t second = hear_ping();
    cr_assert_eq(second, first + 1);
    say_pong(first);
    cr_expect_eq(session_ponged_data(d.session, &pong), CODE_ETIMEDOUT);
    say_pong(second);
    cr_expect_eq(session_ponged_data(d.session, &pong), CODE_OK);
    cr_expect_eq(pong.uptime_ms, 9);
    say_pong(second); /* repeated */
    cr_expect_eq(session_state(d.session), SESSION_UP);
    driver_fini(&d);
}

Test(session_courier, pings_again_over_the_next_connection)
{
    struct msg_data_pong pong;
    courier_up();
    session_ping_data(d.session);
    uint64_t first = hear_ping();
    driver_break_link(&d);
    cr_expect(!session_data_is_due(d.session), "there is no connection to say it on");
    driver_greet_to_attach(&d, false);
    driver_attached(&d);
    uint64_t second = hear_ping();
    cr_assert_gt(second, first);
    say_pong(second);
    cr_expect_eq(session_ponged_data(d.session, &pong), CODE_OK);
    driver_fini(&d);
}

Test(session_courier, breaks_with_a_broker_that_answers_no_ping)
{
    struct msg_data_pong pong;
    courier_up();
    session_ping_data(d.session);
    say_pong(hear_ping() + 1);
    cr_expect_eq(session_state(d.session), SESSION_OVER);
    cr_expect_eq(session_ponged_data(d.session, &pong), CODE_EPROTO);
    driver_fini(&d);
}
