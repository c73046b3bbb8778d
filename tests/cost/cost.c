/* SPDX-License-Identifier: MPL-2.0 */
/* cost.c -- work to be counted: values and errors from a writer's session through the port and the
 * core to readers' sessions, in one thread, with no socket, clock or lock between them.
 *
 *   cost WORK COUNT [topics=N] [parties=N] [slots=N]
 *   cost metrics|status STEPS [topics=N] [parties=N] [slots=N]
 *
 * Does WORK for COUNT values once to warm up, then again, and that is counted (cost.sh: by
 * callgrind, which is asked to begin and end here).  What lies around it (other topics, parties,
 * open slots) is there before, and how many bytes the broker has then is said.
 *
 * A question of an operator is answered in steps.  Each is counted alone, with the rows that
 * it tells, encoded; there have to be at least STEPS of them. */
#include "broker/io/core_port.h"
#include "libbus/base/must.h"
#include "libbus/session/session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <valgrind/callgrind.h>

enum { READERS_MAX = 8, LOT = 64, VALUE_BYTES_MAX = 4096, VALUES_AT_ONCE = 1024 };
enum { TOPIC_BYTES_LEAST = 100 };
enum { OUTS_MAX = 4096 };                                               /* messages of one step */
enum { TOPICS_OF_ONE = 10000, SLOTS_OF_ONE = 50000, PARTIES_MAX = 64 }; /* of what lies around */

/* A party: its session, and its connections, numbered by their place. */
struct party {
    struct session *session;
    struct party *next; /* of those that have something to say */
    bool is_listed;
    uint32_t dials;
};

static struct memory memory; /* of the broker */
static struct memory party_memory;
static struct core_port *port;
static struct party *parties;
static uint32_t party_count;
static struct party *talking;
static uint64_t clients;
static const struct core_port_now now = {.now_ns = 1, .wall_ns = 1, .random = 1};

/* ---- the wire -------------------------------------------------------------------------------- */

enum { LANES = 2, DIALS_MAX = 8 };

static conn_id conn_of(const struct party *party, unsigned lane)
{
    uint32_t index = (uint32_t)(party - parties);
    return 1 + (index * DIALS_MAX + party->dials) * LANES + lane;
}

static void list(struct party *party)
{
    if (party->is_listed)
        return;
    party->is_listed = true;
    party->next = talking;
    talking = party;
}

/* What the broker has to say goes where it belongs. */
static void hear(void)
{
    static struct core_port_out out;
    while (core_port_out(port, &out)) {
        struct party *party = &parties[(out.conn - 1) / LANES / DIALS_MAX];
        must(out.kind != CORE_PORT_DROP);
        if (out.kind == CORE_PORT_CONTROL)
            session_control_in(party->session, now.now_ns, buffer_span(out.part));
        else if (out.kind == CORE_PORT_DATA)
            session_data_in(party->session, now.now_ns, span_of(out.head, sizeof out.head),
                            &out.part);
        if (out.kind == CORE_PORT_CONTROL || out.kind == CORE_PORT_DATA)
            list(party);
        buffer_unref(&out.part);
    }
}

static void dial(struct party *party)
{
    enum session_action action;
    while ((action = session_action(party->session)) != SESSION_NOTHING) {
        must(action == SESSION_CONNECT_CONTROL || action == SESSION_CONNECT_DATA);
        party->dials += action == SESSION_CONNECT_CONTROL;
        must(party->dials < DIALS_MAX);
    }
}

static void speak(struct party *party)
{
    static uint8_t bytes[LIMIT_CONTROL_BYTES];
    size_t count;
    struct buffer *part;
    dial(party);
    while (session_control_out(party->session, now.now_ns, bytes, &count)) {
        session_control_sent(party->session);
        core_port_control_in(port, now, conn_of(party, 0), span_of(bytes, count));
        hear();
    }
    while ((part = session_data_out(party->session, now.now_ns)) != NULL) {
        struct buffer *sent = buffer_ref(part);
        session_data_sent(party->session);
        core_port_data_in(port, now, conn_of(party, 1), &sent);
        hear();
    }
    (void)session_news(party->session);
}

/* Until nobody has anything to say. */
static void talk(struct party *first)
{
    list(first);
    while (talking != NULL) {
        struct party *party = talking;
        talking = party->next;
        party->is_listed = false;
        speak(party);
    }
}

static struct party *join(const char *name)
{
    struct party *party = &parties[party_count++];
    struct session_options options = {.job = span_text("job"),
                                      .party = span_text(name),
                                      .library = span_text("cost"),
                                      .host = span_text("here"),
                                      .client = ++clients,
                                      .heartbeat_ms = 3600000,
                                      .lost_after_ms = 36000000,
                                      .grace_ms = 36000000,
                                      .broker_lost_ms = 36000000,
                                      .outbox_bytes_max = (size_t)1 << 28,
                                      .inbox_bytes_max = (size_t)1 << 28};
    must(session_new(&party_memory, &options, now.now_ns, &party->session) == CODE_OK);
    session_tick(party->session, now.now_ns);
    talk(party);
    must(session_state(party->session) == SESSION_UP);
    return party;
}

/* ---- what lies around ------------------------------------------------------------------------ */

static uint32_t topic_of(struct party *party, const char *name)
{
    uint32_t topic = 0;
    enum wire_code code;
    while ((code = session_topic(party->session, span_text(name), &topic)) == CODE_ETIMEDOUT)
        talk(party);
    must(code == CODE_OK);
    return topic;
}

static uint64_t reserve(struct party *party, uint32_t topic)
{
    uint64_t seq = 0;
    enum wire_code code;
    while ((code = session_reserve(party->session, now.now_ns, topic, -1, -1, 0, &seq)) ==
           CODE_ETIMEDOUT)
        talk(party);
    must(code == CODE_OK);
    return seq;
}

/* Topics that nobody reads, parties that say nothing, promises that nobody keeps. */
static void surround(uint64_t topics, uint64_t others, uint64_t slots)
{
    struct party *party = NULL;
    char name[64];
    uint64_t before = memory.bytes_used;
    for (uint64_t i = 0; i < others; i++) {
        snprintf(name, sizeof name, "other-%llu", (unsigned long long)i);
        (void)join(name);
    }
    for (uint64_t i = 0; i < topics; i++) {
        if (i % TOPICS_OF_ONE == 0) {
            snprintf(name, sizeof name, "talker-%llu", (unsigned long long)(i / TOPICS_OF_ONE));
            party = join(name);
        }
        snprintf(name, sizeof name, "talker-%llu/%llu", (unsigned long long)(i / TOPICS_OF_ONE),
                 (unsigned long long)i);
        (void)topic_of(party, name);
        if (i % LOT == LOT - 1 || i % TOPICS_OF_ONE == TOPICS_OF_ONE - 1 || i == topics - 1)
            talk(party);
    }
    must(memory.bytes_used - before >= topics * TOPIC_BYTES_LEAST); /* the broker has them */
    for (uint64_t i = 0; i < slots; i++) {
        if (i == 0)
            party = join("promiser");
        snprintf(name, sizeof name, "promiser/%llu", (unsigned long long)(i / SLOTS_OF_ONE));
        (void)reserve(party, topic_of(party, name));
        if (i % LOT == LOT - 1 || i == slots - 1)
            talk(party);
    }
}

/* ---- the work -------------------------------------------------------------------------------- */

struct stream {
    struct party *writer;
    uint32_t topic;
    struct party *readers[READERS_MAX];
    uint32_t subs[READERS_MAX];
    unsigned reader_count;
    uint64_t read; /* by all readers */
};

static void open_stream(struct stream *stream, unsigned readers)
{
    const struct session_sub_options options = {.from_seq = 0};
    char name[16];
    *stream = (struct stream){.writer = join("writer"), .reader_count = readers};
    stream->topic = topic_of(stream->writer, "writer/w");
    for (unsigned i = 0; i < readers; i++) {
        snprintf(name, sizeof name, "reader-%u", i);
        stream->readers[i] = join(name);
        must(session_subscribe(stream->readers[i]->session, span_text("writer/w"), &options,
                               &stream->subs[i]) == CODE_OK);
        talk(stream->readers[i]);
    }
}

/* Takes and acknowledges all that came. */
static void read_all(struct stream *stream, enum session_item_kind kind)
{
    for (unsigned i = 0; i < stream->reader_count; i++) {
        struct session *session = stream->readers[i]->session;
        struct session_item item;
        struct buffer *error = NULL;
        while (session_sub_take_range(session, stream->subs[i], VALUES_AT_ONCE, &item, &error) ==
               CODE_OK) {
            must(item.kind == kind);
            uint64_t count = kind == SESSION_ITEM_VALUE ? item.count : 1;
            session_ack_range(session, stream->subs[i], item.topic, item.seq, count);
            buffer_unref(&item.buffer);
            stream->read += count;
        }
        talk(stream->readers[i]);
    }
}

/* Values of this size one by one, so many before they are sent. */
static void publish(struct stream *stream, uint64_t count, size_t bytes, uint64_t lot)
{
    static const uint8_t zeros[VALUE_BYTES_MAX];
    struct span value = span_of(zeros, bytes);
    for (uint64_t i = 0; i < count; i++) {
        enum wire_code code;
        while ((code = session_publish(stream->writer->session, now.now_ns, stream->topic, &value,
                                       1, NULL)) == CODE_ETIMEDOUT)
            talk(stream->writer);
        must(code == CODE_OK);
        if (i % lot == lot - 1 || i == count - 1) {
            talk(stream->writer);
            read_all(stream, SESSION_ITEM_VALUE);
        }
    }
}

/* Promised, then kept or broken, one by one. */
static void settle(struct stream *stream, uint64_t count, bool fails)
{
    static const uint8_t zeros[256];
    uint8_t error[512];
    size_t error_bytes = 0;
    struct error_record record;
    error_record_init(&record);
    record.id = span_text("job/writer/1/1");
    record.job = span_text("job");
    record.party = span_text("writer");
    record.type = span_text("cost.failed");
    record.message = span_text("as it was meant to");
    must(error_encode(&record, 1, error, sizeof error, &error_bytes) == WIRE_OK);
    for (uint64_t i = 0; i < count; i++) {
        struct session *session = stream->writer->session;
        uint64_t seq = reserve(stream->writer, stream->topic);
        if (fails)
            session_fail(session, now.now_ns, stream->topic, seq, span_of(error, error_bytes));
        else
            must(session_commit(session, now.now_ns, stream->topic, seq,
                                span_of(zeros, sizeof zeros)) == CODE_OK);
        talk(stream->writer);
        read_all(stream, fails ? SESSION_ITEM_ERROR : SESSION_ITEM_VALUE);
    }
}

static const struct work {
    const char *name;
    size_t bytes;
    uint64_t lot; /* 0: promised first */
    unsigned readers;
    bool fails;
} works[] = {
    {"small", 16, VALUES_AT_ONCE, 1, false}, /* many, in one frame */
    {"lots", 256, LOT, 1, false},            /* some in a batch */
    {"pages", 4096, 8, 1, false},            /* the same, of 4 KiB */
    {"alone", 256, 1, 1, false},             /* a batch each */
    {"fan", 256, LOT, READERS_MAX, false},   /* to eight */
    {"kept", 256, 0, 1, false},              /* a promise, a value */
    {"broken", 0, 0, 1, true},               /* a promise, an error */
};

static void carry_out(const struct work *work, struct stream *stream, uint64_t count)
{
    if (work->lot > 0)
        publish(stream, count, work->bytes, work->lot);
    else
        settle(stream, count, work->fails);
}

/* ---- what operators ask ---------------------------------------------------------------------- */

/* One step: the question, or none while its answer goes on.  Whether the answer is over; cursor: of
 * its next part, or 0. */
static bool step_counted(conn_id conn, const struct msg *question, uint64_t *cursor)
{
    static uint8_t bytes[LIMIT_CONTROL_BYTES];
    static struct core_port_out outs[OUTS_MAX];
    size_t count = 0;
    size_t out_count = 0;
    bool is_over = false;
    if (question != NULL)
        must(msg_encode(question, bytes, sizeof bytes, &count) == WIRE_OK);
    CALLGRIND_ZERO_STATS;
    if (question != NULL)
        core_port_control_in(port, now, conn, span_of(bytes, count));
    else
        core_port_tick(port, now);
    while (out_count < OUTS_MAX && core_port_out(port, &outs[out_count]))
        out_count += 1;
    CALLGRIND_DUMP_STATS;
    must(out_count < OUTS_MAX);
    for (size_t i = 0; i < out_count; i++) {
        struct msg msg;
        must(outs[i].kind == CORE_PORT_CONTROL);
        must(msg_decode(buffer_span(outs[i].part), MSG_LANE_CONTROL, MSG_TO_CLIENT, &msg, NULL) ==
             WIRE_OK);
        is_over |= msg.type == MSG_METRICS_END || msg.type == MSG_STATUS_END;
        if (msg.type == MSG_STATUS_END)
            *cursor = msg.as.status_end.cursor;
        buffer_unref(&outs[i].part);
    }
    return is_over;
}

/* One party reads all topics, so there is a subscription with as many routes. */
static void ask(enum msg_type type, uint64_t steps_least)
{
    const struct session_sub_options options = {.from_seq = 0};
    struct msg question = {.type = type};
    uint32_t sub = 0;
    uint64_t steps = 0;
    uint64_t cursor = 0;
    struct party *reader = join("reader");
    must(session_subscribe(reader->session, span_text("#"), &options, &sub) == CODE_OK);
    talk(reader);
    conn_id conn = conn_of(join(""), 0);
    CALLGRIND_START_INSTRUMENTATION; /* once: to begin takes a quarter of a second */
    do {
        if (type == MSG_STATUS)
            question.as.status = (struct msg_status){.request = ++steps, .cursor = cursor};
        else
            question.as.metrics.request = ++steps;
        cursor = 0;
        if (step_counted(conn, &question, &cursor))
            continue;
        do
            steps += 1;
        while (!step_counted(conn, NULL, &cursor));
    } while (cursor != 0);
    CALLGRIND_STOP_INSTRUMENTATION;
    must(steps >= steps_least);
}

static uint64_t number_of(int argc, char **argv, const char *name)
{
    size_t bytes = strlen(name);
    for (int i = 3; i < argc; i++)
        if (strncmp(argv[i], name, bytes) == 0 && argv[i][bytes] == '=')
            return strtoull(argv[i] + bytes + 1, NULL, 10);
    return 0;
}

static void count_work(const struct work *work, uint64_t count)
{
    struct stream stream;
    open_stream(&stream, work->readers);
    carry_out(work, &stream, count);
    CALLGRIND_START_INSTRUMENTATION;
    carry_out(work, &stream, count);
    CALLGRIND_STOP_INSTRUMENTATION;
    must(stream.read == 2 * count * work->readers);
}

int main(int argc, char **argv)
{
    const struct work *work = NULL;
    for (size_t i = 0; argc > 2 && i < sizeof works / sizeof works[0]; i++)
        if (strcmp(works[i].name, argv[1]) == 0)
            work = &works[i];
    bool is_metrics = argc > 2 && strcmp(argv[1], "metrics") == 0;
    bool is_question = is_metrics || (argc > 2 && strcmp(argv[1], "status") == 0);
    if (work == NULL && !is_question) {
        fprintf(stderr, "usage: %s WORK COUNT [topics=N] [parties=N] [slots=N]\n", argv[0]);
        return 2;
    }
    uint64_t count = strtoull(argv[2], NULL, 10);
    uint64_t others = number_of(argc, argv, "parties");
    struct core_options options;
    core_options_init(&options);
    options.broker = 1;
    options.data_endpoint = "inproc://data";
    options.version = "cost";
    options.open_slots_max = UINT32_MAX;
    options.topics_max = UINT32_MAX;
    memory_heap_init(&memory, UINT64_MAX);
    memory_heap_init(&party_memory, UINT64_MAX);
    parties = calloc(others + PARTIES_MAX, sizeof *parties);
    port = core_port_new(&memory, &options, now.now_ns);
    must(parties != NULL && port != NULL);
    surround(number_of(argc, argv, "topics"), others, number_of(argc, argv, "slots"));
    printf("bytes %llu\n", (unsigned long long)memory.bytes_used);
    if (is_question)
        ask(is_metrics ? MSG_METRICS : MSG_STATUS, count);
    else
        count_work(work, count);
    for (uint32_t i = 0; i < party_count; i++)
        session_free(&parties[i].session);
    core_port_free(&port);
    free(parties);
    return 0;
}
