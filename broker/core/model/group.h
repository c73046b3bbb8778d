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

/* What members share: groups/group.c. */
struct group {
    uint32_t id;
    struct sub *place; /* in its topics: a durable name of the party that stands for all groups */
    uint32_t deliver_max;
    struct list members;  /* subscriptions */
    uint32_t taker_count; /* of these, those that may be given something, now or later */
    struct list idle;     /* of these, those with credit left, who waited longest first */
    struct list waiting;  /* tasks that were given before, and are to be again */
    struct list due_link; /* in core->groups_due: there may be something to give */
    struct list letters;  /* dead ones, by number */
    uint32_t letter_count;
    struct id_map past_ids; /* of earlier attempts, given again: number -> id in core->tasks */
    struct topic *dead;     /* the values of letters; NULL: there was none yet */
    struct topic *why;      /* ... and their errors */
};

/* How a task was put off. */
struct task_delay {
    int64_t due_wall_ns; /* not given before, by the wall clock; 0: it is not put off */
    int64_t ms;          /* from the moment of that on; 0: an older broker did not say */
};

/* A value that was given to a member and is not done. */
struct task {
    uint32_t id;
    enum task_state state;
    struct group *group;
    struct route *route; /* the group's, in the topic that it is of */
    struct topic *topic; /* this and seq: its name for members and facts, see task_make() */
    uint64_t seq;
    struct letter *letter;   /* that it was, and where its value is; NULL: in the topic */
    uint32_t delivery;       /* how often it was given to a member */
    struct sub *holder;      /* LEASED */
    uint64_t chunk_offset;   /* LEASED: of its value that was sent */
    struct timer timer;      /* DELAYED */
    struct task_delay delay; /* kept until it is given */
    struct failure *errors[LIMIT_DELIVER]; /* of deliveries: references */
    uint32_t error_count;
    struct list route_link;  /* in route->tasks, unless it was a letter */
    struct list holder_link; /* in holder->leases, or group->waiting */
    struct list unsent_link; /* in holder->unsent */
};

/* A task that nobody could do: the slot of this number in both topics of its group. */
struct letter {
    struct list link;
    uint64_t number;
    struct topic *topic; /* where it was */
    uint64_t seq;
    uint32_t deliveries;
    int64_t at_ns;
    uint32_t attempt;  /* of the job, in which it died */
    struct task *task; /* it was given again; or NULL */
};

static inline bool sub_is_member(const struct sub *sub)
{
    return sub->group != NULL && sub->group->place != sub;
}
static inline bool sub_is_place(const struct sub *sub)
{
    return sub->group != NULL && sub->group->place == sub;
}

#endif
