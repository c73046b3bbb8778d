/* SPDX-License-Identifier: MPL-2.0 */
/* session_watch.h -- the tap, and questions with rows as answers. */
#ifndef SESSION_SESSION_WATCH_H
#define SESSION_SESSION_WATCH_H

#include "libbus/session/model.h"

void watch_event_in(struct session *session, const struct msg *msg, struct span part);
void watch_answer_in(struct session *session, const struct msg *msg, struct span part);
void watch_beat(struct session *session);
/* The next message to send; false: there is none. */
bool watch_message(struct session *session, struct msg *out);
/* A new connection was welcomed, perhaps by another broker. */
void watch_rewind(struct session *session, const struct msg_welcome *welcome);

#endif
