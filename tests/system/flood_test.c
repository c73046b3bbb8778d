/* SPDX-License-Identifier: MPL-2.0 */
/* flood_test.c -- connections that are silent, or have unknown keys, by the thousand from one
 * address: parties of another address come and stay.  Good parties by the thousand all get in.
 *
 * The flood comes from 127.0.0.2, and parties from 127.0.0.1. */
#include "tests/lib/expect.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zmq.h>

#define TEXT_BYTES 2048
#define PATH_BYTES 192
#define Z85_BYTES 41

enum {
    SILENT = 10000,
    SILENT_WITHOUT_KEYS = LIMIT_NEW_CONNECTIONS + 500,
    GOOD = 1000,
    FLOODERS = 200,
    OWN_DESCRIPTORS = 500
};

static struct folder folder;
static char path[FOLDER_PATH_BYTES_MAX];
static char broker_public[Z85_BYTES], crowd_public[Z85_BYTES], crowd_secret[Z85_BYTES];

/* A new key, in a file of ours and as libzmq has it. */
static void make_key(const char *name, char public_z85[Z85_BYTES], char secret_z85[Z85_BYTES],
                     char file[PATH_BYTES], char public_text[BUS_KEY_TEXT_BYTES])
{
    char source[FOLDER_PATH_BYTES_MAX];
    cr_assert_eq(zmq_curve_keypair(public_z85, secret_z85), 0);
    cr_assert(folder_write(&folder, "z85", secret_z85, source));
    cr_assert_eq(chmod(source, 0600), 0);
    snprintf(file, PATH_BYTES, "%s/%s.key", folder.path, name);
    expect_code(bus_key_import(file, source, public_text, NULL), BUS_OK);
}

/* The crowd has one key, and may be each party whose name begins with p. */
static void open_with_keys(void)
{
    static char broker_file[PATH_BYTES], crowd_file[PATH_BYTES];
    char secret[Z85_BYTES], text[TEXT_BYTES];
    char broker_text[BUS_KEY_TEXT_BYTES], crowd_text[BUS_KEY_TEXT_BYTES];
    cr_assert(folder_make(&folder));
    make_key("broker", broker_public, secret, broker_file, broker_text);
    make_key("crowd", crowd_public, crowd_secret, crowd_file, crowd_text);
    snprintf(text, sizeof text, "key crowd %s\nallow crowd party as p* in default\n", crowd_text);
    cr_assert(folder_write(&folder, "access", text, path));
    stage_open_with((const char *const[]){"--access", path, "--key", broker_file, NULL});
    cr_assert_eq(setenv("ERRBUS_KEY", crowd_file, 1), 0);
}

static void close_all(void)
{
    stage_close();
    if (folder.path[0] != '\0')
        folder_fini(&folder);
    unsetenv("ERRBUS_KEY");
}

TestSuite(flood, .fini = close_all, .timeout = 180);

/* HOST:PORT of an endpoint. */
static const char *address_of(const char *endpoint)
{
    const char *at = strchr(endpoint, '@');
    return at != NULL ? at + 1 : endpoint + strlen("tcp://");
}

/* ---- silent connections ---------------------------------------------------------------------- */

/* A connection from 127.0.0.2 that says nothing; -1: there is none. */
static int connect_silently(const char *endpoint)
{
    struct sockaddr_in from = {.sin_family = AF_INET};
    struct sockaddr_in to = {.sin_family = AF_INET};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    to.sin_port = htons((uint16_t)strtoul(strrchr(endpoint, ':') + 1, NULL, 10));
    inet_pton(AF_INET, "127.0.0.2", &from.sin_addr);
    inet_pton(AF_INET, "127.0.0.1", &to.sin_addr);
    if (fd >= 0 && bind(fd, (const struct sockaddr *)&from, sizeof from) == 0 &&
        connect(fd, (const struct sockaddr *)&to, sizeof to) == 0)
        return fd;
    if (fd >= 0)
        close(fd);
    return -1;
}

/* As many as the descriptors of this process allow. */
static int connect_all_silently(int *fds, int most)
{
    struct rlimit limit;
    int count = 0;
    cr_assert_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = limit.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &limit); /* else fewer must do */
    while (count < most && (rlim_t)(count + OWN_DESCRIPTORS) < limit.rlim_cur) {
        int fd = connect_silently(stage.control);
        if (fd < 0)
            break;
        fds[count++] = fd;
    }
    cr_log_info("%d silent connections", count);
    cr_assert_geq(count, (rlim_t)most + OWN_DESCRIPTORS <= limit.rlim_cur ? most : 400);
    return count;
}

static void expect_parties_get_in(void)
{
    struct bus *alice = must_open("palice");
    struct bus *bob = must_open("pbob");
    must_publish(alice, "w", "value");
    expect_awaited(bob, "palice/w", 0, "value");
    must_close(&alice);
    must_close(&bob);
}

static void expect_parties_among_silent_ones(int most)
{
    static int fds[SILENT];
    int count = connect_all_silently(fds, most);
    int64_t begin_ms = test_now_ms();
    expect_parties_get_in();
    int64_t passed_ms = test_now_ms() - begin_ms;
    cr_log_info("two parties came, spoke and went in %lld ms", (long long)passed_ms);
    cr_expect_lt(passed_ms, 10000); /* a second, ten times */
    while (count > 0)
        close(fds[--count]);
}

Test(flood, of_silent_connections_keeps_nobody_of_another_address_out)
{
    stage_open();
    expect_parties_among_silent_ones(SILENT_WITHOUT_KEYS);
}

Test(flood, of_silent_connections_keeps_nobody_with_a_key_out)
{
    open_with_keys();
    expect_parties_among_silent_ones(SILENT);
}

/* ---- good parties ---------------------------------------------------------------------------- */

struct bytes {
    uint8_t at[512];
    size_t count;
};

static void put(struct bytes *bytes, const void *data, size_t count)
{
    memcpy(bytes->at + bytes->count, data, count);
    bytes->count += count;
}

static void put_text(struct bytes *bytes, const char *text)
{
    put(bytes, (uint8_t[]){0xd9, (uint8_t)strlen(text)}, 2);
    put(bytes, text, strlen(text));
}

/* [1, major, minor, version, credentials, job, party, role, token, heartbeat_ms, lost_after_ms,
 * grace_ms]: the row HELLO of messages.def */
static struct bytes hello(const char *party)
{
    struct bytes bytes = {.count = 0};
    put(&bytes, (uint8_t[]){0x9c, 1, 1, 0}, 4);
    put_text(&bytes, "crowd");
    put(&bytes, (uint8_t[]){0xc4, 0}, 2);
    put_text(&bytes, "default");
    put_text(&bytes, party);
    put(&bytes, (uint8_t[]){0, 0, 0xcd, 0x03, 0xe8, 0xce, 0, 1, 0x86, 0xa0, 0xcd, 0x03, 0xe8}, 13);
    return bytes;
}

/* Called by a thread, too: it asserts nothing. */
static void *dial(void *context, const char *endpoint, const char *public_z85,
                  const char *secret_z85)
{
    int linger_ms = 0;
    void *socket = zmq_socket(context, ZMQ_DEALER);
    if (socket == NULL)
        return NULL;
    zmq_setsockopt(socket, ZMQ_LINGER, &linger_ms, sizeof linger_ms);
    zmq_setsockopt(socket, ZMQ_CURVE_SERVERKEY, broker_public, Z85_BYTES);
    zmq_setsockopt(socket, ZMQ_CURVE_PUBLICKEY, public_z85, Z85_BYTES);
    zmq_setsockopt(socket, ZMQ_CURVE_SECRETKEY, secret_z85, Z85_BYTES);
    (void)zmq_connect(socket, endpoint); /* or nothing is sent */
    return socket;
}

Test(flood, of_good_parties_gets_in)
{
    static void *sockets[GOOD];
    char endpoint[TEXT_BYTES], party[32];
    open_with_keys();
    void *context = zmq_ctx_new();
    cr_assert_eq(zmq_ctx_set(context, ZMQ_MAX_SOCKETS, 2 * GOOD), 0);
    snprintf(endpoint, sizeof endpoint, "tcp://%s", address_of(stage.control));
    for (int i = 0; i < GOOD; i++) {
        snprintf(party, sizeof party, "p%d", i);
        struct bytes greeting = hello(party);
        sockets[i] = dial(context, endpoint, crowd_public, crowd_secret);
        cr_assert_eq(zmq_send(sockets[i], greeting.at, greeting.count, 0), (int)greeting.count);
    }
    for (int i = 0; i < GOOD; i++) {
        uint8_t answer[TEXT_BYTES];
        zmq_pollitem_t item = {.socket = sockets[i], .events = ZMQ_POLLIN};
        cr_assert_eq(zmq_poll(&item, 1, 3 * SOON_MS), 1, "p%d has no answer", i);
        int count = zmq_recv(sockets[i], answer, sizeof answer, 0);
        cr_assert_gt(count, 4);
        cr_assert_eq(answer[0] == 0xdc ? answer[3] : answer[1], 64, "p%d is not welcome", i);
    }
    expect_parties_get_in();
    for (int i = 0; i < GOOD; i++)
        zmq_close(sockets[i]);
    zmq_ctx_term(context);
}

/* ---- unknown keys ---------------------------------------------------------------------------- */

/* Waits for a line of the broker's log. */
static void expect_log(const char *words)
{
    const char *line = NULL;
    do
        cr_assert(process_complaint(&stage.process, SOON_MS, &line), "no line with '%s'", words);
    while (strstr(line, words) == NULL);
}

/* libzmq does not connect again after a refused key.  So the flood makes new sockets. */
struct flood {
    pthread_t thread;
    atomic_bool is_over;
    unsigned count;
    char endpoint[TEXT_BYTES];
};

/* 2,000 connections in a second, if the processor can; each lives for a tenth of a second. */
static void *run_flood(void *given)
{
    void *sockets[FLOODERS] = {NULL};
    char public_z85[Z85_BYTES], secret_z85[Z85_BYTES];
    struct flood *flood = given;
    void *context = zmq_ctx_new();
    if (context == NULL || zmq_curve_keypair(public_z85, secret_z85) != 0)
        return NULL;
    for (; !atomic_load(&flood->is_over); flood->count++) {
        void **place = &sockets[flood->count % FLOODERS];
        if (*place != NULL)
            zmq_close(*place);
        *place = dial(context, flood->endpoint, public_z85, secret_z85);
        if (flood->count % 2 == 1)
            usleep(1000);
    }
    for (int i = 0; i < FLOODERS; i++)
        if (sockets[i] != NULL)
            zmq_close(sockets[i]);
    zmq_ctx_term(context);
    return NULL;
}

static void begin_flood(struct flood *flood)
{
    memset(flood, 0, sizeof *flood);
    snprintf(flood->endpoint, sizeof flood->endpoint, "tcp://127.0.0.2:0;%s",
             address_of(stage.control));
    cr_assert_eq(pthread_create(&flood->thread, NULL, run_flood, flood), 0);
}

static void end_flood(struct flood *flood)
{
    atomic_store(&flood->is_over, true);
    cr_assert_eq(pthread_join(flood->thread, NULL), 0);
    cr_log_info("%u connections with an unknown key", flood->count);
}

Test(flood, of_unknown_keys_loses_nobody)
{
    struct flood flood;
    open_with_keys();
    struct bus *alice = must_open("palice");
    struct bus *bob = must_open("pbob");
    struct bus_sub *sub = must_subscribe(bob, "palice/w");
    begin_flood(&flood);
    expect_log("addresses with failed handshakes");
    for (unsigned i = 0; i < 200; i++) {
        must_publish(alice, "w", "%u", i);
        expect_value(sub, "palice/w", i, "%u", i);
    }
    struct bus *carol = must_open("pcarol"); /* from an address without a flood */
    end_flood(&flood);
    must_close(&carol);
    must_flush(alice);
    bus_sub_close(&sub);
    must_close(&alice);
    must_close(&bob);
}
