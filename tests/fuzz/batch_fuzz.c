/* SPDX-License-Identifier: MPL-2.0 */
/* batch_fuzz.c -- foreign bytes as a batch: every value lies within the part, and what is read is
 * what is written from it. */
#include "libbus/base/must.h"
#include "libbus/wire/frame.h"

#include <stdint.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void read_value(const struct frame *frame)
{
    struct frame_reserve reserve;
    struct frame_chunk chunk;
    struct frame_gap gap;
    (void)frame_reserve_decode(frame->value, &reserve);
    (void)frame_gap_decode(frame->value, &gap);
    if (frame_chunk_decode(frame->value, &chunk) == WIRE_OK)
        must(chunk.bytes.bytes <= frame->value.bytes);
}

/* What was read, written again, is the same. */
static void write_again(const struct frame *frame, const uint8_t *header)
{
    static uint8_t again[LIMIT_PART_BYTES];
    frame_write(again, frame);
    must(memcmp(again, header, frame->frame_bytes) == 0);
}

static void read_frames(struct span part)
{
    struct batch_reader reader;
    struct frame frame;
    const uint8_t *first = part.data;
    if (batch_reader_init(&reader, part) != WIRE_OK)
        return;
    size_t at = reader.at;
    while (batch_reader_next(&reader, &frame) == WIRE_OK) {
        const uint8_t *value = frame.value.data;
        size_t behind = frame.more * frame_padded(frame.value.bytes) + frame.value.bytes;
        must(value == first + at + FRAME_HEADER_BYTES);
        must(behind <= (size_t)(first + part.bytes - value));
        must(frame.more == 0 || frame.value.bytes > 0);
        write_again(&frame, first + at);
        read_value(&frame);
        at = reader.at;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct span part = {data, bytes};
    uint32_t sub;
    read_frames(part);
    (void)delivery_header_read(part, &sub);
    return 0;
}
