/* SPDX-License-Identifier: MPL-2.0 */
/* core_guard_test.c -- parties of which two processes speak: whose word ends what. */
#include "tests/unit/core_driver.h"

TestSuite(core_guard, .init = init, .fini = fini);

/* Connections by name_of(): 1 is alice's guard, 21 and 41 are her programs. */
enum { GUARD = 1, PROGRAM = 21, NEXT_PROGRAM = 41, BOB = 2, TAP = 5 };

static void greet_guard(conn_id conn, uint64_t token)
{
    struct msg msg = hello(conn, token);
    msg.as.hello.role = 2;
    message(conn, msg);
    message(conn, (struct msg){.type = MSG_READY});
    numbers[conn] = 0;
}

static void greet_program(conn_id conn, uint64_t guard)
{
    struct msg msg = hello(conn, 0);
    msg.as.hello.guard = guard;
    message(conn, msg);
}

static void join_program(conn_id conn)
{
    greet_program(conn, tokens[GUARD]);
    attach(conn, conn + 10, tokens[conn]);
    numbers[conn] = 0;
    frames[conn] = 0;
    forget();
}

static void fail_party(conn_id conn)
{
    break_down_with(conn, 0, an_error("job/alice/1/7"));
}

/* alice, a guard and a program that owes a slot; bob, who awaits it; an observer. */
static void begin(void)
{
    tap(TAP);
    greet_guard(GUARD, 0);
    join_program(PROGRAM);
    join(BOB);
    reserve(PROGRAM, open_topic(PROGRAM, "alice/a"), 0);
    message(BOB, (struct msg){.type = MSG_AWAIT,
                              .as.await = {.want = 1, .topic = span_text("alice/a")}});
    forget();
}

Test(core_guard, begins_an_incarnation_for_which_another_speaks)
{
    tap(TAP);
    greet_guard(GUARD, 0);
    EXPECT("1 < welcome incarnation 1\n"
           "5 < party.joined alice/1 #0 x0\n"
           "1 < attached\n");
    greet_program(PROGRAM, tokens[GUARD]);
    EXPECT("21 < welcome incarnation 1\n");
    attach(PROGRAM, PROGRAM + 10, tokens[PROGRAM]);
    EXPECT("21 < attached\n");
    cr_assert_neq(tokens[GUARD], tokens[PROGRAM]);
}

Test(core_guard, lets_programs_come_and_go_one_at_a_time)
{
    begin();
    greet_program(NEXT_PROGRAM, tokens[GUARD]);
    EXPECT("41 < refused 12 errbus.name_taken\n"
           "41 dropped\n");
    message(3, hello(1, 0));
    EXPECT("3 < refused 12 errbus.name_taken\n"
           "3 dropped\n");
    leave(PROGRAM, 1);
    EXPECT("21 < over 13\n"
           "21 dropped\n"
           "31 dropped\n"
           "5 < slot.failed alice/1 #0 x1 (party_left of alice)\n"
           "12 < sub 0 error #0 (party_left of alice)\n");
    join_program(NEXT_PROGRAM);
    uint32_t a = open_topic(NEXT_PROGRAM, "alice/a");
    publish(NEXT_PROGRAM, a, 1, 1, 100);
    EXPECT("41 < accepted 1 0\n");
    complete(GUARD);
    EXPECT("41 < over 11 (party_left of alice)\n"
           "41 dropped\n"
           "51 dropped\n"
           "1 < result 0\n"
           "1 < accepted 0 1\n"
           "5 < party.completed alice/1 #0 x0\n");
    leave(GUARD, 0);
    EXPECT("1 < over 13\n"
           "1 dropped\n");
}

/* So that no two of them give an error one id. */
Test(core_guard, counts_its_programs_over_a_snapshot)
{
    begin();
    leave(PROGRAM, 1);
    compact();
    restart();
    greet_guard(GUARD, tokens[GUARD]);
    join_program(NEXT_PROGRAM);
    compact(); /* with the second one there */
    leave(NEXT_PROGRAM, 0);
    compact();
}

Test(core_guard, takes_its_word_for_the_end)
{
    begin();
    fail_party(GUARD);
    EXPECT("1 < over 13\n"
           "1 dropped\n"
           "21 < over 11 (application of alice)\n"
           "21 dropped\n"
           "31 dropped\n"
           "5 < party.failed alice/1 #0 x1 (application of alice)\n"
           "12 < sub 0 error #0 (application of alice)\n");
    greet_program(NEXT_PROGRAM, tokens[GUARD]);
    EXPECT("41 < refused 11 errbus.fenced\n"
           "41 dropped\n");
}

Test(core_guard, leaves_for_both)
{
    begin();
    leave(GUARD, 0);
    EXPECT("1 < over 13\n"
           "1 dropped\n"
           "21 < over 11 (party_left of alice)\n"
           "21 dropped\n"
           "31 dropped\n"
           "5 < party.left alice/1 #0 x1 (party_left of alice)\n"
           "12 < sub 0 error #0 (party_left of alice)\n");
}

Test(core_guard, is_told_what_its_program_has_said)
{
    begin();
    fail_party(PROGRAM);
    EXPECT("21 < over 13\n"
           "21 dropped\n"
           "31 dropped\n"
           "1 < over 11 (application of alice)\n"
           "1 dropped\n"
           "5 < party.failed alice/1 #0 x1 (application of alice)\n"
           "12 < sub 0 error #0 (application of alice)\n");
}

Test(core_guard, keeps_what_its_program_has_completed)
{
    greet_guard(GUARD, 0);
    join_program(PROGRAM);
    tap(TAP);
    complete(PROGRAM);
    leave(PROGRAM, 0);
    EXPECT("21 < result 0\n"
           "21 < accepted 0 1\n"
           "5 < party.completed alice/1 #0 x0\n"
           "21 < over 13\n"
           "21 dropped\n"
           "31 dropped\n");
    greet_program(NEXT_PROGRAM, tokens[GUARD]);
    EXPECT("41 < refused 11 errbus.fenced\n"
           "41 dropped\n");
    fail_party(GUARD);
    EXPECT("1 < over 13\n"
           "1 dropped\n");
}

Test(core_guard, loses_the_party_with_its_program)
{
    begin();
    closed(PROGRAM);
    forget();
    pass_ms(999);
    EXPECT("");
    pass_ms(1);
    EXPECT("1 < over 11 (party_lost of alice)\n"
           "1 dropped\n"
           "5 < party.lost alice/1 #0 x1 (party_lost of alice)\n"
           "12 < sub 0 error #0 (party_lost of alice)\n");
}

Test(core_guard, loses_the_party_when_it_is_lost_itself)
{
    begin();
    closed(GUARD);
    forget();
    pass_ms(1000);
    EXPECT("21 < over 11 (party_lost of alice)\n"
           "21 dropped\n"
           "31 dropped\n"
           "5 < party.lost alice/1 #0 x1 (party_lost of alice)\n"
           "12 < sub 0 error #0 (party_lost of alice)\n");
}

/* However short the program's own grace is, its guard is given time to say how it ended. */
Test(core_guard, waits_for_the_guard_before_a_closed_program_is_lost)
{
    struct msg msg = hello(PROGRAM, 0);
    greet_guard(GUARD, 0);
    msg.as.hello.guard = tokens[GUARD];
    msg.as.hello.grace_ms = 0;
    message(PROGRAM, msg);
    attach(PROGRAM, PROGRAM + 10, tokens[PROGRAM]);
    tap(TAP);
    closed(PROGRAM);
    pass_ms(5);
    fail_party(GUARD);
    EXPECT("21 dropped\n"
           "31 dropped\n"
           "5 < party.suspect alice/1 #0 x0\n"
           "1 < over 13\n"
           "1 dropped\n"
           "5 < party.failed alice/1 #0 x0 (application of alice)\n"
           "5 < verdict.final alice/1 #0 x0 (application of alice)\n");
}

Test(core_guard, welcomes_a_program_again_whose_welcome_was_lost)
{
    greet_guard(GUARD, 0);
    forget();
    struct msg msg = hello(PROGRAM, 0);
    msg.as.hello.guard = tokens[GUARD];
    msg.as.hello.client = 9;
    msg.as.hello.dial = 1;
    message(PROGRAM, msg);
    msg.as.hello.dial = 2;
    message(NEXT_PROGRAM, msg);
    EXPECT("21 < welcome incarnation 1\n"
           "21 dropped\n"
           "41 < welcome incarnation 1\n");
    cr_assert_eq(tokens[PROGRAM], tokens[NEXT_PROGRAM]);
    msg.as.hello.dial = 1;
    message(PROGRAM, msg); /* late */
    EXPECT("21 dropped\n");
    numbers[NEXT_PROGRAM] = 0;
    leave(NEXT_PROGRAM, 0);
    forget();
    msg.as.hello.dial = 2;
    message(PROGRAM, msg); /* later still */
    EXPECT("21 dropped\n");
}

Test(core_guard, may_say_nothing_else)
{
    static const enum msg_type words[] = {MSG_TOPIC_OPEN, MSG_AWAIT,   MSG_UNAWAIT, MSG_SUBSCRIBE,
                                          MSG_SUB_ADD,    MSG_ACK,     MSG_TAKEN,   MSG_FAIL,
                                          MSG_RETRACT,    MSG_POSITION};
    greet_guard(GUARD, 0);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        forget();
        message(GUARD, (struct msg){.type = words[i]});
        EXPECT("1 dropped\n");
        greet_guard(GUARD, tokens[GUARD]);
    }
    forget();
    leave(GUARD, 1); /* behind data that it cannot have */
    EXPECT("1 dropped\n");
    greet_guard(GUARD, tokens[GUARD]);
    forget();
    message(11, (struct msg){.type = MSG_ATTACH, .as.attach = {.token = tokens[GUARD]}});
    EXPECT("11 dropped\n");
}

/* ---- progress -------------------------------------------------------------------------------- */

static void progress(conn_id conn, uint64_t within_ms, const char *where)
{
    message(conn,
            (struct msg){.type = MSG_PROGRESS,
                         .as.progress = {.next_within_ms = within_ms, .where = span_text(where)}});
}

static void beat_all(void)
{
    size_t kept_bytes = said_bytes;
    beat(GUARD);
    beat(PROGRAM);
    beat(BOB);
    said_bytes = kept_bytes; /* echoes */
    said[said_bytes] = '\0';
}

Test(core_guard, fails_a_party_of_which_neither_moves)
{
    begin();
    progress(GUARD, 700, "output: begins");
    pass_ms(600);
    progress(PROGRAM, 0, "step 1"); /* promises nothing itself, but moves */
    pass_ms(600);
    progress(PROGRAM, 60000, ""); /* and again, wherever that is */
    pass_ms(600);
    beat_all();
    pass_ms(99);
    EXPECT("");
    pass_ms(1);
    EXPECT("1 < over 11 (stalled of alice)\n1 dropped\n"
           "21 < over 11 (stalled of alice)\n21 dropped\n31 dropped\n"
           "5 < party.failed alice/1 #0 x1 (stalled of alice)\n"
           "12 < sub 0 error #0 (stalled of alice)\n");
    cr_assert_str_eq(error_message,
                     "alice beats, but made no progress within 700 ms; it last was at: step 1");
}

Test(core_guard, holds_a_program_to_its_own_promise)
{
    begin();
    progress(PROGRAM, 700, "step 1");
    pass_ms(600);
    progress(GUARD, 60000, "output: step 2");
    pass_ms(100);
    EXPECT("21 < over 11 (stalled of alice)\n21 dropped\n31 dropped\n"
           "1 < over 11 (stalled of alice)\n1 dropped\n"
           "5 < party.failed alice/1 #0 x1 (stalled of alice)\n"
           "12 < sub 0 error #0 (stalled of alice)\n");
    cr_assert_str_eq(error_message,
                     "alice beats, but made no progress within 700 ms; it last was at: step 1");
}

Test(core_guard, expects_nothing_more_of_a_party_that_completed)
{
    join(BOB);
    forget();
    progress(BOB, 100, "");
    complete(BOB);
    EXPECT("2 < result 0\n2 < accepted 0 1\n");
    pass_ms(200);
    EXPECT("");
    greet_guard(GUARD, 0);
    progress(GUARD, 700, "");
    progress(GUARD, 0, ""); /* takes it back */
    forget();
    pass_ms(800);
    EXPECT("");
}

Test(core_guard, knows_its_own_tokens)
{
    join(BOB);
    greet_guard(GUARD, 0);
    forget();
    greet_program(PROGRAM, tokens[GUARD] + 1);
    greet_program(PROGRAM, tokens[BOB]);
    message(3, hello(1, tokens[GUARD])); /* a party's greeting, with a guard's session */
    EXPECT("21 < refused 11 errbus.fenced\n"
           "21 dropped\n"
           "21 < refused 11 errbus.fenced\n"
           "21 dropped\n"
           "3 < refused 11 errbus.fenced\n"
           "3 dropped\n");
    struct msg msg = hello(BOB, 0);
    msg.as.hello.guard = tokens[GUARD];
    message(3, msg); /* another party's */
    EXPECT("3 < refused 11 errbus.fenced\n"
           "3 dropped\n");
}

Test(core_guard, goes_on_after_a_restart_with_its_program)
{
    begin();
    crash(100);
    greet_guard(GUARD, tokens[GUARD]);
    say_hello_again(PROGRAM);
    EXPECT("1 < welcome incarnation 1, resumed\n"
           "1 < attached\n"
           "21 < welcome incarnation 1, resumed\n");
    attach(PROGRAM, PROGRAM + 10, tokens[PROGRAM]);
    forget();
    leave(PROGRAM, 1);
    crash(100);
    greet_guard(GUARD, tokens[GUARD]);
    forget();
    greet_program(NEXT_PROGRAM, tokens[GUARD]);
    EXPECT("41 < welcome incarnation 1\n");
    compact();
    numbers[GUARD] = 5; /* what it had said before the crash does not count */
    complete(GUARD);
    leave(GUARD, 0);
    EXPECT("41 < over 11 (party_left of alice)\n"
           "41 dropped\n"
           "1 < result 0\n"
           "1 < accepted 0 6\n"
           "1 < over 13\n"
           "1 dropped\n");
    crash(100);
    greet_guard(GUARD, tokens[GUARD]);
    EXPECT("1 < refused 11 errbus.fenced\n"
           "1 dropped\n"
           "1 dropped\n");
}
