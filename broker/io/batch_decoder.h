/* SPDX-License-Identifier: MPL-2.0 */
/* batch_decoder.h -- a received batch as the core needs to know it: one record for each frame, that
 * is for each range of values. */
#ifndef IO_BATCH_DECODER_H
#define IO_BATCH_DECODER_H

#include "broker/core/tables/event.h"
#include "libbus/base/memory.h"
#include "libbus/base/span.h"
#include "libbus/wire/frame.h"

#include <stdbool.h>
#include <stdint.h>

/* Used again for each batch; grows to the largest seen, at most LIMIT_BATCH_FRAMES. */
struct batch_decoder {
    struct memory *memory;
    struct event_range *items;
    uint32_t count, room;
    uint64_t number; /* of the batch's first frame */
};

void batch_decoder_init(struct batch_decoder *decoder, struct memory *memory);
void batch_decoder_fini(struct batch_decoder *decoder);

/* Whether a part of the data channel is a batch rather than a message. */
bool batch_decoder_is_batch(struct span part);

/* Reads a whole batch; ranges->items stand until the next call.
 * Errors: those of batch_reader_next(), frame_reserve_decode(), frame_chunk_decode();
 * WIRE_LANE: a frame that only the broker sends; WIRE_FULL: no memory. */
enum wire_err batch_decoder_read(struct batch_decoder *decoder, struct span part);

#endif
