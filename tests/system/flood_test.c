/* SPDX-License-Identifier: MPL-2.0 */
/* flood_test.c -- connections that are silent, or have unknown keys, by the thousand from one
 * address: parties of another address come and stay.  Good parties by the thousand all get in.
 *
 * The flood comes from 127.0.0.2, and parties from 127.0.0.1. */
#include "tests/lib/crowd.h"
#include "tests/lib/expect.h"
#include "tests/lib/knock.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>
#include <zmq.h>

#define TEXT_BYTES 2048

enum {
    SILENT = 10000,
    SILENT_WITHOUT_KEYS = LIMIT_NEW_CONNECTIONS + 500,
    GOOD = 1000,
    COMERS = 200,
    LEFT = 300,
    LOG_MS = 500,    /* a line that is written is read long before */
    ASKED_MS = 1300, /* clients ask what listens from a second on, for half a second */
    FLOODERS = 200,
    OWN_DESCRIPTORS = 500,
    KNOCKS = 4000,
};

static struct folder folder;
static char path[FOLDER_PATH_BYTES_MAX];
static struct crowd_keys keys;

/* The crowd has one key, and may be each party whose name begins with p. */
static void open_with_keys(void)
{
    char text[TEXT_BYTES];
    static struct crowd_pair broker, crowd;
    cr_assert(folder_make(&folder));
    crowd_make_key(&folder, "broker", &broker);
    crowd_make_key(&folder, "crowd", &crowd);
    memcpy(keys.broker, broker.public_key, sizeof keys.broker);
    memcpy(keys.own, crowd.public_key, sizeof keys.own);
    memcpy(keys.own_secret, crowd.secret_key, sizeof keys.own_secret);
    snprintf(text, sizeof text, "key crowd %s\nallow crowd party as p* in default\n", crowd.text);
    cr_assert(folder_write(&folder, "access", text, path));
    stage_open_with((const char *const[]){"--access", path, "--key", broker.file, NULL});
    cr_assert_eq(setenv("ERRBUS_KEY", crowd.file, 1), 0);
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
    cr_log_info("figure: two parties came, spoke and went beside %d silent connections: %lld ms",
                count, (long long)passed_ms);
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
        sockets[i] = crowd_dial(context, endpoint, &keys);
        cr_assert(crowd_greet(sockets[i], party, 1000));
    }
    for (int i = 0; i < GOOD; i++)
        cr_assert(crowd_is_welcome(sockets[i], 3 * SOON_MS), "p%d is not welcome", i);
    expect_parties_get_in();
    for (int i = 0; i < GOOD; i++)
        zmq_close(sockets[i]);
    zmq_ctx_term(context);
}

/* ---- good parties beside a slow broker ------------------------------------------------------- */

struct comer {
    pthread_t thread;
    char party[32];
    struct bus *bus;
    enum bus_err err;
};

static void stand_still(int64_t ms)
{
    process_signal(&stage.process, SIGSTOP);
    usleep((useconds_t)ms * 1000);
    process_signal(&stage.process, SIGCONT);
}

static void *come(void *given)
{
    struct comer *comer = given;
    struct bus_options options;
    bus_options_init(&options);
    options.party = comer->party;
    comer->err = bus_open(stage.control, &options, 3 * SOON_MS, &comer->bus, NULL);
    return NULL;
}

/* Nothing of the log so far has these words. */
static void expect_no_log(const char *words)
{
    const char *line = NULL;
    struct bus *last = must_open("plast"); /* what was worth a line has one by now */
    must_close(&last);
    while (process_complaint(&stage.process, LOG_MS, &line))
        cr_expect_null(strstr(line, words), "%s", line);
}

/* Each of them asks on another connection what listens there, as no handshake ends for a second. */
Test(flood, of_good_parties_beside_a_slow_broker_gets_in)
{
    static struct comer comers[COMERS];
    open_with_keys();
    process_signal(&stage.process, SIGSTOP); /* all of them dial while nobody answers */
    for (int i = 0; i < COMERS; i++) {
        snprintf(comers[i].party, sizeof comers[i].party, "p%d", i);
        cr_assert_eq(pthread_create(&comers[i].thread, NULL, come, &comers[i]), 0);
    }
    stand_still(ASKED_MS);
    for (int i = 0; i < COMERS; i++) {
        cr_assert_eq(pthread_join(comers[i].thread, NULL), 0);
        cr_assert_eq(comers[i].err, BUS_OK, "p%d: %s", i, code_name(comers[i].err));
    }
    expect_no_log("refused new connections");
    for (int i = 0; i < COMERS; i++)
        expect_code(bus_close(&comers[i].bus, 3 * SOON_MS), BUS_OK);
}

/* ---- good clients that leave ----------------------------------------------------------------- */

/* A party of 127.0.0.2 gets in at once: its address is not refused. */
static void expect_address_is_welcome(void *context)
{
    char endpoint[TEXT_BYTES];
    snprintf(endpoint, sizeof endpoint, "tcp://127.0.0.2:0;%s", address_of(stage.control));
    void *party = crowd_dial(context, endpoint, &keys);
    cr_assert(crowd_greet(party, "pgood", 1000));
    cr_expect(crowd_is_welcome(party, 3 * SOON_MS));
    zmq_close(party);
    expect_no_log("refused new connections");
}

/* Begins a handshake as who asks what listens there, and hears the answer. */
static int ask_what_listens(void)
{
    static const uint8_t greeting[] = {0xff, 0,    0, 0, 0,   0,   0,   0,
                                       1,    0x7f, 3, 0, 'N', 'U', 'L', 'L'};
    uint8_t heard[16];
    int fd = connect_silently(stage.control);
    cr_assert_geq(fd, 0);
    cr_assert_eq(send(fd, greeting, sizeof greeting, MSG_NOSIGNAL), (ssize_t)sizeof greeting);
    cr_assert_eq(recv(fd, heard, sizeof heard, MSG_WAITALL), (ssize_t)sizeof heard);
    return fd;
}

Test(flood, of_handshakes_left_in_the_middle_refuses_nobody)
{
    static int fds[LEFT];
    open_with_keys();
    void *context = zmq_ctx_new();
    for (int i = 0; i < LEFT; i++)
        fds[i] = ask_what_listens();
    for (int i = 0; i < LEFT; i++)
        close(fds[i]);
    expect_address_is_welcome(context);
    zmq_ctx_term(context);
}

/* A client dials for data early, and may not need it. */
Test(flood, of_good_connections_that_say_nothing_refuses_nobody)
{
    static void *sockets[LEFT];
    char endpoint[TEXT_BYTES];
    open_with_keys();
    void *context = zmq_ctx_new();
    cr_assert_eq(zmq_ctx_set(context, ZMQ_MAX_SOCKETS, 2 * LEFT), 0);
    snprintf(endpoint, sizeof endpoint, "tcp://127.0.0.2:0;%s", address_of(stage.control));
    for (int i = 0; i < LEFT; i++)
        sockets[i] = crowd_dial(context, endpoint, &keys);
    expect_address_is_welcome(context); /* the others are behind their handshakes by then */
    for (int i = 0; i < LEFT; i++)
        zmq_close(sockets[i]);
    expect_address_is_welcome(context);
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
    struct crowd_keys unknown = keys;
    struct flood *flood = given;
    void *context = zmq_ctx_new();
    if (context == NULL || zmq_curve_keypair(unknown.own, unknown.own_secret) != 0)
        return NULL;
    for (; !atomic_load(&flood->is_over); flood->count++) {
        void **place = &sockets[flood->count % FLOODERS];
        if (*place != NULL)
            zmq_close(*place);
        *place = crowd_dial(context, flood->endpoint, &unknown);
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
    expect_log("refused new connections of an address");
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

/* ---- false handshakes ------------------------------------------------------------------------ */

/* Waits until the broker has closed it. */
static void await_end(int fd)
{
    char bytes[128];
    struct pollfd item = {.fd = fd, .events = POLLIN};
    ssize_t count = 1;
    while (count > 0) {
        cr_assert_eq(poll(&item, 1, (int)SOON_MS), 1);
        count = recv(fd, bytes, sizeof bytes, 0); /* its greeting, then the end */
    }
}

/* How many of these attempts become connections, one behind the other. */
static int knock_often(int attempts)
{
    int let_in = 0;
    for (int i = 0; i < attempts; i++) {
        bool is_let_in = false;
        int fd = knock(stage.control, "127.0.0.2", &is_let_in);
        cr_assert_geq(fd, 0);
        if (is_let_in)
            await_end(fd);
        close(fd);
        let_in += is_let_in;
    }
    return let_in;
}

Test(flood, of_false_handshakes_meets_no_broker_while_it_lasts)
{
    char endpoint[TEXT_BYTES];
    if (!knock_can_be_filtered()) /* connections are accepted then, and closed: all are let in */
        cr_skip_test("this kernel lets nobody but root filter what a socket gets");
    open_with_keys();
    int64_t begin_ms = test_now_ms();
    int let_in = knock_often(KNOCKS);
    int64_t passed_ms = test_now_ms() - begin_ms;
    cr_log_info("%d of %d false handshakes in %lld ms", let_in, KNOCKS, (long long)passed_ms);
    cr_expect_geq(let_in, LIMIT_HANDSHAKE_BURST);
    cr_expect_lt(let_in, KNOCKS / 2);
    expect_log("of 127.0.0.2: an address may have 20 failed handshakes");
    expect_parties_get_in(); /* from another address */
    void *context = zmq_ctx_new();
    snprintf(endpoint, sizeof endpoint, "tcp://127.0.0.2:0;%s", address_of(stage.control));
    void *late = crowd_dial(context, endpoint, &keys); /* from this one, when its time is over */
    cr_assert(crowd_greet(late, "plate", 1000));
    cr_expect(crowd_is_welcome(late, 3 * SOON_MS));
    zmq_close(late);
    zmq_ctx_term(context);
}
