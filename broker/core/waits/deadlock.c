/* SPDX-License-Identifier: MPL-2.0 */
/* deadlock.c -- parties that wait for each other: looks for such cycles, and what follows.
 *
 * A look goes by a timer, for a system that stands still makes no events.  The timer runs while
 * clients say that calls of theirs are blocked (WAITING), and at no other time.
 *
 * A cycle is told if it is there at two looks, made of the same waits, and none of its members did
 * anything between them.  One look may be cut into steps, between which waits come and go; a cycle
 * that was put together from two moments has other waits the next time.  These may go on, and are
 * in no cycle: a party of which no call is blocked, one whose promise of progress runs, a reader of
 * a subscription to which anybody may write. */
#include "broker/core/waits/deadlock.h"

#include "broker/core/record/tell.h"
#include "broker/core/tables/timers.h"
#include "broker/core/waits/walk.h"
#include "libbus/base/wait_graph.h"

#include <string.h>

enum { TEXT_LEFT = 64 }; /* bytes of a text that names do not use */

static void set_timer(struct core *core, struct job *job)
{
    timers_set(&core->timers, &job->wait_timer, core_clock(core) + LIMIT_WHY_LOOK_MS * MS_NS);
}

void deadlock_look(struct core *core, struct job *job)
{
    if (walk_begin(core, job) == NULL)
        set_timer(core, job); /* no memory now */
}

/* ---- the graph ------------------------------------------------------------------------------- */

static struct party *party_at(const struct core *core, const struct wait_walk *walk, uint32_t node)
{
    const struct wait_node *at = &walk->nodes[node];
    struct party *party = at->kind == WAIT_NODE_PARTY ? pool_find(&core->parties, at->id) : NULL;
    return party != NULL && party->job->id == walk->job ? party : NULL;
}

/* It promised progress, and is ended when that does not come. */
static bool is_at_work(const struct party *party)
{
    return party != NULL && party->session != NULL && party->session->progress_ms > 0;
}

static bool counts(const struct core *core, const struct wait_walk *walk,
                   const struct wait_edge *edge)
{
    return edge->is_said && !walk->nodes[edge->from].is_free &&
           !is_at_work(party_at(core, walk, edge->from));
}

static bool build(const struct core *core, const struct wait_walk *walk, struct wait_graph *graph)
{
    if (!wait_graph_reserve(graph, walk->node_count, walk->edge_count))
        return false;
    for (uint32_t i = 0; i < walk->node_count; i++)
        (void)wait_graph_add_node(graph, walk->nodes[i].kind == WAIT_NODE_BARRIER
                                             ? WAIT_FOR_ALL
                                             : WAIT_FOR_ANY); /* the same number */
    for (uint32_t i = 0; i < walk->edge_count; i++)
        if (counts(core, walk, &walk->edges[i]))
            wait_graph_add_edge(graph, walk->edges[i].from, walk->edges[i].to);
    wait_graph_solve(graph);
    return true;
}

/* ---- one cycle ------------------------------------------------------------------------------- */

struct found {
    const struct wait_walk *walk;
    const struct wait_graph *graph;
    uint32_t number;
    uint32_t first; /* a party of it */
    uint32_t party_count;
    const struct wait_edge *youngest; /* of the waits of parties */
    struct wait_cycle cycle;
};

static uint64_t mix(uint64_t hash, uint64_t value)
{
    hash = (hash ^ value) * UINT64_C(0x9e3779b97f4a7c15);
    return hash ^ hash >> 29;
}

static bool is_in(const struct found *found, uint32_t node)
{
    return found->graph->cycle[node] == found->number;
}

static uint64_t wait_hash(const struct core *core, const struct found *found,
                          const struct wait_edge *edge)
{
    const struct party *party = party_at(core, found->walk, edge->from);
    uint64_t hash = mix(edge->kind, party != NULL ? party->id : 0);
    hash = mix(hash, party != NULL ? party->incarnation : 0);
    hash = mix(hash, edge->topic);
    return mix(mix(hash, edge->seq), edge->stamp);
}

static void take_member(const struct core *core, struct found *found, uint32_t node)
{
    const struct party *party = party_at(core, found->walk, node);
    if (party == NULL || party->session == NULL)
        return;
    const struct session *session = party->session;
    if (found->party_count++ == 0)
        found->first = node;
    found->cycle.activity += session->data_number + session->control_seen + session->blocked.words;
}

/* In whatever order they stand, the same waits have the same sum. */
static void examine(const struct core *core, struct found *found)
{
    for (uint32_t i = 0; i < found->walk->node_count; i++)
        if (is_in(found, i))
            take_member(core, found, i);
    for (uint32_t i = 0; i < found->walk->edge_count; i++) {
        const struct wait_edge *edge = &found->walk->edges[i];
        if (!is_in(found, edge->from) || !is_in(found, edge->to) ||
            !counts(core, found->walk, edge))
            continue;
        found->cycle.waits += wait_hash(core, found, edge);
        bool is_of_party = party_at(core, found->walk, edge->from) != NULL;
        if (is_of_party && (found->youngest == NULL || edge->since_ns > found->youngest->since_ns))
            found->youngest = edge;
    }
}

/* ---- what is said of it ---------------------------------------------------------------------- */

struct sentence {
    char data[LIMIT_ERROR_MESSAGE_BYTES + 1];
    size_t bytes;
};

static void add(struct sentence *sentence, struct span part)
{
    size_t left = sizeof sentence->data - 1 - sentence->bytes;
    if (part.bytes > left)
        return;
    memcpy(sentence->data + sentence->bytes, part.data, part.bytes);
    sentence->bytes += part.bytes;
    sentence->data[sentence->bytes] = '\0';
}

static void add_node(const struct core *core, struct sentence *sentence, const struct found *found,
                     uint32_t node)
{
    const struct party *party = party_at(core, found->walk, node);
    const struct group *group = pool_find(&core->groups, found->walk->nodes[node].id);
    if (party != NULL) {
        add(sentence, party->name);
    } else if (found->walk->nodes[node].kind == WAIT_NODE_GROUP && group != NULL) {
        add(sentence, span_text("the group "));
        add(sentence, group->place->name);
    } else {
        add(sentence, span_text("the barrier"));
    }
}

/* The next on the shortest way back to first, which graph_measure() counted. */
static uint32_t next_on_way(const struct found *found, uint32_t node)
{
    const struct graph *stuck = &found->graph->stuck;
    uint32_t best = node;
    uint32_t steps = GRAPH_NONE;
    for (uint32_t i = stuck->first[node]; i < stuck->first[node + 1]; i++) {
        uint32_t to = stuck->to[i];
        if (is_in(found, to) && stuck->steps[to] < steps) {
            best = to;
            steps = stuck->steps[to];
        }
    }
    return best;
}

/* "alice -> bob -> alice, with carol: none can go on": one way round, and who else is in it. */
static void describe_cycle(const struct core *core, struct found *found, struct sentence *sentence)
{
    struct wait_graph *graph = (struct wait_graph *)(uintptr_t)found->graph;
    uint32_t node = found->first;
    memset(graph->left, 0, graph->node_count * sizeof *graph->left);
    graph_measure(&graph->stuck, found->first);
    do {
        add_node(core, sentence, found, node);
        add(sentence, span_text(" -> "));
        graph->left[node] = 1;
        node = next_on_way(found, node);
    } while (node != found->first && sentence->bytes + TEXT_LEFT < LIMIT_ERROR_MESSAGE_BYTES);
    add_node(core, sentence, found, found->first);
    const char *before = ", with ";
    for (uint32_t i = 0; i < graph->node_count; i++) {
        if (!is_in(found, i) || graph->left[i] || party_at(core, found->walk, i) == NULL)
            continue;
        if (sentence->bytes + TEXT_LEFT + LIMIT_NAME_BYTES > LIMIT_ERROR_MESSAGE_BYTES) {
            add(sentence, span_text(" and others"));
            break;
        }
        add(sentence, span_text(before));
        add_node(core, sentence, found, i);
        before = ", ";
    }
    add(sentence, span_text(": none can go on"));
}

static void tell_cycle(struct core *core, struct job *job, struct found *found)
{
    struct sentence sentence = {.bytes = 0};
    describe_cycle(core, found, &sentence);
    struct party *party = party_at(core, found->walk, found->youngest->from);
    tell(core, job,
         &(struct tell){.name = EVENT_JOB_DEADLOCK,
                        .party = party,
                        .incarnation = party->incarnation,
                        .topic = pool_find(&core->topics, found->youngest->topic),
                        .seq = found->youngest->seq,
                        .count = found->party_count,
                        .text = sentence.data});
}

/* ---- all ------------------------------------------------------------------------------------- */

static const struct wait_cycle *find_known(const struct job *job, uint64_t waits)
{
    for (uint32_t i = 0; i < job->wait_cycle_count; i++)
        if (job->wait_cycles[i].waits == waits)
            return &job->wait_cycles[i];
    return NULL;
}

static void judge_cycles(struct core *core, struct job *job, const struct wait_walk *walk,
                         const struct wait_graph *graph)
{
    struct wait_cycle found_now[LIMIT_WHY_CYCLES];
    uint32_t count = 0;
    for (uint32_t i = 0; i < graph->cycle_count && count < LIMIT_WHY_CYCLES; i++) {
        struct found found = {.walk = walk, .graph = graph, .number = i};
        examine(core, &found);
        const struct wait_cycle *known = find_known(job, found.cycle.waits);
        bool is_standing = known != NULL && known->activity == found.cycle.activity;
        found.cycle.is_told = known != NULL && known->is_told;
        if (found.youngest == NULL)
            continue;
        if (is_standing && !found.cycle.is_told) {
            tell_cycle(core, job, &found);
            found.cycle.is_told = true;
        }
        found_now[count++] = found.cycle;
    }
    memcpy(job->wait_cycles, found_now, count * sizeof *found_now);
    job->wait_cycle_count = count;
}

static bool is_anybody_blocked(const struct job *job)
{
    LIST_EACH(link, &job->party_list) {
        const struct session *session = LIST_OWNER(link, struct party, job_link)->session;
        if (session != NULL &&
            (session->blocked.slots_ns | session->blocked.room_ns | session->blocked.reads_ns) != 0)
            return true;
    }
    return false;
}

void deadlock_judge(struct core *core, struct job *job, const struct wait_walk *walk)
{
    struct wait_graph graph;
    wait_graph_init(&graph, core->memory);
    if (!walk->is_short && build(core, walk, &graph))
        judge_cycles(core, job, walk, &graph);
    wait_graph_fini(&graph);
    if (is_anybody_blocked(job))
        set_timer(core, job);
}
