/* SPDX-License-Identifier: MPL-2.0 */
/* ending.h -- how an incarnation ends: who learns of it, in one step. */
#ifndef CORE_LIFECYCLE_ENDING_H
#define CORE_LIFECYCLE_ENDING_H

#include "broker/core/model.h"

/* An event about the party. */
void party_tell(struct core *core, struct party *party, const char *name, const char *text,
                uint64_t count, struct failure *failure);
/* The party of this session ends; slots, waits and subscriptions learn of it.  Its sessions end. */
void session_end_party(struct core *core, struct session *session, enum party_event event,
                       struct failure *failure, enum wire_code code);
/* The party ends because its job ended; its session stays. */
void party_terminate(struct core *core, struct party *party, struct failure *failure);
/* The party completed; its session stays. */
void session_completed(struct core *core, struct session *session);
/* The party is lost.  why: a sentence that ends where the number of milliseconds is to follow; of a
 * replaced party, a whole one. */
void session_lose(struct core *core, struct session *session, const char *type, const char *why);
/* Tells the client that its incarnation is over, and drops the session.  failure may be NULL. */
void session_dismiss(struct core *core, struct session *session, enum wire_code code,
                     struct failure *failure);

/* Whether its job wants what it had committed no more. */
bool ending_replaces_pending(const struct party *party, enum party_event event);

#endif
