/* SPDX-License-Identifier: MPL-2.0 */
/* batch_fuzz.c -- foreign bytes as a batch: every frame lies within the part, and frames and runs
 * tell the same. */
#include "libbus/base/must.h"
#include "libbus/wire/frame.h"

#include <stdint.h>

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

/* How many frames can be read one by one. */
static uint64_t count_frames(struct span part, enum wire_err *out_err)
{
    struct batch_reader reader;
    struct frame frame;
    uint64_t count = 0;
    *out_err = batch_reader_init(&reader, part);
    while (*out_err == WIRE_OK) {
        *out_err = batch_reader_next(&reader, &frame);
        if (*out_err != WIRE_OK)
            break;
        const uint8_t *value = frame.value.data;
        const uint8_t *first = part.data;
        must(value >= first && frame.value.bytes <= (size_t)(first + part.bytes - value));
        read_value(&frame);
        count += 1;
    }
    return count;
}

/* How many in runs. */
static uint64_t count_in_runs(struct span part, enum wire_err *out_err)
{
    struct batch_reader reader;
    struct batch_run run;
    uint64_t count = 0;
    *out_err = batch_reader_init(&reader, part);
    while (*out_err == WIRE_OK) {
        *out_err = batch_reader_next_run(&reader, &run);
        if (*out_err != WIRE_OK)
            break;
        must(run.count > 0 && run.offset + (uint64_t)run.count * run.stride <= part.bytes);
        count += run.count;
    }
    return count;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct span part = {data, bytes};
    enum wire_err by_frame;
    enum wire_err by_run;
    uint32_t sub;
    uint64_t frames = count_frames(part, &by_frame);
    must(count_in_runs(part, &by_run) == frames || by_frame != WIRE_EMPTY);
    must((by_frame == WIRE_EMPTY) == (by_run == WIRE_EMPTY));
    (void)delivery_header_read(part, &sub);
    return 0;
}
