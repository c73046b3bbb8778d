/* SPDX-License-Identifier: MPL-2.0 */
/* accept.h -- ACCEPTED: tells clients what is accepted, at the end of each step. */
#ifndef CORE_RECORD_ACCEPT_H
#define CORE_RECORD_ACCEPT_H

#include "broker/core/model.h"

void accept_init(struct session *session);
/* Nothing is owed to it any more. */
void accept_drop(struct session *session);
/* Answers, or puts it off, whoever said something in this step, and whoever has waited for long. */
void accept_all(struct core *core, const struct event *event);
/* When core_step() is to be called for that; INT64_MAX: nobody waits. */
int64_t accept_deadline_ns(const struct core *core);

#endif
