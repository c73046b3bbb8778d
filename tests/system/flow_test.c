/* SPDX-License-Identifier: MPL-2.0 */
/* flow_test.c -- many writers and many readers at once: every key, every number, every error. */
#include "tests/lib/expect.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

TestSuite(flow, .init = stage_open, .fini = stage_close, .timeout = 500);

/* ---- many, interleaved ----------------------------------------------------------------------- */

#define WRITERS 8
#define READERS 8
#define KEYS 4 /* topics of each writer */
#define FRAMES 1000000
#define PER_TOPIC (FRAMES / (WRITERS * KEYS))
#define ERROR_EVERY 1000 /* so often an error stands in place of a value */

struct record {
    uint32_t writer;
    uint32_t key;
    uint64_t number;
};

struct writer {
    struct bus *bus;
    uint32_t index;
    pthread_t thread;
    char trouble[128]; /* "": none */
};

static bool write_one(struct writer *writer, uint32_t key, uint64_t number)
{
    static const char *const topics[KEYS] = {"k0", "k1", "k2", "k3"};
    struct record record = {writer->index, key, number};
    enum bus_err err = BUS_OK;
    if (number % ERROR_EVERY != ERROR_EVERY - 1) {
        err = bus_publish(writer->bus, topics[key], &record, sizeof record);
    } else {
        struct bus_slot *slot = NULL;
        err = bus_slot_reserve(writer->bus, topics[key], BUS_FOREVER, &slot);
        if (err == BUS_OK) {
            struct bus_error *error =
                bus_error_new("app.numbered", NULL, "%llu", (unsigned long long)number);
            bus_slot_fail(&slot, error);
            bus_error_unref(&error);
        }
    }
    if (err != BUS_OK) {
        snprintf(writer->trouble, sizeof writer->trouble, "writer %u, key %u, number %llu: %s",
                 writer->index, key, (unsigned long long)number, code_name(err));
    }
    return err == BUS_OK;
}

static void *write_all(void *arg)
{
    struct writer *writer = arg;
    for (uint64_t number = 0; number < PER_TOPIC; number++) {
        for (uint32_t key = 0; key < KEYS; key++) {
            if (!write_one(writer, key, number)) {
                return NULL;
            }
        }
    }
    enum bus_err err = bus_flush(writer->bus, BUS_FOREVER);
    if (err != BUS_OK) {
        snprintf(writer->trouble, sizeof writer->trouble, "writer %u: flush: %s", writer->index,
                 code_name(err));
    }
    return NULL;
}

struct reader {
    struct bus *bus;
    struct bus_sub *sub;
    int64_t pause_ms; /* so long it stops now and then; 0: it does not */
    uint64_t next[WRITERS][KEYS];
    uint64_t received;
    uint64_t errors;
    pthread_t thread;
    char trouble[160];
};

/* What was received at topic "w<writer>/k<key>" seq, whose place is known by next. */
static bool is_in_order(struct reader *reader, const char *topic, uint64_t seq)
{
    unsigned writer = WRITERS;
    unsigned key = KEYS;
    bool is_right = sscanf(topic, "w%u/k%u", &writer, &key) == 2 && writer < WRITERS &&
                    key < KEYS && reader->next[writer][key] == seq;
    if (!is_right) {
        snprintf(
            reader->trouble, sizeof reader->trouble, "%s %llu, not %llu", topic,
            (unsigned long long)seq,
            (unsigned long long)(writer < WRITERS && key < KEYS ? reader->next[writer][key] : 0));
        return false;
    }
    reader->next[writer][key]++;
    reader->received++;
    return true;
}

static bool is_content_right(struct reader *reader, enum bus_err err, const struct bus_msg *msg,
                             const struct bus_error *error, uint64_t seq)
{
    struct record record = {0};
    size_t bytes = 0;
    bool is_right = false;
    bool is_error_due = seq % ERROR_EVERY == ERROR_EVERY - 1;
    if (err == BUS_OK) {
        memcpy(&record, bus_msg_value(msg, &bytes), sizeof record);
        is_right = !is_error_due && bytes == sizeof record && record.number == seq;
    } else if (err == BUS_EFAILED) {
        char number[32];
        snprintf(number, sizeof number, "%llu", (unsigned long long)seq);
        reader->errors++;
        is_right = is_error_due && strcmp(bus_error_message(error), number) == 0;
    }
    if (!is_right) {
        snprintf(reader->trouble, sizeof reader->trouble, "%s at %llu: number %llu of %u/%u",
                 code_name(err), (unsigned long long)seq, (unsigned long long)record.number,
                 record.writer, record.key);
    }
    return is_right;
}

static void pause_ms(int64_t ms)
{
    struct timespec time = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    nanosleep(&time, NULL);
}

static void *read_all(void *arg)
{
    struct reader *reader = arg;
    bool is_well = true;
    while (is_well && reader->received < FRAMES) {
        struct bus_msg *msg = NULL;
        struct bus_error *error = NULL;
        uint64_t seq = 0;
        enum bus_err err = bus_sub_recv(reader->sub, 6 * SOON_MS, &msg, &error);
        const char *topic = bus_sub_slot(reader->sub, &seq);
        if (err != BUS_OK && err != BUS_EFAILED) {
            snprintf(reader->trouble, sizeof reader->trouble, "%s after %llu frames",
                     code_name(err), (unsigned long long)reader->received);
            is_well = false;
        } else {
            is_well =
                is_in_order(reader, topic, seq) && is_content_right(reader, err, msg, error, seq);
        }
        bus_msg_free(&msg);
        bus_error_unref(&error);
        if (reader->pause_ms > 0 && reader->received % (FRAMES / 4) == FRAMES / 8) {
            pause_ms(reader->pause_ms);
        }
    }
    return NULL;
}

static void expect_all_right(size_t reader_count, int64_t stop_ms)
{
    static struct writer writers[WRITERS];
    static struct reader readers[READERS];
    char name[32];
    for (size_t i = 0; i < reader_count; i++) {
        snprintf(name, sizeof name, "r%zu", i);
        readers[i].bus = must_open(name);
        readers[i].pause_ms = i == 0 ? stop_ms : 0;
        readers[i].sub = must_subscribe(readers[i].bus, i % 2 == 0 ? "+/+" : "#");
    }
    for (uint32_t i = 0; i < WRITERS; i++) {
        struct bus_options options;
        snprintf(name, sizeof name, "w%u", i);
        bus_options_init(&options);
        options.party = name;
        options.send_timeout_ms = 6 * SOON_MS;
        writers[i].index = i;
        writers[i].bus = must_open_with(&options);
        cr_assert_eq(pthread_create(&writers[i].thread, NULL, write_all, &writers[i]), 0);
    }
    for (size_t i = 0; i < reader_count; i++) {
        cr_assert_eq(pthread_create(&readers[i].thread, NULL, read_all, &readers[i]), 0);
    }
    for (size_t i = 0; i < WRITERS; i++) {
        pthread_join(writers[i].thread, NULL);
        cr_expect_str_eq(writers[i].trouble, "", "%s:%s", writers[i].trouble,
                         writers[i].trouble[0] != '\0' ? tell_story() : "");
    }
    for (size_t i = 0; i < reader_count; i++) {
        pthread_join(readers[i].thread, NULL);
        cr_expect_str_eq(readers[i].trouble, "", "reader %zu: %s", i, readers[i].trouble);
        cr_expect_eq(readers[i].received, FRAMES);
        cr_expect_eq(readers[i].errors, WRITERS * KEYS * (PER_TOPIC / ERROR_EVERY));
        expect_nothing(readers[i].bus, readers[i].sub);
        bus_sub_close(&readers[i].sub);
        must_close(&readers[i].bus);
    }
    for (size_t i = 0; i < WRITERS; i++) {
        must_close(&writers[i].bus);
    }
}

Test(flow, is_right_for_eight_writers_and_eight_readers)
{
    expect_all_right(READERS, 0);
}

Test(flow, is_right_while_a_reader_stops_now_and_then)
{
    expect_all_right(READERS, 5000);
}

/* ---- what stays of it ------------------------------------------------------------------------ */

#ifdef __SANITIZE_ADDRESS__
enum { GROWTH_KIB_MAX = 1024 * 1024 }; /* it keeps what is freed; and it looks for leaks itself */
#else
enum { GROWTH_KIB_MAX = 4 * 1024 };
#endif

/* Values and acknowledgements, with a question among them each: batches of their own. */
static void carry(struct bus *alice, struct bus *bob, struct bus_sub *sub, int count)
{
    static const char value[1024];
    for (int i = 0; i < count; i++) {
        struct bus_msg *msg = NULL;
        expect_code(bus_publish(alice, "w", value, sizeof value), BUS_OK);
        expect_code(bus_sub_recv(sub, SOON_MS, &msg, NULL), BUS_OK);
        bus_msg_free(&msg);
        must_flush(i % 2 == 0 ? alice : bob);
    }
}

/* Less than half of what the values take, or a tenth of what was said of them. */
static void expect_little_is_kept(void)
{
    enum { WARM = 2000, COUNT = 12000 };
    struct bus *alice = must_open("alice");
    struct bus *bob = must_open("bob");
    struct bus_sub *sub = must_subscribe(bob, "alice/w");
    carry(alice, bob, sub, WARM);
    int64_t before_kib = test_resident_kib(stage.process.pid);
    carry(alice, bob, sub, COUNT);
    int64_t kib = test_resident_kib(stage.process.pid) - before_kib;
    cr_expect(before_kib > 0 && kib <= GROWTH_KIB_MAX, "%lld KiB", (long long)kib);
    bus_sub_close(&sub);
    must_close(&alice);
    must_close(&bob);
}

Test(flow, leaves_nothing_in_the_broker)
{
    expect_little_is_kept();
}

Test(flow, leaves_nothing_in_a_broker_with_a_journal)
{
    struct folder folder;
    stage_close();
    cr_assert(folder_make(&folder));
    stage_open_with((const char *const[]){"--journal", folder.path, NULL});
    expect_little_is_kept();
    stage_close();
    folder_fini(&folder);
    stage_open();
}
