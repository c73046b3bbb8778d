/* SPDX-License-Identifier: MPL-2.0 */
/* grow_test.c -- arrays on the heap that take one more element. */
#include "libbus/api/grow.h"

#include <criterion/criterion.h>
#include <stdint.h>
#include <stdlib.h>

Test(grow, keeps_what_is_there_and_has_room_for_one_more)
{
    uint64_t *numbers = NULL;
    size_t room = 0;
    for (size_t count = 0; count < 100; count++) {
        numbers = api_grow(numbers, count, &room, sizeof *numbers);
        cr_assert_not_null(numbers);
        cr_assert_gt(room, count);
        numbers[count] = count;
    }
    for (size_t i = 0; i < 100; i++)
        cr_expect_eq(numbers[i], i);
    free(numbers);
}

Test(grow, leaves_an_array_alone_until_it_is_full)
{
    size_t room = 0;
    uint64_t *numbers = api_grow(NULL, 0, &room, sizeof *numbers);
    size_t first = room;
    cr_assert_not_null(numbers);
    cr_expect_eq(api_grow(numbers, first - 1, &room, sizeof *numbers), numbers);
    cr_expect_eq(room, first);
    numbers = api_grow(numbers, first, &room, sizeof *numbers);
    cr_expect_eq(room, 2 * first);
    free(numbers);
}

Test(grow, keeps_the_old_array_without_memory)
{
    size_t room = SIZE_MAX / 16;
    char *byte = malloc(1);
    cr_assert_not_null(byte);
    *byte = 'x';
    cr_expect_null(api_grow(byte, room, &room, 8)); /* more than half of the address space */
    cr_expect_eq(room, SIZE_MAX / 16);
    cr_expect_eq(*byte, 'x');
    free(byte);
}
