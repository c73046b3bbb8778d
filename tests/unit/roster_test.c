/* SPDX-License-Identifier: MPL-2.0 */
/* roster_test.c -- places, ranks, epochs. */
#include "broker/core/tables/roster.h"

#include "libbus/base/must.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

static struct memory memory;
static struct roster roster;

static void init(void)
{
    memory_heap_init(&memory, UINT64_MAX);
    roster_init(&roster, &memory);
}

static void fini(void)
{
    roster_fini(&roster);
    must(memory.bytes_used == 0);
}

TestSuite(roster, .init = init, .fini = fini);

/* "1: 11 12+ _ | 13": epoch, places (+ completed, _ a hole), who waits. */
static const char *picture(void)
{
    static char text[1000];
    int at = snprintf(text, sizeof text, "%u:", (unsigned)roster.epoch);
    for (uint32_t i = 0; i < roster.place_count; i++) {
        const struct roster_place *place = &roster.places[i];
        at += place->party == 0 ? snprintf(text + at, sizeof text - (size_t)at, " _")
                                : snprintf(text + at, sizeof text - (size_t)at, " %u%s",
                                           place->party, place->is_completed ? "+" : "");
    }
    at += snprintf(text + at, sizeof text - (size_t)at, " |");
    for (uint32_t i = 0; i < roster.waiting_count; i++)
        at += snprintf(text + at, sizeof text - (size_t)at, " %u", roster.waiting[i]);
    return text;
}

static void add(uint32_t first, uint32_t last)
{
    for (uint32_t party = first; party <= last; party++) {
        cr_assert(roster_reserve(&roster));
        roster_add(&roster, party);
    }
}

Test(roster, seats_in_the_order_of_coming_up_to_max)
{
    add(11, 15);
    cr_expect_str_eq(picture(), "0: | 11 12 13 14 15");
    cr_expect(roster_seat(&roster, 3));
    cr_expect_str_eq(picture(), "1: 11 12 13 | 14 15");
    cr_expect_not(roster_seat(&roster, 3), "nothing changed, no epoch");
    cr_expect(roster_seat(&roster, 4));
    cr_expect_str_eq(picture(), "2: 11 12 13 14 | 15");
}

Test(roster, who_waits_takes_the_place_of_who_is_lost)
{
    add(11, 14);
    roster_seat(&roster, 3);
    cr_expect(roster_remove(&roster, 12));
    cr_expect_str_eq(picture(), "1: 11 _ 13 | 14", "the epoch stands until the next one");
    cr_expect(roster_seat(&roster, 3));
    cr_expect_str_eq(picture(), "2: 11 14 13 |");
}

Test(roster, closes_what_nobody_fills_in_order)
{
    add(11, 15);
    roster_seat(&roster, 5);
    roster_remove(&roster, 11);
    roster_remove(&roster, 13);
    cr_expect_eq(roster_present(&roster), 3);
    cr_expect(roster_seat(&roster, 5));
    cr_expect_str_eq(picture(), "2: 12 14 15 |");
    roster_remove(&roster, 12);
    roster_remove(&roster, 14);
    add(16, 16);
    cr_expect(roster_seat(&roster, 5));
    cr_expect_str_eq(picture(), "3: 16 15 |");
}

Test(roster, who_completed_keeps_the_place)
{
    add(11, 13);
    roster_seat(&roster, 3);
    cr_expect(roster_complete(&roster, 12));
    cr_expect_eq(roster_present(&roster), 3);
    cr_expect_eq(roster_live(&roster), 2);
    cr_expect_not(roster_seat(&roster, 3));
    roster_remove(&roster, 11);
    roster_seat(&roster, 3);
    cr_expect_str_eq(picture(), "2: 12+ 13 |");
    cr_expect_eq(roster_live(&roster), 1);
    roster_remove(&roster, 12);
    cr_expect_eq(roster_live(&roster), 1);
    cr_expect_eq(roster.completed_count, 0);
}

Test(roster, who_waits_and_completes_or_goes_is_forgotten)
{
    add(11, 13);
    roster_seat(&roster, 1);
    cr_expect_not(roster_complete(&roster, 12));
    cr_expect(roster_remove(&roster, 13));
    cr_expect_not(roster_remove(&roster, 13));
    cr_expect_not(roster_complete(&roster, 99));
    cr_expect_str_eq(picture(), "1: 11 |");
}

Test(roster, epochs_count_on_over_attempts)
{
    add(11, 12);
    roster_seat(&roster, 2);
    roster_complete(&roster, 11);
    roster_clear(&roster);
    cr_expect_str_eq(picture(), "1: |");
    cr_expect_eq(roster_live(&roster), 0);
    add(12, 12);
    roster_seat(&roster, 2);
    cr_expect_str_eq(picture(), "2: 12 |");
}

Test(roster, grows_and_says_when_memory_is_short)
{
    add(1, 100);
    roster_seat(&roster, 60);
    cr_expect_eq(roster.places[59].party, 60);
    cr_expect_eq(roster.waiting[39], 100);
    uint32_t party = 101;
    memory.bytes_max = memory.bytes_used; /* what is reserved lasts, then it says no */
    while (roster_reserve(&roster))
        roster_add(&roster, party++);
    cr_expect_eq(party - 1, roster.room);
    cr_expect_eq(roster.waiting_count, roster.room - 60);
}

/* A roster told place by place what another one decided is the same. */
static void copy_epoch(struct roster *to)
{
    for (uint32_t rank = 0; rank < roster.place_count; rank++)
        cr_assert(
            roster_place(to, roster.places[rank].party, rank, roster.places[rank].is_completed));
    cr_assert(roster_begin(to, roster.epoch, roster.place_count));
}

Test(roster, is_rebuilt_from_what_was_decided)
{
    struct roster copy;
    uint32_t next = 1;
    uint64_t dice = 7;
    roster_init(&copy, &memory);
    for (int i = 0; i < 5000; i++) {
        dice = dice * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        uint32_t party = 1 + (uint32_t)(dice >> 33) % next;
        uint32_t rank;
        if (dice >> 62 == 0 && roster_rank(&roster, party, &rank) &&
            !roster.places[rank].is_completed) {
            roster_complete(&roster, party);
            roster_complete(&copy, party);
        } else if (dice >> 63 == 0) {
            cr_expect_eq(roster_remove(&roster, party), roster_remove(&copy, party));
        } else {
            add(next, next);
            cr_assert(roster_reserve(&copy));
            roster_add(&copy, next++);
        }
        if (dice % 3 == 0 && roster_seat(&roster, 8))
            copy_epoch(&copy);
        cr_assert_eq(copy.place_count, roster.place_count);
        cr_assert_eq(copy.waiting_count, roster.waiting_count);
        cr_assert_eq(roster_live(&copy), roster_live(&roster));
        for (uint32_t at = 0; at < roster.waiting_count; at++)
            cr_assert_eq(copy.waiting[at], roster.waiting[at]);
        for (rank = 0; rank < roster.place_count; rank++)
            cr_assert_eq(copy.places[rank].party, roster.places[rank].party);
    }
    roster_fini(&copy);
}

Test(roster, is_rebuilt_with_its_holes)
{
    cr_expect(roster_place(&roster, 14, 3, true), "a snapshot tells who is there, by rank");
    cr_expect(roster_place(&roster, 12, 1, false));
    cr_expect(roster_begin(&roster, 7, 5));
    cr_expect_str_eq(picture(), "7: _ 12 _ 14+ _ |");
    cr_expect_eq(roster_present(&roster), 2);
    cr_expect_eq(roster_live(&roster), 1);
    cr_expect(roster_seat(&roster, 5));
    cr_expect_str_eq(picture(), "8: 12 14+ |");
}

Test(roster, refuses_what_cannot_have_been_decided)
{
    add(11, 13);
    roster_seat(&roster, 3);
    add(14, 14);
    cr_expect_not(roster_place(&roster, 0, 0, false));
    cr_expect_not(roster_place(&roster, 14, 1, false), "there is somebody");
    cr_expect_not(roster_place(&roster, 14, 1 << 30, false), "nobody can have that many before");
    cr_expect_not(roster_begin(&roster, 1, 3), "epochs go up");
    cr_expect_not(roster_begin(&roster, 2, 2), "nobody is put out");
    cr_expect_not(roster_begin(&roster, 2, UINT32_MAX));
    roster_remove(&roster, 12);
    cr_expect_not(roster_begin(&roster, 2, 2), "nobody is put out for a hole");
    cr_expect_str_eq(picture(), "1: 11 _ 13 | 14");
}
