/* SPDX-License-Identifier: MPL-2.0 */
/* count.c -- see count.h. */
#include "broker/core/record/count.h"

void count_job_begins(struct core *core, struct job *job)
{
    uint32_t place = 1;
    while (place <= COUNT_JOBS && core->counts.jobs[place] != 0)
        place++;
    core->counts.has_others |= place > COUNT_JOBS;
    if (place > COUNT_JOBS)
        return;
    core->counts.jobs[place] = job->id;
    job->count_place = place;
}

void count_job_ends(struct core *core, const struct job *job)
{
    if (job->count_place > 0)
        core->counts.jobs[job->count_place] = 0;
}

static struct job_counts *counts_of(struct core *core, struct job *job)
{
    return job->count_place > 0 ? &job->counts : &core->counts.others;
}

void count_settled(struct core *core, struct job *job, enum count_outcome outcome, uint32_t slots)
{
    if (!core->is_replaying)
        counts_of(core, job)->settled[outcome] += slots;
}

bool count_is_error(uint64_t kind)
{
    return kind < ERROR_KIND_COUNT && kind != ERROR_NOTICE && kind != ERROR_LOCAL;
}

void count_error(struct core *core, struct job *job, uint64_t kind)
{
    if (!core->is_replaying && count_is_error(kind))
        counts_of(core, job)->errors[kind] += 1;
}
