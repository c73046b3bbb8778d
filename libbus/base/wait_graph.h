/* SPDX-License-Identifier: MPL-2.0 */
/* wait_graph.h -- who waits for whom: who waits in vain, in which cycles, and for whom most wait.
 *
 * An edge leads from a node that waits to the node that it waits for.  A node goes on once any of
 * those that it waits for goes on, or only once all of them do: its mode.  A node that waits for
 * nobody goes on.  A node that never goes on is stuck.
 *
 * Stuck nodes that wait for each other, and for no other stuck node, are a cycle.  A stuck node
 * outside waits for a cycle, and is no part of it.
 *
 * wait_graph_reserve() takes all memory.  Every operation takes linear time, and none recurses.
 * Who may not take that long at a time solves the graph pass by pass. */
#ifndef BASE_WAIT_GRAPH_H
#define BASE_WAIT_GRAPH_H

#include "libbus/base/graph.h"

#include <stdbool.h>
#include <stdint.h>

#define WAIT_GRAPH_NONE UINT32_MAX

enum wait_mode { WAIT_FOR_ANY, WAIT_FOR_ALL };

/* What wait_graph_solve() does, in this order. */
enum wait_pass {
    WAIT_PASS_ORDER, /* edges by the node that waits */
    WAIT_PASS_WAITS, /* the graph of all waits */
    WAIT_PASS_STUCK, /* who never goes on */
    WAIT_PASS_AMONG, /* the graph of waits among these */
    WAIT_PASS_CYCLES,
    WAIT_PASS_COUNT,
};

struct wait_graph {
    struct memory *memory;
    struct graph waits; /* sealed by wait_graph_solve() */
    struct graph stuck; /* the same nodes, and edges between stuck ones */
    uint32_t node_room, edge_room;
    uint32_t node_count, edge_count;

    uint32_t *from, *to; /* of each edge */
    uint32_t *order;     /* of all edges, by the node that waits */

    /* With an element a node, and one more: */
    uint32_t *mode;     /* enum wait_mode */
    uint32_t *is_stuck; /* wait_graph_solve(): 1 or 0 */
    uint32_t *cycle;    /* wait_graph_solve(): its number, or WAIT_GRAPH_NONE */
    uint32_t *first;    /* of its edges in order */
    uint32_t *left;     /* of the walks */
    uint32_t *queue;
    uint32_t cycle_count;
    enum wait_pass pass; /* the next one */
};

void wait_graph_init(struct wait_graph *graph, struct memory *memory);
void wait_graph_fini(struct wait_graph *graph);
/* Room for so many in all, and an empty graph.  false: no memory. */
bool wait_graph_reserve(struct wait_graph *graph, uint32_t nodes, uint32_t edges);
uint32_t wait_graph_add_node(struct wait_graph *graph, enum wait_mode mode); /* gives its number */
/* Both nodes are there.  A node that waits for itself is taken as if it did not. */
void wait_graph_add_edge(struct wait_graph *graph, uint32_t from, uint32_t to);

/* All nodes and edges are there: finds who is stuck, and the cycles. */
void wait_graph_solve(struct wait_graph *graph);
/* The next pass of that.  Each goes once over all nodes and edges.  true: it was the last. */
bool wait_graph_solve_pass(struct wait_graph *graph);
/* Behind wait_graph_solve(): whether the node waits for nobody, and somebody waits for it. */
bool wait_graph_is_root(const struct wait_graph *graph, uint32_t node);
/* The same: all that wait for the node, directly or not, the nearest first, without the node itself
 * and, if it is in a cycle, without the cycle.  They stand in graph->queue until the next call. */
uint32_t wait_graph_waiters(struct wait_graph *graph, uint32_t node);

#endif
