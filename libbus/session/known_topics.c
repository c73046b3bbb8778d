/* SPDX-License-Identifier: MPL-2.0 */
/* known_topics.c -- see known_topics.h. */
#include "libbus/session/known_topics.h"

#include "libbus/base/limits.h"
#include "libbus/base/pattern.h"

#include <string.h>

void known_topics_init(struct known_topics *known, struct memory *memory)
{
    *known = (struct known_topics){.memory = memory};
    pool_init(&known->pool, memory, sizeof(struct known_topic), LIMIT_TOPICS);
    name_map_init(&known->by_name, memory);
    id_map_init(&known->by_number, memory);
}

void known_topics_fini(struct known_topics *known)
{
    struct known_topic *topic = NULL;
    while ((topic = pool_next(&known->pool, topic != NULL ? topic->id : 0)) != NULL) {
        id_map_fini(&topic->wanted);
        memory_give(known->memory, (void *)(uintptr_t)topic->name.data, topic->name.bytes);
    }
    pool_fini(&known->pool);
    name_map_fini(&known->by_name);
    id_map_fini(&known->by_number);
}

enum wire_code known_topics_open(struct known_topics *known, struct span name,
                                 struct known_topic **out_topic)
{
    uint32_t id;
    if (name_map_get(&known->by_name, name, &id)) {
        *out_topic = pool_find(&known->pool, id);
        return CODE_OK;
    }
    if (known->pool.used == LIMIT_TOPICS)
        return CODE_EFULL;
    if (!name_map_reserve(&known->by_name))
        return CODE_ENOMEM;
    void *text = memory_take(known->memory, name.bytes);
    if (text == NULL)
        return CODE_ENOMEM;
    struct known_topic *topic = pool_take(&known->pool);
    if (topic == NULL) {
        memory_give(known->memory, text, name.bytes);
        return CODE_ENOMEM;
    }
    memcpy(text, name.data, name.bytes);
    topic->name = span_of(text, name.bytes);
    id_map_init(&topic->wanted, known->memory);
    (void)name_map_put(&known->by_name, topic->name, topic->id); /* reserved above */
    *out_topic = topic;
    return CODE_OK;
}

enum wire_code known_topics_number(struct known_topics *known, uint32_t number, struct span name)
{
    struct known_topic *topic = known_topics_find(known, number);
    if (topic != NULL)
        return span_equal(topic->name, name) ? CODE_OK : CODE_EPROTO;
    if (number == 0 || !name_is_valid(name))
        return CODE_EPROTO;
    enum wire_code code = known_topics_open(known, name, &topic);
    if (code != CODE_OK)
        return code;
    if (!id_map_put(&known->by_number, number, topic->id))
        return CODE_ENOMEM;
    topic->number = number;
    return CODE_OK;
}

struct known_topic *known_topics_find(const struct known_topics *known, uint32_t number)
{
    uint32_t id;
    return id_map_get(&known->by_number, number, &id) ? pool_find(&known->pool, id) : NULL;
}
