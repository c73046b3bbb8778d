/* SPDX-License-Identifier: MPL-2.0 */
/* group.h -- replays facts about groups, tasks, dead letters and requests. */
#ifndef CORE_REPLAY_GROUP_H
#define CORE_REPLAY_GROUP_H

#include "broker/core/model.h"

const char *replay_group_made(struct core *core, const struct fact_group_made *fact);
const char *replay_requested(struct core *core, const struct fact_requested *fact);
/* Facts about a group, or a task of it. */
const char *replay_of_group(struct core *core, const struct fact *fact, struct group *group);

#endif
