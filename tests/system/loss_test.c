/* SPDX-License-Identifier: MPL-2.0 */
/* loss_test.c -- parties that are killed, frozen, cut off or busy, as real processes. */
#include "tests/lib/expect.h"
#include "tests/lib/relay.h"

#include <criterion/criterion.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TestSuite(loss, .init = stage_open, .fini = stage_close, .timeout = 240);

#define GRACE_MS 500
/* Grace and 100 ms are promised; tests have a bound ten times as wide. */
#define LOST_WITHIN_MS (10 * (GRACE_MS + 100))
#define EARLIER 10

static const char *const quick[] = {"reconnect_grace_ms=500", NULL};

/* ---- killed ---------------------------------------------------------------------------------- */

static void expect_losses(struct bus_sub *sub, uint64_t count, char *id, size_t id_bytes)
{
    for (uint64_t seq = 0; seq < EARLIER; seq++) {
        expect_value(sub, "alice/w", seq, "v-%d", (int)seq);
    }
    for (uint64_t seq = EARLIER; seq < EARLIER + count; seq++) {
        struct bus_error *error = expect_error(sub, "alice/w", seq, "party_lost");
        if (id[0] == '\0') {
            snprintf(id, id_bytes, "%s", bus_error_id(error));
            cr_expect_str_eq(bus_error_party(error), "alice");
            cr_expect_str_eq(bus_error_type(error), "errbus.connection_closed");
        }
        cr_assert_str_eq(bus_error_id(error), id);
        bus_error_unref(&error);
    }
    expect_end(sub, "party_lost");
}

/* Waits for every slot at once, from before the loss on. */
struct gatherer {
    struct bus *bus;
    uint64_t count;
    struct bus_want *wants;
    pthread_t thread;
    enum bus_err err;
    int64_t ended_ms;
};

static void *gather(void *arg)
{
    struct gatherer *gatherer = arg;
    gatherer->err = bus_gather(gatherer->bus, gatherer->wants, gatherer->count, gatherer->count,
                               gatherer->count, 3 * SOON_MS, NULL);
    gatherer->ended_ms = test_now_ms();
    return NULL;
}

static void start_gathering(struct gatherer *gatherer)
{
    gatherer->wants = calloc(gatherer->count, sizeof *gatherer->wants);
    cr_assert_not_null(gatherer->wants);
    for (uint64_t i = 0; i < gatherer->count; i++) {
        gatherer->wants[i] = (struct bus_want){.topic = "alice/w", .seq = EARLIER + i};
    }
    cr_assert_eq(pthread_create(&gatherer->thread, NULL, gather, gatherer), 0);
}

static void expect_gathered(struct gatherer *gatherer, int64_t killed_ms)
{
    pthread_join(gatherer->thread, NULL);
    expect_code(gatherer->err, BUS_OK);
    cr_expect_lt(gatherer->ended_ms - killed_ms, LOST_WITHIN_MS);
    for (uint64_t i = 0; i < gatherer->count; i++) {
        const struct bus_want *want = &gatherer->wants[i];
        cr_assert_null(want->msg);
        cr_assert_not_null(want->error, "nothing for slot %llu", (unsigned long long)i);
        cr_assert_str_eq(bus_error_kind(want->error), "party_lost");
    }
    bus_wants_free(gatherer->wants, gatherer->count);
    free(gatherer->wants);
}

/* Two who subscribe, one who gathers, one who taps; alice dies with count open slots. */
static void expect_loss_of(uint64_t count)
{
    struct bus *readers[3] = {must_open("bob"), must_open("carol"), must_open("dave")};
    struct bus_sub *subs[2];
    struct bus_tap *tap = must_tap(NULL, BUS_TAP_NOW);
    struct party alice;
    char id[600] = "";
    party_start(&alice, "alice", quick);
    party_do(&alice, "OK", "publish w %d v", EARLIER);
    party_do(&alice, "OK", "reserve w %d", (int)count);
    party_do(&alice, "OK", "flush 20000");
    for (size_t i = 0; i < 2; i++) {
        subs[i] = must_subscribe(readers[i], i == 0 ? "alice/w" : "alice/#");
    }
    struct waiter waiter = {.bus = readers[2], .topic = "alice/w", .seq = EARLIER + count - 1};
    struct gatherer gatherer = {.bus = readers[1], .count = count};
    waiter_start(&waiter);
    start_gathering(&gatherer);

    int64_t killed_ms = test_now_ms();
    process_signal(&alice.process, SIGKILL);
    waiter_join(&waiter);
    expect_code(waiter.err, BUS_EFAILED);
    cr_expect_lt(waiter.ended_ms - killed_ms, LOST_WITHIN_MS);
    for (size_t i = 0; i < 2; i++) {
        expect_losses(subs[i], count, id, sizeof id);
        expect_nothing(readers[i], subs[i]);
    }
    cr_expect_lt(test_now_ms() - killed_ms, LOST_WITHIN_MS);
    expect_gathered(&gatherer, killed_ms);

    /* One failure, one id, and one event with the number of what it took. */
    const struct bus_event *event = expect_event(tap, "party.lost", "alice");
    cr_expect_eq(bus_event_count(event), count);
    cr_expect_str_eq(bus_error_id(bus_event_error(event)), id);
    struct bus *last = must_open("last");
    cr_expect_eq(count_events_until(tap, "party.lost", "party.joined"), 0);
    must_close(&last);

    waiter_fini(&waiter);
    party_fini(&alice);
    bus_tap_close(&tap);
    for (size_t i = 0; i < 2; i++) {
        bus_sub_close(&subs[i]);
    }
    for (size_t i = 0; i < 3; i++) {
        must_close(&readers[i]);
    }
}

Test(loss, of_a_killed_party_with_one_open_slot)
{
    expect_loss_of(1);
}

Test(loss, of_a_killed_party_with_a_hundred_open_slots)
{
    expect_loss_of(100);
}

Test(loss, of_a_killed_party_with_ten_thousand_open_slots)
{
    expect_loss_of(10000);
}

Test(loss, of_a_party_that_promised_nothing_is_told_all_the_same)
{
    struct bus *bob = must_open("bob");
    struct bus *carol = must_open("carol");
    struct party alice;
    party_start(&alice, "alice", quick);
    struct waiter awaiting = {.bus = bob, .topic = "alice/round", .seq = 7};
    struct waiter receiving = {.sub = must_subscribe(carol, "alice/#")};
    waiter_start(&awaiting);
    waiter_start(&receiving);

    process_signal(&alice.process, SIGKILL);
    waiter_join(&awaiting);
    waiter_join(&receiving);
    expect_code(awaiting.err, BUS_EFAILED);
    cr_expect_str_eq(bus_error_party(awaiting.error), "alice");
    cr_expect_not_null(bus_error_find(awaiting.error, "party_lost"), "kind %s",
                       bus_error_kind(awaiting.error));
    expect_code(receiving.err, BUS_EFAILED);
    cr_expect_str_eq(bus_error_kind(receiving.error), "party_lost");
    expect_nothing(carol, receiving.sub);

    bus_sub_close(&receiving.sub);
    waiter_fini(&awaiting);
    waiter_fini(&receiving);
    party_fini(&alice);
    must_close(&bob);
    must_close(&carol);
}

Test(loss, is_not_assumed_of_who_has_not_joined_yet)
{
    struct bus *bob = must_open("bob");
    struct bus_error *error = NULL;
    struct bus_msg *msg = NULL;
    int64_t start_ms = test_now_ms();
    expect_code_of(bus_await(bob, "alice/round", 0, 300, &msg, &error), BUS_ETIMEDOUT, &error);
    cr_expect_geq(test_now_ms() - start_ms, 299);

    struct waiter waiter = {.bus = bob, .topic = "alice/round", .seq = 0};
    waiter_start(&waiter);
    struct bus *alice = must_open("alice");
    must_publish(alice, "round", "here I am");
    waiter_join(&waiter);
    expect_code(waiter.err, BUS_OK);
    expect_message(waiter.msg, "here I am");
    waiter_fini(&waiter);
    must_close(&alice);
    must_close(&bob);
}

Test(loss, is_told_at_once_when_a_fresh_party_takes_the_name)
{
    static const char *const patient[] = {"reconnect_grace_ms=600000", "lost_after_ms=600000",
                                          NULL};
    struct bus *bob = must_open("bob");
    struct bus_sub *sub = must_subscribe(bob, "alice/w");
    struct bus_tap *tap = must_tap(NULL, BUS_TAP_NOW);
    struct party first;
    struct party second;
    party_start(&first, "alice", patient);
    party_do(&first, "OK", "reserve w 1");
    party_do(&first, "OK", "flush 20000");
    process_signal(&first.process, SIGKILL);
    expect_event(tap, "party.suspect", "alice");

    party_start(&second, "alice", patient);
    party_do(&second, "OK", "publish w 1 anew");
    struct bus_error *error = expect_error(sub, "alice/w", 0, "party_lost");
    cr_expect_str_eq(bus_error_type(error), "errbus.replaced");
    bus_error_unref(&error);
    expect_end(sub, "party_lost");
    expect_value(sub, "alice/w", 1, "anew-0");
    const struct bus_event *event = expect_event(tap, "party.joined", "alice");
    cr_expect_eq(bus_event_incarnation(event), 2);

    party_do(&second, "OK", "close 20000");
    party_fini(&first);
    party_fini(&second);
    bus_tap_close(&tap);
    bus_sub_close(&sub);
    must_close(&bob);
}

/* Who subscribes after all of it gets what an early subscriber got. */
Test(loss, is_told_in_its_place_to_who_comes_late)
{
    struct bus *bob = must_open("bob");
    struct bus_tap *tap = must_tap(NULL, BUS_TAP_NOW);
    struct party first;
    struct party second;
    party_start(&first, "alice", quick);
    party_do(&first, "OK", "publish w 1 one");
    party_do(&first, "OK", "reserve w 1");
    party_do(&first, "OK", "flush 20000");
    process_signal(&first.process, SIGKILL);
    expect_event(tap, "party.lost", "alice");
    struct bus *alice = must_open("alice");
    must_publish(alice, "w", "two");
    must_close(&alice);
    party_start(&second, "alice", quick);
    party_do(&second, "OK", "publish w 1 three");
    party_do(&second, "OK", "flush 20000");

    struct bus_sub *sub = must_subscribe(bob, "alice/w");
    uint64_t number = 0;
    expect_value(sub, "alice/w", 0, "one-0");
    expect_failed(sub, "alice/w", 1, "party_lost");
    expect_end(sub, "party_lost");
    cr_expect_str_eq(bus_sub_slot(sub, &number), "alice");
    cr_expect_eq(number, 1);
    expect_value(sub, "alice/w", 2, "two");
    expect_end(sub, NULL);
    cr_expect_str_eq(bus_sub_slot(sub, &number), "alice");
    cr_expect_eq(number, 2);
    cr_expect_eq(bus_sub_gap(sub, &number), 1);
    expect_value(sub, "alice/w", 3, "three-0");
    expect_nothing(bob, sub);

    party_do(&second, "OK", "close 20000");
    expect_end(sub, NULL);
    party_fini(&first);
    party_fini(&second);
    bus_tap_close(&tap);
    bus_sub_close(&sub);
    must_close(&bob);
}

/* ---- frozen, and busy ------------------------------------------------------------------------ */

/* She hears of her loss on the old connection, or, coming back on a new one, that she is fenced. */
static void expect_fenced_handler(struct party *party)
{
    const char *line = NULL;
    cr_assert(process_line(&party->process, SOON_MS, &line), "the handler did not run");
    cr_assert(strcmp(line, "! handler party_lost errbus.silent") == 0 ||
                  strcmp(line, "! handler rejected errbus.fenced") == 0,
              "%s", line);
}

Test(loss, of_a_frozen_party_fences_the_incarnation_it_lost)
{
    static const char *const words[] = {"heartbeat_ms=100", "lost_after_ms=600", NULL};
    struct bus *bob = must_open("bob");
    struct bus_sub *sub = must_subscribe(bob, "alice/w");
    struct bus_tap *tap = must_tap(NULL, BUS_TAP_NOW);
    struct party alice;
    party_start(&alice, "alice", words);
    party_do(&alice, "OK", "publish w 1 before");
    party_do(&alice, "OK", "reserve w 2");
    party_do(&alice, "OK", "flush 20000");

    process_signal(&alice.process, SIGSTOP);
    expect_event(tap, "party.suspect", "alice");
    expect_event(tap, "party.lost", "alice");
    expect_value(sub, "alice/w", 0, "before-0");
    for (uint64_t seq = 1; seq <= 2; seq++) {
        struct bus_error *error = expect_error(sub, "alice/w", seq, "party_lost");
        cr_expect_str_eq(bus_error_type(error), "errbus.silent");
        bus_error_unref(&error);
    }
    expect_end(sub, "party_lost");

    process_signal(&alice.process, SIGCONT);
    expect_fenced_handler(&alice);
    party_do(&alice, "FENCED", "commit w 1 ghost");
    party_do(&alice, "FENCED", "publish w 1 ghost");
    party_do(&alice, "FENCED", "close 20000");
    cr_expect_eq(party_count(&alice, "handler"), 1);

    /* No write of the old incarnation landed; a new one goes on behind it. */
    struct party again;
    party_start(&again, "alice", NULL);
    party_do(&again, "OK", "publish w 1 after");
    party_do(&again, "OK", "flush 20000");
    expect_value(sub, "alice/w", 3, "after-0");
    expect_nothing(bob, sub);

    party_fini(&alice);
    party_fini(&again);
    bus_tap_close(&tap);
    bus_sub_close(&sub);
    must_close(&bob);
}

/* A commit of the old incarnation that was sent while it did not know yet. */
Test(loss, refuses_the_commit_that_lost_against_it)
{
    static const char *const words[] = {"heartbeat_ms=100", "lost_after_ms=600", NULL};
    struct bus *bob = must_open("bob");
    struct bus_sub *sub = must_subscribe(bob, "alice/w");
    struct party alice;
    party_start(&alice, "alice", words);
    party_do(&alice, "OK", "reserve w 1");
    party_do(&alice, "OK", "flush 20000");
    process_signal(&alice.process, SIGSTOP);
    party_command(&alice, "commit w 0 ghost");
    expect_failed(sub, "alice/w", 0, "party_lost");
    expect_end(sub, "party_lost");
    process_signal(&alice.process, SIGCONT);

    /* The commit raced with the news; flush and close do not. */
    const char *answer = party_answer(&alice);
    bool is_taken = strcmp(answer, "OK") == 0;
    cr_expect(is_taken || strcmp(answer, "FENCED") == 0, "%s", answer);
    if (is_taken) {
        party_do(&alice, "FENCED", "flush 20000");
        party_do(&alice, "OK alice/w 0 party_lost", "refusal");
    }
    party_do(&alice, "FENCED", "close 20000");
    expect_nothing(bob, sub);
    party_fini(&alice);
    bus_sub_close(&sub);
    must_close(&bob);
}

Test(loss, does_not_follow_from_a_short_freeze)
{
    static const char *const words[] = {"heartbeat_ms=50", "lost_after_ms=60000", NULL};
    struct bus *bob = must_open("bob");
    struct bus_sub *sub = must_subscribe(bob, "alice/w");
    struct bus_tap *tap = must_tap(NULL, BUS_TAP_NOW);
    struct party alice;
    party_start(&alice, "alice", words);
    party_do(&alice, "OK", "reserve w 1");
    party_do(&alice, "OK", "flush 20000");
    process_signal(&alice.process, SIGSTOP);
    expect_event(tap, "party.suspect", "alice");
    expect_nothing(bob, sub);
    process_signal(&alice.process, SIGCONT);
    expect_event(tap, "party.resumed", "alice");

    party_do(&alice, "OK", "commit w 0 fine");
    party_do(&alice, "OK", "flush 20000");
    expect_value(sub, "alice/w", 0, "fine");
    party_do(&alice, "OK none", "failure");
    party_do(&alice, "OK", "close 20000");
    cr_expect_eq(party_count(&alice, "handler"), 0);
    cr_expect_eq(count_events_until(tap, "party.lost", "party.left"), 0);
    party_fini(&alice);
    bus_tap_close(&tap);
    bus_sub_close(&sub);
    must_close(&bob);
}

/* A minute, six times its bound of silence, where it is asked for; four times the bound
 * otherwise. */
Test(loss, does_not_follow_from_being_busy)
{
    static const char *const words[] = {"heartbeat_ms=100", "lost_after_ms=1000", NULL};
    struct bus *bob = must_open("bob");
    struct bus_sub *sub = must_subscribe(bob, "alice/w");
    struct party alice;
    party_start(&alice, "alice", is_asked("TEST_LONG") ? NULL : words);
    party_do(&alice, "OK", "reserve w 1");
    party_do(&alice, "OK", "compute %d", is_asked("TEST_LONG") ? 60000 : 4000);
    party_do(&alice, "OK", "commit w 0 computed");
    party_do(&alice, "OK", "flush 20000");
    expect_value(sub, "alice/w", 0, "computed");
    party_do(&alice, "OK none", "failure");
    party_do(&alice, "OK", "close 20000");
    party_fini(&alice);
    bus_sub_close(&sub);
    must_close(&bob);
}
