/* SPDX-License-Identifier: MPL-2.0 */
/* why.h -- what clients say of their waits, and the answer to who waits for whom. */
#ifndef CORE_WAITS_WHY_H
#define CORE_WAITS_WHY_H

#include "broker/core/model.h"

void why_said(struct core *core, struct session *session, const struct msg_waiting *msg);
bool why_is_blocked(const struct session *session); /* some call of the client, as it says */
/* The answer comes in this step, or in it and some that follow. */
void why_ask(struct core *core, struct session *session, const struct msg_why *msg);
/* The next rows of an answer whose waits are collected.  true: all were told. */
bool why_tell_some(struct core *core, struct session *session, struct wait_walk *walk,
                   uint32_t *budget);

/* The session asks again: what it asked last is answered no more. */
void why_forget_last(struct core *core, const struct session *session);

#endif
