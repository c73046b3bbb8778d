/* SPDX-License-Identifier: MPL-2.0 */
/* request.h -- requests: tasks with a slot for the reply. */
#ifndef CORE_GROUPS_REQUEST_H
#define CORE_GROUPS_REQUEST_H

#include "broker/core/model.h"

/* The slot of this run was written as a request: it gets its reply slot, or that fails. */
void request_written(struct core *core, struct session *session, struct topic *topic,
                     const struct event_run *run, bool is_kept);
/* For replay, too: reply NULL: it is settled.  false: no memory. */
bool request_link(struct core *core, struct topic *topic, uint64_t seq, struct open_slot *reply);
/* The reply slot that is not settled, or NULL; out_is_request: whether the slot is a request. */
struct open_slot *request_reply(const struct core *core, const struct topic *topic, uint64_t seq,
                                bool *out_is_request);
/* Its reply slot is about to be settled: tasks for it are cancelled.  failure: what with; NULL: a
 * value. */
void request_settled(struct core *core, struct open_slot *reply, struct failure *failure);
/* The task with which this session may settle the reply slot, or NULL. */
struct task *request_task(const struct core *core, const struct session *session,
                          const struct open_slot *reply);
/* A slot that may have been a request is kept no more. */
void request_forget(struct core *core, struct topic *topic, const struct slot_entry *entry);
void request_unlink(struct core *core, struct open_slot *reply);
/* Its timer fired: whether that was its deadline.  Otherwise it was looked at. */
bool request_look(struct core *core, struct open_slot *reply);
void request_arm(struct core *core, struct open_slot *reply);
/* The last member of a group that serves the topic is gone: its requests wait for another. */
void request_arm_all(struct core *core, struct topic *topic);

#endif
