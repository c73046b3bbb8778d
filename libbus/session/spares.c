/* SPDX-License-Identifier: MPL-2.0 */
/* spares.c -- see spares.h. */
#include "libbus/session/spares.h"

#include "libbus/base/limits.h"
#include "libbus/wire/frame.h"

/* The size of a part without its one chunk, padding included. */
#define CHUNK_PART_BYTES (BATCH_HEADER_BYTES + FRAME_HEADER_BYTES + FRAME_CHUNK_PREFIX_BYTES + 8)

/* In this order: a batch of one small frame, a batch of some, a full batch, one small chunk, the
 * largest batch, the largest chunk. */
static const size_t rooms[SPARE_SIZES] = {
    4096,
    32768,
    DEFAULT_BATCH_BYTES,
    CHUNK_PART_BYTES + DEFAULT_CHUNK_BYTES,
    LIMIT_BATCH_BYTES,
    CHUNK_PART_BYTES + LIMIT_CHUNK_BYTES,
};
/* At most 64 KiB, 512 KiB, 2 MiB, 2 MiB, 4 MiB and 4 MiB are kept. */
static const uint32_t counts_max[SPARE_SIZES] = {SPARES_EACH, SPARES_EACH, SPARES_EACH, 8, 8, 4};

static size_t size_for(size_t room)
{
    size_t size = 0;
    while (size < SPARE_SIZES && rooms[size] < room)
        size += 1;
    return size;
}

void spares_fini(struct spares *spares)
{
    for (size_t size = 0; size < SPARE_SIZES; size++)
        for (uint32_t i = 0; i < spares->counts[size]; i++)
            buffer_unref(&spares->kept[size][i]);
    *spares = (struct spares){0};
}

struct buffer *spares_take(struct spares *spares, size_t room)
{
    size_t size = size_for(room);
    if (size == SPARE_SIZES)
        return buffer_new(room);
    for (uint32_t i = spares->counts[size]; i-- > 0;) {
        struct buffer *buffer = spares->kept[size][i];
        if (atomic_load_explicit(&buffer->refs, memory_order_acquire) != 1)
            continue;
        spares->counts[size] -= 1;
        spares->kept[size][i] = spares->kept[size][spares->counts[size]];
        buffer->bytes = 0;
        return buffer;
    }
    return buffer_new(rooms[size]);
}

void spares_give(struct spares *spares, struct buffer **buffer)
{
    size_t size = size_for((*buffer)->room);
    if (size == SPARE_SIZES || rooms[size] != (*buffer)->room ||
        spares->counts[size] == counts_max[size]) {
        buffer_unref(buffer);
        return;
    }
    spares->kept[size][spares->counts[size]] = *buffer;
    spares->counts[size] += 1;
    *buffer = NULL;
}
