/* SPDX-License-Identifier: MPL-2.0 */
/* inbox.c -- see inbox.h. */
#include "libbus/session/inbox.h"

#include "libbus/base/limits.h"
#include "libbus/base/must.h"

enum { RING_ROOM_MIN = 8, VALUE_ALIGN = 8 };

/* The broker may send one window ahead of what was taken, and always one batch.  A broker that
 * sends SLACK_PARTS parts more does not count, and breaks the protocol. */
enum { SLACK_PARTS = 4 };

void inbox_init(struct inbox *inbox, struct memory *memory, struct known_topics *topics)
{
    *inbox = (struct inbox){.memory = memory, .topics = topics};
    pool_init(&inbox->subs, memory, sizeof(struct inbox_sub), LIMIT_SUBS);
    pool_init(&inbox->streams, memory, sizeof(struct inbox_stream), UINT32_MAX - 1);
    id_map_init(&inbox->by_number, memory);
}

void inbox_fini(struct inbox *inbox)
{
    struct inbox_sub *sub;
    while ((sub = pool_next(&inbox->subs, 0)) != NULL)
        inbox_sub_free(inbox, sub);
    pool_fini(&inbox->subs);
    pool_fini(&inbox->streams);
    id_map_fini(&inbox->by_number);
}

/* ---- subscriptions and their streams --------------------------------------------------------- */

struct inbox_sub *inbox_sub_new(struct inbox *inbox)
{
    if (!id_map_reserve(&inbox->by_number) || inbox->last_number == UINT32_MAX)
        return NULL;
    struct inbox_sub *sub = pool_take(&inbox->subs);
    if (sub == NULL)
        return NULL;
    sub->number = ++inbox->last_number;
    id_map_init(&sub->streams, inbox->memory);
    list_init(&sub->news);
    list_init(&sub->talk);
    list_init(&sub->untold);
    list_init(&sub->acking);
    list_init(&sub->closing);
    list_init(&sub->dirty);
    (void)id_map_put(&inbox->by_number, sub->number, sub->id); /* reserved above */
    return sub;
}

struct inbox_sub *inbox_sub_find(const struct inbox *inbox, uint32_t number)
{
    uint32_t id;
    if (inbox->recent != NULL && inbox->recent->number == number)
        return inbox->recent;
    return id_map_get(&inbox->by_number, number, &id) ? pool_find(&inbox->subs, id) : NULL;
}

static struct inbox_batch *batch_at(const struct inbox_sub *sub, uint32_t index)
{
    return &sub->ring[(sub->head + index) & (sub->room - 1)];
}

static void stream_free(struct inbox *inbox, struct inbox_stream *stream)
{
    assembly_drop(&stream->assembly);
    ack_prefix_fini(&stream->acks, inbox->memory);
    list_remove(&stream->dirty);
    pool_give(&inbox->streams, stream);
}

void inbox_sub_free(struct inbox *inbox, struct inbox_sub *sub)
{
    for (uint32_t i = 0; i < sub->streams.room; i++)
        if (sub->streams.entries[i].is_used)
            stream_free(inbox, pool_find(&inbox->streams, sub->streams.entries[i].value));
    id_map_fini(&sub->streams);
    for (uint32_t i = 0; i < sub->count; i++)
        buffer_unref(&batch_at(sub, i)->part);
    memory_give(inbox->memory, sub->ring, sub->room * sizeof *sub->ring);
    buffer_unref(&sub->ready_value);
    buffer_unref(&sub->error);
    list_remove(&sub->news);
    list_remove(&sub->talk);
    list_remove(&sub->untold);
    list_remove(&sub->acking);
    list_remove(&sub->closing);
    id_map_remove(&inbox->by_number, sub->number);
    if (inbox->recent == sub)
        inbox->recent = NULL;
    pool_give(&inbox->subs, sub);
}

struct inbox_stream *inbox_stream_find(const struct inbox *inbox, const struct inbox_sub *sub,
                                       uint32_t topic)
{
    if (sub->recent != NULL && sub->recent->topic == topic)
        return sub->recent;
    uint32_t id;
    return id_map_get(&sub->streams, topic, &id) ? pool_find(&inbox->streams, id) : NULL;
}

/* Finds the stream of a topic, or makes it.  Errors: CODE_ENOMEM. */
static enum wire_code stream_open(struct inbox *inbox, struct inbox_sub *sub, uint32_t topic,
                                  struct inbox_stream **out_stream)
{
    struct inbox_stream *stream = inbox_stream_find(inbox, sub, topic);
    if (stream == NULL) {
        if (!id_map_reserve(&sub->streams))
            return CODE_ENOMEM;
        stream = pool_take(&inbox->streams);
        if (stream == NULL)
            return CODE_ENOMEM;
        stream->topic = topic;
        stream->sub = sub;
        list_init(&stream->dirty);
        (void)id_map_put(&sub->streams, topic, stream->id); /* reserved above */
    }
    sub->recent = stream;
    *out_stream = stream;
    return CODE_OK;
}

/* ---- one frame ------------------------------------------------------------------------------- */

static void make_ready(struct inbox_sub *sub, struct inbox_stream *stream,
                       const struct frame *frame, enum session_item_kind kind)
{
    sub->is_ready = true;
    sub->ready_stream = stream;
    sub->ready_bytes = frame_total(frame->value.bytes);
    sub->ready = (struct session_item){
        .kind = kind,
        .buffer = batch_at(sub, 0)->part,
        .value = frame->value,
        .topic = frame->topic,
        .seq = frame->seq,
        .count = 1,
        .delivery = frame->delivery,
        .stamp_ns = frame->stamp_ns,
        .batch = batch_at(sub, 0)->connection,
        .reply_to = frame->reply_to,
    };
    if (kind == SESSION_ITEM_VALUE || kind == SESSION_ITEM_ERROR || kind == SESSION_ITEM_PIECE)
        sub->ready.origin = stream->origin;
}

/* A gap of earlier attempts.  Its slots stand before all others and have numbers of their own.  The
 * broker sends it on each connection until it is acknowledged.  Behind a slot of this attempt it
 * was told before, to an earlier subscription of the same name, and the broker that is back has
 * lost the acknowledgement. */
static void past_in(struct inbox_sub *sub, struct inbox_stream *stream, const struct frame *frame,
                    uint64_t count)
{
    if (stream->is_past_told || stream->is_started)
        return;
    stream->is_past_told = true;
    make_ready(sub, stream, frame, SESSION_ITEM_PAST);
    sub->ready.value = SPAN_NONE;
    sub->ready.count = count;
}

static enum wire_code gap_in(struct inbox_sub *sub, struct inbox_stream *stream,
                             const struct frame *frame)
{
    struct frame_gap gap;
    if (frame_gap_decode(frame->value, &gap) != WIRE_OK || gap.count == 0 ||
        gap.count > ACK_PREFIX_SEQ_MAX - frame->seq)
        return CODE_EPROTO;
    if (gap.reason == GAP_ATTEMPT) {
        past_in(sub, stream, frame, gap.count);
        return CODE_OK;
    }
    uint64_t end = frame->seq + gap.count;
    uint64_t first = frame->seq;
    if (stream->is_started && first < stream->next_seq)
        first = stream->next_seq;
    if (first >= end)
        return CODE_OK;
    make_ready(sub, stream, frame,
               gap.reason == GAP_OVERFLOW ? SESSION_ITEM_DROPPED : SESSION_ITEM_GAP);
    sub->ready.value = SPAN_NONE;
    sub->ready.seq = first;
    sub->ready.count = end - first;
    stream->next_seq = end;
    stream->is_started = true;
    assembly_drop(&stream->assembly);
    return CODE_OK;
}

/* Gives the ready item a value that lies in a buffer of its own. */
static void put_value(struct inbox_sub *sub, struct buffer *value)
{
    sub->ready_value = value;
    sub->ready.buffer = value;
    sub->ready.value = buffer_span(value);
}

/* Hands a chunk out as it came.  If its first bytes came before, the others may not be aligned:
 * they are copied. */
static enum wire_code piece_in(const struct inbox *inbox, struct inbox_sub *sub,
                               struct inbox_stream *stream, const struct frame *frame)
{
    struct assembly before = stream->assembly;
    struct assembly_piece piece;
    struct buffer *copy = NULL;
    stream->next_seq = frame->seq;
    stream->is_started = true;
    enum assembly_verdict verdict =
        assembly_pass(&stream->assembly, frame, inbox->value_bytes_max, &piece);
    if (verdict == ASSEMBLY_BROKEN)
        return CODE_EPROTO;
    if (piece.bytes.bytes == 0)
        return CODE_OK;
    if ((uintptr_t)piece.bytes.data % VALUE_ALIGN != 0) {
        copy = buffer_copy(piece.bytes);
        if (copy == NULL) {
            stream->assembly = before; /* a value in pieces has no buffer */
            return CODE_ENOMEM;
        }
    }
    bool is_last = verdict == ASSEMBLY_WHOLE;
    make_ready(sub, stream, frame, is_last ? SESSION_ITEM_VALUE : SESSION_ITEM_PIECE);
    sub->ready.value = piece.bytes;
    sub->ready.offset = piece.offset;
    sub->ready.total_bytes = sub->is_in_pieces ? piece.total_bytes : 0;
    if (copy != NULL)
        put_value(sub, copy);
    stream->next_seq += is_last;
    return CODE_OK;
}

/* Whether the chunk is a whole value: such a value need not be put together. */
static bool is_all(const struct inbox_stream *stream, const struct frame *frame)
{
    struct frame_chunk chunk;
    return (frame->flags & FRAME_LAST_CHUNK) != 0 && !stream->assembly.is_begun &&
           frame_chunk_decode(frame->value, &chunk) == WIRE_OK &&
           chunk.bytes.bytes == chunk.total_bytes;
}

static enum wire_code chunk_in(struct inbox *inbox, struct inbox_sub *sub,
                               struct inbox_stream *stream, const struct frame *frame)
{
    stream->next_seq = frame->seq;
    stream->is_started = true;
    switch (assembly_add(&stream->assembly, frame, inbox->value_bytes_max)) {
    case ASSEMBLY_GOES_ON: return CODE_OK;
    case ASSEMBLY_BROKEN: return CODE_EPROTO;
    case ASSEMBLY_WHOLE:
        make_ready(sub, stream, frame, SESSION_ITEM_VALUE);
        put_value(sub, assembly_take(&stream->assembly));
        break;
    case ASSEMBLY_NO_MEMORY: return CODE_ENOMEM; /* without this chunk the value is lost */
    }
    stream->next_seq = frame->seq + 1;
    return CODE_OK;
}

static void count_taken(const struct inbox *inbox, struct inbox_sub *sub, uint64_t bytes)
{
    if (batch_at(sub, 0)->connection == inbox->connection)
        sub->taken += bytes;
}

/* Makes the values of a frame ready that did not come before. */
static void values_in(const struct inbox *inbox, struct inbox_sub *sub, struct inbox_stream *stream,
                      const struct frame *frame)
{
    uint64_t end_seq = frame->seq + frame_count(frame);
    uint64_t had = 0;
    make_ready(sub, stream, frame, SESSION_ITEM_VALUE);
    if (stream->is_started && frame->seq < stream->next_seq)
        had = stream->next_seq - frame->seq;
    sub->ready.seq += had;
    sub->ready.count = end_seq - sub->ready.seq;
    if (had > 0) {
        size_t stride = frame_padded(frame->value.bytes);
        sub->ready.value.data = (const char *)frame->value.data + had * stride;
        count_taken(inbox, sub, FRAME_HEADER_BYTES + had * stride);
        sub->ready_bytes = stride;
    }
    stream->next_seq = end_seq;
}

/* What follows may be of another incarnation, so its stream is looked up again. */
static enum wire_code topic_in(const struct inbox *inbox, struct inbox_sub *sub,
                               const struct frame *frame)
{
    if (frame->reply_to != FRAME_NO_REPLY) {
        sub->named_topic = frame->topic;
        sub->named = frame_origin_of(frame);
        sub->recent = NULL;
    }
    return known_topics_number(inbox->topics, frame->topic, frame->value);
}

static enum wire_code frame_in(struct inbox *inbox, struct inbox_sub *sub,
                               const struct frame *frame)
{
    static const enum session_item_kind kinds[FRAME_KIND_COUNT] = {
        [FRAME_COMMIT] = SESSION_ITEM_VALUE,
        [FRAME_ERROR] = SESSION_ITEM_ERROR,
        [FRAME_END] = SESSION_ITEM_END,
    };
    unsigned kind = frame->flags & FRAME_KIND_MASK;
    if (kind == FRAME_TOPIC)
        return topic_in(inbox, sub, frame);
    if (kind == FRAME_RESERVE || frame->seq + frame->more >= ACK_PREFIX_SEQ_MAX)
        return CODE_EPROTO;
    struct inbox_stream *stream = sub->recent;
    if (stream == NULL || stream->topic != frame->topic) {
        if (known_topics_find(inbox->topics, frame->topic) == NULL)
            return CODE_EPROTO;
        enum wire_code code = stream_open(inbox, sub, frame->topic, &stream);
        if (code != CODE_OK)
            return code;
        if (sub->named_topic == frame->topic)
            stream->origin = sub->named;
    }
    if (kind == FRAME_GAP)
        return gap_in(sub, stream, frame);
    if (sub->is_shared) /* tasks come in any order, and may come again */
        stream->is_started = false;
    if (stream->is_started && frame->seq + frame->more < stream->next_seq)
        return CODE_OK;
    if (kind == FRAME_CHUNK)
        return sub->is_in_pieces || is_all(stream, frame) ? piece_in(inbox, sub, stream, frame)
                                                          : chunk_in(inbox, sub, stream, frame);
    if (kind == FRAME_VALUE) {
        values_in(inbox, sub, stream, frame);
    } else {
        make_ready(sub, stream, frame, kinds[kind]);
        if (kind == FRAME_END)
            sub->ready.first = frame->reply_to < frame->seq ? frame->reply_to : frame->seq;
        stream->next_seq = frame->seq + 1;
    }
    if (stream->assembly.is_begun)
        assembly_drop(&stream->assembly);
    stream->is_party = kind == FRAME_END;
    stream->is_started = true;
    return CODE_OK;
}

/* ---- the queue ------------------------------------------------------------------------------- */

static bool ring_reserve(struct inbox *inbox, struct inbox_sub *sub)
{
    if (sub->count < sub->room)
        return true;
    uint32_t room = sub->room > 0 ? sub->room * 2 : RING_ROOM_MIN;
    const struct ring_use use = {sub->room, sub->head, sub->count};
    struct inbox_batch *ring = memory_grow_ring(inbox->memory, sub->ring, sizeof *ring, &use, room);
    if (ring == NULL)
        return false;
    sub->ring = ring;
    sub->room = room;
    sub->head = 0;
    return true;
}

static void pop(struct inbox_sub *sub)
{
    buffer_unref(&batch_at(sub, 0)->part);
    sub->head = (sub->head + 1) & (sub->room - 1);
    sub->count -= 1;
    sub->is_reading = false;
}

enum wire_code inbox_look(struct inbox *inbox, struct inbox_sub *sub)
{
    while (!sub->is_ready && sub->count > 0) {
        if (!sub->is_reading &&
            batch_reader_init(&sub->reader, buffer_span(batch_at(sub, 0)->part)) != WIRE_OK)
            return CODE_EPROTO;
        sub->is_reading = true;
        struct batch_reader before = sub->reader;
        struct frame frame;
        enum wire_err err = batch_reader_next(&sub->reader, &frame);
        if (err == WIRE_EMPTY) {
            pop(sub);
            continue;
        }
        if (err != WIRE_OK)
            return CODE_EPROTO;
        enum wire_code code = frame_in(inbox, sub, &frame);
        if (code != CODE_OK) { /* the next look reads the same frame again */
            sub->reader = before;
            return code == CODE_EFULL ? CODE_EPROTO : code;
        }
        if (!sub->is_ready)
            count_taken(inbox, sub, frame.frame_bytes);
    }
    return CODE_OK;
}

enum wire_code inbox_receive(struct inbox *inbox, struct inbox_sub *sub, struct buffer **part)
{
    struct batch_reader reader;
    if (batch_reader_init(&reader, buffer_span(*part)) != WIRE_OK)
        return CODE_EPROTO;
    uint64_t bytes = (*part)->bytes - BATCH_HEADER_BYTES;
    if (sub->received - sub->taken > sub->window_bytes + SLACK_PARTS * LIMIT_PART_BYTES)
        return CODE_EPROTO;
    if (!ring_reserve(inbox, sub))
        return CODE_ENOMEM;
    sub->received += bytes;
    sub->count += 1;
    *batch_at(sub, sub->count - 1) = (struct inbox_batch){*part, inbox->connection};
    inbox->recent = sub; /* most likely, the application asks for this one next */
    *part = NULL;
    return CODE_OK;
}

/* Removes the first count values of the ready item; false: no value is left. */
static bool pass_values(struct session_item *ready, uint32_t count)
{
    if (ready->kind != SESSION_ITEM_VALUE || ready->count == count)
        return false;
    ready->count -= count;
    ready->seq += count;
    ready->value.data = (const char *)ready->value.data + count * frame_padded(ready->value.bytes);
    return true;
}

enum wire_code inbox_take(struct inbox *inbox, struct inbox_sub *sub, uint32_t values_max,
                          struct session_item *out, enum wire_code *out_look)
{
    *out_look = CODE_OK;
    if (!sub->is_ready)
        return CODE_ETIMEDOUT;
    struct inbox_stream *stream = sub->ready_stream;
    uint32_t count = 1; /* of a gap, only the last slot is acknowledged */
    if (sub->ready.kind == SESSION_ITEM_VALUE)
        count = sub->ready.count < values_max ? (uint32_t)sub->ready.count : values_max;
    /* A PAST item has no slot of this attempt, and a PIECE is no whole slot.  Tasks are not
     * acknowledged in order. */
    bool is_apart = sub->ready.kind == SESSION_ITEM_PAST || sub->ready.kind == SESSION_ITEM_PIECE ||
                    sub->is_shared;
    if (!is_apart && !ack_prefix_reserve(&stream->acks, inbox->memory, count))
        return CODE_ENOMEM;
    size_t stride = frame_padded(sub->ready.value.bytes);
    *out = sub->ready;
    if (out->kind == SESSION_ITEM_VALUE)
        out->count = count;
    if (sub->ready_value != NULL)
        sub->ready_value = NULL;
    else if (out->value.bytes > 0)
        buffer_ref_many(out->buffer, count);
    else
        out->buffer = NULL;
    if (!is_apart)
        ack_prefix_hand(&stream->acks, out->seq + out->count - count, count);
    count_taken(inbox, sub, sub->ready_bytes + (count - 1) * stride);
    sub->ready_bytes = stride;
    sub->is_ready = pass_values(&sub->ready, count);
    *out_look = inbox_look(inbox, sub);
    return CODE_OK;
}

/* ---- a new connection ------------------------------------------------------------------------ */

/* Moves the position of a stream behind this frame, which is unread. */
static enum wire_code position_frame(struct inbox *inbox, struct inbox_sub *sub,
                                     const struct frame *frame)
{
    unsigned kind = frame->flags & FRAME_KIND_MASK;
    if (kind == FRAME_TOPIC || kind == FRAME_RESERVE ||
        frame->seq + frame->more >= ACK_PREFIX_SEQ_MAX)
        return CODE_OK; /* it has no position; inbox_look() reports a wrong one */
    struct inbox_stream *stream;
    enum wire_code code = stream_open(inbox, sub, frame->topic, &stream);
    if (code != CODE_OK)
        return code;
    struct frame_gap gap;
    struct frame_chunk chunk;
    uint64_t end = frame->seq + frame_count(frame);
    uint64_t offset = 0;
    if (kind == FRAME_GAP && frame_gap_decode(frame->value, &gap) == WIRE_OK &&
        gap.count <= ACK_PREFIX_SEQ_MAX - frame->seq)
        end = gap.reason == GAP_ATTEMPT ? 0 : frame->seq + gap.count;
    if (kind == FRAME_CHUNK && frame_chunk_decode(frame->value, &chunk) == WIRE_OK &&
        chunk.offset + chunk.bytes.bytes < chunk.total_bytes) {
        end = frame->seq;
        offset = chunk.offset + chunk.bytes.bytes;
    }
    stream->is_party = kind == FRAME_END;
    if (end < stream->position_seq)
        return CODE_OK;
    if (end > stream->position_seq || offset > stream->position_offset)
        stream->position_offset = offset;
    stream->position_seq = end;
    return CODE_OK;
}

static enum wire_code position_batch(struct inbox *inbox, struct inbox_sub *sub, uint32_t index)
{
    struct batch_reader reader = sub->reader;
    bool is_under_way = index == 0 && sub->is_reading;
    if (!is_under_way &&
        batch_reader_init(&reader, buffer_span(batch_at(sub, index)->part)) != WIRE_OK)
        return CODE_EPROTO;
    struct frame frame;
    enum wire_err err;
    while ((err = batch_reader_next(&reader, &frame)) == WIRE_OK) {
        enum wire_code code = position_frame(inbox, sub, &frame);
        if (code != CODE_OK)
            return code;
    }
    return err == WIRE_EMPTY ? CODE_OK : CODE_EPROTO;
}

enum wire_code inbox_positions(struct inbox *inbox)
{
    struct inbox_stream *stream = NULL;
    while ((stream = pool_next(&inbox->streams, stream != NULL ? stream->id : 0)) != NULL) {
        stream->position_seq = stream->next_seq;
        stream->position_offset = assembly_offset(&stream->assembly, stream->next_seq);
    }
    struct inbox_sub *sub = NULL;
    while ((sub = pool_next(&inbox->subs, sub != NULL ? sub->id : 0)) != NULL) {
        for (uint32_t i = 0; i < sub->count; i++) {
            enum wire_code code = position_batch(inbox, sub, i);
            if (code != CODE_OK)
                return code;
        }
    }
    return CODE_OK;
}

/* Drops the tasks that were not handed out.  The client does not name them to the broker, which
 * therefore sends them again. */
static void drop_unread(struct inbox_sub *sub)
{
    buffer_unref(&sub->ready_value);
    sub->is_ready = false;
    while (sub->count > 0)
        pop(sub);
}

void inbox_reconnect(struct inbox *inbox)
{
    inbox->connection += 1;
    struct inbox_sub *sub = NULL;
    while ((sub = pool_next(&inbox->subs, sub != NULL ? sub->id : 0)) != NULL) {
        sub->received = 0;
        sub->taken = 0;
        sub->taken_told = 0;
        sub->lag_told = 0;
        if (sub->is_shared)
            drop_unread(sub);
    }
    struct inbox_stream *stream = NULL;
    while ((stream = pool_next(&inbox->streams, stream != NULL ? stream->id : 0)) != NULL)
        if (stream->sub->is_shared)
            assembly_drop(&stream->assembly);
}
