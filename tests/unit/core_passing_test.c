/* SPDX-License-Identifier: MPL-2.0 */
/* core_passing_test.c -- values in chunks that pass through a broker without a journal: how much of
 * them is held, who gets them, and what who comes late is told. */
#include "broker/core/model.h"
#include "broker/core/streams/topic.h"
#include "tests/unit/core_driver.h"

TestSuite(core_passing, .init = init, .fini = fini);

#define MIB (UINT64_C(1) << 20)

enum {
    PIECES = 64, /* of a MiB each: four times what the job may keep */
    CHARGE_MIB = 3,
    WINDOW_MIB = 2,
};
#define CHARGE_BYTES (CHARGE_MIB * chunk_cost(frame_total(FRAME_CHUNK_PREFIX_BYTES + MIB)))

/* A broker without a journal, whose jobs keep 16 MiB. */
static void begin_small(void)
{
    options.has_facts = false;
    options.job_bytes_max = 16 * MIB;
    is_alone = true; /* without facts there is no second core */
    restart();
}

static uint32_t begin_with_bob(void)
{
    begin_small();
    return open_for_bob();
}

/* The next piece of slot 0, whose payload is numbered from 1 on. */
static void piece(uint32_t topic, uint64_t index)
{
    chunk(1, topic, 0, PIECES * MIB, index * MIB, MIB, 1 + (payload_id)index);
}

/* This person has taken all that it was sent on its only subscription. */
static void take_all(uint32_t person)
{
    struct sub *sub = NULL;
    while ((sub = pool_next(&core->subs, sub != NULL ? sub->id : 0)) != NULL)
        if (sub->session != NULL && sub->session->control == person)
            taken(person, sub->number, sub->sent_bytes);
}

static bool is_said(const char *words)
{
    return strstr(said, words) != NULL;
}

static uint64_t job_bytes(void)
{
    return ((struct job *)pool_next(&core->jobs, 0))->bytes;
}

static void expect_passed(uint64_t index)
{
    char line[64];
    (void)snprintf(line, sizeof line, "12 < sub 1 payload %u x1\n", (unsigned)index + 1);
    cr_expect(is_said(line), "%s: %s", line, said);
}

/* Bob takes each piece as it comes. */
static void pass(uint32_t topic, uint64_t first, uint64_t end)
{
    for (uint64_t i = first; i < end; i++) {
        forget();
        piece(topic, i);
        expect_passed(i);
        take_all(2);
        cr_expect_leq(references, 1, "%lld pieces are held", (long long)references);
        cr_expect_leq(job_bytes(), CHARGE_BYTES + COST_SLOT_BYTES);
    }
}

Test(core_passing, takes_a_value_larger_than_its_job_and_holds_a_piece)
{
    uint32_t a = begin_with_bob();
    reserve(1, a, 0);
    pass(a, 0, PIECES);
    cr_expect(is_said("1 < chunked 67108864 of "), "%s", said);
    cr_expect_eq(references, 0);
    cr_expect_eq(job_bytes(), 0);
    forget();
    publish(1, a, 1, 1, 900);
    EXPECT("1 < accepted 2 0\n12 < sub 1 payload 900 x1\n");
}

/* What is gone leaves its place, too. */
Test(core_passing, has_no_more_places_than_twice_what_is_here)
{
    uint32_t a = begin_with_bob();
    reserve(1, a, 0);
    for (uint64_t i = 0; i + 1 < PIECES; i++) {
        pass(a, i, i + 1);
        const struct chunks *chunks = pool_next(&core->chunk_sets, 0);
        cr_expect_leq(chunks->count, 2, "%u of %u", chunks->first, chunks->count);
    }
}

/* What counts is the memory that pieces take, and not their bytes alone. */
Test(core_passing, refuses_pieces_that_cost_more_than_it_counts)
{
    uint64_t of_one = chunk_cost(frame_total(FRAME_CHUNK_PREFIX_BYTES + 1));
    uint32_t a = begin_with_bob();
    reserve(1, a, 0);
    piece(a, 0);
    uint64_t room = (CHARGE_BYTES - CHARGE_BYTES / CHARGE_MIB) / of_one; /* so many of a byte */
    for (uint64_t i = 0; i <= room; i++) {
        cr_assert(!is_said("refusal"), "%u: %s", (unsigned)i, said);
        forget();
        chunk(1, a, 0, PIECES * MIB, MIB + i, 1, 2);
    }
    cr_expect(is_said("refusal"), "%s", said);
}

/* Of the only row of this kind. */
static uint64_t bytes_told(uint64_t kind)
{
    const struct msg_status_row *row = NULL;
    forget();
    message(9, (struct msg){.type = MSG_STATUS, .as.status = {.request = 1}});
    for (uint32_t i = 0; i < effects.msg_count; i++)
        if (effects.msgs[i].type == MSG_STATUS_ROW && effects.msgs[i].as.status_row.kind == kind)
            row = &effects.msgs[i].as.status_row;
    cr_assert_not_null(row);
    return row->pending_bytes;
}

Test(core_passing, is_told_in_the_status_while_it_is_under_way)
{
    enum { JOB, PARTY, TOPIC };
    uint32_t a = begin_with_bob();
    observe(9, "");
    reserve(1, a, 0);
    pass(a, 0, PIECES / 2);
    for (uint64_t kind = JOB; kind <= TOPIC; kind += TOPIC - JOB) {
        cr_expect_geq(bytes_told(kind), CHARGE_BYTES, "%lu", kind);
        cr_expect_leq(bytes_told(kind), CHARGE_BYTES + COST_SLOT_BYTES, "%lu", kind);
    }
    pass(a, PIECES / 2, PIECES);
    cr_expect_eq(bytes_told(JOB), 0);
    cr_expect_eq(bytes_told(TOPIC), 0);
}

Test(core_passing, keeps_a_value_whole_that_fits)
{
    uint32_t a = begin_with_bob();
    reserve(1, a, 0);
    for (uint64_t i = 0; i < 4; i++) {
        chunk(1, a, 0, 4 * MIB, i * MIB, MIB, 1 + (payload_id)i);
        take_all(2);
    }
    cr_expect_eq(references, 4);
    join(3);
    forget();
    subscribe(3, 1, "alice/a", "", 0, 0);
    cr_expect(is_said("13 < sub 1 payload 1 x1\n"), "%s", said);
}

/* The newest value stays, and those before it within --topic-keep, of which all took all. */
Test(core_passing, keeps_no_taken_value_beside_the_newest_beyond_what_is_kept)
{
    options.topic_keep_bytes = 2 * (COST_SLOT_BYTES + CHARGE_BYTES / CHARGE_MIB);
    uint32_t a = begin_with_bob();
    for (uint64_t seq = 0; seq < 8; seq++) {
        reserve(1, a, seq);
        chunk(1, a, seq, MIB, 0, MIB, 1 + (payload_id)seq);
        take_all(2);
        cr_expect_leq(references, 3, "%lld", (long long)references);
    }
    cr_expect_eq(references, 2);
    options.topic_keep_bytes = 0;
    a = begin_with_bob();
    references = 0;
    for (uint64_t seq = 0; seq < 8; seq++) {
        reserve(1, a, seq);
        chunk(1, a, seq, MIB, 0, MIB, 1 + (payload_id)seq);
        take_all(2);
        cr_expect_eq(references, 1);
    }
}

/* ---- the writer ------------------------------------------------------------------------------ */

Test(core_passing, lets_its_writer_go_no_further_than_a_window_ahead)
{
    uint32_t a = begin_with_bob();
    tap(3);
    reserve(1, a, 0);
    forget();
    piece(a, 0);
    cr_expect(is_said("1 < chunked 1048576 of 2097152\n"), "%s", said);
    piece(a, 1);
    cr_expect(is_said("1 < chunked 2097152 of 2097152\n"), "%s", said);
    forget();
    take_all(2);
    cr_expect(is_said("1 < chunked 2097152 of 3145728\n"), "%s", said);
    forget();
    piece(a, 2); /* bob has one of these two */
    piece(a, 3);
    cr_expect_not(is_said("refusal"), "%s", said);
    forget();
    piece(a, 4); /* beyond what a writer may have under way */
    cr_expect(is_said("refusal #0 (rejected of alice)"), "%s", said);
    take_all(2);
    cr_expect(is_said("12 < sub 1 error #0 (rejected of alice)"), "%s", said);
    cr_expect_eq(references, 0);
}

Test(core_passing, names_the_reader_that_holds_it_up)
{
    uint32_t a = begin_with_bob();
    reserve(1, a, 0);
    pass(a, 0, 8);
    cr_expect_null(strstr(logged, "consumer.slow"), "%s", logged);
    piece(a, 8);
    piece(a, 9);
    cr_expect_not_null(strstr(logged, "consumer.slow: bob holds the writer of alice/a back"), "%s",
                       logged);
}

/* Nobody takes it any more: the value is refused, and its writer goes on and is told so. */
Test(core_passing, refuses_a_value_whose_readers_take_nothing)
{
    static const conn_id both[] = {1, 2, 0};
    uint32_t a = begin_with_bob();
    reserve(1, a, 0);
    pass(a, 0, 8);
    piece(a, 8);
    beat_on(9, 1000, both);
    cr_expect_not(is_said("#0"), "%s", said);
    take_all(2);
    beat_on(21, 1000, both); /* what waits for its writer does not count */
    cr_expect_not(is_said("#0"), "%s", said);
    piece(a, 9);
    piece(a, 10);
    forget();
    beat_on(9, 1000, both);
    cr_expect_not(is_said("chunked"), "%s", said);
    beat_on(2, 1000, both);
    cr_expect(is_said("1 < chunked 11534336\n"), "%s", said);
    cr_expect_eq(references, 0);
    piece(a, 11);
    cr_expect(is_said("refusal #0 (rejected of alice)"), "%s", said);
    cr_expect(is_said("1 < chunked 67108864\n"), "%s", said);
    take_all(2);
    cr_expect(is_said("12 < sub 1 error #0 (rejected of alice)"), "%s", said);
}

Test(core_passing, fails_at_its_deadline_though_it_is_held_up)
{
    uint32_t a = begin_with_bob();
    promise(1, a, 0, 500);
    piece(a, 0);
    piece(a, 1);
    forget();
    pass_ms(499);
    EXPECT("");
    pass_ms(1);
    cr_expect(is_said("1 < chunked 2097152\n"), "%s", said);
    take_all(2);
    cr_expect(is_said("12 < sub 1 error #0 (deadline of alice)"), "%s", said);
}

Test(core_passing, goes_on_when_the_reader_that_held_it_up_has_gone)
{
    uint32_t a = begin_with_bob();
    join(3);
    subscribe(3, 1, "alice/a", "", 0, 0);
    reserve(1, a, 0);
    piece(a, 0);
    piece(a, 1);
    take_all(2);
    cr_expect_eq(references, 2);
    forget();
    message(3, (struct msg){.type = MSG_UNSUBSCRIBE,
                            .as.unsubscribe = {.number = ++numbers[3], .sub = 1}});
    cr_expect(is_said("1 < chunked 2097152 of 3145728\n"), "%s", said);
    cr_expect_eq(references, 1);
}

/* ---- who comes late -------------------------------------------------------------------------- */

/* Carol comes when a part of the value is gone. */
static uint32_t begin_with_late_carol(void)
{
    uint32_t a = begin_with_bob();
    join(3);
    reserve(1, a, 0);
    pass(a, 0, 8);
    forget();
    subscribe(3, 1, "alice/a", "", 0, 0);
    await_slot(3, 7, "alice/a", 0);
    cr_expect_not(is_said("13 <"), "%s", said);
    return a;
}

Test(core_passing, tells_who_comes_late_of_the_gap_once_it_is_whole)
{
    uint32_t a = begin_with_late_carol();
    pass(a, 8, PIECES);
    cr_expect(is_said("13 < sub 1 gap #0 x1 not kept\n"), "%s", said);
    cr_expect(is_said("13 < sub 0 error #0 (rejected of alice)\n"), "%s", said);
    take_all(3);
    cr_expect_eq(job_bytes(), 0);
}

Test(core_passing, gives_who_comes_late_the_error_in_its_place)
{
    uint32_t a = begin_with_late_carol();
    forget();
    fail(1, a, 0, 1);
    cr_expect(is_said("12 < sub 1 error #0 (application of alice)\n"), "%s", said);
    cr_expect(is_said("13 < sub 1 error #0 (application of alice)\n"), "%s", said);
    cr_expect(is_said("13 < sub 0 error #0 (application of alice)\n"), "%s", said);
    cr_expect_eq(references, 0);
}

Test(core_passing, lets_who_comes_before_anything_is_gone_have_all_of_it)
{
    uint32_t a = begin_with_bob();
    join(3);
    reserve(1, a, 0);
    piece(a, 0);
    forget();
    subscribe(3, 1, "alice/a", "", 0, 0);
    cr_expect(is_said("13 < sub 1 payload 1 x1\n"), "%s", said);
    take_all(2);
    cr_expect_eq(references, 1, "carol has not taken it");
    take_all(3);
    cr_expect_eq(references, 0);
}

/* A group gets no part of it, and is told. */
Test(core_passing, tells_a_group_that_comes_late_what_is_gone)
{
    uint32_t a = begin_with_bob();
    join(3);
    reserve(1, a, 0);
    pass(a, 0, 8);
    subscribe_as(3, (struct msg_subscribe){.sub = 1,
                                           .pattern = span_text("alice/a"),
                                           .group = span_text("work"),
                                           .credit = 1,
                                           .window_bytes = 4096});
    tap(4);
    pass(a, 8, PIECES);
    cr_expect(is_said("4 < tasks.gone"), "%s", said);
    forget();
    publish(1, a, 1, 1, 900);
    cr_expect(is_said("13 < sub 1"), "%s", said);
}

/* ---- who comes back -------------------------------------------------------------------------- */

/* Bob comes back on another connection, and says how much he has of slot 0. */
static void come_back(uint32_t topic, uint64_t offset)
{
    closed(12);
    say_hello_again(2);
    message(2, (struct msg){.type = MSG_POSITION,
                            .as.position = {.sub = 1, .topic = topic, .chunk_offset = offset}});
    forget();
    attach(2, 12, tokens[2]);
}

Test(core_passing, goes_on_behind_what_a_reader_has_that_comes_back)
{
    uint32_t a = begin_with_bob();
    reserve(1, a, 0);
    pass(a, 0, 8);
    piece(a, 8);
    closed(12);
    piece(a, 9);
    cr_expect_eq(references, 2, "nothing goes while bob is away");
    come_back(a, 8 * MIB);
    cr_expect(is_said("12 < sub 1 payload 9 x1\n"), "%s", said);
    take_all(2);
    take_all(2);
    pass(a, 10, PIECES);
    cr_expect(is_said("1 < chunked 67108864 of "), "%s", said);
}

/* It has lost what it took, and nobody has it any more. */
Test(core_passing, waits_for_no_reader_that_lost_what_is_gone)
{
    uint32_t a = begin_with_bob();
    reserve(1, a, 0);
    pass(a, 0, 8);
    piece(a, 8);
    piece(a, 9);
    come_back(a, 0);
    cr_expect_not(is_said("12 <"), "%s", said);
    cr_expect_eq(references, 0);
    for (uint64_t i = 10; i < PIECES; i++)
        piece(a, i);
    cr_expect(is_said("12 < sub 1 gap #0 x1 not kept\n"), "%s", said);
}

/* ---- where nothing passes -------------------------------------------------------------------- */

static void expect_refused(uint32_t topic)
{
    reserve(1, topic, 0);
    forget();
    piece(topic, 0);
    cr_expect(is_said("refusal #0 (rejected of alice)"), "%s", said);
    cr_expect_eq(references, 0);
}

Test(core_passing, refuses_what_nobody_reads)
{
    begin_small();
    join(1);
    expect_refused(open_topic(1, "alice/a"));
}

Test(core_passing, refuses_what_a_durable_name_needs_whole)
{
    uint32_t a = begin_with_bob();
    subscribe(2, 2, "alice/a", "mine", 0, 0);
    expect_refused(a);
}

Test(core_passing, refuses_what_a_group_needs_whole)
{
    uint32_t a = begin_with_bob();
    subscribe_as(2, (struct msg_subscribe){.sub = 2,
                                           .pattern = span_text("alice/a"),
                                           .group = span_text("work"),
                                           .window_bytes = 4096});
    expect_refused(a);
}

Test(core_passing, refuses_what_an_await_needs_whole)
{
    uint32_t a = begin_with_bob();
    await_slot(2, 7, "alice/a", 0);
    expect_refused(a);
}

Test(core_passing, refuses_what_only_readers_that_accept_gaps_read)
{
    begin_small();
    join(1);
    join(2);
    subscribe(2, 1, "alice/a", "", 0, 1);
    expect_refused(open_topic(1, "alice/a"));
}

/* Readers do not come to it before that slot is settled, and the leave of alice waits for it. */
Test(core_passing, refuses_what_stands_behind_an_open_slot)
{
    uint32_t a = begin_with_bob();
    reserve(1, a, 0);
    reserve(1, a, 1);
    forget();
    chunk(1, a, 1, PIECES * MIB, 0, MIB, 1);
    cr_expect(is_said("refusal #1 (rejected of alice)"), "%s", said);
    piece(a, 0);
    cr_expect(is_said("1 < chunked 1048576 of 2097152\n"), "%s", said);
}

Test(core_passing, refuses_what_the_journal_keeps)
{
    options.job_bytes_max = 16 * MIB;
    restart();
    expect_refused(open_for_bob());
}

/* Each value that passes counts what its writer may have under way.  There is room for so many. */
Test(core_passing, lets_only_so_many_pass_as_there_is_room_for)
{
    uint32_t topics[6];
    begin_small();
    join(1);
    join(2);
    subscribe(2, 1, "alice/#", "", 0, 0);
    for (uint64_t i = 0; i < 6; i++) {
        char name[16];
        (void)snprintf(name, sizeof name, "alice/%u", (unsigned)i);
        topics[i] = open_topic(1, name);
        reserve(1, topics[i], 0);
        forget();
        chunk(1, topics[i], 0, PIECES * MIB, 0, MIB, 1 + (payload_id)i);
        cr_expect_eq(is_said("refusal"), i * CHARGE_MIB + CHARGE_MIB > 16 - 1, "%u: %s",
                     (unsigned)i, said);
    }
}
