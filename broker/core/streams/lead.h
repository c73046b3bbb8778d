/* SPDX-License-Identifier: MPL-2.0 */
/* lead.h -- the lead of a writer: how far it may be ahead of readers that take. */
#ifndef CORE_STREAMS_LEAD_H
#define CORE_STREAMS_LEAD_H

#include "broker/core/model.h"

void lead_init(struct core *core, struct topic *topic);
void lead_forget(struct topic *topic);

/* So much may be not taken now. */
static inline uint64_t lead_window(const struct core *core, const struct topic *topic)
{
    return topic->lead.is_paused ? core->options.topic_window_bytes : topic->lead.window_bytes;
}

/* All who hold writers back have taken something. */
static inline void lead_taken(struct topic *topic)
{
    topic->lead.is_paused = false;
    list_remove(&topic->lead.waits_link);
}

/* All who hold writers back were sent what lies below sent_seq. */
void lead_look(struct core *core, struct topic *topic, uint64_t sent_seq);
/* There was no credit left, or is none: whether the writer waits for what is to be taken. */
void lead_wait(struct core *core, struct topic *topic);
/* More credit is about to be, for a writer that goes on. */
void lead_granted(struct core *core, struct topic *topic);
void lead_timer(struct core *core);
/* Whether who holds this topic's writer back is to be called slow. */
bool lead_is_slow(const struct core *core, const struct topic *topic);

#endif
