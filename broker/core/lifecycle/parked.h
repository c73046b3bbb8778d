/* SPDX-License-Identifier: MPL-2.0 */
/* parked.h -- control messages that wait for the data that was sent before them. */
#ifndef CORE_LIFECYCLE_PARKED_H
#define CORE_LIFECYCLE_PARKED_H

#include "broker/core/model.h"

/* Executes a message of this type, or parks it until the data before it is here.  The session may
 * be gone afterwards.  Returns a complaint about the message, or NULL. */
const char *parked_take(struct core *core, struct session *session, enum parked_type type,
                        const struct msg *msg);
/* Whether messages with this number may wait. */
bool parked_is_type(uint64_t type);
/* The message waits for its data; false: too many messages wait, or no memory. */
bool parked_add(struct core *core, struct session *session, const struct parked *op);
/* Executes what has its data.  The session may be gone afterwards. */
void parked_execute(struct core *core, struct session *session);
/* The session ends: executes all that is parked, with the data that is here.  Returns whether
 * LEAVE or FAIL_PARTY was among it: then the session is gone. */
bool parked_end(struct core *core, struct session *session);
/* For replay: what was parked up to this number is done. */
void parked_passed(struct core *core, struct session *session, uint64_t number);
/* The question with this number was answered with yes, and will be if it comes again. false: no
 * memory. */
bool parked_remember_granted(struct core *core, struct session *session, uint64_t number);
void parked_free_all(struct core *core, struct session *session);

#endif
