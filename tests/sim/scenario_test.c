/* SPDX-License-Identifier: MPL-2.0 */
/* scenario_test.c -- what the bus promises, one story a test, read as transcripts: what the test
 * does, then line by line what the parties see. */
#include "tests/sim/scene.h"
#include "tests/sim/trace.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct scene scene;

static void begin(void)
{
    struct scene_options options;
    scene_options_init(&options);
    if (getenv("ERRBUS_SIM_TRACE") != NULL)
        options.world.trace = stderr;
    scene_open(&scene, &options);
}

/* Batches take so long, control messages a millisecond as always. */
static void begin_slow_data(int64_t data_ms)
{
    struct scene_options options;
    scene_options_init(&options);
    if (getenv("ERRBUS_SIM_TRACE") != NULL)
        options.world.trace = stderr;
    options.world.delay_least_ns[CHANNEL_DATA] = data_ms * WORLD_MS;
    options.world.delay_most_ns[CHANNEL_DATA] = data_ms * WORLD_MS;
    scene_open(&scene, &options);
}

#define EXPECT(...)                                                                                \
    do {                                                                                           \
        const char *differs_ = scene_compare(&scene, "" __VA_ARGS__);                              \
        cr_assert_null(differs_, "%s", differs_);                                                  \
    } while (0)

static void expect_end(void)
{
    const char *broken = scene_close(&scene);
    cr_assert_null(broken, "%s", broken);
}

/* So far. */
static void expect_kept(void)
{
    const char *broken = world_violation(scene.stage.world);
    cr_assert_null(broken, "%s", broken);
}

static void expect_code(enum wire_code code, enum wire_code expected)
{
    cr_assert_eq(code, expected, "%s instead of %s", trace_code(code), trace_code(expected));
}

#define BOTH_UP                                                                                    \
    "[   2] alice: up, incarnation 1\n"                                                            \
    "[  22] bob: up, incarnation 1\n"

static void join_both(void)
{
    scene_join(&scene, "alice");
    scene_join(&scene, "bob");
}

/* Bob waits for all that matches. */
static void join_reader(const char *pattern)
{
    join_both();
    scene_subscribe(&scene, "bob", pattern);
}

/* Alice promises slot 0 of alice/w, and bob waits for all that matches. */
static void promise_to_bob(const char *pattern)
{
    join_reader(pattern);
    scene_reserve(&scene, "alice", "alice/w", -1);
}

/* ---- failures in place ----------------------------------------------------------------------- */

Test(scenario, fails_in_place_and_goes_on)
{
    begin();
    promise_to_bob("alice/w");
    scene_reserve(&scene, "alice", "alice/w", -1);
    scene_run(&scene, 10);
    EXPECT(BOTH_UP);
    scene_fail(&scene, "alice", "alice/w", 0, "app.hot", false);
    scene_run(&scene, 10);
    EXPECT("[  52] bob: alice/w 0 failed, root alice app.hot\n");
    scene_commit(&scene, "alice", "alice/w", 1, "fine");
    scene_flush(&scene, "alice");
    scene_run(&scene, 10);
    EXPECT("[  62] bob: alice/w 1 = fine\n"
           "[  62] alice: flushed\n");
    expect_end();
}

Test(scenario, keeps_origin_and_path_over_hops)
{
    begin();
    join_both();
    scene_join(&scene, "carol");
    scene_subscribe(&scene, "bob", "alice/w");
    scene_subscribe(&scene, "carol", "bob/w");
    scene_reserve(&scene, "alice", "alice/w", -1);
    scene_reserve(&scene, "bob", "bob/w", -1);
    scene_run(&scene, 10);
    EXPECT(BOTH_UP "[  42] carol: up, incarnation 1\n");
    scene_fail(&scene, "alice", "alice/w", 0, "app.hot", false);
    scene_run(&scene, 10);
    scene_fail(&scene, "bob", "bob/w", 0, "app.no_input", true);
    scene_run(&scene, 10);
    EXPECT("[  72] bob: alice/w 0 failed, root alice app.hot\n"
           "[  82] carol: bob/w 0 failed, root alice app.hot, path bob < alice\n");
    expect_end();
}

Test(scenario, lets_no_topic_wait_for_another)
{
    begin();
    join_reader("alice/#");
    scene_reserve(&scene, "alice", "alice/slow", -1);
    scene_publish(&scene, "alice", "alice/slow", "behind the slow one");
    scene_reserve(&scene, "alice", "alice/w", -1);
    scene_fail(&scene, "alice", "alice/w", 0, "app.hot", false);
    scene_run(&scene, 10);
    EXPECT(BOTH_UP "[  44] bob: alice/w 0 failed, root alice app.hot\n");
    scene_commit(&scene, "alice", "alice/slow", 0, "at last");
    scene_run(&scene, 10);
    EXPECT("[  52] bob: alice/slow 0 = at last\n"
           "[  52] bob: alice/slow 1 = behind the slow one\n");
    expect_end();
}

Test(scenario, fails_a_slot_whose_time_is_up)
{
    begin();
    join_reader("alice/w");
    scene_reserve(&scene, "alice", "alice/w", 50);
    scene_run(&scene, 100);
    EXPECT(BOTH_UP "[  92] bob: alice/w 0 failed, root alice errbus.deadline\n");
    /* She is late, and learns what took the place of her value. */
    scene_commit(&scene, "alice", "alice/w", 0, "too late");
    scene_flush(&scene, "alice");
    scene_run(&scene, 10);
    EXPECT("[ 142] alice: alice/w 0 refused, errbus.too_late because of errbus.deadline by alice\n"
           "[ 142] alice: flushed\n");
    expect_end();
}

/* ---- lanes that overtake each other ---------------------------------------------------------- */

Test(scenario, lets_a_failure_wait_for_its_reservation)
{
    begin_slow_data(30);
    join_both();
    scene_run(&scene, 100);
    scene_subscribe(&scene, "bob", "alice/w");
    scene_reserve(&scene, "alice", "alice/w", -1);
    scene_fail(&scene, "alice", "alice/w", 0, "app.hot", false);
    scene_flush(&scene, "alice");
    scene_run(&scene, 100);
    EXPECT(BOTH_UP "[ 171] alice: flushed\n"
                   "[ 200] bob: alice/w 0 failed, root alice app.hot\n");
    expect_end();
}

Test(scenario, lets_a_leave_wait_for_the_commit_before_it)
{
    begin_slow_data(30);
    join_both();
    scene_run(&scene, 100);
    scene_subscribe(&scene, "bob", "alice/w");
    scene_reserve(&scene, "alice", "alice/w", -1);
    scene_reserve(&scene, "alice", "alice/w", -1);
    scene_commit(&scene, "alice", "alice/w", 0, "sent before the leave");
    app_leave(scene_app(&scene, "alice"));
    scene_run(&scene, 100);
    EXPECT(BOTH_UP "[ 202] alice: over, ECLOSED\n"
                   "[ 231] bob: alice/w 0 = sent before the leave\n"
                   "[ 231] bob: alice/w 1 failed, root alice errbus.left\n"
                   "[ 231] bob: end of alice 1, errbus.left\n");
    expect_end();
}

/* ---- losses ---------------------------------------------------------------------------------- */

Test(scenario, settles_what_a_killed_party_owed)
{
    begin();
    join_reader("alice/w");
    scene_publish(&scene, "alice", "alice/w", "accepted before");
    scene_reserve(&scene, "alice", "alice/w", -1);
    scene_reserve(&scene, "alice", "alice/w", -1);
    scene_await(&scene, "bob", "alice/w", 2);
    scene_run(&scene, 10);
    EXPECT(BOTH_UP "[  42] bob: alice/w 0 = accepted before\n");
    scene_kill(&scene, "alice", 0);
    scene_run(&scene, 300);
    EXPECT("[ 251] bob: awaited alice/w 2 failed, root alice errbus.connection_closed\n"
           "[ 251] bob: alice/w 1 failed, root alice errbus.connection_closed\n"
           "[ 251] bob: alice/w 2 failed, root alice errbus.connection_closed\n"
           "[ 251] bob: end of alice 1, errbus.connection_closed\n");
    expect_end();
}

Test(scenario, settles_a_hundred_slots_once_each)
{
    begin();
    join_reader("alice/w");
    for (int i = 0; i < 100; i++)
        expect_code(scene_reserve(&scene, "alice", "alice/w", -1), CODE_OK);
    scene_run(&scene, 10);
    scene_kill(&scene, "alice", 0);
    scene_run(&scene, 300);
    const struct app *bob = scene_app(&scene, "bob");
    cr_assert_eq(bob->taken_count, 101); /* and her end */
    cr_assert_eq(app_position(bob->subs[0], 0)->next_seq, 100);
    expect_end();
}

Test(scenario, takes_silence_for_a_loss)
{
    begin();
    promise_to_bob("alice/w");
    scene_run(&scene, 10);
    scene_freeze(&scene, "alice", 1000);
    scene_run(&scene, 700);
    EXPECT(BOTH_UP "[ 552] bob: alice/w 0 failed, root alice errbus.silent\n"
                   "[ 552] bob: end of alice 1, errbus.silent\n");
    /* She wakes up, and commits before she has looked: nothing of it lands. */
    scene_run(&scene, 299);
    expect_code(scene_commit(&scene, "alice", "alice/w", 0, "of an incarnation that is over"),
                CODE_OK);
    scene_run(&scene, 100);
    EXPECT("[1050] alice: over, EFENCED, job/alice/1/2 party_lost errbus.silent\n"
           "[1050] alice: alice/w 0 refused, errbus.fenced\n");
    scene_join(&scene, "alice");
    expect_code(scene_publish(&scene, "alice", "alice/w", "of the next incarnation"), CODE_OK);
    scene_run(&scene, 10);
    EXPECT("[1151] alice: up, incarnation 2\n"
           "[1175] bob: alice/w 1 = of the next incarnation\n");
    expect_end();
}

Test(scenario, takes_a_short_stop_for_nothing)
{
    begin();
    promise_to_bob("alice/#");
    scene_run(&scene, 10);
    scene_freeze(&scene, "alice", 350);
    scene_run(&scene, 400);
    scene_commit(&scene, "alice", "alice/w", 0, "as if nothing had happened");
    scene_flush(&scene, "alice");
    scene_run(&scene, 50);
    EXPECT(BOTH_UP "[ 452] bob: alice/w 0 = as if nothing had happened\n"
                   "[ 452] alice: flushed\n");
    expect_end();
}

Test(scenario, tells_who_waits_for_what_was_never_promised)
{
    begin();
    join_reader("alice/#");
    scene_await(&scene, "bob", "alice/w", 7);
    scene_await(&scene, "bob", "carol/w", 7); /* has not joined: goes on waiting */
    scene_run(&scene, 10);
    scene_kill(&scene, "alice", 0);
    scene_run(&scene, 300);
    EXPECT(BOTH_UP "[ 251] bob: awaited alice/w 7 failed, root alice errbus.connection_closed\n"
                   "[ 251] bob: end of alice 1, errbus.connection_closed\n");
    scene_await(&scene, "bob", "alice/w", 8); /* lost: answered at once */
    scene_run(&scene, 10);
    EXPECT("[ 352] bob: awaited alice/w 8 failed, root alice errbus.connection_closed\n");
    scene_join(&scene, "carol");
    static const char *const numbers[] = {"zero", "one",  "two", "three",
                                          "four", "five", "six", "seven"};
    for (int i = 0; i < 8; i++)
        expect_code(scene_publish(&scene, "carol", "carol/w", numbers[i]), CODE_OK);
    scene_run(&scene, 10);
    EXPECT("[ 362] carol: up, incarnation 1\n"
           "[ 384] bob: awaited carol/w 7 = seven\n");
    expect_end();
}

Test(scenario, ends_an_old_incarnation_when_a_new_one_comes)
{
    begin();
    promise_to_bob("alice/w");
    scene_run(&scene, 10);
    scene_kill(&scene, "alice", 0);
    scene_run(&scene, 10);
    scene_join(&scene, "alice"); /* long before the grace is over */
    EXPECT(BOTH_UP "[  62] alice: up, incarnation 2\n"
                   "[  62] bob: alice/w 0 failed, root alice errbus.replaced\n"
                   "[  62] bob: end of alice 1, errbus.replaced\n");
    expect_end();
}

Test(scenario, refuses_a_second_party_of_a_name)
{
    begin();
    join_reader("alice/w");
    struct host_options options = {.job = "job",
                                   .party = "alice",
                                   .heartbeat_ms = 100,
                                   .lost_after_ms = 500,
                                   .grace_ms = 200,
                                   .broker_lost_ms = 2000};
    app_start(&scene.stage.apps[stage_add(&scene.stage, 0, &options)]);
    scene_run(&scene, 50);
    EXPECT(BOTH_UP "[  42] alice: over, EDENIED, job/alice/0/1 rejected errbus.name_taken\n");
    scene_publish(&scene, "alice", "alice/w", "not disturbed");
    scene_run(&scene, 10);
    EXPECT("[  92] bob: alice/w 0 = not disturbed\n");
    expect_end();
}

/* ---- connections ----------------------------------------------------------------------------- */

Test(scenario, goes_on_after_a_broken_connection)
{
    begin_slow_data(5);
    join_both();
    scene_run(&scene, 50);
    scene_subscribe(&scene, "bob", "alice/w");
    scene_publish(&scene, "alice", "alice/w", "0");
    scene_publish(&scene, "alice", "alice/w", "1");
    scene_break(&scene, "alice"); /* before anything has arrived */
    scene_publish(&scene, "alice", "alice/w", "2");
    scene_run(&scene, 26);
    scene_break(&scene, "bob"); /* while the third value is on its way to him */
    scene_run(&scene, 100);
    scene_publish(&scene, "alice", "alice/w", "3");
    scene_flush(&scene, "alice");
    scene_run(&scene, 100);
    EXPECT(BOTH_UP "[ 114] bob: alice/w 0 = 0\n"
                   "[ 114] bob: alice/w 1 = 1\n"
                   "[ 137] bob: alice/w 2 = 2\n"
                   "[ 222] alice: flushed\n"
                   "[ 226] bob: alice/w 3 = 3\n");
    expect_end();
}

Test(scenario, notices_a_half_open_link)
{
    begin();
    join_reader("alice/w");
    scene_run(&scene, 10);
    world_half_open(scene.stage.world, scene_app(&scene, "alice")->host, WAY_DOWN);
    expect_code(scene_publish(&scene, "alice", "alice/w", "over the first connection"), CODE_OK);
    scene_run(&scene, 400);
    expect_code(scene_publish(&scene, "alice", "alice/w", "over the second connection"), CODE_OK);
    scene_flush(&scene, "alice");
    scene_run(&scene, 10);
    EXPECT(BOTH_UP "[  52] bob: alice/w 0 = over the first connection\n"
                   "[ 452] bob: alice/w 1 = over the second connection\n"
                   "[ 452] alice: flushed\n");
    expect_end();
}

/* He hears the broker all the time, and would wait for ever. */
Test(scenario, notices_that_data_does_not_reach_it)
{
    begin();
    join_reader("alice/w");
    scene_run(&scene, 10);
    world_half_open_one(scene.stage.world, scene_app(&scene, "bob")->host, CHANNEL_DATA, WAY_DOWN);
    scene_publish(&scene, "alice", "alice/w", "lost on its way");
    scene_run(&scene, 500);
    EXPECT(BOTH_UP "[ 308] bob: alice/w 0 = lost on its way\n");
    expect_end();
}

Test(scenario, ends_within_its_bound_when_the_broker_is_gone)
{
    begin();
    join_both();
    scene_await(&scene, "alice", "bob/w", 0);
    scene_run(&scene, 10);
    for (int i = 0; i < 2200; i++) { /* whatever connection she makes */
        world_half_open(scene.stage.world, scene_app(&scene, "alice")->host, WAY_DOWN);
        scene_run(&scene, 1);
    }
    EXPECT(BOTH_UP "[2050] alice: over, ELOST, job/alice/1/1 broker_lost errbus.broker_lost\n");
    expect_end();
}

Test(scenario, tells_the_party_of_a_broker_that_forgot_it)
{
    begin();
    scene_join(&scene, "alice");
    scene_reserve(&scene, "alice", "alice/w", -1);
    scene_run(&scene, 10);
    world_replace_broker(scene.stage.world);
    scene_run(&scene, 500);
    EXPECT("[   2] alice: up, incarnation 1\n"
           "[  63] alice: over, ELOST, job/alice/1/1 broker_lost errbus.session\n");
    expect_end();
}

/* Alice has given up one connection after the other meanwhile.  The broker finds out at once, and
 * hears of the newest when her grace would be over. */
Test(scenario, takes_a_stop_of_the_broker_for_nothing)
{
    begin();
    promise_to_bob("alice/#");
    scene_run(&scene, 10);
    world_stop_broker(scene.stage.world, 1400 * WORLD_MS);
    scene_run(&scene, 1390);
    scene_commit(&scene, "alice", "alice/w", 0, "as if nothing had happened");
    world_stall(scene.stage.world, scene_app(&scene, "alice")->host, 3, 300 * WORLD_MS);
    scene_run(&scene, 600);
    EXPECT(BOTH_UP "[  50] the broker is stopped for 1400 ms\n"
                   "[1745] bob: alice/w 0 = as if nothing had happened\n");
    expect_end();
}

static void begin_with_journal(void)
{
    struct scene_options options;
    scene_options_init(&options);
    if (getenv("ERRBUS_SIM_TRACE") != NULL)
        options.world.trace = stderr;
    options.world.core.has_facts = true;
    options.world.core.resume_ms = 400;
    scene_open(&scene, &options);
}

Test(scenario, goes_on_as_if_there_had_been_a_pause_when_the_broker_is_back)
{
    begin_with_journal();
    promise_to_bob("alice/#");
    scene_publish(&scene, "alice", "alice/w", "1");
    scene_await(&scene, "bob", "alice/w", 1);
    scene_run(&scene, 20);
    world_crash_broker(scene.stage.world, 300 * WORLD_MS);
    scene_commit(&scene, "alice", "alice/w", 0, "0");
    scene_publish(&scene, "alice", "alice/w", "2");
    scene_run(&scene, 800);
    EXPECT(BOTH_UP "[  42] bob: awaited alice/w 1 = 1\n"
                   "[  60] the broker is killed\n"
                   "[ 360] the broker is back\n"
                   "[ 434] bob: alice/w 0 = 0\n"
                   "[ 434] bob: alice/w 1 = 1\n"
                   "[ 434] bob: alice/w 2 = 2\n");
    expect_end();
}

/* Who does not come back is lost after the window, for what was promised before. */
Test(scenario, loses_who_died_with_the_broker)
{
    begin_with_journal();
    promise_to_bob("alice/#");
    scene_run(&scene, 20);
    world_crash_broker(scene.stage.world, 300 * WORLD_MS);
    scene_kill(&scene, "alice", WORLD_NEVER);
    scene_run(&scene, 690);
    EXPECT(BOTH_UP "[  60] the broker is killed\n"
                   "[ 360] the broker is back\n");
    scene_run(&scene, 30);
    EXPECT("[ 761] bob: alice/w 0 failed, root alice errbus.connection_closed\n"
           "[ 761] bob: end of alice 1, errbus.connection_closed\n");
    expect_end();
}

/* The broker noted that alice joined, and was killed before she was told.  She joins once. */
Test(scenario, welcomes_who_was_not_welcomed_yet_into_the_same_incarnation)
{
    begin_with_journal();
    scene_join(&scene, "bob");
    scene_subscribe(&scene, "bob", "alice/#");
    scene_run(&scene, 20);
    scene_start(&scene, "alice", 1);
    world_crash_broker(scene.stage.world, 100 * WORLD_MS);
    scene_run(&scene, 800);
    scene_publish(&scene, "alice", "alice/w", "0");
    scene_run(&scene, 20);
    EXPECT("[   2] bob: up, incarnation 1\n"
           "[  41] the broker is killed\n"
           "[ 141] the broker is back\n"
           "[ 166] alice: up, incarnation 1\n"
           "[ 843] bob: alice/w 0 = 0\n");
    expect_end();
}

/* A snapshot stands for all that was before it. */
Test(scenario, goes_on_from_a_snapshot_and_what_followed)
{
    begin_with_journal();
    scene_join(&scene, "alice");
    scene_reserve(&scene, "alice", "alice/w", -1);
    scene_publish(&scene, "alice", "alice/w", "1");
    scene_run(&scene, 20);
    world_compact(scene.stage.world);
    scene_fail(&scene, "alice", "alice/w", 0, "app.hot", false);
    scene_run(&scene, 20);
    world_crash_broker(scene.stage.world, 100 * WORLD_MS);
    scene_run(&scene, 500);
    scene_join(&scene, "bob");
    scene_subscribe(&scene, "bob", "alice/#");
    scene_run(&scene, 20);
    EXPECT("[   2] alice: up, incarnation 1\n"
           "[  60] the broker is killed\n"
           "[ 160] the broker is back\n"
           "[ 562] bob: up, incarnation 1\n"
           "[ 582] bob: alice/w 0 failed, root alice app.hot\n"
           "[ 582] bob: alice/w 1 = 1\n");
    expect_end();
}

/* ---- joining, leaving ------------------------------------------------------------------------ */

Test(scenario, gives_a_late_joiner_all_that_is_kept)
{
    begin();
    scene_join(&scene, "alice");
    scene_publish(&scene, "alice", "alice/w", "0");
    scene_reserve(&scene, "alice", "alice/w", -1);
    scene_fail(&scene, "alice", "alice/w", 1, "app.hot", false);
    scene_publish(&scene, "alice", "alice/w", "2");
    scene_run(&scene, 10000);
    scene_join(&scene, "bob");
    scene_subscribe(&scene, "bob", "alice/w");
    scene_run(&scene, 10);
    scene_await(&scene, "bob", "alice/w", 1);
    scene_run(&scene, 10);
    EXPECT("[   2] alice: up, incarnation 1\n"
           "[10022] bob: up, incarnation 1\n"
           "[10042] bob: alice/w 0 = 0\n"
           "[10042] bob: alice/w 1 failed, root alice app.hot\n"
           "[10042] bob: alice/w 2 = 2\n"
           "[10052] bob: awaited alice/w 1 failed, root alice app.hot\n");
    expect_end();
}

Test(scenario, ends_a_topic_behind_its_last_frame)
{
    begin();
    join_both();
    scene_join(&scene, "carol");
    scene_subscribe(&scene, "bob", "alice/#");
    scene_subscribe(&scene, "carol", "+/w"); /* names nobody: is told no end */
    scene_publish(&scene, "alice", "alice/w", "the last one");
    expect_code(app_complete(scene_app(&scene, "alice")), CODE_OK);
    world_pump(scene.stage.world, scene_app(&scene, "alice")->host);
    scene_run(&scene, 10);
    app_leave(scene_app(&scene, "alice"));
    world_pump(scene.stage.world, scene_app(&scene, "alice")->host);
    scene_run(&scene, 10);
    EXPECT(BOTH_UP "[  42] carol: up, incarnation 1\n"
                   "[  62] bob: alice/w 0 = the last one\n"
                   "[  62] carol: alice/w 0 = the last one\n"
                   "[  62] bob: end of alice 1, owing nothing\n"
                   "[  62] alice: completed, OK\n"
                   "[  72] alice: over, ECLOSED\n");
    expect_end();
}

Test(scenario, fails_what_a_party_owes_when_it_fails_as_a_whole)
{
    begin();
    promise_to_bob("alice/#");
    scene_reserve(&scene, "alice", "alice/v", -1);
    app_fail_party(scene_app(&scene, "alice"), "app.disk_full");
    world_pump(scene.stage.world, scene_app(&scene, "alice")->host);
    scene_run(&scene, 10);
    EXPECT(BOTH_UP "[  40] alice: over, ECLOSED, job/alice/1/1 application app.disk_full\n"
                   "[  42] bob: alice/w 0 failed, root alice app.disk_full\n"
                   "[  42] bob: alice/v 0 failed, root alice app.disk_full\n"
                   "[  42] bob: end of alice 1, app.disk_full\n");
    expect_end();
}

Test(scenario, goes_on_where_a_durable_name_was_acknowledged)
{
    begin();
    join_both();
    struct app_sub_options options = {.durable = "mine", .keep_ms = 60000};
    scene.is_unacked[1] = true;
    cr_assert_geq(app_subscribe(scene_app(&scene, "bob"), "alice/w", &options), 0);
    world_pump(scene.stage.world, 1);
    for (int i = 0; i < 3; i++)
        scene_publish(&scene, "alice", "alice/w", i == 0 ? "0" : i == 1 ? "1" : "2");
    scene_run(&scene, 10);
    app_ack(scene_app(&scene, "bob"), 0, 0); /* done with 0; holds 1 and 2 */
    world_pump(scene.stage.world, 1);
    scene_run(&scene, 10);
    scene_kill(&scene, "bob", 0);
    scene_run(&scene, 10);
    scene_publish(&scene, "alice", "alice/w", "3");
    scene_join(&scene, "bob");
    cr_assert_geq(app_subscribe(scene_app(&scene, "bob"), "alice/w", &options), 0);
    world_pump(scene.stage.world, 1);
    scene_run(&scene, 10);
    EXPECT(BOTH_UP "[  42] bob: alice/w 0 = 0\n"
                   "[  42] bob: alice/w 1 = 1\n"
                   "[  44] bob: alice/w 2 = 2\n"
                   "[  72] bob: up, incarnation 2\n"
                   "[  92] bob: alice/w 1 = 1\n"
                   "[  92] bob: alice/w 2 = 2\n"
                   "[  92] bob: alice/w 3 = 3\n");
    expect_end();
}

Test(scenario, keeps_jobs_apart)
{
    begin();
    join_both();
    scene_join_job(&scene, "alice", "other");
    scene_subscribe(&scene, "bob", "#");
    struct app *other = &scene.stage.apps[2];
    struct span value = span_text("of another job");
    expect_code(app_publish(other, "alice/w", &value, 1), CODE_OK);
    world_pump(scene.stage.world, 2);
    scene_publish(&scene, "alice", "alice/w", "of this job");
    scene_run(&scene, 10);
    EXPECT(BOTH_UP "[  42] alice: up, incarnation 1\n"
                   "[  62] bob: alice/w 0 = of this job\n");
    expect_end();
}

/* ---- taking back ----------------------------------------------------------------------------- */

Test(scenario, takes_back_what_nobody_was_sent)
{
    begin();
    scene_join(&scene, "alice");
    scene_publish(&scene, "alice", "alice/w", "a mistake");
    scene_flush(&scene, "alice");
    scene_run(&scene, 10);
    expect_code(app_retract(scene_app(&scene, "alice"), "alice/w", 0, "app.mistaken"), CODE_OK);
    world_pump(scene.stage.world, 0);
    scene_run(&scene, 10);
    scene_join(&scene, "bob");
    scene_subscribe(&scene, "bob", "alice/w");
    scene_run(&scene, 10);
    EXPECT("[   2] alice: up, incarnation 1\n"
           "[  22] alice: flushed\n"
           "[  32] alice: alice/w 0 retracted\n"
           "[  42] bob: up, incarnation 1\n"
           "[  62] bob: alice/w 0 failed, root alice app.mistaken\n");
    expect_end();
}

Test(scenario, takes_back_nothing_that_somebody_was_sent)
{
    begin();
    join_reader("alice/w");
    scene_publish(&scene, "alice", "alice/w", "a mistake");
    scene_run(&scene, 10);
    expect_code(app_retract(scene_app(&scene, "alice"), "alice/w", 0, "app.mistaken"), CODE_OK);
    world_pump(scene.stage.world, 0);
    scene_run(&scene, 10);
    EXPECT(BOTH_UP "[  42] bob: alice/w 0 = a mistake\n"
                   "[  52] alice: alice/w 0 not retracted, ESETTLED errbus.sealed\n");
    expect_end();
}

/* ---- flow ------------------------------------------------------------------------------------ */

static void begin_with_window(uint64_t window_bytes)
{
    struct scene_options options;
    scene_options_init(&options);
    if (getenv("ERRBUS_SIM_TRACE") != NULL)
        options.world.trace = stderr;
    options.world.core.topic_window_bytes = window_bytes;
    options.world.core.topic_keep_bytes = 1;
    scene_open(&scene, &options);
}

/* Publishes until there is no credit; how many went. */
static int publish_all(const char *party, const char *topic)
{
    static char text[400];
    static int number;
    memset(text, 'x', sizeof text - 1);
    for (int count = 0; count < 1000; count++) {
        (void)snprintf(text, 20, "value %08d", ++number); /* no two are the same */
        text[14] = 'x';
        if (scene_publish(&scene, party, topic, text) != CODE_OK)
            return count;
    }
    return 1000;
}

Test(scenario, holds_a_writer_back_until_it_is_read)
{
    begin_with_window(4096);
    join_reader("alice/w");
    scene_run(&scene, 10);
    EXPECT(BOTH_UP);
    scene.is_holding[1] = true;
    int first = publish_all("alice", "alice/w");
    cr_assert_geq(first, 4);
    cr_assert_leq(first, 40);
    cr_assert_eq(publish_all("alice", "alice/w"), 0);
    scene_read(&scene, "bob"); /* has it: nothing needs to be done with it yet */
    scene_run(&scene, 200);
    cr_assert_geq(publish_all("alice", "alice/w"), 4);
    scene.is_holding[1] = false;
    scene_run(&scene, 500);
    expect_kept();
    expect_end();
}

Test(scenario, settles_without_credit)
{
    begin_with_window(4096);
    promise_to_bob("alice/#");
    scene_reserve(&scene, "alice", "alice/w", -1);
    scene_run(&scene, 10);
    scene.is_holding[1] = true;
    cr_assert_geq(publish_all("alice", "alice/w"), 4);
    EXPECT(BOTH_UP);
    /* Nothing more can be promised; what was promised can be kept, and failed, all the same. */
    expect_code(scene_commit(&scene, "alice", "alice/w", 0, "kept"), CODE_OK);
    scene_fail(&scene, "alice", "alice/w", 1, "app.hot", false);
    scene_flush(&scene, "alice");
    scene_await(&scene, "bob", "alice/w", 0);
    scene_await(&scene, "bob", "alice/w", 1);
    scene_run(&scene, 20);
    EXPECT("[  60] alice: flushed\n"
           "[  60] bob: awaited alice/w 0 = kept\n"
           "[  60] bob: awaited alice/w 1 failed, root alice app.hot\n");
    expect_end();
}

Test(scenario, tells_a_gap_to_who_asked_for_it)
{
    begin_with_window(4096);
    join_both();
    struct app_sub_options options = {.keep_ms = 60000, .is_gap = true};
    cr_assert_geq(app_subscribe(scene_app(&scene, "bob"), "alice/w", &options), 0);
    world_pump(scene.stage.world, 1);
    scene_run(&scene, 10);
    /* His link stalls, and the writer is not held back. */
    world_stall(scene.stage.world, 1, 1u << CHANNEL_DATA, 100 * WORLD_MS);
    scene.is_holding[1] = true;
    for (int i = 0; i < 2000; i++) {
        char text[1000];
        (void)snprintf(text, sizeof text, "value %0900d", i); /* it fits */
        expect_code(scene_publish(&scene, "alice", "alice/w", text), CODE_OK);
        scene_run(&scene, 1);
    }
    scene_run(&scene, 100);
    scene.is_holding[1] = false;
    scene_read(&scene, "bob");
    scene_run(&scene, 500);
    expect_kept();
    const struct app_position *position = app_position(scene_app(&scene, "bob")->subs[0], 0);
    cr_assert_not_null(position);
    cr_assert_eq(position->next_seq, 2000);
    cr_assert_lt(scene_app(&scene, "bob")->taken_count, 2000);
    expect_end();
}

/* ---- what seeds have taught ------------------------------------------------------------------ */

/* Two waits of one party for one slot, the first for the outcome alone; after a reconnect
 * the empty answer to that one was taken for the value. */
Test(scenario, tells_an_outcome_from_a_value_after_a_reconnect)
{
    begin();
    join_both();
    scene_reserve(&scene, "alice", "alice/w", -1);
    expect_code(app_await(scene_app(&scene, "bob"), "alice/w", 0, false), CODE_OK);
    world_pump(scene.stage.world, 1);
    scene_run(&scene, 10);
    scene_await(&scene, "bob", "alice/w", 0);
    scene_run(&scene, 10);
    scene_break(&scene, "bob");
    scene_run(&scene, 100);
    scene_commit(&scene, "alice", "alice/w", 0, "the value");
    scene_run(&scene, 10);
    EXPECT(BOTH_UP "[ 162] bob: awaited alice/w 0 is a value\n"
                   "[ 162] bob: awaited alice/w 0 = the value\n");
    expect_end();
}

/* The answer to a retraction was lost with a connection, and never said again. */
Test(scenario, says_a_result_again)
{
    begin();
    scene_join(&scene, "alice");
    scene_publish(&scene, "alice", "alice/w", "a mistake");
    scene_run(&scene, 10);
    expect_code(app_retract(scene_app(&scene, "alice"), "alice/w", 0, "app.mistaken"), CODE_OK);
    world_pump(scene.stage.world, 0);
    world_half_open(scene.stage.world, 0, WAY_DOWN);
    scene_run(&scene, 500);
    EXPECT("[   2] alice: up, incarnation 1\n"
           "[ 336] alice: alice/w 0 retracted\n");
    expect_end();
}

/* What was taken and not told when the connection broke held the writer back for ever. */
Test(scenario, gives_credit_for_what_was_taken_before_a_break)
{
    begin_with_window(4096);
    join_reader("alice/w");
    scene_run(&scene, 10);
    scene.is_holding[1] = true;
    cr_assert_geq(publish_all("alice", "alice/w"), 4);
    world_half_open(scene.stage.world, 1, WAY_UP); /* TAKEN goes nowhere */
    scene_read(&scene, "bob");
    scene_ack_all(&scene, "bob");
    scene_run(&scene, 600);
    cr_assert_geq(publish_all("alice", "alice/w"), 4);
    expect_kept();
    expect_end();
}

/* After a reconnect WELCOME said that all was accepted, and only then what was refused;
 * a flush in between was told that all was well. */
Test(scenario, flushes_only_when_all_refusals_are_in)
{
    begin();
    scene_join(&scene, "alice");
    scene_reserve(&scene, "alice", "alice/w", 20);
    scene_run(&scene, 50);
    world_half_open(scene.stage.world, 0, WAY_DOWN);
    scene_commit(&scene, "alice", "alice/w", 0, "too late");
    scene_flush(&scene, "alice");
    scene_run(&scene, 500);
    EXPECT("[   2] alice: up, incarnation 1\n"
           "[ 372] alice: alice/w 0 refused, errbus.too_late because of errbus.deadline by alice\n"
           "[ 374] alice: flushed\n");
    expect_end();
}

/* A SUBSCRIBE whose answer was lost was said again, and brought a subscription back to
 * incarnation that had been closed meanwhile; nobody read it, and it held the writer back. */
Test(scenario, keeps_a_closed_subscription_closed)
{
    begin_with_window(4096);
    join_both();
    struct app_sub_options options = {.durable = "mine", .keep_ms = 100};
    world_half_open(scene.stage.world, 1, WAY_DOWN);
    cr_assert_geq(app_subscribe(scene_app(&scene, "bob"), "alice/w", &options), 0);
    world_pump(scene.stage.world, 1);
    scene_run(&scene, 10);
    app_unsubscribe(scene_app(&scene, "bob"), 0, false);
    world_pump(scene.stage.world, 1);
    scene_run(&scene, 1000);
    cr_assert_eq(publish_all("alice", "alice/w"), 1000);
    expect_kept();
    expect_end();
}
