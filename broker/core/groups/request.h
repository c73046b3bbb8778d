/* SPDX-License-Identifier: MPL-2.0 */
/* request.h -- requests: tasks with a slot for the reply. */
#ifndef CORE_GROUPS_REQUEST_H
#define CORE_GROUPS_REQUEST_H

#include "broker/core/model.h"

/* The slot of this run was written as a request: it gets its reply slot, or that fails. */
void request_written(struct core *core, struct session *session, struct topic *topic,
                     const struct event_run *run, bool is_kept);
/* Its timer fired: whether that was its deadline.  Otherwise it was looked at. */
bool request_look(struct core *core, struct open_slot *reply);

#endif
