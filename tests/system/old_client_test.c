/* SPDX-License-Identifier: MPL-2.0 */
/* old_client_test.c -- a broker serves a client of an older release: tests/corpus/client/VERSION
 * has what such a client said, and it is said again.
 *
 * ERRBUS_WRITE_CLIENT_CORPUS=FILE writes one, once a release: what is there is never touched.  Each
 * line is a part: "> LANE HEX" from the client, "< LANE HEX" to the client. */
#include "tests/lib/revival.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zmq.h>

#define CORPUS TEST_SOURCE_DIR "/tests/corpus/client"

enum { CONTROL, DATA, LANES };
enum { PART_BYTES_MAX = 16 * 1024, LINE_BYTES = 2 * PART_BYTES_MAX + 64, PATH_BYTES = 512 };
enum { NUMBER_WELCOME = 64, NUMBERS = 256, TOKEN_BYTES = 9, LOOK_MS = 20 };

static const char *const lane_names[LANES] = {"control", "data"};
static void *context;

static void set_up(void)
{
    revival_open();
    context = zmq_ctx_new();
    cr_assert_not_null(context);
}

static void tear_down(void)
{
    zmq_ctx_term(context);
    revival_close();
}

TestSuite(old_client, .init = set_up, .fini = tear_down, .timeout = 120);

static void *open_socket(int type)
{
    int no_linger = 0;
    void *socket = zmq_socket(context, type);
    cr_assert_not_null(socket);
    cr_assert_eq(zmq_setsockopt(socket, ZMQ_LINGER, &no_linger, sizeof no_linger), 0);
    return socket;
}

/* A message is an array, its number first. */
static int number_of(const unsigned char *bytes, size_t count)
{
    size_t at = count > 3 && bytes[0] == 0xdc ? 3 : 1;
    if (at < count && bytes[at] == 0xcc)
        at += 1;
    return at < count ? bytes[at] : 0;
}

/* ---- recording --------------------------------------------------------------------------------*/

/* Between one client and the broker, for both channels; a thread carries the parts. */
static struct {
    void *to_client[LANES];
    void *to_broker[LANES];
    char places[LANES][PATH_BYTES];
    FILE *file;
    atomic_bool is_over;
    pthread_t thread;
} recorder;

static void write_line(int lane, bool is_of_client, const unsigned char *bytes, size_t count)
{
    fprintf(recorder.file, "%c %s ", is_of_client ? '>' : '<', lane_names[lane]);
    for (size_t i = 0; i < count; i++)
        fprintf(recorder.file, "%02x", bytes[i]);
    fputc('\n', recorder.file);
}

static bool has_more(void *socket)
{
    int more = 0;
    size_t bytes = sizeof more;
    return zmq_getsockopt(socket, ZMQ_RCVMORE, &more, &bytes) == 0 && more != 0;
}

/* A message; its first part is recorded.  The id of the one client goes before what is for it. */
static void carry(int lane, bool is_of_client)
{
    static unsigned char id[LANES][256];
    static size_t id_bytes[LANES];
    static unsigned char part[PART_BYTES_MAX];
    void *from = is_of_client ? recorder.to_client[lane] : recorder.to_broker[lane];
    void *to = is_of_client ? recorder.to_broker[lane] : recorder.to_client[lane];
    if (is_of_client)
        id_bytes[lane] = (size_t)zmq_recv(from, id[lane], sizeof id[lane], 0);
    else
        zmq_send(to, id[lane], id_bytes[lane], ZMQ_SNDMORE);
    bool is_first = true;
    do {
        int bytes = zmq_recv(from, part, sizeof part, 0);
        if (is_first)
            write_line(lane, is_of_client, part, (size_t)bytes);
        is_first = false;
        zmq_send(to, part, (size_t)bytes, has_more(from) ? ZMQ_SNDMORE : 0);
    } while (has_more(from));
}

static void *record(void *arg)
{
    (void)arg;
    while (!atomic_load(&recorder.is_over)) {
        zmq_pollitem_t items[2 * LANES];
        for (int i = 0; i < LANES; i++) {
            items[i] = (zmq_pollitem_t){.socket = recorder.to_client[i], .events = ZMQ_POLLIN};
            items[LANES + i] =
                (zmq_pollitem_t){.socket = recorder.to_broker[i], .events = ZMQ_POLLIN};
        }
        zmq_poll(items, 2 * LANES, LOOK_MS);
        for (int i = 0; i < LANES; i++) {
            if (items[i].revents != 0)
                carry(i, true);
            if (items[LANES + i].revents != 0)
                carry(i, false);
        }
    }
    return NULL;
}

static void recorder_start(const char *path)
{
    const char *const brokers[LANES] = {revival.control, revival.data};
    recorder.file = path != NULL ? fopen(path, "w") : tmpfile();
    cr_assert_not_null(recorder.file);
    for (int i = 0; i < LANES; i++) {
        recorder.to_client[i] = open_socket(ZMQ_ROUTER);
        recorder.to_broker[i] = open_socket(ZMQ_DEALER);
        cr_assert_eq(zmq_bind(recorder.to_client[i], recorder.places[i]), 0);
        cr_assert_eq(zmq_connect(recorder.to_broker[i], brokers[i]), 0);
    }
    atomic_store(&recorder.is_over, false);
    cr_assert_eq(pthread_create(&recorder.thread, NULL, record, NULL), 0);
}

static void recorder_stop(void)
{
    atomic_store(&recorder.is_over, true);
    pthread_join(recorder.thread, NULL);
    for (int i = 0; i < LANES; i++) {
        zmq_close(recorder.to_client[i]);
        zmq_close(recorder.to_broker[i]);
    }
    fclose(recorder.file);
}

/* alice, who reads what she wrote, under a name that outlives her. */
static struct bus_sub *read_durably(struct bus *alice)
{
    struct bus_sub_options options;
    bus_sub_options_init(&options);
    options.name = "reader";
    return must_subscribe_with(alice, "alice/w", &options);
}

/* A value that she reads and acknowledges, an error, a promise that is kept, and an end. */
Test(old_client, is_recorded_when_it_is_asked_for)
{
    for (int i = 0; i < LANES; i++)
        snprintf(recorder.places[i], PATH_BYTES, "ipc://%s/recorder%d", revival.folder.path, i);
    revival_start("disk", (const char *const[]){"--advertise", recorder.places[DATA], NULL});
    recorder_start(getenv("ERRBUS_WRITE_CLIENT_CORPUS"));
    struct bus_options options;
    bus_options_init(&options);
    options.party = "alice";
    options.disclosure = BUS_DISCLOSURE_MESSAGE;
    struct bus *alice = must_open_at(recorder.places[CONTROL], &options);
    must_publish(alice, "w", "first");
    must_flush(alice);
    struct bus_sub *sub = read_durably(alice);
    expect_value(sub, "alice/w", 0, "first");
    must_flush(alice);
    bus_sub_close(&sub);
    struct bus_slot *failed = must_reserve(alice, "w");
    struct bus_slot *kept = must_reserve(alice, "w");
    fail_slot(&failed, "app.disk_full", "no room left");
    must_commit(&kept, "third");
    must_flush(alice);
    must_close(&alice);
    recorder_stop();
}

/* ---- saying it again --------------------------------------------------------------------------*/

/* Token of the session, as it stands in a message: a number of 8 bytes behind its head. */
struct token {
    unsigned char bytes[TOKEN_BYTES];
};

static struct {
    void *sockets[LANES];
    bool has_heard[LANES][NUMBERS];
    struct token recorded;
    struct token own;
} speaker;

static size_t number_bytes(unsigned char head)
{
    return head < 0xcc || head > 0xcf ? 1 : 1 + ((size_t)1 << (head - 0xcc));
}

/* WELCOME begins with its number, two versions, the broker instance and the token. */
static struct token token_of(const unsigned char *welcome, size_t count)
{
    struct token token;
    size_t at = welcome[0] == 0xdc ? 3 : 1;
    for (int field = 0; field < 4 && at < count; field++)
        at += number_bytes(welcome[at]);
    cr_assert(at + TOKEN_BYTES <= count && welcome[at] == 0xcf, "no token of 8 bytes");
    memcpy(token.bytes, welcome + at, TOKEN_BYTES);
    return token;
}

static size_t read_hex(const char *text, unsigned char *bytes)
{
    size_t count = 0;
    unsigned byte = 0;
    while (count < PART_BYTES_MAX && sscanf(text + 2 * count, "%2x", &byte) == 1)
        bytes[count++] = (unsigned char)byte;
    return count;
}

static void hear(int lane)
{
    static unsigned char part[PART_BYTES_MAX];
    int bytes = zmq_recv(speaker.sockets[lane], part, sizeof part, 0);
    cr_assert_gt(bytes, 0, "the broker does not say what it said then: %s",
                 process_complained(&stage.process));
    int number = number_of(part, (size_t)bytes);
    speaker.has_heard[lane][number] = true;
    if (lane == CONTROL && number == NUMBER_WELCOME)
        speaker.own = token_of(part, (size_t)bytes);
    while (has_more(speaker.sockets[lane]))
        zmq_recv(speaker.sockets[lane], part, sizeof part, 0);
}

/* Waits for the first message of its kind: how many there are depends on what comes together. */
static void await_like(int lane, const unsigned char *bytes, size_t count)
{
    int number = number_of(bytes, count);
    if (lane == CONTROL && number == NUMBER_WELCOME)
        speaker.recorded = token_of(bytes, count);
    while (!speaker.has_heard[lane][number])
        hear(lane);
}

static void say(int lane, unsigned char *bytes, size_t count)
{
    unsigned char *token = memmem(bytes, count, speaker.recorded.bytes, TOKEN_BYTES);
    if (token != NULL && speaker.recorded.bytes[0] != 0)
        memcpy(token, speaker.own.bytes, TOKEN_BYTES);
    cr_assert_eq(zmq_send(speaker.sockets[lane], bytes, count, 0), (int)count);
}

static void say_line(char *line)
{
    static unsigned char bytes[PART_BYTES_MAX];
    char name[16] = "";
    int hex = 0;
    cr_assert_eq(sscanf(line + 1, " %15s %n", name, &hex), 1, "%s", line);
    int lane = strcmp(name, lane_names[DATA]) == 0 ? DATA : CONTROL;
    size_t count = read_hex(line + 1 + hex, bytes);
    if (line[0] == '>')
        say(lane, bytes, count);
    else
        await_like(lane, bytes, count);
}

static void say_all(const char *path)
{
    static char line[LINE_BYTES];
    const char *const brokers[LANES] = {revival.control, revival.data};
    int timeout_ms = SOON_MS;
    FILE *file = fopen(path, "r");
    cr_assert_not_null(file, "%s", path);
    memset(&speaker, 0, sizeof speaker);
    for (int i = 0; i < LANES; i++) {
        speaker.sockets[i] = open_socket(ZMQ_DEALER);
        zmq_setsockopt(speaker.sockets[i], ZMQ_RCVTIMEO, &timeout_ms, sizeof timeout_ms);
        cr_assert_eq(zmq_connect(speaker.sockets[i], brokers[i]), 0);
    }
    while (fgets(line, sizeof line, file) != NULL)
        if (line[0] != '#')
            say_line(line);
    fclose(file);
    for (int i = 0; i < LANES; i++)
        zmq_close(speaker.sockets[i]);
}

/* A client of today finds what the older one left. */
static void expect_traces(void)
{
    struct bus *bob = must_open("bob");
    expect_awaited(bob, "alice/w", 0, "first");
    struct bus_error *error = expect_await_failed(bob, "alice/w", 1, "application");
    cr_expect_str_eq(bus_error_type(error), "app.disk_full");
    cr_expect_str_eq(bus_error_message(error), "no room left");
    bus_error_unref(&error);
    expect_awaited(bob, "alice/w", 2, "third");
    must_close(&bob);
    struct bus *alice = must_open("alice");
    struct bus_sub *sub = read_durably(alice);
    expect_failed(sub, "alice/w", 1, "application");
    expect_value(sub, "alice/w", 2, "third");
    bus_sub_close(&sub);
    must_close(&alice);
}

Test(old_client, of_each_release_is_served)
{
    int count = 0;
    const struct dirent *entry = NULL;
    DIR *names = opendir(CORPUS);
    cr_assert_not_null(names, "%s", CORPUS);
    while ((entry = readdir(names)) != NULL) {
        char path[PATH_BYTES];
        if (entry->d_name[0] == '.')
            continue;
        snprintf(path, sizeof path, "%s/%s", CORPUS, entry->d_name);
        stage_open_with((const char *const[]){"--control", revival.control, "--data", revival.data,
                                              "--verbose", NULL});
        say_all(path);
        expect_traces();
        cr_expect_null(strstr(process_complained(&stage.process), "violation"), "%s: %s",
                       entry->d_name, process_complained(&stage.process));
        stage_close();
        count += 1;
    }
    closedir(names);
    cr_expect_geq(count, 1);
}
