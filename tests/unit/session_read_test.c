/* SPDX-License-Identifier: MPL-2.0 */
/* Awaiting and subscribing: what comes on the data channel, and where it goes. */
#include "libbus/session/session.h"

#include "libbus/base/flow_window.h"
#include "tests/unit/session_driver.h"

static struct driver d;
static uint8_t room[LIMIT_CHUNK_BYTES + 64];

static uint32_t subscribe(const char *pattern, const char *name)
{
    uint32_t sub = 0;
    struct session_sub_options options = {.name = span_text(name)};
    cr_assert_eq(session_subscribe(d.session, span_text(pattern), &options, &sub), CODE_OK);
    struct msg msg = driver_expect(&d, MSG_SUBSCRIBE);
    driver_say(&d, &(struct msg){.type = MSG_SUBSCRIBED,
                                 .as.subscribed = {.number = msg.as.subscribe.number, .sub = sub}});
    cr_assert_eq(msg.as.subscribe.sub, sub);
    cr_assert(span_equal(msg.as.subscribe.pattern, span_text(pattern)));
    cr_assert(span_equal(msg.as.subscribe.name, span_text(name)));
    return sub;
}

static struct session_item take(uint32_t sub)
{
    struct session_item item;
    enum wire_code code = session_sub_take(d.session, sub, &item, NULL);
    cr_assert_eq(code, CODE_OK, "code %d", (int)code);
    return item;
}

static void expect_value(uint32_t sub, uint64_t seq, const char *text)
{
    struct session_item item = take(sub);
    cr_assert_eq(item.kind, SESSION_ITEM_VALUE);
    cr_assert_eq(item.seq, seq, "seq %llu", (unsigned long long)item.seq);
    cr_assert(span_equal(item.value, span_text(text)));
    cr_assert_eq((uintptr_t)item.value.data % 8, 0);
    buffer_unref(&item.buffer);
}

static void expect_none(uint32_t sub)
{
    struct session_item item;
    cr_assert_eq(session_sub_take(d.session, sub, &item, NULL), CODE_ETIMEDOUT);
    cr_assert_not(session_sub_is_readable(d.session, sub));
}

static struct frame gap_because(uint32_t topic, uint64_t seq, uint64_t count,
                                enum gap_reason reason)
{
    static uint8_t bytes[FRAME_GAP_BYTES_MAX];
    struct frame_gap said = {.count = count, .reason = reason};
    size_t size = frame_gap_encode(bytes, &said);
    return (struct frame){
        .flags = FRAME_GAP, .topic = topic, .seq = seq, .value = span_of(bytes, size)};
}

static struct frame gap(uint32_t topic, uint64_t seq, uint64_t count)
{
    return gap_because(topic, seq, count, GAP_OVERFLOW);
}

static uint64_t await(const char *topic, uint64_t seq, bool is_value_wanted)
{
    uint64_t want;
    cr_assert_eq(session_await(d.session, span_text(topic), seq, is_value_wanted, &want), CODE_OK);
    return want;
}

static void deliver_one(uint32_t sub, struct frame frame)
{
    struct frame frames[] = {driver_topic_frame(frame.topic, "bob/x"), frame};
    driver_deliver(&d, sub, frames, 2);
}

static void expect_answer(uint64_t want, const char *text)
{
    struct session_item item;
    cr_assert_eq(session_want_take(d.session, want, &item), CODE_OK);
    cr_assert_eq(item.kind, SESSION_ITEM_VALUE);
    cr_assert(span_equal(item.value, span_text(text)));
    buffer_unref(&item.buffer);
    cr_assert_eq(session_want_take(d.session, want, &item), CODE_EINVAL);
}

static void expect_no_answer(uint64_t want)
{
    struct session_item item;
    cr_assert_eq(session_want_take(d.session, want, &item), CODE_ETIMEDOUT);
}

/* Connected, and this subscription reads all of bob's. */
static uint32_t up_and_subscribed(void)
{
    driver_up(&d);
    return subscribe("bob/#", "");
}

/* ---- subscribing ----------------------------------------------------------------------------- */

Test(session_read, hands_out_frames_in_order)
{
    uint32_t sub = up_and_subscribed();
    expect_none(sub);
    cr_assert_eq(session_sub_news(d.session), 0);
    struct frame frames[] = {
        driver_topic_frame(4, "bob/x"),
        driver_value(4, 10, "ten"),
        driver_topic_frame(5, "bob/y"),
        driver_value(5, 0, ""),
        {.flags = FRAME_ERROR, .topic = 4, .seq = 11, .value = error_of("app.bad")},
        gap(4, 12, 3),
        {.flags = FRAME_COMMIT, .topic = 4, .seq = 15, .delivery = 2, .value = span_text("last")},
    };
    driver_deliver(&d, sub, frames, 7);
    cr_assert(session_news(d.session).is_sub);
    cr_assert_eq(session_sub_news(d.session), sub);
    cr_assert_eq(session_sub_news(d.session), 0);
    cr_assert(session_sub_is_readable(d.session, sub));
    expect_value(sub, 10, "ten");
    cr_assert(span_equal(session_topic_name(d.session, 4), span_text("bob/x")));
    cr_assert(span_equal(session_topic_name(d.session, 5), span_text("bob/y")));
    cr_assert_eq(session_topic_name(d.session, 6).bytes, 0);
    expect_value(sub, 0, "");
    struct session_item item = take(sub);
    cr_assert_eq(item.kind, SESSION_ITEM_ERROR);
    cr_assert(span_equal(item.value, error_of("app.bad")));
    buffer_unref(&item.buffer);
    item = take(sub);
    cr_assert_eq(item.kind, SESSION_ITEM_DROPPED);
    cr_assert_eq(item.seq, 12);
    cr_assert_eq(item.count, 3);
    cr_assert_null(item.buffer);
    item = take(sub);
    cr_assert_eq(item.seq, 15);
    cr_assert_eq(item.delivery, 2);
    buffer_unref(&item.buffer);
    expect_none(sub);
    driver_fini(&d);
}

Test(session_read, hands_out_values_together_as_far_as_they_came_together)
{
    uint32_t sub = up_and_subscribed();
    struct frame many = driver_value(4, 2, "thirteenfourteenfifteen.");
    many.value.bytes = 8;
    many.more = 2;
    struct frame frames[] = {driver_topic_frame(4, "bob/x"), driver_value(4, 0, "one"),
                             driver_value(4, 1, "two"), many, driver_value(4, 5, "fifteen")};
    driver_deliver(&d, sub, frames, sizeof frames / sizeof *frames);
    static const uint64_t counts[] = {1, 1, 2, 1, 1};
    uint64_t seq = 0;
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        struct session_item item;
        cr_assert_eq(session_sub_take_range(d.session, sub, 2, &item, NULL), CODE_OK);
        cr_assert_eq(item.seq, seq);
        cr_assert_eq(item.count, counts[i]);
        seq += item.count;
        for (uint64_t k = 0; k < item.count; k++) {
            struct buffer *buffer = item.buffer;
            buffer_unref(&buffer);
        }
    }
    expect_none(sub);
    driver_fini(&d);
}

Test(session_read, hands_out_the_end_of_a_party)
{
    uint32_t sub = up_and_subscribed();
    struct frame frames[] = {
        driver_topic_frame(0x80000001, "bob"),
        {.flags = FRAME_END, .topic = 0x80000001, .seq = 2},
        {.flags = FRAME_END, .topic = 0x80000001, .seq = 3, .value = error_of("errbus.silent")},
    };
    driver_deliver(&d, sub, frames, 3);
    driver_deliver(&d, sub, frames, 3); /* told again */
    struct session_item item = take(sub);
    cr_assert_eq(item.kind, SESSION_ITEM_END);
    cr_assert_eq(item.seq, 2);
    cr_assert_eq(item.value.bytes, 0);
    cr_assert(span_equal(session_topic_name(d.session, item.topic), span_text("bob")));
    item = take(sub);
    cr_assert_eq(item.seq, 3);
    cr_assert(span_equal(item.value, error_of("errbus.silent")));
    buffer_unref(&item.buffer);
    expect_none(sub);
    driver_break_link(&d);
    driver_greet(&d, true); /* no POSITION in what is no topic */
    driver_fini(&d);
}

Test(session_read, drops_what_comes_twice)
{
    driver_up(&d);
    uint32_t sub = subscribe("bob/x", "");
    struct frame frames[] = {driver_topic_frame(4, "bob/x"), driver_value(4, 0, "0"),
                             driver_value(4, 1, "1"), gap(4, 2, 2)};
    driver_deliver(&d, sub, frames, 4);
    driver_deliver(&d, sub, frames, 4);
    expect_value(sub, 0, "0");
    expect_value(sub, 1, "1");
    cr_assert_eq(take(sub).count, 2);
    expect_none(sub);
    frames[1] = gap_because(4, 3, 4, GAP_NOT_KEPT); /* partly known */
    driver_deliver(&d, sub, frames, 2);
    struct session_item item = take(sub);
    cr_assert_eq(item.kind, SESSION_ITEM_GAP);
    cr_assert_eq(item.seq, 4);
    cr_assert_eq(item.count, 3);
    driver_fini(&d);
}

/* Under numbers of its own, and again with each connection, until it is acknowledged. */
Test(session_read, tells_once_what_is_missing_of_earlier_attempts)
{
    driver_up(&d);
    uint32_t sub = subscribe("bob/x", "deep");
    uint8_t bytes[FRAME_GAP_BYTES_MAX];
    struct frame_gap past = {.count = 5, .reason = GAP_ATTEMPT};
    size_t size = frame_gap_encode(bytes, &past);
    struct frame frames[] = {
        driver_topic_frame(4, "bob/x"),
        {.flags = FRAME_GAP, .topic = 4, .seq = 7, .value = span_of(bytes, size)},
        driver_value(4, 0, "0")};
    driver_deliver(&d, sub, frames, 2);
    struct session_item item = take(sub);
    cr_assert_eq(item.kind, SESSION_ITEM_PAST);
    cr_assert_eq(item.seq, 7);
    cr_assert_eq(item.count, 5);
    expect_none(sub);
    driver_accept(&d, 0, 1);
    driver_break_link(&d);
    driver_greet_to_attach(&d, true);
    cr_assert_eq(driver_expect(&d, MSG_POSITION).as.position.next_seq, 0);
    (void)driver_expect(&d, MSG_READY);
    driver_attached(&d);
    driver_deliver(&d, sub, frames, 3);
    expect_value(sub, 0, "0");
    expect_none(sub);
    driver_fini(&d);
}

/* The broker that is back has lost what an earlier subscription of the name acknowledged. */
Test(session_read, tells_nothing_of_earlier_attempts_behind_this_one)
{
    driver_up(&d);
    uint32_t sub = subscribe("bob/x", "deep");
    uint8_t bytes[FRAME_GAP_BYTES_MAX];
    struct frame_gap past = {.count = 5, .reason = GAP_ATTEMPT};
    size_t size = frame_gap_encode(bytes, &past);
    struct frame frames[] = {
        driver_topic_frame(4, "bob/x"),
        driver_value(4, 0, "0"),
        {.flags = FRAME_GAP, .topic = 4, .seq = 7, .value = span_of(bytes, size)},
        driver_value(4, 1, "1")};
    driver_deliver(&d, sub, frames, 4);
    expect_value(sub, 0, "0");
    expect_value(sub, 1, "1");
    expect_none(sub);
    driver_fini(&d);
}

Test(session_read, puts_chunks_together)
{
    uint32_t sub = up_and_subscribed();
    deliver_one(sub, driver_chunk(4, 0, 700, 0, 300, room));
    expect_none(sub);
    struct frame others[] = {driver_topic_frame(5, "bob/y"), driver_value(5, 0, "between")};
    driver_deliver(&d, sub, others, 2);
    for (int i = 0; i < 2; i++) /* twice */
        deliver_one(sub, driver_chunk(4, 0, 700, 300, 300, room));
    deliver_one(sub, driver_chunk(4, 0, 700, 600, 100, room));
    deliver_one(sub, driver_value(4, 1, "next"));
    expect_value(sub, 0, "between");
    struct session_item item = take(sub);
    cr_assert_eq(item.seq, 0);
    cr_assert_eq(item.value.bytes, 700);
    for (size_t i = 0; i < 700; i++)
        cr_assert_eq(((const uint8_t *)item.value.data)[i], (uint8_t)i);
    buffer_unref(&item.buffer);
    expect_value(sub, 1, "next");
    expect_none(sub);
    driver_fini(&d);
}

Test(session_read, counts_what_is_taken)
{
    uint32_t sub = up_and_subscribed();
    enum { BIG = 65536 };
    static char bytes[BIG];
    struct frame frames[] = {driver_topic_frame(4, "bob/x"), driver_value(4, 0, "")};
    uint64_t sent = frame_total(5) + frame_total(BIG);
    frames[1].value = span_of(bytes, BIG);
    driver_deliver(&d, sub, frames, 2);
    cr_assert_eq(driver_hear(&d).type, MSG_NONE);
    struct session_item item = take(sub);
    buffer_unref(&item.buffer);
    cr_assert_eq(driver_hear(&d).type, MSG_NONE); /* less than a quarter of the window */
    frames[1].seq = 1;
    driver_deliver(&d, sub, frames, 2);
    sent += frame_total(5) + frame_total(BIG);
    item = take(sub);
    buffer_unref(&item.buffer);
    struct msg taken = driver_expect(&d, MSG_TAKEN);
    cr_assert_eq(taken.as.taken.sub, sub);
    cr_assert_eq(taken.as.taken.bytes, sent);
    frames[1] = driver_value(4, 2, "rest");
    driver_deliver(&d, sub, frames, 2);
    sent += frame_total(5);
    cr_assert_eq(driver_hear(&d).type, MSG_NONE);
    d.now_ns += 1000 * DRIVER_MS;
    (void)driver_expect(&d, MSG_BEAT);
    cr_assert_eq(driver_expect(&d, MSG_TAKEN).as.taken.bytes, sent); /* the name, not the value */
    driver_fini(&d);
}

/* Takes one value of 32 KiB, less than a step of a short link. */
static void take_a_part(uint32_t sub, uint64_t seq)
{
    static char bytes[32768];
    struct frame frames[] = {driver_topic_frame(4, "bob/x"), driver_value(4, seq, "")};
    frames[1].value = span_of(bytes, sizeof bytes);
    driver_deliver(&d, sub, frames, 2);
    struct session_item item = take(sub);
    buffer_unref(&item.buffer);
}

/* The window of the broker, or of a writer far away, may be less than a step.  Nothing more comes
 * then before it is told. */
Test(session_read, tells_what_was_taken_a_little_later_where_nothing_more_comes)
{
    const int64_t pause_ns = 5 * DRIVER_MS;
    uint32_t sub = up_and_subscribed();
    for (uint64_t seq = 0; seq < 3; seq++) {
        take_a_part(sub, seq);
        cr_assert_eq(driver_hear(&d).type, MSG_NONE);
        int64_t due_ns = session_deadline_ns(d.session);
        cr_assert_leq(due_ns, d.now_ns + pause_ns, "the thread is awake then");
        d.now_ns = due_ns - 1;
        session_tick(d.session, d.now_ns);
        cr_assert_eq(driver_hear(&d).type, MSG_NONE);
        d.now_ns = due_ns;
        session_tick(d.session, d.now_ns);
        cr_assert_eq(driver_expect(&d, MSG_TAKEN).as.taken.sub, sub);
        cr_assert_gt(session_deadline_ns(d.session), d.now_ns + pause_ns);
    }
    driver_fini(&d);
}

/* While the link takes nothing, TAKEN cannot go out: the thread would wake for nothing. */
Test(session_read, wakes_for_nothing_while_the_link_takes_nothing)
{
    uint8_t staged[LIMIT_CONTROL_BYTES];
    size_t bytes = 0;
    uint32_t sub = up_and_subscribed();
    d.now_ns += 1000 * DRIVER_MS;
    cr_assert(session_control_out(d.session, d.now_ns, staged, &bytes)); /* and not sent */
    take_a_part(sub, 0);
    cr_assert_gt(session_deadline_ns(d.session), d.now_ns + 5 * DRIVER_MS);
    session_control_sent(d.session);
    cr_assert_leq(session_deadline_ns(d.session), d.now_ns + 5 * DRIVER_MS);
    driver_fini(&d);
}

/* What is told meanwhile is not told again, and who has values before it waits for none. */
Test(session_read, tells_nothing_later_that_it_told_meanwhile)
{
    uint32_t sub = up_and_subscribed();
    take_a_part(sub, 0);
    for (uint64_t seq = 1; seq < 4; seq++)
        take_a_part(sub, seq);
    (void)driver_expect(&d, MSG_TAKEN); /* a step */
    d.now_ns += 5 * DRIVER_MS;
    session_tick(d.session, d.now_ns);
    cr_assert_eq(driver_hear(&d).type, MSG_NONE);
    d.now_ns += 5 * DRIVER_MS;
    session_tick(d.session, d.now_ns);
    cr_assert_eq(driver_hear(&d).type, MSG_NONE);
    driver_fini(&d);
}

Test(session_read, tells_what_was_taken_at_once_while_its_link_may_be_long)
{
    driver_init(&d);
    driver_greet_late(&d, 20);
    uint32_t sub = subscribe("bob/#", "");
    take_a_part(sub, 0);
    cr_assert_eq(driver_expect(&d, MSG_TAKEN).as.taken.sub, sub);
    driver_fini(&d);
}

Test(session_read, goes_on_from_its_position_after_a_reconnect)
{
    uint32_t sub = up_and_subscribed();
    struct frame frames[] = {driver_topic_frame(4, "bob/x"), driver_value(4, 0, "0"),
                             driver_value(4, 1, "1"), driver_value(4, 2, "2")};
    driver_deliver(&d, sub, frames, 4);
    struct frame chunks[] = {driver_topic_frame(5, "bob/y"),
                             driver_chunk(5, 8, 1000, 0, 300, room)};
    driver_deliver(&d, sub, chunks, 2);
    expect_value(sub, 0, "0"); /* 2 is looked up, the rest lies unread */
    driver_accept(&d, 0, 1);
    driver_break_link(&d);
    driver_greet_to_attach(&d, true);
    struct msg position = driver_expect(&d, MSG_POSITION);
    cr_assert_eq(position.as.position.sub, sub);
    cr_assert_eq(position.as.position.topic, 4);
    cr_assert_eq(position.as.position.next_seq, 3);
    cr_assert_eq(position.as.position.chunk_offset, 0);
    position = driver_expect(&d, MSG_POSITION);
    cr_assert_eq(position.as.position.topic, 5);
    cr_assert_eq(position.as.position.next_seq, 8);
    cr_assert_eq(position.as.position.chunk_offset, 300);
    (void)driver_expect(&d, MSG_READY);
    driver_attached(&d);
    frames[1] = driver_value(4, 3, "3");
    driver_deliver(&d, sub, frames, 2);
    chunks[1] = driver_chunk(5, 8, 1000, 300, 700, room);
    driver_deliver(&d, sub, chunks, 2);
    expect_value(sub, 1, "1");
    expect_value(sub, 2, "2");
    expect_value(sub, 3, "3");
    struct session_item item = take(sub);
    cr_assert_eq(item.value.bytes, 1000);
    buffer_unref(&item.buffer);
    /* Only what came on this connection is counted on it. */
    d.now_ns += 1000 * DRIVER_MS;
    (void)driver_expect(&d, MSG_BEAT);
    cr_assert_eq(driver_expect(&d, MSG_TAKEN).as.taken.bytes,
                 2 * frame_total(5) + frame_total(1) + frame_total(FRAME_CHUNK_PREFIX_BYTES + 700));
    driver_fini(&d);
}

Test(session_read, shares_the_inbox_among_subscriptions)
{
    struct session_options options = driver_options("alice");
    options.inbox_bytes_max = 1024 * 1024;
    driver_init_with(&d, &options);
    driver_greet(&d, false);
    struct session_sub_options none = {0};
    static const uint64_t windows[] = {1024 * 1024, 512 * 1024, 1024 * 1024 / 3, 256 * 1024};
    uint32_t sub;
    for (uint32_t i = 0; i < 70; i++) {
        cr_assert_eq(session_subscribe(d.session, span_text("#"), &none, &sub), CODE_OK);
        cr_assert_eq(sub, i + 1);
        uint64_t window = driver_expect(&d, MSG_SUBSCRIBE).as.subscribe.window_bytes;
        cr_assert_eq(window, i < 4 ? windows[i] : i < 64 ? 1024 * 1024 / (i + 1) : 16 * 1024);
    }
    driver_fini(&d);
}

Test(session_read, refuses_what_is_no_subscription)
{
    driver_up(&d);
    uint32_t sub;
    struct session_sub_options options = {0};
    cr_assert_eq(session_subscribe(d.session, span_text(""), &options, &sub), CODE_EINVAL);
    struct session_sub_options shared = {.group = span_text("g"), .is_in_pieces = true};
    cr_assert_eq(session_subscribe(d.session, span_text("a/b"), &shared, &sub), CODE_EINVAL);
    cr_assert_eq(session_subscribe(d.session, span_text("a//b"), &options, &sub), CODE_EINVAL);
    options.from_seq = FROM_OLDEST - 1;
    cr_assert_eq(session_subscribe(d.session, span_text("#"), &options, &sub), CODE_EINVAL);
    options = (struct session_sub_options){.overflow = 2};
    cr_assert_eq(session_subscribe(d.session, span_text("#"), &options, &sub), CODE_EINVAL);
    options = (struct session_sub_options){.keep_ms = LIMIT_PERIOD_MS_MAX + 1};
    cr_assert_eq(session_subscribe(d.session, span_text("#"), &options, &sub), CODE_EINVAL);
    options = (struct session_sub_options){.name = span_text("a\nb")};
    cr_assert_eq(session_subscribe(d.session, span_text("#"), &options, &sub), CODE_EINVAL);
    cr_assert_eq(session_sub_add(d.session, 1, span_text("#")), CODE_ECLOSED);
    cr_assert_eq(driver_hear(&d).type, MSG_NONE);
    driver_fini(&d);
}

Test(session_read, tells_that_a_subscription_was_refused)
{
    uint32_t sub = up_and_subscribed();
    deliver_one(sub, driver_value(4, 0, "here"));
    cr_assert_eq(session_sub_add(d.session, sub, span_text("carol/#")), CODE_OK);
    (void)driver_expect(&d, MSG_SUB_ADD);
    for (int i = 0; i < 2; i++) /* the first one counts */
        driver_say(&d, &(struct msg){.type = MSG_SUBSCRIBED,
                                     .as.subscribed = {.number = i == 0 ? 1 : 2,
                                                       .sub = sub,
                                                       .code = i == 0 ? CODE_EDENIED : CODE_EFULL,
                                                       .error = error_of("errbus.name")}});
    expect_value(sub, 0, "here");
    struct session_item item;
    struct buffer *error;
    cr_assert(session_sub_is_readable(d.session, sub));
    cr_assert_eq(session_sub_take(d.session, sub, &item, &error), CODE_EDENIED);
    cr_assert(span_equal(buffer_span(error), error_of("errbus.name")));
    buffer_unref(&error);
    cr_assert_eq(session_sub_add(d.session, sub, span_text("#")), CODE_EDENIED);
    session_unsubscribe(d.session, sub, false);
    cr_assert_eq(driver_hear(&d).type, MSG_NONE); /* the broker has no such subscription */
    driver_fini(&d);
}

static void refuse_pattern(uint32_t sub)
{
    cr_assert_eq(session_sub_add(d.session, sub, span_text("carol/#")), CODE_OK);
    uint64_t number = driver_expect(&d, MSG_SUB_ADD).as.sub_add.number;
    driver_say(&d, &(struct msg){.type = MSG_SUBSCRIBED,
                                 .as.subscribed = {.number = number,
                                                   .sub = sub,
                                                   .code = CODE_EFULL,
                                                   .error = error_of("errbus.full")}});
}

/* The broker has it all the same, and would hold back writers for nobody. */
Test(session_read, gives_up_a_subscription_that_was_refused_a_pattern)
{
    driver_up(&d);
    uint32_t sub = subscribe("bob/#", "mine");
    struct frame frames[] = {driver_topic_frame(4, "bob/x"), driver_value(4, 0, "here"),
                             driver_value(4, 1, "there")};
    driver_deliver(&d, sub, frames, 3);
    expect_value(sub, 0, "here");
    session_ack(d.session, sub, 4, 0);
    refuse_pattern(sub);
    cr_expect_eq(driver_expect(&d, MSG_ACK).as.ack.next_seq, 1);
    struct msg msg = driver_expect(&d, MSG_UNSUBSCRIBE);
    cr_expect_eq(msg.as.unsubscribe.sub, sub);
    cr_expect_eq(msg.as.unsubscribe.is_drop, 0);
    expect_value(sub, 1, "there");
    struct session_item item;
    cr_expect_eq(session_sub_take(d.session, sub, &item, NULL), CODE_EFULL);
    session_unsubscribe(d.session, sub, false);
    cr_expect_eq(driver_hear(&d).type, MSG_NONE);
    driver_fini(&d);
}

Test(session_read, drops_frames_of_a_closed_subscription)
{
    uint32_t sub = up_and_subscribed();
    session_unsubscribe(d.session, sub, true);
    struct msg msg = driver_expect(&d, MSG_UNSUBSCRIBE);
    cr_assert_eq(msg.as.unsubscribe.sub, sub);
    cr_assert_eq(msg.as.unsubscribe.is_drop, 1);
    deliver_one(sub, driver_value(4, 0, "late"));
    driver_say(&d, &(struct msg){.type = MSG_SUBSCRIBED, .as.subscribed = {.sub = sub}});
    cr_assert_eq(session_state(d.session), SESSION_UP);
    struct session_item item;
    cr_assert_eq(session_sub_take(d.session, sub, &item, NULL), CODE_ECLOSED);
    driver_fini(&d);
}

Test(session_read, hands_out_what_is_here_before_the_end)
{
    uint32_t sub = up_and_subscribed();
    deliver_one(sub, driver_value(4, 0, "here"));
    uint64_t want = await("bob/x", 9, true);
    session_fail_party(d.session, error_of("app.broken"));
    expect_value(sub, 0, "here");
    struct session_item item;
    cr_assert(session_sub_is_readable(d.session, sub));
    cr_assert_eq(session_sub_take(d.session, sub, &item, NULL), CODE_ECLOSED);
    cr_assert_eq(session_want_take(d.session, want, &item), CODE_ECLOSED);
    driver_fini(&d);
}

Test(session_read, ends_when_data_breaks_the_protocol)
{
    struct frame named = driver_topic_frame(4, "bob/x");
    const struct frame rows[] = {
        driver_value(5, 0, "of a topic nobody named"),
        {.flags = FRAME_RESERVE, .topic = 4, .value = span_text("\x92\x00\x00")},
        driver_value(4, UINT64_MAX / 2, "beyond all numbers"),
        {.flags = FRAME_CHUNK, .topic = 4, .value = span_text("1234567890123456")},
        driver_chunk(4, 0, 700, 300, 10, room), /* not the first */
        {.flags = FRAME_GAP, .topic = 4, .value = span_text("x")},
        driver_topic_frame(4, "carol/x"), /* another name for the number */
        driver_topic_frame(6, "bob/\x01"),
        driver_topic_frame(0, "bob/y"), /* no number */
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        uint32_t sub = up_and_subscribed();
        struct frame frames[] = {named, rows[i]};
        driver_deliver(&d, sub, frames, 2);
        driver_expect_end(&d, CODE_EPROTO, ERROR_TYPE_PROTOCOL);
        driver_fini(&d);
    }
    const struct frame answers[] = {driver_value(5, 0, "of a topic nobody named"),
                                    gap(4, 0, 1),
                                    {.flags = FRAME_END, .topic = 4}};
    for (size_t i = 0; i < sizeof answers / sizeof *answers; i++) {
        driver_up(&d);
        struct frame frames[] = {named, answers[i]};
        driver_deliver(&d, 0, frames, 2);
        driver_expect_end(&d, CODE_EPROTO, ERROR_TYPE_PROTOCOL);
        driver_fini(&d);
    }
}

Test(session_read, ends_when_a_delivery_is_malformed)
{
    uint8_t head[DELIVERY_HEADER_BYTES];
    for (int i = 0; i < 5; i++) {
        uint32_t sub = up_and_subscribed();
        delivery_header_write(head, i == 1 ? sub + 1 : sub);
        struct buffer *batch =
            buffer_copy(i == 2 ? SPAN_NONE : span_text("no batch at all, I say"));
        if (i == 3)
            buffer_unref(&batch);
        if (i == 4)
            delivery_header_write(head, 0);
        session_data_in(d.session, d.now_ns, span_of(head, i == 0 ? 3 : sizeof head), &batch);
        cr_assert_null(batch);
        driver_expect_end(&d, CODE_EPROTO, ERROR_TYPE_PROTOCOL);
        driver_fini(&d);
    }
}

Test(session_read, does_not_keep_more_than_it_asked_for)
{
    struct session_options options = driver_options("alice");
    options.inbox_bytes_max = 1024 * 1024;
    driver_init_with(&d, &options);
    driver_greet(&d, false);
    uint32_t sub = subscribe("bob/#", "");
    static char bytes[65536];
    struct frame frames[] = {driver_topic_frame(4, "bob/x"), driver_value(4, 0, "")};
    frames[1].value = span_of(bytes, sizeof bytes);
    int count = 0;
    for (; session_state(d.session) == SESSION_UP; count++) {
        frames[1].seq = (uint64_t)count;
        driver_deliver(&d, sub, frames, 2);
    }
    cr_assert_gt(count, 20);
    cr_assert_lt(count, 200);
    driver_expect_end(&d, CODE_EPROTO, ERROR_TYPE_PROTOCOL);
    driver_fini(&d);
}

/* ---- awaiting -------------------------------------------------------------------------------- */

Test(session_read, answers_who_awaits)
{
    driver_up(&d);
    uint64_t want;
    cr_assert_eq(session_await(d.session, span_text("bob"), 0, true, &want), CODE_EINVAL);
    cr_assert_eq(session_await(d.session, span_text("bob/x"), UINT64_MAX, true, &want),
                 CODE_EINVAL);
    want = await("bob/x", 7, true);
    uint64_t same = await("bob/x", 7, true);
    uint64_t other = await("bob/x", 8, true);
    struct msg msg = driver_expect(&d, MSG_AWAIT);
    cr_assert_eq(msg.as.await.seq, 7);
    cr_assert_eq(msg.as.await.is_value_wanted, 1);
    cr_assert(span_equal(msg.as.await.topic, span_text("bob/x")));
    cr_assert_eq(driver_expect(&d, MSG_AWAIT).as.await.seq, 8);
    cr_assert_eq(driver_hear(&d).type, MSG_NONE); /* once a slot */
    deliver_one(0, driver_value(4, 7, "seven"));
    cr_assert(session_news(d.session).is_want);
    expect_answer(want, "seven");
    expect_answer(same, "seven");
    expect_no_answer(other);
    deliver_one(
        0, (struct frame){
               .flags = FRAME_ERROR, .topic = 4, .seq = 8, .value = error_of("errbus.deadline")});
    struct session_item item;
    cr_assert_eq(session_want_take(d.session, other, &item), CODE_OK);
    cr_assert_eq(item.kind, SESSION_ITEM_ERROR);
    cr_assert(span_equal(item.value, error_of("errbus.deadline")));
    cr_assert(span_equal(session_topic_name(d.session, item.topic), span_text("bob/x")));
    buffer_unref(&item.buffer);
    deliver_one(0, driver_value(4, 7, "nobody waits for it"));
    cr_assert_eq(driver_hear(&d).type, MSG_NONE);
    driver_fini(&d);
}

static void deliver_denied(const char *topic, uint64_t seq)
{
    struct frame frames[] = {
        driver_topic_frame(0, topic),
        {.flags = FRAME_ERROR, .seq = seq, .value = error_of("errbus.not_authorised")}};
    driver_deliver(&d, 0, frames, 2);
}

static void expect_denied(uint64_t want)
{
    struct session_item item;
    cr_assert_eq(session_want_take(d.session, want, &item), CODE_OK);
    cr_assert_eq(item.kind, SESSION_ITEM_ERROR);
    cr_assert(span_equal(item.value, error_of("errbus.not_authorised")));
    cr_assert_eq(item.topic, 0);
    buffer_unref(&item.buffer);
}

Test(session_read, tells_that_waits_are_denied)
{
    driver_up(&d);
    uint64_t first = await("bob/x", 7, true);
    uint64_t second = await("bob/y", 7, true);
    while (driver_hear(&d).type != MSG_NONE) {
    }
    deliver_denied("bob/x", 7);
    expect_no_answer(second);
    deliver_denied("bob/y", 7); /* the number stands for the name that came last */
    expect_denied(first);
    expect_denied(second);
    first = await("bob/x", 7, true); /* it may be allowed by now */
    (void)driver_expect(&d, MSG_AWAIT);
    deliver_one(0, driver_value(4, 7, "seven"));
    expect_answer(first, "seven");
    driver_fini(&d);
}

Test(session_read, takes_nothing_but_denials_of_topic_number_0)
{
    const struct frame rows[][2] = {
        {driver_topic_frame(0, "bob/x"), driver_value(0, 7, "seven")},
        {driver_topic_frame(0, "bob/\x01"), driver_topic_frame(4, "bob/x")},
        {driver_topic_frame(4, "bob/x"), /* nothing was named so */
         {.flags = FRAME_ERROR, .seq = 7, .value = error_of("errbus.not_authorised")}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        driver_up(&d);
        (void)await("bob/x", 7, true);
        driver_deliver(&d, 0, rows[i], 2);
        driver_expect_end(&d, CODE_EPROTO, ERROR_TYPE_PROTOCOL);
        driver_fini(&d);
    }
    driver_up(&d);
    deliver_denied("bob/x", 7); /* nobody waits for it */
    cr_assert_neq(session_state(d.session), SESSION_OVER);
    driver_fini(&d);
}

Test(session_read, gives_no_value_to_who_wants_the_outcome)
{
    driver_up(&d);
    uint64_t outcome = await("bob/x", 0, false);
    cr_assert_eq(driver_expect(&d, MSG_AWAIT).as.await.is_value_wanted, 0);
    deliver_one(0, driver_value(4, 0, ""));
    expect_answer(outcome, "");
    uint64_t value = await("bob/x", 1, true);
    outcome = await("bob/x", 1, false);
    cr_assert_eq(driver_expect(&d, MSG_AWAIT).as.await.is_value_wanted, 1);
    cr_assert_eq(driver_hear(&d).type, MSG_NONE); /* the value tells both */
    deliver_one(0, driver_value(4, 1, "one"));
    struct session_item item;
    cr_assert_eq(session_want_take(d.session, outcome, &item), CODE_OK);
    cr_assert_null(item.buffer);
    expect_answer(value, "one");
    driver_fini(&d);
}

Test(session_read, does_not_take_an_outcome_for_an_empty_value)
{
    driver_up(&d);
    uint64_t outcome = await("bob/x", 0, false);
    (void)driver_expect(&d, MSG_AWAIT);
    session_unawait(d.session, outcome); /* its answer is under way all the same */
    uint64_t value = await("bob/x", 0, true);
    (void)driver_expect(&d, MSG_UNAWAIT);
    cr_assert_eq(driver_expect(&d, MSG_AWAIT).as.await.is_value_wanted, 1);
    deliver_one(0, driver_value(4, 0, "")); /* which of the two? */
    expect_no_answer(value);
    (void)driver_expect(&d, MSG_AWAIT);
    deliver_one(0, driver_value(4, 0, "real"));
    expect_answer(value, "real");
    value = await("bob/x", 1, true);
    (void)driver_expect(&d, MSG_AWAIT);
    deliver_one(0, driver_value(4, 1, "")); /* nobody asked for the outcome alone */
    expect_answer(value, "");
    driver_fini(&d);
}

Test(session_read, gives_wants_up)
{
    driver_up(&d);
    uint64_t want = await("bob/x", 0, true);
    session_unawait(d.session, want); /* not even asked */
    cr_assert_eq(driver_hear(&d).type, MSG_NONE);
    want = await("bob/x", 0, true);
    uint64_t other = await("bob/x", 0, true);
    uint64_t asked = driver_expect(&d, MSG_AWAIT).as.await.want;
    session_unawait(d.session, want);
    cr_assert_eq(driver_hear(&d).type, MSG_NONE); /* the other one still waits */
    session_unawait(d.session, other);
    session_unawait(d.session, other);
    cr_assert_eq(driver_expect(&d, MSG_UNAWAIT).as.unawait.want, asked);
    cr_assert_eq(driver_hear(&d).type, MSG_NONE);
    struct session_item item;
    cr_assert_eq(session_want_take(d.session, want, &item), CODE_EINVAL);
    want = await("bob/x", 5, true);
    (void)driver_expect(&d, MSG_AWAIT);
    deliver_one(0, driver_value(4, 5, "five"));
    session_unawait(d.session, want); /* answered, not taken */
    driver_fini(&d);
}

Test(session_read, asks_again_on_a_new_connection)
{
    driver_up(&d);
    uint64_t plain = await("bob/x", 0, false);
    uint64_t value = await("bob/x", 1, true);
    uint64_t dropped = await("bob/x", 2, true);
    uint64_t asked[3];
    for (int i = 0; i < 3; i++)
        asked[i] = driver_expect(&d, MSG_AWAIT).as.await.want;
    deliver_one(0, driver_chunk(4, 1, 500, 0, 200, room));
    session_unawait(d.session, dropped);
    driver_break_link(&d);
    driver_greet_to_attach(&d, true);
    struct msg msg = driver_expect(&d, MSG_AWAIT);
    cr_assert_eq(msg.as.await.want, asked[0]);
    cr_assert_eq(msg.as.await.chunk_offset, 0);
    msg = driver_expect(&d, MSG_AWAIT);
    cr_assert_eq(msg.as.await.want, asked[1]);
    cr_assert_eq(msg.as.await.chunk_offset, 200);
    (void)driver_expect(&d, MSG_READY); /* giving up is not said before that */
    driver_attached(&d);
    cr_assert_eq(driver_expect(&d, MSG_UNAWAIT).as.unawait.want, asked[2]);
    deliver_one(0, driver_chunk(4, 1, 500, 200, 300, room));
    struct session_item item;
    cr_assert_eq(session_want_take(d.session, value, &item), CODE_OK);
    cr_assert_eq(item.value.bytes, 500);
    buffer_unref(&item.buffer);
    deliver_one(0, driver_value(4, 0, ""));
    expect_answer(plain, "");
    driver_fini(&d);
}

Test(session_read, tells_what_was_taken_of_awaited_slots)
{
    driver_up(&d);
    uint64_t sent = 0;
    for (uint64_t seq = 0; seq < 3; seq++) {
        uint64_t want = await("bob/x", seq, true);
        (void)driver_expect(&d, MSG_AWAIT);
        deliver_one(0, driver_chunk(4, seq, 60000, 0, 60000, room));
        sent += frame_total(5) + frame_total(FRAME_CHUNK_PREFIX_BYTES + 60000);
        struct session_item item;
        cr_assert_eq(session_want_take(d.session, want, &item), CODE_OK);
        buffer_unref(&item.buffer);
        if (seq < 2)
            cr_assert_eq(driver_hear(&d).type, MSG_NONE);
    }
    struct msg taken = driver_expect(&d, MSG_TAKEN);
    cr_assert_eq(taken.as.taken.sub, 0);
    cr_assert_eq(taken.as.taken.bytes, sent);
    driver_fini(&d);
}

Test(session_read, tells_what_was_taken_of_awaited_slots_while_its_link_may_be_long)
{
    driver_init(&d);
    driver_greet_late(&d, 20);
    uint64_t want = await("bob/x", 0, true);
    (void)driver_expect(&d, MSG_AWAIT);
    deliver_one(0, driver_chunk(4, 0, FLOW_STEP_BYTES, 0, FLOW_STEP_BYTES, room));
    struct session_item item;
    cr_assert_eq(session_want_take(d.session, want, &item), CODE_OK);
    buffer_unref(&item.buffer);
    cr_assert_eq(driver_expect(&d, MSG_TAKEN).as.taken.sub, 0);
    driver_fini(&d);
}

Test(session_read, does_not_take_an_outcome_for_an_empty_value_after_a_reconnect)
{
    driver_up(&d);
    uint64_t outcome = await("bob/x", 0, false);
    (void)driver_expect(&d, MSG_AWAIT);
    uint64_t value = await("bob/x", 0, true);
    (void)driver_expect(&d, MSG_AWAIT);
    driver_break_link(&d);
    driver_greet_to_attach(&d, true);
    (void)driver_expect(&d, MSG_AWAIT);
    (void)driver_expect(&d, MSG_AWAIT);
    (void)driver_expect(&d, MSG_READY);
    driver_attached(&d);
    deliver_one(0, driver_value(4, 0, ""));
    expect_answer(outcome, "");
    expect_no_answer(value);
    deliver_one(
        0, (struct frame){.flags = FRAME_COMMIT, .topic = 4, .seq = 0, .value = span_text("real")});
    expect_answer(value, "real");
    driver_fini(&d);
}

/* ---- a data connection that is dead towards us ----------------------------------------------- */

static void echo(uint64_t data_bytes)
{
    driver_say(
        &d, &(struct msg){
                .type = MSG_ECHO,
                .as.echo = {.sent_ns = d.now_ns, .broker_ns = d.now_ns, .data_bytes = data_bytes}});
}

/* The broker answers each beat, and says that it sent so much; until so many ms have passed, or a
 * fresh connection is asked for. */
static enum session_action beat_for(int64_t ms, uint64_t data_bytes)
{
    enum session_action action = SESSION_NOTHING;
    for (int64_t passed = 0; passed < ms && action == SESSION_NOTHING; passed += 500) {
        d.now_ns += 500 * DRIVER_MS;
        session_tick(d.session, d.now_ns);
        action = session_action(d.session);
        if (action == SESSION_NOTHING && driver_hear(&d).type == MSG_BEAT)
            echo(data_bytes);
    }
    return action;
}

static uint64_t bytes_of(const char *text)
{
    return frame_total(strlen(text));
}

Test(session_read, drops_a_data_connection_that_is_behind_for_half_of_lost_after)
{
    uint32_t sub = up_and_subscribed();
    cr_assert_eq(beat_for(60000, 0), SESSION_NOTHING); /* as of a broker that does not tell */
    struct frame frames[] = {driver_topic_frame(9, "bob/w"), driver_value(9, 0, "zero")};
    driver_deliver(&d, sub, frames, 2);
    uint64_t received = bytes_of("bob/w") + bytes_of("zero");
    cr_assert_eq(beat_for(60000, received), SESSION_NOTHING);
    echo(received + 8);
    cr_assert_eq(beat_for(4500, received + 8), SESSION_NOTHING);
    cr_assert_eq(session_deadline_ns(d.session), d.now_ns + 500 * DRIVER_MS);
    cr_assert_eq(beat_for(500, received + 8), SESSION_CONNECT_CONTROL);
    cr_assert_eq(session_state(d.session), SESSION_CONNECTING);
    driver_fini(&d);
}

Test(session_read, keeps_a_data_connection_on_which_something_comes)
{
    uint32_t sub = up_and_subscribed();
    driver_deliver(&d, sub, (struct frame[]){driver_topic_frame(9, "bob/w")}, 1);
    uint64_t sent = bytes_of("bob/w") + 10 * bytes_of("slow");
    echo(sent);
    for (uint64_t seq = 0; seq < 10; seq++) {
        cr_assert_eq(beat_for(4500, sent), SESSION_NOTHING, "at %llu", (unsigned long long)seq);
        driver_deliver(&d, sub, (struct frame[]){driver_value(9, seq, "slow")}, 1);
    }
    cr_assert_eq(beat_for(60000, sent), SESSION_NOTHING); /* it has it all */
    driver_fini(&d);
}

Test(session_read, waits_twice_as_long_for_the_next_data_connection)
{
    driver_up(&d);
    int64_t waits_ms[] = {5000, 10000, 20000, 30000, 30000}; /* broker_lost_ms at most */
    for (size_t i = 0; i < sizeof waits_ms / sizeof *waits_ms; i++) {
        echo(100);
        cr_assert_eq(beat_for(waits_ms[i] - 500, 100), SESSION_NOTHING);
        cr_assert_eq(beat_for(500, 100), SESSION_CONNECT_CONTROL);
        struct msg hello = driver_expect(&d, MSG_HELLO);
        cr_assert_eq(hello.as.hello.token, DRIVER_TOKEN);
        driver_say_welcome(&d, true);
        driver_expect_attach(&d);
        (void)driver_expect(&d, MSG_READY);
        driver_attached(&d); /* what was told of the last one is not held against it */
        cr_assert_eq(beat_for(60000, 0), SESSION_NOTHING);
    }
    driver_fini(&d);
}
