/* SPDX-License-Identifier: MPL-2.0 */
/* count.c -- see count.h. */
#include "broker/core/record/count.h"

#include <string.h>

#define TYPE_PREFIX "errbus."

/* Types of the errors that say so, without the prefix; the last one stands for all others. */
static const char *const reasons[COUNT_REASONS] = {
    "too_late",   "fenced",    "full",     "quota", "no_credit",    "too_big",  "not_open",
    "lease_over", "no_memory", "protocol", "cycle", "need_unknown", "not_kept", "other",
};

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
    if (core->is_replaying)
        return;
    counts_of(core, job)->settled[outcome] += slots;
    core->counts.values += outcome == COUNT_VALUE ? slots : 0;
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

const char *count_reason_name(unsigned reason)
{
    return reasons[reason];
}

void count_refusals(struct core *core, const char *type, uint32_t count)
{
    unsigned at = 0;
    while (at < COUNT_REASONS - 1 && strcmp(type + sizeof TYPE_PREFIX - 1, reasons[at]) != 0)
        at++;
    core->counts.refused[at] += count;
}

void count_refusal(struct core *core, const char *type)
{
    count_refusals(core, type, 1);
}

uint64_t count_all_refused(const struct core *core)
{
    uint64_t sum = 0;
    for (unsigned i = 0; i < COUNT_REASONS; i++)
        sum += core->counts.refused[i];
    return sum;
}
