/* SPDX-License-Identifier: MPL-2.0 */
/* sub.h -- replays facts about subscriptions and where they are. */
#ifndef CORE_REPLAY_SUB_H
#define CORE_REPLAY_SUB_H

#include "broker/core/model.h"

const char *replay_sub_opened(struct core *core, const struct fact_sub_opened *fact);
/* Facts about one subscription. */
const char *replay_of_sub(struct core *core, const struct fact *fact, struct sub *sub);

#endif
