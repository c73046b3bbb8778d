/* SPDX-License-Identifier: MPL-2.0 */
/* session_fuzz.c -- foreign bytes as what a broker says to a client, with calls of the application,
 * time, broken connections and failing allocations between: the session goes on or ends with a
 * code, what it says can be read, and it gives everything back. */
#include "libbus/base/must.h"
#include "libbus/session/session.h"
#include "tests/fuzz/speech.h"
#include "tests/lib/scarce.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

#define MS INT64_C(1000000)
#define BYTES_MAX (UINT64_C(64) * 1024 * 1024)
enum { STEPS_MAX = 400, SLOTS = 8, OUT_MAX = 10000 };

static struct {
    struct scarce scarce;
    struct session *session;
    int64_t now_ns;
    struct speaker broker;
    uint64_t batch;
    bool has_topic;
    uint32_t topic;
    uint64_t slots[SLOTS]; /* reserved and not settled */
    uint32_t slot_count;
    uint32_t sub;      /* 0: none */
    uint64_t want;     /* 0: none */
    uint64_t question; /* a number whose RESULT is to come; 0: none */
} w;

static void begin(void)
{
    struct session_options options = {
        .job = span_text("job"),
        .party = span_text("alice"),
        .library = span_text("fuzz"),
        .host = span_text("here"),
        .client = 7,
        .heartbeat_ms = 100,
        .lost_after_ms = 1000,
        .grace_ms = 100,
        .broker_lost_ms = 5000,
        .outbox_bytes_max = 65536,
        .inbox_bytes_max = 65536,
    };
    memset(&w, 0, sizeof w);
    scarce_init(&w.scarce, BYTES_MAX);
    w.now_ns = MS;
    w.broker = (struct speaker){.party = "bob", .number = 1, .token = 77, .connection = 3};
    must(session_new(&w.scarce.memory, &options, w.now_ns, &w.session) == CODE_OK);
}

/* ---- what it says ---------------------------------------------------------------------------- */

static void hear_message(struct span part, enum msg_lane lane)
{
    struct msg msg;
    unsigned number;
    must(msg_decode(part, lane, MSG_TO_BROKER, &msg, &number) == WIRE_OK);
    if (msg.type == MSG_SUBSCRIBE)
        w.broker.number = msg.as.subscribe.number;
    if (msg.type == MSG_RETRACT)
        w.broker.number = msg.as.retract.number;
    if (msg.type == MSG_AWAIT)
        w.broker.seq = msg.as.await.seq;
}

static void hear_part(struct span part)
{
    struct batch_reader reader;
    struct frame frame;
    enum wire_err err = batch_reader_init(&reader, part);
    if (err != WIRE_OK) {
        hear_message(part, MSG_LANE_DATA);
        return;
    }
    while (err == WIRE_OK)
        err = batch_reader_next(&reader, &frame);
    must(err == WIRE_EMPTY);
}

static void hear_all(void)
{
    static uint8_t said[LIMIT_CONTROL_BYTES];
    size_t bytes = 0;
    struct buffer *part;
    int count = 0;
    (void)session_action(w.session);
    while (session_control_out(w.session, w.now_ns, said, &bytes)) {
        must(count++ < OUT_MAX);
        hear_message(span_of(said, bytes), MSG_LANE_CONTROL);
        session_control_sent(w.session);
    }
    while ((part = session_data_out(w.session, w.now_ns)) != NULL) {
        must(count++ < OUT_MAX);
        hear_part(buffer_span(part));
        session_data_sent(w.session);
    }
    (void)session_news(w.session);
}

/* ---- what it is told ------------------------------------------------------------------------- */

static void say(const struct msg *msg)
{
    static uint8_t bytes[LIMIT_CONTROL_BYTES];
    size_t count = 0;
    if (msg_encode(msg, bytes, sizeof bytes, &count) == WIRE_OK)
        session_control_in(w.session, w.now_ns, span_of(bytes, count));
    hear_all();
}

static void welcome(struct feed *feed)
{
    struct msg msg = speech_msg_of(feed, &w.broker, MSG_WELCOME);
    msg.as.welcome.major = PROTOCOL_MAJOR;
    msg.as.welcome.broker = 5;
    msg.as.welcome.token = 77;
    msg.as.welcome.incarnation = 1;
    msg.as.welcome.attempt = 1;
    msg.as.welcome.data_endpoint = span_text("tcp://*:7371");
    msg.as.welcome.value_bytes_max = 4096;
    say(&msg);
    say(&(struct msg){.type = MSG_ATTACHED});
}

static void deliver(struct feed *feed, bool is_foreign)
{
    uint8_t bytes[SPEECH_BATCH_BYTES_MAX];
    uint8_t head[DELIVERY_HEADER_BYTES];
    uint32_t frames = 0;
    uint8_t sub = feed_byte(feed);
    struct span part = feed_span(feed, is_foreign ? feed_byte(feed) : 0);
    if (!is_foreign)
        part = span_of(bytes, speech_batch(feed, &w.broker, 0, bytes, &frames));
    delivery_header_write(head, sub < 160 ? w.sub * (sub & 1) : sub);
    struct buffer *buffer = buffer_copy(part);
    must(buffer != NULL);
    session_data_in(w.session, w.now_ns, span_of(head, sizeof head), &buffer);
    buffer_unref(&buffer);
    w.broker.seq += frames;
}

/* ---- what the application does --------------------------------------------------------------- */

static void write_some(struct feed *feed)
{
    uint64_t slot;
    struct span value = feed_span(feed, feed_byte(feed) & 63);
    if (!w.has_topic)
        w.has_topic = session_topic(w.session, span_text("alice/w"), &w.topic) == CODE_OK;
    if (!w.has_topic)
        return;
    switch (feed_byte(feed) % 5) {
    case 0: (void)session_publish(w.session, w.now_ns, w.topic, &value, 1, NULL); break;
    case 1:
        if (w.slot_count < SLOTS &&
            session_reserve(w.session, w.now_ns, w.topic, -1, -1, 100, &slot) == CODE_OK)
            w.slots[w.slot_count++] = slot;
        break;
    case 2:
        if (w.slot_count > 0 && session_commit(w.session, w.now_ns, w.topic,
                                               w.slots[w.slot_count - 1], value) == CODE_OK)
            w.slot_count -= 1;
        break;
    case 3:
        if (w.slot_count > 0)
            session_fail(w.session, w.now_ns, w.topic, w.slots[--w.slot_count], speech_error());
        break;
    default:
        if (w.question == 0 && session_retract(w.session, w.topic, feed_byte(feed) & 7,
                                               speech_error(), &w.question) != CODE_OK)
            w.question = 0;
        break;
    }
}

static void take(struct feed *feed)
{
    struct session_item item;
    struct buffer *error = NULL;
    if (w.sub == 0 || session_sub_take(w.session, w.sub, &item, &error) != CODE_OK) {
        buffer_unref(&error);
        return;
    }
    bool is_gap = item.kind == SESSION_ITEM_GAP || item.kind == SESSION_ITEM_DROPPED;
    uint64_t seq = is_gap ? item.seq + item.count - 1 : item.seq;
    if (item.kind == SESSION_ITEM_PIECE)
        ; /* nothing is said of it */
    else if (item.kind == SESSION_ITEM_PAST)
        session_ack_past(w.session, w.sub, item.topic);
    else if (item.kind != SESSION_ITEM_END && feed_byte(feed) % 4 > 0)
        session_ack(w.session, w.sub, item.topic, seq);
    else if (item.kind != SESSION_ITEM_END)
        session_return(w.session, w.sub, item.topic, seq);
    buffer_unref(&item.buffer);
}

static void read_some(struct feed *feed)
{
    struct session_item item;
    uint8_t how = feed_byte(feed);
    struct session_sub_options options = {.name = how % 2 == 0 ? SPAN_NONE : span_text("durable"),
                                          .is_in_pieces = how / 2 % 2 == 1};
    if (w.sub == 0 && session_subscribe(w.session, span_text("bob/#"), &options, &w.sub) != CODE_OK)
        w.sub = 0;
    if (w.want == 0 &&
        session_await(w.session, span_text("bob/w"), feed_byte(feed) & 3, true, &w.want) != CODE_OK)
        w.want = 0;
    take(feed);
    enum wire_code code =
        w.want == 0 ? CODE_ETIMEDOUT : session_want_take(w.session, w.want, &item);
    if (code == CODE_OK)
        buffer_unref(&item.buffer);
    if (code != CODE_ETIMEDOUT)
        w.want = 0;
    struct buffer *error = NULL;
    if (w.question != 0 && session_result(w.session, w.question, &error) != CODE_ETIMEDOUT)
        w.question = 0;
    buffer_unref(&error);
}

static void end_some(struct feed *feed)
{
    uint64_t number;
    switch (feed_byte(feed)) {
    case 200: session_leave(w.session); break;
    case 201: session_fail_party(w.session, speech_error()); break;
    case 202: (void)session_complete(w.session, &number); break;
    case 203:
        if (w.sub != 0)
            session_unsubscribe(w.session, w.sub, true);
        w.sub = 0;
        break;
    case 204: scarce_fail_in(&w.scarce, (uint64_t)feed_byte(feed) % 16 + 1); break;
    default: session_progress(w.session, feed_byte(feed), span_text("here")); break;
    }
}

static void step(struct feed *feed)
{
    struct msg msg;
    switch (feed_byte(feed) & 15) {
    case 0: w.now_ns += feed_byte(feed) * MS; break;
    case 1: w.now_ns += feed_byte(feed) * 20 * MS; break;
    case 2: session_link_closed(w.session, w.now_ns); break;
    case 3: session_control_in(w.session, w.now_ns, feed_span(feed, feed_byte(feed))); break;
    case 4: deliver(feed, true); break;
    case 5:
    case 6: deliver(feed, false); break;
    case 7:
    case 8: write_some(feed); break;
    case 9:
    case 10: read_some(feed); break;
    case 11: end_some(feed); break;
    case 12: welcome(feed); break;
    default:
        msg = speech_msg(feed, &w.broker, MSG_TO_CLIENT);
        say(&msg);
        break;
    }
    session_tick(w.session, w.now_ns);
    hear_all();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct feed feed = {data, bytes};
    begin();
    for (int i = 0; feed.left > 0 && i < STEPS_MAX; i++)
        step(&feed);
    session_free(&w.session);
    must(w.scarce.memory.bytes_used == 0);
    return 0;
}
