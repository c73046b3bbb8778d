/* SPDX-License-Identifier: MPL-2.0 */
/* memory_heap.c -- the allocator hook over the heap of the C library. */
#include "libbus/base/memory.h"

#include <stdlib.h>

static void *heap_resize(struct memory *memory, void *block, size_t old_bytes, size_t new_bytes)
{
    (void)memory;    /* the heap has no state of its own */
    (void)old_bytes; /* and knows the sizes itself */
    if (new_bytes == 0) {
        free(block);
        return NULL;
    }
    return realloc(block, new_bytes);
}

void memory_heap_init(struct memory *memory, uint64_t bytes_max)
{
    *memory = (struct memory){.resize = heap_resize, .bytes_max = bytes_max};
}
