/* SPDX-License-Identifier: MPL-2.0 */
/* misdirected_test.c -- the answer to a greeting on the data channel. */
#include "broker/io/misdirected.h"

#include "libbus/wire/error.h"
#include "libbus/wire/msg.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

static struct buffer *answer_to(const struct msg *msg, const char *data, const char *control)
{
    uint8_t bytes[1024];
    size_t count = 0;
    cr_assert_eq(msg_encode(msg, bytes, sizeof bytes, &count), WIRE_OK);
    return misdirected_answer(span_of(bytes, count), data, control);
}

static const struct msg hello = {.type = MSG_HELLO,
                                 .as.hello = {.major = PROTOCOL_MAJOR,
                                              .heartbeat_ms = 1000,
                                              .lost_after_ms = 10000,
                                              .job = {.data = (const uint8_t *)"j", .bytes = 1},
                                              .party = {.data = (const uint8_t *)"p", .bytes = 1}}};

Test(misdirected, answers_a_greeting_with_the_right_endpoint)
{
    struct msg msg;
    struct buffer *answer = answer_to(&hello, "tcp://host:7371", "tcp://host:7370");
    cr_assert_not_null(answer);
    cr_assert_eq(msg_decode(buffer_span(answer), MSG_LANE_CONTROL, MSG_TO_CLIENT, &msg, NULL),
                 WIRE_OK);
    cr_assert_eq(msg.type, MSG_REFUSED);
    cr_expect_eq(msg.as.refused.code, CODE_EINVAL);
    cr_expect(span_equal(msg.as.refused.type, span_text(ERROR_TYPE_WRONG_CHANNEL)));
    cr_expect(span_equal(msg.as.refused.message,
                         span_text("this is the data channel of a broker (tcp://host:7371): give "
                                   "clients its control channel, which listens at "
                                   "tcp://host:7370")));
    buffer_unref(&answer);
}

Test(misdirected, has_room_for_the_longest_endpoints)
{
    char longest[LIMIT_ENDPOINT_BYTES + 1];
    memset(longest, 'x', LIMIT_ENDPOINT_BYTES);
    longest[LIMIT_ENDPOINT_BYTES] = '\0';
    struct buffer *answer = answer_to(&hello, longest, longest);
    cr_assert_not_null(answer);
    cr_expect_gt(answer->bytes, 2 * LIMIT_ENDPOINT_BYTES);
    buffer_unref(&answer);
}

Test(misdirected, leaves_what_belongs_there)
{
    const struct msg attach = {.type = MSG_ATTACH, .as.attach = {.token = 1, .connection = 2}};
    cr_expect_null(answer_to(&attach, "tcp://host:7371", "tcp://host:7370"));
    cr_expect_null(misdirected_answer(SPAN_NONE, "tcp://host:7371", "tcp://host:7370"));
}
