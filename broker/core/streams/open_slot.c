/* SPDX-License-Identifier: MPL-2.0 */
/* open_slot.c -- slots without outcome: their terms, and the chunks of their values. */
#include "broker/core/streams/open_slot.h"

#include "broker/core/record/account.h"
#include "broker/core/record/note.h"
#include "broker/core/streams/await.h"
#include "broker/core/streams/passing.h"
#include "broker/core/streams/topic.h"
#include "broker/core/tables/effect.h"
#include "broker/core/tables/needs.h"
#include "broker/core/tables/slot_table.h"
#include "broker/core/tables/timers.h"

void open_slot_drop_chunks(struct core *core, struct open_slot *reply)
{
    uint32_t index;
    struct topic *topic = reply->topic;
    bool is_found = slot_table_find(&topic->slots, reply->seq, &index);
    must(is_found); /* open slots are never trimmed */
    if (reply->chunks == NULL)
        return;
    const struct slot_entry *entry = slot_table_at(&topic->slots, index);
    uint64_t before = topic_weight(core, entry);
    chunks_unref(core, reply->chunks);
    reply->chunks = NULL;
    topic_account(topic, entry, before, topic_weight(core, entry));
}

struct slot_terms *open_slot_terms(struct core *core, struct open_slot *open)
{
    if (open->terms != NULL)
        return open->terms;
    struct slot_terms *terms = pool_take(&core->slot_terms);
    if (terms != NULL && !timers_reserve(&core->timers)) {
        pool_give(&core->slot_terms, terms);
        terms = NULL;
    }
    if (terms == NULL)
        return NULL;
    terms->open = open;
    terms->timer.kind = TIMER_SLOT;
    terms->deadline_ms = -1;
    terms->ends_ns = INT64_MAX;
    list_init(&terms->needs);
    list_init(&terms->request_link);
    open->terms = terms;
    return terms;
}

static void set_deadline(struct core *core, struct slot_terms *terms, int64_t deadline_ms,
                         int64_t due_wall_ns)
{
    terms->deadline_ms = deadline_ms;
    terms->due_wall_ns = due_wall_ns;
    terms->ends_ns = core_clock(core) + deadline_ms * MS_NS;
    timers_set(&core->timers, &terms->timer, terms->ends_ns);
}

bool open_slot_promise(struct core *core, struct topic *topic, uint64_t seq,
                       uint64_t value_bytes_max, int64_t deadline_ms, int64_t due_wall_ns)
{
    struct open_slot *open =
        slot_table_reserve(&topic->slots, 1) ? pool_take(&core->open_slots) : NULL;
    if (open == NULL || (deadline_ms >= 0 && open_slot_terms(core, open) == NULL)) {
        if (open != NULL)
            pool_give(&core->open_slots, open);
        return false;
    }
    open->seq = seq;
    open->topic = topic;
    open->value_bytes_max = value_bytes_max;
    open->since_ds = (uint32_t)(core_clock(core) / OPEN_SLOT_DS_NS);
    list_init(&open->awaits);
    if (deadline_ms >= 0)
        set_deadline(core, open->terms, deadline_ms, due_wall_ns);
    list_push(&topic->writer->open_slots, &open->party_link);
    topic->writer->open_count += 1;
    topic->open_count += 1;
    topic->job->open_count += 1;
    account_count(topic->writer->account, ACCESS_OPEN_SLOTS, 1);
    struct slot_entry *entry = slot_table_append(
        &topic->slots,
        (struct slot_entry){.first_seq = seq, .count = 1, .state = SLOT_OPEN, .ref = open->id});
    topic->credit_used += COST_SLOT_BYTES + value_bytes_max;
    topic_account(topic, entry, 0, topic_weight(core, entry));
    note_appended(core, topic, entry);
    await_promised(core, topic);
    return true;
}

void open_slot_forget(struct core *core, struct open_slot *open)
{
    struct topic *topic = open->topic;
    struct slot_terms *terms = open->terms;
    list_remove(&open->party_link);
    topic->writer->open_count -= 1;
    topic->open_count -= 1;
    topic->job->open_count -= 1;
    account_count(topic->writer->account, ACCESS_OPEN_SLOTS, (uint64_t)-1);
    passing_drop(core, open);
    chunks_unref(core, open->chunks);
    if (terms != NULL) {
        timers_unreserve(&core->timers, &terms->timer);
        needs_drop(&core->needs, &terms->needs);
        pool_give(&core->slot_terms, terms);
    }
    pool_give(&core->open_slots, open);
}

struct open_slot *open_slot_find(struct core *core, struct topic *topic, uint64_t seq)
{
    uint32_t index;
    if (!slot_table_find(&topic->slots, seq, &index))
        return NULL;
    const struct slot_entry *entry = slot_table_at(&topic->slots, index);
    return entry->state == SLOT_OPEN ? pool_find(&core->open_slots, entry->ref) : NULL;
}

/* Room for one chunk more in the slot's value; false: no memory. */
static bool reserve_chunk(struct core *core, struct open_slot *open, uint64_t total)
{
    if (open->chunks == NULL) {
        open->chunks = pool_take(&core->chunk_sets);
        if (open->chunks == NULL)
            return false;
        open->chunks->refs = 1;
        open->chunks->total = total;
    }
    struct chunks *chunks = open->chunks;
    if (chunks->count < chunks->room)
        return true;
    uint32_t room = chunks->room ? chunks->room * 2 : 8;
    struct chunk *items = memory_resize(core->memory, chunks->items, chunks->room * sizeof *items,
                                        room * sizeof *items);
    if (items == NULL)
        return false;
    chunks->items = items;
    chunks->room = room;
    return true;
}

static uint64_t cost_of(uint64_t chunk_bytes)
{
    return chunk_cost(frame_total(FRAME_CHUNK_PREFIX_BYTES + chunk_bytes));
}

uint64_t chunks_cost_of(uint64_t total, uint64_t chunk_bytes)
{
    uint64_t rest = total % chunk_bytes;
    return total / chunk_bytes * cost_of(chunk_bytes) + (rest > 0 ? cost_of(rest) : 0);
}

const struct chunk *chunks_at(const struct chunks *chunks, uint64_t at)
{
    if (at < chunks->gone || at >= chunks->bytes)
        return NULL;
    uint32_t low = chunks->first;
    uint32_t high = chunks->count - 1;
    while (low < high) {
        uint32_t middle = low + (high - low + 1) / 2;
        if (chunks->items[middle].begin <= at)
            low = middle;
        else
            high = middle - 1;
    }
    return &chunks->items[low];
}

bool open_slot_add_chunk(struct core *core, struct open_slot *open, uint64_t total,
                         const struct chunk *chunk)
{
    uint32_t index;
    struct topic *topic = open->topic;
    bool is_found = slot_table_find(&topic->slots, open->seq, &index);
    must(is_found); /* open slots are never trimmed */
    if (!reserve_chunk(core, open, total))
        return false;
    struct chunks *chunks = open->chunks;
    effects_retain(core->effects, chunk->payload, 1);
    chunks->items[chunks->count] = *chunk;
    chunks->items[chunks->count++].begin = chunks->bytes;
    chunks->bytes += chunk->bytes;
    chunks->cost += chunk_cost(chunk->frame_bytes);
    if (chunks->is_passing) /* it was counted when the value began */
        passing_came(core, open);
    else
        topic_account(topic, slot_table_at(&topic->slots, index), 0,
                      chunk_cost(chunk->frame_bytes));
    note_chunk_added(core, topic, open->seq, total, chunk);
    return true;
}
