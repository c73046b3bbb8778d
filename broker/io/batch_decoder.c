/* SPDX-License-Identifier: MPL-2.0 */
/* batch_decoder.c -- a received batch as the core needs to know it; see batch_decoder.h. */
#include "broker/io/batch_decoder.h"

#include "libbus/base/limits.h"

#include <string.h>

enum { ROOM_FIRST = 256 };

void batch_decoder_init(struct batch_decoder *decoder, struct memory *memory)
{
    *decoder = (struct batch_decoder){.memory = memory};
}

void batch_decoder_fini(struct batch_decoder *decoder)
{
    memory_give(decoder->memory, decoder->items, decoder->room * sizeof *decoder->items);
    *decoder = (struct batch_decoder){.memory = decoder->memory};
}

static struct event_range *decoder_append(struct batch_decoder *decoder)
{
    if (decoder->count == decoder->room) {
        uint32_t room = decoder->room > 0 ? decoder->room * 2 : ROOM_FIRST;
        size_t size = sizeof *decoder->items;
        struct event_range *items =
            memory_resize(decoder->memory, decoder->items, decoder->room * size, room * size);
        if (items == NULL)
            return NULL;
        decoder->items = items;
        decoder->room = room;
    }
    return &decoder->items[decoder->count++];
}

bool batch_decoder_is_batch(struct span part)
{
    static const uint8_t head[] = {0x95, 0xcd, BATCH_NUMBER >> 8, BATCH_NUMBER & 0xff};
    return part.bytes >= sizeof head && memcmp(part.data, head, sizeof head) == 0;
}

/* What the value of a RESERVE, CHUNK or TOPIC says, into the range. */
static enum wire_err read_value(struct event_range *range, struct span value)
{
    enum wire_err err = WIRE_OK;
    struct frame_reserve reserve;
    struct frame_chunk chunk;
    switch (range->kind) {
    case FRAME_VALUE: break;
    case FRAME_COMMIT: break;
    case FRAME_RESERVE:
        err = frame_reserve_decode(value, &reserve);
        if (err != WIRE_OK)
            break;
        range->deadline_ms = reserve.deadline_ms;
        range->value_bytes_max = reserve.value_bytes_max;
        range->need_count = reserve.need_count;
        range->needs = reserve.needs;
        break;
    case FRAME_CHUNK:
        err = frame_chunk_decode(value, &chunk);
        if (err != WIRE_OK)
            break;
        range->chunk_total = chunk.total_bytes;
        range->chunk_offset = chunk.offset;
        range->chunk_bytes = (uint32_t)chunk.bytes.bytes;
        break;
    case FRAME_TOPIC: range->name = value; break;
    case FRAME_ERROR:
    case FRAME_GAP:
    case FRAME_END:
    case FRAME_KIND_COUNT: err = WIRE_LANE; break;
    }
    return err;
}

static enum wire_err append_range(struct batch_decoder *decoder, const struct frame *frame,
                                  size_t offset)
{
    struct event_range *range = decoder_append(decoder);
    if (range == NULL)
        return WIRE_FULL;
    *range = (struct event_range){
        .kind = (enum frame_kind)(frame->flags & FRAME_KIND_MASK),
        .attempt = frame->attempt,
        .topic = frame->topic,
        .seq = frame->seq,
        .count = frame_count(frame),
        .stamp_ns = frame->stamp_ns,
        .offset = (uint32_t)offset,
        .value_bytes = (uint32_t)frame->value.bytes,
        .deadline_ms = -1,
        .reply_to = frame->reply_to,
    };
    return read_value(range, frame->value);
}

enum wire_err batch_decoder_read(struct batch_decoder *decoder, struct span part)
{
    struct batch_reader reader;
    struct frame frame;
    decoder->count = 0;
    enum wire_err err = batch_reader_init(&reader, part);
    if (err != WIRE_OK)
        return err;
    decoder->number = reader.number;
    size_t offset = reader.at;
    while ((err = batch_reader_next(&reader, &frame)) == WIRE_OK) {
        err = append_range(decoder, &frame, offset);
        if (err != WIRE_OK)
            return err;
        offset = reader.at;
    }
    return err == WIRE_EMPTY ? WIRE_OK : err;
}
