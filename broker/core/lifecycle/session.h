/* SPDX-License-Identifier: MPL-2.0 */
/* session.h -- sessions: made, found, dropped. */
#ifndef CORE_LIFECYCLE_SESSION_H
#define CORE_LIFECYCLE_SESSION_H

#include "broker/core/model.h"

struct session_terms {
    uint64_t token;
    uint32_t principal; /* who greeted */
    struct span owner;  /* ... by name in the access file; may be empty */
    conn_id conn;       /* 0: closed */
    uint32_t dial;      /* of that connection */
    uint64_t heartbeat_ms, lost_after_ms, grace_ms;
    struct span host; /* copied */
    uint64_t pid;
    struct span trace_id; /* copied */
    bool is_guard;
};
/* The session of a connection, or NULL. */
struct session *session_of_conn(struct core *core, conn_id conn);
/* A token that no session has. */
uint64_t session_free_token(const struct core *core);
/* job NULL: an observer of no job.  NULL: no room. */
struct session *session_make(struct core *core, struct job *job, const struct session_terms *terms);
/* Frees the session; what hangs on it is detached or freed, its connections are closed. */
void session_drop(struct core *core, struct session *session);
/* How long it may be away: at least as long as its guard. */
int64_t session_grace_ns(const struct session *session);
/* The state of the party, or of its connection: "grace", "suspect". */
const char *session_state_name(const struct party *party);
/* Closes one connection of a session and sets it to 0. */
void session_drop_conn(struct core *core, conn_id *conn);
/* Drops the session, and gives its connection to an observer that owns late.  false: no room, and
 * the connection is closed. */
bool session_outlive(struct core *core, struct session *session, struct late *late);
/* The observer has named a job that did not exist.  If it does now, the observer is its. */
void session_find_job(struct core *core, struct session *observer);
/* The job exists now: those who tap it hear of it. */
void session_take_taps(struct core *core, struct job *job);
/* When the core is freed. */
void session_free_all(struct core *core);

#endif
