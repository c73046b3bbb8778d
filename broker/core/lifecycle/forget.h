/* SPDX-License-Identifier: MPL-2.0 */
/* forget.h -- an operator has a job forgotten that no party is in. */
#ifndef CORE_LIFECYCLE_FORGET_H
#define CORE_LIFECYCLE_FORGET_H

#include "broker/core/model.h"

void job_forget(struct core *core, struct session *session, const struct msg_job_forget *msg);

#endif
