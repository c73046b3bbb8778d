/* SPDX-License-Identifier: MPL-2.0 */
/* ack_prefix_test.c -- acknowledged in any order, told as a prefix. */
#include "libbus/session/ack_prefix.h"

#include "libbus/base/must.h"
#include "tests/lib/draw.h"

#include <criterion/criterion.h>

static struct memory memory;
static struct ack_prefix prefix;

static void init(void)
{
    memory_heap_init(&memory, UINT64_MAX);
    prefix = (struct ack_prefix){0};
}

static void fini(void)
{
    ack_prefix_fini(&prefix, &memory);
    must(memory.bytes_used == 0);
}

TestSuite(ack_prefix, .init = init, .fini = fini);

static void hand(uint64_t seq)
{
    cr_assert(ack_prefix_reserve(&prefix, &memory, 1));
    ack_prefix_hand(&prefix, seq, 1);
}

Test(ack_prefix, tells_the_first_that_is_not_acknowledged)
{
    for (uint64_t seq = 5; seq < 10; seq++)
        hand(seq);
    cr_assert_eq(prefix.next_seq, 5);
    cr_assert_not(ack_prefix_ack(&prefix, 7));
    cr_assert_not(ack_prefix_ack(&prefix, 6));
    cr_assert_eq(prefix.next_seq, 5);
    cr_assert(ack_prefix_ack(&prefix, 5));
    cr_assert_eq(prefix.next_seq, 8);
    cr_assert_not(ack_prefix_ack(&prefix, 5));
    cr_assert_not(ack_prefix_ack(&prefix, 7));
    cr_assert_not(ack_prefix_ack(&prefix, 10));
    cr_assert_not(ack_prefix_ack(&prefix, UINT64_MAX));
    cr_assert(ack_prefix_ack(&prefix, 8));
    cr_assert(ack_prefix_ack(&prefix, 9));
    cr_assert_eq(prefix.next_seq, 10);
    hand(20);
    cr_assert_eq(prefix.next_seq, 20);
    cr_assert(ack_prefix_ack(&prefix, 20));
    cr_assert_eq(prefix.next_seq, 21);
}

Test(ack_prefix, finds_numbers_with_holes_between_them)
{
    static const uint64_t seqs[] = {0, 1, 5, 6, 1000, 1001, ACK_PREFIX_SEQ_MAX - 1};
    enum { COUNT = sizeof seqs / sizeof *seqs };
    for (int i = 0; i < COUNT; i++)
        hand(seqs[i]);
    for (int i = COUNT - 1; i > 0; i--) {
        cr_assert_not(ack_prefix_ack(&prefix, seqs[i]));
        cr_assert_not(ack_prefix_ack(&prefix, seqs[i] + 1));
    }
    cr_assert_eq(prefix.next_seq, 0);
    cr_assert(ack_prefix_ack(&prefix, 0));
    cr_assert_eq(prefix.next_seq, ACK_PREFIX_SEQ_MAX);
}

/* A model of bits says what the prefix must be. */
Test(ack_prefix, agrees_with_a_model)
{
    enum { SLOTS = 400 };
    bool is_done[SLOTS] = {false};
    uint64_t random = 12345;
    uint64_t handed = 0;
    for (int round = 0; round < 20000 && prefix.next_seq < SLOTS; round++) {
        uint64_t seq = draw_below(&random, SLOTS);
        if (handed < SLOTS && draw_below(&random, 2) != 0) {
            hand(handed++);
        } else if (seq < handed) {
            is_done[seq] = true;
            (void)ack_prefix_ack(&prefix, seq);
        }
        uint64_t expected = 0;
        while (expected < handed && is_done[expected])
            expected++;
        cr_assert_eq(prefix.next_seq, expected, "in round %d", round);
    }
    cr_assert_eq(prefix.next_seq, SLOTS);
}

Test(ack_prefix, stops_before_what_was_returned)
{
    for (uint64_t seq = 0; seq < 5; seq++)
        hand(seq);
    cr_assert_not(ack_prefix_ack(&prefix, 4));
    ack_prefix_return(&prefix, 2);
    for (uint64_t seq = 5; seq < 1000; seq++)
        hand(seq);
    cr_assert_leq(prefix.room, 16, "what is behind it costs nothing");
    for (uint64_t seq = 0; seq < 1000; seq++)
        (void)ack_prefix_ack(&prefix, seq);
    cr_assert_eq(prefix.next_seq, 2);
    ack_prefix_return(&prefix, 2);
    cr_assert_eq(prefix.next_seq, 2);
}

Test(ack_prefix, stops_before_what_was_acknowledged_and_then_returned)
{
    for (uint64_t seq = 0; seq < 3; seq++)
        hand(seq);
    cr_assert_not(ack_prefix_ack(&prefix, 1));
    ack_prefix_return(&prefix, 1);
    cr_assert(ack_prefix_ack(&prefix, 0));
    cr_assert_eq(prefix.next_seq, 1);
}

Test(ack_prefix, says_so_when_memory_is_short)
{
    for (uint64_t seq = 0; seq < 16; seq++)
        hand(seq);
    memory.bytes_max = memory.bytes_used;
    cr_assert_not(ack_prefix_reserve(&prefix, &memory, 1));
    cr_assert(ack_prefix_ack(&prefix, 0));
    hand(16);
    for (uint64_t seq = 1; seq < 17; seq++)
        cr_assert(ack_prefix_ack(&prefix, seq));
    cr_assert_eq(prefix.next_seq, 17);
}

Test(ack_prefix, acknowledges_a_run_as_its_slots_one_by_one)
{
    uint64_t random = 1;
    for (int round = 0; round < 2000; round++) {
        struct ack_prefix by_range = {0};
        struct ack_prefix by_one = {0};
        uint64_t seq = 0;
        for (int i = 0; i < 20; i++) {
            seq += draw_below(&random, 16) == 0 ? 2 : 1; /* now and then a number is missing */
            cr_assert(ack_prefix_reserve(&by_range, &memory, 1) &&
                      ack_prefix_reserve(&by_one, &memory, 1));
            ack_prefix_hand(&by_range, seq, 1);
            ack_prefix_hand(&by_one, seq, 1);
        }
        for (int i = 0; i < 6; i++) {
            uint64_t first = i == 0 ? 1 : draw_below(&random, 24);
            uint64_t count = draw_below(&random, 9);
            bool has_moved = false;
            for (uint64_t k = 0; k < count; k++)
                has_moved |= ack_prefix_ack(&by_one, first + k);
            cr_assert_eq(ack_prefix_ack_range(&by_range, first, count), has_moved);
            cr_assert_eq(by_range.next_seq, by_one.next_seq);
            cr_assert_eq(by_range.count, by_one.count);
        }
        ack_prefix_fini(&by_range, &memory);
        ack_prefix_fini(&by_one, &memory);
    }
}
