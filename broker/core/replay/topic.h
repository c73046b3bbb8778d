/* SPDX-License-Identifier: MPL-2.0 */
/* topic.h -- replays facts about topics and their slots. */
#ifndef CORE_REPLAY_TOPIC_H
#define CORE_REPLAY_TOPIC_H

#include "broker/core/model.h"

const char *replay_topic_known(struct core *core, const struct fact_topic_known *fact);
/* Facts about one topic. */
const char *replay_of_topic(struct core *core, const struct fact *fact, struct topic *topic,
                            payload_id payload);

#endif
