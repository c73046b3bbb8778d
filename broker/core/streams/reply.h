/* SPDX-License-Identifier: MPL-2.0 */
/* reply.h -- the slot for the reply of a request, and how the two find each other. */
#ifndef CORE_STREAMS_REPLY_H
#define CORE_STREAMS_REPLY_H

#include "broker/core/model.h"

/* For replay, too: reply NULL: it is settled.  false: no memory. */
bool reply_link(struct core *core, struct topic *topic, uint64_t seq, struct open_slot *reply);
/* The reply slot that is not settled, or NULL; out_is_request: whether the slot is a request. */
struct open_slot *reply_find(const struct core *core, const struct topic *topic, uint64_t seq,
                             bool *out_is_request);
/* Its reply slot is about to be settled: tasks for it are cancelled.  failure: what with; NULL: a
 * value. */
void reply_settled(struct core *core, struct open_slot *reply, struct failure *failure);
/* The task with which this session may settle the reply slot, or NULL. */
struct task *reply_task(const struct core *core, const struct session *session,
                        const struct open_slot *reply);
/* A slot that may have been a request is kept no more. */
void reply_forget(struct core *core, struct topic *topic, const struct slot_entry *entry);
void reply_unlink(struct core *core, struct open_slot *reply);
void reply_arm(struct core *core, struct open_slot *reply);
/* The last member of a group that serves the topic is gone: its requests wait for another. */
void reply_arm_all(struct core *core, struct topic *topic);
/* Whether somebody works on it, or a group with a member that may be given it has it, or will come
 * to it: one that began behind it never will. */
bool reply_is_served(const struct core *core, const struct open_slot *reply);

#endif
