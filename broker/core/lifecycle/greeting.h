/* SPDX-License-Identifier: MPL-2.0 */
/* greeting.h -- how sessions begin, or go on over another connection. */
#ifndef CORE_LIFECYCLE_GREETING_H
#define CORE_LIFECYCLE_GREETING_H

#include "broker/core/model.h"

void session_hello(struct core *core, conn_id conn, const struct msg_hello *hello);
/* The party begins a new incarnation in this session. */
void session_begin(struct core *core, struct party *party, struct session *session,
                   uint32_t incarnation);
/* A complaint about the message, or NULL. */
const char *session_attach(struct core *core, conn_id conn, const struct msg_attach *msg);
/* A reader says how far it is in a topic. */
void session_position(struct core *core, struct session *session, const struct msg_position *msg);
const char *session_ready(struct core *core, struct session *session, const struct msg_ready *msg);
/* Notes on which host, and as which process, the client runs. */
void session_locate(struct core *core, struct session *session, struct span host, uint64_t pid,
                    struct span trace_id);

#endif
