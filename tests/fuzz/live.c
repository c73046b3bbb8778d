/* SPDX-License-Identifier: MPL-2.0 */
/* live.c -- a protocol fuzzer that speaks to a real errbusd over its sockets.
 *
 *   live CONVERSATIONS [SEED]
 *
 * A conversation is that of four parties who greet as they should, and then say what a seed makes
 * them say: messages and batches that are right, that are right but for a field, or of which some
 * bytes are changed, cut off, or put in.  They break connections and come back.  They join a group,
 * say what became of the tasks that it gives them, and want no more of it.  Among them are
 * raw peers, which speak below our protocol (zmtp.h): greetings, handshakes and frames that are
 * right, or not, whole or in pieces, and then nothing.  Meanwhile two parties of another job go
 * about their work.
 *
 * Whatever is said: the broker says what can be read, nobody else notices, nothing is left of it,
 * it ends well, its journal is whole, and another broker goes on with it.  A finding names the seed
 * of its conversation: "live 1 SEED" holds it alone. */
#include "libbus/base/must.h"
#include "libbus/wire/msg.h"
#include "tests/fuzz/speech.h"
#include "tests/fuzz/zmtp.h"
#include "tests/lib/broker.h"
#include "tests/lib/folder.h"

#include <arpa/inet.h>
#include <bus/bus.h>
#include <dirent.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <zmq.h>

enum {
    MEMBERS = 4,
    RAW_PEERS = 8,
    SPEECH_FEED_BYTES = 256, /* of chance, for all that one of them says */
    LOOK_MS = 4,
    DESCRIPTORS_MORE = 16, /* the broker may have at other times than in the beginning */
    STEPS = 60,
    FEED_BYTES = 64, /* of chance, for a step */
    SOON_MS = 20000,
    ANSWER_MS = 1000, /* a greeting may be one that is not answered */
    MUTATED_PERCENT = 20,
    RESTART_EVERY = 20, /* conversations */
    PATH_BYTES = FOLDER_PATH_BYTES_MAX + 16,
    WORK_SUB = 7,               /* the subscription by which each is in the group */
    CONVERSATIONS_TELLING = 40, /* in so many each kind of work comes about */
};

struct member {
    const char *name;
    struct speaker speaker;
    uint64_t batch;
    uint64_t broker, attempt; /* as WELCOME said */
    bool is_answered;         /* its last TOPIC_OPEN, or it is refused */
    struct msg_task lease;    /* the newest that it was given; delivery 0: none yet */
    void *control, *data;     /* sockets */
};

struct raw_peer {
    int fd; /* -1: it is not connected */
    uint8_t speech[ZMTP_BYTES_MAX + 8];
    size_t count, said;
};

static struct {
    uint64_t seed;       /* of this conversation */
    char job[32];        /* ... which has its own, for others may have been cancelled */
    uint64_t chance;     /* state */
    uint64_t raw_chance; /* ... of the raw peers, so that members say what they said without them */
    void *context;
    struct broker broker;
    struct folder folder;
    char journal[PATH_BYTES];
    struct member members[MEMBERS];
    struct raw_peer raw_peers[RAW_PEERS];
    int descriptors; /* of the broker, with those who behave alone */
    struct bus *writer, *reader;
    struct bus_sub *sub;
    uint64_t written;
    uint64_t leases, ends, drains; /* given; settled; members that want no more */
} w;

/* ---- findings -------------------------------------------------------------------------------- */

static void find(const char *what)
{
    int code = process_wait(&w.broker.process, ANSWER_MS); /* -1: it is alive */
    fprintf(stderr, "live: seed %" PRIu64 ": %s\nerrbusd (ended: %d) said:\n%s\n", w.seed, what,
            code, process_complained(&w.broker.process));
    process_fini(&w.broker.process);
    folder_fini(&w.folder);
    exit(1);
}

static void expect(bool is_so, const char *what)
{
    if (!is_so)
        find(what);
}

/* ---- chance ---------------------------------------------------------------------------------- */

/* splitmix64. */
static uint64_t draw(void)
{
    uint64_t z = (w.chance += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

static size_t draw_below(size_t below)
{
    return (size_t)(draw() % below);
}

static struct feed draw_feed(uint8_t bytes[FEED_BYTES])
{
    for (int i = 0; i < FEED_BYTES; i++)
        bytes[i] = (uint8_t)draw();
    return (struct feed){bytes, FEED_BYTES};
}

/* Some bytes of a part are others, or gone, or there are more; room for one more per change. */
static size_t mutate(uint8_t *bytes, size_t count)
{
    for (size_t changes = draw_below(3) + 1; changes > 0 && count > 0; changes--) {
        size_t at = draw_below(count);
        switch (draw_below(4)) {
        case 0: bytes[at] ^= (uint8_t)(1U << draw_below(8)); break;
        case 1: bytes[at] = (uint8_t)draw(); break;
        case 2: count = at; break;
        default:
            memmove(bytes + at + 1, bytes + at, count - at);
            bytes[at] = (uint8_t)draw();
            count += 1;
            break;
        }
    }
    return count;
}

/* ---- the broker ------------------------------------------------------------------------------ */

static void start_broker(void)
{
    const char *const options[] = {
        "--journal",   w.journal, "--durability",   "process", "--linger", "500ms",
        "--job-bytes", "1M",      "--test-parties", "64",      NULL};
    expect(broker_start(&w.broker, options), "errbusd does not start");
}

static void stop_broker(void)
{
    int code = broker_stop(&w.broker, SOON_MS);
    char what[64];
    snprintf(what, sizeof what, "errbusd ended with %d", code);
    expect(code == 0, what);
    broker_fini(&w.broker);
}

static void check_journal(void)
{
    struct process tool;
    const char *const argv[] = {"errbusd", "--check", w.journal, NULL};
    expect(process_start(&tool, argv, NULL), "errbusd --check does not start");
    int code = process_wait(&tool, SOON_MS);
    if (code != 0)
        fprintf(stderr, "%s%s", process_said(&tool), process_complained(&tool));
    expect(code == 0, "the journal is not whole");
    process_fini(&tool);
}

/* ---- those who behave ------------------------------------------------------------------------ */

static struct bus *open_well(const char *party)
{
    struct bus_options options;
    struct bus *bus = NULL;
    bus_options_init(&options);
    options.job = "well";
    options.party = party;
    expect(bus_open(w.broker.control, &options, SOON_MS, &bus, NULL) == BUS_OK,
           "a party that behaves is not let in");
    return bus;
}

static int count_descriptors(void)
{
    char path[64];
    int count = 0;
    snprintf(path, sizeof path, "/proc/%ld/fd", (long)w.broker.process.pid);
    DIR *folder = opendir(path);
    must(folder != NULL);
    while (readdir(folder) != NULL)
        count += 1;
    closedir(folder);
    return count;
}

static void begin_well(void)
{
    w.writer = open_well("writer");
    w.reader = open_well("reader");
    expect(bus_sub_open(w.reader, "writer/w", NULL, &w.sub) == BUS_OK &&
               bus_flush(w.reader, SOON_MS) == BUS_OK,
           "a party that behaves cannot subscribe");
    w.descriptors = count_descriptors();
}

static void expect_undisturbed(void)
{
    struct bus_msg *msg = NULL;
    uint64_t value = UINT64_MAX;
    expect(bus_publish(w.writer, "w", &w.written, sizeof w.written) == BUS_OK &&
               bus_flush(w.writer, SOON_MS) == BUS_OK,
           "a party that behaves cannot publish");
    while (value != w.written) {
        size_t bytes = 0;
        expect(bus_sub_recv(w.sub, SOON_MS, &msg, NULL) == BUS_OK,
               "a party that behaves does not receive");
        memcpy(&value, bus_msg_value(msg, &bytes), sizeof value);
        expect(bytes == sizeof value && value <= w.written, "another value was received");
        bus_msg_free(&msg);
    }
    w.written += 1;
}

static void end_well(void)
{
    bus_sub_close(&w.sub);
    expect(bus_close(&w.writer, SOON_MS) == BUS_OK, "a party that behaves cannot leave");
    expect(bus_close(&w.reader, SOON_MS) == BUS_OK, "a party that behaves cannot leave");
}

/* ---- what the others are told ---------------------------------------------------------------- */

static void learn(struct member *member, const struct msg *msg)
{
    struct speaker *speaker = &member->speaker;
    if (msg->type == MSG_WELCOME) {
        speaker->token = msg->as.welcome.token;
        speaker->connection = msg->as.welcome.connection;
        member->broker = msg->as.welcome.broker;
        member->attempt = msg->as.welcome.attempt;
        speaker->number = 1;
        member->batch = msg->as.welcome.data_number + 1;
    }
    if (msg->type == MSG_TOPIC_OPENED && msg->as.topic_opened.code == 0) {
        speaker->topic = msg->as.topic_opened.topic;
        speaker->seq = msg->as.topic_opened.next_seq;
    }
    if (msg->type == MSG_OVER || msg->type == MSG_REFUSED)
        speaker->token = 0;
    member->is_answered |= msg->type == MSG_TOPIC_OPENED || speaker->token == 0;
}

static void hear_control(struct member *member, zmq_msg_t *part)
{
    struct msg msg;
    unsigned number;
    struct span bytes = span_of(zmq_msg_data(part), zmq_msg_size(part));
    expect(msg_decode(bytes, MSG_LANE_CONTROL, MSG_TO_CLIENT, &msg, &number) == WIRE_OK,
           "the broker sent what is no message");
    learn(member, &msg);
}

static void hear_data(struct member *member, zmq_msg_t *head)
{
    zmq_msg_t part;
    uint32_t sub;
    struct batch_reader reader;
    struct frame frame;
    zmq_msg_init(&part);
    expect(delivery_header_read(span_of(zmq_msg_data(head), zmq_msg_size(head)), &sub) == WIRE_OK &&
               zmq_msg_more(head) && zmq_msg_recv(&part, member->data, 0) >= 0,
           "the broker sent what is no delivery");
    enum wire_err err =
        batch_reader_init(&reader, span_of(zmq_msg_data(&part), zmq_msg_size(&part)));
    while (err == WIRE_OK) {
        err = batch_reader_next(&reader, &frame);
        if (err == WIRE_OK && sub == WORK_SUB) {
            member->lease = (struct msg_task){
                .topic = frame.topic, .seq = frame.seq, .delivery = frame.delivery};
            w.leases += 1;
        }
    }
    expect(err == WIRE_EMPTY && !zmq_msg_more(&part), "the broker sent what is no batch");
    zmq_msg_close(&part);
}

/* All that is there; true: there was something. */
static bool hear(struct member *member, long timeout_ms)
{
    zmq_pollitem_t items[] = {{.socket = member->control, .events = ZMQ_POLLIN},
                              {.socket = member->data, .events = ZMQ_POLLIN}};
    bool is_any = zmq_poll(items, member->data != NULL ? 2 : 1, timeout_ms) > 0;
    for (int i = 0; i < 2; i++) {
        void *socket = items[i].socket;
        zmq_msg_t part;
        zmq_msg_init(&part);
        while (socket != NULL && zmq_msg_recv(&part, socket, ZMQ_DONTWAIT) >= 0) {
            if (i == 0)
                hear_control(member, &part);
            else
                hear_data(member, &part);
        }
        zmq_msg_close(&part);
    }
    return is_any;
}

/* ---- what they say --------------------------------------------------------------------------- */

static void *dial(const char *endpoint)
{
    int linger_ms = 0;
    void *socket = zmq_socket(w.context, ZMQ_DEALER);
    must(socket != NULL);
    zmq_setsockopt(socket, ZMQ_LINGER, &linger_ms, sizeof linger_ms);
    must(zmq_connect(socket, endpoint) == 0);
    return socket;
}

static void hang_up(void **socket)
{
    if (*socket != NULL)
        zmq_close(*socket);
    *socket = NULL;
}

/* Whoever is not heard any more may find that nothing can be sent. */
static void send_part(void *socket, uint8_t *bytes, size_t count, bool may_be_mutated)
{
    if (may_be_mutated && draw_below(100) < MUTATED_PERCENT)
        count = mutate(bytes, count);
    if (socket != NULL)
        (void)zmq_send(socket, bytes, count, ZMQ_DONTWAIT);
}

static bool is_counted(enum msg_type type)
{
    enum msg_id id = msg_kind((unsigned)type)->id;
    return id == MSG_NUMBER || id == MSG_NUMBER_OR_0;
}

static void say(struct member *member, const struct msg *msg, bool may_be_mutated)
{
    static uint8_t bytes[LIMIT_CONTROL_BYTES + 8];
    size_t count = 0;
    if (msg_encode(msg, bytes, LIMIT_CONTROL_BYTES, &count) != WIRE_OK)
        return;
    send_part(speech_is_data(msg->type) ? member->data : member->control, bytes, count,
              may_be_mutated);
    if (is_counted(msg->type))
        member->speaker.number += 1;
}

/* What it may say of this kind; its texts lie in chance. */
static struct msg draw_msg(const struct member *member, unsigned type, uint8_t chance[FEED_BYTES])
{
    struct feed feed = draw_feed(chance);
    return speech_msg_of(&feed, &member->speaker, type);
}

/* As a client does, mostly: who is refused has not much to say.  The fields of a good greeting are
 * listed.  A field that HELLO gains is 0 in it, as in that of a client that does not know it.  The
 * texts of another one lie in chance. */
static struct msg hello_of(const struct member *member, uint8_t chance[FEED_BYTES])
{
    enum { ODD_PERCENT = 15 };
    if (draw_below(100) < ODD_PERCENT)
        return draw_msg(member, MSG_HELLO, chance);
    bool is_resumed = member->speaker.token != 0;
    return (struct msg){.type = MSG_HELLO,
                        .as.hello = {.major = PROTOCOL_MAJOR,
                                     .job = span_text(w.job),
                                     .party = span_text(member->name),
                                     .role = member->name[0] == '\0',
                                     .token = member->speaker.token,
                                     .broker = is_resumed ? member->broker : 0,
                                     .attempt = is_resumed ? member->attempt : 0}};
}

/* On fresh connections. */
static void greet(struct member *member)
{
    uint8_t chance[FEED_BYTES];
    char topic[32];
    struct msg hello = hello_of(member, chance);
    hello.as.hello.heartbeat_ms = 100;
    hello.as.hello.lost_after_ms = 1000;
    hang_up(&member->control);
    hang_up(&member->data);
    member->control = dial(w.broker.control);
    if (hello.as.hello.role == 0)
        member->data = dial(w.broker.data);
    say(member, &hello, false);
    if (!hear(member, ANSWER_MS) || member->speaker.token == 0 || hello.as.hello.role == 1)
        return;
    if (hello.as.hello.role == 0)
        say(member,
            &(struct msg){.type = MSG_ATTACH,
                          .as.attach = {.token = member->speaker.token,
                                        .connection = (uint32_t)member->speaker.connection}},
            false);
    say(member, &(struct msg){.type = MSG_READY}, false);
    snprintf(topic, sizeof topic, "%s/w", member->name);
    say(member, &(struct msg){.type = MSG_TOPIC_OPEN, .as.topic_open.topic = span_text(topic)},
        false);
    member->is_answered = false;
    while (!member->is_answered && hear(member, ANSWER_MS))
        continue;
}

static void write_batch(struct member *member)
{
    static uint8_t bytes[SPEECH_BATCH_BYTES_MAX + 8];
    uint8_t chance[FEED_BYTES];
    struct feed feed = draw_feed(chance);
    uint32_t frames = 0;
    size_t count = speech_batch(&feed, &member->speaker, member->batch, bytes, &frames);
    member->batch += frames;
    member->speaker.seq += frames;
    send_part(member->data, bytes, count, true);
}

/* One value, as a good peer would write it: a task for whoever works. */
static void write_value(struct member *member)
{
    uint8_t bytes[SPEECH_BATCH_BYTES_MAX + 8];
    struct frame frame = {.flags = FRAME_VALUE,
                          .delivery = 1,
                          .attempt = (uint32_t)member->attempt,
                          .topic = (uint32_t)member->speaker.topic,
                          .seq = member->speaker.seq,
                          .reply_to = FRAME_NO_REPLY,
                          .value = span_text("a task")};
    frame_write(bytes + BATCH_HEADER_BYTES, &frame);
    size_t count = frame_total(frame.value.bytes);
    batch_header_write(bytes, 1, (uint32_t)count, member->batch);
    member->batch += 1;
    member->speaker.seq += 1;
    send_part(member->data, bytes, BATCH_HEADER_BYTES + count, true);
}

/* What a worker says: of the group, ... */
static void join(struct member *member)
{
    uint8_t chance[FEED_BYTES];
    struct msg msg = draw_msg(member, MSG_SUBSCRIBE, chance);
    msg.as.subscribe.number = member->speaker.number;
    msg.as.subscribe.sub = WORK_SUB;
    msg.as.subscribe.pattern = span_text("#");
    msg.as.subscribe.name = SPAN_NONE;
    msg.as.subscribe.group = span_text("crew");
    msg.as.subscribe.from_seq = 0;
    say(member, &msg, true);
}

/* ... that it wants no more of it, or nothing at all, ... */
static void part(struct member *member)
{
    uint8_t chance[FEED_BYTES];
    struct msg msg = draw_msg(member, MSG_UNSUBSCRIBE, chance);
    msg.as.unsubscribe.number = member->speaker.number;
    msg.as.unsubscribe.sub = WORK_SUB;
    w.drains += msg.as.unsubscribe.is_drained;
    say(member, &msg, true);
}

/* ... and of the task that it has. */
static void treat(struct member *member)
{
    uint8_t chance[FEED_BYTES];
    struct msg msg = draw_msg(member, MSG_TASK, chance);
    msg.as.task.number = member->speaker.number;
    msg.as.task.after = 0;
    msg.as.task.sub = WORK_SUB;
    msg.as.task.topic = member->lease.topic;
    msg.as.task.seq = member->lease.seq;
    msg.as.task.delivery = member->lease.delivery;
    w.ends += member->lease.delivery > 0;
    member->lease.delivery = 0;
    say(member, &msg, true);
}

static void work(struct member *member)
{
    switch (draw_below(4)) {
    case 0: join(member); break;
    case 1: part(member); break;
    default: treat(member); break;
    }
}

/* As a good worker joins. */
static void join_well(struct member *member)
{
    say(member,
        &(struct msg){.type = MSG_SUBSCRIBE,
                      .as.subscribe = {.number = member->speaker.number,
                                       .sub = WORK_SUB,
                                       .pattern = span_text("#"),
                                       .group = span_text("crew"),
                                       .keep_ms = 1000,
                                       .window_bytes = 65536,
                                       .credit = 4}},
        false);
}

/* The broker may have hung up on it, and who is to know.  If its session is over, it begins another
 * one.  What it writes then is a task that some
 * worker has, and ends: of chance alone nearly none would come about. */
static void come_back(struct member *member)
{
    greet(member);
    if (member->speaker.token == 0)
        greet(member);
    if (draw_below(2) == 0)
        join(member);
    else
        join_well(member);
    write_value(member);
    (void)hear(member, LOOK_MS);
    if (member->lease.delivery > 0)
        treat(member);
}

/* ---- raw peers ------------------------------------------------------------------------------- */

static int dial_raw(const char *endpoint)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    unsigned port = 0;
    must(sscanf(endpoint, "tcp://127.0.0.1:%u", &port) == 1);
    address.sin_port = htons((uint16_t)port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    must(fd >= 0);
    expect(connect(fd, (struct sockaddr *)&address, sizeof address) == 0,
           "a raw peer cannot connect");
    return fd;
}

/* In good order, or by a reset. */
static void go(struct raw_peer *peer)
{
    struct linger reset = {.l_onoff = 1, .l_linger = 0};
    if (peer->fd >= 0 && draw_below(2) == 0)
        (void)setsockopt(peer->fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
    if (peer->fd >= 0)
        close(peer->fd);
    peer->fd = -1;
}

/* With a greeting of our protocol in its frames, mostly; or another message. */
static void come(struct raw_peer *peer)
{
    uint8_t chance[SPEECH_FEED_BYTES];
    uint8_t payload[ZMTP_PAYLOAD_MAX];
    size_t bytes = 0;
    struct speaker speaker = {.job = w.job, .party = "dave", .number = 1};
    for (size_t i = 0; i < sizeof chance; i++)
        chance[i] = (uint8_t)draw();
    struct feed feed = {chance, sizeof chance};
    struct msg msg = feed_byte(&feed) < 128 ? speech_msg_of(&feed, &speaker, MSG_HELLO)
                                            : speech_msg(&feed, &speaker, MSG_TO_BROKER);
    if (msg_encode(&msg, payload, sizeof payload, &bytes) != WIRE_OK)
        bytes = 0;
    peer->count = zmtp_speech(&feed, span_of(payload, bytes), peer->speech);
    peer->said = 0;
    if (draw_below(100) < MUTATED_PERCENT)
        peer->count = mutate(peer->speech, peer->count);
    peer->fd = dial_raw(draw_below(2) == 0 ? w.broker.control : w.broker.data);
}

/* The next piece; or it is silent in the middle of something; or it has said all, and goes. */
static void act(struct raw_peer *peer)
{
    size_t left = peer->count - peer->said;
    size_t piece = left > 0 && draw_below(2) == 0 ? left : draw_below(left + 1);
    if (peer->fd < 0) {
        come(peer);
    } else if (piece > 0) {
        /* It may have been hung up on. */
        (void)send(peer->fd, peer->speech + peer->said, piece, MSG_NOSIGNAL | MSG_DONTWAIT);
        peer->said += piece;
        if (peer->said == peer->count) /* it is looked at before more comes about */
            (void)poll(NULL, 0, (int)draw_below(LOOK_MS));
    } else if (draw_below(4) == 0) {
        go(peer);
    }
}

static void let_a_raw_peer_act(void)
{
    uint64_t own = w.chance;
    w.chance = w.raw_chance;
    act(&w.raw_peers[draw_below(RAW_PEERS)]);
    w.raw_chance = w.chance;
    w.chance = own;
}

/* When all have gone. */
static void expect_nothing_left(void)
{
    int64_t until_ms = test_now_ms() + SOON_MS;
    while (count_descriptors() > w.descriptors + DESCRIPTORS_MORE) {
        expect(test_now_ms() < until_ms, "the broker keeps connections of those who have gone");
        (void)poll(NULL, 0, 5);
    }
}

/* ---- a conversation -------------------------------------------------------------------------- */

static void step(struct member *member)
{
    uint8_t chance[FEED_BYTES];
    struct feed feed = draw_feed(chance);
    struct msg msg;
    switch (draw_below(24)) {
    case 0: greet(member); break;
    case 1: hang_up(&member->data); break;
    case 2: (void)hear(member, 5); break; /* answers have come by then, or not */
    case 3:
    case 4:
    case 5: write_batch(member); break;
    case 6: send_part(member->control, chance, draw_below(FEED_BYTES), false); break;
    case 7: send_part(member->data, chance, draw_below(FEED_BYTES), false); break;
    case 8:
    case 9:
    case 10:
    case 11: work(member); break;
    case 12:
    case 13: write_value(member); break;
    case 14:
    case 15: come_back(member); break;
    default:
        msg = speech_msg(&feed, &member->speaker, MSG_TO_BROKER);
        say(member, &msg, true);
        break;
    }
    if (member->control != NULL)
        (void)hear(member, 0);
}

static void converse(uint64_t seed)
{
    static const char *const names[MEMBERS] = {"alice", "bob", "carol", ""};
    w.seed = seed;
    w.chance = seed;
    w.raw_chance = ~seed;
    snprintf(w.job, sizeof w.job, "job-%" PRIu64, seed);
    for (int i = 0; i < MEMBERS; i++) {
        w.members[i] = (struct member){.name = names[i],
                                       .speaker = {.job = w.job, .party = names[i], .number = 1},
                                       .batch = 1};
        greet(&w.members[i]);
    }
    for (int i = 0; i < RAW_PEERS; i++)
        w.raw_peers[i].fd = -1;
    for (int i = 0; i < STEPS; i++) {
        step(&w.members[draw_below(MEMBERS)]);
        let_a_raw_peer_act();
        let_a_raw_peer_act();
    }
    expect_undisturbed();
    for (int i = 0; i < RAW_PEERS; i++)
        go(&w.raw_peers[i]);
    for (int i = 0; i < MEMBERS; i++) {
        hang_up(&w.members[i].control);
        hang_up(&w.members[i].data);
    }
    expect_nothing_left();
}

/* What was decided until now is what another broker begins with. */
static void restart(void)
{
    end_well();
    stop_broker();
    check_journal();
    start_broker();
    begin_well();
}

int main(int argc, char **argv)
{
    must(argc == 2 || argc == 3);
    uint64_t conversations = strtoull(argv[1], NULL, 10);
    uint64_t first = argc == 3 ? strtoull(argv[2], NULL, 10) : 1;
    w.context = zmq_ctx_new();
    must(w.context != NULL && folder_make(&w.folder));
    snprintf(w.journal, sizeof w.journal, "%s/journal", w.folder.path);
    start_broker();
    begin_well();
    for (uint64_t i = 0; i < conversations; i++) {
        converse(first + i);
        if (i % RESTART_EVERY == RESTART_EVERY - 1)
            restart();
    }
    restart();
    end_well();
    stop_broker();
    zmq_ctx_term(w.context);
    folder_fini(&w.folder);
    printf("%" PRIu64 " conversations, %" PRIu64 " leases, %" PRIu64 " tasks settled, %" PRIu64
           " wanted no more\n",
           conversations, w.leases, w.ends, w.drains);
    must(conversations < CONVERSATIONS_TELLING ||
         (w.leases >= conversations && w.ends >= conversations / 4 && w.drains > 0));
    return 0;
}
