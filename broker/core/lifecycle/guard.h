/* SPDX-License-Identifier: MPL-2.0 */
/* guard.h -- parties of which another process speaks too. */
#ifndef CORE_LIFECYCLE_GUARD_H
#define CORE_LIFECYCLE_GUARD_H

#include "broker/core/model.h"

/* A session that speaks for the incarnation of a guard. */
void guard_begin_voice(struct core *core, struct party *party, struct session *session);
bool guard_may_say(enum msg_type type);
/* What its guard knows: a voice is over, its incarnation is not.  code is for its client. */
void guard_end_voice(struct core *core, struct party *party, enum wire_code code);
/* It waits with the loss of a closed voice at least as long as for its guard. */
int64_t guard_grace_ns(const struct session *session);

/* The message waits for its data; false: too many do, or no memory. */
/* The error of a party that leaves what it owes. */
struct failure *party_left_failure(struct core *core, struct party *party);

#endif
