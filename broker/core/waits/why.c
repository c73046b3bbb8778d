/* SPDX-License-Identifier: MPL-2.0 */
/* why.c -- what clients say of their waits, and the answer to who waits for whom. */
#include "broker/core/waits/why.h"

#include "broker/core/lifecycle/membership.h"
#include "broker/core/lifecycle/session.h"
#include "broker/core/tables/effect.h"
#include "broker/core/tables/timers.h"
#include "broker/core/waits/collect.h"
#include "broker/core/waits/walk.h"

#include <string.h>

enum { ROW_COST = 8 }; /* of the budget: a row is a message, which io encodes */

/* ---- what clients say ------------------------------------------------------------------------ */

/* The time so many ms ago; 0: never. */
static int64_t ago(const struct core *core, uint64_t ms)
{
    int64_t at_ns =
        core_clock(core) - (int64_t)(ms < LIMIT_PERIOD_MS_MAX ? ms : LIMIT_PERIOD_MS_MAX) * MS_NS;
    if (ms == 0)
        return 0;
    return at_ns > 0 ? at_ns : 1;
}

static uint32_t topic_named(const struct job *job, struct span name)
{
    uint32_t topic;
    return name_map_get(&job->topics, name, &topic) ? topic : 0;
}

/* Since when says nothing new, nor what was received meanwhile. */
static bool is_same(const struct blocked *a, const struct blocked *b)
{
    return (a->slots_ns != 0) == (b->slots_ns != 0) && a->topic == b->topic && a->seq == b->seq &&
           (a->room_ns != 0) == (b->room_ns != 0) && a->room_topic == b->room_topic &&
           (a->reads_ns != 0) == (b->reads_ns != 0) && a->sub == b->sub &&
           (a->barrier_ns != 0) == (b->barrier_ns != 0) &&
           (a->members_ns != 0) == (b->members_ns != 0) && a->is_sure == b->is_sure;
}

bool why_is_blocked(const struct session *session)
{
    const struct blocked *blocked = &session->blocked;
    return (blocked->slots_ns | blocked->room_ns | blocked->reads_ns | blocked->barrier_ns |
            blocked->members_ns) != 0;
}

void why_said(struct core *core, struct session *session, const struct msg_waiting *msg)
{
    struct job *job = session->job;
    struct blocked before = session->blocked;
    session->blocked = (struct blocked){.slots_ns = ago(core, msg->slots_ms),
                                        .topic = topic_named(job, msg->topic),
                                        .seq = msg->seq,
                                        .room_ns = ago(core, msg->room_ms),
                                        .room_topic = topic_named(job, msg->room_topic),
                                        .reads_ns = ago(core, msg->reads_ms),
                                        .sub = (uint32_t)msg->sub,
                                        .barrier_ns = ago(core, msg->barrier_ms),
                                        .members_ns = ago(core, msg->members_ms),
                                        .is_sure = msg->is_sure != 0,
                                        .data_bytes = msg->data_bytes,
                                        .number = msg->number,
                                        .words = before.words};
    session->blocked.words += !is_same(&before, &session->blocked);
    if (why_is_blocked(session) && job->wait_timer.place == 0)
        timers_set(&core->timers, &job->wait_timer, core_clock(core) + LIMIT_WHY_LOOK_MS * MS_NS);
}

/* ---- the question ---------------------------------------------------------------------------- */

static void tell_end(struct core *core, const struct session *session, uint64_t request,
                     enum wire_code code, const char *type, const char *message)
{
    struct msg_why_end *end =
        &effects_msg(core->effects, session->control, MSG_WHY_END)->as.why_end;
    end->request = request;
    end->code = code;
    end->type = span_text(type);
    end->message = span_text(message);
}

/* One answer at a time: a client that asks again does not read the last one. */
void why_forget_last(struct core *core, const struct session *session)
{
    LIST_EACH(link, &core->wait_walks) {
        struct wait_walk *walk = LIST_OWNER(link, struct wait_walk, link);
        if (walk->session == session->id)
            walk_free(core, walk);
    }
}

void why_ask(struct core *core, struct session *session, const struct msg_why *msg)
{
    uint32_t id;
    struct job *job =
        name_map_get(&core->job_names, msg->job, &id) ? pool_find(&core->jobs, id) : NULL;
    struct topic *topic = NULL;
    why_forget_last(core, session);
    if (job == NULL) {
        tell_end(core, session, msg->request, CODE_EINVAL, ERROR_TYPE_NO_JOB,
                 job_missing_text(core, msg->job));
        return;
    }
    if (msg->topic.bytes > 0 && name_map_get(&job->topics, msg->topic, &id))
        topic = pool_find(&core->topics, id);
    if (msg->topic.bytes > 0 && topic == NULL) {
        tell_end(core, session, msg->request, CODE_EINVAL, ERROR_TYPE_NOT_OPEN,
                 "nobody writes this topic, or waits for it");
        return;
    }
    struct wait_walk *walk = walk_begin(core, job);
    if (walk == NULL) {
        tell_end(core, session, msg->request, CODE_ENOMEM, ERROR_TYPE_FULL,
                 "the broker is short of memory");
        return;
    }
    walk->session = session->id;
    walk->token = session->token;
    walk->request = msg->request;
    if (topic != NULL)
        collect_slot(core, walk, topic, msg->seq);
}

/* ---- the answer ------------------------------------------------------------------------------ */

static uint64_t ms_since(const struct core *core, int64_t since_ns)
{
    int64_t ms = since_ns > 0 ? (core_clock(core) - since_ns) / MS_NS : 0;
    return ms > 0 ? (uint64_t)ms : 0;
}

static void fill_party(struct core *core, struct msg_why_node *row, const struct party *party)
{
    const struct session *live = party_is_live(party) ? party_any_session(party) : NULL;
    row->name = party->name;
    row->incarnation = party->incarnation;
    row->state = span_text(party->incarnation > 0 ? session_state_name(party) : "");
    row->open = party->open_count;
    if (live == NULL)
        return;
    row->silent_ms = ms_since(core, live->heard_ns);
    row->where = live->where;
}

static void fill_slot(struct msg_why_node *row, const struct topic *topic)
{
    uint32_t index;
    bool is_open = slot_table_find(&topic->slots, row->seq, &index) &&
                   slot_table_at(&topic->slots, index)->state == SLOT_OPEN;
    row->name = topic->name;
    row->state = span_text(is_open                             ? "open"
                           : row->seq >= topic->slots.next_seq ? "unpromised"
                                                               : "settled");
}

/* The name of what is gone by now stays empty. */
static void fill_node(struct core *core, struct msg_why_node *row, const struct wait_node *node,
                      const struct job *job)
{
    const struct party *party = pool_find(&core->parties, node->id);
    const struct group *group = pool_find(&core->groups, node->id);
    const struct sub *sub = pool_find(&core->subs, node->id);
    const struct topic *topic = pool_find(&core->topics, node->id);
    const struct account *account = pool_find(&core->accounts, node->id);
    switch (node->kind) {
    case WAIT_NODE_PARTY:
        if (party != NULL && party->job == job)
            fill_party(core, row, party);
        break;
    case WAIT_NODE_GROUP:
        if (group != NULL && group->place->job == job)
            row->name = group->place->name;
        break;
    case WAIT_NODE_READER:
        if (sub != NULL && sub->job == job)
            row->name = sub->name;
        break;
    case WAIT_NODE_REQUESTS:
        if (topic != NULL && topic->job == job)
            row->name = topic->name;
        break;
    case WAIT_NODE_SLOT:
        if (topic != NULL && topic->job == job)
            fill_slot(row, topic);
        break;
    case WAIT_NODE_RATE:
        if (account != NULL)
            row->name = account->name;
        break;
    case WAIT_NODE_BARRIER:
    case WAIT_NODE_JOB:
    case WAIT_NODE_ROOM: row->name = job->name; break;
    }
}

static void tell_node(struct core *core, const struct session *session,
                      const struct wait_walk *walk, uint32_t number)
{
    const struct wait_node *node = &walk->nodes[number];
    struct msg_why_node *row =
        &effects_msg(core->effects, session->control, MSG_WHY_NODE)->as.why_node;
    row->request = walk->request;
    row->node = number;
    row->kind = node->kind;
    row->seq = node->seq;
    row->count = node->count;
    fill_node(core, row, node, walk_job(core, walk));
}

static void tell_edge(struct core *core, const struct session *session,
                      const struct wait_walk *walk, const struct wait_edge *edge)
{
    const struct topic *topic = pool_find(&core->topics, edge->topic);
    struct msg_why_edge *row =
        &effects_msg(core->effects, session->control, MSG_WHY_EDGE)->as.why_edge;
    row->request = walk->request;
    row->from = edge->from;
    row->to = edge->to;
    row->kind = edge->kind;
    row->count = edge->count;
    row->since_ms = ms_since(core, edge->since_ns);
    row->is_said = edge->is_said;
    row->seq = edge->seq;
    if (topic != NULL && topic->job->id == walk->job)
        row->topic = topic->name;
}

bool why_tell_some(struct core *core, struct session *session, struct wait_walk *walk,
                   uint32_t *budget)
{
    if (walk->is_short) {
        tell_end(core, session, walk->request, CODE_ENOMEM, ERROR_TYPE_FULL,
                 "the broker is short of memory");
        return true;
    }
    while (walk->cursor < walk->node_count + walk->edge_count) {
        if (*budget < ROW_COST)
            return false;
        *budget -= ROW_COST;
        if (walk->cursor < walk->node_count)
            tell_node(core, session, walk, walk->cursor);
        else
            tell_edge(core, session, walk, wait_edge_at(walk, walk->cursor - walk->node_count));
        walk->cursor += 1;
    }
    tell_end(core, session, walk->request, CODE_OK, "", "");
    core->effects->msgs[core->effects->msg_count - 1].as.why_end.left_out = walk->left_out;
    return true;
}
