/* SPDX-License-Identifier: MPL-2.0 */
/* count.h -- what is counted for METRICS where it happens: record/count.c. */
#ifndef CORE_MODEL_COUNT_H
#define CORE_MODEL_COUNT_H

#include "libbus/base/access.h"
#include "libbus/base/limits.h"
#include "libbus/wire/error.h"

#include <stdbool.h>
#include <stdint.h>

enum { COUNT_JOBS = LIMIT_METRICS_JOBS };

enum count_outcome { COUNT_VALUE, COUNT_ERROR, COUNT_OUTCOMES };
/* Why something was refused: record/count.c has the words. */
enum { COUNT_REASONS = 14 };
enum count_speaker { COUNT_PARTY, COUNT_OBSERVER, COUNT_UNKNOWN, COUNT_SPEAKERS };

struct job_counts {
    uint64_t settled[COUNT_OUTCOMES];
    uint64_t errors[ERROR_KIND_COUNT];
};

/* A job is listed from its beginning to its end, or never.  So no counter ever goes back. */
struct counts {
    uint32_t jobs[COUNT_JOBS + 1]; /* id of the job that has this place, from 1 on; 0: free */
    struct job_counts others;      /* of all jobs that are not listed, gone ones included */
    bool has_others;               /* there was such a job */
    uint64_t values;               /* that settled a slot, of all jobs */
    uint64_t refused[COUNT_REASONS];
    uint64_t violations[COUNT_SPEAKERS];
    uint64_t quota_refused[ACCESS_QUOTA_COUNT];
    uint64_t tap_missed; /* events that a tap was not sent */
};

#endif
