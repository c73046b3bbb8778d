/* SPDX-License-Identifier: MPL-2.0 */
/* barrier.h -- where the members of an epoch meet. */
#ifndef CORE_LIFECYCLE_BARRIER_H
#define CORE_LIFECYCLE_BARRIER_H

#include "broker/core/model.h"

/* A complaint about the message, or NULL. */
const char *barrier_come(struct core *core, struct session *session, const struct msg_barrier *msg);
void barrier_forget(struct session *session);          /* it is not there any more */
void barrier_look(struct core *core, struct job *job); /* whether all are there now */
/* Whoever waits there is told this instead. */
void barrier_end(struct core *core, struct job *job, enum wire_code code, const char *type,
                 const char *message);
/* One that waits there is told this failure, and the others go on waiting. */
void barrier_fail(struct core *core, struct session *session, struct failure *failure);

#endif
