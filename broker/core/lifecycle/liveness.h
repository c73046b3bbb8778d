/* SPDX-License-Identifier: MPL-2.0 */
/* liveness.h -- signs of life: beats, silence, closed connections, promises of progress. */
#ifndef CORE_LIFECYCLE_LIVENESS_H
#define CORE_LIFECYCLE_LIVENESS_H

#include "broker/core/model.h"

void session_beat(struct core *core, struct session *session, const struct msg_beat *beat);
void session_promise(struct core *core, struct session *session, const struct msg_progress *msg);
void session_hear(struct core *core, struct session *session);
void session_closed(struct core *core, conn_id conn);
void session_violation(struct core *core, conn_id conn, const char *complaint);
void session_timer(struct core *core, struct session *session);
void session_stalled(struct core *core, struct session *session);
void session_resume(struct core *core, struct session *session); /* at the end of a replay */
/* Behind a standstill of so long. */
void session_returned_all(struct core *core, int64_t gap_ns);
void session_arm(struct core *core, struct session *session);

#endif
