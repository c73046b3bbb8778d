/* SPDX-License-Identifier: MPL-2.0 */
/* torturer.c -- a party of the torture test.  It writes or reads until it is told to end, and keeps
 * a diary in a file, which is there when the process is killed.
 *
 *   test_torturer ENDPOINT write PARTY PROCESS DIARY SEED
 *   test_torturer ENDPOINT read  PARTY PROCESS DIARY WRITERS      (their parties: w0, w1 ...)
 *
 * TORTURE_WAIT_MS is the longest pause between two writes, in ms (4).  TORTURE_PATIENCE_MS bounds
 * each call (30000).  The party says "ready" when it takes part.  A reader says "N PARTY" when it
 * was told that PARTY ended.  The party ends when it reads a line.  Exit codes: 0, all is done; 3,
 * the bus said that its incarnation is over; 1, a promise is broken, and standard error says which.
 *
 * The diary of a writer.  A line is written before its action; I counts up in the process:
 *   P TOPIC I      a value is published       r TOPIC I        a slot is reserved
 *   C TOPIC I      its slot gets a value      R TOPIC I SEQ    it was, and has this number
 *   E TOPIC I      ... an error               F                all above is acknowledged
 * The diary of a reader.  What was received is written down before it is freed:
 *   V TOPIC SEQ TEXT    E TOPIC SEQ KIND TEXT    N PARTY KIND
 *   F                   all above is acknowledged
 *   f                   ... but the E above: an error is acknowledged by the next call to receive
 * Each process begins with  L PROCESS. */
#include "tests/lib/party/rejoin.h"

#include <bus/bus.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define VALUE_BYTES_MAX ((size_t)1200 * 1024)
enum { TOPICS = 2, OPEN_MAX = 6, ROUND_MAX = 24, READ_MAX = 40, EXIT_WRONG = 1, EXIT_OVER = 3 };

static struct bus *bus;
static int64_t patience_ms = 30000;
static const char *party;
static const char *process;
static int diary;
static uint64_t dice;
static bool is_error_given; /* ... last, and so not acknowledged yet */

static void complain(const char *what, enum bus_err err, const struct bus_error *error)
{
    char text[2048] = "";
    if (error != NULL)
        bus_error_describe(error, text, sizeof text);
    fprintf(stderr, "%s/%s: %s: %s %s\n", party, process, what, bus_strerror(err), text);
}

/* Ends this process: its incarnation is over, or something is wrong. */
static _Noreturn void give_up(const char *what, enum bus_err err, const struct bus_error *error)
{
    complain(what, err, error);
    _exit(err == BUS_EFENCED ? EXIT_OVER : EXIT_WRONG);
}

static void must_be_fine(const char *what, enum bus_err err)
{
    if (err != BUS_OK) {
        struct bus_error *failure = bus_failure(bus);
        give_up(what, err, failure);
    }
}

static void note(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void note(const char *format, ...)
{
    char line[1024];
    va_list args;
    va_start(args, format);
    int length = vsnprintf(line, sizeof line, format, args);
    va_end(args);
    if (length >= (int)sizeof line || write(diary, line, (size_t)length) != length) {
        fprintf(stderr, "%s/%s: the diary cannot be written: %s\n", party, process,
                strerror(errno));
        _exit(EXIT_WRONG);
    }
}

static uint64_t below(uint64_t count)
{
    dice = dice * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (dice >> 33) % count;
}

static bool is_told_to_end(int wait_ms)
{
    struct pollfd item = {.fd = STDIN_FILENO, .events = POLLIN};
    return poll(&item, 1, wait_ms) > 0;
}

static void flush(void)
{
    enum bus_err err = bus_flush(bus, patience_ms);
    struct bus_error *refusal = NULL;
    if (err == BUS_ESETTLED && bus_refusal(bus, &refusal) == BUS_OK)
        give_up("something was refused", err, refusal);
    must_be_fine("flush", err);
    note(is_error_given ? "f\n" : "F\n");
}

/* ---- writing ----------------------------------------------------------------------------------*/

struct promise {
    struct bus_slot *slot; /* NULL: none */
    unsigned topic;
    uint64_t number;
};
static struct promise promises[OPEN_MAX];
static uint64_t next_number;

/* Most values are small, some fill a part of their own, few come in chunks. */
static size_t choose_bytes(void)
{
    uint64_t kind = below(400);
    return kind == 0 ? VALUE_BYTES_MAX - below(1000) : kind < 4 ? 100000 + below(1000) : 0;
}

/* "PARTY.PROCESS.I.BYTES", and the letter x up to so many bytes. */
static size_t make_value(uint64_t number, char *value)
{
    size_t bytes = choose_bytes();
    size_t text =
        (size_t)snprintf(value, 200, "%s.%s.%" PRIu64 ".%zu\n", party, process, number, bytes);
    if (text >= bytes)
        return text;
    memset(value + text, 'x', bytes - text);
    return bytes;
}

static void settle(struct promise *promise)
{
    static char value[VALUE_BYTES_MAX];
    if (promise->slot == NULL)
        return;
    bool is_value = below(3) > 0;
    note("%c t%u %" PRIu64 "\n", is_value ? 'C' : 'E', promise->topic, promise->number);
    if (is_value) {
        size_t bytes = make_value(promise->number, value);
        must_be_fine("commit", bus_slot_commit(&promise->slot, value, bytes));
    } else {
        struct bus_error *error = bus_error_new("torture.failed", NULL, "%s.%s.%" PRIu64, party,
                                                process, promise->number);
        bus_slot_fail(&promise->slot, error);
        bus_error_unref(&error);
    }
    promise->slot = NULL;
}

static void reserve(struct promise *promise, unsigned topic)
{
    char name[8];
    snprintf(name, sizeof name, "t%u", topic);
    *promise = (struct promise){.topic = topic, .number = next_number++};
    note("r t%u %" PRIu64 "\n", topic, promise->number);
    must_be_fine("reserve", bus_slot_reserve(bus, name, BUS_FOREVER, &promise->slot));
    note("R t%u %" PRIu64 " %" PRIu64 "\n", topic, promise->number, bus_slot_seq(promise->slot));
}

static void publish(unsigned topic)
{
    static char value[VALUE_BYTES_MAX];
    char name[8];
    snprintf(name, sizeof name, "t%u", topic);
    uint64_t number = next_number++;
    size_t bytes = make_value(number, value);
    note("P t%u %" PRIu64 "\n", topic, number);
    must_be_fine("publish", bus_publish(bus, name, value, bytes));
}

static void write_some(void)
{
    for (uint64_t left = 1 + below(ROUND_MAX); left > 0; left--) {
        struct promise *promise = &promises[below(OPEN_MAX)];
        unsigned topic = (unsigned)below(TOPICS);
        if (below(4) > 0)
            publish(topic);
        else if (promise->slot != NULL)
            settle(promise);
        else
            reserve(promise, topic);
    }
    if (below(3) == 0)
        flush();
}

static void write_until_told(void)
{
    const char *wait = getenv("TORTURE_WAIT_MS");
    uint64_t wait_ms = wait != NULL ? strtoull(wait, NULL, 10) : 4;
    printf("ready\n");
    fflush(stdout);
    while (!is_told_to_end((int)below(wait_ms)))
        write_some();
    for (int i = 0; i < OPEN_MAX; i++)
        settle(&promises[i]);
    for (unsigned topic = 0; topic < TOPICS; topic++) {
        char name[8];
        snprintf(name, sizeof name, "t%u", topic);
        must_be_fine("publish", bus_publish(bus, name, "last", 4));
    }
    flush();
}

/* ---- reading ----------------------------------------------------------------------------------*/

/* A value is whole and itself, or the process ends. */
static void check_value(const struct bus_msg *msg, char text[200])
{
    size_t bytes = 0;
    size_t told = 0;
    const char *value = bus_msg_value(msg, &bytes);
    const char *end = memchr(value, '\n', bytes < 199 ? bytes : 199);
    size_t length = end != NULL ? (size_t)(end - value) : bytes < 199 ? bytes : 199;
    memcpy(text, value, length);
    text[length] = '\0';
    const char *dot = strrchr(text, '.');
    bool is_whole = true;
    if (dot != NULL)
        told = strtoull(dot + 1, NULL, 10);
    for (size_t i = length + 1; i < bytes; i++)
        is_whole &= value[i] == 'x';
    if (!is_whole || (told > 0 && told != bytes)) {
        fprintf(stderr, "%s/%s: not what was written: %s, %zu bytes\n", party, process, text,
                bytes);
        _exit(EXIT_WRONG);
    }
}

/* Writers' topics that have come to their last value, a bit each. */
static unsigned lasts;

static void note_last(const char *topic)
{
    unsigned writer = 0;
    unsigned number = 0;
    if (sscanf(topic, "w%u/t%u", &writer, &number) == 2)
        lasts |= 1u << (writer * TOPICS + number);
}

/* What was met in processes before. */
static void remember_lasts(const char *path)
{
    char line[1024];
    char topic[200];
    FILE *file = fopen(path, "re");
    while (file != NULL && fgets(line, sizeof line, file) != NULL)
        if (sscanf(line, "V %199s %*u last", topic) == 1 && strstr(line, " last\n") != NULL)
            note_last(topic);
    if (file != NULL)
        fclose(file);
}

static bool read_one(struct bus_sub *sub, int64_t wait_ms)
{
    char text[200];
    struct bus_msg *msg = NULL;
    struct bus_error *error = NULL;
    uint64_t seq = 0;
    enum bus_err err = bus_sub_recv(sub, wait_ms, &msg, &error);
    is_error_given = false;
    const char *topic = bus_sub_slot(sub, &seq);
    if (err == BUS_ETIMEDOUT) {
        bus_error_unref(&error);
        return false;
    }
    if (err == BUS_OK) {
        check_value(msg, text);
        note("V %s %" PRIu64 " %s\n", topic, seq, text);
        if (strcmp(text, "last") == 0)
            note_last(topic);
        bus_msg_free(&msg);
    } else if (err != BUS_EFAILED && err != BUS_EENDED) {
        give_up("receive", err, error);
    } else if (strchr(topic, '/') == NULL) {
        note("N %s %s\n", topic, bus_error_kind(error));
        printf("N %s\n", topic);
        fflush(stdout);
    } else {
        const char *said = bus_error_message(error);
        bool is_ours = strcmp(bus_error_type(error), "torture.failed") == 0;
        is_error_given = true;
        note("E %s %" PRIu64 " %s %s\n", topic, seq, bus_error_kind(error), is_ours ? said : "-");
    }
    bus_error_unref(&error);
    return true;
}

static struct bus_sub *subscribe(unsigned writers)
{
    struct bus_sub_options options;
    struct bus_sub *sub = NULL;
    bus_sub_options_init(&options);
    options.name = "diary";
    must_be_fine("subscribe", bus_sub_open(bus, "w0/#", &options, &sub));
    for (unsigned i = 1; i < writers; i++) {
        char pattern[16];
        snprintf(pattern, sizeof pattern, "w%u/#", i);
        must_be_fine("subscribe", bus_sub_add(sub, pattern));
    }
    must_be_fine("flush", bus_flush(bus, patience_ms));
    return sub;
}

/* To the last value of every topic of every writer. */
static void read_to_the_end(unsigned writers)
{
    unsigned all = (1u << writers * TOPICS) - 1;
    struct bus_sub *sub = subscribe(writers);
    printf("ready\n");
    fflush(stdout);
    while (lasts != all) {
        unsigned count = 0;
        while (count < READ_MAX && lasts != all && read_one(sub, count == 0 ? 200 : 0))
            count += 1;
        if (below(4) == 0)
            flush();
    }
    bus_sub_close(&sub);
    is_error_given = false;
    flush();
}

/* ---- the party --------------------------------------------------------------------------------*/

static void open_bus(const char *endpoint)
{
    struct bus_error *error = NULL;
    enum bus_err err = rejoin(endpoint, party, patience_ms, &bus, &error);
    if (err != BUS_OK)
        give_up("open", err, error);
}

int main(int argc, char **argv)
{
    if (argc != 7)
        return 2;
    party = argv[3];
    process = argv[4];
    diary = open(argv[5], O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    dice = strtoull(argv[6], NULL, 10);
    remember_lasts(argv[5]);
    note("L %s\n", process);
    const char *patience = getenv("TORTURE_PATIENCE_MS");
    if (patience != NULL)
        patience_ms = strtoll(patience, NULL, 10);
    open_bus(argv[1]);
    if (strcmp(argv[2], "write") == 0)
        write_until_told();
    else
        read_to_the_end((unsigned)dice);
    enum bus_err err = bus_close(&bus, patience_ms);
    if (err != BUS_OK)
        give_up("close", err, NULL);
    return 0;
}
