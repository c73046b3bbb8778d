/* SPDX-License-Identifier: MPL-2.0 */
/* seq_queue_test.c -- what is put in comes out by number, whatever was taken out in between. */
#include "broker/core/tables/seq_queue.h"

#include <criterion/criterion.h>
#include <stdlib.h>

enum { NODES = 65536, ROUNDS = 200, SMALL = 64 };

static struct seq_node nodes[NODES];
static struct seq_queue queue;

/* The same numbers each time. */
static uint32_t random_state = 1;

static uint32_t random_below(uint32_t limit)
{
    random_state = random_state * UINT32_C(1664525) + UINT32_C(1013904223);
    return (random_state >> 8) % limit;
}

static void expect_in_order(uint32_t count)
{
    uint64_t last = 0;
    for (uint32_t i = 0; i < count; i++) {
        struct seq_node *first = seq_queue_first(&queue);
        cr_assert_not_null(first, "%u of %u are gone", count - i, count);
        cr_assert_geq(first->seq, last);
        last = first->seq;
        seq_queue_remove(&queue, first);
        cr_assert_not(seq_node_is_in(first));
    }
    cr_assert_null(seq_queue_first(&queue));
}

Test(seq_queue, is_empty_at_first)
{
    cr_expect_null(seq_queue_first(&queue));
    cr_expect_not(seq_node_is_in(&nodes[0]));
    seq_queue_remove(&queue, &nodes[0]);
    cr_expect_null(seq_queue_first(&queue));
}

Test(seq_queue, gives_numbers_in_order)
{
    static const uint64_t numbers[] = {5, 0, UINT64_MAX - 1, 5, 7, 1, 5};
    enum { COUNT = sizeof numbers / sizeof numbers[0] };
    for (uint32_t i = 0; i < COUNT; i++) {
        seq_queue_put(&queue, &nodes[i], numbers[i]);
        cr_assert(seq_node_is_in(&nodes[i]));
    }
    cr_expect_eq(seq_queue_first(&queue), &nodes[1]);
    expect_in_order(COUNT);
}

/* A node may be taken from anywhere, and put in again. */
Test(seq_queue, loses_only_what_is_taken_out)
{
    for (int round = 0; round < ROUNDS; round++) {
        uint32_t count = 0;
        for (uint32_t i = 0; i < SMALL; i++)
            seq_queue_put(&queue, &nodes[i], random_below(20));
        count = SMALL;
        for (uint32_t i = 0; i < SMALL; i++) {
            struct seq_node *node = &nodes[random_below(SMALL)];
            if (seq_node_is_in(node)) {
                seq_queue_remove(&queue, node);
                count -= 1;
            } else if (random_below(2) == 0) {
                seq_queue_put(&queue, node, random_below(20));
                count += 1;
            }
        }
        expect_in_order(count);
    }
}

/* With a list in order each of these would take seconds: the bound is the test's own. */
Test(seq_queue, takes_the_largest_number_of_waits_in_any_order, .timeout = 30)
{
    for (uint32_t i = 0; i < NODES; i++)
        seq_queue_put(&queue, &nodes[i], NODES - i);
    expect_in_order(NODES);
    for (uint32_t i = 0; i < NODES; i++)
        seq_queue_put(&queue, &nodes[i], i % 65);
    expect_in_order(NODES);
    for (uint32_t i = 0; i < NODES; i++)
        seq_queue_put(&queue, &nodes[i], random_below(NODES));
    for (uint32_t i = 0; i < NODES; i += 2)
        seq_queue_remove(&queue, &nodes[i]);
    expect_in_order(NODES / 2);
}
