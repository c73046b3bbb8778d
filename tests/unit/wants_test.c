/* SPDX-License-Identifier: MPL-2.0 */
/* wants_test.c -- what is asked for each slot, and who is answered by what. */
#include "libbus/session/wants.h"

#include "libbus/base/limits.h"
#include "tests/unit/failing_buffers.h"

#include "libbus/base/must.h"

#include <criterion/criterion.h>

static struct memory memory;
static struct known_topics known;
static struct known_topic *topic;
static struct wants wants;
static struct buffer *part; /* whatever frames lie in */

static void init(void)
{
    memory_heap_init(&memory, UINT64_MAX);
    known_topics_init(&known, &memory);
    wants_init(&wants, &memory);
    cr_assert_eq(known_topics_open(&known, span_text("bob/x"), &topic), CODE_OK);
    part = buffer_copy(span_text("part"));
}

static void fini(void)
{
    wants_fini(&wants);
    known_topics_fini(&known);
    must(memory.bytes_used == 0);
    must(atomic_load(&part->refs) == 1); /* references are left */
    buffer_unref(&part);
}

TestSuite(wants, .init = init, .fini = fini);

static uint64_t add(uint64_t seq, enum want_mode mode)
{
    uint64_t number;
    cr_assert_eq(wants_add(&wants, topic, seq, mode, &number), CODE_OK);
    return number;
}

static void expect_ask(uint64_t seq, enum want_mode mode)
{
    struct msg msg;
    cr_assert(wants_await(&wants, &msg));
    cr_assert_eq(msg.type, MSG_AWAIT);
    cr_assert_eq(msg.as.await.seq, seq);
    cr_assert_eq(msg.as.await.is_value_wanted, mode == WANT_VALUE);
}

static void expect_quiet(void)
{
    struct msg msg;
    cr_assert_not(wants_await(&wants, &msg));
    cr_assert_not(wants_unawait(&wants, &msg));
}

static enum wants_verdict come(enum frame_kind kind, uint64_t seq, const char *text)
{
    struct frame frame = {.flags = (uint16_t)kind, .seq = seq, .value = span_text(text)};
    return wants_frame(&wants, topic, &frame, part, LIMIT_VALUE_BYTES);
}

static void expect_item(uint64_t number, enum session_item_kind kind, const char *text)
{
    struct session_item item;
    cr_assert_eq(wants_take(&wants, number, &item), CODE_OK);
    cr_assert_eq(item.kind, kind);
    cr_assert(span_equal(item.value, span_text(text)));
    buffer_unref(&item.buffer);
}

static bool is_open(uint64_t number)
{
    struct session_item item;
    return wants_take(&wants, number, &item) == CODE_ETIMEDOUT;
}

Test(wants, asks_once_for_what_serves_all)
{
    uint64_t value = add(1, WANT_VALUE);
    uint64_t outcome = add(1, WANT_OUTCOME);
    uint64_t again = add(1, WANT_VALUE);
    expect_ask(1, WANT_VALUE);
    expect_quiet();
    cr_assert_eq(come(FRAME_COMMIT, 2, "of nobody"), WANTS_NOTHING);
    cr_assert_eq(come(FRAME_COMMIT, 1, "one"), WANTS_ANSWERED);
    cr_assert_eq(come(FRAME_COMMIT, 1, "one"), WANTS_NOTHING);
    expect_item(value, SESSION_ITEM_VALUE, "one");
    expect_item(again, SESSION_ITEM_VALUE, "one");
    expect_item(outcome, SESSION_ITEM_VALUE, "");
    expect_quiet();
}

Test(wants, tells_errors_to_all)
{
    uint64_t outcome = add(1, WANT_OUTCOME);
    uint64_t value = add(1, WANT_VALUE);
    cr_assert_eq(come(FRAME_ERROR, 1, "error"), WANTS_ANSWERED);
    expect_item(value, SESSION_ITEM_ERROR, "error");
    expect_item(outcome, SESSION_ITEM_ERROR, "error");
    expect_quiet();
}

/* For each way in which an outcome alone and a value may both be asked for: whatever the broker
 * answers, in whatever order, the value is never taken for empty. */
Test(wants, never_takes_an_outcome_for_a_value)
{
    for (int is_dropped = 0; is_dropped < 2; is_dropped++)
        for (int is_rewound = 0; is_rewound < 2; is_rewound++)
            for (int is_outcome_first = 0; is_outcome_first < 2; is_outcome_first++) {
                struct msg msg;
                uint64_t outcome = add(1, WANT_OUTCOME);
                expect_ask(1, WANT_OUTCOME);
                uint64_t value = add(1, WANT_VALUE);
                expect_ask(1, WANT_VALUE);
                if (is_dropped)
                    wants_cancel(&wants, outcome);
                if (is_rewound)
                    wants_rewind(&wants);
                while (wants_await(&wants, &msg) || wants_unawait(&wants, &msg))
                    ;
                if (is_outcome_first) {
                    (void)come(FRAME_VALUE, 1, "");
                    cr_assert(is_open(value), "%d %d", is_dropped, is_rewound);
                }
                (void)come(FRAME_VALUE, 1, "real");
                expect_item(value, SESSION_ITEM_VALUE, "real");
                (void)come(FRAME_VALUE, 1, ""); /* nobody waits for it any more */
                wants_cancel(&wants, outcome);
                while (wants_await(&wants, &msg) || wants_unawait(&wants, &msg))
                    ;
            }
}

Test(wants, believes_an_empty_value_when_no_outcome_can_be_under_way)
{
    uint64_t value = add(1, WANT_VALUE);
    expect_ask(1, WANT_VALUE);
    cr_assert_eq(come(FRAME_VALUE, 1, ""), WANTS_ANSWERED);
    expect_item(value, SESSION_ITEM_VALUE, "");
    /* An empty COMMIT is never the outcome alone. */
    uint64_t outcome = add(2, WANT_OUTCOME);
    expect_ask(2, WANT_OUTCOME);
    value = add(2, WANT_VALUE);
    expect_ask(2, WANT_VALUE);
    cr_assert_eq(come(FRAME_COMMIT, 2, ""), WANTS_ANSWERED);
    expect_item(value, SESSION_ITEM_VALUE, "");
    expect_item(outcome, SESSION_ITEM_VALUE, "");
}

Test(wants, refuses_frames_that_answer_nobody)
{
    static const enum frame_kind kinds[] = {FRAME_RESERVE, FRAME_TOPIC, FRAME_GAP, FRAME_END};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        cr_assert_eq(come(kinds[i], 1, "x"), WANTS_BROKEN);
    (void)add(1, WANT_VALUE);
    cr_assert_eq(come(FRAME_CHUNK, 1, "too short"), WANTS_BROKEN);
}

Test(wants, forgets_slots_that_were_given_up)
{
    struct msg msg;
    for (uint64_t seq = 0; seq < LIMIT_STALE_WANTS; seq++) {
        uint64_t number = add(seq, seq % 2 == 0 ? WANT_OUTCOME : WANT_VALUE);
        while (wants_await(&wants, &msg))
            ;
        wants_cancel(&wants, number);
        cr_assert(wants_unawait(&wants, &msg));
    }
    cr_assert_eq(wants.wants.used, 0);
    cr_assert_eq(wants.slots.used, LIMIT_STALE_WANTS / 2);
    for (uint64_t seq = 0; seq < 8 * LIMIT_STALE_WANTS; seq += 2) {
        uint64_t number = add(seq, WANT_OUTCOME);
        while (wants_await(&wants, &msg))
            ;
        wants_cancel(&wants, number);
        cr_assert(wants_unawait(&wants, &msg));
    }
    cr_assert_eq(wants.slots.used, LIMIT_STALE_WANTS);
}

Test(wants, tell_who_was_answered_in_the_order_of_the_answers)
{
    uint64_t numbers[4];
    for (uint64_t seq = 0; seq < 4; seq++)
        numbers[seq] = add(seq, WANT_VALUE);
    cr_assert_eq(wants_answered(&wants, 0), 0);
    cr_assert_eq(come(FRAME_VALUE, 2, "two"), WANTS_ANSWERED);
    cr_assert_eq(come(FRAME_VALUE, 0, "zero"), WANTS_ANSWERED);
    cr_assert_eq(come(FRAME_ERROR, 3, "three"), WANTS_ANSWERED);
    cr_assert_eq(wants_answered(&wants, 0), numbers[2]);
    cr_assert_eq(wants_answered(&wants, numbers[2]), numbers[0]);
    expect_item(numbers[0], SESSION_ITEM_VALUE, "zero");
    cr_assert_eq(wants_answered(&wants, numbers[2]), numbers[3]);
    cr_assert_eq(wants_answered(&wants, numbers[3]), 0);
    wants_cancel(&wants, numbers[2]);
    cr_assert_eq(wants_answered(&wants, 0), numbers[3]);
    expect_item(numbers[3], SESSION_ITEM_ERROR, "three");
    cr_assert_eq(wants_answered(&wants, 0), 0);
}

Test(wants, are_bounded)
{
    uint64_t number = 0;
    for (uint64_t i = 0; i < LIMIT_AWAITS; i++)
        number = add(i / 3, WANT_VALUE);
    uint64_t more;
    cr_assert_eq(wants_add(&wants, topic, 0, WANT_VALUE, &more), CODE_EFULL);
    wants_cancel(&wants, number);
    cr_assert_eq(wants_add(&wants, topic, 0, WANT_VALUE, &more), CODE_OK);
}

/* Pieces come while the slot is open: what is settled then is what counts. */
Test(wants, drops_the_pieces_when_another_outcome_comes)
{
    uint8_t bytes[FRAME_CHUNK_PREFIX_BYTES + 10] = {0};
    frame_chunk_prefix_write(bytes, 100, 0);
    struct frame frame = {.flags = FRAME_CHUNK, .seq = 1, .value = span_of(bytes, sizeof bytes)};
    uint64_t value = add(1, WANT_VALUE);
    expect_ask(1, WANT_VALUE);
    cr_assert_eq(wants_frame(&wants, topic, &frame, part, 1000), WANTS_NOTHING);
    cr_assert_eq(come(FRAME_ERROR, 1, "an error"), WANTS_ANSWERED);
    expect_item(value, SESSION_ITEM_ERROR, "an error");
    value = add(1, WANT_VALUE);
    expect_ask(1, WANT_VALUE);
    cr_assert_eq(wants_frame(&wants, topic, &frame, part, 1000), WANTS_NOTHING);
    cr_assert_eq(come(FRAME_COMMIT, 1, "a small value"), WANTS_ANSWERED);
    expect_item(value, SESSION_ITEM_VALUE, "a small value");
}

Test(wants, tells_that_there_is_no_memory_for_a_value)
{
    uint8_t bytes[FRAME_CHUNK_PREFIX_BYTES + 10] = {0};
    struct session_item item;
    uint64_t value = add(1, WANT_VALUE);
    frame_chunk_prefix_write(bytes, 100, 0);
    struct frame frame = {.flags = FRAME_CHUNK, .seq = 1, .value = span_of(bytes, sizeof bytes)};
    buffers_left = 0;
    cr_assert_eq(wants_frame(&wants, topic, &frame, part, 1000), WANTS_ANSWERED);
    buffers_left = UINT64_MAX;
    cr_assert_eq(wants_take(&wants, value, &item), CODE_ENOMEM);
    cr_assert_eq(wants_take(&wants, value, &item), CODE_EINVAL);
    uint64_t number;
    memory.bytes_max = memory.bytes_used;
    for (uint64_t seq = 0; wants_add(&wants, topic, seq, WANT_VALUE, &number) == CODE_OK; seq++)
        cr_assert_lt(seq, 1000);
}
