/* SPDX-License-Identifier: MPL-2.0 */
/* walk_test.c -- the bounded walk, with msgpack-c as the second opinion. */
#include "libbus/wire/walk.h"

#include "libbus/wire/msg.h"
#include "tests/lib/draw.h"

#include <criterion/criterion.h>
#include <limits.h>
#include <msgpack.h>
#include <stdlib.h>

/* One of each format, whole. */
#define BYTES(text)                                                                                \
    {                                                                                              \
        .data = text, .bytes = sizeof(text) - 1                                                    \
    }
static const struct span formats[] = {
    BYTES("\x00"),
    BYTES("\x7f"),
    BYTES("\xe0"),
    BYTES("\xff"),
    BYTES("\xc0"),
    BYTES("\xc2"),
    BYTES("\xc3"),
    BYTES("\xcc\xff"),
    BYTES("\xcd\xff\xff"),
    BYTES("\xce\xff\xff\xff\xff"),
    BYTES("\xcf\xff\xff\xff\xff\xff\xff\xff\xff"),
    BYTES("\xd0\xff"),
    BYTES("\xd1\xff\xff"),
    BYTES("\xd2\xff\xff\xff\xff"),
    BYTES("\xd3\xff\xff\xff\xff\xff\xff\xff\xff"),
    BYTES("\xca\x00\x00\x00\x00"),
    BYTES("\xcb\x00\x00\x00\x00\x00\x00\x00\x00"),
    BYTES("\xa0"),
    BYTES("\xa3"
          "abc"),
    BYTES("\xd9\x03"
          "abc"),
    BYTES("\xda\x00\x03"
          "abc"),
    BYTES("\xdb\x00\x00\x00\x03"
          "abc"),
    BYTES("\xc4\x03"
          "abc"),
    BYTES("\xc5\x00\x03"
          "abc"),
    BYTES("\xc6\x00\x00\x00\x03"
          "abc"),
    BYTES("\xc7\x03\x01"
          "abc"),
    BYTES("\xc8\x00\x03\x01"
          "abc"),
    BYTES("\xc9\x00\x00\x00\x03\x01"
          "abc"),
    BYTES("\xd4\x01"
          "a"),
    BYTES("\xd5\x01"
          "ab"),
    BYTES("\xd6\x01"
          "abcd"),
    BYTES("\xd7\x01"
          "abcdefgh"),
    BYTES("\xd8\x01"
          "abcdefghijklmnop"),
    BYTES("\x90"),
    BYTES("\x92\x01\x02"),
    BYTES("\xdc\x00\x02\x01\x02"),
    BYTES("\xdd\x00\x00\x00\x02\x01\x02"),
    BYTES("\x80"),
    BYTES("\x81\x01\x02"),
    BYTES("\xde\x00\x01\x01\x02"),
    BYTES("\xdf\x00\x00\x00\x01\x01\x02"),
    BYTES("\x93\x91\x90\x81\xa1\x61\x92\x01\x02\xc0"),
};

static bool second_opinion(struct span bytes)
{
    msgpack_unpacked unpacked;
    size_t at = 0;
    msgpack_unpacked_init(&unpacked);
    msgpack_unpack_return got = msgpack_unpack_next(&unpacked, bytes.data, bytes.bytes, &at);
    msgpack_unpacked_destroy(&unpacked);
    return got == MSGPACK_UNPACK_SUCCESS && at == bytes.bytes;
}

/* In a block of its own size, so that a sanitizer sees each byte too far. */
static enum wire_err walk_alone(const uint8_t *data, size_t bytes)
{
    uint8_t *copy = malloc(bytes > 0 ? bytes : 1);
    if (bytes > 0)
        memcpy(copy, data, bytes);
    enum wire_err err = wire_walk(span_of(copy, bytes));
    free(copy);
    return err;
}

Test(walk, takes_every_format_and_no_part_of_it)
{
    for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++) {
        const struct span *format = &formats[i];
        const uint8_t *data = format->data;
        uint8_t longer[32];
        cr_assert(second_opinion(*format), "case %zu", i);
        cr_assert_eq(walk_alone(data, format->bytes), WIRE_OK, "case %zu", i);
        for (size_t bytes = 1; bytes < format->bytes; bytes++) {
            enum wire_err err = walk_alone(data, bytes);
            cr_assert(err == WIRE_TRUNCATED || err == WIRE_ITEMS, "case %zu, %zu bytes", i, bytes);
        }
        memcpy(longer, data, format->bytes);
        longer[format->bytes] = 0;
        cr_assert_eq(walk_alone(longer, format->bytes + 1), WIRE_TRAILING, "case %zu", i);
    }
    cr_assert_eq(wire_walk(SPAN_NONE), WIRE_EMPTY);
    cr_assert_eq(walk_alone((const uint8_t *)"\xc1", 1), WIRE_FORMAT);
    cr_assert_eq(walk_alone((const uint8_t *)"\x92\x01\xc1", 3), WIRE_FORMAT);
}

Test(walk, goes_so_deep_and_no_deeper)
{
    uint8_t bytes[LIMIT_WALK_DEPTH + 2];
    memset(bytes, 0x91, sizeof bytes);
    for (size_t depth = LIMIT_WALK_DEPTH - 1; depth <= LIMIT_WALK_DEPTH + 1; depth++) {
        bytes[depth] = 0xc0;
        cr_assert_eq(walk_alone(bytes, depth + 1),
                     depth <= LIMIT_WALK_DEPTH ? WIRE_OK : WIRE_DEPTH);
        bytes[depth] = 0x91;
        bytes[depth - 1] = 0x90; /* an empty array is as deep as a full one */
        cr_assert_eq(walk_alone(bytes, depth), depth <= LIMIT_WALK_DEPTH ? WIRE_OK : WIRE_DEPTH);
        bytes[depth - 1] = 0x91;
    }
    memset(bytes, 0x81, sizeof bytes);
    cr_assert_eq(walk_alone(bytes, 1), WIRE_ITEMS);
}

Test(walk, counts_elements_up_to_its_limit)
{
    static uint8_t bytes[5 + LIMIT_WALK_ITEMS + 16];
    for (uint32_t count = LIMIT_WALK_ITEMS - 1; count <= LIMIT_WALK_ITEMS + 1; count++) {
        bytes[0] = 0xdd;
        for (int i = 0; i < 4; i++)
            bytes[1 + i] = (uint8_t)(count >> (24 - 8 * i));
        cr_assert_eq(walk_alone(bytes, 5 + count),
                     count <= LIMIT_WALK_ITEMS ? WIRE_OK : WIRE_ITEMS);
    }
    /* The same number in all, of two arrays. */
    for (uint32_t more = 0; more <= 1; more++) {
        uint32_t inner = LIMIT_WALK_ITEMS - 2 + more;
        memcpy(bytes, "\x92\x00\xdd", 3);
        for (int i = 0; i < 4; i++)
            bytes[3 + i] = (uint8_t)(inner >> (24 - 8 * i));
        memset(bytes + 7, 0, inner);
        cr_assert_eq(walk_alone(bytes, 7 + inner), more == 0 ? WIRE_OK : WIRE_ITEMS);
    }
}

Test(walk, believes_no_number_that_is_larger_than_what_is_left)
{
    static const struct span claims[] = {BYTES("\xdd\xff\x00\x00\x00"),
                                         BYTES("\xdf\xff\xff\xff\xff"),
                                         BYTES("\xdc\xff\xff\x00"),
                                         BYTES("\xde\x00\x02\x00\x00\x00"),
                                         BYTES("\x9f\x00"),
                                         BYTES("\x82\x00\x00\x00")};
    for (size_t i = 0; i < sizeof claims / sizeof claims[0]; i++)
        cr_assert_eq(walk_alone(claims[i].data, claims[i].bytes), WIRE_ITEMS, "case %zu", i);
    cr_assert_eq(walk_alone((const uint8_t *)"\xc6\xff\xff\xff\xff", 5), WIRE_TRUNCATED);
    cr_assert_eq(walk_alone((const uint8_t *)"\xc9\xff\xff\xff\xff\x01", 6), WIRE_TRUNCATED);
}

Test(walk, holds_the_limit_of_a_part)
{
    static uint8_t bytes[LIMIT_PART_BYTES + 1];
    for (uint64_t size = LIMIT_PART_BYTES - 1; size <= LIMIT_PART_BYTES + 1; size++) {
        bytes[0] = 0xc6;
        for (int i = 0; i < 4; i++)
            bytes[1 + i] = (uint8_t)((size - 5) >> (24 - 8 * i));
        cr_assert_eq(walk_alone(bytes, size), size <= LIMIT_PART_BYTES ? WIRE_OK : WIRE_TOO_BIG);
    }
}

Test(walk, agrees_with_msgpack_c_about_random_bytes)
{
    static const uint8_t likely[] = {0x90, 0x92, 0x93, 0x81, 0xa2, 0xc4, 0xcc, 0xcd, 0xd9, 0xdc,
                                     0xde, 0xc7, 0xd4, 0x01, 0x00, 0xc0, 0xca, 0xe0, 0x80, 0xd0};
    uint64_t random = 7;
    unsigned good = 0;
    for (unsigned round = 0; round < 300000; round++) {
        uint8_t bytes[24];
        size_t count = 1 + draw_below(&random, sizeof bytes);
        for (size_t i = 0; i < count; i++)
            bytes[i] = draw_below(&random, 8) == 0 ? (uint8_t)draw(&random)
                                                   : likely[draw_below(&random, sizeof likely)];
        enum wire_err err = wire_walk(span_of(bytes, count));
        bool is_good =
            err != WIRE_DEPTH && err != WIRE_ITEMS && second_opinion(span_of(bytes, count));
        cr_assert_eq(err == WIRE_OK, is_good, "round %u: %s", round, wire_strerror(err));
        good += is_good;
    }
    cr_assert_gt(good, 1000, "the bytes are good too seldom to tell: %u", good);
}

Test(walk, reads_the_number_of_a_message)
{
    static const struct {
        struct span bytes;
        unsigned number;
    } cases[] = {
        {BYTES("\x91\x05"), 5},
        {BYTES("\x95\xcd\x0b\x00\x01"), BATCH_NUMBER},
        {BYTES("\x92\xcd\x0b\x01"), DELIVERY_NUMBER},
        {BYTES("\xdc\x00\x01\xcc\x46"), 70},
        {BYTES("\xdd\x00\x00\x00\x01\xce\x00\x00\x00\x46"), 70},
        {BYTES("\x91\xcf\x00\x00\x00\x00\x00\x00\x00\x46"), 70},
        {BYTES("\x91\xcf\x00\x00\x00\x01\x00\x00\x00\x00"), UINT_MAX},
        {BYTES("\x91\xce\xff\xff\xff\xff"), UINT_MAX},
        {BYTES("\x92\x05"), 5}, /* the rest is missing, the number is not */
        {BYTES("\x91\xcd\x0b"), MSG_NONE},
        {BYTES("\x91"), MSG_NONE},
        {BYTES("\x90\x05"), MSG_NONE},
        {BYTES("\x81\x05\x05"), MSG_NONE},
        {BYTES("\xdc\x00"), MSG_NONE},
        {BYTES("\x05"), MSG_NONE},
        {BYTES("\x91\xff"), MSG_NONE},
        {BYTES("\x91\xa1\x61"), MSG_NONE},
        {BYTES("\x91\xd0\x05"), MSG_NONE},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        cr_assert_eq(wire_number(cases[i].bytes), cases[i].number, "case %zu", i);
    cr_assert_eq(wire_number(SPAN_NONE), MSG_NONE);
}

Test(walk, steps_into_arrays_alone)
{
    uint32_t count = 99;
    struct walk walk = walk_of(span_of("\x92\x01\x80", 3));
    cr_assert_eq(walk_array(&walk, &count), WIRE_OK);
    cr_assert_eq(count, 2);
    cr_assert_eq(walk_array(&walk, &count), WIRE_FORMAT);
    cr_assert_eq(walk_object(&walk), WIRE_OK);
    cr_assert(walk_is_container(&walk));
    cr_assert_eq(walk_array(&walk, &count), WIRE_FORMAT);
    cr_assert_eq(walk_object(&walk), WIRE_OK);
    cr_assert_eq(walk_object(&walk), WIRE_EMPTY);
    cr_assert_eq(walk_array(&walk, &count), WIRE_TRUNCATED);
    cr_assert_not(walk_is_container(&walk));
    cr_assert_eq(count, 2);
}
