/* SPDX-License-Identifier: MPL-2.0 */
/* guard.h -- a party with a guard: two processes speak for one incarnation. */
#ifndef CORE_LIFECYCLE_GUARD_H
#define CORE_LIFECYCLE_GUARD_H

#include "broker/core/model.h"

/* The session is that of the program of a guarded incarnation: it writes and reads. */
void guard_begin_program(struct core *core, struct party *party, struct session *session);
/* The session of the program ends; the incarnation goes on.  code is for its client. */
void guard_end_program(struct core *core, struct party *party, enum wire_code code);
/* The error of open slots that a leaving party owes. */
struct failure *party_left_failure(struct core *core, struct party *party);

#endif
