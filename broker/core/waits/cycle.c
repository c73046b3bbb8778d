/* SPDX-License-Identifier: MPL-2.0 */
/* cycle.c -- one cycle of waits: what it is made of, whether it is sure, and what is said of it. */
#include "broker/core/waits/cycle.h"

#include "libbus/base/wait_graph.h"

#include <string.h>

enum { TEXT_LEFT = 64 }; /* bytes of a text that names do not use */

struct party *cycle_party(const struct core *core, const struct wait_walk *walk, uint32_t node)
{
    const struct wait_node *at = &walk->nodes[node];
    struct party *party = at->kind == WAIT_NODE_PARTY ? pool_find(&core->parties, at->id) : NULL;
    return party != NULL && party->job->id == walk->job ? party : NULL;
}

/* ---- what counts ----------------------------------------------------------------------------- */

enum {
    SLOT_WAITS = 1U << WAIT_SLOT | 1U << WAIT_UNPROMISED | 1U << WAIT_REPLY | 1U << WAIT_GROUP |
                 1U << WAIT_UNSERVED,
    ROOM_WAITS = 1U << WAIT_CREDIT | 1U << WAIT_ROOM | 1U << WAIT_RATE,
    MEMBER_WAITS = 1U << WAIT_MEMBERS | 1U << WAIT_GATHER,
};

/* It promised progress, and is ended when that does not come. */
static bool is_at_work(const struct session *session)
{
    return session->progress_ms > 0;
}

/* A call is blocked in something that was not found: the answer is on its way. */
static bool is_being_answered(const struct session *session, uint32_t waits)
{
    const struct blocked *blocked = &session->blocked;
    return (blocked->slots_ns != 0 && (waits & SLOT_WAITS) == 0) ||
           (blocked->room_ns != 0 && (waits & ROOM_WAITS) == 0) ||
           (blocked->reads_ns != 0 && (waits & 1U << WAIT_READ) == 0) ||
           (blocked->barrier_ns != 0 && (waits & 1U << WAIT_BARRIER) == 0) ||
           (blocked->members_ns != 0 && (waits & MEMBER_WAITS) == 0) ||
           (blocked->slots_ns != 0 && !list_is_empty(&session->awaits_ready));
}

bool cycle_counts(const struct core *core, const struct wait_walk *walk,
                  const struct wait_edge *edge)
{
    const struct wait_node *from = &walk->nodes[edge->from];
    const struct party *party = cycle_party(core, walk, edge->from);
    if (!edge->is_said || from->is_free)
        return false;
    return party == NULL || party->session == NULL ||
           (!is_at_work(party->session) && !is_being_answered(party->session, from->waits));
}

/* Only the broker ends the calls of this member, and it sent nothing that is still under way. */
static bool is_member_sure(const struct session *session)
{
    return session->control != 0 && session->data != 0 && session->is_ready &&
           !session->is_suspect && session->blocked.is_sure &&
           session->blocked.data_bytes == session->data_sent;
}

/* ---- what it is made of ---------------------------------------------------------------------- */

static uint64_t mix(uint64_t hash, uint64_t value)
{
    hash = (hash ^ value) * UINT64_C(0x9e3779b97f4a7c15);
    return hash ^ hash >> 29;
}

bool cycle_has(const struct cycle *cycle, uint32_t node)
{
    return cycle->graph->cycle[node] == cycle->number;
}

static uint64_t wait_hash(const struct core *core, const struct cycle *cycle,
                          const struct wait_edge *edge)
{
    const struct party *party = cycle_party(core, cycle->walk, edge->from);
    uint64_t hash = mix(edge->kind, party != NULL ? party->id : 0);
    hash = mix(hash, party != NULL ? party->incarnation : 0);
    hash = mix(hash, edge->topic);
    return mix(mix(hash, edge->seq), edge->stamp);
}

static void take_member(const struct core *core, struct cycle *cycle, uint32_t node)
{
    const struct party *party = cycle_party(core, cycle->walk, node);
    if (cycle->walk->nodes[node].kind == WAIT_NODE_GROUP)
        cycle->is_sure = false; /* another member may join it */
    if (party == NULL || party->session == NULL)
        return;
    const struct session *session = party->session;
    if (cycle->party_count++ == 0)
        cycle->first = node;
    cycle->is_sure &= is_member_sure(session);
    cycle->key.activity += session->data_number + session->control_seen + session->blocked.words;
}

bool cycle_has_wait(const struct core *core, const struct cycle *cycle,
                    const struct wait_edge *edge)
{
    return cycle_has(cycle, edge->from) && cycle_has(cycle, edge->to) &&
           cycle_counts(core, cycle->walk, edge);
}

/* In whatever order they stand, the same waits have the same sum. */
void cycle_examine(const struct core *core, struct cycle *cycle)
{
    cycle->is_sure = true;
    for (uint32_t i = 0; i < cycle->walk->node_count; i++)
        if (cycle_has(cycle, i))
            take_member(core, cycle, i);
    for (uint32_t i = 0; i < cycle->walk->edge_count; i++) {
        const struct wait_edge *edge = wait_edge_at(cycle->walk, i);
        if (!cycle_has_wait(core, cycle, edge))
            continue;
        cycle->key.waits += wait_hash(core, cycle, edge);
        cycle->is_sure &= !edge->is_timed;
        bool is_of_party = cycle_party(core, cycle->walk, edge->from) != NULL;
        if (is_of_party && (cycle->youngest == NULL || edge->since_ns > cycle->youngest->since_ns))
            cycle->youngest = edge;
    }
}

/* ---- what is said of it ---------------------------------------------------------------------- */

static void add(struct cycle_text *sentence, struct span part)
{
    size_t left = sizeof sentence->data - 1 - sentence->bytes;
    if (part.bytes > left)
        return;
    memcpy(sentence->data + sentence->bytes, part.data, part.bytes);
    sentence->bytes += part.bytes;
    sentence->data[sentence->bytes] = '\0';
}

static void add_node(const struct core *core, struct cycle_text *sentence,
                     const struct cycle *cycle, uint32_t node)
{
    const struct party *party = cycle_party(core, cycle->walk, node);
    const struct group *group = pool_find(&core->groups, cycle->walk->nodes[node].id);
    if (party != NULL) {
        add(sentence, party->name);
    } else if (cycle->walk->nodes[node].kind == WAIT_NODE_GROUP && group != NULL) {
        add(sentence, span_text("the group "));
        add(sentence, group->place->name);
    } else {
        add(sentence, span_text("the barrier"));
    }
}

/* The next on the shortest way back to first, which graph_measure() counted. */
static uint32_t next_on_way(const struct cycle *cycle, uint32_t node)
{
    const struct graph *stuck = &cycle->graph->stuck;
    uint32_t best = node;
    uint32_t steps = GRAPH_NONE;
    for (uint32_t i = stuck->first[node]; i < stuck->first[node + 1]; i++) {
        uint32_t to = stuck->to[i];
        if (cycle_has(cycle, to) && stuck->steps[to] < steps) {
            best = to;
            steps = stuck->steps[to];
        }
    }
    return best;
}

/* "alice -> bob -> alice, with carol: none can go on": one way round, and who else is in it. */
void cycle_describe(const struct core *core, struct cycle *cycle, struct cycle_text *sentence)
{
    struct wait_graph *graph = cycle->graph;
    uint32_t node = cycle->first;
    memset(graph->left, 0, graph->node_count * sizeof *graph->left);
    graph_measure(&graph->stuck, cycle->first);
    do {
        add_node(core, sentence, cycle, node);
        add(sentence, span_text(" -> "));
        graph->left[node] = 1;
        node = next_on_way(cycle, node);
    } while (node != cycle->first && sentence->bytes + TEXT_LEFT < LIMIT_ERROR_MESSAGE_BYTES);
    add_node(core, sentence, cycle, cycle->first);
    const char *before = ", with ";
    for (uint32_t i = 0; i < graph->node_count; i++) {
        if (!cycle_has(cycle, i) || graph->left[i] || cycle_party(core, cycle->walk, i) == NULL)
            continue;
        if (sentence->bytes + TEXT_LEFT + LIMIT_NAME_BYTES > LIMIT_ERROR_MESSAGE_BYTES) {
            add(sentence, span_text(" and others"));
            break;
        }
        add(sentence, span_text(before));
        add_node(core, sentence, cycle, i);
        before = ", ";
    }
    add(sentence, span_text(cycle->is_sure ? ": none can go on" : ": each waits for the next"));
}
