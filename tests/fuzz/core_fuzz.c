/* SPDX-License-Identifier: MPL-2.0 */
/* core_fuzz.c -- foreign bytes as events of a broker: messages and batches of four parties in any
 * order, with time, closed connections and plain rubbish between them.
 *
 * Whatever comes, and whatever allocation fails, the broker says what can be read, its facts give
 * the state that it has, every session ends once all are gone, and everything is given back. */
#include "broker/io/core_port.h"
#include "libbus/base/must.h"
#include "libbus/wire/fact.h"
#include "tests/fuzz/speech.h"
#include "tests/lib/core_census.h"
#include "tests/lib/core_dump.h"
#include "tests/lib/scarce.h"

#include <stdio.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

#define MS INT64_C(1000000)
#define BYTES_MAX (UINT64_C(64) * 1024 * 1024)
enum { PARTIES = 4, STEPS_MAX = 400, END_STEPS_MAX = 200000 };

struct party {
    struct speaker speaker;
    conn_id control, data;
    uint64_t batch; /* number of its next batch's first frame */
};

static struct {
    struct scarce scarce;
    struct core_port *port;
    struct core_options options;
    struct memory shadow_memory;
    struct core *shadow; /* knows nothing but the facts */
    struct effects unheard;
    struct core_port_now now;
    struct party parties[PARTIES];
    conn_id last_conn;
} w;

static void shadow_begin(void)
{
    core_free(&w.shadow);
    w.shadow = core_new(&w.shadow_memory, &w.options, 0);
    must(w.shadow != NULL);
}

static void begin(void)
{
    static const char *const names[PARTIES] = {"alice", "bob", "carol", ""};
    struct core_options options;
    memset(&w, 0, sizeof w);
    scarce_init(&w.scarce, BYTES_MAX);
    memory_heap_init(&w.shadow_memory, UINT64_MAX);
    effects_init(&w.unheard, &w.shadow_memory);
    core_options_init(&options);
    options.has_facts = true;
    options.job_bytes_max = 65536;
    w.port = core_port_new(&w.scarce.memory, &options, 0);
    w.options = options;
    shadow_begin();
    must(w.port != NULL);
    for (int i = 0; i < PARTIES; i++)
        w.parties[i] = (struct party){.speaker = {.party = names[i], .number = 1},
                                      .control = ++w.last_conn,
                                      .data = ++w.last_conn,
                                      .batch = 1};
}

/* What a party learns from what it is told. */
static void learn(conn_id conn, const struct msg *msg)
{
    for (int i = 0; i < PARTIES; i++) {
        struct party *party = &w.parties[i];
        if (party->control != conn)
            continue;
        if (msg->type == MSG_WELCOME) {
            party->speaker.token = msg->as.welcome.token;
            party->speaker.connection = msg->as.welcome.connection;
            party->batch = msg->as.welcome.data_number + 1;
            party->speaker.own_number = msg->as.welcome.own_numbers;
            if (!msg->as.welcome.is_resumed)
                party->speaker.number = 1;
        }
        if (msg->type == MSG_TOPIC_OPENED && msg->as.topic_opened.code == 0) {
            party->speaker.topic = msg->as.topic_opened.topic;
            party->speaker.seq = msg->as.topic_opened.next_seq;
        }
        if (msg->type == MSG_OVER || msg->type == MSG_REFUSED)
            party->speaker.token = 0;
    }
}

static const char *fact_of(const struct buffer *record)
{
    return fact_name((enum fact_type)wire_number(buffer_span(record)));
}

static void hear_all(void)
{
    struct core_port_out out;
    while (core_port_out(w.port, &out)) {
        if (out.kind == CORE_PORT_CONTROL) {
            struct msg msg;
            unsigned number;
            must(msg_decode(buffer_span(out.part), MSG_LANE_CONTROL, MSG_TO_CLIENT, &msg,
                            &number) == WIRE_OK);
            learn(out.conn, &msg);
        }
        if (out.kind == CORE_PORT_FACT) {
            effects_clear(&w.unheard);
            const char *wrong =
                core_replay(w.shadow, buffer_span(out.part), out.payload, &w.unheard);
            if (wrong != NULL)
                fprintf(stderr, "a fact cannot be: %s: %s\n", fact_of(out.part), wrong);
            must(wrong == NULL);
        }
        if (out.kind == CORE_PORT_DATA) {
            struct batch_reader reader;
            struct frame frame;
            enum wire_err err = batch_reader_init(&reader, buffer_span(out.part));
            while (err == WIRE_OK)
                err = batch_reader_next(&reader, &frame);
            must(err == WIRE_EMPTY);
        }
        buffer_unref(&out.part);
    }
    core_port_kept(w.port, core_port_steps(w.port));
}

static void data_in(conn_id conn, struct span bytes)
{
    struct buffer *part = buffer_copy(bytes);
    must(part != NULL);
    core_port_data_in(w.port, w.now, conn, &part);
}

static bool is_counted(enum msg_type type)
{
    enum msg_id id = msg_kind((unsigned)type)->id;
    return id == MSG_NUMBER || id == MSG_NUMBER_OR_0;
}

static void say(struct party *party, const struct msg *msg)
{
    static uint8_t bytes[LIMIT_CONTROL_BYTES];
    size_t count = 0;
    if (msg_encode(msg, bytes, sizeof bytes, &count) != WIRE_OK)
        return;
    uint64_t next = party->speaker.number;
    if (speech_is_data(msg->type))
        data_in(party->data, span_of(bytes, count));
    else
        core_port_control_in(w.port, w.now, party->control, span_of(bytes, count));
    hear_all();
    if (is_counted(msg->type))
        party->speaker.number = next + 1;
}

static void greet(struct party *party, struct feed *feed)
{
    struct msg hello = speech_msg_of(feed, &party->speaker, MSG_HELLO);
    hello.as.hello.heartbeat_ms = 100;
    hello.as.hello.lost_after_ms = 1000;
    say(party, &hello);
    if (hello.as.hello.role == 1)
        return;
    if (hello.as.hello.role == 0)
        say(party, &(struct msg){.type = MSG_ATTACH,
                                 .as.attach = {.token = party->speaker.token,
                                               .connection = (uint32_t)party->speaker.connection}});
    say(party, &(struct msg){.type = MSG_READY});
    if (hello.as.hello.role != 0)
        return;
    struct msg open = {.type = MSG_TOPIC_OPEN,
                       .as.topic_open.topic = span_text(
                           strcmp(party->speaker.party, "bob") == 0 ? "bob/w" : "alice/w")};
    bool is_numbered = party->speaker.own_number != 0 && hello.as.hello.dial % 2 == 1;
    if (is_numbered) {
        open.as.topic_open.own_number = party->speaker.own_number;
        party->speaker.topic = party->speaker.own_number;
        party->speaker.seq = 0;
    }
    if (!is_numbered || hello.as.hello.dial % 4 == 3) /* else TOPIC frames name it, or nothing */
        say(party, &open);
}

static void write_batch(struct party *party, struct feed *feed)
{
    uint8_t bytes[SPEECH_BATCH_BYTES_MAX];
    uint32_t frames = 0;
    size_t count = speech_batch(feed, &party->speaker, party->batch, bytes, &frames);
    party->batch += frames;
    party->speaker.seq += frames;
    data_in(party->data, span_of(bytes, count));
}

/* A group's member, and what it makes of a task. */
static void share(struct party *party, struct feed *feed)
{
    uint8_t how = feed_byte(feed);
    say(party, &(struct msg){.type = MSG_SUBSCRIBE,
                             .as.subscribe = {.number = party->speaker.number,
                                              .sub = how % 2 + 1,
                                              .pattern = span_text("alice/w"),
                                              .group = span_text("workers"),
                                              .window_bytes = 65536,
                                              .credit = how / 2 % 4,
                                              .lease_ms = how / 8 % 2 * 500,
                                              .deliver_max = how / 16 % 4}});
}

static void treat(struct party *party, struct feed *feed)
{
    uint8_t how = feed_byte(feed);
    uint8_t which = feed_byte(feed);
    say(party, &(struct msg){.type = MSG_TASK,
                             .as.task = {.number = party->speaker.number,
                                         .after = party->batch - 1,
                                         .sub = which % 2 + 1,
                                         .topic = which / 2 % 4 + 1,
                                         .seq = which / 8 % 8,
                                         .delivery = how / 4 % 4 + 1,
                                         .how = how % 4,
                                         .retry_after_ms = how / 16 - 1,
                                         .error = how % 4 == 0 ? SPAN_NONE : speech_error()}});
}

static void pass_time(int64_t for_ns)
{
    w.now.now_ns += for_ns;
    w.now.wall_ns += for_ns;
    core_port_tick(w.port, w.now);
}

static void step(struct feed *feed)
{
    uint8_t what = feed_byte(feed);
    struct party *party = &w.parties[what >> 4 & 3];
    struct msg msg;
    uint8_t told;
    w.now.random += UINT64_C(0x9e3779b97f4a7c15);
    switch (what & 15) {
    case 0: pass_time(feed_byte(feed) * MS); break;
    case 1: pass_time(feed_byte(feed) * 1000 * MS); break;
    case 2:
        core_port_closed(w.port, w.now, party->control);
        party->control = ++w.last_conn;
        break;
    case 3:
        core_port_closed(w.port, w.now, party->data);
        party->data = ++w.last_conn;
        break;
    case 4:
        core_port_control_in(w.port, w.now, party->control, feed_span(feed, feed_byte(feed)));
        break;
    case 5: data_in(party->data, feed_span(feed, feed_byte(feed))); break;
    case 6: w.now.wall_ns += ((int64_t)feed_byte(feed) - 128) * 3600000 * MS; break;
    case 7:
    case 8: write_batch(party, feed); break;
    case 9:
        told = feed_byte(feed);
        if (told == 255)
            core_port_stop(w.port, w.now);
        else if (told < HEALTH_COUNT)
            core_port_journal(w.port, w.now, (enum journal_health)told, "as it is");
        else if (told >= 100)
            scarce_fail_in(&w.scarce, told - 99);
        break;
    case 10: greet(party, feed); break;
    case 11: share(party, feed); break;
    case 12: treat(party, feed); break;
    default:
        msg = speech_msg(feed, &party->speaker, MSG_TO_BROKER);
        say(party, &msg);
        break;
    }
    hear_all();
}

/* What is durable is as the facts so far, or a snapshot, say it is. */
static void compare(void)
{
    static struct core_dump is, should;
    core_dump_take(&is, core_port_core(w.port));
    core_dump_take(&should, w.shadow);
    const char *difference = core_dump_differ(&is, &should);
    if (difference != NULL)
        fprintf(stderr, "the facts give another state: %s\n", difference);
    must(difference == NULL);
    must(core_census_miscounted(core_port_core(w.port)) == NULL);
}

/* All are gone: their sessions end, however long it takes. */
static void end(void)
{
    compare();
    for (int i = 0; i < PARTIES; i++) {
        core_port_closed(w.port, w.now, w.parties[i].control);
        hear_all();
        core_port_closed(w.port, w.now, w.parties[i].data);
        hear_all();
    }
    int steps = 0;
    while (core_session_count(core_port_core(w.port)) > 0) {
        int64_t due_ns = core_port_deadline_ns(w.port);
        must(due_ns != INT64_MAX && steps++ < END_STEPS_MAX);
        pass_time(due_ns > w.now.now_ns ? due_ns - w.now.now_ns : 0);
        hear_all();
    }
    compare();
    shadow_begin();
    core_port_snapshot(w.port);
    hear_all();
    compare();
    core_free(&w.shadow);
    core_port_free(&w.port);
    effects_fini(&w.unheard);
    must(w.scarce.memory.bytes_used == 0 && w.shadow_memory.bytes_used == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct feed feed = {data, bytes};
    begin();
    for (int i = 0; feed.left > 0 && i < STEPS_MAX; i++)
        step(&feed);
    end();
    return 0;
}
