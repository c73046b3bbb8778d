/* SPDX-License-Identifier: MPL-2.0 */
/* core_port_test.c -- bytes to events, effects to bytes; the core is played by the test. */
#include "broker/io/core_port.h"

#include "libbus/base/must.h"
#include "libbus/wire/msg.h"
#include "tests/unit/stateless_core.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

/* ---- the core -------------------------------------------------------------------------------- */

/* What it was told last, and what it shall do at its next step. */
static struct event last;
static struct core_moment seen;
static int64_t core_due_ns = 77;
static struct msg last_msg;
static char last_complaint[256];
static struct event_range last_ranges[8];
static int steps;
static void (*script)(struct effects *effects);

void core_step(struct core *core, const struct event *event, struct effects *effects)
{
    (void)core;
    steps += 1;
    last = *event;
    if (event->type == EVENT_MESSAGE)
        last_msg = *event->as.msg;
    if (event->type == EVENT_VIOLATION)
        snprintf(last_complaint, sizeof last_complaint, "%s", event->as.complaint);
    if (event->type == EVENT_DATA)
        for (uint32_t i = 0; i < event->as.data.range_count && i < 8; i++)
            last_ranges[i] = event->as.data.ranges[i];
    if (script != NULL)
        script(effects);
    script = NULL;
}

int64_t core_deadline_ns(const struct core *core)
{
    (void)core;
    return core_due_ns;
}

const char *core_replay(struct core *core, struct span record, payload_id payload,
                        struct effects *effects)
{
    (void)core;
    if (payload == 0)
        return "no bytes stand beside it";
    effects_retain(effects, payload, (uint32_t)record.bytes);
    return NULL;
}

struct core_moment core_seen(const struct core *core)
{
    (void)core;
    return seen;
}

void core_resume(struct core *core, const struct event *now, struct effects *effects)
{
    (void)core;
    last = *now;
    struct effect_log *log = effects_log(effects, 0);
    log->name = span_text("resumed");
    log->job = span_text("job");
}

void core_snapshot(struct core *core, struct effects *effects)
{
    (void)core;
    if (script != NULL)
        script(effects);
    script = NULL;
}

/* ---- the port -------------------------------------------------------------------------------- */

enum { CONTROL = 3, DATA = 4, OTHER = 5 };
static struct memory memory;
static struct core_port *port;
static const struct core_port_now now = {.now_ns = 10, .wall_ns = 20, .random = 30};

static void set_up(void)
{
    memory_heap_init(&memory, UINT64_MAX);
    port = core_port_new(&memory, NULL, 0);
    cr_assert_not_null(port);
}

static void tear_down(void)
{
    core_port_free(&port);
    must(memory.bytes_used == 0);
}

TestSuite(core_port, .init = set_up, .fini = tear_down);

static void control_in(conn_id conn, const struct msg *msg)
{
    uint8_t bytes[4096];
    size_t count = 0;
    cr_assert_eq(msg_encode(msg, bytes, sizeof bytes, &count), WIRE_OK);
    core_port_control_in(port, now, conn, span_of(bytes, count));
}

/* A batch of count frames of one topic, value_bytes each; ends are the caller's to change. */
static struct buffer *batch(uint64_t number, uint32_t count, enum frame_kind kind,
                            struct span value)
{
    size_t stride = frame_total(value.bytes);
    struct buffer *part = buffer_new(BATCH_HEADER_BYTES + count * stride);
    cr_assert_not_null(part);
    batch_header_write(part->data, count, (uint32_t)(count * stride), number);
    for (uint32_t i = 0; i < count; i++) {
        struct frame frame = {.flags = (uint16_t)kind,
                              .delivery = 1,
                              .topic = 9,
                              .seq = 100 + i,
                              .reply_to = FRAME_NO_REPLY,
                              .value = value};
        frame_write(part->data + BATCH_HEADER_BYTES + i * stride, &frame);
    }
    part->bytes = BATCH_HEADER_BYTES + count * stride;
    return part;
}

/* A batch of one frame with count values of 8 bytes: "value000", "value001" ... */
static struct buffer *batch_of_many(uint32_t count)
{
    struct buffer *part = buffer_new(BATCH_HEADER_BYTES + FRAME_HEADER_BYTES + count * 8);
    cr_assert_not_null(part);
    struct frame frame = {.flags = FRAME_VALUE,
                          .more = (uint16_t)(count - 1),
                          .delivery = 1,
                          .topic = 9,
                          .seq = 100,
                          .reply_to = FRAME_NO_REPLY,
                          .value = span_of(NULL, 8)};
    batch_header_write(part->data, 1, FRAME_HEADER_BYTES + count * 8, 41);
    frame_header_write(part->data + BATCH_HEADER_BYTES, &frame);
    part->bytes = BATCH_HEADER_BYTES + FRAME_HEADER_BYTES;
    for (uint32_t i = 0; i < count; i++) {
        char text[16];
        snprintf(text, sizeof text, "value%03u", i);
        memcpy(part->data + part->bytes, text, 8);
        part->bytes += 8;
    }
    return part;
}

static void nothing_out(void)
{
    struct core_port_out out;
    cr_expect_not(core_port_out(port, &out));
    cr_expect_eq(out.kind, CORE_PORT_NOTHING);
}

/* The next thing out is a data part for this subscription: a reference of the caller's. */
static struct buffer *data_out(conn_id conn, uint32_t sub)
{
    struct core_port_out out;
    uint32_t told = 0;
    cr_assert(core_port_out(port, &out));
    cr_assert_eq(out.kind, CORE_PORT_DATA);
    cr_expect_eq(out.conn, conn);
    cr_expect_eq(delivery_header_read(span_of(out.head, sizeof out.head), &told), WIRE_OK);
    cr_expect_eq(told, sub);
    return out.part;
}

/* Reads the whole part: how many frames, the last of them in *out_last. */
static uint32_t read_frames(const struct buffer *part, struct frame *out_last)
{
    struct batch_reader reader;
    uint32_t count = 0;
    enum wire_err err = batch_reader_init(&reader, buffer_span(part));
    while (err == WIRE_OK)
        if ((err = batch_reader_next(&reader, out_last)) == WIRE_OK)
            count += 1;
    cr_expect_eq(err, WIRE_EMPTY);
    cr_expect_eq(reader.number, 0);
    return count;
}

/* ---- in -------------------------------------------------------------------------------------- */

Test(core_port, passes_messages_on_with_the_time_and_the_dice)
{
    struct msg msg = {.type = MSG_BEAT, .as.beat = {.sent_ns = -5}};
    control_in(CONTROL, &msg);
    cr_expect_eq(last.type, EVENT_MESSAGE);
    cr_expect_eq(last.conn, CONTROL);
    cr_expect_eq(last.now_ns, 10);
    cr_expect_eq(last.wall_ns, 20);
    cr_expect_eq(last.random, 30);
    cr_expect_eq(last_msg.type, MSG_BEAT);
    cr_expect_eq(last_msg.as.beat.sent_ns, -5);
    nothing_out();
    cr_expect_eq(core_port_deadline_ns(port), 77);
}

Test(core_port, passes_closing_ticks_stop_and_the_journal_on)
{
    core_port_closed(port, now, CONTROL);
    cr_expect_eq(last.type, EVENT_CLOSED);
    cr_expect_eq(last.conn, CONTROL);
    core_port_tick(port, now);
    cr_expect_eq(last.type, EVENT_TICK);
    core_port_stop(port, now);
    cr_expect_eq(last.type, EVENT_STOP);
    core_port_journal(port, now, HEALTH_FULL, "no room");
    cr_expect_eq(last.type, EVENT_JOURNAL);
    cr_expect_eq(last.as.journal.health, HEALTH_FULL);
    cr_expect_str_eq(last.as.journal.text, "no room");
    cr_expect_eq(steps, 4);
}

static void keep_payload(struct effects *effects)
{
    effects_retain(effects, last.as.data.payload, 1);
}

static payload_id kept;
static void release_payload(struct effects *effects)
{
    effects_release(effects, kept, 1);
}

Test(core_port, keeps_a_batch_as_long_as_the_core_wants)
{
    struct buffer *part = batch_of_many(3);
    size_t bytes = part->bytes;
    script = keep_payload;
    core_port_data_in(port, now, DATA, &part);
    cr_expect_null(part);
    cr_expect_eq(last.type, EVENT_DATA);
    cr_expect_eq(last.as.data.number, 41);
    cr_expect_eq(last.as.data.payload_bytes, bytes);
    cr_assert_eq(last.as.data.range_count, 1);
    cr_expect_eq(last_ranges[0].kind, FRAME_VALUE);
    cr_expect_eq(last_ranges[0].topic, 9);
    cr_expect_eq(last_ranges[0].seq, 100);
    cr_expect_eq(last_ranges[0].count, 3);
    cr_expect_eq(last_ranges[0].offset, BATCH_HEADER_BYTES);
    cr_expect_eq(last_ranges[0].value_bytes, 8);
    nothing_out();
    cr_expect_eq(core_port_payload_count(port), 1);
    cr_expect_eq(core_port_payload_bytes(port), bytes);
    kept = last.as.data.payload;
    script = release_payload;
    core_port_tick(port, now);
    nothing_out();
    cr_expect_eq(core_port_payload_count(port), 0);
}

Test(core_port, frees_a_batch_that_the_core_does_not_want)
{
    struct buffer *part = batch(1, 1, FRAME_VALUE, span_text("hello"));
    core_port_data_in(port, now, DATA, &part);
    nothing_out();
    cr_expect_eq(core_port_payload_count(port), 0);
}

Test(core_port, reads_what_reservations_and_chunks_say)
{
    uint8_t value[FRAME_RESERVE_BYTES_MAX];
    struct frame_reserve reserve = {.deadline_ms = 5, .value_bytes_max = 6};
    size_t bytes = frame_reserve_encode(value, &reserve);
    struct buffer *part = batch(1, 2, FRAME_RESERVE, span_of(value, bytes));
    core_port_data_in(port, now, DATA, &part);
    cr_assert_eq(last.as.data.range_count, 2);
    cr_expect_eq(last_ranges[1].seq, 101);
    cr_expect_eq(last_ranges[1].count, 1);
    cr_expect_eq(last_ranges[1].deadline_ms, 5);
    cr_expect_eq(last_ranges[1].value_bytes_max, 6);
    nothing_out();

    uint8_t chunk[FRAME_CHUNK_PREFIX_BYTES + 3] = {0};
    frame_chunk_prefix_write(chunk, 1000, 7);
    part = batch(0, 1, FRAME_CHUNK, span_of(chunk, sizeof chunk));
    core_port_data_in(port, now, DATA, &part);
    cr_expect_eq(last.as.data.number, 0);
    cr_expect_eq(last_ranges[0].chunk_total, 1000);
    cr_expect_eq(last_ranges[0].chunk_offset, 7);
    cr_expect_eq(last_ranges[0].chunk_bytes, 3);
    cr_expect_eq(last_ranges[0].deadline_ms, -1);
    nothing_out();
}

Test(core_port, takes_attach_on_the_data_channel)
{
    uint8_t bytes[64];
    size_t count = 0;
    struct msg msg = {.type = MSG_ATTACH, .as.attach = {.token = 12}};
    cr_assert_eq(msg_encode(&msg, bytes, sizeof bytes, &count), WIRE_OK);
    struct buffer *part = buffer_copy(span_of(bytes, count));
    core_port_data_in(port, now, DATA, &part);
    cr_expect_null(part);
    cr_expect_eq(last_msg.type, MSG_ATTACH);
    cr_expect_eq(last_msg.as.attach.token, 12);
    nothing_out();
}

static void expect_violation(const char *complaint)
{
    cr_expect_eq(last.type, EVENT_VIOLATION);
    cr_expect_str_eq(last_complaint, complaint);
    nothing_out();
    cr_expect_eq(core_port_payload_count(port), 0);
}

Test(core_port, turns_bad_bytes_into_violations)
{
    static uint8_t large[LIMIT_CONTROL_BYTES + 1];
    core_port_control_in(port, now, CONTROL, SPAN_NONE);
    expect_violation("message: nothing there");
    core_port_control_in(port, now, CONTROL, span_of(large, sizeof large));
    expect_violation("control part: larger than its limit");
    core_port_control_in(port, now, CONTROL, span_of("\x92\x05", 2));
    cr_expect_eq(last.type, EVENT_VIOLATION);
    nothing_out();
    /* ATTACH belongs to the other channel. */
    core_port_control_in(port, now, CONTROL, span_of("\x92\x02\x07", 3));
    expect_violation("attach: a message of the other channel or direction");
    core_port_violation(port, now, CONTROL, "more than one part");
    expect_violation("more than one part");

    struct buffer *part = buffer_copy(SPAN_NONE);
    core_port_data_in(port, now, DATA, &part);
    cr_expect_null(part);
    expect_violation("message: nothing there");
    part = batch(1, 2, FRAME_VALUE, span_text("hello"));
    part->bytes -= 1;
    core_port_data_in(port, now, DATA, &part);
    cr_expect_null(part);
    cr_expect_eq(last.type, EVENT_VIOLATION);
    nothing_out();
    part = batch(1, 2, FRAME_VALUE, span_text("hello"));
    part->data[BATCH_HEADER_BYTES + frame_total(5)] = 0x99;
    core_port_data_in(port, now, DATA, &part);
    cr_expect_eq(last.type, EVENT_VIOLATION);
    nothing_out();
    part = batch(1, 1, FRAME_ERROR, span_text("\x90"));
    core_port_data_in(port, now, DATA, &part);
    expect_violation("batch: a message of the other channel or direction");
    part = batch(1, 1, FRAME_RESERVE, span_text("\xc1"));
    core_port_data_in(port, now, DATA, &part);
    cr_expect_eq(last.type, EVENT_VIOLATION);
    nothing_out();
}

Test(core_port, tells_the_name_in_a_topic_frame)
{
    struct buffer *part = batch(1, 1, FRAME_TOPIC, span_text("alice/x"));
    core_port_data_in(port, now, DATA, &part);
    cr_assert_eq(last.type, EVENT_DATA);
    cr_expect_eq(last_ranges[0].kind, FRAME_TOPIC);
    cr_expect_eq(last_ranges[0].name.bytes, strlen("alice/x"));
    nothing_out();
}

Test(core_port, takes_an_unknown_message_from_newer_clients_alone)
{
    const struct span unknown = span_of("\x92\x3f\x01", 3); /* number 63 */
    struct msg hello = {.type = MSG_HELLO, .as.hello = {.major = PROTOCOL_MAJOR}};
    hello.as.hello.job = span_text("job");
    control_in(CONTROL, &hello);
    nothing_out();
    core_port_control_in(port, now, CONTROL, unknown);
    expect_violation("message: no message of this number");

    hello.as.hello.minor = PROTOCOL_MINOR + 1;
    control_in(OTHER, &hello);
    nothing_out();
    int before = steps;
    core_port_control_in(port, now, OTHER, unknown);
    cr_expect_eq(steps, before);
    nothing_out();
    core_port_control_in(port, now, CONTROL, unknown);
    expect_violation("message: no message of this number");
    core_port_closed(port, now, OTHER);
    nothing_out();
    core_port_control_in(port, now, OTHER, unknown);
    expect_violation("message: no message of this number");
}

/* ---- out ------------------------------------------------------------------------------------- */

static void say_things(struct effects *effects)
{
    effects_msg(effects, CONTROL, MSG_ECHO)->as.echo.sent_ns = 8;
    effects_drop(effects, OTHER);
}

Test(core_port, gives_messages_and_drops_in_order)
{
    struct core_port_out out;
    struct msg msg;
    unsigned number;
    script = say_things;
    core_port_tick(port, now);
    cr_assert(core_port_out(port, &out));
    cr_expect_eq(out.kind, CORE_PORT_CONTROL);
    cr_expect_eq(out.conn, CONTROL);
    cr_assert_eq(msg_decode(buffer_span(out.part), MSG_LANE_CONTROL, MSG_TO_CLIENT, &msg, &number),
                 WIRE_OK);
    cr_expect_eq(msg.as.echo.sent_ns, 8);
    buffer_unref(&out.part);
    cr_assert(core_port_out(port, &out));
    cr_expect_eq(out.kind, CORE_PORT_DROP);
    cr_expect_eq(out.conn, OTHER);
    nothing_out();
}

static void accept_and_send(struct effects *effects)
{
    effects_msg(effects, CONTROL, MSG_ACCEPTED)->as.accepted.data_number = 1;
    effects_msg(effects, CONTROL, MSG_ECHO);
    effects_msg(effects, OTHER, MSG_ACCEPTED)->as.accepted.data_number = 2;
    effects_frame(effects, DATA, 2, FRAME_VALUE);
}

/* Who waits for the value waits no longer than need be. */
Test(core_port, tells_writers_behind_what_readers_wait_for)
{
    static const struct {
        enum core_port_out_kind kind;
        conn_id conn;
    } expected[] = {{CORE_PORT_CONTROL, CONTROL}, /* the echo */
                    {CORE_PORT_DATA, DATA},
                    {CORE_PORT_CONTROL, CONTROL},
                    {CORE_PORT_CONTROL, OTHER}};
    struct core_port_out out;
    script = accept_and_send;
    core_port_tick(port, now);
    for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++) {
        struct msg msg;
        unsigned number;
        cr_assert(core_port_out(port, &out));
        cr_expect_eq(out.kind, expected[i].kind, "%zu", i);
        cr_expect_eq(out.conn, expected[i].conn, "%zu", i);
        if (i >= 2) {
            cr_assert_eq(
                msg_decode(buffer_span(out.part), MSG_LANE_CONTROL, MSG_TO_CLIENT, &msg, &number),
                WIRE_OK);
            cr_expect_eq(msg.as.accepted.data_number, i - 1);
        }
        buffer_unref(&out.part);
    }
    nothing_out();
}

/* What the next script sends: ranges of the payload that was let in last. */
static struct {
    uint32_t sub, offset, bytes, count;
} ranges[64];
static int range_count;

static void send_ranges(struct effects *effects)
{
    for (int i = 0; i < range_count; i++) {
        struct effect *range = effects_range(effects, DATA, ranges[i].sub, last.as.data.payload);
        range->offset = ranges[i].offset;
        range->bytes = ranges[i].bytes;
        range->count = ranges[i].count;
        /* Counts may stand anywhere. */
        effects_retain(effects, last.as.data.payload, 2);
        effects_release(effects, last.as.data.payload, 2);
    }
}

static void let_in(struct buffer **part)
{
    script = send_ranges;
    core_port_data_in(port, now, DATA, part);
}

Test(core_port, passes_a_payload_that_is_wanted_whole_by_reference)
{
    struct buffer *part = batch(0, 1000, FRAME_VALUE, span_text("hello"));
    struct buffer *held = buffer_ref(part);
    uint32_t stride = (uint32_t)frame_total(5);
    ranges[0].sub = 1, ranges[0].offset = BATCH_HEADER_BYTES;
    ranges[0].bytes = 1000 * stride, ranges[0].count = 1000;
    /* To another subscription in two ranges, which are one behind the other. */
    ranges[1].sub = 2, ranges[1].offset = BATCH_HEADER_BYTES;
    ranges[1].bytes = 10 * stride, ranges[1].count = 10;
    ranges[2].sub = 2, ranges[2].offset = BATCH_HEADER_BYTES + 10 * stride;
    ranges[2].bytes = 990 * stride, ranges[2].count = 990;
    range_count = 3;
    let_in(&part);
    for (uint32_t sub = 1; sub <= 2; sub++) {
        struct buffer *sent = data_out(DATA, sub);
        cr_expect_eq(sent, held);
        buffer_unref(&sent);
    }
    nothing_out();
    cr_expect_eq(core_port_payload_count(port), 0);
    cr_expect_eq(atomic_load(&held->refs), 1);
    buffer_unref(&held);
}

/* What stands behind the effects of a step is of an earlier one. */
Test(core_port, passes_no_more_of_a_payload_than_is_wanted)
{
    uint32_t stride = (uint32_t)frame_total(5);
    struct frame frame;
    for (uint32_t i = 0; i < 2; i++) {
        ranges[i].sub = 1, ranges[i].offset = BATCH_HEADER_BYTES + 2 * i * stride;
        ranges[i].bytes = 2 * stride, ranges[i].count = 2;
    }
    for (range_count = 2; range_count > 0; range_count--) {
        struct buffer *part = batch(0, 4, FRAME_VALUE, span_text("hello"));
        let_in(&part);
        struct buffer *sent = data_out(DATA, 1);
        cr_expect_eq(read_frames(sent, &frame), 2 * (uint32_t)range_count);
        buffer_unref(&sent);
        nothing_out();
    }
}

Test(core_port, packs_parts_of_a_payload_into_one_batch)
{
    struct buffer *part = batch(0, 4, FRAME_VALUE, span_text("hello"));
    struct buffer *held = buffer_ref(part);
    struct frame frame;
    uint32_t stride = (uint32_t)frame_total(5);
    ranges[0].sub = 1, ranges[0].offset = BATCH_HEADER_BYTES;
    ranges[0].bytes = stride, ranges[0].count = 1;
    ranges[1].sub = 1, ranges[1].offset = BATCH_HEADER_BYTES + 2 * stride;
    ranges[1].bytes = 2 * stride, ranges[1].count = 2;
    ranges[2].sub = 2, ranges[2].offset = BATCH_HEADER_BYTES + stride;
    ranges[2].bytes = stride, ranges[2].count = 1;
    range_count = 3;
    let_in(&part);
    struct buffer *sent = data_out(DATA, 1);
    cr_expect_neq(sent, held);
    cr_expect_eq(read_frames(sent, &frame), 3);
    cr_expect_eq(frame.seq, 103);
    cr_expect(span_equal(frame.value, span_text("hello")));
    buffer_unref(&sent);
    sent = data_out(DATA, 2);
    cr_expect_eq(read_frames(sent, &frame), 1);
    cr_expect_eq(frame.seq, 101);
    buffer_unref(&sent);
    nothing_out();
    buffer_unref(&held);
}

static void send_part(struct effects *effects)
{
    struct effect *part = effects_part(effects, DATA, 1, last.as.data.payload);
    part->offset = BATCH_HEADER_BYTES;
    part->skip = 2;
    part->count = 3;
    part->bytes = FRAME_HEADER_BYTES + 3 * 8;
}

Test(core_port, cuts_a_part_out_of_many_values)
{
    struct buffer *part = batch_of_many(9);
    struct batch_reader reader;
    struct frame frame;
    script = send_part;
    core_port_data_in(port, now, DATA, &part);
    struct buffer *sent = data_out(DATA, 1);
    cr_assert_eq(batch_reader_init(&reader, buffer_span(sent)), WIRE_OK);
    cr_assert_eq(batch_reader_next(&reader, &frame), WIRE_OK);
    cr_expect_eq(frame.seq, 102);
    cr_expect_eq(frame_count(&frame), 3);
    cr_expect_arr_eq(frame.value.data, "value002value003value004", 24);
    cr_expect_eq(batch_reader_next(&reader, &frame), WIRE_EMPTY);
    buffer_unref(&sent);
    nothing_out();
    cr_expect_eq(core_port_payload_count(port), 0);
}

static void send_frames(struct effects *effects)
{
    struct effect_frame *made = effects_frame(effects, DATA, 1, FRAME_TOPIC);
    made->frame.topic = 9;
    made->frame.value = span_text("alice/x");
    made = effects_frame(effects, DATA, 1, FRAME_GAP);
    made->frame.topic = 9;
    made->frame.seq = 4;
    made->gap = (struct frame_gap){.count = 6, .reason = GAP_NOT_KEPT};
    range_count = 1;
    send_ranges(effects);
}

Test(core_port, packs_frames_made_here_with_small_payloads)
{
    struct buffer *part = batch(0, 1, FRAME_VALUE, span_text("hello"));
    struct batch_reader reader;
    struct frame frame;
    struct frame_gap gap;
    ranges[0].sub = 1, ranges[0].offset = BATCH_HEADER_BYTES;
    ranges[0].bytes = (uint32_t)frame_total(5), ranges[0].count = 1;
    script = send_frames;
    core_port_data_in(port, now, DATA, &part);
    struct buffer *sent = data_out(DATA, 1);
    cr_assert_eq(batch_reader_init(&reader, buffer_span(sent)), WIRE_OK);
    cr_expect_eq(reader.frames, 3);
    cr_assert_eq(batch_reader_next(&reader, &frame), WIRE_OK);
    cr_expect_eq(frame.flags, FRAME_TOPIC);
    cr_expect(span_equal(frame.value, span_text("alice/x")));
    cr_assert_eq(batch_reader_next(&reader, &frame), WIRE_OK);
    cr_expect_eq(frame.flags, FRAME_GAP);
    cr_expect_eq(frame.seq, 4);
    cr_assert_eq(frame_gap_decode(frame.value, &gap), WIRE_OK);
    cr_expect_eq(gap.count, 6);
    cr_expect_eq(gap.reason, GAP_NOT_KEPT);
    cr_assert_eq(batch_reader_next(&reader, &frame), WIRE_OK);
    cr_expect_eq(frame.seq, 100);
    cr_expect_eq(batch_reader_next(&reader, &frame), WIRE_EMPTY);
    buffer_unref(&sent);
    nothing_out();
}

Test(core_port, does_not_pack_a_large_payload_that_is_wanted_whole)
{
    struct buffer *part = batch(0, 1000, FRAME_VALUE, span_text("hello"));
    struct buffer *held = buffer_ref(part);
    struct frame frame;
    ranges[0].sub = 1, ranges[0].offset = BATCH_HEADER_BYTES;
    ranges[0].bytes = 1000 * (uint32_t)frame_total(5), ranges[0].count = 1000;
    script = send_frames;
    core_port_data_in(port, now, DATA, &part);
    struct buffer *sent = data_out(DATA, 1);
    cr_expect_eq(read_frames(sent, &frame), 2);
    buffer_unref(&sent);
    sent = data_out(DATA, 1);
    cr_expect_eq(sent, held);
    buffer_unref(&sent);
    nothing_out();
    buffer_unref(&held);
}

/* Sends count ranges of a frame each, all but the first of a payload, with values of this size. */
static void send_singly(uint32_t count, size_t value_bytes)
{
    static uint8_t value[LIMIT_CHUNK_BYTES];
    struct buffer *part = batch(0, 1 + count, FRAME_VALUE, span_of(value, value_bytes));
    uint32_t stride = (uint32_t)frame_total(value_bytes);
    for (uint32_t i = 0; i < count; i++) {
        ranges[i].sub = 1;
        ranges[i].offset = BATCH_HEADER_BYTES + (1 + i) * stride;
        ranges[i].bytes = stride;
        ranges[i].count = 1;
    }
    range_count = (int)count;
    let_in(&part);
}

/* How many frames the next part has. */
static uint32_t frames_out(void)
{
    struct frame frame;
    struct buffer *sent = data_out(DATA, 1);
    cr_expect_leq(sent->bytes, LIMIT_PART_BYTES);
    uint32_t count = read_frames(sent, &frame);
    buffer_unref(&sent);
    return count;
}

Test(core_port, packs_up_to_the_size_of_a_batch)
{
    /* Frames of 8 KiB: sixteen would fill DEFAULT_BATCH_BYTES if there were no header. */
    const size_t small = 8192 - FRAME_HEADER_BYTES;
    send_singly(15, small);
    cr_expect_eq(frames_out(), 15);
    nothing_out();
    send_singly(17, small);
    cr_expect_eq(frames_out(), 15);
    cr_expect_eq(frames_out(), 2);
    nothing_out();

    /* The same to the byte, with values as large as the header leaves room for. */
    send_singly(16, small - 8);
    cr_expect_eq(frames_out(), 16);
    nothing_out();
}

Test(core_port, packs_large_frames_up_to_the_size_of_a_bulk_batch)
{
    const size_t bulk = 16384 - FRAME_HEADER_BYTES;
    send_singly(31, bulk);
    cr_expect_eq(frames_out(), 31);
    nothing_out();
    send_singly(33, bulk);
    cr_expect_eq(frames_out(), 31);
    cr_expect_eq(frames_out(), 2);
    nothing_out();
    /* A little less is not large. */
    send_singly(31, bulk - 8);
    cr_expect_eq(frames_out(), 8);
    cr_expect_eq(frames_out(), 8);
    cr_expect_eq(frames_out(), 8);
    cr_expect_eq(frames_out(), 7);
    nothing_out();
}

static void log_something(struct effects *effects)
{
    struct effect_log *log = effects_log(effects, CONTROL);
    log->name = span_text("party.lost");
    log->job = span_text("job");
    log->party = span_text("mallory");
    log->incarnation = 3;
    log->text = span_text("its connection closed");
    log->error = span_text("job/mallory/3/1");
    snprintf(log->principal, sizeof log->principal, "acme");
    log = effects_log(effects, 0);
    log->name = span_text("refused");
    log->job = span_text("job");
}

static void log_of_a_stranger(struct effects *effects)
{
    struct effect_log *log = effects_log(effects, DATA);
    log->name = span_text("refused");
    log->text = span_text("no message");
    log->count = 1;
    log = effects_log(effects, DATA);
    log->name = span_text("refused");
    log->text = span_text("no message");
    log->count = 2;
}

static void say_what_may_be_kept_first(struct effects *effects)
{
    static const struct msg_welcome observer = {.incarnation = 0,
                                                .data_endpoint = {.data = "x", .bytes = 1}};
    struct msg_welcome party = observer;
    party.incarnation = 1;
    effects_msg(effects, CONTROL, MSG_WELCOME)->as.welcome = observer;
    effects_msg(effects, CONTROL, MSG_WELCOME)->as.welcome = party;
    effects_msg(effects, CONTROL, MSG_ACCEPTED);
    effects_msg(effects, CONTROL, MSG_ECHO);
    effects_msg(effects, CONTROL, MSG_STATUS_END);
    effects_msg(effects, CONTROL, MSG_VERDICT);
    effects_msg(effects, CONTROL, MSG_REFUSED)->as.refused.type = span_text("errbus.fenced");
}

/* Who only looks must be told even of a journal that cannot be written. */
Test(core_port, lets_observers_wait_for_no_journal)
{
    static const enum core_port_saying expected[] = {
        CORE_PORT_NEWS,       CORE_PORT_WELCOME,    CORE_PORT_NEWS,  CORE_PORT_NEWS,
        CORE_PORT_CONCLUSION, CORE_PORT_CONCLUSION, CORE_PORT_ANSWER};
    script = say_what_may_be_kept_first;
    core_port_tick(port, now);
    for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++) {
        struct core_port_out out;
        cr_assert(core_port_out(port, &out));
        cr_expect_eq(out.saying, expected[i], "%zu", i);
        buffer_unref(&out.part);
    }
    nothing_out();
}

/* ---- a store --------------------------------------------------------------------------------- */

static struct buffer *stored; /* what the store has, at position 500 */

static bool fetch(void *arg, uint64_t at, void *out_body, size_t bytes)
{
    bool *is_there = arg;
    cr_assert_eq(at, 500);
    cr_assert_eq(bytes, stored->bytes);
    memcpy(out_body, stored->data, bytes);
    return *is_there;
}

/* A payload that is in the store only. */
static void store_batch(struct buffer *part, bool *is_there)
{
    struct payload_store store = {.fetch = fetch, .arg = is_there, .memory_bytes = 1};
    core_port_use_store(port, &store);
    stored = part;
    cr_assert(core_port_payload_add_stored(port, 500, (uint32_t)part->bytes, &kept));
    cr_expect_eq(core_port_payload_bytes(port), part->bytes);
    cr_expect_eq(core_port_payload_memory(port), 0);
}

static void send_whole(struct effects *effects)
{
    struct effect *range = effects_range(effects, DATA, 2, kept);
    range->offset = BATCH_HEADER_BYTES;
    range->count = 3;
    range->bytes = (uint32_t)(stored->bytes - BATCH_HEADER_BYTES);
    log_something(effects);
}

static payload_id whole_from;
static bool is_settled_whole;
static bool is_frame_between;

static void send_one(struct effects *effects)
{
    struct effect *range = effects_range(effects, DATA, 2, whole_from);
    range->offset = BATCH_HEADER_BYTES;
    range->count = 1;
    range->bytes = (uint32_t)frame_total(4);
    range->is_whole = is_settled_whole;
    if (is_frame_between)
        effects_frame(effects, DATA, 2, FRAME_END)->frame.seq = 2;
}

Test(core_port, reads_back_what_it_sends)
{
    bool is_there = true;
    struct core_port_out out;
    store_batch(batch(1, 3, FRAME_VALUE, span_text("readback")), &is_there);
    script = send_whole;
    core_port_tick(port, now);
    cr_assert(core_port_out(port, &out));
    cr_expect_eq(out.kind, CORE_PORT_DATA);
    cr_assert_eq(out.part->bytes, stored->bytes);
    cr_expect_eq(memcmp(out.part->data, stored->data, stored->bytes), 0);
    buffer_unref(&out.part);
    cr_expect(core_port_out(port, &out));
    cr_expect(core_port_out(port, &out));
    nothing_out();
    cr_expect_not(core_port_is_broken(port));
    buffer_unref(&stored);
}

/* What the journal has need not wait for what came since; a value that was settled by its last
 * piece, and what was made here, must. */
Test(core_port, says_of_which_values_the_journal_has_all)
{
    bool is_there = true;
    struct core_port_out out;
    store_batch(batch(1, 3, FRAME_VALUE, span_text("kept")), &is_there);
    struct buffer *part = batch(4, 3, FRAME_VALUE, span_text("new"));
    payload_id fresh = 0;
    cr_assert(core_port_payload_add(port, &part, UINT64_MAX, &fresh));
    for (int how = 0; how < 4; how++) {
        whole_from = how == 1 ? fresh : kept;
        is_settled_whole = how != 2;
        is_frame_between = how == 3;
        script = send_one;
        core_port_tick(port, now);
        cr_assert(core_port_out(port, &out));
        cr_assert_eq(out.kind, CORE_PORT_DATA);
        cr_expect_eq(out.is_kept, how == 0, "%d", how);
        buffer_unref(&out.part);
        while (core_port_out(port, &out))
            buffer_unref(&out.part);
    }
    core_port_payload_drop(port, fresh);
    buffer_unref(&stored);
}

static uint32_t dead_offset; /* of the piece that is asked for, in its value */

static void send_dead_value(struct effects *effects)
{
    struct effect *effect;
    effects_msg(effects, CONTROL, MSG_DEAD_VALUE);
    effect = &effects->items[effects->count - 1];
    effect->payload = whole_from;
    effect->offset = BATCH_HEADER_BYTES;
    effect->count = dead_offset;
}

/* The bytes of the dead letter's value from dead_offset on, of the message that goes out. */
static size_t dead_value_out(uint32_t offset, const char **out_first)
{
    static uint8_t bytes[LIMIT_CONTROL_BYTES];
    struct core_port_out out;
    struct msg msg;
    unsigned number;
    dead_offset = offset;
    script = send_dead_value;
    core_port_tick(port, now);
    cr_assert(core_port_out(port, &out));
    cr_assert_eq(out.kind, CORE_PORT_CONTROL);
    memcpy(bytes, out.part->data, out.part->bytes);
    cr_assert_eq(
        msg_decode(span_of(bytes, out.part->bytes), MSG_LANE_CONTROL, MSG_TO_CLIENT, &msg, &number),
        WIRE_OK);
    buffer_unref(&out.part);
    *out_first = msg.as.dead_value.value.data;
    return msg.as.dead_value.value.bytes;
}

Test(core_port, tells_the_value_of_a_dead_letter_in_bounded_pieces)
{
    static char value[LIMIT_DEAD_PIECE_BYTES + 1];
    const char *first;
    memset(value, 'a', sizeof value);
    value[LIMIT_DEAD_PIECE_BYTES] = 'z';
    struct buffer *part = batch(1, 1, FRAME_VALUE, span_of(value, sizeof value));
    cr_assert(core_port_payload_add(port, &part, UINT64_MAX, &whole_from));
    cr_expect_eq(dead_value_out(0, &first), LIMIT_DEAD_PIECE_BYTES);
    cr_expect_eq(*first, 'a');
    cr_expect_eq(dead_value_out(1, &first), LIMIT_DEAD_PIECE_BYTES, "just as much is left");
    cr_expect_eq(dead_value_out(2, &first), LIMIT_DEAD_PIECE_BYTES - 1);
    cr_expect_eq(dead_value_out(LIMIT_DEAD_PIECE_BYTES, &first), 1);
    cr_expect_eq(*first, 'z');
    cr_expect_eq(dead_value_out(LIMIT_DEAD_PIECE_BYTES + 1, &first), 0);
    core_port_payload_drop(port, whole_from);
}

Test(core_port, says_nothing_any_more_when_bytes_cannot_be_read_back)
{
    bool is_there = false;
    store_batch(batch(1, 3, FRAME_VALUE, span_text("readback")), &is_there);
    script = send_whole;
    core_port_tick(port, now);
    nothing_out();
    cr_expect(core_port_is_broken(port));
    is_there = true;
    script = log_something;
    core_port_tick(port, now);
    nothing_out();
    cr_expect(core_port_is_broken(port));
    buffer_unref(&stored);
}

Test(core_port, gives_log_lines_as_text)
{
    struct core_port_out out;
    script = log_something;
    core_port_tick(port, now);
    cr_assert(core_port_out(port, &out));
    cr_expect_eq(out.kind, CORE_PORT_LOG);
    cr_expect(out.is_warning);
    cr_expect_str_eq(out.text, "party.lost job/mallory/3: its connection closed");
    cr_expect_eq(out.conn, CONTROL);
    cr_expect(span_equal(out.event.principal, span_text("acme")));
    cr_expect(span_equal(out.event.error, span_text("job/mallory/3/1")));
    cr_assert(core_port_out(port, &out));
    cr_expect_not(out.is_warning);
    cr_expect_str_eq(out.text, "refused job");
    cr_expect_eq(out.conn, 0);
    nothing_out();
    script = log_of_a_stranger;
    core_port_tick(port, now);
    cr_assert(core_port_out(port, &out));
    cr_expect(out.is_warning);
    cr_expect_str_eq(out.text, "refused a connection without a session: no message");
    cr_expect_eq(out.conn, DATA);
    cr_expect_eq(out.event.job.bytes, 0);
    cr_assert(core_port_out(port, &out));
    cr_expect(out.is_warning);
    cr_expect_str_eq(out.text, "refused a connection without a session: no message (2 times)");
    nothing_out();
}

Test(core_port, says_so_when_memory_for_a_batch_is_short)
{
    struct buffer *part = batch(1, 1, FRAME_VALUE, span_text("hello"));
    memory.bytes_max = memory.bytes_used;
    core_port_data_in(port, now, DATA, &part);
    cr_expect_null(part);
    cr_expect_eq(last.type, EVENT_VIOLATION);
    nothing_out();
    memory.bytes_max = UINT64_MAX;
}

/* ---- a journal ------------------------------------------------------------------------------- */

static void tell_facts(struct effects *effects)
{
    struct fact value = {.type = FACT_KEPT, .as.kept = {.topic = 9, .seq = 100, .count = 1}};
    struct fact failed = {.type = FACT_FAILED, .as.failed = {.topic = 9, .seq = 101}};
    effects_retain(effects, last.as.data.payload, 1);
    effects_fact(effects, &value, last.as.data.payload);
    effects_fact(effects, &failed, 0);
}

static void expect_fact(struct core_port_out *out, enum fact_type type, bool is_essential)
{
    struct fact fact;
    cr_assert(core_port_out(port, out));
    cr_assert_eq(out->kind, CORE_PORT_FACT);
    cr_assert_eq(fact_decode(buffer_span(out->part), &fact), WIRE_OK);
    cr_expect_eq(fact.type, type);
    cr_expect_eq(fact.as.kept.topic, 9);
    cr_expect_eq(out->is_essential, is_essential);
    buffer_unref(&out->part);
}

Test(core_port, gives_facts_with_the_bytes_beside_them)
{
    struct core_port_out out;
    struct buffer *part = batch(1, 1, FRAME_VALUE, span_text("hello"));
    const struct buffer *sent = part;
    script = tell_facts;
    core_port_data_in(port, now, DATA, &part);
    expect_fact(&out, FACT_KEPT, false);
    cr_expect_eq(core_port_payload(port, out.payload), sent);
    expect_fact(&out, FACT_FAILED, true);
    cr_expect_eq(out.payload, 0);
    nothing_out();
    cr_expect_eq(core_port_payload_count(port), 1);
}

static void tell_snapshot(struct effects *effects)
{
    struct fact opened = {.type = FACT_TOPIC_OPENED, .as.topic_opened = {.topic = 9}};
    effects_fact(effects, &opened, 0);
}

Test(core_port, tells_a_snapshot)
{
    struct core_port_out out;
    script = tell_snapshot;
    core_port_snapshot(port);
    expect_fact(&out, FACT_TOPIC_OPENED, false);
    nothing_out();
}

/* The played core takes a reference for each byte of the record. */
Test(core_port, keeps_what_replayed_facts_refer_to)
{
    payload_id wanted, unwanted;
    struct buffer *first = buffer_copy(span_text("wanted"));
    struct buffer *second = buffer_copy(span_text("unwanted"));
    cr_assert(core_port_payload_add(port, &first, UINT64_MAX, &wanted));
    cr_assert(core_port_payload_add(port, &second, UINT64_MAX, &unwanted));
    cr_expect(first == NULL && second == NULL && wanted != unwanted);
    cr_expect_null(core_port_replay(port, span_text("fact"), wanted));
    cr_expect_str_eq(core_port_replay(port, span_text("fact"), 0), "no bytes stand beside it");
    nothing_out();
    cr_expect_eq(core_port_payload_count(port), 2);
    core_port_payload_drop(port, wanted);
    core_port_payload_drop(port, unwanted);
    cr_expect_eq(core_port_payload_count(port), 1);
    cr_expect(span_equal(buffer_span(core_port_payload(port, wanted)), span_text("wanted")));
}

Test(core_port, tells_the_core_how_many_of_its_steps_are_kept)
{
    core_port_tick(port, now);
    cr_expect_eq(core_port_steps(port), 1);
    cr_expect_eq(last.kept, 0);
    core_port_kept(port, 1);
    core_port_tick(port, now);
    cr_expect_eq(core_port_steps(port), 2);
    cr_expect_eq(last.kept, 1);
    core_port_resume(port, now);
    struct core_port_out out;
    cr_assert(core_port_out(port, &out));
    cr_expect_eq(core_port_steps(port), 3, "as the core counts");
    nothing_out();
}

Test(core_port, measures_a_snapshot_before_what_follows_is_said)
{
    struct core_port_out out;
    core_port_resume(port, now);
    (void)core_port_snapshot_bytes(port);
    cr_assert(core_port_out(port, &out));
    cr_expect_str_eq(out.text, "resumed job");
    nothing_out();
}

Test(core_port, says_what_follows_when_a_replay_ends)
{
    struct core_port_out out;
    core_port_resume(port, now);
    cr_expect(last.now_ns == now.now_ns && last.wall_ns == now.wall_ns);
    cr_assert(core_port_out(port, &out));
    cr_expect_eq(out.kind, CORE_PORT_LOG);
    cr_expect_str_eq(out.text, "resumed job");
    nothing_out();
}

/* On the machine that it runs on now the clock may be behind what facts tell of.  Each way: what it
 * says, and the wall; what was seen of both; what the core is told, by how much more. */
Test(core_port, lets_the_core_s_clock_go_on_where_it_was)
{
    const int64_t s = 1000000000;
    const int64_t year_s = 365 * 86400;
    const struct {
        int64_t now_s, wall_s, seen_s, seen_wall_s, told_s;
    } cases[] = {
        {5, 1000, 0, 0, 5},                                /* of nothing */
        {5, 1000, 4, 990, 5},                              /* it went on */
        {5, 1000, 5, 990, 5},                              /* ... if only just */
        {5, 1000, 6, 990, 16},                             /* it began anew ten seconds later */
        {5, 1000, 7000, 990, 7010},                        /* and long ago at that */
        {5, 1000, 7000, 1000, 7000},                       /* the wall stood still */
        {5, 1000, 7000, 2000, 7000},                       /* ... or was set back */
        {5, 2000 + year_s, 7000, 2001, 7000 + year_s - 1}, /* a year is the most */
        {5, 2000 + year_s, 7000, 2000, 7000 + year_s},
        {5, 2000 + year_s, 7000, 1999, 7000 + year_s},
    };
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct core_port_now at = {.now_ns = cases[i].now_s * s,
                                         .wall_ns = cases[i].wall_s * s};
        struct core_port_out out;
        seen = (struct core_moment){cases[i].seen_s * s, cases[i].seen_wall_s * s};
        core_port_resume(port, at);
        cr_expect_eq(last.now_ns, cases[i].told_s * s, "case %u: %lld", i,
                     (long long)(last.now_ns / s));
        cr_expect_eq(last.wall_ns, at.wall_ns);
        cr_assert(core_port_out(port, &out));
        nothing_out();
        core_port_tick(port,
                       (struct core_port_now){.now_ns = at.now_ns + 3, .wall_ns = at.wall_ns});
        cr_expect_eq(last.now_ns, cases[i].told_s * s + 3, "case %u", i);
        core_due_ns = cases[i].told_s * s + 9;
        cr_expect_eq(core_port_deadline_ns(port), at.now_ns + 9, "case %u", i);
        core_due_ns = INT64_MAX;
        cr_expect_eq(core_port_deadline_ns(port), INT64_MAX, "none stays none");
        core_due_ns = 77;
    }
    seen = (struct core_moment){0, 0};
}

/* What a full disk makes wait: all that may be as long as its sender likes, and what has an order
 * behind it. */
Test(core_port, weighs_what_a_message_asks_of_the_journal)
{
    static const struct {
        struct msg msg;
        enum msg_weight weight;
    } rows[] = {
        {{.type = MSG_BEAT}, MSG_LIGHT},
        {{.type = MSG_READY}, MSG_LIGHT},
        {{.type = MSG_TAKEN}, MSG_LIGHT},
        {{.type = MSG_UNSUBSCRIBE}, MSG_ORDERED},
        {{.type = MSG_ACK}, MSG_ORDERED},
        {{.type = MSG_COMPLETE}, MSG_ORDERED},
        {{.type = MSG_LEAVE}, MSG_ORDERED},
        {{.type = MSG_SUBSCRIBE, .as.subscribe.pattern = {"a", 1}}, MSG_HEAVY},
        {{.type = MSG_SUB_ADD, .as.sub_add.pattern = {"a", 1}}, MSG_HEAVY},
        {{.type = MSG_TOPIC_OPEN, .as.topic_open.topic = {"a/b", 3}}, MSG_HEAVY},
        {{.type = MSG_FAIL, .as.fail.error = {"a", 1}}, MSG_HEAVY},
        {{.type = MSG_RETRACT, .as.retract.error = {"a", 1}}, MSG_HEAVY},
        {{.type = MSG_FAIL_PARTY, .as.fail_party.error = {"a", 1}}, MSG_HEAVY},
        {{.type = MSG_PIECE}, MSG_LIGHT}, /* on this channel it is a violation */
        {{.type = MSG_ECHO}, MSG_LIGHT},  /* and so is this */
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        uint8_t bytes[256];
        size_t count = 0;
        cr_assert_eq(msg_encode(&rows[i].msg, bytes, sizeof bytes, &count), WIRE_OK, "%zu", i);
        cr_expect_eq(core_port_weigh(span_of(bytes, count)), rows[i].weight, "%zu", i);
    }
    cr_expect_eq(core_port_weigh(span_text("?")), MSG_LIGHT);
}
