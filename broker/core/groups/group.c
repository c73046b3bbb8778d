/* SPDX-License-Identifier: MPL-2.0 */
/* group.c -- groups: each value of a topic is leased to one member.
 *
 * The place of a group in its topics is a durable subscription of GROUPS_PARTY, which is sent
 * nothing.  Slots from its next_seq on were given to no member yet; slots below acked_seq are done.
 * Each slot between the two that is not done is a task (tables/task.h).  The members of a group are
 * subscriptions of parties.  They have no place in any topic; they are sent what is leased to
 * them.
 *
 * Members with credit wait in line (group->idle).  A member goes to the end of the line with each
 * task that it gets; without credit it is not in line.  Tasks that were given before go before new
 * ones.
 *
 * When a member is lost, all its tasks are given back in the same step (group_party_ended), and so
 * in one record of the journal.  A message about a lease that is over has an older delivery number,
 * and is ignored.  So a task is settled once (group_settle). */
#include "broker/core/groups/group.h"

#include "broker/core/groups/letter.h"
#include "broker/core/record/failure.h"
#include "broker/core/record/note.h"
#include "broker/core/record/tell.h"
#include "broker/core/record/text.h"
#include "broker/core/settling/settle.h"
#include "broker/core/streams/lease.h"
#include "broker/core/streams/names.h"
#include "broker/core/streams/notice.h"
#include "broker/core/streams/passing.h"
#include "broker/core/streams/reply.h"
#include "broker/core/streams/sub.h"
#include "broker/core/streams/topic.h"
#include "broker/core/tables/slot_table.h"
#include "broker/core/tables/task.h"
#include "broker/core/tables/timers.h"

/* Leases given in one step: others get their turn. */
#define STEP_LEASES_MAX 1024
/* Tasks that an event names, of those that were lost with a member. */
#define TOLD_TASKS_MAX 16

struct group *group_find(struct core *core, const struct job *job, struct span name)
{
    uint32_t id;
    (void)core; /* it hangs on the job */
    struct span party_name = span_text(GROUPS_PARTY);
    const struct party *party =
        name_map_get(&job->parties, party_name, &id) ? pool_find(&core->parties, id) : NULL;
    if (party == NULL)
        return NULL;
    LIST_EACH(link, &party->durables) {
        struct sub *place = LIST_OWNER(link, struct sub, durable_link);
        if (span_equal(place->name, name))
            return place->group;
    }
    return NULL;
}

/* ---- what was not done ----------------------------------------------------------------------- */

/* Why a task is a dead letter. */
enum death {
    DEATH_UNDONE,   /* it was given, and not done */
    DEATH_LOST,     /* ... and its last worker was lost with it */
    DEATH_NOT_KEPT, /* it was given back, and its value went while nobody kept it for the group */
};

static const struct {
    enum error_kind kind;
    const char *type;
    const char *text;
} deaths[] = {
    [DEATH_UNDONE] = {ERROR_REJECTED, ERROR_TYPE_DEAD_LETTER, ", and none did it"},
    [DEATH_LOST] = {ERROR_WORKER_LOST, ERROR_TYPE_WORKER_LOST, ", and the last was lost with it"},
    [DEATH_NOT_KEPT] = {ERROR_REJECTED, ERROR_TYPE_NOT_KEPT,
                        ", and was given back; the broker no longer keeps its value, for the group "
                        "had no members for too long"},
};

/* The error of a task that nobody gets any more: those of all its deliveries led to it. */
static struct failure *death_of(struct core *core, const struct task *task, enum death death)
{
    struct text text;
    text_init(&text);
    text_add(&text, "the task ");
    text_add_span(&text, task->topic->name);
    text_add(&text, "#");
    text_add_number(&text, task->seq);
    text_add(&text, " was given to workers of ");
    text_add_span(&text, task->group->place->name);
    text_add(&text, " ");
    text_add_number(&text, task->delivery);
    text_add(&text, task->delivery == 1 ? " time" : " times");
    text_add(&text, deaths[death].text);
    struct failure *last = NULL; /* the latest first */
    struct failure *others[LIMIT_DELIVER];
    for (uint32_t i = 0; i < task->error_count; i++)
        others[i] = task->errors[task->error_count - 1 - i];
    if (task->error_count > 0)
        last = others[0];
    return failure_make(
        core,
        &(struct failure_spec){.job = group_job(task->group),
                               .party = task->holder != NULL ? task->holder->party : NULL,
                               .kind = deaths[death].kind,
                               .type = deaths[death].type,
                               .message = text.data,
                               .topic = task->topic,
                               .seq = task->seq,
                               .cause = last,
                               .causes = others + 1,
                               .cause_count = task->error_count > 0 ? task->error_count - 1 : 0});
}

/* A dead letter, and an error for whoever waits for the reply, in one step. */
static void task_dies(struct core *core, struct task *task, struct failure *failure, enum death why)
{
    bool is_request;
    if (failure != NULL)
        (void)task_add_error(task, failure); /* as in task_back() */
    struct failure *death = death_of(core, task, why);
    struct group *group = task->group;
    struct topic *topic = task->topic;
    uint64_t seq = task->seq;
    struct open_slot *reply = task_request(core, task, &is_request);
    struct party *party = task->holder != NULL ? task->holder->party : NULL;
    uint64_t number = group->dead->slots.next_seq;
    letter_write(core, task, death);
    task_end(core, task);
    tell(core, group_job(group),
         &(struct tell){.name = EVENT_TASK_DEAD,
                        .party = party,
                        .incarnation = party != NULL ? party->incarnation : 0,
                        .topic = topic,
                        .seq = seq,
                        .count = number,
                        .failure = death});
    if (reply != NULL)
        settle_open_failed(core, reply, death);
    failure_unref(core, death);
}

/* Its lease is over, and it is not done. */
static void give_back(struct core *core, struct task *task, struct failure *failure,
                      int64_t retry_after_ms, bool is_lost)
{
    struct task_delay delay = {0, 0};
    uint32_t deliveries = task->delivery - task_deliveries_before(task);
    switch (task_fate(deliveries, task->group->deliver_max, retry_after_ms)) {
    case TASK_LATER:
        delay = (struct task_delay){core->wall_ns + retry_after_ms * MS_NS, retry_after_ms};
        break;
    case TASK_AGAIN: break;
    case TASK_DEAD: task_dies(core, task, failure, is_lost ? DEATH_LOST : DEATH_UNDONE); return;
    }
    task_back(core, task, failure, delay);
}

static void tell_lost(struct core *core, const struct sub *member, struct failure *failure)
{
    struct text text;
    uint32_t told = 0;
    const struct task *first = LIST_OWNER(member->leases.next, struct task, holder_link);
    text_init(&text);
    text_add(&text, "of ");
    text_add_span(&text, member->group->place->name);
    text_add(&text, ":");
    LIST_EACH(link, &member->leases) {
        const struct task *task = LIST_OWNER(link, struct task, holder_link);
        if (told++ == TOLD_TASKS_MAX) {
            text_add(&text, " ...");
            break;
        }
        text_add(&text, " ");
        if (task == first || task->topic != first->topic)
            text_add_span(&text, task->topic->name);
        text_add(&text, "#");
        text_add_number(&text, task->seq);
    }
    tell(core, member->job,
         &(struct tell){.name = EVENT_LEASES_LOST,
                        .party = member->party,
                        .incarnation = member->party->incarnation,
                        .topic = first->topic,
                        .seq = first->seq,
                        .count = member->held_count,
                        .text = text.data,
                        .failure = failure});
}

/* All that a member has goes to others. */
static void release(struct core *core, struct sub *member, struct failure *failure)
{
    if (member->held_count == 0)
        return;
    tell_lost(core, member, failure);
    LIST_EACH(link, &member->leases)
        give_back(core, LIST_OWNER(link, struct task, holder_link), failure, 0, true);
}

static struct failure *gone_failure(struct core *core, const struct sub *member)
{
    struct text text;
    text_init(&text);
    text_add_span(&text, member->party->name);
    text_add(&text, " left the group ");
    text_add_span(&text, member->group->place->name);
    text_add(&text, " with tasks that it had not done");
    return failure_make(core, &(struct failure_spec){.job = member->job,
                                                     .party = member->party,
                                                     .kind = ERROR_PARTY_LEFT,
                                                     .type = ERROR_TYPE_LEFT,
                                                     .message = text.data});
}

static void release_left(struct core *core, struct sub *member)
{
    if (member->held_count == 0)
        return;
    struct failure *failure = gone_failure(core, member);
    release(core, member, failure);
    failure_unref(core, failure);
}

/* The member gets no more tasks.  If it was the last that could, requests begin to wait for another
 * member now. */
static void stop_giving(struct core *core, struct sub *member)
{
    struct group *group = member->group;
    list_remove(&member->idle_link);
    if (!sub_is_taker(member))
        return;
    member->credit = 0;
    group->taker_count -= 1;
    if (group->taker_count > 0 || core->is_replaying) /* core_resume() looks at all requests */
        return;
    LIST_EACH(link, &group->place->routes)
        reply_arm_all(core, LIST_OWNER(link, struct route, sub_link)->topic);
}

void group_drain(struct core *core, struct sub *member)
{
    stop_giving(core, member);
    note_member_drained(core, member);
}

void group_party_ended(struct core *core, struct session *session, struct failure *failure)
{
    LIST_EACH(link, &session->subs) {
        struct sub *sub = LIST_OWNER(link, struct sub, session_link);
        if (!sub_is_member(sub))
            continue;
        stop_giving(core, sub);
        if (failure != NULL)
            release(core, sub, failure);
        else
            release_left(core, sub);
    }
}

void group_lease_timer(struct core *core, struct sub *member)
{
    const struct session *session = member->session;
    int64_t end_ns = session->heard_ns + member->lease_ns;
    if (end_ns < session_window_ns(core, session))
        end_ns = session_window_ns(core, session);
    if (member->held_count == 0)
        return;
    int64_t wait_ns = core_second_look_ns(core, &member->lease_timer, session->beat_ns / 2);
    if (core_clock(core) < end_ns) {
        member->is_looked_again = false;
        timers_set(&core->timers, &member->lease_timer, end_ns);
        return;
    }
    if (wait_ns > 0 && !member->is_looked_again) {
        member->is_looked_again = true;
        timers_set(&core->timers, &member->lease_timer, core_clock(core) + wait_ns);
        return;
    }
    member->is_looked_again = false;
    struct text text;
    text_init(&text);
    text_add(&text, "no sign of life of ");
    text_add_span(&text, member->party->name);
    text_add(&text, " for ");
    text_add_number(&text, (uint64_t)((end_ns - session->heard_ns) / MS_NS));
    text_add(&text, " ms: its leases are over");
    struct failure *failure =
        failure_make(core, &(struct failure_spec){.job = member->job,
                                                  .party = member->party,
                                                  .kind = ERROR_WORKER_LOST,
                                                  .type = ERROR_TYPE_LEASE_OVER,
                                                  .message = text.data});
    LIST_EACH(link, &member->leases)
        task_tell_over(core, LIST_OWNER(link, struct task, holder_link), failure);
    release(core, member, failure);
    failure_unref(core, failure);
}

/* ---- giving ---------------------------------------------------------------------------------- */

static bool is_reachable(const struct sub *member)
{
    const struct session *session = member->session;
    return session != NULL && session->data != 0 && session->is_ready && !session->is_suspect;
}

/* The member that waited longest, of those with credit and a connection; or NULL.  A member without
 * a connection is not in line until it is back. */
static struct sub *next_member(struct group *group)
{
    while (!list_is_empty(&group->idle)) {
        struct sub *member = LIST_OWNER(group->idle.next, struct sub, idle_link);
        if (is_reachable(member))
            return member;
        list_remove(&member->idle_link);
    }
    return NULL;
}

/* A slot that is not a task of the group: it is not kept any more, or it is a settled request. */
static bool pass_over(struct core *core, struct route *route)
{
    struct topic *topic = route->topic;
    uint64_t first_seq = slot_table_first_seq(&topic->slots);
    uint32_t index;
    bool is_request;
    if (route->next_seq < first_seq && route->next_seq < topic->slots.next_seq) {
        notice_gone(core, route, first_seq);
        route_pass(core, route, first_seq);
        return true;
    }
    if (slot_table_find(&topic->slots, route->next_seq, &index) &&
        passing_is_cut(core, slot_table_at(&topic->slots, index))) {
        notice_gone(core, route, route->next_seq + 1);
        route_pass(core, route, route->next_seq + 1);
        return true;
    }
    struct open_slot *reply = reply_find(core, topic, route->next_seq, &is_request);
    if (!is_request || !slot_table_find(&topic->slots, route->next_seq, &index))
        return false;
    const struct slot_entry *entry = slot_table_at(&topic->slots, index);
    if (reply != NULL && entry->state == SLOT_ERROR)
        settle_open_failed(core, reply, pool_find(&core->failures, entry->ref));
    else if (reply != NULL || entry->state == SLOT_OPEN)
        return false;
    route_pass(core, route, route->next_seq + 1);
    return true;
}

/* The next slot that was given to no member; topics take turns.  false: there is none. */
static bool next_slot(struct core *core, struct group *group, struct route **out_route)
{
    struct list *ready = &group->place->ready;
    while (!list_is_empty(ready)) {
        struct route *route = LIST_OWNER(ready->next, struct route, ready_link);
        struct topic *topic = route->topic;
        uint32_t index;
        if (pass_over(core, route))
            continue;
        list_remove(&route->ready_link);
        if (!slot_table_find(&topic->slots, route->next_seq, &index) ||
            slot_table_at(&topic->slots, index)->state == SLOT_OPEN)
            continue;
        list_push(ready, &route->ready_link);
        *out_route = route;
        return true;
    }
    return false;
}

/* The first task that is to be given again, or NULL.  A task whose value went meanwhile is a dead
 * letter without a value. */
static struct task *next_waiting(struct core *core, struct group *group)
{
    while (!list_is_empty(&group->waiting)) {
        struct task *task = LIST_OWNER(group->waiting.next, struct task, holder_link);
        uint32_t index;
        uint64_t seq;
        const struct topic *topic = task_topic(task, &seq);
        if (slot_table_find(&topic->slots, seq, &index))
            return task;
        task_dies(core, task, NULL, DEATH_NOT_KEPT);
    }
    return NULL;
}

enum given { GIVEN, NOTHING_TO_GIVE, NO_MEMORY_TO_GIVE };

/* One task for this member. */
static enum given give(struct core *core, struct group *group, struct sub *member)
{
    struct task *task = next_waiting(core, group);
    struct route *route = task != NULL ? task->route : NULL;
    if (task == NULL && !next_slot(core, group, &route))
        return NOTHING_TO_GIVE;
    task = task_lease(core, route, task, task != NULL ? task->seq : route->next_seq,
                      task != NULL ? task->delivery + 1 : 1, member);
    if (task == NULL)
        return NO_MEMORY_TO_GIVE;
    uint32_t index;
    uint64_t seq;
    const struct topic *topic = task_topic(task, &seq);
    bool is_found = slot_table_find(&topic->slots, seq, &index);
    must(is_found); /* its place holds it */
    slot_table_at(&topic->slots, index)->is_sealed = true;
    if (member->held_count < member->credit)
        list_push(&group->idle, &member->idle_link);
    if (member->lease_ns > 0 && member->lease_timer.place == 0)
        timers_set(&core->timers, &member->lease_timer, core_clock(core) + member->lease_ns);
    sub_mark(core, member);
    return GIVEN;
}

/* Gives tasks to members with credit, as long as there are both.  false: no memory. */
static bool deal(struct core *core, struct group *group, uint32_t *left)
{
    struct sub *member;
    while (*left > 0 && (member = next_member(group)) != NULL) {
        enum given given = give(core, group, member);
        if (given != GIVEN)
            return given != NO_MEMORY_TO_GIVE;
        *left -= 1;
    }
    return true;
}

void groups_deal(struct core *core)
{
    uint32_t left = STEP_LEASES_MAX;
    struct list starved; /* tried again with the next event */
    list_init(&starved);
    while (left > 0 && !list_is_empty(&core->groups_due)) {
        struct group *group = LIST_OWNER(core->groups_due.next, struct group, due_link);
        bool has_memory = deal(core, group, &left);
        list_remove(&group->due_link);
        if (!has_memory)
            list_push(&starved, &group->due_link);
        else if (left == 0) {
            group_due(core, group); /* others come first */
            core->has_more = true;
        }
    }
    LIST_EACH(link, &starved) {
        list_remove(link);
        list_push(&core->groups_due, link);
    }
}

/* ---- members --------------------------------------------------------------------------------- */

struct group *group_make(struct core *core, struct sub *place, uint32_t deliver_max)
{
    struct group *group = pool_take(&core->groups);
    if (group == NULL)
        return NULL;
    group->place = place;
    group->deliver_max = deliver_max;
    list_init(&group->members);
    list_init(&group->idle);
    list_init(&group->waiting);
    list_init(&group->due_link);
    list_init(&group->letters);
    id_map_init(&group->past_ids, core->memory);
    place->group = group;
    if (!letter_topics(core, group)) {
        place->group = NULL;
        pool_give(&core->groups, group);
        return NULL;
    }
    note_group_made(core, group);
    /* Its first member may find no room: then nobody keeps it. */
    timers_set(&core->timers, &place->timer, core_clock(core) + place->keep_ns);
    return group;
}

bool group_join(struct core *core, struct group *group, struct sub *sub,
                const struct member_terms *terms)
{
    if (!timers_reserve(&core->timers))
        return false;
    sub->group = group;
    sub->credit = terms->credit;
    sub->lease_ns = terms->lease_ns;
    sub->lease_timer.kind = TIMER_LEASE;
    list_push(&group->members, &sub->member_link);
    group->taker_count += sub->credit > 0;
    group->place->is_expired = false;
    timers_clear(&core->timers, &group->place->timer);
    note_member_joined(core, sub);
    LIST_EACH(link, &group->place->routes)
        topic_update(core, LIST_OWNER(link, struct route, sub_link)->topic);
    return true;
}

void group_leave(struct core *core, struct sub *member, struct failure *failure)
{
    struct group *group = member->group;
    stop_giving(core, member);
    if (failure != NULL)
        release(core, member, failure);
    else
        release_left(core, member);
    list_remove(&member->member_link);
    timers_unreserve(&core->timers, &member->lease_timer);
    member->group = NULL;
    if (!list_is_empty(&group->members))
        return;
    timers_set(&core->timers, &group->place->timer, core_clock(core) + group->place->keep_ns);
}

static struct failure *unanswered(struct core *core, struct party *party,
                                  const struct open_slot *reply)
{
    struct text text;
    text_init(&text);
    text_add_span(&text, party->name);
    text_add(&text, " is done with the request and gave no answer");
    return failure_make(core, &(struct failure_spec){.job = party->job,
                                                     .party = party,
                                                     .kind = ERROR_APPLICATION,
                                                     .type = ERROR_TYPE_UNANSWERED,
                                                     .message = text.data,
                                                     .topic = reply->topic,
                                                     .seq = reply->seq});
}

/* The task is done with, and so is the request that it was. */
static void finish(struct core *core, struct task *task, const struct parked *op)
{
    bool is_request;
    struct open_slot *reply = task_request(core, task, &is_request);
    struct party *party = task->holder->party;
    task_end(core, task);
    if (reply == NULL)
        return;
    struct failure *failure =
        op->failure != NULL ? failure_ref(op->failure) : unanswered(core, party, reply);
    tell(core, party->job,
         &(struct tell){.name = EVENT_SLOT_FAILED,
                        .party = party,
                        .incarnation = party->incarnation,
                        .topic = reply->topic,
                        .seq = reply->seq,
                        .count = 1,
                        .failure = failure});
    settle_open_failed(core, reply, failure);
    failure_unref(core, failure);
}

enum how { DONE = 0, GIVEN_BACK = 1, REJECTED = 2, HAS_FAILED = 3 }; /* TASK.how, at most 3 */

void group_settle(struct core *core, struct session *session, const struct parked *op)
{
    const struct sub *member = sub_find(core, session, op->sub);
    bool is_request;
    if (member == NULL || !sub_is_member(member))
        return; /* closed meanwhile: then it was given back */
    struct task *task = task_find(core, member->group, op->topic, op->seq);
    if (task == NULL || task->holder != member || task->delivery != op->delivery)
        return; /* said twice; or its lease is over, as it was told */
    (void)task_request(core, task, &is_request);
    switch ((enum how)op->how) {
    case DONE: finish(core, task, op); break;
    case GIVEN_BACK: give_back(core, task, op->failure, 0, false); break;
    case REJECTED: give_back(core, task, op->failure, op->retry_after_ms, false); break;
    case HAS_FAILED:
        if (is_request && op->failure != NULL)
            finish(core, task, op);
        else
            give_back(core, task, op->failure, -1, false);
        break;
    }
}

/* ---- the end --------------------------------------------------------------------------------- */

void group_free(struct core *core, struct group *group)
{
    struct sub *place = group->place;
    group_restart(core, group);
    LIST_EACH(link, &group->letters)
        letter_free(core, group, LIST_OWNER(link, struct letter, link));
    LIST_EACH(link, &place->routes)
        route_forget_tasks(core, LIST_OWNER(link, struct route, sub_link));
    LIST_EACH(link, &group->members)
        group_leave(core, LIST_OWNER(link, struct sub, member_link), NULL);
    if (group->dead != NULL)
        group->dead->letters = NULL;
    if (group->why != NULL)
        group->why->letters = NULL;
    list_remove(&group->due_link);
    place->group = NULL;
    pool_give(&core->groups, group);
}

uint64_t group_undone(const struct group *group)
{
    uint64_t count = 0;
    LIST_EACH(link, &group->letters)
        count += LIST_OWNER(link, struct letter, link)->task != NULL;
    LIST_EACH(link, &group->place->routes) {
        const struct route *route = LIST_OWNER(link, struct route, sub_link);
        LIST_EACH(task, &route->tasks)
            count += 1;
        count += route->topic->slots.next_seq - route->next_seq;
    }
    return count;
}

/* One look more; false: they are used up. */
static bool may_look(uint32_t *count)
{
    if (*count == LIMIT_WHY_STEP)
        return false;
    *count += 1;
    return true;
}

static uint64_t route_waiting(const struct route *route, uint32_t *count)
{
    const struct topic *topic = route->topic;
    uint64_t waiting = topic->slots.next_seq - route->next_seq - topic->open_count;
    LIST_EACH(task, &route->tasks) {
        if (!may_look(count))
            break;
        waiting += LIST_OWNER(task, struct task, route_link)->state != TASK_LEASED;
    }
    return waiting;
}

uint64_t group_waiting(const struct group *group, uint32_t *looks)
{
    uint64_t waiting = 0;
    uint32_t count = 0;
    LIST_EACH(link, &group->place->routes) {
        if (!may_look(&count))
            break;
        waiting += route_waiting(LIST_OWNER(link, struct route, sub_link), &count);
    }
    LIST_EACH(link, &group->letters) {
        if (!may_look(&count))
            break;
        const struct task *task = LIST_OWNER(link, struct letter, link)->task;
        waiting += task != NULL && task->state != TASK_LEASED;
    }
    *looks += count;
    return waiting;
}

void groups_tell_dropped(struct core *core, struct job *job, struct failure *failure)
{
    LIST_EACH(link, &job->sub_list) {
        const struct sub *sub = LIST_OWNER(link, struct sub, job_link);
        uint64_t count = sub_is_place(sub) ? group_undone(sub->group) : 0;
        struct text text;
        if (count == 0)
            continue;
        text_init(&text);
        text_add(&text, "of ");
        text_add_span(&text, sub->name);
        tell(core, job,
             &(struct tell){.name = EVENT_TASKS_DROPPED,
                            .count = count,
                            .text = text.data,
                            .failure = failure});
    }
}

/* The delay of a task goes on by the wall clock, also over a restart.  If that clock jumped, the
 * task still waits at most for its delay. */
static void resume_task(struct core *core, struct task *task)
{
    int64_t left_ns = task->delay.due_wall_ns - core->wall_ns;
    int64_t whole_ms = task->delay.ms > 0 ? task->delay.ms : LIMIT_PERIOD_MS_MAX;
    if (task->state != TASK_DELAYED)
        return;
    if (left_ns < 0)
        left_ns = 0;
    if (left_ns > whole_ms * MS_NS)
        left_ns = whole_ms * MS_NS;
    timers_set(&core->timers, &task->timer, core_clock(core) + left_ns);
}

static void resume_group(struct core *core, struct group *group)
{
    LIST_EACH(link, &group->members) {
        struct sub *member = LIST_OWNER(link, struct sub, member_link);
        leases_rewind(member);
        if (member->held_count > 0 && member->lease_ns > 0)
            timers_set(&core->timers, &member->lease_timer, core_clock(core) + member->lease_ns);
    }
    LIST_EACH(link, &group->place->routes)
        route_ready(core, LIST_OWNER(link, struct route, sub_link));
}

void groups_resume(struct core *core)
{
    struct task *task = NULL;
    struct group *group = NULL;
    while ((task = pool_next(&core->tasks, task != NULL ? task->id : 0)) != NULL)
        resume_task(core, task);
    while ((group = pool_next(&core->groups, group != NULL ? group->id : 0)) != NULL)
        resume_group(core, group);
}
