/* SPDX-License-Identifier: MPL-2.0 */
/* judgement.h -- why a job cannot go on: which errors are weighed, and when the verdict is said. */
#ifndef CORE_LIFECYCLE_JUDGEMENT_H
#define CORE_LIFECYCLE_JUDGEMENT_H

#include "broker/core/model.h"

/* false: no memory. */
bool judge_init(struct core *core, struct job *job);
void judge_fini(struct core *core, struct job *job);
/* An error that the job can fail of: of this party, which has not ended by it yet, or the broker's
 * word about the job (NULL).  Whether it came too late to count. */
bool judge_error(struct core *core, struct job *job, const struct party *party,
                 struct failure *failure);
/* The job's parties changed, or time passed: it is looked at when this step ends. */
void judge_look(struct core *core, struct job *job);
/* A party is done, and well. */
void judge_completed(struct core *core, struct job *job);
/* An incarnation begins. */
void judge_joined(struct core *core, struct job *job);
/* What comes from now on is weighed anew. */
void judge_anew(struct core *core, struct job *job);
void judge_all(struct core *core); /* at the end of a step */
/* A party is back on another connection: it may have missed what was said. */
void judge_tell_again(struct core *core, struct session *session);
void judge_asked(struct core *core, struct session *session, const struct msg_verdict_ask *msg);
/* While replaying. */
bool judge_restore_error(struct core *core, struct job *job, const struct judged *judged);
void judge_restore_survived(struct job *job);
bool judge_restore_said(struct core *core, struct job *job, bool is_final, int64_t at_ns,
                        struct failure *root, struct span why);
void judge_resume(struct core *core, struct job *job); /* at its end */

#endif
