/* SPDX-License-Identifier: MPL-2.0 */
/* judgement.h -- why a job cannot go on: collects its errors, and gives its verdict. */
#ifndef CORE_LIFECYCLE_JUDGEMENT_H
#define CORE_LIFECYCLE_JUDGEMENT_H

#include "broker/core/model.h"

/* false: no memory. */
bool judge_init(struct core *core, struct job *job);
void judge_fini(struct core *core, struct job *job);
/* Adds an error that the job can fail of. party has not ended by it yet; NULL: it is the broker's
 * error about the job.  Returns whether it came too late to count. */
bool judge_error(struct core *core, struct job *job, const struct party *party,
                 struct failure *failure);
/* The job's parties changed, or time passed: the job is judged at the end of this step. */
void judge_look(struct core *core, struct job *job);
/* A party completed. */
void judge_completed(struct core *core, struct job *job);
/* An incarnation begins. */
void judge_joined(struct core *core, struct job *job);
/* Forgets all errors and the verdict; later errors begin a new judgement. */
void judge_anew(struct core *core, struct job *job);
void judge_all(struct core *core); /* at the end of a step */
/* core_clock() stood still for so long: so did all windows of verdicts. */
void judge_stood_still(struct core *core, int64_t gap_ns);
/* The verdict of a created job is final: another attempt, or the end, follows. */
void judge_conclude_soon(struct core *core, struct job *job);
/* A party is back on another connection, and may have missed the verdict. */
void judge_tell_again(struct core *core, struct session *session);
void judge_asked(struct core *core, struct session *session, const struct msg_verdict_ask *msg);
/* While replaying. */
bool judge_restore_error(struct core *core, struct job *job, const struct judged *judged);
void judge_restore_survived(struct job *job);
bool judge_restore_said(struct core *core, struct job *job, bool is_final, int64_t at_ns,
                        struct failure *root, struct span why);
void judge_resume(struct core *core, struct job *job); /* at its end */

#endif
