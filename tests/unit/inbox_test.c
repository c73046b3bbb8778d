/* SPDX-License-Identifier: MPL-2.0 */
/* inbox_test.c -- batches by reference, ranges, duplicates, positions, short memory. */
#include "libbus/session/inbox.h"

#include "libbus/base/limits.h"
#include "tests/unit/failing_buffers.h"

#include "libbus/base/must.h"

#include <criterion/criterion.h>

static struct memory memory;
static struct known_topics known;
static struct inbox inbox;
static struct inbox_sub *sub;

static void init(void)
{
    memory_heap_init(&memory, UINT64_MAX);
    known_topics_init(&known, &memory);
    inbox_init(&inbox, &memory, &known);
    inbox.value_bytes_max = LIMIT_VALUE_BYTES;
    sub = inbox_sub_new(&inbox);
    sub->window_bytes = DEFAULT_SUB_WINDOW_BYTES;
    cr_assert_eq(known_topics_number(&known, 4, span_text("bob/x")), CODE_OK);
    cr_assert_eq(known_topics_number(&known, 5, span_text("bob/y")), CODE_OK);
}

static void fini(void)
{
    inbox_fini(&inbox);
    known_topics_fini(&known);
    must(memory.bytes_used == 0);
}

TestSuite(inbox, .init = init, .fini = fini);

struct spec {
    uint32_t topic;
    uint64_t seq;
    const char *value;
};

static struct buffer *batch_of(const struct spec *specs, size_t count)
{
    struct buffer *batch = buffer_new(BATCH_HEADER_BYTES + count * (FRAME_HEADER_BYTES + 64));
    batch->bytes = BATCH_HEADER_BYTES;
    for (size_t i = 0; i < count; i++) {
        struct frame frame = {.flags = FRAME_VALUE,
                              .delivery = 1,
                              .topic = specs[i].topic,
                              .seq = specs[i].seq,
                              .reply_to = FRAME_NO_REPLY,
                              .value = span_text(specs[i].value)};
        frame_write(batch->data + batch->bytes, &frame);
        batch->bytes += frame_total(frame.value.bytes);
    }
    batch_header_write(batch->data, (uint32_t)count, (uint32_t)(batch->bytes - BATCH_HEADER_BYTES),
                       0);
    return batch;
}

static void receive(const struct spec *specs, size_t count)
{
    struct buffer *batch = batch_of(specs, count);
    cr_assert_eq(inbox_receive(&inbox, sub, &batch), CODE_OK);
    cr_assert_null(batch);
    cr_assert_eq(inbox_look(&inbox, sub), CODE_OK);
}

static struct session_item take(void)
{
    struct session_item item;
    enum wire_code look;
    cr_assert_eq(inbox_take(&inbox, sub, 1, &item, &look), CODE_OK);
    cr_assert_eq(look, CODE_OK);
    return item;
}

static void expect(uint32_t topic, uint64_t seq, const char *value)
{
    struct session_item item = take();
    cr_assert_eq(item.topic, topic);
    cr_assert_eq(item.seq, seq, "seq %llu", (unsigned long long)item.seq);
    cr_assert(span_equal(item.value, span_text(value)), "value %.*s", (int)item.value.bytes,
              (const char *)item.value.data);
    buffer_unref(&item.buffer);
}

static void expect_nothing(void)
{
    struct session_item item;
    enum wire_code look;
    cr_assert_eq(inbox_take(&inbox, sub, 1, &item, &look), CODE_ETIMEDOUT);
    cr_assert_eq(sub->count, 0, "no batch is kept that was read");
}

Test(inbox, hands_runs_and_mixtures_out_in_order)
{
    static const struct spec specs[] = {
        {4, 0, "aa"}, {4, 1, "bb"},   {4, 2, "cc"}, {4, 3, "long one"}, {5, 0, "y"}, {4, 4, "dd"},
        {4, 5, "ee"}, {4, 9, "jump"}, {5, 1, ""},   {5, 2, ""},         {5, 3, "z"}};
    enum { COUNT = sizeof specs / sizeof *specs };
    receive(specs, COUNT);
    for (size_t i = 0; i < COUNT; i++)
        expect(specs[i].topic, specs[i].seq, specs[i].value);
    expect_nothing();
    uint64_t bytes = 0;
    for (size_t i = 0; i < COUNT; i++)
        bytes += frame_total(strlen(specs[i].value));
    cr_assert_eq(sub->taken, bytes);
    cr_assert_eq(sub->received, bytes);
}

/* A batch of one frame with count values of one letter each, then one frame of topic 5. */
static struct buffer *batch_of_many(uint64_t seq, uint32_t count)
{
    size_t bytes = FRAME_HEADER_BYTES + count * 8 + frame_total(1);
    struct buffer *batch = buffer_new(BATCH_HEADER_BYTES + bytes);
    struct frame frame = {.flags = FRAME_VALUE,
                          .more = (uint16_t)(count - 1),
                          .delivery = 1,
                          .topic = 4,
                          .seq = seq,
                          .reply_to = FRAME_NO_REPLY,
                          .value = span_of(NULL, 1)};
    batch_header_write(batch->data, 2, (uint32_t)bytes, 0);
    uint8_t *at = batch->data + BATCH_HEADER_BYTES;
    frame_header_write(at, &frame);
    at += FRAME_HEADER_BYTES;
    for (uint32_t i = 0; i < count; i++, at += 8)
        frame_value_write(at, span_of((char[]){(char)('a' + (seq + i) % 26)}, 1));
    frame.topic = 5;
    frame.more = 0;
    frame.value = span_text("y");
    frame_write(at, &frame);
    batch->bytes = BATCH_HEADER_BYTES + bytes;
    return batch;
}

static void receive_many(uint64_t seq, uint32_t count)
{
    struct buffer *batch = batch_of_many(seq, count);
    cr_assert_eq(inbox_receive(&inbox, sub, &batch), CODE_OK);
    cr_assert_eq(inbox_look(&inbox, sub), CODE_OK);
}

static void expect_letter(uint64_t seq)
{
    expect(4, seq, (char[]){(char)('a' + seq % 26), 0});
}

Test(inbox, hands_out_each_of_many_values)
{
    receive_many(0, 5);
    uint64_t counted[] = {FRAME_HEADER_BYTES + 8, 8, 8, 8, 8};
    uint64_t taken = 0;
    for (uint64_t seq = 0; seq < 5; seq++) {
        expect_letter(seq);
        taken += counted[seq];
        cr_assert_eq(sub->taken, taken, "%llu", (unsigned long long)seq);
    }
    expect(5, 0, "y");
    expect_nothing();
    cr_assert_eq(sub->taken, sub->received);
}

Test(inbox, hands_out_many_values_at_once)
{
    struct session_item item;
    enum wire_code look;
    receive_many(0, 12);
    expect_letter(0);
    cr_assert_eq(inbox_take(&inbox, sub, 8, &item, &look), CODE_OK);
    cr_assert_eq(item.seq, 1);
    cr_assert_eq(item.count, 8);
    cr_assert_eq(atomic_load(&item.buffer->refs), 1 + 8);
    for (uint32_t i = 0; i < 8; i++) {
        cr_assert_eq(((const char *)item.value.data)[i * 8], (char)('b' + i));
        struct buffer *buffer = item.buffer;
        buffer_unref(&buffer);
    }
    cr_assert_eq(sub->taken, FRAME_HEADER_BYTES + 9 * 8);
    for (uint64_t seq = 9; seq < 12; seq++)
        expect_letter(seq);
    expect(5, 0, "y");
    expect_nothing();
    cr_assert_eq(sub->taken, sub->received);
}

Test(inbox, passes_over_those_of_many_values_that_it_had)
{
    receive_many(3, 3);
    receive_many(0, 9);
    for (uint64_t seq = 3; seq < 6; seq++)
        expect_letter(seq);
    expect(5, 3, "y");
    for (uint64_t seq = 6; seq < 9; seq++)
        expect_letter(seq);
    expect_nothing();
    cr_assert_eq(sub->taken, sub->received);
}

Test(inbox, knows_its_position_behind_many_values)
{
    receive_many(0, 6);
    receive_many(6, 4);
    expect_letter(0);
    expect_letter(1);
    cr_assert_eq(inbox_positions(&inbox), CODE_OK);
    cr_assert_eq(inbox_stream_find(&inbox, sub, 4)->position_seq, 10);
    cr_assert_eq(inbox_stream_find(&inbox, sub, 5)->position_seq, 7);
}

Test(inbox, keeps_a_batch_as_long_as_any_value_of_it_is_held)
{
    static const struct spec specs[] = {{4, 0, "first"}, {4, 1, "other"}};
    receive(specs, 2);
    struct session_item first = take();
    struct session_item second = take();
    expect_nothing();
    cr_assert_eq(first.buffer, second.buffer);
    cr_assert_eq(atomic_load(&first.buffer->refs), 2);
    buffer_unref(&second.buffer);
    cr_assert(span_equal(first.value, span_text("first")));
    buffer_unref(&first.buffer);
}

Test(inbox, passes_over_what_it_had_in_the_middle_of_ranges)
{
    static const struct spec some[] = {{4, 3, "3"}, {4, 4, "4"}, {4, 5, "5"}};
    static const struct spec more[] = {{4, 1, "1"}, {4, 2, "2"}, {4, 3, "3"}, {4, 4, "4"},
                                       {4, 5, "5"}, {4, 6, "6"}, {4, 7, "7"}};
    receive(some, 3);
    receive(more, 7);
    receive(more, 7);
    for (uint64_t seq = 3; seq < 8; seq++)
        expect(4, seq, (char[]){(char)('0' + seq), 0});
    expect_nothing();
    cr_assert_eq(sub->taken, sub->received);
}

Test(inbox, works_positions_out_at_every_point_of_reading)
{
    static const struct spec specs[] = {{4, 10, "a"}, {4, 11, "b"}, {4, 12, "c"},
                                        {5, 7, "d"},  {5, 8, "e"},  {4, 13, "f"}};
    fini();
    for (size_t taken = 0; taken <= 6; taken++) {
        init();
        receive(specs, 3);
        receive(specs + 3, 3);
        for (size_t i = 0; i < taken; i++)
            expect(specs[i].topic, specs[i].seq, specs[i].value);
        cr_assert_eq(inbox_positions(&inbox), CODE_OK);
        struct inbox_stream *x = inbox_stream_find(&inbox, sub, 4);
        struct inbox_stream *y = inbox_stream_find(&inbox, sub, 5);
        cr_assert_eq(x->position_seq, 14, "after %zu: %llu", taken,
                     (unsigned long long)x->position_seq);
        cr_assert_eq(y->position_seq, 9, "after %zu", taken);
        for (size_t i = taken; i < 6; i++)
            expect(specs[i].topic, specs[i].seq, specs[i].value);
        expect_nothing();
        fini();
    }
    init();
}

Test(inbox, counts_bytes_of_each_connection_apart)
{
    static const struct spec first[] = {{4, 0, "0"}, {4, 1, "1"}};
    static const struct spec second[] = {{4, 2, "2"}};
    receive(first, 2);
    expect(4, 0, "0");
    cr_assert_eq(sub->taken, frame_total(1));
    inbox_reconnect(&inbox);
    cr_assert_eq(sub->taken, 0);
    receive(second, 1);
    expect(4, 1, "1"); /* it came before */
    cr_assert_eq(sub->taken, 0);
    expect(4, 2, "2");
    cr_assert_eq(sub->taken, frame_total(1));
}

Test(inbox, refuses_batches_that_are_not_well_formed)
{
    static const struct spec specs[] = {{4, 0, "0"}, {4, 1, "1"}};
    fini();
    for (size_t at = 0; at < BATCH_HEADER_BYTES + 2 * (FRAME_HEADER_BYTES + 8); at++) {
        init();
        struct session_item item;
        enum wire_code look;
        struct buffer *batch = batch_of(specs, 2);
        batch->data[at] ^= 0xff;
        enum wire_code code = inbox_receive(&inbox, sub, &batch);
        buffer_unref(&batch);
        if (code == CODE_OK)
            code = inbox_look(&inbox, sub);
        while (code == CODE_OK && sub->is_ready) {
            cr_assert_eq(inbox_take(&inbox, sub, 1, &item, &look), CODE_OK);
            buffer_unref(&item.buffer);
            code = look;
        }
        cr_assert(code == CODE_OK || code == CODE_EPROTO, "byte %zu: code %d", at, (int)code);
        fini();
    }
    init();
}

Test(inbox, tries_again_when_there_is_memory)
{
    static const struct spec specs[] = {{4, 0, "0"}, {4, 1, "1"}};
    struct buffer *batch = batch_of(specs, 2);
    struct session_item item;
    enum wire_code look;
    memory.bytes_max = memory.bytes_used;
    cr_assert_eq(inbox_receive(&inbox, sub, &batch), CODE_ENOMEM);
    cr_assert_not_null(batch, "it is not taken over");
    memory.bytes_max = UINT64_MAX;
    cr_assert_eq(inbox_receive(&inbox, sub, &batch), CODE_OK);
    memory.bytes_max = memory.bytes_used;
    cr_assert_eq(inbox_look(&inbox, sub), CODE_ENOMEM);
    cr_assert_eq(inbox_take(&inbox, sub, 1, &item, &look), CODE_ETIMEDOUT);
    memory.bytes_max = UINT64_MAX;
    cr_assert_eq(inbox_look(&inbox, sub), CODE_OK);
    memory.bytes_max = memory.bytes_used;
    cr_assert_eq(inbox_take(&inbox, sub, 1, &item, &look), CODE_ENOMEM);
    memory.bytes_max = UINT64_MAX;
    expect(4, 0, "0");
    expect(4, 1, "1");
    expect_nothing();
}

/* A chunk of 8 bytes of a value of total, in a batch of its own. */
static struct buffer *chunk_of(uint64_t seq, uint64_t total, uint64_t offset)
{
    uint8_t value[FRAME_CHUNK_PREFIX_BYTES + 8] = "................abcdefgh";
    frame_chunk_prefix_write(value, total, offset);
    struct frame frame = {
        .flags = (uint16_t)(FRAME_CHUNK | (offset + 8 == total ? FRAME_LAST_CHUNK : 0)),
        .delivery = 1,
        .topic = 4,
        .seq = seq,
        .reply_to = FRAME_NO_REPLY,
        .value = span_of(value, sizeof value)};
    struct buffer *batch = buffer_new(1000);
    batch->bytes = BATCH_HEADER_BYTES + frame_total(sizeof value);
    batch_header_write(batch->data, 1, (uint32_t)frame_total(sizeof value), 0);
    frame_write(batch->data + BATCH_HEADER_BYTES, &frame);
    return batch;
}

/* A receiver that has no memory for a large value is told so, and can ask again; to go on behind it
 * would be to acknowledge what nobody received. */
Test(inbox, keeps_a_large_value_until_there_is_memory_for_it)
{
    for (uint64_t offset = 0; offset < 16; offset += 8) {
        struct buffer *batch = chunk_of(3, 16, offset);
        cr_assert_eq(inbox_receive(&inbox, sub, &batch), CODE_OK);
        buffers_left = 0;
        cr_assert_eq(inbox_look(&inbox, sub), CODE_ENOMEM);
        buffers_left = UINT64_MAX;
    }
    cr_assert_eq(inbox_look(&inbox, sub), CODE_OK);
    struct session_item item = take();
    cr_assert_eq(item.kind, SESSION_ITEM_VALUE);
    cr_assert_eq(item.seq, 3);
    cr_assert_eq(item.value.bytes, 16);
    buffer_unref(&item.buffer);
    expect_nothing();
}

static void receive_chunk(uint64_t seq, uint64_t total, uint64_t offset)
{
    struct buffer *batch = chunk_of(seq, total, offset);
    const uint8_t *lies = batch->data + BATCH_HEADER_BYTES + FRAME_HEADER_BYTES;
    cr_assert_eq(inbox_receive(&inbox, sub, &batch), CODE_OK);
    buffers_left = 0; /* nothing more is allocated for it */
    cr_assert_eq(inbox_look(&inbox, sub), CODE_OK);
    struct session_item item = take();
    buffers_left = UINT64_MAX;
    cr_assert_eq(item.seq, seq);
    cr_assert_eq(item.kind, offset + 8 == total ? SESSION_ITEM_VALUE : SESSION_ITEM_PIECE);
    cr_assert_eq((const uint8_t *)item.value.data, lies + FRAME_CHUNK_PREFIX_BYTES,
                 "it is handed out where it lies");
    cr_assert_eq(item.value.bytes, 8);
    cr_assert_eq(item.offset, offset);
    cr_assert_eq(item.total_bytes, sub->is_in_pieces ? total : 0);
    buffer_unref(&item.buffer);
}

static void expect_position(uint64_t seq, uint64_t offset)
{
    cr_assert_eq(inbox_positions(&inbox), CODE_OK);
    const struct inbox_stream *stream = inbox_stream_find(&inbox, sub, 4);
    cr_assert_eq(stream->position_seq, seq);
    cr_assert_eq(stream->position_offset, offset);
}

Test(inbox, hands_pieces_out_as_they_come)
{
    sub->is_in_pieces = true;
    receive_chunk(3, 24, 0);
    expect_position(3, 8);
    receive_chunk(3, 24, 8);
    inbox_reconnect(&inbox);
    expect_position(3, 16);
    struct inbox_stream *stream = inbox_stream_find(&inbox, sub, 4);
    cr_assert_eq(stream->acks.next_seq, 0, "a piece is no slot that could be acknowledged");
    receive_chunk(3, 24, 16);
    expect_position(4, 0);
    cr_assert(ack_prefix_ack_range(&stream->acks, 3, 1));
    cr_assert_eq(stream->acks.next_seq, 4);
    receive_chunk(4, 24, 0);
    static const struct spec other[] = {{4, 4, "it settled with this"}};
    receive(other, 1);
    expect(4, 4, "it settled with this");
    expect_position(5, 0);
    receive_chunk(5, 24, 0);
    expect_nothing();
}

Test(inbox, hands_a_value_of_one_chunk_out_where_it_lies)
{
    receive_chunk(3, 8, 0);
    expect_position(4, 0);
    expect_nothing();
}

Test(inbox, is_bounded_and_numbers_subscriptions_upwards)
{
    uint32_t first = sub->number;
    inbox_sub_free(&inbox, sub);
    cr_assert_null(inbox_sub_find(&inbox, first));
    for (uint32_t i = 0; i < LIMIT_SUBS; i++) {
        struct inbox_sub *one = inbox_sub_new(&inbox);
        cr_assert_eq(one->number, first + 1 + i, "numbers are not used again");
        cr_assert_eq(inbox_sub_find(&inbox, one->number), one);
    }
    cr_assert_null(inbox_sub_new(&inbox));
}

/* The inbox looks first at the subscription that received last: a freed one is not found so. */
Test(inbox, forgets_the_subscription_that_received_last_when_it_is_freed)
{
    static const struct spec specs[] = {{4, 0, "a"}};
    uint32_t number = sub->number;
    receive(specs, 1);
    cr_assert_eq(inbox_sub_find(&inbox, number), sub);
    inbox_sub_free(&inbox, sub);
    cr_assert_null(inbox.recent);
    cr_assert_null(inbox_sub_find(&inbox, number));
}
