/* SPDX-License-Identifier: MPL-2.0 */
/* slot_table_test.c -- slots are settled once, found, cut and kept in order. */
#include "broker/core/tables/slot_table.h"

#include "libbus/base/must.h"

#include <criterion/criterion.h>
#include <signal.h>

static struct memory memory;
static struct slot_table table;

static void init(void)
{
    memory_heap_init(&memory, UINT64_MAX);
    slot_table_init(&table, &memory);
}

static void fini(void)
{
    slot_table_fini(&table);
    must(memory.bytes_used == 0);
}

TestSuite(slot_table, .init = init, .fini = fini);

static void append(uint64_t first_seq, uint32_t count, enum slot_state state)
{
    cr_assert(slot_table_reserve(&table, 1));
    slot_table_append(
        &table, (struct slot_entry){
                    .first_seq = first_seq,
                    .count = count,
                    .state = (uint8_t)state,
                    .ref = 7,
                    .place = {.offset = 24, .value_bytes = 16, .frame_count = (uint16_t)count}});
}

Test(slot_table, allows_exactly_the_moves_of_its_table)
{
    for (int sealed = 0; sealed < 2; sealed++)
        for (int from = 0; from < SLOT_STATE_COUNT; from++)
            for (int to = 0; to < SLOT_STATE_COUNT; to++) {
                struct slot_entry entry = {.count = 1, .state = (uint8_t)from, .is_sealed = sealed};
                bool is_settling = from == SLOT_OPEN && to != SLOT_OPEN;
                bool is_retracting =
                    (from == SLOT_VALUE || from == SLOT_CHUNKED) && to == SLOT_ERROR && !sealed;
                cr_expect_eq(slot_entry_may_move(&entry, (enum slot_state)to),
                             is_settling || is_retracting, "%d -> %d, sealed %d", from, to, sealed);
            }
}

Test(slot_table, ends_the_process_at_a_second_settlement, .signal = SIGABRT)
{
    struct slot_entry entry = {.count = 1, .state = SLOT_OPEN};
    slot_entry_move(&entry, SLOT_ERROR, 1);
    slot_entry_move(&entry, SLOT_VALUE, 2);
}

Test(slot_table, finds_each_slot_of_entries_of_any_length)
{
    uint64_t seq = 1000;
    for (uint32_t i = 0; i < 200; i++) {
        append(seq, 1 + i % 5, SLOT_VALUE);
        seq += 1 + i % 5;
    }
    cr_assert_eq(table.next_seq, seq);
    uint32_t index;
    cr_assert_not(slot_table_find(&table, 999, &index));
    cr_assert_not(slot_table_find(&table, seq, &index));
    for (uint64_t at = 1000; at < seq; at++) {
        cr_assert(slot_table_find(&table, at, &index));
        const struct slot_entry *entry = slot_table_at(&table, index);
        cr_assert(entry->first_seq <= at && at < slot_entry_end(entry));
    }
}

Test(slot_table, keeps_its_next_number_when_emptied)
{
    append(5, 3, SLOT_VALUE);
    slot_table_pop(&table);
    cr_assert_eq(table.count, 0);
    cr_assert_eq(slot_table_first_seq(&table), 8);
    uint32_t index;
    cr_assert_not(slot_table_find(&table, 7, &index));
}

Test(slot_table, isolates_the_first_a_middle_and_the_last_slot_of_a_run)
{
    static const uint64_t victims[] = {10, 14, 19};
    for (size_t i = 0; i < sizeof victims / sizeof *victims; i++) {
        slot_table_fini(&table);
        append(10, 10, SLOT_VALUE);
        append(20, 1, SLOT_OPEN);
        cr_assert(slot_table_reserve(&table, 2));
        uint32_t index = slot_table_isolate(&table, 0, victims[i]);
        const struct slot_entry *entry = slot_table_at(&table, index);
        cr_expect_eq(entry->first_seq, victims[i]);
        cr_expect_eq(entry->count, 1);
        cr_expect_eq(entry->place.offset, 24);
        cr_expect_eq(entry->place.frame_count, 10);
        cr_expect_eq(entry->place.skip, victims[i] - 10);
        uint64_t seq = 10;
        for (uint32_t k = 0; k < table.count; k++) {
            cr_expect_eq(slot_table_at(&table, k)->first_seq, seq);
            seq = slot_entry_end(slot_table_at(&table, k));
        }
        cr_expect_eq(seq, 21);
    }
}

Test(slot_table, goes_round_its_ring_for_ever)
{
    for (uint64_t seq = 0; seq < 10000; seq++) {
        append(seq, 1, SLOT_ERROR);
        if (table.count > 5)
            slot_table_pop(&table);
    }
    cr_assert_eq(slot_table_first_seq(&table), 9995);
    cr_assert_leq(table.room, 16);
}

Test(slot_table, says_so_when_memory_is_short)
{
    memory.bytes_max = 4 * sizeof(struct slot_entry);
    cr_assert(slot_table_reserve(&table, 4));
    cr_assert_not(slot_table_reserve(&table, 5));
    append(0, 1, SLOT_OPEN);
}
