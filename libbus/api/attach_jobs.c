/* SPDX-License-Identifier: MPL-2.0 */
/* attach_jobs.c -- the queue of errors whose attachments a courier is to bring. */
#include "libbus/api/attach_jobs.h"

#include "libbus/api/model.h"

#include <stdlib.h>
#include <string.h>

void attach_jobs_append(struct attach_job **jobs, struct attach_job *more)
{
    while (*jobs != NULL)
        jobs = &(*jobs)->next;
    *jobs = more;
}

void attach_note(struct bus *bus, const struct bus_error *error)
{
    struct bus_error *noted = (struct bus_error *)(uintptr_t)error; /* nobody else sees the mark */
    if (error->attachments == NULL || error->attachments->is_elsewhere || error->is_noted)
        return;
    struct attach_job *job = malloc(sizeof *job);
    if (job == NULL)
        return; /* the broker will say that nothing of them came */
    noted->is_noted = true;
    *job = (struct attach_job){.error = bus_error_ref(error)};
    memcpy(job->job, bus->job, sizeof job->job);
    attach_jobs_append(&bus->attach_jobs, job);
}

void attach_job_free(struct attach_job *job)
{
    bus_error_unref(&job->error);
    free(job);
}

void attach_fini(struct bus *bus)
{
    while (bus->attach_jobs != NULL) {
        struct attach_job *job = bus->attach_jobs;
        bus->attach_jobs = job->next;
        attach_job_free(job);
    }
    free(bus->carrying);
}
