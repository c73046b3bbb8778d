/* SPDX-License-Identifier: MPL-2.0 */
/* lookup.h -- finds what a fact speaks of. */
#ifndef CORE_REPLAY_LOOKUP_H
#define CORE_REPLAY_LOOKUP_H

#include "broker/core/model.h"

/* What may be wrong with a fact. */
#define WRONG_NO_MEMORY "the memory that the broker may use is too little for it"
#define WRONG_NO_ERROR "it refers to an error that no fact before it made"
#define WRONG_NO_TOPIC "it speaks of a topic that no fact before it made"
#define WRONG_NO_PARTY "it speaks of a party that no fact before it made"
#define WRONG_NO_JOB "it speaks of a job that no fact before it made"
#define WRONG_NO_SUB "it speaks of a subscription that no fact before it made"
#define WRONG_NO_SESSION "it speaks of a session that is not there"
#define WRONG_NO_SLOT "it settles a slot that is not open"
#define WRONG_NO_PAYLOAD "no bytes stand beside it"
#define WRONG_TWICE "what it makes is there already"
#define WRONG_NO_WAIT "a message of this number waits for nothing"
#define WRONG_NO_ORDER "it does not follow from the facts before it"

/* The error of this number, or NULL for 0; *wrong is set if no fact made it. */
struct failure *replayed_failure(struct core *core, uint64_t number, const char **wrong);
/* What a fact speaks of, by its number; NULL: it is not there. */
struct job *replayed_job(struct core *core, uint64_t id);
struct party *replayed_party(struct core *core, uint64_t id);
struct topic *replayed_topic(struct core *core, uint64_t id);
struct sub *replayed_sub(struct core *core, uint64_t id);
struct session *replayed_session(struct core *core, uint64_t id);
struct route *replayed_route(struct core *core, const struct sub *sub, uint64_t topic);
struct group *replayed_group(struct core *core, uint64_t id);
/* Of a task of the group that may be new. */
struct route *replayed_task_route(struct core *core, struct group *group, uint64_t topic,
                                  uint64_t seq);

#endif
