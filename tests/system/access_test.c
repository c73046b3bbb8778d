/* SPDX-License-Identifier: MPL-2.0 */
/* access_test.c -- a broker with keys and an access file: who gets in, what each may do, what wrong
 * keys are told, and that no secret is anywhere but in its file. */
#include "tests/lib/crowd.h"
#include "tests/lib/expect.h"
#include "tests/lib/folder.h"
#include "tests/lib/stranger.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>
#include <zmq.h>

#define PATH_BYTES 192
#define TEXT_BYTES 4096

enum { ALICE, BOB, CAROL, EVE, PEOPLE };
static const char *const names[PEOPLE] = {"alice", "bob", "carol", "eve"};

static struct folder folder;
static char key_paths[PEOPLE][PATH_BYTES];
static char keys[PEOPLE][BUS_KEY_TEXT_BYTES];
static char access_path[FOLDER_PATH_BYTES_MAX];
static char broker_key[PATH_BYTES];

/* Everybody but eve has a line.  carol may read alice/open alone; this user is ops, by ipc. */
static void make_files(void)
{
    char text[TEXT_BYTES];
    unsetenv("ERRBUS_KEY");
    cr_assert(folder_make(&folder));
    for (int i = 0; i < PEOPLE; i++) {
        snprintf(key_paths[i], sizeof key_paths[i], "%s/%s.key", folder.path, names[i]);
        expect_code(bus_key_new(key_paths[i], keys[i], NULL), BUS_OK);
    }
    snprintf(broker_key, sizeof broker_key, "%s/broker.key", folder.path);
    snprintf(text, sizeof text,
             "key alice %s\nkey bob %s\nkey carol %s\nuid ops %u\n"
             "group all alice bob\n"
             "allow all party in default\n"
             "allow bob job in default\n"
             "allow carol party reads alice/open in default\n"
             "allow ops party tap status in default\n",
             keys[ALICE], keys[BOB], keys[CAROL], (unsigned)geteuid());
    cr_assert(folder_write(&folder, "access", text, access_path));
}

static void open_stage(void)
{
    make_files();
    stage_open_with((const char *const[]){"--access", access_path, "--key", broker_key, NULL});
}

static void close_stage(void)
{
    stage_close();
    folder_fini(&folder);
}

TestSuite(access, .init = open_stage, .fini = close_stage, .timeout = 120);

static enum bus_err open_as(int who, const char *party, const char *endpoint, struct bus **out_bus,
                            struct bus_error **reterr)
{
    struct bus_options options;
    bus_options_init(&options);
    options.party = party;
    options.key = who >= 0 ? key_paths[who] : "/nowhere/key";
    return bus_open(endpoint, &options, SOON_MS, out_bus, reterr);
}

static struct bus *must_open_as(int who)
{
    struct bus *bus = NULL;
    struct bus_error *error = NULL;
    enum bus_err err = open_as(who, names[who], stage.control, &bus, &error);
    cr_assert_eq(err, BUS_OK, "%s: %s", names[who], bus_error_message(error));
    return bus;
}

/* It is denied at once, in these words. */
static void expect_denied_as(const char *type, int who, const char *party, const char *endpoint,
                             const char *words)
{
    struct bus *bus = NULL;
    struct bus_error *error = NULL;
    enum bus_err err = open_as(who, party, endpoint, &bus, &error);
    cr_expect_eq(err, BUS_EDENIED, "%s: %s", code_name(err), bus_error_message(error));
    cr_expect_str_eq(bus_error_type(error), type);
    cr_expect(strstr(bus_error_message(error), words) != NULL, "'%s' is not in: %s", words,
              bus_error_message(error));
    bus_error_unref(&error);
}

static void expect_denied(int who, const char *party, const char *endpoint, const char *words)
{
    expect_denied_as("errbus.not_authorised", who, party, endpoint, words);
}

/* ---- who gets in ----------------------------------------------------------------------------- */

Test(access, lets_values_go_between_parties_with_keys)
{
    cr_assert(strncmp(stage.control, "tcp://ebp_", 10) == 0, "%s", stage.control);
    struct bus *alice = must_open_as(ALICE);
    struct bus *bob = must_open_as(BOB);
    must_publish(alice, "w", "value");
    expect_awaited(bob, "alice/w", 0, "value");
    struct bus_slot *slot = must_reserve(alice, "w");
    fail_slot(&slot, "app.broken", "it broke");
    struct bus_error *error = expect_await_failed(bob, "alice/w", 1, "application");
    cr_expect_str_eq(bus_error_type(error), "app.broken");
    bus_error_unref(&error);
    must_close(&alice);
    must_close(&bob);
}

Test(access, finds_the_key_by_the_environment)
{
    struct bus *bus = NULL;
    struct bus_options options;
    setenv("ERRBUS_KEY", key_paths[ALICE], 1);
    bus_options_init(&options);
    options.party = "alice";
    expect_code(bus_open(stage.control, &options, SOON_MS, &bus, NULL), BUS_OK);
    must_close(&bus);
}

Test(access, lets_nobody_be_another)
{
    expect_denied(ALICE, "bob", stage.control, "this key may not do that here");
    expect_denied(BOB, "alice", stage.control, "this key may not do that here");
    expect_denied(ALICE, "mallory", stage.control, "this key may not do that here");
}

/* ---- wrong settings -------------------------------------------------------------------------- */

/* "tcp://ebp_...@HOST:PORT" without the key, or with another. */
static void with_key(const char *endpoint, const char *key, char out[TEXT_BYTES])
{
    const char *at = strchr(endpoint, '@');
    const char *address = at != NULL ? at + 1 : endpoint + strlen("tcp://");
    snprintf(out, TEXT_BYTES, "tcp://%s%s%s", key, *key != '\0' ? "@" : "", address);
}

Test(access, tells_five_wrong_settings_apart)
{
    char endpoint[TEXT_BYTES];
    struct stranger stranger;
    expect_denied(-1, "alice", stage.control, "'errbus key new' makes one");
    expect_denied(EVE, "eve", stage.control, "does not know this key: send ebp_");
    with_key(stage.control, "", endpoint);
    expect_denied(ALICE, "alice", endpoint, "asks for a key: make one with 'errbus key new'");
    with_key(stage.control, keys[EVE], endpoint);
    expect_denied(ALICE, "alice", endpoint, "has not the key ebp_");
    cr_assert(stranger_start(&stranger, STRANGER_ANSWERS));
    with_key(stranger.endpoint, keys[EVE], endpoint);
    expect_denied_as("errbus.unreachable", ALICE, "alice", endpoint, "does not speak ZeroMQ");
    stranger_stop(&stranger);
}

Test(access, tells_that_an_open_broker_has_no_key)
{
    char endpoint[TEXT_BYTES];
    stage_close();
    stage_open();
    with_key(stage.control, keys[EVE], endpoint);
    expect_denied(ALICE, "alice", endpoint, "uses no keys");
}

/* Whoever is not told at once waits for 15 s.  On a machine that has time, each of these takes a
 * second at most. */
enum { LONG_BEFORE_MS = 12000 };

/* What a program says that is started with this key and endpoint, once it has ended with 6. */
static void expect_told(const char *setting, const char *key, const char *endpoint,
                        char out[TEXT_BYTES])
{
    struct process process;
    const char *const argv[] = {"errbus", "pub", "-s", endpoint, "-p", "alice", "w", "x", NULL};
    int64_t start_ms = test_now_ms();
    setenv("ERRBUS_KEY", key, 1);
    cr_assert(process_start(&process, argv, NULL));
    cr_expect_eq(process_wait(&process, SOON_MS), 6, "%s", process_complained(&process));
    int64_t passed_ms = test_now_ms() - start_ms;
    cr_log_info("figure: wrong setting, %s: told after %lld ms", setting, (long long)passed_ms);
    cr_expect_lt(passed_ms, LONG_BEFORE_MS);
    snprintf(out, TEXT_BYTES, "%s", process_complained(&process));
    process_fini(&process);
}

/* What stands behind the endpoint: "errbus pub: tcp://HOST:PORT: " has a port of its own. */
static const char *sentence_of(const char *told)
{
    const char *port = strstr(told, "tcp://127.0.0.1:");
    return port != NULL ? port + strlen("tcp://127.0.0.1:") + 5 : told;
}

Test(access, gives_the_command_line_a_status_and_a_sentence_for_each)
{
    enum { SETTINGS = 6 };
    static char told[SETTINGS][TEXT_BYTES];
    char endpoint[TEXT_BYTES];
    struct stranger stranger;
    expect_told("no key", "/nowhere/key", stage.control, told[0]);
    expect_told("unknown key", key_paths[EVE], stage.control, told[1]);
    cr_expect_not_null(strstr(told[1], keys[EVE]));
    with_key(stage.control, keys[EVE], endpoint);
    expect_told("other key of the broker", key_paths[ALICE], endpoint, told[2]);
    with_key(stage.control, "", endpoint);
    expect_told("none for a broker with keys", key_paths[ALICE], endpoint, told[3]);
    cr_assert(stranger_start(&stranger, STRANGER_ANSWERS));
    with_key(stranger.endpoint, keys[EVE], endpoint);
    expect_told("no ZeroMQ there", key_paths[ALICE], endpoint, told[4]);
    stranger_stop(&stranger);
    stage_close();
    stage_open();
    with_key(stage.control, keys[EVE], endpoint);
    expect_told("a key for an open broker", key_paths[ALICE], endpoint, told[5]);
    for (size_t i = 0; i < SETTINGS; i++)
        for (size_t k = 0; k < i; k++)
            cr_expect_str_neq(sentence_of(told[i]), sentence_of(told[k]), "%zu %zu", i, k);
}

/* ---- other peers ----------------------------------------------------------------------------- */

/* Whether libzmq's handshake at the endpoint succeeds, as its monitor tells. */
static bool does_handshake(const char *endpoint, int option, const char *value)
{
    void *context = zmq_ctx_new();
    void *socket = zmq_socket(context, ZMQ_DEALER);
    void *monitor = zmq_socket(context, ZMQ_PAIR);
    int linger_ms = 0;
    int wait_ms = (int)SOON_MS;
    bool is_over = false;
    bool is_done = false;
    zmq_setsockopt(socket, ZMQ_LINGER, &linger_ms, sizeof linger_ms);
    zmq_setsockopt(monitor, ZMQ_RCVTIMEO, &wait_ms, sizeof wait_ms);
    if (option != 0)
        cr_assert_eq(zmq_setsockopt(socket, option, value, strlen(value)), 0);
    cr_assert_eq(zmq_socket_monitor(socket, "inproc://monitor", ZMQ_EVENT_ALL), 0);
    cr_assert_eq(zmq_connect(monitor, "inproc://monitor"), 0);
    cr_assert_eq(zmq_connect(socket, endpoint), 0);
    while (!is_over) {
        uint8_t event[16];
        uint16_t type = 0;
        char address[256];
        if (zmq_recv(monitor, event, sizeof event, 0) < 0 ||
            zmq_recv(monitor, address, sizeof address, 0) < 0)
            break;
        memcpy(&type, event, sizeof type);
        is_done = type == ZMQ_EVENT_HANDSHAKE_SUCCEEDED;
        is_over = is_done || type == ZMQ_EVENT_DISCONNECTED ||
                  type == ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL ||
                  type == ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL ||
                  type == ZMQ_EVENT_HANDSHAKE_FAILED_AUTH;
    }
    cr_assert(is_over, "no answer from %s", endpoint);
    zmq_close(monitor);
    zmq_close(socket);
    zmq_ctx_term(context);
    return is_done;
}

Test(access, lets_no_peer_in_that_has_no_key)
{
    char endpoint[TEXT_BYTES];
    with_key(stage.control, "", endpoint);
    cr_expect_not(does_handshake(endpoint, 0, NULL));
    cr_expect_not(does_handshake(endpoint, ZMQ_PLAIN_USERNAME, "alice"));
    with_key(stage.data, "", endpoint);
    cr_expect_not(does_handshake(endpoint, 0, NULL));
    cr_expect_not(does_handshake(endpoint, ZMQ_PLAIN_USERNAME, "alice"));
}

static void open_ipc(const char *program, const char *more)
{
    static char control[PATH_BYTES], data[PATH_BYTES];
    const char *line = NULL;
    snprintf(control, sizeof control, "ipc://%s/control", folder.path);
    snprintf(data, sizeof data, "ipc://%s/data", folder.path);
    const char *const argv[] = {program,    "--control", control, "--data",   data,
                                "--access", access_path, "--key", broker_key, "--journal",
                                "none",     more,        NULL};
    stage_close();
    cr_assert(process_start(&stage.process, argv, NULL));
    cr_assert(process_line(&stage.process, SOON_MS, &line), "%s",
              process_complained(&stage.process));
    snprintf(stage.control, sizeof stage.control, "%s", control);
}

Test(access, knows_peers_by_ipc_by_their_uid)
{
    struct bus *bus = NULL;
    open_ipc("errbusd", NULL);
    expect_code(open_as(-1, "ops", stage.control, &bus, NULL), BUS_OK);
    must_publish(bus, "w", "value");
    expect_awaited(bus, "ops/w", 0, "value");
    must_close(&bus);
    expect_denied(-1, "alice", stage.control, "this key may not do that here");
}

Test(access, lets_nobody_in_by_ipc_whose_uid_has_no_line)
{
    char text[64];
    snprintf(text, sizeof text, "uid ops %u\nallow ops admin\n", (unsigned)geteuid() + 1);
    cr_assert(folder_write(&folder, "access", text, access_path));
    open_ipc("errbusd", NULL);
    cr_expect_not(does_handshake(stage.control, 0, NULL));
}

/* Where nobody answers libzmq, it would let everybody in. */
Test(access, lets_nobody_in_while_nobody_answers_for_keys)
{
    setenv("ERRBUS_NUMBER_NO_ZAP", "1", 1);
    open_ipc("errbusd_failpoints", NULL);
    cr_expect_not(does_handshake(stage.control, 0, NULL));
    process_signal(&stage.process, SIGTERM);
    cr_expect_eq(process_wait(&stage.process, SOON_MS), 0);
    process_fini(&stage.process);
    const char *line = NULL;
    char control[TEXT_BYTES];
    const char *const argv[] = {"errbusd_failpoints",
                                "--control",
                                "tcp://127.0.0.1:*",
                                "--data",
                                "tcp://127.0.0.1:*",
                                "--access",
                                access_path,
                                "--key",
                                broker_key,
                                "--journal",
                                "none",
                                NULL};
    cr_assert(process_start(&stage.process, argv, NULL));
    cr_assert(process_line(&stage.process, SOON_MS, &line));
    cr_assert_eq(sscanf(line, "errbusd ready control=%4000s ", control), 1);
    struct bus *bus = NULL;
    struct bus_error *error = NULL;
    cr_expect_neq(open_as(ALICE, "alice", control, &bus, &error), BUS_OK);
    bus_error_unref(&error);
}

/* ---- peers by hand --------------------------------------------------------------------------- */

struct bytes {
    uint8_t at[512];
    size_t count;
};

static void put(struct bytes *bytes, const void *data, size_t count)
{
    cr_assert_leq(bytes->count + count, sizeof bytes->at);
    memcpy(bytes->at + bytes->count, data, count);
    bytes->count += count;
}

static void put_byte(struct bytes *bytes, size_t byte)
{
    put(bytes, &(uint8_t){(uint8_t)byte}, 1);
}

/* A text behind its length, in one byte that may have flags. */
static void put_text(struct bytes *bytes, unsigned flags, const char *text)
{
    put_byte(bytes, flags | strlen(text));
    put(bytes, text, strlen(text));
}

/* [1, major, minor, library, credentials, job, party, role, token, heartbeat_ms, lost_after_ms,
 * grace_ms]: HELLO of messages.def */
static struct bytes hello_of(const char *party)
{
    struct bytes bytes = {.count = 0};
    put(&bytes, "\x9c\x01\x01\x00", 4);
    put_text(&bytes, 0xa0, "by hand");
    put(&bytes, "\xc4\x00", 2);
    put_text(&bytes, 0xa0, "default");
    put_text(&bytes, 0xa0, party);
    put(&bytes, "\x00\x00\xcd\x03\xe8\xcd\x27\x10\xcd\x03\xe8", 11);
    return bytes;
}

enum { GREETING_BYTES = 64 }; /* of ZMTP 3 */
enum hand { ZMTP_1, ZMTP_2, ZMTP_NULL, ZMTP_PLAIN, HANDS };
static const char *const hands[HANDS] = {"ZMTP 1", "ZMTP 2", "NULL", "PLAIN"};

/* The greeting of ZMTP 3, as a client. */
static void put_greeting(struct bytes *bytes, const char *mechanism)
{
    static const uint8_t filler[32] = {0};
    put(bytes, "\xff\0\0\0\0\0\0\0\x01\x7f\x03\0", 12);
    put(bytes, mechanism, strlen(mechanism));
    put(bytes, filler, 20 - strlen(mechanism));
    put(bytes, filler, 32);
}

static void put_property(struct bytes *bytes, const char *name, const char *value)
{
    put_text(bytes, 0, name);
    put(bytes, "\0\0", 3);
    put_text(bytes, 0, value);
}

/* All that it takes to be that party, as if it had been let in. */
static struct bytes speech_of(enum hand hand, const char *party)
{
    struct bytes hello = hello_of(party);
    struct bytes command = {.count = 0};
    struct bytes all = {.count = 0};
    if (hand == ZMTP_1) { /* each frame: its length with the flags, flags, bytes */
        put(&all, "\x01\0", 2);
        put_byte(&all, hello.count + 1);
        put_byte(&all, 0);
    } else if (hand == ZMTP_2) { /* revision 1, DEALER, no identity */
        put(&all, "\xff\0\0\0\0\0\0\0\x01\x7f\x01\x05\0\0\0", 15);
        put_byte(&all, hello.count);
    } else {
        put_greeting(&all, hand == ZMTP_NULL ? "NULL" : "PLAIN");
        if (hand == ZMTP_NULL) {
            put_text(&command, 0, "READY");
            put_property(&command, "Socket-Type", "DEALER");
            put_property(&command, "Identity", "");
            put_property(&command, "User-Id", party);
        } else {
            put_text(&command, 0, "HELLO");
            put_text(&command, 0, party);
            put_text(&command, 0, "secret");
        }
        put_byte(&all, 4);
        put_byte(&all, command.count);
        put(&all, command.at, command.count);
        put_byte(&all, 0);
        put_byte(&all, hello.count);
    }
    put(&all, hello.at, hello.count);
    return all;
}

static int dial(const char *endpoint)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    bool is_ipc = strncmp(endpoint, "ipc://", 6) == 0;
    int fd = socket(is_ipc ? AF_UNIX : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    cr_assert_geq(fd, 0);
    snprintf(at.sun_path, sizeof at.sun_path, "%s", is_ipc ? endpoint + 6 : "");
    to.sin_port = htons((uint16_t)strtoul(strrchr(endpoint, ':') + 1, NULL, 10));
    cr_assert_eq(is_ipc ? connect(fd, (struct sockaddr *)&at, sizeof at)
                        : connect(fd, (struct sockaddr *)&to, sizeof to),
                 0, "%s", endpoint);
    return fd;
}

static bool has(const uint8_t *bytes, ssize_t count, const char *word)
{
    return memmem(bytes, (size_t)count, word, strlen(word)) != NULL;
}

/* Says the bytes up to that one; the broker may have closed already. */
static size_t say_on(int fd, const struct bytes *speech, size_t from, size_t to)
{
    (void)send(fd, speech->at + from, to - from, MSG_NOSIGNAL);
    return to;
}

/* What the broker makes of it: "let in", "refused" by the core, or "closed" before that.  Where
 * ZMTP 3 is spoken, each side waits for the greeting, then for the command of the other. */
static const char *fate_of(const char *endpoint, enum hand hand, const char *party)
{
    static uint8_t heard[8192];
    struct bytes speech = speech_of(hand, party);
    struct timeval patience = {.tv_sec = SOON_MS / 1000};
    const char *fate = NULL;
    ssize_t count = 0;
    int fd = dial(endpoint);
    cr_assert_eq(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience), 0);
    size_t said = say_on(fd, &speech, 0, hand >= ZMTP_NULL ? GREETING_BYTES : speech.count);
    while (fate == NULL) {
        ssize_t got = recv(fd, heard + count, sizeof heard - (size_t)count, 0);
        bool is_silent = got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
        count += got > 0 ? got : 0;
        if (count >= GREETING_BYTES && said == GREETING_BYTES)
            said = say_on(fd, &speech, said, said + 2 + speech.at[GREETING_BYTES + 1]);
        if (count > GREETING_BYTES && said > GREETING_BYTES && said < speech.count)
            said = say_on(fd, &speech, said, speech.count);
        if (has(heard, count, "errbus.not_authorised"))
            fate = "refused";
        else if (has(heard, count, "://"))
            fate = "let in"; /* WELCOME names the endpoint for data */
        else if (got <= 0)
            fate = is_silent ? "unanswered" : "closed";
    }
    close(fd);
    return fate;
}

static void expect_fate(const char *endpoint, enum hand hand, const char *party, const char *wanted)
{
    const char *fate = fate_of(endpoint, hand, party);
    cr_expect_str_eq(fate, wanted, "%s as %s at %s: %s", hands[hand], party, endpoint, fate);
}

/* The same bytes are let in where everybody is, so they are what they should be. */
Test(access, lets_in_peers_by_hand_where_all_are_let_in)
{
    stage_close();
    stage_open();
    for (enum hand hand = ZMTP_1; hand <= ZMTP_NULL; hand++)
        expect_fate(stage.control, hand, names[hand], "let in");
}

Test(access, lets_no_peer_by_hand_in_by_tcp)
{
    for (enum hand hand = 0; hand < HANDS; hand++) {
        expect_fate(stage.control, hand, "alice", "closed");
        expect_fate(stage.data, hand, "alice", "closed");
    }
}

/* A User-Id that a peer claims is not believed: the uid of its process counts. */
Test(access, lets_no_peer_by_hand_be_another_by_ipc)
{
    open_ipc("errbusd", NULL);
    expect_fate(stage.control, ZMTP_1, "ops", "closed");
    expect_fate(stage.control, ZMTP_2, "ops", "closed");
    expect_fate(stage.control, ZMTP_PLAIN, "ops", "closed");
    expect_fate(stage.control, ZMTP_NULL, "alice", "refused");
    expect_fate(stage.control, ZMTP_NULL, "ops", "let in");
}

Test(access, lets_no_peer_by_hand_in_while_nobody_answers_for_keys)
{
    setenv("ERRBUS_NUMBER_NO_ZAP", "1", 1);
    open_ipc("errbusd_failpoints", NULL);
    for (enum hand hand = 0; hand < HANDS; hand++)
        expect_fate(stage.control, hand, "ops", "closed");
}

/* No tap is told of it.  So the log has it, without being asked for more. */
Test(access, warns_of_what_a_connection_without_a_session_does_wrong)
{
    const char *line = NULL;
    open_ipc("errbusd", NULL);
    void *context = zmq_ctx_new();
    void *socket = crowd_dial(context, stage.control, NULL);
    cr_assert_eq(zmq_send(socket, "nonsense", 8, 0), 8);
    do
        cr_assert(process_complaint(&stage.process, SOON_MS, &line), "it is not in the log");
    while (strstr(line, "warning: refused a connection without a session: ") == NULL);
    zmq_close(socket);
    zmq_ctx_term(context);
}

/* ---- what each may do ------------------------------------------------------------------------ */

Test(access, lets_a_reader_have_what_its_line_says)
{
    struct bus *alice = must_open_as(ALICE);
    struct bus *carol = must_open_as(CAROL);
    struct bus_sub *sub = NULL;
    struct bus_error *error = NULL;
    sub = must_subscribe(carol, "alice/+");
    must_publish(alice, "shut", "secret");
    must_publish(alice, "open", "news");
    expect_value(sub, "alice/open", 0, "news");
    expect_nothing(carol, sub);
    error = expect_await_failed(carol, "alice/shut", 0, "rejected");
    cr_expect_str_eq(bus_error_type(error), "errbus.not_authorised");
    bus_error_unref(&error);
    bus_sub_close(&sub);
    expect_code(bus_sub_open(carol, "alice/shut", NULL, &sub),
                BUS_OK); /* it asks in the background */
    struct bus_msg *msg = NULL;
    expect_code_of(bus_sub_recv(sub, SOON_MS, &msg, &error), BUS_EDENIED, &error);
    bus_sub_close(&sub);
    must_close(&carol);
    must_close(&alice);
}

static enum bus_err ask_as(int who,
                           enum bus_err (*ask)(struct bus_admin *admin, struct bus_error **reterr))
{
    struct bus_admin *admin = NULL;
    struct bus_admin_options options;
    struct bus_error *error = NULL;
    bus_admin_options_init(&options);
    options.key = key_paths[who];
    expect_code(bus_admin_open(stage.control, &options, SOON_MS, &admin, NULL), BUS_OK);
    enum bus_err err = ask(admin, &error);
    if (err == BUS_EDENIED)
        cr_expect_str_eq(bus_error_message(error), "this key may not do that here");
    bus_error_unref(&error);
    bus_admin_close(&admin);
    return err;
}

static enum bus_err ask_status(struct bus_admin *admin, struct bus_error **reterr)
{
    struct bus_status *status = NULL;
    enum bus_err err = bus_admin_status_get(admin, "default", SOON_MS, &status, reterr);
    bus_status_free(&status);
    return err;
}

static enum bus_err ask_report(struct bus_admin *admin, struct bus_error **reterr)
{
    struct bus_report *report = NULL;
    enum bus_err err = bus_admin_report_get(admin, "default", 0, SOON_MS, &report, reterr);
    bus_report_free(&report);
    return err;
}

static enum bus_err ask_why(struct bus_admin *admin, struct bus_error **reterr)
{
    struct bus_why *why = NULL;
    enum bus_err err = bus_why_get(admin, "default", NULL, 0, SOON_MS, &why, reterr);
    bus_why_free(&why);
    return err;
}

static enum bus_err ask_cancel(struct bus_admin *admin, struct bus_error **reterr)
{
    return bus_admin_job_cancel(admin, "default", "no more", SOON_MS, reterr);
}

static enum bus_err ask_dead(struct bus_admin *admin, struct bus_error **reterr)
{
    struct bus_dead *dead = NULL;
    enum bus_err err = bus_admin_dead_list(admin, "default", "g", SOON_MS, &dead, reterr);
    bus_dead_free(&dead);
    return err;
}

Test(access, answers_operators_as_their_lines_say)
{
    struct bus *alice = must_open_as(ALICE);
    struct bus_tap_options options;
    struct bus_tap *tap = NULL;
    cr_expect_eq(ask_as(ALICE, ask_status), BUS_EDENIED);
    cr_expect_eq(ask_as(ALICE, ask_report), BUS_EDENIED);
    cr_expect_eq(ask_as(ALICE, ask_why), BUS_EDENIED);
    cr_expect_eq(ask_as(ALICE, ask_cancel), BUS_EDENIED);
    cr_expect_eq(ask_as(ALICE, ask_dead), BUS_EDENIED);
    bus_tap_options_init(&options);
    options.key = key_paths[ALICE];
    expect_code(bus_tap_open(stage.control, &options, SOON_MS, &tap, NULL), BUS_EDENIED);
    must_publish(alice, "w", "still there");
    must_flush(alice);
    cr_expect_neq(ask_as(BOB, ask_cancel), BUS_EDENIED);
    (void)bus_close(&alice, SOON_MS); /* its job may be over */
}

/* ---- secrets --------------------------------------------------------------------------------- */

/* The text behind "secret " in a key file. */
static void read_secret(const char *path, char secret[TEXT_BYTES])
{
    char line[TEXT_BYTES];
    FILE *file = fopen(path, "re");
    cr_assert_not_null(file);
    secret[0] = '\0';
    while (fgets(line, sizeof line, file) != NULL)
        if (sscanf(line, "secret %4000s", secret) == 1)
            break;
    (void)fclose(file);
    cr_assert(strncmp(secret, "ebs_", 4) == 0);
}

Test(access, repeats_no_secret)
{
    char secret[TEXT_BYTES];
    char command[TEXT_BYTES * 2];
    struct bus *alice = must_open_as(ALICE);
    must_publish(alice, "w", "value");
    must_close(&alice);
    stage_close();
    char journal[PATH_BYTES];
    snprintf(journal, sizeof journal, "%s/journal", folder.path);
    stage_open_with((const char *const[]){"--access", access_path, "--key", broker_key, "--journal",
                                          journal, "--verbose", NULL});
    alice = must_open_as(ALICE);
    must_publish(alice, "w", "value");
    must_flush(alice);
    for (int i = 0; i < 2; i++) {
        read_secret(i == 0 ? broker_key : key_paths[ALICE], secret);
        cr_expect_null(strstr(process_complained(&stage.process), secret + 4));
        cr_expect_null(strstr(process_said(&stage.process), secret + 4));
        snprintf(command, sizeof command, "! grep -rqs %s %s /proc/%d/cmdline", secret + 4, journal,
                 (int)stage.process.pid);
        cr_expect_eq(system(command), 0);
    }
    must_close(&alice);
}

/* ---- another file while everything runs ------------------------------------------------------ */

static void reload_with(const char *text)
{
    cr_assert(folder_write(&folder, "access", text, access_path));
    process_signal(&stage.process, SIGHUP);
}

/* Waits for a line of the broker's log. */
static void expect_log(const char *words)
{
    const char *line = NULL;
    do
        cr_assert(process_complaint(&stage.process, SOON_MS, &line), "no line with '%s'", words);
    while (strstr(line, words) == NULL);
}

static void start_with_json(void)
{
    stage_close();
    stage_open_with((const char *const[]){"--access", access_path, "--key", broker_key, "--log",
                                          "json", "--verbose", NULL});
}

Test(access, is_named_in_the_log_with_address_and_error)
{
    char words[TEXT_BYTES];
    start_with_json();
    struct bus *bob = must_open_as(BOB);
    struct bus *alice = must_open_as(ALICE);
    struct bus_slot *slot = must_reserve(alice, "w");
    must_flush(alice);
    expect_log(
        "\"event\":\"party.joined\",\"job\":\"default\",\"party\":\"alice\",\"incarnation\":1,"
        "\"principal\":\"alice\",\"peer\":\"127.0.0.1\",");
    struct bus_error *error = bus_error_new("test.failed", NULL, "no more");
    bus_fail(alice, error);
    bus_error_unref(&error);
    error = expect_await_failed(bob, "alice/w", 0, "application");
    snprintf(words, sizeof words,
             "\"event\":\"party.failed\",\"job\":\"default\",\"party\":\"alice\",\"incarnation\":1,"
             "\"principal\":\"alice\",\"peer\":\"127.0.0.1\",\"error\":\"%s\"",
             bus_error_id(error));
    expect_log(words);
    bus_error_unref(&error);
    bus_slot_fail(&slot, NULL);
    (void)bus_close(&alice, SOON_MS); /* it is over */
    must_close(&bob);
}

Test(access, fails_what_a_revoked_party_owes)
{
    char text[TEXT_BYTES];
    struct bus *alice = must_open_as(ALICE);
    struct bus *bob = must_open_as(BOB);
    struct bus_slot *slot = must_reserve(alice, "w");
    must_flush(alice);
    snprintf(text, sizeof text, "key bob %s\nallow bob party in default\n", keys[BOB]);
    reload_with(text);
    struct bus_error *error = expect_await_failed(bob, "alice/w", 0, "party_lost");
    cr_expect_str_eq(bus_error_type(error), "errbus.revoked");
    cr_expect_str_eq(bus_error_message(error), "party alice lost: access of alice was withdrawn");
    bus_error_unref(&error);
    struct bus_msg *msg = NULL;
    enum bus_err err = bus_await(alice, "bob/never", 0, SOON_MS, &msg, &error);
    cr_expect_eq(err, BUS_EDENIED, "%s", code_name(err)); /* it heard why, or its key is refused */
    bus_error_unref(&error);
    bus_slot_fail(&slot, NULL);
    (void)bus_close(&alice, SOON_MS); /* it is over */
    must_publish(bob, "w", "goes on");
    must_flush(bob);
    expect_denied(ALICE, "alice", stage.control, "does not know this key");
    must_close(&bob);
}

Test(access, keeps_the_rules_of_before_if_the_file_is_wrong)
{
    struct bus *alice = must_open_as(ALICE);
    char words[TEXT_BYTES];
    reload_with("uid ops 1\nallow ops everything\n");
    snprintf(words, sizeof words, "%s:2: 'everything' is no right", access_path);
    expect_log(words);
    must_publish(alice, "w", "goes on");
    must_flush(alice);
    struct bus *bob = must_open_as(BOB);
    must_close(&bob);
    must_close(&alice);
}

Test(access, cuts_off_a_key_whose_owner_has_another_now)
{
    char text[TEXT_BYTES];
    struct bus *alice = must_open_as(ALICE);
    struct bus *bob = must_open_as(BOB);
    struct bus_slot *slot = must_reserve(alice, "w");
    must_flush(alice);
    snprintf(text, sizeof text,
             "key alice %s\nkey bob %s\nallow alice party in default\n"
             "allow bob party in default\n",
             keys[EVE], keys[BOB]);
    reload_with(text);
    /* alice's process has the old key alone: it does not come back within its grace. */
    struct bus_error *error = expect_await_failed(bob, "alice/w", 0, "party_lost");
    cr_expect_str_eq(bus_error_type(error), "errbus.connection_closed");
    bus_error_unref(&error);
    struct bus_msg *msg = NULL;
    expect_code_of(bus_await(alice, "bob/never", 0, SOON_MS, &msg, &error), BUS_EDENIED, &error);
    bus_slot_fail(&slot, NULL);
    (void)bus_close(&alice, BUS_POLL); /* the broker does not let it in */
    struct bus *again = NULL;
    expect_code(open_as(EVE, "alice", stage.control, &again, NULL), BUS_OK);
    must_close(&again);
    must_close(&bob);
}

Test(access, goes_on_after_a_hangup_without_a_file)
{
    struct bus *bus = NULL;
    stage_close();
    stage_open();
    process_signal(&stage.process, SIGHUP);
    expect_log("there is no access file to read again");
    expect_code(open_as(-1, "alice", stage.control, &bus, NULL), BUS_OK);
    must_publish(bus, "w", "value");
    must_close(&bus);
}
