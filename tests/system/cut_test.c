/* SPDX-License-Identifier: MPL-2.0 */
/* cut_test.c -- links that are cut or fall silent, for less and for longer than they may. */
#include "tests/lib/expect.h"
#include "tests/lib/relay.h"
#include "tests/lib/stranger.h"

#include <criterion/criterion.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct folder folder; /* of the journal, where there is one */
static struct relay relay;   /* the data of all goes over it, the control of those who ask for it */

static void open_with_relay(void)
{
    stage_open_with_relay(&relay);
}

static void close_with_relay(void)
{
    relay_fini(&relay);
    stage_close();
    folder_fini(&folder);
}

TestSuite(cut, .init = open_with_relay, .fini = close_with_relay, .timeout = 240);

struct handled {
    atomic_int count;
    char kind[32];
};

static void count_failure(const struct bus_error *verdict, void *arg)
{
    struct handled *handled = arg;
    snprintf(handled->kind, sizeof handled->kind, "%s", bus_error_kind(verdict));
    atomic_fetch_add(&handled->count, 1);
}

/* Over the relay. */
static struct bus *open_far(const char *party, int64_t grace_ms, int64_t lost_after_ms,
                            struct handled *handled)
{
    struct bus_options options = patient_options(party);
    options.lost_after_ms = lost_after_ms;
    options.reconnect_grace_ms = grace_ms;
    options.broker_lost_ms = 60000;
    options.on_failure = handled != NULL ? count_failure : NULL;
    options.on_failure_arg = handled;
    return must_open_at(relay.control_endpoint, &options);
}

static void publish_number(struct bus *bus, uint64_t number)
{
    expect_code(bus_publish(bus, "w", &number, sizeof number), BUS_OK);
}

static void expect_number(struct bus_sub *sub, uint64_t number)
{
    struct bus_msg *msg = NULL;
    struct bus_error *error = NULL;
    size_t bytes = 0;
    uint64_t got = 0;
    enum bus_err err = bus_sub_recv(sub, SOON_MS, &msg, &error);
    expect_code_of(err, BUS_OK, &error);
    memcpy(&got, bus_msg_value(msg, &bytes), sizeof got);
    cr_assert(got == number && bus_msg_seq(msg) == number, "%llu at %llu, not %llu",
              (unsigned long long)got, (unsigned long long)bus_msg_seq(msg),
              (unsigned long long)number);
    bus_msg_free(&msg);
}

#define CUTS 6
#define NUMBERS 300

/* Writer and reader beyond the link; some numbers are sent before, while and after it is down. */
static void expect_numbers_over(enum relay_state state)
{
    struct handled handled = {0};
    struct bus *alice = open_far("alice", 600000, 600000, &handled);
    struct bus *bob = open_far("bob", 600000, 600000, &handled);
    struct bus *carol = must_open("carol");
    struct bus_sub *subs[2] = {NULL, NULL};
    struct bus_tap *tap = must_tap(NULL, BUS_TAP_NOW);
    uint64_t sent = 0;
    expect_code(bus_sub_open(bob, "alice/w", NULL, &subs[0]), BUS_OK);
    must_flush(bob);
    publish_number(alice, sent++);
    must_flush(alice);
    for (int cut = 0; cut < CUTS; cut++) {
        for (int i = 0; i < NUMBERS; i++) {
            publish_number(alice, sent++);
        }
        relay_set(&relay, state);
        for (int i = 0; i < NUMBERS; i++) {
            publish_number(alice, sent++);
        }
        expect_event(tap, "party.suspect", NULL);
        relay_set(&relay, RELAY_WHOLE);
        must_flush(alice);
    }
    expect_code(bus_sub_open(carol, "alice/w", NULL, &subs[1]), BUS_OK);
    for (uint64_t number = 0; number < sent; number++) {
        expect_number(subs[0], number);
        expect_number(subs[1], number);
    }
    expect_nothing(bob, subs[0]);
    cr_expect_eq(atomic_load(&handled.count), 0);
    bus_tap_close(&tap);
    bus_sub_close(&subs[0]);
    bus_sub_close(&subs[1]);
    must_close(&alice);
    must_close(&bob);
    must_close(&carol);
}

static void expect_bytes(struct bus_sub *sub, const void *value, size_t bytes)
{
    struct bus_msg *msg = NULL;
    struct bus_error *error = NULL;
    size_t got = 0;
    expect_code_of(bus_sub_recv(sub, 2 * SOON_MS, &msg, &error), BUS_OK, &error);
    const void *received = bus_msg_value(msg, &got);
    cr_assert_eq(got, bytes);
    cr_assert_eq(memcmp(received, value, bytes), 0);
    bus_msg_free(&msg);
}

/* What was cut comes back by new connections: so many more than before, at least. */
static void expect_dialled(unsigned control_before, unsigned data_before, unsigned more)
{
    cr_expect_geq(relay_dials(&relay), control_before + more, "the control connection was not cut");
    cr_expect_geq(relay_data_dials(&relay), data_before + more, "the data connection was not cut");
}

Test(cut, and_mended_goes_on_where_it_was)
{
    expect_numbers_over(RELAY_CUT);
}

Test(cut, off_in_silence_and_mended_goes_on_where_it_was)
{
    expect_numbers_over(RELAY_SILENT);
}

Test(cut, does_not_lose_settlements_either)
{
    struct bus *alice = open_far("alice", 600000, 600000, NULL);
    struct bus *bob = must_open("bob");
    struct bus_sub *sub = must_subscribe(bob, "alice/w");
    struct bus_slot *slots[3] = {must_reserve(alice, "w"), must_reserve(alice, "w"),
                                 must_reserve(alice, "w")};
    must_flush(alice);
    unsigned dials = relay_dials(&relay);
    unsigned data_dials = relay_data_dials(&relay);
    relay_set(&relay, RELAY_CUT);
    must_commit(&slots[1], "one");
    fail_slot(&slots[0], "app.zero", "first");
    bus_slot_fail(&slots[2], NULL);
    relay_set(&relay, RELAY_WHOLE);
    must_flush(alice);
    expect_dialled(dials, data_dials, 1);
    expect_failed(sub, "alice/w", 0, "application");
    expect_value(sub, "alice/w", 1, "one");
    expect_failed(sub, "alice/w", 2, "application");
    bus_sub_close(&sub);
    must_close(&alice);
    must_close(&bob);
}

/* Bob hears the broker all the time, but of data that it sends him nothing arrives. */
Test(cut, towards_a_reader_alone_is_noticed)
{
    struct bus *alice = must_open("alice");
    struct bus *bob = open_far("bob", 600000, 1000, NULL);
    struct bus_sub *sub = must_subscribe(bob, "alice/w");
    publish_number(alice, 0);
    expect_number(sub, 0);
    unsigned data_dials = relay_data_dials(&relay);
    relay_set(&relay, RELAY_DEAF);
    publish_number(alice, 1);
    expect_number(sub, 1);
    cr_expect_gt(relay_data_dials(&relay), data_dials, "number 1 came over a deaf connection");
    publish_number(alice, 2);
    expect_number(sub, 2);
    bus_sub_close(&sub);
    must_close(&alice);
    must_close(&bob);
}

/* Cuts the link when so much was carried as it may carry: so the cut is within a value. */
static void cut_at_limit(enum relay_way way)
{
    cr_assert(relay_await_limit(&relay, way, SOON_MS), "way %d: %llu bytes", (int)way,
              (unsigned long long)relay_carried(&relay, way));
    relay_set(&relay, RELAY_CUT);
    relay_set(&relay, RELAY_WHOLE);
}

/* In the middle of a value in many chunks, both on its way in and on its way out. */
Test(cut, goes_on_within_a_large_value)
{
    static const size_t bytes = (size_t)32 * 1024 * 1024;
    struct bus *alice = open_far("alice", 600000, 600000, NULL);
    struct bus *bob = open_far("bob", 600000, 600000, NULL);
    struct bus_sub *sub = must_subscribe(bob, "alice/model");
    uint32_t *value = malloc(bytes);
    cr_assert_not_null(value);
    for (size_t i = 0; i < bytes / sizeof *value; i++) {
        value[i] = (uint32_t)i * 2654435761U;
    }
    struct bus_slot *slot = must_reserve(alice, "model");
    must_flush(alice);
    unsigned dials = relay_dials(&relay);
    unsigned data_dials = relay_data_dials(&relay);
    relay_limit(&relay, RELAY_OUT, bytes / 8);
    expect_code(bus_slot_commit(&slot, value, bytes), BUS_OK);
    cut_at_limit(RELAY_OUT);
    relay_limit(&relay, RELAY_OUT, bytes / 8);
    cut_at_limit(RELAY_OUT);
    relay_limit(&relay, RELAY_BACK, bytes / 8);
    relay_limit(&relay, RELAY_OUT, UINT32_MAX);
    cut_at_limit(RELAY_BACK);
    relay_limit(&relay, RELAY_BACK, UINT32_MAX);
    expect_bytes(sub, value, bytes);
    expect_dialled(dials, data_dials, 3);
    free(value);
    bus_sub_close(&sub);
    must_close(&alice);
    must_close(&bob);
}

/* ---- bytes that are sent again ----------------------------------------------------------------*/

#define MIB ((size_t)1024 * 1024)
#define MODEL_BYTES (32 * MIB)
/* So much is on its way at most, and comes again: 2 MiB of chunks that are not accepted, the window
 * of a reader, and what stands around them. */
#define AGAIN_BYTES (3 * MIB)
enum { STOPS = 3 };

/* Kills the broker, and starts one with a journal; while the relay is cut. */
static void begin_again(void)
{
    char journal[FOLDER_PATH_BYTES_MAX + 16];
    snprintf(journal, sizeof journal, "%s/journal", folder.path);
    const char *const more[] = {"--advertise", relay.data_endpoint, "--journal", journal, NULL};
    process_signal(&stage.process, SIGKILL);
    cr_assert_eq(process_wait(&stage.process, SOON_MS), 128 + SIGKILL);
    stage_close();
    stage_open_with(more);
    relay_retarget(&relay, stage.control, stage.data);
}

/* The link breaks wherever that many bytes went; with it the broker, if it shall. */
static void interrupt(enum relay_way way, bool kills)
{
    for (int stop = 0; stop < STOPS; stop++) {
        relay_limit(&relay, way, MODEL_BYTES / (STOPS + 1));
        cr_assert(relay_await_limit(&relay, way, SOON_MS), "way %d stop %d: %llu bytes of data: %s",
                  (int)way, stop, (unsigned long long)relay_carried(&relay, way),
                  process_complained(&stage.process));
        relay_set(&relay, RELAY_CUT);
        if (kills)
            begin_again();
        relay_set(&relay, RELAY_WHOLE);
    }
    relay_limit(&relay, way, UINT32_MAX);
}

static void expect_little_again(enum relay_way way, uint64_t before)
{
    uint64_t carried = relay_carried(&relay, way) - before;
    cr_expect_geq(carried, MODEL_BYTES);
    cr_expect_lt(carried, MODEL_BYTES + STOPS * AGAIN_BYTES, "%llu bytes",
                 (unsigned long long)carried);
}

static void expect_resumption(bool kills)
{
    struct bus *alice = open_far("alice", 600000, 600000, NULL);
    struct bus *bob = open_far("bob", 600000, 600000, NULL);
    char *value = malloc(MODEL_BYTES);
    cr_assert_not_null(value);
    for (size_t i = 0; i < MODEL_BYTES; i++)
        value[i] = (char)(i * 7 + i / 251);
    uint64_t before = relay_carried(&relay, RELAY_OUT);
    expect_code(bus_publish(alice, "model", value, MODEL_BYTES), BUS_OK);
    interrupt(RELAY_OUT, kills);
    must_flush(alice);
    expect_little_again(RELAY_OUT, before);
    before = relay_carried(&relay, RELAY_BACK);
    struct bus_sub *sub = NULL;
    expect_code(bus_sub_open(bob, "alice/model", NULL, &sub), BUS_OK);
    interrupt(RELAY_BACK, kills);
    expect_bytes(sub, value, MODEL_BYTES);
    expect_little_again(RELAY_BACK, before);
    free(value);
    bus_sub_close(&sub);
    must_close(&alice);
    must_close(&bob);
}

Test(cut, sends_little_of_a_large_value_again)
{
    expect_resumption(false);
}

Test(cut, sends_little_again_when_the_broker_is_killed_too)
{
    cr_assert(folder_make(&folder));
    relay_set(&relay, RELAY_CUT);
    begin_again();
    relay_set(&relay, RELAY_WHOLE);
    expect_resumption(true);
}

Test(cut, does_not_end_what_the_command_line_prints)
{
    struct process sub;
    struct bus *alice = open_far("alice", 600000, 600000, NULL);
    const char *const argv[] = {"errbus", "sub",     "-s", relay.control_endpoint,
                                "-p",     "bob",     "-C", "6",
                                "-v",     "alice/w", NULL};
    const char *line = NULL;
    char value[32];
    cr_assert(process_start(&sub, argv, NULL));
    unsigned dials = relay_dials(&relay);
    unsigned data_dials = relay_data_dials(&relay);
    for (int i = 0; i < 6; i++) {
        must_publish(alice, "w", "%d", i);
        snprintf(value, sizeof value, "alice/w %d %d", i, i);
        cr_assert(process_line(&sub, SOON_MS, &line), "%s", process_complained(&sub));
        cr_expect_str_eq(line, value);
        relay_set(&relay, RELAY_CUT);
        relay_set(&relay, RELAY_WHOLE);
    }
    cr_expect_eq(process_wait(&sub, SOON_MS), 0);
    cr_expect_str_eq(process_complained_of(&sub), "");
    expect_dialled(dials, data_dials, 5); /* each value but the first came after another cut */
    process_fini(&sub);
    must_close(&alice);
}

/* Beyond the bound: lost for the others, fenced for itself, handler once, and a new incarnation may
 * come. */
static void expect_loss_over(enum relay_state state, const char *type)
{
    struct handled handled = {0};
    struct bus *alice = open_far("alice", 300, 600, &handled);
    struct bus *bob = open_far("bob", 600000, 600000, NULL);
    struct bus_tap *tap = must_tap(NULL, BUS_TAP_NOW);
    struct bus_slot *slot = must_reserve(alice, "w");
    must_flush(alice);
    relay_set(&relay, state);
    expect_event(tap, "party.lost", "alice");
    enum bus_err err = bus_slot_commit(&slot, "ghost", 5);
    cr_expect(err == BUS_OK || err == BUS_EFENCED, "%s", code_name(err));
    relay_set(&relay, RELAY_WHOLE);
    struct bus_error *error = expect_await_failed(bob, "alice/w", 0, "party_lost");
    cr_expect_str_eq(bus_error_type(error), type);
    bus_error_unref(&error);

    struct bus_msg *msg = NULL;
    if (err == BUS_OK) {
        uint64_t seq = 1;
        expect_code(bus_flush(alice, SOON_MS), BUS_EFENCED);
        expect_code(bus_refusal(alice, &error), BUS_OK);
        cr_expect_str_eq(bus_error_topic(error, &seq), "alice/w");
        cr_expect_eq(seq, 0);
        bus_error_unref(&error);
    }
    err = bus_await(alice, "nobody/w", 0, SOON_MS, &msg, &error);
    expect_code_of(err, BUS_EFENCED, &error);
    expect_code(bus_close(&alice, SOON_MS), BUS_EFENCED);
    cr_expect_eq(atomic_load(&handled.count), 1);
    cr_expect(strcmp(handled.kind, "party_lost") == 0 || strcmp(handled.kind, "rejected") == 0,
              "%s", handled.kind);

    alice = open_far("alice", 300, 60000, NULL);
    must_publish(alice, "w", "anew");
    expect_awaited(bob, "alice/w", 1, "anew");
    bus_tap_close(&tap);
    must_close(&alice);
    must_close(&bob);
}

Test(cut, for_longer_than_its_grace_is_a_loss)
{
    expect_loss_over(RELAY_CUT, "errbus.connection_closed");
}

Test(cut, off_in_silence_for_too_long_is_a_loss)
{
    expect_loss_over(RELAY_SILENT, "errbus.silent");
}

/* The other endpoint is as that of a machine that is off, or of a broker that hangs.  To wait for
 * it would take all of a usual grace.  It is dialled where the relay is cut still when alice comes
 * back to it, which is seldom. */
Test(cut, and_mended_comes_back_before_another_endpoint_is_tried)
{
    struct stranger other;
    char endpoints[RELAY_ENDPOINT_BYTES_MAX + STRANGER_ENDPOINT_BYTES];
    struct bus_options options = patient_options("alice");
    options.lost_after_ms = options.reconnect_grace_ms = 60000;
    cr_assert(stranger_start(&other, STRANGER_SILENT));
    snprintf(endpoints, sizeof endpoints, "%s,%s", relay.control_endpoint, other.endpoint);
    struct bus *alice = must_open_at(endpoints, &options);
    struct bus_tap *tap = must_tap(NULL, BUS_TAP_NOW);
    for (int i = 0; i < CUTS; i++) {
        must_publish(alice, "w", "a value");
        must_flush(alice);
        relay_set(&relay, RELAY_CUT);
        relay_set(&relay, RELAY_WHOLE);
        expect_event(tap, "party.suspect", NULL);
    }
    must_publish(alice, "w", "the last value");
    must_flush(alice);
    bus_tap_close(&tap);
    must_close(&alice);
    stranger_stop(&other);
    cr_expect_lt(other.came_count, CUTS);
}

static void *open_late(void *arg)
{
    struct bus **out_bus = arg;
    struct bus_options options;
    bus_options_init(&options);
    options.party = "alice";
    options.heartbeat_ms = 100;
    options.broker_lost_ms = 60000;
    if (bus_open(relay.control_endpoint, &options, SOON_MS, out_bus, NULL) != BUS_OK)
        *out_bus = NULL;
    return NULL;
}

/* The first greetings are heard, and their answers take longer than alice waits for them. */
Test(cut, does_not_make_two_incarnations_of_one_that_is_welcomed_late)
{
    const int64_t start_ms = test_now_ms();
    struct bus *alice = NULL;
    pthread_t thread;
    relay_set(&relay, RELAY_LATE);
    struct bus_tap *tap = must_tap(NULL, BUS_TAP_NOW);
    cr_assert_eq(pthread_create(&thread, NULL, open_late, &alice), 0);
    expect_event(tap, "party.joined", "alice");
    unsigned heard = relay_dials(&relay);
    while (relay_dials(&relay) < heard + 3 && test_now_ms() < start_ms + SOON_MS)
        (void)poll(NULL, 0, 10);
    relay_set(&relay, RELAY_WHOLE);
    pthread_join(thread, NULL);
    cr_assert_not_null(alice);
    cr_expect_geq(relay_dials(&relay), heard + 3);
    must_publish(alice, "w", "welcome");
    must_flush(alice);
    must_close(&alice);
    cr_expect_eq(count_events_until(tap, "party.lost", "party.left"), 0);
    bus_tap_close(&tap);
    tap = must_tap(NULL, 1);
    cr_expect_eq(count_events_until(tap, "party.joined", "party.left"), 1);
    bus_tap_close(&tap);
}
