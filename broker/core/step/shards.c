/* SPDX-License-Identifier: MPL-2.0 */
/* shards.c -- see shards.h. */
#include "broker/core/step/shards.h"

#include "broker/core/tables/effect.h"

void tell_shards(struct core *core, struct session *session, const struct msg_shards *msg)
{
    for (uint32_t i = 0; core->shards != NULL && i < core->shards->count; i++) {
        const struct event_shard *shard = &core->shards->items[i];
        struct msg_shard_row *row =
            &effects_msg(core->effects, session->control, MSG_SHARD_ROW)->as.shard_row;
        row->request = msg->request;
        row->shard = shard->number;
        row->endpoint = shard->endpoint;
        row->is_here = shard->is_here;
    }
    effects_msg(core->effects, session->control, MSG_SHARDS_END)->as.shards_end.request =
        msg->request;
}
