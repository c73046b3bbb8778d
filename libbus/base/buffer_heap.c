/* SPDX-License-Identifier: MPL-2.0 */
/* buffer_heap.c -- reference-counted bytes on the heap of the C library. */
#include "libbus/base/buffer.h"

#include <stdlib.h>
#include <sys/mman.h>

enum { HEADER_BYTES = (sizeof(struct buffer) + 15) / 16 * 16, PAGE_BYTES = 4096 };

/* What is larger the GNU C library takes from the system at once and gives back at once
 * (DEFAULT_MMAP_THRESHOLD_MAX). */
#define HEAP_BYTES_MAX ((size_t)32 * 1024 * 1024)

/* In large pages, where the system has them: a page fault for each 4 KiB was a third of the time
 * that a value of 64 MiB takes, at its writer and at its reader (bench/README.md).  The C library's
 * own header before it, and what is behind, stay as they are. */
static void ask_for_large_pages(void *block, size_t bytes)
{
    size_t skipped = PAGE_BYTES - (uintptr_t)block % PAGE_BYTES;
    size_t whole = (bytes - skipped) / PAGE_BYTES * PAGE_BYTES;
    (void)madvise((uint8_t *)block + skipped, whole, MADV_HUGEPAGE); /* or not: it is as good */
}

static void heap_release(struct buffer *buffer)
{
    free(buffer);
}

struct buffer *buffer_new(size_t room)
{
    if (room > SIZE_MAX - HEADER_BYTES)
        return NULL;
    struct buffer *buffer = malloc(HEADER_BYTES + room);
    if (buffer == NULL)
        return NULL;
    if (room > HEAP_BYTES_MAX)
        ask_for_large_pages(buffer, HEADER_BYTES + room);
    atomic_init(&buffer->refs, 1);
    buffer->data = (uint8_t *)buffer + HEADER_BYTES;
    buffer->bytes = 0;
    buffer->room = room;
    buffer->release = heap_release;
    buffer->owner = NULL;
    return buffer;
}
