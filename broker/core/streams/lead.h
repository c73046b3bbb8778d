/* SPDX-License-Identifier: MPL-2.0 */
/* lead.h -- the lead of a writer: how far it may be ahead of readers that take. */
#ifndef CORE_STREAMS_LEAD_H
#define CORE_STREAMS_LEAD_H

#include "broker/core/model.h"

void lead_init(struct core *core, struct topic *topic);
void lead_forget(struct core *core, struct topic *topic);

/* The largest window: as on this machine, and what the links carry beyond that. */
static inline uint64_t lead_whole(const struct core *core, const struct topic *topic)
{
    return core->options.topic_window_bytes +
           flow_share_get(&core->topic_windows, topic->lead.more_bytes);
}

/* So much may be not taken now. */
static inline uint64_t lead_window(const struct core *core, const struct topic *topic)
{
    uint64_t whole = lead_whole(core, topic);
    bool is_less = !topic->lead.is_paused && topic->lead.window_bytes < whole;
    return is_less ? topic->lead.window_bytes : whole;
}

/* All who hold writers back have taken something. */
static inline void lead_taken(struct topic *topic)
{
    topic->lead.is_paused = false;
    list_remove(&topic->lead.waits_link);
}

/* Credit was used that was granted while the round trip is timed. */
void lead_cross(struct core *core, struct topic *topic);
static inline void lead_used(struct core *core, struct topic *topic)
{
    if (topic->lead.crossings > 0 && topic->credit_used > topic->lead.trip_mark)
        lead_cross(core, topic);
}
/* The same, with the sums of the topic up to date: what its links carry.  Most calls do nothing. */
void lead_measure(struct core *core, struct topic *topic);
static inline void lead_took(struct core *core, struct topic *topic)
{
    if (core_clock(core) >= topic->lead.period_end_ns)
        lead_measure(core, topic);
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
