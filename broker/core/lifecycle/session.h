/* SPDX-License-Identifier: MPL-2.0 */
/* session.h -- greeting, resuming, life and death of sessions and parties. */
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
void session_hello(struct core *core, conn_id conn, const struct msg_hello *hello);
/* A complaint about the message, or NULL. */
const char *session_attach(struct core *core, conn_id conn, const struct msg_attach *msg);
void session_position(struct core *core, struct session *session, const struct msg_position *msg);
void session_ready(struct core *core, struct session *session, const struct msg_ready *msg);
/* Where its process runs is known now. */
void session_locate(struct core *core, struct session *session, struct span host, uint64_t pid);
void session_beat(struct core *core, struct session *session, const struct msg_beat *beat);
void session_promise(struct core *core, struct session *session, const struct msg_progress *msg);
void session_hear(struct core *core, struct session *session);
void session_closed(struct core *core, conn_id conn);
void session_violation(struct core *core, conn_id conn, const char *complaint);
void session_timer(struct core *core, struct session *session);
void session_stalled(struct core *core, struct session *session);
/* The session is gone, and its connection goes on with that of an observer, who takes late over.
 * false: so does the connection. */
bool session_outlive(struct core *core, struct session *session, struct late *late);
/* The party of this session ends: slots, waits and watchers are told, and the session with it. */
void session_end_party(struct core *core, struct session *session, enum party_event event,
                       struct failure *failure, enum wire_code code);
/* The same of the party alone, by what ended its job. */
void party_terminate(struct core *core, struct party *party, struct failure *failure);
void session_completed(struct core *core, struct session *session);
void session_free_all(struct core *core);
struct job *job_get(struct core *core, struct span name); /* NULL: no room */
/* Without sessions it lasts for its linger time. */
void job_keep(struct core *core, struct job *job);
/* id 0: any. */
struct job *job_make(struct core *core, uint32_t id, struct span name);
void job_free(struct core *core, struct job *job);
struct session *session_make(struct core *core, struct job *job, const struct session_terms *terms);
/* The party begins a new life in this session. */
void session_begin(struct core *core, struct party *party, struct session *session,
                   uint32_t incarnation);
void session_drop(struct core *core, struct session *session);
void session_resume(struct core *core, struct session *session); /* at the end of a replay */
/* Behind a standstill of so long. */
void session_returned_all(struct core *core, int64_t gap_ns);
/* Tells its client that its incarnation is over, and drops it.  failure may be NULL. */
void session_dismiss(struct core *core, struct session *session, enum wire_code code,
                     struct failure *failure);
void job_linger(struct core *core, struct job *job); /* its timer fired */
struct session *session_of_conn(struct core *core, conn_id conn);

#endif
