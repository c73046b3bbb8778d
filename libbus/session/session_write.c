/* SPDX-License-Identifier: MPL-2.0 */
/* session_write.c -- topics, slots, values; see PROTOCOL.md, "Writing".
 *
 * The path of a small value is short: look the topic up, check credit and room, write the frame.
 * A reservation reserves what its settlement will need: room in the outbox, and a control message
 * (own_topics.h). */
#include "libbus/session/session_write.h"

#include "libbus/base/must.h"
#include "libbus/base/pattern.h"
#include "libbus/session/model.h"
#include "libbus/session/session_say.h"

/* Slot numbers stay below this: they are told as int64_t too. */
#define SEQ_END ((uint64_t)INT64_MAX)

/* ---- what is there --------------------------------------------------------------------------- */

static uint64_t outbox_used(const struct session *session)
{
    return session->outbox.bytes + session->uploads.bytes + session->own.held_bytes;
}

/* Beyond the limit one value may go if the outbox is empty.  Over a link a large one may go when
 * almost all is sent: if it waited for the answer to the one before it, the link would be idle for
 * a round trip.  So may small ones behind it, while they and what is not sent fit: or they would
 * wait for that answer.  Out of line, or each small value would pay for it (tests/cost). */
__attribute__((noinline)) static bool has_room_beyond(const struct session *session, uint64_t bytes)
{
    uint64_t unsent = session->outbox.bytes + session->uploads.unsent;
    uint64_t small = bytes > session->pace.bytes ? 0 : bytes;
    bool is_sent_far = trip_is_far(&session->trip) && unsent <= session->uploads.window_bytes &&
                       unsent + small <= session->options.outbox_bytes_max;
    return session->outbox.bytes + session->uploads.bytes == 0 || is_sent_far;
}

/* Whether the outbox may keep so many bytes more.  Each value asks, so this is inline. */
static inline bool has_room(const struct session *session, uint64_t bytes)
{
    uint64_t used = outbox_used(session);
    return (used <= session->options.outbox_bytes_max &&
            bytes <= session->options.outbox_bytes_max - used) ||
           has_room_beyond(session, bytes);
}

bool session_has_room(const struct session *session)
{
    return outbox_used(session) < session->options.outbox_bytes_max;
}

uint64_t session_write_progress(struct session *session, uint32_t topic)
{
    const struct own_topic *own = own_topics_find(&session->own, topic);
    bool needs_credit =
        own != NULL && (own->used_bytes >= own->limit_bytes || own_topic_has_set(own));
    if (!needs_credit) /* it waits for room in the outbox */
        return session->outbox.accepted + session->uploads.accepted;
    return own->limit_bytes + uploads_accepted_of(&session->uploads, own->topic);
}

/* The stamp of what is written at now_ns, by the broker's clock. */
static inline int64_t stamp_at(const struct session *session, int64_t now_ns)
{
    return clock_offset_at(&session->clock, now_ns);
}

/* Finds a topic in which slots may be reserved.  Otherwise returns the code for the application. */
static inline enum wire_code writable(struct session *session, uint32_t id,
                                      struct own_topic **out_topic)
{
    if (session->once.code != CODE_OK)
        return session->once.code;
    if (session->is_leaving)
        return CODE_ECLOSED;
    if (session->complete_number != 0)
        return CODE_EENDED;
    struct own_topic *topic = own_topics_find(&session->own, id);
    if (topic == NULL)
        return CODE_EINVAL;
    if (topic->state == OWN_TOPIC_REFUSED)
        return topic->code;
    if (topic->state < OWN_TOPIC_NUMBERED)
        return CODE_ETIMEDOUT;
    *out_topic = topic;
    return CODE_OK;
}

/* Over a link a large value waits while much of the one before it is not sent.  So what follows,
 * as an error, waits for one value. */
static bool is_uploading_far(const struct session *session, const struct own_topic *topic)
{
    return session->uploads.unsent > 0 && trip_is_far(&session->trip) &&
           uploads_unsent_of(&session->uploads, topic->topic) > session->uploads.window_bytes;
}

/* Whether there is credit for before_bytes and one more frame.  A set of values goes as a whole,
 * and may need more than the broker grants ahead.  So the session tells the broker what it needs.
 * A refused frame may or may not have used credit.  So the session asks the broker once nothing is
 * under way any more. */
static bool has_credit(struct session *session, struct own_topic *topic, uint64_t before_bytes)
{
    if (topic->used_bytes < topic->limit_bytes &&
        before_bytes < topic->limit_bytes - topic->used_bytes)
        return true;
    if (before_bytes > 0 && topic->needed_bytes < topic->used_bytes + before_bytes + 1) {
        topic->needed_bytes = topic->used_bytes + before_bytes + 1;
        own_topics_ask(&session->own, topic);
    }
    if (topic->is_doubtful && !topic->is_unanswered &&
        session->outbox.bytes + session->uploads.bytes == 0) {
        topic->is_doubtful = false;
        topic->is_recount = true;
        own_topics_ask(&session->own, topic);
    }
    return false;
}

/* ---- topics ---------------------------------------------------------------------------------- */

enum wire_code session_topic(struct session *session, struct span name, uint32_t *out_topic)
{
    if (session->once.code != CODE_OK)
        return session->once.code;
    if (!topic_is_valid(name))
        return CODE_EINVAL;
    if (session->options.is_guard || !span_equal(topic_party(name), session->options.party))
        return CODE_EDENIED;
    struct own_topic *topic = NULL;
    enum wire_code code = own_topics_open(&session->own, name, &topic);
    if (code != CODE_OK)
        return code;
    own_topics_give_number(&session->own, topic);
    *out_topic = topic->id;
    return CODE_OK;
}

/* ---- publishing ------------------------------------------------------------------------------ */

struct need {
    uint64_t credit; /* of all frames but the last */
    uint64_t credit_last;
    uint64_t bytes; /* of the outbox */
    bool is_large;  /* one goes in chunks */
};

static bool is_large(const struct session *session, size_t bytes)
{
    return bytes > session->pace.bytes;
}

/* Adds values one by one, because some are large. */
static void add_each(const struct session *session, const struct span *values, size_t count,
                     struct need *need)
{
    for (size_t i = 0; i < count; i++) {
        size_t bytes = values[i].bytes;
        need->credit += need->credit_last;
        need->credit_last = is_large(session, bytes) ? COST_SLOT_BYTES + bytes : frame_total(bytes);
        need->bytes += is_large(session, bytes) ? frame_total(FRAME_RESERVE_BYTES_MAX) + bytes
                                                : frame_total(bytes);
    }
}

static enum wire_code add_up(const struct session *session, const struct span *values, size_t count,
                             struct need *need)
{
    size_t largest = 0;
    uint64_t padded = 0;
    for (size_t i = 0; i < count; i++) {
        padded += frame_padded(values[i].bytes);
        if (values[i].bytes > largest)
            largest = values[i].bytes;
    }
    if (largest > session->value_bytes_max || largest > LIMIT_VALUE_BYTES)
        return CODE_ETOOBIG;
    need->is_large = is_large(session, largest);
    if (need->is_large) {
        add_each(session, values, count, need);
    } else if (count > 0) {
        need->bytes = count * FRAME_HEADER_BYTES + padded;
        need->credit_last = frame_total(values[count - 1].bytes);
        need->credit = need->bytes - need->credit_last;
    }
    return count > 1 && need->bytes > session->options.outbox_bytes_max ? CODE_EFULL : CODE_OK;
}

static struct frame frame_of(const struct session *session, const struct own_topic *topic,
                             enum frame_kind kind, uint64_t seq, int64_t stamp_ns,
                             struct span value)
{
    return (struct frame){.flags = (uint16_t)kind,
                          .delivery = 1,
                          .attempt = session->attempt,
                          .topic = topic->topic,
                          .seq = seq,
                          .stamp_ns = stamp_ns,
                          .reply_to = FRAME_NO_REPLY,
                          .value = value};
}

static bool append_frame(struct session *session, const struct own_topic *topic,
                         const struct frame *frame)
{
    return outbox_append(&session->outbox, frame, topic->batch_bytes);
}

/* Before the first frame of a topic that we numbered: TOPIC_OPEN may come later than that frame.
 * false: no memory.  A TOPIC frame without others does no harm. */
__attribute__((noinline)) static bool append_name(struct session *session, struct own_topic *topic)
{
    struct frame frame =
        frame_of(session, topic, FRAME_TOPIC, 0, stamp_at(session, session->now_ns), topic->name);
    if (!append_frame(session, topic, &frame))
        return false;
    topic->state = OWN_TOPIC_OPEN;
    return true;
}

static inline bool is_named(struct session *session, struct own_topic *topic)
{
    return topic->state == OWN_TOPIC_OPEN || append_name(session, topic);
}

static bool append_reserve_for(struct session *session, const struct own_topic *topic, uint64_t seq,
                               int64_t stamp_ns, const struct frame_reserve *reserve,
                               uint64_t reply_to)
{
    uint8_t value[FRAME_RESERVE_BYTES_MAX];
    size_t bytes = frame_reserve_encode(value, reserve);
    struct frame frame =
        frame_of(session, topic, FRAME_RESERVE, seq, stamp_ns, span_of(value, bytes));
    frame.reply_to = reply_to;
    return append_frame(session, topic, &frame);
}

static bool append_reserve(struct session *session, const struct own_topic *topic, uint64_t seq,
                           int64_t stamp_ns, int64_t deadline_ms, uint64_t value_bytes_max)
{
    struct frame_reserve reserve = {.deadline_ms = deadline_ms, .value_bytes_max = value_bytes_max};
    return append_reserve_for(session, topic, seq, stamp_ns, &reserve, FRAME_NO_REPLY);
}

/* The size of the value of a RESERVE with these needs, at most. */
static size_t promise_bytes(const struct session_reservation *promise)
{
    size_t bytes = FRAME_RESERVE_BYTES_MAX;
    for (size_t i = 0; i < promise->need_count; i++)
        bytes += promise->needs[i].topic.bytes + (FRAME_NEED_BYTES_MAX - LIMIT_NAME_BYTES);
    return bytes;
}

static bool append_promise(struct session *session, const struct own_topic *topic, uint64_t seq,
                           int64_t stamp_ns, const struct session_reservation *promise)
{
    if (promise->need_count == 0)
        return append_reserve(session, topic, seq, stamp_ns, promise->deadline_ms,
                              promise->value_bytes_max);
    size_t room = promise_bytes(promise);
    uint8_t *value = memory_take(session->memory, room);
    if (value == NULL)
        return false;
    struct frame_reserve reserve = {.deadline_ms = promise->deadline_ms,
                                    .value_bytes_max = promise->value_bytes_max,
                                    .need_count = (uint32_t)promise->need_count};
    size_t bytes = frame_promise_encode(value, room, &reserve, promise->needs);
    struct frame frame =
        frame_of(session, topic, FRAME_RESERVE, seq, stamp_ns, span_of(value, bytes));
    bool is_done = append_frame(session, topic, &frame);
    memory_give(session->memory, value, room);
    return is_done;
}

static bool add_upload(struct session *session, const struct own_topic *topic, uint64_t seq,
                       uint64_t reserve_number, int64_t stamp_ns, struct buffer **value)
{
    struct upload upload = {.after = reserve_number,
                            .topic = topic->topic,
                            .seq = seq,
                            .attempt = session->attempt,
                            .stamp_ns = stamp_ns,
                            .piece_bytes = session->pace.bytes};
    return uploads_add(&session->uploads, &upload, value);
}

/* owned: the buffer that value is, or NULL: it is copied. */
static bool append_large(struct session *session, const struct own_topic *topic, uint64_t seq,
                         int64_t stamp_ns, struct span value, struct buffer *owned)
{
    struct buffer *kept = owned != NULL ? buffer_ref(owned) : buffer_copy(value);
    if (kept == NULL)
        return false;
    bool is_done = append_reserve(session, topic, seq, stamp_ns, -1, value.bytes) &&
                   add_upload(session, topic, seq, session->outbox.last, stamp_ns, &kept);
    buffer_unref(&kept);
    return is_done;
}

static bool append_values(struct session *session, const struct own_topic *topic, int64_t stamp_ns,
                          const struct span *values, size_t count, struct buffer *owned)
{
    struct frame frame =
        frame_of(session, topic, FRAME_VALUE, topic->next_seq, stamp_ns, SPAN_NONE);
    struct outbox_value one = {
        .attempt = frame.attempt, .topic = frame.topic, .seq = frame.seq, .stamp_ns = stamp_ns};
    for (size_t i = 0; i < count;) {
        one.value = values[i];
        one.seq = topic->next_seq + i;
        size_t joined = outbox_join_many(&session->outbox, &one, &values[i], count - i);
        i += joined;
        if (joined > 0)
            continue;
        frame.seq = one.seq;
        frame.value = one.value;
        bool is_done = is_large(session, values[i].bytes)
                           ? append_large(session, topic, frame.seq, stamp_ns, values[i], owned)
                           : append_frame(session, topic, &frame);
        if (!is_done)
            return false;
        i++;
    }
    return true;
}

/* The fast path: it checks everything before anything changes, so it has nothing to undo. */
static inline enum wire_code publish_small(struct session *session, struct own_topic *topic,
                                           int64_t now_ns, struct span value)
{
    uint64_t cost = frame_total(value.bytes);
    if (value.bytes > session->value_bytes_max)
        return CODE_ETOOBIG;
    if (topic->next_seq >= SEQ_END)
        return CODE_EFULL;
    if (!has_room(session, cost) || !has_credit(session, topic, 0))
        return CODE_ETIMEDOUT;
    if (!is_named(session, topic))
        return CODE_ENOMEM;
    const struct outbox_value one = {.attempt = session->attempt,
                                     .topic = topic->topic,
                                     .seq = topic->next_seq,
                                     .stamp_ns = stamp_at(session, now_ns),
                                     .value = value};
    if (!outbox_join(&session->outbox, &one)) {
        struct frame frame =
            frame_of(session, topic, FRAME_VALUE, one.seq, one.stamp_ns, one.value);
        if (!append_frame(session, topic, &frame))
            return CODE_ENOMEM;
    }
    topic->next_seq += 1;
    topic->used_bytes += cost;
    return CODE_OK;
}

static enum wire_code publish(struct session *session, int64_t now_ns, struct own_topic *topic,
                              const struct span *values, size_t count, struct buffer *owned)
{
    struct need need = {0};
    enum wire_code code = add_up(session, values, count, &need);
    if (code != CODE_OK)
        return code;
    if (count > SEQ_END - topic->next_seq)
        return CODE_EFULL;
    if (need.is_large && is_uploading_far(session, topic))
        return CODE_ETIMEDOUT;
    if (count > 0 && (!has_room(session, need.bytes) || !has_credit(session, topic, need.credit)))
        return CODE_ETIMEDOUT;
    if (count > 0 && !is_named(session, topic))
        return CODE_ENOMEM;
    struct outbox_point point = outbox_point(&session->outbox);
    uint64_t last_upload = session->uploads.last;
    if (!append_values(session, topic, stamp_at(session, now_ns), values, count, owned)) {
        outbox_back(&session->outbox, point);
        uploads_back(&session->uploads, last_upload);
        return CODE_ENOMEM;
    }
    topic->next_seq += count;
    topic->used_bytes += need.credit + need.credit_last;
    return CODE_OK;
}

enum wire_code session_publish(struct session *session, int64_t now_ns, uint32_t topic_id,
                               const struct span *values, size_t count, uint64_t *out_first_seq)
{
    session_see_time(session, now_ns);
    struct own_topic *topic = NULL;
    enum wire_code code = writable(session, topic_id, &topic);
    if (code != CODE_OK)
        return code;
    uint64_t first_seq = topic->next_seq;
    code = count == 1 && !is_large(session, values->bytes)
               ? publish_small(session, topic, now_ns, *values)
               : publish(session, now_ns, topic, values, count, NULL);
    if (code == CODE_OK && out_first_seq != NULL)
        *out_first_seq = first_seq;
    return code;
}

enum wire_code session_publish_owned(struct session *session, int64_t now_ns, uint32_t topic_id,
                                     struct buffer **value)
{
    const struct span span = buffer_span(*value);
    session_see_time(session, now_ns);
    struct own_topic *topic = NULL;
    enum wire_code code = writable(session, topic_id, &topic);
    if (code == CODE_OK)
        code = publish(session, now_ns, topic, &span, 1, *value);
    if (code == CODE_OK)
        buffer_unref(value);
    return code;
}

/* ---- requests -------------------------------------------------------------------------------- */

/* Appends both frames, or none. */
static bool append_request(struct session *session, const struct own_topic *topic,
                           const struct own_topic *replies, struct span value, struct buffer *owned,
                           int64_t deadline_ms)
{
    int64_t stamp_ns = stamp_at(session, session->now_ns);
    if (!append_reserve(session, replies, replies->next_seq, stamp_ns, deadline_ms, 0))
        return false;
    if (!is_large(session, value.bytes)) {
        struct frame frame =
            frame_of(session, topic, FRAME_VALUE, topic->next_seq, stamp_ns, value);
        frame.reply_to = replies->next_seq;
        return append_frame(session, topic, &frame);
    }
    struct buffer *kept = owned != NULL ? buffer_ref(owned) : buffer_copy(value);
    struct frame_reserve reserve = {.deadline_ms = -1, .value_bytes_max = value.bytes};
    bool is_done =
        kept != NULL &&
        append_reserve_for(session, topic, topic->next_seq, stamp_ns, &reserve,
                           replies->next_seq) &&
        add_upload(session, topic, topic->next_seq, session->outbox.last, stamp_ns, &kept);
    buffer_unref(&kept);
    return is_done;
}

enum wire_code session_request(struct session *session, int64_t now_ns, uint32_t topic_id,
                               uint32_t replies_id, struct span value, struct buffer *owned,
                               int64_t deadline_ms, uint64_t *out_seq)
{
    struct need need = {0};
    struct own_topic *topic = NULL;
    struct own_topic *replies = NULL;
    session_see_time(session, now_ns);
    enum wire_code code = writable(session, topic_id, &topic);
    if (code == CODE_OK)
        code = writable(session, replies_id, &replies);
    if (code == CODE_OK)
        code = add_up(session, &value, 1, &need);
    if (code != CODE_OK)
        return code;
    if (deadline_ms < -1 || deadline_ms > LIMIT_PERIOD_MS_MAX || topic == replies)
        return CODE_EINVAL;
    if (topic->next_seq >= SEQ_END || replies->next_seq >= SEQ_END)
        return CODE_EFULL;
    if (!has_room(session, need.bytes + frame_total(FRAME_RESERVE_BYTES_MAX)) ||
        !has_credit(session, topic, 0) || !has_credit(session, replies, 0))
        return CODE_ETIMEDOUT;
    if (!is_named(session, topic) || !is_named(session, replies))
        return CODE_ENOMEM;
    struct outbox_point point = outbox_point(&session->outbox);
    uint64_t last_upload = session->uploads.last;
    if (!append_request(session, topic, replies, value, owned, deadline_ms)) {
        outbox_back(&session->outbox, point);
        uploads_back(&session->uploads, last_upload);
        return CODE_ENOMEM;
    }
    *out_seq = replies->next_seq;
    topic->next_seq += 1;
    topic->used_bytes += need.credit_last;
    replies->next_seq += 1;
    replies->used_bytes += COST_SLOT_BYTES;
    return CODE_OK;
}

/* ---- reserving ------------------------------------------------------------------------------- */

static enum wire_code reserve_slot(struct session *session, struct own_topic *topic, uint64_t seq,
                                   const struct session_reservation *promise)
{
    uint64_t held_bytes = 0;
    uint64_t value_bytes_max = promise->value_bytes_max;
    if (value_bytes_max > 0)
        held_bytes = frame_total(value_bytes_max);
    if (!has_room(session, frame_total(promise_bytes(promise)) + held_bytes) ||
        !has_credit(session, topic, 0))
        return CODE_ETIMEDOUT;
    if (!is_named(session, topic))
        return CODE_ENOMEM;
    struct own_slot *slot = own_slot_new(&session->own, topic, seq);
    if (slot == NULL)
        return CODE_ENOMEM;
    int64_t stamp_ns = stamp_at(session, session->now_ns);
    if (!append_promise(session, topic, seq, stamp_ns, promise)) {
        own_slot_free(&session->own, topic, slot);
        return CODE_ENOMEM;
    }
    slot->reserve_number = session->outbox.last;
    slot->value_bytes_max = value_bytes_max;
    slot->held_bytes = held_bytes;
    session->own.held_bytes += held_bytes;
    topic->next_seq = seq + 1;
    topic->used_bytes += COST_SLOT_BYTES + value_bytes_max;
    return CODE_OK;
}

/* Whether the slot may have these needs.  A slot cannot need itself or a later slot of its
 * topic. */
static bool may_need(const struct own_topic *topic, uint64_t seq,
                     const struct session_reservation *promise)
{
    if (promise->need_count > LIMIT_SLOT_NEEDS)
        return false;
    for (size_t i = 0; i < promise->need_count; i++)
        if (promise->needs[i].seq >= seq && span_equal(promise->needs[i].topic, topic->name))
            return false;
    return true;
}

enum wire_code session_reserve_with(struct session *session, int64_t now_ns, uint32_t topic_id,
                                    const struct session_reservation *promise, uint64_t *out_seq)
{
    session_see_time(session, now_ns);
    struct own_topic *topic = NULL;
    enum wire_code code = writable(session, topic_id, &topic);
    if (code != CODE_OK)
        return code;
    if (promise->seq < -1 || promise->deadline_ms < -1 ||
        promise->deadline_ms > LIMIT_PERIOD_MS_MAX)
        return CODE_EINVAL;
    if (promise->value_bytes_max > session->value_bytes_max ||
        promise->value_bytes_max > LIMIT_VALUE_BYTES)
        return CODE_ETOOBIG;
    uint64_t chosen = promise->seq == -1 ? topic->next_seq : (uint64_t)promise->seq;
    if (chosen < topic->next_seq)
        return CODE_ESETTLED;
    if (chosen >= SEQ_END)
        return CODE_EFULL;
    if (!may_need(topic, chosen, promise))
        return CODE_EINVAL;
    code = reserve_slot(session, topic, chosen, promise);
    if (code == CODE_OK)
        *out_seq = chosen;
    return code;
}

enum wire_code session_reserve(struct session *session, int64_t now_ns, uint32_t topic_id,
                               int64_t seq, int64_t deadline_ms, uint64_t value_bytes_max,
                               uint64_t *out_seq)
{
    struct session_reservation promise = {
        .seq = seq, .deadline_ms = deadline_ms, .value_bytes_max = value_bytes_max};
    return session_reserve_with(session, now_ns, topic_id, &promise, out_seq);
}

uint64_t session_next_seq(const struct session *session, uint32_t topic_id,
                          struct session_earlier *out_earlier)
{
    const struct own_topic *topic = pool_find(&session->own.topics, topic_id);
    *out_earlier = topic != NULL ? topic->earlier : (struct session_earlier){.end_seq = 0};
    return topic != NULL ? topic->next_seq : 0;
}

bool session_is_settled(const struct session *session, uint32_t topic_id, uint64_t seq)
{
    const struct own_topic *topic = pool_find(&session->own.topics, topic_id);
    const struct own_slot *slot = topic != NULL ? own_slot_find(&session->own, topic, seq) : NULL;
    return slot == NULL || slot->is_failed;
}

/* ---- keeping --------------------------------------------------------------------------------- */

/* Finds the slot that is to get a value of so many bytes.  Otherwise returns the code for the
 * application. */
static enum wire_code keepable(struct session *session, struct own_topic *topic, uint64_t seq,
                               size_t bytes, struct own_slot **out_slot)
{
    struct own_slot *slot = own_slot_find(&session->own, topic, seq);
    if (slot == NULL)
        return CODE_ESETTLED; /* retracted meanwhile */
    if (slot->is_failed) {
        own_slot_free(&session->own, topic, slot);
        return CODE_ESETTLED;
    }
    if (bytes > session->value_bytes_max || bytes > LIMIT_VALUE_BYTES ||
        (slot->value_bytes_max > 0 && bytes > slot->value_bytes_max))
        return CODE_ETOOBIG;
    uint64_t kept = is_large(session, bytes) ? bytes : frame_total(bytes);
    if (slot->held_bytes == 0 && !has_room(session, kept))
        return CODE_ETIMEDOUT;
    *out_slot = slot;
    return CODE_OK;
}

/* Finds a topic whose slots may be settled: still after COMPLETE, but not after LEAVE or
 * FAIL_PARTY. */
static enum wire_code settleable(struct session *session, uint32_t id, struct own_topic **out_topic)
{
    if (session->once.code != CODE_OK)
        return session->once.code;
    if (session->is_leaving)
        return CODE_ECLOSED;
    *out_topic = own_topics_find(&session->own, id);
    return *out_topic != NULL ? CODE_OK : CODE_EINVAL;
}

static bool append_commit(struct session *session, const struct own_topic *topic, uint64_t seq,
                          int64_t stamp_ns, struct span value)
{
    struct frame frame = frame_of(session, topic, FRAME_COMMIT, seq, stamp_ns, value);
    return append_frame(session, topic, &frame);
}

enum wire_code session_commit(struct session *session, int64_t now_ns, uint32_t topic_id,
                              uint64_t seq, struct span value)
{
    session_see_time(session, now_ns);
    struct own_topic *topic = NULL;
    struct own_slot *slot;
    enum wire_code code = settleable(session, topic_id, &topic);
    if (code == CODE_OK)
        code = keepable(session, topic, seq, value.bytes, &slot);
    if (code != CODE_OK)
        return code;
    int64_t stamp_ns = stamp_at(session, now_ns);
    bool is_done;
    if (is_large(session, value.bytes)) {
        struct buffer *copy = buffer_copy(value);
        is_done =
            copy != NULL && add_upload(session, topic, seq, slot->reserve_number, stamp_ns, &copy);
        buffer_unref(&copy);
    } else {
        is_done = append_commit(session, topic, seq, stamp_ns, value);
    }
    if (!is_done)
        return CODE_ENOMEM;
    own_slot_free(&session->own, topic, slot);
    return CODE_OK;
}

enum wire_code session_commit_foreign(struct session *session, const struct own_topic *topic,
                                      uint64_t seq, struct span value, struct buffer *owned)
{
    if (value.bytes > session->value_bytes_max || value.bytes > LIMIT_VALUE_BYTES)
        return CODE_ETOOBIG;
    if (!has_room(session, is_large(session, value.bytes) ? value.bytes : frame_total(value.bytes)))
        return CODE_ETIMEDOUT;
    int64_t stamp_ns = stamp_at(session, session->now_ns);
    if (!is_large(session, value.bytes))
        return append_commit(session, topic, seq, stamp_ns, value) ? CODE_OK : CODE_ENOMEM;
    struct buffer *kept = owned != NULL ? buffer_ref(owned) : buffer_copy(value);
    bool is_done = kept != NULL && add_upload(session, topic, seq, 0, stamp_ns, &kept);
    buffer_unref(&kept);
    return is_done ? CODE_OK : CODE_ENOMEM;
}

enum wire_code session_commit_owned(struct session *session, int64_t now_ns, uint32_t topic_id,
                                    uint64_t seq, struct buffer **value)
{
    if ((*value)->bytes <= SESSION_OWNED_BYTES && !is_large(session, (*value)->bytes)) {
        enum wire_code code = session_commit(session, now_ns, topic_id, seq, buffer_span(*value));
        if (code == CODE_OK)
            buffer_unref(value);
        return code;
    }
    session_see_time(session, now_ns);
    struct own_topic *topic = NULL;
    struct own_slot *slot;
    enum wire_code code = settleable(session, topic_id, &topic);
    if (code == CODE_OK)
        code = keepable(session, topic, seq, (*value)->bytes, &slot);
    if (code != CODE_OK)
        return code;
    if (!add_upload(session, topic, seq, slot->reserve_number, stamp_at(session, now_ns), value))
        return CODE_ENOMEM;
    own_slot_free(&session->own, topic, slot);
    return CODE_OK;
}

/* ---- failing --------------------------------------------------------------------------------- */

void session_fail(struct session *session, int64_t now_ns, uint32_t topic_id, uint64_t seq,
                  struct span error)
{
    session_see_time(session, now_ns);
    must(error.bytes > 0 && error.bytes <= LIMIT_ERROR_BYTES);
    struct own_topic *topic = NULL;
    if (settleable(session, topic_id, &topic) != CODE_OK)
        return; /* the broker settles what the party owed */
    struct own_slot *slot = own_slot_find(&session->own, topic, seq);
    if (slot == NULL)
        return; /* retracted meanwhile */
    struct msg msg = {
        .type = MSG_FAIL,
        .as.fail = {.number = session->controls.last + 1,
                    .after = session->outbox.last,
                    .topic = topic->topic,
                    .seq = seq,
                    .error = error},
    };
    session_say_surely(session, &msg, &msg.as.fail.error, &slot->spare, 0);
    own_slot_free(&session->own, topic, slot);
}

enum wire_code session_retract(struct session *session, uint32_t topic_id, uint64_t seq,
                               struct span error, uint64_t *out_number)
{
    must(error.bytes > 0 && error.bytes <= LIMIT_ERROR_BYTES);
    struct own_topic *topic = NULL;
    enum wire_code code = writable(session, topic_id, &topic);
    if (code != CODE_OK)
        return code;
    struct msg msg = {
        .type = MSG_RETRACT,
        .as.retract = {.number = session->controls.last + 1,
                       .after = session->outbox.last,
                       .topic = topic->topic,
                       .seq = seq,
                       .error = error},
    };
    code = session_say_asking(session, &msg, 0, out_number);
    if (code != CODE_OK)
        return code;
    uploads_drop(&session->uploads, topic->topic, seq);
    session->is_task_due = true; /* tasks that waited for this upload may be settled now */
    struct own_slot *slot = own_slot_find(&session->own, topic, seq);
    if (slot != NULL)
        own_slot_free(&session->own, topic, slot);
    session->news.is_accepted = true;
    return CODE_OK;
}

enum wire_code session_complete(struct session *session, uint64_t *out_number)
{
    if (session->once.code != CODE_OK)
        return session->once.code;
    if (session->is_leaving)
        return CODE_ECLOSED;
    if (session->own.slots.used > 0)
        return CODE_EINVAL;
    struct msg msg = {
        .type = MSG_COMPLETE,
        .as.complete = {.number = session->controls.last + 1, .after = session->outbox.last},
    };
    enum wire_code code =
        session_say_asking(session, &msg, session_uploads_under_way(session), out_number);
    if (code == CODE_OK)
        session->complete_number = *out_number;
    return code;
}

enum wire_code session_result(struct session *session, uint64_t number, struct buffer **out_error)
{
    enum wire_code code = results_take(&session->results, number, out_error);
    if (code == CODE_ETIMEDOUT && session->once.code != CODE_OK)
        return session->once.code;
    return code;
}

/* ---- refusals and notices -------------------------------------------------------------------- */

bool session_refusal(struct session *session, struct span *out_topic, uint64_t *out_seq,
                     struct buffer **out_error)
{
    struct refused_one one;
    if (!refused_pop(&session->refused, &one))
        return false;
    *out_topic = own_topics_find(&session->own, one.topic)->name;
    *out_seq = one.seq;
    *out_error = one.error;
    return true;
}

uint64_t session_refusals_ever(const struct session *session)
{
    return session->refused.ever;
}

struct buffer *session_notice(struct session *session)
{
    return notices_pop(&session->notices);
}

bool session_has_notice(const struct session *session)
{
    return notices_has_next(&session->notices);
}
