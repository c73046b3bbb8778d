/* SPDX-License-Identifier: MPL-2.0 */
/* party.h -- replays facts about parties and what their sessions are owed. */
#ifndef CORE_REPLAY_PARTY_H
#define CORE_REPLAY_PARTY_H

#include "broker/core/model.h"

const char *replay_party_known(struct core *core, const struct fact_party_known *fact);
/* A fact of this party, or of its session. */
const char *replay_of_party(struct core *core, const struct fact *fact, struct party *party);
const char *replay_of_session(struct core *core, const struct fact *fact, struct session *session);

#endif
