/* SPDX-License-Identifier: MPL-2.0 */
/* verdict.h -- replays facts about verdicts. */
#ifndef CORE_REPLAY_VERDICT_H
#define CORE_REPLAY_VERDICT_H

#include "broker/core/model.h"

const char *replay_verdict_error(struct core *core, const struct fact_verdict_error *fact);
const char *replay_verdict_said(struct core *core, const struct fact_verdict_said *fact);
/* Facts that a job is all there is to. */
const char *replay_of_verdict(struct core *core, const struct fact *fact);

#endif
