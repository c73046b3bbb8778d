/* SPDX-License-Identifier: MPL-2.0 */
/* durable_test.c -- subscriptions with a name go on where the last acknowledgement was. */
#include "tests/lib/expect.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

TestSuite(durable, .init = stage_open, .fini = stage_close, .timeout = 120);

static struct bus_sub *subscribe_as(struct bus *bus, const char *pattern, const char *name)
{
    struct bus_sub_options options;
    bus_sub_options_init(&options);
    options.name = name;
    return must_subscribe_with(bus, pattern, &options);
}

static void publish_numbers(struct bus *bus, int from, int to)
{
    for (int i = from; i < to; i++) {
        must_publish(bus, "w", "%d", i);
    }
    must_flush(bus);
}

static void expect_numbers(struct bus_sub *sub, int from, int to)
{
    for (int i = from; i < to; i++) {
        expect_value(sub, "alice/w", (uint64_t)i, "%d", i);
    }
}

static struct bus_msg *hold_next(struct bus_sub *sub, uint64_t seq)
{
    struct bus_msg *msg = NULL;
    struct bus_error *error = NULL;
    enum bus_err err = bus_sub_recv(sub, SOON_MS, &msg, &error);
    expect_code_of(err, BUS_OK, &error);
    cr_assert_eq(bus_msg_seq(msg), seq);
    return msg;
}

Test(durable, goes_on_behind_the_last_acknowledgement)
{
    struct bus *alice = must_open("alice");
    struct bus *bob = must_open("bob");
    struct bus_sub *sub = subscribe_as(bob, "alice/w", "progress");
    publish_numbers(alice, 0, 10);
    expect_numbers(sub, 0, 4);
    struct bus_msg *held = hold_next(sub, 4);
    bus_msg_return(&held);
    must_flush(bob);
    bus_sub_close(&sub);

    sub = subscribe_as(bob, "alice/w", "progress");
    expect_numbers(sub, 4, 7);
    bus_sub_close(&sub);
    must_close(&bob);

    /* Over a new incarnation of its party, with what came in between. */
    publish_numbers(alice, 10, 12);
    bob = must_open("bob");
    sub = subscribe_as(bob, "alice/w", "progress");
    expect_numbers(sub, 7, 12);
    expect_nothing(bob, sub);
    bus_sub_close(&sub);
    must_close(&bob);
    must_close(&alice);
}

Test(durable, goes_on_behind_what_is_acknowledged_and_kept)
{
    struct bus *alice = must_open("alice");
    struct bus *bob = must_open("bob");
    struct bus_sub *sub = subscribe_as(bob, "alice/w", "progress");
    publish_numbers(alice, 0, 5);
    expect_numbers(sub, 0, 2);
    struct bus_msg *kept = hold_next(sub, 2);
    struct bus_msg *returned = hold_next(sub, 3);
    bus_msg_ack(kept);
    bus_msg_ack(kept); /* that is said already */
    bus_msg_ack(returned);
    bus_msg_return(&returned);
    must_flush(bob);
    bus_sub_close(&sub);

    sub = subscribe_as(bob, "alice/w", "progress");
    expect_numbers(sub, 4, 5);
    bus_sub_close(&sub);
    must_close(&bob);
    expect_message(kept, "2");
    bus_msg_ack(kept);
    bus_msg_free(&kept);
    must_close(&alice);
}

Test(durable, forgets_an_acknowledgement_behind_its_end)
{
    struct bus *alice = must_open("alice");
    struct bus *bob = must_open("bob");
    struct bus_sub *sub = subscribe_as(bob, "alice/w", "progress");
    publish_numbers(alice, 0, 1);
    struct bus_msg *kept = hold_next(sub, 0);
    bus_sub_close(&sub);
    bus_msg_ack(kept);
    must_flush(bob);
    bus_msg_free(&kept);
    sub = subscribe_as(bob, "alice/w", "progress");
    expect_numbers(sub, 0, 1);
    bus_sub_close(&sub);
    must_close(&bob);
    must_close(&alice);
}

static void publish_letters(struct bus *bus)
{
    static const struct bus_value letters[] = {{"a", 1}, {"b", 1}, {"c", 1}, {"d", 1}};
    expect_code(bus_publish_many(bus, "w", letters, 4), BUS_OK);
}

static struct bus_msg *hold_many(struct bus_sub *sub, uint64_t seq)
{
    struct bus_msg *msg = NULL;
    struct bus_error *error = NULL;
    expect_code_of(bus_sub_recv_many(sub, SOON_MS, &msg, &error), BUS_OK, &error);
    cr_assert_eq(bus_msg_seq(msg), seq);
    cr_assert_eq(bus_msg_count(msg, NULL), 4);
    return msg;
}

Test(durable, is_told_of_all_values_of_a_message_or_of_none)
{
    struct bus *alice = must_open("alice");
    struct bus *bob = must_open("bob");
    struct bus_sub *sub = subscribe_as(bob, "alice/w", "progress");
    struct bus_msg *held[4];
    for (int i = 0; i < 4; i++) {
        publish_letters(alice);
        must_flush(alice);
    }
    for (uint64_t i = 0; i < 4; i++)
        held[i] = hold_many(sub, 4 * i);
    bus_msg_free(&held[3]); /* behind one that is not done with */
    bus_msg_return(&held[2]);
    bus_msg_free(&held[0]);
    bus_msg_free(&held[1]);
    must_flush(bob);
    bus_sub_close(&sub);

    static const char *const rest[][2] = {{"a", "b"}, {"c", "d"}};
    for (uint64_t i = 0; i < 2; i++) {
        sub = subscribe_as(bob, "alice/w", "progress");
        expect_value(sub, "alice/w", 8 + 2 * i, "%s", rest[i][0]);
        expect_value(sub, "alice/w", 9 + 2 * i, "%s", rest[i][1]);
        bus_sub_close(&sub);
    }

    sub = subscribe_as(bob, "alice/w", "progress");
    held[0] = hold_many(sub, 12);
    bus_msg_free(&held[0]);
    must_flush(bob);
    bus_sub_close(&sub);

    sub = subscribe_as(bob, "alice/w", "progress");
    expect_nothing(bob, sub);
    bus_sub_close(&sub);
    must_close(&alice);
    must_close(&bob);
}

static void begin_steps(struct party *party)
{
    static const char *const quick[] = {"reconnect_grace_ms=100", NULL};
    party_start(party, "bob", quick);
    party_do(party, "OK", "subscribe alice/w steps");
}

static void take_step(struct party *party, const char *expected)
{
    party_do(party, expected, "receive 20000");
    party_do(party, "OK", "acknowledge");
}

/* The party dies with this in hand: nothing acknowledges it. */
static void die_with(struct party *party, const char *expected)
{
    party_do(party, expected, "receive 20000");
    party_do(party, "OK", "flush 20000");
    party_kill(party);
}

/* An error is acknowledged by the next call, a message when it is freed: the process that dies with
 * one in hand finds it again. */
Test(durable, gives_a_killed_party_what_it_had_in_hand)
{
    static const char error[] = "FAILED alice/w 3 application app.broken alice";
    struct bus *alice = must_open("alice");
    struct party bob;
    begin_steps(&bob);
    publish_numbers(alice, 0, 3);
    struct bus_slot *slot = must_reserve(alice, "w");
    fail_slot(&slot, "app.broken", "third");
    must_flush(alice);
    take_step(&bob, "OK alice/w 0 0");
    die_with(&bob, "OK alice/w 1 1");

    begin_steps(&bob);
    take_step(&bob, "OK alice/w 1 1");
    take_step(&bob, "OK alice/w 2 2");
    die_with(&bob, error);

    begin_steps(&bob);
    party_do(&bob, error, "receive 20000");
    party_do(&bob, "TIMEDOUT", "receive 0");
    party_do(&bob, "OK", "flush 20000");
    party_do(&bob, "OK", "close 20000");
    party_fini(&bob);
    must_close(&alice);
}

Test(durable, is_apart_from_the_other_names_of_its_party)
{
    struct bus *alice = must_open("alice");
    struct bus *bob = must_open("bob");
    struct bus_sub *first = subscribe_as(bob, "alice/w", "first");
    struct bus_sub *second = subscribe_as(bob, "alice/w", "second");
    publish_numbers(alice, 0, 3);
    expect_numbers(first, 0, 3);
    must_flush(bob);
    bus_sub_close(&first);
    bus_sub_close(&second);
    must_flush(bob);
    first = subscribe_as(bob, "alice/w", "first");
    second = subscribe_as(bob, "alice/w", "second");
    expect_nothing(bob, first);
    expect_numbers(second, 0, 3);
    bus_sub_close(&first);
    bus_sub_close(&second);
    must_close(&bob);
    must_close(&alice);
}

Test(durable, begins_anew_once_it_was_dropped)
{
    struct bus *alice = must_open("alice");
    struct bus *bob = must_open("bob");
    struct bus_sub *sub = subscribe_as(bob, "alice/w", "gone");
    publish_numbers(alice, 0, 3);
    expect_numbers(sub, 0, 3);
    must_flush(bob);
    bus_sub_drop(&sub);
    cr_expect_null(sub);
    sub = subscribe_as(bob, "alice/w", "gone");
    expect_numbers(sub, 0, 3);
    bus_sub_drop(&sub);
    must_close(&bob);
    must_close(&alice);
}

static void expect_refused(struct bus *bus, const char *pattern, const char *name, const char *type)
{
    struct bus_sub_options options;
    struct bus_sub *sub = NULL;
    struct bus_msg *msg = NULL;
    struct bus_error *error = NULL;
    bus_sub_options_init(&options);
    options.name = name;
    expect_code(bus_sub_open(bus, pattern, &options, &sub), BUS_OK);
    enum bus_err err = bus_sub_recv(sub, SOON_MS, &msg, &error);
    cr_assert(err == BUS_EDENIED || err == BUS_EINVAL, "%s", code_name(err));
    cr_expect_str_eq(bus_error_type(error), type);
    bus_error_unref(&error);
    bus_sub_close(&sub);
}

Test(durable, refuses_another_pattern_and_a_second_handle)
{
    struct bus *bob = must_open("bob");
    struct bus_sub *sub = subscribe_as(bob, "alice/w", "mine");
    expect_refused(bob, "alice/w", "mine", "errbus.durable_taken");
    bus_sub_close(&sub);
    must_flush(bob);
    expect_refused(bob, "alice/v", "mine", "errbus.durable_differs");
    sub = subscribe_as(bob, "alice/w", "mine");
    bus_sub_close(&sub);
    must_close(&bob);
}

/* Unattended for its keeping time, a name no longer holds writers back. */
Test(durable, does_not_hold_writers_back_for_ever)
{
    struct bus *alice = must_open("alice");
    struct bus *bob = must_open("bob");
    struct bus_sub_options options;
    static char block[256 * 1024];
    bus_sub_options_init(&options);
    options.name = "forgotten";
    options.keep_ms = 500;
    struct bus_sub *sub = must_subscribe_with(bob, "alice/w", &options);
    bus_sub_close(&sub);
    must_close(&bob);
    for (int i = 0; i < 600; i++) {
        expect_code(bus_publish(alice, "w", block, sizeof block), BUS_OK);
    }
    must_flush(alice);
    bob = must_open("bob");
    sub = must_subscribe_with(bob, "alice/w", &options);
    struct bus_msg *msg = NULL;
    struct bus_error *error = NULL;
    uint64_t first = 1;
    expect_code(bus_sub_recv(sub, SOON_MS, &msg, &error), BUS_EOVERRUN);
    cr_expect_gt(bus_sub_gap(sub, &first), 0);
    cr_expect_eq(first, 0);
    cr_expect_str_eq(bus_error_type(error), "errbus.not_kept");
    bus_error_unref(&error);
    bus_sub_drop(&sub);
    must_close(&bob);
    must_close(&alice);
}
