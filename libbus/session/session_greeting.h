/* SPDX-License-Identifier: MPL-2.0 */
/* session_greeting.h -- from HELLO to ATTACHED. */
#ifndef SESSION_SESSION_GREETING_H
#define SESSION_SESSION_GREETING_H

#include "libbus/session/model.h"

void greeting_welcome_in(struct session *session, const struct msg_welcome *welcome);
void greeting_refused_in(struct session *session, const struct msg_refused *refused);
/* On what should be the data channel. */
void greeting_data_refused_in(struct session *session, const struct msg_refused *refused);
void greeting_attached_in(struct session *session);

#endif
