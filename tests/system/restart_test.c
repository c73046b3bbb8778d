/* SPDX-License-Identifier: MPL-2.0 */
/* restart_test.c -- the broker is killed and started again over its journal: the job goes on as if
 * there had been a pause. */
#include "tests/lib/revival.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include <bus/admin.h>

/* Of errbusd(8). */
#define DEFAULT_WINDOW_MS 10000

static void start_broker(const char *durability)
{
    revival_start(durability, NULL);
}

TestSuite(restart, .init = revival_open, .fini = revival_close, .timeout = 120);

static void go_on_with(const char *durability)
{
    start_broker(durability);
    struct bus *alice = revival_open_patient("alice");
    struct bus *bob = revival_open_patient("bob");
    struct bus_sub *sub = must_subscribe(bob, "alice/#");
    must_publish(alice, "w", "before");
    expect_value(sub, "alice/w", 0, "before");
    struct bus_slot *kept = must_reserve(alice, "w");
    struct bus_slot *failed = must_reserve(alice, "w");
    must_publish(alice, "w", "behind");
    must_flush(alice);
    revival_kill();
    start_broker(durability);
    must_commit(&kept, "kept");
    fail_slot(&failed, "ValueError", "of the time before");
    expect_value(sub, "alice/w", 1, "kept");
    expect_failed(sub, "alice/w", 2, "application");
    expect_value(sub, "alice/w", 3, "behind");
    must_publish(alice, "w", "after");
    expect_value(sub, "alice/w", 4, "after");
    bus_sub_close(&sub);
    must_close(&bob);
    must_close(&alice);
}

Test(restart, goes_on_with_its_promises_on_the_disk)
{
    go_on_with("disk");
}

Test(restart, goes_on_with_its_promises_in_the_log)
{
    go_on_with("process");
}

Test(restart, gives_what_was_accepted_to_who_comes_later)
{
    enum { VALUES = 5000 };
    start_broker("disk");
    struct bus *alice = revival_open_patient("alice");
    for (int i = 0; i < VALUES; i++) {
        must_publish(alice, "w", "value %d", i);
    }
    must_flush(alice);
    revival_kill();
    start_broker("disk");
    struct bus *bob = revival_open_patient("bob");
    struct bus_sub *sub = must_subscribe(bob, "alice/w");
    for (int i = 0; i < VALUES; i++) {
        expect_value(sub, "alice/w", (uint64_t)i, "value %d", i);
    }
    expect_nothing(bob, sub);
    bus_sub_close(&sub);
    must_close(&bob);
    must_close(&alice);
}

/* A durable reader that is gone meanwhile goes on at its last acknowledgement. */
Test(restart, keeps_the_place_of_durable_readers)
{
    struct bus_sub_options options;
    bus_sub_options_init(&options);
    options.name = "reader";
    start_broker("disk");
    struct bus *alice = revival_open_patient("alice");
    struct bus *bob = revival_open_patient("bob");
    struct bus_sub *sub = must_subscribe_with(bob, "alice/w", &options);
    for (int i = 0; i < 10; i++) {
        must_publish(alice, "w", "value %d", i);
    }
    for (int i = 0; i < 4; i++) {
        expect_value(sub, "alice/w", (uint64_t)i, "value %d", i);
    }
    must_flush(bob);
    bus_sub_close(&sub);
    must_close(&bob);
    must_flush(alice);
    revival_kill();
    start_broker("disk");
    bob = revival_open_patient("bob");
    sub = must_subscribe_with(bob, "alice/w", &options);
    for (int i = 4; i < 10; i++) {
        expect_value(sub, "alice/w", (uint64_t)i, "value %d", i);
    }
    bus_sub_close(&sub);
    must_close(&bob);
    must_close(&alice);
}

static void start_reader(struct party *bob)
{
    static const char *const quick[] = {"reconnect_grace_ms=100", NULL};
    party_start(bob, "bob", quick);
    party_do(bob, "OK", "subscribe alice/w steps");
}

/* Broker and reader at once, in either order: what was acknowledged does not come again, what was
 * in hand does. */
Test(restart, keeps_the_place_of_a_reader_that_is_killed_too)
{
    struct party bob = {0};
    start_broker("disk");
    struct bus *alice = revival_open_patient("alice");
    start_reader(&bob);
    must_publish(alice, "w", "0");
    must_publish(alice, "w", "1");
    must_publish(alice, "w", "2");
    must_flush(alice);
    party_do(&bob, "OK alice/w 0 0", "receive 20000");
    party_do(&bob, "OK", "acknowledge");
    party_do(&bob, "OK alice/w 1 1", "receive 20000");
    party_do(&bob, "OK", "flush 20000");
    party_kill(&bob);
    revival_kill();
    start_broker("disk");
    start_reader(&bob);
    party_do(&bob, "OK alice/w 1 1", "receive 20000");
    party_do(&bob, "OK", "acknowledge");
    party_do(&bob, "OK alice/w 2 2", "receive 20000");
    party_do(&bob, "OK", "flush 20000");
    revival_kill();
    party_kill(&bob);
    start_broker("disk");
    start_reader(&bob);
    party_do(&bob, "OK alice/w 2 2", "receive 20000");
    party_do(&bob, "TIMEDOUT", "receive 0");
    party_do(&bob, "OK", "close 20000");
    party_fini(&bob);
    must_close(&alice);
}

/* The broker reads in one round that the old process is gone, and that the new one greets. */
Test(restart, gives_a_killed_party_its_name_back_though_the_broker_is_busy)
{
    enum { KILLS = 3 };
    static const char *const environment[] = {"ERRBUS_SLOW=round:200", NULL};
    struct party bob = {0};
    cr_assert(revival_start_failing("process", environment, NULL), "%s",
              process_complained(&stage.process));
    for (int i = 0; i < KILLS; i++) {
        party_start(&bob, "bob", NULL);
        party_kill(&bob);
    }
    party_start(&bob, "bob", NULL);
    party_do(&bob, "OK", "close 20000");
    party_fini(&bob);
}

Test(restart, leaves_the_dead_dead)
{
    start_broker("disk");
    struct party carol = {0};
    party_start(&carol, "carol", NULL);
    party_do(&carol, "OK", "reserve w 1");
    struct bus *bob = revival_open_patient("bob");
    struct bus_sub *sub = must_subscribe(bob, "carol/w");
    process_signal(&carol.process, SIGKILL);
    expect_failed(sub, "carol/w", 0, "party_lost");
    revival_kill();
    start_broker("disk");
    struct bus *dora = revival_open_patient("dora");
    struct bus_sub *late = must_subscribe(dora, "carol/w");
    expect_failed(late, "carol/w", 0, "party_lost");
    bus_sub_close(&late);
    bus_sub_close(&sub);
    must_close(&dora);
    must_close(&bob);
    party_fini(&carol);
}

/* Who was there and does not come back is lost at the end of the window, with what it owed: here
 * well before the ten seconds that it is without a word. */
Test(restart, waits_for_parties_as_long_as_it_is_told)
{
    static const char *const words[] = {"--resume-window", "200ms", NULL};
    struct party carol = {0};
    start_broker("disk");
    party_start(&carol, "carol", NULL);
    party_do(&carol, "OK", "reserve w 1");
    party_do(&carol, "OK", "flush 20000");
    revival_kill();
    process_signal(&carol.process, SIGKILL);
    cr_assert_eq(process_wait(&carol.process, SOON_MS), 128 + SIGKILL);
    int64_t begin_ms = test_now_ms();
    revival_start("disk", words);
    struct bus *bob = revival_open_patient("bob");
    struct bus_error *error = expect_await_failed(bob, "carol/w", 0, "party_lost");
    bus_error_unref(&error);
    cr_expect_lt(test_now_ms() - begin_ms, DEFAULT_WINDOW_MS);
    must_close(&bob);
    party_fini(&carol);
}

/* Many times in a row, in the middle of traffic: every number once, in order. */
Test(restart, loses_nothing_however_often)
{
    enum { ROUNDS = 8, EACH = 400 };
    start_broker("process");
    struct bus *alice = revival_open_patient("alice");
    struct bus *bob = revival_open_patient("bob");
    struct bus_sub *sub = must_subscribe(bob, "alice/w");
    uint64_t seq = 0;
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < EACH; i++) {
            must_publish(alice, "w", "%d", round * EACH + i);
        }
        revival_kill();
        start_broker("process");
        for (int i = 0; i < EACH; i++, seq++) {
            expect_value(sub, "alice/w", seq, "%llu", (unsigned long long)seq);
        }
    }
    bus_sub_close(&sub);
    must_close(&bob);
    must_close(&alice);
}

static uint64_t journal_bytes(void)
{
    struct bus_status *status = NULL;
    expect_code(bus_admin_status_get(stage_admin(), BUS_JOB_ALL, SOON_MS, &status, NULL), BUS_OK);
    uint64_t bytes = bus_status_journal(status)->bytes;
    bus_status_free(&status);
    return bytes;
}

/* Between two starts there is never enough for a checkpoint. */
Test(restart, keeps_its_journal_small_however_often)
{
    enum { STARTS = 24, EACH = 8, VALUE_BYTES = 65536, FILE_BYTES = 1 << 20 };
    static const char *const small_files[] = {"ERRBUS_NUMBER_SEGMENT_BYTES=1048576",
                                              "ERRBUS_NUMBER_CHECKPOINT_BYTES=1048576", NULL};
    static const char value[VALUE_BYTES];
    uint64_t most = 0;
    for (int start = 0; start < STARTS; start++) {
        cr_assert(revival_start_failing("disk", small_files, NULL));
        struct bus *alice = revival_open_patient("alice");
        for (int i = 0; i < EACH; i++) {
            expect_code(bus_publish(alice, "w", value, sizeof value), BUS_OK);
        }
        must_flush(alice);
        uint64_t bytes = journal_bytes();
        most = bytes > most ? bytes : most;
        must_close(&alice);
        revival_kill();
    }
    /* Every second start has enough for one, and what that makes needless goes behind it. */
    cr_expect_leq(most, 6 * FILE_BYTES, "%llu bytes", (unsigned long long)most);
    start_broker("disk");
}

/* Without the journal it is another broker. */
Test(restart, without_its_journal_is_another_broker)
{
    start_broker("disk");
    struct bus_options options;
    bus_options_init(&options);
    options.party = "alice";
    options.heartbeat_ms = 100;
    options.broker_lost_ms = SOON_MS;
    struct bus *alice = must_open_with(&options);
    must_publish(alice, "w", "lost with it");
    must_flush(alice);
    revival_kill();
    snprintf(revival.journal, sizeof revival.journal, "%s/other", revival.folder.path);
    start_broker("disk");
    struct bus_error *error = NULL;
    enum bus_err err = bus_verdict(alice, SOON_MS, &error);
    cr_expect(err == BUS_OK, "%s", code_name(err));
    cr_expect_str_eq(bus_error_kind(error), "broker_lost");
    bus_error_unref(&error);
    expect_code(bus_publish(alice, "w", "x", 1), BUS_ELOST);
    expect_code(bus_close(&alice, SOON_MS), BUS_ELOST);
}
