/* SPDX-License-Identifier: MPL-2.0 */
/* newcomers.c -- see newcomers.h. */
#include "broker/io/newcomers.h"

void newcomers_init(struct newcomers *newcomers, struct memory *memory)
{
    *newcomers = (struct newcomers){.bytes = 0};
    held_output_init(&newcomers->output, memory);
}

void newcomers_fini(struct newcomers *newcomers)
{
    held_output_fini(&newcomers->output);
}

bool newcomers_hold(struct newcomers *newcomers, const struct peers *peers, struct peer *peer,
                    struct span said)
{
    bool is_first = !peer->is_heard;
    peer->is_heard = true;
    bool must_wait = (is_first && peers_lane_is_closing(peers, peer->lane)) || peer->waiting > 0;
    if (!must_wait || said.bytes > NEWCOMERS_BYTES - newcomers->bytes)
        return false;
    struct held held = {
        .ticket = peers->lanes[peer->lane].read, .conn = peer->conn, .part = buffer_copy(said)};
    if (held.part == NULL)
        return false;
    held_output_push(&newcomers->output, HELD_ANSWERS, &held);
    newcomers->bytes += said.bytes;
    peer->waiting += 1;
    return true;
}

struct peer *newcomers_next(struct newcomers *newcomers, struct peers *peers, bool is_all,
                            struct buffer **out_said)
{
    uint64_t reached = is_all ? UINT64_MAX : peers_settled(peers, LANE_CONTROL);
    struct held held;
    while (held_output_pop(&newcomers->output, HELD_ANSWERS, reached, &held)) {
        struct peer *peer = peers_by_conn(peers, held.conn);
        newcomers->bytes -= held.part->bytes;
        if (peer != NULL)
            peer->waiting -= 1;
        if (peer != NULL && !peer->is_forgotten && !peer->is_mute) {
            *out_said = held.part;
            return peer;
        }
        buffer_unref(&held.part);
    }
    return NULL;
}
