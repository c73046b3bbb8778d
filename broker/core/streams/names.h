/* SPDX-License-Identifier: MPL-2.0 */
/* names.h -- the parties of a job, found or made by their names; names that mean something. */
#ifndef CORE_STREAMS_NAMES_H
#define CORE_STREAMS_NAMES_H

#include "broker/core/model.h"

/* Groups are durable names of this party, which nobody is. */
#define GROUPS_PARTY "_groups"
bool name_is_replies(struct span topic);
struct party *party_get(struct core *core, struct job *job, struct span name);
struct party *party_make(struct core *core, uint32_t id, struct job *job, struct span name);
void party_free(struct core *core, struct party *party);
void party_update_bare(struct party *party);

#endif
