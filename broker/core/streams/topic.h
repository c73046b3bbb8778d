/* SPDX-License-Identifier: MPL-2.0 */
/* topic.h -- a topic: what is kept, for whom, and what its writer may add. */
#ifndef CORE_STREAMS_TOPIC_H
#define CORE_STREAMS_TOPIC_H

#include "broker/core/model.h"
#include "broker/core/streams/entry.h"

/* One topic may use an eighth of the bytes that its job has left. */
#define JOB_SHARE 8

/* A complaint, or NULL. */
const char *topic_open(struct core *core, struct session *session,
                       const struct msg_topic_open *msg);
/* Why the writer may not give its topic this number, or NULL. */
const char *topic_number_complaint(const struct core *core, const struct session *session,
                                   struct span name, uint32_t number);
/* A TOPIC frame came: the topic is opened, if that is possible. */
void topic_name(struct core *core, struct session *session, struct span name, uint32_t number);
struct topic *topic_get(struct core *core, struct job *job, struct span name, enum wire_code *out);
/* id 0: any.  No subscription follows it yet. */
struct topic *topic_make(struct core *core, uint32_t id, struct party *writer, struct span name);
void topic_free(struct core *core, struct topic *topic);
/* Settled slots below seq go. */
void topic_cut(struct core *core, struct topic *topic, uint64_t seq);
/* Entries were split: what is counted by where they end is counted anew. */
void topic_recount(struct core *core, struct topic *topic);
/* The first number that is ever reserved is seq, not 0: nobody missed those below it. */
void topic_begin(struct core *core, struct topic *topic, uint64_t seq);
/* Another attempt of its job: it is empty, and its numbers begin at 0.  Nobody is there to be told,
 * but durable names. */
/* Its writer opened it, or it begins anew. */
void topic_mark_opened(struct topic *topic, bool is_opened);
void topic_restart(struct core *core, struct topic *topic);
/* Slots [first, end) came or were settled: routes and waits get going. */
void topic_news(struct core *core, struct topic *topic, uint64_t first_seq, uint64_t end_seq);
/* Positions changed, or bytes: what is taken and done with, what may go, what credit there is. */
void topic_update(struct core *core, struct topic *topic);
void topic_grant(struct core *core, struct topic *topic, bool is_forced);
/* Whether its writer has no credit for what it writes next. */
static inline bool topic_is_stopped(const struct topic *topic)
{
    return topic->credit_limit <= topic->credit_used || topic->credit_limit < topic->needed_limit;
}
/* Its readers hold it back, or do not; its job counts those. */
static inline void topic_hold_back(struct topic *topic, bool is_held_back)
{
    if (topic->is_held_back != is_held_back)
        topic->job->held_back_count += is_held_back ? 1 : UINT32_MAX;
    topic->is_held_back = is_held_back;
}
/* Slots of the job may go that were held: if writers wait for room, topic_relieve() looks again. */
void topic_seek_room(struct core *core, struct job *job);
/* Makes room in jobs that are full, once nothing walks their topics any more. */
void topic_relieve(struct core *core);
/* The slots [first, first + count) are settled with failure, as a run at the end. */
bool topic_append_failed(struct core *core, struct topic *topic, uint64_t first_seq, uint64_t count,
                         struct failure *failure);
/* Whether so many bytes more can be kept: of the job; and of whoever writes the topic, over all
 * topics.  Slots that nobody needs go if they must. */
bool job_has_room(struct core *core, struct job *job, uint64_t bytes);
bool topic_writer_has_room(struct core *core, const struct topic *topic, uint64_t bytes);
void topic_mark_end(struct core *core, struct topic *topic, const struct end_mark *mark);
uint64_t topic_end_of(const struct topic *topic, uint32_t incarnation);

/* The slots [first_seq, end_seq) are of one incarnation of the writer. */
struct topic_share {
    uint32_t incarnation; /* 0: it is forgotten, or nobody writes the topic */
    uint64_t first_seq;
    uint64_t end_seq; /* UINT64_MAX: it is the last one */
    int64_t ended_ns; /* of one before the last: when it ended, by the wall clock */
};
/* The share with this slot in it. */
struct topic_share topic_share_at(const struct topic *topic, uint64_t seq);

/* Values behind the last slot; room for an entry is reserved. */
void topic_keep(struct core *core, struct topic *topic, const struct slot_entry *entry);

#endif
