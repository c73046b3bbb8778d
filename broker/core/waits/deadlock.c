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
 * What is collected is judged in passes, each over all nodes and edges, and a step has as many as
 * its budget is for.  A cycle is examined, told and ended in one pass: all its members as they are
 * at one moment.
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

/* ---- the graph ------------------------------------------------------------------------------- */

/* Where the judgement of a walk stands. */
struct judging {
    struct wait_graph graph;
    bool is_built, is_solved;
    uint32_t cycle; /* the next one */
    struct wait_cycle found[LIMIT_WHY_CYCLES];
    uint32_t found_count;
};

static struct judging *begin_judging(struct core *core, const struct wait_walk *walk)
{
    struct judging *judging = memory_take(core->memory, sizeof *judging);
    if (judging == NULL)
        return NULL;
    wait_graph_init(&judging->graph, core->memory);
    if (walk->is_short ||
        !wait_graph_reserve(&judging->graph, walk->node_count, walk->edge_count)) {
        deadlock_free(core, judging);
        return NULL;
    }
    return judging;
}

void deadlock_free(struct core *core, struct judging *judging)
{
    if (judging == NULL)
        return;
    wait_graph_fini(&judging->graph);
    memory_give(core->memory, judging, sizeof *judging);
}

static void build(const struct core *core, const struct wait_walk *walk, struct wait_graph *graph)
{
    for (uint32_t i = 0; i < walk->node_count; i++)
        (void)wait_graph_add_node(graph, walk->nodes[i].kind == WAIT_NODE_BARRIER
                                             ? WAIT_FOR_ALL
                                             : WAIT_FOR_ANY); /* the same number */
    for (uint32_t i = 0; i < walk->edge_count; i++) {
        const struct wait_edge *edge = wait_edge_at(walk, i);
        if (cycle_counts(core, walk, edge))
            wait_graph_add_edge(graph, edge->from, edge->to);
    }
}

/* ---- cycles ---------------------------------------------------------------------------------- */

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

static void judge_cycle(struct core *core, struct job *job, const struct wait_walk *walk,
                        uint32_t number)
{
    struct judging *judging = walk->judging;
    struct cycle cycle = {.walk = walk, .graph = &judging->graph, .number = number};
    cycle_examine(core, &cycle);
    const struct wait_cycle *known = find_known(job, cycle.key.waits);
    cycle.key.is_told = known != NULL && known->is_told;
    if (cycle.youngest == NULL)
        return;
    if (known != NULL && known->activity == cycle.key.activity)
        judge_standing(core, job, &cycle);
    judging->found[judging->found_count++] = cycle.key;
}

/* ---- a look ---------------------------------------------------------------------------------- */

static bool is_anybody_blocked(const struct job *job)
{
    LIST_EACH(link, &job->party_list) {
        const struct session *session = LIST_OWNER(link, struct party, job_link)->session;
        if (session != NULL && why_is_blocked(session))
            return true;
    }
    return false;
}

/* true: there is a pass left. */
static bool has_pass(const struct judging *judging)
{
    return !judging->is_solved ||
           (judging->cycle < judging->graph.cycle_count && judging->cycle < LIMIT_WHY_CYCLES);
}

static void pass(struct core *core, struct job *job, const struct wait_walk *walk)
{
    struct judging *judging = walk->judging;
    if (!judging->is_built) {
        build(core, walk, &judging->graph);
        judging->is_built = true;
    } else if (!judging->is_solved) {
        judging->is_solved = wait_graph_solve_pass(&judging->graph);
    } else {
        judge_cycle(core, job, walk, judging->cycle++);
    }
}

static bool take_budget(uint32_t *budget, uint32_t cost)
{
    if (cost > *budget && *budget < LIMIT_ANSWER_STEP)
        return false;
    *budget -= cost < *budget ? cost : *budget;
    return true;
}

/* Without memory for a judgement, the cycles of the last look stay known. */
static void end_look(struct core *core, struct job *job, const struct judging *judging)
{
    if (judging != NULL) {
        job->wait_cycle_count = judging->found_count;
        memcpy(job->wait_cycles, judging->found, judging->found_count * sizeof *judging->found);
    }
    if (is_anybody_blocked(job))
        set_timer(core, job);
}

bool deadlock_judge(struct core *core, struct job *job, struct wait_walk *walk, uint32_t *budget)
{
    if (walk->judging == NULL)
        walk->judging = begin_judging(core, walk);
    while (walk->judging != NULL && has_pass(walk->judging)) {
        if (!take_budget(budget, walk->node_count + walk->edge_count))
            return false;
        pass(core, job, walk);
    }
    end_look(core, job, walk->judging);
    return true;
}
