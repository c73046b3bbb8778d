/* SPDX-License-Identifier: MPL-2.0 */
/* passing.c -- values in chunks that have no room in their job: they pass through the broker.
 *
 * A value that fits into its job is kept whole, for a late reader may come.  One that does not fit
 * would be refused.  But if its readers are there when it begins, it passes through: a chunk that
 * all of them took is released, and the writer sends no further than a window ahead of the slowest.
 * So the value counts as one window and what its writer may have under way, whatever its size.
 *
 * Its readers are the subscriptions that hold writers back.  Those that come before the first chunk
 * goes are among them.  Who comes later waits for the outcome of the slot: an error in its place,
 * or a gap where the value was.  That gap begins with the first number that the reader asked for:
 * a reader that blocks misses nothing behind the first slot that it got.
 *
 * The upload waits for its readers, and what its writer says may wait for the upload.  So if they
 * take nothing for the time in which a reader may come back, the value is refused after all.
 *
 * Durable names, groups and awaits need the whole value, and so does a journal: where one of them
 * is there, nothing passes through. */
#include "broker/core/streams/passing.h"

#include "broker/core/streams/sub.h"
#include "broker/core/streams/lead.h"
#include "broker/core/streams/open_slot.h"
#include "broker/core/streams/topic.h"
#include "broker/core/tables/effect.h"
#include "broker/core/tables/timers.h"

#include <string.h>

/* A reader may have taken all but a chunk, and not have told it.  The writer must be further. */
#define WINDOW_LEAST_BYTES (2 * LIMIT_CHUNK_BYTES)
/* Readers have so long to take something: as long as one may be away, and no less than this. */
#define PATIENCE_LEAST_MS 1000
/* The writer is told of more when it is such a part of the window. */
#define TELL_SHARE 4

static struct slot_entry *passing_entry(const struct open_slot *open)
{
    uint32_t index;
    bool is_found = slot_table_find(&open->topic->slots, open->seq, &index);
    must(is_found); /* open slots are never trimmed */
    return slot_table_at(&open->topic->slots, index);
}

static uint64_t window_of(const struct core *core, const struct topic *topic)
{
    uint64_t bytes = lead_whole(core, topic);
    if (bytes > core->options.job_bytes_max / JOB_SHARE)
        bytes = core->options.job_bytes_max / JOB_SHARE;
    return bytes > WINDOW_LEAST_BYTES ? bytes : WINDOW_LEAST_BYTES;
}

/* What the writer sends before it was told how far it may go. */
static uint64_t burst_of(const struct topic *topic)
{
    const struct session *writer = topic->writer->session;
    return writer != NULL && writer->trip_ns > 0 ? LIMIT_UPLOAD_WINDOW_BYTES : LIMIT_UPLOAD_BYTES;
}

/* Whether all that need the value are subscriptions that read on, and one is there. */
static bool has_readers(const struct open_slot *open)
{
    bool is_any = false;
    LIST_EACH(link, &open->topic->routes) {
        const struct sub *sub = LIST_OWNER(link, struct route, topic_link)->sub;
        if (sub_is_place(sub) || sub->name.bytes > 0)
            return false;
        is_any = is_any || (sub_holds(sub) && sub->session != NULL);
    }
    LIST_EACH(link, &open->awaits)
        if (LIST_OWNER(link, struct await, link)->is_value_wanted)
            return false;
    return is_any;
}

/* Whether readers come to it.  Where an earlier slot is open they do not.  The writer's LEAVE waits
 * for the value then, and the earlier slot may wait for that LEAVE. */
static bool is_next(const struct open_slot *open)
{
    const struct topic *topic = open->topic;
    for (uint32_t i = 0; i < topic->slots.count && topic->open_count > 1; i++) {
        const struct slot_entry *entry = slot_table_at(&topic->slots, i);
        if (entry->state == SLOT_OPEN)
            return entry->first_seq == open->seq;
    }
    return true;
}

uint64_t passing_charge(struct core *core, struct open_slot *open, uint64_t chunk_bytes)
{
    struct topic *topic = open->topic;
    uint64_t window = window_of(core, topic);
    uint64_t burst = burst_of(topic);
    uint64_t ahead = (window > burst ? window : burst) + LIMIT_CHUNK_BYTES;
    uint64_t charge = chunks_cost_of(ahead, chunk_bytes);
    bool may_pass = !core->options.has_facts && !topic->is_replies && topic->letters == NULL &&
                    topic->passing == NULL && has_readers(open) && is_next(open);
    bool has_room = may_pass && job_has_room(core, topic->job, charge);
    return has_room && open_slot_terms(core, open) != NULL ? charge : 0; /* for its timer */
}

static int64_t time_to_take_ns(const struct core *core)
{
    int64_t ms = (int64_t)core->options.resume_ms;
    return (ms > PATIENCE_LEAST_MS ? ms : PATIENCE_LEAST_MS) * MS_NS;
}

/* The timer of the slot is due at the deadline of the slot, or when the readers have had time. */
static void arm_stall(struct core *core, const struct open_slot *open)
{
    int64_t due_ns = open->chunks->moved_ns + time_to_take_ns(core);
    if (due_ns <= core_clock(core)) /* it is the writer that takes its time */
        due_ns = core_clock(core) + time_to_take_ns(core);
    if (due_ns > open->terms->ends_ns)
        due_ns = open->terms->ends_ns;
    timers_set(&core->timers, &open->terms->timer, due_ns);
}

void passing_came(const struct core *core, struct open_slot *open)
{
    open->chunks->moved_ns = core_clock(core);
}

bool passing_is_stalled(struct core *core, struct open_slot *open)
{
    const struct chunks *chunks = open->chunks;
    if (open->topic->passing != open || core_clock(core) >= open->terms->ends_ns)
        return false;
    int64_t idle_ns = core_clock(core) - chunks->moved_ns;
    if (idle_ns >= time_to_take_ns(core) && passing_is_held(open->topic))
        return true;
    arm_stall(core, open);
    return false;
}

void passing_drop(struct core *core, struct open_slot *open)
{
    struct topic *topic = open->topic;
    struct session *session = topic->writer->session;
    if (topic->passing != open)
        return;
    topic->passing = NULL;
    if (session != NULL && session->control != 0)
        passing_tell(core, session, topic, open->seq, open->chunks->bytes);
}

void passing_begin(struct core *core, struct open_slot *open, uint64_t charge)
{
    struct topic *topic = open->topic;
    const struct slot_entry *entry = passing_entry(open);
    uint64_t before = topic_weight(core, entry);
    open->chunks->is_passing = true;
    open->chunks->charged = charge;
    open->chunks->window_bytes = window_of(core, topic);
    topic->passing = open;
    topic->has_passed = true;
    passing_came(core, open);
    arm_stall(core, open);
    topic_account(topic, entry, before, topic_weight(core, entry));
}

void passing_end(struct core *core, struct open_slot *open)
{
    struct chunks *chunks = open->chunks;
    const struct slot_entry *entry = passing_entry(open);
    uint64_t before = topic_weight(core, entry);
    if (!chunks->is_passing)
        return;
    chunks->charged = chunks->cost;
    topic_account(open->topic, entry, before, topic_weight(core, entry));
}

uint64_t passing_limit(const struct topic *topic, uint64_t seq)
{
    const struct open_slot *open = topic->passing;
    return open != NULL && open->seq == seq ? open->chunks->gone + open->chunks->window_bytes : 0;
}

void passing_tell(struct core *core, struct session *session, const struct topic *topic,
                  uint64_t seq, uint64_t bytes)
{
    uint64_t limit = passing_limit(topic, seq);
    struct msg *msg = effects_msg(core->effects, session->control, MSG_CHUNKED);
    msg->as.chunked.topic = topic->number;
    msg->as.chunked.seq = seq;
    msg->as.chunked.bytes = bytes;
    msg->as.chunked.durability = core->options.durability;
    msg->as.chunked.limit_bytes = limit;
    if (limit > 0)
        topic->passing->chunks->limit = limit;
}

/* So many bytes of it all its readers took.  Who needs what is gone is no reader of it. */
static uint64_t taken_of(const struct topic *topic)
{
    const struct open_slot *open = topic->passing;
    uint64_t taken = open->chunks->bytes;
    LIST_EACH(link, &topic->routes) {
        const struct route *route = LIST_OWNER(link, struct route, topic_link);
        uint64_t has = route->taken_seq == open->seq ? route->taken_offset : 0;
        bool is_reader = route->taken_seq <= open->seq && has >= open->chunks->gone;
        if (is_reader && sub_holds(route->sub) && has < taken)
            taken = has;
    }
    return taken;
}

/* The places of chunks that are gone are used again, when they are as many as the others. */
static void close_up(struct chunks *chunks)
{
    uint32_t here = chunks->count - chunks->first;
    if (chunks->first < here)
        return;
    memmove(chunks->items, chunks->items + chunks->first, here * sizeof *chunks->items);
    chunks->first = 0;
    chunks->count = here;
}

void passing_update(struct core *core, struct topic *topic)
{
    struct open_slot *open = topic->passing;
    struct chunks *chunks = open->chunks;
    struct session *session = topic->writer->session;
    uint64_t taken = taken_of(topic);
    while (chunks->first < chunks->count &&
           chunks->gone + chunks->items[chunks->first].bytes <= taken) {
        effects_release(core->effects, chunks->items[chunks->first].payload, 1);
        chunks->gone += chunks->items[chunks->first].bytes;
        chunks->cost -= chunk_cost(chunks->items[chunks->first].frame_bytes);
        chunks->first += 1;
        chunks->moved_ns = core_clock(core);
    }
    close_up(chunks);
    uint64_t more = chunks->gone + chunks->window_bytes - chunks->limit;
    if (chunks->limit < chunks->total && more >= chunks->window_bytes / TELL_SHARE &&
        session != NULL && session->control != 0)
        passing_tell(core, session, topic, open->seq, chunks->bytes);
}

void passing_leave(struct core *core, struct route *route)
{
    const struct open_slot *open = route->topic->passing;
    bool is_missed = route->next_seq == open->seq && passing_is_missed(route, open->chunks);
    if (!is_missed || route->taken_seq != open->seq || route->taken_offset < open->chunks->gone)
        return;
    route->taken_offset = route->chunk_offset;
    passing_update(core, route->topic);
}

void passing_meet(const struct core *core, struct route *route)
{
    const struct topic *topic = route->topic;
    for (uint32_t i = topic->has_passed ? topic->slots.count : 0; i-- > 0;) {
        const struct slot_entry *entry = slot_table_at(&topic->slots, i);
        if (entry->first_seq < route->next_seq)
            return;
        bool is_open = topic->passing != NULL && topic->passing->seq == entry->first_seq;
        if (is_open && topic->passing->chunks->gone > 0) {
            route->late_seq = entry->first_seq;
            route->is_late = true;
            return;
        }
        if (passing_is_cut(core, entry)) {
            route->late_seq = slot_entry_end(entry);
            return;
        }
    }
}

bool passing_is_awaited(const struct core *core, struct route *route)
{
    uint32_t index;
    const struct topic *topic = route->topic;
    if (slot_table_find(&topic->slots, route->late_seq, &index)) {
        const struct slot_entry *entry = slot_table_at(&topic->slots, index);
        if (entry->state == SLOT_OPEN)
            return true;
        route->late_seq += passing_is_cut(core, entry) ? 1 : 0;
    }
    route->is_late = false;
    return false;
}
