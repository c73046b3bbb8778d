/* SPDX-License-Identifier: MPL-2.0 */
/* misdirected.c -- see misdirected.h. */
#include "broker/io/misdirected.h"

#include "libbus/base/must.h"
#include "libbus/wire/error.h"
#include "libbus/wire/msg.h"

#include <stdio.h>

/* Room for REFUSED: two endpoints, a sentence, and the heads of its fields. */
enum { TEXT_BYTES = 2 * LIMIT_ENDPOINT_BYTES + 128, MESSAGE_BYTES = TEXT_BYTES + 128 };

struct buffer *misdirected_answer(struct span part, const char *data, const char *control)
{
    struct msg msg;
    uint8_t bytes[MESSAGE_BYTES];
    size_t count = 0;
    if (wire_number(part) != MSG_HELLO) /* a batch is not looked through */
        return NULL;
    if (msg_decode(part, MSG_LANE_CONTROL, MSG_TO_BROKER, &msg, NULL) != WIRE_OK)
        return NULL;
    char text[TEXT_BYTES];
    snprintf(text, sizeof text,
             "this is the data channel of a broker (%s): give clients its control channel, which "
             "listens at %s",
             data, control);
    struct msg refused = {.type = MSG_REFUSED,
                          .as.refused = {.code = CODE_EINVAL,
                                         .type = span_text(ERROR_TYPE_WRONG_CHANNEL),
                                         .message = span_text(text)}};
    must(msg_encode(&refused, bytes, sizeof bytes, &count) == WIRE_OK);
    return buffer_copy(span_of(bytes, count));
}
