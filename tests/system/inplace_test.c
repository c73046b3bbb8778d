/* SPDX-License-Identifier: MPL-2.0 */
/* inplace_test.c -- errors stand where values were due, are raised there, and travel on. */
#include "tests/lib/expect.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

TestSuite(inplace, .init = stage_open, .fini = stage_close, .timeout = 120);

Test(inplace, raises_an_error_where_the_value_was_due)
{
    struct bus *alice = must_open("alice");
    struct bus *bob = must_open("bob");
    struct bus_slot *first = must_reserve(alice, "grads");
    struct bus_slot *second = must_reserve(alice, "grads");
    struct waiter waiter = {.sub = must_subscribe(bob, "alice/grads")};
    struct bus_error *own = bus_error_new("app.disk_full", NULL, "no space on %s", "/scratch");
    uint64_t seq = 1;

    waiter_start(&waiter);
    bus_slot_fail(&first, own);
    waiter_join(&waiter);

    expect_code(waiter.err, BUS_EFAILED);
    cr_expect_str_eq(bus_error_kind(waiter.error), "application");
    cr_expect_str_eq(bus_error_type(waiter.error), "app.disk_full");
    cr_expect_str_eq(bus_error_message(waiter.error), "no space on /scratch");
    cr_expect_str_eq(bus_error_party(waiter.error), "alice");
    cr_expect_str_eq(bus_error_topic(waiter.error, &seq), "alice/grads");
    cr_expect_eq(seq, 0);
    cr_expect_str_eq(bus_sub_slot(waiter.sub, NULL), "alice/grads");

    /* Alice keeps her own, and both go on with the next slot. */
    cr_expect_str_eq(bus_error_message(own), "no space on /scratch");
    cr_expect_null(first);
    must_commit(&second, "fine");
    expect_value(waiter.sub, "alice/grads", 1, "fine");
    must_flush(alice);

    bus_error_unref(&own);
    bus_sub_close(&waiter.sub);
    waiter_fini(&waiter);
    must_close(&alice);
    must_close(&bob);
}

/* Everything that is known of a failure arrives with it. */
Test(inplace, carries_the_whole_error)
{
    struct bus *alice = must_open_frank("alice");
    struct bus *bob = must_open("bob");
    struct bus_sub *sub = must_subscribe(bob, "alice/w");
    struct bus_slot *slot = must_reserve(alice, "w");
    struct bus_error *error = bus_error_new("app.quota", NULL, "over quota");
    expect_code(bus_error_set_recoverable(error, 1), BUS_OK);
    expect_code(bus_error_set_retry_after(error, 1500), BUS_OK);
    expect_code(bus_error_set_code(error, -7), BUS_OK);
    expect_code(bus_error_set_stacktrace(error, "main\n  train\n"), BUS_OK);

    bus_slot_fail(&slot, error);
    struct bus_error *raised = expect_error(sub, "alice/w", 0, "application");
    cr_expect_eq(bus_error_recoverable(raised), 1);
    cr_expect_eq(bus_error_retry_after_ms(raised), 1500);
    cr_expect_eq(bus_error_code(raised), -7);
    cr_expect_str_eq(bus_error_stacktrace(raised), "main\n  train\n");
    cr_expect_gt(bus_error_occurred_ns(raised), 0);
    cr_expect_eq(strncmp(bus_error_id(raised), "default/alice/", 14), 0, "%s",
                 bus_error_id(raised));
    cr_expect_null(bus_error_cause(raised));
    cr_expect_eq(bus_error_root(raised), raised);

    bus_error_unref(&raised);
    bus_error_unref(&error);
    bus_sub_close(&sub);
    must_close(&alice);
    must_close(&bob);
}

/* A party that fails its own slot with what it received: all there is to propagation. */
static void pass_on(struct bus_sub *from, struct bus_slot **slot, const char *type)
{
    struct bus_msg *msg = NULL;
    struct bus_error *cause = NULL;
    expect_code(bus_sub_recv(from, SOON_MS, &msg, &cause), BUS_EFAILED);
    struct bus_error *error = bus_error_new(type, cause, "cannot go on");
    bus_slot_fail(slot, error);
    bus_error_unref(&error);
    bus_error_unref(&cause);
}

Test(inplace, keeps_root_and_path_over_a_chain)
{
    struct bus *alice = must_open("alice");
    struct bus *bob = must_open("bob");
    struct bus *carol = must_open("carol");
    struct bus_sub *of_alice = must_subscribe(bob, "alice/grads");
    struct bus_sub *of_bob = must_subscribe(carol, "bob/sum");
    struct bus_slot *grads = must_reserve(alice, "grads");
    struct bus_slot *sum = must_reserve(bob, "sum");

    fail_slot(&grads, "app.nan", "loss is NaN");
    pass_on(of_alice, &sum, "app.no_sum");

    struct bus_error *error = expect_error(of_bob, "bob/sum", 0, "application");
    cr_expect_str_eq(bus_error_party(error), "bob");
    cr_expect_str_eq(bus_error_type(error), "app.no_sum");
    const struct bus_error *cause = bus_error_cause(error);
    cr_assert_not_null(cause);
    cr_expect_str_eq(bus_error_party(cause), "alice");
    uint64_t seq = 9;
    cr_expect_str_eq(bus_error_topic(cause, &seq), "alice/grads");
    cr_expect_eq(seq, 0);
    const struct bus_error *root = bus_error_root(error);
    cr_expect_str_eq(bus_error_type(root), "app.nan");
    cr_expect_str_eq(bus_error_message(root), "loss is NaN");
    cr_expect_eq(bus_error_find(error, "app.nan"), root);
    char text[1024];
    bus_error_describe(error, text, sizeof text);
    cr_expect_not_null(strstr(text, "alice"), "%s", text);
    cr_expect_not_null(strstr(text, "bob"), "%s", text);
    bus_error_unref(&error);

    bus_sub_close(&of_alice);
    bus_sub_close(&of_bob);
    must_close(&alice);
    must_close(&bob);
    must_close(&carol);
}

#define HOPS 20

Test(inplace, keeps_root_and_path_over_many_hops)
{
    struct bus *parties[HOPS];
    struct bus_slot *slots[HOPS];
    struct bus_sub *subs[HOPS] = {NULL};
    for (int i = 0; i < HOPS; i++) {
        char name[32];
        snprintf(name, sizeof name, "p%d", i);
        parties[i] = must_open(name);
        slots[i] = must_reserve(parties[i], "out");
        if (i > 0) {
            snprintf(name, sizeof name, "p%d/out", i - 1);
            subs[i] = must_subscribe(parties[i], name);
        }
    }
    fail_slot(&slots[0], "app.first", "it began here");
    for (int i = 1; i < HOPS; i++) {
        pass_on(subs[i], &slots[i], "app.next");
    }
    struct bus_error *error = NULL;
    struct bus_msg *msg = NULL;
    char last[32];
    snprintf(last, sizeof last, "p%d/out", HOPS - 1);
    expect_code(bus_await(parties[0], last, 0, SOON_MS, &msg, &error), BUS_EFAILED);
    int hops = 1;
    for (const struct bus_error *at = error; bus_error_cause(at) != NULL;
         at = bus_error_cause(at)) {
        char name[32];
        snprintf(name, sizeof name, "p%d", HOPS - hops);
        cr_expect_str_eq(bus_error_party(at), name);
        hops++;
    }
    cr_expect_eq(hops, HOPS);
    cr_expect_str_eq(bus_error_type(bus_error_root(error)), "app.first");
    cr_expect_str_eq(bus_error_party(bus_error_root(error)), "p0");
    bus_error_unref(&error);
    for (int i = 0; i < HOPS; i++) {
        bus_sub_close(&subs[i]);
        must_close(&parties[i]);
    }
}

Test(inplace, waits_for_no_other_topic)
{
    struct bus *alice = must_open("alice");
    struct bus *bob = must_open("bob");
    struct bus_sub *sub = must_subscribe(bob, "alice/#");
    struct bus_slot *slow = must_reserve(alice, "slow");
    struct bus_slot *quick = must_reserve(alice, "quick");
    must_flush(alice);

    int64_t failed_ms = test_now_ms();
    fail_slot(&quick, "app.broken", "at once");
    expect_failed(sub, "alice/quick", 0, "application");
    cr_expect_lt(test_now_ms() - failed_ms, AT_ONCE_MS);
    expect_nothing(bob, sub);

    must_commit(&slow, "late");
    expect_value(sub, "alice/slow", 0, "late");
    bus_sub_close(&sub);
    must_close(&alice);
    must_close(&bob);
}

/* Within one topic order stands above speed. */
Test(inplace, does_not_overtake_in_its_own_topic)
{
    struct bus *alice = must_open("alice");
    struct bus *bob = must_open("bob");
    struct bus_sub *sub = must_subscribe(bob, "alice/w");
    struct bus_slot *slots[3];
    for (size_t i = 0; i < 3; i++) {
        slots[i] = must_reserve(alice, "w");
    }
    fail_slot(&slots[1], "app.second", "known early");
    must_commit(&slots[2], "third");
    must_flush(alice);
    expect_nothing(bob, sub);
    must_commit(&slots[0], "first");
    expect_value(sub, "alice/w", 0, "first");
    expect_failed(sub, "alice/w", 1, "application");
    expect_value(sub, "alice/w", 2, "third");
    bus_sub_close(&sub);
    must_close(&alice);
    must_close(&bob);
}

Test(inplace, tells_bystanders_on_the_control_channel)
{
    struct bus *alice = must_open("alice");
    struct bus *bob = must_open("bob");
    struct bus_tap *tap = must_tap(NULL, BUS_TAP_NOW);
    struct bus_slot *slow = must_reserve(alice, "w");
    struct bus_slot *slot = must_reserve(alice, "w");

    /* Its settlement waits in the topic behind slot 0; its event waits behind nothing. */
    fail_slot(&slot, "app.broken", "for all to see");
    const struct bus_event *event = expect_event(tap, "slot.failed", "alice");
    cr_expect_str_eq(bus_event_topic(event), "alice/w");
    cr_expect_eq(bus_event_seq(event), 1);
    cr_expect_str_eq(bus_event_job(event), "default");
    cr_expect_gt(bus_event_at_ns(event), 0);
    cr_assert_not_null(bus_event_error(event));
    cr_expect_str_eq(bus_error_type(bus_event_error(event)), "app.broken");
    cr_expect_str_eq(bus_error_message(bus_event_error(event)), "for all to see");

    must_commit(&slow, "x");
    bus_tap_close(&tap);
    must_close(&alice);
    must_close(&bob);
}

#define READERS 5

/* Whoever receives, awaits, or reads later: one outcome, one error, one id. */
Test(inplace, shows_all_the_same_outcome)
{
    struct bus *alice = must_open("alice");
    struct bus *readers[READERS];
    struct bus_sub *subs[READERS];
    char id[600] = "";
    for (int i = 0; i < READERS; i++) {
        char name[32];
        snprintf(name, sizeof name, "reader%d", i);
        readers[i] = must_open(name);
        subs[i] = must_subscribe(readers[i], i % 2 == 0 ? "alice/w" : "+/w");
    }
    struct bus_slot *slot = must_reserve(alice, "w");
    fail_slot(&slot, "app.once", "once");
    for (int i = 0; i < READERS; i++) {
        struct bus_error *received = expect_error(subs[i], "alice/w", 0, "application");
        struct bus_error *awaited = expect_await_failed(readers[i], "alice/w", 0, "application");
        if (i == 0) {
            snprintf(id, sizeof id, "%s", bus_error_id(received));
        }
        cr_expect_str_eq(bus_error_id(received), id);
        cr_expect_str_eq(bus_error_id(awaited), id);
        bus_error_unref(&received);
        bus_error_unref(&awaited);
        expect_nothing(readers[i], subs[i]);
        bus_sub_close(&subs[i]);
        must_close(&readers[i]);
    }
    must_close(&alice);
}

Test(inplace, ends_a_slot_at_its_deadline)
{
    struct bus *alice = must_open("alice");
    struct bus *bob = must_open("bob");
    struct bus_sub *sub = must_subscribe(bob, "alice/w");
    struct bus_slot *slot = NULL;
    int64_t reserved_ms = test_now_ms();
    expect_code(bus_slot_reserve(alice, "w", 100, &slot), BUS_OK);
    expect_failed(sub, "alice/w", 0, "deadline");
    int64_t took_ms = test_now_ms() - reserved_ms;
    cr_expect(took_ms >= 99 && took_ms < 100 + AT_ONCE_MS, "after %lld ms", (long long)took_ms);
    bus_slot_fail(&slot, NULL);
    bus_sub_close(&sub);
    bus_close(&alice, SOON_MS);
    must_close(&bob);
}

static struct bus_slot *must_reserve_at(struct bus *bus, const char *topic, int64_t seq)
{
    struct bus_slot_options options;
    struct bus_slot *slot = NULL;
    struct bus_error *error = NULL;
    bus_slot_options_init(&options);
    options.seq = seq;
    enum bus_err err = bus_slot_reserve_with(bus, topic, &options, &slot, &error);
    expect_code_of(err, BUS_OK, &error);
    cr_assert_eq(bus_slot_seq(slot), (uint64_t)seq);
    return slot;
}

static void expect_jumped(struct bus_error *error)
{
    cr_expect_str_eq(bus_error_type(error), "errbus.jumped");
    bus_error_unref(&error);
}

/* A topic begins with whatever number comes first; from then on none is left out in silence. */
Test(inplace, settles_what_was_jumped_over_as_cancelled)
{
    struct bus *alice = must_open("alice");
    struct bus *bob = must_open("bob");
    struct waiter early = {.bus = bob, .topic = "alice/round", .seq = 1};
    waiter_start(&early);
    struct bus_sub *sub = must_subscribe(bob, "alice/round");
    struct bus_slot *third = must_reserve_at(alice, "round", 3);
    struct bus_slot *sixth = must_reserve_at(alice, "round", 6);
    must_commit(&sixth, "six");
    must_commit(&third, "three");
    expect_value(sub, "alice/round", 3, "three");
    expect_jumped(expect_error(sub, "alice/round", 4, "cancelled"));
    expect_jumped(expect_error(sub, "alice/round", 5, "cancelled"));
    expect_value(sub, "alice/round", 6, "six");
    expect_jumped(expect_await_failed(bob, "alice/round", 0, "cancelled"));
    waiter_join(&early);
    expect_code(early.err, BUS_EFAILED);
    cr_expect_str_eq(bus_error_kind(early.error), "cancelled");

    /* Behind the last one, and never again a number that was reserved. */
    struct bus_slot *slot = must_reserve(alice, "round");
    cr_expect_eq(bus_slot_seq(slot), 7);
    struct bus_slot_options options;
    struct bus_slot *again = NULL;
    struct bus_error *error = NULL;
    bus_slot_options_init(&options);
    options.seq = 6;
    expect_code_of(bus_slot_reserve_with(alice, "round", &options, &again, &error), BUS_ESETTLED,
                   &error);
    bus_slot_fail(&slot, NULL);
    error = expect_error(sub, "alice/round", 7, "application");
    cr_expect_str_eq(bus_error_type(error), "errbus.abandoned");
    bus_error_unref(&error);
    waiter_fini(&early);
    bus_sub_close(&sub);
    must_close(&alice);
    must_close(&bob);
}

Test(inplace, fails_open_slots_with_what_the_whole_party_failed_of)
{
    struct bus *alice = must_open("alice");
    struct bus *bob = must_open("bob");
    struct bus_sub *sub = must_subscribe(bob, "alice/w");
    struct bus_tap *tap = must_tap(NULL, BUS_TAP_NOW);
    must_publish(alice, "w", "before");
    struct bus_slot *slots[2] = {must_reserve(alice, "w"), must_reserve(alice, "w")};
    must_flush(alice); /* so that the event knows what is open */
    struct bus_error *error = bus_error_new("app.gone", NULL, "out of luck");
    bus_fail(alice, error);
    bus_error_unref(&error);

    expect_value(sub, "alice/w", 0, "before");
    for (uint64_t seq = 1; seq <= 2; seq++) {
        error = expect_error(sub, "alice/w", seq, "application");
        cr_expect_str_eq(bus_error_type(error), "app.gone");
        bus_error_unref(&error);
    }
    expect_end(sub, "application");
    const struct bus_event *event = expect_event(tap, "party.failed", "alice");
    cr_expect_eq(bus_event_count(event), 2);
    cr_expect_str_eq(bus_error_type(bus_event_error(event)), "app.gone");

    /* For herself it is over, with her own error. */
    struct bus_error *failure = bus_failure(alice);
    cr_assert_not_null(failure);
    cr_expect_str_eq(bus_error_type(failure), "app.gone");
    bus_error_unref(&failure);
    expect_code(bus_publish(alice, "w", "x", 1), BUS_ECLOSED);
    for (size_t i = 0; i < 2; i++) {
        bus_slot_fail(&slots[i], NULL);
    }
    bus_tap_close(&tap);
    bus_sub_close(&sub);
    bus_close(&alice, SOON_MS);
    must_close(&bob);
}
