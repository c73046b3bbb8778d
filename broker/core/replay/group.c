/* SPDX-License-Identifier: MPL-2.0 */
/* group.c -- replays facts about groups, tasks, dead letters and requests. */
#include "broker/core/replay/facts.h"

#include "broker/core/groups/group.h"
#include "broker/core/groups/letter.h"
#include "broker/core/replay/lookup.h"
#include "broker/core/streams/lease.h"
#include "broker/core/streams/open_slot.h"
#include "broker/core/streams/reply.h"
#include "broker/core/tables/task.h"

const char *replay_group_made(struct core *core, const struct fact_group_made *fact)
{
    struct sub *place = replayed_sub(core, fact->group);
    if (place == NULL)
        return WRONG_NO_SUB;
    if (place->group != NULL || place->session != NULL || place->name.bytes == 0 ||
        place->name.bytes > LIMIT_GROUP_NAME_BYTES || fact->deliver_max == 0)
        return WRONG_NO_ORDER;
    return group_make(core, place, (uint32_t)fact->deliver_max) != NULL ? NULL : WRONG_NO_MEMORY;
}

const char *replay_member_joined(struct core *core, struct group *group,
                                 const struct fact_member_joined *fact)
{
    struct sub *sub = replayed_sub(core, fact->sub);
    if (sub == NULL)
        return WRONG_NO_SUB;
    if (sub->group != NULL || sub->session == NULL || sub->job != group->place->job ||
        !list_is_empty(&sub->routes))
        return WRONG_NO_ORDER;
    return group_join(core, group, sub,
                      &(struct member_terms){.credit = (uint32_t)fact->credit,
                                             .lease_ns = (int64_t)fact->lease_ms * MS_NS})
               ? NULL
               : WRONG_NO_MEMORY;
}

const char *replay_member_drained(struct core *core, struct group *group,
                                  const struct fact_member_drained *fact)
{
    struct sub *member = replayed_sub(core, fact->sub);
    if (member == NULL || member->group != group || sub_is_place(member))
        return WRONG_NO_SUB;
    group_drain(core, member);
    return NULL;
}

const char *replay_leased(struct core *core, struct route *route, const struct fact_leased *fact)
{
    struct sub *member = replayed_sub(core, fact->sub);
    struct task *task = task_find(core, route->sub->group, (uint32_t)fact->topic, fact->seq);
    if (member == NULL || member->group != route->sub->group || sub_is_place(member))
        return WRONG_NO_SUB;
    if ((task != NULL && task->state == TASK_LEASED) || fact->delivery == 0)
        return WRONG_NO_ORDER;
    return task_lease(core, route, task, fact->seq, (uint32_t)fact->delivery, member) != NULL
               ? NULL
               : WRONG_NO_MEMORY;
}

/* Of a task that nobody had before only a snapshot tells so. */
const char *replay_task_back(struct core *core, struct route *route,
                             const struct fact_task_back *fact)
{
    const char *wrong = NULL;
    struct failure *failure = replayed_failure(core, fact->failure, &wrong);
    struct task *task = task_find(core, route->sub->group, (uint32_t)fact->topic, fact->seq);
    if (wrong == NULL && (fact->delivery == 0 || (task != NULL && task->state == TASK_DELAYED)))
        wrong = WRONG_NO_ORDER;
    if (wrong == NULL && task == NULL) {
        task = task_make(core, route, NULL, fact->seq);
        if (task == NULL)
            return WRONG_NO_MEMORY;
        list_push(&route->tasks, &task->route_link);
    }
    if (wrong != NULL)
        return wrong;
    task->delivery = (uint32_t)fact->delivery;
    if (task->state == TASK_WAITING) {
        list_remove(&task->holder_link);
        bool is_allowed = task_next(task->state, TASK_IS_LEASED, &task->state);
        must(is_allowed);
    }
    task_back(core, task, failure,
              (struct task_delay){.due_wall_ns = fact->due_wall_ns,
                                  .ms = fact->later_ms < LIMIT_PERIOD_MS_MAX
                                            ? (int64_t)fact->later_ms
                                            : LIMIT_PERIOD_MS_MAX});
    return NULL;
}

const char *replay_task_error(struct core *core, struct route *route,
                              const struct fact_task_error *fact)
{
    const char *wrong = NULL;
    struct failure *failure = replayed_failure(core, fact->failure, &wrong);
    struct task *task = task_find(core, route->sub->group, (uint32_t)fact->topic, fact->seq);
    if (failure == NULL)
        return WRONG_NO_ERROR;
    if (task == NULL) {
        task = task_make(core, route, NULL, fact->seq);
        if (task == NULL)
            return WRONG_NO_MEMORY;
        list_push(&route->tasks, &task->route_link);
    }
    return task_add_error(task, failure) ? NULL : WRONG_NO_ORDER;
}

const char *replay_task_ended(struct core *core, struct route *route,
                              const struct fact_task_ended *fact)
{
    struct task *task = task_find(core, route->sub->group, (uint32_t)fact->topic, fact->seq);
    if (task == NULL)
        return WRONG_NO_ORDER;
    task_end(core, task);
    return NULL;
}

const char *replay_passed(struct core *core, struct group *group, const struct fact_passed *fact)
{
    struct route *route = replayed_route(core, group->place, fact->topic);
    if (route == NULL)
        return WRONG_NO_TOPIC;
    if (fact->next_seq < route->next_seq)
        return WRONG_NO_ORDER;
    route_pass(core, route, fact->next_seq);
    return NULL;
}

const char *replay_letter_kept(struct core *core, struct group *group,
                               const struct fact_letter_kept *fact)
{
    struct topic *topic = replayed_topic(core, fact->topic);
    const struct job *job = group->place->job;
    uint32_t attempt = (uint32_t)fact->attempt;
    if (topic == NULL || topic->job != job)
        return WRONG_NO_TOPIC;
    if (!list_is_empty(&group->letters) &&
        fact->number <= LIST_OWNER(group->letters.prev, struct letter, link)->number)
        return WRONG_NO_ORDER;
    return letter_keep(core, group,
                       &(struct letter){.number = fact->number,
                                        .topic = topic,
                                        .seq = fact->seq,
                                        .deliveries = (uint32_t)fact->deliveries,
                                        .at_ns = fact->at_ns,
                                        .attempt = attempt})
               ? NULL
               : WRONG_NO_MEMORY;
}

static const char *letter_moved(struct core *core, struct group *group, uint64_t number,
                                bool is_gone)
{
    struct letter *letter = letter_find(group, number);
    if (letter == NULL || letter->task != NULL)
        return WRONG_NO_ORDER;
    if (is_gone)
        letter_free(core, group, letter);
    else if (task_of_letter(core, group, letter) == NULL)
        return WRONG_NO_MEMORY;
    return NULL;
}

const char *replay_letter_replayed(struct core *core, struct group *group,
                                   const struct fact_letter_replayed *fact)
{
    return letter_moved(core, group, fact->number, false);
}

const char *replay_letter_gone(struct core *core, struct group *group,
                               const struct fact_letter_gone *fact)
{
    return letter_moved(core, group, fact->number, true);
}

const char *replay_requested(struct core *core, struct topic *topic,
                             const struct fact_requested *fact)
{
    struct topic *replies = replayed_topic(core, fact->reply_topic);
    bool is_request;
    if (fact->reply_topic != 0 && replies == NULL)
        return WRONG_NO_TOPIC;
    (void)reply_find(core, topic, fact->seq, &is_request);
    if (is_request)
        return WRONG_TWICE;
    struct open_slot *reply =
        replies != NULL ? open_slot_find(core, replies, fact->reply_seq) : NULL;
    if (replies != NULL && (reply == NULL || open_slot_is_reply(reply)))
        return WRONG_NO_SLOT;
    return reply_link(core, topic, fact->seq, reply) ? NULL : WRONG_NO_MEMORY;
}
