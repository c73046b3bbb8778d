/* SPDX-License-Identifier: MPL-2.0 */
/* lane.c -- a ring of parts; see lane.h. */
#include "tests/sim/lane.h"

#include "libbus/base/must.h"

#include <stdlib.h>

static void drop_all(struct lane *lane)
{
    struct part part;
    while (lane_take(lane, &part))
        buffer_unref(&part.bytes);
}

void lane_fini(struct lane *lane)
{
    drop_all(lane);
    free(lane->parts);
    *lane = (struct lane){.is_cut = true};
}

static void grow(struct lane *lane)
{
    uint32_t room = lane->room > 0 ? lane->room * 2 : 16;
    struct part *parts = malloc(room * sizeof *parts);
    must(parts != NULL);
    for (uint32_t i = 0; i < lane->count; i++)
        parts[i] = lane->parts[(lane->first + i) % lane->room];
    free(lane->parts);
    lane->parts = parts;
    lane->first = 0;
    lane->room = room;
}

void lane_put(struct lane *lane, struct part part, int64_t due_ns)
{
    if (lane->is_cut) {
        buffer_unref(&part.bytes);
        return;
    }
    if (lane->count == lane->room)
        grow(lane);
    if (due_ns < lane->last_due_ns)
        due_ns = lane->last_due_ns;
    lane->last_due_ns = due_ns;
    part.due_ns = due_ns;
    lane->parts[(lane->first + lane->count) % lane->room] = part;
    lane->count += 1;
}

int64_t lane_due_ns(const struct lane *lane)
{
    if (lane->count == 0)
        return INT64_MAX;
    int64_t due_ns = lane->parts[lane->first].due_ns;
    return due_ns > lane->stalled_until_ns ? due_ns : lane->stalled_until_ns;
}

bool lane_take(struct lane *lane, struct part *out_part)
{
    if (lane->count == 0)
        return false;
    *out_part = lane->parts[lane->first];
    lane->first = (lane->first + 1) % lane->room;
    lane->count -= 1;
    return true;
}

void lane_cut(struct lane *lane)
{
    drop_all(lane);
    lane->is_cut = true;
}
