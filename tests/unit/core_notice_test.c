/* SPDX-License-Identifier: MPL-2.0 */
/* core_notice_test.c -- who waits for a party that never joined is told so, once. */
#include "tests/unit/core_driver.h"

TestSuite(core_notice, .init = init, .fini = fini);

/* Connections by name_of(). */
enum { ALICE = 1, BOB = 2, CAROL = 3, TAP = 5, GUARD = 1, PROGRAM = 21 };

static void add_pattern(conn_id conn, uint32_t sub, const char *pattern)
{
    message(conn, (struct msg){.type = MSG_SUB_ADD,
                               .as.sub_add = {.number = ++numbers[conn],
                                              .sub = sub,
                                              .pattern = span_text(pattern)}});
}

static void stop_waiting(conn_id conn, uint64_t want)
{
    message(conn, (struct msg){.type = MSG_UNAWAIT, .as.unawait = {.want = want}});
}

static void unsubscribe(conn_id conn, uint32_t sub, bool is_drop)
{
    message(conn, (struct msg){.type = MSG_UNSUBSCRIBE,
                               .as.unsubscribe = {
                                   .number = ++numbers[conn], .sub = sub, .is_drop = is_drop}});
}

/* Alice and bob, who waits for alise; an observer. */
static void begin(void)
{
    tap(TAP);
    join(ALICE);
    join(BOB);
    await_slot(BOB, 1, "alise/a", 0);
    forget();
}

static void expect_no_notice(void)
{
    forget();
    pass_ms(3 * LIMIT_NOTICE_MS);
    cr_expect_null(strstr(said, "notice"), "%s", said);
}

Test(core_notice, is_told_once_when_a_second_is_over)
{
    begin();
    pass_ms(LIMIT_NOTICE_MS - 1);
    EXPECT("");
    pass_ms(1);
    EXPECT("2 < notice about alise (notice of bob)\n"
           "5 < party.never_joined bob/1 #0 x0 (notice of bob)\n");
    cr_expect_str_eq(error_message, "no party named 'alise' has ever joined the job; did you mean "
                                    "'alice'? bob has waited for it for 1000 ms");
    cr_expect_not_null(strstr(logged, "party.never_joined: no party named 'alise'"), "%s", logged);
    await_slot(BOB, 2, "alise/b", 7);
    subscribe(BOB, 1, "alise/#", "", 0, 0);
    expect_no_notice();
}

Test(core_notice, names_nobody_where_nobody_is_near)
{
    tap(TAP);
    join(BOB);
    await_slot(BOB, 1, "zoe/a", 0);
    forget();
    pass_ms(LIMIT_NOTICE_MS);
    cr_expect_str_eq(error_message, "no party named 'zoe' has ever joined the job; start it, or "
                                    "correct the name; bob has waited for it for 1000 ms");
}

/* Only who joined can be meant: daves is waited for, as davos is. */
Test(core_notice, names_no_party_that_has_not_joined)
{
    join(BOB);
    await_slot(BOB, 1, "daves/a", 0);
    await_slot(BOB, 2, "davos/a", 0);
    forget();
    pass_ms(LIMIT_NOTICE_MS);
    cr_expect_null(strstr(error_message, "did you mean"), "%s", error_message);
}

static void expect_meant(uint64_t want, const char *topic, const char *meant)
{
    await_slot(CAROL, want, topic, 0);
    pass_ms(LIMIT_NOTICE_MS);
    const char *text = strstr(error_message, "did you mean '");
    cr_expect(text != NULL && strncmp(text + 14, meant, strlen(meant)) == 0, "%s: %s", topic,
              error_message);
}

/* The nearest; of two that are as near, the one that the job has known longer; never itself. */
Test(core_notice, names_the_nearest_of_the_others)
{
    join(CAROL);
    join(ALICE);
    join(4); /* dave */
    join(9); /* ivan */
    expect_meant(1, "alace/a", "alice'");
    expect_meant(2, "ivave/a", "dave'");
    expect_meant(3, "daev/a", "dave'");
    await_slot(CAROL, 4, "carrol/a", 0);
    pass_ms(LIMIT_NOTICE_MS);
    cr_expect_null(strstr(error_message, "did you mean"), "%s", error_message);
}

Test(core_notice, is_told_of_each_kind_of_wait)
{
    tap(TAP);
    join(BOB);
    subscribe(BOB, 1, "ann/a", "", 0, 0);
    subscribe(BOB, 2, "+/a", "", 0, 0);
    subscribe(BOB, 3, "cat/#", "mine", 0, 0);
    add_pattern(BOB, 1, "eve/+");
    share(BOB, 4, "fay/tasks", "workers", 1);
    await_slot(BOB, 1, "gil/a", 3);
    forget();
    pass_ms(LIMIT_NOTICE_MS);
    EXPECT("2 < notice about ann (notice of bob)\n"
           "2 < notice about cat (notice of bob)\n"
           "2 < notice about eve (notice of bob)\n"
           "2 < notice about fay (notice of bob)\n"
           "2 < notice about gil (notice of bob)\n"
           "5 < party.never_joined bob/1 #0 x0 (notice of bob)\n"
           "5 < party.never_joined bob/1 #0 x0 (notice of bob)\n"
           "5 < party.never_joined bob/1 #0 x0 (notice of bob)\n"
           "5 < party.never_joined bob/1 #0 x0 (notice of bob)\n"
           "5 < party.never_joined bob/1 #0 x0 (notice of bob)\n");
}

/* What a group gave up for dead is written by no party. */
Test(core_notice, is_not_told_of_dead_letters)
{
    join(BOB);
    subscribe(BOB, 1, "_groups/#", "", 0, 0);
    await_slot(BOB, 1, "_groups/workers/dead", 0);
    forget();
    pass_ms(3 * LIMIT_NOTICE_MS);
    EXPECT("");
}

Test(core_notice, is_not_told_of_who_joins_in_time)
{
    join(BOB);
    await_slot(BOB, 1, "alice/a", 0);
    subscribe(BOB, 1, "carol/#", "", 0, 0);
    pass_ms(LIMIT_NOTICE_MS - 1);
    join(ALICE);
    join(CAROL);
    leave(CAROL, 0); /* it joined, all the same */
    forget();
    pass_ms(3 * LIMIT_NOTICE_MS);
    EXPECT("");
}

Test(core_notice, is_not_told_of_who_joined_before)
{
    join(ALICE);
    leave(ALICE, 0);
    join(BOB);
    await_slot(BOB, 1, "alice/a", 0);
    subscribe(BOB, 1, "alice/#", "", 0, 0);
    expect_no_notice();
}

/* The wait that comes later has a second of its own. */
Test(core_notice, is_not_told_of_a_wait_that_is_over)
{
    join(BOB);
    await_slot(BOB, 1, "alise/a", 0);
    subscribe(BOB, 1, "zoe/#", "", 0, 0);
    forget();
    pass_ms(LIMIT_NOTICE_MS - 1);
    stop_waiting(BOB, 1);
    unsubscribe(BOB, 1, false);
    forget();
    pass_ms(1);
    EXPECT("");
    await_slot(BOB, 2, "alise/a", 0);
    pass_ms(LIMIT_NOTICE_MS - 1);
    EXPECT("");
    pass_ms(1);
    EXPECT("2 < notice about alise (notice of bob)\n");
}

Test(core_notice, is_told_to_each_that_waits)
{
    join(ALICE);
    join(BOB);
    await_slot(BOB, 1, "zoe/a", 0);
    pass_ms(500);
    await_slot(ALICE, 1, "zoe/a", 0);
    forget();
    pass_ms(500);
    EXPECT("2 < notice about zoe (notice of bob)\n");
    pass_ms(500);
    EXPECT("1 < notice about zoe (notice of alice)\n");
}

/* Each of these names is waited for by bob. */
static void await_names(unsigned count)
{
    char topic[32];
    for (unsigned i = 0; i < count; i++) {
        (void)snprintf(topic, sizeof topic, "zoe-%u/a", i);
        await_slot(BOB, i + 1, topic, 0);
    }
}

static unsigned count_said(const char *text)
{
    unsigned count = 0;
    for (const char *at = said; (at = strstr(at, text)) != NULL; at += strlen(text))
        count += 1;
    return count;
}

static void expect_bound(unsigned count)
{
    join(BOB);
    await_names(count);
    forget();
    pass_ms(LIMIT_NOTICE_MS);
    cr_expect_eq(count_said("notice about"), count < LIMIT_NOTICES ? count : LIMIT_NOTICES);
    leave(BOB, 0);
}

Test(core_notice, is_told_of_so_many_names_at_most)
{
    expect_bound(LIMIT_NOTICES - 1);
    expect_bound(LIMIT_NOTICES);
    expect_bound(LIMIT_NOTICES + 1);
}

/* The connection that was told is gone, and perhaps what was told with it.  The event is not told
 * again. */
Test(core_notice, is_told_again_on_another_connection)
{
    begin();
    pass_ms(LIMIT_NOTICE_MS);
    forget();
    reconnect(BOB);
    cr_expect_eq(count_said("2 < notice about alise (notice of bob)\n"), 1, "%s", said);
    cr_expect_eq(count_said("never_joined"), 0, "%s", said);
    stop_waiting(BOB, 1);
    forget();
    reconnect(BOB);
    cr_expect_eq(count_said("notice"), 0, "nobody waits any more: %s", said);
    await_slot(BOB, 2, "alise/b", 0); /* but now, and this connection was not told */
    cr_expect_eq(count_said("2 < notice about alise (notice of bob)\n"), 1, "%s", said);
    await_slot(BOB, 3, "alise/c", 0);
    cr_expect_eq(count_said("notice about"), 1, "%s", said);
    cr_expect_eq(count_said("never_joined"), 0, "%s", said);
}

Test(core_notice, is_told_when_the_connection_is_back)
{
    begin();
    closed(BOB);
    forget();
    pass_ms(LIMIT_NOTICE_MS - 1);
    cr_expect_eq(count_said("notice about"), 0, "%s", said);
    resume(BOB, tokens[BOB], 0);
    pass_ms(1);
    cr_expect_eq(count_said("2 < notice about alise"), 1, "%s", said);
}

/* The broker forgot that it told; the client did not. */
Test(core_notice, is_told_of_a_subscription_after_a_restart)
{
    join(BOB);
    subscribe(BOB, 1, "alise/#", "", 0, 0);
    pass_ms(LIMIT_NOTICE_MS - 1);
    crash(100);
    resume(BOB, tokens[BOB], 0);
    forget();
    pass_ms(LIMIT_NOTICE_MS - 1);
    EXPECT("");
    pass_ms(1);
    EXPECT("2 < notice about alise (notice of bob)\n");
}

Test(core_notice, is_told_to_the_guard_as_well)
{
    struct msg guard = hello(GUARD, 0);
    guard.as.hello.role = 2;
    message(GUARD, guard);
    message(GUARD, (struct msg){.type = MSG_READY});
    struct msg program = hello(PROGRAM, 0);
    program.as.hello.guard = tokens[GUARD];
    message(PROGRAM, program);
    attach(PROGRAM, PROGRAM + 10, tokens[PROGRAM]);
    numbers[PROGRAM] = 0;
    await_slot(PROGRAM, 1, "zoe/a", 0);
    forget();
    pass_ms(LIMIT_NOTICE_MS);
    EXPECT("21 < notice about zoe (notice of alice)\n"
           "1 < notice about zoe (notice of alice)\n");
    closed(GUARD);
    struct msg again = hello(GUARD, tokens[GUARD]);
    again.as.hello.role = 2;
    message(GUARD, again);
    forget();
    message(GUARD, (struct msg){.type = MSG_READY});
    EXPECT("1 < attached\n"
           "1 < notice about zoe (notice of alice)\n");
}

/* Without memory for it nobody is told, and nothing else is different. */
Test(core_notice, is_not_told_without_memory)
{
    join(BOB);
    for (uint64_t room = 0; room < 4096; room += 16) {
        uint64_t before = memory.bytes_max;
        memory.bytes_max = memory.bytes_used + room;
        subscribe(BOB, 1 + (uint32_t)room, "zoe/#", "", 0, 0);
        memory.bytes_max = before;
        unsubscribe(BOB, 1 + (uint32_t)room, false);
    }
    await_slot(BOB, 1, "zoe/a", 0);
    forget();
    pass_ms(LIMIT_NOTICE_MS);
    EXPECT("2 < notice about zoe (notice of bob)\n");
}
