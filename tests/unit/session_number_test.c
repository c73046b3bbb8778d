/* SPDX-License-Identifier: MPL-2.0 */
/* session_number_test.c -- topics that the session numbers itself: what it says, in which order,
 * and what it says again. */
#include "libbus/base/pattern.h"
#include "libbus/session/session.h"
#include "tests/unit/session_driver.h"

#include <stdio.h>

#define FIRST UINT32_C(0x40000010)
static struct driver d;

static void begin(void)
{
    driver_init(&d);
    d.own_numbers = FIRST;
    driver_greet(&d, false);
}

static void end(void)
{
    driver_fini(&d);
}

TestSuite(session_number, .init = begin, .fini = end);

static uint32_t topic_of_name(const char *name)
{
    uint32_t topic = 0;
    cr_assert_eq(session_topic(d.session, span_text(name), &topic), CODE_OK);
    return topic;
}

static enum wire_code publish(uint32_t topic, size_t bytes)
{
    static const char value[LIMIT_CHUNK_BYTES];
    struct span span = span_of(value, bytes);
    return session_publish(d.session, d.now_ns, topic, &span, 1, NULL);
}

static void expect_open(const char *name, uint32_t number)
{
    struct msg_topic_open open = driver_expect(&d, MSG_TOPIC_OPEN).as.topic_open;
    cr_expect(span_equal(open.topic, span_text(name)));
    cr_expect_eq(open.own_number, number);
}

static void answer(uint32_t topic, uint64_t code)
{
    driver_say(&d, &(struct msg){.type = MSG_TOPIC_OPENED,
                                 .as.topic_opened = {.request = topic,
                                                     .code = code,
                                                     .topic = code == 0 ? FIRST : 0,
                                                     .limit_bytes = 1 << 30}});
}

/* The next part is a batch with this number, and has these frames: kinds by their numbers. */
static void expect_frames(uint64_t number, const char *kinds)
{
    struct buffer *part = driver_part(&d);
    struct batch_reader reader;
    struct frame frame;
    char seen[32] = "";
    size_t count = 0;
    cr_assert_not_null(part);
    cr_assert_eq(batch_reader_init(&reader, buffer_span(part)), WIRE_OK);
    cr_expect_eq(reader.number, number);
    while (batch_reader_next(&reader, &frame) == WIRE_OK && count + 1 < sizeof seen) {
        unsigned kind = frame.flags & FRAME_KIND_MASK;
        seen[count++] = (char)('0' + kind);
        if (kind == FRAME_TOPIC)
            cr_expect(span_equal(topic_party(frame.value), span_text("alice")));
    }
    cr_expect_str_eq(seen, kinds);
    buffer_unref(&part);
}

Test(session_number, writes_at_once_behind_the_name)
{
    uint32_t x = topic_of_name("alice/x");
    uint64_t seq = UINT64_MAX;
    cr_expect_eq(publish(x, 5), CODE_OK);
    cr_expect_eq(publish(x, 7), CODE_OK);
    cr_expect_eq(session_reserve(d.session, d.now_ns, x, -1, -1, 0, &seq), CODE_OK);
    cr_expect_eq(seq, 2);
    expect_open("alice/x", FIRST);
    expect_frames(1, "5002");
    cr_expect_eq(publish(x, 5), CODE_OK);
    expect_frames(5, "0");
}

Test(session_number, names_both_topics_of_a_request)
{
    uint32_t replies = topic_of_name("alice/_replies");
    uint32_t q = topic_of_name("alice/q");
    uint64_t seq = UINT64_MAX;
    cr_expect_eq(session_request(d.session, d.now_ns, q, replies, span_text("?"), NULL, -1, &seq),
                 CODE_OK);
    cr_expect_eq(seq, 0);
    expect_frames(1, "5520");
}

Test(session_number, names_nothing_that_is_not_written)
{
    uint32_t x = topic_of_name("alice/x");
    cr_expect_eq(session_publish(d.session, d.now_ns, x, NULL, 0, NULL), CODE_OK);
    cr_expect_null(session_data_out(d.session, d.now_ns));
    expect_open("alice/x", FIRST);
    answer(x, CODE_OK);
    cr_expect_eq(publish(x, 5), CODE_OK);
    expect_frames(1, "0"); /* the broker knows the name */
}

Test(session_number, gives_each_topic_another_number_and_asks_when_there_is_none)
{
    char name[32];
    uint32_t topic = 0;
    for (uint32_t i = 0; i < LIMIT_OWN_NUMBERS; i++) {
        (void)snprintf(name, sizeof name, "alice/%u", i);
        topic = topic_of_name(name);
        expect_open(name, FIRST + i);
        cr_expect_eq(publish(topic, 5), CODE_OK);
    }
    topic = topic_of_name("alice/more");
    expect_open("alice/more", 0);
    cr_expect_eq(publish(topic, 5), CODE_ETIMEDOUT);
}

Test(session_number, tells_of_the_number_before_an_error_names_it)
{
    uint32_t x = topic_of_name("alice/x");
    uint64_t seq = 0;
    cr_assert_eq(session_reserve(d.session, d.now_ns, x, -1, -1, 0, &seq), CODE_OK);
    session_fail(d.session, d.now_ns, x, seq, error_of("app.hot"));
    expect_open("alice/x", FIRST);
    struct msg_fail fail = driver_expect(&d, MSG_FAIL).as.fail;
    cr_expect_eq(fail.topic, FIRST);
    cr_expect_eq(fail.after, 2);
    driver_break_link(&d);
    driver_greet(&d, true);
    expect_open("alice/x", FIRST);
    (void)driver_expect(&d, MSG_FAIL);
}

Test(session_number, says_all_again_that_was_not_accepted)
{
    uint32_t x = topic_of_name("alice/x");
    cr_expect_eq(publish(x, 5), CODE_OK);
    expect_open("alice/x", FIRST);
    expect_frames(1, "50");
    driver_break_link(&d);
    driver_greet(&d, true);
    expect_open("alice/x", FIRST);
    expect_frames(1, "50");
    driver_accept(&d, 2, 0);
    answer(x, CODE_OK);
    driver_break_link(&d);
    driver_greet(&d, true);
    cr_expect_eq(driver_hear(&d).type, MSG_NONE);
    cr_expect_eq(publish(x, 5), CODE_OK);
    expect_frames(3, "0");
}

Test(session_number, stops_at_the_credit_that_comes_with_the_number)
{
    uint32_t x = topic_of_name("alice/x");
    cr_expect_eq(publish(x, 5), CODE_OK);
    cr_expect_eq(publish(x, LIMIT_OWN_CREDIT_BYTES), CODE_OK, "below the limit, before it");
    cr_expect_eq(publish(x, 5), CODE_ETIMEDOUT);
    expect_open("alice/x", FIRST);
    answer(x, CODE_OK);
    cr_expect_eq(publish(x, 5), CODE_OK);
}

Test(session_number, counts_what_is_used_by_itself)
{
    uint32_t x = topic_of_name("alice/x");
    cr_expect_eq(publish(x, LIMIT_OWN_CREDIT_BYTES / 2), CODE_OK);
    expect_open("alice/x", FIRST);
    answer(x, CODE_OK); /* said before the value came: nothing is used, and slot 0 is free */
    uint64_t seq = 0;
    cr_assert_eq(session_reserve(d.session, d.now_ns, x, -1, -1, 0, &seq), CODE_OK);
    cr_expect_eq(seq, 1);
}

Test(session_number, writes_nothing_more_where_the_topic_is_refused)
{
    uint32_t x = topic_of_name("alice/x");
    cr_expect_eq(publish(x, 5), CODE_OK);
    expect_open("alice/x", FIRST);
    answer(x, CODE_EFULL);
    cr_expect_eq(publish(x, 5), CODE_EFULL);
    driver_say(
        &d, &(struct msg){
                .type = MSG_REFUSAL,
                .as.refusal = {.topic = FIRST, .number = 1, .error = error_of("errbus.not_open")}});
    struct span name;
    uint64_t seq = 1;
    struct buffer *error = NULL;
    cr_assert(session_refusal(d.session, &name, &seq, &error));
    cr_expect(span_equal(name, span_text("alice/x")));
    cr_expect_eq(seq, 0);
    buffer_unref(&error);
}

Test(session_number, numbers_no_topic_of_others)
{
    uint32_t topic;
    cr_expect_eq(session_topic(d.session, span_text("bob/x"), &topic), CODE_EDENIED);
    (void)topic_of_name("alice/x");
    expect_open("alice/x", FIRST);
}
