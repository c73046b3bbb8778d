/* SPDX-License-Identifier: MPL-2.0 */
/* upload.c -- what a writer is told of its values in chunks. */
#include "broker/core/settling/upload.h"

#include "broker/core/record/note.h"
#include "broker/core/streams/passing.h"
#include "broker/core/tables/effect.h"
#include "broker/core/tables/event.h"
#include "broker/core/tables/slot_table.h"

void upload_tell(struct core *core, struct session *session, uint32_t number, uint64_t seq,
                 uint64_t bytes)
{
    if (session->control == 0)
        return;
    struct msg *msg = effects_msg(core->effects, session->control, MSG_CHUNKED);
    msg->as.chunked.topic = number;
    msg->as.chunked.seq = seq;
    msg->as.chunked.bytes = bytes;
    msg->as.chunked.durability = core->options.durability;
}

void upload_tell_open(struct core *core, struct session *session, const struct open_slot *open)
{
    if (session->control != 0)
        passing_tell(core, session, open->topic, open->seq, open->chunks->bytes);
}

void uploads_tell_again(struct core *core, struct session *session)
{
    LIST_EACH(link, &session->party->open_slots) {
        const struct open_slot *open = LIST_OWNER(link, struct open_slot, party_link);
        if (open->chunks != NULL)
            upload_tell_open(core, session, open);
    }
}

void upload_remember_refused(struct core *core, struct session *session, uint32_t topic,
                             uint64_t seq)
{
    if (session->chunk_refused_topic == topic && session->chunk_refused_seq == seq)
        return;
    session->chunk_refused_topic = topic;
    session->chunk_refused_seq = seq;
    note_upload_refused(core, session);
}

bool upload_is_known(const struct session *session, const struct topic *topic,
                     const struct event_range *range)
{
    for (uint32_t i = 0; i < UPLOADED_KEPT; i++)
        if (session->uploaded[i].topic == topic->id && session->uploaded[i].seq == range->seq)
            return true;
    uint32_t index;
    return slot_table_find(&topic->slots, range->seq, &index) &&
           slot_table_at(&topic->slots, index)->state == SLOT_CHUNKED;
}

void upload_remember(struct core *core, struct session *session, uint32_t topic, uint64_t seq)
{
    uint32_t at = session->uploaded_at++ % UPLOADED_KEPT;
    session->uploaded[at].topic = topic;
    session->uploaded[at].seq = seq;
    note_uploaded(core, session, topic, seq);
}
