/* SPDX-License-Identifier: MPL-2.0 */
/* grow.c -- see grow.h. */
#include "libbus/api/grow.h"

#include <stdint.h>
#include <stdlib.h>

enum { ROOM_FIRST = 16 };

void *api_grow(void *array, size_t count, size_t *room, size_t element_bytes)
{
    if (count < *room)
        return array;
    size_t larger = *room > 0 ? *room * 2 : ROOM_FIRST;
    if (larger > PTRDIFF_MAX / element_bytes)
        return NULL; /* no array has so many */
    void *grown = realloc(array, larger * element_bytes);
    if (grown != NULL)
        *room = larger;
    return grown;
}
