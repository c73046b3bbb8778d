/* SPDX-License-Identifier: MPL-2.0 */
/* session_member.h -- membership in a job, and barriers. */
#ifndef SESSION_SESSION_MEMBER_H
#define SESSION_SESSION_MEMBER_H

#include "libbus/session/model.h"

void member_membership_in(struct session *session, const struct msg_membership *msg);
void member_barrier_in(struct session *session, const struct msg_barrier_done *msg);
/* The next message to send; false: there is none. */
bool member_message(struct session *session, struct msg *out);
void member_rewind(struct session *session); /* a new connection */
void member_fini(struct session *session);

#endif
