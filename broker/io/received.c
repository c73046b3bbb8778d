/* SPDX-License-Identifier: MPL-2.0 */
/* received.c -- see received.h. */
#include "broker/io/received.h"

#include "libbus/io/part.h"

#include <stdlib.h>

static void read_routing(zmq_msg_t *id, struct received *received)
{
    const uint8_t *bytes = zmq_msg_data(id);
    received->is_numbered = zmq_msg_size(id) == RECEIVED_ROUTING_BYTES && bytes[0] == 0;
    if (received->is_numbered)
        received->routing = (uint32_t)bytes[1] << 24 | (uint32_t)bytes[2] << 16 |
                            (uint32_t)bytes[3] << 8 | bytes[4];
}

bool received_read(void *socket, struct received *received)
{
    zmq_msg_t other;
    *received = (struct received){.part_count = 0};
    zmq_msg_init(&received->part);
    zmq_msg_init(&other);
    bool is_there = part_receive(socket, &other);
    if (is_there) {
        read_routing(&other, received);
        zmq_msg_t *at = &received->part;
        for (bool more = zmq_msg_more(&other); more; at = &other) {
            if (!part_receive(socket, at))
                break;
            received->part_count += 1;
            more = zmq_msg_more(at);
        }
    }
    zmq_msg_close(&other);
    return is_there;
}

void received_hide_ids(unsigned seed)
{
    srandom(seed);
}
