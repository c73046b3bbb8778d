/* SPDX-License-Identifier: MPL-2.0 */
/* heap.c -- of the broker for tests, one allocation fails where the environment says:
 *
 *   ERRBUS_NUMBER_FAIL_ALLOCATION=N   the Nth of its own; libzmq's are not counted
 *
 * The linker puts these functions in place of the system's where the broker's objects call them. */
#include "broker/io/failpoint.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

static atomic_ulong asked;
static atomic_ulong fail_at; /* 0: not looked up yet */

/* The linker's names for what it puts in place of a function, and for that function. */
void *__real_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
void *__real_realloc(void *block, size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_realloc(void *block, size_t bytes);

static bool is_to_be_had(void)
{
    if (atomic_load(&fail_at) == 0)
        atomic_store(&fail_at, failpoint_number("FAIL_ALLOCATION", UINT64_MAX));
    return atomic_fetch_add(&asked, 1) + 1 != atomic_load(&fail_at);
}

void *__wrap_malloc(size_t bytes)
{
    return is_to_be_had() ? __real_malloc(bytes) : NULL;
}

void *__wrap_calloc(size_t count, size_t bytes)
{
    return is_to_be_had() ? __real_calloc(count, bytes) : NULL;
}

/* To give back never fails. */
void *__wrap_realloc(void *block, size_t bytes)
{
    return bytes == 0 || is_to_be_had() ? __real_realloc(block, bytes) : NULL;
}
