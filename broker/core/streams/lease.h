/* SPDX-License-Identifier: MPL-2.0 */
/* lease.h -- tasks: slots that a group gave to a member, or is to give again. */
#ifndef CORE_STREAMS_LEASE_H
#define CORE_STREAMS_LEASE_H

#include "broker/core/model.h"

/* The group's job. */
struct job *group_job(const struct group *group);
/* There may be something to give: groups_deal() looks at the group when the step ends. */
void group_due(struct core *core, struct group *group);
/* The task of this slot, or NULL. */
struct task *task_find(const struct core *core, const struct group *group, uint32_t topic,
                       uint64_t seq);
/* Where the task's value is. */
struct topic *task_topic(const struct task *task, uint64_t *out_seq);
/* The open slot of its reply, or NULL. */
struct open_slot *task_reply(const struct core *core, const struct task *task);
/* The same.  out_is_request: whether it is a request.  A letter is none: its reply was settled when
 * the letter was written. */
struct open_slot *task_request(const struct core *core, const struct task *task,
                               bool *out_is_request);
/* The task's name is its slot.  A letter that is given again has the name of the slot that it was;
 * a letter of an earlier attempt has that of the slot where its value lies.  NULL: no memory. */
struct task *task_make(struct core *core, struct route *route, struct letter *letter, uint64_t seq);
/* Deliveries of the letter that it was; 0: it was none.  A task counts on from there: a message
 * about an earlier delivery, which a restart of the broker lets come late, is of no later one. */
uint32_t task_deliveries_before(const struct task *task);
/* A letter becomes a task; NULL: no memory. */
struct task *task_of_letter(struct core *core, struct group *group, struct letter *letter);
/* The member gets the task; task NULL: a new one.  For replay, too.  NULL: no memory. */
struct task *task_lease(struct core *core, struct route *route, struct task *task, uint64_t seq,
                        uint32_t delivery, struct sub *member);
/* The member has it no more; it waits to be given again, after a delay if there is one. */
void task_back(struct core *core, struct task *task, struct failure *failure,
               struct task_delay delay);
/* The delay is over. */
void task_timer(struct core *core, struct task *task);
/* false: it has as many errors as it may. */
bool task_add_error(struct task *task, struct failure *failure);
/* It is done, cancelled or dead; nobody is told. */
void task_end(struct core *core, struct task *task);
/* The same, and the member that has it is told; failure may be NULL. */
void task_cancel(struct core *core, struct task *task, struct failure *failure);
/* Tells the member that its lease is over. */
void task_tell_over(struct core *core, const struct task *task, struct failure *failure);
/* The member's connection stands: it may be given tasks. */
void leases_ready(struct core *core, struct sub *member);
/* The member has another connection: its leases are sent again. */
void leases_rewind(struct sub *member);
/* The member's client says that it has this lease. */
void lease_has(struct core *core, struct sub *member, const struct msg_position *msg);
/* The group passes over the slots below next_seq: they are no tasks. */
void route_pass(struct core *core, struct route *route, uint64_t next_seq);
/* The tasks of a topic are freed without a word. */
void route_forget_tasks(struct core *core, struct route *route);
/* The job begins another attempt: letters that were given again are no tasks any more. */
void group_restart(struct core *core, struct group *group);
void letter_free(struct core *core, struct group *group, struct letter *letter);
/* Below it no slot of this topic may go: a letter needs it.  UINT64_MAX: no letter does. */
uint64_t letter_floor(const struct topic *topic);

#endif
