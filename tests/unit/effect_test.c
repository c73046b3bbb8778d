/* SPDX-License-Identifier: MPL-2.0 */
/* effect_test.c -- the list of effects: room for facts. */
#include "broker/core/tables/effect.h"

#include <criterion/criterion.h>
#include <stddef.h>
#include <stdint.h>

TestSuite(effect);

#define FIRST_ROOM (2 * (size_t)LIMIT_FACT_BYTES)

Test(effect, keeps_room_for_one_fact_more)
{
    cr_expect_eq(effects_fact_room(0, 0), FIRST_ROOM);
    cr_expect_eq(effects_fact_room(FIRST_ROOM, LIMIT_FACT_BYTES - 1), FIRST_ROOM);
    cr_expect_eq(effects_fact_room(FIRST_ROOM, LIMIT_FACT_BYTES), FIRST_ROOM);
    cr_expect_eq(effects_fact_room(FIRST_ROOM, LIMIT_FACT_BYTES + 1), 2 * FIRST_ROOM);
    cr_expect_eq(effects_fact_room(FIRST_ROOM, FIRST_ROOM), 2 * FIRST_ROOM);
}

/* The facts of a checkpoint are as many as the broker keeps: twice 2.5 GiB have 33 bits. */
Test(effect, counts_the_facts_of_a_large_state_beyond_32_bits)
{
    const size_t large = FIRST_ROOM << 14;
    cr_assert_gt(2 * large, (size_t)UINT32_MAX);
    cr_expect_eq(effects_fact_room(large, large - LIMIT_FACT_BYTES), large);
    cr_expect_eq(effects_fact_room(large, large - LIMIT_FACT_BYTES + 1), 2 * large);
    cr_expect_eq(effects_fact_room(4 * large, 4 * large), 8 * large);
    cr_expect_eq(sizeof((struct effects *)NULL)->fact_used, sizeof(size_t));
    cr_expect_eq(sizeof((struct effects *)NULL)->fact_room, sizeof(size_t));
    cr_expect_eq(sizeof((struct effect *)NULL)->offset, sizeof(size_t));
}

Test(effect, finds_each_fact_where_it_was_put)
{
    struct memory memory;
    struct effects effects;
    memory_heap_init(&memory, UINT64_MAX);
    effects_init(&effects, &memory);
    const uint32_t count = 40000; /* more than the first room */
    for (uint32_t i = 0; i < count; i++)
        effects_fact(
            &effects,
            &(struct fact){.type = FACT_FAILURE_FORGOTTEN, .as.failure_forgotten.failure = i}, 0);
    cr_expect_gt(effects.fact_used, FIRST_ROOM);
    for (uint32_t i = 0; i < count; i++) {
        struct fact fact;
        cr_assert_eq(fact_decode(effects_record(&effects, &effects.items[i]), &fact), WIRE_OK);
        cr_assert_eq(fact.as.failure_forgotten.failure, i);
    }
    effects_fini(&effects);
    cr_expect_eq(memory.bytes_used, 0);
}
