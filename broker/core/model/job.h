/* SPDX-License-Identifier: MPL-2.0 */
/* job.h -- a job: its parties, topics, members, events, and what it failed of. */
#ifndef CORE_MODEL_JOB_H
#define CORE_MODEL_JOB_H

#include "broker/core/model/count.h"
#include "broker/core/model/failure.h"
#include "broker/core/model/report.h"
#include "broker/core/model/wait.h"
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
    uint32_t survived_count; /* the first so many errors were survived */
    uint64_t bytes;          /* of all errors */
    struct name_map by_id;   /* id of an error -> its failure's in core->failures */
    bool is_said;
    bool is_final;
    int64_t said_ns;
    struct failure *root;   /* of the last verdict that was said: a reference */
    struct span why;        /* its explanation; owned */
    struct span why_before; /* the explanation before; effects may refer to it; owned */
    struct timer timer;     /* when the job is looked at next */
    struct list link;       /* in core->judged: to be looked at when the step ends */
    struct list waiters;    /* observers that asked for the final verdict */
};

struct job {
    uint32_t id;
    struct span name;        /* owned */
    uint32_t attempt;        /* of a job that nobody created: the number of its run */
    struct account *account; /* a reference: of who began it */
    struct span run;         /* owned: what a launcher calls this run; empty: nothing */
    bool is_continued;       /* all parties of the run had ended, and others continued it */
    int64_t rest_ns;         /* ... when the last of them ended, by the wall clock; 0: not known */
    int64_t woken_ns;        /* ... when the first one joined since; core_clock() */
    int64_t over_ns;         /* since when it is over, if it is; core_clock() */
    struct name_map parties; /* name -> id in core->parties */
    struct name_map topics;  /* name -> id in core->topics */
    struct list party_list;
    struct list topic_list;
    struct list sub_list;  /* all subscriptions, attached or kept */
    struct list bare_list; /* ended parties that nothing refers to, oldest first */
    struct list taps;      /* sessions that follow the control topic */
    uint32_t party_count;
    uint32_t part_count;      /* parties that took part in this attempt */
    uint32_t live_count;      /* parties with a session */
    uint32_t follower_count;  /* ... that hold no run */
    uint32_t count_place;     /* in core->counts.jobs; 0: it is not listed */
    struct job_counts counts; /* of a listed job */
    uint32_t cancelled;       /* the last attempt that was cancelled; 0: none */
    uint32_t first_attempt;   /* since it was created */
    uint32_t session_count;   /* parties and observers */
    uint64_t bytes;           /* of kept values */
    uint64_t open_count;
    uint32_t held_back_count; /* topics that are held back */
    struct list to_trim;      /* topics of which something may go */
    struct list room_waiters; /* topics whose writers wait for room in the job, not in the topic */
    uint64_t room_waiters_bytes; /* job->bytes when they were last looked at */
    struct list tight_link;      /* in core->tight: the job is full, and a writer waits */
    struct timer linger;
    struct job_spec spec;
    enum job_state state;
    struct roster roster;
    bool is_called_off;  /* a limit passed, or cancelled: no other attempt */
    bool is_window_over; /* GATHERING: min parties are enough */
    int64_t pause_ms;    /* PAUSING */
    int64_t due_wall_ns; /* the deadline by the wall clock, for a restart */
    struct timer window; /* join window, or pause: by its state */
    struct timer join;   /* GATHERING: the join timeout */
    struct timer deadline;
    struct failure *failure; /* a reference: what it, or its last attempt, failed of; or NULL */
    struct failure *loss;    /* a reference: of the first member lost in this epoch; or NULL */
    uint64_t error_count;    /* errors about the job itself */
    uint64_t round;          /* barriers passed in this epoch */
    uint64_t meeting_epoch;  /* of the members at a barrier */
    uint32_t meeting_count;
    struct list due_link;     /* in core->jobs_due: parties came or went */
    struct list over_link;    /* in core->jobs_over: the next step ends it */
    struct job_event *events; /* ring of events, newest LIMIT_EVENTS */
    uint32_t event_room;
    uint64_t event_next; /* id of the next; the oldest kept is event_first */
    uint64_t event_first;
    uint64_t event_bytes;
    uint64_t event_bytes_ever; /* also of events that are kept no more */
    struct list tell_link;     /* in core->told while taps are to be sent events */
    struct judgement judgement;
    struct complaints observers; /* complaints about observers */
    struct storms storms;        /* of slots that failed, and of what was refused */
    struct timer storms_timer;
    struct timer wait_timer; /* the next look for a cycle of waits; set while a call is blocked */
    struct wait_cycle wait_cycles[LIMIT_WHY_CYCLES];
    uint32_t wait_cycle_count;
    struct list attachments; /* oldest first */
    struct name_map attachment_names;
    uint32_t attachment_count;
    uint64_t attachment_bytes;
};

/* Of an event.  Effects of the step that told it point to it, so it stands until the next step. */
struct event_text {
    struct event_text *next; /* in core->unused_texts */
    size_t bytes;
    char at[];
};

struct job_event {
    uint64_t id;
    int64_t at_ns;
    int64_t broker_ns;       /* the same by the monotonic clock */
    struct event_text *text; /* owned: name, party, topic, text, then ids of errors */
    uint32_t name_bytes, party_bytes, topic_bytes, text_bytes;
    uint32_t first_bytes, last_bytes; /* the ids of the first and the last error */
    uint32_t incarnation;
    uint64_t seq;
    uint64_t count;
    bool is_late;            /* behind the final verdict */
    uint64_t step;           /* the step of the event; 0: before a restart */
    uint64_t bytes_before;   /* job->event_bytes_ever before it */
    struct failure *failure; /* a reference, or NULL */
};

#endif
