/* SPDX-License-Identifier: MPL-2.0 */
/* memory.h -- memory for pure code: an allocator that the caller passes in, bounded and counted.
 *
 * Modules without I/O take memory only when they reserve something, so that settling cannot fail.
 * Tests pass an allocator that fails at the n-th call. */
#ifndef BASE_MEMORY_H
#define BASE_MEMORY_H

#include <stddef.h>
#include <stdint.h>

struct memory {
    /* As realloc and free in one, with the old size told: new_bytes 0 frees and gives NULL.  NULL
     * otherwise means: no memory, and the old block is as it was. */
    void *(*resize)(struct memory *memory, void *block, size_t old_bytes, size_t new_bytes);
    uint64_t bytes_used;
    uint64_t bytes_max; /* beyond it resize is not asked */
    uint64_t calls;     /* allocations so far, for tests that fail one */
};

struct ring_use {
    uint32_t room;
    uint32_t head;
    uint32_t count;
};

/* Zeroed memory, or NULL.  bytes > 0. */
void *memory_take(struct memory *memory, size_t bytes);
/* Grows or shrinks; what is new is zeroed; NULL: no memory, the old block stands. */
void *memory_resize(struct memory *memory, void *block, size_t old_bytes, size_t new_bytes);
/* A ring of room elements of which count are used, from head on: in a larger block, used from 0 on.
 * NULL: no memory, the old ring stands. */
void *memory_grow_ring(struct memory *memory, void *ring, size_t element_bytes,
                       const struct ring_use *use, uint32_t larger);
/* Gives back; NULL is a no-op. */
void memory_give(struct memory *memory, void *block, size_t bytes);

/* The heap of the C library (memory_heap.c, the one file of this folder that includes stdlib.h). */
void memory_heap_init(struct memory *memory, uint64_t bytes_max);

#endif
