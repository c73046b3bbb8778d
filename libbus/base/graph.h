/* SPDX-License-Identifier: MPL-2.0 */
/* graph.h -- a directed graph in arrays: what a node leads to, what leads to it, distances.
 *
 * Nodes are numbered from 0 in the order in which they are added.  Each node is added with all its
 * edges, which may lead to nodes that come later.  graph_reserve() takes all memory, so nothing
 * after it can fail.  Every operation takes linear time and does not recurse: a chain of a hundred
 * thousand nodes needs no stack. */
#ifndef BASE_GRAPH_H
#define BASE_GRAPH_H

#include "libbus/base/memory.h"

#include <stdbool.h>
#include <stdint.h>

#define GRAPH_NONE UINT32_MAX

struct graph {
    struct memory *memory;
    uint32_t node_room, edge_room;
    uint32_t node_count, edge_count;
    uint32_t component_count;

    /* to and back_to have an element an edge; the others an element a node, and one more. */
    uint32_t *first;      /* edges of a node are to[first[node]] .. to[first[node + 1] - 1] */
    uint32_t *to;         /* where each edge leads */
    uint32_t *is_reached; /* graph_reach(): 1 or 0 */
    uint32_t *component;  /* graph_fold(): edges between two lead to the one of smaller number */
    uint32_t *folded;     /* graph_fold(): all nodes by their component */
    uint32_t *steps;      /* graph_measure(): GRAPH_NONE: no way leads there */

    uint32_t *back_first; /* as first and to, against the edges */
    uint32_t *back_to;
    uint32_t *number, *low, *cursor, *stack, *calls; /* of the walks */
};

void graph_init(struct graph *graph, struct memory *memory);
void graph_fini(struct graph *graph);
/* Room for so many in all, and an empty graph.  false: no memory; room that was there still is. */
bool graph_reserve(struct graph *graph, uint32_t nodes, uint32_t edges);

void graph_clear(struct graph *graph);
uint32_t graph_add_node(struct graph *graph);              /* gives its number */
void graph_add_edge(struct graph *graph, uint32_t target); /* from the node added last */
/* All nodes and edges are there: the calls below may follow, in any order. */
void graph_seal(struct graph *graph);

/* Marks node and all to which it leads, beside what is marked already. */
void graph_reach(struct graph *graph, uint32_t node);
/* Finds the strongly connected components: nodes that lead to each other (Tarjan 1972). */
void graph_fold(struct graph *graph);
/* Counts the fewest edges from each node to target. */
void graph_measure(struct graph *graph, uint32_t target);

#endif
