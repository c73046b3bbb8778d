/* SPDX-License-Identifier: MPL-2.0 */
/* msg_fuzz.c -- foreign bytes as a message of each channel and direction: refused with a code, or
 * taken; and what is taken can be said again, in bytes that mean the same. */
#include "libbus/base/must.h"
#include "libbus/wire/msg.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void say_again(const struct msg *msg, enum msg_lane lane, enum msg_direction direction)
{
    static uint8_t first[LIMIT_CONTROL_BYTES];
    static uint8_t second[LIMIT_CONTROL_BYTES];
    size_t first_bytes = 0;
    size_t second_bytes = 0;
    struct msg again;
    must(msg_encode(msg, first, sizeof first, &first_bytes) == WIRE_OK);
    must(msg_decode((struct span){first, first_bytes}, lane, direction, &again, NULL) == WIRE_OK);
    must(again.type == msg->type);
    must(msg_encode(&again, second, sizeof second, &second_bytes) == WIRE_OK);
    must(first_bytes == second_bytes && memcmp(first, second, first_bytes) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct span part = {data, bytes};
    for (int lane = MSG_LANE_CONTROL; lane <= MSG_LANE_DATA; lane++)
        for (int direction = MSG_TO_BROKER; direction <= MSG_TO_CLIENT; direction++) {
            struct msg msg;
            unsigned number;
            enum wire_err err =
                msg_decode(part, (enum msg_lane)lane, (enum msg_direction)direction, &msg, &number);
            must(number == wire_number(part));
            if (err == WIRE_OK && bytes <= LIMIT_CONTROL_BYTES)
                say_again(&msg, (enum msg_lane)lane, (enum msg_direction)direction);
        }
    return 0;
}
