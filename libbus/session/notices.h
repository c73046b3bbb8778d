/* SPDX-License-Identifier: MPL-2.0 */
/* notices.h -- what the broker said that the application may want to know, until it is taken.
 *
 * The broker says a notice again on another connection, and after a restart.  So what a notice was
 * about stays here, and a second one about the same is none. */
#ifndef SESSION_NOTICES_H
#define SESSION_NOTICES_H

#include "libbus/base/buffer.h"
#include "libbus/base/limits.h"
#include "libbus/base/span.h"

#include <stdbool.h>
#include <stdint.h>

struct notices {
    struct {
        struct buffer *about;
        struct buffer *error; /* encoded; NULL: it was taken */
    } items[LIMIT_NOTICES];   /* in the order in which they came */
    uint32_t count;
    uint32_t taken;
};

void notices_fini(struct notices *notices);
/* false: there was one about this, or LIMIT_NOTICES; or no memory: it may be said again. */
bool notices_push(struct notices *notices, struct span about, struct span error);
/* The oldest that was not taken, which is the caller's; NULL: none. */
struct buffer *notices_pop(struct notices *notices);

static inline bool notices_has_next(const struct notices *notices)
{
    return notices->taken < notices->count;
}

#endif
