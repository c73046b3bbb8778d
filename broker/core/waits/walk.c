/* SPDX-License-Identifier: MPL-2.0 */
/* walk.c -- nodes and edges of a walk, found by what they stand for.
 *
 * Waits of one kind between two nodes are one edge: 65,536 awaits of 1,000 parties are no more
 * edges than pairs of parties. */
#include "broker/core/waits/walk.h"

#include "broker/core/waits/without.h"
#include "libbus/base/wait_graph.h"

enum { ROOM_FIRST = 16, KIND_BITS = 4, NODE_BITS = 30 };

struct wait_walk *walk_begin(struct core *core, struct job *job)
{
    struct wait_walk *walk = memory_take(core->memory, sizeof *walk);
    if (walk == NULL)
        return NULL;
    walk->job = job->id;
    id_map_init(&walk->node_numbers, core->memory);
    id_map_init(&walk->edge_numbers, core->memory);
    list_init(&walk->link);
    list_push(&core->wait_walks, &walk->link);
    return walk;
}

void walk_free(struct core *core, struct wait_walk *walk)
{
    without_free(core, walk->without);
    list_remove(&walk->link);
    memory_give(core->memory, walk->nodes, walk->node_room * sizeof *walk->nodes);
    memory_give(core->memory, walk->edges, walk->edge_room * sizeof *walk->edges);
    id_map_fini(&walk->node_numbers);
    id_map_fini(&walk->edge_numbers);
    memory_give(core->memory, walk, sizeof *walk);
}

struct job *walk_job(const struct core *core, const struct wait_walk *walk)
{
    return pool_find(&core->jobs, walk->job);
}

/* Room for one element more; false: no memory. */
static bool grow(struct wait_walk *walk, void **array, size_t element_bytes, uint32_t count,
                 uint32_t *room)
{
    struct memory *memory = walk->node_numbers.memory;
    if (count < *room)
        return true;
    uint32_t larger = *room > 0 ? *room * 2 : ROOM_FIRST;
    void *block = memory_resize(memory, *array, *room * element_bytes, larger * element_bytes);
    if (block == NULL)
        return false;
    *array = block;
    *room = larger;
    return true;
}

/* Slots alone have a seq; few are asked for, so they are searched. */
static uint32_t find_slot(const struct wait_walk *walk, uint32_t id, uint64_t seq)
{
    for (uint32_t i = 0; i < walk->node_count; i++) {
        const struct wait_node *node = &walk->nodes[i];
        if (node->kind == WAIT_NODE_SLOT && node->id == id && node->seq == seq)
            return i;
    }
    return WAIT_GRAPH_NONE;
}

static uint32_t find_node(const struct wait_walk *walk, enum wait_node_kind kind, uint32_t id,
                          uint64_t seq)
{
    uint32_t number;
    if (kind == WAIT_NODE_SLOT)
        return find_slot(walk, id, seq);
    if (id_map_get(&walk->node_numbers, (uint64_t)id << KIND_BITS | kind, &number))
        return number;
    return WAIT_GRAPH_NONE;
}

uint32_t walk_node(struct wait_walk *walk, enum wait_node_kind kind, uint32_t id, uint64_t seq,
                   bool *out_is_new)
{
    uint32_t number = find_node(walk, kind, id, seq);
    if (out_is_new != NULL)
        *out_is_new = number == WAIT_GRAPH_NONE;
    if (number != WAIT_GRAPH_NONE || walk->node_count == LIMIT_WHY_NODES)
        return number;
    void *nodes = walk->nodes;
    bool is_kept =
        grow(walk, &nodes, sizeof *walk->nodes, walk->node_count, &walk->node_room) &&
        (kind == WAIT_NODE_SLOT ||
         id_map_put(&walk->node_numbers, (uint64_t)id << KIND_BITS | kind, walk->node_count));
    walk->nodes = nodes;
    walk->is_short |= !is_kept;
    if (!is_kept)
        return WAIT_GRAPH_NONE;
    walk->nodes[walk->node_count] = (struct wait_node){.kind = kind, .id = id, .seq = seq};
    return walk->node_count++;
}

static void add_wait(struct wait_edge *edge, const struct wait_edge *wait)
{
    uint64_t count = edge->count + wait->count;
    bool is_said = edge->is_said || wait->is_said;
    bool is_timed = edge->is_timed || wait->is_timed;
    bool is_better = wait->is_said && !edge->is_said;
    bool is_same = wait->is_said == edge->is_said;
    if (is_better || (is_same && wait->since_ns < edge->since_ns))
        *edge = *wait;
    edge->count = count;
    edge->is_said = is_said;
    edge->is_timed = is_timed;
}

void walk_edge(struct wait_walk *walk, const struct wait_edge *wait)
{
    uint64_t key = ((uint64_t)wait->from << NODE_BITS | wait->to) << KIND_BITS | wait->kind;
    uint32_t number;
    walk->work += 1;
    if (wait->from == WAIT_GRAPH_NONE || wait->to == WAIT_GRAPH_NONE) {
        walk->left_out += 1;
        return;
    }
    if (wait->is_said)
        walk->nodes[wait->from].waits |= 1U << wait->kind;
    if (id_map_get(&walk->edge_numbers, key, &number)) {
        add_wait(&walk->edges[number], wait);
        return;
    }
    if (walk->edge_count == LIMIT_WHY_EDGES) {
        walk->left_out += 1;
        return;
    }
    void *edges = walk->edges;
    bool is_kept = grow(walk, &edges, sizeof *walk->edges, walk->edge_count, &walk->edge_room) &&
                   id_map_put(&walk->edge_numbers, key, walk->edge_count);
    walk->edges = edges;
    walk->is_short |= !is_kept;
    if (is_kept)
        walk->edges[walk->edge_count++] = *wait;
}
