/* SPDX-License-Identifier: MPL-2.0 */
/* facts.h -- replay_<fact>(): a function for each row of schemas/facts.def.
 *
 * Its parameters follow from the row's column `of`: what must be there is given, and is there.  It
 * returns NULL, or what is wrong with the fact (lookup.h). */
#ifndef CORE_REPLAY_FACTS_H
#define CORE_REPLAY_FACTS_H

#include "broker/core/model.h"

#define REPLAY_OF_NOTHING(name) struct core *core, const struct fact_##name *fact
#define REPLAY_OF_JOB(name) struct core *core, struct job *job, const struct fact_##name *fact
#define REPLAY_OF_PARTY(name) struct core *core, struct party *party, const struct fact_##name *fact
#define REPLAY_OF_SESSION(name)                                                                    \
    struct core *core, struct session *session, const struct fact_##name *fact
#define REPLAY_OF_TOPIC(name) struct core *core, struct topic *topic, const struct fact_##name *fact
#define REPLAY_OF_SUB(name) struct core *core, struct sub *sub, const struct fact_##name *fact
#define REPLAY_OF_GROUP(name) struct core *core, struct group *group, const struct fact_##name *fact
#define REPLAY_OF_TASK(name) struct core *core, struct route *route, const struct fact_##name *fact
#define REPLAY_OF_JOB_BYTES(name) REPLAY_OF_JOB(name), payload_id payload
#define REPLAY_OF_TOPIC_BYTES(name) REPLAY_OF_TOPIC(name), payload_id payload

#define FACT(upper, name, number, weight, of, what) const char *replay_##name(REPLAY_OF_##of(name));
#include "schemas/facts.def"

#endif
