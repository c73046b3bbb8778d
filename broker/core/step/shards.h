/* SPDX-License-Identifier: MPL-2.0 */
/* shards.h -- the answer to SHARDS: which shards there are, and where their brokers are. */
#ifndef CORE_STEP_SHARDS_H
#define CORE_STEP_SHARDS_H

#include "broker/core/model.h"

/* All of it, from the event of this step. */
void tell_shards(struct core *core, struct session *session, const struct msg_shards *msg);

#endif
