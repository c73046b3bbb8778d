/* SPDX-License-Identifier: MPL-2.0 */
/* membership.h -- jobs that were created: members and their ranks, epochs, attempts, ends. */
#ifndef CORE_LIFECYCLE_MEMBERSHIP_H
#define CORE_LIFECYCLE_MEMBERSHIP_H

#include "broker/core/model.h"

void job_create(struct core *core, struct session *session, const struct msg_job_create *msg);
void job_show(struct core *core, struct session *session, const struct msg_job_show *msg);
/* Says that there is no job of this name, and which jobs there are.  It is kept until the next
 * refusal. */
const char *job_missing_text(struct core *core, struct span name);
/* The job of this name.  NULL: there is none; that was answered. */
struct job *job_find(struct core *core, const struct session *session, struct span name,
                     uint64_t request);
/* The session may be gone afterwards. */
void job_cancel(struct core *core, struct session *session, const struct msg_job_cancel *msg);
/* Why nobody may join it now, or not this party (NULL: anybody), and the type of that error; or
 * NULL. */
const char *job_refusal(const struct job *job, const struct party *party, const char **out_type);
/* An incarnation begins; room for it in the roster is reserved. */
void job_joined(struct core *core, struct party *party);
/* An incarnation is over. */
void job_left(struct core *core, struct party *party);
/* ... with this error; called before job_left(). */
void job_lost(struct core *core, struct party *party, struct failure *failure);
void job_greet(struct core *core, struct session *session); /* its place, on a new connection */
void jobs_settle(struct core *core); /* at the end of a step: what follows from all that */
void job_window_over(struct core *core, struct job *job);
void job_join_over(struct core *core, struct job *job);
void job_deadline_passed(struct core *core, struct job *job);
void job_resume(struct core *core, struct job *job); /* at the end of a replay */
/* What takes the place of what its parties still owe; one reference for the caller. */
struct failure *job_ending(struct core *core, struct job *job);
/* All sessions of its parties end with this error, also of parties that are not over. */
void job_end_sessions(struct core *core, struct job *job, struct failure *failure);
/* Whether all parties of a job that is over are gone, and for so long that none comes late. */
bool job_is_over_for_all(const struct core *core, const struct job *job);
/* A free job that was cancelled is free again. */
void job_free_again(struct core *core, struct job *job);
/* For replay, too. */
void job_begin(struct core *core, struct job *job, const struct job_spec *spec,
               int64_t due_wall_ns);
void job_set_state(struct core *core, struct job *job, enum job_state state,
                   struct failure *failure);
void job_place(struct core *core, struct party *party, uint32_t rank);
void job_begin_attempt(struct core *core, struct job *job, uint32_t attempt);

/* Who is there now, for job_weigh(). */
struct job_parties job_parties_of(const struct job *job);
/* ... and who would be without this party. */
struct job_parties job_parties_without(const struct job *job, const struct party *party);
/* Attempts that may still follow, if the error of the last one is worth it. */
uint32_t job_attempts_left(const struct job *job);

#endif
