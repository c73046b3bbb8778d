/* SPDX-License-Identifier: MPL-2.0 */
/* membership_test.c -- who is in a job, who comes late, who leaves how, and that jobs are apart. */
#include "tests/lib/expect.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

TestSuite(membership, .init = stage_open, .fini = stage_close, .timeout = 120);

static struct bus *open_in(const char *job, const char *party)
{
    struct bus_options options;
    bus_options_init(&options);
    options.job = job;
    options.party = party;
    return must_open_with(&options);
}

Test(membership, refuses_a_second_live_party_of_a_name)
{
    struct bus *alice = must_open("alice");
    struct bus *bob = must_open("bob");
    struct bus_slot *slot = must_reserve(alice, "w");
    struct bus_options options;
    struct bus *second = NULL;
    struct bus_error *error = NULL;
    bus_options_init(&options);
    options.party = "alice";
    int64_t start_ms = test_now_ms();
    expect_code(bus_open(stage.control, &options, SOON_MS, &second, &error), BUS_EDENIED);
    cr_expect_lt(test_now_ms() - start_ms, AT_ONCE_MS);
    cr_expect_str_eq(bus_error_type(error), "errbus.name_taken");
    cr_expect_null(second);
    bus_error_unref(&error);

    /* The first is not disturbed. */
    must_commit(&slot, "still here");
    expect_awaited(bob, "alice/w", 0, "still here");
    cr_expect_null(bus_failure(alice));
    must_close(&alice);
    must_close(&bob);

    /* And when it has left, the name is free. */
    alice = must_open("alice");
    must_close(&alice);
}

Test(membership, keeps_jobs_apart)
{
    struct bus *alice = open_in("one", "alice");
    struct bus *other = open_in("two", "alice");
    struct bus *bob = open_in("one", "bob");
    struct bus *carol = open_in("two", "carol");
    struct bus_sub *of_one = must_subscribe(bob, "#");
    struct bus_sub *of_two = must_subscribe(carol, "#");
    struct bus_tap *tap = must_tap("two", 0);
    cr_expect_str_eq(bus_job(alice), "one");
    cr_expect_str_eq(bus_party(alice), "alice");

    must_publish(alice, "w", "of one");
    must_publish(other, "w", "of two");
    struct bus_slot *slot = must_reserve(alice, "w");
    fail_slot(&slot, "app.broken", "in one");
    must_flush(alice);
    must_flush(other);
    expect_value(of_one, "alice/w", 0, "of one");
    expect_failed(of_one, "alice/w", 1, "application");
    expect_value(of_two, "alice/w", 0, "of two");
    expect_nothing(carol, of_two);

    /* A whole party that fails in one job is no news in the other. */
    struct bus_error *error = bus_error_new("app.gone", NULL, "in one");
    bus_fail(alice, error);
    bus_error_unref(&error);
    cr_expect_eq(bus_close(&alice, SOON_MS) == BUS_ETIMEDOUT, 0);
    must_publish(other, "w", "still fine");
    expect_value(of_two, "alice/w", 1, "still fine");
    expect_nothing(carol, of_two);
    cr_expect_null(bus_failure(other));

    /* Nor does the tap of the one see what happens in the other. */
    must_close(&other);
    cr_expect_eq(count_events_until(tap, "slot.failed", "party.left"), 0);
    struct bus_status_row row;
    cr_expect(find_row("one", BUS_STATUS_PARTY, "bob", &row));
    cr_expect_not(find_row("two", BUS_STATUS_PARTY, "bob", &row));
    bus_tap_close(&tap);
    bus_sub_close(&of_one);
    bus_sub_close(&of_two);
    must_close(&bob);
    must_close(&carol);
}

#define EARLIER 1000

/* Time changes nothing about what is kept. */
Test(membership, gives_who_comes_late_everything_in_order)
{
    struct bus *alice = must_open("alice");
    for (int i = 0; i < EARLIER; i++) {
        must_publish(alice, "w", "%d", i);
    }
    struct bus_slot *slot = must_reserve(alice, "w");
    fail_slot(&slot, "app.broken", "early");
    slot = must_reserve(alice, "w");
    must_flush(alice);
    struct timespec ten = {.tv_sec = 10}; /* no event ends it: being late is what is tested */
    nanosleep(&ten, NULL);
    struct bus *bob = must_open("bob");
    struct bus_sub *sub = must_subscribe(bob, "alice/#");
    for (int i = 0; i < EARLIER; i++) {
        expect_value(sub, "alice/w", (uint64_t)i, "%d", i);
    }
    expect_failed(sub, "alice/w", EARLIER, "application");
    must_commit(&slot, "late");
    expect_value(sub, "alice/w", EARLIER + 1, "late");
    bus_sub_close(&sub);
    must_close(&alice);
    must_close(&bob);
}

/* Even of a party that has left: the job outlives it. */
Test(membership, answers_at_once_about_what_is_settled)
{
    struct bus *alice = must_open("alice");
    must_publish(alice, "w", "kept");
    struct bus_slot *slot = must_reserve(alice, "w");
    fail_slot(&slot, "app.broken", "kept too");
    must_close(&alice);

    struct bus *bob = must_open("bob");
    int64_t start_ms = test_now_ms();
    expect_awaited(bob, "alice/w", 0, "kept");
    struct bus_error *error = expect_await_failed(bob, "alice/w", 1, "application");
    bus_error_unref(&error);
    struct bus_sub *sub = must_subscribe(bob, "alice/w");
    expect_value(sub, "alice/w", 0, "kept");
    expect_failed(sub, "alice/w", 1, "application");
    expect_end(sub, NULL);
    cr_expect_lt(test_now_ms() - start_ms, 5 * AT_ONCE_MS);
    bus_sub_close(&sub);
    must_close(&bob);
}

Test(membership, begins_where_a_subscription_asks)
{
    struct bus *alice = must_open("alice");
    struct bus *bob = must_open("bob");
    struct bus_sub_options options;
    must_publish(alice, "w", "0");
    must_publish(alice, "w", "1");
    must_publish(alice, "w", "2");
    must_flush(alice);
    bus_sub_options_init(&options);
    options.from_seq = 2;
    struct bus_sub *from_two = must_subscribe_with(bob, "alice/w", &options);
    options.from_seq = BUS_FROM_NOW;
    struct bus_sub *from_now = must_subscribe_with(bob, "alice/w", &options);
    must_publish(alice, "w", "3");
    expect_value(from_two, "alice/w", 2, "2");
    expect_value(from_two, "alice/w", 3, "3");
    expect_value(from_now, "alice/w", 3, "3");
    bus_sub_close(&from_two);
    bus_sub_close(&from_now);
    must_close(&alice);
    must_close(&bob);
}

Test(membership, ends_what_a_party_that_leaves_owes)
{
    struct bus *alice = must_open("alice");
    struct bus *bob = must_open("bob");
    struct bus_sub *sub = must_subscribe(bob, "alice/+");
    struct bus_tap *tap = must_tap(NULL, BUS_TAP_NOW);
    must_publish(alice, "w", "given");
    struct bus_slot *slots[2] = {must_reserve(alice, "w"), must_reserve(alice, "w")};
    expect_code(bus_complete(alice, SOON_MS), BUS_EINVAL);
    bus_close(&alice, SOON_MS);
    expect_value(sub, "alice/w", 0, "given");
    for (uint64_t seq = 1; seq <= 2; seq++) {
        struct bus_error *error = expect_error(sub, "alice/w", seq, "party_left");
        cr_expect_str_eq(bus_error_type(error), "errbus.left");
        cr_expect_str_eq(bus_error_party(error), "alice");
        bus_error_unref(&error);
    }
    expect_end(sub, "party_left");
    cr_expect_eq(bus_event_count(expect_event(tap, "party.left", "alice")), 2);
    bus_slot_fail(&slots[0], NULL);
    bus_slot_fail(&slots[1], NULL);
    bus_tap_close(&tap);
    bus_sub_close(&sub);
    must_close(&bob);
}

Test(membership, tells_a_good_end_from_a_bad_one)
{
    struct bus *alice = must_open("alice");
    struct bus *carol = must_open("carol");
    struct bus *bob = must_open("bob");
    struct bus_sub *of_alice = must_subscribe(bob, "alice/#");
    struct bus_sub *of_carol = must_subscribe(bob, "carol/w");
    struct bus_tap *tap = must_tap(NULL, BUS_TAP_NOW);
    must_publish(alice, "w", "last");
    expect_code(bus_complete(alice, SOON_MS), BUS_OK);
    must_close(&alice);
    must_close(&carol);
    expect_event(tap, "party.completed", "alice");
    expect_event(tap, "party.left", "carol");

    expect_value(of_alice, "alice/w", 0, "last");
    expect_end(of_alice, NULL);
    cr_expect_eq(strncmp(bus_sub_slot(of_alice, NULL), "alice", 5), 0);
    expect_end(of_carol, NULL);
    expect_nothing(bob, of_alice);

    /* What she never promised will not come; that is a failure only to who awaits it. */
    struct bus_error *error = NULL;
    struct bus_msg *msg = NULL;
    enum bus_err err = bus_await(bob, "alice/w", 1, SOON_MS, &msg, &error);
    cr_expect_eq(err, BUS_EFAILED, "%s", code_name(err));
    bus_error_unref(&error);
    bus_tap_close(&tap);
    bus_sub_close(&of_alice);
    bus_sub_close(&of_carol);
    must_close(&bob);
}

Test(membership, takes_nothing_more_of_who_completed)
{
    struct bus *alice = must_open("alice");
    struct bus *bob = must_open("bob");
    struct bus_error *error = NULL;
    must_publish(alice, "w", "last");
    expect_code(bus_complete(alice, SOON_MS), BUS_OK);
    struct bus_slot *slot = NULL;
    uint64_t seq = 0;
    expect_code(bus_publish(alice, "w", "x", 1), BUS_EENDED);
    expect_code(bus_slot_reserve(alice, "w", BUS_FOREVER, &slot), BUS_EENDED);
    expect_code(bus_request(alice, "w", "x", 1, BUS_FOREVER, &seq), BUS_EENDED);
    expect_code(bus_flush(alice, SOON_MS), BUS_OK);
    expect_code(bus_refusal(alice, &error), BUS_ETIMEDOUT);
    must_close(&alice);
    expect_awaited(bob, "alice/w", 0, "last");
    enum bus_err err = bus_await(bob, "alice/w", 1, SOON_MS, NULL, &error);
    expect_code_of(err, BUS_EFAILED, &error);
    must_close(&bob);
}

Test(membership, counts_incarnations_and_goes_on_counting_slots)
{
    struct bus *bob = must_open("bob");
    struct bus_sub *sub = must_subscribe(bob, "alice/w");
    struct bus_tap *tap = must_tap(NULL, BUS_TAP_NOW);
    for (uint64_t round = 0; round < 5; round++) {
        struct bus *alice = must_open("alice");
        const struct bus_event *event = expect_event(tap, "party.joined", "alice");
        cr_expect_eq(bus_event_incarnation(event), round + 1);
        must_publish(alice, "w", "a");
        struct bus_slot *slot = must_reserve(alice, "w");
        cr_expect_eq(bus_slot_seq(slot), 2 * round + 1);
        must_commit(&slot, "b");
        must_close(&alice);
        expect_value(sub, "alice/w", 2 * round, "a");
        expect_value(sub, "alice/w", 2 * round + 1, "b");
        expect_end(sub, NULL);
    }
    bus_tap_close(&tap);
    bus_sub_close(&sub);
    must_close(&bob);
}

/* A job comes with its first party; its events count from 1, and can be read from the beginning. */
Test(membership, tells_its_story_from_the_first_event_on)
{
    struct bus *alice = open_in("story", "alice");
    struct bus_slot *slot = must_reserve(alice, "w");
    fail_slot(&slot, "app.broken", "chapter two");
    must_flush(alice);
    must_close(&alice);
    static const char *const names[] = {"party.joined", "slot.failed", "party.left"};
    for (int reading = 0; reading < 2; reading++) {
        struct bus_tap *tap = must_tap("story", 0);
        for (uint64_t id = 1; id <= 3; id++) {
            const struct bus_event *event = NULL;
            expect_code(bus_tap_next(tap, SOON_MS, &event, NULL), BUS_OK);
            cr_expect_eq(bus_event_id(event), id);
            cr_expect_str_eq(bus_event_name(event), names[id - 1]);
            cr_expect_str_eq(bus_event_party(event), "alice");
            cr_expect_eq(bus_event_incarnation(event), 1);
        }
        bus_tap_close(&tap);
    }
}

Test(membership, shows_in_the_status)
{
    struct bus *alice = open_in("shown", "alice");
    struct bus *bob = open_in("shown", "bob");
    struct bus_sub *sub = must_subscribe(bob, "alice/#");
    struct bus_status_row row;
    must_publish(alice, "w", "12345");
    struct bus_slot *slots[2] = {must_reserve(alice, "w"), must_reserve(alice, "v")};
    must_flush(alice);
    cr_assert(find_row("shown", BUS_STATUS_JOB, "shown", &row));
    cr_expect_eq(row.open, 2);
    cr_assert(find_row("shown", BUS_STATUS_PARTY, "alice", &row));
    cr_expect_eq(row.open, 2);
    cr_expect_eq(row.incarnation, 1);
    cr_expect_lt(row.silent_ms, SOON_MS);
    cr_assert(find_row("shown", BUS_STATUS_TOPIC, "alice/w", &row));
    cr_expect_eq(row.open, 1);
    cr_expect_eq(row.pending, 1);
    cr_expect_geq(row.pending_bytes, 5);
    cr_expect_eq(row.next_seq, 2);
    cr_assert(find_row("shown", BUS_STATUS_SUB, "alice/#", &row));
    cr_expect_geq(row.pending, 1, "one value is not acknowledged");
    cr_expect_not(find_row("absent", BUS_STATUS_JOB, "absent", &row));
    struct bus_status *status = NULL;
    expect_code(bus_admin_status_get(stage_admin(), BUS_JOB_ALL, SOON_MS, &status, NULL), BUS_OK);
    cr_expect_str_eq(bus_status_version(status), bus_version());
    cr_expect_lt(bus_status_uptime_ms(status), UINT64_C(600000));
    cr_expect_null(bus_status_at(status, bus_status_count(status)));
    bus_status_free(&status);

    expect_value(sub, "alice/w", 0, "12345");
    must_commit(&slots[0], "x");
    must_commit(&slots[1], "y");
    must_flush(alice);
    cr_assert(find_row("shown", BUS_STATUS_PARTY, "alice", &row));
    cr_expect_eq(row.open, 0);
    bus_sub_close(&sub);
    must_close(&alice);
    must_close(&bob);
}

/* Given the control endpoint alone, and reached there by whatever address. */
Test(membership, finds_the_data_channel_from_the_control_channel)
{
    char path[FOLDER_PATH_BYTES_MAX + 16];
    struct folder folder;
    cr_assert(folder_make(&folder));
    snprintf(path, sizeof path, "ipc://%s/control", folder.path);
    const char *const rows[][8] = {
        {"--control", "tcp://127.0.0.2:*", "--data", "tcp://127.0.0.2:*"},
        {"--control", "tcp://127.0.0.2:*", "--data", "tcp://0.0.0.0:*", "--open"},
        {"--control", "tcp://127.0.0.2:*", "--data", "tcp://127.0.0.3:*"},
        {"--control", "tcp://127.0.0.2:*", "--data", "tcp://0.0.0.0:*", "--advertise", "127.0.0.3",
         "--open"},
        {"--control", path, "--data", "tcp://127.0.0.1:*"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        stage_close();
        stage_open_with(rows[i]);
        struct bus *alice = must_open("alice");
        must_publish(alice, "w", "found");
        expect_awaited(alice, "alice/w", 0, "found");
        must_close(&alice);
    }
    stage_close();
    folder_fini(&folder);
}
