/* SPDX-License-Identifier: MPL-2.0 */
/* storms.c -- a small table, searched from the entry that was found last; see storms.h. */
#include "broker/core/tables/storms.h"

#include <string.h>

void storms_init(struct storms *storms, struct memory *memory)
{
    *storms = (struct storms){.memory = memory};
}

void storms_fini(struct storms *storms)
{
    if (storms->items != NULL)
        memory_give(storms->memory, storms->items, STORMS_ROOM * sizeof *storms->items);
    storms_init(storms, storms->memory);
}

static struct span like_of(const struct storm_key *key)
{
    size_t bytes = key->like.bytes;
    return span_of(key->like.data, bytes < LIMIT_ERROR_TYPE_BYTES ? bytes : LIMIT_ERROR_TYPE_BYTES);
}

static bool is_of(const struct storm *storm, const struct storm_key *key)
{
    return storm->is_used && storm->event == key->event && storm->topic == key->topic &&
           storm->party == key->party && storm->incarnation == key->incarnation &&
           span_equal(span_of(storm->like, storm->like_bytes), like_of(key));
}

static void storm_begin(struct storm *storm, const struct storm_key *key)
{
    struct span like = like_of(key);
    *storm = (struct storm){.is_used = true,
                            .event = key->event,
                            .party = key->party,
                            .incarnation = key->incarnation,
                            .topic = key->topic,
                            .like_bytes = (uint32_t)like.bytes};
    if (like.bytes > 0)
        memcpy(storm->like, like.data, like.bytes);
}

struct storm *storms_find(struct storms *storms, const struct storm_key *key)
{
    uint32_t free_at = LIMIT_STORMS + (uint32_t)key->event;
    if (storms->items == NULL)
        storms->items = memory_take(storms->memory, STORMS_ROOM * sizeof *storms->items);
    if (storms->items == NULL)
        return NULL;
    if (is_of(&storms->items[storms->recent], key))
        return &storms->items[storms->recent];
    for (uint32_t i = LIMIT_STORMS; i-- > 0;) {
        if (is_of(&storms->items[i], key)) {
            storms->recent = i;
            return &storms->items[i];
        }
        if (!storms->items[i].is_used)
            free_at = i;
    }
    struct storm *storm = &storms->items[free_at];
    if (!storm->is_used)
        storm_begin(storm, free_at < LIMIT_STORMS ? key : &(struct storm_key){.event = key->event});
    return storm;
}

bool storm_tells(struct storm *storm, uint32_t told_max)
{
    if (storm->told >= told_max)
        return false;
    storm->told += 1;
    return true;
}

struct storm *storms_at(const struct storms *storms, uint32_t index)
{
    if (storms->items == NULL || !storms->items[index].is_used)
        return NULL;
    return &storms->items[index];
}
