/* SPDX-License-Identifier: MPL-2.0 */
/* grow.h -- room for one more element at the end of an array on the heap. */
#ifndef API_GROW_H
#define API_GROW_H

#include <stddef.h>

/* The array itself while count < *room; otherwise a copy with more room, which
 * replaces it.  NULL: no memory; the array and *room stay as they were. */
void *api_grow(void *array, size_t count, size_t *room, size_t element_bytes);

#endif
