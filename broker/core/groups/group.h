/* SPDX-License-Identifier: MPL-2.0 */
/* group.h -- groups: members, and what becomes of a task that was not done. */
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
/* An incarnation is over: what its members hold is given to others, in the same step. */
void group_party_ended(struct core *core, struct session *session, struct failure *failure);
/* At the end of a step: what can be given is given. */
void groups_deal(struct core *core);
/* What a member has made of a task. */
void group_settle(struct core *core, struct session *session, const struct parked *op);
void group_lease_timer(struct core *core, struct sub *member);
/* Tasks that nobody has, those that are put off and letters that were given again among them.  At
 * most LIMIT_WHY_STEP topics, tasks and letters of the group are looked at, and added to looks. */
uint64_t group_waiting(const struct group *group, uint32_t *looks);
/* Tasks that are not done, whoever has them, letters that were given again among them. */
uint64_t group_undone(const struct group *group);
/* Before it does: operators are told of what was not done, and never will be. */
void groups_tell_dropped(struct core *core, struct job *job, struct failure *failure);
void groups_resume(struct core *core); /* at the end of a replay */

#endif
