/* SPDX-License-Identifier: MPL-2.0 */
/* batch.c -- what the frames of a party do: promise, keep, keep in chunks; and what is refused.
 *
 * Frames are numbered in each session and come in order.  Frames that came before are skipped.  So
 * a batch that is sent again after a reconnect does nothing twice (promise 4). */
#include "broker/core/step/batch.h"

#include "broker/core/groups/request.h"
#include "broker/core/lifecycle/parked.h"
#include "broker/core/record/account.h"
#include "broker/core/record/failure.h"
#include "broker/core/record/tell.h"
#include "broker/core/settling/need.h"
#include "broker/core/settling/refusal.h"
#include "broker/core/settling/settle.h"
#include "broker/core/settling/upload.h"
#include "broker/core/streams/await.h"
#include "broker/core/streams/lead.h"
#include "broker/core/streams/lease.h"
#include "broker/core/streams/number.h"
#include "broker/core/streams/open_slot.h"
#include "broker/core/streams/passing.h"
#include "broker/core/streams/rate.h"
#include "broker/core/streams/reply.h"
#include "broker/core/streams/topic.h"
#include "broker/core/tables/effect.h"
#include "broker/core/tables/event.h"
#include "broker/core/tables/slot_table.h"
#include "broker/core/tables/storms.h"

/* Numbers jumped over at once: each is a slot that its readers are told about. */
#define JUMP_SLOTS_MAX 65536

/* ---- refusals -------------------------------------------------------------------------------- */

/* One event for a range of refused slots. */
static void tell_refused(struct core *core, struct session *session, struct topic *topic,
                         const struct event_range *range, const char *message)
{
    tell_like(core, session->job, STORM_REFUSED,
              &(struct tell){.name = EVENT_REFUSED,
                             .party = session->party,
                             .incarnation = session->incarnation,
                             .topic = topic,
                             .seq = range->seq,
                             .count = range->count,
                             .text = message});
}

/* The error that stands in this slot, or NULL; out_run: in so many from it on. */
static struct failure *cause_at(struct core *core, const struct topic *topic, uint64_t seq,
                                uint64_t *out_run)
{
    uint32_t index;
    uint64_t first_seq = slot_table_first_seq(&topic->slots);
    if (!slot_table_find(&topic->slots, seq, &index)) {
        *out_run = seq < first_seq ? first_seq - seq : LIMIT_REFUSAL_SLOTS;
        return NULL;
    }
    const struct slot_entry *entry = slot_table_at(&topic->slots, index);
    *out_run = slot_entry_end(entry) - seq;
    return entry->state == SLOT_ERROR ? pool_find(&core->failures, entry->ref) : NULL;
}

/* Slots in a row that have the same cause are refused together: each refusal is an error, a message
 * and facts. */
static void refuse_range(struct core *core, struct session *session, struct topic *topic,
                         const struct event_range *range, const char *type, const char *message)
{
    tell_refused(core, session, topic, range, message);
    for (uint32_t i = 0; i < range->count;) {
        uint64_t most = range->count - i;
        uint64_t run, more;
        struct failure *cause = cause_at(core, topic, range->seq + i, &run);
        if (most > LIMIT_REFUSAL_SLOTS)
            most = LIMIT_REFUSAL_SLOTS;
        while (run < most && cause_at(core, topic, range->seq + i + run, &more) == cause)
            run += more;
        if (run > most)
            run = most;
        refusal_of_slots(core, session, topic, range->seq + i, (uint32_t)run, type, message, cause);
        i += (uint32_t)run;
    }
}

/* A promise that cannot be taken: its readers are told in its place, its writer by refusal. */
static void reject_range(struct core *core, struct session *session, struct topic *topic,
                         const struct event_range *range, const char *type, const char *message)
{
    struct failure *failure = failure_of_rejection(core, session, type, message, topic, range->seq);
    (void)topic_append_failed(core, topic, range->seq, range->count, failure); /* or only refused */
    refuse_range(core, session, topic, range, type, message);
    failure_unref(core, failure);
}

/* ---- promises -------------------------------------------------------------------------------- */

/* Numbers from the next one up to seq are settled as cancelled.  The very first number of a topic
 * may be any: nobody jumped over what never began. */
static bool jump(struct core *core, struct session *session, struct topic *topic, uint64_t seq)
{
    uint64_t next = topic->slots.next_seq;
    if (next == 0 && topic->slots.count == 0)
        topic_begin(core, topic, seq);
    if (seq == topic->slots.next_seq)
        return true;
    struct failure *failure =
        failure_make(core, &(struct failure_spec){.job = session->job,
                                                  .party = session->party,
                                                  .kind = ERROR_CANCELLED,
                                                  .type = ERROR_TYPE_JUMPED,
                                                  .message = "its writer jumped over this number",
                                                  .topic = topic,
                                                  .seq = next});
    bool is_done = topic_append_failed(core, topic, next, seq - next, failure);
    failure_unref(core, failure);
    return is_done;
}

/* Whether a new promise of this range can be taken; otherwise it is refused here. */
static bool may_promise(struct core *core, struct session *session, struct topic *topic,
                        const struct event_range *range)
{
    uint64_t next = topic->slots.next_seq;
    if (!party_is_live(session->party)) {
        refuse_range(core, session, topic, range, ERROR_TYPE_FENCED, "the party has completed");
        return false;
    }
    if (range->seq < next || range->seq > UINT64_MAX - 1 - range->count) {
        refuse_range(core, session, topic, range, ERROR_TYPE_TOO_LATE,
                     "this number was reserved before");
        return false;
    }
    if (range->seq - next > JUMP_SLOTS_MAX && next > 0) {
        refuse_range(core, session, topic, range, ERROR_TYPE_FULL,
                     "more than 65536 numbers are jumped over at once");
        return false;
    }
    if (!slot_table_reserve(&topic->slots, 2) || !jump(core, session, topic, range->seq)) {
        refuse_range(core, session, topic, range, ERROR_TYPE_NO_MEMORY,
                     "the broker is short of memory");
        return false;
    }
    if (topic->credit_used >= topic->credit_limit) {
        reject_range(core, session, topic, range, ERROR_TYPE_NO_CREDIT,
                     "more was promised than the broker had granted credit for");
        return false;
    }
    lead_written(core, topic, range->count * frame_total(range->value_bytes), range->stamp_ns);
    return true;
}

/* Why so many bytes more are not kept: a type of error and a sentence.  NULL: they are. */
static const char *room_refusal(struct core *core, const struct topic *topic, uint64_t bytes,
                                const char **out_message)
{
    if (!job_has_room(core, topic->job, bytes)) {
        *out_message = "the job keeps all the bytes it may";
        return ERROR_TYPE_FULL;
    }
    if (topic_writer_has_room(core, topic, bytes))
        return NULL;
    *out_message = account_refuse(core, topic->writer->account, ACCESS_BYTES);
    return ERROR_TYPE_QUOTA;
}

/* The same for one open slot more. */
static const char *promise_refusal(struct core *core, const struct topic *topic,
                                   const char **out_message)
{
    const struct account *account = topic->writer->account;
    if (account_has_room(account, ACCESS_OPEN_SLOTS, 1))
        return NULL;
    *out_message = account_refuse(core, account, ACCESS_OPEN_SLOTS);
    return ERROR_TYPE_QUOTA;
}

static struct slot_place place_of(const struct event_range *range, uint32_t skip)
{
    return (struct slot_place){.offset = range->offset,
                               .value_bytes = range->value_bytes,
                               .frame_count = (uint16_t)(skip + range->count),
                               .skip = (uint16_t)skip};
}

/* skip: values of the range's frame before it, which came before.  Whether they are kept. */
static bool write_values(struct core *core, struct session *session, struct topic *topic,
                         const struct event_range *range, uint32_t skip, payload_id payload)
{
    uint64_t bytes = range->count * frame_total(range->value_bytes);
    if (!may_promise(core, session, topic, range))
        return false;
    const char *message = NULL;
    const char *type = room_refusal(core, topic, bytes, &message);
    if (type != NULL) {
        reject_range(core, session, topic, range, type, message);
        return false;
    }
    if (!slot_table_reserve(&topic->slots, 1)) {
        refuse_range(core, session, topic, range, ERROR_TYPE_NO_MEMORY,
                     "the broker is short of memory");
        return false;
    }
    topic_keep(core, topic,
               &(struct slot_entry){.first_seq = range->seq,
                                    .count = range->count,
                                    .state = SLOT_VALUE,
                                    .ref = payload,
                                    .place = place_of(range, skip)});
    return true;
}

/* ---- keeping --------------------------------------------------------------------------------- */

/* The open slot fails for what its value is, and its writer is refused. */
static void reject_open(struct core *core, struct session *session, struct open_slot *open,
                        const char *type, const char *message)
{
    struct topic *topic = open->topic;
    uint64_t seq = open->seq;
    struct failure *failure = failure_of_rejection(core, session, type, message, topic, seq);
    settle_open_failed(core, open, failure);
    struct event_range one = {.seq = seq, .count = 1};
    refuse_range(core, session, topic, &one, type, message);
    failure_unref(core, failure);
}

/* Whether it is promised. */
static bool write_reserve(struct core *core, struct session *session, struct topic *topic,
                          const struct event_range *range)
{
    int64_t due_wall_ns = range->deadline_ms >= 0 ? core->wall_ns + range->deadline_ms * MS_NS : 0;
    const char *message = NULL;
    if (!may_promise(core, session, topic, range))
        return false;
    const char *type = promise_refusal(core, topic, &message);
    if (type == NULL && range->need_count > 0)
        type = need_refusal(core, topic, range, &message);
    if (type == NULL && !open_slot_promise(core, topic, range->seq, range->value_bytes_max,
                                           range->deadline_ms, due_wall_ns)) {
        type = ERROR_TYPE_FULL;
        message = "the broker has no room for another open slot";
    }
    if (type != NULL) {
        reject_range(core, session, topic, range, type, message);
        return false;
    }
    struct open_slot *open = open_slot_find(core, topic, range->seq);
    if (range->need_count == 0 || need_take(core, open, range))
        return true;
    reject_open(core, session, open, ERROR_TYPE_NO_MEMORY, "the broker is short of memory");
    return false;
}

/* NULL: the slot is not open, or it has failed because a slot that it needs has failed. */
static struct open_slot *find_keepable(struct core *core, struct topic *topic, uint64_t seq)
{
    struct open_slot *open = open_slot_find(core, topic, seq);
    return open != NULL && !need_overtakes(core, open) ? open : NULL;
}

static bool is_too_big(const struct core *core, const struct open_slot *open, uint64_t bytes)
{
    return bytes > core->options.value_bytes_max ||
           (open->value_bytes_max > 0 && bytes > open->value_bytes_max);
}

/* A reply comes from whoever the request is leased to, and is refused from everybody else. */
static bool may_settle(struct core *core, struct session *session, const struct open_slot *open,
                       const struct event_range *range)
{
    if (!open->topic->is_replies || reply_task(core, session, open) != NULL)
        return true;
    refuse_range(core, session, open->topic, range, ERROR_TYPE_LEASE_OVER,
                 "the request is not, or no longer, leased to this party");
    return false;
}

/* The reply is whole: the request is done with, in the same step. */
static void end_request(struct core *core, struct session *session, const struct open_slot *open)
{
    struct task *task = open->topic->is_replies ? reply_task(core, session, open) : NULL;
    if (task != NULL)
        task_end(core, task);
}

static void write_commit(struct core *core, struct session *session, struct topic *topic,
                         const struct event_range *range, payload_id payload)
{
    struct open_slot *open = find_keepable(core, topic, range->seq);
    if (open == NULL) {
        refuse_range(core, session, topic, range, ERROR_TYPE_TOO_LATE,
                     range->seq < topic->slots.next_seq ? "the slot was settled before"
                                                        : "the slot was never reserved");
        return;
    }
    if (!may_settle(core, session, open, range))
        return;
    if (is_too_big(core, open, range->value_bytes)) {
        reject_open(core, session, open, ERROR_TYPE_TOO_BIG,
                    "the value is larger than was reserved, or than the job allows");
        return;
    }
    const char *message = NULL;
    const char *type = room_refusal(core, topic, frame_total(range->value_bytes), &message);
    if (type != NULL) {
        reject_open(core, session, open, type, message);
        return;
    }
    if (open->value_bytes_max == 0) /* else it was counted when the slot was reserved */
        rate_spend(core, topic, range->value_bytes);
    effects_retain(core->effects, payload, 1);
    end_request(core, session, open);
    settle_open(core, open, SLOT_VALUE, payload, place_of(range, 0));
}

/* ---- keeping in pieces ----------------------------------------------------------------------- */

/* Chunks of a slot that is settled: its writer is told once, and that it may stop. */
static void refuse_chunk(struct core *core, struct session *session, struct topic *topic,
                         const struct event_range *range)
{
    if (session->chunk_refused_topic != topic->id || session->chunk_refused_seq != range->seq)
        refuse_range(core, session, topic, range, ERROR_TYPE_TOO_LATE,
                     "the slot was settled before");
    upload_remember_refused(core, session, topic->id, range->seq);
    upload_tell(core, session, topic->number, range->seq, range->chunk_total);
}

/* The same for a chunk.  The first one asks for the whole value, or for what the value counts if it
 * passes through; out_charge: so much, or 0. */
static const char *chunk_refusal(struct core *core, struct open_slot *open,
                                 const struct event_range *range, uint64_t *out_charge,
                                 const char **out_message)
{
    struct chunks *chunks = open->chunks;
    uint64_t cost = chunks == NULL ? chunks_cost_of(range->chunk_total, range->chunk_bytes)
                                   : chunk_cost(frame_total(range->value_bytes));
    *out_charge = 0;
    if (chunks == NULL && !job_has_room(core, open->topic->job, cost) &&
        (*out_charge = passing_charge(core, open, range->chunk_bytes)) > 0)
        cost = *out_charge;
    if (chunks == NULL || !chunks->is_passing)
        return room_refusal(core, open->topic, cost, out_message);
    if (passing_has_room(chunks, cost))
        return NULL;
    *out_message = "more was sent than the broker had granted credit for";
    return ERROR_TYPE_NO_CREDIT;
}

/* Why the chunk is not taken: a type of error and a sentence.  NULL: it is. */
static const char *take_chunk(struct core *core, struct open_slot *open,
                              const struct event_range *range, payload_id payload,
                              const char **out_message)
{
    uint64_t have = open->chunks != NULL ? open->chunks->bytes : 0;
    uint64_t charge = 0;
    *out_message = "a value in chunks could not be accepted";
    if (is_too_big(core, open, range->chunk_total))
        return ERROR_TYPE_TOO_BIG;
    if (range->chunk_offset != have || range->chunk_bytes == 0 ||
        range->chunk_offset + range->chunk_bytes > range->chunk_total ||
        (open->chunks != NULL && open->chunks->total != range->chunk_total))
        return ERROR_TYPE_PROTOCOL;
    const char *type = chunk_refusal(core, open, range, &charge, out_message);
    if (type != NULL)
        return type;
    if (!open_slot_add_chunk(
            core, open, range->chunk_total,
            &(struct chunk){.payload = payload,
                            .bytes = range->chunk_bytes,
                            .frame_bytes = (uint32_t)frame_total(range->value_bytes),
                            .offset = range->offset}))
        return ERROR_TYPE_NO_MEMORY;
    if (charge > 0)
        passing_begin(core, open, charge);
    if (open->value_bytes_max == 0)
        rate_spend(core, open->topic, range->chunk_bytes);
    return NULL;
}

static void write_chunk(struct core *core, struct session *session, struct topic *topic,
                        const struct event_range *range, payload_id payload)
{
    struct open_slot *open = find_keepable(core, topic, range->seq);
    if (open == NULL) {
        if (upload_is_known(session, topic, range))
            upload_tell(core, session, topic->number, range->seq, range->chunk_total);
        else
            refuse_chunk(core, session, topic, range);
        return;
    }
    uint64_t have = open->chunks != NULL ? open->chunks->bytes : 0;
    if (!may_settle(core, session, open, range)) {
        upload_remember_refused(core, session, topic->id, range->seq);
        upload_tell(core, session, topic->number, range->seq, range->chunk_total);
        return;
    }
    if (range->chunk_offset + range->chunk_bytes <= have) { /* sent again after a reconnect */
        if (topic->writer != session->party)
            upload_tell(core, session, topic->number, range->seq, have);
        return;
    }
    const char *message = NULL;
    const char *type = take_chunk(core, open, range, payload, &message);
    if (type != NULL) {
        reject_open(core, session, open, type, message);
        upload_remember_refused(core, session, topic->id, range->seq);
        upload_tell(core, session, topic->number, range->seq, range->chunk_total);
        return;
    }
    flow_window_piece(&topic->lead.flow, frame_total(range->value_bytes));
    upload_tell_open(core, session, open);
    if (open->chunks->bytes < open->chunks->total) {
        topic_news(core, topic, open->seq, open->seq + 1);
        await_coming(core, open);
        return;
    }
    upload_remember(core, session, topic->id, open->seq);
    end_request(core, session, open);
    settle_whole(core, open);
}

/* ---- the batch ------------------------------------------------------------------------------- */

/* A frame of a topic that its writer numbered, and that could not be opened. */
static void refuse_unopened(struct core *core, struct session *session,
                            const struct event_range *range)
{
    static const char message[] = "the broker could not open the topic";
    if (range->kind == FRAME_CHUNK) { /* its RESERVE was refused */
        upload_tell(core, session, range->topic, range->seq, range->chunk_total);
        return;
    }
    tell_refused(core, session, NULL, range, message);
    for (uint32_t i = 0; i < range->count; i += LIMIT_REFUSAL_SLOTS) {
        uint32_t left = range->count - i;
        refusal_of_numbers(core, session, range->topic, range->seq + i,
                           left < LIMIT_REFUSAL_SLOTS ? left : LIMIT_REFUSAL_SLOTS,
                           ERROR_TYPE_NOT_OPEN, message);
    }
    if (range->reply_to != FRAME_NO_REPLY && range->kind != FRAME_COMMIT)
        request_refused(core, session, range->reply_to);
}

static void write_range(struct core *core, struct session *session, const struct event_range *range,
                        uint32_t skip, payload_id payload)
{
    if (range->kind == FRAME_TOPIC) {
        topic_name(core, session, range->name, range->topic);
        return;
    }
    struct topic *topic = topic_numbered(core, range->topic);
    bool is_kept = false;
    if (topic == NULL) {
        refuse_unopened(core, session, range);
        return;
    }
    switch (range->kind) {
    case FRAME_VALUE: is_kept = write_values(core, session, topic, range, skip, payload); break;
    case FRAME_RESERVE: is_kept = write_reserve(core, session, topic, range); break;
    case FRAME_CHUNK: write_chunk(core, session, topic, range, payload); break;
    case FRAME_COMMIT: write_commit(core, session, topic, range, payload); break;
    case FRAME_ERROR:
    case FRAME_TOPIC:
    case FRAME_GAP:
    case FRAME_END:
    case FRAME_KIND_COUNT: must(false); /* batch_complaint() refuses them */
    }
    if (range->reply_to != FRAME_NO_REPLY && range->kind != FRAME_COMMIT &&
        range->kind != FRAME_CHUNK)
        request_written(core, session, topic, range, is_kept);
    topic_update(core, topic);
}

/* Its own topics, and replies to others. */
static bool may_write(const struct session *session, const struct topic *topic,
                      enum frame_kind kind)
{
    if (topic->writer == session->party)
        return topic->is_opened;
    return topic->is_replies && topic->job == session->job &&
           (kind == FRAME_COMMIT || kind == FRAME_CHUNK);
}

/* What in this batch breaks the protocol, or NULL: looked at before anything is done. */
static const char *batch_complaint(struct core *core, const struct session *session,
                                   const struct event *event)
{
    bool is_chunks = event->as.data.number == 0;
    if (!is_chunks && event->as.data.number > session->data_number + 1)
        return "frames are missing before this batch";
    for (uint32_t i = 0; i < event->as.data.range_count; i++) {
        const struct event_range *range = &event->as.data.ranges[i];
        const struct topic *topic = topic_numbered(core, range->topic);
        if (range->kind == FRAME_TOPIC) {
            const char *wrong = topic_number_complaint(core, session, range->name, range->topic);
            if (wrong != NULL)
                return wrong;
        } else if (topic != NULL ? !may_write(session, topic, range->kind)
                                 : !number_is_own(session->party, range->topic))
            return "a frame of a topic that this party did not open";
        if (range->kind > FRAME_CHUNK && range->kind != FRAME_TOPIC)
            return "a frame that only the broker may send";
        if ((range->kind == FRAME_CHUNK) != is_chunks)
            return "chunks and numbered frames in one batch";
        if (range->attempt != session->job->attempt)
            return "a frame of another attempt";
        if (range->kind == FRAME_RESERVE && (range->deadline_ms > LIMIT_PERIOD_MS_MAX ||
                                             range->value_bytes_max > LIMIT_VALUE_BYTES))
            return "a reservation beyond its limits";
    }
    return NULL;
}

const char *write_batch(struct core *core, struct session *session, const struct event *event)
{
    const char *wrong = batch_complaint(core, session, event);
    if (wrong != NULL)
        return wrong;
    uint64_t number = event->as.data.number;
    uint64_t known = number == 0 ? 0 : session->data_number + 1 - number; /* to skip */
    for (uint32_t i = 0; i < event->as.data.range_count; i++) {
        struct event_range range = event->as.data.ranges[i];
        uint32_t skip = known < range.count ? (uint32_t)known : range.count;
        known -= skip;
        if (skip == range.count)
            continue;
        range.seq += skip;
        range.count -= skip;
        write_range(core, session, &range, skip, event->as.data.payload);
        if (number != 0)
            session->data_number += range.count;
    }
    core_mark_dirty(core, session);
    parked_execute(core, session); /* may end the session */
    return NULL;
}
