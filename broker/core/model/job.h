/* SPDX-License-Identifier: MPL-2.0 */
/* job.h -- a job: its parties, topics, members, events, and what it failed of. */
#ifndef CORE_MODEL_JOB_H
#define CORE_MODEL_JOB_H

#include "broker/core/model/failure.h"
#include "broker/core/model/report.h"
#include "broker/core/tables/job.h"
#include "broker/core/tables/roster.h"
#include "broker/core/tables/storms.h"
#include "broker/core/tables/timers.h"
#include "broker/core/tables/verdict.h"
#include "libbus/base/list.h"
#include "libbus/base/map.h"
#include "libbus/base/span.h"

#include <stdbool.h>
#include <stdint.h>

/* What a job failed of, or may: lifecycle/judgement.c. */
struct judgement {
    struct verdict verdict;
    struct judged *errors; /* in the order in which they came */
    uint32_t count, room;
    uint32_t survived_count; /* of these, the first so many */
    uint64_t bytes;          /* of the errors */
    struct name_map by_id;   /* id of an error -> its failure's in core->failures */
    bool is_said;
    bool is_final;
    int64_t said_ns;
    struct failure *root;   /* as it was said last: a reference */
    struct span why;        /* as it was said last: owned */
    struct span why_before; /* what this step may have told before that; owned */
    struct timer timer;     /* the next look */
    struct list link;       /* in core->judged: to be looked at when the step ends */
    struct list waiters;    /* observers that asked for the final word */
};

struct job {
    uint32_t id;
    struct span name; /* owned */
    uint32_t attempt;
    struct name_map parties; /* name -> id in core->parties */
    struct name_map topics;  /* name -> id in core->topics */
    struct list party_list;
    struct list topic_list;
    struct list sub_list;  /* all subscriptions, attached or kept */
    struct list bare_list; /* ended parties that nothing refers to, oldest first */
    struct list taps;      /* sessions that follow the control topic */
    uint32_t party_count;
    uint32_t session_count; /* parties and observers */
    uint64_t bytes;         /* of kept values */
    uint64_t open_count;
    struct list trim_at;      /* a mark in topic_list: where trimming under pressure goes on */
    struct list room_waiters; /* topics whose writers wait for room in the job, not in the topic */
    uint64_t room_waiters_bytes; /* bytes, when they were last looked at */
    struct list tight_link;      /* in core->tight: somebody is held back because it is full */
    struct timer linger;
    struct job_spec spec;
    enum job_state state;
    struct roster roster;
    bool is_called_off;  /* its deadline passed, or it was cancelled: no other attempt */
    bool is_window_over; /* GATHERING: min will do */
    int64_t pause_ms;    /* PAUSING */
    int64_t due_wall_ns; /* the deadline by the wall clock, for a restart */
    struct timer window; /* join window, or pause: by its state */
    struct timer deadline;
    struct failure *failure; /* a reference: what it, or its last attempt, failed of; or NULL */
    struct failure *loss;    /* a reference: of the first member lost in this epoch; or NULL */
    uint64_t error_count;    /* of its own, without a party */
    uint64_t round;          /* barriers passed in this epoch */
    uint64_t meeting_epoch;  /* of those who are at one: */
    uint32_t meeting_count;
    struct list due_link;     /* in core->jobs_due: parties came or went */
    struct job_event *events; /* ring of events, newest LIMIT_EVENTS */
    uint32_t event_room;
    uint64_t event_next; /* id of the next; the oldest kept is event_first */
    uint64_t event_first;
    uint64_t event_bytes;
    uint64_t event_bytes_ever; /* those that are kept no more included */
    struct list tell_link;     /* in core->told while taps are to be served */
    struct judgement judgement;
    struct complaints observers; /* about them */
    struct storms storms;        /* of slots that failed, and of what was refused */
    struct timer storms_timer;
    struct list attachments; /* oldest first */
    struct name_map attachment_names;
    uint32_t attachment_count;
    uint64_t attachment_bytes;
};

struct job_event {
    uint64_t id;
    int64_t at_ns;
    int64_t broker_ns; /* the same by the clock that does not jump; 0: of older facts */
    char *text;        /* owned: name, party, topic and text one behind the other */
    uint32_t name_bytes, party_bytes, topic_bytes, text_bytes;
    uint32_t first_bytes, last_bytes; /* ids of errors, behind them */
    uint32_t incarnation;
    uint64_t seq;
    uint64_t count;
    bool is_late;            /* behind the final verdict */
    uint64_t step;           /* in which it was told; 0: before a restart */
    uint64_t bytes_before;   /* of job->event_bytes_ever */
    struct failure *failure; /* a reference, or NULL */
};

#endif
