/* SPDX-License-Identifier: MPL-2.0 */
/* note.h -- what is decided, as facts for a journal.  Without core->is_noting nothing happens. */
#ifndef CORE_RECORD_NOTE_H
#define CORE_RECORD_NOTE_H

#include "broker/core/model.h"

void note_failure_made(struct core *core, struct failure *failure);
void note_failure_forgotten(struct core *core, const struct failure *failure);
void note_job_begun(struct core *core, const struct job *job);
void note_job_ended(struct core *core, const struct job *job);
void note_job_created(struct core *core, const struct job *job);
void note_job_moved(struct core *core, const struct job *job);
void note_placed(struct core *core, const struct party *party);
void note_queued(struct core *core, const struct party *party);
void note_epoch_begun(struct core *core, const struct job *job);
void note_met(struct core *core, const struct job *job);
void note_attempt_begun(struct core *core, const struct job *job);
void note_run_named(struct core *core, const struct job *job);
void note_took_part(struct core *core, const struct party *party); /* in a snapshot */
void note_party_known(struct core *core, const struct party *party);
void note_party_forgotten(struct core *core, const struct party *party);
void note_party_joined(struct core *core, const struct party *party);
void note_party_ended(struct core *core, const struct party *party);
void note_past_end(struct core *core, const struct party *party, const struct party_end *end);
void note_session_ended(struct core *core, const struct party *party);
void note_guard_joined(struct core *core, const struct party *party);
void note_program_joined(struct core *core, const struct party *party);
void note_guard_ended(struct core *core, const struct party *party);
void note_located(struct core *core, const struct session *session);
void note_error_numbers(struct core *core, const struct party *party);
void note_numbers(struct core *core, struct session *session);
void note_parked(struct core *core, const struct session *session, const struct parked *op);
void note_progress(struct core *core, const struct session *session);
void note_topic_known(struct core *core, const struct topic *topic);
void note_topic_forgotten(struct core *core, const struct topic *topic);
void note_topic_opened(struct core *core, const struct topic *topic);
void note_topic_begun(struct core *core, const struct topic *topic);
void note_credit(struct core *core, const struct topic *topic);
void note_end_marked(struct core *core, const struct topic *topic, const struct end_mark *mark);
void note_trimmed(struct core *core, const struct topic *topic);
/* A new entry: values, an error, or an open slot without chunks. */
void note_entry(struct core *core, const struct topic *topic, const struct slot_entry *entry);

static inline void note_appended(struct core *core, const struct topic *topic,
                                 const struct slot_entry *entry)
{
    if (core->is_noting) /* on the way of every value: without a journal a branch is all it costs */
        note_entry(core, topic, entry);
}

void note_attached(struct core *core, const struct job *job, const struct attachment *attachment,
                   const struct attach_piece *piece);
void note_attachment_announced(struct core *core, const struct job *job,
                               const struct attachment *attachment);
void note_attachment_dropped(struct core *core, const struct job *job,
                             const struct attachment *attachment);
void note_attachment_forgotten(struct core *core, const struct job *job,
                               const struct attachment *attachment);
void note_needed(struct core *core, const struct open_slot *open, struct need_key key);
/* An open slot got its outcome. */
void note_settled(struct core *core, const struct topic *topic, const struct slot_entry *entry);
void note_retracted(struct core *core, const struct topic *topic, const struct slot_entry *entry);
void note_chunk_added(struct core *core, const struct topic *topic, uint64_t seq, uint64_t total,
                      const struct chunk *chunk);
void note_refused(struct core *core, const struct session *session, uint64_t number);
void note_uploaded(struct core *core, const struct session *session, uint32_t topic, uint64_t seq);
void note_upload_refused(struct core *core, const struct session *session);
void note_granted(struct core *core, const struct session *session, uint64_t number);
void note_sub_opened(struct core *core, const struct sub *sub);
void note_pattern_added(struct core *core, const struct sub *sub, struct span pattern);
void note_watched(struct core *core, const struct watch *watch);
void note_followed(struct core *core, const struct route *route, uint64_t seq);
void note_missed(struct core *core, const struct route *route);
void note_sub_attached(struct core *core, const struct sub *sub);
void note_sub_detached(struct core *core, const struct sub *sub);
void note_sub_expired(struct core *core, const struct sub *sub);
void note_sub_closed(struct core *core, const struct sub *sub);
void note_acknowledged(struct core *core, const struct route *route);
void note_end_due(struct core *core, const struct sub *sub, const struct ending *ending);
void note_end_told(struct core *core, const struct sub *sub);
void note_group_made(struct core *core, const struct group *group);
void note_member_joined(struct core *core, const struct sub *member);
void note_member_drained(struct core *core, const struct sub *member);
void note_leased(struct core *core, const struct task *task);
void note_task_back(struct core *core, const struct task *task, struct failure *failure);
void note_task_error(struct core *core, const struct task *task, struct failure *failure);
void note_task_ended(struct core *core, const struct task *task);
void note_passed(struct core *core, const struct route *route);
void note_requested(struct core *core, const struct topic *topic, uint64_t seq,
                    const struct open_slot *reply);
void note_letter_kept(struct core *core, const struct group *group, const struct letter *letter);
void note_letter_replayed(struct core *core, const struct group *group,
                          const struct letter *letter);
void note_letter_gone(struct core *core, const struct group *group, const struct letter *letter);
void note_event(struct core *core, const struct job *job, const struct job_event *event);
void note_verdict_error(struct core *core, const struct job *job, const struct judged *judged);
void note_verdict_survived(struct core *core, const struct job *job);
void note_verdict_said(struct core *core, const struct job *job);
void note_verdict_forgotten(struct core *core, const struct job *job);

#endif
