/* SPDX-License-Identifier: MPL-2.0 */
/* topic.c -- replays facts about topics and their slots. */
#include "broker/core/replay/facts.h"

#include "broker/core/replay/lookup.h"
#include "broker/core/settling/need.h"
#include "broker/core/settling/settle.h"
#include "broker/core/streams/names.h"
#include "broker/core/streams/number.h"
#include "broker/core/streams/open_slot.h"
#include "broker/core/streams/topic.h"
#include "broker/core/tables/effect.h"
#include "broker/core/tables/slot_table.h"

const char *replay_topic_known(struct core *core, const struct fact_topic_known *fact)
{
    uint32_t known;
    struct party *writer = replayed_party(core, fact->party);
    if (writer == NULL)
        return WRONG_NO_PARTY;
    if (replayed_topic(core, fact->topic) != NULL ||
        name_map_get(&writer->job->topics, fact->name, &known))
        return WRONG_TWICE;
    if (fact->topic == 0 || topic_make(core, (uint32_t)fact->topic, writer, fact->name) == NULL)
        return WRONG_NO_MEMORY;
    return NULL;
}

const char *replay_topic_forgotten(struct core *core, struct topic *topic,
                                   const struct fact_topic_forgotten *fact)
{
    (void)fact;
    if (topic->slots.count > 0)
        return WRONG_NO_ORDER;
    struct party *writer = topic->writer;
    topic_free(core, topic);
    party_update_bare(writer);
    return NULL;
}

const char *replay_topic_opened(struct core *core, struct topic *topic,
                                const struct fact_topic_opened *fact)
{
    uint32_t number = (uint32_t)fact->number;
    (void)core;
    if (number != 0 && (topic->is_opened || !number_is_free(topic->writer, number)))
        return WRONG_TWICE;
    if (number != 0)
        number_give(topic, number);
    topic_mark_opened(topic, true);
    return NULL;
}

const char *replay_topic_begun(struct core *core, struct topic *topic,
                               const struct fact_topic_begun *fact)
{
    if (topic->slots.count > 0 || topic->slots.next_seq > 0)
        return WRONG_NO_ORDER;
    topic_begin(core, topic, fact->seq);
    return NULL;
}

const char *replay_credit(struct core *core, struct topic *topic, const struct fact_credit *fact)
{
    (void)core;
    topic->credit_used = fact->used_bytes;
    topic->credit_limit = fact->limit_bytes;
    return NULL;
}

const char *replay_end_marked(struct core *core, struct topic *topic,
                              const struct fact_end_marked *fact)
{
    topic_mark_end(core, topic,
                   &(struct end_mark){.incarnation = (uint32_t)fact->incarnation,
                                      .seq = fact->seq,
                                      .at_ns = fact->at_ns});
    return NULL;
}

const char *replay_trimmed(struct core *core, struct topic *topic, const struct fact_trimmed *fact)
{
    topic_cut(core, topic, fact->first_seq);
    return slot_table_first_seq(&topic->slots) == fact->first_seq ? NULL : WRONG_NO_ORDER;
}

/* Whether so many slots from seq on come next. */
static const char *may_append(struct topic *topic, uint64_t seq, uint64_t count)
{
    if (seq != topic->slots.next_seq || count == 0 || seq > UINT64_MAX - 1 - count)
        return WRONG_NO_ORDER;
    return slot_table_reserve(&topic->slots, 1) ? NULL : WRONG_NO_MEMORY;
}

const char *replay_kept(struct core *core, struct topic *topic, const struct fact_kept *fact,
                        payload_id payload)
{
    if (payload == 0)
        return WRONG_NO_PAYLOAD;
    if (fact->skip + fact->count > fact->frame_count)
        return WRONG_NO_ORDER;
    const char *wrong = may_append(topic, fact->seq, fact->count);
    if (wrong == NULL)
        topic_keep(core, topic,
                   &(struct slot_entry){.first_seq = fact->seq,
                                        .count = (uint32_t)fact->count,
                                        .state = SLOT_VALUE,
                                        .ref = payload,
                                        .place = {.offset = (uint32_t)fact->offset,
                                                  .value_bytes = (uint32_t)fact->value_bytes,
                                                  .frame_count = (uint16_t)fact->frame_count,
                                                  .skip = (uint16_t)fact->skip}});
    return wrong;
}

const char *replay_reserved(struct core *core, struct topic *topic,
                            const struct fact_reserved *fact)
{
    const char *wrong = may_append(topic, fact->seq, 1);
    if (wrong != NULL)
        return wrong;
    if (fact->deadline_ms > LIMIT_PERIOD_MS_MAX)
        return WRONG_NO_ORDER;
    return open_slot_promise(core, topic, fact->seq, fact->value_bytes_max, fact->deadline_ms,
                             fact->due_wall_ns)
               ? NULL
               : WRONG_NO_MEMORY;
}

const char *replay_needed(struct core *core, struct topic *topic, const struct fact_needed *fact)
{
    struct open_slot *open = open_slot_find(core, topic, fact->seq);
    const struct topic *other = replayed_topic(core, fact->need_topic);
    if (open == NULL)
        return WRONG_NO_SLOT;
    if (other == NULL || other->job != topic->job)
        return WRONG_NO_TOPIC;
    if (fact->need_seq >= other->slots.next_seq || (other == topic && fact->need_seq == fact->seq))
        return WRONG_NO_ORDER;
    return need_add(core, open, other, fact->need_seq) ? NULL : WRONG_NO_MEMORY;
}

const char *replay_rejected(struct core *core, struct topic *topic,
                            const struct fact_rejected *fact)
{
    const char *wrong = may_append(topic, fact->seq, fact->count);
    struct failure *failure = replayed_failure(core, fact->failure, &wrong);
    if (wrong == NULL && failure == NULL)
        wrong = WRONG_NO_ERROR;
    if (wrong == NULL && !topic_append_failed(core, topic, fact->seq, fact->count, failure))
        wrong = WRONG_NO_MEMORY;
    return wrong;
}

const char *replay_committed(struct core *core, struct topic *topic,
                             const struct fact_committed *fact, payload_id payload)
{
    struct open_slot *open = open_slot_find(core, topic, fact->seq);
    if (open == NULL)
        return WRONG_NO_SLOT;
    if (payload == 0)
        return WRONG_NO_PAYLOAD;
    effects_retain(core->effects, payload, 1);
    settle_open(core, open, SLOT_VALUE, payload,
                (struct slot_place){.offset = (uint32_t)fact->offset,
                                    .value_bytes = (uint32_t)fact->value_bytes,
                                    .frame_count = 1});
    return NULL;
}

const char *replay_failed(struct core *core, struct topic *topic, const struct fact_failed *fact)
{
    const char *wrong = NULL;
    struct failure *failure = replayed_failure(core, fact->failure, &wrong);
    struct open_slot *open = open_slot_find(core, topic, fact->seq);
    if (open == NULL)
        return WRONG_NO_SLOT;
    if (failure == NULL)
        return WRONG_NO_ERROR;
    settle_open_failed(core, open, failure);
    return NULL;
}

const char *replay_retracted(struct core *core, struct topic *topic,
                             const struct fact_retracted *fact)
{
    const char *wrong = NULL;
    uint32_t index;
    struct failure *failure = replayed_failure(core, fact->failure, &wrong);
    if (failure == NULL)
        return WRONG_NO_ERROR;
    if (!slot_table_find(&topic->slots, fact->seq, &index) ||
        slot_table_at(&topic->slots, index)->state == SLOT_OPEN ||
        !slot_entry_may_move(slot_table_at(&topic->slots, index), SLOT_ERROR))
        return WRONG_NO_ORDER;
    struct slot_entry *entry = slot_table_at(&topic->slots, index);
    if (fact->count > 0) {
        if (entry->first_seq != fact->seq || entry->count != fact->count)
            return WRONG_NO_ORDER;
        settle_replace_entry(core, topic, entry, failure);
        topic_recount(core, topic);
        return NULL;
    }
    if (!slot_table_reserve(&topic->slots, 2))
        return WRONG_NO_MEMORY;
    settle_replace(core, topic, fact->seq, failure);
    return NULL;
}

const char *replay_chunk_added(struct core *core, struct topic *topic,
                               const struct fact_chunk_added *fact, payload_id payload)
{
    struct open_slot *open = open_slot_find(core, topic, fact->seq);
    if (open == NULL)
        return WRONG_NO_SLOT;
    if (payload == 0)
        return WRONG_NO_PAYLOAD;
    uint64_t have = open->chunks != NULL ? open->chunks->bytes : 0;
    if (fact->bytes > fact->total || have > fact->total - fact->bytes ||
        (open->chunks != NULL && open->chunks->total != fact->total))
        return WRONG_NO_ORDER;
    return open_slot_add_chunk(core, open, fact->total,
                               &(struct chunk){.payload = payload,
                                               .bytes = (uint32_t)fact->bytes,
                                               .frame_bytes = (uint32_t)fact->frame_bytes,
                                               .offset = (uint32_t)fact->offset})
               ? NULL
               : WRONG_NO_MEMORY;
}

const char *replay_whole(struct core *core, struct topic *topic, const struct fact_whole *fact)
{
    struct open_slot *open = open_slot_find(core, topic, fact->seq);
    if (open == NULL)
        return WRONG_NO_SLOT;
    if (open->chunks == NULL || open->chunks->bytes != open->chunks->total)
        return WRONG_NO_ORDER;
    settle_whole(core, open);
    return NULL;
}
