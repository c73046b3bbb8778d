/* SPDX-License-Identifier: MPL-2.0 */
/* graph.c -- edges in arrays, and three walks over them; see graph.h. */
#include "libbus/base/graph.h"

#include "libbus/base/must.h"
#include "libbus/base/widen.h"

#include <string.h>

enum {
    NODE_ARRAYS = 11,
    EDGE_ARRAYS = 2,
};

/* Where a walk through all components stands. */
struct fold {
    uint32_t number; /* of the node entered last */
    uint32_t stack_count;
    uint32_t call_count;
    uint32_t folded_count;
};

void graph_init(struct graph *graph, struct memory *memory)
{
    *graph = (struct graph){.memory = memory};
}

void graph_fini(struct graph *graph)
{
    widen_give(graph->memory, graph->first, graph->node_room, NODE_ARRAYS);
    widen_give(graph->memory, graph->to, graph->edge_room, EDGE_ARRAYS);
    graph_init(graph, graph->memory);
}

bool graph_reserve(struct graph *graph, uint32_t nodes, uint32_t edges)
{
    uint32_t **const of_nodes[NODE_ARRAYS] = {
        &graph->first,  &graph->back_first, &graph->is_reached, &graph->component,
        &graph->folded, &graph->steps,      &graph->number,     &graph->low,
        &graph->cursor, &graph->stack,      &graph->calls,
    };
    uint32_t **const of_edges[EDGE_ARRAYS] = {&graph->to, &graph->back_to};
    must(nodes <= UINT32_MAX / 4 && edges <= UINT32_MAX / 4);
    graph_clear(graph);
    return widen(graph->memory, &graph->node_room, nodes, of_nodes, NODE_ARRAYS) &&
           widen(graph->memory, &graph->edge_room, edges, of_edges, EDGE_ARRAYS);
}

void graph_clear(struct graph *graph)
{
    graph->node_count = 0;
    graph->edge_count = 0;
    graph->component_count = 0;
}

uint32_t graph_add_node(struct graph *graph)
{
    must(graph->node_count < graph->node_room);
    graph->first[graph->node_count] = graph->edge_count;
    graph->is_reached[graph->node_count] = 0;
    return graph->node_count++;
}

void graph_add_edge(struct graph *graph, uint32_t target)
{
    must(graph->node_count > 0 && graph->edge_count < graph->edge_room);
    graph->to[graph->edge_count++] = target;
}

/* The edges against their direction, counted first and then put in place. */
void graph_seal(struct graph *graph)
{
    if (graph->node_count == 0)
        return;
    uint32_t *first = graph->back_first;
    graph->first[graph->node_count] = graph->edge_count;
    memset(first, 0, ((size_t)graph->node_count + 1) * sizeof *first);
    for (uint32_t edge = 0; edge < graph->edge_count; edge++) {
        must(graph->to[edge] < graph->node_count);
        first[graph->to[edge] + 1] += 1;
    }
    for (uint32_t node = 0; node < graph->node_count; node++) {
        first[node + 1] += first[node];
        graph->cursor[node] = first[node];
    }
    for (uint32_t node = 0; node < graph->node_count; node++)
        for (uint32_t edge = graph->first[node]; edge < graph->first[node + 1]; edge++)
            graph->back_to[graph->cursor[graph->to[edge]]++] = node;
}

void graph_reach(struct graph *graph, uint32_t node)
{
    must(node < graph->node_count);
    if (graph->is_reached[node])
        return;
    uint32_t count = 0;
    graph->is_reached[node] = 1;
    graph->stack[count++] = node;
    while (count > 0) {
        node = graph->stack[--count];
        for (uint32_t edge = graph->first[node]; edge < graph->first[node + 1]; edge++) {
            uint32_t target = graph->to[edge];
            if (graph->is_reached[target])
                continue;
            graph->is_reached[target] = 1;
            graph->stack[count++] = target;
        }
    }
}

static void fold_enter(struct graph *graph, struct fold *fold, uint32_t node)
{
    fold->number += 1;
    graph->number[node] = fold->number;
    graph->low[node] = fold->number;
    graph->cursor[node] = graph->first[node];
    graph->component[node] = GRAPH_NONE; /* until its component is closed */
    graph->stack[fold->stack_count++] = node;
    graph->calls[fold->call_count++] = node;
}

static void lower(uint32_t *low, uint32_t number)
{
    if (number < *low)
        *low = number;
}

/* Everything on the stack from node on is a component. */
static void fold_close(struct graph *graph, struct fold *fold, uint32_t node)
{
    uint32_t member;
    do {
        member = graph->stack[--fold->stack_count];
        graph->component[member] = graph->component_count;
        graph->folded[fold->folded_count++] = member;
    } while (member != node);
    graph->component_count += 1;
}

static void fold_from(struct graph *graph, struct fold *fold, uint32_t root)
{
    fold_enter(graph, fold, root);
    while (fold->call_count > 0) {
        uint32_t node = graph->calls[fold->call_count - 1];
        if (graph->cursor[node] < graph->first[node + 1]) {
            uint32_t target = graph->to[graph->cursor[node]++];
            if (graph->number[target] == 0)
                fold_enter(graph, fold, target);
            else if (graph->component[target] == GRAPH_NONE)
                lower(&graph->low[node], graph->number[target]);
            continue;
        }
        fold->call_count -= 1;
        if (graph->low[node] == graph->number[node])
            fold_close(graph, fold, node);
        if (fold->call_count > 0)
            lower(&graph->low[graph->calls[fold->call_count - 1]], graph->low[node]);
    }
}

void graph_fold(struct graph *graph)
{
    struct fold fold = {0};
    graph->component_count = 0;
    for (uint32_t node = 0; node < graph->node_count; node++)
        graph->number[node] = 0;
    for (uint32_t node = 0; node < graph->node_count; node++)
        if (graph->number[node] == 0)
            fold_from(graph, &fold, node);
}

void graph_measure(struct graph *graph, uint32_t target)
{
    must(target < graph->node_count);
    for (uint32_t node = 0; node < graph->node_count; node++)
        graph->steps[node] = GRAPH_NONE;
    uint32_t *queue = graph->stack;
    uint32_t head = 0;
    uint32_t tail = 0;
    graph->steps[target] = 0;
    queue[tail++] = target;
    while (head < tail) {
        uint32_t node = queue[head++];
        for (uint32_t edge = graph->back_first[node]; edge < graph->back_first[node + 1]; edge++) {
            uint32_t before = graph->back_to[edge];
            if (graph->steps[before] != GRAPH_NONE)
                continue;
            graph->steps[before] = graph->steps[node] + 1;
            queue[tail++] = before;
        }
    }
}
