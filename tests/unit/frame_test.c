/* SPDX-License-Identifier: MPL-2.0 */
/* frame_test.c -- batches and frames: every byte of a header means something, and a frame of many
 * values is read as it was written, whole and in parts. */
#include "libbus/wire/frame.h"

#include "libbus/wire/msg.h"
#include "tests/lib/draw.h"

#include <criterion/criterion.h>
#include <msgpack.h>
#include <stdlib.h>

enum { PART_BYTES = 1 << 20 };
static uint8_t part[PART_BYTES + 128]; /* and what is beyond the limit */

static struct frame frame_of(unsigned flags, const void *value, size_t bytes)
{
    return (struct frame){.flags = (uint16_t)flags,
                          .delivery = 2,
                          .attempt = 0x01020304,
                          .topic = 0x05060708,
                          .seq = UINT64_C(0x1112131415161718),
                          .stamp_ns = INT64_C(0x2122232425262728),
                          .reply_to = FRAME_NO_REPLY,
                          .value = span_of(value, bytes)};
}

/* A batch of these frames at out; its bytes. */
static size_t batch_make(uint8_t *out, const struct frame *frames, uint32_t count)
{
    size_t at = BATCH_HEADER_BYTES;
    for (uint32_t i = 0; i < count; i++) {
        frame_write(out + at, &frames[i]);
        at += frame_total(frames[i].value.bytes);
    }
    batch_header_write(out, count, (uint32_t)(at - BATCH_HEADER_BYTES), 1);
    return at;
}

/* How a batch ends that is read frame by frame; WIRE_EMPTY: all of it is good. */
static enum wire_err batch_read(const uint8_t *data, size_t bytes, struct frame *out_first)
{
    struct batch_reader reader;
    struct frame frame;
    enum wire_err err = batch_reader_init(&reader, span_of(data, bytes));
    for (unsigned i = 0; err == WIRE_OK; i++) {
        err = batch_reader_next(&reader, &frame);
        if (err == WIRE_OK && i == 0 && out_first != NULL)
            *out_first = frame;
    }
    return err;
}

static void check_same(const struct frame *a, const struct frame *b)
{
    cr_assert_eq(a->flags, b->flags);
    cr_assert_eq(a->delivery, b->delivery);
    cr_assert_eq(a->attempt, b->attempt);
    cr_assert_eq(a->topic, b->topic);
    cr_assert_eq(a->seq, b->seq);
    cr_assert_eq(a->stamp_ns, b->stamp_ns);
    cr_assert_eq(a->reply_to, b->reply_to);
    cr_assert(span_equal(a->value, b->value));
}

Test(frame, reads_what_it_wrote_at_any_address)
{
    static const char value[] = "0123456789abcdefghijklmnopqrstuvwxyz";
    for (size_t shift = 0; shift < 8; shift++)
        for (size_t bytes = 16; bytes < sizeof value; bytes++) {
            static const unsigned flags[] = {
                FRAME_VALUE, FRAME_COMMIT, FRAME_CHUNK, FRAME_ERROR, FRAME_CHUNK | FRAME_LAST_CHUNK,
                FRAME_END,   FRAME_GAP};
            for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++) {
                struct frame frame = frame_of(flags[i], value, bytes);
                struct frame got;
                size_t size = batch_make(part + shift, &frame, 1);
                cr_assert_eq(size % 8, 0);
                cr_assert_eq(batch_read(part + shift, size, &got), WIRE_EMPTY);
                check_same(&frame, &got);
                cr_assert_eq(got.frame_bytes, frame_total(bytes));
                cr_assert_eq(got.value.data, part + shift + 24 + FRAME_HEADER_BYTES);
            }
        }
}

Test(frame, keeps_the_ends_of_every_number)
{
    struct frame frame = {.delivery = UINT8_MAX,
                          .attempt = UINT32_MAX,
                          .topic = UINT32_MAX,
                          .seq = UINT64_MAX - 1,
                          .stamp_ns = INT64_MIN,
                          .reply_to = UINT64_MAX};
    struct frame got;
    cr_assert_eq(batch_read(part, batch_make(part, &frame, 1), &got), WIRE_EMPTY);
    check_same(&frame, &got);
    frame = (struct frame){.delivery = 1};
    cr_assert_eq(batch_read(part, batch_make(part, &frame, 1), &got), WIRE_EMPTY);
    check_same(&frame, &got);
}

/* ---- msgpack-c as the second opinion --------------------------------------------------------- */
static uint64_t unpack_number(const uint8_t *data, size_t bytes, size_t *at)
{
    msgpack_unpacked unpacked;
    msgpack_unpacked_init(&unpacked);
    cr_assert_eq(msgpack_unpack_next(&unpacked, (const char *)data, bytes, at),
                 MSGPACK_UNPACK_SUCCESS);
    cr_assert_eq(unpacked.data.type, MSGPACK_OBJECT_POSITIVE_INTEGER);
    uint64_t number = unpacked.data.via.u64;
    msgpack_unpacked_destroy(&unpacked);
    return number;
}

Test(frame, is_msgpack_to_msgpack_c)
{
    struct frame frame = frame_of(FRAME_CHUNK | FRAME_LAST_CHUNK, "0123456789abcdefg", 17);
    size_t bytes = batch_make(part, &frame, 1);
    size_t at = 1;
    cr_assert_eq(part[0], 0x95);
    static const uint64_t batch_numbers[] = {BATCH_NUMBER, BATCH_FORMAT, 1, 72, 1};
    for (size_t i = 0; i < 5; i++)
        cr_assert_eq(unpack_number(part, bytes, &at), batch_numbers[i], "%zu", i);
    cr_assert_eq(at, BATCH_HEADER_BYTES);
    cr_assert_eq(part[at], 0x98);
    at += 1;
    const uint64_t numbers[] = {
        0x13, 2, 0x01020304, 0x05060708, frame.seq, (uint64_t)frame.stamp_ns, UINT64_MAX};
    for (size_t i = 0; i < 7; i++)
        cr_assert_eq(unpack_number(part, bytes, &at), numbers[i], "%zu", i);
    cr_assert_eq(part[at], 0xc6);
    cr_assert_eq(wire_walk(span_of(part + 24, 48 + 17)), WIRE_OK);
    for (at = 24 + 48 + 17; at < bytes; at++)
        cr_assert_eq(part[at], 0xc0);

    uint8_t header[DELIVERY_HEADER_BYTES];
    delivery_header_write(header, 0x01020304);
    at = 1;
    cr_assert_eq(header[0], 0x92);
    cr_assert_eq(unpack_number(header, sizeof header, &at), DELIVERY_NUMBER);
    cr_assert_eq(unpack_number(header, sizeof header, &at), 0x01020304);
    cr_assert_eq(at, sizeof header);
}

/* ---- refusing -------------------------------------------------------------------------------- */
Test(frame, refuses_a_change_of_any_type_byte)
{
    static const uint8_t types[] = {0, 1, 4, 6, 11, 16, 25, 34, 43};
    struct frame frame = frame_of(FRAME_VALUE, "abc", 3);
    size_t bytes = batch_make(part, &frame, 1);
    for (size_t i = 0; i < sizeof types; i++)
        for (unsigned change = 1; change < 256; change++) {
            part[24 + types[i]] ^= (uint8_t)change;
            cr_assert_eq(batch_read(part, bytes, NULL), WIRE_FORMAT, "byte %u", types[i]);
            part[24 + types[i]] ^= (uint8_t)change;
        }
    for (size_t at = bytes - 5; at < bytes; at++) {
        part[at] ^= 1;
        cr_assert_eq(batch_read(part, bytes, NULL), WIRE_FORMAT, "padding at %zu", at);
        part[at] ^= 1;
    }
    cr_assert_eq(batch_read(part, bytes, NULL), WIRE_EMPTY);
}

Test(frame, refuses_flags_that_do_not_exist)
{
    for (unsigned flags = 0; flags <= UINT16_MAX; flags++) {
        unsigned kind = flags & FRAME_KIND_MASK;
        unsigned more = flags >> FRAME_MORE_SHIFT; /* 16 bytes are one value, or two of 8 */
        bool is_known = kind < FRAME_KIND_COUNT &&
                        (more == 0 || (more == 1 && kind == FRAME_VALUE)) &&
                        (!(flags & FRAME_LAST_CHUNK) || kind == FRAME_CHUNK);
        struct frame frame = frame_of(flags, "0123456789abcdef", 16);
        if (kind == FRAME_TOPIC)
            frame.seq = 0;
        cr_assert_eq(batch_read(part, batch_make(part, &frame, 1), NULL),
                     is_known ? WIRE_EMPTY : WIRE_RANGE, "flags %04x", flags);
    }
}

Test(frame, refuses_numbers_that_cannot_be)
{
    struct frame frame = frame_of(FRAME_VALUE, "abc", 3);
    frame.delivery = 0;
    cr_assert_eq(batch_read(part, batch_make(part, &frame, 1), NULL), WIRE_RANGE);
    frame = frame_of(FRAME_VALUE, "abc", 3);
    frame.seq = UINT64_MAX;
    cr_assert_eq(batch_read(part, batch_make(part, &frame, 1), NULL), WIRE_RANGE);
}

static const struct {
    unsigned flags;
    uint64_t least;
    uint64_t most;
} value_limits[] = {
    {FRAME_VALUE, 0, LIMIT_CHUNK_BYTES},
    {FRAME_COMMIT, 0, LIMIT_CHUNK_BYTES},
    {FRAME_RESERVE, 1, FRAME_PROMISE_BYTES_MAX},
    {FRAME_CHUNK, 16, 16 + LIMIT_CHUNK_BYTES},
    {FRAME_CHUNK | FRAME_LAST_CHUNK, 16, 16 + LIMIT_CHUNK_BYTES},
    {FRAME_ERROR, 1, LIMIT_ERROR_BYTES},
    {FRAME_TOPIC, 1, LIMIT_NAME_BYTES},
    {FRAME_GAP, 1, FRAME_GAP_BYTES_MAX},
    {FRAME_END, 0, LIMIT_ERROR_BYTES},
};

static enum wire_err read_sized(unsigned flags, uint64_t bytes)
{
    static const uint8_t value[LIMIT_CHUNK_BYTES + 32];
    struct frame frame = frame_of(flags, value, bytes);
    frame.seq = 0;
    return batch_read(part, batch_make(part, &frame, 1), NULL);
}

Test(frame, holds_the_limits_of_values)
{
    for (size_t i = 0; i < sizeof value_limits / sizeof value_limits[0]; i++) {
        unsigned flags = value_limits[i].flags;
        uint64_t least = value_limits[i].least;
        uint64_t most = value_limits[i].most;
        cr_assert_eq(read_sized(flags, most - 1), WIRE_EMPTY, "flags %x", flags);
        cr_assert_eq(read_sized(flags, most), WIRE_EMPTY, "flags %x", flags);
        cr_assert_eq(read_sized(flags, most + 1), WIRE_TOO_BIG, "flags %x", flags);
        cr_assert_eq(read_sized(flags, least), WIRE_EMPTY, "flags %x", flags);
        cr_assert_eq(read_sized(flags, least + 1), WIRE_EMPTY, "flags %x", flags);
        if (least > 0)
            cr_assert_eq(read_sized(flags, least - 1), WIRE_RANGE, "flags %x", flags);
    }
}

Test(frame, refuses_a_batch_cut_anywhere)
{
    struct frame frames[] = {frame_of(FRAME_VALUE, "abc", 3), frame_of(FRAME_VALUE, "abcdefgh", 8)};
    size_t bytes = batch_make(part, frames, 2);
    cr_assert_eq(batch_read(part, 0, NULL), WIRE_EMPTY);
    for (size_t size = 1; size < bytes; size++) {
        uint8_t *copy = malloc(size); /* of its own size, for the sanitizers */
        memcpy(copy, part, size);
        cr_assert_eq(batch_read(copy, size, NULL), WIRE_TRUNCATED, "%zu", size);
        if (size >= BATCH_HEADER_BYTES) {
            batch_header_write(copy, 2, (uint32_t)size - BATCH_HEADER_BYTES, 1);
            enum wire_err err = batch_read(copy, size, NULL);
            cr_assert(err == WIRE_TRUNCATED || err == WIRE_ITEMS, "%zu: %d", size, err);
        }
        free(copy);
    }
}

Test(frame, refuses_a_batch_whose_header_does_not_fit)
{
    struct frame frames[] = {frame_of(FRAME_VALUE, "abc", 3), frame_of(FRAME_VALUE, "abc", 3)};
    size_t bytes = batch_make(part, frames, 2);
    uint32_t inner = (uint32_t)bytes - BATCH_HEADER_BYTES;
    static const uint8_t types[] = {0, 1, 2, 3, 5, 10, 15};
    for (size_t i = 0; i < sizeof types; i++) {
        part[types[i]] ^= 0x80;
        cr_assert_eq(batch_read(part, bytes, NULL), WIRE_FORMAT, "byte %u", types[i]);
        part[types[i]] ^= 0x80;
    }
    for (unsigned format = 0; format < 256; format++) {
        part[4] = (uint8_t)format;
        cr_assert_eq(batch_read(part, bytes, NULL), format == BATCH_FORMAT ? WIRE_EMPTY
                                                    : format < 0x80        ? WIRE_RANGE
                                                                           : WIRE_FORMAT);
    }
    batch_header_write(part, 0, inner, 1);
    cr_assert_eq(batch_read(part, bytes, NULL), WIRE_RANGE);
    batch_header_write(part, 1, inner, 1);
    cr_assert_eq(batch_read(part, bytes, NULL), WIRE_TRAILING);
    batch_header_write(part, 3, inner, 1);
    cr_assert_eq(batch_read(part, bytes, NULL), WIRE_ITEMS);
    batch_header_write(part, 2, inner + 1, 1);
    cr_assert_eq(batch_read(part, bytes, NULL), WIRE_TRUNCATED);
    batch_header_write(part, 2, inner - 1, 1);
    cr_assert_eq(batch_read(part, bytes, NULL), WIRE_TRAILING);
    batch_header_write(part, 2, inner, UINT64_MAX - 2);
    cr_assert_eq(batch_read(part, bytes, NULL), WIRE_EMPTY);
    batch_header_write(part, 2, inner, UINT64_MAX - 1);
    cr_assert_eq(batch_read(part, bytes, NULL), WIRE_RANGE);
}

Test(frame, holds_the_limits_of_batches)
{
    for (uint32_t count = LIMIT_BATCH_FRAMES - 1; count <= LIMIT_BATCH_FRAMES + 1; count++) {
        size_t bytes = BATCH_HEADER_BYTES + (size_t)count * FRAME_HEADER_BYTES;
        struct frame frame = frame_of(FRAME_VALUE, NULL, 0);
        uint8_t *data = malloc(bytes);
        for (uint32_t i = 0; i < count; i++)
            frame_write(data + BATCH_HEADER_BYTES + (size_t)i * FRAME_HEADER_BYTES, &frame);
        batch_header_write(data, count, (uint32_t)bytes - BATCH_HEADER_BYTES, 1);
        enum wire_err err = count > LIMIT_BATCH_FRAMES ? WIRE_RANGE : WIRE_EMPTY;
        cr_assert_eq(batch_read(data, bytes, NULL), bytes > LIMIT_PART_BYTES ? WIRE_TOO_BIG : err);
        free(data);
    }
    struct batch_reader reader;
    batch_header_write(part, 9, (uint32_t)LIMIT_PART_BYTES - BATCH_HEADER_BYTES, 1);
    cr_assert_eq(batch_reader_init(&reader, span_of(part, LIMIT_PART_BYTES)), WIRE_OK);
    cr_assert_eq(batch_reader_init(&reader, span_of(part, LIMIT_PART_BYTES + 1)), WIRE_TOO_BIG);
    batch_header_write(part, 9, (uint32_t)LIMIT_PART_BYTES - BATCH_HEADER_BYTES - 1, 1);
    cr_assert_eq(batch_reader_init(&reader, span_of(part, LIMIT_PART_BYTES - 1)), WIRE_OK);
}

/* ---- many values ----------------------------------------------------------------------------- */
/* A batch of one frame with count values of so many bytes, each byte telling where it stands. */
static size_t many_make(uint32_t count, size_t bytes, struct frame *out_frame)
{
    size_t stride = frame_padded(bytes);
    uint8_t *value = part + BATCH_HEADER_BYTES + FRAME_HEADER_BYTES;
    *out_frame = frame_of(FRAME_VALUE, value, bytes);
    out_frame->more = (uint16_t)(count - 1);
    memset(value, 0xc0, count * stride);
    for (uint32_t i = 0; i < count; i++)
        memset(value + i * stride, (int)(1 + i % 100), bytes);
    frame_header_write(part + BATCH_HEADER_BYTES, out_frame);
    size_t size = BATCH_HEADER_BYTES + FRAME_HEADER_BYTES + count * stride;
    batch_header_write(part, 1, (uint32_t)size - BATCH_HEADER_BYTES, 1);
    out_frame->frame_bytes = size - BATCH_HEADER_BYTES;
    return size;
}

Test(frame, reads_many_values_of_any_size)
{
    static const uint32_t counts[] = {2, 3, 7, FRAME_MORE_MAX, FRAME_MORE_MAX + 1};
    for (size_t bytes = 1; bytes <= 33; bytes++)
        for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
            struct frame made;
            struct frame got;
            size_t size = many_make(counts[i], bytes, &made);
            cr_assert_eq(batch_read(part, size, &got), WIRE_EMPTY, "%zu x%u", bytes, counts[i]);
            check_same(&made, &got);
            cr_assert_eq(got.more, made.more);
            cr_assert_eq(got.frame_bytes, made.frame_bytes);
            cr_assert_eq(frame_count(&got), counts[i]);
        }
}

Test(frame, writes_many_values_as_they_were_read)
{
    struct frame made;
    static uint8_t again[1024];
    size_t size = many_make(9, 13, &made);
    frame_write(again, &made);
    cr_assert_arr_eq(again, part + BATCH_HEADER_BYTES, size - BATCH_HEADER_BYTES);
}

static void check_part(const struct frame *whole, uint32_t skip, uint32_t count)
{
    static uint8_t out[BATCH_HEADER_BYTES + 4096];
    struct frame got;
    size_t stride = frame_padded(whole->value.bytes);
    size_t bytes =
        frame_part_write(out + BATCH_HEADER_BYTES, part + BATCH_HEADER_BYTES, skip, count);
    cr_assert_eq(bytes, FRAME_HEADER_BYTES + count * stride);
    batch_header_write(out, 1, (uint32_t)bytes, 1);
    cr_assert_eq(batch_read(out, BATCH_HEADER_BYTES + bytes, &got), WIRE_EMPTY);
    cr_assert_eq(got.seq, whole->seq + skip);
    cr_assert_eq(frame_count(&got), count);
    cr_assert_eq(got.value.bytes, whole->value.bytes);
    cr_assert_eq(got.stamp_ns, whole->stamp_ns);
    for (uint32_t i = 0; i < count; i++)
        cr_assert_arr_eq((const uint8_t *)got.value.data + i * stride,
                         (const uint8_t *)whole->value.data + (skip + i) * stride,
                         whole->value.bytes);
}

Test(frame, cuts_any_part_out_of_many_values)
{
    for (size_t bytes = 7; bytes <= 9; bytes++) {
        struct frame whole;
        many_make(12, bytes, &whole);
        for (uint32_t skip = 0; skip < 12; skip++)
            for (uint32_t count = 1; count <= 12 - skip; count++)
                check_part(&whole, skip, count);
    }
}

static enum wire_err read_changed(struct frame frame, uint32_t value_bytes)
{
    uint8_t *header = part + BATCH_HEADER_BYTES;
    frame_header_write(header, &frame);
    for (int i = 0; value_bytes > 0 && i < 4; i++)
        header[44 + i] = (uint8_t)(value_bytes >> (24 - 8 * i));
    return batch_read(part, BATCH_HEADER_BYTES + frame.frame_bytes, NULL);
}

Test(frame, refuses_many_of_what_there_can_be_but_one)
{
    struct frame made;
    many_make(4, 16, &made);
    cr_assert_eq(read_changed(made, 0), WIRE_EMPTY);
    struct frame frame = made;
    for (unsigned kind = 1; kind < FRAME_KIND_COUNT; kind++) {
        frame.flags = (uint16_t)kind;
        cr_assert_eq(read_changed(frame, 0), WIRE_RANGE, "kind %u", kind);
    }
    frame = made;
    frame.reply_to = 5;
    cr_assert_eq(read_changed(frame, 0), WIRE_RANGE);
    frame = made;
    frame.seq = UINT64_MAX - 4;
    cr_assert_eq(read_changed(frame, 0), WIRE_EMPTY);
    frame.seq = UINT64_MAX - 3;
    cr_assert_eq(read_changed(frame, 0), WIRE_RANGE);
    /* four values in 57..64 bytes are of 9 to 16; less does not divide */
    for (uint32_t bytes = 57; bytes <= 64; bytes++)
        cr_assert_neq(read_changed(made, bytes), WIRE_RANGE, "%u", bytes);
    frame = made;
    frame.more = 2; /* three in 64 bytes */
    cr_assert_eq(read_changed(frame, 64), WIRE_RANGE);
    frame.more = 6; /* seven in 64: not of 8 bytes each */
    cr_assert_eq(read_changed(frame, 64), WIRE_RANGE);
    frame.more = 3;
    cr_assert_eq(read_changed(frame, 8), WIRE_RANGE); /* four in 8 */
}

Test(frame, refuses_padding_that_is_none_between_values)
{
    struct frame made;
    for (uint32_t i = 0; i < 5; i++) {
        size_t size = many_make(5, 13, &made);
        cr_assert_eq(batch_read(part, size, NULL), WIRE_EMPTY);
        part[BATCH_HEADER_BYTES + FRAME_HEADER_BYTES + i * 16 + 14] = 0;
        cr_assert_eq(batch_read(part, size, NULL), WIRE_FORMAT, "value %u", i);
    }
}

Test(frame, holds_the_limit_of_many_values_together)
{
    struct frame made;
    size_t each = LIMIT_CHUNK_BYTES / 4;
    size_t size = many_make(4, each, &made);
    cr_assert_eq(batch_read(part, size, NULL), WIRE_EMPTY);
    size = many_make(4, each - 1, &made);
    cr_assert_eq(batch_read(part, size, NULL), WIRE_EMPTY);
    size = many_make(4, each + 1, &made);
    cr_assert_eq(batch_read(part, size, NULL), WIRE_TOO_BIG);
}

Test(frame, numbers_each_of_many_values)
{
    struct frame made;
    size_t size = many_make(4, 16, &made);
    uint32_t inner = (uint32_t)size - BATCH_HEADER_BYTES;
    batch_header_write(part, 1, inner, UINT64_MAX - 4);
    cr_assert_eq(batch_read(part, size, NULL), WIRE_EMPTY);
    batch_header_write(part, 1, inner, UINT64_MAX - 3);
    cr_assert_eq(batch_read(part, size, NULL), WIRE_RANGE);
}

/* Whatever is changed: what is read lies within the part, and is written again as it was. */
Test(frame, reads_only_what_is_there_whatever_is_changed)
{
    static uint8_t again[4096];
    uint64_t random = 3;
    for (unsigned round = 0; round < 20000; round++) {
        struct frame made;
        struct frame got;
        uint32_t count = 1 + draw_below(&random, 9);
        size_t size = many_make(count, 1 + draw_below(&random, 20), &made);
        for (uint32_t changes = draw_below(&random, 3); changes > 0; changes--)
            part[BATCH_HEADER_BYTES + draw(&random) % (size - BATCH_HEADER_BYTES)] ^=
                (uint8_t)(1u << draw_below(&random, 8));
        if (batch_read(part, size, &got) != WIRE_EMPTY)
            continue;
        cr_assert_eq(got.frame_bytes, size - BATCH_HEADER_BYTES);
        frame_write(again, &got);
        cr_assert_arr_eq(again, part + BATCH_HEADER_BYTES, got.frame_bytes);
    }
}

/* ---- the rest -------------------------------------------------------------------------------- */
Test(frame, gets_another_topic_number)
{
    struct frame frame = frame_of(FRAME_VALUE, "abc", 3);
    struct frame got;
    size_t bytes = batch_make(part, &frame, 1);
    frame_topic_rewrite(part + BATCH_HEADER_BYTES, 77);
    cr_assert_eq(batch_read(part, bytes, &got), WIRE_EMPTY);
    frame.topic = 77;
    check_same(&frame, &got);
}

Test(frame, reads_and_refuses_headers_of_deliveries)
{
    uint8_t header[DELIVERY_HEADER_BYTES + 1] = {0};
    uint32_t sub = 0;
    delivery_header_write(header, UINT32_MAX);
    cr_assert_eq(delivery_header_read(span_of(header, 9), &sub), WIRE_OK);
    cr_assert_eq(sub, UINT32_MAX);
    cr_assert_eq(delivery_header_read(span_of(header, 10), &sub), WIRE_TRAILING);
    cr_assert_eq(delivery_header_read(span_of(header, 0), &sub), WIRE_EMPTY);
    for (size_t bytes = 1; bytes < 9; bytes++)
        cr_assert_eq(delivery_header_read(span_of(header, bytes), &sub), WIRE_TRUNCATED);
    for (size_t at = 0; at < 5; at++) {
        header[at] ^= 1;
        cr_assert_eq(delivery_header_read(span_of(header, 9), &sub), WIRE_FORMAT);
        header[at] ^= 1;
    }
}

static enum wire_err chunk_read(uint64_t total, uint64_t offset, size_t bytes)
{
    struct frame_chunk chunk;
    frame_chunk_prefix_write(part, total, offset);
    enum wire_err err = frame_chunk_decode(span_of(part, 16 + bytes), &chunk);
    if (err == WIRE_OK) {
        cr_assert_eq(chunk.total_bytes, total);
        cr_assert_eq(chunk.offset, offset);
        cr_assert_eq(chunk.bytes.data, part + 16);
        cr_assert_eq(chunk.bytes.bytes, bytes);
    }
    return err;
}

Test(frame, reads_chunks_that_lie_within_their_value)
{
    struct frame_chunk chunk;
    cr_assert_eq(chunk_read(100, 90, 9), WIRE_OK);
    cr_assert_eq(chunk_read(100, 90, 10), WIRE_OK);
    cr_assert_eq(chunk_read(100, 90, 11), WIRE_RANGE);
    cr_assert_eq(chunk_read(100, 100, 0), WIRE_OK);
    cr_assert_eq(chunk_read(100, 101, 0), WIRE_RANGE);
    cr_assert_eq(chunk_read(100, UINT64_MAX, 1), WIRE_RANGE);
    cr_assert_eq(chunk_read(0, 0, 0), WIRE_OK);
    cr_assert_eq(chunk_read(LIMIT_VALUE_BYTES - 1, 0, 1), WIRE_OK);
    cr_assert_eq(chunk_read(LIMIT_VALUE_BYTES, 0, 1), WIRE_OK);
    cr_assert_eq(chunk_read(LIMIT_VALUE_BYTES + 1, 0, 1), WIRE_TOO_BIG);
    cr_assert_eq(chunk_read(LIMIT_VALUE_BYTES, 0, LIMIT_CHUNK_BYTES), WIRE_OK);
    cr_assert_eq(chunk_read(LIMIT_VALUE_BYTES, 0, LIMIT_CHUNK_BYTES + 1), WIRE_TOO_BIG);
    cr_assert_eq(frame_chunk_decode(span_of(part, 15), &chunk), WIRE_TRUNCATED);
}

Test(frame, names_each_code)
{
    for (unsigned err = 0; err < WIRE_ERR_COUNT; err++)
        for (unsigned other = 0; other < err; other++)
            cr_assert_str_neq(wire_strerror((enum wire_err)err),
                              wire_strerror((enum wire_err)other));
    cr_assert_str_eq(wire_strerror(WIRE_ERR_COUNT), "no such code");
    cr_assert_str_eq(wire_strerror((enum wire_err) - 1), "no such code");
}
