/* SPDX-License-Identifier: MPL-2.0 */
/* hostile_test.c -- bytes that are no message, on both channels: refused, counted, named, and
 * nobody else notices.
 *
 * The few messages that a raw peer needs to get in are packed by hand here, so that this test does
 * not trust the library's own idea of them. */
#include "tests/lib/bystanders.h"
#include "tests/lib/expect.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <zmq.h>

static void *context;

static void open_all(void)
{
    stage_open();
    context = zmq_ctx_new();
    bystanders_open();
}

static void close_all(void)
{
    bystanders_close();
    zmq_ctx_term(context);
    stage_close();
}

TestSuite(hostile, .init = open_all, .fini = close_all, .timeout = 120);

/* Waits for the broker to have counted so many refusals. */
static void expect_refused(uint64_t count)
{
    int64_t until_ms = test_now_ms() + SOON_MS;
    uint64_t got = refused_count();
    while (got < count && test_now_ms() < until_ms) {
        got = refused_count();
    }
    cr_assert_geq(got, count, "%llu refused, not %llu", (unsigned long long)got,
                  (unsigned long long)count);
}

/* ---- a raw peer ------------------------------------------------------------------------------ */

/* So many parts, and bytes, are taken in by libzmq and the system before somebody reads; 0: as
 * usual. */
static void *dial_narrow(const char *endpoint, int parts, int bytes)
{
    int linger_ms = 0;
    void *socket = zmq_socket(context, ZMQ_DEALER);
    cr_assert_not_null(socket);
    zmq_setsockopt(socket, ZMQ_LINGER, &linger_ms, sizeof linger_ms);
    if (parts > 0)
        zmq_setsockopt(socket, ZMQ_RCVHWM, &parts, sizeof parts);
    if (bytes > 0)
        zmq_setsockopt(socket, ZMQ_RCVBUF, &bytes, sizeof bytes);
    cr_assert_eq(zmq_connect(socket, endpoint), 0);
    return socket;
}

static void *dial(const char *endpoint)
{
    return dial_narrow(endpoint, 0, 0);
}

static void send_part(void *socket, const void *bytes, size_t count, int flags)
{
    cr_assert_eq(zmq_send(socket, bytes, count, flags), (int)count, "%s", zmq_strerror(errno));
}

struct bytes {
    uint8_t at[1024];
    size_t count;
};

static void put(struct bytes *bytes, uint8_t byte)
{
    bytes->at[bytes->count++] = byte;
}

static void put_u64(struct bytes *bytes, uint64_t number)
{
    put(bytes, 0xcf);
    for (int shift = 56; shift >= 0; shift -= 8) {
        put(bytes, (uint8_t)(number >> shift));
    }
}

/* The shortest forms, as msgpack packs them. */
static void put_number(struct bytes *bytes, uint64_t number)
{
    if (number < 128) {
        put(bytes, (uint8_t)number);
    } else if (number < 65536) {
        put(bytes, number < 256 ? 0xcc : 0xcd);
        if (number >= 256) {
            put(bytes, (uint8_t)(number >> 8));
        }
        put(bytes, (uint8_t)number);
    } else {
        put_u64(bytes, number);
    }
}

static void put_text(struct bytes *bytes, const char *text)
{
    size_t count = strlen(text);
    put(bytes, (uint8_t)(0xa0 | count));
    memcpy(bytes->at + bytes->count, text, count);
    bytes->count += count;
}

/* [1, major, minor, library, credentials, job, party, role, token, heartbeat_ms, lost_after_ms,
 * grace_ms]: the row HELLO of messages.def */
static struct bytes hello(uint64_t major, const char *job, const char *party, uint64_t token)
{
    struct bytes bytes = {.count = 0};
    put(&bytes, 0x9c);
    put_number(&bytes, 1);
    put_number(&bytes, major);
    put_number(&bytes, 0);
    put_text(&bytes, "newcomer");
    put(&bytes, 0xc4);
    put(&bytes, 0);
    put_text(&bytes, job);
    put_text(&bytes, party);
    put_number(&bytes, 0);
    put_number(&bytes, token);
    put_number(&bytes, 1000);
    put_number(&bytes, 10000);
    put_number(&bytes, 1000);
    return bytes;
}

/* The number of the message that the broker answers with; *out_part is the whole of it. */
static int receive_message(void *socket, zmq_msg_t *out_part)
{
    zmq_pollitem_t item = {.socket = socket, .events = ZMQ_POLLIN};
    cr_assert_eq(zmq_poll(&item, 1, SOON_MS), 1, "no answer");
    zmq_msg_init(out_part);
    cr_assert_geq(zmq_msg_recv(out_part, socket, 0), 2);
    const uint8_t *at = zmq_msg_data(out_part);
    cr_assert((at[0] & 0xf0) == 0x90 || at[0] == 0xdc, "not an array");
    return at[0] == 0xdc ? at[3] : at[1];
}

#define WELCOME 64
#define REFUSED 65
#define ATTACHED 66
#define TOPIC_OPENED 69

static void expect_answer(void *socket, int number, const char *contains)
{
    zmq_msg_t part;
    int got = receive_message(socket, &part);
    cr_assert_eq(got, number, "answered by message %d: %.*s", got, (int)zmq_msg_size(&part),
                 (const char *)zmq_msg_data(&part));
    cr_assert_not_null(memmem(zmq_msg_data(&part), zmq_msg_size(&part), contains, strlen(contains)),
                       "the answer does not say '%s': %.*s", contains, (int)zmq_msg_size(&part),
                       (const char *)zmq_msg_data(&part));
    zmq_msg_close(&part);
}

/* A control connection with a session, as party mallory. */
static void *join_as_mallory(void)
{
    void *control = dial(stage.control);
    struct bytes bytes = hello(1, "default", "mallory", 0);
    send_part(control, bytes.at, bytes.count, 0);
    expect_answer(control, WELCOME, "");
    return control;
}

/* A field that is an unsigned number, of whatever width. */
static uint64_t take_number(const uint8_t **at)
{
    uint8_t first = *(*at)++;
    if (first < 0x80) {
        return first;
    }
    cr_assert(first >= 0xcc && first <= 0xcf, "no number: %02x", first);
    uint64_t number = 0;
    for (int bytes = 1 << (first - 0xcc); bytes > 0; bytes--) {
        number = number << 8 | *(*at)++;
    }
    return number;
}

/* A control connection that was just made gets a session, and a data connection of it. */
static void attach(const char *party, void *control, void **out_data)
{
    struct bytes bytes = hello(1, "default", party, 0);
    zmq_msg_t part;
    uint64_t fields[8]; /* WELCOME's up to data_endpoint, its own number first */
    send_part(control, bytes.at, bytes.count, 0);
    cr_assert_eq(receive_message(control, &part), WELCOME);
    const uint8_t *at = zmq_msg_data(&part);
    at += *at == 0xdc ? 3 : 1; /* msgpack's array 16, or a short one */
    for (size_t i = 0; i < 8; i++) {
        fields[i] = take_number(&at);
    }
    take_number(&at); /* data_number */
    cr_assert(*at == 0xd9 || (*at & 0xe0) == 0xa0, "no text: %02x", *at);
    at += *at == 0xd9 ? 2 + at[1] : 1 + (*at & 0x1f);
    take_number(&at); /* value_bytes_max */
    take_number(&at); /* broker_ns, which is not negative */
    uint64_t connection = take_number(&at);
    zmq_msg_close(&part);

    void *data = dial(stage.data);
    bytes = (struct bytes){.count = 0};
    put(&bytes, 0x93);
    put(&bytes, 2);
    put_number(&bytes, fields[4]); /* token */
    put_number(&bytes, connection);
    send_part(data, bytes.at, bytes.count, 0);
    send_part(control, "\x91\x04", 2, 0); /* READY */
    cr_assert_eq(receive_message(control, &part), ATTACHED);
    zmq_msg_close(&part);
    *out_data = data;
}

static void attach_as(const char *party, void **out_control, void **out_data)
{
    *out_control = dial(stage.control);
    attach(party, *out_control, out_data);
}

/* ---- what raw peers send ----------------------------------------------------------------------*/

static void expect_greeting_refused(struct bytes greeting, const char *type)
{
    void *control = dial(stage.control);
    send_part(control, greeting.at, greeting.count, 0);
    expect_answer(control, REFUSED, type);
    zmq_close(control);
}

Test(hostile, greetings_are_answered_or_refused)
{
    void *control = join_as_mallory();
    bystanders_expect_undisturbed();
    zmq_close(control);
    expect_greeting_refused(hello(99, "default", "eve", 0), "errbus.version");
    expect_greeting_refused(hello(1, "default", "writer", 0), "errbus.name_taken");
    expect_greeting_refused(hello(1, "default", "a/b", 0), "errbus.name");
    expect_greeting_refused(hello(1, "default", "writer", 0x1234567890), "errbus.fenced");
    bystanders_expect_undisturbed();
}

/* A broker whose rounds take so long that it reads of one connection that it is gone, and of the
 * next one what it says first, in one round. */
struct slow_broker {
    struct process process;
    struct folder folder;
    char control[FOLDER_PATH_BYTES_MAX + 16], data[FOLDER_PATH_BYTES_MAX + 16];
};

static void slow_start(struct slow_broker *slow)
{
    static const char *const environment[] = {"ERRBUS_SLOW=round:200", NULL};
    const char *const argv[] = {"errbusd_failpoints", "--open", "--journal", "none", "--control",
                                slow->control,        "--data", slow->data,  NULL};
    const char *line = NULL;
    cr_assert(folder_make(&slow->folder));
    snprintf(slow->control, sizeof slow->control, "ipc://%s/control", slow->folder.path);
    snprintf(slow->data, sizeof slow->data, "ipc://%s/data", slow->folder.path);
    cr_assert(process_start(&slow->process, argv, environment));
    cr_assert(process_line(&slow->process, SOON_MS, &line), "%s",
              process_complained(&slow->process));
}

static void slow_stop(struct slow_broker *slow)
{
    process_signal(&slow->process, SIGTERM);
    cr_expect_eq(process_wait(&slow->process, SOON_MS), 0);
    process_fini(&slow->process);
    folder_fini(&slow->folder);
}

static void *greet(const char *endpoint, const char *party)
{
    struct bytes bytes = hello(1, "default", party, 0);
    void *socket = dial(endpoint);
    send_part(socket, bytes.at, bytes.count, 0);
    return socket;
}

static void hang_up(void *socket)
{
    zmq_close(socket);
    zmq_ctx_term(context); /* the connection is closed now */
    context = zmq_ctx_new();
}

/* A greeting waits where the broker is not done with who left, and so does what is said behind it:
 * as the first word of a connection it would be refused. */
Test(hostile, more_than_a_greeting_is_taken_in_order)
{
    struct slow_broker slow;
    slow_start(&slow);
    for (int i = 0; i < 4; i++) {
        void *socket = greet(slow.control, "mallory");
        send_part(socket, "\x91\x04", 2, 0); /* READY */
        expect_answer(socket, WELCOME, "");
        hang_up(socket);
    }
    slow_stop(&slow);
}

/* More than may wait is taken in order, too. */
Test(hostile, much_more_than_a_greeting_is_taken_in_order)
{
    enum { PARTS = 30 }; /* 4.8 MB */
    static uint8_t large[160 * 1000];
    struct slow_broker slow;
    slow_start(&slow);
    for (int i = 0; i < 4; i++) {
        void *first = greet(slow.control, "mallory");
        expect_answer(first, WELCOME, "");
        hang_up(first);
        void *second = greet(slow.control, "eve");
        for (int part = 0; part < PARTS; part++)
            send_part(second, large, sizeof large, 0);
        expect_answer(second, WELCOME, "");
        hang_up(second);
    }
    slow_stop(&slow);
}

Test(hostile, truncated_greetings_are_refused_at_every_byte)
{
    uint64_t before = refused_count();
    struct bytes whole = hello(1, "default", "mallory", 0);
    for (size_t count = 0; count < whole.count; count++) {
        void *control = dial(stage.control);
        send_part(control, whole.at, count, 0);
        expect_refused(++before);
        zmq_close(control);
    }
    bystanders_expect_undisturbed();
    struct bus_status_row row;
    cr_expect_not(find_row("default", BUS_STATUS_PARTY, "mallory", &row));
}

Test(hostile, bytes_are_refused_on_both_channels)
{
    static uint8_t large[1408 * 1024]; /* above LIMIT_PART_BYTES */
    static uint8_t deep[4096];
    static const uint8_t huge_array[] = {0xdd, 0xff, 0x00, 0x00, 0x00};
    static const uint8_t huge_bin[] = {0xc6, 0xff, 0xff, 0xff, 0xff, 0x00};
    static const uint8_t unknown[] = {0x91, 0x7f};
    static const uint8_t reserved[] = {0xc1};
    static const uint8_t map[] = {0x81, 0x01, 0x02};
    static const uint8_t text[] = "GET / HTTP/1.1\r\n\r\n";
    const struct {
        const void *bytes;
        size_t count;
    } parts[] = {
        {"", 0},
        {large, 200000}, /* above LIMIT_CONTROL_BYTES; on the data channel, zeros */
        {deep, sizeof deep},
        {huge_array, sizeof huge_array},
        {huge_bin, sizeof huge_bin},
        {unknown, sizeof unknown},
        {reserved, sizeof reserved},
        {map, sizeof map},
        {text, sizeof text},
    };
    const char *const endpoints[] = {stage.control, stage.data};
    memset(deep, 0x91, sizeof deep);
    uint64_t before = refused_count();
    for (size_t channel = 0; channel < 2; channel++) {
        for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
            void *socket = dial(endpoints[channel]);
            send_part(socket, parts[i].bytes, parts[i].count, 0);
            expect_refused(++before);
            zmq_close(socket);
        }
        void *socket = dial(endpoints[channel]);
        send_part(socket, large, channel == 0 ? 300000 : sizeof large, 0);
        expect_refused(++before);
        zmq_close(socket);
        socket = dial(endpoints[channel]);
        send_part(socket, text, sizeof text, ZMQ_SNDMORE);
        send_part(socket, text, sizeof text, ZMQ_SNDMORE);
        send_part(socket, text, sizeof text, 0);
        expect_refused(++before);
        zmq_close(socket);
        bystanders_expect_undisturbed();
    }
}

/* What is many times too large is not even taken in: libzmq closes the connection. */
Test(hostile, parts_far_too_large_are_dropped)
{
    static uint8_t huge[16 * 1024 * 1024];
    const char *const endpoints[] = {stage.control, stage.data};
    /* Two names: libzmq gives one back in its own time. */
    const char *const monitors[] = {"inproc://monitor-control", "inproc://monitor-data"};
    for (size_t channel = 0; channel < 2; channel++) {
        void *socket = dial(endpoints[channel]);
        void *monitor = zmq_socket(context, ZMQ_PAIR);
        cr_assert_eq(zmq_socket_monitor(socket, monitors[channel], ZMQ_EVENT_DISCONNECTED), 0);
        cr_assert_eq(zmq_connect(monitor, monitors[channel]), 0);
        send_part(socket, huge, sizeof huge, 0);
        zmq_pollitem_t item = {.socket = monitor, .events = ZMQ_POLLIN};
        cr_expect_eq(zmq_poll(&item, 1, SOON_MS), 1, "the connection was not closed");
        zmq_socket_monitor(socket, NULL, 0);
        zmq_close(monitor);
        zmq_close(socket);
        bystanders_expect_undisturbed();
    }
}

static void send_random(void *socket, uint64_t *state)
{
    uint8_t bytes[512];
    *state = *state * 6364136223846793005U + 1442695040888963407U;
    size_t count = (size_t)(*state >> 33) % sizeof bytes;
    for (size_t i = 0; i < count; i++) {
        *state = *state * 6364136223846793005U + 1442695040888963407U;
        bytes[i] = (uint8_t)(*state >> 56);
    }
    send_part(socket, bytes, count, 0);
}

/* A connection is forgotten at its first violation, so each counts once. */
Test(hostile, random_bytes_are_refused_on_both_channels)
{
    uint64_t state = 20260101;
    const char *const endpoints[] = {stage.control, stage.data};
    uint64_t before = refused_count();
    for (int connection = 0; connection < 100; connection++) {
        void *socket = dial(endpoints[connection % 2]);
        for (int i = 0; i < 20; i++) {
            send_random(socket, &state);
        }
        expect_refused(++before);
        zmq_close(socket);
    }
    bystanders_expect_undisturbed();
}

/* Bytes with one bit turned, of a message that is right otherwise. */
Test(hostile, greetings_with_a_wrong_bit_harm_nobody)
{
    struct bytes whole = hello(1, "default", "mallory", 0);
    for (size_t bit = 0; bit < whole.count * 8; bit++) {
        struct bytes bytes = whole;
        bytes.at[bit / 8] ^= (uint8_t)(1U << bit % 8);
        void *control = dial(stage.control);
        send_part(control, bytes.at, bytes.count, 0);
        if (bit % 64 == 0) {
            must_flush(bystanders.writer);
        }
        zmq_close(control);
    }
    bystanders_expect_undisturbed();
}

/* One who is in, and then breaks the protocol, is named on the control topic of its job: at once,
 * and then soon. */
Test(hostile, members_are_named_in_a_refused_event)
{
    static const uint8_t hello_again[] = {0x91, 0x01};
    static const uint8_t for_clients[] = {0x91, 0x42};
    static const uint8_t trash[] = {0xc1, 0xc1};
    const struct {
        const void *bytes;
        size_t count;
    } parts[] = {{hello_again, sizeof hello_again},
                 {for_clients, sizeof for_clients},
                 {trash, sizeof trash}};
    struct bus_tap *tap = must_tap(NULL, BUS_TAP_NOW);
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        void *control = join_as_mallory();
        send_part(control, parts[i].bytes, parts[i].count, 0);
        const struct bus_event *event = expect_event(tap, "refused", "mallory");
        cr_expect_str_neq(bus_event_text(event), "");
        cr_expect_str_eq(bus_event_job(event), "default");
        zmq_close(control);
        bystanders_expect_undisturbed();
    }
    bus_tap_close(&tap);
}

/* The same of what comes as data. */
Test(hostile, members_are_named_for_their_data_too)
{
    /* The header of a batch of one frame of 48 bytes, number 1; see "Encoding" in PROTOCOL.md. */
    static const uint8_t batch[24] = {0x95, 0xcd, 0x0b, 0x00, 0x01, 0xce, 0, 0, 0, 1, 0xce, 0,
                                      0,    0,    48,   0xcf, 0,    0,    0, 0, 0, 0, 0,    1};
    static const uint8_t again[] = {0x93, 0x02, 0x01, 0x01};
    uint8_t frame[72] = {0};
    memcpy(frame, batch, sizeof batch);
    memset(frame + sizeof batch, 0xc0, sizeof frame - sizeof batch);
    const struct {
        const void *bytes;
        size_t count;
    } parts[] = {
        {"\xc1\xc1", 2},       {"", 0},
        {batch, sizeof batch},                        /* what it promises is not there */
        {batch, 10},           {frame, sizeof frame}, /* no frame */
        {frame, 71},           {again, sizeof again},
    };
    struct bus_tap *tap = must_tap(NULL, BUS_TAP_NOW);
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        void *control = NULL;
        void *data = NULL;
        char party[32]; /* one each: of the same party it is told now and then */
        snprintf(party, sizeof party, "mallory-%zu", i);
        attach_as(party, &control, &data);
        send_part(data, parts[i].bytes, parts[i].count, 0);
        const struct bus_event *event = expect_event(tap, "refused", party);
        cr_expect_str_neq(bus_event_text(event), "", "part %zu", i);
        zmq_close(data);
        zmq_close(control);
        bystanders_expect_undisturbed();
    }
    bus_tap_close(&tap);
}

/* To ATTACH is to know the token: who guesses takes over nothing. */
Test(hostile, data_connections_need_a_token)
{
    uint64_t before = refused_count();
    for (uint64_t token = 0; token < 50; token++) {
        struct bytes bytes = {.count = 0};
        put(&bytes, 0x92);
        put(&bytes, 2);
        put_number(&bytes, token);
        void *data = dial(stage.data);
        send_part(data, bytes.at, bytes.count, 0);
        zmq_close(data);
    }
    void *data = dial(stage.data);
    struct bytes bytes = {.count = 0};
    put(&bytes, 0x92);
    put(&bytes, 2);
    put_u64(&bytes, UINT64_C(0xfedcba9876543210));
    send_part(data, bytes.at, bytes.count, 0);
    expect_refused(before + 1);
    zmq_close(data);
    bystanders_expect_undisturbed();
}

/* No ZeroMQ at all. */
Test(hostile, connections_without_zeromq_harm_nobody)
{
    const char *const endpoints[] = {stage.control, stage.data};
    for (int i = 0; i < 40; i++) {
        const char *colon = strrchr(endpoints[i % 2], ':');
        struct sockaddr_in address = {.sin_family = AF_INET,
                                      .sin_port = htons((uint16_t)strtoul(colon + 1, NULL, 10))};
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        cr_assert_eq(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
        char trash[1024];
        memset(trash, i * 7, sizeof trash);
        ssize_t sent = send(fd, trash, (size_t)(i * 25), MSG_NOSIGNAL);
        cr_assert(sent >= 0 || errno == EPIPE || errno == ECONNRESET);
        close(fd);
    }
    bystanders_expect_undisturbed();
}

/* Whoever connects and never reads is nobody's burden. */
Test(hostile, members_that_never_read_harm_nobody)
{
    void *control = join_as_mallory();
    struct bus_tap *tap = must_tap(NULL, BUS_TAP_NOW);
    for (int i = 0; i < 20000; i++) {
        struct bytes beat = {.count = 0};
        put(&beat, 0x92);
        put(&beat, 5);
        put_number(&beat, (uint64_t)i);
        if (zmq_send(control, beat.at, beat.count, ZMQ_DONTWAIT) < 0) {
            break;
        }
    }
    for (int i = 0; i < 20; i++) {
        bystanders_expect_undisturbed();
    }
    zmq_close(control);
    bus_tap_close(&tap);
}

/* ---- a writer that is deaf ------------------------------------------------------------------- */

/* The broker's number of a new topic. */
static uint32_t open_topic(void *control, const char *topic)
{
    struct bytes bytes = {.count = 0};
    zmq_msg_t part;
    put(&bytes, 0x93);
    put_number(&bytes, 10); /* TOPIC_OPEN */
    put_number(&bytes, 1);
    put_text(&bytes, topic);
    send_part(control, bytes.at, bytes.count, 0);
    int got = 0;
    for (bool is_first = true; got != TOPIC_OPENED; is_first = false) {
        if (!is_first)
            zmq_msg_close(&part);
        got = receive_message(control, &part);
    }
    const uint8_t *at = (const uint8_t *)zmq_msg_data(&part) + 2; /* the array, its number */
    take_number(&at);                                             /* request */
    cr_assert_eq(take_number(&at), 0);
    uint32_t number = (uint32_t)take_number(&at);
    zmq_msg_close(&part);
    return number;
}

static void put_word(uint8_t *at, uint64_t number, int bytes)
{
    for (int i = 0; i < bytes; i++)
        at[i] = (uint8_t)(number >> 8 * (bytes - 1 - i));
}

/* A batch of one value of 8 bytes; "Encoding" in PROTOCOL.md. */
static void send_value(void *data, uint32_t topic, uint64_t seq)
{
    static const uint8_t head[] = {0x95, 0xcd, 0x0b, 0x00, 0x01, 0xce, 0,  0,
                                   0,    1,    0xce, 0,    0,    0,    56, 0xcf};
    static const uint8_t frame[] = {0x98, 0xcd, 0, 0, 0xcc, 1, 0xce, 0, 0, 0, 1, 0xce};
    uint8_t part[80] = {0};
    memcpy(part, head, sizeof head);
    put_word(part + 16, seq + 1, 8);
    memcpy(part + 24, frame, sizeof frame);
    put_word(part + 36, topic, 4);
    part[40] = 0xcf;
    put_word(part + 41, seq, 8);
    part[49] = 0xcf;
    part[58] = 0xcf;
    put_word(part + 59, UINT64_MAX, 8);
    part[67] = 0xc6;
    put_word(part + 68, 8, 4);
    send_part(data, part, sizeof part, 0);
}

/* What it is told fills its connection, and then a queue of the broker's that has its limit.  Then
 * it is as one that breaks the protocol. */
Test(hostile, writers_that_never_hear_what_was_accepted_are_let_go)
{
    enum { BATCHES_MAX = 4000000, BETWEEN = 5000 };
    void *control = dial_narrow(stage.control, 1, 4096);
    void *data = NULL;
    struct bus_tap *tap = must_tap(NULL, BUS_TAP_NOW);
    const struct bus_event *event = NULL;
    attach("deaf", control, &data);
    uint32_t topic = open_topic(control, "deaf/w");
    int sent = 0;
    bool is_told = false;
    for (; sent < BATCHES_MAX && !is_told; sent++) {
        send_value(data, topic, (uint64_t)sent);
        if (sent % BETWEEN != 0)
            continue;
        bystanders_expect_undisturbed();
        while (!is_told && bus_tap_next(tap, BUS_POLL, &event, NULL) == BUS_OK)
            is_told = strcmp(bus_event_name(event), "refused") == 0 &&
                      strcmp(bus_event_party(event), "deaf") == 0;
    }
    cr_assert(is_told, "after %d batches", sent);
    cr_expect_not_null(strstr(bus_event_text(event), "does not read"), "%s", bus_event_text(event));
    bystanders_expect_undisturbed();
    zmq_close(data);
    zmq_close(control);
    bus_tap_close(&tap);
}
