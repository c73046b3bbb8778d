/* SPDX-License-Identifier: MPL-2.0 */
/* session_waiting_test.c -- when a session says that calls are blocked, and when it does not. */
#include "tests/unit/session_driver.h"

static struct driver d;
static bool is_alone;

static void answer(void)
{
    if (session_wait_is_asked(d.session))
        session_wait_answer(d.session, is_alone);
}

/* The beat of this second, and nothing else. */
static void beat(void)
{
    d.now_ns += 1000 * DRIVER_MS;
    session_tick(d.session, d.now_ns);
    (void)driver_expect(&d, MSG_BEAT);
    driver_say(&d, &(struct msg){.type = MSG_ECHO, .as.echo.sent_ns = d.now_ns});
    answer();
}

static const struct session_patience forever;
static const struct session_patience limited = {.is_timed = true};
static const struct session_patience sliced = {.is_slice = true};

static void block_on(const char *topic, uint64_t seq)
{
    session_wait_begin(d.session, SESSION_WAIT_SLOTS,
                       &(struct session_wait_place){.topic = span_text(topic), .seq = seq},
                       forever);
}

static struct msg_waiting expect_waiting(void)
{
    answer();
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
    session_wait_end(d.session, SESSION_WAIT_SLOTS, forever);
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
        session_wait_begin(d.session, SESSION_WAIT_READS, NULL, forever);
        beat();
        session_wait_end(d.session, SESSION_WAIT_READS, forever);
        expect_silence();
    }
    driver_fini(&d);
}

/* A call whose timeout passed, and one that begins at once. */
static void slice(const char *topic, uint64_t seq, const char *next_topic, uint64_t next_seq)
{
    session_wait_pause(d.session, SESSION_WAIT_SLOTS,
                       &(struct session_wait_place){.topic = span_text(topic), .seq = seq},
                       forever);
    block_on(next_topic, next_seq);
}

Test(session_waiting, takes_calls_that_begin_again_at_once_for_one_wait)
{
    driver_up(&d);
    block_on("bob/x", 7);
    slice("bob/x", 7, "bob/x", 7);
    beat();
    slice("bob/x", 7, "bob/x", 7);
    slice("bob/x", 7, "bob/x", 7);
    expect_silence();
    beat();
    struct msg_waiting said = expect_waiting();
    cr_expect_eq(said.slots_ms, 1000);
    cr_expect(span_equal(said.topic, span_text("bob/x")) && said.seq == 7);
    slice("bob/x", 7, "bob/x", 7);
    beat();
    expect_silence();
    session_wait_pause(d.session, SESSION_WAIT_SLOTS,
                       &(struct session_wait_place){.topic = span_text("bob/x"), .seq = 7},
                       forever);
    d.now_ns += 1000 * DRIVER_MS;
    session_tick(d.session, d.now_ns);
    (void)driver_expect(&d, MSG_BEAT);
    answer();
    said = expect_waiting();
    cr_expect_eq(said.slots_ms, 0, "no call goes on, and the wait is over at the beat");
    driver_fini(&d);
}

Test(session_waiting, takes_the_slices_of_two_threads_for_two_waits)
{
    driver_up(&d);
    block_on("bob/x", 7);
    block_on("bob/y", 8);
    for (int i = 0; i < 2; i++) {
        slice("bob/x", 7, "bob/x", 7);
        session_wait_pause(d.session, SESSION_WAIT_SLOTS,
                           &(struct session_wait_place){.topic = span_text("bob/y"), .seq = 8},
                           forever);
        slice("bob/x", 7, "bob/x", 7);
        block_on("bob/y", 8);
        beat();
    }
    struct msg_waiting said = expect_waiting();
    cr_expect_eq(said.slots_ms, 1000);
    cr_expect_eq(said.topic.bytes, 0, "two calls wait");
    driver_fini(&d);
}

Test(session_waiting, takes_calls_for_other_things_for_other_waits)
{
    static const struct session_wait_place places[] = {{.sub = 3}, {.sub = 4}};
    driver_up(&d);
    block_on("bob/x", 7);
    for (uint64_t i = 0; i < 5; i++) {
        beat();
        expect_silence();
        slice("bob/x", 7 + i, i % 2 == 0 ? "bob/x" : "bob/y", 8 + i);
        session_wait_pause(d.session, SESSION_WAIT_SLOTS, NULL, forever);
        block_on("bob/x", 8 + i);
    }
    session_wait_end(d.session, SESSION_WAIT_SLOTS, forever);
    for (int i = 0; i < 5; i++) {
        session_wait_begin(d.session, SESSION_WAIT_READS, &places[i % 2], forever);
        beat();
        expect_silence();
        session_wait_pause(d.session, SESSION_WAIT_READS, &places[i % 2], forever);
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
    session_wait_end(d.session, SESSION_WAIT_SLOTS, forever);
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
    session_wait_begin(d.session, SESSION_WAIT_READS, &(struct session_wait_place){.sub = 3},
                       forever);
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
    session_wait_begin(d.session, SESSION_WAIT_ROOM, NULL, forever);
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
    session_wait_end(d.session, SESSION_WAIT_SLOTS, forever);
    session_tick(d.session, d.now_ns); /* the word is 19 s after the last one */
    (void)expect_waiting();
    cr_expect_eq(session_deadline_ns(d.session), d.now_ns + 500 * DRIVER_MS);
    driver_fini(&d);
}

/* ---- is_sure --------------------------------------------------------------------------------- */

static void block_in(enum session_wait kind, struct session_patience patience)
{
    session_wait_begin(d.session, kind, &(struct session_wait_place){0}, patience);
}

/* Beats until something is said. */
static struct msg_waiting next_waiting(void)
{
    beat();
    beat();
    return expect_waiting();
}

static void up_alone(void)
{
    is_alone = true;
    driver_up(&d);
}

Test(session_waiting, is_sure_of_calls_without_a_timeout_that_are_alone)
{
    up_alone();
    block_on("bob/x", 0);
    struct msg_waiting said = next_waiting();
    cr_expect(said.is_sure && said.number == 1 && said.data_bytes == 0);
    is_alone = false; /* another thread begins */
    beat();
    cr_expect_not(expect_waiting().is_sure);
    is_alone = true;
    beat();
    cr_expect(expect_waiting().is_sure);
    driver_fini(&d);
}

Test(session_waiting, is_not_sure_of_a_call_with_a_timeout)
{
    up_alone();
    block_in(SESSION_WAIT_BARRIER, limited);
    cr_expect_not(next_waiting().is_sure);
    driver_fini(&d);
}

Test(session_waiting, is_not_sure_of_a_call_that_began_lately)
{
    up_alone();
    block_on("bob/x", 0);
    beat();
    block_in(SESSION_WAIT_BARRIER, forever);
    beat();
    struct msg_waiting said = expect_waiting();
    cr_expect(said.slots_ms > 0 && said.barrier_ms == 0 && !said.is_sure);
    beat();
    said = expect_waiting();
    cr_expect(said.slots_ms > 0 && said.barrier_ms > 0 && said.is_sure);
    driver_fini(&d);
}

Test(session_waiting, is_not_sure_of_readers_of_several_subscriptions)
{
    up_alone();
    session_wait_begin(d.session, SESSION_WAIT_READS, &(struct session_wait_place){.sub = 1},
                       forever);
    session_wait_begin(d.session, SESSION_WAIT_READS, &(struct session_wait_place){.sub = 2},
                       forever);
    cr_expect_not(next_waiting().is_sure);
    driver_fini(&d);
}

Test(session_waiting, is_not_sure_before_all_it_wrote_was_accepted)
{
    up_alone();
    uint32_t topic = driver_topic(&d, "alice/x", 9, 1000);
    cr_assert_eq(session_publish(d.session, d.now_ns, topic, &(struct span){"v", 1}, 1, NULL),
                 CODE_OK);
    struct buffer *part = driver_part(&d);
    block_on("bob/x", 0);
    cr_expect_not(next_waiting().is_sure);
    buffer_unref(&part);
    driver_accept(&d, 1, 0);
    beat();
    cr_expect(expect_waiting().is_sure);
    driver_fini(&d);
}

Test(session_waiting, says_which_calls_wait_for_members_and_for_room)
{
    up_alone();
    uint32_t topic = driver_topic(&d, "alice/x", 9, 1000);
    session_wait_begin(d.session, SESSION_WAIT_ROOM,
                       &(struct session_wait_place){.own_topic = topic}, forever);
    block_in(SESSION_WAIT_MEMBERS, forever);
    struct msg_waiting said = next_waiting();
    cr_expect(said.members_ms > 0 && said.room_ms > 0 && said.is_sure);
    cr_expect(span_equal(said.room_topic, span_text("alice/x")));
    driver_fini(&d);
}

/* ---- slices ---------------------------------------------------------------------------------- */

static void end_slice(enum session_wait kind)
{
    session_wait_pause(d.session, kind, &(struct session_wait_place){0}, sliced);
}

/* A beat, and what else is said after it. */
static struct msg late_beat(enum msg_type type)
{
    d.now_ns += 1000 * DRIVER_MS;
    session_tick(d.session, d.now_ns);
    (void)driver_expect(&d, MSG_BEAT);
    answer();
    return driver_expect(&d, type);
}

Test(session_waiting, takes_slices_for_one_wait_though_a_beat_falls_between_two)
{
    up_alone();
    block_in(SESSION_WAIT_BARRIER, sliced);
    beat();
    end_slice(SESSION_WAIT_BARRIER);
    beat();
    expect_silence();
    cr_expect_geq(session_deadline_ns(d.session), d.now_ns + 1000 * DRIVER_MS,
                  "nobody is woken between two slices");
    block_in(SESSION_WAIT_BARRIER, sliced);
    struct msg_waiting said = expect_waiting();
    cr_expect(said.barrier_ms == 1000 && said.is_sure);
    for (int i = 0; i < 3; i++) {
        end_slice(SESSION_WAIT_BARRIER);
        expect_silence();
        beat();
        expect_silence();
        block_in(SESSION_WAIT_BARRIER, sliced);
        expect_silence();
    }
    driver_fini(&d);
}

Test(session_waiting, ends_a_wait_in_slices_at_the_second_beat_without_one)
{
    up_alone();
    block_in(SESSION_WAIT_READS, sliced);
    cr_expect(next_waiting().is_sure);
    end_slice(SESSION_WAIT_READS);
    (void)late_beat(MSG_NONE);
    cr_expect_eq(late_beat(MSG_WAITING).as.waiting.reads_ms, 0);
    driver_fini(&d);
}

Test(session_waiting, is_not_sure_of_slices_of_a_wait_with_a_limit)
{
    up_alone();
    block_in(SESSION_WAIT_READS, (struct session_patience){.is_timed = true, .is_slice = true});
    cr_expect_not(next_waiting().is_sure);
    driver_fini(&d);
}

Test(session_waiting, leaves_the_barrier_when_no_slice_continues)
{
    up_alone();
    driver_say(&d, &(struct msg){.type = MSG_MEMBERSHIP, .as.membership = {1, 1, 0, 2}});
    cr_assert_eq(session_barrier(d.session, 1, NULL), CODE_ETIMEDOUT);
    cr_expect(driver_expect(&d, MSG_BARRIER).as.barrier.is_there);
    block_in(SESSION_WAIT_BARRIER, sliced);
    end_slice(SESSION_WAIT_BARRIER);
    (void)late_beat(MSG_NONE);
    cr_expect_not(late_beat(MSG_BARRIER).as.barrier.is_there);
    driver_fini(&d);
}
