/* SPDX-License-Identifier: MPL-2.0 */
/* assembly.c -- see assembly.h. */
#include "libbus/session/assembly.h"

#include <string.h>

void assembly_drop(struct assembly *assembly)
{
    buffer_unref(&assembly->value);
}

uint64_t assembly_offset(const struct assembly *assembly, uint64_t seq)
{
    return assembly->value != NULL && assembly->seq == seq ? assembly->value->bytes : 0;
}

static enum assembly_verdict begin(struct assembly *assembly, const struct frame *frame,
                                   const struct frame_chunk *chunk, uint64_t value_bytes_max)
{
    if (chunk->offset != 0 || chunk->total_bytes > value_bytes_max)
        return ASSEMBLY_BROKEN;
    assembly_drop(assembly);
    assembly->value = buffer_new((size_t)chunk->total_bytes);
    if (assembly->value == NULL)
        return ASSEMBLY_NO_MEMORY;
    assembly->seq = frame->seq;
    assembly->stamp_ns = frame->stamp_ns;
    assembly->total_bytes = chunk->total_bytes;
    return ASSEMBLY_GOES_ON;
}

enum assembly_verdict assembly_add(struct assembly *assembly, const struct frame *frame,
                                   uint64_t value_bytes_max)
{
    struct frame_chunk chunk;
    if (frame_chunk_decode(frame->value, &chunk) != WIRE_OK || chunk.bytes.bytes == 0)
        return ASSEMBLY_BROKEN;
    if (assembly->value == NULL || assembly->seq != frame->seq ||
        assembly->stamp_ns != frame->stamp_ns) {
        enum assembly_verdict verdict = begin(assembly, frame, &chunk, value_bytes_max);
        if (verdict != ASSEMBLY_GOES_ON)
            return verdict;
    }
    struct buffer *value = assembly->value;
    if (chunk.total_bytes != assembly->total_bytes || chunk.offset > value->bytes)
        return ASSEMBLY_BROKEN;
    size_t known = value->bytes - (size_t)chunk.offset;
    if (chunk.bytes.bytes > known) {
        size_t fresh = chunk.bytes.bytes - known;
        memcpy(value->data + value->bytes, (const uint8_t *)chunk.bytes.data + known, fresh);
        value->bytes += fresh;
    }
    bool is_whole = value->bytes == assembly->total_bytes;
    if ((frame->flags & FRAME_LAST_CHUNK) != 0 && !is_whole)
        return ASSEMBLY_BROKEN;
    return is_whole ? ASSEMBLY_WHOLE : ASSEMBLY_GOES_ON;
}
