/* SPDX-License-Identifier: MPL-2.0 */
/* failpoint_test.c -- the broker dies between any two steps of deciding, logging, syncing,
 * answering, delivering, checkpoint and trim (broker/io/failpoint.h), and is started again: nothing
 * that was acknowledged is lost, nothing comes twice.  The same over a real PostgreSQL, where each
 * broker has tables of its own. */
#include "tests/lib/postgres.h"
#include "tests/lib/revival.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROUNDS = 14, OLD = 2, VALUE_BYTES = 20000, LOOK_MS = 20 };

/* ---- the broker -------------------------------------------------------------------------------*/

static struct postgres postgres; /* of a test over it */
static unsigned runs;            /* each has a journal of its own */

/* The options of a broker at `shared`; cache: of 256 bytes. */
static const char *const *options_of(const char *durability, char *cache)
{
    static const char *options[] = {"--replicas", "0", "--cache", NULL, NULL};
    if (strcmp(durability, "shared") != 0)
        return NULL;
    snprintf(cache, 256, "%s/cache%u", revival.folder.path, runs);
    options[3] = cache;
    return options;
}

/* An empty one.  The tables of all shards of a database are one directory of jobs, and the job of
 * the run before is there: so it is a schema. */
static void name_journal(const char *durability, const char *failpoint)
{
    char sql[64], nothing[8];
    runs++;
    snprintf(revival.journal, sizeof revival.journal, "%s/%s-%u", revival.folder.path, durability,
             runs);
    if (strcmp(durability, "shared") != 0)
        return;
    snprintf(sql, sizeof sql, "CREATE SCHEMA run%u", runs);
    (void)postgres_query(&postgres, 0, sql, nothing, sizeof nothing); /* it answers nothing */
    int bytes = snprintf(revival.journal, sizeof revival.journal,
                         "postgres:host=%s user=postgres options=-csearch_path=run%u",
                         postgres.nodes[0].sockets, runs);
    cr_assert_lt((size_t)bytes, sizeof revival.journal, "%s", failpoint);
}

/* failpoint: NAME:COUNT, or "" */
static void start_broker(const char *durability, const char *failpoint)
{
    char variable[64], cache[256];
    snprintf(variable, sizeof variable, "ERRBUS_FAILPOINT=%s", failpoint);
    const char *const environment[] = {variable,
                                       "ERRBUS_NUMBER_CHECKPOINT_BYTES=300000",
                                       "ERRBUS_NUMBER_CHECKPOINT_MS=0",
                                       "ERRBUS_NUMBER_RECENT_BYTES=150000",
                                       "ERRBUS_NUMBER_FLUSH_BYTES=150000",
                                       "ERRBUS_NUMBER_SEGMENT_BYTES=131072",
                                       NULL};
    bool is_ready = revival_start_failing(durability, environment, options_of(durability, cache));
    cr_assert(is_ready || failpoint[0] != '\0', "%s", process_complained(&stage.process));
}

TestSuite(failpoint, .init = revival_open, .fini = revival_close, .timeout = 300);

/* ---- the parties, in a thread of their own ----------------------------------------------------*/

struct job {
    char complaint[256]; /* "": all was as it must be */
    bool has_old;        /* values that nobody takes until the end */
    atomic_bool is_done;
};

static bool check(struct job *job, bool is_fine, const char *what, int round)
{
    if (!is_fine && job->complaint[0] == '\0')
        snprintf(job->complaint, sizeof job->complaint, "round %d: %s", round, what);
    return is_fine;
}

static struct bus *open_party(const char *party)
{
    struct bus_options options = patient_options(party);
    struct bus *bus = NULL;
    return bus_open(revival.control, &options, SOON_MS, &bus, NULL) == BUS_OK ? bus : NULL;
}

/* "ROUND.PLACE", filled up. */
static const char *value_of(int round, int place)
{
    static char value[VALUE_BYTES];
    memset(value, 'x', sizeof value);
    snprintf(value, sizeof value, "%d.%d", round, place);
    return value;
}

/* Two values, a promise that is kept, one that fails, and a value. */
static void write_round(struct job *job, struct bus *alice, int round)
{
    struct bus_slot *kept = NULL;
    struct bus_slot *failed = NULL;
    bool is_fine = true;
    for (int place = 0; place < 5; place++) {
        if (place == 2)
            is_fine &= bus_slot_reserve(alice, "w", BUS_FOREVER, &kept) == BUS_OK;
        else if (place == 3)
            is_fine &= bus_slot_reserve(alice, "w", BUS_FOREVER, &failed) == BUS_OK;
        else
            is_fine &= bus_publish(alice, "w", value_of(round, place), VALUE_BYTES) == BUS_OK;
    }
    struct bus_error *error = bus_error_new("test.failed", NULL, "%d.3", round);
    is_fine = is_fine && bus_slot_commit(&kept, value_of(round, 2), VALUE_BYTES) == BUS_OK;
    bus_slot_fail(&failed, error);
    bus_error_unref(&error);
    check(job, is_fine, "a call failed", round);
    check(job, bus_flush(alice, SOON_MS) == BUS_OK, "the flush of the writer failed", round);
}

static void read_place(struct job *job, struct bus_sub *sub, int round, int place)
{
    struct bus_msg *msg = NULL;
    struct bus_error *error = NULL;
    uint64_t seq = UINT64_MAX;
    size_t bytes = 0;
    enum bus_err err = bus_sub_recv(sub, SOON_MS, &msg, &error);
    (void)bus_sub_slot(sub, &seq);
    check(job, seq == (uint64_t)(round * 5 + place), "another place than was due", round);
    if (place == 3) {
        check(job, err == BUS_EFAILED && strcmp(bus_error_type(error), "test.failed") == 0,
              "not the error that was due", round);
    } else if (check(job, err == BUS_OK, "not a value", round)) {
        const char *value = bus_msg_value(msg, &bytes);
        check(job, bytes == VALUE_BYTES && memcmp(value, value_of(round, place), bytes) == 0,
              "not the value that was due", round);
    }
    bus_msg_free(&msg);
    bus_error_unref(&error);
}

/* The values that nobody took meanwhile, and so were written anew. */
static void read_old(struct job *job, struct bus_sub *old)
{
    for (int round = 0; round < OLD && job->complaint[0] == '\0'; round++) {
        struct bus_msg *msg = NULL;
        size_t bytes = 0;
        if (check(job, bus_sub_recv(old, SOON_MS, &msg, NULL) == BUS_OK, "no old value", round)) {
            const char *value = bus_msg_value(msg, &bytes);
            check(job, bytes == VALUE_BYTES && memcmp(value, value_of(round, 9), bytes) == 0,
                  "not the old value that was due", round);
        }
        bus_msg_free(&msg);
    }
}

static void *work(void *arg)
{
    struct job *job = arg;
    struct bus_sub_options options;
    struct bus_sub *sub = NULL;
    struct bus_sub *old = NULL;
    struct bus *alice = open_party("alice");
    struct bus *bob = open_party("bob");
    bus_sub_options_init(&options);
    options.name = "old";
    if (job->has_old && alice != NULL && bob != NULL)
        check(job, bus_sub_open(bob, "alice/old", &options, &old) == BUS_OK, "no subscription", -1);
    options.name = "reader";
    if (check(job, alice != NULL && bob != NULL, "a party could not open", -1)) {
        check(job, bus_sub_open(bob, "alice/w", &options, &sub) == BUS_OK, "no subscription", -1);
        for (int round = 0; round < ROUNDS && job->complaint[0] == '\0'; round++) {
            if (job->has_old && round < OLD)
                check(job, bus_publish(alice, "old", value_of(round, 9), VALUE_BYTES) == BUS_OK,
                      "an old value was refused", round);
            write_round(job, alice, round);
            for (int place = 0; place < 5 && job->complaint[0] == '\0'; place++)
                read_place(job, sub, round, place);
        }
        if (job->has_old)
            read_old(job, old);
        check(job, bus_flush(bob, SOON_MS) == BUS_OK, "the flush of the reader failed", ROUNDS);
        struct bus_msg *msg = NULL;
        check(job, bus_sub_recv(sub, BUS_POLL, &msg, NULL) == BUS_ETIMEDOUT, "more came", ROUNDS);
    }
    bus_sub_close(&old);
    bus_sub_close(&sub);
    check(job, bus_close(&bob, SOON_MS) == BUS_OK, "the reader could not close", ROUNDS);
    check(job, bus_close(&alice, SOON_MS) == BUS_OK, "the writer could not close", ROUNDS);
    atomic_store(&job->is_done, true);
    return NULL;
}

static void expect_killed(int code, const char *failpoint)
{
    cr_assert_eq(code, 128 + SIGKILL, "%s: it ended with %d: %s", failpoint, code,
                 process_complained(&stage.process));
    process_fini(&stage.process);
}

/* Whether it got there; the broker is started again if it did. */
static bool die_at(const char *durability, const char *name, int count)
{
    struct job job = {.complaint = "", .has_old = strncmp(name, "move", 4) == 0};
    char failpoint[48];
    pthread_t thread;
    bool has_died = false;
    snprintf(failpoint, sizeof failpoint, "%s:%d", name, count);
    name_journal(durability, failpoint);
    start_broker(durability, failpoint);
    cr_assert_eq(pthread_create(&thread, NULL, work, &job), 0);
    while (!atomic_load(&job.is_done)) {
        int code = process_wait(&stage.process, LOOK_MS);
        if (code < 0)
            continue;
        cr_assert_not(has_died, "%s: twice", failpoint);
        expect_killed(code, failpoint);
        has_died = true;
        start_broker(durability, "");
    }
    pthread_join(thread, NULL);
    cr_assert_eq(job.complaint[0], '\0', "%s at %s: %s", failpoint, durability, job.complaint);
    /* What is brought to a busy disk beside the writer may take longer than all the rest. */
    if (count == 1 && !has_died) {
        expect_killed(process_wait(&stage.process, SOON_MS), failpoint);
        has_died = true;
    }
    stage_close();
    return has_died;
}

static void die_at_all(const char *durability, const char *name)
{
    cr_assert(die_at(durability, name, 1));
    for (int count = 4; count <= 64 && die_at(durability, name, count); count *= 4)
        continue;
}

Test(failpoint, between_deciding_and_logging)
{
    die_at_all("disk", "decided");
    die_at_all("process", "append");
}

Test(failpoint, between_logging_and_syncing)
{
    die_at_all("process", "appended");
    die_at_all("disk", "sync");
}

Test(failpoint, between_syncing_and_answering)
{
    die_at_all("disk", "synced");
    die_at_all("disk", "answer");
}

/* The last answers are those to farewells: who said one has left, whether it hears so or not. */
Test(failpoint, between_a_farewell_and_its_answer)
{
    for (int count = 40; count <= 64; count++)
        (void)die_at("disk", "answer", count);
}

Test(failpoint, between_answering_and_delivering)
{
    die_at_all("disk", "answered");
    die_at_all("process", "deliver");
    die_at_all("process", "delivered");
}

Test(failpoint, between_moving_old_values_and_the_checkpoint)
{
    cr_assert(die_at("process", "move", 1) && die_at("disk", "move", 2));
    die_at_all("process", "moved");
    die_at_all("disk", "moved");
}

Test(failpoint, around_what_is_synced_beside_the_writer)
{
    die_at_all("process", "flush");
    die_at_all("process", "flushed");
}

Test(failpoint, between_the_pieces_of_a_checkpoint)
{
    die_at_all("process", "checkpoint");
    die_at_all("disk", "checkpointing");
}

Test(failpoint, around_a_trim)
{
    die_at_all("process", "trim");
    die_at_all("disk", "trimmed");
}

/* ---- over PostgreSQL --------------------------------------------------------------------------*/

static void open_store(void)
{
    revival_open();
    if (postgres_is_installed())
        cr_assert(postgres_start(&postgres, 0), "%s", postgres.why);
}

static void close_store(void)
{
    revival_close();
    postgres_fini(&postgres);
}

TestSuite(failpoint_postgres, .init = open_store, .fini = close_store, .timeout = 600);

/* A takeover takes some seconds, so each place is reached twice at most. */
static void die_over_postgres(const char *name)
{
    if (postgres.count == 0)
        cr_skip_test(POSTGRES_MISSING);
    cr_assert(die_at("shared", name, 1), "%s", name);
    (void)die_at("shared", name, 5);
}

Test(failpoint_postgres, around_a_commit)
{
    die_over_postgres("append");
    die_over_postgres("sync");
    die_over_postgres("synced");
}

Test(failpoint_postgres, around_what_follows_a_commit)
{
    die_over_postgres("answer");
    die_over_postgres("deliver");
    die_over_postgres("keep");
}

Test(failpoint_postgres, around_a_checkpoint)
{
    die_over_postgres("checkpoint");
    die_over_postgres("trim");
    die_over_postgres("trimmed");
}
