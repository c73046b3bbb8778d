/* SPDX-License-Identifier: MPL-2.0 */
/* allocation.c -- see allocation.h. */
#include "tests/lib/failpoint/allocation.h"

#include <stddef.h>

/* The linker's names for what it puts in place of a function, and for that function. */
void *__real_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
void *__real_realloc(void *block, size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_realloc(void *block, size_t bytes);

void *__wrap_malloc(size_t bytes)
{
    return allocation_is_granted() ? __real_malloc(bytes) : NULL;
}

void *__wrap_calloc(size_t count, size_t bytes)
{
    return allocation_is_granted() ? __real_calloc(count, bytes) : NULL;
}

/* To give back never fails. */
void *__wrap_realloc(void *block, size_t bytes)
{
    return bytes == 0 || allocation_is_granted() ? __real_realloc(block, bytes) : NULL;
}
