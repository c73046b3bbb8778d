/* SPDX-License-Identifier: MPL-2.0 */
/* owned_span.c -- copies of text that the core owns. */
#include "broker/core/record/owned_span.h"

#include <string.h>

bool span_keep(struct core *core, struct span text, struct span *out_owned)
{
    *out_owned = SPAN_NONE;
    if (text.bytes == 0)
        return true;
    char *copy = memory_take(core->memory, text.bytes);
    if (copy == NULL)
        return false;
    memcpy(copy, text.data, text.bytes);
    *out_owned = span_of(copy, text.bytes);
    return true;
}

void span_drop(struct core *core, struct span *owned)
{
    union {
        const void *read;
        void *write;
    } data = {.read = owned->data};
    memory_give(core->memory, data.write, owned->bytes);
    *owned = SPAN_NONE;
}
