/* SPDX-License-Identifier: MPL-2.0 */
/* crc32c_test.c -- the checksum is the one of RFC 3720, by whatever means. */
#include "broker/journal/crc32c.h"

#include <criterion/criterion.h>
#include <string.h>

/* RFC 3720, B.4, and the check value of the catalogue of CRC algorithms. */
Test(crc32c, has_the_published_values)
{
    uint8_t bytes[32];
    cr_expect_eq(crc32c(0, "123456789", 9), 0xe3069283);
    memset(bytes, 0, sizeof bytes);
    cr_expect_eq(crc32c(0, bytes, sizeof bytes), 0x8a9136aa);
    memset(bytes, 0xff, sizeof bytes);
    cr_expect_eq(crc32c(0, bytes, sizeof bytes), 0x62a8ab43);
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)i;
    cr_expect_eq(crc32c(0, bytes, sizeof bytes), 0x46dd794e);
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)(31 - i);
    cr_expect_eq(crc32c(0, bytes, sizeof bytes), 0x113fdb5c);
    cr_expect_eq(crc32c(0, NULL, 0), 0);
}

Test(crc32c, is_the_same_by_table_and_by_processor)
{
    static uint8_t bytes[1024];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)(i * 131 + (i >> 3));
    for (size_t from = 0; from < 9; from++) {
        for (size_t count = 0; count < 300; count++) {
            uint32_t by_table = crc32c_by_table(7, bytes + from, count);
            cr_assert_eq(crc32c(7, bytes + from, count), by_table);
            if (crc32c_has_processor())
                cr_assert_eq(crc32c_by_processor(7, bytes + from, count), by_table);
        }
    }
}

/* Long data is taken as three streams, of 4096 or 256 bytes each. */
Test(crc32c, is_the_same_around_the_sizes_of_three_streams)
{
    static uint8_t bytes[3 * 4096 * 2 + 3 * 256 + 64];
    static const size_t sizes[] = {3 * 256, 3 * 512, 3 * 4096, 3 * 4096 + 3 * 256, 2 * 3 * 4096};
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)(i * 29 + (i >> 7) * 13);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (size_t count = sizes[i] - 9; count <= sizes[i] + 9; count++)
            for (size_t from = 0; from < 9; from += 4)
                cr_assert_eq(crc32c(5, bytes + from, count),
                             crc32c_by_table(5, bytes + from, count), "%zu B", count);
}

Test(crc32c, goes_on_where_it_stopped)
{
    const char text[] = "what was decided is kept";
    uint32_t whole = crc32c(0, text, sizeof text);
    for (size_t i = 0; i <= sizeof text; i++)
        cr_expect_eq(crc32c(crc32c(0, text, i), text + i, sizeof text - i), whole);
}
