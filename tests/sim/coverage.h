/* SPDX-License-Identifier: MPL-2.0 */
/* coverage.h -- which pairs of state and event the runs of this process have met: of the tables
 * that decide (slot, party, job, task, the session's phase), of subscriptions, leases and requests,
 * and which messages and faults there were.  What a simulation never meets it cannot judge.
 *
 * The tables' moves are counted where the linker has put us in their place (tests/CMakeLists.txt):
 * the product knows nothing of it. */
#ifndef SIM_COVERAGE_H
#define SIM_COVERAGE_H

#include "tests/sim/climate.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum coverage_table {
    COVERAGE_SLOT,  /* state by state: where an entry moves */
    COVERAGE_PARTY, /* state by event, as the next four */
    COVERAGE_JOB,
    COVERAGE_PHASE,
    COVERAGE_TASK,
    COVERAGE_SUB,
    COVERAGE_LEASE,
    COVERAGE_REQUEST,
    COVERAGE_TABLES,
};

/* What a subscription is ... */
enum coverage_sub {
    COVERAGE_LIVE,
    COVERAGE_GAP,
    COVERAGE_DURABLE,
    COVERAGE_DURABLE_GAP,
    COVERAGE_SUBS
};

/* ... and what befalls it. */
enum coverage_sub_event {
    COVERAGE_OPENED,
    COVERAGE_VALUE,
    COVERAGE_ERROR,
    COVERAGE_MISSING,
    COVERAGE_END,
    COVERAGE_ACKED,
    COVERAGE_RETURNED,
    COVERAGE_PATTERN,
    COVERAGE_DENIED,
    COVERAGE_CLOSED,
    COVERAGE_DROPPED,
    COVERAGE_ORPHANED, /* its party is gone */
    COVERAGE_PAST,     /* it is told what went with an attempt */
    COVERAGE_SUB_EVENTS,
};

/* What befalls a lease: of a plain value, or of a request. */
enum coverage_lease {
    COVERAGE_LEASED,
    COVERAGE_LEASED_AGAIN,
    COVERAGE_REPLIED,
    COVERAGE_DONE,
    COVERAGE_GIVEN_BACK,
    COVERAGE_REJECTED,
    COVERAGE_FAILED,
    COVERAGE_LEASE_OVER,   /* its member is told, and has it still */
    COVERAGE_SAID_IN_VAIN, /* ... and had said something by then */
    COVERAGE_LEASE_EVENTS,
};

/* How requests end; rows are how often they were given to anybody: not, once, more often. */
enum coverage_request {
    COVERAGE_ANSWERED,
    COVERAGE_UNANSWERED,
    COVERAGE_NOT_DONE, /* their member failed them */
    COVERAGE_DEAD_LETTER,
    COVERAGE_WORKER_LOST,
    COVERAGE_DEADLINE,
    COVERAGE_UNSERVED,
    COVERAGE_TAKEN_BACK,
    COVERAGE_OTHER, /* their party's end, refusals */
    COVERAGE_REQUEST_ENDS,
};

void coverage_lease(bool is_request, enum coverage_lease event);
void coverage_request(uint32_t deliveries, enum coverage_request end);
void coverage_sub(bool is_durable, bool is_gap, enum coverage_sub_event event);
void coverage_part(unsigned number); /* of a part that arrives: wire_number() */
void coverage_fault(enum fault fault);
/* The name of a fault that never happened, or NULL. */
const char *coverage_absent_fault(void);
void coverage_crash(void);   /* of the broker */
void coverage_compact(void); /* of its journal */
/* Brokers that were replaced, and served clients on. */
void coverage_replaced(void);
uint64_t coverage_replacements(void);
/* Values of which a part was gone when the rest came. */
uint64_t coverage_passed(void);
/* Topics that their parties gave numbers of their own. */
uint64_t coverage_numbered(void);
/* How often windows over long links, whose rate was measured, grew above their floors, and fell
 * below them. */
uint64_t coverage_wide(void);
uint64_t coverage_narrow(void);

/* Of the pairs that change something; a subscription's all do. */
uint32_t coverage_met(enum coverage_table table);
uint32_t coverage_possible(enum coverage_table table);

/* How often each pair was met, "." where it changes nothing and was not met. */
void coverage_print_table(FILE *out, enum coverage_table table);
void coverage_print(FILE *out); /* all of them, messages and faults */

#endif
