/* SPDX-License-Identifier: MPL-2.0 */
/* refused.h -- refusals that the application did not take yet: the newest LIMIT_REFUSALS. */
#ifndef SESSION_REFUSED_H
#define SESSION_REFUSED_H

#include "libbus/base/buffer.h"
#include "libbus/base/limits.h"
#include "libbus/base/span.h"

#include <stdbool.h>
#include <stdint.h>

struct refused_one {
    uint32_t topic; /* the session's number */
    uint64_t seq;
    struct buffer *error; /* encoded */
};

struct refused {
    struct refused_one ring[LIMIT_REFUSALS];
    uint32_t head;
    uint32_t count;
    uint64_t ever; /* refusals since the start */
    uint64_t lost; /* of these, dropped for lack of room or memory */
};

void refused_fini(struct refused *refused);
void refused_push(struct refused *refused, uint32_t topic, uint64_t seq, struct span error);
/* Counts a refusal without keeping it: LIMIT_REFUSALS newer ones follow. */
void refused_skip(struct refused *refused);
/* The oldest; false: none.  out->error is the caller's. */
bool refused_pop(struct refused *refused, struct refused_one *out);

#endif
