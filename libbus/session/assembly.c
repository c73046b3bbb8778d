/* SPDX-License-Identifier: MPL-2.0 */
/* assembly.c -- see assembly.h. */
#include "libbus/session/assembly.h"

#include "libbus/base/must.h"

#include <string.h>

void assembly_drop(struct assembly *assembly)
{
    buffer_unref(&assembly->value);
    assembly->is_begun = false;
}

struct buffer *assembly_take(struct assembly *assembly)
{
    struct buffer *value = assembly->value;
    must(value != NULL);
    assembly->value = NULL;
    assembly->is_begun = false;
    return value;
}

static uint64_t have(const struct assembly *assembly)
{
    return assembly->value != NULL ? assembly->value->bytes : assembly->passed;
}

uint64_t assembly_offset(const struct assembly *assembly, uint64_t seq)
{
    return assembly->is_begun && assembly->seq == seq ? have(assembly) : 0;
}

static bool is_of(const struct assembly *assembly, const struct frame *frame)
{
    return assembly->is_begun && assembly->seq == frame->seq &&
           assembly->stamp_ns == frame->stamp_ns;
}

static void begin_value(struct assembly *assembly, const struct frame *frame, uint64_t total_bytes,
                        struct buffer *value)
{
    assembly_drop(assembly);
    *assembly = (struct assembly){.is_begun = true,
                                  .value = value,
                                  .seq = frame->seq,
                                  .stamp_ns = frame->stamp_ns,
                                  .total_bytes = total_bytes};
}

/* Decodes the chunk in a frame; false: the frame has none, or one that may not begin a value. */
static bool read_chunk(const struct assembly *assembly, const struct frame *frame,
                       uint64_t value_bytes_max, struct frame_chunk *chunk)
{
    if (frame_chunk_decode(frame->value, chunk) != WIRE_OK || chunk->bytes.bytes == 0)
        return false;
    return is_of(assembly, frame) || (chunk->offset == 0 && chunk->total_bytes <= value_bytes_max);
}

/* The bytes of a chunk that did not come before; false: it does not fit the value under way. */
static bool fresh_of(const struct assembly *assembly, const struct frame *frame,
                     const struct frame_chunk *chunk, struct span *out_fresh)
{
    uint64_t begin = have(assembly);
    uint64_t end = chunk->offset + chunk->bytes.bytes;
    bool is_last = (end > begin ? end : begin) == assembly->total_bytes;
    if (chunk->total_bytes != assembly->total_bytes || chunk->offset > begin ||
        ((frame->flags & FRAME_LAST_CHUNK) != 0 && !is_last))
        return false;
    size_t known = (size_t)(begin - chunk->offset);
    *out_fresh = chunk->bytes.bytes > known ? span_of((const uint8_t *)chunk->bytes.data + known,
                                                      chunk->bytes.bytes - known)
                                            : SPAN_NONE;
    return true;
}

enum assembly_verdict assembly_add(struct assembly *assembly, const struct frame *frame,
                                   uint64_t value_bytes_max)
{
    struct frame_chunk chunk;
    struct span fresh;
    if (!read_chunk(assembly, frame, value_bytes_max, &chunk))
        return ASSEMBLY_BROKEN;
    if (!is_of(assembly, frame)) {
        struct buffer *room = buffer_new((size_t)chunk.total_bytes);
        if (room == NULL)
            return ASSEMBLY_NO_MEMORY;
        begin_value(assembly, frame, chunk.total_bytes, room);
    }
    if (!fresh_of(assembly, frame, &chunk, &fresh))
        return ASSEMBLY_BROKEN;
    struct buffer *value = assembly->value;
    if (fresh.bytes > 0)
        memcpy(value->data + value->bytes, fresh.data, fresh.bytes);
    value->bytes += fresh.bytes;
    return value->bytes == assembly->total_bytes ? ASSEMBLY_WHOLE : ASSEMBLY_GOES_ON;
}

enum assembly_verdict assembly_pass(struct assembly *assembly, const struct frame *frame,
                                    uint64_t value_bytes_max, struct assembly_piece *out_piece)
{
    struct frame_chunk chunk;
    struct span fresh;
    if (!read_chunk(assembly, frame, value_bytes_max, &chunk))
        return ASSEMBLY_BROKEN;
    if (!is_of(assembly, frame))
        begin_value(assembly, frame, chunk.total_bytes, NULL);
    if (!fresh_of(assembly, frame, &chunk, &fresh))
        return ASSEMBLY_BROKEN;
    *out_piece = (struct assembly_piece){
        .bytes = fresh, .offset = assembly->passed, .total_bytes = assembly->total_bytes};
    assembly->passed += fresh.bytes;
    if (assembly->passed < assembly->total_bytes)
        return ASSEMBLY_GOES_ON;
    assembly->is_begun = false;
    return ASSEMBLY_WHOLE;
}
