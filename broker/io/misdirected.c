/* SPDX-License-Identifier: MPL-2.0 */
/* misdirected.c -- see misdirected.h. */
#include "broker/io/misdirected.h"

#include "libbus/base/must.h"
#include "libbus/wire/error.h"
#include "libbus/wire/msg.h"

#include <stdio.h>

/* Room for REFUSED: two endpoints, a sentence, and the heads of its fields. */
enum { TEXT_BYTES = 2 * LIMIT_ENDPOINT_BYTES + 192, MESSAGE_BYTES = TEXT_BYTES + 128 };

struct buffer *misdirected_answer(enum lane lane, struct span part, const char *data,
                                  const char *control)
{
    struct msg msg;
    uint8_t bytes[MESSAGE_BYTES];
    size_t count = 0;
    char text[TEXT_BYTES];
    bool is_data = lane == LANE_DATA;
    if (wire_number(part) != (is_data ? MSG_HELLO : MSG_ATTACH)) /* others are not looked through */
        return NULL;
    if (msg_decode(part, is_data ? MSG_LANE_CONTROL : MSG_LANE_DATA, MSG_TO_BROKER, &msg, NULL) !=
        WIRE_OK)
        return NULL;
    if (is_data)
        snprintf(text, sizeof text,
                 "this is the data channel of a broker (%s): give clients its control channel, "
                 "which listens at %s",
                 data, control);
    else
        snprintf(text, sizeof text,
                 "the data connection reached the control channel of a broker (%s): correct data= "
                 "in the client's endpoint, or --advertise of the broker; the data channel listens "
                 "at %s",
                 control, data);
    struct msg refused = {.type = MSG_REFUSED,
                          .as.refused = {.code = CODE_EINVAL,
                                         .type = span_text(ERROR_TYPE_WRONG_CHANNEL),
                                         .message = span_text(text)}};
    must(msg_encode(&refused, bytes, sizeof bytes, &count) == WIRE_OK);
    return buffer_copy(span_of(bytes, count));
}
