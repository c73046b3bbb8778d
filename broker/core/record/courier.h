/* SPDX-License-Identifier: MPL-2.0 */
/* courier.h -- couriers: sessions that bring attachments, and sessions that fetch them. */
#ifndef CORE_RECORD_COURIER_H
#define CORE_RECORD_COURIER_H

#include "broker/core/model.h"

/* Both: a complaint about the message, or NULL. */
const char *courier_bring(struct core *core, struct session *session, const struct msg_bring *msg);
const char *courier_piece(struct core *core, struct session *session, const struct msg_piece *msg,
                          payload_id payload);
void courier_fetch(struct core *core, struct session *session, const struct msg_fetch *msg);
void courier_list(struct core *core, struct session *session, const struct msg_attachments *msg);
/* The session goes: what it brings is left where it is. */
void courier_gone(struct core *core, struct session *session);
/* The attachment is not kept, or not on: whoever brings it is told. */
void courier_lose(struct core *core, struct attachment *attachment, enum attachment_state state);
void courier_turn_over(struct core *core);

#endif
