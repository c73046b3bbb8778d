/* SPDX-License-Identifier: MPL-2.0 */
/* session_memory_test.c -- one conversation, with memory short at every place where it can be.
 *
 * Whatever failed is tried again, and the conversation comes to the same end: nothing is lost,
 * nothing is forgotten, and everything is given back. */
#include "libbus/session/session.h"

#include "tests/unit/failing_buffers.h"
#include "tests/unit/session_driver.h"

enum { ROUNDS_MAX = 20000 };

static struct driver d;
static uint64_t fail_at; /* the allocation that fails; 0: none */
static void *(*heap_resize)(struct memory *memory, void *block, size_t old_bytes, size_t new_bytes);

static void *failing_resize(struct memory *memory, void *block, size_t old_bytes, size_t new_bytes)
{
    if (new_bytes > 0 && memory->calls == fail_at)
        return NULL;
    return heap_resize(memory, block, old_bytes, new_bytes);
}

/* ---- a broker that agrees to everything ------------------------------------------------------ */

static struct {
    uint64_t data_number;
    uint64_t control_seen;
    bool is_resumed;
    bool is_over;
    uint64_t acked;
    uint64_t uploaded;
    bool is_up;        /* READY came: frames may flow */
    bool is_await_due; /* ... then */
    uint32_t sub;
    uint32_t sub_due; /* ... and then */
} broker;

static void see_number(uint64_t number)
{
    if (number == broker.control_seen + 1)
        broker.control_seen = number;
    cr_assert_leq(number, broker.control_seen, "numbers follow each other");
    driver_accept(&d, broker.data_number, broker.control_seen);
}

static void welcome(const struct msg *hello)
{
    cr_assert_eq(hello->as.hello.token, broker.is_resumed ? DRIVER_TOKEN : 0);
    struct msg msg = driver_welcome(&d, broker.is_resumed);
    msg.as.welcome.data_number = broker.data_number;
    broker.is_resumed = true;
    broker.is_up = false;
    driver_say(&d, &msg);
}

static void deliver_due(void)
{
    if (!broker.is_up)
        return;
    struct frame frames[] = {driver_topic_frame(4, "bob/x"), driver_value(4, 0, "0"),
                             driver_value(4, 1, "1"), driver_value(4, 2, "2")};
    struct frame answers[] = {driver_topic_frame(4, "bob/x"), driver_value(4, 0, "awaited")};
    if (broker.sub_due != 0)
        driver_deliver(&d, broker.sub_due, frames, 4);
    broker.sub_due = 0;
    if (broker.is_await_due)
        driver_deliver(&d, 0, answers, 2);
    broker.is_await_due = false;
}

static void answer(const struct msg *msg)
{
    switch (msg->type) {
    case MSG_HELLO: welcome(msg); break;
    case MSG_READY:
        broker.is_up = true;
        broker.sub_due = broker.sub; /* once more, as much as there was */
        driver_say(&d, &(struct msg){.type = MSG_ATTACHED});
        break;
    case MSG_TOPIC_OPEN:
        driver_say(&d, &(struct msg){.type = MSG_TOPIC_OPENED,
                                     .as.topic_opened = {.request = msg->as.topic_open.request,
                                                         .topic = 1,
                                                         .limit_bytes = 1 << 30}});
        break;
    case MSG_SUBSCRIBE:
        driver_say(&d, &(struct msg){.type = MSG_SUBSCRIBED,
                                     .as.subscribed = {.number = msg->as.subscribe.number,
                                                       .sub = msg->as.subscribe.sub}});
        see_number(msg->as.subscribe.number);
        broker.sub = (uint32_t)msg->as.subscribe.sub;
        broker.sub_due = broker.sub;
        break;
    case MSG_RETRACT:
        driver_say(&d,
                   &(struct msg){.type = MSG_RESULT, .as.result.number = msg->as.retract.number});
        see_number(msg->as.retract.number);
        break;
    case MSG_ACK:
        broker.acked = msg->as.ack.next_seq;
        see_number(msg->as.ack.number);
        break;
    case MSG_FAIL: see_number(msg->as.fail.number); break;
    case MSG_UNSUBSCRIBE: see_number(msg->as.unsubscribe.number); break;
    case MSG_AWAIT: broker.is_await_due = true; break;
    case MSG_LEAVE:
        broker.is_over = true;
        driver_say(&d, &(struct msg){.type = MSG_OVER, .as.over.code = CODE_ECLOSED});
        break;
    default: break;
    }
    deliver_due();
}

static void take_part(struct span part)
{
    struct batch_reader reader;
    struct frame frame;
    struct frame_chunk chunk;
    if (batch_reader_init(&reader, part) != WIRE_OK)
        return; /* ATTACH */
    if (reader.number != 0) {
        cr_assert_leq(reader.number, broker.data_number + 1);
        if (broker.data_number < reader.number + reader.frames - 1)
            broker.data_number = reader.number + reader.frames - 1;
        driver_accept(&d, broker.data_number, broker.control_seen);
    } else if (batch_reader_next(&reader, &frame) == WIRE_OK &&
               frame_chunk_decode(frame.value, &chunk) == WIRE_OK) {
        if (chunk.offset <= broker.uploaded && broker.uploaded < chunk.offset + chunk.bytes.bytes)
            broker.uploaded = chunk.offset + chunk.bytes.bytes;
        driver_say(&d, &(struct msg){.type = MSG_CHUNKED,
                                     .as.chunked = {.topic = frame.topic,
                                                    .seq = frame.seq,
                                                    .bytes = broker.uploaded}});
    }
}

/* All that both have to say to each other now; and if that is nothing, time passes. */
static void converse(void)
{
    bool is_any = false;
    struct msg msg;
    struct buffer *part;
    (void)session_action(d.session);
    while (!broker.is_over && (msg = driver_hear(&d)).type != MSG_NONE) {
        answer(&msg);
        (void)session_action(d.session);
        is_any = true;
    }
    while (!broker.is_over && (part = driver_part(&d)) != NULL) {
        take_part(buffer_span(part));
        buffer_unref(&part);
        is_any = true;
    }
    if (!is_any && session_deadline_ns(d.session) != INT64_MAX) {
        if (d.now_ns < session_deadline_ns(d.session))
            d.now_ns = session_deadline_ns(d.session);
        session_tick(d.session, d.now_ns);
    }
}

/* ---- the conversation ------------------------------------------------------------------------ */

/* Tries a call until it succeeds; only want of memory or "not now" may come between. */
#define TRY(call)                                                                                  \
    do {                                                                                           \
        enum wire_code try_code = CODE_ENOMEM;                                                     \
        for (int try_round = 0; try_code != CODE_OK; try_round++) {                                \
            try_code = (call);                                                                     \
            cr_assert(try_code == CODE_OK || try_code == CODE_ENOMEM ||                            \
                          try_code == CODE_ETIMEDOUT,                                              \
                      "%s gave %d", #call, (int)try_code);                                         \
            cr_assert_lt(try_round, ROUNDS_MAX, "%s", #call);                                      \
            if (try_code != CODE_OK)                                                               \
                converse();                                                                        \
        }                                                                                          \
    } while (0)

static void settle(void)
{
    struct session_mark mark = session_mark(d.session);
    for (int round = 0; !session_mark_reached(d.session, mark); round++) {
        cr_assert_lt(round, ROUNDS_MAX);
        converse();
    }
}

static void write_some(uint32_t topic)
{
    static uint8_t large[DEFAULT_CHUNK_BYTES + 1];
    struct span values[] = {span_text("small"), span_of(large, sizeof large)};
    uint64_t first, slot, number;
    TRY(session_publish(d.session, d.now_ns, topic, values, 2, &first));
    cr_assert_eq(first, 0);
    TRY(session_reserve(d.session, d.now_ns, topic, -1, -1, 100, &slot));
    cr_assert_eq(slot, 2);
    TRY(session_commit(d.session, d.now_ns, topic, slot, values[0]));
    TRY(session_reserve(d.session, d.now_ns, topic, -1, -1, 0, &slot));
    session_fail(d.session, d.now_ns, topic, slot, error_of("app.bad")); /* cannot fail */
    TRY(session_retract(d.session, topic, 0, error_of("app.sorry"), &number));
    TRY(session_result(d.session, number, NULL));
    settle();
    cr_assert_eq(broker.uploaded, sizeof large);
}

static void read_some(uint32_t sub)
{
    struct session_item item;
    for (uint64_t seq = 0; seq < 3; seq++) {
        TRY(session_sub_take(d.session, sub, &item, NULL));
        cr_assert_eq(item.seq, seq);
        buffer_unref(&item.buffer);
        session_ack(d.session, sub, 4, seq);
    }
    cr_assert_neq(session_sub_take(d.session, sub, &item, NULL), CODE_OK);
    settle();
    cr_assert_eq(broker.acked, 3);
}

static void run_script(void)
{
    uint32_t topic, sub;
    uint64_t want;
    struct session_item item;
    struct session_sub_options durable = {.name = span_text("durable")};
    TRY(session_topic(d.session, span_text("alice/x"), &topic));
    TRY(session_subscribe(d.session, span_text("bob/x"), &durable, &sub));
    TRY(session_await(d.session, span_text("bob/x"), 0, true, &want));
    write_some(topic);
    read_some(sub);
    TRY(session_want_take(d.session, want, &item));
    cr_assert(span_equal(item.value, span_text("awaited")));
    buffer_unref(&item.buffer);
    session_unsubscribe(d.session, sub, false);
    session_leave(d.session);
    for (int round = 0; session_state(d.session) != SESSION_OVER; round++) {
        cr_assert_lt(round, ROUNDS_MAX);
        converse();
    }
    driver_expect_end(&d, CODE_ECLOSED, NULL);
}

/* Runs it all; how many allocations it took. */
static uint64_t run_with(uint64_t allocation, uint64_t buffers)
{
    struct session_options options = driver_options("alice");
    memset(&d, 0, sizeof d);
    memset(&broker, 0, sizeof broker);
    memory_heap_init(&d.memory, UINT64_MAX);
    heap_resize = d.memory.resize;
    d.memory.resize = failing_resize;
    fail_at = allocation;
    buffers_left = buffers;
    buffers_missing = buffers == UINT64_MAX ? UINT64_MAX : 1;
    enum wire_code code = session_new(&d.memory, &options, 0, &d.session);
    if (code == CODE_ENOMEM) {
        cr_assert_eq(d.memory.bytes_used, 0);
        cr_assert_eq(session_new(&d.memory, &options, 0, &d.session), CODE_OK);
    }
    run_script();
    uint64_t calls = d.memory.calls;
    driver_fini(&d);
    return calls;
}

Test(session_memory, comes_to_the_same_end_whatever_allocation_fails)
{
    uint64_t calls = run_with(0, UINT64_MAX);
    cr_assert_gt(calls, 30);
    for (uint64_t allocation = 1; allocation <= calls + 5; allocation++)
        (void)run_with(allocation, UINT64_MAX);
}

Test(session_memory, comes_to_the_same_end_whatever_buffer_fails)
{
    for (uint64_t buffers = 0; buffers < 40; buffers++)
        (void)run_with(0, buffers);
}

/* What was given away lies where it lay until it is sent: no buffer is had for it. */
Test(session_memory, is_not_needed_for_a_value_that_is_given_away)
{
    enum { BYTES = SESSION_OWNED_BYTES + 1, COPIED = SESSION_OWNED_BYTES };
    static uint8_t bytes[BYTES];
    uint64_t seqs[2];
    fail_at = 0;
    driver_up(&d);
    uint32_t x = driver_topic(&d, "alice/x", 1, UINT64_C(1) << 30);
    struct buffer *large = buffer_copy(span_of(bytes, BYTES));
    struct buffer *small = buffer_copy(span_of(bytes, COPIED));
    for (int i = 0; i < 2; i++)
        cr_assert_eq(session_reserve(d.session, d.now_ns, x, -1, -1, 0, &seqs[i]), CODE_OK);
    struct buffer *part;
    while ((part = driver_part(&d)) != NULL) /* the promises: nothing has room any more */
        buffer_unref(&part);
    buffers_left = 0;
    buffers_missing = UINT64_MAX;
    struct buffer *given = buffer_ref(large);
    cr_expect_eq(session_commit_owned(d.session, d.now_ns, x, seqs[0], &given), CODE_OK);
    cr_expect_null(given);
    cr_expect_eq(atomic_load(&large->refs), 2, "it is the session's too");
    cr_expect_eq(session_commit(d.session, d.now_ns, x, seqs[1], span_of(bytes, BYTES)),
                 CODE_ENOMEM);
    cr_expect_eq(session_commit_owned(d.session, d.now_ns, x, seqs[1], &small), CODE_ENOMEM);
    buffers_left = UINT64_MAX;
    buffer_unref(&small);
    driver_fini(&d);
    cr_expect_eq(atomic_load(&large->refs), 1);
    buffer_unref(&large);
}
