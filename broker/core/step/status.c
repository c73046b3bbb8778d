/* SPDX-License-Identifier: MPL-2.0 */
/* status.c -- what operators ask about jobs, parties, topics, subscriptions and groups.
 *
 * An answer is asked for in parts, each of one step.  A part looks at LIMIT_ANSWER_STEP numbers of
 * the pools, or tells as many rows as cost the same.  One subscription or group may take
 * LIMIT_WHY_STEP looks more.  The core keeps nothing between two parts: the cursor names the pool,
 * and the next number in it.  So all that is there from the first part to the last is told once.
 * What comes or goes meanwhile may be told or not. */
#include "broker/core/step/status.h"

#include "broker/core/groups/group.h"
#include "broker/core/lifecycle/session.h"
#include "broker/core/record/count.h"
#include "broker/core/record/failure.h"
#include "broker/core/streams/lead.h"
#include "broker/core/streams/sub.h"
#include "broker/core/tables/effect.h"
#include "broker/core/tables/job.h"
#include "broker/core/tables/party.h"
#include "broker/core/tables/slot_table.h"

/* A row costs so many looks: it is a message, which io encodes. */
enum { ROW_COST = 8 };

/* What an answer goes through, in this order. */
enum { STATUS_JOBS, STATUS_PARTIES, STATUS_TOPICS, STATUS_SUBS, STATUS_POOLS };

static struct msg_status_row *add_row(struct core *core, struct session *session,
                                      const struct msg_status *asked, uint64_t kind,
                                      const struct job *job, struct span name)
{
    struct msg_status_row *row =
        &effects_msg(core->effects, session->control, MSG_STATUS_ROW)->as.status_row;
    row->request = asked->request;
    row->kind = kind;
    row->job = job->name;
    row->name = name;
    return row;
}

static uint64_t age_ms(const struct core *core, int64_t since_ns)
{
    int64_t ms = (core_clock(core) - since_ns) / MS_NS;
    return ms > 0 ? (uint64_t)ms : 0;
}

static void add_party(struct core *core, struct session *session, const struct msg_status *asked,
                      const struct party *party)
{
    const struct session *live = party_any_session(party);
    struct msg_status_row *row = add_row(core, session, asked, 1, party->job, party->name);
    row->party = party->name;
    row->incarnation = party->incarnation;
    row->open = party->open_count;
    row->state = span_text(session_state_name(party));
    if (party_is_final(party->state)) {
        int64_t ended_ms = (core->wall_ns - party->ended_ns) / MS_NS;
        row->ended_ms = party->ended_ns == 0 ? 0 : ended_ms > 0 ? (uint64_t)ended_ms : 1;
        if (party->ended_by != NULL)
            row->reason = failure_type(party->ended_by);
    }
    if (live != NULL) {
        row->silent_ms = age_ms(core, live->heard_ns);
        row->where = live->where;
    }
    if (!list_is_empty(&party->open_slots)) { /* in the order in which they were promised */
        const struct open_slot *oldest =
            LIST_OWNER(party->open_slots.next, struct open_slot, party_link);
        row->open_topic = oldest->topic->name;
        row->open_seq = oldest->seq;
        row->open_ms = age_ms(core, oldest->since_ds * OPEN_SLOT_DS_NS);
    }
}

static void add_topic(struct core *core, struct session *session, const struct msg_status *asked,
                      const struct topic *topic)
{
    struct msg_status_row *row = add_row(core, session, asked, 2, topic->job, topic->name);
    row->party = topic->writer->name;
    row->open = topic->open_count;
    row->pending = topic->slots.next_seq - slot_table_first_seq(&topic->slots) - topic->open_count;
    row->pending_bytes = topic->bytes;
    row->next_seq = topic->slots.next_seq;
    row->window_bytes = lead_window(core, topic);
}

/* In the first LIMIT_WHY_STEP topics that it has. */
static uint64_t sub_lag(const struct sub *sub, uint32_t *looks)
{
    uint64_t lag = 0;
    uint32_t count = 0;
    LIST_EACH(link, &sub->routes) {
        const struct route *route = LIST_OWNER(link, struct route, sub_link);
        if (count++ == LIMIT_WHY_STEP)
            break;
        if (route_floor(route) < route->topic->slots.next_seq)
            lag += route->topic->slots.next_seq - route_floor(route);
    }
    *looks += count;
    return lag;
}

static void add_sub(struct core *core, struct session *session, const struct msg_status *asked,
                    const struct sub *sub, uint32_t *looks)
{
    bool is_named = sub->name.bytes > 0 || sub->pattern_count == 0;
    struct msg_status_row *row =
        add_row(core, session, asked, 3, sub->job, is_named ? sub->name : sub->patterns[0]);
    row->party = sub->party->name;
    row->state = span_text(sub->session != NULL ? "live" : "kept");
    row->incarnation = sub->session != NULL ? sub->session->incarnation : 0;
    row->pending = sub_lag(sub, looks);
    row->window_bytes = sub->session != NULL ? flow_window_bytes(&sub->flow) : 0;
}

/* The party that its place is of is nobody, and no party to be told of. */
static void add_group(struct core *core, struct session *session, const struct msg_status *asked,
                      const struct group *group, uint32_t *looks)
{
    const struct sub *place = group->place;
    struct msg_status_row *row = add_row(core, session, asked, 3, place->job, place->name);
    row->is_group = 1;
    row->pattern = place->patterns[0];
    row->state = span_text(list_is_empty(&group->members) ? "kept" : "live");
    LIST_EACH(link, &group->members) {
        const struct sub *member = LIST_OWNER(link, struct sub, member_link);
        *looks += 1;
        row->members += 1;
        row->credit += member->credit;
        row->leased += member->held_count;
    }
    row->pending = sub_lag(place, looks);
    row->waiting = group_waiting(group, looks);
    row->dead = group->letter_count;
}

/* What may be on its way to all who read in the job.  Windows over links share what is beyond their
 * floors, so this has a bound (broker/design/flow.md).  It is of the first LIMIT_WHY_STEP
 * subscriptions. */
static uint64_t job_window_bytes(const struct job *job, uint32_t *looks)
{
    uint64_t bytes = 0;
    uint32_t count = 0;
    LIST_EACH(link, &job->sub_list) {
        const struct sub *sub = LIST_OWNER(link, struct sub, job_link);
        if (count++ == LIMIT_WHY_STEP)
            break;
        if (sub->session != NULL && !sub_is_place(sub))
            bytes += flow_window_bytes(&sub->flow);
    }
    *looks += count;
    return bytes;
}

static void add_job(struct core *core, struct session *session, const struct msg_status *asked,
                    const struct job *job, uint32_t *looks)
{
    struct msg_status_row *row = add_row(core, session, asked, 0, job, job->name);
    row->state = span_text(job->session_count > 0 ? "running" : "lingering");
    if (job->state != JOB_FREE)
        row->state = span_text(job_state_name(job->state));
    row->open = job->open_count;
    row->pending_bytes = job->bytes;
    row->next_seq = job->event_next;
    row->window_bytes = job_window_bytes(job, looks);
}

/* ---- the answer in parts --------------------------------------------------------------------- */

struct asker {
    struct core *core;
    struct session *session;
    const struct msg_status *asked;
};

static bool is_asked(const struct asker *asker, const struct job *job)
{
    return asker->asked->job.bytes == 0 || span_equal(asker->asked->job, job->name);
}

/* The bits of STATUS.kinds. */
enum {
    KIND_JOBS = 1,
    KIND_PARTIES = 2,
    KIND_TOPICS = 4,
    KIND_SUBS = 8,
    KIND_GROUPS = 16,
};

/* Whether rows of this kind are asked for. */
static bool is_wanted(const struct asker *asker, unsigned kind)
{
    return asker->asked->kinds == 0 || (asker->asked->kinds & kind) != 0;
}

/* The row of this number, if it is in use; counts what was looked at. */
static void add_item(const struct asker *asker, unsigned pool, const void *item, uint32_t *looks)
{
    struct core *core = asker->core;
    const struct party *party = item;
    const struct topic *topic = item;
    const struct sub *sub = item;
    const struct job *job = item;
    uint32_t rows = core->effects->msg_count;
    *looks += 1;
    if (item == NULL)
        return;
    switch (pool) {
    case STATUS_JOBS:
        if (is_asked(asker, job))
            add_job(core, asker->session, asker->asked, job, looks);
        break;
    case STATUS_PARTIES: /* not the place of groups, nor who is only waited for */
        if (party->incarnation > 0 && is_asked(asker, party->job))
            add_party(core, asker->session, asker->asked, party);
        break;
    case STATUS_TOPICS:
        if (is_asked(asker, topic->job))
            add_topic(core, asker->session, asker->asked, topic);
        break;
    case STATUS_SUBS:
        if (!is_asked(asker, sub->job) ||
            !is_wanted(asker, sub_is_place(sub) ? KIND_GROUPS : KIND_SUBS))
            break;
        if (sub_is_place(sub))
            add_group(core, asker->session, asker->asked, sub->group, looks);
        else
            add_sub(core, asker->session, asker->asked, sub, looks);
        break;
    }
    *looks += (core->effects->msg_count - rows) * ROW_COST;
}

/* Rows from the cursor on, as many as one step may tell; where the next part begins, or 0. */
static uint64_t add_part(const struct asker *asker, uint64_t cursor)
{
    const struct pool *const pools[STATUS_POOLS] = {&asker->core->jobs, &asker->core->parties,
                                                    &asker->core->topics, &asker->core->subs};
    static const unsigned kinds[STATUS_POOLS] = {KIND_JOBS, KIND_PARTIES, KIND_TOPICS,
                                                 KIND_SUBS | KIND_GROUPS};
    uint32_t looks = 0;
    uint64_t pool = cursor >> 32;
    uint32_t number = (uint32_t)cursor;
    for (; pool < STATUS_POOLS; pool++, number = 0) {
        if (!is_wanted(asker, kinds[pool]))
            continue; /* nothing of a whole pool is looked at */
        for (; number < pools[pool]->chunk_count * POOL_CHUNK_ITEMS; number++) {
            if (looks >= LIMIT_ANSWER_STEP)
                return pool << 32 | number;
            add_item(asker, (unsigned)pool, pool_find(pools[pool], number + 1), &looks);
        }
    }
    return 0;
}

void tell_status(struct core *core, struct session *session, const struct msg_status *msg)
{
    const struct asker asker = {core, session, msg};
    uint64_t cursor = add_part(&asker, msg->cursor);
    struct msg_status_end *end =
        &effects_msg(core->effects, session->control, MSG_STATUS_END)->as.status_end;
    end->request = msg->request;
    end->refused = count_all_refused(core);
    end->version = span_text(core->options.version);
    end->uptime_ms = (uint64_t)((core->now_ns - core->start_ns) / MS_NS);
    end->cursor = cursor;
}

/* ---- signs of life --------------------------------------------------------------------------- */

void tell_pong(struct core *core, const struct session *session, const struct msg *ping)
{
    uint64_t uptime_ms = (uint64_t)((core->now_ns - core->start_ns) / MS_NS);
    if (ping->type == MSG_DATA_PING)
        effects_msg(core->effects, session->data, MSG_DATA_PONG)->as.data_pong =
            (struct msg_data_pong){.request = ping->as.data_ping.request,
                                   .uptime_ms = uptime_ms,
                                   .journal_state = core->journal.health};
    else
        effects_msg(core->effects, session->control, MSG_PONG)->as.pong =
            (struct msg_pong){.request = ping->as.ping.request,
                              .uptime_ms = uptime_ms,
                              .journal_state = core->journal.health};
}
