/* SPDX-License-Identifier: MPL-2.0 */
/* names.h -- finds jobs and parties by name, and makes parties; names with a
 * meaning of their own. */
#ifndef CORE_STREAMS_NAMES_H
#define CORE_STREAMS_NAMES_H

#include "broker/core/model.h"

/* A group is a durable name of this party.  No client can be this party. */
#define GROUPS_PARTY "_groups"

/* Whether a topic is "PARTY/_replies": its slots are replies to requests. */
bool name_is_replies(struct span topic);
/* The job of this name, or NULL. */
struct job *job_known(const struct core *core, struct span name);
/* The party of this name, made if it is new; NULL: no room. */
struct party *party_get(struct core *core, struct job *job, struct span name);
/* id 0: any.  NULL: no memory. */
struct party *party_make(struct core *core, uint32_t id, struct job *job, struct span name);
/* The last incarnation is over, and another one is about to begin: its end is one of the earlier
 * ones.  An end of an earlier attempt is forgotten. */
void party_keep_end(struct core *core, struct party *party);
void party_forget_ends(struct core *core, struct party *party);
void party_free(struct core *core, struct party *party);
/* A party is bare when nothing refers to it.  The oldest bare party goes when the job is full. */
void party_update_bare(struct party *party);
/* Its place in the job, or RANK_NONE: while it has one, it is not bare. */
void party_place(struct party *party, uint32_t rank);

#endif
