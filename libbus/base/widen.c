/* SPDX-License-Identifier: MPL-2.0 */
/* widen.c -- see widen.h. */
#include "libbus/base/widen.h"

void *widen(struct memory *memory, void *block, uint32_t *room, uint32_t needed,
            widen_bytes_fn *bytes_of)
{
    uint32_t wide = *room < WIDEN_ROOM_MIN ? WIDEN_ROOM_MIN : *room;
    while (wide < needed)
        wide *= 2;
    void *widened = memory_take(memory, bytes_of(wide));
    if (widened == NULL)
        return NULL;
    memory_give(memory, block, bytes_of(*room));
    *room = wide;
    return widened;
}
