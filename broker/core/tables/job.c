/* SPDX-License-Identifier: MPL-2.0 */
/* job.c -- the states of a job, as a table; see job.h. */
#include "broker/core/tables/job.h"

#include "libbus/base/limits.h"

#include <stddef.h>
#include <string.h>

/* ---- what was asked for ---------------------------------------------------------------------- */

void job_spec_init(struct job_spec *spec)
{
    *spec = (struct job_spec){.join_window_ms = DEFAULT_JOIN_WINDOW_MS,
                              .join_timeout_ms = DEFAULT_JOIN_TIMEOUT_MS,
                              .settle_ms = DEFAULT_SETTLE_MS,
                              .deadline_ms = -1,
                              .pending = JOB_PENDING_DELIVER};
}

static bool is_period(int64_t period_ms)
{
    return period_ms >= 0 && period_ms <= LIMIT_PERIOD_MS_MAX;
}

const char *job_spec_complaint(const struct job_spec *spec)
{
    if (spec->min < 1 || spec->min > LIMIT_PARTIES)
        return "min is not between 1 and 16384";
    if (spec->max != 0 && (spec->max < spec->min || spec->max > LIMIT_PARTIES))
        return "max is less than min, or more than 16384";
    if (!is_period(spec->join_window_ms) || !is_period(spec->settle_ms))
        return "a window is longer than a day";
    if (spec->join_timeout_ms != -1 &&
        (spec->join_timeout_ms < 1 || spec->join_timeout_ms > LIMIT_PERIOD_MS_MAX))
        return "the join timeout is not between 1 ms and a day";
    if (spec->deadline_ms != -1 && (spec->deadline_ms < 1 || spec->deadline_ms > LIMIT_JOB_MS_MAX))
        return "the deadline is not between 1 ms and a year";
    if (spec->max_restarts > LIMIT_RESTARTS)
        return "more than 1000 restarts";
    if (spec->pending >= JOB_PENDING_COUNT)
        return "pending is neither deliver nor replace";
    if (spec->deadlock >= JOB_DEADLOCK_COUNT)
        return "deadlock is neither tell nor fail";
    if (spec->disclosure > JOB_DISCLOSURE_MAX)
        return "disclosure is none of full, message, type and none";
    return NULL;
}

bool job_spec_has_auditor(const struct job_spec *spec)
{
    static const uint8_t nobody[KEY_BYTES];
    return memcmp(spec->auditor, nobody, KEY_BYTES) != 0;
}

bool job_spec_equal(const struct job_spec *a, const struct job_spec *b)
{
    return a->min == b->min && a->max == b->max && a->join_window_ms == b->join_window_ms &&
           a->join_timeout_ms == b->join_timeout_ms && a->settle_ms == b->settle_ms &&
           a->max_restarts == b->max_restarts && a->deadline_ms == b->deadline_ms &&
           a->pending == b->pending && a->strategy == b->strategy &&
           a->disclosure == b->disclosure && a->deadlock == b->deadlock &&
           memcmp(a->auditor, b->auditor, KEY_BYTES) == 0;
}

uint32_t job_spec_max(const struct job_spec *spec)
{
    return spec->max != 0 ? spec->max : LIMIT_PARTIES;
}

/* ---- its states ------------------------------------------------------------------------------ */

#define STAY JOB_STATE_COUNT

static const enum job_state table[JOB_STATE_COUNT][JOB_CHANGE_COUNT] = {
    /* is created, starts, falls short, fills up, breaks,
       retries, gathers, fails, completes, is cancelled, is freed */
    [JOB_FREE] = {JOB_GATHERING, STAY, STAY, STAY, STAY, /**/
                  STAY, STAY, STAY, STAY, JOB_CANCELLED, STAY},
    [JOB_GATHERING] = {STAY, JOB_RUNNING, STAY, STAY, JOB_FAILING, /**/
                       STAY, STAY, STAY, STAY, JOB_CANCELLED, STAY},
    [JOB_RUNNING] = {STAY, STAY, JOB_SHORT, STAY, JOB_FAILING, /**/
                     STAY, STAY, STAY, JOB_COMPLETED, JOB_CANCELLED, STAY},
    [JOB_SHORT] = {STAY, STAY, STAY, JOB_RUNNING, JOB_FAILING, /**/
                   STAY, STAY, STAY, STAY, JOB_CANCELLED, STAY},
    [JOB_FAILING] = {STAY, STAY, STAY, STAY, STAY, /**/
                     JOB_PAUSING, STAY, JOB_FAILED, STAY, JOB_CANCELLED, STAY},
    [JOB_PAUSING] = {STAY, STAY, STAY, STAY, JOB_FAILING, /**/
                     STAY, JOB_GATHERING, STAY, STAY, JOB_CANCELLED, STAY},
    [JOB_COMPLETED] = {JOB_GATHERING, STAY, STAY, STAY, STAY, /**/
                       STAY, STAY, STAY, STAY, STAY, STAY},
    [JOB_FAILED] = {JOB_GATHERING, STAY, STAY, STAY, STAY, /**/
                    STAY, STAY, STAY, STAY, STAY, STAY},
    [JOB_CANCELLED] = {JOB_GATHERING, STAY, STAY, STAY, STAY, /**/
                       STAY, STAY, STAY, STAY, STAY, JOB_FREE},
};

bool job_next(enum job_state state, enum job_change event, enum job_state *out_next)
{
    if (table[state][event] == STAY)
        return false;
    *out_next = table[state][event];
    return true;
}

bool job_is_final(enum job_state state)
{
    return state >= JOB_COMPLETED;
}

const char *job_state_name(enum job_state state)
{
    static const char *const names[JOB_STATE_COUNT] = {
        [JOB_FREE] = "free",           [JOB_GATHERING] = "gathering", [JOB_RUNNING] = "running",
        [JOB_SHORT] = "short",         [JOB_FAILING] = "failing",     [JOB_PAUSING] = "pausing",
        [JOB_COMPLETED] = "completed", [JOB_FAILED] = "failed",       [JOB_CANCELLED] = "cancelled",
    };
    return names[state];
}

/* ---- between attempts ------------------------------------------------------------------------ */

enum job_outlook job_weigh(const struct job_spec *spec, enum job_state state,
                           const struct job_parties *parties)
{
    if (state != JOB_RUNNING && state != JOB_SHORT)
        return JOB_GOES_ON;
    if (state == JOB_RUNNING && parties->live == 0 && parties->completed >= spec->min)
        return JOB_IS_DONE;
    if (parties->present + parties->waiting >= spec->min)
        return JOB_GOES_ON;
    return state == JOB_RUNNING && spec->join_window_ms == 0 ? JOB_CANNOT_GO_ON
                                                             : JOB_WAITS_FOR_OTHERS;
}

int64_t job_pause_ms(uint32_t restart, int64_t retry_after_ms, uint64_t random)
{
    int64_t whole_ms = DEFAULT_PAUSE_MS;
    for (uint32_t i = 0; i < restart && whole_ms < LIMIT_PAUSE_MS; i++)
        whole_ms *= 2;
    if (whole_ms > LIMIT_PAUSE_MS)
        whole_ms = LIMIT_PAUSE_MS;
    int64_t pause_ms = whole_ms / 2 + (int64_t)(random % (uint64_t)(whole_ms / 2 + 1));
    if (pause_ms < retry_after_ms)
        pause_ms = retry_after_ms;
    return pause_ms < LIMIT_PERIOD_MS_MAX ? pause_ms : LIMIT_PERIOD_MS_MAX;
}
