/* SPDX-License-Identifier: MPL-2.0 */
/* widen.c -- see widen.h. */
#include "libbus/base/widen.h"

static size_t block_bytes(uint32_t room, uint32_t count)
{
    return room > 0 ? ((size_t)room + 1) * count * sizeof(uint32_t) : 0;
}

bool widen(struct memory *memory, uint32_t *room, uint32_t needed, uint32_t **const arrays[],
           uint32_t count)
{
    uint32_t wide = *room < WIDEN_ROOM_MIN ? WIDEN_ROOM_MIN : *room;
    if (needed <= *room)
        return true;
    while (wide < needed)
        wide *= 2;
    uint32_t *block = memory_take(memory, block_bytes(wide, count));
    if (block == NULL)
        return false;
    widen_give(memory, *arrays[0], *room, count);
    for (uint32_t i = 0; i < count; i++)
        *arrays[i] = block + i * ((size_t)wide + 1);
    *room = wide;
    return true;
}

void widen_give(struct memory *memory, uint32_t *first, uint32_t room, uint32_t count)
{
    memory_give(memory, first, block_bytes(room, count));
}
