/* SPDX-License-Identifier: MPL-2.0 */
/* widen.h -- blocks of memory that grow by doubling, and need not keep their content. */
#ifndef BASE_WIDEN_H
#define BASE_WIDEN_H

#include "libbus/base/memory.h"

#define WIDEN_ROOM_MIN 64

/* The bytes of a block with room for so many elements; 0 for none. */
typedef size_t widen_bytes_fn(uint32_t room);

/* Replaces block by one with room for at least needed elements: WIDEN_ROOM_MIN or *room, doubled as
 * often as it takes.  NULL: no memory, and the old block and *room stand. */
void *widen(struct memory *memory, void *block, uint32_t *room, uint32_t needed,
            widen_bytes_fn *bytes_of);

#endif
