/* SPDX-License-Identifier: MPL-2.0 */
/* auditor.h -- a job whose traces are sealed to an auditor: who may join it, and what is kept. */
#ifndef CORE_RECORD_AUDITOR_H
#define CORE_RECORD_AUDITOR_H

#include "broker/core/model.h"
#include "libbus/wire/disclosure.h"
#include "libbus/wire/msg.h"

/* The auditor's public key; empty: the job has none. */
struct span auditor_of(const struct job *job);
/* Why this client may not take part: it cannot seal, or seals to somebody else.  NULL: it may. */
const char *auditor_refusal(struct core *core, const struct job *job, const struct msg_hello *hello,
                            const char **out_type);
/* How much of an error may be seen in the open: where there is an auditor, no trace. */
enum disclosure auditor_disclosure(const struct job *job);

#endif
