/* SPDX-License-Identifier: MPL-2.0 */
/* core_await_test.c -- awaited slots: how their answers wait for the reader. */
#include "tests/unit/core_driver.h"

TestSuite(core_await, .init = init, .fini = fini);

/* One value that fills the window of the awaits by itself. */
static void publish_window(uint32_t topic, uint64_t seq, payload_id payload)
{
    batch_bytes = 2 * (uint32_t)DEFAULT_SUB_WINDOW_BYTES;
    batch(1, payload,
          (struct event_range){.kind = FRAME_VALUE,
                               .topic = topic,
                               .seq = seq,
                               .value_bytes = (uint32_t)DEFAULT_SUB_WINDOW_BYTES});
}

static void take_awaited(uint64_t bytes)
{
    taken(2, 0, bytes);
}

/* Nothing else happens in these steps that could send the second answer: no beat, no value. */
Test(core_await, sends_the_next_answer_once_the_reader_took_the_last)
{
    join(1);
    join(2);
    uint32_t a = open_topic(1, "alice/a");
    publish_window(a, 0, 5);
    publish_window(a, 1, 6);
    forget();
    await_slot(2, 1, "alice/a", 0);
    EXPECT("12 < sub 0 payload 5 x1\n");
    await_slot(2, 2, "alice/a", 1);
    EXPECT("");
    take_awaited(1);
    EXPECT("");
    take_awaited(DEFAULT_SUB_WINDOW_BYTES);
    EXPECT("12 < sub 0 payload 6 x1\n");
}

Test(core_await, refuses_that_less_or_more_is_taken_than_before)
{
    join_all(3);
    uint32_t a = open_topic(1, "alice/a");
    publish_window(a, 0, 5);
    forget();
    await_slot(2, 1, "alice/a", 0);
    await_slot(3, 1, "alice/a", 0);
    forget();
    take_awaited(2);
    EXPECT("");
    take_awaited(1);
    EXPECT("2 dropped\n12 dropped\n");
    taken(3, 0, 2 * DEFAULT_SUB_WINDOW_BYTES);
    EXPECT("3 dropped\n13 dropped\n");
}

/* ---- no room --------------------------------------------------------------------------------- */

static void expect_full(conn_id conn, uint64_t want, const char *topic)
{
    forget();
    await_slot(conn, want, topic, 0);
    EXPECT("12 < sub 0 error #0 (rejected of bob)\n");
    cr_expect_str_eq(error_message, "there is no room for the awaited topic");
}

Test(core_await, fails_a_wait_for_a_topic_more_than_the_broker_has_room_for)
{
    options.topics_max = 2;
    restart();
    join_all(2);
    await_slot(2, 1, "alice/a", 0);
    await_slot(2, 2, "alice/b", 0);
    EXPECT("");
    expect_full(2, 3, "alice/c");
    await_slot(2, 4, "alice/b", 1); /* the session goes on */
    EXPECT("");
    publish(1, open_topic(1, "alice/b"), 0, 2, 5);
    keep_lines("12 < ", "dropped");
    EXPECT("12 < sub 0 payload 5 part 0 x1\n12 < sub 0 payload 5 part 1 x1\n");
}

Test(core_await, fails_such_a_wait_again_if_it_is_said_again)
{
    options.topics_max = 1;
    restart();
    join_all(2);
    await_slot(2, 1, "alice/a", 0);
    expect_full(2, 2, "alice/b");
    reconnect(2);
    expect_full(2, 2, "alice/b");
    crash(100);
    resume(2, tokens[2], 0);
    expect_full(2, 2, "alice/b");
    await_slot(2, 1, "alice/a", 0);
    EXPECT("");
}

Test(core_await, fails_a_wait_for_a_party_more_than_the_job_has_room_for)
{
    options.parties_max = 3;
    restart();
    join_all(2);
    await_slot(2, 1, "alice/a", 0);
    await_slot(2, 2, "carol/a", 0);
    EXPECT("");
    expect_full(2, 3, "dave/a");
    await_slot(2, 4, "carol/b", 0);
    EXPECT("");
}

/* A name whose topic has no room is needed by nobody: it takes no place from a party. */
Test(core_await, keeps_no_party_of_a_wait_that_it_has_no_room_for)
{
    options.parties_max = 3;
    options.topics_max = 1;
    restart();
    join_all(2);
    await_slot(2, 1, "alice/a", 0);
    expect_full(2, 2, "dave/a");
    expect_full(2, 3, "erin/a");
    say_hello(3);
    EXPECT("3 < welcome incarnation 1\n");
}

/* ---- values in pieces ------------------------------------------------------------------------ */

/* Bob waits for slot 0, of which the first piece comes. */
static uint32_t open_with_a_piece(void)
{
    join_all(3);
    uint32_t a = open_topic(1, "alice/a");
    await_slot(2, 1, "alice/a", 0);
    reserve(1, a, 0);
    forget();
    chunk(1, a, 0, 300, 0, 100, 4);
    EXPECT("1 < chunked 100\n12 < sub 0 payload 4 x1\n");
    return a;
}

/* A reader that is far away has most of a model when its writer has sent all of it. */
Test(core_await, is_sent_the_pieces_of_a_value_as_they_come)
{
    uint32_t a = open_with_a_piece();
    chunk(1, a, 0, 300, 100, 100, 5);
    EXPECT("1 < chunked 200\n12 < sub 0 payload 5 x1\n");
    await_slot(3, 1, "alice/a", 0); /* late: it is sent what is there */
    EXPECT("13 < sub 0 payload 4 x1\n13 < sub 0 payload 5 x1\n");
    chunk(1, a, 0, 300, 200, 100, 6);
    EXPECT("1 < chunked 300\n12 < sub 0 payload 6 x1\n13 < sub 0 payload 6 x1\n");
}

Test(core_await, is_sent_an_error_behind_pieces)
{
    uint32_t a = open_with_a_piece();
    fail(1, a, 0, 1);
    EXPECT("1 < accepted 1 1\n12 < sub 0 error #0 (application of alice)\n");
}

Test(core_await, is_sent_no_piece_of_a_value_that_it_does_not_want)
{
    join_all(3);
    uint32_t a = open_topic(1, "alice/a");
    message(2, (struct msg){.type = MSG_AWAIT,
                            .as.await = {.want = 1, .topic = span_text("alice/a"), .seq = 0}});
    reserve(1, a, 0);
    forget();
    chunk(1, a, 0, 300, 0, 100, 4);
    EXPECT("1 < chunked 100\n");
}

Test(core_await, is_sent_no_more_pieces_once_nobody_waits)
{
    uint32_t a = open_with_a_piece();
    message(2, (struct msg){.type = MSG_UNAWAIT, .as.unawait = {.want = 1}});
    forget();
    chunk(1, a, 0, 300, 100, 100, 5);
    EXPECT("1 < chunked 200\n");
}

/* Bob comes back, and says how much he has of slot 0. */
static void come_back(uint64_t chunk_offset)
{
    closed(12);
    say_hello_again(2);
    message(2, (struct msg){.type = MSG_AWAIT,
                            .as.await = {.want = 1,
                                         .topic = span_text("alice/a"),
                                         .seq = 0,
                                         .is_value_wanted = 1,
                                         .chunk_offset = chunk_offset}});
    forget();
    attach(2, 12, tokens[2]);
}

Test(core_await, goes_on_behind_the_pieces_that_it_has)
{
    uint32_t a = open_with_a_piece();
    chunk(1, a, 0, 300, 100, 100, 5);
    forget();
    come_back(100);
    EXPECT("2 < attached\n12 < sub 0 payload 5 x1\n");
    come_back(200);
    EXPECT("2 < attached\n");
    come_back(201); /* more than there is: it begins again */
    EXPECT("2 < attached\n12 < sub 0 payload 4 x1\n"
           "12 < sub 0 payload 5 x1\n");
}
