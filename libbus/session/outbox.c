/* SPDX-License-Identifier: MPL-2.0 */
/* outbox.c -- batches of frames; see outbox.h. */
#include "libbus/session/outbox.h"

#include "libbus/base/limits.h"
#include "libbus/base/must.h"

#include <string.h>

enum { RING_ROOM_MIN = 16 };

void outbox_init(struct outbox *outbox, struct memory *memory, struct spares *spares)
{
    *outbox = (struct outbox){.memory = memory,
                              .spares = spares,
                              .unaccepted_max = OUTBOX_UNACCEPTED_MAX,
                              .pause_ns = INT64_MAX};
}

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

static struct outbox_batch *batch_at(const struct outbox *outbox, uint32_t index)
{
    return &outbox->ring[(outbox->head + index) & (outbox->room - 1)];
}

void outbox_fini(struct outbox *outbox)
{
    for (uint32_t i = 0; i < outbox->count; i++)
        buffer_unref(&batch_at(outbox, i)->part);
    buffer_unref(&outbox->open);
    memory_give(outbox->memory, outbox->ring, outbox->room * sizeof *outbox->ring);
    outbox_init(outbox, outbox->memory, outbox->spares);
}

static void set_alone_bytes(struct outbox *outbox)
{
    bool is_shared = outbox->pause_ns < INT64_MAX;
    outbox->alone_bytes = is_shared && !outbox->is_far ? OUTBOX_ALONE_BYTES : 0;
}

void outbox_see_disk(struct outbox *outbox, enum outbox_disk disk)
{
    outbox->small_max = disk != OUTBOX_NO_DISK ? OUTBOX_UNACCEPTED_SMALL : 0;
    outbox->small_bytes = disk == OUTBOX_OWN_DISK ? OUTBOX_SMALL_BYTES : 0;
    outbox->pause_ns = disk == OUTBOX_SHARED_DISK ? OUTBOX_PAUSE_NS : INT64_MAX;
    set_alone_bytes(outbox);
}

void outbox_see_link(struct outbox *outbox, bool is_far)
{
    outbox->is_far = is_far;
    outbox->unaccepted_max = is_far ? OUTBOX_UNACCEPTED_FAR : OUTBOX_UNACCEPTED_MAX;
    set_alone_bytes(outbox);
}

static bool ring_reserve(struct outbox *outbox)
{
    if (outbox->count < outbox->room)
        return true;
    uint32_t room = outbox->room > 0 ? outbox->room * 2 : RING_ROOM_MIN;
    const struct ring_use use = {outbox->room, outbox->head, outbox->count};
    struct outbox_batch *ring =
        memory_grow_ring(outbox->memory, outbox->ring, sizeof *ring, &use, room);
    if (ring == NULL)
        return false;
    outbox->ring = ring;
    outbox->room = room;
    outbox->head = 0;
    return true;
}

static void close_tail(struct outbox *outbox)
{
    if (outbox->tail.offset > 0)
        frame_header_write(outbox->open->data + outbox->tail.offset, &outbox->tail.frame);
    outbox->tail = (struct outbox_tail){.offset = 0};
}

static void seal(struct outbox *outbox)
{
    must(outbox->open_frames > 0 && outbox->count < outbox->room);
    close_tail(outbox);
    struct buffer *part = outbox->open;
    batch_header_write(part->data, outbox->open_frames,
                       (uint32_t)(part->bytes - BATCH_HEADER_BYTES), outbox->open_first);
    outbox->likely_bytes = least(part->bytes, LIMIT_BATCH_BYTES);
    outbox->count += 1;
    *batch_at(outbox, outbox->count - 1) = (struct outbox_batch){part, outbox->last};
    outbox->open = NULL;
    outbox->open_frames = 0;
}

/* The size to which a batch with such a frame may grow.  The broker asks for less than the default
 * where the link is slow: a batch of any frames would be a queue there. */
static inline size_t most_for(size_t frame_bytes, uint64_t batch_bytes)
{
    bool is_large = frame_bytes >= OUTBOX_BULK_FRAME_BYTES && batch_bytes >= DEFAULT_BATCH_BYTES;
    return is_large ? LIMIT_BATCH_BYTES : (size_t)batch_bytes;
}

/* Whether a frame of so many bytes may join the open batch. */
static inline bool joins(const struct outbox *outbox, size_t frame_bytes, size_t most)
{
    return outbox->open_frames == 0 ||
           (outbox->open->bytes + frame_bytes <= most && outbox->open_frames < LIMIT_BATCH_FRAMES);
}

static bool open_batch(struct outbox *outbox, size_t frame_bytes)
{
    if (!ring_reserve(outbox))
        return false;
    size_t room = BATCH_HEADER_BYTES + frame_bytes;
    if (room < outbox->likely_bytes)
        room = outbox->likely_bytes;
    outbox->open = spares_take(outbox->spares, room);
    if (outbox->open == NULL)
        return false;
    outbox->open->bytes = BATCH_HEADER_BYTES;
    outbox->open_first = outbox->last + 1;
    return true;
}

/* A batch begins in a small buffer, because most batches stay small.  As it grows, it moves to a
 * larger one. */
static bool grow_open(struct outbox *outbox, size_t frame_bytes)
{
    struct buffer *grown = spares_take(outbox->spares, outbox->open->bytes + frame_bytes);
    if (grown == NULL)
        return false;
    memcpy(grown->data, outbox->open->data, outbox->open->bytes);
    grown->bytes = outbox->open->bytes;
    spares_give(outbox->spares, &outbox->open);
    outbox->open = grown;
    return true;
}

static bool make_room(struct outbox *outbox, size_t frame_bytes, size_t most)
{
    if (outbox->open != NULL && !joins(outbox, frame_bytes, most))
        seal(outbox);
    if (outbox->open == NULL && !open_batch(outbox, frame_bytes))
        return false;
    return outbox->open->room - outbox->open->bytes >= frame_bytes ||
           grow_open(outbox, frame_bytes);
}

/* How many bytes of values may join a frame at this offset.  Three limits hold: of a frame, of the
 * batch, and of the buffer as it is.  Only a new frame gets a larger buffer. */
static size_t joining_room(const struct outbox *outbox, const struct frame *frame, size_t offset,
                           uint64_t batch_bytes)
{
    if (frame->flags != FRAME_VALUE || frame->value.bytes == 0 || frame->delivery != 1 ||
        frame->reply_to != FRAME_NO_REPLY)
        return 0;
    size_t bytes = frame_padded(frame->value.bytes);
    size_t end = offset + frame_total(frame->value.bytes);
    size_t frame_room =
        bytes < LIMIT_CHUNK_BYTES ? least(FRAME_MORE_MAX * bytes, LIMIT_CHUNK_BYTES - bytes) : 0;
    size_t batch_room = least(most_for(bytes, batch_bytes), outbox->open->room);
    return batch_room > end ? least(frame_room, batch_room - end) : 0;
}

bool outbox_append(struct outbox *outbox, const struct frame *frame, uint64_t batch_bytes)
{
    size_t bytes = frame_total(frame->value.bytes);
    size_t most = most_for(bytes, batch_bytes);
    must(BATCH_HEADER_BYTES + bytes <= LIMIT_PART_BYTES && frame->more == 0);
    struct buffer *open = outbox->open;
    if (open == NULL || open->room - open->bytes < bytes || !joins(outbox, bytes, most)) {
        if (!make_room(outbox, bytes, most))
            return false;
        open = outbox->open;
    }
    close_tail(outbox);
    outbox->tail =
        (struct outbox_tail){.frame = *frame,
                             .offset = open->bytes,
                             .next_seq = frame->seq + 1,
                             .joining_room = joining_room(outbox, frame, open->bytes, batch_bytes)};
    outbox->tail.frame.value.data = NULL; /* it is the caller's memory */
    frame_value_write(open->data + open->bytes + FRAME_HEADER_BYTES, frame->value);
    open->bytes += bytes;
    outbox->bytes += bytes;
    outbox->last += 1;
    outbox->open_frames += 1;
    return true;
}

/* How many of these values lie in memory one behind the other, as in a frame. */
static size_t count_together(const struct span *values, size_t count)
{
    size_t together = 1;
    const uint8_t *at = values[0].data;
    if (frame_padded(values[0].bytes) != values[0].bytes)
        return together;
    while (together < count && values[together].bytes == values[0].bytes &&
           values[together].data == at + together * values[0].bytes)
        together++;
    return together;
}

size_t outbox_join_many(struct outbox *outbox, const struct outbox_value *value,
                        const struct span *values, size_t count)
{
    if (!outbox_may_join(outbox, value))
        return 0;
    size_t padded = frame_padded(value->value.bytes);
    size_t most = least(count, outbox->tail.joining_room / padded);
    uint8_t *out = outbox->open->data + outbox->open->bytes;
    size_t done = 0;
    while (done < most && values[done].bytes == value->value.bytes) {
        size_t together = count_together(&values[done], most - done);
        if (together > 1)
            memcpy(out + done * padded, values[done].data, together * padded);
        else
            frame_value_write(out + done * padded, values[done]);
        done += together;
    }
    outbox_joined(outbox, (uint32_t)done, done * padded);
    return done;
}

struct outbox_point outbox_point(const struct outbox *outbox)
{
    return (struct outbox_point){.count = outbox->count,
                                 .is_open = outbox->open != NULL,
                                 .open_bytes = outbox->open != NULL ? outbox->open->bytes : 0,
                                 .open_frames = outbox->open_frames,
                                 .open_first = outbox->open_first,
                                 .tail = outbox->tail,
                                 .last = outbox->last,
                                 .bytes = outbox->bytes};
}

void outbox_back(struct outbox *outbox, struct outbox_point point)
{
    must(outbox->sent_count <= point.count);
    /* The batch that was open at the point may have been sealed since: then it opens again. */
    while (outbox->count > point.count) {
        if (outbox->open != NULL)
            spares_give(outbox->spares, &outbox->open);
        outbox->open = batch_at(outbox, outbox->count - 1)->part;
        outbox->count -= 1;
    }
    if (!point.is_open && outbox->open != NULL)
        spares_give(outbox->spares, &outbox->open);
    outbox->tail = point.tail;
    if (outbox->open != NULL)
        outbox->open->bytes = point.open_bytes;
    outbox->open_frames = point.open_frames;
    outbox->open_first = point.open_first;
    outbox->last = point.last;
    outbox->bytes = point.bytes;
}

struct buffer *outbox_part(struct outbox *outbox, int64_t now_ns)
{
    if (!outbox_is_due(outbox, now_ns))
        return NULL;
    if (outbox->sent_count == outbox->count)
        seal(outbox);
    return batch_at(outbox, outbox->sent_count)->part;
}

void outbox_part_sent(struct outbox *outbox, int64_t now_ns)
{
    must(outbox->sent_count < outbox->count);
    outbox->sent = batch_at(outbox, outbox->sent_count)->last;
    outbox->under_way += batch_at(outbox, outbox->sent_count)->part->bytes;
    outbox->sent_count += 1;
    outbox->sent_ns = now_ns;
    if (outbox->sent_ever < outbox->sent)
        outbox->sent_ever = outbox->sent;
}

bool outbox_accept(struct outbox *outbox, uint64_t number)
{
    if (number > outbox->sent_ever)
        return false;
    if (outbox->accepted < number)
        outbox->accepted = number;
    if (outbox->sent < number)
        outbox->sent = number;
    while (outbox->count > 0 && batch_at(outbox, 0)->last <= number) {
        struct buffer *part = batch_at(outbox, 0)->part;
        outbox->bytes -= part->bytes - BATCH_HEADER_BYTES;
        outbox->under_way -= outbox->sent_count > 0 ? part->bytes : 0;
        spares_give(outbox->spares, &part);
        outbox->head = (outbox->head + 1) & (outbox->room - 1);
        outbox->count -= 1;
        outbox->sent_count -= outbox->sent_count > 0;
    }
    return true;
}

struct buffer *outbox_batch(struct outbox *outbox, uint32_t index)
{
    if (outbox->open_frames > 0)
        seal(outbox);
    return index < outbox->count ? batch_at(outbox, index)->part : NULL;
}

void outbox_rewind(struct outbox *outbox)
{
    outbox->sent_count = 0;
    outbox->under_way = 0;
    outbox->sent = outbox->accepted;
}
