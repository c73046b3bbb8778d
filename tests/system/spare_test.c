/* SPDX-License-Identifier: MPL-2.0 */
/* spare_test.c -- a broker that waits for its shard, as a program that somebody runs: signals, and
 * what it tells its service manager.  And two machines whose clocks differ. */
#include "tests/lib/manager.h"
#include "tests/lib/search.h"
#include "tests/lib/shard.h"

#include <bus/bus.h>
#include <criterion/criterion.h>
#include <fcntl.h>
#include <glob.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FAR_MS = 1800000, NEAR_MS = 1500 }; /* the first one is less than clocks differ */

enum { LARGE_BYTES = 1024 * 1024, LARGE_VALUES = 12 };
/* The server keeps a plan from the sixth time on. */
enum { MANY_PIECES = 20000, PLANS_MADE = 8 };
enum { PIECES_AT = 100000 }; /* one digit more than what stands before it */
#define ALICE "alice/"
#define LAST "the last value that the spare must have"

static struct postgres postgres;
static struct shard shard;

static void init(void)
{
    shard_open(&shard, &postgres);
}

static void fini(void)
{
    shard_close(&shard, &postgres);
}

TestSuite(spare, .init = init, .fini = fini, .timeout = 300);

Test(spare, ends_with_status_0_when_it_is_told_to_stop)
{
    shard_skip_without_server(&shard);
    static const int ends[] = {SIGTERM, SIGINT};
    struct bus *alice = shard_begin(&shard);
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        shard_start_spare(&shard, 1);
        process_signal(&shard.brokers[1], ends[i]);
        cr_expect_eq(process_wait(&shard.brokers[1], SOON_MS), 0, "%s",
                     process_complained(&shard.brokers[1]));
    }
    shard_publish(alice, SHARD_VALUES);
    must_close(&alice);
}

/* Who has all brokers read their access files again has a spare left. */
Test(spare, goes_on_when_it_is_told_to_read_its_access_file_again)
{
    shard_skip_without_server(&shard);
    struct bus *alice = shard_begin(&shard);
    shard_start_spare(&shard, 1);
    process_signal(&shard.brokers[1], SIGHUP);
    shard_kill(&shard, 0);
    shard_must_serve(&shard, 1);
    shard_publish(alice, SHARD_VALUES);
    shard_must_have(&shard, 2 * SHARD_VALUES);
    must_close(&alice);
}

/* It waits for no lock: with another cache it would be a spare, or serve another bus. */
Test(spare, ends_where_its_cache_is_that_of_another_broker)
{
    shard_skip_without_server(&shard);
    char control[POSTGRES_PATH_BYTES + 16], data[POSTGRES_PATH_BYTES + 16];
    char cache[POSTGRES_PATH_BYTES], journal[POSTGRES_CONNINFO_BYTES + 16];
    const char *folder = postgres.folder.path;
    struct bus *alice = shard_begin(&shard);
    snprintf(control, sizeof control, "ipc://%s/control1", folder);
    snprintf(data, sizeof data, "ipc://%s/data1", folder);
    snprintf(cache, sizeof cache, "%s/cache0", folder);
    snprintf(journal, sizeof journal, "postgres:%s", postgres.conninfo);
    const char *const argv[] = {"errbusd", "--control", control, "--data",     data, "--cache",
                                cache,     "--journal", journal, "--replicas", "0",  NULL};
    cr_assert(process_start(&shard.brokers[1], argv, NULL));
    snprintf(journal, sizeof journal, "is the cache of another broker, process %d",
             (int)shard.brokers[0].pid);
    shard_must_end(&shard, 1, journal);
    cr_expect_not_null(strstr(process_complained(&shard.brokers[1]), "--cache DIR"));
    must_close(&alice);
}

/* Values that are together more than a spare reads at one look, each in a topic of its own. */
static uint8_t large[LARGE_BYTES];

/* Its topic; `large` is its value. */
static const char *choose_large(int i)
{
    static char topic[] = ALICE "large?";
    topic[sizeof topic - 2] = (char)('a' + i);
    memset(large, 'a' + i, sizeof large);
    return topic;
}

static void must_have_large(struct bus *alice)
{
    for (int i = 0; i < LARGE_VALUES; i++) {
        size_t bytes = 0;
        struct bus_msg *msg = NULL;
        struct bus_sub *sub = must_subscribe(alice, choose_large(i));
        expect_code(bus_sub_recv(sub, SOON_MS, &msg, NULL), BUS_OK);
        const void *value = bus_msg_value(msg, &bytes);
        cr_assert_eq(bytes, LARGE_BYTES, "%zu", bytes);
        cr_expect_eq(memcmp(value, large, bytes), 0, "value %d", i);
        bus_msg_free(&msg);
        bus_sub_close(&sub);
    }
}

Test(spare, says_why_it_cannot_take_over)
{
    shard_skip_without_server(&shard);
    struct bus *alice = shard_begin(&shard);
    shard_start_spare(&shard, 1);
    postgres_kill(&postgres, 0);
    shard_must_say(&shard, 1, "it cannot be told who has the shard: ");
    cr_assert(postgres_revive(&postgres, 0), "%s", postgres.why);
    shard_must_say(&shard, 1, "another broker has the shard");
    shard_kill(&shard, 0);
    shard_must_serve(&shard, 1);
    shard_must_have(&shard, SHARD_VALUES);
    must_close(&alice);
}

/* Whoever takes the shard reads only what came since. */
Test(spare, has_what_was_accepted_before_it_takes_over)
{
    shard_skip_without_server(&shard);
    char cache[POSTGRES_PATH_BYTES];
    struct bus *alice = shard_begin(&shard);
    shard_start_spare(&shard, 1);
    snprintf(cache, sizeof cache, "%s/cache1", postgres.folder.path);
    for (int i = 0; i < LARGE_VALUES; i++) {
        const char *topic = choose_large(i);
        expect_code(bus_publish(alice, topic + strlen(ALICE), large, sizeof large), BUS_OK);
    }
    must_publish(alice, "last", LAST);
    must_flush(alice);
    int64_t until_ms = test_now_ms() + SOON_MS;
    while (folder_holds(cache, LAST) == 0) {
        cr_assert(test_now_ms() < until_ms, "the spare does not read it");
        (void)poll(NULL, 0, 100);
    }
    shard_kill(&shard, 0);
    shard_must_serve(&shard, 1);
    must_have_large(alice);
    shard_must_have(&shard, SHARD_VALUES);
    must_close(&alice);
}

/* What the server did to read the pieces of the shard, once it is so much. */
static unsigned long long await_reads(const char *what, unsigned long long least)
{
    char query[200], answer[64];
    unsigned long long reads = 0;
    int64_t until_ms = test_now_ms() + SOON_MS;
    snprintf(query, sizeof query,
             "SELECT sum(%s) FROM pg_stat_user_indexes WHERE relname LIKE 'errbus_piece_%%'", what);
    while (reads < least) {
        cr_assert(test_now_ms() < until_ms, "%s: %llu", what, reads);
        (void)poll(NULL, 0, 100);
        cr_assert(postgres_query(&postgres, 0, query, answer, sizeof answer), "%s", postgres.why);
        reads = strtoull(answer, NULL, 10);
    }
    return reads;
}

/* More than one answer has, behind all that is in the first file of the journal: zeros where zeros
 * are, under the number of the last commit.  The first one writes a 1, which the second one writes
 * over. */
static void add_pieces(void)
{
    char query[400], table[100], answer[64];
    cr_assert(
        postgres_query(&postgres, 0,
                       "SELECT relname FROM pg_class WHERE relname ~ '^errbus_piece_0_[0-9]+$'"
                       " ORDER BY oid LIMIT 1",
                       table, sizeof table),
        "%s", postgres.why);
    snprintf(query, sizeof query,
             "WITH last AS (SELECT seq FROM errbus_shard) INSERT INTO %s"
             " SELECT seq, %d, '\\x0001'::bytea FROM last"
             " UNION ALL SELECT seq, i, '\\x00'::bytea FROM last, generate_series(%d, %d) AS i "
             "RETURNING 1",
             table, PIECES_AT - 1, PIECES_AT, PIECES_AT + MANY_PIECES);
    cr_assert(postgres_query(&postgres, 0, query, answer, sizeof answer), "%s", postgres.why);
}

/* The spare wrote them in their order. */
static void expect_zero(void)
{
    glob_t found;
    char pattern[POSTGRES_PATH_BYTES];
    snprintf(pattern, sizeof pattern, "%s/cache1/copy*", postgres.folder.path);
    cr_assert_eq(glob(pattern, 0, NULL, &found), 0, "%s", pattern);
    for (size_t i = 0; i < found.gl_pathc; i++) {
        uint8_t byte = 0;
        int fd = open(found.gl_pathv[i], O_RDONLY | O_CLOEXEC);
        cr_assert_geq(fd, 0, "%s", found.gl_pathv[i]);
        cr_expect_geq(pread(fd, &byte, 1, PIECES_AT), 0);
        cr_expect_eq(byte, 0, "%s", found.gl_pathv[i]);
        close(fd);
    }
    globfree(&found);
}

/* In their order, though the server keeps the plan of a question from when there was little to
 * answer. */
Test(spare, reads_each_piece_once)
{
    shard_skip_without_server(&shard);
    struct bus *alice = shard_begin(&shard);
    shard_start_spare(&shard, 1);
    (void)await_reads("idx_scan", PLANS_MADE);
    add_pieces();
    unsigned long long reads = await_reads("idx_tup_read", MANY_PIECES);
    cr_expect_lt(reads, 2 * MANY_PIECES, "%llu", reads);
    expect_zero();
    shard_kill(&shard, 0);
    shard_must_serve(&shard, 1);
    shard_must_have(&shard, SHARD_VALUES);
    must_close(&alice);
}

static void must_hear(struct manager *manager, const char *message)
{
    cr_assert(manager_hear(manager, SOON_MS), "'%s' does not come", message);
    cr_expect_str_eq(manager->message, message);
}

Test(spare, is_ready_for_its_service_manager_and_watched_from_when_it_serves)
{
    shard_skip_without_server(&shard);
    struct manager manager;
    char path[POSTGRES_PATH_BYTES];
    snprintf(path, sizeof path, "%s/notify", postgres.folder.path);
    struct bus *alice = shard_begin(&shard);
    manager_listen(&manager, path);
    shard.environment = (const char *const[]){manager.variable, "WATCHDOG_USEC=60000000", NULL};
    shard_start_spare(&shard, 1);
    must_hear(&manager, "READY=1\nSTATUS=spare: waits for its shard\nWATCHDOG_USEC=0");
    shard_kill(&shard, 0);
    shard_must_serve(&shard, 1);
    do
        cr_assert(manager_hear(&manager, SOON_MS), "it does not say that it serves");
    while (strstr(manager.message, "EXTEND_TIMEOUT_USEC=") != NULL);
    cr_expect_str_eq(manager.message, "READY=1\nSTATUS=serving\nWATCHDOG_USEC=60000000");
    must_hear(&manager, "WATCHDOG=1");
    must_close(&alice);
    manager_close(&manager);
}

/* Two machines whose clocks are hours apart; see tests/lib/skew/skew.c. */
static const char *const ahead[] = {"ERRBUS_SKEW_MONOTONIC=7200", "ERRBUS_SKEW_WALL=3600", NULL};
static const char *const behind[] = {"ERRBUS_SKEW_MONOTONIC=0", "ERRBUS_SKEW_WALL=-3600", NULL};

static void take_over(int from, int to, const char *const *clocks)
{
    shard.environment = clocks;
    shard_start_spare(&shard, to);
    shard_kill(&shard, from);
    shard_must_serve(&shard, to);
}

/* Time goes on: a deadline that is near comes. */
static void expect_time_to_pass(struct bus *alice)
{
    struct bus_slot *slot = NULL;
    expect_code(bus_slot_reserve(alice, "near", NEAR_MS, &slot), BUS_OK);
    struct bus_error *error =
        expect_await_failed(alice, "alice/near", bus_slot_seq(slot), "deadline");
    bus_error_unref(&error);
    bus_slot_fail(&slot, NULL);
    (void)bus_flush(alice, SOON_MS); /* which tells that it was refused */
    expect_code(bus_refusal(alice, &error), BUS_OK);
    bus_error_unref(&error);
}

/* A deadline that is over by the next machine's clock has the resume window.  Nobody is lost. */
Test(spare, takes_over_though_its_clocks_are_hours_off)
{
    shard_skip_without_server(&shard);
    shard.program = "errbusd_failpoints";
    shard.environment = behind;
    struct bus *alice = shard_begin(&shard);
    struct bus_slot *slot = NULL;
    expect_code(bus_slot_reserve(alice, "w", FAR_MS, &slot), BUS_OK);
    must_flush(alice);
    take_over(0, 1, ahead);
    shard_publish(alice, SHARD_VALUES + 1);
    expect_time_to_pass(alice);
    take_over(1, 0, behind);
    must_commit(&slot, "10");
    must_flush(alice);
    expect_time_to_pass(alice);
    shard_must_have(&shard, 2 * SHARD_VALUES + 1);
    must_close(&alice);
}
