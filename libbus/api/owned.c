/* SPDX-License-Identifier: MPL-2.0 */
/* owned.c -- buffers around bytes of the application.  Their release calls the application, and so
 * waits until this thread holds no lock. */
#include "libbus/api/owned.h"

#include "libbus/api/model.h"

#include <stdlib.h>

API_OWN_THREAD struct api_thread api_thread;

struct owned {
    struct buffer buffer;
    void (*free_fn)(void *value, void *arg);
    void *arg;
    struct owned *next; /* while it is put aside */
};

static void owned_free(struct owned *owned)
{
    if (owned->free_fn != NULL)
        owned->free_fn(owned->buffer.data, owned->arg);
    free(owned);
}

static void owned_release(struct buffer *buffer)
{
    struct owned *owned = buffer->owner;
    if (api_thread.locks_held == 0) {
        owned_free(owned);
        return;
    }
    owned->next = api_thread.put_aside;
    api_thread.put_aside = owned;
}

void owned_release_put_aside(void)
{
    while (api_thread.put_aside != NULL) {
        struct owned *owned = api_thread.put_aside;
        api_thread.put_aside = owned->next;
        owned_free(owned);
    }
}

struct buffer *owned_new(void *value, size_t value_bytes, void (*free_fn)(void *, void *),
                         void *arg)
{
    struct owned *owned = calloc(1, sizeof *owned);
    if (owned == NULL)
        return NULL;
    atomic_init(&owned->buffer.refs, 1);
    owned->buffer.data = value;
    owned->buffer.bytes = value_bytes;
    owned->buffer.room = value_bytes;
    owned->buffer.release = owned_release;
    owned->buffer.owner = owned;
    owned->free_fn = free_fn;
    owned->arg = arg;
    return &owned->buffer;
}

void owned_discard(struct buffer **buffer)
{
    struct owned *owned = (*buffer)->owner;
    owned->free_fn = NULL;
    buffer_unref(buffer);
}
