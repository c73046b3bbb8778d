/* SPDX-License-Identifier: MPL-2.0 */
/* core_number_test.c -- topics that a new party numbers itself: who may, what opens them, and what
 * becomes of one that cannot be opened. */
#include "broker/core/model.h"
#include "broker/core/streams/open_slot.h"
#include "tests/unit/core_driver.h"

enum { ALICE = 1, BOB = 2, CAROL = 3 };

TestSuite(core_number, .init = init, .fini = fini);

static uint32_t given(conn_id conn)
{
    join(conn);
    return (uint32_t)welcomed.own_numbers;
}

static void name_topic(conn_id conn, uint32_t number, const char *name)
{
    batch(conn, 99,
          (struct event_range){.kind = FRAME_TOPIC, .topic = number, .name = span_text(name)});
}

static void open_as(conn_id conn, uint32_t number, const char *name)
{
    message(conn, (struct msg){.type = MSG_TOPIC_OPEN,
                               .as.topic_open = {
                                   .request = 1, .topic = span_text(name), .own_number = number}});
}

/* The credit that the last answer or message told. */
static uint64_t credit_told(void)
{
    uint64_t limit = 0;
    for (uint32_t i = 0; i < effects.msg_count; i++)
        if (effects.msgs[i].type == MSG_TOPIC_OPENED)
            limit = effects.msgs[i].as.topic_opened.limit_bytes;
    return limit;
}

/* The number that readers are told for this name; 0: none. */
static uint32_t told_number(const char *name)
{
    for (uint32_t i = 0; i < effects.frame_count; i++) {
        const struct frame *frame = &effects.frames[i].frame;
        if ((frame->flags & FRAME_KIND_MASK) == FRAME_TOPIC &&
            span_equal(frame->value, span_text(name)))
            return frame->topic;
    }
    return 0;
}

/* ---- who may --------------------------------------------------------------------------------- */

Test(core_number, gives_each_new_party_numbers_of_its_own)
{
    uint32_t alices = given(ALICE);
    uint32_t bobs = given(BOB);
    cr_assert_neq(alices, 0);
    cr_assert_neq(bobs, 0);
    cr_assert(alices + LIMIT_OWN_NUMBERS <= bobs || bobs + LIMIT_OWN_NUMBERS <= alices);
    cr_assert_gt(alices, LIMIT_TOPICS, "no number of the broker's");
}

Test(core_number, gives_none_to_a_party_with_a_topic)
{
    join(BOB); /* or a new run would begin, with new topics */
    uint32_t first = given(ALICE);
    name_topic(ALICE, first, "alice/a");
    publish(ALICE, first, 0, 3, 5);
    leave(ALICE, frames[ALICE]);
    cr_expect_eq(given(ALICE), 0);
    cr_expect_eq(open_topic(ALICE, "alice/a"), first, "the topic keeps its number");
    publish(ALICE, first, 3, 1, 6);
    keep_lines("refusal", "violation");
    EXPECT("");
}

Test(core_number, gives_them_to_a_party_of_which_only_others_spoke)
{
    join(BOB);
    await_slot(BOB, 1, "alice/a", 0);
    cr_expect_neq(given(ALICE), 0);
}

Test(core_number, gives_none_where_topics_are_scarce)
{
    options.topics_max = 2;
    restart();
    cr_expect_neq(given(ALICE), 0);
    (void)open_topic(ALICE, "alice/a");
    cr_expect_neq(given(BOB), 0);
    (void)open_topic(BOB, "bob/a");
    cr_expect_eq(given(CAROL), 0, "both are in use");
}

/* The longest value in chunks that takes no more than so many bytes. */
static uint64_t fitting(uint64_t bytes)
{
    uint64_t value = bytes - COST_SLOT_BYTES;
    while (chunks_cost_of(value, LIMIT_CHUNK_BYTES) > bytes - COST_SLOT_BYTES)
        value -= 1;
    return value;
}

/* Bytes from the last ones on, up to so many: of a value that is not whole. */
static void fill_up_to(conn_id conn, uint32_t topic, uint64_t from, uint64_t to)
{
    uint64_t most = fitting(options.job_bytes_max);
    for (uint64_t at = from; at < to; at += LIMIT_CHUNK_BYTES)
        chunk(conn, topic, 0, most, at,
              (uint32_t)(to - at < LIMIT_CHUNK_BYTES ? to - at : LIMIT_CHUNK_BYTES), 6);
}

Test(core_number, gives_none_where_the_job_is_half_full)
{
    options.job_bytes_max = 8 * LIMIT_OWN_NUMBERS * LIMIT_OWN_CREDIT_BYTES;
    restart();
    uint64_t half = fitting(options.job_bytes_max / 2);
    uint32_t first = given(ALICE);
    cr_assert_neq(first, 0);
    name_topic(ALICE, first, "alice/a");
    reserve(ALICE, first, 0);
    fill_up_to(ALICE, first, 0, half);
    cr_expect_neq(given(BOB), 0, "half of it is used");
    fill_up_to(ALICE, first, half, half + 1);
    cr_expect_eq(given(CAROL), 0);
}

Test(core_number, gives_none_where_a_job_is_small)
{
    options.job_bytes_max = 8 * LIMIT_OWN_NUMBERS * LIMIT_OWN_CREDIT_BYTES - 8;
    restart();
    cr_expect_eq(given(ALICE), 0);
}

Test(core_number, gives_none_where_windows_are_small)
{
    options.topic_window_bytes = LIMIT_OWN_CREDIT_BYTES;
    restart();
    cr_expect_neq(given(ALICE), 0);
    options.topic_window_bytes -= 1;
    restart();
    cr_expect_eq(given(ALICE), 0);
}

/* ---- opening --------------------------------------------------------------------------------- */

Test(core_number, lets_a_value_in_before_anything_came_over_control)
{
    join(BOB);
    subscribe(BOB, 1, "alice/#", "", 0, 0);
    uint32_t first = given(ALICE);
    name_topic(ALICE, first + 3, "alice/a");
    publish(ALICE, first + 3, 0, 2, 5);
    cr_expect_eq(told_number("alice/a"), first + 3);
    EXPECT("1 < accepted 1 0\n1 < accepted 3 0\n12 < sub 1 payload 5 x1\n");
}

Test(core_number, tells_a_reader_who_knew_the_topic_before)
{
    join(BOB);
    await_slot(BOB, 1, "alice/a", 0);
    subscribe(BOB, 1, "alice/a", "", 0, 0);
    uint32_t first = given(ALICE);
    name_topic(ALICE, first, "alice/a");
    publish(ALICE, first, 0, 1, 5);
    cr_expect_eq(told_number("alice/a"), first);
    keep_lines("payload", "payload");
    EXPECT("12 < sub 0 payload 5 x1\n12 < sub 1 payload 5 x1\n");
}

Test(core_number, opens_a_topic_once_whichever_channel_is_first)
{
    uint32_t first = given(ALICE);
    open_as(ALICE, first, "alice/a");
    cr_expect_geq(credit_told(), LIMIT_OWN_CREDIT_BYTES);
    cr_expect_eq(topic_number, first);
    name_topic(ALICE, first, "alice/a");
    name_topic(ALICE, first + 1, "alice/b");
    publish(ALICE, first + 1, 0, 1, 5);
    forget();
    open_as(ALICE, first + 1, "alice/b");
    cr_expect_eq(topic_number, first + 1);
    EXPECT("1 < opened 0 next 1\n");
    open_as(ALICE, first + 1, "alice/b");
    EXPECT("1 < opened 0 next 1\n");
}

Test(core_number, grants_what_was_promised_in_a_job_that_is_full_by_then)
{
    options.job_bytes_max = 8 * LIMIT_OWN_NUMBERS * LIMIT_OWN_CREDIT_BYTES;
    restart();
    uint32_t first = given(ALICE);
    uint32_t bobs = given(BOB);
    name_topic(BOB, bobs, "bob/a");
    reserve(BOB, bobs, 0);
    fill_up_to(BOB, bobs, 0, fitting(options.job_bytes_max) - 1);
    open_as(ALICE, first, "alice/a");
    cr_expect_eq(credit_told(), LIMIT_OWN_CREDIT_BYTES);
    forget();
    batch(ALICE, 7, (struct event_range){.kind = FRAME_VALUE, .topic = first, .value_bytes = 8192});
    keep_lines("refusal", "payload");
    EXPECT("1 < refusal #0 (rejected of alice)\n");
}

Test(core_number, settles_a_promise_that_failed_before_its_frame_came)
{
    join(BOB);
    subscribe(BOB, 1, "alice/a", "", 0, 0);
    uint32_t first = given(ALICE);
    open_as(ALICE, first, "alice/a");
    fail(ALICE, first, 0, 2);
    forget();
    name_topic(ALICE, first, "alice/a");
    reserve(ALICE, first, 0);
    keep_lines("12 <", "refusal");
    EXPECT("12 < sub 1 error #0 (application of alice)\n");
}

Test(core_number, takes_a_batch_that_comes_again)
{
    uint32_t first = given(ALICE);
    name_topic(ALICE, first, "alice/a");
    publish(ALICE, first, 0, 2, 5);
    reconnect(ALICE);
    cr_expect_eq(welcomed.data_number, 3);
    frames[ALICE] = 0;
    forget();
    name_topic(ALICE, first, "alice/a");
    publish(ALICE, first, 0, 2, 5);
    EXPECT("");
    publish(ALICE, first, 2, 1, 6);
    EXPECT("1 < accepted 4 0\n");
}

Test(core_number, knows_the_numbers_behind_a_restart)
{
    uint32_t first = given(ALICE);
    name_topic(ALICE, first + 5, "alice/a");
    publish(ALICE, first + 5, 0, 2, 5);
    compact();
    crash(0);
    resume(ALICE, tokens[ALICE], 0);
    join(BOB);
    forget();
    subscribe(BOB, 1, "alice/a", "", 0, 0);
    cr_expect_eq(told_number("alice/a"), first + 5);
    publish(ALICE, first + 5, 2, 1, 6);
    keep_lines("12 <", "violation");
    EXPECT("12 < sub 1 payload 5 x1\n12 < sub 1 payload 6 x1\n");
}

Test(core_number, begins_anew_with_the_next_attempt)
{
    make_job(a_strict_job(1, 1, 0));
    uint32_t first = given(ALICE);
    name_topic(ALICE, first, "alice/a");
    publish(ALICE, first, 0, 2, 5);
    break_down(ALICE);
    pass_ms(100);
    attempt = 2;
    cr_expect_eq(given(ALICE), first);
    forget();
    name_topic(ALICE, first, "alice/b");
    publish(ALICE, first, 0, 1, 6);
    EXPECT("1 < accepted 1 0\n1 < accepted 2 0\n");
}

/* ---- acknowledgements and positions name the number ------------------------------------------ */

Test(core_number, is_named_by_readers)
{
    uint32_t first = given(ALICE);
    join(BOB);
    subscribe(BOB, 1, "alice/a", "store", 0, 0);
    name_topic(ALICE, first, "alice/a");
    publish(ALICE, first, 0, 1, 5);
    publish(ALICE, first, 1, 1, 6);
    ack(BOB, 1, first, 1);
    closed(12);
    say_hello_again(BOB);
    message(BOB, (struct msg){.type = MSG_POSITION,
                              .as.position = {.sub = 1, .topic = first, .next_seq = 1}});
    forget();
    attach(BOB, 12, tokens[BOB]);
    keep_lines("payload", "payload");
    EXPECT("12 < sub 1 payload 6 x1\n");
}

Test(core_number, is_named_by_members_of_a_group)
{
    uint32_t first = given(ALICE);
    join(BOB);
    share(BOB, 1, "alice/a", "workers", 1);
    name_topic(ALICE, first, "alice/a");
    publish(ALICE, first, 0, 1, 5);
    publish(ALICE, first, 1, 1, 6);
    keep_lines("task", "task");
    EXPECT_OF("12 < sub 1 task %u#0, delivery 1, payload 5\n", first);
    done(BOB, first, 0, 1);
    keep_lines("task", "task");
    EXPECT_OF("12 < sub 1 task %u#1, delivery 1, payload 6\n", first);
}

/* ---- what is not theirs ---------------------------------------------------------------------- */

static void expect_violation(conn_id conn)
{
    char dropped[32];
    (void)snprintf(dropped, sizeof dropped, "%u dropped\n", conn);
    cr_expect_not_null(strstr(said, dropped), "%s", said);
    forget();
}

Test(core_number, takes_no_number_that_is_not_the_partys)
{
    uint32_t first = given(ALICE);
    uint32_t bobs = given(BOB);
    uint32_t ids[] = {bobs, first + LIMIT_OWN_NUMBERS, first - 1, 1, UINT32_MAX};
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++) {
        frames[ALICE] = 0;
        name_topic(ALICE, ids[i], "alice/a");
        expect_violation(ALICE + 10);
        reconnect(ALICE);
        open_as(ALICE, ids[i], "alice/a");
        expect_violation(ALICE);
        resume(ALICE, tokens[ALICE], 0);
    }
    name_topic(BOB, bobs, "alice/a");
    expect_violation(BOB + 10);
}

Test(core_number, takes_no_second_number_or_name)
{
    uint32_t first = given(ALICE);
    name_topic(ALICE, first, "alice/a");
    (void)open_topic(ALICE, "alice/asked");
    static const struct {
        uint32_t at;
        const char *name;
    } wrong[] = {{0, "alice/b"}, {1, "alice/a"}, {1, "alice/asked"}, {1, "alice/+"}, {1, "alice"}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        frames[ALICE] = 1;
        name_topic(ALICE, first + wrong[i].at, wrong[i].name);
        expect_violation(ALICE + 10);
        reconnect(ALICE);
    }
}

Test(core_number, takes_no_id_of_a_topic_with_a_number)
{
    uint32_t first = given(ALICE);
    name_topic(ALICE, first, "alice/a");
    forget();
    publish(ALICE, 1, 0, 1, 5); /* readers do not know it */
    expect_violation(ALICE + 10);
}

/* ---- topics that cannot be opened ------------------------------------------------------------ */

/* There is room for two topics. */
static uint32_t without_room(void)
{
    options.topics_max = 2;
    restart();
    uint32_t first = given(ALICE);
    join(BOB);
    (void)open_topic(BOB, "bob/a");
    (void)open_topic(BOB, "bob/b");
    forget();
    return first;
}

static void make_room(void)
{
    core->options.topics_max = core->topics.used_max = 8;
}

Test(core_number, refuses_what_is_in_a_topic_that_cannot_be_opened)
{
    uint32_t first = without_room();
    open_as(ALICE, first, "alice/a");
    EXPECT("1 < opened 4 next 0\n");
    name_topic(ALICE, first, "alice/a");
    EXPECT("1 < accepted 1 0\n");
    publish(ALICE, first, 0, 2, 5);
    EXPECT("1 < refusal #0 x2 (rejected of alice)\n1 < accepted 3 0\n");
    reserve(ALICE, first, 2);
    EXPECT("1 < refusal #2 (rejected of alice)\n1 < accepted 4 0\n");
    commit(ALICE, first, 2, 5);
    EXPECT("1 < refusal #2 (rejected of alice)\n1 < accepted 5 0\n");
    chunk(ALICE, first, 3, 1000, 0, 500, 6);
    EXPECT("1 < chunked 1000\n");
}

/* The writer was told that the topic is refused.  So no value of it stands. */
Test(core_number, refuses_a_topic_for_good_that_could_not_be_opened_once)
{
    uint32_t first = without_room();
    open_as(ALICE, first, "alice/a");
    forget();
    make_room();
    name_topic(ALICE, first, "alice/a");
    publish(ALICE, first, 0, 1, 5);
    keep_lines("refusal", "violation");
    EXPECT("1 < refusal #0 (rejected of alice)\n");
    open_as(ALICE, first, "alice/a");
    EXPECT("1 < opened 4 next 0\n");
    open_as(ALICE, first + 1, "alice/b"); /* another one may be opened */
    keep_lines("opened", "violation");
    EXPECT("1 < opened 0 next 0\n");
}

/* The frame came first. */
Test(core_number, opens_no_topic_of_which_values_were_refused)
{
    uint32_t first = without_room();
    name_topic(ALICE, first, "alice/a");
    publish(ALICE, first, 0, 1, 5);
    make_room();
    forget();
    open_as(ALICE, first, "alice/a");
    EXPECT("1 < opened 4 next 0\n");
    reconnect(ALICE);
    forget();
    open_as(ALICE, first, "alice/a");
    keep_lines("opened", "violation");
    EXPECT("1 < opened 4 next 0\n");
}

Test(core_number, takes_numbers_of_a_new_session_though_they_were_refused_before)
{
    uint32_t first = without_room();
    open_as(ALICE, first, "alice/a");
    make_room();
    leave(ALICE, frames[ALICE]);
    cr_assert_eq(given(ALICE), first);
    open_as(ALICE, first, "alice/a");
    keep_lines("opened", "violation");
    EXPECT("1 < opened 0 next 0\n");
}

Test(core_number, refuses_errors_in_a_topic_that_cannot_be_opened)
{
    uint32_t first = without_room();
    fail(ALICE, first, 0, 2); /* ahead of its frame */
    name_topic(ALICE, first, "alice/a");
    reserve(ALICE, first, 0);
    keep_lines("refusal", "violation");
    EXPECT("1 < refusal #0 (rejected of alice)\n1 < refusal #0 (rejected of alice)\n");
    retract(ALICE, first, 0);
    keep_lines("result", "violation");
    cr_expect_not_null(strstr(said, "1 < result"), "%s", said);
}

Test(core_number, tells_such_refusals_again)
{
    uint32_t first = without_room();
    name_topic(ALICE, first, "alice/a");
    publish(ALICE, first, 0, 1, 5);
    crash(0);
    forget();
    resume(ALICE, tokens[ALICE], 0);
    keep_lines("refusal", "refusal");
    EXPECT("1 < refusal #0 (rejected of alice)\n");
}

Test(core_number, ends_the_reply_slot_of_a_request_that_is_refused)
{
    options.topics_max = 2;
    restart();
    uint32_t first = given(ALICE);
    join(BOB);
    (void)open_topic(BOB, "bob/a");
    name_topic(ALICE, first, "alice/_replies");
    name_topic(ALICE, first + 1, "alice/q"); /* there is no room for it */
    reserve(ALICE, first, 0);
    await_slot(ALICE, 1, "alice/_replies", 0);
    forget();
    reply_to = 0;
    publish(ALICE, first + 1, 0, 1, 5);
    reply_to = FRAME_NO_REPLY;
    keep_lines("refusal", "sub 0");
    EXPECT("1 < refusal #0 (rejected of alice)\n11 < sub 0 error #0 (rejected of alice)\n");
}
