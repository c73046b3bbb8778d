/* SPDX-License-Identifier: MPL-2.0 */
/* graph_test.c -- reach, components and distances, against the plainest way to find them. */
#include "libbus/base/graph.h"

#include "libbus/base/must.h"
#include "tests/lib/draw.h"

#include <criterion/criterion.h>
#include <signal.h>

enum { SMALL = 12, LONG = 100000 };

static struct memory memory;
static struct graph graph;
static uint64_t random_state = 1;

static void init(void)
{
    memory_heap_init(&memory, UINT64_MAX);
    graph_init(&graph, &memory);
}

static void fini(void)
{
    graph_fini(&graph);
    must(memory.bytes_used == 0);
}

TestSuite(graph, .init = init, .fini = fini);

/* Edges by matrix, so that the graph and what it is compared with are made from the same. */
struct matrix {
    uint32_t count;
    bool edge[SMALL][SMALL];
    uint32_t steps[SMALL][SMALL];
};

static void matrix_draw(struct matrix *matrix)
{
    matrix->count = 1 + draw_below(&random_state, SMALL);
    uint32_t odds = 1 + draw_below(&random_state, 4 * matrix->count);
    for (uint32_t i = 0; i < matrix->count; i++)
        for (uint32_t k = 0; k < matrix->count; k++) {
            matrix->edge[i][k] = draw_below(&random_state, odds) == 0;
            matrix->steps[i][k] = i == k ? 0 : matrix->edge[i][k] ? 1 : GRAPH_NONE;
        }
    for (uint32_t via = 0; via < matrix->count; via++)
        for (uint32_t i = 0; i < matrix->count; i++)
            for (uint32_t k = 0; k < matrix->count; k++) {
                uint64_t steps = (uint64_t)matrix->steps[i][via] + matrix->steps[via][k];
                if (steps < matrix->steps[i][k])
                    matrix->steps[i][k] = (uint32_t)steps;
            }
}

static void matrix_to_graph(const struct matrix *matrix)
{
    cr_assert(graph_reserve(&graph, matrix->count, matrix->count * matrix->count));
    for (uint32_t i = 0; i < matrix->count; i++) {
        cr_assert_eq(graph_add_node(&graph), i);
        for (uint32_t k = 0; k < matrix->count; k++)
            if (matrix->edge[i][k])
                graph_add_edge(&graph, k);
    }
    graph_seal(&graph);
}

static void compare_reach(const struct matrix *matrix)
{
    uint32_t one = draw_below(&random_state, matrix->count);
    uint32_t other = draw_below(&random_state, matrix->count);
    graph_reach(&graph, one);
    graph_reach(&graph, other);
    for (uint32_t k = 0; k < matrix->count; k++)
        cr_assert_eq(graph.is_reached[k],
                     matrix->steps[one][k] != GRAPH_NONE || matrix->steps[other][k] != GRAPH_NONE);
}

static void compare_components(const struct matrix *matrix)
{
    graph_fold(&graph);
    for (uint32_t i = 0; i < matrix->count; i++)
        for (uint32_t k = 0; k < matrix->count; k++) {
            bool is_mutual = matrix->steps[i][k] != GRAPH_NONE && matrix->steps[k][i] != GRAPH_NONE;
            cr_assert_eq(graph.component[i] == graph.component[k], is_mutual);
            if (matrix->edge[i][k])
                cr_assert(graph.component[k] <= graph.component[i]);
        }
    uint32_t last = 0;
    uint32_t seen = 0;
    for (uint32_t i = 0; i < matrix->count; i++) {
        cr_assert(graph.component[graph.folded[i]] >= last, "not by component");
        last = graph.component[graph.folded[i]];
        seen |= 1u << graph.folded[i];
    }
    cr_assert_eq(seen, (1u << matrix->count) - 1, "a node is missing");
    cr_assert_eq(graph.component_count, last + 1);
}

Test(graph, finds_what_the_plainest_way_finds)
{
    static struct matrix matrix;
    for (uint32_t round = 0; round < 20000; round++) {
        matrix_draw(&matrix);
        matrix_to_graph(&matrix);
        compare_reach(&matrix);
        compare_components(&matrix);
        uint32_t target = draw_below(&random_state, matrix.count);
        graph_measure(&graph, target);
        for (uint32_t i = 0; i < matrix.count; i++)
            cr_assert_eq(graph.steps[i], matrix.steps[i][target], "round %u", round);
        graph_fold(&graph); /* in any order, and again */
        cr_assert_leq(graph.component_count, matrix.count);
    }
}

Test(graph, needs_no_stack_for_a_long_chain)
{
    cr_assert(graph_reserve(&graph, LONG, LONG));
    for (uint32_t i = 0; i < LONG; i++) {
        graph_add_node(&graph);
        if (i + 1 < LONG)
            graph_add_edge(&graph, i + 1);
    }
    graph_seal(&graph);
    graph_reach(&graph, 0);
    graph_fold(&graph);
    graph_measure(&graph, LONG - 1);
    cr_expect_eq(graph.is_reached[LONG - 1], 1);
    cr_expect_eq(graph.component_count, LONG);
    cr_expect_eq(graph.component[LONG - 1], 0);
    cr_expect_eq(graph.steps[0], LONG - 1);
}

Test(graph, folds_a_long_ring_into_one)
{
    cr_assert(graph_reserve(&graph, LONG, LONG));
    for (uint32_t i = 0; i < LONG; i++) {
        graph_add_node(&graph);
        graph_add_edge(&graph, (i + 1) % LONG);
    }
    graph_seal(&graph);
    graph_fold(&graph);
    cr_expect_eq(graph.component_count, 1);
}

Test(graph, may_be_empty)
{
    cr_assert(graph_reserve(&graph, 0, 0));
    graph_seal(&graph);
    graph_fold(&graph);
    cr_expect_eq(graph.component_count, 0);
}

Test(graph, keeps_its_room_when_memory_is_short)
{
    cr_assert(graph_reserve(&graph, 10, 10));
    uint32_t nodes = graph.node_room;
    uint32_t edges = graph.edge_room;
    memory.bytes_max = memory.bytes_used;
    cr_expect_not(graph_reserve(&graph, nodes + 1, 10));
    cr_expect_not(graph_reserve(&graph, 10, edges + 1));
    cr_expect(graph_reserve(&graph, nodes, edges));
    for (uint32_t i = 0; i < nodes; i++)
        graph_add_node(&graph);
    for (uint32_t i = 0; i < edges; i++)
        graph_add_edge(&graph, i % nodes);
    graph_seal(&graph);
    graph_fold(&graph);
    cr_expect_eq(graph.component_count, nodes);
}

Test(graph, takes_no_node_beyond_its_room, .signal = SIGABRT)
{
    cr_assert(graph_reserve(&graph, 1, 1));
    for (uint32_t i = 0; i <= graph.node_room; i++)
        graph_add_node(&graph);
}

Test(graph, takes_no_edge_to_nowhere, .signal = SIGABRT)
{
    cr_assert(graph_reserve(&graph, 1, 1));
    graph_add_node(&graph);
    graph_add_edge(&graph, 1);
    graph_seal(&graph);
}
