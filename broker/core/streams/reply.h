/* SPDX-License-Identifier: MPL-2.0 */
/* reply.h -- the slot for the reply of a request, and how the two find each other. */
#ifndef CORE_STREAMS_REPLY_H
#define CORE_STREAMS_REPLY_H

#include "broker/core/model.h"

/* Links a request to its reply slot; reply NULL: the reply is settled.  false: no memory. */
bool reply_link(struct core *core, struct topic *topic, uint64_t seq, struct open_slot *reply);
void reply_unlink(struct core *core, struct open_slot *reply);
/* The open reply slot of a request, or NULL.  out_is_request: whether the slot is a request. */
struct open_slot *reply_find(const struct core *core, const struct topic *topic, uint64_t seq,
                             bool *out_is_request);
/* The topic drops this entry; requests in it are forgotten. */
void reply_forget(struct core *core, struct topic *topic, const struct slot_entry *entry);
/* The reply slot is about to be settled: tasks for it are cancelled.  failure NULL: a value. */
void reply_settled(struct core *core, struct open_slot *reply, struct failure *failure);
/* The task with which this session may settle the reply slot, or NULL. */
struct task *reply_task(const struct core *core, const struct session *session,
                        const struct open_slot *reply);
/* Whether a member works on the request, or a group with a member will come to it. */
bool reply_is_served(const struct core *core, const struct open_slot *reply);
/* Sets the timer: the deadline while the request is served, else the time until its session is told
 * that it is not. */
void reply_arm(struct core *core, struct open_slot *reply);
/* Sets the timer, but not beyond the time when the request fails. */
void reply_look_at(struct core *core, struct open_slot *reply, int64_t due_ns);
/* The last member of a group that serves the topic is gone: its requests wait for another. */
void reply_arm_all(struct core *core, struct topic *topic);

#endif
