/* SPDX-License-Identifier: MPL-2.0 */
/* settle.c -- the one way from an open slot to its outcome. */
#include "broker/core/settling/settle.h"

#include "broker/core/record/count.h"
#include "broker/core/record/failure.h"
#include "broker/core/record/note.h"
#include "broker/core/record/tell.h"
#include "broker/core/record/text.h"
#include "broker/core/settling/need.h"
#include "broker/core/streams/await.h"
#include "broker/core/streams/open_slot.h"
#include "broker/core/streams/passing.h"
#include "broker/core/streams/reply.h"
#include "broker/core/streams/topic.h"
#include "broker/core/tables/slot_table.h"
#include "broker/core/tables/storms.h"

void settle_open(struct core *core, struct open_slot *open, enum slot_state state, uint32_t ref,
                 struct slot_place place)
{
    struct topic *topic = open->topic;
    uint64_t seq = open->seq;
    uint32_t index;
    bool is_found = slot_table_find(&topic->slots, seq, &index);
    must(is_found); /* open slots are never trimmed */
    struct slot_entry *entry = slot_table_at(&topic->slots, index);
    uint64_t before = state == SLOT_CHUNKED
                          ? COST_SLOT_BYTES + chunks_weight(pool_find(&core->chunk_sets, ref))
                          : topic_weight(core, entry);
    slot_entry_move(entry, state, ref);
    entry->place = place;
    if (state == SLOT_ERROR)
        entry_set_error(core, entry, pool_find(&core->failures, ref));
    topic_account(topic, entry, before, topic_weight(core, entry));
    note_settled(core, topic, entry);
    count_settled(core, topic->job, state == SLOT_ERROR ? COUNT_ERROR : COUNT_VALUE, 1);
    if (open_slot_is_reply(open))
        reply_settled(core, open, state == SLOT_ERROR ? pool_find(&core->failures, ref) : NULL);
    await_settled(core, &open->awaits, entry);
    open_slot_forget(core, open);
    topic_news(core, topic, seq, seq + 1);
    if (state == SLOT_ERROR)
        need_slots_failed(core, topic, seq, 1, pool_find(&core->failures, ref));
}

void settle_open_failed(struct core *core, struct open_slot *open, struct failure *failure)
{
    struct topic *topic = open->topic;
    settle_open(core, open, SLOT_ERROR, failure_ref(failure)->id, (struct slot_place){0});
    topic_update(core, topic);
}

void settle_tell(struct core *core, struct topic *topic, uint64_t seq, struct failure *failure)
{
    tell_like(core, topic->job, STORM_SLOT_FAILED,
              &(struct tell){.name = EVENT_SLOT_FAILED,
                             .party = topic->writer,
                             .incarnation = topic->writer->incarnation,
                             .topic = topic,
                             .seq = seq,
                             .count = 1,
                             .failure = failure});
}

void settle_deadline(struct core *core, struct open_slot *open)
{
    struct topic *topic = open->topic;
    uint64_t seq = open->seq;
    struct text text;
    text_init(&text);
    text_add(&text, "no outcome within the deadline of ");
    text_add_number(&text, (uint64_t)open->terms->deadline_ms);
    text_add(&text, " ms");
    struct failure *failure = failure_make(core, &(struct failure_spec){.job = topic->job,
                                                                        .party = topic->writer,
                                                                        .kind = ERROR_DEADLINE,
                                                                        .type = ERROR_TYPE_DEADLINE,
                                                                        .message = text.data,
                                                                        .topic = topic,
                                                                        .seq = seq});
    settle_tell(core, topic, seq, failure);
    settle_open_failed(core, open, failure);
    failure_unref(core, failure);
}

void settle_stalled(struct core *core, struct open_slot *open)
{
    struct topic *topic = open->topic;
    struct failure *failure = failure_make(
        core, &(struct failure_spec){
                  .job = topic->job,
                  .party = topic->writer,
                  .kind = ERROR_REJECTED,
                  .type = ERROR_TYPE_FULL,
                  .message = "its job has no room for it, and its readers took nothing of it",
                  .topic = topic,
                  .seq = open->seq});
    settle_tell(core, topic, open->seq, failure);
    settle_open_failed(core, open, failure);
    failure_unref(core, failure);
}

/* ---- what a parked message does when its time has come --------------------------------------- */

void settle_replace_entry(struct core *core, struct topic *topic, struct slot_entry *entry,
                          struct failure *failure)
{
    struct slot_entry old = *entry;
    uint64_t before = topic_weight(core, entry);
    slot_entry_move(entry, SLOT_ERROR, failure_ref(failure)->id);
    entry_set_error(core, entry, failure);
    topic_account(topic, entry, before, topic_weight(core, entry));
    entry_unref(core, &old);
    note_retracted(core, topic, entry);
    need_slots_failed(core, topic, entry->first_seq, entry->count, failure);
}

void settle_replace(struct core *core, struct topic *topic, uint64_t seq, struct failure *failure)
{
    uint32_t entries = topic->slots.count;
    uint32_t index;
    bool is_found = slot_table_find(&topic->slots, seq, &index);
    must(is_found);
    index = slot_table_isolate(&topic->slots, index, seq);
    struct slot_entry *entry = slot_table_at(&topic->slots, index);
    for (; entries < topic->slots.count; entries++)
        entry_ref(core, entry); /* each entry has a reference of its own */
    settle_replace_entry(core, topic, entry, failure);
    topic_recount(core, topic);
    topic_update(core, topic);
}

bool settle_is_unseen(const struct topic *topic, const struct slot_entry *entry)
{
    uint64_t first_seq = 0; /* of this incarnation */
    if (topic->mark_count > 0)
        first_seq = topic->marks[topic->mark_count - 1].seq;
    return entry->state != SLOT_OPEN && entry->first_seq >= first_seq &&
           slot_entry_may_move(entry, SLOT_ERROR);
}

void settle_replace_unseen(struct core *core, struct topic *topic, struct failure *failure)
{
    for (uint32_t i = 0; i < topic->slots.count; i++) {
        struct slot_entry *entry = slot_table_at(&topic->slots, i);
        if (settle_is_unseen(topic, entry))
            settle_replace_entry(core, topic, entry, failure);
    }
    topic_recount(core, topic);
    topic_update(core, topic);
}

/* ---- a slot whose chunks are complete -------------------------------------------------------- */

void settle_whole(struct core *core, struct open_slot *open)
{
    uint32_t chunks = open->chunks->id;
    passing_end(core, open);
    open->topic->passing = open->topic->passing == open ? NULL : open->topic->passing;
    open->chunks = NULL; /* the entry has the reference now */
    settle_open(core, open, SLOT_CHUNKED, chunks, (struct slot_place){0});
}
