/* SPDX-License-Identifier: MPL-2.0 */
/* failing_buffers.h -- for tests: buffers that are not to be had from some time on.
 *
 * Defines what libbus/base/buffer_heap.c defines; so that file is not fetched from the archive. */
#ifndef TESTS_UNIT_FAILING_BUFFERS_H
#define TESTS_UNIT_FAILING_BUFFERS_H

#include "libbus/base/buffer.h"

#include <stdlib.h>

/* So many more are made; then so many are not; then all are again. */
static uint64_t buffers_left = UINT64_MAX;
static uint64_t buffers_missing = UINT64_MAX;

static void failing_release(struct buffer *buffer)
{
    free(buffer);
}

struct buffer *buffer_new(size_t room)
{
    if (buffers_left == 0 && buffers_missing > 0) {
        buffers_missing -= buffers_missing != UINT64_MAX;
        return NULL;
    }
    if (buffers_left == 0)
        buffers_left = UINT64_MAX;
    buffers_left -= buffers_left != UINT64_MAX;
    struct buffer *buffer = malloc(sizeof *buffer + 8 + room);
    if (buffer == NULL)
        return NULL;
    atomic_init(&buffer->refs, 1);
    buffer->data = (uint8_t *)(((uintptr_t)(buffer + 1) + 7) / 8 * 8);
    buffer->bytes = 0;
    buffer->room = room;
    buffer->release = failing_release;
    buffer->owner = NULL;
    return buffer;
}

#endif
