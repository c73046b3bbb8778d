/* SPDX-License-Identifier: MPL-2.0 */
/* topic.h -- a topic: its slots, its writer's credit, who follows it. */
#ifndef CORE_MODEL_TOPIC_H
#define CORE_MODEL_TOPIC_H

#include "broker/core/tables/seq_queue.h"
#include "broker/core/tables/slot_table.h"
#include "libbus/base/flow_window.h"
#include "libbus/base/limits.h"
#include "libbus/base/list.h"
#include "libbus/base/map.h"
#include "libbus/base/span.h"

#include <stdbool.h>
#include <stdint.h>

struct end_mark {
    uint32_t incarnation;
    uint64_t seq;  /* the first slot that is not of this incarnation */
    int64_t at_ns; /* when it ended, by the wall clock */
};

/* One for each end that is kept, one for that of the last incarnation, and one that the slots of
 * all earlier ones lie below. */
enum { END_MARKS = LIMIT_PARTY_ENDS + 2 };

/* How far the writer of a topic may be ahead: streams/lead.c. */
struct lead {
    uint64_t window_bytes; /* so many bytes may be not taken, while readers take something */
    bool is_paused;        /* nothing was taken for a while: the whole window counts */
    enum lead_state {
        LEAD_GRANT, /* waits for more credit */
        LEAD_USE,   /* waits for its use; mark: the credit before */
        LEAD_SEND,  /* waits for these slots to be sent; mark: their end */
    } state;
    uint64_t mark;
    int64_t since_ns;     /* begin of this state */
    uint64_t used_before; /* credit_used when this credit was granted */
    int64_t trip_ns;      /* from the grant of credit to the value that uses it */
    /* What the links of writer and readers carry: lead_measure(). */
    struct flow_window flow; /* what was granted is sent, and what all readers took has arrived */
    uint64_t taken_bytes;    /* its position: all that was ever taken */
    int64_t writer_ns;       /* the shortest round trip of the writer; 0: not known */
    bool is_for_group;       /* some of it waits for workers */
    bool is_timed;           /* some credit is, until values come that were written with it */
    uint64_t timed_mark;     /* ... which begin here, in credit_used */
    int64_t timed_ns;        /* when it was granted */
    int64_t timed_stamp_ns;  /* the same in core->now_ns */
    int64_t measure_ns;      /* when the links are looked at again */
    struct list waits_link;  /* in core->lead_waiters: the writer waits */
    int64_t waits_ns;        /* since when it waits and nothing is taken, or was last looked at */
    int64_t waits_since_ns;
};

struct topic {
    uint32_t id;
    uint32_t number;  /* by which clients know it: id, or what its writer chose (number.h) */
    struct span name; /* owned */
    struct job *job;
    struct party *writer;
    struct slot_table slots;
    struct list routes;
    struct seq_queue unpromised; /* waits for numbers that are not reserved yet */
    struct list requests;        /* open reply slots of the requests in it, by seq */
    struct id_map request_ids;   /* seq of a request -> id of its reply slot; 0: settled */
    bool is_replies;             /* of requests: "party/_replies" */
    struct group *letters; /* the group whose dead letters, or their errors, it has; or NULL */
    struct list party_link;
    struct list job_link;
    struct list room_link;            /* in job->room_waiters */
    struct list trim_link;            /* in job->to_trim */
    struct list account_trim_link;    /* in the account's to_trim */
    struct end_mark marks[END_MARKS]; /* newest last */
    uint32_t mark_count;
    uint32_t open_count;
    uint64_t begin_seq; /* the first number that was ever reserved */
    bool is_opened;     /* its writer opened it */
    uint64_t bytes;     /* of all kept slots */
    uint64_t credit_used;
    uint64_t credit_limit;
    uint64_t needed_limit;  /* with which its writer can write a set of values that waits */
    uint64_t rate_paid;     /* credit below it was taken from the rate: streams/rate.c */
    struct list rate_link;  /* in the account's rate_waiters */
    uint64_t taken_floor;   /* all subscriptions that hold writers back have taken what is below */
    uint64_t untaken_bytes; /* from taken_floor on */
    uint64_t done_floor;    /* nobody needs what is below */
    uint64_t done_bytes;    /* kept below done_floor */
    uint64_t done_slots;
    struct lead lead;
    struct open_slot *passing; /* its value passes through: streams/passing.c; or NULL */
    bool has_passed;           /* one did */
    bool is_held_back;         /* its writer waits, and half of its window or more is not taken */
    bool is_slow_told;         /* consumer.slow was told */
    int64_t held_back_ns;      /* since when it is held back */
    uint32_t falling_count;    /* its slots in core->falling; above 0 it is not trimmed */
};

#endif
