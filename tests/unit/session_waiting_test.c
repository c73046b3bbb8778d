/* SPDX-License-Identifier: MPL-2.0 */
/* session_waiting_test.c -- when a session says that calls are blocked, and when it does not. */
#include "tests/unit/session_driver.h"

static struct driver d;

/* The beat of this second, and nothing else. */
static void beat(void)
{
    d.now_ns += 1000 * DRIVER_MS;
    session_tick(d.session, d.now_ns);
    (void)driver_expect(&d, MSG_BEAT);
    driver_say(&d, &(struct msg){.type = MSG_ECHO, .as.echo.sent_ns = d.now_ns});
}

static void block_on(const char *topic, uint64_t seq)
{
    session_wait_begin(d.session, SESSION_WAIT_SLOTS,
                       &(struct session_wait_place){.topic = span_text(topic), .seq = seq});
}

static struct msg_waiting expect_waiting(void)
{
    return driver_expect(&d, MSG_WAITING).as.waiting;
}

static void expect_silence(void)
{
    (void)driver_expect(&d, MSG_NONE);
}

Test(session_waiting, says_what_blocks_for_a_second_and_that_it_is_over)
{
    driver_up(&d);
    block_on("bob/x", 7);
    expect_silence();
    beat();
    expect_silence();
    cr_expect_leq(session_deadline_ns(d.session), d.now_ns + 1000 * DRIVER_MS);
    beat();
    struct msg_waiting said = expect_waiting();
    cr_expect_eq(said.slots_ms, 1000);
    cr_expect(span_equal(said.topic, span_text("bob/x")) && said.seq == 7);
    cr_expect(said.room_ms == 0 && said.reads_ms == 0);
    beat();
    expect_silence();
    session_wait_end(d.session, SESSION_WAIT_SLOTS);
    said = expect_waiting();
    cr_expect_eq(said.slots_ms, 0);
    beat();
    expect_silence();
    driver_fini(&d);
}

Test(session_waiting, says_nothing_of_calls_that_return_within_a_second)
{
    driver_up(&d);
    for (int i = 0; i < 5; i++) {
        session_wait_begin(d.session, SESSION_WAIT_READS, NULL);
        beat();
        session_wait_end(d.session, SESSION_WAIT_READS);
        expect_silence();
    }
    driver_fini(&d);
}

Test(session_waiting, says_one_thing_a_second_at_most)
{
    driver_up(&d);
    block_on("bob/x", 0);
    beat();
    beat();
    (void)expect_waiting();
    d.now_ns += 100 * DRIVER_MS;
    session_wait_end(d.session, SESSION_WAIT_SLOTS);
    expect_silence();
    cr_expect_eq(session_deadline_ns(d.session), d.now_ns + 900 * DRIVER_MS);
    d.now_ns += 900 * DRIVER_MS;
    session_tick(d.session, d.now_ns);
    (void)driver_expect(&d, MSG_BEAT);
    cr_expect_eq(expect_waiting().slots_ms, 0);
    driver_fini(&d);
}

Test(session_waiting, names_no_slot_when_calls_wait_for_several)
{
    driver_up(&d);
    block_on("bob/x", 0);
    block_on("bob/y", 0);
    session_wait_begin(d.session, SESSION_WAIT_READS, &(struct session_wait_place){.sub = 3});
    beat();
    beat();
    struct msg_waiting said = expect_waiting();
    cr_expect(said.slots_ms > 0 && said.topic.bytes == 0);
    cr_expect(said.reads_ms > 0 && said.sub == 3);
    driver_fini(&d);
}

Test(session_waiting, says_it_again_on_a_new_connection)
{
    driver_up(&d);
    session_wait_begin(d.session, SESSION_WAIT_ROOM, NULL);
    beat();
    beat();
    (void)expect_waiting();
    session_link_closed(d.session, d.now_ns);
    d.now_ns += 100 * DRIVER_MS;
    session_tick(d.session, d.now_ns);
    driver_greet(&d, true);
    cr_expect_eq(expect_waiting().room_ms, 1100);
    expect_silence();
    driver_fini(&d);
}

Test(session_waiting, takes_a_late_word_for_no_standstill_of_the_process)
{
    driver_up(&d);
    block_on("bob/x", 0);
    for (int i = 0; i < 2; i++)
        beat();
    (void)expect_waiting();
    for (int i = 0; i < 20; i++)
        beat();
    d.now_ns += 500 * DRIVER_MS;
    session_wait_end(d.session, SESSION_WAIT_SLOTS);
    session_tick(d.session, d.now_ns); /* the word is 19 s after the last one */
    (void)expect_waiting();
    cr_expect_eq(session_deadline_ns(d.session), d.now_ns + 500 * DRIVER_MS);
    driver_fini(&d);
}
