/* SPDX-License-Identifier: MPL-2.0 */
/* owned.h -- buffers around bytes of the application; and what a thread remembers while it has
 * locks. */
#ifndef API_OWNED_H
#define API_OWNED_H

#include "libbus/api/model.h"

/* What a thread of the application has to remember between lock and unlock. */
struct owned;
struct api_thread {
    unsigned locks_held;     /* of buses; a handler may use another one */
    bool has_waited;         /* with the lock that it holds now: the bus is counted meanwhile */
    struct owned *put_aside; /* the application's buffers, to be released without a lock */
};
#define API_OWN_THREAD _Thread_local __attribute__((tls_model("initial-exec"))) /* few bytes */
extern API_OWN_THREAD struct api_thread api_thread;

/* A buffer around the application's bytes; its release calls free_fn, never with a lock held. */
struct buffer *owned_new(void *value, size_t value_bytes, void (*free_fn)(void *, void *),
                         void *arg);
/* Gives it up without calling free_fn. */
void owned_discard(struct buffer **buffer);
/* Releases the buffers that this thread put aside; it holds no lock. */
void owned_release_put_aside(void);

#endif
