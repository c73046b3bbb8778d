/* SPDX-License-Identifier: MPL-2.0 */
/* widen_test.c -- arrays of one block double their room, and stand when there is no memory. */
#include "libbus/base/widen.h"

#include <criterion/criterion.h>

enum { ARRAYS = 3 };

static struct memory memory;
static uint32_t room;
static uint32_t *one, *two, *three;
static uint32_t **const arrays[ARRAYS] = {&one, &two, &three};

static size_t bytes_of(uint32_t elements)
{
    return ((size_t)elements + 1) * ARRAYS * sizeof(uint32_t);
}

/* Each array begins behind the last element of the one before. */
static void expect_room(uint32_t elements)
{
    cr_assert_eq(room, elements);
    cr_assert_eq(memory.bytes_used, bytes_of(elements));
    cr_assert_eq(two, one + elements + 1);
    cr_assert_eq(three, two + elements + 1);
}

Test(widen, doubles_the_room_of_all_arrays)
{
    memory_heap_init(&memory, UINT64_MAX);
    cr_assert(widen(&memory, &room, 0, arrays, ARRAYS));
    cr_assert_eq(memory.bytes_used, 0);
    cr_assert(widen(&memory, &room, 1, arrays, ARRAYS));
    expect_room(WIDEN_ROOM_MIN);
    const uint32_t *before = one;
    cr_assert(widen(&memory, &room, WIDEN_ROOM_MIN, arrays, ARRAYS));
    cr_assert_eq(one, before, "there was room");
    cr_assert(widen(&memory, &room, WIDEN_ROOM_MIN + 1, arrays, ARRAYS));
    expect_room(2 * WIDEN_ROOM_MIN);
    cr_assert(widen(&memory, &room, 8 * WIDEN_ROOM_MIN, arrays, ARRAYS));
    expect_room(8 * WIDEN_ROOM_MIN);
    widen_give(&memory, one, room, ARRAYS);
    cr_assert_eq(memory.bytes_used, 0);
}

Test(widen, leaves_the_arrays_when_there_is_no_memory)
{
    memory_heap_init(&memory, bytes_of(WIDEN_ROOM_MIN) + bytes_of(2 * WIDEN_ROOM_MIN) - 1);
    cr_assert(widen(&memory, &room, WIDEN_ROOM_MIN, arrays, ARRAYS));
    cr_assert_not(widen(&memory, &room, WIDEN_ROOM_MIN + 1, arrays, ARRAYS));
    expect_room(WIDEN_ROOM_MIN);
    widen_give(&memory, one, room, ARRAYS);
}

Test(widen, gives_nothing_back_where_nothing_was_taken)
{
    memory_heap_init(&memory, UINT64_MAX);
    widen_give(&memory, NULL, 0, ARRAYS);
    cr_assert_eq(memory.bytes_used, 0);
}
