/* SPDX-License-Identifier: MPL-2.0 */
/* parked.h -- control messages that settle: they wait for the data that they follow. */
#ifndef CORE_LIFECYCLE_PARKED_H
#define CORE_LIFECYCLE_PARKED_H

#include "broker/core/model.h"

bool parked_add(struct core *core, struct session *session, const struct parked *op);
/* What was parked up to this number is done. */
void parked_passed(struct core *core, struct session *session, uint64_t number);
bool parked_remember_granted(struct core *core, struct session *session, uint64_t number);
/* FAIL RETRACT COMPLETE LEAVE FAIL_PARTY ACK(numbered): now, or when the data before is in.
 * A complaint about the message, or NULL. */
const char *parked_take(struct core *core, struct session *session, const struct msg *msg);
void parked_execute(struct core *core, struct session *session);
/* The session ends: what is parked settles with what is there.  Whether a LEAVE was among it. */
bool parked_end(struct core *core, struct session *session);
void parked_free_all(struct core *core, struct session *session);

#endif
