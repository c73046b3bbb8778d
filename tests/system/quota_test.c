/* SPDX-License-Identifier: MPL-2.0 */
/* quota_test.c -- limits of an access file, and its next version, over a real broker: what is too
 * much is told in words, a writer keeps its rate, and whoever lost access gets nothing more. */
#include "tests/lib/crowd.h"
#include "tests/lib/expect.h"
#include "tests/lib/folder.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zmq.h>

#define PATH_BYTES 192
#define TEXT_BYTES 2048

enum {
    RATE = 4 * 1024 * 1024,
    RATE_MS = 2500,
    RATE_LONG_MS = 10000,
    VALUE_BYTES = 16 * 1024,
    OPEN_SLOTS = 10000,
    READERS = 3,
    CLOSED_WITHIN_MS = 20000, /* 2 s, ten times */
    OTHERS = 1000,
    BEAT_MS = 2000, /* who is not heard for five seconds is suspect */
    TOPICS = 128,   /* each has a window of half a MiB: 64 MiB in all */
    PIECE_BYTES = 128 * 1024,
    PIECES = 4,
};

static struct folder folder;
static char alice_key[PATH_BYTES], bob_key[PATH_BYTES], broker_key[PATH_BYTES];
static char alice[BUS_KEY_TEXT_BYTES], bob[BUS_KEY_TEXT_BYTES];
static char access_path[FOLDER_PATH_BYTES_MAX];

/* more: lines that come with those of alice and bob. */
static void write_access(bool has_alice, bool has_bob, const char *more)
{
    char text[TEXT_BYTES];
    snprintf(text, sizeof text, "key alice %s\nkey bob %s\n%s%s%s", alice, bob,
             has_alice ? "allow alice party as alice alice-2 alice-3 in *\n" : "",
             has_bob ? "allow bob party as bob bob-2 bob-3 in *\n" : "", more);
    cr_assert(folder_write(&folder, "access", text, access_path));
}

static void make_keys(void)
{
    cr_assert(folder_make(&folder));
    snprintf(alice_key, sizeof alice_key, "%s/alice.key", folder.path);
    snprintf(bob_key, sizeof bob_key, "%s/bob.key", folder.path);
    snprintf(broker_key, sizeof broker_key, "%s/broker.key", folder.path);
    expect_code(bus_key_new(alice_key, alice, NULL), BUS_OK);
    expect_code(bus_key_new(bob_key, bob, NULL), BUS_OK);
}

static void open_limited(const char *limits)
{
    make_keys();
    write_access(true, true, limits);
    stage_open_with((const char *const[]){"--access", access_path, "--key", broker_key, NULL});
}

static void close_all(void)
{
    stage_close();
    folder_fini(&folder);
    unsetenv("ERRBUS_KEY");
}

TestSuite(quota, .fini = close_all, .timeout = 120);

static enum bus_err open_as(const char *party, const char *job, const char *key,
                            struct bus **out_bus, struct bus_error **reterr)
{
    struct bus_options options;
    bus_options_init(&options);
    options.party = party;
    options.job = job;
    options.key = key;
    return bus_open(stage.control, &options, SOON_MS, out_bus, reterr);
}

static struct bus *must_open_as(const char *party, const char *job, const char *key)
{
    struct bus *bus = NULL;
    struct bus_error *error = NULL;
    enum bus_err err = open_as(party, job, key, &bus, &error);
    cr_assert_eq(err, BUS_OK, "%s: %s", party, bus_error_message(error));
    return bus;
}

static void expect_too_many(const char *party, const char *job, const char *words)
{
    struct bus *bus = NULL;
    struct bus_error *error = NULL;
    enum bus_err err = open_as(party, job, alice_key, &bus, &error);
    cr_expect_eq(err, BUS_EFULL, "%s: %s", code_name(err), bus_error_message(error));
    cr_expect_str_eq(bus_error_type(error), "errbus.quota");
    cr_expect_str_eq(bus_error_message(error), words);
    bus_error_unref(&error);
}

/* ---- too much -------------------------------------------------------------------------------- */

Test(quota, says_what_somebody_may_have_and_has)
{
    open_limited("limit alice jobs 1 connections 2 open-slots 2\n");
    struct bus *first = must_open_as("alice", "one", alice_key);
    expect_too_many("alice", "two", "alice may have 1 jobs, and has 1");
    struct bus *second = must_open_as("alice-2", "one", alice_key);
    expect_too_many("alice-3", "one", "alice may have 2 connections, and has 2");
    struct bus *other = must_open_as("bob", "two", bob_key);
    must_close(&second);
    second = must_open_as("alice-2", "one", alice_key);
    struct bus_slot *slots[2] = {must_reserve(first, "w"), must_reserve(first, "w")};
    must_flush(first);
    struct bus_slot *refused = must_reserve(second, "w");
    struct bus_error *error = NULL;
    expect_code(bus_flush(second, SOON_MS), BUS_ESETTLED);
    expect_code(bus_refusal(second, &error), BUS_OK);
    cr_expect_str_eq(bus_error_type(error), "errbus.quota");
    cr_expect_str_eq(bus_error_message(error), "alice may have 2 open slots, and has 2");
    bus_error_unref(&error);
    bus_slot_fail(&refused, NULL);
    must_commit(&slots[0], "value");
    must_commit(&slots[1], "value");
    must_flush(first);
    (void)bus_close(&second, SOON_MS); /* what was refused is told again */
    must_close(&other);
    must_close(&first);
}

/* ---- the rate -------------------------------------------------------------------------------- */

Test(quota, lets_a_writer_wait_for_its_rate)
{
    static char value[VALUE_BYTES];
    open_limited("limit alice rate 4M\n");
    struct bus *writer = must_open_as("alice", "one", alice_key);
    struct bus *reader = must_open_as("bob", "one", bob_key);
    struct bus_sub *sub = must_subscribe(reader, "alice/w");
    bool is_long = getenv("TEST_LONG") != NULL; /* on a machine that has time */
    int64_t whole_ms = is_long ? RATE_LONG_MS : RATE_MS;
    uint64_t bytes = 0;
    int64_t begin_ms = test_now_ms();
    int64_t passed_ms = 0;
    for (; passed_ms < whole_ms; passed_ms = test_now_ms() - begin_ms) {
        struct bus_msg *msg = NULL;
        expect_code(bus_publish(writer, "w", value, sizeof value), BUS_OK);
        expect_code(bus_sub_recv(sub, SOON_MS, &msg, NULL), BUS_OK);
        bus_msg_free(&msg);
        bytes += sizeof value;
    }
    uint64_t rate = bytes * 1000 / (uint64_t)passed_ms;
    cr_log_info("figure: a rate of 4 MiB/s over %lld ms: %.1f %% of it", (long long)passed_ms,
                100.0 * (double)rate / RATE);
    cr_expect_leq(rate, is_long ? RATE + RATE / 10 : 2 * RATE); /* within a tenth, ten times */
    cr_expect_geq(rate, is_long ? RATE - RATE / 10 : RATE / 10);
    bus_sub_close(&sub);
    must_close(&writer);
    must_close(&reader);
}

/* ---- who lost access ------------------------------------------------------------------------- */

/* Alice owes ten thousand values to each of bob's readers. */
static struct owed {
    struct bus *writer, *readers[READERS];
    struct bus_sub *subs[READERS];
    struct bus_slot *slots[OPEN_SLOTS];
} owed;

static void begin_to_owe(const char *job)
{
    owed.writer = must_open_as("alice", job, alice_key);
    for (int i = 0; i < READERS; i++) {
        static const char *const names[READERS] = {"bob", "bob-2", "bob-3"};
        owed.readers[i] = must_open_as(names[i], job, bob_key);
        owed.subs[i] = must_subscribe(owed.readers[i], "alice/w");
    }
    for (int i = 0; i < OPEN_SLOTS; i++)
        owed.slots[i] = must_reserve(owed.writer, "w");
    must_flush(owed.writer);
}

static void leave_readers(void)
{
    for (int i = 0; i < READERS; i++) {
        bus_sub_close(&owed.subs[i]);
        must_close(&owed.readers[i]);
    }
}

/* She lost her access. */
static void leave_writer(void)
{
    for (int i = 0; i < OPEN_SLOTS; i++)
        bus_slot_fail(&owed.slots[i], NULL);
    (void)bus_close(&owed.writer, SOON_MS); /* it is over */
}

Test(quota, fails_ten_thousand_open_slots_of_whoever_lost_access)
{
    open_limited("");
    begin_to_owe("one");
    write_access(false, true, "");
    int64_t begin_ns = test_now_ns();
    process_signal(&stage.process, SIGHUP);
    for (uint64_t i = 0; i < READERS * OPEN_SLOTS; i++) {
        struct bus_msg *msg = NULL;
        struct bus_error *error = NULL;
        cr_assert_eq(bus_sub_recv(owed.subs[i / OPEN_SLOTS], SOON_MS, &msg, &error), BUS_EFAILED);
        cr_assert_str_eq(bus_error_type(error), "errbus.revoked");
        bus_error_unref(&error);
    }
    int64_t passed_us = (test_now_ns() - begin_ns) / 1000;
    cr_log_info("figure: 10000 open slots failed at each of %d readers, from SIGHUP: %.1f ms",
                READERS, (double)passed_us / 1000);
    bool is_slow = getenv("ASAN_OPTIONS") != NULL;               /* the whole program is then */
    cr_expect_lt(passed_us, is_slow ? SOON_MS * 1000 : 2000000); /* 200 ms, ten times */
    leave_writer();
    leave_readers();
}

/* Parties that have nothing to do with it. */
struct others {
    pthread_t thread;
    sem_t has_beaten; /* each of them, once */
    atomic_bool is_over;
    void *sockets[OTHERS];
};

static void *beat_on(void *given)
{
    struct others *others = given;
    for (bool is_first = true; !atomic_load(&others->is_over); is_first = false) {
        for (int i = 0; i < OTHERS; i++)
            (void)crowd_beat(others->sockets[i]); /* a connection that is gone, the tap tells */
        if (is_first)
            sem_post(&others->has_beaten);
        usleep(BEAT_MS * 1000 / 4);
    }
    return NULL;
}

static void others_join(struct others *others, void *context, const struct crowd_keys *keys)
{
    char endpoint[TEXT_BYTES], party[32];
    snprintf(endpoint, sizeof endpoint, "tcp://%s", strchr(stage.control, '@') + 1);
    for (int i = 0; i < OTHERS; i++) {
        snprintf(party, sizeof party, "p%d", i);
        others->sockets[i] = crowd_dial(context, endpoint, keys);
        cr_assert(crowd_greet(others->sockets[i], party, BEAT_MS));
    }
    for (int i = 0; i < OTHERS; i++)
        cr_assert(crowd_is_welcome(others->sockets[i], 3 * SOON_MS), "p%d is not welcome", i);
    cr_assert_eq(sem_init(&others->has_beaten, 0, 0), 0);
    cr_assert_eq(pthread_create(&others->thread, NULL, beat_on, others), 0);
    while (sem_wait(&others->has_beaten) != 0)
        continue; /* a signal came */
}

static void others_leave(struct others *others)
{
    atomic_store(&others->is_over, true);
    cr_assert_eq(pthread_join(others->thread, NULL), 0);
    for (int i = 0; i < OTHERS; i++)
        zmq_close(others->sockets[i]);
}

/* alice loses access, and bob learns of each slot; nobody else is touched. */
static void expect_quiet_revocation(const char *others)
{
    begin_to_owe("default");
    struct bus_tap *tap = must_tap("default", BUS_TAP_NOW);
    struct bus_admin *admin = stage_admin();
    uint32_t revoked = 0;
    write_access(false, true, others);
    expect_code(bus_access_reload(admin, SOON_MS, &revoked, NULL), BUS_OK);
    cr_expect_eq(revoked, 1);
    for (uint64_t i = 0; i < READERS * OPEN_SLOTS; i++)
        expect_failed(owed.subs[i / OPEN_SLOTS], "alice/w", i % OPEN_SLOTS, "party_lost");
    leave_readers();
    cr_expect_eq(count_events_until(tap, "party.suspect", "party.left"), 0);
    bus_tap_close(&tap);
    leave_writer();
}

Test(quota, suspects_none_of_a_thousand_others_when_somebody_loses_access)
{
    static struct others others;
    struct crowd_pair broker, crowd;
    struct crowd_keys keys;
    char lines[TEXT_BYTES / 2];
    make_keys();
    crowd_make_key(&folder, "broker", &broker);
    crowd_make_key(&folder, "crowd", &crowd);
    memcpy(keys.broker, broker.public_key, sizeof keys.broker);
    memcpy(keys.own, crowd.public_key, sizeof keys.own);
    memcpy(keys.own_secret, crowd.secret_key, sizeof keys.own_secret);
    snprintf(lines, sizeof lines,
             "key crowd %s\nallow crowd tap party as p* in *\nallow crowd admin\n", crowd.text);
    write_access(true, true, lines);
    stage_open_with((const char *const[]){"--access", access_path, "--key", broker_key, NULL});
    cr_assert_eq(setenv("ERRBUS_KEY", crowd.file, 1), 0);
    void *context = zmq_ctx_new();
    cr_assert_eq(zmq_ctx_set(context, ZMQ_MAX_SOCKETS, 2 * OTHERS), 0);
    others_join(&others, context, &keys);
    expect_quiet_revocation(lines);
    others_leave(&others);
    zmq_ctx_term(context);
}

/* In another process: subscribes to all topics, says so, and reads until it is thrown out.  It says
 * how many bytes it got. */
static void read_all(int told)
{
    static struct bus_sub *subs[TOPICS];
    uint64_t bytes = 0;
    struct bus *bus = NULL;
    char topic[32];
    if (open_as("bob", "one", bob_key, &bus, NULL) != BUS_OK)
        _exit(1);
    for (int i = 0; i < TOPICS; i++) {
        snprintf(topic, sizeof topic, "alice/%d", i);
        if (bus_sub_open(bus, topic, NULL, &subs[i]) != BUS_OK)
            _exit(2);
    }
    if (bus_flush(bus, SOON_MS) != BUS_OK || write(told, "r", 1) != 1)
        _exit(3);
    for (int i = 0; i < TOPICS; i++) {
        struct bus_msg *msg = NULL;
        size_t more = 0;
        while (bus_sub_recv(subs[i], SOON_MS, &msg, NULL) == BUS_OK) {
            (void)bus_msg_value(msg, &more); /* its size is enough */
            bytes += more;
            bus_msg_free(&msg);
        }
    }
    _exit(write(told, &bytes, sizeof bytes) == (ssize_t)sizeof bytes ? 0 : 4);
}

/* Established connections of the broker, as the system tells everybody. */
static int connection_count(void)
{
    char line[512];
    int count = 0;
    FILE *file = fopen("/proc/net/tcp", "re");
    cr_assert_not_null(file);
    unsigned long control = strtoul(strrchr(stage.control, ':') + 1, NULL, 10);
    unsigned long data = strtoul(strrchr(stage.data, ':') + 1, NULL, 10);
    while (fgets(line, sizeof line, file) != NULL) {
        unsigned address, state;
        unsigned long port;
        bool is_row =
            sscanf(line, " %*d: %x:%lx %*x:%*x %x", &address, &port, &state) == 3 && state == 1;
        count += is_row && (port == control || port == data);
    }
    (void)fclose(file); /* it was only read */
    return count;
}

/* Both connections of the reader are closed. */
static int64_t await_closed(int before)
{
    int64_t begin_ms = test_now_ms();
    while (connection_count() > before - 2 && test_now_ms() < begin_ms + CLOSED_WITHIN_MS)
        usleep(2000);
    cr_expect_leq(connection_count(), before - 2);
    return test_now_ms() - begin_ms;
}

static void publish_all(struct bus *writer)
{
    static char value[PIECE_BYTES];
    char topic[32];
    for (int i = 0; i < TOPICS; i++)
        for (int j = 0; j < PIECES; j++) {
            snprintf(topic, sizeof topic, "%d", i);
            expect_code(bus_publish(writer, topic, value, sizeof value), BUS_OK);
        }
    must_flush(writer);
}

Test(quota, sends_nothing_more_to_a_reader_that_lost_access)
{
    int told[2], status = 0;
    char ready = 0;
    uint64_t got = 0;
    open_limited("");
    cr_assert_eq(pipe(told), 0);
    pid_t child = fork();
    cr_assert_geq(child, 0);
    if (child == 0)
        read_all(told[1]);
    cr_assert_eq(read(told[0], &ready, 1), 1);
    struct bus *writer = must_open_as("alice", "one", alice_key);
    cr_assert_eq(kill(child, SIGSTOP), 0); /* it reads nothing: all waits in the broker */
    publish_all(writer);
    int before = connection_count();
    cr_assert_geq(before, 4);
    write_access(true, false, "");
    process_signal(&stage.process, SIGHUP);
    cr_log_info("figure: a revoked reader with 64 MiB queued was closed after %lld ms",
                (long long)await_closed(before));
    cr_assert_eq(kill(child, SIGCONT), 0);
    cr_assert_eq(read(told[0], &got, sizeof got), (ssize_t)sizeof got);
    cr_log_info("figure: that reader got %llu of %llu bytes", (unsigned long long)got,
                (unsigned long long)TOPICS * PIECES * PIECE_BYTES);
    cr_expect_lt(got, (uint64_t)16 * 1024 * 1024); /* buffers of both sockets, and more */
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_expect_eq(status, 0);
    must_close(&writer);
    close(told[0]);
    close(told[1]);
}
