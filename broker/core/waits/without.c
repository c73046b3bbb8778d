/* SPDX-License-Identifier: MPL-2.0 */
/* without.c -- what would fail if a party were lost now.
 *
 * Nothing changes.  What decides is what decides when a party is lost: task_fate(), sub_is_taker(),
 * roster_role(), job_weigh(), ending_replaces_pending(), settle_is_unseen(), and the tables of
 * slots, needs and waits.  So the
 * answer is what follows, if nothing else happens before the loss.
 *
 * As with who waits, whole pools are looked at by number, and a step looks at a bounded part.  A
 * slot that fails stands in a queue.  The slots that need it are added behind it, until no slot of
 * the queue is needed by another one. */
#include "broker/core/waits/without.h"

#include "broker/core/lifecycle/ending.h"
#include "broker/core/lifecycle/membership.h"
#include "broker/core/streams/lease.h"
#include "broker/core/streams/open_slot.h"
#include "broker/core/streams/reply.h"
#include "broker/core/streams/sub.h"
#include "broker/core/settling/settle.h"
#include "broker/core/tables/effect.h"
#include "broker/core/tables/job.h"
#include "broker/core/tables/party.h"
#include "broker/core/tables/slot_table.h"
#include "broker/core/waits/walk.h"
#include "broker/core/waits/why.h"
#include "libbus/base/pattern.h"

enum { ROW_COST = 8, ROOM_FIRST = 16 }; /* of the budget: a row is a message, which io encodes */

/* As in WITHOUT_ROW.kind. */
enum row_kind {
    ROW_OWED,
    ROW_NEEDS,
    ROW_REPLY,
    ROW_REPLACED,
    ROW_PARTY,
    ROW_GROUP,
    ROW_READER,
    ROW_AGAIN,
    ROW_DEAD,
    ROW_EMPTY,
    ROW_UNREAD,
    ROW_KINDS,
};

/* A row of the answer.  of: id of the topic, party, group or durable subscription. */
struct row {
    uint8_t kind; /* enum row_kind */
    uint32_t of;
    uint32_t before; /* of slots: number + 1 of the row before of this topic; 0: none */
    uint64_t seq, count;
};

struct failing {
    uint32_t topic;
    uint64_t seq;
};

enum phase {
    PHASE_TASKS,
    PHASE_OWED,
    PHASE_VALUES,
    PHASE_NEEDS,
    PHASE_AWAITS,
    PHASE_ROUTES,
    PHASE_SUBS,
    PHASE_TELL,
};

struct without {
    uint32_t party;
    uint32_t incarnation;
    enum phase phase;
    uint32_t cursor; /* id of the last object, or number of the next in the queue, or row */
    uint32_t edge;   /* PHASE_NEEDS: id of the next edge of that slot; 0: the first */
    struct failing *queue;
    uint32_t queue_count, queue_room;
    struct row *rows;
    uint32_t row_count, row_room;
    struct id_map is_failing; /* id of an open slot -> 1 */
    struct id_map row_of; /* kind and id -> number of the row; of slots: the newest of the topic */
    uint64_t left_out;
    bool is_short; /* of memory */
};

/* ---- rows ------------------------------------------------------------------------------------ */

static bool make_room(struct core *core, struct without *without, void **array, size_t bytes,
                      uint32_t count, uint32_t *room)
{
    if (count < *room)
        return true;
    uint32_t larger = *room > 0 ? *room * 2 : ROOM_FIRST;
    void *block = memory_resize(core->memory, *array, *room * bytes, larger * bytes);
    without->is_short |= block == NULL;
    if (block == NULL)
        return false;
    *array = block;
    *room = larger;
    return true;
}

static uint64_t key_of(enum row_kind kind, uint32_t of)
{
    return (uint64_t)(kind < ROW_PARTY ? ROW_OWED : kind) << 32 | of;
}

static struct row *find_row(const struct without *without, enum row_kind kind, uint32_t of)
{
    uint32_t number;
    return id_map_get(&without->row_of, key_of(kind, of), &number) ? &without->rows[number] : NULL;
}

static struct row *begin_row(struct core *core, struct without *without, enum row_kind kind,
                             uint32_t of)
{
    struct row *before = find_row(without, kind, of);
    uint32_t number = without->row_count;
    void *rows = without->rows;
    uint32_t link = before != NULL ? (uint32_t)(before - without->rows) + 1 : 0;
    if (!make_room(core, without, &rows, sizeof *without->rows, number, &without->row_room))
        return NULL;
    without->rows = rows;
    if (before != NULL)
        id_map_remove(&without->row_of, key_of(kind, of));
    if (!id_map_put(&without->row_of, key_of(kind, of), number)) {
        without->is_short = true;
        return NULL;
    }
    without->rows[number] = (struct row){.kind = (uint8_t)kind, .of = of, .before = link};
    without->row_count += 1;
    return &without->rows[number];
}

static void count_row(struct core *core, struct without *without, enum row_kind kind, uint32_t of,
                      uint64_t count)
{
    struct row *row = find_row(without, kind, of);
    if (row == NULL && count > 0)
        row = begin_row(core, without, kind, of);
    if (row != NULL)
        row->count += count;
}

/* ---- slots that fail ------------------------------------------------------------------------- */

static void add_slot(struct core *core, struct without *without, enum row_kind kind,
                     const struct topic *topic, uint64_t seq)
{
    struct row *row = find_row(without, kind, topic->id);
    void *queue = without->queue;
    if (without->queue_count == LIMIT_WITHOUT_SLOTS) {
        without->left_out += 1;
        return;
    }
    if (!make_room(core, without, &queue, sizeof *without->queue, without->queue_count,
                   &without->queue_room))
        return;
    without->queue = queue;
    if (row == NULL || row->kind != kind || row->seq + row->count != seq) {
        row = begin_row(core, without, kind, topic->id);
        if (row == NULL)
            return;
        row->seq = seq;
    }
    row->count += 1;
    without->queue[without->queue_count++] = (struct failing){topic->id, seq};
}

static void add_open(struct core *core, struct without *without, enum row_kind kind,
                     const struct open_slot *open)
{
    uint32_t known;
    if (id_map_get(&without->is_failing, open->id, &known))
        return;
    if (id_map_put(&without->is_failing, open->id, 1))
        add_slot(core, without, kind, open->topic, open->seq);
    else
        without->is_short = true;
}

/* A task that it has.  A reply that it owes itself fails with its other slots. */
static void look_at_task(struct core *core, struct without *without, const struct task *task)
{
    if (task->holder == NULL || task->holder->party->id != without->party)
        return;
    struct open_slot *reply = task_reply(core, task);
    bool is_own = reply != NULL && reply->topic->writer->id == without->party;
    uint32_t deliveries = task->delivery - task_deliveries_before(task);
    bool is_dead = task_fate(deliveries, task->group->deliver_max, 0) == TASK_DEAD;
    if (is_dead || !is_own)
        count_row(core, without, is_dead ? ROW_DEAD : ROW_AGAIN, task->group->id, 1);
    if (is_dead && reply != NULL && !is_own)
        add_open(core, without, ROW_REPLY, reply);
}

static uint32_t look_at_values(struct core *core, struct without *without, struct topic *topic)
{
    for (uint32_t i = 0; i < topic->slots.count; i++) {
        const struct slot_entry *entry = slot_table_at(&topic->slots, i);
        for (uint64_t k = 0; settle_is_unseen(topic, entry) && k < entry->count; k++)
            add_slot(core, without, ROW_REPLACED, topic, entry->first_seq + k);
    }
    return topic->slots.count;
}

/* The slot in the queue: those that need it.  true: all of them were looked at. */
static bool spread(struct core *core, struct without *without, uint32_t *budget)
{
    struct failing slot = without->queue[without->cursor];
    struct need_head *head =
        needs_find(&core->needs, (struct need_key){.seq = slot.seq, .topic = slot.topic});
    const struct need_edge *edge = pool_find(&core->needs.edges, without->edge);
    struct list *link = head != NULL ? head->edges.next : NULL;
    if (head != NULL && edge != NULL && edge->head == head)
        link = (struct list *)&edge->head_link;
    while (head != NULL && link != &head->edges) {
        edge = LIST_OWNER(link, struct need_edge, head_link);
        without->edge = edge->id;
        if (*budget == 0)
            return false;
        *budget -= 1;
        add_open(core, without, ROW_NEEDS, pool_find(&core->open_slots, edge->dependant));
        link = link->next;
    }
    without->edge = 0;
    return true;
}

/* ---- who is told ----------------------------------------------------------------------------- */

static void look_at_await(struct core *core, struct without *without, const struct await *await)
{
    uint32_t known;
    const struct open_slot *open = NULL;
    if (await->state == AWAIT_READY)
        return; /* its answer is on its way; of a denied wait nothing else is left */
    bool is_never = await->state == AWAIT_UNPROMISED && await->topic->writer->id == without->party;
    if (await->state == AWAIT_OPEN)
        open = open_slot_find(core, await->topic, await->seq);
    if (await->session->party->id == without->party)
        return;
    if (is_never || (open != NULL && id_map_get(&without->is_failing, open->id, &known)))
        count_row(core, without, ROW_PARTY, await->session->party->id, 1);
}

/* A group passes over a request that fails, for its reply failed, too: it is raised there. */
static uint64_t count_tasks(const struct core *core, struct topic *topic, uint64_t seq,
                            uint64_t end_seq, uint32_t *budget)
{
    uint64_t count = 0;
    for (; seq < end_seq; seq++) {
        bool is_request;
        (void)reply_find(core, topic, seq, &is_request);
        count += !is_request;
        *budget -= *budget > 0;
    }
    return count;
}

/* Slots of the topic that fail, and that the route is not past. */
static uint64_t count_ahead(const struct core *core, const struct without *without,
                            const struct route *route, uint32_t *budget)
{
    const struct row *row = find_row(without, ROW_OWED, route->topic->id);
    uint64_t count = 0;
    while (row != NULL) {
        uint64_t end_seq = row->seq + row->count;
        uint64_t seq = row->seq > route->next_seq ? row->seq : route->next_seq;
        *budget -= *budget > 0;
        if (end_seq > seq)
            count += sub_is_place(route->sub)
                         ? count_tasks(core, route->topic, seq, end_seq, budget)
                         : end_seq - seq;
        row = row->before > 0 ? &without->rows[row->before - 1] : NULL;
    }
    return count;
}

static void look_at_route(struct core *core, struct without *without, const struct route *route,
                          uint32_t *budget)
{
    const struct sub *sub = route->sub;
    uint64_t count = count_ahead(core, without, route, budget);
    if (sub_is_place(sub))
        count_row(core, without, ROW_GROUP, sub->group->id, count);
    else if (sub->session == NULL || sub->party->id == without->party)
        count_row(core, without, ROW_READER, sub->name.bytes > 0 ? sub->id : 0,
                  sub->name.bytes > 0 ? count : 0);
    else
        count_row(core, without, ROW_PARTY, sub->party->id, count);
}

static uint32_t takers_of(const struct group *group, uint32_t party)
{
    uint32_t count = 0;
    LIST_EACH(link, &group->members) {
        const struct sub *member = LIST_OWNER(link, struct sub, member_link);
        count += member->party->id == party && sub_is_taker(member);
    }
    return count;
}

static void look_at_sub(struct core *core, struct without *without, const struct sub *sub)
{
    if (sub->session == NULL || sub->party->id != without->party)
        return;
    bool is_last = sub_is_member(sub) && sub_is_taker(sub) &&
                   takers_of(sub->group, without->party) == sub->group->taker_count;
    if (is_last && find_row(without, ROW_EMPTY, sub->group->id) == NULL)
        count_row(core, without, ROW_EMPTY, sub->group->id, 1);
    if (sub->name.bytes > 0 && !sub_is_member(sub))
        count_row(core, without, ROW_UNREAD, sub->id, 1);
}

/* ---- all ------------------------------------------------------------------------------------- */

static const struct pool *objects_of(const struct core *core, enum phase phase)
{
    switch (phase) {
    case PHASE_TASKS: return &core->tasks;
    case PHASE_OWED: return &core->open_slots;
    case PHASE_VALUES: return &core->topics;
    case PHASE_AWAITS: return &core->awaits;
    case PHASE_ROUTES: return &core->routes;
    case PHASE_SUBS: return &core->subs;
    case PHASE_NEEDS:
    case PHASE_TELL: break;
    }
    return NULL;
}

/* The object of this number, of whatever job; a number that is free counts, too. */
static void look_at_one(struct core *core, struct without *without, const struct party *party,
                        uint32_t *budget)
{
    void *object = pool_find(objects_of(core, without->phase), ++without->cursor);
    *budget -= 1;
    if (object == NULL)
        return;
    if (without->phase == PHASE_TASKS) {
        look_at_task(core, without, object);
    } else if (without->phase == PHASE_OWED) {
        const struct open_slot *open = object;
        if (open->topic->writer == party)
            add_open(core, without, ROW_OWED, open);
    } else if (without->phase == PHASE_VALUES) {
        struct topic *topic = object;
        uint32_t work = topic->writer == party && ending_replaces_pending(party, PARTY_IS_LOST)
                            ? look_at_values(core, without, topic)
                            : 0;
        *budget -= work < *budget ? work : *budget;
    } else if (without->phase == PHASE_AWAITS) {
        look_at_await(core, without, object);
    } else if (without->phase == PHASE_ROUTES) {
        look_at_route(core, without, object, budget);
    } else {
        look_at_sub(core, without, object);
    }
}

static bool is_phase_over(const struct core *core, const struct without *without)
{
    const struct pool *pool = objects_of(core, without->phase);
    if (without->phase == PHASE_NEEDS)
        return without->cursor >= without->queue_count;
    return pool->used == 0 || without->cursor >= pool->chunk_count * POOL_CHUNK_ITEMS;
}

static bool look_on(struct core *core, struct without *without, const struct party *party,
                    uint32_t *budget)
{
    while (without->phase < PHASE_TELL) {
        if (is_phase_over(core, without)) {
            without->phase += 1;
            without->cursor = 0;
            continue;
        }
        if (*budget == 0)
            return false;
        if (without->phase != PHASE_NEEDS) {
            look_at_one(core, without, party, budget);
        } else {
            *budget -= 1;
            without->cursor += spread(core, without, budget);
        }
    }
    return true;
}

/* ---- the answer ------------------------------------------------------------------------------ */

static void refuse_without(struct core *core, const struct session *session, uint64_t request,
                           enum wire_code code, const char *type, const char *message)
{
    struct msg_without_end *end =
        &effects_msg(core->effects, session->control, MSG_WITHOUT_END)->as.without_end;
    end->request = request;
    end->code = code;
    end->type = span_text(type);
    end->message = span_text(message);
}

static struct span name_of(const struct core *core, const struct row *row)
{
    const struct topic *topic = pool_find(&core->topics, row->of);
    const struct party *party = pool_find(&core->parties, row->of);
    const struct group *group = pool_find(&core->groups, row->of);
    const struct sub *sub = pool_find(&core->subs, row->of);
    switch ((enum row_kind)row->kind) {
    case ROW_OWED:
    case ROW_NEEDS:
    case ROW_REPLY:
    case ROW_REPLACED: return topic != NULL ? topic->name : SPAN_NONE;
    case ROW_PARTY: return party != NULL ? party->name : SPAN_NONE;
    case ROW_GROUP:
    case ROW_AGAIN:
    case ROW_DEAD:
    case ROW_EMPTY: return group != NULL ? group->place->name : SPAN_NONE;
    case ROW_READER:
    case ROW_UNREAD: return sub != NULL ? sub->name : SPAN_NONE;
    case ROW_KINDS: break;
    }
    return SPAN_NONE;
}

static void tell_outlook(struct core *core, const struct session *asker,
                         const struct wait_walk *walk, const struct party *party)
{
    const struct job *job = party->job;
    struct job_parties parties = job_parties_without(job, party);
    struct msg_without_end *end =
        &effects_msg(core->effects, asker->control, MSG_WITHOUT_END)->as.without_end;
    end->request = walk->request;
    end->outlook = job_weigh(&job->spec, job->state, &parties);
    end->present = parties.present + parties.waiting;
    end->min = job->spec.min;
    end->window_ms = (uint64_t)job->spec.join_window_ms;
    end->attempts_left = job_attempts_left(job);
    end->left_out = walk->without->left_out;
}

static bool tell_some(struct core *core, const struct session *asker, const struct wait_walk *walk,
                      const struct party *party, uint32_t *budget)
{
    struct without *without = walk->without;
    while (without->cursor < without->row_count) {
        const struct row *row = &without->rows[without->cursor];
        if (*budget < ROW_COST)
            return false;
        *budget -= ROW_COST;
        without->cursor += 1;
        effects_msg(core->effects, asker->control, MSG_WITHOUT_ROW)->as.without_row =
            (struct msg_without_row){.request = walk->request,
                                     .kind = row->kind,
                                     .name = name_of(core, row),
                                     .seq = row->seq,
                                     .count = row->count};
    }
    tell_outlook(core, asker, walk, party);
    return true;
}

bool without_go_on(struct core *core, struct session *asker, struct wait_walk *walk,
                   uint32_t *budget)
{
    struct without *without = walk->without;
    const struct party *party = pool_find(&core->parties, without->party);
    if (party == NULL || !party_is_live(party) || party->incarnation != without->incarnation) {
        refuse_without(core, asker, walk->request, CODE_EINVAL, ERROR_TYPE_NO_PARTY,
                       "the party ended meanwhile");
        return true;
    }
    bool is_done = look_on(core, without, party, budget);
    if (without->is_short) {
        refuse_without(core, asker, walk->request, CODE_ENOMEM, ERROR_TYPE_FULL,
                       "the broker is short of memory");
        return true;
    }
    return is_done && tell_some(core, asker, walk, party, budget);
}

void without_free(struct core *core, struct without *without)
{
    if (without == NULL)
        return;
    memory_give(core->memory, without->queue, without->queue_room * sizeof *without->queue);
    memory_give(core->memory, without->rows, without->row_room * sizeof *without->rows);
    id_map_fini(&without->is_failing);
    id_map_fini(&without->row_of);
    memory_give(core->memory, without, sizeof *without);
}

/* ---- the question ---------------------------------------------------------------------------- */

static struct wait_walk *begin(struct core *core, struct job *job, const struct party *party)
{
    struct wait_walk *walk = walk_begin(core, job);
    struct without *without = walk != NULL ? memory_take(core->memory, sizeof *without) : NULL;
    if (without == NULL) {
        if (walk != NULL)
            walk_free(core, walk);
        return NULL;
    }
    without->party = party->id;
    without->incarnation = party->incarnation;
    id_map_init(&without->is_failing, core->memory);
    id_map_init(&without->row_of, core->memory);
    walk->without = without;
    return walk;
}

void without_ask(struct core *core, struct session *session, const struct msg_without *msg)
{
    uint32_t id;
    struct job *job =
        name_map_get(&core->job_names, msg->job, &id) ? pool_find(&core->jobs, id) : NULL;
    why_forget_last(core, session);
    if (job == NULL) {
        refuse_without(core, session, msg->request, CODE_EINVAL, ERROR_TYPE_NO_JOB,
                       job_missing_text(core, msg->job));
        return;
    }
    const struct party *party =
        name_map_get(&job->parties, msg->party, &id) ? pool_find(&core->parties, id) : NULL;
    if (party == NULL || !party_is_live(party)) {
        refuse_without(core, session, msg->request, CODE_EINVAL, ERROR_TYPE_NO_PARTY,
                       party == NULL ? "no party of this name joined the job"
                                     : "the party is not in the job: it never joined, or it ended");
        return;
    }
    struct wait_walk *walk = begin(core, job, party);
    if (walk == NULL) {
        refuse_without(core, session, msg->request, CODE_ENOMEM, ERROR_TYPE_FULL,
                       "the broker is short of memory");
        return;
    }
    walk->session = session->id;
    walk->token = session->token;
    walk->request = msg->request;
}
