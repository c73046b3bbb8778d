/* SPDX-License-Identifier: MPL-2.0 */
/* group.h -- groups: members, leases, what becomes of a task that was not done. */
#ifndef CORE_GROUPS_GROUP_H
#define CORE_GROUPS_GROUP_H

#include "broker/core/model.h"

struct member_terms {
    uint32_t credit;
    int64_t lease_ns;
};
/* The group of this name, or NULL. */
struct group *group_find(struct core *core, const struct job *job, struct span name);
/* This subscription is the place of a group from now on; NULL: no memory. */
struct group *group_make(struct core *core, struct sub *place, uint32_t deliver_max);
/* ... and this one a member; false: no memory. */
bool group_join(struct core *core, struct group *group, struct sub *sub,
                const struct member_terms *terms);
/* A subscription that is the place of a group, or its member, goes.  Its leases are nobody's any
 * more: with this failure, or (NULL) one that says that it left. */
void group_leave(struct core *core, struct sub *member, struct failure *failure);
/* A member is given nothing more; what it has it keeps. */
void group_drain(struct core *core, struct sub *member);
void group_free(struct core *core, struct group *group);
/* A party's life is over: what its members hold is given to others, in the same step. */
void group_party_ended(struct core *core, struct session *session, struct failure *failure);
void group_due(struct core *core, struct group *group);
/* At the end of a step: what can be given is given. */
void groups_deal(struct core *core);
/* A member's connection stands; another one begins; its client has this lease. */
void group_member_ready(struct core *core, struct sub *member);
void group_member_rewind(struct sub *member);
void group_member_has(struct core *core, struct sub *member, const struct msg_position *msg);
/* What a member has made of a task. */
void group_settle(struct core *core, struct session *session, const struct parked *op);
void group_lease_timer(struct core *core, struct sub *member);
void group_task_timer(struct core *core, struct task *task);
/* NULL: there is no such task. */
struct task *group_task(const struct core *core, const struct group *group, uint32_t topic,
                        uint64_t seq);
/* The slot of the task's reply, or NULL: it wants none. */
struct open_slot *group_reply(const struct core *core, const struct task *task);
/* Where the task's value is. */
struct topic *task_topic(const struct task *task, uint64_t *out_seq);
/* It is done, cancelled or dead: nobody is told. */
void task_end(struct core *core, struct task *task);
/* The same, and whoever has it is told; failure may be NULL. */
void task_cancel(struct core *core, struct task *task, struct failure *failure);
/* A letter becomes a task; NULL: no memory. */
struct task *task_of_letter(struct core *core, struct group *group, struct letter *letter);
/* The job begins another attempt: its tasks are none. */
void group_route_restart(struct core *core, struct route *route);
void group_restart(struct core *core, struct group *group, bool keeps_letters);
/* Tasks that nobody has, those that are put off and letters that were given again among them. */
uint64_t group_waiting(const struct group *group);
/* Before it does: operators are told of what was not done, and never will be. */
void groups_tell_dropped(struct core *core, struct job *job, struct failure *failure);
void groups_resume(struct core *core); /* at the end of a replay */
/* For replay. */
struct task *group_lease(struct core *core, struct route *route, struct task *task, uint64_t seq,
                         uint32_t delivery, struct sub *member);
/* It is named by its slot, and a letter that is given again by the slot that it was; one of an
 * earlier attempt by that in which its value lies, for its own number may be another task's now.
 * NULL: no memory. */
struct task *group_task_make(struct core *core, struct route *route, struct letter *letter,
                             uint64_t seq);
bool task_add_error(struct task *task, struct failure *failure);
void task_back(struct core *core, struct task *task, struct failure *failure,
               struct task_delay delay);
void group_pass(struct core *core, struct route *route, uint64_t next_seq);

#endif
