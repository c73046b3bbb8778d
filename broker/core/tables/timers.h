/* SPDX-License-Identifier: MPL-2.0 */
/* timers.h -- what is due when: a heap of timers that live in their owners.
 *
 * Room for each owner's timer is set aside when the owner is made, so setting cannot fail.  Timers
 * that are due at the same time come in the order in which they were set. */
#ifndef CORE_TIMERS_H
#define CORE_TIMERS_H

#include "libbus/base/memory.h"

#include <stdbool.h>
#include <stdint.h>

enum timer_kind {
    TIMER_SESSION,  /* silence, grace */
    TIMER_PROGRESS, /* promised progress */
    TIMER_SLOT,     /* a slot's deadline */
    TIMER_SUB,      /* keeping time of a durable name */
    TIMER_JOB,      /* linger */
    TIMER_JOB_WINDOW,
    TIMER_JOB_JOIN,
    TIMER_JOB_DEADLINE,
    TIMER_VERDICT,    /* the next look at what a job failed of */
    TIMER_COMPLAINTS, /* the next word about somebody who breaks the protocol */
    TIMER_STORMS,     /* what is held of storms is told */
    TIMER_JOURNAL,    /* the next word about the journal */
    TIMER_LEASE,      /* silence of a group's member */
    TIMER_TASK,       /* a task that was put off */
    TIMER_TURN,       /* of who brings attachments */
    TIMER_LEAD,       /* of the writer that waits longest while nothing is taken */
    TIMER_NOTICE,     /* a session has waited for a party that never joined */
    TIMER_WAITS,      /* the next look for a cycle of waits */
    TIMER_RATE,       /* the writer that waits longest for its rate */
    TIMER_KIND_COUNT,
};

struct timer {
    int64_t due_ns;
    uint64_t order;
    uint32_t place; /* in the heap, from 1; 0: not set */
    enum timer_kind kind;
};

struct timers {
    struct memory *memory;
    struct timer **heap;
    uint32_t count;
    uint32_t room;
    uint32_t owners; /* for which room is set aside */
    uint64_t order;
};

void timers_init(struct timers *timers, struct memory *memory);
void timers_fini(struct timers *timers);
bool timers_reserve(struct timers *timers); /* for one owner more; false: no memory */
void timers_unreserve(struct timers *timers, struct timer *timer); /* the owner goes */
void timers_set(struct timers *timers, struct timer *timer, int64_t due_ns);
void timers_clear(struct timers *timers, struct timer *timer);
int64_t timers_due_ns(const struct timers *timers); /* of the first; INT64_MAX: none */
/* Takes the first out if it is due by now; else NULL. */
struct timer *timers_pop(struct timers *timers, int64_t now_ns);

#endif
