/* SPDX-License-Identifier: MPL-2.0 */
/* session_waiting.h -- tells the broker which calls have been blocked for long. */
#ifndef SESSION_SESSION_WAITING_H
#define SESSION_SESSION_WAITING_H

#include "libbus/session/model.h"

/* With each beat: what is blocked since the last one. */
void waiting_beat(struct session *session);
/* For a session whose waiting.is_live: the next WAITING; false: there is nothing to say. */
bool waiting_message(struct session *session, struct msg *out);
/* The same: when waiting_message() has something to say; INT64_MAX: not known. */
int64_t waiting_deadline_ns(const struct session *session);
/* A new connection: a broker that was told of a call hears again. */
void waiting_rewind(struct session *session);
/* The subscription whose reader may go on; 0: none. */
uint32_t waiting_over_in(struct session *session, const struct msg_wait_over *msg);
void waiting_fini(struct session *session);

#endif
