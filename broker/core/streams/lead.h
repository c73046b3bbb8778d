/* SPDX-License-Identifier: MPL-2.0 */
/* lead.h -- the lead of a writer: how far it may be ahead of readers that take. */
#ifndef CORE_STREAMS_LEAD_H
#define CORE_STREAMS_LEAD_H

#include "broker/core/model.h"

void lead_init(struct core *core, struct topic *topic);
void lead_forget(struct topic *topic);

/* Whether the link of its writer or of a reader is long. */
static inline bool lead_is_far(const struct topic *topic)
{
    return topic->lead.flow.is_far;
}

/* The largest window: as on this machine, and what the links carry beyond that. */
static inline uint64_t lead_whole(const struct core *core, const struct topic *topic)
{
    uint64_t whole = core->options.topic_window_bytes;
    uint64_t bytes = lead_is_far(topic) ? flow_window_bytes(&topic->lead.flow) : 0;
    return bytes > whole ? bytes : whole;
}

/* Whether the window does not follow the writer's link yet: the client does not know whether it is
 * long, or lead_measure() is still to come. */
static inline bool lead_is_unjudged(const struct topic *topic)
{
    const struct session *session = topic->writer->session;
    return session != NULL &&
           (session->is_unjudged || (session->trip_ns > 0 && !lead_is_far(topic)));
}

/* ... on a link that is known. */
static inline uint64_t lead_window_judged(const struct core *core, const struct topic *topic)
{
    const struct lead *lead = &topic->lead;
    uint64_t whole = lead_whole(core, topic);
    uint64_t bytes = lead->window_bytes;
    if (lead->is_paused)
        return whole;
    if (lead_is_far(topic))
        bytes = lead->is_for_group ? whole : flow_window_bytes(&lead->flow);
    return bytes < whole ? bytes : whole;
}

/* So much may be not taken now.  What is for a group waits for its workers, and not for a link.
 * Credit is never taken back.  So there is little of it while the link may be slow. */
static inline uint64_t lead_window(const struct core *core, const struct topic *topic)
{
    uint64_t bytes = lead_window_judged(core, topic);
    bool is_less = bytes > LIMIT_UNJUDGED_BYTES && lead_is_unjudged(topic);
    return is_less ? LIMIT_UNJUDGED_BYTES : bytes;
}

/* All who hold writers back have taken something. */
static inline void lead_taken(struct topic *topic)
{
    topic->lead.is_paused = false;
    list_remove(&topic->lead.waits_link);
}

/* A value or a promise of so many bytes comes, that was written then; it is not yet counted. */
void lead_time(struct core *core, struct topic *topic, uint64_t bytes, int64_t stamp_ns);
static inline void lead_written(struct core *core, struct topic *topic, uint64_t bytes,
                                int64_t stamp_ns)
{
    flow_window_piece(&topic->lead.flow, bytes);
    if (topic->lead.is_timed && topic->credit_used >= topic->lead.timed_mark)
        lead_time(core, topic, bytes, stamp_ns);
}
/* Looks at the links.  Most calls do nothing. */
void lead_measure(struct core *core, struct topic *topic);
static inline void lead_took(struct core *core, struct topic *topic, uint64_t bytes)
{
    struct lead *lead = &topic->lead;
    lead->taken_bytes += bytes;
    if (core_clock(core) >= lead->measure_ns)
        lead_measure(core, topic);
    flow_window_arrived(&lead->flow, lead->taken_bytes, core_clock(core));
}
/* So large the batches of its writer may be. */
uint64_t lead_batch_bytes(const struct topic *topic, uint64_t most_bytes);
/* All who hold writers back were sent what lies below sent_seq. */
void lead_look(struct core *core, struct topic *topic, uint64_t sent_seq);
/* There was no credit left, or is none: whether the writer waits for what is to be taken. */
void lead_wait(struct core *core, struct topic *topic);
/* A set of values waits for credit up to there; 0: none does. */
void lead_need(struct core *core, struct topic *topic, uint64_t needed_limit);
/* Whether the job, which has so much left, has room for the set that waits, and for another. */
static inline bool lead_set_fits(const struct topic *topic, uint64_t job_left)
{
    return topic->needed_limit <= topic->credit_limit ||
           topic->needed_limit - topic->credit_used <= job_left / 2;
}
/* How far credit may go if so much may be granted.  A set is let in as one large value is: where
 * there is room for its first byte. */
static inline uint64_t lead_wanted(const struct topic *topic, uint64_t granted, uint64_t job_left)
{
    uint64_t wanted = topic->credit_used + granted;
    bool is_let_in = granted > 0 && lead_set_fits(topic, job_left);
    return is_let_in && topic->needed_limit > wanted ? topic->needed_limit : wanted;
}
/* More credit is about to be, for a writer that goes on: so much it may write. */
void lead_granted(struct core *core, struct topic *topic, uint64_t room);
void lead_timer(struct core *core);
/* Whether who holds this topic's writer back is to be called slow. */
bool lead_is_slow(const struct core *core, const struct topic *topic);

#endif
