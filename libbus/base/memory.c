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

void memory_give(struct memory *memory, void *block, size_t bytes)
{
    if (block == NULL)
        return;
    must(memory->bytes_used >= bytes);
    (void)memory->resize(memory, block, bytes, 0); /* freeing gives NULL */
    memory->bytes_used -= bytes;
}
