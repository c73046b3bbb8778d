/* SPDX-License-Identifier: MPL-2.0 */
/* job.h -- jobs: made by name, kept while they have sessions and for a while beyond. */
#ifndef CORE_LIFECYCLE_JOB_H
#define CORE_LIFECYCLE_JOB_H

#include "broker/core/model.h"

/* Why there is no job more: a type of error, and a sentence that is good until the next refusal. */
struct job_refusal {
    const char *type;
    const char *message;
};
/* ... made if it is new, and the speaker's then.  NULL: out_refusal says why. */
struct job *job_get(struct core *core, struct span name, struct job_refusal *out_refusal);
/* id 0: any.  owner: in the access file; may be empty.  NULL: no memory. */
struct job *job_make(struct core *core, uint32_t id, struct span name, struct span owner);
void job_free(struct core *core, struct job *job);
/* One session more; one less. */
void job_hold(struct core *core, struct job *job);
void job_release(struct core *core, struct job *job);
/* A job without sessions stays for its linger time. */
void job_keep(struct core *core, struct job *job);
/* A job without sessions goes, with all that is in it. */
void job_end(struct core *core, struct job *job);
/* Ends a job that was made for a party which could not join it; false: it is used. */
bool job_drop_unused(struct core *core, struct job *job);
/* The linger time is over: the next step ends the job. */
void job_linger(struct core *core, struct job *job);
/* Ends the jobs whose linger time was over in the step before. */
void jobs_end_over(struct core *core);

#endif
