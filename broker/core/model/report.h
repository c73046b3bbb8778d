/* SPDX-License-Identifier: MPL-2.0 */
/* report.h -- what operators are told of, but not each time: complaints, how the journal is. */
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

/* Somebody breaks the protocol: operators are told, but not each time. */
struct complaints {
    struct job *job;      /* NULL: a stranger, all jobs are told */
    struct party *party;  /* NULL: nobody with a name */
    struct timer timer;   /* set for a while after they were told of */
    int64_t period_ms;    /* that while */
    uint64_t count;       /* that came since */
    uint32_t incarnation; /* whose the last is */
    struct text text;     /* the last */
};

/* The journal is well or not: all jobs are told, but not each time if that changes for ever. */
struct journal_word {
    enum journal_health health; /* as it is */
    enum journal_health told;   /* ... and as all jobs were told */
    bool has_changed;           /* since then, if only for a moment */
    struct timer timer;         /* set for a while after they were told */
    int64_t period_ms;          /* that while */
    struct text text;           /* about how it is */
};

#endif
