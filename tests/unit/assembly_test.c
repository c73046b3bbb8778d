/* SPDX-License-Identifier: MPL-2.0 */
/* assembly_test.c -- chunks in order, twice, overlapping, and wrong. */
#include "libbus/session/assembly.h"

#include "libbus/base/limits.h"
#include "tests/unit/failing_buffers.h"

#include <criterion/criterion.h>

static struct assembly assembly;
static uint8_t bytes[LIMIT_CHUNK_BYTES + FRAME_CHUNK_PREFIX_BYTES];

static int64_t stamp_ns;

static enum assembly_verdict add_marked(uint64_t seq, uint64_t total, uint64_t offset, size_t count,
                                        unsigned flags)
{
    frame_chunk_prefix_write(bytes, total, offset);
    for (size_t i = 0; i < count; i++)
        bytes[FRAME_CHUNK_PREFIX_BYTES + i] = (uint8_t)((offset + i) * 3);
    struct frame frame = {.flags = (uint16_t)(FRAME_CHUNK | flags),
                          .seq = seq,
                          .stamp_ns = stamp_ns,
                          .value = span_of(bytes, FRAME_CHUNK_PREFIX_BYTES + count)};
    return assembly_add(&assembly, &frame, LIMIT_VALUE_BYTES);
}

static enum assembly_verdict add(uint64_t seq, uint64_t total, uint64_t offset, size_t count)
{
    return add_marked(seq, total, offset, count, 0);
}

static void expect_whole(uint64_t seq, uint64_t total)
{
    cr_assert_eq(assembly.seq, seq);
    cr_assert_eq(assembly.value->bytes, total);
    cr_assert_eq((uintptr_t)assembly.value->data % 8, 0);
    for (uint64_t i = 0; i < total; i++)
        cr_assert_eq(assembly.value->data[i], (uint8_t)(i * 3));
    assembly_drop(&assembly);
}

Test(assembly, puts_chunks_together)
{
    cr_assert_eq(add(4, 1000, 0, 400), ASSEMBLY_GOES_ON);
    cr_assert_eq(assembly_offset(&assembly, 4), 400);
    cr_assert_eq(assembly_offset(&assembly, 5), 0);
    cr_assert_eq(add(4, 1000, 400, 599), ASSEMBLY_GOES_ON);
    cr_assert_eq(add_marked(4, 1000, 999, 1, FRAME_LAST_CHUNK), ASSEMBLY_WHOLE);
    expect_whole(4, 1000);
    cr_assert_eq(add(5, 1, 0, 1), ASSEMBLY_WHOLE);
    expect_whole(5, 1);
}

Test(assembly, takes_what_is_new_of_what_comes_again)
{
    cr_assert_eq(add(4, 1000, 0, 400), ASSEMBLY_GOES_ON);
    cr_assert_eq(add(4, 1000, 0, 400), ASSEMBLY_GOES_ON);
    cr_assert_eq(add(4, 1000, 100, 200), ASSEMBLY_GOES_ON);
    cr_assert_eq(assembly_offset(&assembly, 4), 400);
    cr_assert_eq(add(4, 1000, 300, 500), ASSEMBLY_GOES_ON);
    cr_assert_eq(assembly_offset(&assembly, 4), 800);
    cr_assert_eq(add(4, 1000, 0, 1000), ASSEMBLY_WHOLE);
    expect_whole(4, 1000);
}

Test(assembly, begins_anew_with_another_slot)
{
    cr_assert_eq(add(4, 1000, 0, 400), ASSEMBLY_GOES_ON);
    cr_assert_eq(add(6, 50, 0, 20), ASSEMBLY_GOES_ON);
    cr_assert_eq(assembly_offset(&assembly, 4), 0);
    cr_assert_eq(add(6, 50, 20, 30), ASSEMBLY_WHOLE);
    expect_whole(6, 50);
}

Test(assembly, begins_anew_with_another_value_of_the_slot)
{
    cr_assert_eq(add(4, 1000, 0, 400), ASSEMBLY_GOES_ON);
    stamp_ns = 1;
    cr_assert_eq(add(4, 1000, 0, 200), ASSEMBLY_GOES_ON);
    cr_assert_eq(assembly_offset(&assembly, 4), 200);
    stamp_ns = 2;
    cr_assert_eq(add(4, 1000, 200, 200), ASSEMBLY_BROKEN, "what came before it is not there");
    assembly_drop(&assembly);
}

/* The piece that a chunk makes; its offset, or -1. */
static int64_t pass(uint64_t seq, uint64_t total, uint64_t offset, size_t count, size_t *out_bytes)
{
    struct assembly_piece piece = {.bytes = SPAN_NONE};
    uint64_t before = assembly_offset(&assembly, seq);
    frame_chunk_prefix_write(bytes, total, offset);
    struct frame frame = {.flags = FRAME_CHUNK,
                          .seq = seq,
                          .stamp_ns = stamp_ns,
                          .value = span_of(bytes, FRAME_CHUNK_PREFIX_BYTES + count)};
    enum assembly_verdict verdict = assembly_pass(&assembly, &frame, LIMIT_VALUE_BYTES, &piece);
    if (verdict == ASSEMBLY_BROKEN)
        return -1;
    *out_bytes = piece.bytes.bytes;
    cr_assert_eq(piece.total_bytes, total);
    cr_assert_eq(verdict == ASSEMBLY_WHOLE, piece.offset + piece.bytes.bytes == total);
    cr_assert_eq(assembly_offset(&assembly, seq),
                 verdict == ASSEMBLY_WHOLE ? 0 : before + piece.bytes.bytes);
    if (piece.bytes.bytes > 0)
        cr_assert_eq((const uint8_t *)piece.bytes.data,
                     bytes + FRAME_CHUNK_PREFIX_BYTES + (piece.offset - offset));
    return (int64_t)piece.offset;
}

Test(assembly, passes_each_byte_on_once_and_where_it_lies)
{
    size_t count = 0;
    cr_assert_eq(pass(4, 1000, 0, 400, &count), 0);
    cr_assert_eq(count, 400);
    cr_assert_eq(pass(4, 1000, 0, 400, &count), 400);
    cr_assert_eq(count, 0, "all of it came before");
    cr_assert_eq(pass(4, 1000, 300, 300, &count), 400);
    cr_assert_eq(count, 200);
    cr_assert_eq(pass(4, 1000, 601, 1, &count), -1, "one is missing");
    cr_assert_eq(pass(4, 1001, 600, 1, &count), -1);
    cr_assert_eq(pass(4, 1000, 600, 400, &count), 600);
    cr_assert_eq(count, 400);
    cr_assert_eq(pass(5, 10, 1, 9, &count), -1, "it has no beginning");
    cr_assert_eq(pass(5, LIMIT_VALUE_BYTES + 1, 0, 9, &count), -1);
    cr_assert_eq(pass(5, 10, 0, 5, &count), 0);
    stamp_ns = 7; /* another value of the slot */
    cr_assert_eq(pass(5, 10, 5, 5, &count), -1);
    cr_assert_eq(pass(5, 10, 0, 10, &count), 0);
    cr_assert_eq(count, 10);
    assembly_drop(&assembly);
}

Test(assembly, refuses_what_does_not_fit)
{
    cr_assert_eq(add(4, 1000, 1, 10), ASSEMBLY_BROKEN); /* not the first */
    cr_assert_eq(add(4, 0, 0, 0), ASSEMBLY_BROKEN);     /* nothing in it */
    cr_assert_eq(add(4, 1000, 0, 0), ASSEMBLY_BROKEN);
    cr_assert_eq(add(4, 10, 0, 11), ASSEMBLY_BROKEN); /* beyond its total */
    cr_assert_eq(add(4, LIMIT_VALUE_BYTES + 1, 0, 1), ASSEMBLY_BROKEN);
    cr_assert_eq(add_marked(4, 1000, 0, 10, FRAME_LAST_CHUNK), ASSEMBLY_BROKEN);
    assembly_drop(&assembly);
    cr_assert_eq(add(4, 1000, 0, 100), ASSEMBLY_GOES_ON);
    cr_assert_eq(add(4, 1000, 101, 10), ASSEMBLY_BROKEN); /* a hole */
    cr_assert_eq(add(4, 1001, 100, 10), ASSEMBLY_BROKEN); /* another total */
    cr_assert_eq(add(4, 1000, 100, 900), ASSEMBLY_WHOLE); /* what was here stands */
    expect_whole(4, 1000);
    struct frame frame = {.flags = FRAME_CHUNK, .value = span_of(bytes, 15)};
    cr_assert_eq(assembly_add(&assembly, &frame, LIMIT_VALUE_BYTES), ASSEMBLY_BROKEN);
    frame_chunk_prefix_write(bytes, 1000, 0);
    frame.value = span_of(bytes, FRAME_CHUNK_PREFIX_BYTES + 1);
    cr_assert_eq(assembly_add(&assembly, &frame, 999),
                 ASSEMBLY_BROKEN); /* more than the job takes */
    cr_assert_eq(assembly_add(&assembly, &frame, 1000), ASSEMBLY_GOES_ON);
    assembly_drop(&assembly);
}

Test(assembly, says_so_when_memory_is_short)
{
    buffers_left = 0;
    cr_assert_eq(add(4, LIMIT_VALUE_BYTES, 0, 10), ASSEMBLY_NO_MEMORY);
    cr_assert_null(assembly.value);
    buffers_left = UINT64_MAX;
    cr_assert_eq(add(5, 100, 0, 10), ASSEMBLY_GOES_ON);
    assembly_drop(&assembly);
}
