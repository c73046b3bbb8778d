/* SPDX-License-Identifier: MPL-2.0 */
/* session.h -- sessions: made, found, dropped. */
#ifndef CORE_LIFECYCLE_SESSION_H
#define CORE_LIFECYCLE_SESSION_H

#include "broker/core/model.h"

struct session_terms {
    uint64_t token;
    conn_id conn;  /* 0: closed */
    uint32_t dial; /* of that connection */
    uint64_t heartbeat_ms, lost_after_ms, grace_ms;
    struct span host; /* copied */
    uint64_t pid;
    bool is_guard;
};
/* The session is gone, and its connection goes on with that of an observer, who takes late over.
 * false: so does the connection. */
bool session_outlive(struct core *core, struct session *session, struct late *late);
void session_free_all(struct core *core);
struct session *session_make(struct core *core, struct job *job, const struct session_terms *terms);
void session_drop(struct core *core, struct session *session);
struct session *session_of_conn(struct core *core, conn_id conn);

void session_drop_conn(struct core *core, conn_id *conn);
uint64_t session_free_token(const struct core *core);

#endif
