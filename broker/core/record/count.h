/* SPDX-License-Identifier: MPL-2.0 */
/* count.h -- counts for METRICS what happens, since the broker started. */
#ifndef CORE_RECORD_COUNT_H
#define CORE_RECORD_COUNT_H

#include "broker/core/model.h"

/* A job is made: it is listed if fewer than COUNT_JOBS are.  It goes. */
void count_job_begins(struct core *core, struct job *job);
void count_job_ends(struct core *core, const struct job *job);

/* So many slots of the job got this outcome. */
void count_settled(struct core *core, struct job *job, enum count_outcome outcome, uint32_t slots);
/* An error of this kind came into being. */
void count_error(struct core *core, struct job *job, uint64_t kind);
/* Whether errors of this kind are counted.  A notice is no failure; a local error is not sent. */
bool count_is_error(uint64_t kind);

/* A value, an error or a message was refused; type: of the error that says so, "errbus...". */
void count_refusal(struct core *core, const char *type);
void count_refusals(struct core *core, const char *type, uint32_t count);
const char *count_reason_name(unsigned reason); /* below COUNT_REASONS: the label */
uint64_t count_all_refused(const struct core *core);

#endif
