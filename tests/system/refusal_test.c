/* SPDX-License-Identifier: MPL-2.0 */
/* refusal_test.c -- a value that lost is never lost in silence: flush, refusal and close tell its
 * writer, with the outcome that won. */
#include "tests/lib/expect.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

TestSuite(refusal, .init = stage_open, .fini = stage_close, .timeout = 120);

/* A slot of alice whose deadline has passed, as bob knows. */
static struct bus_slot *overdue(struct bus *alice, struct bus *bob)
{
    struct bus_slot *slot = NULL;
    expect_code(bus_slot_reserve(alice, "w", 50, &slot), BUS_OK);
    struct bus_error *error = expect_await_failed(bob, "alice/w", 0, "deadline");
    bus_error_unref(&error);
    return slot;
}

/* The commit itself may know already; if it does not, those who are asked later do. */
static void commit_in_vain(struct bus_slot **slot)
{
    enum bus_err err = bus_slot_commit(slot, "too late", 8);
    cr_assert(err == BUS_OK || err == BUS_ESETTLED, "%s", code_name(err));
    cr_assert_null(*slot);
}

Test(refusal, is_told_by_flush_and_taken_once)
{
    struct bus *alice = must_open("alice");
    struct bus *bob = must_open("bob");
    struct bus_slot *slot = overdue(alice, bob);
    commit_in_vain(&slot);
    expect_code(bus_flush(alice, SOON_MS), BUS_ESETTLED);

    struct bus_error *refusal = NULL;
    uint64_t seq = 9;
    expect_code(bus_refusal(alice, &refusal), BUS_OK);
    cr_expect_str_eq(bus_error_topic(refusal, &seq), "alice/w");
    cr_expect_eq(seq, 0);
    cr_expect_not_null(bus_error_find(refusal, "deadline"), "kind %s, type %s",
                       bus_error_kind(refusal), bus_error_type(refusal));
    bus_error_unref(&refusal);
    expect_code(bus_refusal(alice, &refusal), BUS_ETIMEDOUT);

    /* The first outcome stands, for who reads later too. */
    struct bus_error *error = expect_await_failed(bob, "alice/w", 0, "deadline");
    bus_error_unref(&error);
    must_close(&alice);
    must_close(&bob);
}

Test(refusal, is_told_by_close)
{
    struct bus *alice = must_open("alice");
    struct bus *bob = must_open("bob");
    struct bus_slot *slot = overdue(alice, bob);
    commit_in_vain(&slot);
    expect_code(bus_close(&alice, SOON_MS), BUS_ESETTLED);
    cr_expect_null(alice);
    must_close(&bob);
}

Test(refusal, names_the_retraction_that_won)
{
    struct bus *alice = must_open("alice");
    struct bus *bob = must_open("bob");
    struct bus_slot *slot = must_reserve(alice, "w");
    struct bus_error *error = bus_error_new("app.recalled", NULL, "wrong epoch");
    expect_code(bus_retract(alice, "w", 0, error, SOON_MS), BUS_OK);
    bus_error_unref(&error);

    /* She knows already; a commit that did not would be refused. */
    enum bus_err err = bus_slot_commit(&slot, "too late", 8);
    if (err == BUS_OK) {
        expect_code(bus_flush(alice, SOON_MS), BUS_ESETTLED);
        expect_code(bus_refusal(alice, &error), BUS_OK);
        cr_expect_not_null(bus_error_find(error, "app.recalled"), "%s", bus_error_type(error));
        bus_error_unref(&error);
    } else {
        expect_code(err, BUS_ESETTLED);
        cr_assert_null(slot);
    }
    error = expect_await_failed(bob, "alice/w", 0, "application");
    cr_expect_str_eq(bus_error_type(error), "app.recalled");
    bus_error_unref(&error);
    must_close(&alice);
    must_close(&bob);
}

Test(refusal, counts_each_of_many)
{
    struct bus *alice = must_open("alice");
    struct bus *bob = must_open("bob");
    struct bus_slot *slots[100];
    for (size_t i = 0; i < 100; i++) {
        expect_code(bus_slot_reserve(alice, "w", i % 2 == 0 ? 50 : BUS_FOREVER, &slots[i]), BUS_OK);
    }
    struct bus_error *error = NULL;
    for (uint64_t seq = 0; seq < 100; seq += 2) { /* a broker that was late looks twice at some */
        error = expect_await_failed(bob, "alice/w", seq, "deadline");
        bus_error_unref(&error);
    }
    for (size_t i = 0; i < 100; i++) {
        enum bus_err err = bus_slot_commit(&slots[i], "x", 1);
        cr_assert(err == BUS_OK || (i % 2 == 0 && err == BUS_ESETTLED), "%s", code_name(err));
    }
    expect_code(bus_flush(alice, SOON_MS), BUS_ESETTLED);
    for (uint64_t expected = 0; expected < 100; expected += 2) {
        uint64_t seq = 0;
        expect_code(bus_refusal(alice, &error), BUS_OK);
        bus_error_topic(error, &seq);
        cr_expect_eq(seq, expected);
        bus_error_unref(&error);
    }
    expect_code(bus_refusal(alice, &error), BUS_ETIMEDOUT);
    must_flush(alice);
    expect_awaited(bob, "alice/w", 99, "x");
    must_close(&alice);
    must_close(&bob);
}

/* What nobody was sent yet may be taken back, what somebody was sent may not. */
Test(refusal, of_a_retraction_that_comes_too_late)
{
    struct bus *alice = must_open("alice");
    struct bus *bob = must_open("bob");
    struct bus_error *error = bus_error_new("app.recalled", NULL, "wrong epoch");
    must_publish(alice, "w", "unseen");
    must_publish(alice, "w", "seen");
    must_flush(alice);
    expect_awaited(bob, "alice/w", 1, "seen");

    expect_code(bus_retract(alice, "w", 0, error, SOON_MS), BUS_OK);
    expect_code(bus_retract(alice, "w", 1, error, SOON_MS), BUS_ESETTLED);
    struct bus_error *other = bus_error_new("app.other", NULL, "on second thoughts");
    expect_code(bus_retract(alice, "w", 0, other, SOON_MS), BUS_ESETTLED);
    bus_error_unref(&other);
    bus_error_unref(&error);

    struct bus_sub *sub = must_subscribe(bob, "alice/w");
    error = expect_error(sub, "alice/w", 0, "application");
    cr_expect_str_eq(bus_error_type(error), "app.recalled");
    bus_error_unref(&error);
    expect_value(sub, "alice/w", 1, "seen");
    bus_sub_close(&sub);
    bus_close(&alice, SOON_MS);
    must_close(&bob);
}

/* A retraction settles an open slot, at once for those who wait. */
Test(refusal, of_nothing_when_an_open_slot_is_retracted)
{
    struct bus *alice = must_open("alice");
    struct bus *bob = must_open("bob");
    struct bus_slot *slot = must_reserve(alice, "w");
    struct waiter waiter = {.bus = bob, .topic = "alice/w"};
    struct bus_error *error = bus_error_new("app.recalled", NULL, "not needed");
    waiter_start(&waiter);
    expect_code(bus_retract(alice, "w", 0, error, SOON_MS), BUS_OK);
    waiter_join(&waiter);
    expect_code(waiter.err, BUS_EFAILED);
    cr_expect_str_eq(bus_error_type(waiter.error), "app.recalled");
    bus_error_unref(&error);
    waiter_fini(&waiter);
    bus_slot_fail(&slot, NULL);
    bus_close(&alice, SOON_MS);
    must_close(&bob);
}

/* An incarnation that has not written to the topic yet asks for its number first. */
Test(refusal, of_a_retraction_waits_until_the_topic_is_known)
{
    struct bus *alice = must_open("alice");
    struct bus *bob = must_open("bob"); /* as long as he is there, the run goes on */
    must_publish(alice, "w", "of the first incarnation");
    must_close(&alice);
    alice = must_open("alice");
    expect_code(bus_retract(alice, "w", 0, NULL, SOON_MS), BUS_OK);
    expect_code(bus_retract(alice, "w", 1, NULL, SOON_MS), BUS_ESETTLED);
    expect_code(bus_retract(alice, "never", 0, NULL, SOON_MS), BUS_ESETTLED);
    struct bus_error *error = expect_await_failed(bob, "alice/w", 0, "application");
    cr_expect_str_eq(bus_error_type(error), "errbus.abandoned");
    bus_error_unref(&error);
    bus_close(&alice, SOON_MS);
    must_close(&bob);
}
