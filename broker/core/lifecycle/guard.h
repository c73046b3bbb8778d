/* SPDX-License-Identifier: MPL-2.0 */
/* guard.h -- a party with a guard: two processes speak for one incarnation. */
#ifndef CORE_LIFECYCLE_GUARD_H
#define CORE_LIFECYCLE_GUARD_H

#include "broker/core/model.h"

/* The session is the voice of an incarnation that has a guard: it writes and reads. */
void guard_begin_voice(struct core *core, struct party *party, struct session *session);
/* The voice ends; the incarnation goes on.  code is for the client of the voice. */
void guard_end_voice(struct core *core, struct party *party, enum wire_code code);
/* The grace of a session: at least that of its guard. */
int64_t guard_grace_ns(const struct session *session);
/* The error of open slots that a leaving party owes. */
struct failure *party_left_failure(struct core *core, struct party *party);

#endif
