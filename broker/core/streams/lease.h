/* SPDX-License-Identifier: MPL-2.0 */
/* lease.h -- tasks: slots that a group gave to a member, or is to give again. */
#ifndef CORE_STREAMS_LEASE_H
#define CORE_STREAMS_LEASE_H

#include "broker/core/model.h"

void group_due(struct core *core, struct group *group);
/* A member's connection stands; another one begins; its client has this lease. */
void leases_ready(struct core *core, struct sub *member);
void leases_rewind(struct sub *member);
void lease_has(struct core *core, struct sub *member, const struct msg_position *msg);
void task_timer(struct core *core, struct task *task);
/* NULL: there is no such task. */
struct task *task_find(const struct core *core, const struct group *group, uint32_t topic,
                       uint64_t seq);
/* The slot of the task's reply, or NULL: it wants none. */
struct open_slot *task_reply(const struct core *core, const struct task *task);
/* Where the task's value is. */
struct topic *task_topic(const struct task *task, uint64_t *out_seq);
/* It is done, cancelled or dead: nobody is told. */
void task_end(struct core *core, struct task *task);
/* The same, and whoever has it is told; failure may be NULL. */
void task_cancel(struct core *core, struct task *task, struct failure *failure);
/* A letter becomes a task; NULL: no memory. */
struct task *task_of_letter(struct core *core, struct group *group, struct letter *letter);
/* The job begins another attempt: its tasks are none. */
void route_forget_tasks(struct core *core, struct route *route);
void group_restart(struct core *core, struct group *group, bool keeps_letters);
/* For replay. */
struct task *task_lease(struct core *core, struct route *route, struct task *task, uint64_t seq,
                        uint32_t delivery, struct sub *member);
/* It is named by its slot, and a letter that is given again by the slot that it was; one of an
 * earlier attempt by that in which its value lies, for its own number may be another task's now.
 * NULL: no memory. */
struct task *task_make(struct core *core, struct route *route, struct letter *letter, uint64_t seq);
bool task_add_error(struct task *task, struct failure *failure);
void task_back(struct core *core, struct task *task, struct failure *failure,
               struct task_delay delay);
void route_pass(struct core *core, struct route *route, uint64_t next_seq);
void letter_free(struct core *core, struct group *group, struct letter *letter);
/* Below it no slot of this topic may go: a letter needs it.  UINT64_MAX: it is no such topic. */
uint64_t letter_floor(const struct topic *topic);
void task_tell_over(struct core *core, const struct task *task, struct failure *failure);
struct job *group_job(const struct group *group);
/* The slot of its reply that is not settled, or NULL.  A letter wants none: that was settled when
 * it died. */
struct open_slot *task_request(const struct core *core, const struct task *task,
                               bool *out_is_request);

#endif
