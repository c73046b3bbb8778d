/* SPDX-License-Identifier: MPL-2.0 */
/* entry_test.c -- what errors count that stand in slots: each error once, however many have it. */
#include "broker/core/streams/entry.h"

#include "broker/core/model.h"
#include "broker/core/streams/topic.h"
#include "tests/unit/core_driver.h"

TestSuite(entry, .init = init, .fini = fini);

static uint64_t job_bytes(void)
{
    return ((struct job *)pool_next(&core->jobs, 0))->bytes;
}

static struct topic *topic_of(uint32_t number)
{
    return pool_find(&core->topics, number);
}

/* The bytes of the error in the oldest slot. */
static uint64_t error_bytes_in(uint32_t number)
{
    const struct slot_entry *entry = slot_table_at(&topic_of(number)->slots, 0);
    cr_assert_eq(entry->state, SLOT_ERROR);
    return ((struct failure *)pool_find(&core->failures, entry->ref))->byte_count;
}

static void reserve_and_fail(uint32_t topic, uint64_t seq)
{
    reserve(1, topic, seq);
    fail(1, topic, seq, frames[1]);
}

Test(entry, counts_the_bytes_of_an_error)
{
    uint32_t a = open_for_bob();
    reserve_and_fail(a, 0);
    uint64_t bytes = error_bytes_in(a);
    cr_expect_geq(bytes, 50);
    cr_expect_eq(job_bytes(), COST_SLOT_BYTES + bytes);
    cr_expect_eq(topic_of(a)->bytes, COST_SLOT_BYTES + bytes);
    cr_expect_eq(topic_of(a)->writer->account->held[ACCESS_BYTES], COST_SLOT_BYTES + bytes);
    publish(1, a, 1, 1, 5);
    topic_cut(core, topic_of(a), 1);
    cr_expect_eq(job_bytes(), topic_weight(core, slot_table_at(&topic_of(a)->slots, 0)));
    cr_expect_eq(topic_of(a)->writer->account->held[ACCESS_BYTES], job_bytes());
    is_alone = true; /* no fact told of it */
}

/* A topic keeps as many errors for late subscribers as its bytes allow, at n-1, n, n+1. */
Test(entry, keeps_errors_within_the_bytes_of_their_topic)
{
    for (int i = 0; i < 3; i++) {
        options.topic_keep_bytes = 1 << 20;
        memset(numbers, 0, sizeof numbers);
        memset(frames, 0, sizeof frames);
        restart();
        uint32_t a = open_for_bob();
        reserve_and_fail(a, 0);
        options.topic_keep_bytes = 3 * job_bytes() - 1 + (uint64_t)i;
        memset(numbers, 0, sizeof numbers);
        memset(frames, 0, sizeof frames);
        restart();
        a = open_for_bob();
        for (uint64_t seq = 0; seq < 4; seq++) { /* numbers of one digit: all are as long */
            reserve_and_fail(a, seq);
            taken(2, 1, ((struct sub *)pool_next(&core->subs, 0))->sent_bytes);
        }
        cr_expect_eq(topic_of(a)->slots.count, i == 0 ? 2U : 3U, "%u", topic_of(a)->slots.count);
    }
}

/* Alice leaves, and owes five slots of two topics. */
static uint64_t fail_together(uint32_t a, uint32_t b)
{
    for (uint64_t seq = 0; seq < 3; seq++)
        reserve(1, a, seq);
    for (uint64_t seq = 0; seq < 2; seq++)
        reserve(1, b, seq);
    leave(1, frames[1]);
    cr_assert_eq(slot_table_at(&topic_of(a)->slots, 0)->ref,
                 slot_table_at(&topic_of(b)->slots, 1)->ref, "one error");
    return error_bytes_in(a);
}

Test(entry, counts_an_error_of_many_slots_once)
{
    join_all(2);
    uint32_t a = open_topic(1, "alice/a");
    uint32_t b = open_topic(1, "alice/b");
    uint64_t bytes = fail_together(a, b);
    cr_expect_eq(job_bytes(), 5 * COST_SLOT_BYTES + bytes);
    cr_expect_eq(topic_of(a)->bytes, 3 * COST_SLOT_BYTES + bytes);
    cr_expect_eq(topic_of(b)->bytes, 2 * COST_SLOT_BYTES);
    compact();
    cr_expect_eq(job_bytes(), 5 * COST_SLOT_BYTES + bytes);
}

Test(entry, counts_it_until_the_last_of_its_slots_has_gone)
{
    join_all(2);
    uint32_t a = open_topic(1, "alice/a");
    uint32_t b = open_topic(1, "alice/b");
    uint64_t bytes = fail_together(a, b);
    is_alone = true; /* no fact tells of what goes now */
    topic_cut(core, topic_of(a), 2);
    cr_expect_eq(job_bytes(), 3 * COST_SLOT_BYTES + bytes, "the one that paid is gone");
    cr_expect_eq(topic_of(a)->bytes, COST_SLOT_BYTES);
    topic_cut(core, topic_of(a), 3);
    topic_cut(core, topic_of(b), 1);
    cr_expect_eq(job_bytes(), COST_SLOT_BYTES + bytes);
    topic_cut(core, topic_of(b), 2);
    cr_expect_eq(job_bytes(), 0);
    cr_expect_eq(topic_of(a)->writer->account->held[ACCESS_BYTES], 0);
}

/* ---- where there is no room ------------------------------------------------------------------ */

static void fail_at_length(uint32_t topic, uint64_t seq)
{
    static uint8_t bytes[LIMIT_ERROR_BYTES];
    static char words[LIMIT_ERROR_MESSAGE_BYTES];
    struct error_record record;
    size_t count;
    memset(words, 'w', sizeof words);
    error_record_init(&record);
    record.type = span_text("app.broken");
    record.message = span_of(words, sizeof words);
    cr_assert_eq(error_encode(&record, 1, bytes, sizeof bytes, &count), WIRE_OK);
    reserve(1, topic, seq);
    forget();
    message(1, (struct msg){.type = MSG_FAIL,
                            .as.fail = {.number = ++numbers[1],
                                        .after = frames[1],
                                        .topic = topic,
                                        .seq = seq,
                                        .error = span_of(bytes, count)}});
}

/* The writer's slot fails in any case.  At n-1, n, n+1 bytes. */
Test(entry, leaves_out_the_details_of_an_error_for_which_there_is_no_room)
{
    options.job_bytes_max = 1 << 20;
    restart();
    fail_at_length(open_for_bob(), 0);
    uint64_t bytes = job_bytes();
    for (int i = 0; i < 3; i++) {
        options.job_bytes_max = bytes - 1 + (uint64_t)i;
        memset(numbers, 0, sizeof numbers);
        memset(frames, 0, sizeof frames);
        restart();
        uint32_t a = open_for_bob();
        fail_at_length(a, 0);
        cr_expect_not_null(strstr(said, "12 < sub 1 error #0 (application of alice)"), "%s", said);
        cr_expect_eq(strstr(error_message, "left out") != NULL, i == 0, "%s", error_message);
        cr_expect_lt(i == 0 ? error_bytes_in(a) : 0, 1024);
    }
}
