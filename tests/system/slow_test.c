/* SPDX-License-Identifier: MPL-2.0 */
/* slow_test.c -- slow readers: whom they hold back, whom they do not, and what they are told. */
#include "tests/lib/expect.h"

#include <criterion/criterion.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define BLOCK_BYTES ((size_t)64 * 1024)

TestSuite(slow, .init = stage_open_small, .fini = stage_close, .timeout = 120);

/* Who does not wait long for room: BUS_EFULL tells when there is none. */
static struct bus *open_hasty(const char *party)
{
    struct bus_options options;
    bus_options_init(&options);
    options.party = party;
    options.send_timeout_ms = 200;
    return must_open_with(&options);
}

/* Whose inbox is small, so that what is not taken stays with the broker. */
static struct bus *open_reader(const char *party)
{
    struct bus_options options;
    bus_options_init(&options);
    options.party = party;
    options.inbox_bytes_max = 128 * 1024;
    return must_open_with(&options);
}

static enum bus_err try_publish_block(struct bus *bus, const char *topic, uint64_t number)
{
    static char block[BLOCK_BYTES];
    memcpy(block, &number, sizeof number);
    return bus_publish(bus, topic, block, sizeof block);
}

static void publish_block(struct bus *bus, uint64_t number)
{
    expect_code(try_publish_block(bus, "w", number), BUS_OK);
}

/* Publishes until there is no room, flushing so that credit is what decides. */
static uint64_t fill(struct bus *bus, const char *topic)
{
    uint64_t count = 0;
    for (; count < 10000; count++) {
        enum bus_err err = try_publish_block(bus, topic, count);
        if (err == BUS_EFULL) {
            return count;
        }
        expect_code(err, BUS_OK);
        must_flush(bus);
    }
    cr_assert_fail("no end of room on %s", topic);
    return count;
}

static uint64_t number_of(struct bus_msg *msg)
{
    uint64_t number = 0;
    size_t bytes = 0;
    memcpy(&number, bus_msg_value(msg, &bytes), sizeof number);
    cr_assert_eq(bytes, BLOCK_BYTES);
    return number;
}

Test(slow, readers_hold_the_writer_back_and_lose_nothing)
{
    struct bus *alice = open_hasty("alice");
    struct bus *bob = open_reader("bob");
    struct bus_tap *tap = must_tap(NULL, BUS_TAP_NOW);
    struct bus_sub *sub = must_subscribe(bob, "alice/w");
    must_publish(alice, "v", "opens the other topic");
    must_publish(alice, "w", "opens this one");
    must_flush(alice);
    uint64_t count = fill(alice, "w");
    cr_expect_lt(count * BLOCK_BYTES, SMALL_STAGE_BYTES_MAX);
    const struct bus_event *event = expect_event(tap, "consumer.slow", "bob");
    cr_expect_not_null(strstr(bus_event_topic(event), "alice/w"), "topic '%s'",
                       bus_event_topic(event));

    /* Her other topics are not held back. */
    must_publish(alice, "v", "flows");
    must_flush(alice);

    expect_value(sub, "alice/w", 0, "opens this one");
    uint64_t number = 0;
    for (; number < count; number++) {
        struct bus_msg *msg = NULL;
        struct bus_error *error = NULL;
        enum bus_err err = bus_sub_recv(sub, SOON_MS, &msg, &error);
        expect_code_of(err, BUS_OK, &error);
        cr_assert_eq(number_of(msg), number);
        bus_msg_free(&msg);
    }
    struct pollfd room = {.fd = bus_room_fd(alice), .events = POLLIN};
    cr_expect_eq(poll(&room, 1, (int)SOON_MS), 1, "there is room again, and nobody is told");
    must_publish(alice, "w", "and on");
    expect_value(sub, "alice/w", count + 1, "and on");
    bus_tap_close(&tap);
    bus_sub_close(&sub);
    must_close(&alice);
    must_close(&bob);
}

/* Takes all up to a value that is not a whole block. */
static void *take_blocks(void *arg)
{
    struct waiter *waiter = arg;
    size_t bytes = BLOCK_BYTES;
    while (bytes == BLOCK_BYTES && waiter->err != BUS_ETIMEDOUT) {
        waiter->err = bus_sub_recv(waiter->sub, SOON_MS, &waiter->msg, &waiter->error);
        if (waiter->err == BUS_OK) {
            bus_msg_value(waiter->msg, &bytes);
        }
        waiter_fini(waiter);
    }
    return NULL;
}

/* In an event loop nothing waits: room is what the descriptor tells. */
Test(slow, readers_do_not_block_an_event_loop)
{
    struct bus_options options;
    bus_options_init(&options);
    options.party = "alice";
    options.send_timeout_ms = BUS_POLL;
    struct bus *alice = must_open_with(&options);
    struct bus *bob = must_open("bob");
    struct bus_sub *sub = must_subscribe(bob, "alice/w");
    struct pollfd fds[] = {{.fd = bus_room_fd(alice), .events = POLLIN},
                           {.fd = bus_sub_fd(sub), .events = POLLIN}};
    uint64_t sent = 0;
    while (sent < 100) {
        enum bus_err err = try_publish_block(alice, "w", sent);
        if (err == BUS_EFULL) {
            cr_assert_geq(poll(fds, 2, (int)SOON_MS), 1, "no word of room after %llu",
                          (unsigned long long)sent);
        } else {
            expect_code(err, BUS_OK);
            sent++;
        }
        struct bus_msg *msg = NULL;
        if (bus_sub_recv(sub, BUS_POLL, &msg, NULL) == BUS_OK) {
            bus_msg_free(&msg);
        }
    }
    must_flush(alice);
    bus_sub_close(&sub);
    must_close(&alice);
    must_close(&bob);
}

/* A writer that may wait goes on as soon as there is room. */
static enum bus_err publish_in_slices(struct bus *bus, const void *value, size_t bytes)
{
    int64_t end_ms = test_now_ms() + SOON_MS;
    enum bus_err err = BUS_ETIMEDOUT;
    while (err == BUS_ETIMEDOUT && test_now_ms() < end_ms)
        err = bus_publish(bus, "w", value, bytes);
    return err;
}

/* A writer that keeps the time itself: each call is a slice. */
Test(slow, readers_let_a_writer_in_slices_see_whether_its_wait_gets_on)
{
    static char block[BLOCK_BYTES];
    struct bus_options options;
    bus_options_init(&options);
    options.party = "alice";
    options.send_timeout_ms = BUS_SLICE_LIMITED;
    options.outbox_bytes_max = 8 * BLOCK_BYTES;
    struct bus *alice = must_open_with(&options);
    struct bus *bob = open_reader("bob");
    struct waiter reader = {.sub = must_subscribe(bob, "alice/w")};
    expect_code(publish_in_slices(alice, block, sizeof block), BUS_OK);
    must_publish(alice, "v", "opens the other topic");
    must_flush(alice);
    enum bus_err err = BUS_OK;
    for (int i = 0; err == BUS_OK; i++) {
        cr_assert_lt(i, 10000, "no end of room");
        err = try_publish_block(alice, "w", 0);
        must_flush(alice);
    }
    expect_code(err, BUS_ETIMEDOUT);
    uint64_t progress = bus_room_progress(alice, "w");
    int64_t start_ms = test_now_ms();
    expect_code(try_publish_block(alice, "w", 0), BUS_ETIMEDOUT);
    cr_expect_geq(test_now_ms() - start_ms, 99);
    must_publish(alice, "v", "flows");
    must_flush(alice);
    cr_expect_eq(bus_room_progress(alice, "w"), progress, "another topic is no progress of this");

    struct bus_value many[9];
    for (int i = 0; i < 9; i++)
        many[i] = (struct bus_value){block, sizeof block};
    expect_code(bus_publish_many(alice, "w", many, 9), BUS_EFULL);
    struct bus_error *why = bus_last_error();
    cr_expect_str_eq(bus_error_type(why), "errbus.never_fits");
    bus_error_unref(&why);
    cr_assert_eq(pthread_create(&reader.thread, NULL, take_blocks, &reader), 0);
    expect_code(publish_in_slices(alice, block, sizeof block), BUS_OK);
    cr_expect_neq(bus_room_progress(alice, "w"), progress);
    expect_code(publish_in_slices(alice, "last", 4), BUS_OK);
    pthread_join(reader.thread, NULL);
    expect_code(reader.err, BUS_OK);
    bus_sub_close(&reader.sub);
    must_close(&alice);
    must_close(&bob);
}

Test(slow, readers_let_a_patient_writer_wait)
{
    struct bus *alice = open_hasty("alice");
    struct bus *bob = open_reader("bob");
    struct waiter reader = {.sub = must_subscribe(bob, "alice/w")};
    publish_block(alice, 0);
    must_flush(alice);
    fill(alice, "w");
    must_close(&alice);

    struct bus_options options;
    bus_options_init(&options);
    options.party = "alice";
    options.send_timeout_ms = 100;
    alice = must_open_with(&options);
    int64_t start_ms = test_now_ms();
    enum bus_err err = BUS_OK;
    for (size_t sent = 0; sent < SMALL_STAGE_BYTES_MAX && err == BUS_OK; sent += BLOCK_BYTES) {
        start_ms = test_now_ms();
        err = try_publish_block(alice, "w", 0);
    }
    expect_code(err, BUS_EFULL);
    cr_expect_geq(test_now_ms() - start_ms, 99);
    bus_close(&alice, SOON_MS);

    options.send_timeout_ms = SOON_MS;
    alice = must_open_with(&options);
    cr_assert_eq(pthread_create(&reader.thread, NULL, take_blocks, &reader), 0);
    for (int i = 0; i < 8; i++) {
        publish_block(alice, 0);
    }
    must_publish(alice, "w", "last");
    pthread_join(reader.thread, NULL);
    expect_code(reader.err, BUS_OK);
    bus_sub_close(&reader.sub);
    must_close(&alice);
    must_close(&bob);
}

/* Credit gates promises; keeping one waits for nothing queued behind it. */
Test(slow, readers_do_not_hold_back_the_settlement_of_open_slots)
{
    struct bus *alice = open_hasty("alice");
    struct bus *bob = open_reader("bob");
    struct bus *carol = must_open("carol");
    struct bus_sub *sub = must_subscribe(bob, "alice/w");
    struct bus_slot *slots[2] = {must_reserve(alice, "w"), must_reserve(alice, "w")};
    must_flush(alice);
    fill(alice, "w");

    int64_t start_ms = test_now_ms();
    must_commit(&slots[0], "kept");
    fail_slot(&slots[1], "app.broken", "told");
    must_flush(alice);
    expect_awaited(carol, "alice/w", 0, "kept");
    struct bus_error *error = expect_await_failed(carol, "alice/w", 1, "application");
    bus_error_unref(&error);
    cr_expect_lt(test_now_ms() - start_ms, AT_ONCE_MS);
    expect_value(sub, "alice/w", 0, "kept");
    expect_failed(sub, "alice/w", 1, "application");
    bus_sub_close(&sub);
    must_close(&alice);
    must_close(&bob);
    must_close(&carol);
}

static struct bus_sub *subscribe_with_gaps(struct bus *bus)
{
    struct bus_sub_options options;
    bus_sub_options_init(&options);
    options.overflow = BUS_OVERFLOW_GAP;
    return must_subscribe_with(bus, "alice/w", &options);
}

/* Who asked for gaps never holds anybody back, and is told exactly what is missing. */
Test(slow, readers_that_asked_for_it_get_a_gap_instead)
{
    struct bus *alice = must_open("alice");
    struct bus *bob = open_reader("bob");
    struct bus_sub *sub = subscribe_with_gaps(bob);
    const uint64_t total = 2 * SMALL_STAGE_BYTES_MAX / BLOCK_BYTES;
    for (uint64_t number = 0; number < total; number++) {
        publish_block(alice, number);
        must_flush(alice);
    }
    uint64_t next = 0;
    uint64_t gaps = 0;
    while (next < total) {
        struct bus_msg *msg = NULL;
        struct bus_error *error = NULL;
        enum bus_err err = bus_sub_recv(sub, SOON_MS, &msg, &error);
        if (err == BUS_EOVERRUN) {
            uint64_t first = 0;
            uint64_t missing = bus_sub_gap(sub, &first);
            cr_assert_eq(first, next);
            cr_assert_gt(missing, 0);
            cr_assert_str_eq(bus_sub_slot(sub, NULL), "alice/w");
            next += missing;
            gaps++;
            bus_error_unref(&error);
        } else {
            expect_code_of(err, BUS_OK, &error);
            cr_assert_eq(number_of(msg), next);
            cr_assert_eq(bus_msg_seq(msg), next);
            next++;
            bus_msg_free(&msg);
        }
    }
    cr_expect_gt(gaps, 0);
    cr_expect_eq(next, total);
    bus_sub_close(&sub);
    must_close(&alice);
    must_close(&bob);
}

/* Taken and acknowledged are two numbers: who holds many messages does not stall. */
Test(slow, is_not_who_holds_many_messages)
{
    enum { HELD = 64 };
    struct bus *alice = must_open("alice");
    struct bus *bob = open_reader("bob");
    struct bus_sub *sub = must_subscribe(bob, "alice/w");
    struct bus_msg *held[HELD];
    for (uint64_t number = 0; number < HELD; number++) {
        struct bus_error *error = NULL;
        publish_block(alice, number);
        enum bus_err err = bus_sub_recv(sub, SOON_MS, &held[number], &error);
        expect_code_of(err, BUS_OK, &error);
    }
    for (uint64_t number = 0; number < HELD; number++) {
        cr_expect_eq(number_of(held[number]), number);
        bus_msg_free(&held[number]);
    }
    bus_sub_close(&sub);
    must_close(&alice);
    must_close(&bob);
}

/* 1.3 GB for a reader that never takes any: it loses them, and nobody keeps them. */
Test(slow, readers_cost_nobody_memory_without_bound)
{
    struct bus *alice = must_open("alice");
    struct bus *bob = open_reader("bob");
    struct bus_sub *sub = subscribe_with_gaps(bob);
    must_publish(alice, "w", "first");
    must_flush(alice);
    int64_t broker_before = test_resident_kib(stage.process.pid);
    int64_t ours_before = test_resident_kib(getpid());
    for (uint64_t number = 0; number < 20000; number++) {
        publish_block(alice, number);
    }
    must_flush(alice);
    /* Windows and outbox are 81 MiB; a malloc that looks for mistakes keeps 256 MiB back. */
    cr_expect_lt(test_resident_kib(stage.process.pid) - broker_before, 500 * 1024);
    cr_expect_lt(test_resident_kib(getpid()) - ours_before, 500 * 1024);
    bus_sub_close(&sub);
    must_close(&alice);
    must_close(&bob);
}

/* ---- taps ------------------------------------------------------------------------------------ */

enum { TOLD = 8000 }; /* less than is kept, more than a tap may be behind */

struct told {
    uint64_t id;
    uint64_t seq;
    int64_t at_ns;
    char error_id[64];
};

static struct told told_by(const struct bus_event *event)
{
    struct told told = {
        .id = bus_event_id(event), .seq = bus_event_seq(event), .at_ns = bus_event_at_ns(event)};
    cr_assert_str_eq(bus_event_name(event), "slot.failed");
    (void)snprintf(told.error_id, sizeof told.error_id, "%s", bus_error_id(bus_event_error(event)));
    return told;
}

static struct told must_be_told(struct bus_tap *tap)
{
    const struct bus_event *event = NULL;
    struct bus_error *error = NULL;
    enum bus_err err = bus_tap_next(tap, SOON_MS, &event, &error);
    expect_code_of(err, BUS_OK, &error);
    return told_by(event);
}

static void expect_told_as(struct told told, const struct told *before)
{
    cr_assert_eq(told.id, before->id);
    cr_expect_eq(told.seq, before->seq);
    cr_expect_eq(told.at_ns, before->at_ns);
    cr_expect_str_eq(told.error_id, before->error_id);
}

static void fail_one(struct bus *bus)
{
    struct bus_slot *slot = must_reserve(bus, "w");
    fail_slot(&slot, "app.one_of_many", "x");
}

/* What the tap gets of what was told, up to where it missed something. */
static size_t read_to_the_gap(struct bus_tap *tap, const struct told *all, uint64_t *out_first,
                              uint64_t *out_last)
{
    for (size_t i = 0; i < TOLD; i++) {
        const struct bus_event *event = NULL;
        struct bus_error *error = NULL;
        enum bus_err err = bus_tap_next(tap, SOON_MS, &event, &error);
        if (err == BUS_EOVERRUN) {
            bus_error_unref(&error);
            bus_tap_gap(tap, out_first, out_last);
            return i;
        }
        expect_code_of(err, BUS_OK, &error);
        expect_told_as(told_by(event), &all[i]);
    }
    cr_assert_fail("nothing was missed");
    return 0;
}

static struct bus_tap *must_tap_from_to(uint64_t first_id, uint64_t last_id)
{
    struct bus_tap *tap = NULL;
    struct bus_error *error = NULL;
    struct bus_tap_options options;
    bus_tap_options_init(&options);
    options.from_id = first_id;
    options.until_id = last_id;
    enum bus_err err = bus_tap_open(stage.control, &options, SOON_MS, &tap, &error);
    expect_code_of(err, BUS_OK, &error);
    return tap;
}

/* A tap that stops reading goes on with what happens now, and what it was told that it missed is,
 * asked for again, what another tap has seen all along. */
Test(slow, taps_are_told_what_they_missed_and_can_have_it_again)
{
    static struct told all[TOLD];
    struct bus *alice = must_open("alice");
    struct bus_tap *steady = must_tap(NULL, BUS_TAP_NOW);
    struct bus_tap *stopped = must_tap(NULL, BUS_TAP_NOW);
    const struct bus_event *event = NULL;
    for (size_t i = 0; i < TOLD; i++) {
        fail_one(alice);
        all[i] = must_be_told(steady);
    }
    uint64_t first = 0;
    uint64_t last = 0;
    size_t seen = read_to_the_gap(stopped, all, &first, &last);
    cr_expect_eq(first, all[seen].id);
    cr_expect_eq(last, all[TOLD - 1].id);
    expect_code(bus_tap_next(stopped, BUS_POLL, &event, NULL), BUS_ETIMEDOUT);
    fail_one(alice);
    cr_expect_eq(must_be_told(stopped).id, last + 1);

    struct bus_tap *again = must_tap_from_to(first, last);
    for (size_t i = seen; i < TOLD; i++) {
        expect_told_as(must_be_told(again), &all[i]);
    }
    expect_code(bus_tap_next(again, SOON_MS, &event, NULL), BUS_EENDED);
    struct pollfd item = {.fd = bus_tap_fd(again), .events = POLLIN};
    cr_expect_eq(poll(&item, 1, 0), 1, "an end can be taken");
    expect_code(bus_tap_next(again, BUS_FOREVER, &event, NULL), BUS_EENDED);
    bus_tap_close(&again);
    bus_tap_close(&stopped);
    bus_tap_close(&steady);
    must_close(&alice);
}

/* What is asked for may be waited for, and may be kept no more. */
Test(slow, taps_end_where_they_were_asked_to)
{
    struct bus *alice = must_open("alice");
    const struct bus_event *event = NULL;
    struct bus_tap_options options;
    struct bus_tap *tap = must_tap_from_to(2, 3);
    expect_code(bus_tap_next(tap, BUS_POLL, &event, NULL), BUS_ETIMEDOUT);
    fail_one(alice);
    fail_one(alice);
    fail_one(alice);
    cr_expect_eq(must_be_told(tap).id, 2);
    cr_expect_eq(must_be_told(tap).id, 3);
    expect_code(bus_tap_next(tap, SOON_MS, &event, NULL), BUS_EENDED);
    bus_tap_close(&tap);
    tap = must_tap_from_to(BUS_TAP_NOW, 3); /* which was before now */
    expect_code(bus_tap_next(tap, SOON_MS, &event, NULL), BUS_EENDED);
    bus_tap_close(&tap);
    bus_tap_options_init(&options);
    options.from_id = 3;
    options.until_id = 2;
    expect_code(bus_tap_open(stage.control, &options, SOON_MS, &tap, NULL), BUS_EINVAL);
    must_close(&alice);
}
