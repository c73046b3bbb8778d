/* SPDX-License-Identifier: MPL-2.0 */
/* Promising, keeping and failing: numbers, credit, room, chunks, refusals, marks. */
#include "libbus/session/outbox.h"
#include "libbus/session/pace.h"
#include "libbus/session/session.h"
#include "libbus/session/session_out.h"

#include "tests/unit/session_driver.h"

enum { WIDE = 1 << 30 };
#define UNDER_WAY (LIMIT_UPLOAD_BYTES / DEFAULT_CHUNK_BYTES) /* chunks */
static struct driver d;

static enum wire_code publish(uint32_t topic, const char *text)
{
    struct span value = span_text(text);
    return session_publish(d.session, d.now_ns, topic, &value, 1, NULL);
}

static enum wire_code publish_bytes(uint32_t topic, size_t bytes)
{
    void *data = calloc(1, bytes + 1);
    struct span value = span_of(data, bytes);
    enum wire_code code = session_publish(d.session, d.now_ns, topic, &value, 1, NULL);
    free(data);
    return code;
}

static uint64_t reserve(uint32_t topic, uint64_t value_bytes_max)
{
    uint64_t seq = UINT64_MAX;
    cr_assert_eq(session_reserve(d.session, d.now_ns, topic, -1, -1, value_bytes_max, &seq),
                 CODE_OK);
    return seq;
}

static void credit(uint32_t number, uint64_t limit_bytes)
{
    driver_say(&d, &(struct msg){.type = MSG_CREDIT,
                                 .as.credit = {.topic = number, .limit_bytes = limit_bytes}});
}

static void chunked(uint32_t number, uint64_t seq, uint64_t bytes)
{
    driver_say(&d, &(struct msg){.type = MSG_CHUNKED,
                                 .as.chunked = {.topic = number, .seq = seq, .bytes = bytes}});
}

static void refuse(uint32_t topic, uint64_t seq, uint64_t number)
{
    driver_say(&d, &(struct msg){.type = MSG_REFUSAL,
                                 .as.refusal = {.topic = topic,
                                                .seq = seq,
                                                .number = number,
                                                .error = error_of("errbus.too_late")}});
}

/* Each value of a frame as a frame of its own. */
static uint32_t expand(struct frame frame, struct frame *out, uint32_t room)
{
    uint32_t count = frame_count(&frame);
    cr_assert_leq(count, room);
    frame.more = 0;
    for (uint32_t i = 0; i < count; i++, frame.seq++) {
        out[i] = frame;
        frame.value.data = (const char *)frame.value.data + frame_padded(frame.value.bytes);
    }
    return count;
}

/* The next part is a batch with this number; its frames, one for each value, are read into out. */
static uint32_t expect_batch(uint64_t number, struct frame *out, uint32_t room)
{
    static struct buffer *part;
    buffer_unref(&part);
    part = driver_part(&d);
    cr_assert_not_null(part);
    struct batch_reader reader;
    cr_assert_eq(batch_reader_init(&reader, buffer_span(part)), WIRE_OK);
    cr_assert_eq(reader.number, number, "number %llu", (unsigned long long)reader.number);
    uint32_t count = 0;
    enum wire_err err;
    struct frame frame;
    while ((err = batch_reader_next(&reader, &frame)) == WIRE_OK)
        count += expand(frame, out + count, room - count);
    cr_assert_eq(err, WIRE_EMPTY);
    return count;
}

static void expect_no_part(void)
{
    cr_assert_null(session_data_out(d.session, d.now_ns));
}

/* The next part is one chunk at this offset. */
static void expect_chunk(uint64_t seq, uint64_t offset)
{
    struct frame frame;
    struct frame_chunk chunk;
    cr_assert_eq(expect_batch(0, &frame, 1), 1);
    cr_assert_eq(frame.flags & FRAME_KIND_MASK, FRAME_CHUNK);
    cr_assert_eq(frame.seq, seq);
    cr_assert_eq(frame_chunk_decode(frame.value, &chunk), WIRE_OK);
    cr_assert_eq(chunk.offset, offset, "offset %llu", (unsigned long long)chunk.offset);
    bool is_last = chunk.offset + chunk.bytes.bytes == chunk.total_bytes;
    cr_assert_eq((frame.flags & FRAME_LAST_CHUNK) != 0, is_last);
}

static void resume(void)
{
    driver_break_link(&d);
    driver_greet(&d, true);
}

/* Connected, and alice/x is open as this number. */
static uint32_t up_with_topic(uint32_t number)
{
    driver_up(&d);
    return driver_topic(&d, "alice/x", number, WIDE);
}

/* Ten values of 200 bytes.  Nine of them need 2232 bytes of credit, and the last one any. */
static enum wire_code publish_set(uint32_t topic)
{
    static const char bytes[200];
    struct span values[10];
    for (int i = 0; i < 10; i++)
        values[i] = span_of(bytes, sizeof bytes);
    return session_publish(d.session, d.now_ns, topic, values, 10, NULL);
}

/* The broker says again how much credit there is. */
static void expect_need(uint32_t number, uint64_t limit_bytes, uint64_t needed_bytes)
{
    struct msg_topic_open open = driver_expect(&d, MSG_TOPIC_OPEN).as.topic_open;
    cr_expect_eq(open.needed_bytes, needed_bytes, "%llu", (unsigned long long)open.needed_bytes);
    driver_say(&d, &(struct msg){.type = MSG_TOPIC_OPENED,
                                 .as.topic_opened = {.request = open.request,
                                                     .topic = number,
                                                     .limit_bytes = limit_bytes}});
    cr_assert_eq(driver_hear(&d).type, MSG_NONE);
}

Test(session_write, asks_for_the_credit_that_a_set_needs)
{
    driver_up(&d);
    uint32_t topic = driver_topic(&d, "alice/x", 5, 1000);
    cr_assert_eq(publish_set(topic), CODE_ETIMEDOUT);
    expect_need(5, 1000, 2233);
    cr_assert_eq(publish_set(topic), CODE_ETIMEDOUT);
    cr_assert_eq(driver_hear(&d).type, MSG_NONE, "it was said");
    resume();
    expect_need(5, 1000, 2233);
    credit(5, 2232);
    cr_assert_eq(publish_set(topic), CODE_ETIMEDOUT);
    credit(5, 2233);
    cr_assert_eq(publish_set(topic), CODE_OK);
    cr_assert_eq(publish(topic, "x"), CODE_ETIMEDOUT);
    resume();
    cr_assert_eq(driver_hear(&d).type, MSG_NONE, "nothing waits but single values");
    driver_fini(&d);
}

Test(session_write, sees_no_progress_of_a_set_in_that_of_another_topic)
{
    driver_up(&d);
    uint32_t topic = driver_topic(&d, "alice/x", 5, 1000);
    uint32_t other = driver_topic(&d, "alice/y", 6, WIDE);
    cr_assert_eq(publish_set(topic), CODE_ETIMEDOUT);
    uint64_t progress = session_write_progress(d.session, topic);
    struct frame frame;
    cr_assert_eq(publish(other, "y"), CODE_OK);
    (void)expect_batch(1, &frame, 1);
    driver_accept(&d, 1, 0);
    cr_expect_eq(session_write_progress(d.session, topic), progress);
    credit(5, 1500);
    cr_expect_neq(session_write_progress(d.session, topic), progress);
    driver_fini(&d);
}

/* ---- topics ---------------------------------------------------------------------------------- */

Test(session_write, opens_topics_of_its_own_alone)
{
    driver_up(&d);
    uint32_t topic, again;
    cr_assert_eq(session_topic(d.session, span_text("bob/x"), &topic), CODE_EDENIED);
    cr_assert_eq(session_topic(d.session, span_text("alice"), &topic), CODE_EINVAL);
    cr_assert_eq(session_topic(d.session, span_text("alice/+"), &topic), CODE_EINVAL);
    cr_assert_eq(session_topic(d.session, span_text(""), &topic), CODE_EINVAL);
    cr_assert_eq(session_topic(d.session, span_text("alice/x"), &topic), CODE_OK);
    cr_assert_eq(session_topic(d.session, span_text("alice/x"), &again), CODE_OK);
    cr_assert_eq(topic, again);
    cr_assert_eq(publish(topic, "early"), CODE_ETIMEDOUT);
    cr_assert_eq(publish(topic + 1, "nowhere"), CODE_EINVAL);
    struct msg open = driver_expect(&d, MSG_TOPIC_OPEN);
    cr_assert(span_equal(open.as.topic_open.topic, span_text("alice/x")));
    cr_assert_eq(driver_hear(&d).type, MSG_NONE);
    driver_fini(&d);
}

Test(session_write, asks_for_a_topic_again_on_a_new_connection)
{
    driver_up(&d);
    uint32_t topic;
    cr_assert_eq(session_topic(d.session, span_text("alice/x"), &topic), CODE_OK);
    (void)driver_expect(&d, MSG_TOPIC_OPEN);
    resume();
    credit(9, 1000); /* of the topic whose answer was lost */
    driver_answer_open(&d,
                       (struct msg_topic_opened){.topic = 9, .next_seq = 40, .limit_bytes = 1000});
    cr_assert_eq(reserve(topic, 0), 40);
    resume();
    cr_assert_eq(driver_hear(&d).type, MSG_NONE); /* known now */
    driver_fini(&d);
}

Test(session_write, gives_the_code_of_a_refused_topic)
{
    driver_up(&d);
    uint32_t topic;
    cr_assert_eq(session_topic(d.session, span_text("alice/x"), &topic), CODE_OK);
    driver_answer_open(&d, (struct msg_topic_opened){.code = CODE_EFULL});
    uint64_t seq;
    cr_assert_eq(publish(topic, "x"), CODE_EFULL);
    cr_assert_eq(session_reserve(d.session, d.now_ns, topic, -1, -1, 0, &seq), CODE_EFULL);
    driver_fini(&d);
}

Test(session_write, refuses_two_topics_of_one_number)
{
    driver_up(&d);
    (void)driver_topic(&d, "alice/x", 1, WIDE);
    uint32_t topic;
    cr_assert_eq(session_topic(d.session, span_text("alice/y"), &topic), CODE_OK);
    driver_answer_open(&d, (struct msg_topic_opened){.topic = 1});
    driver_expect_end(&d, CODE_EPROTO, ERROR_TYPE_PROTOCOL);
    driver_fini(&d);
}

/* ---- frames ---------------------------------------------------------------------------------- */

Test(session_write, sends_what_is_there_in_one_batch)
{
    uint32_t x = up_with_topic(1);
    uint32_t y = driver_topic(&d, "alice/y", 2, WIDE);
    expect_no_part();
    uint64_t first;
    struct span values[] = {span_text("one"), SPAN_NONE, span_text("three")};
    cr_assert_eq(session_publish(d.session, d.now_ns, x, values, 3, &first), CODE_OK);
    cr_assert_eq(first, 0);
    cr_assert_eq(publish(y, "other"), CODE_OK);
    cr_assert_eq(reserve(x, 100), 3);
    cr_assert_eq(session_commit(d.session, d.now_ns, x, 3, span_text("kept")), CODE_OK);
    struct frame frames[8];
    cr_assert_eq(expect_batch(1, frames, 8), 6);
    static const struct {
        unsigned kind;
        uint32_t topic;
        uint64_t seq;
        const char *value;
    } rows[] = {{FRAME_VALUE, 1, 0, "one"},   {FRAME_VALUE, 1, 1, ""},
                {FRAME_VALUE, 1, 2, "three"}, {FRAME_VALUE, 2, 0, "other"},
                {FRAME_RESERVE, 1, 3, NULL},  {FRAME_COMMIT, 1, 3, "kept"}};
    for (size_t i = 0; i < 6; i++) {
        cr_assert_eq(frames[i].flags, rows[i].kind);
        cr_assert_eq(frames[i].topic, rows[i].topic);
        cr_assert_eq(frames[i].seq, rows[i].seq);
        cr_assert_eq(frames[i].attempt, 1);
        cr_assert_eq(frames[i].delivery, 1);
        cr_assert_eq(frames[i].reply_to, FRAME_NO_REPLY);
        cr_assert_eq(frames[i].stamp_ns, d.now_ns + DRIVER_BROKER_AHEAD);
        if (rows[i].value != NULL)
            cr_assert(span_equal(frames[i].value, span_text(rows[i].value)));
    }
    struct frame_reserve promise;
    cr_assert_eq(frame_reserve_decode(frames[4].value, &promise), WIRE_OK);
    cr_assert_eq(promise.value_bytes_max, 100);
    cr_assert_eq(promise.deadline_ms, -1);
    expect_no_part();
    cr_assert_eq(publish(x, "later"), CODE_OK);
    cr_assert_eq(expect_batch(7, frames, 8), 1);
    driver_fini(&d);
}

Test(session_write, sends_again_what_was_not_accepted)
{
    uint32_t x = up_with_topic(1);
    struct frame frames[8];
    for (uint64_t i = 0; i < 3; i++) {
        cr_assert_eq(publish(x, "a"), CODE_OK);
        cr_assert_eq(publish(x, "b"), CODE_OK);
        cr_assert_eq(expect_batch(1 + 2 * i, frames, 8), 2);
        driver_accept(&d, 2, 0);
    }
    cr_assert_eq(publish(x, "unsent"), CODE_OK);
    d.data_number = 5; /* half of the batch 5..6 */
    resume();
    cr_assert_eq(expect_batch(5, frames, 8), 2);
    cr_assert_eq(frames[0].seq, 4);
    cr_assert_eq(expect_batch(7, frames, 8), 1);
    expect_no_part();
    driver_accept(&d, 7, 0);
    cr_assert_eq(session_state(d.session), SESSION_UP);
    driver_accept(&d, 8, 0);
    driver_expect_end(&d, CODE_EPROTO, ERROR_TYPE_PROTOCOL);
    driver_fini(&d);
}

Test(session_write, lets_a_batch_grow_while_answers_are_awaited)
{
    uint32_t x = up_with_topic(1);
    struct frame frames[8];
    for (uint64_t i = 0; i < OUTBOX_UNACCEPTED_MAX; i++) {
        cr_assert(publish(x, "at once") == CODE_OK && session_data_is_due(d.session));
        cr_assert_eq(expect_batch(1 + i, frames, 8), 1);
    }
    for (int i = 0; i < 5; i++)
        cr_assert_eq(publish(x, "together"), CODE_OK);
    cr_assert_not(session_data_is_due(d.session));
    expect_no_part();
    driver_accept(&d, 1, 0);
    cr_assert(session_data_is_due(d.session));
    cr_assert_eq(expect_batch(1 + OUTBOX_UNACCEPTED_MAX, frames, 8), 5);
    driver_fini(&d);
}

/* An answer waits for the disk there, and so for what others write. */
Test(session_write, sends_few_bytes_without_waiting_for_a_disk)
{
    struct frame frames[8];
    static char large[OUTBOX_SMALL_BYTES];
    driver_init(&d);
    d.durability = 2;
    driver_greet(&d, false);
    uint32_t x = driver_topic(&d, "alice/x", 1, WIDE);
    for (uint64_t i = 0; i < OUTBOX_UNACCEPTED_SMALL; i++) {
        cr_assert(publish(x, "at once") == CODE_OK && session_data_is_due(d.session));
        cr_assert_eq(expect_batch(1 + i, frames, 8), 1);
    }
    cr_assert_eq(publish(x, "one too many"), CODE_OK);
    cr_expect_not(session_data_is_due(d.session));
    driver_say(&d, &(struct msg){.type = MSG_ACCEPTED,
                                 .as.accepted = {.data_number = OUTBOX_UNACCEPTED_SMALL - 2,
                                                 .durability = 2}});
    cr_assert_eq(expect_batch(1 + OUTBOX_UNACCEPTED_SMALL, frames, 8), 1);
    struct span value = span_of(large, sizeof large);
    cr_assert_eq(session_publish(d.session, d.now_ns, x, &value, 1, NULL), CODE_OK);
    cr_expect_not(session_data_is_due(d.session), "these are not few");
    driver_fini(&d);
}

static enum wire_code publish_at(uint32_t topic, int64_t now_ns)
{
    static char half[OUTBOX_SMALL_BYTES / 2];
    struct span value = span_of(half, sizeof half);
    return session_publish(d.session, now_ns, topic, &value, 1, NULL);
}

/* A sync takes long there, and takes all that has come by then. */
Test(session_write, lets_a_batch_follow_soon_where_a_shared_disk_is_waited_for)
{
    struct frame frames[8];
    for (unsigned durability = 2; durability <= 3; durability++) {
        driver_init(&d);
        d.durability = (uint8_t)durability;
        driver_greet(&d, false);
        uint32_t x = driver_topic(&d, "alice/x", 1, WIDE);
        int64_t at_ns = d.now_ns;
        for (uint64_t i = 0; i < (durability == 3 ? 1 : OUTBOX_UNACCEPTED_MAX); i++) {
            cr_assert_eq(publish_at(x, at_ns), CODE_OK);
            cr_assert_eq(expect_batch(1 + i, frames, 8), 1);
        }
        cr_assert_eq(publish_at(x, at_ns + OUTBOX_PAUSE_NS - 1), CODE_OK);
        cr_expect_not(session_data_is_due(d.session));
        cr_expect_eq(session_data_may_be_due(d.session), durability == 3, "%u", durability);
        cr_expect_not(session_data_is_due_at(d.session, at_ns + OUTBOX_PAUSE_NS - 1));
        cr_assert_eq(publish_at(x, at_ns + OUTBOX_PAUSE_NS), CODE_OK);
        cr_expect_eq(session_data_is_due(d.session), durability == 3, "%u", durability);
        driver_fini(&d);
    }
}

/* Each batch costs threads there, so the second one waits, however few bytes it has: for an answer
 * to the first, or for that time. */
Test(session_write, has_one_batch_under_way_where_a_shared_disk_is_waited_for)
{
    struct frame frames[8];
    const struct span few = span_text("few");
    driver_init(&d);
    d.durability = 3;
    driver_greet(&d, false);
    uint32_t x = driver_topic(&d, "alice/x", 1, WIDE);
    int64_t at_ns = d.now_ns;
    cr_assert_eq(session_publish(d.session, at_ns, x, &few, 1, NULL), CODE_OK);
    cr_assert_eq(expect_batch(1, frames, 8), 1);
    cr_assert_eq(session_publish(d.session, at_ns, x, &few, 1, NULL), CODE_OK);
    cr_expect_not(session_data_is_due(d.session));
    cr_expect_not(session_data_is_due_at(d.session, at_ns + OUTBOX_PAUSE_NS - 1));
    cr_expect(session_data_is_due_at(d.session, at_ns + OUTBOX_PAUSE_NS));
    driver_say(&d, &(struct msg){.type = MSG_ACCEPTED,
                                 .as.accepted = {.data_number = 1, .durability = 3}});
    cr_expect(session_data_is_due(d.session), "the first one is answered");
    cr_assert_eq(expect_batch(2, frames, 8), 1);
    driver_fini(&d);
}

/* There an answer takes a trip longer than the disk does. */
Test(session_write, has_many_batches_under_way_over_a_long_link_to_a_shared_disk)
{
    struct frame frames[8];
    driver_init(&d);
    d.durability = 3;
    driver_greet_far(&d, 200);
    uint32_t x = driver_topic(&d, "alice/x", 1, WIDE);
    for (uint64_t i = 0; i < OUTBOX_UNACCEPTED_FAR; i++) {
        cr_assert_eq(publish(x, "at once"), CODE_OK);
        cr_assert_eq(expect_batch(1 + i, frames, 8), 1, "%llu", (unsigned long long)i);
    }
    cr_assert_eq(publish(x, "one too many"), CODE_OK);
    cr_expect_not(session_data_is_due(d.session));
    driver_fini(&d);
}

Test(session_write, sends_a_full_batch_without_waiting_for_answers)
{
    uint32_t x = up_with_topic(1);
    static struct frame frames[64];
    uint64_t next = 1;
    for (int i = 0; i < 4; i++) {
        for (int k = 0; k < 40; k++) /* more than a batch holds */
            cr_assert_eq(publish_bytes(x, 4096), CODE_OK);
        next += expect_batch(next, frames, 64);
    }
    cr_assert_gt(next, 4 * 20);
    driver_fini(&d);
}

/* Values of 1 KiB in a full batch of alice/x, behind two CREDITs that say this of another, too. */
static uint32_t full_batch(uint64_t first_said, uint64_t then_said)
{
    enum { VALUE_BYTES = 1024, VALUES = 2 * LIMIT_BATCH_BYTES / VALUE_BYTES };
    static struct frame frames[VALUES];
    uint32_t x = up_with_topic(1);
    (void)driver_topic(&d, "alice/y", 2, WIDE);
    const struct msg_credit credits[] = {{.topic = 1, .batch_bytes = first_said},
                                         {.topic = 1, .batch_bytes = then_said},
                                         {.topic = 2, .batch_bytes = 3 * DEFAULT_BATCH_BYTES}};
    for (size_t i = 0; i < sizeof credits / sizeof *credits; i++)
        driver_say(&d, &(struct msg){.type = MSG_CREDIT, .as.credit = credits[i]});
    for (int i = 0; i < VALUES; i++)
        cr_assert_eq(publish_bytes(x, VALUE_BYTES), CODE_OK);
    uint32_t count = expect_batch(1, frames, VALUES);
    driver_fini(&d);
    return count;
}

/* ... or its header. */
static uint32_t values_in(uint64_t batch_bytes)
{
    return (uint32_t)(batch_bytes / 1024 - 1);
}

Test(session_write, lets_a_batch_grow_to_what_a_credit_says)
{
    const uint64_t small = DEFAULT_BATCH_BYTES;
    cr_expect_eq(full_batch(0, 0), values_in(small));
    cr_expect_eq(full_batch(0, 2 * small), values_in(2 * small));
    cr_expect_eq(full_batch(2 * small, 0), values_in(2 * small), "as it was");
    cr_expect_eq(full_batch(2 * small, small), values_in(small));
    cr_expect_eq(full_batch(0, 1), 1, "each alone");
    cr_expect_eq(full_batch(0, LIMIT_BATCH_BYTES), values_in(LIMIT_BATCH_BYTES));
    cr_expect_eq(full_batch(0, LIMIT_BATCH_BYTES + 1024), values_in(LIMIT_BATCH_BYTES), "no more");
}

Test(session_write, chooses_numbers_upwards)
{
    uint32_t x = up_with_topic(1);
    uint64_t seq;
    cr_assert_eq(session_reserve(d.session, d.now_ns, x, 7, 100, 0, &seq), CODE_OK);
    cr_assert_eq(seq, 7);
    cr_assert_eq(session_reserve(d.session, d.now_ns, x, 7, -1, 0, &seq), CODE_ESETTLED);
    cr_assert_eq(session_reserve(d.session, d.now_ns, x, 0, -1, 0, &seq), CODE_ESETTLED);
    cr_assert_eq(session_reserve(d.session, d.now_ns, x, -2, -1, 0, &seq), CODE_EINVAL);
    cr_assert_eq(session_reserve(d.session, d.now_ns, x, 8, -2, 0, &seq), CODE_EINVAL);
    cr_assert_eq(session_reserve(d.session, d.now_ns, x, INT64_MAX, -1, 0, &seq), CODE_EFULL);
    cr_assert_eq(reserve(x, 0), 8);
    driver_fini(&d);
}

/* ---- credit and room ------------------------------------------------------------------------- */

Test(session_write, stops_when_credit_is_used_up)
{
    driver_up(&d);
    enum { FRAME = FRAME_HEADER_BYTES + 8 };
    uint32_t x = driver_topic(&d, "alice/x", 1, 2 * FRAME);
    cr_assert_eq(publish(x, "12345678"), CODE_OK);
    cr_assert_eq(publish(x, "12345678"), CODE_OK); /* used == limit now */
    cr_assert_eq(publish(x, "1"), CODE_ETIMEDOUT);
    credit(1, 2 * FRAME + 1);
    cr_assert(session_news(d.session).is_credit);
    cr_assert_eq(publish_bytes(x, 100000), CODE_OK); /* one frame is let in alone */
    cr_assert_eq(publish(x, ""), CODE_ETIMEDOUT);
    credit(1, 1); /* only grows */
    credit(1, 2 * FRAME + frame_total(100000));
    cr_assert_eq(publish(x, ""), CODE_ETIMEDOUT);
    credit(1, 2 * FRAME + frame_total(100000) + 1);
    uint64_t seq;
    cr_assert_eq(session_reserve(d.session, d.now_ns, x, -1, -1, 1000, &seq), CODE_OK);
    uint64_t used = 2 * FRAME + frame_total(100000) + COST_SLOT_BYTES + 1000;
    credit(1, used);
    cr_assert_eq(session_reserve(d.session, d.now_ns, x, -1, -1, 0, &seq), CODE_ETIMEDOUT);
    /* Settling waits for nothing. */
    cr_assert_eq(session_commit(d.session, d.now_ns, x, 3, span_text("kept")), CODE_OK);
    driver_fini(&d);
}

Test(session_write, publishes_many_or_none)
{
    driver_up(&d);
    enum { FRAME = FRAME_HEADER_BYTES + 8 };
    struct span values[3] = {span_text("1"), span_text("2"), span_text("3")};
    uint32_t x = driver_topic(&d, "alice/x", 1, 2 * FRAME);
    cr_assert_eq(session_publish(d.session, d.now_ns, x, values, 3, NULL), CODE_ETIMEDOUT);
    credit(1, 2 * FRAME + 1);
    cr_assert_eq(session_publish(d.session, d.now_ns, x, values, 3, NULL), CODE_OK);
    cr_assert_eq(session_publish(d.session, d.now_ns, x, values, 0, NULL), CODE_OK);
    struct frame frames[4];
    cr_assert_eq(expect_batch(1, frames, 4), 3);
    /* Each of them has used credit, also the one that was let in beyond it. */
    credit(1, 3 * FRAME);
    cr_assert_eq(session_publish(d.session, d.now_ns, x, values, 2, NULL), CODE_ETIMEDOUT);
    credit(1, 4 * FRAME + 1);
    cr_assert_eq(session_publish(d.session, d.now_ns, x, values, 2, NULL), CODE_OK);
    driver_fini(&d);
}

Test(session_write, asks_how_much_credit_refusals_used)
{
    driver_up(&d);
    uint32_t x = driver_topic(&d, "alice/x", 1, 100);
    cr_assert_eq(publish_bytes(x, 100), CODE_OK);
    struct frame frame;
    cr_assert_eq(expect_batch(1, &frame, 1), 1);
    refuse(1, 0, 1);
    cr_assert_eq(publish(x, "a"), CODE_ETIMEDOUT);
    cr_assert_eq(driver_hear(&d).type, MSG_NONE); /* the refused one is under way still */
    driver_accept(&d, 1, 0);
    cr_assert_eq(publish(x, "a"), CODE_ETIMEDOUT);
    driver_answer_open(&d,
                       (struct msg_topic_opened){.topic = 1, .next_seq = 0, .limit_bytes = 100});
    cr_assert_eq(publish(x, "a"), CODE_OK);
    cr_assert_eq(expect_batch(2, &frame, 1), 1);
    cr_assert_eq(frame.seq, 1); /* numbers go on */
    cr_assert_eq(driver_hear(&d).type, MSG_NONE);
    driver_fini(&d);
}

static void init_small_outbox(size_t bytes)
{
    struct session_options options = driver_options("alice");
    options.outbox_bytes_max = bytes;
    driver_init_with(&d, &options);
    driver_greet(&d, false);
}

Test(session_write, bounds_the_outbox)
{
    enum { FRAME = FRAME_HEADER_BYTES + 8 };
    init_small_outbox(3 * FRAME);
    uint32_t x = driver_topic(&d, "alice/x", 1, WIDE);
    struct span values[4] = {SPAN_NONE, SPAN_NONE, SPAN_NONE, span_text("12345678")};
    cr_assert_eq(session_publish(d.session, d.now_ns, x, values, 4, NULL), CODE_EFULL);
    static const char *const unlike[] = {"123456", "1234567", "12345678"}; /* a frame each */
    for (int i = 0; i < 3; i++) {
        cr_assert(session_has_room(d.session));
        cr_assert_eq(publish(x, unlike[i]), CODE_OK);
    }
    cr_assert_not(session_has_room(d.session));
    cr_assert_eq(publish(x, ""), CODE_ETIMEDOUT);
    struct frame frames[4];
    cr_assert_eq(expect_batch(1, frames, 4), 3);
    (void)session_news(d.session);
    driver_accept(&d, 3, 0);
    cr_assert(session_news(d.session).is_accepted);
    cr_assert(session_has_room(d.session));
    cr_assert_eq(publish_bytes(x, 4000), CODE_OK); /* a larger one alone */
    cr_assert_eq(publish(x, ""), CODE_ETIMEDOUT);
    driver_fini(&d);
}

Test(session_write, keeps_room_for_what_was_reserved)
{
    init_small_outbox(4096);
    uint32_t x = driver_topic(&d, "alice/x", 1, WIDE);
    uint64_t seq = reserve(x, 2048);
    while (publish(x, "12345678") == CODE_OK)
        ;
    cr_assert_eq(publish(x, "12345678"), CODE_ETIMEDOUT);
    static char bytes[2049];
    cr_assert_eq(session_commit(d.session, d.now_ns, x, seq, span_of(bytes, 2049)), CODE_ETOOBIG);
    cr_assert_eq(session_commit(d.session, d.now_ns, x, seq, span_of(bytes, 2048)), CODE_OK);
    cr_assert_eq(session_commit(d.session, d.now_ns, x, seq, span_of(bytes, 1)), CODE_ESETTLED);
    driver_fini(&d);
}

Test(session_write, refuses_values_beyond_what_the_job_takes)
{
    driver_init(&d);
    (void)session_action(d.session);
    (void)driver_expect(&d, MSG_HELLO);
    struct msg welcome = driver_welcome(&d, false);
    welcome.as.welcome.value_bytes_max = 1000;
    driver_say(&d, &welcome);
    driver_expect_attach(&d);
    (void)driver_expect(&d, MSG_READY);
    driver_attached(&d);
    uint32_t x = driver_topic(&d, "alice/x", 1, WIDE);
    cr_assert_eq(publish_bytes(x, 999), CODE_OK);
    cr_assert_eq(publish_bytes(x, 1000), CODE_OK);
    cr_assert_eq(publish_bytes(x, 1001), CODE_ETOOBIG);
    uint64_t seq;
    cr_assert_eq(session_reserve(d.session, d.now_ns, x, -1, -1, 1001, &seq), CODE_ETOOBIG);
    cr_assert_eq(session_reserve(d.session, d.now_ns, x, -1, -1, 0, &seq), CODE_OK);
    static char bytes[1001];
    cr_assert_eq(session_commit(d.session, d.now_ns, x, seq, span_of(bytes, 1001)), CODE_ETOOBIG);
    driver_fini(&d);
}

/* ---- chunks ---------------------------------------------------------------------------------- */

Test(session_write, sends_large_values_in_chunks_behind_their_promise)
{
    uint32_t x = up_with_topic(1);
    const uint64_t chunk = DEFAULT_CHUNK_BYTES;
    struct frame frame;
    cr_assert_eq(publish_bytes(x, chunk), CODE_OK); /* the largest that is one frame */
    cr_assert_eq(expect_batch(1, &frame, 1), 1);
    cr_assert_eq(frame.flags, FRAME_VALUE);
    cr_assert_eq(publish_bytes(x, 2 * chunk + 1), CODE_OK);
    cr_assert_eq(expect_batch(2, &frame, 1), 1);
    cr_assert_eq(frame.flags, FRAME_RESERVE);
    expect_chunk(1, 0);
    expect_chunk(1, chunk);
    expect_chunk(1, 2 * chunk);
    expect_no_part();
    struct session_mark mark = session_mark(d.session);
    driver_accept(&d, 2, 0);
    cr_assert_not(session_mark_reached(d.session, mark));
    chunked(1, 1, 2 * chunk);
    cr_assert_not(session_mark_reached(d.session, mark));
    chunked(1, 1, 2 * chunk + 1);
    cr_assert(session_mark_reached(d.session, mark));
    chunked(1, 1, 2 * chunk + 1); /* once more: of something that is gone */
    cr_assert_eq(session_state(d.session), SESSION_UP);
    driver_fini(&d);
}

Test(session_write, knows_what_its_newest_acknowledgement_is_worth)
{
    driver_init(&d);
    d.durability = 1;
    driver_greet(&d, false);
    uint32_t x = driver_topic(&d, "alice/x", 1, WIDE);
    struct frame frame;
    cr_assert_eq(session_durability(d.session), 1);
    cr_assert_eq(publish(x, "a"), CODE_OK);
    cr_assert_eq(expect_batch(1, &frame, 1), 1);
    driver_say(&d, &(struct msg){.type = MSG_ACCEPTED,
                                 .as.accepted = {.data_number = 1, .durability = 2}});
    cr_assert_eq(session_durability(d.session), 2);
    cr_assert_eq(publish_bytes(x, DEFAULT_CHUNK_BYTES + 1), CODE_OK);
    cr_assert_eq(expect_batch(2, &frame, 1), 1);
    struct msg piece = {.type = MSG_CHUNKED,
                        .as.chunked = {.topic = 1, .seq = 1, .bytes = DEFAULT_CHUNK_BYTES}};
    expect_chunk(1, 0);
    expect_chunk(1, DEFAULT_CHUNK_BYTES);
    driver_say(&d, &piece);
    cr_assert_eq(session_durability(d.session), 2, "of a piece nothing is said yet");
    piece.as.chunked.bytes += 1;
    driver_say(&d, &piece);
    cr_assert_eq(session_durability(d.session), 0);
    driver_fini(&d);
}

Test(session_write, lets_batches_and_uploads_take_turns)
{
    uint32_t x = up_with_topic(1);
    const uint64_t chunk = DEFAULT_CHUNK_BYTES;
    uint64_t a = reserve(x, 0);
    uint64_t b = reserve(x, 0);
    char *bytes = calloc(4, chunk);
    cr_assert_eq(session_commit(d.session, d.now_ns, x, a, span_of(bytes, 2 * chunk)), CODE_OK);
    struct buffer *owned = buffer_copy(span_of(bytes, 2 * chunk));
    cr_assert_eq(session_commit_owned(d.session, d.now_ns, x, b, &owned), CODE_OK);
    cr_assert_null(owned);
    free(bytes);
    struct frame frames[4];
    cr_assert_eq(expect_batch(1, frames, 4), 2); /* nothing before the promises */
    cr_assert_eq(publish(x, "small"), CODE_OK);
    expect_chunk(a, 0);
    cr_assert_eq(expect_batch(3, frames, 4), 1);
    expect_chunk(a, chunk);
    driver_accept(&d, 3, 0);
    cr_assert_eq(publish(x, "small"), CODE_OK);
    cr_assert_eq(expect_batch(4, frames, 4), 1);
    expect_chunk(b, 0);
    expect_chunk(b, chunk);
    expect_no_part();
    driver_fini(&d);
}

Test(session_write, keeps_a_bounded_number_of_chunks_under_way)
{
    uint32_t x = up_with_topic(1);
    const uint64_t chunk = DEFAULT_CHUNK_BYTES;
    cr_assert_eq(publish_bytes(x, 20 * chunk), CODE_OK);
    struct frame frame;
    cr_assert_eq(expect_batch(1, &frame, 1), 1);
    for (uint64_t i = 0; i < UNDER_WAY; i++)
        expect_chunk(0, i * chunk);
    expect_no_part();
    chunked(1, 0, chunk);
    expect_chunk(0, UNDER_WAY * chunk);
    expect_no_part();
    chunked(1, 0, 20 * chunk + 1);
    driver_expect_end(&d, CODE_EPROTO, ERROR_TYPE_PROTOCOL);
    driver_fini(&d);
}

/* It may be slow: what is under way stands before all that follows. */
Test(session_write, keeps_one_chunk_under_way_until_its_link_is_judged)
{
    driver_init(&d);
    driver_greet_late(&d, 20);
    uint32_t x = driver_topic(&d, "alice/x", 1, WIDE);
    struct frame frame;
    cr_assert_eq(publish_bytes(x, 20 * DEFAULT_CHUNK_BYTES), CODE_OK);
    cr_assert_eq(expect_batch(1, &frame, 1), 1);
    expect_chunk(0, 0);
    expect_no_part();
    driver_echo_late(&d, 0); /* it is short */
    (void)driver_expect(&d, MSG_BEAT);
    for (uint64_t i = 1; i < UNDER_WAY; i++)
        expect_chunk(0, i * DEFAULT_CHUNK_BYTES);
    expect_no_part();
    driver_fini(&d);
}

/* Over a link with a round trip of 200 ms that takes all that is sent. */
Test(session_write, sends_more_of_a_value_ahead_over_a_long_link)
{
    enum { CHUNKS = 200, ROUNDS = 8, START = 4 };
    driver_up_far(&d, 200);
    uint32_t x = driver_topic(&d, "alice/x", 1, WIDE);
    struct frame frame;
    cr_assert_eq(publish_bytes(x, CHUNKS * DEFAULT_CHUNK_BYTES), CODE_OK);
    cr_assert_eq(expect_batch(1, &frame, 1), 1);
    uint64_t sent = 0;
    uint64_t most = 0;
    for (int round = 0; round < ROUNDS; round++) {
        uint64_t chunks = 0;
        for (; session_data_out(d.session, d.now_ns) != NULL; chunks++)
            session_data_sent(d.session);
        cr_assert(round > 0 || chunks == START, "%lu: 5 MB/s for 200 ms", chunks);
        most = chunks > most ? chunks : most;
        sent += chunks;
        d.now_ns += 200 * DRIVER_MS;
        chunked(1, 0, sent * DEFAULT_CHUNK_BYTES);
    }
    cr_assert_geq(most, 4 * UNDER_WAY);
    driver_fini(&d);
}

/* Publishes a second value, of so many bytes, while the first one goes out, one window in each
 * round trip. */
static enum wire_code publish_behind(uint32_t topic, uint64_t bytes, uint64_t second_bytes)
{
    uint64_t sent = 0;
    struct frame frame;
    cr_assert_eq(publish_bytes(topic, bytes), CODE_OK);
    cr_assert_eq(expect_batch(1, &frame, 1), 1);
    while (sent < bytes) {
        for (; session_data_out(d.session, d.now_ns) != NULL; sent += DEFAULT_CHUNK_BYTES)
            session_data_sent(d.session);
        if (publish_bytes(topic, second_bytes) == CODE_OK)
            return CODE_OK;
        d.now_ns += 200 * DRIVER_MS;
        if (sent < bytes)
            chunked(1, 0, sent);
    }
    return CODE_ETIMEDOUT;
}

/* The outbox has room for the first one. */
static void expect_behind(uint64_t second_bytes)
{
    struct session_options options = driver_options("alice");
    options.outbox_bytes_max = 8 * DEFAULT_CHUNK_BYTES;
    for (int is_far = 0; is_far < 2; is_far++) {
        driver_init_with(&d, &options);
        if (is_far)
            driver_greet_far(&d, 200);
        else
            driver_greet(&d, false);
        uint32_t x = driver_topic(&d, "alice/x", 1, WIDE);
        cr_expect_eq(publish_behind(x, options.outbox_bytes_max, second_bytes),
                     is_far ? CODE_OK : CODE_ETIMEDOUT, "%d", is_far);
        driver_fini(&d);
    }
}

Test(session_write, begins_a_large_value_while_the_one_before_is_on_its_way)
{
    expect_behind(8 * DEFAULT_CHUNK_BYTES);
}

Test(session_write, takes_small_values_while_the_large_one_before_is_on_its_way)
{
    expect_behind(100);
}

/* They are not sent: it has the limit beyond what is on its way. */
Test(session_write, takes_no_more_small_values_behind_a_large_one_than_the_outbox_keeps)
{
    enum { BYTES = 100000 };
    struct session_options options = driver_options("alice");
    options.outbox_bytes_max = 2 * DEFAULT_CHUNK_BYTES;
    driver_init_with(&d, &options);
    driver_greet_far(&d, 200);
    uint32_t x = driver_topic(&d, "alice/x", 1, WIDE);
    struct frame frame;
    cr_assert_eq(publish_bytes(x, options.outbox_bytes_max), CODE_OK);
    cr_assert_eq(expect_batch(1, &frame, 1), 1);
    for (uint64_t sent = 0; sent < 2;
         d.now_ns += 200 * DRIVER_MS) { /* the last one is on its way */
        if (sent > 0)
            chunked(1, 0, sent * DEFAULT_CHUNK_BYTES);
        for (; session_data_out(d.session, d.now_ns) != NULL; sent++)
            session_data_sent(d.session);
    }
    uint64_t count = 0;
    while (publish_bytes(x, BYTES) == CODE_OK)
        count++;
    cr_expect_eq(count, options.outbox_bytes_max / BYTES, "%lu", count);
    driver_fini(&d);
}

Test(session_write, shares_a_long_link_among_uploads)
{
    driver_up_far(&d, 10);
    uint32_t x = driver_topic(&d, "alice/x", 1, WIDE);
    uint32_t y = driver_topic(&d, "alice/y", 2, WIDE);
    struct frame frames[2];
    cr_assert_eq(publish_bytes(x, 4 * DEFAULT_CHUNK_BYTES), CODE_OK);
    cr_assert_eq(publish_bytes(y, 4 * DEFAULT_CHUNK_BYTES), CODE_OK);
    cr_assert_eq(publish_bytes(x, 4 * DEFAULT_CHUNK_BYTES), CODE_ETIMEDOUT,
                 "while more than a window of the one before is not sent");
    cr_assert_eq(expect_batch(1, frames, 2), 2);
    unsigned chunks = 0;
    for (; session_data_out(d.session, d.now_ns) != NULL; chunks++)
        session_data_sent(d.session);
    cr_assert_eq(chunks, 1, "128 KiB are on the way");
    driver_fini(&d);
}

/* Whether the next value of so many bytes, the n-th frame said, is one frame. */
static bool is_one_frame(uint32_t topic, uint64_t n, size_t bytes)
{
    struct frame frame;
    cr_assert_eq(publish_bytes(topic, bytes), CODE_OK);
    cr_assert_eq(expect_batch(n, &frame, 1), 1);
    return frame.flags == FRAME_VALUE;
}

/* Its first value goes in two chunks, which the broker has at once. */
static void send_quickly(uint32_t topic)
{
    cr_assert_not(is_one_frame(topic, 1, DEFAULT_CHUNK_BYTES + 1));
    expect_chunk(0, 0);
    expect_chunk(0, DEFAULT_CHUNK_BYTES);
    driver_accept(&d, 1, 0);
    chunked(1, 0, DEFAULT_CHUNK_BYTES + 1);
}

Test(session_write, sends_larger_frames_over_a_link_that_is_quick)
{
    uint32_t x = up_with_topic(1);
    send_quickly(x);
    cr_assert(is_one_frame(x, 2, LIMIT_CHUNK_BYTES - 1));
    driver_accept(&d, 2, 0);
    cr_assert(is_one_frame(x, 3, LIMIT_CHUNK_BYTES));
    driver_accept(&d, 3, 0);
    cr_assert_not(is_one_frame(x, 4, LIMIT_CHUNK_BYTES + 1));
    driver_accept(&d, 4, 0);
    expect_chunk(3, 0);
    expect_chunk(3, LIMIT_CHUNK_BYTES);
    d.now_ns += PACE_SOON_NS; /* the link, or the broker, is slow now */
    chunked(1, 3, LIMIT_CHUNK_BYTES + 1);
    cr_assert_not(is_one_frame(x, 5, DEFAULT_CHUNK_BYTES + 1));
    driver_fini(&d);
}

Test(session_write, resumes_an_upload_where_the_broker_has_it)
{
    uint32_t x = up_with_topic(1);
    const uint64_t chunk = DEFAULT_CHUNK_BYTES;
    cr_assert_eq(publish_bytes(x, 3 * chunk), CODE_OK);
    cr_assert_eq(publish_bytes(x, 2 * chunk), CODE_OK);
    struct frame frames[2];
    cr_assert_eq(expect_batch(1, frames, 2), 2);
    expect_chunk(0, 0);
    expect_chunk(0, chunk);
    d.data_number = 2;
    driver_break_link(&d);
    driver_greet(&d, true);
    chunked(1, 0, chunk); /* the other one did not arrive */
    expect_chunk(0, chunk);
    expect_chunk(0, 2 * chunk);
    expect_chunk(1, 0);
    expect_chunk(1, chunk);
    expect_no_part();
    driver_fini(&d);
}

Test(session_write, sends_no_chunk_before_its_promise_on_a_new_connection)
{
    uint32_t x = up_with_topic(1);
    cr_assert_eq(publish_bytes(x, DEFAULT_CHUNK_BYTES + 1), CODE_OK);
    struct frame frame;
    cr_assert_eq(expect_batch(1, &frame, 1), 1);
    resume(); /* the promise did not arrive */
    cr_assert_eq(expect_batch(1, &frame, 1), 1);
    expect_chunk(0, 0);
    driver_fini(&d);
}

Test(session_write, drops_the_upload_of_a_retracted_slot)
{
    uint32_t x = up_with_topic(1);
    cr_assert_eq(publish_bytes(x, 3 * DEFAULT_CHUNK_BYTES), CODE_OK);
    struct frame frame;
    cr_assert_eq(expect_batch(1, &frame, 1), 1);
    expect_chunk(0, 0);
    uint64_t number;
    cr_assert_eq(session_retract(d.session, x, 0, error_of("app.sorry"), &number), CODE_OK);
    expect_no_part();
    struct msg retract = driver_expect(&d, MSG_RETRACT);
    cr_assert_eq(retract.as.retract.after, 1);
    chunked(1, 0, DEFAULT_CHUNK_BYTES);
    cr_assert_eq(session_state(d.session), SESSION_UP);
    driver_fini(&d);
}

/* ---- failing --------------------------------------------------------------------------------- */

Test(session_write, fails_slots_with_the_number_of_what_they_follow)
{
    uint32_t x = up_with_topic(8);
    cr_assert_eq(publish(x, "before"), CODE_OK);
    uint64_t seq = reserve(x, 0);
    session_fail(d.session, d.now_ns, x, seq, error_of("app.bad"));
    session_fail(d.session, d.now_ns, x, seq, error_of("app.bad")); /* gone: a no-op */
    struct msg fail = driver_expect(&d, MSG_FAIL);
    cr_assert_eq(fail.as.fail.number, 1);
    cr_assert_eq(fail.as.fail.after, 2);
    cr_assert_eq(fail.as.fail.topic, 8);
    cr_assert_eq(fail.as.fail.seq, seq);
    cr_assert(span_equal(fail.as.fail.error, error_of("app.bad")));
    cr_assert_eq(driver_hear(&d).type, MSG_NONE);
    cr_assert_eq(session_commit(d.session, d.now_ns, x, seq, SPAN_NONE), CODE_ESETTLED);
    driver_fini(&d);
}

Test(session_write, says_numbered_messages_again_in_order)
{
    uint32_t x = up_with_topic(8);
    for (int i = 0; i < 4; i++) {
        uint64_t seq = reserve(x, 0);
        session_fail(d.session, d.now_ns, x, seq, error_of("app.bad"));
        cr_assert_eq(driver_expect(&d, MSG_FAIL).as.fail.number, seq + 1);
    }
    driver_accept(&d, 0, 1);
    driver_accept(&d, 0, 2);
    resume();
    cr_assert_eq(driver_expect(&d, MSG_FAIL).as.fail.number, 3);
    resume();
    cr_assert_eq(driver_expect(&d, MSG_FAIL).as.fail.number, 3);
    cr_assert_eq(driver_expect(&d, MSG_FAIL).as.fail.number, 4);
    cr_assert_eq(driver_hear(&d).type, MSG_NONE);
    driver_fini(&d);
}

Test(session_write, retracts_and_completes_with_an_answer)
{
    uint32_t x = up_with_topic(8);
    uint64_t seq = reserve(x, 0);
    uint64_t number;
    cr_assert_eq(session_complete(d.session, &number), CODE_EINVAL); /* it owes a slot */
    cr_assert_eq(session_retract(d.session, x, seq, error_of("app.sorry"), &number), CODE_OK);
    cr_assert_eq(session_result(d.session, number, NULL), CODE_ETIMEDOUT);
    cr_assert_eq(session_commit(d.session, d.now_ns, x, seq, SPAN_NONE), CODE_ESETTLED);
    (void)driver_expect(&d, MSG_RETRACT);
    (void)session_news(d.session);
    driver_say(&d, &(struct msg){.type = MSG_RESULT,
                                 .as.result = {.number = number,
                                               .code = CODE_ESETTLED,
                                               .error = error_of("errbus.sealed")}});
    cr_assert(session_news(d.session).is_result);
    struct buffer *error = NULL;
    cr_assert_eq(session_result(d.session, number, &error), CODE_ESETTLED);
    cr_assert(span_equal(buffer_span(error), error_of("errbus.sealed")));
    buffer_unref(&error);
    cr_assert_eq(session_result(d.session, number, NULL), CODE_EINVAL);
    cr_assert_eq(session_complete(d.session, &number), CODE_OK);
    cr_assert_eq(driver_expect(&d, MSG_COMPLETE).as.complete.number, number);
    driver_say(&d, &(struct msg){.type = MSG_RESULT,
                                 .as.result = {.number = number,
                                               .code = CODE_EINVAL,
                                               .error = error_of("errbus.argument")}});
    cr_assert_eq(publish(x, "goes on"), CODE_OK, "the broker refused that it is done");
    cr_assert_eq(session_complete(d.session, &number), CODE_OK);
    cr_assert_eq(driver_expect(&d, MSG_COMPLETE).as.complete.number, number);
    cr_assert_eq(publish(x, "late"), CODE_EENDED);
    cr_assert_eq(session_reserve(d.session, d.now_ns, x, -1, -1, 0, &seq), CODE_EENDED);
    driver_say(&d, &(struct msg){.type = MSG_RESULT, .as.result.number = number});
    driver_say(&d, &(struct msg){.type = MSG_RESULT, .as.result.number = number}); /* twice */
    cr_assert_eq(session_result(d.session, number, &error), CODE_OK);
    cr_assert_null(error);
    driver_fini(&d);
}

/* A party that failed is answered by the end of its session, not by numbers. */
Test(session_write, knows_that_its_failure_was_heard)
{
    driver_up(&d);
    cr_assert(session_is_answered(d.session));
    cr_assert_not(session_is_leaving(d.session));
    session_fail_party(d.session, error_of("app.failed"));
    struct session_mark mark = session_mark(d.session);
    cr_assert(session_is_leaving(d.session));
    cr_assert_not(session_is_answered(d.session));
    cr_assert_not(session_mark_reached(d.session, mark));
    (void)driver_expect(&d, MSG_FAIL_PARTY);
    driver_say(&d, &(struct msg){.type = MSG_OVER, .as.over.code = CODE_ECLOSED});
    cr_assert(session_is_answered(d.session));
    cr_assert(session_mark_reached(d.session, mark));
    driver_fini(&d);
}

Test(session_write, completes_and_leaves_behind_its_uploads)
{
    uint32_t x = up_with_topic(8);
    cr_assert_eq(publish_bytes(x, DEFAULT_CHUNK_BYTES + 1), CODE_OK);
    uint64_t number;
    cr_assert_eq(session_complete(d.session, &number), CODE_OK);
    session_leave(d.session);
    cr_assert_eq(driver_hear(&d).type, MSG_NONE);
    struct frame frame;
    cr_assert_eq(expect_batch(1, &frame, 1), 1);
    expect_chunk(0, 0);
    expect_chunk(0, DEFAULT_CHUNK_BYTES);
    cr_assert_eq(driver_hear(&d).type, MSG_NONE);
    chunked(8, 0, DEFAULT_CHUNK_BYTES + 1);
    (void)driver_expect(&d, MSG_COMPLETE);
    (void)driver_expect(&d, MSG_LEAVE);
    cr_assert_eq(publish(x, "late"), CODE_ECLOSED);
    driver_fini(&d);
}

Test(session_write, fails_as_a_party_without_waiting_for_uploads)
{
    uint32_t x = up_with_topic(8);
    cr_assert_eq(publish_bytes(x, DEFAULT_CHUNK_BYTES + 1), CODE_OK);
    session_fail_party(d.session, error_of("app.broken"));
    (void)driver_expect(&d, MSG_FAIL_PARTY);
    cr_assert_eq(publish(x, "late"), CODE_ECLOSED);
    driver_fini(&d);
}

/* ---- refusals -------------------------------------------------------------------------------- */

Test(session_write, hands_refusals_out_once_and_fails_late_commits)
{
    uint32_t x = up_with_topic(8);
    uint64_t seq = reserve(x, 0);
    uint64_t other = reserve(x, 0);
    struct frame frames[2];
    cr_assert_eq(expect_batch(1, frames, 2), 2);
    refuse(8, seq, 1);
    cr_assert(session_news(d.session).is_refusal);
    driver_break_link(&d);
    cr_assert_eq(session_action(d.session), SESSION_CONNECT_CONTROL);
    cr_assert_eq(driver_expect(&d, MSG_HELLO).as.hello.refusal_number, 1);
    driver_say_welcome(&d, true);
    driver_expect_attach(&d);
    (void)driver_expect(&d, MSG_READY);
    driver_attached(&d);
    refuse(8, seq, 1); /* told twice */
    refuse(8, 17, 2);  /* no slot that is open here */
    cr_assert_eq(session_refusals_ever(d.session), 2);
    struct span topic;
    uint64_t at;
    struct buffer *error;
    cr_assert(session_refusal(d.session, &topic, &at, &error));
    cr_assert(span_equal(topic, span_text("alice/x")));
    cr_assert_eq(at, seq);
    cr_assert(span_equal(buffer_span(error), error_of("errbus.too_late")));
    buffer_unref(&error);
    cr_assert(session_refusal(d.session, &topic, &at, &error));
    cr_assert_eq(at, 17);
    buffer_unref(&error);
    cr_assert_not(session_refusal(d.session, &topic, &at, &error));
    cr_assert_eq(session_commit(d.session, d.now_ns, x, seq, SPAN_NONE), CODE_ESETTLED);
    cr_assert_eq(session_commit(d.session, d.now_ns, x, other, SPAN_NONE), CODE_OK);
    uint64_t number;
    cr_assert_eq(session_complete(d.session, &number), CODE_OK); /* both are done with */
    driver_fini(&d);
}

Test(session_write, reaches_marks_when_all_is_accepted)
{
    uint32_t x = up_with_topic(8);
    struct session_mark mark = session_mark(d.session);
    cr_assert(session_mark_reached(d.session, mark));
    cr_assert_eq(publish(x, "a"), CODE_OK);
    uint64_t seq = reserve(x, 0);
    session_fail(d.session, d.now_ns, x, seq, error_of("app.bad"));
    mark = session_mark(d.session);
    struct frame frames[2];
    cr_assert_eq(expect_batch(1, frames, 2), 2);
    (void)driver_expect(&d, MSG_FAIL);
    cr_assert_eq(publish(x, "b"), CODE_OK); /* behind the mark */
    driver_accept(&d, 2, 0);
    cr_assert_not(session_mark_reached(d.session, mark));
    driver_accept(&d, 2, 1);
    cr_assert(session_mark_reached(d.session, mark));
    driver_fini(&d);
}

/* ---- a dead data channel --------------------------------------------------------------------- */

/* Beats are answered until the session gives its connection up; how long that took, in ms. */
static int64_t live_on_control_alone(void)
{
    int64_t begun_ns = d.now_ns;
    while (session_state(d.session) == SESSION_UP) {
        d.now_ns = session_deadline_ns(d.session);
        session_tick(d.session, d.now_ns);
        struct msg said;
        while ((said = driver_hear(&d)).type != MSG_NONE)
            if (said.type == MSG_BEAT)
                driver_say(&d, &(struct msg){.type = MSG_ECHO, .as.echo.sent_ns = d.now_ns});
        cr_assert_lt(d.now_ns - begun_ns, 100000 * DRIVER_MS);
        if (session_action(d.session) == SESSION_CONNECT_CONTROL)
            break;
    }
    return (d.now_ns - begun_ns) / DRIVER_MS;
}

static void greet_again(void)
{
    (void)driver_expect(&d, MSG_HELLO);
    driver_say_welcome(&d, true);
    driver_expect_attach(&d);
    (void)driver_expect(&d, MSG_READY);
    driver_attached(&d);
}

Test(session_write, connects_anew_when_nothing_that_was_sent_is_accepted)
{
    uint32_t x = up_with_topic(1);
    struct frame frames[4];
    static const int64_t patience_ms[] = {2100, 4200, 8400};
    cr_assert_eq(publish(x, "lost"), CODE_OK);
    for (int i = 0; i < 3; i++) {
        cr_assert_eq(expect_batch(1, frames, 4), 1);
        int64_t lived_ms = live_on_control_alone();
        cr_assert_eq(lived_ms, patience_ms[i], "%lld ms", (long long)lived_ms);
        greet_again(); /* as slow as the link may be, some time a part goes through */
    }
    cr_assert_eq(expect_batch(1, frames, 4), 1);
    driver_accept(&d, 1, 0);
    cr_assert_eq(publish_bytes(x, DEFAULT_CHUNK_BYTES + 1), CODE_OK);
    cr_assert_eq(expect_batch(2, frames, 4), 1);
    driver_accept(&d, 2, 0);
    expect_chunk(1, 0);
    cr_assert_eq(live_on_control_alone(), 16800);
    driver_fini(&d);
}

Test(session_write, sends_small_frames_again_when_nothing_is_accepted)
{
    uint32_t x = up_with_topic(1);
    send_quickly(x);
    cr_assert(is_one_frame(x, 2, LIMIT_CHUNK_BYTES));
    (void)live_on_control_alone();
    greet_again();
    struct frame again;
    cr_assert_eq(expect_batch(2, &again, 1), 1);
    cr_assert_eq(again.value.bytes, LIMIT_CHUNK_BYTES, "what was said once stays as it is");
    driver_accept(&d, 2, 0);
    cr_assert_not(is_one_frame(x, 3, LIMIT_CHUNK_BYTES));
    driver_fini(&d);
}

Test(session_write, keeps_a_connection_on_which_something_moves)
{
    uint32_t x = up_with_topic(1);
    struct frame frames[4];
    for (uint64_t i = 1; i <= 30; i++) {
        cr_assert_eq(publish(x, "slow"), CODE_OK);
        cr_assert_eq(expect_batch(i, frames, 4), 1);
        d.now_ns += 1000 * DRIVER_MS;
        session_tick(d.session, d.now_ns);
        (void)driver_expect(&d, MSG_BEAT);
        driver_say(&d, &(struct msg){.type = MSG_ECHO, .as.echo.sent_ns = d.now_ns});
        driver_accept(&d, i - 1, 0); /* one is always under way */
    }
    cr_assert_eq(session_state(d.session), SESSION_UP);
    driver_fini(&d);
}

Test(session_write, asks_again_when_an_answer_may_be_lost)
{
    uint32_t x = up_with_topic(8);
    uint64_t first, second, third;
    cr_assert_eq(session_retract(d.session, x, 0, error_of("app.sorry"), &first), CODE_OK);
    cr_assert_eq(session_retract(d.session, x, 1, error_of("app.sorry"), &second), CODE_OK);
    cr_assert_eq(session_retract(d.session, x, 2, error_of("app.sorry"), &third), CODE_OK);
    for (int i = 0; i < 3; i++)
        (void)driver_expect(&d, MSG_RETRACT);
    driver_say(&d, &(struct msg){.type = MSG_RESULT, .as.result.number = first});
    driver_break_link(&d);
    driver_greet(&d, true);
    driver_accept(&d, 0, 3); /* all, but the answers to two of them were lost */
    struct session_mark mark = session_mark(d.session);
    cr_assert(session_mark_reached(d.session, mark));
    cr_assert_eq(driver_expect(&d, MSG_RETRACT).as.retract.number, second);
    cr_assert_eq(driver_expect(&d, MSG_RETRACT).as.retract.number, third);
    cr_assert_eq(driver_hear(&d).type, MSG_NONE);
    driver_say(&d, &(struct msg){.type = MSG_RESULT, .as.result.number = second});
    driver_say(&d, &(struct msg){.type = MSG_RESULT, .as.result.number = third});
    cr_assert_eq(session_result(d.session, second, NULL), CODE_OK);
    driver_break_link(&d);
    driver_greet(&d, true);
    cr_assert_eq(driver_hear(&d).type, MSG_NONE);
    driver_fini(&d);
}

Test(session_write, reaches_no_mark_before_the_refusals_of_a_resumed_session)
{
    uint32_t x = up_with_topic(8);
    cr_assert_eq(publish(x, "a"), CODE_OK);
    struct session_mark mark = session_mark(d.session);
    struct frame frame;
    cr_assert_eq(expect_batch(1, &frame, 1), 1);
    d.data_number = 1;
    driver_break_link(&d);
    driver_greet_to_attach(&d, true);
    cr_assert_not(session_mark_reached(d.session, mark));
    refuse(8, 0, 1);
    (void)driver_expect(&d, MSG_READY);
    (void)session_news(d.session);
    driver_attached(&d);
    cr_assert(session_news(d.session).is_accepted);
    cr_assert(session_mark_reached(d.session, mark));
    cr_assert_eq(session_refusals_ever(d.session), 1);
    driver_fini(&d);
}

/* A broker that runs over an older journal is told what another one acknowledged. */
Test(session_write, tells_the_next_broker_what_was_acknowledged)
{
    uint32_t x = up_with_topic(8);
    uint64_t seq = reserve(x, 0);
    struct frame frame;
    cr_assert_eq(expect_batch(1, &frame, 1), 1);
    cr_assert_eq(seq, 0);
    driver_accept(&d, 1, 0);
    driver_break_link(&d);
    cr_assert_eq(session_action(d.session), SESSION_CONNECT_CONTROL);
    cr_assert_eq(driver_expect(&d, MSG_HELLO).as.hello.data_number, 1);
    d.data_number = 0;
    driver_say_welcome(&d, true);
    driver_expect_end(&d, CODE_EPROTO, ERROR_TYPE_PROTOCOL);
}
