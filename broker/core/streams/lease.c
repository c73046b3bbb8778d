/* SPDX-License-Identifier: MPL-2.0 */
/* lease.c -- tasks: slots that a group gave to a member, or is to give again.
 *
 * A task is in the table of its route, by the number of its slot.  It is also in a list: that of
 * the member that holds it, or that of the group.  A dead letter that is given again points to it.
 */
#include "broker/core/streams/lease.h"

#include "broker/core/record/failure.h"
#include "broker/core/record/note.h"
#include "broker/core/streams/number.h"
#include "broker/core/streams/open_slot.h"
#include "broker/core/streams/reply.h"
#include "broker/core/streams/sub.h"
#include "broker/core/streams/topic.h"
#include "broker/core/tables/effect.h"
#include "broker/core/tables/task.h"
#include "broker/core/tables/timers.h"

struct job *group_job(const struct group *group)
{
    return group->place->job;
}

struct task *task_find(const struct core *core, const struct group *group, uint32_t topic,
                       uint64_t seq)
{
    uint32_t id;
    if (group->dead != NULL && group->dead->id == topic)
        return id_map_get(&group->past_ids, seq, &id) ? pool_find(&core->tasks, id) : NULL;
    if (!id_map_get(&group->place->route_ids, topic, &id))
        return NULL;
    const struct route *route = pool_find(&core->routes, id);
    return id_map_get(&route->task_ids, seq, &id) ? pool_find(&core->tasks, id) : NULL;
}

struct topic *task_topic(const struct task *task, uint64_t *out_seq)
{
    *out_seq = task->letter != NULL ? task->letter->number : task->seq;
    return task->letter != NULL ? task->group->dead : task->route->topic;
}

static void task_move(struct task *task, enum task_event event)
{
    bool is_allowed = task_next(task->state, event, &task->state);
    must(is_allowed);
}

static bool is_past(const struct group *group, const struct letter *letter)
{
    return letter != NULL && letter->attempt != group_job(group)->attempt;
}

/* Where it is found by its number. */
static struct id_map *ids_of(const struct task *task)
{
    return task->topic == task->group->dead ? &task->group->past_ids : &task->route->task_ids;
}

struct task *task_make(struct core *core, struct route *route, struct letter *letter, uint64_t seq)
{
    struct group *group = route->sub->group;
    struct task *task = pool_take(&core->tasks);
    if (task == NULL)
        return NULL;
    task->group = group;
    task->route = route;
    task->letter = letter;
    task->topic = is_past(group, letter) ? group->dead : route->topic;
    task->seq = is_past(group, letter) ? letter->number : seq;
    bool has_timer = timers_reserve(&core->timers);
    if (!has_timer || !id_map_put(ids_of(task), task->seq, task->id)) {
        if (has_timer)
            timers_unreserve(&core->timers, &task->timer);
        pool_give(&core->tasks, task);
        return NULL;
    }
    task->state = TASK_WAITING;
    task->timer.kind = TIMER_TASK;
    list_init(&task->route_link);
    list_init(&task->holder_link);
    list_init(&task->unsent_link);
    return task;
}

struct open_slot *task_request(const struct core *core, const struct task *task,
                               bool *out_is_request)
{
    *out_is_request = false;
    return task->letter == NULL ? reply_find(core, task->topic, task->seq, out_is_request) : NULL;
}

struct open_slot *task_reply(const struct core *core, const struct task *task)
{
    bool is_request;
    return task_request(core, task, &is_request);
}

/* Below it all is done. */
static void move_floor(struct core *core, struct route *route)
{
    route->taken_seq = route->next_seq;
    route->acked_seq = route->next_seq;
    if (!list_is_empty(&route->tasks))
        route->acked_seq = LIST_OWNER(route->tasks.next, struct task, route_link)->seq;
    topic_update(core, route->topic);
}

void route_pass(struct core *core, struct route *route, uint64_t next_seq)
{
    route->next_seq = next_seq;
    note_passed(core, route);
    move_floor(core, route);
}

static void member_idle(struct core *core, struct sub *member)
{
    if (member->held_count < member->credit && !list_is_linked(&member->idle_link)) {
        list_push(&member->group->idle, &member->idle_link);
        group_due(core, member->group);
    }
}

/* Nobody has it any more. */
static void unlease(struct core *core, struct task *task)
{
    struct sub *member = task->holder;
    list_remove(&task->holder_link);
    list_remove(&task->unsent_link);
    if (member == NULL)
        return;
    task->holder = NULL;
    task->chunk_offset = 0;
    member->held_count -= 1;
    member_idle(core, member);
}

static void free_task(struct core *core, struct task *task)
{
    for (uint32_t i = 0; i < task->error_count; i++)
        failure_unref(core, task->errors[i]);
    timers_unreserve(&core->timers, &task->timer);
    list_remove(&task->route_link);
    id_map_remove(ids_of(task), task->seq);
    if (task->letter != NULL)
        task->letter->task = NULL;
    pool_give(&core->tasks, task);
}

void task_end(struct core *core, struct task *task)
{
    struct route *route = task->route;
    struct letter *letter = task->letter;
    struct group *group = task->group;
    note_task_ended(core, task);
    task_move(task, TASK_ENDS);
    unlease(core, task);
    free_task(core, task);
    if (letter != NULL)
        letter_free(core, group, letter);
    move_floor(core, route);
}

void task_tell_over(struct core *core, const struct task *task, struct failure *failure)
{
    const struct sub *member = task->holder;
    if (member->session == NULL || member->session->control == 0)
        return; /* told when it says that it has it, on the next connection */
    struct msg_task_over *msg =
        &effects_msg(core->effects, member->session->control, MSG_TASK_OVER)->as.task_over;
    msg->sub = member->number;
    msg->topic = task->topic->number;
    msg->seq = task->seq;
    msg->delivery = task->delivery;
    msg->error = failure_span(failure);
}

void task_cancel(struct core *core, struct task *task, struct failure *failure)
{
    if (task->holder != NULL)
        task_tell_over(core, task, failure);
    task_end(core, task);
}

bool task_add_error(struct task *task, struct failure *failure)
{
    if (task->error_count == LIMIT_DELIVER)
        return false;
    task->errors[task->error_count++] = failure_ref(failure);
    return true;
}

void task_back(struct core *core, struct task *task, struct failure *failure,
               struct task_delay delay)
{
    bool is_request;
    struct open_slot *reply = task_request(core, task, &is_request);
    if (failure != NULL)
        (void)task_add_error(task, failure); /* a task has no more deliveries than that */
    task->delay = delay;
    note_task_back(core, task, failure);
    if (reply != NULL)
        open_slot_drop_chunks(core, reply);
    unlease(core, task);
    if (reply != NULL && task->group->taker_count == 0 && !core->is_replaying)
        reply_arm(core, reply); /* nobody works on it, and nobody is there who could */
    if (delay.due_wall_ns == 0) {
        task_move(task, TASK_COMES_BACK);
        list_push(&task->group->waiting, &task->holder_link);
        group_due(core, task->group);
        return;
    }
    task_move(task, TASK_IS_PUT_OFF);
    if (!core->is_replaying)
        timers_set(&core->timers, &task->timer, core_clock(core) + delay.ms * MS_NS);
}

void task_timer(struct core *core, struct task *task)
{
    task_move(task, TASK_IS_DUE);
    list_push(&task->group->waiting, &task->holder_link);
    group_due(core, task->group);
}

uint32_t task_deliveries_before(const struct task *task)
{
    if (task->letter == NULL)
        return 0;
    bool has_room =
        task->letter->deliveries + task->group->deliver_max <= UINT8_MAX; /* a frame's */
    return has_room ? task->letter->deliveries : 0;
}

struct task *task_of_letter(struct core *core, struct group *group, struct letter *letter)
{
    uint32_t id;
    if (!id_map_get(&group->place->route_ids, letter->topic->id, &id))
        return NULL;
    struct task *task = task_make(core, pool_find(&core->routes, id), letter, letter->seq);
    if (task == NULL)
        return NULL;
    letter->task = task;
    task->delivery = task_deliveries_before(task);
    note_letter_replayed(core, group, letter);
    list_push(&group->waiting, &task->holder_link);
    group_due(core, group);
    return task;
}

void group_due(struct core *core, struct group *group)
{
    if (!list_is_linked(&group->due_link))
        list_push(&core->groups_due, &group->due_link);
}

static void lease(struct core *core, struct task *task, struct sub *member)
{
    task_move(task, TASK_IS_LEASED);
    list_remove(&task->holder_link);
    task->holder = member;
    task->since_ns = core_clock(core);
    task->delay = (struct task_delay){0, 0};
    list_push(&member->leases, &task->holder_link);
    list_push(&member->unsent, &task->unsent_link);
    member->held_count += 1;
    list_remove(&member->idle_link);
    note_leased(core, task);
}

/* Nothing is done here that follows from the time. */
struct task *task_lease(struct core *core, struct route *route, struct task *task, uint64_t seq,
                        uint32_t delivery, struct sub *member)
{
    if (task == NULL)
        task = task_make(core, route, NULL, seq);
    if (task == NULL)
        return NULL;
    if (!list_is_linked(&task->route_link) && task->letter == NULL)
        list_push(&route->tasks, &task->route_link);
    if (task->state == TASK_DELAYED) /* that its time came is no fact */
        task_move(task, TASK_IS_DUE);
    task->delivery = delivery;
    lease(core, task, member);
    if (seq >= route->next_seq && task->letter == NULL)
        route->next_seq = seq + 1;
    move_floor(core, route);
    return task;
}

void leases_ready(struct core *core, struct sub *member)
{
    member_idle(core, member);
    if (!list_is_empty(&member->unsent))
        sub_mark(core, member);
}

void leases_rewind(struct sub *member)
{
    member->named_topic = 0;
    member->named_replies = 0;
    LIST_EACH(link, &member->leases) {
        struct task *task = LIST_OWNER(link, struct task, holder_link);
        task->chunk_offset = 0;
        list_remove(&task->unsent_link);
        list_push(&member->unsent, &task->unsent_link);
    }
}

void lease_has(struct core *core, struct sub *member, const struct msg_position *msg)
{
    struct task *task =
        task_find(core, member->group, topic_id_of(core, (uint32_t)msg->topic), msg->next_seq);
    if (task != NULL && task->holder == member && task->delivery == msg->chunk_offset) {
        list_remove(&task->unsent_link);
        return;
    }
    struct msg_task_over *over =
        &effects_msg(core->effects, member->session->control, MSG_TASK_OVER)->as.task_over;
    over->sub = member->number;
    over->topic = msg->topic;
    over->seq = msg->next_seq;
    over->delivery = msg->chunk_offset <= UINT8_MAX ? msg->chunk_offset : 0;
}

/* Without a word: what they belong to goes. */
static void drop_tasks(struct core *core, struct route *route)
{
    const struct id_map *ids = &route->task_ids;
    for (uint32_t i = 0; i < ids->room; i++)
        while (ids->entries[i].is_used) { /* another may take the place of the one that goes */
            struct task *task = pool_find(&core->tasks, ids->entries[i].value);
            unlease(core, task);
            free_task(core, task);
        }
}

void route_forget_tasks(struct core *core, struct route *route)
{
    drop_tasks(core, route);
    id_map_fini(&route->task_ids);
}

void group_restart(struct core *core, struct group *group)
{
    LIST_EACH(link, &group->letters) {
        struct letter *letter = LIST_OWNER(link, struct letter, link);
        if (letter->task != NULL) {
            unlease(core, letter->task);
            free_task(core, letter->task);
        }
    }
    id_map_fini(&group->past_ids);
}

void letter_free(struct core *core, struct group *group, struct letter *letter)
{
    list_remove(&letter->link);
    group->letter_count -= 1;
    memory_give(core->memory, letter, sizeof *letter);
    topic_update(core, group->dead);
    topic_update(core, group->why);
}

uint64_t letter_floor(const struct topic *topic)
{
    const struct group *group = topic->letters;
    if (group == NULL || list_is_empty(&group->letters))
        return UINT64_MAX;
    return LIST_OWNER(group->letters.next, struct letter, link)->number;
}
