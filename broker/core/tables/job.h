/* SPDX-License-Identifier: MPL-2.0 */
/* job.h -- a job: what was asked for when it was created, its states and events, and
 * the one table that decides.
 *
 * A job that nobody created is free: its parties come and go, nobody counts them, and it has no
 * end of its own.  A created one gathers parties until there are enough, runs with those, waits
 * for others when too few are left, and ends well, failed or cancelled.  What it failed of may be
 * worth another attempt: then it pauses, and gathers again. */
#ifndef CORE_JOB_H
#define CORE_JOB_H

#include "libbus/base/key_text.h"

#include <stdbool.h>
#include <stdint.h>

enum job_pending {
    JOB_PENDING_DELIVER, /* what a failed party had committed is delivered all the same */
    JOB_PENDING_REPLACE, /* as far as nobody was sent it, its error takes the place */
    JOB_PENDING_COUNT,
};

enum job_deadlock {
    JOB_DEADLOCK_TELL, /* an event tells of parties that wait for each other */
    JOB_DEADLOCK_FAIL, /* ... and the youngest wait of them fails */
    JOB_DEADLOCK_COUNT,
};

enum { JOB_DISCLOSURE_MAX = 4 }; /* as in JOB_CREATE */

struct job_spec {
    uint32_t min; /* parties without which it cannot go on: 1 and more; free: 0 */
    uint32_t max; /* parties that take part at a time; more wait; 0: no limit of its own */
    int64_t
        join_window_ms; /* so long more than min are awaited, and spares when too few are left */
    int64_t join_timeout_ms; /* so long parties wait for an attempt to begin; -1: for ever */
    int64_t settle_ms;       /* so long reports are awaited before a verdict is final */
    uint32_t max_restarts;
    int64_t deadline_ms; /* from its creation on, for all attempts; -1: none */
    uint8_t pending;     /* enum job_pending */
    uint8_t strategy;    /* of its verdict */
    uint8_t disclosure;  /* how much of their errors its parties may let others see; 0: not said */
    uint8_t deadlock;    /* enum job_deadlock */
    uint8_t auditor[KEY_BYTES]; /* its parties seal their traces to this key; zeros: to nobody */
};
/* Of a job that nobody created. */
void job_spec_init(struct job_spec *spec);
/* A sentence about what is wrong with the spec of a job to be created, or NULL. */
const char *job_spec_complaint(const struct job_spec *spec);
bool job_spec_has_auditor(const struct job_spec *spec);
bool job_spec_equal(const struct job_spec *a, const struct job_spec *b);
uint32_t job_spec_max(const struct job_spec *spec); /* never 0 */

enum job_state {
    JOB_FREE,      /* nobody created it */
    JOB_GATHERING, /* too few for an attempt, or the join window is open for more */
    JOB_RUNNING,   /* its members have their ranks */
    JOB_SHORT,     /* fewer than min are left: others are awaited */
    JOB_FAILING,   /* it cannot go on: its verdict is being found */
    JOB_PAUSING,   /* before its next attempt */
    JOB_COMPLETED, /* final for its attempt, as all below */
    JOB_FAILED,
    JOB_CANCELLED,
    JOB_STATE_COUNT,
};

enum job_change {
    JOB_IS_CREATED,
    JOB_STARTS,      /* enough are there: an attempt begins */
    JOB_FALLS_SHORT, /* fewer than min are left */
    JOB_FILLS_UP,    /* ... and others came */
    JOB_BREAKS,      /* it cannot go on: nobody came, or its deadline passed */
    JOB_RETRIES,     /* its verdict is final, and worth another attempt */
    JOB_GATHERS,     /* the pause before that is over */
    JOB_FAILS,       /* its verdict is final */
    JOB_COMPLETES,   /* all its members did */
    JOB_IS_CANCELLED,
    JOB_IS_FREED, /* nobody created it, it was cancelled, and its next run begins */
    JOB_CHANGE_COUNT,
};

/* The state after event, or false: it changes nothing. */
bool job_next(enum job_state state, enum job_change event, enum job_state *out_next);
bool job_is_final(enum job_state state);
const char *job_state_name(enum job_state state);

/* Who is there for a job that runs, or is short. */
struct job_parties {
    uint32_t present; /* with a place: live, or completed well */
    uint32_t live;    /* of these */
    uint32_t completed;
    uint32_t waiting; /* for a place */
};

/* What becomes of it. */
enum job_outlook { JOB_GOES_ON, JOB_IS_DONE, JOB_WAITS_FOR_OTHERS, JOB_CANNOT_GO_ON };
enum job_outlook job_weigh(const struct job_spec *spec, enum job_state state,
                           const struct job_parties *parties);

/* How long it pauses before attempt number restart + 1: twice as long each time, and somewhere
 * between the half of that and the whole, so that jobs that failed together do not come back
 * together.  retry_after_ms: what the error asks for at least; -1: nothing. */
int64_t job_pause_ms(uint32_t restart, int64_t retry_after_ms, uint64_t random);

#endif
