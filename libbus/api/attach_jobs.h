/* SPDX-License-Identifier: MPL-2.0 */
/* attach_jobs.h -- the queue of errors whose attachments a courier is to bring. */
#ifndef API_ATTACH_JOBS_H
#define API_ATTACH_JOBS_H

#include "libbus/api/attachment_list.h"

/* An error whose attachments are still to be brought. */
struct attach_job {
    struct attach_job *next;
    struct bus_error *error; /* a reference */
    char job[LIMIT_NAME_BYTES + 1];
};

/* Queues the attachments of this error, if it has any that nobody brings yet.  Lock held. */
void attach_note(struct bus *bus, const struct bus_error *error);
void attach_jobs_append(struct attach_job **jobs, struct attach_job *more);
void attach_job_free(struct attach_job *job);
/* Frees the queue, and the piece under way. */
void attach_fini(struct bus *bus);

#endif
