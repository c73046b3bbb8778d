/* SPDX-License-Identifier: MPL-2.0 */
/* chain_test.c -- what stays of a chain that is too long; nothing is lost from the count. */
#include "libbus/wire/chain.h"
#include "tests/lib/draw.h"

#include <criterion/criterion.h>

static struct error_record records[LIMIT_ERROR_GIVEN];
static size_t sizes[LIMIT_ERROR_GIVEN];
static struct chain chain;

static void clear(uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        error_record_init(&records[i]);
        sizes[i] = 1;
    }
}

static void cause_add(uint32_t index, uint32_t cause)
{
    records[index].causes[records[index].cause_count++] = cause;
}

static const struct chain_link *link_of(uint32_t index)
{
    for (uint32_t i = 0; i < chain.count; i++)
        if (chain.links[i].index == index)
            return &chain.links[i];
    return NULL;
}

/* What holds for every outcome: the head first, ascending, causes kept and later and once, all of
 * it reached from the head, all of it counted. */
static void check_chain(uint32_t count)
{
    bool is_reached[LIMIT_ERROR_GIVEN] = {[0] = true};
    uint64_t given = count;
    uint64_t told = chain.count;
    cr_assert_geq(chain.count, 1);
    cr_assert_leq(chain.count, LIMIT_ERROR_RECORDS);
    cr_assert_eq(chain.links[0].index, 0);
    for (uint32_t i = 0; i < count; i++)
        given += records[i].left_out;
    for (uint32_t i = 0; i < chain.count; i++) {
        const struct chain_link *link = &chain.links[i];
        told += link->left_out;
        cr_assert(i == 0 || link->index > chain.links[i - 1].index);
        cr_assert(is_reached[link->index], "%u is not reached", link->index);
        cr_assert_leq(link->cause_count, LIMIT_ERROR_CAUSES);
        for (uint32_t at = 0; at < link->cause_count; at++) {
            cr_assert_gt(link->causes[at], link->index);
            cr_assert_not_null(link_of(link->causes[at]));
            for (uint32_t before = 0; before < at; before++)
                cr_assert_neq(link->causes[before], link->causes[at]);
            is_reached[link->causes[at]] = true;
        }
    }
    cr_assert_eq(told, given);
}

static void select_and_check(uint32_t count, size_t budget)
{
    cr_assert_eq(chain_check(records, count), WIRE_OK);
    chain_select(records, count, sizes, budget, &chain);
    check_chain(count);
}

static void set_sizes(uint32_t count, size_t bytes)
{
    for (uint32_t i = 0; i < count; i++)
        sizes[i] = bytes;
}

Test(chain, keeps_head_and_root_of_one_that_is_too_long)
{
    for (uint32_t count = LIMIT_ERROR_RECORDS - 1; count <= LIMIT_ERROR_RECORDS + 1; count++) {
        clear(count);
        for (uint32_t i = 0; i + 1 < count; i++)
            cause_add(i, i + 1);
        select_and_check(count, SIZE_MAX);
        cr_assert_eq(chain.count, count < LIMIT_ERROR_RECORDS ? count : LIMIT_ERROR_RECORDS);
        cr_assert_not_null(link_of(count - 1));
        for (uint32_t i = 0; i + 1 < chain.count; i++)
            cr_assert_eq(chain.links[i].causes[0], chain.links[i + 1].index);
    }
    /* One was left out, before the root, by the record before the gap. */
    cr_assert_null(link_of(LIMIT_ERROR_RECORDS - 1));
    cr_assert_eq(link_of(LIMIT_ERROR_RECORDS - 2)->left_out, 1);
    cr_assert_eq(link_of(LIMIT_ERROR_RECORDS - 2)->causes[0], LIMIT_ERROR_RECORDS);
}

Test(chain, keeps_all_roots_of_several_long_ones)
{
    enum { CHAINS = 4, EACH = 50 };
    clear(1 + CHAINS * EACH);
    for (uint32_t i = 0; i < CHAINS; i++) {
        cause_add(0, 1 + i * EACH);
        for (uint32_t at = 0; at + 1 < EACH; at++)
            cause_add(1 + i * EACH + at, 2 + i * EACH + at);
    }
    select_and_check(1 + CHAINS * EACH, SIZE_MAX);
    cr_assert_eq(chain.count, LIMIT_ERROR_RECORDS);
    for (uint32_t i = 0; i < CHAINS; i++)
        cr_assert_not_null(link_of((i + 1) * EACH));
}

Test(chain, keeps_the_foremost_cause_the_first)
{
    clear(4);
    cause_add(0, 3); /* the foremost, though the last */
    cause_add(0, 1);
    cause_add(1, 2);
    sizes[1] = 100;
    select_and_check(4, 10);
    cr_assert_null(link_of(1));
    cr_assert_eq(chain.links[0].cause_count, 2);
    cr_assert_eq(chain.links[0].causes[0], 3);
    cr_assert_eq(chain.links[0].causes[1], 2);
    cr_assert_eq(chain.links[0].left_out, 1);
}

Test(chain, prefers_the_foremost_root)
{
    clear(5);
    cause_add(0, 2);
    cause_add(0, 1); /* a root, and before the other in place */
    cause_add(2, 3);
    cause_add(3, 4);
    set_sizes(5, 10);
    select_and_check(5, 20);
    cr_assert_eq(chain.count, 2);
    cr_assert_not_null(link_of(4));
    cr_assert_eq(chain.links[0].left_out, 3);
}

Test(chain, takes_what_fits_at_one_less_exactly_and_one_more)
{
    clear(3);
    cause_add(0, 1);
    cause_add(1, 2);
    set_sizes(3, 10);
    select_and_check(3, 29);
    cr_assert_eq(chain.count, 2);
    cr_assert_null(link_of(1));
    select_and_check(3, 30);
    cr_assert_eq(chain.count, 3);
    select_and_check(3, 31);
    cr_assert_eq(chain.count, 3);
    select_and_check(3, 0);
    cr_assert_eq(chain.count, 1);
    cr_assert_eq(chain.links[0].left_out, 2);
}

Test(chain, counts_a_shared_cause_once)
{
    clear(4);
    cause_add(0, 1);
    cause_add(0, 2);
    cause_add(1, 3);
    cause_add(2, 3);
    records[3].left_out = 7;
    sizes[1] = sizes[3] = 100;
    select_and_check(4, 10);
    cr_assert_eq(chain.count, 2);
    cr_assert_eq(link_of(0)->left_out, 9);
    cr_assert_eq(link_of(2)->left_out, 0);
}

Test(chain, counts_what_nothing_leads_to)
{
    clear(3);
    sizes[1] = 100;
    sizes[2] = 1;
    select_and_check(3, 10);
    cr_assert_eq(chain.count, 1, "a record that is not reached is no use");
    cr_assert_eq(chain.links[0].left_out, 2);
}

Test(chain, does_not_count_beyond_its_field)
{
    clear(3);
    cause_add(0, 1);
    cause_add(1, 2);
    records[0].left_out = UINT32_MAX;
    records[1].left_out = UINT32_MAX;
    sizes[1] = 100;
    chain_select(records, 3, sizes, 10, &chain);
    cr_assert_eq(chain.links[0].left_out, UINT32_MAX);
}

/* Causes anywhere behind, up to so many. */
static void random_graph(uint32_t count, uint32_t causes_most, uint64_t *random)
{
    clear(count);
    for (uint32_t i = 0; i + 1 < count; i++) {
        uint32_t wanted = draw_below(random, causes_most + 1);
        uint32_t cause = i;
        records[i].left_out = draw_below(random, 16) == 0;
        while (wanted-- > 0 && cause + 1 < count) {
            uint32_t reach = count - cause - 1 < 40 ? count - cause - 1 : 40;
            cause += 1 + draw_below(random, reach);
            cause_add(i, cause);
        }
    }
    for (uint32_t i = 0; i < count; i++)
        sizes[i] = 1 + draw_below(random, 2000);
}

Test(chain, holds_whatever_the_graph)
{
    uint64_t random = 11;
    for (unsigned round = 0; round < 600; round++) {
        uint32_t count = 1 + draw_below(&random, LIMIT_ERROR_GIVEN);
        random_graph(count, 1 + draw_below(&random, LIMIT_ERROR_CAUSES), &random);
        select_and_check(count, draw_below(&random, LIMIT_ERROR_BYTES));
    }
}

/* ---- two hops -------------------------------------------------------------------------------- */

enum { LENGTH = 150 };

/* A party's error, as it stands in what it was sent: texts are borrowed from the bytes. */
struct hop {
    uint8_t bytes[LIMIT_ERROR_BYTES];
    struct error_record got[LIMIT_ERROR_RECORDS];
    uint32_t count;
};
static struct hop first;
static struct hop second;

static void send_over(struct hop *over, uint32_t count, size_t room)
{
    size_t bytes = 0;
    cr_assert_eq(error_encode(records, count, over->bytes, room, &bytes), WIRE_OK);
    cr_assert_eq(
        error_decode(span_of(over->bytes, bytes), over->got, LIMIT_ERROR_RECORDS, &over->count),
        WIRE_OK);
}

/* The next party fails of what it got.  Returns how many records its error has. */
static uint32_t fail_of(const struct hop *got)
{
    clear(1);
    records[0].code = -1;
    cause_add(0, 1);
    for (uint32_t i = 0; i < got->count; i++) {
        records[i + 1] = got->got[i];
        for (uint32_t k = 0; k < records[i + 1].cause_count; k++)
            records[i + 1].causes[k] += 1;
    }
    return got->count + 1;
}

/* The records of one row, from the head to the root: each was there before, in this order, and all
 * that are missing are counted between those that lost them. */
static void check_row(const struct hop *got)
{
    uint64_t all = 0;
    for (uint32_t i = 0; i < got->count; i++) {
        cr_assert(i == 0 || got->got[i].code > got->got[i - 1].code);
        cr_assert_eq(got->got[i].cause_count, i + 1 < got->count);
        cr_assert(i + 1 == got->count || got->got[i].causes[0] == i + 1);
        if (i + 1 < got->count)
            cr_assert_eq((uint64_t)(got->got[i + 1].code - got->got[i].code - 1),
                         got->got[i].left_out, "behind %d", (int)got->got[i].code);
        all += 1 + got->got[i].left_out;
    }
    cr_assert_eq(got->got[got->count - 1].code, LENGTH - 1, "the root stays");
    cr_assert_eq(all, LENGTH + 1, "each is there or counted");
}

static void make_row(void)
{
    clear(LENGTH);
    for (uint32_t i = 0; i < LENGTH; i++) {
        records[i].code = i;
        if (i + 1 < LENGTH)
            cause_add(i, i + 1);
    }
}

/* Whichever of the two hops has less room. */
Test(chain, is_whole_in_its_count_when_two_hops_cut_it_differently)
{
    static const size_t rooms[] = {300, 1000, 1001, 2000, 3000, LIMIT_ERROR_BYTES};
    enum { ROOMS = sizeof rooms / sizeof rooms[0] };
    for (size_t i = 0; i < ROOMS; i++) {
        for (size_t k = 0; k < ROOMS; k++) {
            make_row();
            send_over(&first, LENGTH, rooms[i]);
            cr_assert_lt(first.count, LENGTH);
            send_over(&second, fail_of(&first), rooms[k]);
            check_row(&second);
        }
    }
}

/* Two parties were sent the same error, cut differently; a third fails of both.  The root that they
 * have in common is at the end of each of them. */
Test(chain, joins_what_two_hops_cut_differently)
{
    make_row();
    send_over(&first, LENGTH, 1000);
    make_row();
    send_over(&second, LENGTH, 2000);
    cr_assert_neq(first.count, second.count);
    uint32_t count = fail_of(&first);
    cause_add(0, count);
    for (uint32_t i = 0; i < second.count; i++) {
        records[count + i] = second.got[i];
        for (uint32_t k = 0; k < records[count + i].cause_count; k++)
            records[count + i].causes[k] += count;
    }
    static struct hop third;
    send_over(&third, count + second.count, 1500);
    cr_assert_gt(third.count, first.count, "the gap of the first one is there");
    cr_assert_lt(third.count, count + second.count, "and there is another");
    cr_assert_eq(third.got[0].cause_count, 2);
    uint64_t all = 0;
    uint32_t roots = 0;
    for (uint32_t i = 0; i < third.count; i++) {
        all += 1 + third.got[i].left_out;
        roots += third.got[i].cause_count == 0;
        cr_assert(third.got[i].cause_count > 0 || third.got[i].code == LENGTH - 1);
    }
    cr_assert_eq(roots, 2);
    cr_assert_eq(all, 2 * LENGTH + 1);
}
