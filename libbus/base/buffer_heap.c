/* SPDX-License-Identifier: MPL-2.0 */
/* buffer_heap.c -- counted bytes on the heap of the C library. */
#include "libbus/base/buffer.h"

#include <stdlib.h>

static void heap_release(struct buffer *buffer)
{
    free(buffer);
}

struct buffer *buffer_new(size_t room)
{
    enum { HEADER = (sizeof(struct buffer) + 15) / 16 * 16 };
    if (room > SIZE_MAX - HEADER)
        return NULL;
    struct buffer *buffer = malloc(HEADER + room);
    if (buffer == NULL)
        return NULL;
    atomic_init(&buffer->refs, 1);
    buffer->data = (uint8_t *)buffer + HEADER;
    buffer->bytes = 0;
    buffer->room = room;
    buffer->release = heap_release;
    buffer->owner = NULL;
    return buffer;
}
