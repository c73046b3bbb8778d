/* SPDX-License-Identifier: MPL-2.0 */
/* widen.h -- arrays of uint32_t in one block of memory, which grows by doubling and need not keep
 * its content. */
#ifndef BASE_WIDEN_H
#define BASE_WIDEN_H

#include "libbus/base/memory.h"

#include <stdbool.h>
#include <stdint.h>

#define WIDEN_ROOM_MIN 64

/* Room in each array for `needed` elements and one more.  *room: elements that have room; it is
 * doubled as often as it takes, from WIDEN_ROOM_MIN on.  The block begins with the first array.
 * false: no memory, and nothing changed. */
bool widen(struct memory *memory, uint32_t *room, uint32_t needed, uint32_t **const arrays[],
           uint32_t count);
/* Gives back the block of so many arrays; room 0: there is none. */
void widen_give(struct memory *memory, uint32_t *first, uint32_t room, uint32_t count);

#endif
