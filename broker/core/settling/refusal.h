/* SPDX-License-Identifier: MPL-2.0 */
/* refusal.h -- what a writer is told of slots that did not become what it said: once, and again. */
#ifndef CORE_SETTLING_REFUSAL_H
#define CORE_SETTLING_REFUSAL_H

#include "broker/core/model.h"

/* A refusal to the session's client, its cause the outcome that stands. */
void refusal_of_slot(struct core *core, struct session *session, struct topic *topic, uint64_t seq,
                     enum error_kind kind, const char *type, const char *message,
                     struct failure *cause);
/* The session's next refusal is remembered; false: no memory. */
bool refusal_remember(struct core *core, struct session *session, uint32_t topic, uint64_t seq,
                      uint32_t count, struct failure *failure);
void refusals_tell_again(struct core *core, struct session *session, uint64_t after);
/* Open slots of the session's party were settled with this, and not by its own word. */
void refusal_tell(struct core *core, struct session *session, const struct refusal *settled);

#endif
