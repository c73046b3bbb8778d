/* SPDX-License-Identifier: MPL-2.0 */
/* journal_format_test.c -- heads of segments and records: every bit of them counts. */
#include "broker/journal/format.h"

#include "libbus/base/limits.h"

#include <criterion/criterion.h>
#include <string.h>

#define ID UINT64_C(0xfedcba9876543210)

static const struct segment_head segment = {
    .version = FORMAT_VERSION, .journal = ID, .first = 4096, .trimmed = 64, .bytes = 8192};
static const struct record_head record = {.body_crc = 1,
                                          .bytes = 100,
                                          .kind = 3,
                                          .marks = FORMAT_MARK_BATCH_END,
                                          .batch = 5,
                                          .synced = 1000};

Test(journal_format, reads_the_segment_head_that_it_wrote)
{
    uint8_t bytes[FORMAT_SEGMENT_BYTES];
    struct segment_head head;
    segment_head_write(&segment, bytes);
    cr_assert_eq(segment_head_read(bytes, &head), SEGMENT_GOOD);
    cr_expect_eq(head.version, segment.version);
    cr_expect_eq(head.journal, segment.journal);
    cr_expect_eq(head.first, segment.first);
    cr_expect_eq(head.trimmed, segment.trimmed);
    cr_expect_eq(head.bytes, segment.bytes);
}

Test(journal_format, refuses_a_segment_head_with_any_bit_changed)
{
    uint8_t bytes[FORMAT_SEGMENT_BYTES];
    struct segment_head head;
    segment_head_write(&segment, bytes);
    for (size_t bit = 0; bit < 8 * sizeof bytes; bit++) {
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
        cr_expect_eq(segment_head_read(bytes, &head), SEGMENT_BAD, "bit %zu", bit);
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
}

Test(journal_format, knows_formats_up_to_its_own)
{
    const struct {
        uint32_t version;
        enum segment_verdict verdict;
    } cases[] = {{0, SEGMENT_NEWER},
                 {FORMAT_VERSION, SEGMENT_GOOD},
                 {FORMAT_VERSION + 1, SEGMENT_NEWER},
                 {UINT32_MAX, SEGMENT_NEWER}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint8_t bytes[FORMAT_SEGMENT_BYTES];
        struct segment_head head = segment;
        head.version = cases[i].version;
        segment_head_write(&head, bytes);
        cr_expect_eq(segment_head_read(bytes, &head), cases[i].verdict);
        cr_expect_eq(head.version, cases[i].version);
    }
}

Test(journal_format, names_segments_by_their_first_position)
{
    char name[FORMAT_NAME_BYTES];
    uint64_t first = 1;
    const uint64_t firsts[] = {0, 8, 67108864, FORMAT_POSITION_MAX - FORMAT_POSITION_MAX % 8};
    for (size_t i = 0; i < sizeof firsts / sizeof *firsts; i++) {
        segment_name_write(firsts[i], name);
        cr_assert(segment_name_read(name, &first));
        cr_expect_eq(first, firsts[i]);
    }
    const char *others[] = {"",
                            "spare",
                            "0000000000000000000.journal",
                            "00000000000000000000.journal~",
                            "00000000000000000000.journa",
                            "000000000000000000000.journal",
                            "00000000000000000001.journal",
                            "0000000000000000000x.journal",
                            "99999999999999999999.journal",
                            "18446744073709551608.journal",
                            "18446744073709551616.journal"}; /* 2^64: not taken for 0 */
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        cr_expect_not(segment_name_read(others[i], &first), "%s", others[i]);
}

Test(journal_format, reads_the_record_head_that_it_wrote)
{
    uint8_t bytes[FORMAT_RECORD_BYTES];
    struct record_head head;
    record_head_write(&record, ID, 4000, bytes);
    cr_assert(record_head_read(bytes, ID, 4000, &head));
    cr_expect_eq(memcmp(&head, &record, sizeof head), 0);
}

Test(journal_format, refuses_a_record_head_of_elsewhere_or_with_any_bit_changed)
{
    uint8_t bytes[FORMAT_RECORD_BYTES];
    uint8_t zeros[FORMAT_RECORD_BYTES] = {0};
    struct record_head head;
    record_head_write(&record, ID, 4000, bytes);
    cr_expect_not(record_head_read(bytes, ID, 4008, &head));
    cr_expect_not(record_head_read(bytes, ID + 1, 4000, &head));
    cr_expect_not(record_head_read(zeros, ID, 4000, &head));
    for (size_t bit = 0; bit < 8 * sizeof bytes; bit++) {
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
        cr_expect_not(record_head_read(bytes, ID, 4000, &head), "bit %zu", bit);
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
}

Test(journal_format, fills_bodies_up_to_eight)
{
    const uint8_t body[16] = {1, 2, 3};
    const uint64_t filled[] = {0, 8, 8, 8, 8, 8, 8, 8, 8, 16};
    for (size_t i = 0; i < sizeof filled / sizeof *filled; i++) {
        cr_expect_eq(format_filled(i), filled[i]);
        cr_expect_eq(format_record(i), FORMAT_RECORD_BYTES + filled[i]);
    }
    /* The filling counts, and is zero. */
    for (size_t i = 3; i <= 8; i++)
        cr_expect_eq(format_body_crc(body, i), format_body_crc(body, 8));
    cr_expect_neq(format_body_crc(body, 8), format_body_crc(body, 9));
    cr_expect_eq(format_body_crc(NULL, 0), 0);
}

Test(journal_format, orders_batches_over_the_end_of_their_numbers)
{
    cr_expect(format_batch_follows(5, 5));
    cr_expect(format_batch_follows(5, 6));
    cr_expect_not(format_batch_follows(6, 5));
    cr_expect(format_batch_follows(UINT32_MAX, 0));
    cr_expect_not(format_batch_follows(0, UINT32_MAX));
    cr_expect(format_batch_follows(0, 0x7fffffff));
    cr_expect_not(format_batch_follows(0, 0x80000000));
}
