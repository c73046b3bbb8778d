/* SPDX-License-Identifier: MPL-2.0 */
/* lane.h -- one direction of one connection: parts under way, first in, first out, as TCP has it.
 *
 * A lane may be stalled (parts wait) or cut (parts are gone, those under way and those to come). */
#ifndef SIM_LANE_H
#define SIM_LANE_H

#include "libbus/base/buffer.h"
#include "libbus/wire/frame.h"

#include <stdbool.h>
#include <stdint.h>

struct part {
    struct buffer *bytes;
    uint8_t head[DELIVERY_HEADER_BYTES]; /* of a batch on its way to a client */
    int64_t due_ns;
};

struct lane {
    struct part *parts; /* a ring */
    uint32_t first, count, room;
    int64_t last_due_ns; /* of the part put last */
    int64_t free_ns;     /* when a link with a rate has sent all that was put */
    int64_t stalled_until_ns;
    bool is_cut;
    bool is_armed; /* a moment for its first part is put down */
};

void lane_fini(struct lane *lane);
/* Not before due_ns and not before those already there.  A cut lane swallows it. */
void lane_put(struct lane *lane, struct part part, int64_t due_ns);
/* When the first part is due; INT64_MAX: none. */
int64_t lane_due_ns(const struct lane *lane);
bool lane_take(struct lane *lane, struct part *out_part);
void lane_cut(struct lane *lane);

#endif
