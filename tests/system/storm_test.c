/* SPDX-License-Identifier: MPL-2.0 */
/* storm_test.c -- connections by the thousand, that say nothing, or come and go, or take the last
 * descriptors: who is in goes on, and who keeps to the protocol gets in. */
#include "tests/lib/bystanders.h"
#include "tests/lib/crowd.h"
#include "tests/lib/expect.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>
#include <zmq.h>

enum {
    SILENT = 10000,
    NEW_CONNECTIONS_MAX = 4096, /* LIMIT_NEW_CONNECTIONS in PROTOCOL.md */
    OTHERS_MAX = 200,           /* descriptors of the broker beside them */
    ROUNDS = 20,
    ROUND_CONNECTIONS = 100,
    LOST = 300,
};
/* What the broker may take for all that is done here: libzmq needs 23 KiB for a connection. */
#define MEMORY_MAX_KIB (512L * 1024)

static int silent[SILENT];

static void open_all(void)
{
    stage_open();
    bystanders_open();
}

static struct folder kept; /* of a journal; mostly there is none */

static void close_all(void)
{
    bystanders_close();
    stage_close();
    folder_fini(&kept);
}

TestSuite(storm, .init = open_all, .fini = close_all, .timeout = 300);

/* ---- the broker, from outside ---------------------------------------------------------------- */

static int count_descriptors(void)
{
    char path[64];
    int count = -2; /* . and .. */
    snprintf(path, sizeof path, "/proc/%ld/fd", (long)stage.process.pid);
    DIR *folder = opendir(path);
    cr_assert_not_null(folder);
    while (readdir(folder) != NULL)
        count += 1;
    closedir(folder);
    return count;
}

/* Work goes on meanwhile. */
static void expect_descriptors(int at_most)
{
    int64_t until_ms = test_now_ms() + SOON_MS;
    while (count_descriptors() > at_most) {
        cr_assert_lt(test_now_ms(), until_ms, "%d descriptors, not %d", count_descriptors(),
                     at_most);
        bystanders_expect_undisturbed();
    }
}

static long memory_kib(void)
{
    char path[64];
    char line[256];
    long kib = -1;
    snprintf(path, sizeof path, "/proc/%ld/status", (long)stage.process.pid);
    FILE *file = fopen(path, "re");
    cr_assert_not_null(file);
    while (fgets(line, sizeof line, file) != NULL)
        (void)sscanf(line, "VmRSS: %ld", &kib); /* one line has it */
    fclose(file);
    return kib;
}

/* User and system, in ms. */
static int64_t cpu_ms(void)
{
    char path[64];
    char text[1024];
    unsigned long user = 0;
    unsigned long system = 0;
    snprintf(path, sizeof path, "/proc/%ld/stat", (long)stage.process.pid);
    FILE *file = fopen(path, "re");
    cr_assert_not_null(file);
    cr_assert_not_null(fgets(text, sizeof text, file));
    fclose(file);
    const char *behind = strrchr(text, ')');
    cr_assert_eq(
        sscanf(behind, ") %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user, &system), 2);
    return (int64_t)(user + system) * 1000 / sysconf(_SC_CLK_TCK);
}

/* ---- who connects ---------------------------------------------------------------------------- */

static int dial(const char *endpoint)
{
    const char *colon = strrchr(endpoint, ':');
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)strtoul(colon + 1, NULL, 10))};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    cr_assert_geq(fd, 0, "a socket: %s", strerror(errno));
    cr_assert_eq(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
    return fd;
}

static const uint8_t zmtp_ready[] = "\4\x1c\5READY\xbSocket-Type\0\0\0\6DEALER";
static const uint8_t zmtp_greeting[64] = {0xff, 0,    0, 0, 0,   0,   0,   0,
                                          0,    0x7f, 3, 0, 'N', 'U', 'L', 'L'};

/* What libzmq wants to hear from a DEALER: greeting, READY.  Then it is a connection for good. */
static void shake_hands(int fd)
{
    (void)send(fd, zmtp_greeting, sizeof zmtp_greeting, MSG_NOSIGNAL); /* it may be closed by now */
    (void)send(fd, zmtp_ready, sizeof zmtp_ready - 1, MSG_NOSIGNAL);
}

/* The half of a greeting, of a handshake, of a message that follows; or nothing at all. */
enum half { HALF_NOTHING, HALF_GREETING, HALF_READY, HALF_MESSAGE, HALVES };
static void say_half(int fd, enum half half)
{
    static const uint8_t message[] = {0, 200, 0x92, 2}; /* of 200 bytes */
    if (half == HALF_GREETING)
        (void)send(fd, zmtp_greeting, sizeof zmtp_greeting / 2, MSG_NOSIGNAL);
    if (half == HALF_READY) {
        (void)send(fd, zmtp_greeting, sizeof zmtp_greeting, MSG_NOSIGNAL);
        (void)send(fd, zmtp_ready, sizeof zmtp_ready / 2, MSG_NOSIGNAL);
    }
    if (half == HALF_MESSAGE) {
        shake_hands(fd);
        (void)send(fd, message, sizeof message, MSG_NOSIGNAL);
    }
}

/* How many of so many connections this process may have. */
static int open_silent(int wanted, bool is_shaking_hands)
{
    struct rlimit limit;
    cr_assert_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = limit.rlim_max;
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
    int most = limit.rlim_cur < SILENT + OTHERS_MAX ? (int)limit.rlim_cur - OTHERS_MAX : SILENT;
    int count = wanted < most ? wanted : most;
    for (int i = 0; i < count; i++) {
        silent[i] = dial(i % 2 == 0 ? stage.control : stage.data);
        if (is_shaking_hands)
            shake_hands(silent[i]);
        if (i % 1000 == 0)
            bystanders_expect_undisturbed();
    }
    return count;
}

static void close_silent(int count)
{
    for (int i = 0; i < count; i++)
        close(silent[i]);
}

/* The broker closes it. */
static void expect_closed(int fd)
{
    struct pollfd item = {.fd = fd, .events = POLLIN};
    char bytes[256];
    ssize_t got = 1;
    while (got > 0) {
        cr_assert_eq(poll(&item, 1, (int)SOON_MS), 1, "it is left open");
        got = recv(fd, bytes, sizeof bytes, 0);
    }
    cr_assert(got == 0 || errno == ECONNRESET);
}

/* ---- silence --------------------------------------------------------------------------------- */

Test(storm, of_ten_thousand_that_say_nothing_shuts_nobody_out)
{
    int count = open_silent(SILENT, true);
    expect_descriptors(NEW_CONNECTIONS_MAX + OTHERS_MAX);
    struct bus *late = must_open("late");
    must_publish(late, "w", "in");
    must_close(&late);
    bystanders_expect_undisturbed();
    cr_expect_lt(memory_kib(), MEMORY_MAX_KIB);
    close_silent(count);
    expect_descriptors(OTHERS_MAX);
}

static void start_with_short_time(void)
{
    static const char *const argv[] = {"errbusd_failpoints",
                                       "--control",
                                       "tcp://127.0.0.1:*",
                                       "--data",
                                       "tcp://127.0.0.1:*",
                                       "--journal",
                                       "none",
                                       NULL};
    static const char *const environment[] = {"ERRBUS_NUMBER_NEW_CONNECTION_MS=300", NULL};
    const char *line = NULL;
    close_all();
    cr_assert(process_start(&stage.process, argv, environment));
    cr_assert(process_line(&stage.process, SOON_MS, &line));
    cr_assert_eq(sscanf(line, "errbusd ready control=%255s data=%255s", stage.control, stage.data),
                 2);
    bystanders_open();
}

/* Those who never greet libzmq, or stop in the middle of a greeting, a handshake or a message;
 * those who never greet the broker, and those who say what is no message.  Who is in, and an
 * observer that says next to nothing, stays. */
Test(storm, of_silence_is_over_when_its_time_is)
{
    enum { EACH = 30 };
    /* A frame of one byte that is no msgpack, and a frame without any before it. */
    static const uint8_t trash[] = {0, 1, 0xc1};
    start_with_short_time();
    struct bus_tap *tap = must_tap(NULL, BUS_TAP_NOW);
    int count = open_silent(2 * EACH, true);
    for (int i = EACH; i < 2 * EACH; i++)
        cr_assert_eq(send(silent[i], trash, sizeof trash, MSG_NOSIGNAL), sizeof trash);
    for (int i = 0; i < EACH; i++) {
        int mute = dial(i % 2 == 0 ? stage.control : stage.data);
        say_half(mute, (enum half)(i / 2 % HALVES));
        expect_closed(mute);
        close(mute);
        bystanders_expect_undisturbed();
    }
    for (int i = 0; i < count; i++)
        expect_closed(silent[i]);
    close_silent(count);
    bystanders_expect_undisturbed();
    struct bus *late = must_open("late");
    must_close(&late);
    expect_event(tap, "party.left", "late");
    bus_tap_close(&tap);
}

/* ---- coming and going ------------------------------------------------------------------------ */

/* Some close in good order, some by a reset, some before their handshake is over. */
Test(storm, of_connections_that_come_and_go_leaves_nothing)
{
    struct linger reset = {.l_onoff = 1, .l_linger = 0};
    int before = count_descriptors();
    for (int round = 0; round < ROUNDS; round++) {
        int count = open_silent(ROUND_CONNECTIONS, round % 3 != 0);
        for (int i = 0; round % 2 == 0 && i < count; i++)
            setsockopt(silent[i], SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
        close_silent(count);
        bystanders_expect_undisturbed();
    }
    expect_descriptors(before);
    cr_expect_lt(memory_kib(), MEMORY_MAX_KIB);
}

/* All at once, as when a cluster starts. */
Test(storm, of_parties_lets_all_in)
{
    enum { PARTIES = 60 };
    struct bus *parties[PARTIES];
    char name[16];
    for (int i = 0; i < PARTIES; i++) {
        snprintf(name, sizeof name, "p%d", i);
        struct bus_options options;
        bus_options_init(&options);
        options.party = name;
        parties[i] = must_open_with(&options);
    }
    for (int i = 0; i < PARTIES; i++)
        must_publish(parties[i], "w", "in");
    bystanders_expect_undisturbed();
    for (int i = 0; i < PARTIES; i++)
        must_close(&parties[i]);
}

/* ---- descriptors ----------------------------------------------------------------------------- */

/* With a journal, which has files of its own to open; one segment is soon full.  slow: a place of
 * failpoint.h, and for how long the broker sleeps there. */
static void start_with_few_descriptors(const char *slow)
{
    char path[4096];
    char command[4600];
    const char *line = NULL;
    close_all();
    cr_assert(folder_make(&kept));
    snprintf(command, sizeof command,
             "ulimit -n 100; ERRBUS_SLOW=%s ERRBUS_NUMBER_SEGMENT_BYTES=65536 exec '%s' "
             "--verbose --durability disk --control 'tcp://127.0.0.1:*' --data 'tcp://127.0.0.1:*' "
             "--journal '%s/journal'",
             slow, process_path("errbusd_failpoints", path, sizeof path), kept.path);
    const char *const argv[] = {"/bin/sh", "-c", command, NULL};
    cr_assert(process_start(&stage.process, argv, NULL));
    cr_assert(process_line(&stage.process, SOON_MS, &line));
    cr_assert_eq(sscanf(line, "errbusd ready control=%255s data=%255s", stage.control, stage.data),
                 2);
    bystanders_open();
}

/* 24 KiB may wait for a slow disk beside such segments: the one is less, the other is more. */
enum { VALUE_BYTES = 10000, LARGE_BYTES = 40000 };

static void publish_zeros(size_t bytes)
{
    static const char zeros[LARGE_BYTES];
    expect_code(bus_publish(bystanders.writer, "large", zeros, bytes), BUS_OK);
}

/* So much that the journal needs new files. */
static void write_segments(void)
{
    for (int i = 0; i < 32; i++) {
        publish_zeros(VALUE_BYTES);
        must_flush(bystanders.writer);
    }
    bystanders_expect_undisturbed();
}

enum { REFUSED_MS = 3000 }; /* in which a busy machine lets in who may come */

static enum bus_err try_to_open(const char *party, struct bus **out_bus)
{
    struct bus_options options;
    struct bus_error *error = NULL;
    bus_options_init(&options);
    options.party = party;
    enum bus_err err = bus_open(stage.control, &options, REFUSED_MS, out_bus, &error);
    bus_error_unref(&error);
    return err;
}

enum { PARTIES_MAX = 23 }; /* of 100 descriptors 50 are for connections; bystanders have 4 */

/* Parties until two in a row are not let in: they hear so within their own bound.  (One alone may
 * have been too slow for it.)  The others go on, the broker does not spin, and the place of whoever
 * leaves is free. */
Test(storm, that_takes_all_descriptors_leaves_those_who_are_in)
{
    enum { MANY = PARTIES_MAX + 1 };
    struct bus *parties[MANY] = {NULL};
    char name[16];
    int count = 0;
    int64_t busy_ms = 0; /* of the broker, while the last one waited */
    start_with_few_descriptors("");
    for (int refused = 0; refused < 2;) {
        cr_assert_lt(count, MANY);
        snprintf(name, sizeof name, "p%d", count);
        int64_t before_ms = cpu_ms();
        enum bus_err err = try_to_open(name, &parties[count]);
        busy_ms = cpu_ms() - before_ms;
        if (err != BUS_OK)
            expect_code(err, BUS_ETIMEDOUT);
        count += err == BUS_OK;
        refused = err == BUS_OK ? 0 : refused + 1;
    }
    cr_expect_gt(count, 10);
    cr_expect_lt(busy_ms, REFUSED_MS / 2, "half of the time in which it waited");
    for (int i = 0; i < count; i++)
        must_publish(parties[i], "w", "still here");
    write_segments();
    for (int i = 0; i < 2; i++)
        must_close(&parties[i]);
    struct bus *late = must_open("late");
    must_publish(late, "w", "in");
    must_close(&late);
    for (int i = 2; i < count; i++)
        must_close(&parties[i]);
    bystanders_expect_undisturbed();
}

static bool has_complained(const char *words)
{
    (void)process_wait(&stage.process, 0); /* reads what it says */
    return strstr(process_complained(&stage.process), words) != NULL;
}

static unsigned count_complaints(const char *words)
{
    unsigned count = 0;
    (void)process_wait(&stage.process, 0); /* reads what it says */
    for (const char *at = process_complained(&stage.process); (at = strstr(at, words)) != NULL;
         at++)
        count++;
    return count;
}

/* All places are taken, and what one of the parties says is put off while the disk is slow.  It
 * comes back by another connection as soon as it may, in the place that it had. */
Test(storm, of_values_for_a_slow_disk_keeps_nobody_out)
{
    struct bus *parties[PARTIES_MAX];
    char name[16];
    start_with_few_descriptors("append:20");
    for (int i = 0; i < PARTIES_MAX; i++) {
        snprintf(name, sizeof name, "p%d", i);
        parties[i] = must_open(name);
    }
    int64_t until_ms = test_now_ms() + SOON_MS;
    for (int round = 0; !has_complained("party.suspect default/p0/1: its connection closed");
         round++) {
        cr_assert_lt(test_now_ms(), until_ms, "its connection was not cut");
        publish_zeros(LARGE_BYTES);
        snprintf(name, sizeof name, "w%d", round);
        must_publish(parties[0], name, "still here"); /* a name may be long, and must wait */
        must_flush(parties[0]);
        bystanders_expect_undisturbed();
    }
    cr_expect(has_complained("until the disk has caught up"));
    for (int i = 0; i < PARTIES_MAX; i++)
        must_close(&parties[i]);
    bystanders_expect_undisturbed();
}

/* The same of all parties at once: each dials at a moment of its own, and by then the broker knows
 * that the place is free. */
Test(storm, of_values_of_all_for_a_slow_disk_keeps_nobody_out)
{
    struct bus *parties[PARTIES_MAX];
    char name[32];
    int64_t until_ms = test_now_ms() + SOON_MS;
    start_with_few_descriptors("append:20");
    for (int i = 0; i < PARTIES_MAX; i++) {
        snprintf(name, sizeof name, "p%d", i);
        parties[i] = must_open(name);
    }
    for (int round = 0; count_complaints(": its connection closed") < PARTIES_MAX; round++) {
        cr_assert_lt(test_now_ms(), until_ms, "their connections were not cut");
        publish_zeros(LARGE_BYTES);
        for (int i = 0; i < PARTIES_MAX; i++) {
            snprintf(name, sizeof name, "w%d", round);
            must_publish(parties[i], name, "still here");
        }
        for (int i = 0; i < PARTIES_MAX; i++)
            must_flush(parties[i]);
        bystanders_expect_undisturbed();
    }
    for (int i = 0; i < PARTIES_MAX; i++)
        must_close(&parties[i]);
    cr_expect_eq(count_complaints("party.lost"), 0);
    bystanders_expect_undisturbed();
}

/* Taps are told of each, and the log has the number of those that are no lines. */
Test(storm, of_lost_parties_is_few_lines_of_the_log)
{
    static const char sum[] = "warning: party.lost: ";
    static void *sockets[LOST];
    char name[16];
    unsigned long summed = 0;
    int64_t begin_ms = test_now_ms();
    void *context = zmq_ctx_new();
    struct bus_tap *tap = must_tap("default", 1);
    for (int i = 0; i < LOST; i++) {
        snprintf(name, sizeof name, "p%d", i);
        sockets[i] = crowd_dial(context, stage.control, NULL);
        cr_assert(crowd_greet(sockets[i], name, 100));
    }
    for (int i = 0; i < LOST; i++)
        cr_assert(crowd_is_welcome(sockets[i], SOON_MS), "p%d is not welcome", i);
    for (int i = 0; i < LOST; i++)
        zmq_close(sockets[i]);
    zmq_ctx_term(context);
    for (int i = 0; i < LOST; i++)
        expect_event(tap, "party.lost", NULL);
    bus_tap_close(&tap);
    bystanders_expect_undisturbed();
    bystanders_close();
    process_signal(&stage.process, SIGTERM);
    cr_assert_eq(process_wait(&stage.process, SOON_MS), 0);
    int64_t passed_s = (test_now_ms() - begin_ms) / 1000;
    unsigned lines = count_complaints("warning: party.lost default/p");
    for (const char *at = process_complained(&stage.process); (at = strstr(at, sum)) != NULL; at++)
        summed += strtoul(at + sizeof sum - 1, NULL, 10);
    cr_expect_geq(lines, LIMIT_EVENT_WARNINGS);
    cr_expect_leq(lines, LIMIT_EVENT_WARNINGS + 1 + LIMIT_EVENT_WARNINGS_A_SECOND * passed_s);
    cr_expect_eq(lines + summed, LOST, "%s", process_complained(&stage.process));
}

/* The same by raw peers: they are let go, whoever keeps to the protocol gets in at once. */
Test(storm, of_silence_takes_no_descriptors_from_parties)
{
    start_with_few_descriptors("");
    int count = open_silent(300, true);
    struct bus *late = must_open("late");
    must_publish(late, "w", "in");
    must_close(&late);
    write_segments();
    close_silent(count);
}
