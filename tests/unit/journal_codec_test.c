/* SPDX-License-Identifier: MPL-2.0 */
/* journal_codec_test.c -- facts and payloads become records and come back; malformed ones are
 * refused. */
#include "broker/io/journal_codec.h"

#include "libbus/base/must.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

static struct memory memory;
static struct effects effects;
static struct payload_table payloads;

static void init(void)
{
    memory_heap_init(&memory, UINT64_MAX);
    effects_init(&effects, &memory);
    payload_table_init(&payloads, &memory);
}

static void fini(void)
{
    payload_table_fini(&payloads);
    effects_fini(&effects);
    must(memory.bytes_used == 0);
}

TestSuite(journal_codec, .init = init, .fini = fini);

static payload_id add_payload(const char *text)
{
    payload_id id = 0;
    struct buffer *buffer = buffer_copy(span_text(text));
    cr_assert(payload_add(&payloads, &buffer, &id));
    return id;
}

static void add_fact(uint64_t number, payload_id payload)
{
    struct fact fact = {.type = FACT_FAILURE_FORGOTTEN, .as.failure_forgotten.failure = number};
    effects_fact(&effects, &fact, payload);
}

static void expect_entry(struct journal_codec_reader *reader, enum journal_codec_tag tag,
                         uint64_t number)
{
    struct journal_codec_entry entry;
    struct fact fact;
    cr_assert_eq(journal_codec_next(reader, &entry), WIRE_OK);
    cr_assert_eq(entry.tag, tag);
    cr_assert_eq(fact_decode(entry.fact, &fact), WIRE_OK);
    cr_assert_eq(fact.as.failure_forgotten.failure, number);
}

Test(journal_codec, gives_nothing_where_nothing_was_decided)
{
    uint32_t at = 0;
    cr_assert_null(journal_codec_step(&effects, &payloads, &at, SIZE_MAX));
    effects_drop(&effects, 1);
    cr_assert_null(journal_codec_step(&effects, &payloads, &at, SIZE_MAX));
    cr_assert_eq(at, 1, "what is looked at is not looked at again");
}

Test(journal_codec, puts_a_new_payload_before_its_facts)
{
    uint32_t at = 0;
    payload_id fresh = add_payload("the batch");
    add_fact(1, 0);
    effects_drop(&effects, 1);
    add_fact(2, fresh);
    add_fact(3, fresh);
    struct journal_step *step = journal_codec_step(&effects, &payloads, &at, SIZE_MAX);
    cr_assert_not_null(step);
    cr_assert_eq(at, 4);
    cr_assert_eq(step->count, 2);
    cr_assert_eq(step->key, payload_key(&payloads, fresh));
    cr_assert_eq(step->records[0].kind, JOURNAL_CODEC_PAYLOAD);
    cr_assert(span_equal(step->records[0].body, span_text("the batch")));
    cr_assert_eq(step->records[1].kind, JOURNAL_CODEC_FACTS);
    struct journal_codec_reader reader = {.left = step->records[1].body};
    struct journal_codec_entry entry;
    expect_entry(&reader, JOURNAL_CODEC_NO_PAYLOAD, 1);
    expect_entry(&reader, JOURNAL_CODEC_NEWEST_PAYLOAD, 2);
    expect_entry(&reader, JOURNAL_CODEC_NEWEST_PAYLOAD, 3);
    cr_assert_eq(journal_codec_next(&reader, &entry), WIRE_EMPTY);
    journal_step_free(&step);
}

Test(journal_codec, names_the_place_of_a_payload_that_stood_before)
{
    uint32_t at = 0;
    payload_id old = add_payload("of before");
    payload_logged(&payloads, payload_key(&payloads, old), UINT64_C(0x123456789a));
    add_fact(7, old);
    struct journal_step *step = journal_codec_step(&effects, &payloads, &at, SIZE_MAX);
    cr_assert_not_null(step);
    cr_assert_eq(step->count, 1);
    cr_assert_null(step->payload);
    struct journal_codec_reader reader = {.left = step->records[0].body};
    struct journal_codec_entry entry;
    cr_assert_eq(journal_codec_next(&reader, &entry), WIRE_OK);
    cr_assert_eq(entry.tag, JOURNAL_CODEC_PAYLOAD_AT);
    cr_assert_eq(entry.payload_at, UINT64_C(0x123456789a));
    cr_assert_eq(entry.payload_bytes, strlen("of before"));
    journal_step_free(&step);
}

static struct journal_step *next_step(uint32_t *at)
{
    struct journal_step *step = journal_codec_step(&effects, &payloads, at, SIZE_MAX);
    cr_assert_not_null(step);
    return step;
}

/* A worker may refuse the task of a value at once: the journal's thread has it still, and its dead
 * letter needs it.  Between the two there came one more, and one was written anew. */
Test(journal_codec, says_how_far_behind_a_payload_on_its_way_is)
{
    uint32_t at = 0;
    payload_id old = add_payload("of before");
    payload_id task = add_payload("the task");
    payload_id other = add_payload("the other");
    payload_logged(&payloads, payload_key(&payloads, old), 64);
    add_fact(1, task);
    struct journal_step *steps[4] = {next_step(&at)};
    steps[1] = journal_codec_move(&payloads, old);
    add_fact(2, other);
    add_fact(3, task);
    steps[2] = next_step(&at);
    add_fact(4, task);
    add_fact(5, other);
    steps[3] = next_step(&at);
    struct journal_codec_reader reader = {.left = steps[2]->records[1].body};
    struct journal_codec_entry entry;
    expect_entry(&reader, JOURNAL_CODEC_NEWEST_PAYLOAD, 2);
    cr_assert_eq(journal_codec_next(&reader, &entry), WIRE_OK);
    cr_assert_eq(entry.tag, JOURNAL_CODEC_PAYLOAD_BEHIND);
    cr_assert_eq(entry.behind, 2);
    cr_assert_eq(steps[3]->count, 1, "no payload is given twice");
    reader.left = steps[3]->records[0].body;
    cr_assert_eq(journal_codec_next(&reader, &entry), WIRE_OK);
    cr_assert_eq(entry.behind, 2);
    cr_assert_eq(journal_codec_next(&reader, &entry), WIRE_OK);
    cr_assert_eq(entry.tag, JOURNAL_CODEC_PAYLOAD_BEHIND);
    cr_assert_eq(entry.behind, 0);
    for (int i = 0; i < 4; i++)
        journal_step_free(&steps[i]);
}

Test(journal_codec, tells_a_snapshot_in_pieces)
{
    enum { FACTS = 1000 };
    uint32_t at = 0;
    uint64_t number = 0;
    unsigned pieces = 0;
    struct journal_step *step;
    for (uint64_t i = 0; i < FACTS; i++)
        add_fact(i, 0);
    while ((step = journal_codec_step(&effects, &payloads, &at, 512)) != NULL) {
        struct journal_codec_reader reader = {.left = step->records[0].body};
        cr_assert_leq(step->bytes, 1024);
        while (reader.left.bytes > 0)
            expect_entry(&reader, JOURNAL_CODEC_NO_PAYLOAD, number++);
        journal_step_free(&step);
        pieces += 1;
    }
    cr_assert_eq(number, FACTS);
    cr_assert_gt(pieces, 10);
}

Test(journal_codec, refuses_what_is_cut_at_any_byte)
{
    uint32_t at = 0;
    payload_id old = add_payload("of before");
    payload_logged(&payloads, payload_key(&payloads, old), 64);
    payload_id task = add_payload("the task");
    must(payload_give(&payloads, task));
    add_fact(1, 0);
    add_fact(2, old);
    add_fact(3, task);
    struct journal_step *step = journal_codec_step(&effects, &payloads, &at, SIZE_MAX);
    struct span whole = step->records[0].body;
    unsigned ends = 0;
    for (size_t bytes = 0; bytes < whole.bytes; bytes++) {
        struct journal_codec_reader reader = {.left = span_of(whole.data, bytes)};
        struct journal_codec_entry entry;
        enum wire_err err;
        while ((err = journal_codec_next(&reader, &entry)) == WIRE_OK)
            continue;
        cr_assert(err == WIRE_TRUNCATED || err == WIRE_EMPTY);
        ends += err == WIRE_EMPTY;
    }
    cr_assert_eq(ends, 3, "only before a fact may it end");
    journal_step_free(&step);
}

Test(journal_codec, refuses_a_tag_that_none_has)
{
    static const uint8_t bytes[] = {JOURNAL_CODEC_PAYLOAD_BEHIND + 1, 0, 0, 0, 0};
    static const uint8_t huge[] = {JOURNAL_CODEC_NO_PAYLOAD, 0xff, 0xff, 0xff, 0xff, 0};
    struct journal_codec_reader reader = {.left = span_of(bytes, sizeof bytes)};
    struct journal_codec_entry entry;
    cr_assert_eq(journal_codec_next(&reader, &entry), WIRE_RANGE);
    reader.left = span_of(huge, sizeof huge);
    cr_assert_eq(journal_codec_next(&reader, &entry), WIRE_TRUNCATED);
}
