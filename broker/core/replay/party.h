/* SPDX-License-Identifier: MPL-2.0 */
/* party.h -- replays facts about parties and what their sessions are owed. */
#ifndef CORE_REPLAY_PARTY_H
#define CORE_REPLAY_PARTY_H

#include "broker/core/model.h"

const char *replay_party_known(struct core *core, const struct fact_party_known *fact);
const char *replay_party_forgotten(struct core *core, const struct fact_party_forgotten *fact);
const char *replay_party_joined(struct core *core, const struct fact_party_joined *fact);
const char *replay_guard_joined(struct core *core, const struct fact_guard_joined *fact);
const char *replay_program_joined(struct core *core, const struct fact_program_joined *fact);
const char *replay_guard_ended(struct core *core, const struct fact_guard_ended *fact);
const char *replay_located(struct core *core, const struct fact_located *fact);
const char *replay_party_ended(struct core *core, const struct fact_party_ended *fact);
const char *replay_session_ended(struct core *core, const struct fact_session_ended *fact);
const char *replay_error_numbers(struct core *core, const struct fact_error_numbers *fact);
const char *replay_numbers(struct core *core, const struct fact_numbers *fact);
const char *replay_parked(struct core *core, const struct fact_parked *fact);
const char *replay_progress_promised(struct core *core, const struct fact_progress_promised *fact);
const char *replay_refused(struct core *core, const struct fact_refused *fact);
const char *replay_uploaded(struct core *core, const struct fact_uploaded *fact);
const char *replay_upload_refused(struct core *core, const struct fact_upload_refused *fact);
const char *replay_granted(struct core *core, const struct fact_granted *fact);

#endif
