/* SPDX-License-Identifier: MPL-2.0 */
/* spares_test.c -- buffers are used again, once nobody else holds them. */
#include "libbus/session/spares.h"

#include "libbus/base/limits.h"

#include <criterion/criterion.h>

Test(spares, gives_the_same_buffer_again)
{
    struct spares spares = {0};
    struct buffer *buffer = spares_take(&spares, 100);
    struct buffer *first = buffer;
    cr_assert_geq(buffer->room, 100);
    buffer->bytes = 50;
    spares_give(&spares, &buffer);
    cr_assert_null(buffer);
    buffer = spares_take(&spares, 4096);
    cr_assert_eq(buffer, first);
    cr_assert_eq(buffer->bytes, 0);
    buffer_unref(&buffer);
    spares_fini(&spares);
}

Test(spares, waits_until_the_link_has_let_go)
{
    struct spares spares = {0};
    struct buffer *buffer = spares_take(&spares, 100);
    struct buffer *held = buffer_ref(buffer);
    spares_give(&spares, &buffer);
    struct buffer *other = spares_take(&spares, 100);
    cr_assert_neq(other, held);
    spares_give(&spares, &other);
    struct buffer *same = held;
    buffer_unref(&held);
    other = spares_take(&spares, 100);
    struct buffer *third = spares_take(&spares, 100);
    cr_assert(other == same || third == same);
    buffer_unref(&other);
    buffer_unref(&third);
    spares_fini(&spares);
}

Test(spares, serves_every_room)
{
    struct spares spares = {0};
    static const size_t rooms[] = {1,
                                   4096,
                                   4097,
                                   32768,
                                   32769,
                                   DEFAULT_BATCH_BYTES,
                                   DEFAULT_BATCH_BYTES + 1,
                                   DEFAULT_CHUNK_BYTES + 96,
                                   LIMIT_BATCH_BYTES,
                                   LIMIT_BATCH_BYTES + 1,
                                   LIMIT_CHUNK_BYTES + 96,
                                   LIMIT_PART_BYTES};
    for (size_t i = 0; i < sizeof rooms / sizeof *rooms; i++) {
        struct buffer *buffer = spares_take(&spares, rooms[i]);
        cr_assert_geq(buffer->room, rooms[i]);
        spares_give(&spares, &buffer);
        cr_assert_null(buffer);
    }
    spares_fini(&spares);
}

Test(spares, keeps_a_bounded_number)
{
    struct spares spares = {0};
    struct buffer *buffers[SPARES_EACH + 10];
    for (size_t i = 0; i < SPARES_EACH + 10; i++)
        buffers[i] = spares_take(&spares, 100);
    for (size_t i = 0; i < SPARES_EACH + 10; i++)
        spares_give(&spares, &buffers[i]);
    cr_assert_eq(spares.counts[0], SPARES_EACH);
    struct buffer *odd = buffer_new(5000); /* of no size of ours */
    spares_give(&spares, &odd);
    cr_assert_null(odd);
    cr_assert_eq(spares.counts[0], SPARES_EACH);
    spares_fini(&spares);
    cr_assert_eq(spares.counts[0], 0);
}
