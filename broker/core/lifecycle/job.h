/* SPDX-License-Identifier: MPL-2.0 */
/* job.h -- jobs: made by their names, kept while somebody is there and for a while beyond. */
#ifndef CORE_LIFECYCLE_JOB_H
#define CORE_LIFECYCLE_JOB_H

#include "broker/core/model.h"

struct job *job_get(struct core *core, struct span name); /* NULL: no room */
/* Without sessions it lasts for its linger time. */
void job_keep(struct core *core, struct job *job);
/* id 0: any. */
struct job *job_make(struct core *core, uint32_t id, struct span name);
void job_free(struct core *core, struct job *job);
void job_linger(struct core *core, struct job *job); /* its timer fired */
void job_release(struct core *core, struct job *job);
/* Its sessions keep it in being, and a while beyond the last of them. */
void job_hold(struct core *core, struct job *job);

#endif
