/* SPDX-License-Identifier: MPL-2.0 */
/* memory_test.c -- memory that is handed in: counted, bounded, zeroed. */
#include "libbus/base/memory.h"

#include <criterion/criterion.h>

static void check_zero(const unsigned char *bytes, size_t from, size_t to)
{
    for (size_t i = from; i < to; i++)
        cr_assert_eq(bytes[i], 0, "byte %zu", i);
}

Test(memory, gives_zeroed_bytes_and_counts_them)
{
    struct memory memory;
    memory_heap_init(&memory, 1000);
    unsigned char *block = memory_take(&memory, 100);
    cr_assert_not_null(block);
    check_zero(block, 0, 100);
    cr_assert_eq(memory.bytes_used, 100);
    memset(block, 0xff, 100);
    block = memory_resize(&memory, block, 100, 300);
    cr_assert_eq(block[99], 0xff);
    check_zero(block, 100, 300);
    cr_assert_eq(memory.bytes_used, 300);
    block = memory_resize(&memory, block, 300, 50);
    cr_assert_eq(memory.bytes_used, 50);
    cr_assert_eq(memory.calls, 3);
    memory_give(&memory, block, 50);
    cr_assert_eq(memory.bytes_used, 0);
}

Test(memory, holds_its_bound_at_one_less_exactly_and_one_more)
{
    for (size_t bytes = 999; bytes <= 1001; bytes++) {
        struct memory memory;
        memory_heap_init(&memory, 1000);
        void *block = memory_take(&memory, bytes);
        cr_assert_eq(block != NULL, bytes <= 1000);
        cr_assert_eq(memory.bytes_used, bytes <= 1000 ? bytes : 0);
        memory_give(&memory, block, bytes);
    }
}

Test(memory, leaves_the_old_block_when_it_cannot_grow)
{
    struct memory memory;
    memory_heap_init(&memory, 1000);
    char *block = memory_take(&memory, 600);
    memset(block, 'x', 600);
    cr_assert_null(memory_resize(&memory, block, 600, 1001));
    cr_assert_null(memory_take(&memory, 401));
    cr_assert_eq(memory.bytes_used, 600);
    cr_assert_eq(block[599], 'x');
    memory_give(&memory, block, 600);
}

Test(memory, gives_back_nothing_for_nothing)
{
    struct memory memory;
    memory_heap_init(&memory, 10);
    memory_give(&memory, NULL, 5);
    cr_assert_eq(memory.bytes_used, 0);
}

static void *refuse(struct memory *memory, void *block, size_t old_bytes, size_t new_bytes)
{
    (void)memory;
    (void)block;
    (void)old_bytes;
    (void)new_bytes;
    return NULL;
}

Test(memory, counts_nothing_that_the_allocator_refused)
{
    struct memory memory = {.resize = refuse, .bytes_max = 1000};
    cr_assert_null(memory_take(&memory, 1));
    cr_assert_eq(memory.bytes_used, 0);
    cr_assert_eq(memory.calls, 1);
}
