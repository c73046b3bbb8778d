/* SPDX-License-Identifier: MPL-2.0 */
/* session_verdict.h -- why the job cannot go on. */
#ifndef SESSION_SESSION_VERDICT_H
#define SESSION_SESSION_VERDICT_H

#include "libbus/session/model.h"

void verdict_rows_init(struct session *session);
void verdict_rows_fini(struct session *session);
void verdict_in(struct session *session, const struct msg *msg, struct span part);
/* The next message to send; false: there is none. */
bool verdict_message(struct session *session, struct msg *out);
void verdict_rewind(struct session *session); /* a new connection */

#endif
