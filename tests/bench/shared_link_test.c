/* SPDX-License-Identifier: MPL-2.0 */
/* shared_link_test.c -- one slow link for bulk and for what matters: ten topics of small values and
 * errors pass, the link is full meanwhile, and it is full again after it stood still.
 *
 * A window as wide as without a link is a queue of seconds here, in each set.  A busy machine is
 * late in some sets.  So one good set is enough. */
#include "bench/long_link.h"
#include "tests/lib/broker.h"
#include "tests/lib/process.h"

#include <bus/bus.h>
#include <criterion/criterion.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define DELAY_MS 25
#define RATE UINT64_C(20000000) /* bits a second */
#define BLOCK_BYTES ((size_t)16 * 1024)
#define SMALL_BYTES 256
#define SOON_MS 60000
#define START_MS 1500 /* until windows follow the link */
#define TOPICS 10
#define SETS 45
#define SET_MS 1000
#define PARTS 8
#define PART_MS 50
#define MOST_MS (4 * DELAY_MS + 100) /* two round trips and 100 ms, for all of a set */
#define SHARE 0.9                    /* of the link, that the bulk takes meanwhile */
#define OTHER_SHARE_MAX 0.01         /* beats, credit, and what is accepted and taken */
#define STALL_MS 2000
#define CONTROL_SEEN_BYTES 2000000
#define LATE_SEEN_BYTES 1000000

static struct broker broker;
static struct long_link far_link;
static struct bus *alice;
static struct bus *bob;
static struct bus_sub *bulk;
static struct bus_sub *small;
static pthread_t writer;
static pthread_t reader;
static size_t block_bytes = BLOCK_BYTES;
static atomic_bool is_over;
static atomic_uint_least64_t taken_bytes;

static void sleep_ms(int64_t ms)
{
    struct timespec time = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    nanosleep(&time, NULL);
}

static struct bus *open_at(const char *endpoint, const char *party)
{
    struct bus_options options;
    struct bus *bus = NULL;
    bus_options_init(&options);
    options.party = party;
    cr_assert_eq(bus_open(endpoint, &options, SOON_MS, &bus, NULL), BUS_OK);
    return bus;
}

static void *write_bulk(void *arg)
{
    static char block[BLOCK_BYTES];
    (void)arg;
    while (!is_over)
        if (bus_publish(alice, "bulk", block, block_bytes) != BUS_OK)
            return "a value was refused";
    return NULL;
}

static void *read_bulk(void *arg)
{
    (void)arg;
    while (!is_over) {
        struct bus_msg *msg = NULL;
        size_t bytes = 0;
        enum bus_err err = bus_sub_recv(bulk, 100, &msg, NULL);
        if (err == BUS_ETIMEDOUT)
            continue;
        if (err != BUS_OK)
            return "a value did not come";
        bus_msg_value(msg, &bytes);
        taken_bytes += bytes;
        bus_msg_free(&msg);
    }
    return NULL;
}

static void start_with(bool is_writer_far, const char *word, const char *other)
{
    char at[2 * BROKER_ENDPOINT_BYTES_MAX + 8];
    cr_assert(broker_start(&broker, NULL));
    snprintf(at, sizeof at, "%s,data=%s", broker.control, broker.data);
    cr_assert(long_link_start_with(&far_link, at, RATE, DELAY_MS * 1000, word, other));
    alice = open_at(is_writer_far ? far_link.at : broker.control, "alice");
    bob = open_at(is_writer_far ? broker.control : far_link.at, "bob");
    cr_assert_eq(bus_sub_open(bob, "alice/bulk", NULL, &bulk), BUS_OK);
    cr_assert_eq(bus_sub_open(bob, "alice/small0", NULL, &small), BUS_OK);
    for (int topic = 1; topic < TOPICS; topic++) {
        char pattern[] = "alice/small0";
        pattern[sizeof pattern - 2] = (char)('0' + topic);
        cr_assert_eq(bus_sub_add(small, pattern), BUS_OK);
    }
    cr_assert_eq(bus_flush(bob, SOON_MS), BUS_OK);
    cr_assert_eq(pthread_create(&writer, NULL, write_bulk, NULL), 0);
    cr_assert_eq(pthread_create(&reader, NULL, read_bulk, NULL), 0);
}

static void start(bool is_writer_far)
{
    start_with(is_writer_far, NULL, NULL);
}

static void end(void)
{
    void *failed[2] = {NULL};
    is_over = true;
    cr_expect_eq(pthread_join(writer, &failed[0]), 0);
    cr_expect_eq(pthread_join(reader, &failed[1]), 0);
    cr_expect_null(failed[0], "%s", (const char *)failed[0]);
    cr_expect_null(failed[1], "%s", (const char *)failed[1]);
    bus_sub_close(&bulk);
    bus_sub_close(&small);
    bus_close(&alice, 0);
    bus_close(&bob, 0);
    long_link_fini(&far_link);
    broker_fini(&broker);
}

TestSuite(shared_link, .timeout = 120);

enum { CONTROL, DATA, PORTS };
enum { TO, FROM, WAYS };

struct seen {
    int64_t median_ms;
    int64_t most_ms;
    double share; /* of the link, that the data channel takes */
    double other; /* what all else takes, of that */
};

/* What the relay carried: the link has no more than its rate, whatever is read. */
static void carried(uint64_t (*out)[WAYS])
{
    cr_assert(long_link_carried(&far_link, out, PORTS));
}

/* Of what was carried between two looks in the direction of the bulk, and what else was. */
static void judge(struct seen *seen, bool is_writer_far, uint64_t before[PORTS][WAYS],
                  uint64_t after[PORTS][WAYS], int64_t took_ms)
{
    unsigned way = is_writer_far ? TO : FROM;
    double main_bytes = (double)(after[DATA][way] - before[DATA][way]);
    uint64_t other = after[CONTROL][TO] - before[CONTROL][TO] + after[CONTROL][FROM] -
                     before[CONTROL][FROM] + after[DATA][1 - way] - before[DATA][1 - way];
    seen->share = main_bytes / ((double)RATE / 8 / 1000 * (double)took_ms);
    seen->other = main_bytes > 0 ? (double)other / main_bytes : 1;
}

static double share_since(uint64_t before, int64_t began_ms)
{
    double carried_bytes = (double)RATE / 8 / 1000 * (double)(test_now_ms() - began_ms);
    return (double)(taken_bytes - before) / carried_bytes;
}

static int compare(const void *a, const void *b)
{
    const int64_t *left = a;
    const int64_t *right = b;
    return (*left > *right) - (*left < *right);
}

/* A small value or an error in each of the ten topics, and how long each takes. */
static void say_in_each(int64_t *took_ms)
{
    int64_t began_ms = test_now_ms();
    for (int topic = 0; topic < TOPICS; topic++) {
        struct bus_slot *slot = NULL;
        char name[] = "small0";
        name[sizeof name - 2] = (char)('0' + topic);
        cr_assert_eq(bus_slot_reserve(alice, name, BUS_FOREVER, &slot), BUS_OK);
        if (topic % 2 == 0)
            cr_assert_eq(bus_slot_commit(&slot, "value", 5), BUS_OK);
        else
            bus_slot_fail(&slot, NULL);
    }
    for (int topic = 0; topic < TOPICS; topic++) {
        struct bus_msg *msg = NULL;
        enum bus_err err = bus_sub_recv(small, SOON_MS, &msg, NULL);
        cr_assert(err == BUS_OK || err == BUS_EFAILED);
        took_ms[topic] = test_now_ms() - began_ms;
        bus_msg_free(&msg);
    }
}

static struct seen see_set(bool is_writer_far)
{
    int64_t took_ms[PARTS * TOPICS];
    uint64_t before[PORTS][WAYS];
    uint64_t after[PORTS][WAYS];
    struct seen seen;
    carried(before);
    int64_t began_ms = test_now_ms();
    for (int i = 0; i < PARTS; i++) {
        say_in_each(took_ms + i * TOPICS);
        sleep_ms(PART_MS);
    }
    carried(after);
    judge(&seen, is_writer_far, before, after, test_now_ms() - began_ms);
    qsort(took_ms, PARTS * TOPICS, sizeof *took_ms, compare);
    seen.median_ms = took_ms[PARTS * TOPICS / 2];
    seen.most_ms = took_ms[PARTS * TOPICS - 1];
    return seen;
}

static void check_sharing(bool is_writer_far)
{
    struct seen seen = {0};
    bool is_good = false;
    start(is_writer_far);
    sleep_ms(START_MS);
    for (int set = 0; set < SETS && !is_good; set++) {
        seen = see_set(is_writer_far);
        is_good = seen.most_ms <= MOST_MS && seen.share >= SHARE && seen.other < OTHER_SHARE_MAX;
        fprintf(stderr, "median %ld ms, most %ld ms, share %.2f, all else %.4f\n",
                (long)seen.median_ms, (long)seen.most_ms, seen.share, seen.other);
    }
    cr_expect(is_good, "no set of %d was good", SETS);
    end();
}

Test(shared_link, of_a_writer_lets_small_values_and_errors_pass)
{
    check_sharing(true);
}

Test(shared_link, of_a_reader_lets_small_values_and_errors_pass)
{
    check_sharing(false);
}

/* What is said beside the bulk is a small part of it: beats, credit, accepted and taken. */
static void check_control(bool is_writer_far)
{
    uint64_t before[PORTS][2];
    uint64_t after[PORTS][2];
    uint64_t way = is_writer_far ? TO : FROM; /* of the bulk */
    uint64_t bulk_bytes = 0;
    block_bytes = SMALL_BYTES; /* what is said of each value would be much */
    start(is_writer_far);
    sleep_ms(START_MS);
    cr_assert(long_link_carried(&far_link, before, PORTS));
    while (bulk_bytes < CONTROL_SEEN_BYTES) {
        sleep_ms(PART_MS);
        cr_assert(long_link_carried(&far_link, after, PORTS));
        bulk_bytes = after[DATA][way] - before[DATA][way];
    }
    uint64_t other_bytes = after[CONTROL][TO] - before[CONTROL][TO] + after[CONTROL][FROM] -
                           before[CONTROL][FROM] + after[DATA][1 - way] - before[DATA][1 - way];
    cr_expect_lt(other_bytes, bulk_bytes / 100, "%lu beside %lu", other_bytes, bulk_bytes);
    cr_expect_gt(other_bytes, 0);
    end();
}

Test(shared_link, of_a_writer_carries_little_beside_the_bulk)
{
    check_control(true);
}

Test(shared_link, of_a_reader_carries_little_beside_the_bulk)
{
    check_control(false);
}

/* One of a hundred segments is late by eight round trips, and holds up all behind it. */
Test(shared_link, with_late_segments_loses_nobody_and_goes_on)
{
    start_with(true, "late_percent=1", "late_us=400000");
    for (uint64_t seen = 0; seen < LATE_SEEN_BYTES; seen = taken_bytes) {
        cr_assert_null(bus_failure(alice), "she was lost");
        cr_assert_null(bus_failure(bob), "he was lost");
        sleep_ms(PART_MS);
    }
    end();
}

/* Bytes that lay in the link come at once when it goes on.  What is judged comes behind them. */
Test(shared_link, that_stood_still_is_full_again)
{
    double share = 0;
    start(true);
    sleep_ms(START_MS);
    process_signal(&far_link.relay, SIGSTOP);
    sleep_ms(STALL_MS);
    process_signal(&far_link.relay, SIGCONT);
    sleep_ms(SET_MS);
    for (int set = 0; set < SETS && share < SHARE; set++) {
        uint64_t before = taken_bytes;
        int64_t began_ms = test_now_ms();
        sleep_ms(SET_MS);
        share = share_since(before, began_ms);
    }
    cr_expect_geq(share, SHARE, "%.2f of the link", share);
    cr_expect_null(bus_failure(alice), "she was lost");
    end();
}
