/* SPDX-License-Identifier: MPL-2.0 */
/* status.h -- what operators ask about jobs, parties, topics, subscriptions and groups. */
#ifndef CORE_STEP_STATUS_H
#define CORE_STEP_STATUS_H

#include "broker/core/model.h"

void tell_status(struct core *core, struct session *session, const struct msg_status *msg);

/* Answers a ping, on the channel on which it came. */
void tell_pong(struct core *core, const struct session *session, const struct msg *ping);

#endif
