/* SPDX-License-Identifier: MPL-2.0 */
/* misdirected_test.c -- the answers to what is said on the wrong channel. */
#include "broker/io/misdirected.h"

#include "libbus/wire/error.h"
#include "libbus/wire/msg.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

static struct buffer *answer_to(enum lane lane, const struct msg *msg, const char *data,
                                const char *control)
{
    uint8_t bytes[1024];
    size_t count = 0;
    cr_assert_eq(msg_encode(msg, bytes, sizeof bytes, &count), WIRE_OK);
    return misdirected_answer(lane, span_of(bytes, count), data, control);
}

static const struct msg hello = {.type = MSG_HELLO,
                                 .as.hello = {.major = PROTOCOL_MAJOR,
                                              .heartbeat_ms = 1000,
                                              .lost_after_ms = 10000,
                                              .job = {.data = (const uint8_t *)"j", .bytes = 1},
                                              .party = {.data = (const uint8_t *)"p", .bytes = 1}}};

static const struct msg attach = {.type = MSG_ATTACH, .as.attach = {.token = 1, .connection = 2}};

static void expect_refusal(struct buffer *answer, const char *text)
{
    struct msg msg;
    cr_assert_not_null(answer);
    cr_assert_eq(msg_decode(buffer_span(answer), MSG_LANE_CONTROL, MSG_TO_CLIENT, &msg, NULL),
                 WIRE_OK);
    cr_assert_eq(msg.type, MSG_REFUSED);
    cr_expect_eq(msg.as.refused.code, CODE_EINVAL);
    cr_expect(span_equal(msg.as.refused.type, span_text(ERROR_TYPE_WRONG_CHANNEL)));
    cr_expect(span_equal(msg.as.refused.message, span_text(text)));
    buffer_unref(&answer);
}

Test(misdirected, answers_a_greeting_with_the_right_endpoint)
{
    expect_refusal(answer_to(LANE_DATA, &hello, "tcp://host:7371", "tcp://host:7370"),
                   "this is the data channel of a broker (tcp://host:7371): give clients its "
                   "control channel, which listens at tcp://host:7370");
}

Test(misdirected, answers_a_data_connection_on_the_control_channel)
{
    expect_refusal(answer_to(LANE_CONTROL, &attach, "tcp://host:7371", "tcp://host:7370"),
                   "the data connection reached the control channel of a broker (tcp://host:7370): "
                   "correct data= in the client's endpoint, or --advertise of the broker; the data "
                   "channel listens at tcp://host:7371");
}

Test(misdirected, has_room_for_the_longest_endpoints)
{
    char longest[LIMIT_ENDPOINT_BYTES + 1];
    memset(longest, 'x', LIMIT_ENDPOINT_BYTES);
    longest[LIMIT_ENDPOINT_BYTES] = '\0';
    for (int lane = 0; lane < LANE_COUNT; lane++) {
        struct buffer *answer =
            answer_to((enum lane)lane, lane == LANE_DATA ? &hello : &attach, longest, longest);
        cr_assert_not_null(answer);
        cr_expect_gt(answer->bytes, 2 * LIMIT_ENDPOINT_BYTES);
        buffer_unref(&answer);
    }
}

Test(misdirected, leaves_what_belongs_there)
{
    cr_expect_null(answer_to(LANE_DATA, &attach, "tcp://host:7371", "tcp://host:7370"));
    cr_expect_null(answer_to(LANE_CONTROL, &hello, "tcp://host:7371", "tcp://host:7370"));
    cr_expect_null(misdirected_answer(LANE_DATA, SPAN_NONE, "", ""));
    cr_expect_null(misdirected_answer(LANE_CONTROL, SPAN_NONE, "", ""));
}
