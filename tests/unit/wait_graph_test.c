/* SPDX-License-Identifier: MPL-2.0 */
/* wait_graph_test.c -- who is stuck, cycles and waiters, against the plainest way to find them. */
#include "libbus/base/wait_graph.h"

#include "libbus/base/must.h"
#include "tests/lib/draw.h"

#include <criterion/criterion.h>
#include <string.h>

enum { SMALL = 9, LONG = 100000, NONE = -1 };

static struct memory memory;
static struct wait_graph graph;
static uint64_t random_state = 1;

static void init(void)
{
    memory_heap_init(&memory, UINT64_MAX);
    wait_graph_init(&graph, &memory);
}

static void fini(void)
{
    wait_graph_fini(&graph);
    must(memory.bytes_used == 0);
}

TestSuite(wait_graph, .init = init, .fini = fini);

struct matrix {
    uint32_t count;
    enum wait_mode mode[SMALL];
    bool edge[SMALL][SMALL];
    bool is_stuck[SMALL];
};

/* All edges are lost whose target goes on, until nobody new goes on. */
static void matrix_solve(struct matrix *matrix)
{
    bool is_changed = true;
    for (uint32_t i = 0; i < matrix->count; i++)
        matrix->is_stuck[i] = true;
    while (is_changed) {
        is_changed = false;
        for (uint32_t i = 0; i < matrix->count; i++) {
            uint32_t waits = 0;
            uint32_t going = 0;
            for (uint32_t k = 0; k < matrix->count; k++) {
                waits += matrix->edge[i][k] && k != i;
                going += matrix->edge[i][k] && k != i && !matrix->is_stuck[k];
            }
            bool goes_on = waits == 0 || (matrix->mode[i] == WAIT_FOR_ANY && going > 0) ||
                           (matrix->mode[i] == WAIT_FOR_ALL && going == waits);
            if (goes_on && matrix->is_stuck[i]) {
                matrix->is_stuck[i] = false;
                is_changed = true;
            }
        }
    }
}

static void matrix_draw(struct matrix *matrix)
{
    memset(matrix, 0, sizeof *matrix);
    matrix->count = 1 + draw_below(&random_state, SMALL);
    uint32_t odds = 1 + draw_below(&random_state, 2 * matrix->count);
    for (uint32_t i = 0; i < matrix->count; i++) {
        matrix->mode[i] = draw_below(&random_state, 2) == 0 ? WAIT_FOR_ANY : WAIT_FOR_ALL;
        for (uint32_t k = 0; k < matrix->count; k++)
            matrix->edge[i][k] = draw_below(&random_state, odds) == 0;
    }
}

static void matrix_to_graph(const struct matrix *matrix)
{
    cr_assert(wait_graph_reserve(&graph, matrix->count, matrix->count * matrix->count));
    for (uint32_t i = 0; i < matrix->count; i++)
        wait_graph_add_node(&graph, matrix->mode[i]);
    for (uint32_t k = 0; k < matrix->count; k++) /* in another order than that of the nodes */
        for (uint32_t i = 0; i < matrix->count; i++)
            if (matrix->edge[i][k])
                wait_graph_add_edge(&graph, i, k);
    wait_graph_solve(&graph);
}

/* Whether a way leads from one to the other; stuck: through stuck nodes alone. */
static bool leads(const struct matrix *matrix, uint32_t from, uint32_t to, bool stuck)
{
    bool is_seen[SMALL] = {false};
    uint32_t queue[SMALL];
    uint32_t tail = 0;
    queue[tail++] = from;
    for (uint32_t head = 0; head < tail; head++)
        for (uint32_t k = 0; k < matrix->count; k++) {
            bool is_way = matrix->edge[queue[head]][k] && k != queue[head] &&
                          (!stuck || (matrix->is_stuck[queue[head]] && matrix->is_stuck[k]));
            if (!is_way || is_seen[k])
                continue;
            is_seen[k] = true;
            queue[tail < SMALL ? tail++ : 0] = k;
        }
    return is_seen[to];
}

/* It leads back from everything that it leads to, and it leads somewhere. */
static bool is_in_cycle(const struct matrix *matrix, uint32_t node)
{
    bool is_any = false;
    for (uint32_t k = 0; k < matrix->count; k++) {
        if (k == node || !leads(matrix, node, k, true))
            continue;
        is_any = true;
        if (!leads(matrix, k, node, true))
            return false;
    }
    return is_any;
}

static void compare_cycles(const struct matrix *matrix)
{
    for (uint32_t i = 0; i < matrix->count; i++) {
        bool is_in = is_in_cycle(matrix, i);
        cr_assert_eq(graph.cycle[i] != WAIT_GRAPH_NONE, is_in);
        cr_assert(!is_in || graph.cycle[i] < graph.cycle_count);
        for (uint32_t k = 0; k < matrix->count && is_in; k++)
            if (k != i && is_in_cycle(matrix, k))
                cr_assert_eq(graph.cycle[i] == graph.cycle[k], leads(matrix, i, k, true));
    }
}

static void compare_waiters(const struct matrix *matrix, uint32_t node)
{
    uint32_t expected = 0;
    for (uint32_t k = 0; k < matrix->count; k++) {
        bool is_same = graph.cycle[k] == graph.cycle[node] && graph.cycle[k] != WAIT_GRAPH_NONE;
        expected += k != node && !is_same && leads(matrix, k, node, false);
    }
    uint32_t count = wait_graph_waiters(&graph, node);
    cr_assert_eq(count, expected);
    for (uint32_t i = 0; i < count; i++)
        cr_assert(leads(matrix, graph.queue[i], node, false));
}

Test(wait_graph, finds_what_the_plainest_way_finds)
{
    static struct matrix matrix;
    uint32_t stuck = 0;
    uint32_t cycles = 0;
    for (uint32_t round = 0; round < 20000; round++) {
        matrix_draw(&matrix);
        matrix_solve(&matrix);
        matrix_to_graph(&matrix);
        for (uint32_t i = 0; i < matrix.count; i++) {
            cr_assert_eq(graph.is_stuck[i] != 0, matrix.is_stuck[i], "round %u", round);
            stuck += matrix.is_stuck[i];
        }
        compare_cycles(&matrix);
        compare_waiters(&matrix, draw_below(&random_state, matrix.count));
        cycles += graph.cycle_count;
    }
    cr_expect(stuck > 1000 && cycles > 1000, "too few of what is looked for");
}

/* Nodes, and edges from one to the next in the list; -1 ends a row. */
static void make(uint32_t nodes, const int *edges, size_t count)
{
    cr_assert(wait_graph_reserve(&graph, nodes, (uint32_t)count));
    for (uint32_t i = 0; i < nodes; i++)
        wait_graph_add_node(&graph, WAIT_FOR_ANY);
    for (size_t i = 0; i + 1 < count; i++)
        if (edges[i] != NONE && edges[i + 1] != NONE)
            wait_graph_add_edge(&graph, (uint32_t)edges[i], (uint32_t)edges[i + 1]);
    wait_graph_solve(&graph);
}
#define MAKE(nodes, ...)                                                                           \
    make(nodes, (const int[]){__VA_ARGS__}, sizeof((const int[]){__VA_ARGS__}) / sizeof(int))

Test(wait_graph, counts_who_waits_directly_or_not)
{
    MAKE(6, 0, 1, 2, NONE, 3, 2, NONE, 4, 5);
    cr_expect(wait_graph_is_root(&graph, 2));
    cr_expect(!wait_graph_is_root(&graph, 1));
    cr_expect(!wait_graph_is_root(&graph, 0));
    cr_expect_eq(wait_graph_waiters(&graph, 2), 3);
    cr_expect(graph.queue[2] == 0, "the farthest is not the last");
    cr_expect_eq(graph.cycle_count, 0);
}

Test(wait_graph, takes_who_waits_outside_for_no_part_of_a_cycle)
{
    MAKE(5, 0, 1, 0, NONE, 2, 0, NONE, 3, 2, NONE, 4, 1);
    cr_expect_eq(graph.cycle_count, 1);
    cr_expect(graph.cycle[0] == 0 && graph.cycle[1] == 0);
    for (uint32_t i = 2; i < 5; i++)
        cr_expect(graph.is_stuck[i] && graph.cycle[i] == WAIT_GRAPH_NONE);
    cr_expect_eq(wait_graph_waiters(&graph, 1), 3);
}

Test(wait_graph, sees_no_cycle_where_one_of_them_may_go_on)
{
    MAKE(3, 0, 1, 0, NONE, 1, 2);
    cr_expect_eq(graph.cycle_count, 0);
    cr_expect(!graph.is_stuck[0] && !graph.is_stuck[1]);
    cr_assert(wait_graph_reserve(&graph, 3, 3));
    for (uint32_t i = 0; i < 3; i++)
        wait_graph_add_node(&graph, i == 1 ? WAIT_FOR_ALL : WAIT_FOR_ANY);
    wait_graph_add_edge(&graph, 0, 1);
    wait_graph_add_edge(&graph, 1, 0);
    wait_graph_add_edge(&graph, 1, 2);
    wait_graph_solve(&graph);
    cr_expect_eq(graph.cycle_count, 1, "it needs both, and one of them waits for it");
    cr_expect(graph.cycle[2] == WAIT_GRAPH_NONE);
}

Test(wait_graph, takes_who_waits_for_itself_for_one_who_goes_on)
{
    MAKE(2, 0, 0, NONE, 1, 0);
    cr_expect_eq(graph.cycle_count, 0);
    cr_expect(!graph.is_stuck[1]);
    cr_expect(wait_graph_is_root(&graph, 0));
}

Test(wait_graph, needs_no_stack_for_a_long_ring)
{
    cr_assert(wait_graph_reserve(&graph, LONG, LONG));
    for (uint32_t i = 0; i < LONG; i++)
        wait_graph_add_node(&graph, WAIT_FOR_ALL);
    for (uint32_t i = 0; i < LONG; i++)
        wait_graph_add_edge(&graph, i, (i + 1) % LONG);
    wait_graph_solve(&graph);
    cr_expect_eq(graph.cycle_count, 1);
    cr_expect_eq(wait_graph_waiters(&graph, 7), 0);
}

Test(wait_graph, is_empty_without_nodes)
{
    cr_assert(wait_graph_reserve(&graph, 0, 0));
    wait_graph_solve(&graph);
    cr_expect_eq(graph.cycle_count, 0);
}

Test(wait_graph, says_that_memory_is_short)
{
    for (uint64_t bytes = 0; bytes < 20000; bytes += 500) {
        wait_graph_fini(&graph);
        memory.bytes_max = bytes;
        (void)wait_graph_reserve(&graph, 100, 100); /* what it took is given back by fini() */
    }
    memory.bytes_max = UINT64_MAX;
    cr_assert(wait_graph_reserve(&graph, 100, 100));
}
