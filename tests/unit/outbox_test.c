/* SPDX-License-Identifier: MPL-2.0 */
/* outbox_test.c -- batches: how large they get, when they are sent, how long they stay. */
#include "libbus/session/outbox.h"

#include "libbus/base/limits.h"

#include "libbus/base/must.h"

#include <criterion/criterion.h>
#include <stdlib.h>

static struct memory memory;
static struct spares spares;
static struct outbox outbox;
static uint8_t zeros[LIMIT_CHUNK_BYTES];
static uint64_t batch_bytes = DEFAULT_BATCH_BYTES;

static void init(void)
{
    memory_heap_init(&memory, UINT64_MAX);
    outbox_init(&outbox, &memory, &spares);
}

static void fini(void)
{
    outbox_fini(&outbox);
    spares_fini(&spares);
    must(memory.bytes_used == 0);
}

TestSuite(outbox, .init = init, .fini = fini);

static void append(size_t bytes)
{
    struct frame frame = {.flags = FRAME_VALUE,
                          .delivery = 1,
                          .seq = outbox.last,
                          .reply_to = FRAME_NO_REPLY,
                          .value = span_of(zeros, bytes)};
    cr_assert(outbox_append(&outbox, &frame, batch_bytes));
}

/* The next part has frames first..last; it is sent. */
static size_t expect_sent(uint64_t first, uint64_t last)
{
    struct buffer *part = outbox_part(&outbox, 0);
    cr_assert_not_null(part);
    cr_assert_eq(outbox_part(&outbox, 0), part, "the same until it is sent");
    struct batch_reader reader;
    struct frame frame;
    uint64_t number = first;
    cr_assert_eq(batch_reader_init(&reader, buffer_span(part)), WIRE_OK);
    cr_assert_eq(reader.number, first, "begins with %llu", (unsigned long long)reader.number);
    while (batch_reader_next(&reader, &frame) == WIRE_OK)
        cr_assert_eq(frame.seq, number++ - 1);
    cr_assert_eq(number, last + 1, "ends with %llu", (unsigned long long)number - 1);
    outbox_part_sent(&outbox, 0);
    return part->bytes;
}

Test(outbox, sends_at_once_what_is_there)
{
    cr_assert_null(outbox_part(&outbox, 0));
    append(10);
    (void)expect_sent(1, 1);
    cr_assert_null(outbox_part(&outbox, 0));
    append(10);
    append(20);
    (void)expect_sent(2, 3);
    cr_assert_eq(outbox.bytes, frame_total(10) * 2 + frame_total(20));
}

Test(outbox, lets_small_frames_fill_a_batch)
{
    uint64_t per_batch = (DEFAULT_BATCH_BYTES - BATCH_HEADER_BYTES) / frame_total(200);
    for (uint64_t i = 0; i < 2 * per_batch + 1; i++)
        append(200);
    size_t bytes = expect_sent(1, per_batch);
    cr_assert_leq(bytes, DEFAULT_BATCH_BYTES);
    cr_assert_gt(bytes + frame_total(200), DEFAULT_BATCH_BYTES);
    (void)expect_sent(per_batch + 1, 2 * per_batch);
}

Test(outbox, lets_a_batch_grow_to_what_is_asked_for)
{
    batch_bytes = 3 * DEFAULT_BATCH_BYTES;
    uint64_t per_batch = (batch_bytes - BATCH_HEADER_BYTES) / frame_total(200);
    for (uint64_t i = 0; i < per_batch + 1; i++)
        append(200);
    size_t bytes = expect_sent(1, per_batch);
    cr_assert_leq(bytes, batch_bytes);
    cr_assert_gt(bytes + frame_total(200), batch_bytes);
    (void)expect_sent(per_batch + 1, per_batch + 1);
}

Test(outbox, lets_large_frames_grow_a_batch_further)
{
    uint64_t per_batch =
        (LIMIT_BATCH_BYTES - BATCH_HEADER_BYTES) / frame_total(OUTBOX_BULK_FRAME_BYTES);
    for (uint64_t i = 0; i < per_batch + 1; i++)
        append(OUTBOX_BULK_FRAME_BYTES);
    size_t bytes = expect_sent(1, per_batch);
    cr_assert_leq(bytes, LIMIT_BATCH_BYTES);
    cr_assert_gt(bytes, DEFAULT_BATCH_BYTES);
}

/* Half a MiB would be a queue of 200 ms before a link of 20 Mbit/s. */
Test(outbox, keeps_batches_of_large_frames_small_where_the_link_is_slow)
{
    for (uint64_t less = 0; less < 2; less++) {
        batch_bytes = DEFAULT_BATCH_BYTES - less;
        uint64_t most = less > 0 ? batch_bytes : LIMIT_BATCH_BYTES;
        uint64_t per_batch = (most - BATCH_HEADER_BYTES) / frame_total(OUTBOX_BULK_FRAME_BYTES);
        fini();
        init();
        for (uint64_t i = 0; i < per_batch + 1; i++)
            append(OUTBOX_BULK_FRAME_BYTES);
        cr_assert_leq(expect_sent(1, per_batch), most);
    }
}

Test(outbox, keeps_the_limits_of_a_part)
{
    for (int i = 0; i < 3; i++)
        append(LIMIT_CHUNK_BYTES);
    cr_assert_leq(expect_sent(1, 1), LIMIT_PART_BYTES); /* two are more than a batch may have */
    cr_assert_leq(expect_sent(2, 2), LIMIT_PART_BYTES);
    (void)outbox_accept(&outbox, 2);
    (void)expect_sent(3, 3);
    /* A batch of frames without values is bounded by its bytes first, whatever its count. */
    for (uint32_t i = 0; i < 5000; i++)
        append(0);
    (void)outbox_accept(&outbox, 3);
    cr_assert_leq(expect_sent(4, 3 + (DEFAULT_BATCH_BYTES - BATCH_HEADER_BYTES) / frame_total(0)),
                  DEFAULT_BATCH_BYTES);
}

Test(outbox, waits_for_an_answer_before_it_sends_a_third_batch_that_is_not_full)
{
    append(1);
    (void)expect_sent(1, 1);
    append(1);
    (void)expect_sent(2, 2);
    append(1);
    cr_assert_not(outbox_is_due(&outbox, 0));
    cr_assert_null(outbox_part(&outbox, 0));
    append(1);
    cr_assert(outbox_accept(&outbox, 1));
    cr_assert(outbox_is_due(&outbox, 0));
    (void)expect_sent(3, 4);
    while (outbox.count < 3)
        append(200);
    cr_assert(outbox_is_due(&outbox, 0)); /* a full one does not wait */
}

/* The open batch, and one of a value of 8 bytes under way, have so many bytes together. */
static bool is_due_with(size_t bytes)
{
    size_t under_way = BATCH_HEADER_BYTES + frame_total(8);
    append(8);
    (void)expect_sent(outbox.last, outbox.last);
    append(bytes - under_way - (BATCH_HEADER_BYTES + frame_total(0)));
    bool is_due = outbox_is_due(&outbox, 0);
    cr_assert_eq(outbox.under_way + outbox.open->bytes, bytes);
    cr_assert(outbox_accept(&outbox, outbox.last - 1));
    (void)expect_sent(outbox.last, outbox.last);
    cr_assert(outbox_accept(&outbox, outbox.last));
    return is_due;
}

/* The time at which all were sent is 0. */
Test(outbox, lets_a_third_batch_of_many_bytes_follow_soon_where_a_shared_disk_is_waited_for)
{
    outbox_see_disk(&outbox, OUTBOX_SHARED_DISK);
    for (uint64_t number = 1; number <= OUTBOX_UNACCEPTED_MAX; number++) {
        append(OUTBOX_ALONE_BYTES);
        (void)expect_sent(number, number);
    }
    append(8);
    cr_expect_not(outbox_is_due(&outbox, OUTBOX_PAUSE_NS - 1));
    cr_expect(outbox_is_due(&outbox, OUTBOX_PAUSE_NS));
}

/* Frames have whole words. */
Test(outbox, waits_for_one_batch_of_few_bytes_where_a_shared_disk_is_waited_for)
{
    const size_t word = frame_total(8) - frame_total(0);
    outbox_see_disk(&outbox, OUTBOX_SHARED_DISK);
    cr_expect_not(is_due_with(OUTBOX_ALONE_BYTES - word));
    cr_expect_not(is_due_with(OUTBOX_ALONE_BYTES));
    cr_expect(is_due_with(OUTBOX_ALONE_BYTES + word));
    outbox_see_link(&outbox, true);
    cr_expect(is_due_with(OUTBOX_ALONE_BYTES), "an answer takes a trip that is longer");
    outbox_see_link(&outbox, false);
    cr_expect_not(is_due_with(OUTBOX_ALONE_BYTES));
    outbox_see_disk(&outbox, OUTBOX_NO_DISK);
    cr_expect(is_due_with(OUTBOX_ALONE_BYTES));
}

Test(outbox, drops_what_is_accepted_whole)
{
    for (int i = 0; i < 6; i++)
        append(8);
    (void)expect_sent(1, 6);
    append(8);
    (void)expect_sent(7, 7);
    cr_assert(outbox_accept(&outbox, 5));
    cr_assert_eq(outbox.bytes, 7 * frame_total(8));
    cr_assert_not_null(outbox_batch(&outbox, 1));
    cr_assert_null(outbox_batch(&outbox, 2));
    cr_assert(outbox_accept(&outbox, 6));
    cr_assert_eq(outbox.bytes, frame_total(8));
    cr_assert(outbox_accept(&outbox, 3)); /* an old answer */
    cr_assert_eq(outbox.accepted, 6);
    cr_assert_not(outbox_accept(&outbox, 8));
    cr_assert(outbox_accept(&outbox, 7));
    cr_assert_eq(outbox.bytes, 0);
}

Test(outbox, sends_again_from_the_first_that_is_not_accepted)
{
    for (uint64_t i = 1; i <= 4; i++) {
        append(8);
        append(8);
        (void)expect_sent(2 * i - 1, 2 * i);
        (void)outbox_accept(&outbox, i <= 2 ? 2 * i : 4);
    }
    append(8);
    outbox_rewind(&outbox);
    cr_assert_eq(outbox.sent, 4);
    cr_assert(outbox_accept(&outbox, 5)); /* half of a batch: it is sent whole */
    (void)expect_sent(5, 6);
    (void)expect_sent(7, 8);
    cr_assert(outbox_accept(&outbox, 8));
    (void)expect_sent(9, 9);
}

Test(outbox, takes_back_to_any_point)
{
    uint64_t per_batch = (DEFAULT_BATCH_BYTES - BATCH_HEADER_BYTES) / frame_total(200);
    for (int is_open = 0; is_open < 2; is_open++)
        for (uint64_t more = 0; more <= 3 * per_batch; more += per_batch / 2) {
            struct outbox_point before = outbox_point(&outbox);
            for (int i = 0; i < is_open * 3; i++)
                append(200);
            struct outbox_point point = outbox_point(&outbox);
            cr_assert_eq(point.is_open, is_open);
            for (uint64_t i = 0; i < more; i++)
                append(200);
            outbox_back(&outbox, point);
            cr_assert_eq(outbox.last, point.last);
            cr_assert_eq(outbox.bytes, point.bytes);
            append(200);
            (void)expect_sent(point.last + 1 - 3 * (uint64_t)is_open, point.last + 1);
            cr_assert(outbox_accept(&outbox, point.last + 1));
            cr_assert_eq(outbox.bytes, 0);
            cr_assert_eq(before.count, 0);
        }
}

/* ---- values that join a frame ---------------------------------------------------------------- */

static bool join(uint32_t topic, uint64_t seq, int64_t stamp_ns, size_t bytes)
{
    return outbox_join(&outbox, &(struct outbox_value){.topic = topic,
                                                       .seq = seq,
                                                       .stamp_ns = stamp_ns,
                                                       .value = span_of(zeros, bytes)});
}

/* The frames of the next part, which is sent; how many there are. */
static uint32_t sent_frames(struct frame *frames, uint32_t room)
{
    struct buffer *part = outbox_part(&outbox, 0);
    cr_assert_not_null(part);
    struct batch_reader reader;
    uint32_t count = 0;
    enum wire_err err = batch_reader_init(&reader, buffer_span(part));
    while (err == WIRE_OK && (err = batch_reader_next(&reader, &frames[count])) == WIRE_OK) {
        count += 1;
        cr_assert_lt(count, room);
    }
    cr_assert_eq(err, WIRE_EMPTY);
    cr_assert_eq(reader.number + reader.count - 1, outbox.last);
    outbox_part_sent(&outbox, 0);
    return count;
}

Test(outbox, lets_a_value_join_what_could_have_been_said_with_it)
{
    struct frame frames[4];
    cr_assert_not(join(0, 0, 0, 8), "there is no frame");
    append(8); /* topic 0, slot 0, stamp 0 */
    cr_assert_not(join(1, 1, 0, 8));
    cr_assert_not(join(0, 2, 0, 8));
    cr_assert_not(join(0, 0, 0, 8));
    cr_assert_not(join(0, 1, 1, 8));
    cr_assert_not(join(0, 1, 0, 7));
    cr_assert_not(join(0, 1, 0, 9));
    cr_assert(join(0, 1, 0, 8));
    cr_assert(join(0, 2, 0, 8));
    cr_assert_eq(outbox.last, 3);
    cr_assert_eq(outbox.bytes, frame_total(8) + 2 * 8);
    cr_assert_eq(sent_frames(frames, 4), 1);
    cr_assert_eq(frame_count(&frames[0]), 3);
    cr_assert_not(join(0, 3, 0, 8), "the batch is on its way");
    cr_assert(outbox_accept(&outbox, 3));
    cr_assert_eq(outbox.bytes, 0);
}

Test(outbox, lets_nothing_join_what_is_no_plain_value)
{
    struct frame frame = {.flags = FRAME_VALUE,
                          .delivery = 1,
                          .reply_to = FRAME_NO_REPLY,
                          .value = span_of(zeros, 8)};
    struct frame other = frame;
    other.flags = FRAME_COMMIT;
    cr_assert(outbox_append(&outbox, &other, batch_bytes));
    cr_assert_not(join(0, 1, 0, 8));
    other = frame;
    other.reply_to = 7;
    cr_assert(outbox_append(&outbox, &other, batch_bytes));
    cr_assert_not(join(0, 1, 0, 8));
    other = frame;
    other.value.bytes = 0;
    cr_assert(outbox_append(&outbox, &other, batch_bytes));
    cr_assert_not(join(0, 1, 0, 0));
    cr_assert(outbox_append(&outbox, &frame, batch_bytes));
    cr_assert(join(0, 1, 0, 8));
    cr_assert_not(outbox_join(
        &outbox, &(struct outbox_value){.attempt = 1, .seq = 2, .value = span_of(zeros, 8)}));
}

Test(outbox, holds_the_limits_of_a_frame_of_many_values)
{
    while (outbox.likely_bytes < DEFAULT_BATCH_BYTES / 2) { /* so that room is there at once */
        append(DEFAULT_BATCH_BYTES / 2);
        uint64_t last = outbox.last;
        cr_assert_not_null(outbox_part(&outbox, 0));
        outbox_part_sent(&outbox, 0);
        cr_assert(outbox_accept(&outbox, last));
    }
    uint64_t first = outbox.last;
    append(8);
    for (uint64_t i = 1; i <= FRAME_MORE_MAX; i++)
        cr_assert(join(0, first + i, 0, 8), "%llu", (unsigned long long)i);
    cr_assert_not(join(0, first + FRAME_MORE_MAX + 1, 0, 8));
    append(LIMIT_CHUNK_BYTES / 2 + 8);
    cr_assert_not(join(0, outbox.last, 0, LIMIT_CHUNK_BYTES / 2 + 8), "more than a value may be");
}

/* All of these, from slot seq on: one by one, or as many at a time as may. */
static void say(struct outbox *to, uint64_t seq, const struct span *values, size_t count,
                bool is_many)
{
    for (size_t i = 0; i < count;) {
        struct outbox_value one = {.seq = seq + i, .value = values[i]};
        size_t joined =
            is_many ? outbox_join_many(to, &one, &values[i], count - i) : outbox_join(to, &one);
        cr_assert_leq(joined, count - i);
        i += joined;
        if (joined > 0)
            continue;
        struct frame frame = {.flags = FRAME_VALUE,
                              .delivery = 1,
                              .seq = one.seq,
                              .reply_to = FRAME_NO_REPLY,
                              .value = one.value};
        cr_assert(outbox_append(to, &frame, batch_bytes));
        i++;
    }
}

/* Of a few sizes, mostly that of the one before, mostly right behind it. */
static size_t draw_values(struct span *values, size_t room, unsigned *seed)
{
    static const size_t sizes[] = {8, 16, 16, 15, 1, 0, 4096};
    static uint8_t bytes[1 << 20];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)(i * 131 >> 3);
    size_t at = 0;
    size_t size = 16;
    size_t count = 0;
    while (count < room && at + 8192 < sizeof bytes) {
        if (rand_r(seed) % 64 == 0)
            size = sizes[(size_t)rand_r(seed) % (sizeof sizes / sizeof sizes[0])];
        at += rand_r(seed) % 32 == 0 ? 8 : 0;
        values[count++] = span_of(bytes + at, size);
        at += size;
    }
    return count;
}

static void expect_same_parts(struct outbox *a, struct outbox *b)
{
    cr_assert_eq(a->last, b->last);
    cr_assert_eq(a->bytes, b->bytes);
    for (uint32_t i = 0; a->count > i || b->count > i || a->open != NULL; i++) {
        struct buffer *one = outbox_batch(a, i);
        struct buffer *other = outbox_batch(b, i);
        cr_assert_not_null(one);
        cr_assert_not_null(other);
        cr_assert(span_equal(buffer_span(one), buffer_span(other)), "part %u", i);
    }
}

Test(outbox, lets_many_join_as_each_would_have)
{
    static struct span values[30000];
    unsigned seed = 1;
    for (int i = 0; i < 20; i++) {
        struct outbox other;
        outbox_init(&other, &memory, &spares);
        size_t count = draw_values(values, sizeof values / sizeof values[0], &seed);
        say(&outbox, 0, values, count, true);
        say(&other, 0, values, count, false);
        expect_same_parts(&outbox, &other);
        outbox_fini(&other);
        outbox_fini(&outbox);
    }
}

Test(outbox, lets_as_many_join_as_a_frame_may_hold)
{
    static struct span values[FRAME_MORE_MAX + 1];
    for (size_t i = 0; i <= FRAME_MORE_MAX; i++)
        values[i] = span_of(zeros + 8 * i, 8);
    append(DEFAULT_BATCH_BYTES / 2);
    (void)expect_sent(1, 1); /* the next buffer is as large */
    cr_assert(outbox_accept(&outbox, 1));
    append(8);
    const struct outbox_value next = {.seq = 2, .value = values[0]};
    cr_assert_eq(outbox_join_many(&outbox, &next, values, FRAME_MORE_MAX - 1), FRAME_MORE_MAX - 1);
    const struct outbox_value last = {.seq = FRAME_MORE_MAX + 1, .value = values[0]};
    cr_assert_eq(outbox_join_many(&outbox, &last, values, 2), 1);
    cr_assert_eq(outbox.tail.frame.more, FRAME_MORE_MAX);
    const struct outbox_value none = {.seq = FRAME_MORE_MAX + 2, .value = values[0]};
    cr_assert_eq(outbox_join_many(&outbox, &none, values, 1), 0);
}

Test(outbox, takes_back_what_joined)
{
    struct frame frames[4];
    append(8);
    cr_assert(join(0, 1, 0, 8));
    struct outbox_point point = outbox_point(&outbox);
    cr_assert(join(0, 2, 0, 8));
    append(9);
    while (outbox.count == 0)
        append(9);
    outbox_back(&outbox, point);
    cr_assert_eq(outbox.last, 2);
    cr_assert(join(0, 2, 0, 8));
    cr_assert_eq(sent_frames(frames, 4), 1);
    cr_assert_eq(frame_count(&frames[0]), 3);
}

Test(outbox, says_so_when_memory_is_short)
{
    memory.bytes_max = 0;
    struct frame frame = {.flags = FRAME_VALUE, .delivery = 1};
    cr_assert_not(outbox_append(&outbox, &frame, batch_bytes));
    cr_assert_eq(outbox.last, 0);
    cr_assert_eq(outbox.bytes, 0);
    cr_assert_null(outbox_part(&outbox, 0));
    memory.bytes_max = UINT64_MAX;
    append(1);
    (void)expect_sent(1, 1);
}
