/* SPDX-License-Identifier: MPL-2.0 */
/* widen_test.c -- blocks double their room, and stand when there is no memory. */
#include "libbus/base/widen.h"

#include <criterion/criterion.h>

static size_t bytes_of(uint32_t room)
{
    return room * (size_t)10;
}

Test(widen, doubles_the_room_of_a_block)
{
    struct memory memory;
    uint32_t room = 0;
    memory_heap_init(&memory, UINT64_MAX);
    void *block = widen(&memory, NULL, &room, 1, bytes_of);
    cr_assert_eq(room, WIDEN_ROOM_MIN);
    block = widen(&memory, block, &room, WIDEN_ROOM_MIN + 1, bytes_of);
    cr_assert_eq(room, 2 * WIDEN_ROOM_MIN);
    block = widen(&memory, block, &room, 8 * WIDEN_ROOM_MIN, bytes_of);
    cr_assert_eq(room, 8 * WIDEN_ROOM_MIN);
    cr_assert_eq(memory.bytes_used, bytes_of(room));
    memory_give(&memory, block, bytes_of(room));
    cr_assert_eq(memory.bytes_used, 0);
}

Test(widen, leaves_the_block_when_there_is_no_memory)
{
    struct memory memory;
    uint32_t room = 0;
    memory_heap_init(&memory, bytes_of(WIDEN_ROOM_MIN) + bytes_of(2 * WIDEN_ROOM_MIN) - 1);
    void *block = widen(&memory, NULL, &room, WIDEN_ROOM_MIN, bytes_of);
    cr_assert_not_null(block);
    cr_assert_null(widen(&memory, block, &room, WIDEN_ROOM_MIN + 1, bytes_of));
    cr_assert_eq(room, WIDEN_ROOM_MIN);
    cr_assert_eq(memory.bytes_used, bytes_of(room));
    memory_give(&memory, block, bytes_of(room));
}
