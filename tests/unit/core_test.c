/* SPDX-License-Identifier: MPL-2.0 */
/* core_test.c -- the broker's core in conversations, read as transcripts; see core_driver.h. */
#include "broker/core/model.h"
#include "tests/unit/core_driver.h"

TestSuite(core, .init = init, .fini = fini);

Test(core, tells_clients_how_long_to_look_for_it)
{
    join(1);
    cr_expect_eq(welcomed.patience_ms, 0);
    options.patience_ms = 90000;
    restart();
    join(2);
    cr_expect_eq(welcomed.patience_ms, 90000);
}

/* ---- the road of a value --------------------------------------------------------------------- */

Test(core, sends_values_and_errors_in_their_places)
{
    join(1);
    join(2);
    subscribe(2, 1, "alice/+", "", 0, 0);
    EXPECT("2 < subscribed 0\n2 < accepted 0 1\n");
    uint32_t grads = open_topic(1, "alice/grads");
    reserve(1, grads, 0);
    reserve(1, grads, 1);
    publish(1, grads, 2, 3, 5);
    EXPECT("1 < accepted 1 0\n1 < accepted 2 0\n1 < accepted 5 0\n");
    fail(1, grads, 0, 5);
    EXPECT("1 < accepted 5 1\n12 < sub 1 error #0 (application of alice)\n");
    commit(1, grads, 1, 6);
    EXPECT("1 < accepted 6 1\n12 < sub 1 payload 6 x1\n12 < sub 1 payload 5 x1\n");
}

Test(core, fails_a_slot_whose_error_cannot_be_read_and_no_other)
{
    join(1);
    join(2);
    subscribe(2, 1, "alice/+", "", 0, 0);
    tap(3);
    uint32_t grads = open_topic(1, "alice/grads");
    reserve(1, grads, 0);
    reserve(1, grads, 1);
    forget();
    message(1, (struct msg){.type = MSG_FAIL,
                            .as.fail = {.number = ++numbers[1],
                                        .after = frames[1],
                                        .topic = grads,
                                        .error = span_of("\x91\x80", 2)}});
    EXPECT("1 < accepted 2 1\n3 < refused alice/1 #0 x0 (application of alice)\n"
           "3 < slot.failed alice/1 alice/grads#0 x1 (application of alice)\n"
           "12 < sub 1 error #0 (application of alice)\n");
    fail(1, grads, 1, 2);
    EXPECT("1 < accepted 2 2\n3 < slot.failed alice/1 alice/grads#1 x1 (application of alice)\n"
           "12 < sub 1 error #1 (application of alice)\n");
}

Test(core, does_not_let_a_slow_slot_hold_up_another_topic)
{
    join(1);
    join(2);
    subscribe(2, 1, "alice/#", "", 0, 0);
    uint32_t slow = open_topic(1, "alice/slow");
    uint32_t quick = open_topic(1, "alice/quick");
    reserve(1, slow, 0);
    reserve(1, quick, 0);
    forget();
    fail(1, quick, 0, 2);
    EXPECT("1 < accepted 2 1\n12 < sub 1 error #0 (application of alice)\n");
}

Test(core, parks_a_settlement_until_its_data_is_in_and_tells_it_at_once)
{
    join(1);
    tap(3);
    uint32_t a = open_topic(1, "alice/a");
    fail(1, a, 0, 1);
    EXPECT("3 < slot.failed alice/1 alice/a#0 x1 (application of alice)\n");
    reserve(1, a, 0);
    EXPECT("1 < accepted 1 1\n");
}

/* Settlements whose data does not come: of how many the errors are taken with this limit, by who is
 * the first of so many parties that wait with as much as they may. */
static unsigned park_all(uint64_t bytes_max, conn_id parties)
{
    unsigned count = 0;
    options.parked_bytes_max = bytes_max;
    memset(numbers, 0, sizeof numbers);
    memset(frames, 0, sizeof frames);
    restart();
    for (conn_id conn = 1; conn <= parties; conn++) {
        char name[32];
        join(conn);
        snprintf(name, sizeof name, "%s/a", name_of(conn));
        uint32_t topic = open_topic(conn, name);
        forget();
        for (uint64_t i = 0; i < 5 && strstr(said, "dropped") == NULL; i++) {
            fail(conn, topic, i, 5);
            count += strstr(said, "dropped") == NULL;
        }
    }
    return count;
}

Test(core, keeps_so_many_bytes_of_errors_that_wait_for_their_data)
{
    uint64_t one = 1;
    while (park_all(one, 1) == 0)
        one += 1;
    cr_assert_gt(one, 50);
    cr_assert_eq(park_all(2 * one - 1, 1), 1);
    cr_assert_eq(park_all(2 * one, 1), 2);
    cr_assert_eq(park_all(2 * one + 1, 1), 2);
    cr_assert_not_null(strstr(said, "1 dropped"));
}

static struct span error_saying(uint32_t message_bytes)
{
    struct error_record record;
    size_t bytes;
    error_record_init(&record);
    record.type = span_text("app.broken");
    record.message = span_of("it broke", message_bytes);
    cr_assert_eq(error_encode(&record, 1, error_bytes, sizeof error_bytes, &bytes), WIRE_OK);
    return span_of(error_bytes, bytes);
}

/* A settlement whose data does not come, with an error that says so much.  Whether it is taken. */
static bool park_one(conn_id conn, uint32_t message_bytes)
{
    char name[32];
    join(conn);
    snprintf(name, sizeof name, "%s/a", name_of(conn));
    uint32_t topic = open_topic(conn, name);
    forget();
    message(conn, (struct msg){.type = MSG_FAIL,
                               .as.fail = {.number = ++numbers[conn],
                                           .after = 5,
                                           .topic = topic,
                                           .error = error_saying(message_bytes)}});
    return strstr(said, "dropped") == NULL;
}

/* What it weighs. */
static uint64_t weigh_one(conn_id conn, uint32_t message_bytes)
{
    for (options.parked_bytes_max = 1;; options.parked_bytes_max++) {
        restart();
        if (park_one(conn, message_bytes))
            return options.parked_bytes_max;
    }
}

/* Whether the fifth is taken beside four, where one may have so much. */
static bool park_five(uint64_t bytes_max, uint32_t message_bytes)
{
    options.parked_bytes_max = bytes_max;
    restart();
    for (conn_id conn = 1; conn < 5; conn++)
        cr_assert(park_one(conn, 1));
    return park_one(5, message_bytes);
}

/* In all it is four times what one may. */
Test(core, keeps_so_many_bytes_of_errors_that_wait_for_their_data_in_all)
{
    uint64_t sum = weigh_one(5, 2);
    for (conn_id conn = 1; conn < 5; conn++)
        sum += weigh_one(conn, 1);
    cr_assert_eq(weigh_one(5, 3), weigh_one(5, 2) + 1);
    uint64_t bytes_max = (sum + 3) / 4;
    uint32_t full = 2 + (uint32_t)(4 * bytes_max - sum);
    cr_expect(park_five(bytes_max, full - 1));
    cr_expect(park_five(bytes_max, full));
    cr_expect_not(park_five(bytes_max, full + 1));
    cr_expect_not_null(strstr(said, "5 dropped"));
}

Test(core, does_not_let_a_leave_overtake_a_commit)
{
    uint32_t a = open_for_bob();
    reserve(1, a, 0);
    forget();
    leave(1, 2);
    EXPECT("");
    commit(1, a, 0, 7);
    EXPECT("1 < over 13\n1 dropped\n11 dropped\n12 < sub 1 payload 7 x1\n12 < sub 1 end #1\n");
}

Test(core, settles_what_a_leaver_owes)
{
    uint32_t a = open_for_bob();
    tap(3);
    reserve(1, a, 0);
    forget();
    leave(1, 1);
    EXPECT("1 < over 13\n1 dropped\n11 dropped\n"
           "3 < party.left alice/1 #0 x1 (party_left of alice)\n"
           "12 < sub 1 error #0 (party_left of alice)\n12 < sub 1 end #1 (party_left of alice)\n");
}

Test(core, refuses_a_late_commit_and_says_what_won)
{
    uint32_t a = open_by_alice();
    promise(1, a, 0, 100);
    pass_ms(101);
    forget();
    commit(1, a, 0, 7);
    EXPECT("1 < refusal #0 (deadline of alice)\n1 < accepted 2 0\n");
}

Test(core, does_nothing_twice_when_frames_come_again)
{
    uint32_t a = open_by_alice();
    publish(1, a, 0, 4, 5);
    closed(11);
    say_hello_again(1);
    attach(1, 11, tokens[1]);
    forget();
    frames[1] = 2; /* two of them were not acknowledged: sent again with two more */
    publish(1, a, 2, 4, 6);
    EXPECT("1 < accepted 6 0\n");
    join(2);
    subscribe(2, 1, "alice/a", "", 0, 0);
    EXPECT("2 < subscribed 0\n2 < accepted 0 1\n12 < sub 1 payload 5 x1\n"
           "12 < sub 1 payload 6 part 2 x2\n");
}

Test(core, settles_numbers_that_are_jumped_over_as_cancelled)
{
    uint32_t a = open_for_bob();
    publish(1, a, 100, 1, 5); /* the first may be any */
    publish(1, a, 102, 1, 6);
    forget();
    await_slot(2, 1, "alice/a", 101);
    await_slot(2, 2, "alice/a", 3);
    EXPECT("12 < sub 0 error #101 (cancelled of alice)\n"
           "12 < sub 0 error #3 (cancelled of alice)\n");
    publish(1, a, 102, 1, 6);
    EXPECT("1 < refusal #102 (rejected of alice)\n1 < accepted 3 0\n");
}

/* One number stays for the end behind it. */
Test(core, takes_the_last_numbers_that_there_are)
{
    uint32_t a = open_by_alice();
    forget();
    publish(1, a, UINT64_MAX - 2, 1, 5);
    EXPECT("1 < accepted 1 0\n");
    publish(1, a, UINT64_MAX - 1, 1, 6);
    EXPECT("1 < refusal #18446744073709551614 (rejected of alice)\n1 < accepted 2 0\n");
}

/* ---- retracting ------------------------------------------------------------------------------ */

Test(core, retracts_what_nobody_was_sent)
{
    uint32_t a = open_by_alice();
    publish(1, a, 0, 5, 5);
    forget();
    retract(1, a, 2);
    EXPECT("1 < result 0\n1 < accepted 5 1\n");
    join(2);
    subscribe(2, 1, "alice/a", "", 0, 0);
    EXPECT("2 < subscribed 0\n2 < accepted 0 1\n12 < sub 1 payload 5 part 0 x2\n"
           "12 < sub 1 error #2 (application of alice)\n12 < sub 1 payload 5 part 3 x2\n");
    retract(1, a, 3);
    EXPECT("1 < result 10\n1 < accepted 5 2\n");
}

Test(core, answers_a_retraction_again_when_it_is_asked_again)
{
    uint32_t a = open_by_alice();
    publish(1, a, 0, 1, 5);
    struct span error = an_error("job/alice/1/1");
    struct msg msg = {
        .type = MSG_RETRACT,
        .as.retract = {.number = 1, .after = 1, .topic = a, .seq = 0, .error = error}};
    forget();
    message(1, msg);
    message(1, msg);
    EXPECT("1 < result 0\n1 < accepted 1 1\n1 < result 0\n");
}

Test(core, remembers_that_it_retracted_when_the_slot_is_no_longer_kept)
{
    options.topic_keep_bytes = 64;
    restart();
    uint32_t a = open_by_alice();
    publish(1, a, 0, 1, 5);
    retract(1, a, 0);
    for (uint32_t i = 1; i < 10; i++)
        publish(1, a, i, 1, 5 + i);
    forget();
    numbers[1] = 0; /* the answer was lost */
    retract(1, a, 0);
    EXPECT("1 < result 0\n");
}

/* It was answered with no, and its answer may be lost: its turn was before what is parked. */
Test(core, answers_again_at_once_while_others_wait_for_their_data)
{
    uint32_t a = open_for_bob();
    publish(1, a, 0, 1, 5);
    struct msg late = {.type = MSG_RETRACT,
                       .as.retract = {.number = 1, .after = 1, .topic = a, .error = an_error("")}};
    numbers[1] = 1;
    message(1, late);
    forget();
    fail(1, a, 1, 2);
    EXPECT("");
    message(1, late);
    EXPECT("1 < result 10\n");
    reserve(1, a, 1);
    EXPECT("1 < accepted 2 2\n12 < sub 1 error #1 (application of alice)\n");
}

/* ---- waiting --------------------------------------------------------------------------------- */

Test(core, answers_waits_for_open_settled_and_unpromised_slots)
{
    join(1);
    join(2);
    uint32_t a = open_topic(1, "alice/a");
    publish(1, a, 0, 3, 5);
    reserve(1, a, 3);
    forget();
    await_slot(2, 1, "alice/a", 1);
    EXPECT("12 < sub 0 payload 5 part 1 x1\n");
    await_slot(2, 2, "alice/a", 3);
    await_slot(2, 3, "alice/a", 4);
    EXPECT("");
    commit(1, a, 3, 6);
    EXPECT("1 < accepted 5 0\n12 < sub 0 payload 6 x1\n");
    publish(1, a, 4, 1, 7);
    EXPECT("1 < accepted 6 0\n12 < sub 0 payload 7 x1\n");
}

Test(core, waits_for_who_has_not_joined_and_not_for_who_has_gone)
{
    join(2);
    await_slot(2, 1, "alice/a", 7);
    pass_ms(5000);
    forget();
    join(1);
    leave(1, 0);
    EXPECT("1 < over 13\n1 dropped\n11 dropped\n12 < sub 0 error #7 (party_left of alice)\n");
    await_slot(2, 2, "alice/other", 0);
    EXPECT("12 < sub 0 error #0 (party_left of alice)\n");
}

/* ---- joining and ending ---------------------------------------------------------------------- */

Test(core, loses_a_party_whose_connection_does_not_come_back)
{
    join(1);
    join(2);
    tap(3);
    subscribe(2, 1, "alice/#", "", 0, 0);
    uint32_t a = open_topic(1, "alice/a");
    reserve(1, a, 0);
    reserve(1, a, 1);
    forget();
    closed(1);
    EXPECT("1 dropped\n11 dropped\n3 < party.suspect alice/1 #0 x0\n");
    pass_ms(999);
    EXPECT("");
    pass_ms(1);
    EXPECT("3 < party.lost alice/1 #0 x2 (party_lost of alice)\n"
           "12 < sub 1 error #0 (party_lost of alice)\n"
           "12 < sub 1 error #1 (party_lost of alice)\n"
           "12 < sub 1 end #1 (party_lost of alice)\n");
    say_hello_again(1);
    EXPECT("1 < refused 11 errbus.fenced\n1 dropped\n");
}

Test(core, suspects_and_loses_a_silent_party_and_tells_it)
{
    join(1);
    tap(3);
    beat_on(24, 100, (conn_id[]){3, 0}); /* the tap beats, alice does not */
    forget();
    pass_ms(200);
    EXPECT("3 < party.suspect alice/1 #0 x0\n");
    beat_on(73, 100, (conn_id[]){3, 0});
    forget();
    pass_ms(200);
    EXPECT("1 < over 11 (party_lost of alice)\n1 dropped\n11 dropped\n"
           "3 < party.lost alice/1 #0 x0 (party_lost of alice)\n"
           "3 < verdict.final alice/1 #0 x0 (party_lost of alice)\n");
}

static void greet(conn_id conn, uint64_t client, uint64_t dial)
{
    struct msg msg = hello(conn, 0);
    msg.as.hello.client = client;
    msg.as.hello.dial = dial;
    message(conn, msg);
}

/* She did not hear that she is welcome, and greets again: that is no second incarnation. */
Test(core, knows_a_client_whose_greeting_was_slow)
{
    tap(3);
    greet(1, 77, 1);
    EXPECT("1 < welcome incarnation 1\n3 < party.joined alice/1 #0 x0\n");
    greet(21, 77, 2);
    EXPECT("1 dropped\n21 < welcome incarnation 1\n");
    greet(31, 77, 1); /* was under way for long */
    EXPECT("31 dropped\n");
    greet(41, 78, 1);
    EXPECT("41 < refused 12 errbus.name_taken\n41 dropped\n");
    attach(21, 11, tokens[21]);
    EXPECT("21 < attached\n");
    leave(21, 0);
    forget();
    greet(51, 77, 2); /* even now */
    EXPECT("51 dropped\n");
    greet(61, 78, 1);
    EXPECT(
        "61 < welcome incarnation 2\n3 < job.run alice/2 #0 x2\n3 < party.joined alice/2 #0 x0\n");
}

/* Alice says nothing any more, bob all the time.  When she is lost, by the clock. */
static int64_t lose_while_late(int64_t late_ms)
{
    int64_t begin_ns = now_ns;
    forget();
    while (strstr(said, "party.lost alice") == NULL) {
        cr_assert_lt(now_ns - begin_ns, 3600 * 1000 * MS, "she is never lost");
        now_ns += late_ms * MS;
        beat(2); /* they are read first */
        beat(3);
        step((struct event){.type = EVENT_TICK});
        message(3, (struct msg){.type = MSG_TAP_TAKEN, .as.tap_taken.id = 1});
    }
    cr_expect_null(strstr(said, " bob/"), "%s", said);
    return (now_ns - begin_ns) / MS;
}

/* A broker that is late every time has a clock of half the speed, and not one that stands. */
Test(core, loses_the_dead_though_it_is_late_every_time)
{
    static const int64_t late_ms[] = {400, 501, 600, 1000, 4000, 9000, 11000, 25000};
    for (size_t i = 0; i < sizeof late_ms / sizeof late_ms[0]; i++) {
        join(1);
        join(2);
        tap(3);
        int64_t lost_ms = lose_while_late(late_ms[i]);
        cr_expect_leq(lost_ms, 2 * (10500 + 2 * late_ms[i]), "late by %d ms: after %d ms",
                      (int)late_ms[i], (int)lost_ms);
        cr_expect_geq(lost_ms, 10000);
        fini();
        init();
        memset(numbers, 0, sizeof numbers);
        memset(frames, 0, sizeof frames);
    }
}

/* The broker was late, by less than what it takes for a standstill, and looks once more. */
Test(core, loses_nobody_that_was_not_suspect_for_half_a_beat)
{
    struct msg quick = hello(1, 0);
    quick.as.hello.heartbeat_ms = 100;
    quick.as.hello.lost_after_ms = 600;
    message(1, quick);
    attach(1, 11, tokens[1]);
    tap(3);
    for (int i = 0; i < 2; i++) {
        now_ns += 650 * MS;
        step((struct event){.type = EVENT_TICK});
        EXPECT("3 < party.suspect alice/1 #0 x0\n");
        pass_ms(49);
        EXPECT("");
        if (i == 0)
            message(1, (struct msg){.type = MSG_PROGRESS});
        pass_ms(1);
        EXPECT(i == 0 ? "3 < party.resumed alice/1 #0 x0\n"
                      : "1 < over 11 (party_lost of alice)\n1 dropped\n11 dropped\n"
                        "3 < party.lost alice/1 #0 x0 (party_lost of alice)\n"
                        "3 < verdict.final alice/1 #0 x0 (party_lost of alice)\n");
    }
}

Test(core, resumes_a_session_where_it_was)
{
    uint32_t a = open_for_bob();
    publish(1, a, 0, 2, 5);
    publish(1, a, 2, 2, 6);
    closed(12);
    forget();
    say_hello_again(2);
    EXPECT("2 < welcome incarnation 1, resumed\n");
    message(2, (struct msg){.type = MSG_POSITION,
                            .as.position = {.sub = 1, .topic = a, .next_seq = 2}});
    attach(2, 12, tokens[2]);
    EXPECT("2 < attached\n2 < accepted 0 1\n12 < sub 1 payload 6 x1\n");
}

/* Of several connections that its client made, the newest counts, not the last to be heard of. */
Test(core, resumes_on_the_newest_connection)
{
    struct msg again = hello(2, 0);
    again.as.hello.dial = 1;
    message(2, again);
    again.as.hello.token = tokens[2];
    again.as.hello.dial = 3;
    forget();
    message(22, again);
    EXPECT("2 dropped\n22 < welcome incarnation 1, resumed\n");
    for (again.as.hello.dial = 1; again.as.hello.dial <= 3; again.as.hello.dial++) {
        message(12, again);
        EXPECT("12 dropped\n");
    }
    message(12, again);
    EXPECT("22 dropped\n12 < welcome incarnation 1, resumed\n");
}

/* What happens between WELCOME and TAP is not missed by who asks for what comes from then on. */
Test(core, tells_an_observer_where_now_begins)
{
    join(1);
    observe(3, job_name);
    uint64_t now = event_next;
    join(2);
    tap_from(3, now, 1000);
    EXPECT("3 < party.joined bob/1 #0 x0\n");
}

/* The data channel is slow, and brings the ATTACH of a connection when there is another. */
Test(core, attaches_only_to_the_connection_that_it_welcomed)
{
    say_hello(2);
    message(22, hello(2, tokens[2])); /* he gave that one up */
    forget();
    struct msg late = {.type = MSG_ATTACH, .as.attach = {.token = tokens[2], .connection = 2}};
    message(12, late);
    EXPECT("12 dropped\n");
    attach(22, 13, tokens[2]);
    EXPECT("22 < attached\n");
    message(14, late);
    EXPECT("14 dropped\n");
    closed(22);
    forget();
    message(15, late);
    EXPECT("15 dropped\n");
}

Test(core, says_goodbye_to_who_comes_while_it_stops)
{
    join(1);
    tap(3);
    forget();
    step((struct event){.type = EVENT_STOP});
    EXPECT("1 < bye\n3 < bye\n");
    closed(1);
    forget();
    message(21, hello(1, 0));
    message(22, hello(1, tokens[1]));
    EXPECT("21 < bye\n21 dropped\n22 < bye\n22 dropped\n");
}

Test(core, refuses_a_second_live_party_of_a_name_and_replaces_a_dead_one)
{
    uint32_t a = open_by_alice();
    reserve(1, a, 0);
    message(21, hello(1, 0));
    forget();
    message(31, hello(1, 0));
    EXPECT("31 < refused 12 errbus.name_taken\n31 dropped\n");
    closed(1);
    tap(3);
    message(5, hello(1, 0));
    EXPECT("5 < welcome incarnation 2\n3 < party.lost alice/1 #0 x1 (party_lost of alice)\n"
           "3 < party.joined alice/2 #0 x0\n");
}

Test(core, does_not_blame_parties_for_the_time_it_stood_still_itself)
{
    join(1);
    tap(3);
    forget();
    now_ns += 60000 * MS; /* no tick came: it was the broker that did not run */
    step((struct event){.type = EVENT_TICK});
    EXPECT("");
    beat(1);
    EXPECT("1 < echo\n");
}

Test(core, puts_an_end_between_two_incarnations)
{
    join(1);
    join(2);
    subscribe(2, 1, "alice/#", "", 0, 0);
    uint32_t a = open_topic(1, "alice/a");
    closed(12); /* bob is away while alice dies and comes back */
    publish(1, a, 0, 1, 5);
    leave(1, 1);
    join(1);
    a = open_topic(1, "alice/a");
    publish(1, a, 1, 1, 6);
    resume(2, tokens[2], 0);
    forget();
    join(4);
    closed(12);
    say_hello_again(2);
    forget();
    attach(2, 12, tokens[2]);
    EXPECT("2 < attached\n2 < accepted 0 1\n12 < sub 1 payload 5 x1\n12 < sub 1 end #1\n"
           "12 < sub 1 payload 6 x1\n");
}

/* So many incarnations of alice, each with one value and lost, but the last one is live. */
static void live_often(uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        join(1);
        publish(1, open_topic(1, "alice/a"), i, 1, 5 + i);
        if (i + 1 < count) {
            closed(1);
            pass_ms(1000);
        }
    }
    forget();
}

/* Who comes late gets the end of each incarnation where it was, as who was there before. */
Test(core, tells_who_comes_late_of_each_end_in_its_place)
{
    static const char *const all = "12 < sub 1 payload 5 x1\n"
                                   "12 < sub 1 end #1 (party_lost of alice)\n"
                                   "12 < sub 1 payload 6 x1\n"
                                   "12 < sub 1 end #2 (party_lost of alice)\n"
                                   "12 < sub 1 payload 7 x1\n";
    join(2);
    live_often(3);
    compact();
    subscribe(2, 1, "alice/#", "", 0, 0);
    cr_expect_not_null(strstr(said, all), "%s", said);
    forget();
    leave(1, 1);
    cr_expect_not_null(strstr(said, "12 < sub 1 end #3\n"), "%s", said);
    forget();
    subscribe(2, 2, "alice/a", "", 1, 0); /* what incarnation 1 wrote lies below */
    cr_expect_null(strstr(said, "end #1"));
    cr_expect_not_null(strstr(said, "12 < sub 2 payload 6 x1\n"
                                    "12 < sub 2 end #2 (party_lost of alice)\n"
                                    "12 < sub 2 payload 7 x1\n12 < sub 2 end #3\n"),
                       "%s", said);
    forget();
    subscribe(2, 4, "alice/a", "", FROM_NOW, 0);
    cr_expect_null(strstr(said, "end #2"));
    cr_expect_not_null(strstr(said, "12 < sub 4 end #3\n"), "%s", said);
}

/* A durable name is told of them over a restart of the broker. */
Test(core, tells_a_durable_name_of_ends_before_it_after_a_restart)
{
    join(2);
    live_often(2);
    closed(12);
    say_hello_again(2);
    subscribe(2, 1, "alice/#", "deep", 0, 0); /* nothing is sent of it yet */
    compact();
    crash(100);
    resume(2, tokens[2], 0);
    cr_expect_not_null(strstr(said, "12 < sub 1 payload 5 x1\n"
                                    "12 < sub 1 end #1 (party_lost of alice)\n"
                                    "12 < sub 1 payload 6 x1\n"),
                       "%s", said);
}

/* In the next run nobody has ended yet: who comes first waits for those of whom it knows. */
Test(core, waits_in_the_next_run_for_who_ended_in_the_last_one)
{
    join(1);
    join(2);
    publish(1, open_topic(1, "alice/a"), 0, 1, 5);
    leave(1, 1);
    leave(2, 0);
    join(2); /* begins it */
    forget();
    subscribe(2, 1, "alice/a", "", 0, 0);
    await_slot(2, 1, "alice/a", 0);
    cr_expect_null(strstr(said, "end"), "%s", said);
    cr_expect_null(strstr(said, "error"), "%s", said);
    forget();
    compact();
    join(1);
    cr_expect_null(strstr(said, "12 <"), "%s", said);
    forget();
    leave(1, 0);
    cr_expect_not_null(strstr(said, "12 < sub 0 error #0 (party_left of alice)\n"
                                    "12 < sub 1 end #2\n"),
                       "%s", said);
}

/* Beyond so many, the oldest ends are told as one: in the place of the last of them. */
Test(core, tells_the_oldest_ends_as_one)
{
    live_often(LIMIT_PARTY_ENDS + 3);
    join(2);
    compact();
    crash(100);
    resume(2, tokens[2], 0);
    forget();
    subscribe(2, 1, "alice/#", "", 0, 0);
    cr_expect_not_null(strstr(said, "12 < sub 1 payload 5 x1\n12 < sub 1 payload 6 x1\n"
                                    "12 < sub 1 payload 7 x1\n"
                                    "12 < sub 1 end #3 (party_lost of alice) since #1\n"
                                    "12 < sub 1 payload 8 x1\n"
                                    "12 < sub 1 end #4 (party_lost of alice)\n"),
                       "%s", said);
}

/* What ECHO says was sent on the data connection. */
static uint64_t told_bytes(conn_id conn)
{
    kept = steps;
    beat(conn);
    cr_assert_eq(effects.msgs[0].type, MSG_ECHO);
    return effects.msgs[0].as.echo.data_bytes;
}

Test(core, tells_with_each_echo_what_it_sent_on_the_data_connection)
{
    join(1);
    join(2);
    cr_expect_eq(told_bytes(2), 0);
    subscribe(2, 1, "alice/a", "", 0, 0);
    uint32_t a = open_topic(1, "alice/a");
    publish(1, a, 0, 1, 5);
    uint64_t named = 48 + 8; /* a header, and "alice/a" */
    uint64_t value = told_bytes(2) - named;
    cr_expect_eq(value, 64);
    publish(1, a, 1, 1, 6);
    await_slot(2, 1, "alice/a", 0);
    cr_expect_eq(told_bytes(2), 2 * named + 3 * value, "awaited slots count too");
    closed(12);
    say_hello_again(2);
    cr_expect_eq(told_bytes(2), 0, "not attached yet");
    attach(2, 12, tokens[2]);
    cr_expect_eq(told_bytes(2), named + 2 * value, "sent again, for nothing was told as taken");
    forget();
}

/* Frames of steps that are not in the journal yet are held: no ECHO may speak of them. */
Test(core, tells_with_no_echo_what_waits_for_the_journal)
{
    uint32_t a = open_for_bob();
    publish(1, a, 0, 1, 5);
    uint64_t first = told_bytes(2);
    publish(1, a, 1, 1, 6);
    kept = steps - 1; /* all but that */
    beat(2);
    cr_expect_eq(effects.msgs[0].as.echo.data_bytes, first);
    uint64_t marked = steps;
    publish(1, a, 2, 1, 7);
    for (; kept <= marked; kept++) {
        beat(2);
        uint64_t told = effects.msgs[0].as.echo.data_bytes;
        cr_expect_eq(told, kept < marked ? first : first + 64, "%d", (int)(told - first));
    }
    cr_expect_eq(told_bytes(2), first + 2 * 64, "all of it is kept");
}

/* Number 0 is what AWAIT is answered on, and what facts say of one that nobody reads now. */
Test(core, refuses_a_subscription_without_a_number)
{
    join(1);
    forget();
    subscribe(1, 0, "alice/#", "", 0, 0);
    cr_expect_not_null(strstr(said, "subscribed 12"), "%s", said);
    forget();
    subscribe(1, 0, "alice/#", "durable", 0, 0);
    cr_expect_not_null(strstr(said, "subscribed 12"), "%s", said);
}

/* Sending an end makes its subscription ready again while its turn is not over yet: queued twice,
 * it would never leave. */
Test(core, queues_a_subscription_once_after_an_end, .timeout = 100)
{
    join(1);
    join(2);
    subscribe(2, 1, "alice/#", "", 0, 0);
    subscribe(2, 2, "alice/a", "", 0, 0);
    subscribe(2, 3, "bob/#", "", 0, 0);
    publish(1, open_topic(1, "alice/a"), 0, 1, 5);
    forget();
    leave(1, 1);
    EXPECT("1 < over 13\n1 dropped\n11 dropped\n12 < sub 1 end #1\n12 < sub 2 end #1\n");
    step((struct event){.type = EVENT_TICK});
    EXPECT("");
    join(1);
    publish(1, open_topic(1, "alice/a"), 1, 1, 6);
    EXPECT("1 < accepted 1 0\n12 < sub 1 payload 6 x1\n12 < sub 2 payload 6 x1\n");
    publish(2, open_topic(2, "bob/b"), 0, 1, 7);
    EXPECT("2 < accepted 1 3\n12 < sub 3 payload 7 x1\n");
}

/* ---- credit, durability, gaps ---------------------------------------------------------------- */

/* Frames of 64 bytes; the name of alice/a takes 56. */
enum { NAMED = 48 + 8 };

Test(core, holds_a_writer_back_and_lets_settlements_through)
{
    options.topic_window_bytes = 1024;
    restart();
    uint32_t a = open_for_bob();
    tap(3);
    reserve(1, a, 0);
    publish(1, a, 1, 16, 5); /* 128 + 1024 > 1024: one may pass the limit */
    forget();
    publish(1, a, 17, 1, 6);
    cr_expect_not_null(strstr(said, "refusal #17 (rejected of alice)"));
    forget();
    commit(1, a, 0, 7);
    cr_expect_not_null(strstr(said, "12 < sub 1 payload 7 x1\n12 < sub 1 payload 5 x1\n"));
    forget();
    taken(2, 1, NAMED + 64 + (48 + 16 * 16)); /* a value alone, 16 in one frame */
    cr_expect_not_null(strstr(said, "1 < credit"));
}

/* The text of a log line outlives the step that told it. */
Test(core, tells_the_log_who_is_slow)
{
    options.topic_window_bytes = 1024;
    restart();
    uint32_t a = open_for_bob();
    publish(1, a, 0, 16, 5);
    cr_expect_str_eq(
        logged, "consumer.slow: bob holds the writer of alice/a back: 1024 bytes are not taken");
    forget();
}

/* Bob is there, and alice opens a topic that holds 16 frames, and keeps 4 for who comes late. */
static uint32_t open_small(void)
{
    options.topic_window_bytes = 1024;
    options.topic_keep_bytes = 256;
    restart();
    join(2);
    return open_by_alice();
}

/* Batches of four values; their payloads are numbered from 5 on. */
static void publish_fours(uint32_t topic, uint32_t begin, uint32_t end)
{
    for (uint32_t i = begin; i < end; i++)
        publish(1, topic, i * 4, 4, 5 + i);
}

/* Number 0 is a number: who begins there and comes late is told what is gone, also if it asked to
 * lose slots rather than hold the writer back. */
Test(core, tells_who_comes_late_what_is_gone)
{
    options.topic_keep_bytes = 256;
    restart();
    uint32_t a = open_by_alice();
    join(2);
    tap(3);
    publish_fours(a, 0, 20);
    forget();
    subscribe(2, 1, "alice/a", "", 0, 0);
    cr_expect_not_null(strstr(said, "12 < sub 1 gap #0 x76 not kept\n12 < sub 1 payload 24 x1\n"));
    forget();
    subscribe(2, 2, "alice/a", "", 5, 1);
    cr_expect_not_null(strstr(said, "12 < sub 2 gap #5 x71 not kept\n12 < sub 2 payload 24 x1\n"));
    cr_expect_null(strstr(said, "consumer.slow"));
    forget();
    subscribe(2, 3, "alice/a", "", FROM_OLDEST, 0);
    cr_expect_not_null(strstr(said, "12 < sub 3 payload 24 x1\n"));
    cr_expect_null(strstr(said, "gap"));
}

/* Bob does when there were four batches and his data connection does not stand yet. */
static uint32_t subscribe_between_connections(const char *durable, uint64_t overflow)
{
    uint32_t a = open_small();
    publish_fours(a, 0, 4);
    closed(12);
    say_hello_again(2);
    subscribe(2, 1, "alice/a", durable, 0, overflow);
    return a;
}

/* What was gone before it came, and what it was too slow for, are two gaps. */
Test(core, tells_what_was_gone_apart_from_what_was_lost_since)
{
    uint32_t a = subscribe_between_connections("", 1);
    publish_fours(a, 4, 20);
    forget();
    attach(2, 12, tokens[2]);
    cr_expect_not_null(strstr(said, "12 < sub 1 gap #0 x12 not kept\n12 < sub 1 gap #12 x52\n"
                                    "12 < sub 1 payload 21 x1\n"));
}

/* A durable name that nobody read for too long was not too slow: what went before it came, and what
 * went meanwhile, are one gap. */
Test(core, tells_a_durable_name_that_stayed_away_of_one_gap)
{
    uint32_t a = subscribe_between_connections("diary", 0);
    message(2, (struct msg){.type = MSG_UNSUBSCRIBE,
                            .as.unsubscribe = {.number = ++numbers[2], .sub = 1}});
    pass_ms(6000); /* its keeping time is 5 s */
    publish_fours(a, 4, 20);
    attach(2, 12, tokens[2]);
    forget();
    subscribe(2, 2, "alice/a", "diary", 0, 0);
    cr_expect_not_null(strstr(said, "12 < sub 2 gap #0 x64 not kept\n12 < sub 2 payload 21 x1\n"));
}

/* A writer that begins at a number of its own left nothing out below it. */
Test(core, tells_nobody_of_numbers_below_the_first_one)
{
    join(1);
    join(2);
    uint32_t a = open_topic(1, "alice/a");
    publish(1, a, 7, 1, 5);
    forget();
    subscribe(2, 1, "alice/a", "", 0, 0);
    cr_expect_not_null(strstr(said, "12 < sub 1 payload 5 x1\n"));
    cr_expect_null(strstr(said, "gap"));
}

Test(core, drops_the_oldest_for_who_asked_for_it)
{
    uint32_t a = open_small();
    tap(3);
    subscribe(2, 1, "alice/a", "", 0, 1);
    closed(12);
    publish_fours(a, 0, 20);
    say_hello_again(2);
    forget();
    attach(2, 12, tokens[2]);
    cr_expect_not_null(strstr(said, "12 < sub 1 gap #0 x64\n12 < sub 1 payload 21 x1\n"));
}

/* What is kept for late readers is older than what may be lost, and goes first. */
Test(core, drops_the_oldest_though_older_slots_are_kept_for_who_comes_late)
{
    uint32_t a = open_small();
    join(3);
    subscribe_as(
        2, (struct msg_subscribe){
               .sub = 1, .pattern = span_text("alice/a"), .overflow = 1, .window_bytes = 4096});
    publish_fours(a, 0, 1);
    taken(2, 1, NAMED + 48 + 16 * 4); /* and no more of them; he has no window for all */
    publish_fours(a, 1, 60);
    cr_expect_null(strstr(said, "12 < sub 1 payload 64"), "%s", said);
    forget();
    subscribe(3, 1, "alice/a", "", FROM_OLDEST, 0);
    cr_expect_not_null(strstr(said, "13 < sub 1 payload 61 x1\n"), "%s", said);
    cr_expect_null(strstr(said, "payload 60 "), "the window is four batches: %s", said);
}

/* A durable name has taken more than a window and not acknowledged it: none of it may go. */
Test(core, drops_nothing_older_for_what_is_held)
{
    uint32_t a = open_small();
    join(3);
    subscribe(2, 1, "alice/a", "mine", 0, 0);
    for (uint32_t i = 0; i < 10; i++) {
        publish_fours(a, i, i + 1);
        taken(2, 1, (uint64_t)NAMED + (i + 1) * (48 + 16 * 4)); /* of all bytes since it began */
    }
    ack(2, 1, a, 4);
    publish_fours(a, 10, 11);
    forget();
    subscribe(3, 1, "alice/a", "", FROM_OLDEST, 0);
    cr_expect_not_null(strstr(said, "13 < sub 1 payload 5 x1\n"), "%s", said);
    cr_expect_not_null(strstr(said, "13 < sub 1 payload 15 x1\n"), "%s", said);
}

Test(core, lets_a_durable_name_go_on_at_its_last_acknowledgement)
{
    join(1);
    join(2);
    subscribe(2, 1, "alice/a", "mine", 0, 0);
    uint32_t a = open_topic(1, "alice/a");
    for (uint32_t i = 0; i < 4; i++)
        publish(1, a, i, 1, 5 + i);
    ack(2, 1, a, 2);
    closed(2);
    pass_ms(1000);
    say_hello(2);
    numbers[2] = 0;
    attach(2, 12, tokens[2]);
    forget();
    subscribe(2, 9, "alice/a", "mine", 0, 0);
    EXPECT(
        "2 < subscribed 0\n2 < accepted 0 1\n12 < sub 9 payload 7 x1\n12 < sub 9 payload 8 x1\n");
    subscribe(2, 10, "alice/b", "mine", 0, 0);
    EXPECT("2 < subscribed 12\n2 < accepted 0 2\n");
}

/* ---- values in chunks ------------------------------------------------------------------------ */

Test(core, settles_with_the_last_chunk_and_sends_them_in_turn)
{
    uint32_t a = open_for_bob();
    reserve(1, a, 0);
    forget();
    chunk(1, a, 0, 300, 0, 200, 5);
    EXPECT("1 < chunked 200\n12 < sub 1 payload 5 x1\n");
    chunk(1, a, 0, 300, 0, 200, 6); /* again */
    EXPECT("");
    chunk(1, a, 0, 300, 200, 100, 7);
    EXPECT("1 < chunked 300\n12 < sub 1 payload 7 x1\n");
}

Test(core, passes_chunks_on_as_they_come_and_an_error_in_their_place)
{
    uint32_t a = open_for_bob();
    reserve(1, a, 0);
    reserve(1, a, 1);
    chunk(1, a, 1, 300, 0, 100, 4); /* its turn has not come */
    chunk(1, a, 0, 300, 0, 100, 5);
    forget();
    fail(1, a, 0, 1);
    EXPECT("1 < accepted 2 1\n12 < sub 1 error #0 (application of alice)\n"
           "12 < sub 1 payload 4 x1\n");
    retract(1, a, 1); /* what was sent of it is no outcome, and seals nothing */
    EXPECT("1 < result 0\n1 < accepted 2 2\n12 < sub 1 error #1 (application of alice)\n");
}

/* Bob comes back, and says how much he has of slot 0. */
static void come_back(uint32_t a, uint64_t chunk_offset)
{
    closed(12);
    say_hello_again(2);
    message(2, (struct msg){.type = MSG_POSITION,
                            .as.position = {.sub = 1, .topic = a, .chunk_offset = chunk_offset}});
    forget();
    attach(2, 12, tokens[2]);
}

/* Slot 0 of a topic of alice's, of whose 300 bytes 200 are there, and have been sent to bob. */
static uint32_t open_with_chunks(void)
{
    uint32_t a = open_for_bob();
    reserve(1, a, 0);
    chunk(1, a, 0, 300, 0, 100, 4);
    chunk(1, a, 0, 300, 100, 100, 5);
    return a;
}

Test(core, goes_on_behind_the_chunks_that_a_reader_has)
{
    uint32_t a = open_with_chunks();
    come_back(a, 100);
    EXPECT("2 < attached\n2 < accepted 0 1\n12 < sub 1 payload 5 x1\n");
    come_back(a, 200);
    EXPECT("2 < attached\n2 < accepted 0 1\n");
    chunk(1, a, 0, 300, 200, 100, 6);
    EXPECT("1 < chunked 300\n12 < sub 1 payload 6 x1\n");
}

/* A client tells a position for each topic that it has read.  Each is found by its number: the list
 * of all of them, which is empty here, is not walked. */
Test(core, finds_the_topic_of_a_position_by_its_number)
{
    uint32_t a = open_with_chunks();
    struct sub *sub = pool_next(&core->subs, 0);
    struct route *route = LIST_OWNER(sub->routes.next, struct route, sub_link);
    is_alone = true; /* the other core has it in its list */
    closed(12);
    say_hello_again(2);
    list_remove(&route->sub_link);
    message(2, (struct msg){.type = MSG_POSITION,
                            .as.position = {.sub = 1, .topic = a, .chunk_offset = 100}});
    list_push(&sub->routes, &route->sub_link);
    forget();
    attach(2, 12, tokens[2]);
    EXPECT("2 < attached\n2 < accepted 0 1\n12 < sub 1 payload 5 x1\n");
}

/* Of a value that is not whole, and of one that is: whoever has all of it says so by the number. */
Test(core, begins_a_value_again_for_who_has_more_of_it_than_there_is)
{
    uint32_t a = open_with_chunks();
    come_back(a, 201);
    EXPECT("2 < attached\n2 < accepted 0 1\n12 < sub 1 payload 4 x1\n"
           "12 < sub 1 payload 5 x1\n");
    chunk(1, a, 0, 300, 200, 100, 6);
    come_back(a, 299);
    EXPECT("2 < attached\n2 < accepted 0 1\n12 < sub 1 payload 6 x1\n");
    come_back(a, 300);
    EXPECT("2 < attached\n2 < accepted 0 1\n12 < sub 1 payload 4 x1\n"
           "12 < sub 1 payload 5 x1\n12 < sub 1 payload 6 x1\n");
}

/* Of a value in chunks the payload may be in the journal long before the outcome is. */
Test(core, says_which_values_were_settled_when_they_came)
{
    uint32_t a = open_for_bob();
    sent_whole = 0;
    publish(1, a, 0, 1, 5);
    cr_expect_eq(sent_whole, 1);
    reserve(1, a, 1);
    chunk(1, a, 1, 300, 0, 200, 6);
    chunk(1, a, 1, 300, 200, 100, 7);
    cr_expect_eq(sent_whole, 1);
    batch(1, 8, (struct event_range){.topic = a, .seq = 2, .count = 3, .value_bytes = 16});
    cr_expect_eq(sent_whole, 2);
    subscribe(2, 2, "alice/a", "", 3, 0); /* from the middle of it */
    cr_expect_eq(sent_whole, 3);
}

Test(core, refuses_the_chunks_of_a_slot_that_has_failed_once)
{
    uint32_t a = open_by_alice();
    reserve(1, a, 0);
    chunk(1, a, 0, 300, 0, 100, 5);
    fail(1, a, 0, 1);
    forget();
    chunk(1, a, 0, 300, 100, 100, 6);
    chunk(1, a, 0, 300, 200, 100, 7);
    EXPECT("1 < refusal #0 (application of alice)\n1 < chunked 300\n1 < chunked 300\n");
}

/* Each kind of acknowledgement names what it is worth. */
Test(core, says_with_each_acknowledgement_what_survives)
{
    for (uint8_t level = 0; level < 4; level++) {
        options.durability = level;
        restart();
        durability = UINT64_MAX;
        join(1);
        cr_expect_eq(durability, level, "WELCOME");
        uint32_t a = open_topic(1, "alice/a");
        durability = UINT64_MAX;
        publish(1, a, 0, 1, 5);
        cr_expect_eq(durability, level, "ACCEPTED");
        reserve(1, a, 1);
        durability = UINT64_MAX;
        chunk(1, a, 1, 300, 0, 200, 6);
        cr_expect_eq(durability, level, "CHUNKED");
    }
}

/* ---- what breaks the protocol ---------------------------------------------------------------- */

Test(core, drops_who_breaks_the_protocol_and_nobody_else)
{
    join(1);
    join(2);
    tap(3);
    beat(7);
    EXPECT("7 dropped\n3 < refused /0 #0 x1\n");
    step((struct event){.type = EVENT_DATA, .conn = 8});
    EXPECT("8 dropped\n");
    pass_ms(LIMIT_COMPLAINTS_MS_MIN); /* rejected connections are told of now and then */
    EXPECT("3 < refused /0 #0 x1\n");
    step((struct event){.type = EVENT_VIOLATION, .conn = 11, .as.complaint = "noise"});
    EXPECT("1 dropped\n11 dropped\n3 < refused alice/1 #0 x1\n3 < party.suspect alice/1 #0 x0\n");
    beat(2);
    EXPECT("2 < echo\n");
}

Test(core, lets_nobody_write_what_belongs_to_another)
{
    join(1);
    join(2);
    tap(3);
    uint32_t a = open_topic(1, "alice/a");
    message(2, (struct msg){.type = MSG_TOPIC_OPEN,
                            .as.topic_open = {.request = 1, .topic = span_text("alice/a")}});
    EXPECT("2 < opened 12 next 0\n");
    publish(2, a, 0, 1, 5);
    EXPECT("2 dropped\n12 dropped\n3 < refused bob/1 #0 x1\n3 < party.suspect bob/1 #0 x0\n");
}

Test(core, does_not_look_into_another_job)
{
    uint32_t a = open_by_alice();
    publish(1, a, 0, 1, 5);
    struct msg other = hello(2, 0);
    other.as.hello.job = span_text("other");
    message(2, other);
    attach(2, 12, tokens[2]);
    forget();
    numbers[2] = 0;
    subscribe(2, 1, "#", "", 0, 0);
    EXPECT("2 < subscribed 0\n2 < accepted 0 1\n");
}

Test(core, greets_only_who_speaks_its_version_and_has_a_name)
{
    struct msg msg = hello(1, 0);
    msg.as.hello.major = PROTOCOL_MAJOR + 1;
    message(1, msg);
    EXPECT("1 < refused 6 errbus.version\n1 dropped\n");
    msg = hello(1, 0);
    msg.as.hello.party = span_text("a/b");
    message(1, msg);
    EXPECT("1 < refused 1 errbus.name\n1 dropped\n");
    msg = hello(1, 0);
    msg.as.hello.lost_after_ms = 2999;
    message(1, msg);
    EXPECT("1 < refused 1 errbus.name\n1 dropped\n");
    message(1, hello(1, 12345));
    EXPECT("1 < refused 11 errbus.fenced\n1 dropped\n");
    msg = hello(1, 12345);
    msg.as.hello.broker = 77;
    message(1, msg);
    EXPECT("1 < refused 7 errbus.session\n1 dropped\n");
}

/* An event is told before it can be in the journal, and is in it when it is told again. */
Test(core, says_of_each_event_whether_it_is_kept)
{
    join(1);
    tap(3);
    observe(4, "job");
    uint32_t a = open_topic(1, "alice/a");
    reserve(1, a, 0);
    uint64_t before = steps;
    forget();
    kept = steps; /* of the steps so far; this one cannot be in it */
    fail(1, a, 0, 1);
    EXPECT("1 < accepted 1 1\n3 < slot.failed alice/1 alice/a#0 x1 (application of alice)\n");
    tap_from(4, 1, 10);
    EXPECT("4 < party.joined alice/1 #0 x0, durable\n"
           "4 < slot.failed alice/1 alice/a#0 x1 (application of alice)\n");
    kept = before + 1; /* the one that failed it, and nothing behind */
    tap_from(4, 2, 10);
    EXPECT("4 < slot.failed alice/1 alice/a#0 x1 (application of alice), durable\n");
    kept = 0;
    tap_from(4, 1, 10);
    EXPECT("4 < party.joined alice/1 #0 x0\n"
           "4 < slot.failed alice/1 alice/a#0 x1 (application of alice)\n");
}

static void ask_status(conn_id conn)
{
    message(conn, (struct msg){.type = MSG_STATUS, .as.status.request = 1});
}

/* The row of alice; it is the only party. */
static const struct msg_status_row *row_of_alice(conn_id conn)
{
    const struct msg_status_row *row = NULL;
    forget();
    ask_status(conn);
    for (size_t i = 0; i < effects.msg_count; i++)
        if (effects.msgs[i].type == MSG_STATUS_ROW && effects.msgs[i].as.status_row.kind == 1)
            row = &effects.msgs[i].as.status_row;
    cr_assert_not_null(row);
    return row;
}

/* Of who is gone there is no last sign of life, but when and why she went. */
Test(core, says_in_its_status_when_a_party_ended_and_of_what)
{
    is_alone = true;
    join(1);
    observe(3, "");
    pass_ms(50);
    cr_expect_eq(row_of_alice(3)->silent_ms, 50);
    cr_expect_eq(row_of_alice(3)->ended_ms, 0);
    cr_expect_eq(row_of_alice(3)->reason.bytes, 0);
    leave(1, 0);
    cr_expect_eq(row_of_alice(3)->ended_ms, 1, "at least");
    pass_ms(70);
    cr_expect_eq(row_of_alice(3)->ended_ms, 70);
    cr_expect_eq(row_of_alice(3)->silent_ms, 0);
    cr_expect_eq(row_of_alice(3)->reason.bytes, 0, "she left well");
    join(1);
    cr_expect_eq(row_of_alice(3)->ended_ms, 0, "she is there again");
    break_down(1);
    cr_expect(span_equal(row_of_alice(3)->reason, span_text("app.broken")));
}

Test(core, lets_an_observer_without_a_job_ask_and_not_tap)
{
    join(1);
    tap(2);
    observe(3, "");
    EXPECT("3 < welcome incarnation 0\n");
    beat(3);
    ask_status(3);
    EXPECT("3 < echo\n3 < status_row\n3 < status_row\n3 < status_end\n");
    tap_from(3, 1, 10);
    EXPECT("3 dropped\n2 < refused /0 #0 x1\n");
    observe(3, "");
    forget();
    message(3, (struct msg){.type = MSG_TAP_TAKEN, .as.tap_taken.id = 1});
    EXPECT("3 dropped\n");
    pass_ms(LIMIT_COMPLAINTS_MS_MIN);
    EXPECT("2 < refused /0 #0 x1\n");
    struct msg nobody = hello(4, 0); /* a party has a job */
    nobody.as.hello.job = SPAN_NONE;
    message(4, nobody);
    EXPECT("4 < refused 1 errbus.name\n4 dropped\n");
}

Test(core, keeps_no_job_for_an_observer_that_has_none)
{
    join(1);
    observe(3, "");
    observe(4, "job");
    leave(1, 0);
    pass_ms(1500); /* beyond the job's linger, within the observers' silence */
    forget();
    ask_status(3);
    EXPECT("3 < status_row\n3 < status_row\n3 < status_end\n"); /* for the one that has it */
    closed(4);
    pass_ms(1500);
    forget();
    ask_status(3);
    EXPECT("3 < status_end\n");
}

/* ---- observers of jobs that do not exist ----------------------------------------------------- */

/* The broker has this one session, and nothing of a job. */
static void expect_no_job(conn_id asker)
{
    forget();
    ask_status(asker);
    EXPECT_OF("%u < status_end\n", asker);
    cr_expect_eq(core_job_count(core), 0);
    cr_expect_eq(core_session_count(core), 1);
    cr_expect_eq(journal_count, 0, "no fact was told");
    closed(asker);
    take_census();
}

Test(core, makes_no_job_for_an_observer)
{
    observe(3, "job");
    cr_expect_eq(event_next, 1, "the first event of a job is 1");
    cr_expect_eq(welcomed.attempt, 0);
    cr_expect_eq(core_job_count(core), 0);
    EXPECT("3 < welcome incarnation 0\n");
    expect_no_job(3);
}

Test(core, makes_no_job_for_a_tap)
{
    tap(3);
    message(3, (struct msg){.type = MSG_TAP_TAKEN, .as.tap_taken.id = 0});
    tap_from(3, 7, 10); /* it taps anew */
    cr_expect_eq(core_job_count(core), 0);
    observe(4, "another");
    closed(3);
    expect_no_job(4);
}

Test(core, tells_a_tap_of_the_job_that_comes)
{
    tap(5); /* from now on */
    observe(6, "job");
    tap_from(6, 3, 1000); /* an earlier job of this name had told it two events */
    observe(7, "job");    /* it taps later */
    observe(8, "another");
    tap_from(8, 1, 1000);
    say_hello(1);
    EXPECT("1 < welcome incarnation 1\n"
           "5 < party.joined alice/1 #0 x0\n6 < party.joined alice/1 #0 x0\n");
    tap_from(7, 1, 1000);
    EXPECT("7 < party.joined alice/1 #0 x0\n");
    say_hello(2);
    EXPECT("2 < welcome incarnation 1\n5 < party.joined bob/1 #0 x0\n"
           "6 < party.joined bob/1 #0 x0\n7 < party.joined bob/1 #0 x0\n");
}

Test(core, tells_a_tap_of_the_job_that_is_created)
{
    tap(5);
    ask_from(6);
    create_job(6, a_job(2, 2));
    EXPECT("6 < done 0 \n5 < job.created /0 #0 x0\n");
}

/* The window of a tap counts from the first event. */
Test(core, tells_a_tap_that_waited_no_more_than_its_window)
{
    observe(5, "job");
    tap_from(5, 1, 1);
    say_hello(1);
    say_hello(2);
    keep_lines("party.joined", "party.joined");
    EXPECT("5 < party.joined alice/1 #0 x0\n");
    message(5, (struct msg){.type = MSG_TAP_TAKEN, .as.tap_taken.id = 1});
    EXPECT("5 < party.joined bob/1 #0 x0\n");
}

Test(core, refuses_a_tap_that_takes_what_it_was_not_sent)
{
    observe(5, "job");
    tap_from(5, 1, 10);
    message(5, (struct msg){.type = MSG_TAP_TAKEN, .as.tap_taken.id = 1});
    EXPECT("5 dropped\n");
}

/* A job is kept by those who tap it, whenever they came. */
Test(core, keeps_a_job_for_the_tap_that_waited_for_it)
{
    tap(5);
    join(1);
    leave(1, 0);
    pass_ms(1500); /* beyond the job's linger, within the observers' silence */
    cr_expect_eq(core_job_count(core), 1);
    closed(5);
    pass_ms(1500);
    cr_expect_eq(core_job_count(core), 0);
}

Test(core, leaves_no_job_of_a_party_that_could_not_join)
{
    tap(5);
    uint32_t room = core->sessions.used_max;
    core->sessions.used_max = core->sessions.used;
    say_hello(1);
    EXPECT("1 < refused 4 errbus.full\n1 dropped\n");
    core->sessions.used_max = room;
    cr_expect_eq(core_job_count(core), 0);
    say_hello(1);
    EXPECT("1 < welcome incarnation 1\n5 < party.joined alice/1 #0 x0\n");
}

/* It asks of others; there need be no room for one of its own. */
Test(core, answers_an_observer_when_there_is_no_room_for_a_job)
{
    join(1);
    core->jobs.used_max = core->jobs.used;
    job_name = "other";
    say_hello(2);
    EXPECT("2 < refused 4 errbus.full\n2 dropped\n");
    observe(3, "other");
    ask_status(3);
    EXPECT("3 < welcome incarnation 0\n3 < status_row\n3 < status_row\n3 < status_end\n");
    job_name = "job";
}

Test(core, limits_open_slots)
{
    options.open_slots_max = 2;
    restart();
    uint32_t a = open_by_alice();
    reserve(1, a, 0);
    reserve(1, a, 1);
    forget();
    reserve(1, a, 2);
    EXPECT("1 < refusal #2 (rejected of alice)\n1 < accepted 3 0\n");
    commit(1, a, 0, 5);
    reserve(1, a, 3);
    EXPECT("1 < accepted 4 0\n1 < accepted 5 0\n");
}

/* A number that is read as the next one would wrap to 0. */
Test(core, has_no_refusals_beyond_those_a_client_says_it_has_seen)
{
    join(1);
    uint64_t token = tokens[1];
    closed(1);
    resume(1, token, UINT64_MAX);
    cr_expect_not_null(strstr(said, "1 < welcome incarnation 1, resumed"), "%s", said);
    cr_expect_null(strstr(said, "refusal"), "%s", said);
}

/* However many there were, only those come again that the client has not seen. */
Test(core, sends_again_only_the_refusals_that_a_client_has_not_seen)
{
    enum { REFUSED = 1100 }; /* more than are kept */
    join(1);
    uint64_t token = tokens[1];
    uint32_t a = open_topic(1, "alice/a");
    publish(1, a, 0, 1, 5);
    for (int i = 0; i < REFUSED; i++)
        commit(1, a, 0, 5); /* it is settled */
    closed(1);
    forget();
    resume(1, token, REFUSED - 2);
    uint32_t count = 0;
    for (const char *at = said; (at = strstr(at, "refusal #0")) != NULL; at++)
        count += 1;
    cr_expect_eq(count, 2, "%u", count);
}

/* The clock for people is set by hours, either way: silence is measured by the other one. */
Test(core, loses_nobody_and_forgets_nobody_when_the_wall_clock_jumps)
{
    join(1);
    tap(2);
    forget();
    for (int i = 0; i < 2; i++) {
        wall_ahead_ns = (i == 0 ? 5 : -5) * 3600000 * MS;
        beat_on(4, 1000, (conn_id[]){1, 2, 0});
        cr_expect_null(strstr(said, "suspect"), "%s", said);
        cr_expect_null(strstr(said, "lost"), "%s", said);
    }
    beat_on(12, 1000, (conn_id[]){2, 0});
    cr_expect_not_null(strstr(said, "party.lost alice/1"), "%s", said);
}

/* ---- what is said of data that does not come ------------------------------------------------- */

Test(core, takes_nothing_for_done_whose_outcome_did_not_come)
{
    join(1);
    join(2);
    uint32_t a = open_topic(1, "alice/a");
    publish(1, a, 0, 2, 5);
    subscribe(2, 1, "alice/a", "deep", 0, 0);
    ack_after(2, 1, 1, a, 2); /* what came of it is on its way */
    closed(2);
    pass_ms(1000);
    join(2);
    subscribe(2, 1, "alice/a", "deep", 0, 0);
    EXPECT("2 < subscribed 0\n2 < accepted 0 1\n12 < sub 1 payload 5 x1\n");
}

/* ---- closed before what it had done with was heard ------------------------------------------- */

static void unsubscribe(conn_id conn, uint32_t sub, bool is_drop)
{
    message(conn, (struct msg){.type = MSG_UNSUBSCRIBE,
                               .as.unsubscribe = {
                                   .number = ++numbers[conn], .sub = sub, .is_drop = is_drop}});
}

/* Bob reads three values of alice's by a durable name, is done with two, says so behind what came
 * of them, which is still on its way, and closes the subscription.  The topic of what comes. */
static uint32_t answer_and_close(bool is_drop)
{
    join(1);
    join(2);
    uint32_t a = open_topic(1, "alice/a");
    uint32_t b = open_topic(2, "bob/b");
    publish(1, a, 0, 1, 5);
    publish(1, a, 1, 1, 6);
    publish(1, a, 2, 1, 7);
    subscribe(2, 1, "alice/a", "deep", 0, 0);
    ack_after(2, 1, 1, a, 2);
    forget();
    unsubscribe(2, 1, is_drop);
    return b;
}

/* What came of them is there, and he reads on. */
static void read_on(uint32_t b)
{
    publish(2, b, 0, 1, 8);
    forget();
    subscribe(2, 2, "alice/a", "deep", 0, 0);
}

Test(core, acknowledges_what_was_done_with_before_a_durable_name_was_closed)
{
    uint32_t b = answer_and_close(false);
    read_on(b);
    EXPECT("2 < subscribed 0\n2 < accepted 1 4\n12 < sub 2 payload 7 x1\n");
}

/* It does not come to the next handle either, but to the next incarnation: its outcome is lost. */
Test(core, sends_nothing_again_that_is_to_be_acknowledged)
{
    (void)answer_and_close(false);
    forget();
    subscribe(2, 2, "alice/a", "deep", 0, 0);
    EXPECT("2 < subscribed 0\n12 < sub 2 payload 7 x1\n");
    crash(100);
    say_hello_again(2);
    forget();
    attach(2, 12, tokens[2]);
    EXPECT("2 < attached\n2 < credit\n2 < accepted 0 1\n12 < sub 2 payload 7 x1\n");
    closed(12);
    pass_ms(1000);
    join(2);
    subscribe(2, 1, "alice/a", "deep", 0, 0);
    EXPECT("2 < subscribed 0\n2 < accepted 0 1\n12 < sub 1 payload 5 x1\n"
           "12 < sub 1 payload 6 x1\n12 < sub 1 payload 7 x1\n");
}

/* ... also if the broker began anew meanwhile, with a snapshot of it all. */
Test(core, acknowledges_that_over_a_snapshot_too)
{
    uint32_t b = answer_and_close(false);
    compact();
    crash(100);
    resume(2, tokens[2], 0);
    read_on(b);
    EXPECT("2 < subscribed 0\n2 < accepted 1 4\n12 < sub 2 payload 7 x1\n");
}

Test(core, acknowledges_nothing_of_another_name_that_takes_the_place_of_one_that_is_gone)
{
    uint32_t b = answer_and_close(true);
    subscribe(2, 2, "alice/a", "other", 0, 0);
    publish(2, b, 0, 1, 8);
    unsubscribe(2, 2, false);
    forget();
    subscribe(2, 3, "alice/a", "other", 0, 0);
    EXPECT("2 < subscribed 0\n2 < accepted 1 6\n12 < sub 3 payload 5 x1\n"
           "12 < sub 3 payload 6 x1\n12 < sub 3 payload 7 x1\n");
}

/* Who reads from now on gets what is settled from now on: it begins with the oldest open slot. */
Test(core, begins_now_with_the_oldest_slot_that_is_open)
{
    join(1);
    join(2);
    uint32_t a = open_topic(1, "alice/a");
    publish(1, a, 0, 1, 5);
    reserve(1, a, 1);
    publish(1, a, 2, 1, 6);
    forget();
    subscribe(2, 1, "alice/a", "", FROM_NOW, 0);
    cr_expect_null(strstr(said, "payload"), "%s", said);
    forget();
    commit(1, a, 1, 7);
    cr_expect_not_null(strstr(said, "12 < sub 1 payload 7 x1\n12 < sub 1 payload 6 x1\n"), "%s",
                       said);
}

/* Bob began behind a slot of alice's that is open still, and acknowledged the value behind it. */
Test(core, sends_nothing_again_that_was_acknowledged_behind_an_open_slot)
{
    join(1);
    join(2);
    uint32_t a = open_topic(1, "alice/a");
    uint32_t b = open_topic(2, "bob/b");
    reserve(1, a, 0);
    publish(1, a, 1, 1, 5);
    subscribe(2, 1, "alice/a", "deep", 1, 0);
    ack_after(2, 1, 1, a, 2);
    reconnect(2);
    ack_after(2, 1, 1, a, 2);
    unsubscribe(2, 1, false);
    forget();
    subscribe(2, 2, "alice/a", "deep", 1, 0);
    EXPECT("2 < subscribed 0\n");
    publish(2, b, 0, 1, 8);
    publish(1, a, 2, 1, 6);
    forget();
    unsubscribe(2, 2, false);
    subscribe(2, 3, "alice/a", "deep", 1, 0);
    EXPECT("2 < accepted 1 6\n2 < subscribed 0\n2 < accepted 1 7\n12 < sub 3 payload 6 x1\n");
}

/* Bob has closed it, so he tells no position of it when he comes back; what he had acknowledged
 * before, he says again. */
Test(core, takes_an_acknowledgement_again_of_a_name_that_was_closed_meanwhile)
{
    join(1);
    join(2);
    uint32_t a = open_topic(1, "alice/a");
    for (uint32_t i = 0; i < 3; i++)
        publish(1, a, i, 1, 5 + i);
    reserve(1, a, 3);
    subscribe(2, 1, "alice/a", "deep", 0, 0);
    reconnect(2);
    ack(2, 1, a, 4); /* of what is not settled nothing was sent */
    unsubscribe(2, 1, false);
    subscribe(2, 2, "alice/a", "deep", 0, 0);
    closed(12);
    say_hello_again(2);
    ack(2, 2, a, 2);
    unsubscribe(2, 2, false);
    attach(2, 12, tokens[2]);
    forget();
    subscribe(2, 3, "alice/a", "deep", 0, 0);
    EXPECT("2 < subscribed 0\n2 < accepted 0 7\n12 < sub 3 payload 7 x1\n");
}

/* ---- short of memory ------------------------------------------------------------------------- */

static void *(*heap_resize)(struct memory *memory, void *block, size_t old_bytes, size_t new_bytes);

static void *resize_to_less(struct memory *from, void *block, size_t old_bytes, size_t new_bytes)
{
    return new_bytes > old_bytes ? NULL : heap_resize(from, block, old_bytes, new_bytes);
}

/* Of the only refusal that was said. */
static uint64_t number_of_refusal(void)
{
    const struct msg_refusal *told = NULL;
    for (uint32_t i = 0; i < effects.msg_count; i++)
        if (effects.msgs[i].type == MSG_REFUSAL) {
            cr_assert_null(told);
            told = &effects.msgs[i].as.refusal;
        }
    cr_assert_not_null(told);
    return told->number;
}

/* By its number a client says later that it has seen it; 0: it will not be sent again. */
Test(core, numbers_the_refusals_that_it_remembers)
{
    uint32_t a = open_by_alice();
    publish(1, a, 0, 1, 5);
    for (uint64_t number = 1; number <= 2; number++) {
        commit(1, a, 0, 5); /* it is settled */
        cr_expect_eq(number_of_refusal(), number);
    }
}

/* Who is not told of it goes on as if the value stood, and never counts its credit anew. */
Test(core, tells_of_a_refusal_that_it_cannot_remember)
{
    uint32_t a = open_by_alice();
    publish(1, a, 0, 1, 5);
    forget();
    heap_resize = memory.resize;
    memory.resize = resize_to_less;
    publish(1, a, 0, 1, 6);
    memory.resize = heap_resize;
    cr_expect_eq(number_of_refusal(), 0);
    EXPECT("1 < refusal #0 (rejected of )\n1 < accepted 2 0\n");
}

static uint64_t until_failure; /* of so many allocations the last one fails */

static void *resize_but_one(struct memory *from, void *block, size_t old_bytes, size_t new_bytes)
{
    bool is_failing = new_bytes > old_bytes && --until_failure == 0;
    return is_failing ? NULL : heap_resize(from, block, old_bytes, new_bytes);
}

/* Bob's subscription gets another pattern, which names carol, and the n-th allocation fails.
 * Whether that was refused. */
static bool add_pattern_with_failure(uint64_t n, const struct msg *add)
{
    forget();
    until_failure = n;
    heap_resize = memory.resize;
    memory.resize = resize_but_one;
    message(2, *add);
    memory.resize = heap_resize;
    return strstr(said, "2 < subscribed 0\n") == NULL;
}

/* Bob is not told that it was refused, and asks again.  Then he is told of carol's end, and gets
 * what she wrote, whatever there was no room for. */
Test(core, adds_the_rest_of_a_pattern_that_had_no_room)
{
    uint64_t refused = 0;
    for (bool is_refused = true; is_refused; refused += is_refused) {
        memset(numbers, 0, sizeof numbers);
        memset(frames, 0, sizeof frames);
        restart();
        join_all(3);
        uint32_t c = open_topic(3, "carol/c");
        publish(3, c, 0, 1, 5);
        subscribe(2, 1, "alice/a", "", 0, 0);
        const struct msg add = {
            .type = MSG_SUB_ADD,
            .as.sub_add = {.number = ++numbers[2], .sub = 1, .pattern = span_text("carol/#")}};
        is_refused = add_pattern_with_failure(refused + 1, &add);
        message(2, add);
        cr_expect_not_null(strstr(said, "2 < subscribed 0\n"), "%s", said);
        cr_expect_not_null(strstr(said, "12 < sub 1 payload 5 x1\n"), "%s", said);
        forget();
        leave(3, 0);
        cr_expect_not_null(strstr(said, "12 < sub 1 end #1"), "after %d: %s", (int)refused, said);
    }
    cr_expect_gt(refused, 3, "%d", (int)refused);
}

Test(core, adds_as_many_patterns_as_a_subscription_may_have)
{
    char pattern[16];
    join(2);
    subscribe(2, 1, "alice/a0", "", 0, 0);
    for (uint32_t i = 1; i <= LIMIT_SUB_PATTERNS; i++) {
        snprintf(pattern, sizeof pattern, "alice/a%u", i);
        forget();
        message(2,
                (struct msg){.type = MSG_SUB_ADD,
                             .as.sub_add = {
                                 .number = ++numbers[2], .sub = 1, .pattern = span_text(pattern)}});
        bool is_added = strstr(said, "2 < subscribed 0\n") != NULL;
        cr_assert_eq(is_added, i < LIMIT_SUB_PATTERNS, "%u: %s", i, said);
    }
}

/* It completes by what it had said before, and its session stands: the facts say so, too. */
Test(core, notes_what_a_party_that_stalls_had_said_before)
{
    join(1);
    (void)open_topic(1, "alice/a");
    message(1, (struct msg){.type = MSG_PROGRESS, .as.progress = {.next_within_ms = 100}});
    message(1, (struct msg){.type = MSG_COMPLETE,
                            .as.complete = {.number = ++numbers[1], .after = frames[1] + 1}});
    EXPECT("");
    pass_ms(200);
    EXPECT("1 < result 0\n1 < accepted 0 1\n");
}

/* The newest limit of this topic that the last step told its writer; 0: none. */
static uint64_t credit_told(uint32_t topic)
{
    uint64_t limit = 0;
    for (uint32_t i = 0; i < effects.msg_count; i++)
        if (effects.msgs[i].type == MSG_CREDIT && effects.msgs[i].as.credit.topic == topic)
            limit = effects.msgs[i].as.credit.limit_bytes;
    return limit;
}

/* One value whose frame has so many bytes, in a batch of its own. */
static void publish_bytes(conn_id conn, uint32_t topic, uint64_t seq, uint32_t bytes)
{
    batch_bytes = bytes + BATCH_HEADER_BYTES;
    batch(conn, 5,
          (struct event_range){.kind = FRAME_VALUE,
                               .topic = topic,
                               .seq = seq,
                               .value_bytes = bytes - FRAME_HEADER_BYTES});
    batch_bytes = 4096;
}

/* Alice says that a set of values needs credit up to there. */
static uint64_t credit_for_set(uint32_t topic, uint64_t needed_bytes)
{
    message(1, (struct msg){.type = MSG_TOPIC_OPEN,
                            .as.topic_open = {.request = 9,
                                              .topic = span_text("alice/a"),
                                              .needed_bytes = needed_bytes}});
    return credit_told(topic);
}

Test(core, lets_a_set_of_values_pass_the_window_as_one_value_may)
{
    options.topic_window_bytes = 1024;
    restart();
    uint32_t a = open_for_bob();
    publish(1, a, 0, 8, 5);
    cr_expect_eq(credit_for_set(a, 512 + 4096), 512 + 4096);
    publish(1, a, 8, 64, 6);
    cr_expect_eq(credit_for_set(a, 512 + 4096 + 4096), 0, "bob has taken nothing");
    taken(2, 1, NAMED + (48 + 8 * 16) + (48 + 64 * 16));
    cr_expect_eq(credit_told(a), 512 + 4096 + 4096);
}

Test(core, lets_a_set_of_values_have_half_of_what_the_job_has_left)
{
    enum { JOB_BYTES = 1 << 20 };
    options.job_bytes_max = JOB_BYTES;
    restart();
    join(1);
    uint32_t a = open_topic(1, "alice/a");
    cr_expect_eq(credit_for_set(a, JOB_BYTES / 2 + 1), 0);
    cr_expect_eq(credit_for_set(a, JOB_BYTES / 2), JOB_BYTES / 2);
    publish_bytes(1, a, 0, JOB_BYTES / 2);
    publish_bytes(1, a, 1, JOB_BYTES / 16 * 7);
    cr_expect_geq(credit_for_set(a, JOB_BYTES), JOB_BYTES, "what nobody needs goes for it");
}

/* Carol takes nothing of bob's topic, and bob waits for room in the job.  Alice's values, which
 * nobody reads, fill the job.  They go in that step, and both writers get the room they leave. */
Test(core, offers_the_room_that_it_makes_in_a_full_job_to_all_writers_that_wait)
{
    enum { JOB_BYTES = 1 << 20, HALF = JOB_BYTES / 2, OF_BOB = HALF / 8 };
    options.job_bytes_max = JOB_BYTES;
    restart();
    join_all(3);
    uint32_t a = open_topic(1, "alice/a");
    subscribe(3, 1, "bob/b", "", 0, 0);
    publish_bytes(1, a, 0, HALF);
    uint32_t b = open_topic(2, "bob/b"); /* with credit for an eighth of what is left */
    publish_bytes(2, b, 0, OF_BOB);
    cr_expect_eq(credit_told(b), 0, "he has used up his credit, and is given none");
    publish_bytes(1, a, 1, HALF - OF_BOB);
    cr_expect_eq(credit_told(a), JOB_BYTES - OF_BOB + (JOB_BYTES - OF_BOB) / 8);
    cr_expect_eq(credit_told(b), (JOB_BYTES - OF_BOB) / 8); /* his one value is not taken */
}

/* For who comes late, a topic keeps as many bytes as it may, and not one more. */
Test(core, keeps_exactly_as_many_bytes_for_late_subscribers_as_it_may)
{
    enum { FRAME = FRAME_HEADER_BYTES + 16 };
    static const char *const got[] = {
        "2 < subscribed 0\n2 < accepted 0 1\n12 < sub 1 payload 7 x1\n",
        "2 < subscribed 0\n2 < accepted 0 1\n12 < sub 1 payload 6 x1\n12 < sub 1 payload 7 x1\n",
        "2 < subscribed 0\n2 < accepted 0 1\n12 < sub 1 payload 6 x1\n12 < sub 1 payload 7 x1\n"};
    for (int i = 0; i < 3; i++) {
        options.topic_keep_bytes = 2 * FRAME - 1 + (uint64_t)i;
        memset(numbers, 0, sizeof numbers);
        memset(frames, 0, sizeof frames);
        restart();
        join(1);
        join(2);
        uint32_t a = open_topic(1, "alice/a");
        for (uint64_t seq = 0; seq < 3; seq++)
            publish(1, a, seq, 1, 5 + (payload_id)seq);
        forget();
        subscribe(2, 1, "alice/a", "", FROM_OLDEST, 0);
        EXPECT(got[i]);
    }
}
