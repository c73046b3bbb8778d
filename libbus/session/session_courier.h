/* SPDX-License-Identifier: MPL-2.0 */
/* session_courier.h -- attachments of errors, brought and fetched. */
#ifndef SESSION_SESSION_COURIER_H
#define SESSION_SESSION_COURIER_H

#include "libbus/session/model.h"

void courier_brought_in(struct session *session, const struct msg_brought *brought);
void courier_fetched_in(struct session *session, const struct msg_fetched *fetched);
void courier_done_in(struct session *session, const struct msg_job_done *done);
/* A part from the data channel. */
void courier_piece_in(struct session *session, struct span part);
/* The next message to send; false: there is none. */
bool courier_message(struct session *session, struct msg *out);
/* The part with a ping for the data channel; NULL: none is due, or no memory. */
struct buffer *courier_ping_part(struct session *session);
void courier_rewind(struct session *session); /* a new connection */
void courier_fini(struct session *session);

#endif
