/* SPDX-License-Identifier: MPL-2.0 */
/* memory.c -- counts and bounds what an allocator gives; see memory.h. */
#include "libbus/base/memory.h"

#include "libbus/base/must.h"

#include <string.h>

void *memory_resize(struct memory *memory, void *block, size_t old_bytes, size_t new_bytes)
{
    must(memory->bytes_used >= old_bytes);
    memory->calls += 1;
    if (new_bytes > old_bytes && memory->bytes_max - memory->bytes_used < new_bytes - old_bytes)
        return NULL;
    void *grown = memory->resize(memory, block, old_bytes, new_bytes);
    if (grown == NULL && new_bytes > 0)
        return NULL;
    memory->bytes_used = memory->bytes_used - old_bytes + new_bytes;
    if (new_bytes > old_bytes)
        memset((char *)grown + old_bytes, 0, new_bytes - old_bytes);
    return grown;
}

void *memory_take(struct memory *memory, size_t bytes)
{
    must(bytes > 0);
    return memory_resize(memory, NULL, 0, bytes);
}

void *memory_grow_ring(struct memory *memory, void *ring, size_t element_bytes,
                       const struct ring_use *use, uint32_t larger)
{
    must(larger >= use->count);
    char *grown = memory_take(memory, larger * element_bytes);
    if (grown == NULL)
        return NULL;
    uint32_t to_end = use->room - use->head;
    uint32_t first = use->count < to_end ? use->count : to_end;
    if (first > 0)
        memcpy(grown, (char *)ring + use->head * element_bytes, first * element_bytes);
    if (use->count > first)
        memcpy(grown + first * element_bytes, ring, (use->count - first) * element_bytes);
    memory_give(memory, ring, use->room * element_bytes);
    return grown;
}

void memory_give(struct memory *memory, void *block, size_t bytes)
{
    if (block == NULL)
        return;
    must(memory->bytes_used >= bytes);
    (void)memory->resize(memory, block, bytes, 0); /* freeing gives NULL */
    memory->bytes_used -= bytes;
}
