/* SPDX-License-Identifier: MPL-2.0 */
/* courier.h -- couriers: sessions that bring attachments, and sessions that fetch them. */
#ifndef CORE_RECORD_COURIER_H
#define CORE_RECORD_COURIER_H

#include "broker/core/model.h"

void courier_windows_init(struct core *core, struct session *session);
void courier_windows_fini(struct session *session);
/* What the client says of its link: 0 is a short one. */
void courier_windows_learn(struct session *session, int64_t trip_ns);
/* These three: a complaint about the message, or NULL. */
const char *courier_bring(struct core *core, struct session *session, const struct msg_bring *msg);
const char *courier_piece(struct core *core, struct session *session, const struct msg_piece *msg,
                          payload_id payload);
/* bytes: of pieces that were taken on this data connection. */
const char *courier_taken(struct core *core, struct session *session, uint64_t bytes);
void courier_fetch(struct core *core, struct session *session, const struct msg_fetch *msg);
void courier_list(struct core *core, struct session *session, const struct msg_attachments *msg);
/* The session goes: what it brings is left where it is, and what it fetches is sent no further. */
void courier_gone(struct core *core, struct session *session);
/* The attachment is not kept, or not on: whoever brings it is told. */
void courier_lose(struct core *core, struct attachment *attachment, enum attachment_state state);
/* Nothing is kept of the attachment any more: whoever fetches it is told. */
void courier_cut(struct core *core, struct attachment *attachment);
/* What the session fetches ends here, and it is told.  It asks again for the rest. */
void courier_ask_again(struct core *core, struct session *session);
void courier_turn_over(struct core *core);

#endif
