/* SPDX-License-Identifier: MPL-2.0 */
/* refused.c -- a ring; see refused.h. */
#include "libbus/session/refused.h"

void refused_fini(struct refused *refused)
{
    struct refused_one one;
    while (refused_pop(refused, &one))
        buffer_unref(&one.error);
}

void refused_push(struct refused *refused, uint32_t topic, uint64_t seq, struct span error)
{
    refused->ever += 1;
    struct buffer *copy = buffer_copy(error);
    if (copy == NULL) {
        refused->lost += 1;
        return;
    }
    struct refused_one oldest;
    if (refused->count == LIMIT_REFUSALS && refused_pop(refused, &oldest)) {
        buffer_unref(&oldest.error);
        refused->lost += 1;
    }
    refused->ring[(refused->head + refused->count) % LIMIT_REFUSALS] =
        (struct refused_one){.topic = topic, .seq = seq, .error = copy};
    refused->count += 1;
}

void refused_skip(struct refused *refused)
{
    refused->ever += 1;
    refused->lost += 1;
}

bool refused_pop(struct refused *refused, struct refused_one *out)
{
    if (refused->count == 0)
        return false;
    *out = refused->ring[refused->head];
    refused->head = (refused->head + 1) % LIMIT_REFUSALS;
    refused->count -= 1;
    return true;
}
