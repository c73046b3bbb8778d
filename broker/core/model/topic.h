/* SPDX-License-Identifier: MPL-2.0 */
/* topic.h -- a topic: its slots, its writer's credit, who follows it. */
#ifndef CORE_MODEL_TOPIC_H
#define CORE_MODEL_TOPIC_H

#include "broker/core/tables/slot_table.h"
#include "libbus/base/list.h"
#include "libbus/base/map.h"
#include "libbus/base/span.h"

#include <stdbool.h>
#include <stdint.h>

struct end_mark {
    uint32_t incarnation;
    uint64_t seq; /* the first slot that is not of this incarnation */
};

enum { END_MARKS = 4 };

/* How far the writer of a topic may be ahead: streams/lead.c. */
struct lead {
    uint64_t window_bytes; /* so much may be not taken, as long as something is */
    bool is_paused;        /* nothing was taken for a while: until something is, it is the whole */
    enum lead_state {
        LEAD_GRANT, /* until more credit is granted */
        LEAD_USE,   /* ... until it is used; mark: credit that there was before */
        LEAD_SEND,  /* ... until what it was used for is sent; mark: the end of these slots */
    } state;
    uint64_t mark;
    int64_t since_ns;       /* it is in this state */
    int64_t trip_ns;        /* from credit that was granted to the value that it was used for */
    struct list waits_link; /* in core->lead_waiters: the writer waits at less than the whole */
    int64_t waits_ns;       /* since when it does, and nothing is taken */
};

struct topic {
    uint32_t id;
    struct span name; /* owned */
    struct job *job;
    struct party *writer;
    struct slot_table slots;
    struct list routes;
    struct list unpromised;    /* awaits for numbers not reserved yet, by seq */
    struct list requests;      /* reply slots of the requests in it that are not settled, by seq */
    struct id_map request_ids; /* seq of a request -> id of its reply slot; 0: settled */
    bool is_replies;           /* of requests: "party/_replies" */
    struct group *letters;     /* whose dead letters it has, or why they died; NULL: it has none */
    struct list party_link;
    struct list job_link;
    struct list room_link;            /* in job->room_waiters */
    struct end_mark marks[END_MARKS]; /* newest last */
    uint32_t mark_count;
    uint32_t open_count;
    uint64_t begin_seq; /* the first number that was ever reserved */
    bool is_opened;     /* its writer has asked for it */
    uint64_t bytes;     /* of all that is kept */
    uint64_t credit_used;
    uint64_t credit_limit;
    uint64_t taken_floor;   /* below it every holding subscription has taken all */
    uint64_t untaken_bytes; /* from there on */
    uint64_t done_floor;    /* below it nobody needs it any more */
    uint64_t done_bytes;    /* kept below it */
    uint64_t done_slots;
    struct lead lead;
    bool is_held_back;      /* its writer waits, and less than half of its window is taken */
    bool is_slow_told;      /* ... which was told as consumer.slow */
    int64_t held_back_ns;   /* since when */
    uint32_t falling_count; /* of its failed slots, those in core->falling: it is not trimmed */
};

#endif
