/* SPDX-License-Identifier: MPL-2.0 */
/* notices.c -- a list that only grows, up to its limit; see notices.h. */
#include "libbus/session/notices.h"

void notices_fini(struct notices *notices)
{
    for (uint32_t i = 0; i < notices->count; i++) {
        buffer_unref(&notices->items[i].about);
        buffer_unref(&notices->items[i].error);
    }
    notices->count = 0;
    notices->taken = 0;
}

bool notices_push(struct notices *notices, struct span about, struct span error)
{
    for (uint32_t i = 0; i < notices->count; i++)
        if (span_equal(buffer_span(notices->items[i].about), about))
            return false;
    if (notices->count == LIMIT_NOTICES)
        return false;
    struct buffer *about_copy = buffer_copy(about);
    struct buffer *error_copy = about_copy != NULL ? buffer_copy(error) : NULL;
    if (error_copy == NULL) {
        buffer_unref(&about_copy);
        return false;
    }
    notices->items[notices->count].about = about_copy;
    notices->items[notices->count].error = error_copy;
    notices->count += 1;
    return true;
}

struct buffer *notices_pop(struct notices *notices)
{
    if (!notices_has_next(notices))
        return NULL;
    struct buffer *error = notices->items[notices->taken].error;
    notices->items[notices->taken++].error = NULL;
    return error;
}
