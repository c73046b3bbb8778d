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
