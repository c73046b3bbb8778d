/* SPDX-License-Identifier: MPL-2.0 */
/* session_driver.h -- for tests: a session in virtual time, and a broker made by hand. */
#ifndef TESTS_UNIT_SESSION_DRIVER_H
#define TESTS_UNIT_SESSION_DRIVER_H

#include "libbus/base/limits.h"
#include "libbus/base/memory.h"
#include "libbus/base/must.h"
#include "libbus/session/session.h"
#include "libbus/session/session_observe.h"
#include "tests/lib/error_of.h"

#include <criterion/criterion.h>

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define DRIVER_MS INT64_C(1000000)
#define DRIVER_TOKEN UINT64_C(77)
#define DRIVER_BROKER UINT64_C(5)
#define DRIVER_CONNECTION 42
#define DRIVER_BROKER_AHEAD (INT64_C(1000) * 1000 * DRIVER_MS) /* of our clock */

struct driver {
    struct memory memory;
    struct session *session;
    int64_t now_ns;
    uint64_t data_number;               /* as the broker has accepted it, for WELCOME */
    uint8_t durability;                 /* ... and what it is worth */
    uint32_t own_numbers;               /* ... which may number its topics from here on; or 0 */
    uint8_t heard[LIMIT_CONTROL_BYTES]; /* what the session said last */
};

static inline struct session_options driver_options(const char *party)
{
    return (struct session_options){
        .job = span_text("train"),
        .party = span_text(party),
        .library = span_text("libbus test"),
        .host = span_text("here"),
        .pid = 4711,
        .client = 1147,
        .heartbeat_ms = 1000,
        .lost_after_ms = 10000,
        .grace_ms = 1000,
        .broker_lost_ms = 30000,
        .outbox_bytes_max = 64 * 1024 * 1024,
        .inbox_bytes_max = 64 * 1024 * 1024,
    };
}

static inline void driver_init_with(struct driver *d, const struct session_options *options)
{
    memset(d, 0, sizeof *d);
    memory_heap_init(&d->memory, UINT64_MAX);
    d->now_ns = 1000 * DRIVER_MS;
    cr_assert_eq(session_new(&d->memory, options, d->now_ns, &d->session), CODE_OK);
}

static inline void driver_init(struct driver *d)
{
    struct session_options options = driver_options("alice");
    driver_init_with(d, &options);
}

/* Everything was given back. */
static inline void driver_fini(struct driver *d)
{
    session_free(&d->session);
    must(d->memory.bytes_used == 0); /* an assertion fails no test once its body is over */
}

/* The broker says something. */
static inline void driver_say(struct driver *d, const struct msg *msg)
{
    static uint8_t bytes[LIMIT_CONTROL_BYTES];
    size_t count = 0;
    cr_assert_eq(msg_encode(msg, bytes, sizeof bytes, &count), WIRE_OK, "%s", msg_name(msg->type));
    session_control_in(d->session, d->now_ns, span_of(bytes, count));
}

/* What the session says next; MSG_NONE: nothing. */
static inline struct msg driver_hear(struct driver *d)
{
    struct msg msg = {.type = MSG_NONE};
    unsigned number = 0;
    size_t bytes = 0;
    if (!session_control_out(d->session, d->now_ns, d->heard, &bytes))
        return msg;
    session_control_sent(d->session);
    cr_assert_eq(
        msg_decode(span_of(d->heard, bytes), MSG_LANE_CONTROL, MSG_TO_BROKER, &msg, &number),
        WIRE_OK);
    return msg;
}

static inline struct msg driver_expect(struct driver *d, enum msg_type type)
{
    struct msg msg = driver_hear(d);
    cr_assert_eq(msg.type, type, "expected %s, heard %s", type ? msg_name(type) : "nothing",
                 msg.type ? msg_name(msg.type) : "nothing");
    return msg;
}

static inline struct msg driver_welcome(const struct driver *d, bool is_resumed)
{
    return (struct msg){.type = MSG_WELCOME,
                        .as.welcome = {.major = PROTOCOL_MAJOR,
                                       .broker = DRIVER_BROKER,
                                       .token = DRIVER_TOKEN,
                                       .incarnation = 3,
                                       .attempt = 1,
                                       .is_resumed = is_resumed,
                                       .data_number = d->data_number,
                                       .data_endpoint = span_text("tcp://*:7371"),
                                       .value_bytes_max = LIMIT_VALUE_BYTES,
                                       .broker_ns = d->now_ns + DRIVER_BROKER_AHEAD,
                                       .connection = DRIVER_CONNECTION,
                                       .durability = d->durability,
                                       .own_numbers = d->own_numbers}};
}

/* The next part on the data channel, a reference of the caller's, or NULL. */
static inline struct buffer *driver_part(struct driver *d)
{
    struct buffer *part = session_data_out(d->session, d->now_ns);
    if (part == NULL)
        return NULL;
    buffer_ref(part);
    session_data_sent(d->session);
    return part;
}

static inline void driver_expect_attach(struct driver *d)
{
    struct msg msg;
    unsigned number = 0;
    cr_assert_eq(session_action(d->session), SESSION_CONNECT_DATA);
    struct buffer *part = driver_part(d);
    cr_assert_not_null(part);
    cr_assert_eq(msg_decode(buffer_span(part), MSG_LANE_DATA, MSG_TO_BROKER, &msg, &number),
                 WIRE_OK);
    cr_assert_eq(msg.type, MSG_ATTACH);
    cr_assert_eq(msg.as.attach.token, DRIVER_TOKEN);
    cr_assert_eq(msg.as.attach.connection, DRIVER_CONNECTION);
    buffer_unref(&part);
}

/* The control connection is begun, with this HELLO. */
static inline struct msg driver_dial(struct driver *d)
{
    cr_assert_eq(session_action(d->session), SESSION_CONNECT_CONTROL);
    return driver_expect(d, MSG_HELLO);
}

static inline void driver_say_welcome(struct driver *d, bool is_resumed)
{
    struct msg welcome = driver_welcome(d, is_resumed);
    driver_say(d, &welcome);
}

/* Up to where POSITION and AWAIT are due. */
static inline void driver_greet_to_attach(struct driver *d, bool is_resumed)
{
    struct msg hello = driver_dial(d);
    cr_assert_eq(hello.as.hello.token, is_resumed ? DRIVER_TOKEN : 0);
    driver_say_welcome(d, is_resumed);
    driver_expect_attach(d);
}

static inline void driver_attached(struct driver *d)
{
    driver_say(d, &(struct msg){.type = MSG_ATTACHED});
    cr_assert_eq(session_state(d->session), SESSION_UP);
    (void)driver_expect(d, MSG_BEAT);
}

/* From nothing, or from a lost connection, to UP. */
static inline void driver_greet(struct driver *d, bool is_resumed)
{
    driver_greet_to_attach(d, is_resumed);
    (void)driver_expect(d, MSG_READY);
    driver_attached(d);
}

/* ... where WELCOME comes so many milliseconds after HELLO. */
static inline void driver_greet_late(struct driver *d, int64_t ms)
{
    bool is_resumed = driver_dial(d).as.hello.token != 0;
    d->now_ns += ms * DRIVER_MS;
    driver_say_welcome(d, is_resumed);
    driver_expect_attach(d);
    (void)driver_expect(d, MSG_READY);
    driver_attached(d);
}

/* The answer to a BEAT of now comes so late. */
static inline void driver_echo_late(struct driver *d, int64_t ms)
{
    int64_t sent_ns = d->now_ns;
    d->now_ns += ms * DRIVER_MS;
    driver_say(d, &(struct msg){.type = MSG_ECHO, .as.echo.sent_ns = sent_ns});
}

/* From nothing to UP over a link with such a round trip, that is known to be long. */
static inline void driver_greet_far(struct driver *d, int64_t ms)
{
    uint64_t trip_ns = 0;
    driver_greet_late(d, ms);
    while (trip_ns == 0) {
        driver_echo_late(d, ms);
        trip_ns = driver_expect(d, MSG_BEAT).as.beat.trip_ns;
    }
}

static inline void driver_up_far(struct driver *d, int64_t ms)
{
    driver_init(d);
    driver_greet_far(d, ms);
}

static inline void driver_up(struct driver *d)
{
    driver_init(d);
    driver_greet(d, false);
}

/* Until the session begins a connection. */
static inline void driver_wait_for_dial(struct driver *d)
{
    while (!session_has_action(d->session)) {
        d->now_ns = session_deadline_ns(d->session);
        session_tick(d->session, d->now_ns);
    }
}

/* The connection breaks, and another one is begun. */
static inline void driver_break_link(struct driver *d)
{
    d->now_ns += 500 * DRIVER_MS;
    session_link_closed(d->session, d->now_ns);
    driver_wait_for_dial(d);
}

/* The session asks for a topic, and is answered so. */
static inline void driver_answer_open(struct driver *d, struct msg_topic_opened answer)
{
    answer.request = driver_expect(d, MSG_TOPIC_OPEN).as.topic_open.request;
    driver_say(d, &(struct msg){.type = MSG_TOPIC_OPENED, .as.topic_opened = answer});
}

/* A topic of ours, opened by the broker as this number. */
static inline uint32_t driver_topic(struct driver *d, const char *name, uint32_t number,
                                    uint64_t limit_bytes)
{
    uint32_t topic = 0;
    cr_assert_eq(session_topic(d->session, span_text(name), &topic), CODE_OK);
    driver_answer_open(d, (struct msg_topic_opened){.topic = number, .limit_bytes = limit_bytes});
    return topic;
}

static inline void driver_accept(struct driver *d, uint64_t data_number, uint64_t control_number)
{
    if (d->data_number < data_number)
        d->data_number = data_number;
    driver_say(d, &(struct msg){.type = MSG_ACCEPTED,
                                .as.accepted = {.data_number = data_number,
                                                .control_number = control_number}});
}

/* The state the session is in, and why. */
static inline void driver_expect_end(struct driver *d, enum wire_code code, const char *type)
{
    struct buffer *error = NULL;
    cr_assert_eq(session_state(d->session), SESSION_OVER);
    cr_assert_eq(session_end(d->session, &error), code, "ended with %d",
                 (int)session_end(d->session, NULL));
    if (type == NULL) {
        cr_assert_null(error);
        return;
    }
    cr_assert_not_null(error);
    static struct error_record records[LIMIT_ERROR_RECORDS];
    uint32_t count = 0;
    cr_assert_eq(error_decode(buffer_span(error), records, LIMIT_ERROR_RECORDS, &count), WIRE_OK);
    cr_assert(span_equal(records[0].type, span_text(type)), "type %.*s", (int)records[0].type.bytes,
              (const char *)records[0].type.data);
    buffer_unref(&error);
}

/* A batch of these frames, as the broker sends them. */
static inline size_t driver_frame_bytes(const struct frame *frame)
{
    return frame_total(frame->value.bytes) + frame->more * frame_padded(frame->value.bytes);
}

static inline struct buffer *driver_batch(const struct frame *frames, size_t count)
{
    size_t bytes = 0;
    for (size_t i = 0; i < count; i++)
        bytes += driver_frame_bytes(&frames[i]);
    struct buffer *batch = buffer_new(BATCH_HEADER_BYTES + bytes);
    if (batch == NULL) /* a test made one fail: not this one */
        batch = buffer_new(BATCH_HEADER_BYTES + bytes);
    cr_assert_not_null(batch);
    batch_header_write(batch->data, (uint32_t)count, (uint32_t)bytes, 0);
    batch->bytes = BATCH_HEADER_BYTES;
    for (size_t i = 0; i < count; i++) {
        struct frame frame = frames[i];
        frame.delivery = frame.delivery ? frame.delivery : 1;
        frame.reply_to = frame.reply_to ? frame.reply_to : FRAME_NO_REPLY;
        frame_write(batch->data + batch->bytes, &frame);
        batch->bytes += driver_frame_bytes(&frame);
    }
    return batch;
}

static inline void driver_deliver(struct driver *d, uint32_t sub, const struct frame *frames,
                                  size_t count)
{
    uint8_t head[DELIVERY_HEADER_BYTES];
    delivery_header_write(head, sub);
    struct buffer *batch = driver_batch(frames, count);
    session_data_in(d->session, d->now_ns, span_of(head, sizeof head), &batch);
    cr_assert_null(batch);
}

static inline struct frame driver_topic_frame(uint32_t number, const char *name)
{
    return (struct frame){.flags = FRAME_TOPIC, .topic = number, .value = span_text(name)};
}

static inline struct frame driver_value(uint32_t topic, uint64_t seq, const char *text)
{
    return (struct frame){
        .flags = FRAME_VALUE, .topic = topic, .seq = seq, .value = span_text(text)};
}

/* A CHUNK frame with so many bytes of value i -> (uint8_t)i from offset on; bytes: room. */
static inline struct frame driver_chunk(uint32_t topic, uint64_t seq, uint64_t total,
                                        uint64_t offset, size_t count, uint8_t *bytes)
{
    frame_chunk_prefix_write(bytes, total, offset);
    for (size_t i = 0; i < count; i++)
        bytes[FRAME_CHUNK_PREFIX_BYTES + i] = (uint8_t)(offset + i);
    return (struct frame){
        .flags = (uint16_t)(FRAME_CHUNK | (offset + count == total ? FRAME_LAST_CHUNK : 0)),
        .topic = topic,
        .seq = seq,
        .value = span_of(bytes, FRAME_CHUNK_PREFIX_BYTES + count)};
}

#endif
