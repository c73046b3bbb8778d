/* SPDX-License-Identifier: MPL-2.0 */
/* batch.h -- what the frames of a party do: promise, keep, keep in chunks. */
#ifndef CORE_STEP_BATCH_H
#define CORE_STEP_BATCH_H

#include "broker/core/model.h"

/* A complaint about the batch, or NULL; the session may be gone afterwards. */
const char *write_batch(struct core *core, struct session *session, const struct event *event);

#endif
