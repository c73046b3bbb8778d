/* SPDX-License-Identifier: MPL-2.0 */
/* party.h -- an incarnation of a party: states, events, and the one table that decides.
 *
 * A party that comes again begins another incarnation, in SCHEDULING. */
#ifndef CORE_PARTY_H
#define CORE_PARTY_H

#include <stdbool.h>

enum party_state {
    PARTY_SCHEDULING, /* not there yet, or there and waiting for its place in the job */
    PARTY_RUNNING,
    PARTY_FAILING,   /* it said that it failed; what it sent before is still on its way */
    PARTY_COMPLETED, /* final, as all below */
    PARTY_FAILED,
    PARTY_LOST,
    PARTY_LEFT,
    PARTY_TERMINATED,
    PARTY_STATE_COUNT,
};

enum party_event {
    PARTY_STARTS, /* it has its place; in a job that nobody created, at once */
    PARTY_SAYS_FAILED,
    PARTY_COMPLETES,
    PARTY_FAILS,
    PARTY_IS_LOST,
    PARTY_LEAVES,
    PARTY_IS_TERMINATED,
    PARTY_EVENT_COUNT,
};

/* The state after event, or false: it changes nothing. */
bool party_next(enum party_state state, enum party_event event, enum party_state *out_next);
bool party_is_final(enum party_state state);
const char *party_state_name(enum party_state state);

#endif
