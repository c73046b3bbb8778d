/* SPDX-License-Identifier: MPL-2.0 */
/* uploads_test.c -- chunks: turns, bounds, resuming, accounts. */
#include "libbus/session/uploads.h"

#include "libbus/base/limits.h"
#include "libbus/wire/frame.h"

#include "libbus/base/must.h"

#include <criterion/criterion.h>
#include <stdlib.h>

#define UNDER_WAY (LIMIT_UPLOAD_BYTES / DEFAULT_CHUNK_BYTES) /* chunks */

static struct memory memory;
static struct uploads uploads;

static void init(void)
{
    memory_heap_init(&memory, UINT64_MAX);
    uploads_init(&uploads, &memory);
}

static void fini(void)
{
    uploads_fini(&uploads);
    must(uploads.bytes == 0);
    must(uploads.under_way == 0);
    must(memory.bytes_used == 0);
}

TestSuite(uploads, .init = init, .fini = fini);

static uint64_t topics = 1; /* each slot is of the next one */

static uint32_t topic_of(uint64_t seq)
{
    return (uint32_t)(3 + seq % topics);
}

static void add(uint64_t seq, uint64_t after, size_t bytes)
{
    struct buffer *value = buffer_new(bytes);
    value->bytes = bytes;
    for (size_t i = 0; i < bytes; i++)
        value->data[i] = (uint8_t)(i * 7 + i / 256);
    struct upload upload = {.after = after,
                            .topic = topic_of(seq),
                            .seq = seq,
                            .attempt = 2,
                            .stamp_ns = 99,
                            .piece_bytes = DEFAULT_CHUNK_BYTES};
    cr_assert(uploads_add(&uploads, &upload, &value));
    cr_assert_null(value);
}

/* The next chunk is of this slot, at this offset, and as it should be. */
static void expect_chunk(uint64_t frames_sent, uint64_t seq, uint64_t offset)
{
    struct upload *upload = uploads_next(&uploads, frames_sent);
    cr_assert_not_null(upload);
    size_t bytes = upload_part_bytes(upload);
    uint8_t *part = malloc(bytes);
    upload_part_write(upload, part);
    struct batch_reader reader;
    struct frame frame;
    struct frame_chunk chunk;
    cr_assert_eq(batch_reader_init(&reader, span_of(part, bytes)), WIRE_OK);
    cr_assert_eq(reader.number, 0);
    cr_assert_eq(batch_reader_next(&reader, &frame), WIRE_OK);
    cr_assert_eq(frame_chunk_decode(frame.value, &chunk), WIRE_OK);
    cr_assert_eq(frame.topic, topic_of(seq));
    cr_assert_eq(frame.attempt, 2);
    cr_assert_eq(frame.stamp_ns, 99);
    cr_assert_eq(frame.seq, seq);
    cr_assert_eq(chunk.offset, offset, "offset %llu", (unsigned long long)chunk.offset);
    cr_assert_eq(chunk.total_bytes, upload->value->bytes);
    cr_assert_eq(memcmp(chunk.bytes.data, upload->value->data + offset, chunk.bytes.bytes), 0);
    cr_assert_eq((frame.flags & FRAME_LAST_CHUNK) != 0,
                 offset + chunk.bytes.bytes == chunk.total_bytes);
    cr_assert_eq(batch_reader_next(&reader, &frame), WIRE_EMPTY);
    free(part);
    uploads_sent(&uploads, upload);
}

Test(uploads, cuts_values_of_any_length)
{
    const uint64_t chunk = DEFAULT_CHUNK_BYTES;
    static const int64_t beyond[] = {-1, 0, 1, 7, 8, 9};
    for (size_t i = 0; i < sizeof beyond / sizeof *beyond; i++) {
        add(i, 0, (size_t)(2 * (int64_t)chunk + beyond[i]));
        expect_chunk(0, i, 0);
        expect_chunk(0, i, chunk);
        if (beyond[i] > 0)
            expect_chunk(0, i, 2 * chunk);
        cr_assert_null(uploads_next(&uploads, 0));
        cr_assert_eq(uploads_accept(&uploads, 3, i, (uint64_t)(2 * (int64_t)chunk + beyond[i])),
                     UPLOADS_DONE);
    }
}

Test(uploads, waits_for_the_promise)
{
    add(0, 5, 10);
    cr_assert_null(uploads_next(&uploads, 4));
    expect_chunk(5, 0, 0);
}

Test(uploads, takes_turns)
{
    const uint64_t chunk = DEFAULT_CHUNK_BYTES;
    topics = 4;
    add(0, 1, 3 * DEFAULT_CHUNK_BYTES);
    add(1, 2, DEFAULT_CHUNK_BYTES);
    add(2, 9, DEFAULT_CHUNK_BYTES); /* its promise is not sent */
    add(3, 3, 2 * DEFAULT_CHUNK_BYTES);
    expect_chunk(3, 0, 0);
    expect_chunk(3, 1, 0);
    expect_chunk(3, 3, 0);
    expect_chunk(3, 0, chunk);
    expect_chunk(3, 3, chunk);
    expect_chunk(3, 0, 2 * chunk);
    cr_assert_null(uploads_next(&uploads, 3));
    expect_chunk(9, 2, 0);
}

Test(uploads, sends_values_of_one_topic_one_after_the_other)
{
    const uint64_t chunk = DEFAULT_CHUNK_BYTES;
    topics = 2;
    add(0, 0, 2 * DEFAULT_CHUNK_BYTES);
    add(2, 0, 2 * DEFAULT_CHUNK_BYTES);
    add(1, 0, 2 * DEFAULT_CHUNK_BYTES);
    expect_chunk(0, 0, 0);
    expect_chunk(0, 1, 0);
    expect_chunk(0, 0, chunk);
    cr_assert_eq(uploads_unsent_of(&uploads, 3), 2 * chunk);
    cr_assert_eq(uploads_unsent_of(&uploads, 4), chunk);
    expect_chunk(0, 2, 0);
    expect_chunk(0, 1, chunk);
    expect_chunk(0, 2, chunk);
    cr_assert_null(uploads_next(&uploads, 0));
}

Test(uploads, bounds_what_all_have_under_way)
{
    topics = 2;
    uploads.all_bytes = DEFAULT_CHUNK_BYTES;
    add(0, 0, 2 * DEFAULT_CHUNK_BYTES);
    add(1, 0, 2 * DEFAULT_CHUNK_BYTES);
    expect_chunk(0, 0, 0);
    cr_assert_null(uploads_next(&uploads, 0));
    cr_assert_eq(uploads_accept(&uploads, 3, 0, 1), UPLOADS_GOES_ON);
    expect_chunk(0, 1, 0);
}

Test(uploads, bounds_what_is_under_way)
{
    const uint64_t chunk = DEFAULT_CHUNK_BYTES;
    add(0, 0, (UNDER_WAY + 2) * DEFAULT_CHUNK_BYTES);
    for (uint64_t i = 0; i < UNDER_WAY; i++)
        expect_chunk(0, 0, i * chunk);
    cr_assert_eq(uploads.under_way, UNDER_WAY * chunk);
    cr_assert_null(uploads_next(&uploads, 0));
    cr_assert_eq(uploads_accept(&uploads, 3, 0, 1), UPLOADS_GOES_ON);
    expect_chunk(0, 0, UNDER_WAY * chunk);
    cr_assert_null(uploads_next(&uploads, 0));
}

Test(uploads, believes_the_broker_within_reason)
{
    add(7, 0, 1000);
    cr_assert_eq(uploads_accept(&uploads, 3, 8, 1), UPLOADS_UNKNOWN);
    cr_assert_eq(uploads_accept(&uploads, 4, 7, 1), UPLOADS_UNKNOWN);
    cr_assert_eq(uploads_accept(&uploads, 3, 7, 1001), UPLOADS_BROKEN);
    cr_assert_eq(uploads_accept(&uploads, 3, 7, 999), UPLOADS_GOES_ON);
    cr_assert_eq(uploads_accept(&uploads, 3, 7, 5), UPLOADS_GOES_ON);
    expect_chunk(0, 7, 999);
    cr_assert_eq(uploads_accept(&uploads, 3, 7, 1000), UPLOADS_DONE);
    cr_assert_eq(uploads_accept(&uploads, 3, 7, 1000), UPLOADS_UNKNOWN);
}

Test(uploads, begins_anew_unless_told_otherwise)
{
    const uint64_t chunk = DEFAULT_CHUNK_BYTES;
    topics = 2;
    add(0, 0, 3 * DEFAULT_CHUNK_BYTES);
    add(1, 0, 3 * DEFAULT_CHUNK_BYTES);
    expect_chunk(0, 0, 0);
    expect_chunk(0, 1, 0);
    cr_assert_eq(uploads_accept(&uploads, 3, 0, chunk), UPLOADS_GOES_ON);
    uploads_rewind(&uploads);
    cr_assert_eq(uploads.under_way, 0);
    cr_assert_eq(uploads_accept(&uploads, 3, 0, chunk), UPLOADS_GOES_ON);
    expect_chunk(0, 0, chunk);
    expect_chunk(0, 1, 0);
}

Test(uploads, are_reached_in_any_order)
{
    add(0, 0, 10);
    add(1, 0, 10);
    add(2, 0, 10);
    cr_assert(uploads_reached(&uploads, 0));
    (void)uploads_accept(&uploads, 3, 1, 10);
    cr_assert_not(uploads_reached(&uploads, 1));
    (void)uploads_accept(&uploads, 3, 0, 10);
    cr_assert(uploads_reached(&uploads, 2));
    cr_assert_not(uploads_reached(&uploads, 3));
    uploads_drop(&uploads, 3, 2);
    uploads_drop(&uploads, 3, 2);
    cr_assert(uploads_reached(&uploads, 3));
}

Test(uploads, takes_the_newest_back)
{
    add(0, 0, 10);
    uint64_t last = uploads.last;
    expect_chunk(0, 0, 0);
    add(1, 0, 10);
    add(2, 0, 10);
    uploads_back(&uploads, last);
    cr_assert_eq(uploads.bytes, 10);
    cr_assert_null(uploads_next(&uploads, 0));
}

Test(uploads, says_so_when_memory_is_short)
{
    struct buffer *value = buffer_new(10);
    memory.bytes_max = 0;
    cr_assert_not(uploads_add(&uploads, &(struct upload){.seq = 1}, &value));
    cr_assert_not_null(value, "nothing is taken over");
    buffer_unref(&value);
}

/* The broker has room for so much of it now; what another broker has room for is not known. */
Test(uploads, begin_no_chunk_beyond_what_the_broker_has_room_for)
{
    add(1, 0, 4 * DEFAULT_CHUNK_BYTES);
    uploads_limit(&uploads, topic_of(1), 1, DEFAULT_CHUNK_BYTES + 1);
    expect_chunk(0, 1, 0);
    expect_chunk(0, 1, DEFAULT_CHUNK_BYTES);
    cr_expect_null(uploads_next(&uploads, 0));
    uploads_limit(&uploads, topic_of(1), 1, 2 * DEFAULT_CHUNK_BYTES);
    cr_expect_null(uploads_next(&uploads, 0));
    uploads_limit(&uploads, topic_of(1), 1, 2 * DEFAULT_CHUNK_BYTES + 1);
    expect_chunk(0, 1, 2 * DEFAULT_CHUNK_BYTES);
    cr_expect_null(uploads_next(&uploads, 0));
    uploads_limit(&uploads, topic_of(1), 1, 0);
    expect_chunk(0, 1, 3 * DEFAULT_CHUNK_BYTES);
    uploads_limit(&uploads, topic_of(1), 1, 1);
    uploads_rewind(&uploads);
    expect_chunk(0, 1, 0);
    expect_chunk(0, 1, DEFAULT_CHUNK_BYTES);
    uploads_limit(&uploads, topic_of(1), 2, 1); /* no upload of that slot is here */
    expect_chunk(0, 1, 2 * DEFAULT_CHUNK_BYTES);
}
