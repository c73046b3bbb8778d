/* SPDX-License-Identifier: MPL-2.0 */
/* session_connection.h -- one connection after the other, and the end of the session. */
#ifndef SESSION_SESSION_CONNECTION_H
#define SESSION_SESSION_CONNECTION_H

#include "libbus/session/model.h"

/* The session is over and sends nothing more; the next session_action() closes the link. */
void session_finish(struct session *session, enum wire_code code, struct span error);
/* The broker refuses our key, whatever we say: the session is over, with EDENIED. */
void session_denied(struct session *session, struct span message);
/* The broker broke the protocol: the session ends with CODE_EPROTO.  what: one sentence, for people
 * to read. */
void session_break(struct session *session, const char *what);

/* Starts a fresh connection. */
void session_dial(struct session *session);
/* With SESSION_CONNECT_CONTROL: the endpoint to connect to in place of the next one, because a
 * broker said that our job is there; "": none.  It is given once. */
void session_elsewhere(struct session *session, char out[LIMIT_ENDPOINT_BYTES + 1]);
/* With SESSION_CONNECT_CONTROL: whether it goes to the same endpoint again, and not to the next. */
bool session_dials_again(const struct session *session);
/* Gives the connection up.  The next one starts when the back-off is over, counted from the start
 * of this one.  A part of its second half is left out, another one for each client and dial. */
void session_lose_link(struct session *session);
/* The connection is up: from now on the back-off is that of a client that was up. */
void session_restart_backoff(struct session *session);
/* A part came alone on the data channel: the broker says that it is none.  Anything else breaks the
 * protocol. */
void session_data_refused_in(struct session *session, int64_t now_ns, struct span part);
/* BYE: the broker stops in good order and may come back. */
void session_bye(struct session *session);
/* The broker accepted something that was sent on the data channel. */
void session_data_moved(struct session *session);

/* The time to wait for an answer: period_ns, or more after several connections without one. */
int64_t session_patience_ns(const struct session *session, int64_t period_ns);
/* How long a connection may wait for WELCOME. */
int64_t session_greet_ns(const struct session *session);
/* How long the broker may be silent on a connection that is up. */
int64_t session_silence_ns(const struct session *session);

#endif
