/* SPDX-License-Identifier: MPL-2.0 */
/* open_slot_test.c -- values in chunks: which chunk holds a byte, and what chunks cost. */
#include "broker/core/streams/open_slot.h"

#include "broker/core/model.h"
#include "tests/unit/core_driver.h"

TestSuite(open_slot, .init = init, .fini = fini);

enum { MANY = 1000 };

/* What a chunk of one byte costs. */
#define SMALL_COST chunk_cost(frame_total(FRAME_CHUNK_PREFIX_BYTES + 1))

static uint64_t job_bytes(void)
{
    return ((struct job *)pool_next(&core->jobs, 0))->bytes;
}

/* The first chunks of slot 0, of a byte each. */
static void small_chunks(uint32_t topic, uint64_t total, uint64_t first, uint64_t end)
{
    for (uint64_t i = first; i < end; i++)
        chunk(1, topic, 0, total, i, 1, 1 + (payload_id)i);
}

static bool is_refused(void)
{
    return strstr(said, "refusal") != NULL;
}

/* Only where chunks begin is looked at: the lengths of those before it are not there to be added
 * up. */
Test(open_slot, finds_the_chunk_of_a_byte_without_those_before_it)
{
    static struct chunk items[MANY];
    struct chunks chunks = {.items = items};
    for (chunks.count = 1; chunks.count <= MANY; chunks.count++) {
        items[chunks.count - 1].begin = 10 * (uint64_t)(chunks.count - 1);
        chunks.bytes = 10 * (uint64_t)chunks.count;
        cr_expect_eq(chunks_at(&chunks, chunks.bytes - 1), &items[chunks.count - 1]);
        cr_expect_null(chunks_at(&chunks, chunks.bytes));
    }
    chunks.count = MANY;
    for (uint32_t i = 0; i < MANY; i++) {
        cr_expect_eq(chunks_at(&chunks, 10 * (uint64_t)i), &items[i]);
        cr_expect_eq(chunks_at(&chunks, 10 * (uint64_t)i + 9), &items[i]);
    }
    chunks.first = MANY / 2;
    chunks.gone = 10 * (uint64_t)chunks.first;
    cr_expect_null(chunks_at(&chunks, chunks.gone - 1));
    cr_expect_eq(chunks_at(&chunks, chunks.gone), &items[MANY / 2]);
    cr_expect_null(chunks_at(&(struct chunks){0}, 0));
}

Test(open_slot, counts_what_its_chunks_cost)
{
    cr_expect_geq(SMALL_COST,
                  FRAME_HEADER_BYTES + FRAME_CHUNK_PREFIX_BYTES + 1 + sizeof(struct chunk));
    cr_expect_eq(chunks_cost_of(3, 1), 3 * SMALL_COST);
    cr_expect_eq(chunks_cost_of(17, 8),
                 2 * chunk_cost(frame_total(FRAME_CHUNK_PREFIX_BYTES + 8)) + SMALL_COST);
    uint32_t a = open_for_bob();
    reserve(1, a, 0);
    small_chunks(a, MANY, 0, MANY / 2);
    cr_expect_eq(job_bytes(), COST_SLOT_BYTES + MANY / 2 * SMALL_COST);
    small_chunks(a, MANY, MANY / 2, MANY);
    cr_expect_eq(job_bytes(), COST_SLOT_BYTES + MANY * SMALL_COST);
}

/* The first chunk asks for the whole value, in chunks of its size. */
Test(open_slot, takes_a_value_in_chunks_whose_cost_has_room)
{
    for (uint64_t i = 0; i < 3; i++) {
        options.job_bytes_max = COST_SLOT_BYTES + MANY * SMALL_COST - 1 + i;
        memset(numbers, 0, sizeof numbers);
        memset(frames, 0, sizeof frames);
        restart();
        uint32_t a = open_for_bob();
        reserve(1, a, 0);
        forget();
        small_chunks(a, MANY, 0, 1);
        cr_expect_eq(is_refused(), i == 0, "%u: %s", (unsigned)i, said);
        small_chunks(a, MANY, 1, MANY);
        cr_expect_eq(is_refused(), i == 0, "%u: %s", (unsigned)i, said);
    }
}

/* ... and then becomes smaller ones. */
Test(open_slot, ends_a_value_whose_chunks_have_no_room_any_more)
{
    enum { ROOM = 100 };
    uint64_t first = chunk_cost(frame_total(FRAME_CHUNK_PREFIX_BYTES + MANY - ROOM));
    options.job_bytes_max = COST_SLOT_BYTES + first + ROOM * SMALL_COST - 1;
    restart();
    uint32_t a = open_for_bob();
    reserve(1, a, 0);
    chunk(1, a, 0, MANY, 0, MANY - ROOM, MANY);
    forget();
    small_chunks(a, MANY, MANY - ROOM, MANY - 1);
    cr_expect_not(is_refused(), "%s", said);
    small_chunks(a, MANY, MANY - 1, MANY);
    cr_expect(is_refused(), "%s", said);
    cr_expect_lt(job_bytes(), COST_SLOT_BYTES + first, "its chunks are gone");
}

Test(open_slot, refuses_an_empty_chunk)
{
    uint32_t a = open_for_bob();
    reserve(1, a, 0);
    forget();
    chunk(1, a, 0, MANY, 1, 0, 5);
    cr_expect(is_refused(), "%s", said);
}
