/* SPDX-License-Identifier: MPL-2.0 */
/* request.h -- requests: tasks with a slot for the reply. */
#ifndef CORE_GROUPS_REQUEST_H
#define CORE_GROUPS_REQUEST_H

#include "broker/core/model.h"

/* The slot of this range was written as a request: it gets its reply slot, or that slot fails. */
void request_written(struct core *core, struct session *session, struct topic *topic,
                     const struct event_range *range, bool is_kept);
/* The request could not be written: the slot for its reply fails. */
void request_refused(struct core *core, struct session *session, uint64_t reply_to);
/* The timer of a reply slot fired.  true: its deadline has passed.  false: it was looked at, and it
 * failed if nobody serves the request. */
bool request_look(struct core *core, struct open_slot *reply);

#endif
