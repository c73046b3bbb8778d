/* SPDX-License-Identifier: MPL-2.0 */
/* group.h -- members that share topics, the tasks that they are given, and dead letters. */
#ifndef CORE_MODEL_GROUP_H
#define CORE_MODEL_GROUP_H

#include "broker/core/model/sub.h"
#include "broker/core/tables/task.h"
#include "broker/core/tables/timers.h"
#include "libbus/base/limits.h"
#include "libbus/base/list.h"
#include "libbus/base/map.h"

#include <stdbool.h>
#include <stdint.h>

/* A group: groups/group.c. */
struct group {
    uint32_t id;
    struct sub *place; /* a durable subscription of GROUPS_PARTY */
    uint32_t deliver_max;
    struct list members;  /* subscriptions */
    uint32_t taker_count; /* members that may be given tasks, now or later */
    struct list idle;     /* members with credit left; the longest waiting first */
    struct list waiting;  /* tasks to be given again */
    struct list due_link; /* in core->groups_due: there may be something to give */
    struct list letters;  /* dead letters, by number */
    uint32_t letter_count;
    struct id_map past_ids; /* given again, of earlier attempts: number -> id in core->tasks */
    struct topic *dead;     /* the values of letters; NULL: there was none yet */
    struct topic *why;      /* the errors of letters */
};

/* How a task was put off. */
struct task_delay {
    int64_t due_wall_ns; /* when it may be given, by the wall clock; 0: at once */
    int64_t ms;          /* length of the delay */
};

/* A value that was given to a member and is not done. */
struct task {
    uint32_t id;
    enum task_state state;
    struct group *group;
    struct route *route; /* the group's route in the task's topic */
    struct topic *topic; /* this and seq: its name for members and facts, see task_make() */
    uint64_t seq;
    struct letter *letter;   /* the letter that it was, which has its value; or NULL */
    uint32_t delivery;       /* how often it was given to a member */
    struct sub *holder;      /* LEASED */
    int64_t since_ns;        /* LEASED: since when; core_clock() */
    uint64_t chunk_offset;   /* LEASED: sent of its value */
    struct timer timer;      /* DELAYED */
    struct task_delay delay; /* kept until it is given */
    struct failure *errors[LIMIT_DELIVER]; /* of deliveries: references */
    uint32_t error_count;
    struct list route_link;  /* in route->tasks, unless it was a letter */
    struct list holder_link; /* in holder->leases, or group->waiting */
    struct list unsent_link; /* in holder->unsent */
};

/* A dead letter: the slot of this number in both topics of letters of its group. */
struct letter {
    struct list link;
    uint64_t number;
    struct topic *topic; /* the slot of the task */
    uint64_t seq;
    uint32_t deliveries;
    int64_t at_ns;
    uint32_t attempt;  /* of the job, when the letter was written */
    struct task *task; /* when it is given again; or NULL */
};

static inline bool sub_is_member(const struct sub *sub)
{
    return sub->group != NULL && sub->group->place != sub;
}
/* Of a member: whether it may be given tasks, now or later. */
static inline bool sub_is_taker(const struct sub *member)
{
    return member->credit > 0;
}
static inline bool sub_is_place(const struct sub *sub)
{
    return sub->group != NULL && sub->group->place == sub;
}

#endif
