/* SPDX-License-Identifier: MPL-2.0 */
/* liveness.h -- signs of life: beats, silence, closed connections, promises of progress. */
#ifndef CORE_LIFECYCLE_LIVENESS_H
#define CORE_LIFECYCLE_LIVENESS_H

#include "broker/core/model.h"

/* The client said something: it is suspect no more. */
void session_hear(struct core *core, struct session *session);
void session_beat(struct core *core, struct session *session, const struct msg_beat *beat);
/* A promise of progress. */
void session_promise(struct core *core, struct session *session, const struct msg_progress *msg);
/* A connection closed. */
void session_closed(struct core *core, conn_id conn);
/* A client broke the protocol: operators are told, the connection is closed. */
void session_violation(struct core *core, conn_id conn, const char *complaint);
/* Sets the timer to the next moment at which silence or a closed connection has consequences. */
void session_arm(struct core *core, struct session *session);
/* That moment has come. */
void session_timer(struct core *core, struct session *session);
/* The time of a promise of progress is over. */
void session_stalled(struct core *core, struct session *session);
/* The broker stood still for gap_ns: clients have time to come back. */
void session_returned_all(struct core *core, int64_t gap_ns);
/* At the end of a replay. */
void session_resume(struct core *core, struct session *session);

#endif
