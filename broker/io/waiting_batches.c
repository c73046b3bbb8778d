/* SPDX-License-Identifier: MPL-2.0 */
/* waiting_batches.c -- see waiting_batches.h. */
#include "broker/io/waiting_batches.h"

void waiting_batches_init(struct waiting_batches *batches, struct memory *memory)
{
    *batches = (struct waiting_batches){.bytes = 0};
    held_output_init(&batches->output, memory);
}

void waiting_batches_fini(struct waiting_batches *batches)
{
    held_output_fini(&batches->output);
}

bool waiting_batches_is_empty(const struct waiting_batches *batches)
{
    return held_output_is_empty(&batches->output, HELD_OUTCOMES);
}

static size_t cost(const struct buffer *part)
{
    return part->bytes + WAITING_BATCHES_BATCH_BYTES;
}

bool waiting_batches_take(struct waiting_batches *batches, struct peer *peer, struct buffer **part)
{
    size_t bytes = cost(*part);
    peer->is_shed = peer->is_shed || bytes > WAITING_BATCHES_PEER_BYTES - peer->parked_bytes ||
                    bytes > WAITING_BATCHES_BYTES - batches->bytes;
    if (peer->is_shed)
        return false;
    struct held held = {.conn = peer->conn, .lane = MSG_LANE_DATA, .part = *part};
    held_output_push(&batches->output, HELD_OUTCOMES, &held);
    *part = NULL;
    peer->parked_bytes += bytes;
    batches->bytes += bytes;
    return true;
}

bool waiting_batches_next(struct waiting_batches *batches, struct peers *peers,
                          struct held *out_held)
{
    if (!held_output_pop(&batches->output, HELD_OUTCOMES, 0, out_held))
        return false;
    struct peer *peer = peers_by_conn(peers, out_held->conn);
    batches->bytes -= cost(out_held->part);
    if (peer != NULL)
        peer->parked_bytes -= cost(out_held->part);
    return true;
}

void waiting_batches_drop(struct waiting_batches *batches, struct peer *peer)
{
    if (peer->parked_bytes == 0)
        return;
    held_output_drop(&batches->output, HELD_OUTCOMES, peer->conn);
    batches->bytes -= peer->parked_bytes;
    peer->parked_bytes = 0;
}
