/* SPDX-License-Identifier: MPL-2.0 */
/* deadlock.c -- parties that wait for each other: looks for such cycles, and what follows.
 *
 * A look goes by a timer, for a system that stands still makes no events.  The timer runs while
 * clients say that calls of theirs are blocked (WAITING), and at no other time.
 *
 * A cycle is told if it is there at two looks, made of the same waits, and none of its members did
 * anything between them.  One look may be cut into steps, between which waits come and go; a cycle
 * that was put together from two moments has other waits the next time.  These may go on, and are
 * in no cycle: a party of which no call is blocked, one whose promise of progress runs, one to
 * which an answer is on its way, a reader of a subscription to which anybody may write.
 *
 * A wait is ended, if the job asks for it, only in a cycle that is sure: broker/design/waits.md. */
#include "broker/core/waits/deadlock.h"

#include "broker/core/record/failure.h"
#include "broker/core/record/tell.h"
#include "broker/core/tables/timers.h"
#include "broker/core/waits/cycle.h"
#include "broker/core/waits/end_wait.h"
#include "broker/core/waits/walk.h"
#include "broker/core/waits/why.h"
#include "libbus/base/wait_graph.h"

#include <string.h>

static void set_timer(struct core *core, struct job *job)
{
    timers_set(&core->timers, &job->wait_timer, core_clock(core) + LIMIT_WHY_LOOK_MS * MS_NS);
}

void deadlock_look(struct core *core, struct job *job)
{
    if (walk_begin(core, job) == NULL)
        set_timer(core, job); /* no memory now */
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
        if (cycle_counts(core, walk, &walk->edges[i]))
            wait_graph_add_edge(graph, walk->edges[i].from, walk->edges[i].to);
    wait_graph_solve(graph);
    return true;
}

static const struct wait_cycle *find_known(const struct job *job, uint64_t waits)
{
    for (uint32_t i = 0; i < job->wait_cycle_count; i++)
        if (job->wait_cycles[i].waits == waits)
            return &job->wait_cycles[i];
    return NULL;
}

static void tell_cycle(struct core *core, struct job *job, const struct cycle *cycle,
                       const char *text, struct failure *failure)
{
    struct party *party = cycle_party(core, cycle->walk, cycle->youngest->from);
    tell(core, job,
         &(struct tell){.name = EVENT_JOB_DEADLOCK,
                        .party = party,
                        .incarnation = party->incarnation,
                        .topic = pool_find(&core->topics, cycle->youngest->topic),
                        .seq = cycle->youngest->seq,
                        .count = cycle->party_count,
                        .text = text,
                        .failure = failure});
}

/* It stood at the last look, too. */
static void judge_standing(struct core *core, struct job *job, struct cycle *cycle)
{
    struct cycle_text text = {.bytes = 0};
    struct failure *failure = NULL;
    bool is_ended =
        cycle->is_sure && job->spec.deadlock == JOB_DEADLOCK_FAIL && job->state == JOB_RUNNING;
    if (!is_ended && cycle->key.is_told)
        return;
    cycle_describe(core, cycle, &text);
    if (is_ended)
        failure = end_wait(core, cycle, text.data);
    if (!cycle->key.is_told || is_ended)
        tell_cycle(core, job, cycle, text.data, failure);
    cycle->key.is_told = true;
    failure_unref(core, failure);
}

static void judge_cycles(struct core *core, struct job *job, const struct wait_walk *walk,
                         struct wait_graph *graph)
{
    struct wait_cycle found[LIMIT_WHY_CYCLES];
    uint32_t count = 0;
    for (uint32_t i = 0; i < graph->cycle_count && count < LIMIT_WHY_CYCLES; i++) {
        struct cycle cycle = {.walk = walk, .graph = graph, .number = i};
        cycle_examine(core, &cycle);
        const struct wait_cycle *known = find_known(job, cycle.key.waits);
        cycle.key.is_told = known != NULL && known->is_told;
        if (cycle.youngest == NULL)
            continue;
        if (known != NULL && known->activity == cycle.key.activity)
            judge_standing(core, job, &cycle);
        found[count++] = cycle.key;
    }
    memcpy(job->wait_cycles, found, count * sizeof *found);
    job->wait_cycle_count = count;
}

static bool is_anybody_blocked(const struct job *job)
{
    LIST_EACH(link, &job->party_list) {
        const struct session *session = LIST_OWNER(link, struct party, job_link)->session;
        if (session != NULL && why_is_blocked(session))
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
