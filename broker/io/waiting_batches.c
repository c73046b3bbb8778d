/* SPDX-License-Identifier: MPL-2.0 */
/* waiting_batches.c -- see waiting_batches.h. */
#include "broker/io/waiting_batches.h"

void parking_init(struct parking *parking, struct memory *memory)
{
    *parking = (struct parking){.bytes = 0};
    hold_init(&parking->hold, memory);
}

void parking_fini(struct parking *parking)
{
    hold_fini(&parking->hold);
}

bool parking_is_empty(const struct parking *parking)
{
    return hold_is_empty(&parking->hold, HOLD_OUTCOMES);
}

static size_t cost(const struct buffer *part)
{
    return part->bytes + PARKING_BATCH_BYTES;
}

bool parking_take(struct parking *parking, struct peer *peer, struct buffer **part)
{
    size_t bytes = cost(*part);
    peer->is_shed = peer->is_shed || bytes > PARKING_PEER_BYTES - peer->parked_bytes ||
                    bytes > PARKING_BYTES - parking->bytes;
    if (peer->is_shed)
        return false;
    struct held held = {.conn = peer->conn, .lane = MSG_LANE_DATA, .part = *part};
    hold_push(&parking->hold, HOLD_OUTCOMES, &held);
    *part = NULL;
    peer->parked_bytes += bytes;
    parking->bytes += bytes;
    return true;
}

bool parking_next(struct parking *parking, struct peers *peers, struct held *out_held)
{
    if (!hold_pop(&parking->hold, HOLD_OUTCOMES, 0, out_held))
        return false;
    struct peer *peer = peers_by_conn(peers, out_held->conn);
    parking->bytes -= cost(out_held->part);
    if (peer != NULL)
        peer->parked_bytes -= cost(out_held->part);
    return true;
}

void parking_drop(struct parking *parking, struct peer *peer)
{
    if (peer->parked_bytes == 0)
        return;
    hold_drop(&parking->hold, HOLD_OUTCOMES, peer->conn);
    parking->bytes -= peer->parked_bytes;
    peer->parked_bytes = 0;
}
