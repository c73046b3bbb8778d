/* SPDX-License-Identifier: MPL-2.0 */
/* ending.h -- how an incarnation ends: what all that hangs on its party learns, in one step. */
#ifndef CORE_LIFECYCLE_ENDING_H
#define CORE_LIFECYCLE_ENDING_H

#include "broker/core/model.h"

/* The party of this session ends: slots, waits and watchers are told, and the session with it. */
void session_end_party(struct core *core, struct session *session, enum party_event event,
                       struct failure *failure, enum wire_code code);
/* The same of the party alone, by what ended its job. */
void party_terminate(struct core *core, struct party *party, struct failure *failure);
void session_completed(struct core *core, struct session *session);
/* Tells its client that its incarnation is over, and drops it.  failure may be NULL. */
void session_dismiss(struct core *core, struct session *session, enum wire_code code,
                     struct failure *failure);
/* why ends where the number of milliseconds is to follow, but for a replaced party. */
void session_lose(struct core *core, struct session *session, const char *type, const char *why);
void party_tell(struct core *core, struct party *party, const char *name, const char *text,
                uint64_t count, struct failure *failure);

#endif
