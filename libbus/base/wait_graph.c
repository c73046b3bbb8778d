/* SPDX-License-Identifier: MPL-2.0 */
/* wait_graph.c -- who is stuck, by counting what each still waits for; see wait_graph.h. */
#include "libbus/base/wait_graph.h"

#include "libbus/base/must.h"
#include "libbus/base/widen.h"

#include <string.h>

enum {
    NODE_ARRAYS = 6,
    EDGE_ARRAYS = 3,
};

void wait_graph_init(struct wait_graph *graph, struct memory *memory)
{
    *graph = (struct wait_graph){.memory = memory};
    graph_init(&graph->waits, memory);
    graph_init(&graph->stuck, memory);
}

void wait_graph_fini(struct wait_graph *graph)
{
    graph_fini(&graph->waits);
    graph_fini(&graph->stuck);
    widen_give(graph->memory, graph->mode, graph->node_room, NODE_ARRAYS);
    widen_give(graph->memory, graph->from, graph->edge_room, EDGE_ARRAYS);
    wait_graph_init(graph, graph->memory);
}

bool wait_graph_reserve(struct wait_graph *graph, uint32_t nodes, uint32_t edges)
{
    uint32_t **const of_nodes[NODE_ARRAYS] = {&graph->mode,  &graph->is_stuck, &graph->cycle,
                                              &graph->first, &graph->left,     &graph->queue};
    uint32_t **const of_edges[EDGE_ARRAYS] = {&graph->from, &graph->to, &graph->order};
    must(nodes <= UINT32_MAX / 4 && edges <= UINT32_MAX / 4);
    graph->node_count = 0;
    graph->edge_count = 0;
    graph->cycle_count = 0;
    graph->pass = WAIT_PASS_ORDER;
    return graph_reserve(&graph->waits, nodes, edges) &&
           graph_reserve(&graph->stuck, nodes, edges) &&
           widen(graph->memory, &graph->node_room, nodes, of_nodes, NODE_ARRAYS) &&
           widen(graph->memory, &graph->edge_room, edges, of_edges, EDGE_ARRAYS);
}

uint32_t wait_graph_add_node(struct wait_graph *graph, enum wait_mode mode)
{
    must(graph->node_count < graph->node_room);
    graph->mode[graph->node_count] = mode;
    return graph->node_count++;
}

void wait_graph_add_edge(struct wait_graph *graph, uint32_t from, uint32_t to)
{
    must(from < graph->node_count && to < graph->node_count);
    must(graph->edge_count < graph->edge_room);
    if (from == to)
        return;
    graph->from[graph->edge_count] = from;
    graph->to[graph->edge_count++] = to;
}

/* ---- solving --------------------------------------------------------------------------------- */

/* Edges by the node that waits, counted first and then put in place. */
static void put_in_order(struct wait_graph *graph)
{
    uint32_t *first = graph->first;
    memset(first, 0, ((size_t)graph->node_count + 1) * sizeof *first);
    for (uint32_t i = 0; i < graph->edge_count; i++)
        first[graph->from[i] + 1] += 1;
    for (uint32_t node = 0; node < graph->node_count; node++) {
        first[node + 1] += first[node];
        graph->left[node] = first[node];
    }
    for (uint32_t i = 0; i < graph->edge_count; i++)
        graph->order[graph->left[graph->from[i]]++] = i;
}

/* is_stuck_only: edges between two stuck nodes alone. */
static void build(const struct wait_graph *graph, struct graph *out, bool is_stuck_only)
{
    graph_clear(out);
    for (uint32_t node = 0; node < graph->node_count; node++) {
        (void)graph_add_node(out); /* the same number */
        for (uint32_t i = graph->first[node]; i < graph->first[node + 1]; i++) {
            uint32_t to = graph->to[graph->order[i]];
            if (!is_stuck_only || (graph->is_stuck[node] && graph->is_stuck[to]))
                graph_add_edge(out, to);
        }
    }
    graph_seal(out);
}

static uint32_t degree(const struct graph *graph, uint32_t node)
{
    return graph->first[node + 1] - graph->first[node];
}

/* Who waits for nobody goes on.  Then so does who waits for those alone, or for any of them. */
static void find_stuck(struct wait_graph *graph)
{
    const struct graph *waits = &graph->waits;
    uint32_t head = 0;
    uint32_t tail = 0;
    for (uint32_t node = 0; node < graph->node_count; node++) {
        uint32_t count = degree(waits, node);
        graph->left[node] = graph->mode[node] == WAIT_FOR_ALL ? count : count > 0;
        graph->is_stuck[node] = count > 0;
        if (count == 0)
            graph->queue[tail++] = node;
    }
    while (head < tail) {
        uint32_t node = graph->queue[head++];
        for (uint32_t i = waits->back_first[node]; i < waits->back_first[node + 1]; i++) {
            uint32_t waiter = waits->back_to[i];
            if (!graph->is_stuck[waiter] || --graph->left[waiter] > 0)
                continue;
            graph->is_stuck[waiter] = 0;
            graph->queue[tail++] = waiter;
        }
    }
}

/* A component with a way out to another one is no cycle.  left: of a component, its nodes if it has
 * no way out, else 0. */
static void find_cycles(struct wait_graph *graph)
{
    struct graph *stuck = &graph->stuck;
    graph->cycle_count = 0;
    graph_fold(stuck);
    memset(graph->left, 0, stuck->component_count * sizeof *graph->left);
    for (uint32_t node = 0; node < graph->node_count; node++)
        graph->left[stuck->component[node]] += 1;
    for (uint32_t node = 0; node < graph->node_count; node++)
        for (uint32_t i = stuck->first[node]; i < stuck->first[node + 1]; i++)
            if (stuck->component[stuck->to[i]] != stuck->component[node])
                graph->left[stuck->component[node]] = 0;
    for (uint32_t i = 0; i < stuck->component_count; i++) /* number of the cycle, behind those */
        graph->queue[i] = graph->left[i] > 1 ? graph->cycle_count++ : WAIT_GRAPH_NONE;
    for (uint32_t node = 0; node < graph->node_count; node++)
        graph->cycle[node] = graph->queue[stuck->component[node]];
}

bool wait_graph_solve_pass(struct wait_graph *graph)
{
    if (graph->node_count == 0)
        return true;
    switch (graph->pass) {
    case WAIT_PASS_ORDER: put_in_order(graph); break;
    case WAIT_PASS_WAITS: build(graph, &graph->waits, false); break;
    case WAIT_PASS_STUCK: find_stuck(graph); break;
    case WAIT_PASS_AMONG: build(graph, &graph->stuck, true); break;
    case WAIT_PASS_CYCLES: find_cycles(graph); break;
    case WAIT_PASS_COUNT: return true;
    }
    graph->pass += 1;
    return graph->pass == WAIT_PASS_COUNT;
}

void wait_graph_solve(struct wait_graph *graph)
{
    while (!wait_graph_solve_pass(graph))
        continue;
}

/* ---- looking --------------------------------------------------------------------------------- */

bool wait_graph_is_root(const struct wait_graph *graph, uint32_t node)
{
    const struct graph *waits = &graph->waits;
    must(node < graph->node_count);
    return degree(waits, node) == 0 && waits->back_first[node + 1] > waits->back_first[node];
}

uint32_t wait_graph_waiters(struct wait_graph *graph, uint32_t node)
{
    const struct graph *waits = &graph->waits;
    uint32_t cycle = graph->cycle[node];
    uint32_t begin = 0;
    uint32_t tail = 0;
    must(node < graph->node_count);
    for (uint32_t i = 0; i < graph->node_count; i++) {
        bool is_there = i == node || (cycle != WAIT_GRAPH_NONE && graph->cycle[i] == cycle);
        graph->left[i] = is_there;
        if (is_there)
            graph->queue[tail++] = i;
    }
    begin = tail;
    for (uint32_t head = 0; head < tail; head++) {
        uint32_t at = graph->queue[head];
        for (uint32_t i = waits->back_first[at]; i < waits->back_first[at + 1]; i++) {
            uint32_t waiter = waits->back_to[i];
            if (graph->left[waiter])
                continue;
            graph->left[waiter] = 1;
            graph->queue[tail++] = waiter;
        }
    }
    memmove(graph->queue, graph->queue + begin, (tail - begin) * sizeof *graph->queue);
    return tail - begin;
}
