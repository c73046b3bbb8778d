/* SPDX-License-Identifier: MPL-2.0 */
/* own_topics.c -- see own_topics.h. */
#include "libbus/session/own_topics.h"

#include "libbus/base/limits.h"

#include <string.h>

void own_topics_init(struct own_topics *own, struct memory *memory)
{
    *own = (struct own_topics){.memory = memory};
    pool_init(&own->topics, memory, sizeof(struct own_topic), LIMIT_TOPICS);
    pool_init(&own->slots, memory, sizeof(struct own_slot), UINT32_MAX - 1);
    name_map_init(&own->by_name, memory);
    id_map_init(&own->by_number, memory);
    list_init(&own->asks);
}

void own_topics_fini(struct own_topics *own)
{
    struct own_slot *slot = NULL;
    while ((slot = pool_next(&own->slots, slot != NULL ? slot->id : 0)) != NULL)
        control_free(own->memory, &slot->spare);
    struct own_topic *topic = NULL;
    while ((topic = pool_next(&own->topics, topic != NULL ? topic->id : 0)) != NULL) {
        id_map_fini(&topic->slots);
        memory_give(own->memory, (void *)(uintptr_t)topic->name.data, topic->name.bytes);
    }
    pool_fini(&own->slots);
    pool_fini(&own->topics);
    name_map_fini(&own->by_name);
    id_map_fini(&own->by_number);
}

enum wire_code own_topics_open(struct own_topics *own, struct span name,
                               struct own_topic **out_topic)
{
    uint32_t id;
    if (name_map_get(&own->by_name, name, &id)) {
        *out_topic = pool_find(&own->topics, id);
        return CODE_OK;
    }
    if (own->topics.used == LIMIT_TOPICS)
        return CODE_EFULL;
    if (!name_map_reserve(&own->by_name) || !id_map_reserve(&own->by_number))
        return CODE_ENOMEM;
    void *text = memory_take(own->memory, name.bytes);
    if (text == NULL)
        return CODE_ENOMEM;
    struct own_topic *topic = pool_take(&own->topics);
    if (topic == NULL) {
        memory_give(own->memory, text, name.bytes);
        return CODE_ENOMEM;
    }
    memcpy(text, name.data, name.bytes);
    topic->name = span_of(text, name.bytes);
    topic->state = OWN_TOPIC_UNKNOWN;
    topic->batch_bytes = DEFAULT_BATCH_BYTES;
    id_map_init(&topic->slots, own->memory);
    list_push(&own->asks, &topic->ask);
    (void)name_map_put(&own->by_name, topic->name, topic->id); /* reserved above */
    *out_topic = topic;
    return CODE_OK;
}

void own_topics_give_number(struct own_topics *own, struct own_topic *topic)
{
    if (topic->state != OWN_TOPIC_UNKNOWN || own->numbers_left == 0 ||
        !id_map_put(&own->by_number, own->next_number, topic->id))
        return; /* the broker is asked for one */
    topic->topic = own->next_number++;
    own->numbers_left -= 1;
    topic->state = OWN_TOPIC_NUMBERED;
    topic->limit_bytes = LIMIT_OWN_CREDIT_BYTES;
    topic->is_own_number = true;
    topic->is_unanswered = true;
    list_remove(&topic->ask);
    own_topics_ask(own, topic);
}

struct own_topic *own_topics_by_number(const struct own_topics *own, uint32_t topic)
{
    uint32_t id;
    return id_map_get(&own->by_number, topic, &id) ? pool_find(&own->topics, id) : NULL;
}

enum wire_code own_topics_number(struct own_topics *own, struct own_topic *topic, uint32_t number)
{
    struct own_topic *known = own_topics_by_number(own, number);
    if (known == topic)
        return CODE_OK;
    if (known != NULL || topic->state == OWN_TOPIC_OPEN)
        return CODE_EPROTO;
    if (!id_map_put(&own->by_number, number, topic->id))
        return CODE_ENOMEM;
    topic->topic = number;
    return CODE_OK;
}

void own_topics_ask(struct own_topics *own, struct own_topic *topic)
{
    if (list_is_linked(&topic->ask))
        return;
    list_insert(topic->is_own_number ? own->asks.next : &own->asks, &topic->ask);
}

void own_topics_rewind(struct own_topics *own)
{
    struct own_topic *topic = NULL;
    while ((topic = pool_next(&own->topics, topic != NULL ? topic->id : 0)) != NULL)
        if (topic->state == OWN_TOPIC_ASKED || topic->is_recount || topic->is_unanswered ||
            own_topic_has_set(topic))
            own_topics_ask(own, topic);
}

struct own_slot *own_slot_new(struct own_topics *own, struct own_topic *topic, uint64_t seq)
{
    if (!id_map_reserve(&topic->slots))
        return NULL;
    struct control *spare = control_new(own->memory, OWN_SLOT_SPARE_BYTES);
    if (spare == NULL)
        return NULL;
    struct own_slot *slot = pool_take(&own->slots);
    if (slot == NULL) {
        control_free(own->memory, &spare);
        return NULL;
    }
    slot->seq = seq;
    slot->spare = spare;
    (void)id_map_put(&topic->slots, seq, slot->id); /* reserved above */
    return slot;
}

struct own_slot *own_slot_find(const struct own_topics *own, const struct own_topic *topic,
                               uint64_t seq)
{
    uint32_t id;
    return id_map_get(&topic->slots, seq, &id) ? pool_find(&own->slots, id) : NULL;
}

void own_slot_free(struct own_topics *own, struct own_topic *topic, struct own_slot *slot)
{
    own->held_bytes -= slot->held_bytes;
    id_map_remove(&topic->slots, slot->seq);
    control_free(own->memory, &slot->spare);
    pool_give(&own->slots, slot);
}
