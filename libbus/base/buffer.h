/* SPDX-License-Identifier: MPL-2.0 */
/* buffer.h -- reference-counted bytes: a received part, a batch, a value; made once, then shared.
 *
 * The bytes do not change once a second reference exists.  Any thread may drop a reference.  The
 * release function runs once, on the thread that drops the last one. */
#ifndef BASE_BUFFER_H
#define BASE_BUFFER_H

#include "libbus/base/memory.h"
#include "libbus/base/span.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

struct buffer {
    atomic_uint refs;
    uint8_t *data;
    size_t bytes;                           /* in use */
    size_t room;                            /* allocated, >= bytes */
    void (*release)(struct buffer *buffer); /* frees buffer and data */
    void *owner;                            /* for release */
};

/* One block for the header and room bytes behind it, aligned to 8, bytes = 0, one reference, from
 * the heap of the C library (buffer_heap.c); NULL: no memory.  [any] */
struct buffer *buffer_new(size_t room);
/* The same with a copy of these bytes. */
struct buffer *buffer_copy(struct span bytes);

static inline struct buffer *buffer_ref(struct buffer *buffer)
{
    atomic_fetch_add_explicit(&buffer->refs, 1, memory_order_relaxed);
    return buffer;
}

/* The same for count references at once. */
static inline void buffer_ref_many(struct buffer *buffer, unsigned count)
{
    atomic_fetch_add_explicit(&buffer->refs, count, memory_order_relaxed);
}

/* Drops one reference and sets the pointer to NULL; a NULL pointer is a no-op. */
static inline void buffer_unref(struct buffer **buffer)
{
    struct buffer *old = *buffer;
    *buffer = NULL;
    if (old != NULL && atomic_fetch_sub_explicit(&old->refs, 1, memory_order_acq_rel) == 1)
        old->release(old);
}

static inline struct span buffer_span(const struct buffer *buffer)
{
    return span_of(buffer->data, buffer->bytes);
}

#endif
