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

/* From each head, with each count: in order from 0 on, the rest zeroed, the old ring given back. */
Test(memory, grows_a_ring_whichever_place_it_begins_at)
{
    enum { ROOM = 8, LARGER = 16 };
    for (uint32_t head = 0; head < ROOM; head++) {
        for (uint32_t count = 0; count <= ROOM; count++) {
            struct memory memory;
            memory_heap_init(&memory, 1000);
            uint32_t *ring = memory_take(&memory, ROOM * sizeof *ring);
            cr_assert_not_null(ring);
            for (uint32_t i = 0; i < count; i++)
                ring[(head + i) % ROOM] = 100 + i;
            const struct ring_use use = {ROOM, head, count};
            ring = memory_grow_ring(&memory, ring, sizeof *ring, &use, LARGER);
            cr_assert_not_null(ring);
            for (uint32_t i = 0; i < count; i++)
                cr_assert_eq(ring[i], 100 + i, "head %u, count %u, at %u", head, count, i);
            check_zero((unsigned char *)ring, count * sizeof *ring, LARGER * sizeof *ring);
            cr_assert_eq(memory.bytes_used, LARGER * sizeof *ring);
            memory_give(&memory, ring, LARGER * sizeof *ring);
        }
    }
}

Test(memory, leaves_a_ring_that_cannot_grow)
{
    struct memory memory;
    memory_heap_init(&memory, 64);
    uint32_t *ring = memory_take(&memory, 8 * sizeof *ring);
    cr_assert_not_null(ring);
    ring[3] = 7;
    const struct ring_use use = {8, 3, 1};
    cr_assert_null(memory_grow_ring(&memory, ring, sizeof *ring, &use, 16));
    cr_assert_eq(ring[3], 7);
    cr_assert_eq(memory.bytes_used, 8 * sizeof *ring);
    memory_give(&memory, ring, 8 * sizeof *ring);
}

Test(memory, makes_the_first_ring_of_nothing)
{
    struct memory memory;
    memory_heap_init(&memory, 1000);
    const struct ring_use nothing = {0, 0, 0};
    uint32_t *ring = memory_grow_ring(&memory, NULL, sizeof *ring, &nothing, 4);
    cr_assert_not_null(ring);
    check_zero((unsigned char *)ring, 0, 4 * sizeof *ring);
    memory_give(&memory, ring, 4 * sizeof *ring);
    cr_assert_eq(memory.bytes_used, 0);
}
