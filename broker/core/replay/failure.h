/* SPDX-License-Identifier: MPL-2.0 */
/* failure.h -- replays facts about errors that others refer to. */
#ifndef CORE_REPLAY_FAILURE_H
#define CORE_REPLAY_FAILURE_H

#include "broker/core/model.h"

const char *replay_failure_made(struct core *core, const struct fact_failure_made *fact);
const char *replay_failure_forgotten(struct core *core, const struct fact_failure_forgotten *fact);

#endif
