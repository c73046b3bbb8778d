/* SPDX-License-Identifier: MPL-2.0 */
/* entry.c -- what the outcome of a slot refers to, and how many bytes it counts.
 *
 * An error that stands in many slots is in memory once.  So the first slot that gets it pays for
 * its bytes, in place.value_bytes.  When that slot goes before the others, the job pays alone,
 * until the last one goes. */
#include "broker/core/streams/entry.h"

#include "broker/core/record/account.h"
#include "broker/core/record/failure.h"
#include "broker/core/tables/effect.h"
#include "broker/core/tables/slot_table.h"

void chunks_unref(struct core *core, struct chunks *chunks)
{
    if (chunks == NULL || --chunks->refs > 0)
        return;
    for (uint32_t i = chunks->first; i < chunks->count; i++)
        effects_release(core->effects, chunks->items[i].payload, 1);
    memory_give(core->memory, chunks->items, chunks->room * sizeof *chunks->items);
    pool_give(&core->chunk_sets, chunks);
}

void entry_ref(struct core *core, const struct slot_entry *entry)
{
    switch ((enum slot_state)entry->state) {
    case SLOT_VALUE: effects_retain(core->effects, entry->ref, 1); break;
    case SLOT_CHUNKED: ((struct chunks *)pool_find(&core->chunk_sets, entry->ref))->refs++; break;
    case SLOT_ERROR: failure_ref(pool_find(&core->failures, entry->ref)); break;
    case SLOT_OPEN:
    case SLOT_STATE_COUNT: break;
    }
}

void entry_unref(struct core *core, const struct slot_entry *entry)
{
    switch ((enum slot_state)entry->state) {
    case SLOT_VALUE: effects_release(core->effects, entry->ref, 1); break;
    case SLOT_CHUNKED: chunks_unref(core, pool_find(&core->chunk_sets, entry->ref)); break;
    case SLOT_ERROR: failure_unref(core, pool_find(&core->failures, entry->ref)); break;
    case SLOT_OPEN:
    case SLOT_STATE_COUNT: break;
    }
}

uint64_t topic_weight(const struct core *core, const struct slot_entry *entry)
{
    if (entry->state == SLOT_VALUE)
        return entry->count * frame_total(entry->place.value_bytes);
    if (entry->state == SLOT_CHUNKED)
        return COST_SLOT_BYTES + chunks_weight(pool_find(&core->chunk_sets, entry->ref));
    if (entry->state == SLOT_ERROR)
        return COST_SLOT_BYTES + entry->place.value_bytes;
    const struct open_slot *open = pool_find(&core->open_slots, entry->ref);
    return COST_SLOT_BYTES + (open->chunks != NULL ? chunks_weight(open->chunks) : 0);
}

void topic_account(struct topic *topic, const struct slot_entry *entry, uint64_t before,
                   uint64_t after)
{
    uint64_t delta = after - before; /* wraps around when it is negative, as the sums do */
    topic->bytes += delta;
    topic->job->bytes += delta;
    account_count(topic->writer->account, ACCESS_BYTES, delta);
    if (slot_entry_end(entry) > topic->taken_floor)
        topic->untaken_bytes += delta;
    if (slot_entry_end(entry) <= topic->done_floor)
        topic->done_bytes += delta;
}

void entry_set_error(struct core *core, struct slot_entry *entry, struct failure *failure)
{
    must(entry->state == SLOT_ERROR);
    if (failure_is_spare(core, failure))
        return; /* every job has it */
    entry->place.value_bytes = failure->slot_count == 0 ? failure->byte_count : 0;
    failure->slot_count += 1;
}

void entry_drop_error(struct core *core, struct topic *topic, const struct slot_entry *entry)
{
    struct failure *failure = pool_find(&core->failures, entry->ref);
    if (failure_is_spare(core, failure))
        return;
    failure->slot_count -= 1;
    bool was_paid_by_job = failure->is_paid_by_job;
    failure->is_paid_by_job =
        failure->slot_count > 0 && (was_paid_by_job || entry->place.value_bytes > 0);
    if (failure->is_paid_by_job && !was_paid_by_job)
        topic->job->bytes += failure->byte_count;
    else if (was_paid_by_job && !failure->is_paid_by_job)
        topic->job->bytes -= failure->byte_count;
}
