/* SPDX-License-Identifier: MPL-2.0 */
/* frame_test.c -- batches and frames: every byte of a header means something, and a run is what its
 * frames are one by one. */
#include "libbus/wire/frame.h"

#include "libbus/wire/msg.h"

#include <criterion/criterion.h>
#include <msgpack.h>
#include <stdlib.h>

enum { PART_BYTES = 1 << 20 };
static uint8_t part[PART_BYTES + 8];

static uint32_t next_random(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(*state >> 33);
}

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
        bool is_known = kind < FRAME_KIND_COUNT && (flags & ~0x1fu) == 0 &&
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
    frame = frame_of(FRAME_TOPIC, "abc", 3);
    frame.seq = 1;
    cr_assert_eq(batch_read(part, batch_make(part, &frame, 1), NULL), WIRE_RANGE);
}

static const struct {
    unsigned flags;
    uint64_t least;
    uint64_t most;
} value_limits[] = {
    {FRAME_VALUE, 0, LIMIT_CHUNK_BYTES},
    {FRAME_COMMIT, 0, LIMIT_CHUNK_BYTES},
    {FRAME_RESERVE, 1, FRAME_RESERVE_BYTES_MAX},
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

/* ---- runs ------------------------------------------------------------------------------------ */
static uint32_t first_run(size_t bytes)
{
    struct batch_reader reader;
    struct batch_run run;
    cr_assert_eq(batch_reader_init(&reader, span_of(part, bytes)), WIRE_OK);
    cr_assert_eq(batch_reader_next_run(&reader, &run), WIRE_OK);
    return run.count;
}

Test(frame, ends_a_run_where_a_frame_differs)
{
    struct frame frames[4];
    for (uint32_t i = 0; i < 4; i++) {
        frames[i] = frame_of(FRAME_VALUE, "abc", 3);
        frames[i].seq = 7 + i;
        frames[i].stamp_ns = 1000 * i;
    }
    cr_assert_eq(first_run(batch_make(part, frames, 4)), 4);
    struct frame was = frames[2];
#define ENDS_AT_TWO(change)                                                                        \
    do {                                                                                           \
        change;                                                                                    \
        cr_assert_eq(first_run(batch_make(part, frames, 4)), 2, #change);                          \
        frames[2] = was;                                                                           \
    } while (0)
    ENDS_AT_TWO(frames[2].flags = FRAME_COMMIT);
    ENDS_AT_TWO(frames[2].delivery += 1);
    ENDS_AT_TWO(frames[2].attempt += 1);
    ENDS_AT_TWO(frames[2].attempt += 1u << 24);
    ENDS_AT_TWO(frames[2].topic += 1);
    ENDS_AT_TWO(frames[2].topic += 1u << 24);
    ENDS_AT_TWO(frames[2].seq += 1);
    ENDS_AT_TWO(frames[2].seq -= 1);
    ENDS_AT_TWO(frames[2].reply_to = 5);
    ENDS_AT_TWO(frames[2].reply_to = FRAME_NO_REPLY - 1);
    ENDS_AT_TWO(frames[2].value.bytes = 2);
#undef ENDS_AT_TWO
}

Test(frame, makes_runs_of_values_and_commits_alone)
{
    for (unsigned kind = 0; kind < FRAME_KIND_COUNT; kind++) {
        struct frame frames[3];
        for (uint32_t i = 0; i < 3; i++) {
            frames[i] = frame_of(kind, "0123456789abcdef", 16);
            frames[i].seq = kind == FRAME_TOPIC ? 0 : i;
        }
        unsigned count = kind == FRAME_VALUE || kind == FRAME_COMMIT ? 3 : 1;
        cr_assert_eq(first_run(batch_make(part, frames, 3)), count, "kind %u", kind);
    }
}

Test(frame, ends_a_run_before_the_numbers_do)
{
    struct frame frames[3];
    struct batch_reader reader;
    struct batch_run run;
    for (uint32_t i = 0; i < 3; i++) {
        frames[i] = frame_of(FRAME_VALUE, "abc", 3);
        frames[i].seq = UINT64_MAX - 2 + i;
    }
    cr_assert_eq(batch_reader_init(&reader, span_of(part, batch_make(part, frames, 3))), WIRE_OK);
    cr_assert_eq(batch_reader_next_run(&reader, &run), WIRE_OK);
    cr_assert_eq(run.count, 2);
    cr_assert_eq(batch_reader_next_run(&reader, &run), WIRE_RANGE);
}

/* Reads the run's frames again, one by one, and compares. */
static void check_run(struct batch_reader *slow, const struct batch_run *run)
{
    for (uint32_t i = 0; i < run->count; i++) {
        struct frame frame;
        size_t at = slow->at;
        cr_assert_eq(batch_reader_next(slow, &frame), WIRE_OK);
        cr_assert_eq(at, run->offset + (size_t)i * run->stride);
        cr_assert_eq(frame.frame_bytes, run->stride);
        cr_assert_eq(frame.seq, run->first.seq + i);
        cr_assert_eq(frame.flags, run->first.flags);
        cr_assert_eq(frame.topic, run->first.topic);
        cr_assert_eq(frame.attempt, run->first.attempt);
        cr_assert_eq(frame.delivery, run->first.delivery);
        cr_assert_eq(frame.reply_to, run->first.reply_to);
        cr_assert_eq(frame.value.bytes, run->first.value.bytes);
    }
}

static void check_runs(const uint8_t *data, size_t bytes)
{
    struct batch_reader fast;
    struct batch_reader slow;
    struct batch_run run;
    struct frame frame;
    enum wire_err err = batch_reader_init(&fast, span_of(data, bytes));
    cr_assert_eq(batch_reader_init(&slow, span_of(data, bytes)), err);
    while (err == WIRE_OK) {
        err = batch_reader_next_run(&fast, &run);
        if (err == WIRE_OK)
            check_run(&slow, &run);
    }
    if (bytes > 0)
        cr_assert_eq(batch_reader_next(&slow, &frame), err);
}

Test(frame, reads_runs_as_it_reads_frames_whatever_is_changed)
{
    uint64_t random = 3;
    for (unsigned round = 0; round < 20000; round++) {
        struct frame frames[6];
        uint32_t count = 1 + next_random(&random) % 6;
        for (uint32_t i = 0; i < count; i++) {
            frames[i] = frame_of(next_random(&random) % 8 == 0 ? FRAME_COMMIT : FRAME_VALUE,
                                 "0123456789abcdefghij", 13);
            frames[i].seq = i > 0 && next_random(&random) % 8 ? frames[i - 1].seq + 1 : 5;
        }
        uint8_t *data = part + next_random(&random) % 8;
        size_t bytes = batch_make(data, frames, count);
        for (uint32_t changes = next_random(&random) % 3; changes > 0; changes--) {
            size_t at = BATCH_HEADER_BYTES + next_random(&random) % (bytes - BATCH_HEADER_BYTES);
            data[at] ^= (uint8_t)(1u << next_random(&random) % 8);
        }
        check_runs(data, bytes);
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
