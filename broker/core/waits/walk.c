/* SPDX-License-Identifier: MPL-2.0 */
/* walk.c -- nodes and edges of a walk, found by what they stand for.
 *
 * Waits of one kind between two nodes are one edge: 65,536 awaits of 1,000 parties are no more
 * edges than pairs of parties. */
#include "broker/core/waits/walk.h"

#include "broker/core/waits/deadlock.h"
#include "broker/core/waits/without.h"
#include "libbus/base/wait_graph.h"

enum {
    ROOM_FIRST = 16,
    KIND_BITS = 4,
    NODE_BITS = 30,
    CHUNK_BYTES = WAIT_CHUNK_EDGES * sizeof(struct wait_edge),
};

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
    deadlock_free(core, walk->judging);
    list_remove(&walk->link);
    memory_give(core->memory, walk->nodes, walk->node_room * sizeof *walk->nodes);
    for (uint32_t i = 0; i < walk->edge_count; i += WAIT_CHUNK_EDGES)
        memory_give(core->memory, wait_edge_at(walk, i), CHUNK_BYTES);
    id_map_fini(&walk->node_numbers);
    id_map_fini(&walk->edge_numbers);
    memory_give(core->memory, walk, sizeof *walk);
}

struct job *walk_job(const struct core *core, const struct wait_walk *walk)
{
    return pool_find(&core->jobs, walk->job);
}

/* Room for one node more; false: no memory. */
static bool grow_nodes(struct wait_walk *walk)
{
    struct memory *memory = walk->node_numbers.memory;
    if (walk->node_count < walk->node_room)
        return true;
    uint32_t larger = walk->node_room > 0 ? walk->node_room * 2 : ROOM_FIRST;
    void *nodes = memory_resize(memory, walk->nodes, walk->node_room * sizeof *walk->nodes,
                                larger * sizeof *walk->nodes);
    if (nodes == NULL)
        return false;
    walk->nodes = nodes;
    walk->node_room = larger;
    return true;
}

/* The edge gets the next number; false: no memory. */
static bool keep_edge(struct wait_walk *walk, const struct wait_edge *wait, uint64_t key)
{
    struct wait_edge **chunk = &walk->edge_chunks[walk->edge_count / WAIT_CHUNK_EDGES];
    bool is_first = walk->edge_count % WAIT_CHUNK_EDGES == 0;
    if (is_first)
        *chunk = memory_take(walk->node_numbers.memory, CHUNK_BYTES);
    if (*chunk == NULL)
        return false;
    if (!id_map_put(&walk->edge_numbers, key, walk->edge_count)) {
        if (is_first)
            memory_give(walk->node_numbers.memory, *chunk, CHUNK_BYTES);
        return false;
    }
    *wait_edge_at(walk, walk->edge_count++) = *wait;
    return true;
}

static uint64_t node_key(enum wait_node_kind kind, uint32_t id)
{
    return (uint64_t)id << KIND_BITS | kind;
}

/* key 0: nobody looks for it again. */
static uint32_t make_node(struct wait_walk *walk, const struct wait_node *node, uint64_t key)
{
    if (walk->node_count == LIMIT_WHY_NODES)
        return WAIT_GRAPH_NONE;
    bool is_kept =
        grow_nodes(walk) && (key == 0 || id_map_put(&walk->node_numbers, key, walk->node_count));
    walk->is_short |= !is_kept;
    if (!is_kept)
        return WAIT_GRAPH_NONE;
    walk->nodes[walk->node_count] = *node;
    return walk->node_count++;
}

uint32_t walk_node(struct wait_walk *walk, enum wait_node_kind kind, uint32_t id, bool *out_is_new)
{
    uint32_t number;
    bool is_known = id_map_get(&walk->node_numbers, node_key(kind, id), &number);
    if (out_is_new != NULL)
        *out_is_new = !is_known;
    if (is_known)
        return number;
    return make_node(walk, &(struct wait_node){.kind = kind, .id = id}, node_key(kind, id));
}

uint32_t walk_slot(struct wait_walk *walk, const struct topic *topic, uint64_t seq,
                   const struct open_slot *open)
{
    uint32_t number;
    uint64_t key = open != NULL ? node_key(WAIT_NODE_SLOT, open->id) : 0;
    if (open != NULL && id_map_get(&walk->node_numbers, key, &number))
        return number;
    return make_node(walk, &(struct wait_node){.kind = WAIT_NODE_SLOT, .id = topic->id, .seq = seq},
                     key);
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

void walk_leave_out(struct wait_walk *walk, uint32_t from)
{
    walk->left_out += 1;
    if (from != WAIT_GRAPH_NONE)
        walk->nodes[from].is_free = true;
}

void walk_edge(struct wait_walk *walk, const struct wait_edge *wait)
{
    uint64_t key = ((uint64_t)wait->from << NODE_BITS | wait->to) << KIND_BITS | wait->kind;
    uint32_t number;
    walk->work += 1;
    if (wait->from == WAIT_GRAPH_NONE || wait->to == WAIT_GRAPH_NONE) {
        walk_leave_out(walk, wait->from);
        return;
    }
    if (wait->is_said)
        walk->nodes[wait->from].waits |= 1U << wait->kind;
    if (id_map_get(&walk->edge_numbers, key, &number)) {
        add_wait(wait_edge_at(walk, number), wait);
        return;
    }
    if (walk->edge_count == LIMIT_WHY_EDGES) {
        walk_leave_out(walk, wait->from);
        return;
    }
    walk->is_short |= !keep_edge(walk, wait, key);
}
