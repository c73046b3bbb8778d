/* SPDX-License-Identifier: MPL-2.0 */
/* report.h -- reports to operators that come at most once in a while: complaints, the journal. */
#ifndef CORE_MODEL_REPORT_H
#define CORE_MODEL_REPORT_H

#include "broker/core/tables/event.h"
#include "broker/core/tables/timers.h"

#include <stdbool.h>
#include <stdint.h>

/* A sentence; see record/text.c. */
struct text {
    char data[512];
    size_t bytes;
};

/* Reports that clients broke the protocol.  After each the core counts for a while. */
struct complaints {
    struct job *job;     /* NULL: an unknown connection; all jobs are told */
    struct party *party; /* NULL: an observer, or an unknown connection */
    struct timer timer;  /* set after a report: the next one waits for it */
    int64_t period_ms;   /* how long */
    uint64_t count;      /* complaints since the last report */
    conn_id conn;        /* of the last complaint, as are those below */
    uint32_t incarnation;
    struct text text;
};

/* Reports of the journal's health to all jobs, at most one in a while. */
struct journal_word {
    enum journal_health health; /* now */
    enum journal_health told;   /* as all jobs were told */
    bool has_changed;           /* since that report, if only for a moment */
    struct timer timer;         /* set after a report: the next one waits for it */
    int64_t period_ms;          /* how long */
    struct text text;           /* of the last change */
};

#endif
