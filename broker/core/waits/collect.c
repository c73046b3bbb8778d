/* SPDX-License-Identifier: MPL-2.0 */
/* collect.c -- the waits of a job, from the tables in which each kind of them stands.
 *
 * No table is kept for this: what is slow here is slow only while somebody asks.  A walk goes
 * through whole pools by number, so it may rest between any two objects, whatever comes or goes
 * meanwhile. */
#include "broker/core/waits/collect.h"

#include "broker/core/streams/lead.h"
#include "broker/core/streams/open_slot.h"
#include "broker/core/streams/sub.h"
#include "broker/core/streams/topic.h"
#include "broker/core/tables/job.h"
#include "broker/core/tables/party.h"
#include "broker/core/tables/roster.h"
#include "broker/core/tables/slot_table.h"
#include "broker/core/waits/walk.h"
#include "libbus/base/pattern.h"
#include "libbus/base/wait_graph.h"

static uint32_t party_node(struct wait_walk *walk, const struct party *party)
{
    return walk_node(walk, WAIT_NODE_PARTY, party->id, NULL);
}

/* One thing more of an object of which the walk looked at *count.  false: no step looks at more,
 * and other waits of this node are left out. */
static bool look_at(struct wait_walk *walk, uint32_t node, uint32_t *count)
{
    walk->work += 1;
    if ((*count)++ < LIMIT_WHY_STEP)
        return true;
    walk_leave_out(walk, node);
    return false;
}

/* ---- groups ---------------------------------------------------------------------------------- */

/* Its members, when all that may be given tasks have as many as they may. */
static void add_busy(struct wait_walk *walk, const struct group *group, uint32_t from)
{
    uint32_t count = 0;
    if (group->taker_count == 0 || !list_is_empty(&group->idle))
        return;
    LIST_EACH(link, &group->members) {
        const struct sub *member = LIST_OWNER(link, struct sub, member_link);
        if (!look_at(walk, from, &count))
            return;
        if (list_is_empty(&member->leases))
            continue;
        const struct task *task = LIST_OWNER(member->leases.next, struct task, holder_link);
        walk_edge(walk, &(struct wait_edge){.from = from,
                                            .to = party_node(walk, member->party),
                                            .kind = WAIT_BUSY,
                                            .topic = task->topic->id,
                                            .seq = task->seq,
                                            .count = member->held_count,
                                            .since_ns = task->since_ns,
                                            .stamp = (task->seq << 8 | task->delivery),
                                            .is_said = true});
    }
}

static uint32_t group_node(struct wait_walk *walk, const struct group *group)
{
    bool is_new;
    uint32_t number = walk_node(walk, WAIT_NODE_GROUP, group->id, &is_new);
    if (number != WAIT_GRAPH_NONE && is_new) {
        walk->nodes[number].count = group->taker_count;
        add_busy(walk, group, number);
    }
    return number;
}

/* Who owes the reply: the member that has the request, the group that will give it to one, or
 * nobody. */
static void aim_at_worker(struct core *core, struct wait_walk *walk, const struct slot_terms *terms,
                          struct wait_edge *wait)
{
    const struct topic *topic = pool_find(&core->topics, terms->request_topic);
    wait->kind = WAIT_UNSERVED;
    LIST_EACH(link, &topic->routes) {
        const struct route *route = LIST_OWNER(link, struct route, topic_link);
        const struct task *task = NULL;
        uint32_t id;
        walk->work += 1;
        if (!sub_is_place(route->sub))
            continue;
        if (id_map_get(&route->task_ids, terms->request_seq, &id))
            task = pool_find(&core->tasks, id);
        if (task != NULL && task->holder != NULL) {
            wait->kind = WAIT_REPLY;
            wait->to = party_node(walk, task->holder->party);
            wait->stamp = wait->stamp << 8 | task->delivery;
            return;
        }
        wait->kind = WAIT_GROUP;
        wait->to = group_node(walk, route->sub->group);
    }
    if (wait->kind == WAIT_UNSERVED)
        wait->to = walk_node(walk, WAIT_NODE_REQUESTS, topic->id, NULL);
}

/* ---- awaited slots --------------------------------------------------------------------------- */

/* Whether a call of the client is blocked in this wait. */
static bool is_blocked(const struct await *await)
{
    const struct blocked *blocked = &await->session->blocked;
    return blocked->slots_ns != 0 && (blocked->topic == 0 || (blocked->topic == await->topic->id &&
                                                              blocked->seq == await->seq));
}

static void collect_await(struct core *core, struct wait_walk *walk, const struct await *await)
{
    struct topic *topic = await->topic;
    struct open_slot *open = NULL;
    if (await->state == AWAIT_READY || topic->job->id != walk->job)
        return;
    struct wait_edge wait = {.from = party_node(walk, await->session->party),
                             .kind = WAIT_UNPROMISED,
                             .topic = topic->id,
                             .seq = await->seq,
                             .count = 1,
                             .since_ns = await->since_ns,
                             .stamp = await->want,
                             .is_said = is_blocked(await)};
    if (await->state == AWAIT_OPEN) {
        wait.kind = WAIT_SLOT;
        open = open_slot_find(core, topic, await->seq);
    }
    if (open != NULL && open_slot_is_reply(open))
        aim_at_worker(core, walk, open->terms, &wait);
    else
        wait.to = party_node(walk, topic->writer);
    wait.is_timed = open != NULL && open->terms != NULL && open->terms->ends_ns != INT64_MAX;
    wait.is_timed |= wait.kind == WAIT_UNSERVED;
    walk_edge(walk, &wait);
}

/* ---- credit ---------------------------------------------------------------------------------- */

static uint32_t holder_node(struct wait_walk *walk, const struct sub *sub, uint64_t count)
{
    if (sub_is_place(sub))
        return group_node(walk, sub->group);
    if (sub->session != NULL)
        return party_node(walk, sub->party);
    uint32_t number = walk_node(walk, WAIT_NODE_READER, sub->id, NULL);
    if (number != WAIT_GRAPH_NONE)
        walk->nodes[number].count += count;
    return number;
}

/* Since when a call of the client is blocked for want of room in this topic; 0: none is. */
static int64_t blocked_room_ns(const struct topic *topic, const struct session *session)
{
    const struct blocked *blocked = &session->blocked;
    return blocked->room_topic == 0 || blocked->room_topic == topic->id ? blocked->room_ns : 0;
}

/* Those that have taken least hold it back. */
static void collect_credit(struct wait_walk *walk, const struct topic *topic,
                           const struct session *session)
{
    int64_t since_ns = blocked_room_ns(topic, session);
    uint32_t count = 0;
    struct wait_edge wait = {.from = party_node(walk, topic->writer),
                             .kind = WAIT_CREDIT,
                             .topic = topic->id,
                             .since_ns = since_ns != 0 ? since_ns : topic->held_back_ns,
                             .stamp = topic->credit_used,
                             .is_said = since_ns != 0};
    LIST_EACH(link, &topic->routes) {
        const struct route *route = LIST_OWNER(link, struct route, topic_link);
        if (!look_at(walk, wait.from, &count))
            return;
        if (!sub_holds(route->sub) || route->taken_seq > topic->taken_floor)
            continue;
        wait.seq = route->taken_seq;
        wait.count = topic->slots.next_seq - route->taken_seq;
        wait.to = holder_node(walk, route->sub, wait.count);
        walk_edge(walk, &wait);
    }
}

static void collect_room(struct wait_walk *walk, const struct topic *topic,
                         const struct session *session)
{
    walk_edge(walk, &(struct wait_edge){.from = party_node(walk, topic->writer),
                                        .to = walk_node(walk, WAIT_NODE_ROOM, topic->job->id, NULL),
                                        .kind = WAIT_ROOM,
                                        .topic = topic->id,
                                        .seq = topic->slots.next_seq,
                                        .count = 1,
                                        .since_ns = blocked_room_ns(topic, session),
                                        .is_said = true});
}

/* The writer's account has written as fast as it may. */
static void collect_rate(struct wait_walk *walk, const struct topic *topic,
                         const struct session *session)
{
    const struct account *account = topic->writer->account;
    bool is_new;
    uint32_t number = walk_node(walk, WAIT_NODE_RATE, account->id, &is_new);
    if (number == WAIT_GRAPH_NONE)
        return;
    walk->nodes[number].count = account->limits[ACCESS_RATE];
    walk_edge(walk, &(struct wait_edge){.from = party_node(walk, topic->writer),
                                        .to = number,
                                        .kind = WAIT_RATE,
                                        .topic = topic->id,
                                        .seq = topic->slots.next_seq,
                                        .count = 1,
                                        .since_ns = blocked_room_ns(topic, session),
                                        .is_said = true,
                                        .is_timed = true});
}

static void collect_topic(const struct core *core, struct wait_walk *walk,
                          const struct topic *topic)
{
    const struct session *session = topic->writer->session;
    bool is_stopped = topic->is_opened && topic_is_stopped(topic);
    if (topic->job->id != walk->job || session == NULL || !is_stopped)
        return;
    bool is_whole =
        topic->untaken_bytes >= lead_window(core, topic); /* its readers alone stop it */
    if (topic->is_held_back)
        collect_credit(walk, topic, session);
    if (!is_whole && list_is_linked(&topic->room_link) && blocked_room_ns(topic, session) != 0)
        collect_room(walk, topic, session);
    if (list_is_linked(&topic->rate_link) && blocked_room_ns(topic, session) != 0)
        collect_rate(walk, topic, session);
}

/* ---- parties --------------------------------------------------------------------------------- */

/* All that are at the barrier wait for it, and it waits for all that are not. */
static void collect_member(struct wait_walk *walk, const struct party *party)
{
    const struct job *job = party->job;
    const struct session *session = party->session;
    bool is_new;
    if (job->meeting_count == 0 || party->rank == RANK_NONE)
        return;
    uint32_t barrier = walk_node(walk, WAIT_NODE_BARRIER, job->id, &is_new);
    if (barrier == WAIT_GRAPH_NONE)
        return;
    if (is_new)
        walk->nodes[barrier].seq = job->round + 1;
    struct wait_edge wait = {.from = party_node(walk, party),
                             .to = barrier,
                             .kind = WAIT_BARRIER,
                             .seq = job->round + 1,
                             .count = 1,
                             .stamp = job->meeting_epoch << 32 | (job->round + 1),
                             .is_said = true};
    bool is_there = session != NULL && session->is_at_barrier;
    if (is_there) {
        wait.since_ns = session->barrier_ns;
        walk_edge(walk, &wait);
    }
    if (is_there && !session->is_suspect)
        return;
    walk->nodes[barrier].count += 1;
    wait.to = wait.from;
    wait.from = barrier;
    wait.kind = WAIT_MISSING;
    wait.since_ns = 0; /* of who waits at the barrier */
    walk_edge(walk, &wait);
}

/* Parties that came wait for those that have not. */
static void collect_waiting(struct wait_walk *walk, const struct party *party)
{
    const struct job *job = party->job;
    bool is_gathering = job->state == JOB_GATHERING || job->state == JOB_SHORT;
    bool is_new;
    if (!is_gathering || party->rank != RANK_NONE || party->session == NULL)
        return;
    uint32_t present = roster_present(&job->roster) + job->roster.waiting_count;
    uint32_t missing = job->spec.min > present ? job->spec.min - present : 0;
    uint32_t number = walk_node(walk, WAIT_NODE_JOB, job->id, &is_new);
    if (number == WAIT_GRAPH_NONE)
        return;
    walk->nodes[number].count = missing;
    walk_edge(walk, &(struct wait_edge){.from = party_node(walk, party),
                                        .to = number,
                                        .kind = WAIT_GATHER,
                                        .count = missing,
                                        .since_ns = party->joined_ns,
                                        .is_said = true});
}

/* A member waits for another membership.  Whoever joins or goes makes one, so nobody is waited for
 * but the job. */
static void collect_membership(struct wait_walk *walk, const struct session *session)
{
    const struct job *job = session->job;
    uint32_t from = party_node(walk, session->party);
    if (from == WAIT_GRAPH_NONE || session->party->rank == RANK_NONE)
        return; /* it waits for a place: see collect_waiting() */
    walk->nodes[from].is_free = true;
    walk_edge(walk, &(struct wait_edge){.from = from,
                                        .to = walk_node(walk, WAIT_NODE_JOB, job->id, NULL),
                                        .kind = WAIT_MEMBERS,
                                        .count = 1,
                                        .since_ns = session->blocked.members_ns,
                                        .is_said = true});
}

/* What the subscription reads, or the group of which it is a member; NULL: calls read several. */
static const struct sub *read_sub(struct core *core, struct session *session)
{
    const struct sub *sub = sub_find(core, session, session->blocked.sub);
    return sub != NULL && sub_is_member(sub) ? sub->group->place : sub;
}

/* Whether nothing comes that nobody owes.  A group may get a task back at any time. */
static bool is_all_owed(const struct sub *sub)
{
    bool is_all =
        sub->group == NULL && !list_is_empty(&sub->routes) && list_is_empty(&sub->endings);
    for (uint32_t i = 0; i < sub->pattern_count; i++)
        is_all &= topic_is_valid(sub->patterns[i]);
    return is_all;
}

/* A call waits for the next value of a subscription: whoever owes it one.  Where nothing is owed,
 * anybody may write something. */
static void collect_read(struct core *core, struct wait_walk *walk, struct session *session)
{
    const struct sub *sub = read_sub(core, session);
    uint32_t from = party_node(walk, session->party);
    if (from == WAIT_GRAPH_NONE)
        return;
    uint32_t count = 0;
    bool is_bound = sub != NULL && is_all_owed(sub);
    walk->nodes[from].is_free |= !is_bound;
    if (sub == NULL)
        return;
    LIST_EACH(link, &sub->routes) {
        const struct route *route = LIST_OWNER(link, struct route, sub_link);
        struct topic *topic = route->topic;
        if (!look_at(walk, from, &count))
            return;
        const struct open_slot *owed = open_slot_find(core, topic, route->next_seq);
        walk->nodes[from].is_free |= owed == NULL;
        if (owed != NULL)
            walk_edge(walk, &(struct wait_edge){.from = from,
                                                .to = party_node(walk, topic->writer),
                                                .kind = WAIT_READ,
                                                .topic = topic->id,
                                                .seq = route->next_seq,
                                                .count = 1,
                                                .since_ns = session->blocked.reads_ns,
                                                .stamp = route->next_seq,
                                                .is_said = true,
                                                .is_timed = owed->terms != NULL &&
                                                            owed->terms->ends_ns != INT64_MAX});
    }
}

static void collect_party(struct core *core, struct wait_walk *walk, const struct party *party)
{
    if (party->job->id != walk->job || !party_is_live(party))
        return;
    collect_member(walk, party);
    collect_waiting(walk, party);
    if (party->session != NULL && party->session->blocked.members_ns != 0)
        collect_membership(walk, party->session);
    if (party->session != NULL && party->session->blocked.reads_ns != 0)
        collect_read(core, walk, party->session);
}

/* ---- one slot -------------------------------------------------------------------------------- */

static void collect_owner(struct core *core, struct wait_walk *walk, struct topic *topic,
                          const struct open_slot *open, uint32_t from)
{
    uint64_t seq = walk->nodes[from].seq;
    struct wait_edge wait = {.from = from,
                             .kind = open != NULL ? WAIT_OWED : WAIT_UNPROMISED,
                             .topic = topic->id,
                             .seq = seq,
                             .count = 1,
                             .since_ns = open != NULL ? open->since_ds * OPEN_SLOT_DS_NS : 0,
                             .is_said = true};
    if (open == NULL && seq < topic->slots.next_seq)
        return; /* it is settled, or gone: nobody owes it */
    if (open != NULL && open_slot_is_reply(open))
        aim_at_worker(core, walk, open->terms, &wait);
    else
        wait.to = party_node(walk, topic->writer);
    walk_edge(walk, &wait);
}

/* false: at more than that no step looks. */
static bool collect_needs(struct core *core, struct wait_walk *walk, const struct open_slot *open,
                          uint32_t from)
{
    LIST_EACH(link, &open->terms->needs) {
        const struct need_edge *need = LIST_OWNER(link, struct need_edge, slot_link);
        struct topic *needed = pool_find(&core->topics, (uint32_t)need->head->key.topic);
        uint64_t seq = need->head->key.seq;
        const struct open_slot *owed = needed != NULL ? open_slot_find(core, needed, seq) : NULL;
        if (owed == NULL)
            continue; /* it is settled */
        if (walk->work >= LIMIT_WHY_STEP) {
            walk->left_out += 1;
            return false;
        }
        walk_edge(walk, &(struct wait_edge){.from = from,
                                            .to = walk_slot(walk, needed, seq, owed),
                                            .kind = WAIT_NEEDED,
                                            .topic = needed->id,
                                            .seq = seq,
                                            .count = 1,
                                            .since_ns = open->since_ds * OPEN_SLOT_DS_NS,
                                            .is_said = true});
    }
    return true;
}

void collect_slot(struct core *core, struct wait_walk *walk, struct topic *topic, uint64_t seq)
{
    uint32_t first = walk_slot(walk, topic, seq, open_slot_find(core, topic, seq));
    uint32_t end = first + LIMIT_WHY_NEEDS;
    for (uint32_t at = first; at != WAIT_GRAPH_NONE && at < walk->node_count && at < end; at++) {
        if (walk->nodes[at].kind != WAIT_NODE_SLOT)
            continue;
        struct topic *owned = pool_find(&core->topics, walk->nodes[at].id);
        const struct open_slot *open = open_slot_find(core, owned, walk->nodes[at].seq);
        collect_owner(core, walk, owned, open, at);
        if (open != NULL && open->terms != NULL && !collect_needs(core, walk, open, at))
            return;
    }
}

/* ---- all ------------------------------------------------------------------------------------- */

/* Whether a writer of the job may be stopped.  As a rule none is, and topics may be many. */
static bool has_stopped_writers(const struct core *core, const struct wait_walk *walk)
{
    const struct job *job = walk_job(core, walk);
    return job != NULL && (job->held_back_count > 0 || !list_is_empty(&job->room_waiters) ||
                           core->rate_wait_count > 0);
}

static const struct pool *pool_of(const struct core *core, enum wait_phase phase)
{
    if (phase == WAIT_PHASE_AWAITS)
        return &core->awaits;
    return phase == WAIT_PHASE_TOPICS ? &core->topics : &core->parties;
}

/* The object of this number counts, and all waits found at it.  So does a number that is free. */
static void collect_one(struct core *core, struct wait_walk *walk, uint32_t *budget)
{
    uint32_t before = walk->work;
    const void *object = pool_find(pool_of(core, walk->phase), ++walk->cursor);
    if (object != NULL && walk->phase == WAIT_PHASE_AWAITS)
        collect_await(core, walk, object);
    else if (object != NULL && walk->phase == WAIT_PHASE_TOPICS)
        collect_topic(core, walk, object);
    else if (object != NULL)
        collect_party(core, walk, object);
    uint32_t spent = 1 + walk->work - before;
    *budget -= spent < *budget ? spent : *budget;
}

bool collect_some(struct core *core, struct wait_walk *walk, uint32_t *budget)
{
    while (walk->phase < WAIT_PHASE_NODES) {
        const struct pool *pool = pool_of(core, walk->phase);
        bool is_needed = walk->phase != WAIT_PHASE_TOPICS || has_stopped_writers(core, walk);
        if (pool->used == 0 || !is_needed || walk->cursor >= pool->chunk_count * POOL_CHUNK_ITEMS) {
            walk->phase += 1;
            walk->cursor = 0;
        } else if (*budget > 0) {
            collect_one(core, walk, budget);
        } else {
            return false;
        }
    }
    return true;
}
