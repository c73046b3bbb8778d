/* SPDX-License-Identifier: MPL-2.0 */
/* Acknowledging: prefixes, one message a round trip, behind what was settled before. */
#include "libbus/session/session.h"

#include "libbus/base/flow_window.h"
#include "tests/unit/session_driver.h"

enum { WIDE = 1 << 30 };
static struct driver d;

static void init(void)
{
    driver_up(&d);
}

static void fini(void)
{
    driver_fini(&d);
}

TestSuite(session_acks, .init = init, .fini = fini);

static uint32_t subscribe(const char *name)
{
    uint32_t sub = 0;
    struct session_sub_options options = {.name = span_text(name)};
    cr_assert_eq(session_subscribe(d.session, span_text("bob/#"), &options, &sub), CODE_OK);
    struct msg msg = driver_expect(&d, MSG_SUBSCRIBE);
    driver_say(&d, &(struct msg){.type = MSG_SUBSCRIBED,
                                 .as.subscribed = {.number = msg.as.subscribe.number, .sub = sub}});
    return sub;
}

/* Slots first..first+count-1 of a topic come and are taken. */
static void receive(uint32_t sub, uint32_t topic, uint64_t first, uint64_t count)
{
    for (uint64_t seq = first; seq < first + count; seq++) {
        char name[] = "bob/0";
        name[4] = (char)('0' + topic);
        struct frame frames[] = {driver_topic_frame(topic, name), driver_value(topic, seq, "v")};
        driver_deliver(&d, sub, frames, 2);
        struct session_item item;
        cr_assert_eq(session_sub_take(d.session, sub, &item, NULL), CODE_OK);
        cr_assert_eq(item.seq, seq);
        buffer_unref(&item.buffer);
    }
}

static struct msg_ack expect_ack(uint32_t sub, uint32_t topic, uint64_t next_seq, uint64_t number)
{
    struct msg msg = driver_expect(&d, MSG_ACK);
    cr_assert_eq(msg.as.ack.sub, sub);
    cr_assert_eq(msg.as.ack.topic, topic);
    cr_assert_eq(msg.as.ack.next_seq, next_seq, "next_seq %llu",
                 (unsigned long long)msg.as.ack.next_seq);
    cr_assert_eq(msg.as.ack.number, number);
    return msg.as.ack;
}

static void expect_silence(void)
{
    cr_assert_eq(driver_hear(&d).type, MSG_NONE);
}

static void beat(void)
{
    d.now_ns += 1000 * DRIVER_MS;
    (void)driver_expect(&d, MSG_BEAT);
}

static void drain(void)
{
    struct buffer *part;
    while ((part = driver_part(&d)) != NULL)
        buffer_unref(&part);
}

static void publish_large(uint32_t topic)
{
    char *bytes = calloc(1, DEFAULT_CHUNK_BYTES + 1);
    struct span value = span_of(bytes, DEFAULT_CHUNK_BYTES + 1);
    cr_assert_eq(session_publish(d.session, d.now_ns, topic, &value, 1, NULL), CODE_OK);
    free(bytes);
}

static void upload_done(uint64_t seq)
{
    driver_say(&d, &(struct msg){
                       .type = MSG_CHUNKED,
                       .as.chunked = {.topic = 1, .seq = seq, .bytes = DEFAULT_CHUNK_BYTES + 1}});
}

Test(session_acks, says_that_what_is_missing_of_earlier_attempts_was_told)
{
    uint32_t sub = subscribe("deep");
    uint8_t bytes[FRAME_GAP_BYTES_MAX];
    size_t size = frame_gap_encode(bytes, &(struct frame_gap){.count = 5, .reason = GAP_ATTEMPT});
    struct frame frames[] = {
        driver_topic_frame(1, "bob/1"),
        {.flags = FRAME_GAP, .topic = 1, .seq = 7, .value = span_of(bytes, size)}};
    driver_deliver(&d, sub, frames, 2);
    struct session_item item;
    cr_assert_eq(session_sub_take(d.session, sub, &item, NULL), CODE_OK);
    session_ack_past(d.session, sub, 1);
    expect_ack(sub, 1, 0, 2);
    driver_say(&d, &(struct msg){.type = MSG_ACCEPTED, .as.accepted.control_number = 2});
    receive(sub, 1, 0, 1);
    session_ack(d.session, sub, 1, 0);
    expect_ack(sub, 1, 1, 3);
}

Test(session_acks, acknowledges_a_prefix)
{
    uint32_t sub = subscribe("durable");
    receive(sub, 4, 0, 5);
    session_ack(d.session, sub, 4, 2);
    session_ack(d.session, sub, 4, 1);
    session_ack(d.session, sub, 4, 9); /* not out */
    session_ack(d.session, sub, 5, 0); /* nothing of it came */
    session_ack(d.session, sub + 1, 4, 0);
    expect_silence();
    session_ack(d.session, sub, 4, 0);
    (void)expect_ack(sub, 4, 3, 2);
    expect_silence();
    driver_accept(&d, 0, 2);
    session_ack(d.session, sub, 4, 3);
    session_ack(d.session, sub, 4, 4);
    (void)expect_ack(sub, 4, 5, 3);
}

Test(session_acks, says_one_at_a_time_of_each_topic)
{
    uint32_t sub = subscribe("durable");
    receive(sub, 4, 0, 10);
    receive(sub, 5, 0, 2);
    session_ack(d.session, sub, 4, 0);
    (void)expect_ack(sub, 4, 1, 2);
    for (uint64_t seq = 1; seq < 10; seq++) {
        session_ack(d.session, sub, 4, seq);
        expect_silence(); /* one is under way */
    }
    session_ack(d.session, sub, 5, 0);
    (void)expect_ack(sub, 5, 1, 3);
    driver_accept(&d, 0, 2);
    (void)expect_ack(sub, 4, 10, 4);
    expect_silence();
}

Test(session_acks, stops_before_what_was_returned)
{
    uint32_t sub = subscribe("durable");
    receive(sub, 4, 0, 4);
    session_return(d.session, sub, 4, 2);
    session_return(d.session, sub, 4, 77);
    session_return(d.session, sub, 6, 0);
    session_return(d.session, sub + 1, 4, 0);
    for (uint64_t seq = 0; seq < 4; seq++)
        session_ack(d.session, sub, 4, seq);
    (void)expect_ack(sub, 4, 2, 2);
    driver_accept(&d, 0, 2);
    receive(sub, 4, 4, 3);
    session_ack(d.session, sub, 4, 4);
    expect_silence();
}

Test(session_acks, follows_the_frames_that_were_said_before)
{
    uint32_t sub = subscribe("durable");
    uint32_t x = driver_topic(&d, "alice/x", 1, WIDE);
    receive(sub, 4, 0, 1);
    struct span value = span_text("made of it");
    cr_assert_eq(session_publish(d.session, d.now_ns, x, &value, 1, NULL), CODE_OK);
    session_ack(d.session, sub, 4, 0);
    cr_assert_eq(expect_ack(sub, 4, 1, 2).after, 1);
}

Test(session_acks, waits_for_the_uploads_that_were_said_before)
{
    uint32_t sub = subscribe("durable");
    uint32_t x = driver_topic(&d, "alice/x", 1, WIDE);
    receive(sub, 4, 0, 4);
    session_ack(d.session, sub, 4, 0); /* before the upload */
    publish_large(x);
    session_ack(d.session, sub, 4, 1);
    (void)expect_ack(sub, 4, 1, 2);
    driver_accept(&d, 0, 2);
    expect_silence();
    publish_large(x);
    session_ack(d.session, sub, 4, 2); /* behind the second one */
    drain();
    upload_done(0);
    (void)expect_ack(sub, 4, 2, 3);
    driver_accept(&d, 0, 3);
    expect_silence();
    upload_done(1);
    (void)expect_ack(sub, 4, 3, 4);
}

Test(session_acks, belongs_to_marks)
{
    uint32_t sub = subscribe("durable");
    driver_accept(&d, 0, 1);
    uint32_t x = driver_topic(&d, "alice/x", 1, WIDE);
    receive(sub, 4, 0, 9);
    session_ack(d.session, sub, 4, 0);
    struct session_mark mark = session_mark(d.session);
    cr_assert_not(session_mark_reached(d.session, mark));
    (void)expect_ack(sub, 4, 1, 2);
    session_ack(d.session, sub, 4, 1); /* under way still: a mark does not wait for that */
    mark = session_mark(d.session);
    (void)expect_ack(sub, 4, 2, 3);
    driver_accept(&d, 0, 2);
    cr_assert_not(session_mark_reached(d.session, mark));
    driver_accept(&d, 0, 3);
    cr_assert(session_mark_reached(d.session, mark));
    /* With an upload before it. */
    publish_large(x);
    session_ack(d.session, sub, 4, 2);
    struct session_mark first = session_mark(d.session);
    publish_large(x);
    session_ack(d.session, sub, 4, 3);
    struct session_mark second = session_mark(d.session);
    drain();
    driver_accept(&d, 2, 3);
    upload_done(0);
    cr_assert_not(session_mark_reached(d.session, first));
    /* The first round is through, the second one waits for its upload. */
    (void)expect_ack(sub, 4, 4, 4);
    driver_accept(&d, 2, 4);
    cr_assert(session_mark_reached(d.session, first));
    cr_assert_not(session_mark_reached(d.session, second));
    upload_done(1);
    expect_silence();
    cr_assert(session_mark_reached(d.session, second));
}

Test(session_acks, goes_before_unsubscribing_and_leaving)
{
    uint32_t sub = subscribe("durable");
    uint32_t other = subscribe("other");
    receive(sub, 4, 0, 3);
    receive(other, 4, 0, 3);
    session_ack(d.session, sub, 4, 0);
    (void)expect_ack(sub, 4, 1, 3);
    session_ack(d.session, sub, 4, 1);
    session_unsubscribe(d.session, sub, false);
    (void)expect_ack(sub, 4, 2, 4);
    (void)driver_expect(&d, MSG_UNSUBSCRIBE);
    session_ack(d.session, sub, 4, 2); /* too late */
    session_ack(d.session, other, 4, 0);
    session_leave(d.session);
    (void)expect_ack(other, 4, 1, 6);
    (void)driver_expect(&d, MSG_LEAVE);
    expect_silence();
}

Test(session_acks, lets_a_subscription_close_behind_its_uploads)
{
    uint32_t sub = subscribe("durable");
    uint32_t x = driver_topic(&d, "alice/x", 1, WIDE);
    receive(sub, 4, 0, 1);
    publish_large(x);
    session_ack(d.session, sub, 4, 0);
    session_unsubscribe(d.session, sub, false);
    session_unsubscribe(d.session, sub, false);
    expect_silence();
    receive(subscribe("other"), 4, 0, 1); /* nothing else waits */
    drain();
    upload_done(0);
    (void)expect_ack(sub, 4, 1, 3);
    (void)driver_expect(&d, MSG_UNSUBSCRIBE);
    expect_silence();
}

Test(session_acks, has_no_number_where_nothing_is_durable)
{
    uint32_t sub = subscribe("");
    receive(sub, 4, 0, 3);
    receive(sub, 5, 0, 1);
    session_ack(d.session, sub, 4, 0);
    session_ack(d.session, sub, 4, 1);
    session_ack(d.session, sub, 5, 0);
    expect_silence();
    beat();
    (void)driver_expect(&d, MSG_TAKEN);
    (void)expect_ack(sub, 4, 2, 0);
    (void)expect_ack(sub, 5, 1, 0);
    expect_silence();
    /* It may be lost with the connection: said again with the first beat on the next one. */
    driver_accept(&d, 0, 1);
    driver_break_link(&d);
    driver_greet_to_attach(&d, true);
    (void)driver_expect(&d, MSG_POSITION);
    (void)driver_expect(&d, MSG_POSITION);
    (void)driver_expect(&d, MSG_READY);
    driver_attached(&d);
    (void)expect_ack(sub, 4, 2, 0);
    (void)expect_ack(sub, 5, 1, 0);
    expect_silence();
    session_ack(d.session, sub, 4, 2);
    session_unsubscribe(d.session, sub, false);
    (void)driver_expect(&d, MSG_UNSUBSCRIBE);
}

/* It holds the run until the broker knows: a beat later the run would have gone on for its sake. */
Test(session_acks, says_at_once_that_a_viewer_has_taken_all)
{
    driver_fini(&d);
    struct session_options options = driver_options("alice");
    options.run_rule = 2; /* follow */
    driver_init_with(&d, &options);
    driver_greet(&d, false);
    uint32_t sub = subscribe("");
    struct frame frames[] = {driver_topic_frame(4, "bob/4"), driver_value(4, 0, "v"),
                             driver_value(4, 1, "w")};
    driver_deliver(&d, sub, frames, 3);
    for (int i = 0; i < 2; i++) {
        struct session_item item;
        expect_silence();
        cr_assert_eq(session_sub_take(d.session, sub, &item, NULL), CODE_OK);
        buffer_unref(&item.buffer);
        session_ack(d.session, sub, 4, item.seq);
    }
    (void)driver_expect(&d, MSG_TAKEN);
    expect_silence();
}

/* The window of a topic may be less than a step where the writer has a slow link. */
Test(session_acks, says_what_it_took_where_it_waits_and_said_nothing_for_a_while)
{
    enum { SOME = FLOW_STEP_BYTES / 2 };
    static char bytes[SOME];
    const struct {
        int64_t after_ns;
        bool is_said;
    } steps[] = {{0, false},
                 {0, false},
                 {5 * DRIVER_MS - 1, false},
                 {1, true},
                 {5 * DRIVER_MS, false},
                 {0, true},
                 {0, false},
                 {0, false}};
    uint32_t sub = subscribe("");
    for (uint64_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        struct frame frames[] = {driver_topic_frame(4, "bob/4"), driver_value(4, i, "")};
        struct session_item item;
        frames[1].value = span_of(bytes, SOME);
        d.now_ns += steps[i].after_ns;
        driver_deliver(&d, sub, frames, 2);
        cr_assert_eq(session_sub_take(d.session, sub, &item, NULL), CODE_OK);
        buffer_unref(&item.buffer);
        if (steps[i].is_said)
            (void)driver_expect(&d, MSG_TAKEN);
        expect_silence();
    }
}

/* So that a stream has two answers less of three. */
Test(session_acks, goes_with_what_completes_a_window_where_nothing_is_durable)
{
    enum { BIG = 65536, ALL = DEFAULT_SUB_WINDOW_BYTES / BIG };
    static char bytes[BIG];
    uint32_t sub = subscribe("");
    for (uint64_t round = 0; round < 2; round++) {
        for (uint64_t i = 0; i < ALL; i++) {
            struct frame frames[] = {driver_topic_frame(4, "bob/4"), driver_value(4, 0, "")};
            struct session_item item;
            frames[1].seq = round * ALL + i;
            frames[1].value = span_of(bytes, BIG);
            driver_deliver(&d, sub, frames, 2);
            cr_assert_eq(session_sub_take(d.session, sub, &item, NULL), CODE_OK);
            buffer_unref(&item.buffer);
            session_ack(d.session, sub, 4, item.seq);
            if (i % 2 == 1)
                (void)driver_expect(&d, MSG_TAKEN);
            if (i == ALL - 1)
                (void)expect_ack(sub, 4, (round + 1) * ALL, 0);
            expect_silence();
        }
    }
}

Test(session_acks, says_numbered_ones_again_on_a_new_connection)
{
    uint32_t sub = subscribe("durable");
    driver_accept(&d, 0, 1);
    receive(sub, 4, 0, 2);
    session_ack(d.session, sub, 4, 0);
    (void)expect_ack(sub, 4, 1, 2);
    session_ack(d.session, sub, 4, 1);
    driver_break_link(&d);
    driver_greet_to_attach(&d, true);
    (void)driver_expect(&d, MSG_POSITION);
    (void)driver_expect(&d, MSG_READY);
    driver_attached(&d);
    (void)expect_ack(sub, 4, 1, 2);
    expect_silence();
    driver_accept(&d, 0, 2);
    (void)expect_ack(sub, 4, 2, 3);
}
