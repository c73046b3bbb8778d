/* SPDX-License-Identifier: MPL-2.0 */
/* job.c -- replays facts about jobs, their members, epochs, attempts and events. */
#include "broker/core/replay/facts.h"

#include "broker/core/lifecycle/job.h"
#include "broker/core/lifecycle/judgement.h"
#include "broker/core/lifecycle/membership.h"
#include "broker/core/lifecycle/run.h"
#include "broker/core/record/tell.h"
#include "broker/core/replay/lookup.h"
#include "broker/core/tables/job.h"
#include "broker/core/tables/party.h"
#include "broker/core/tables/roster.h"

#include <string.h>

const char *replay_job_begun(struct core *core, const struct fact_job_begun *fact)
{
    uint32_t known;
    if (replayed_job(core, fact->job) != NULL || name_map_get(&core->job_names, fact->name, &known))
        return WRONG_TWICE;
    struct job *job =
        fact->job != 0 ? job_make(core, (uint32_t)fact->job, fact->name, fact->owner) : NULL;
    if (job == NULL)
        return WRONG_NO_MEMORY;
    job->attempt = (uint32_t)fact->attempt;
    judge_anew(core, job); /* it weighs the errors of this attempt */
    return NULL;
}

const char *replay_job_ended(struct core *core, struct job *job, const struct fact_job_ended *fact)
{
    (void)fact;
    if (job->session_count > 0)
        return WRONG_NO_ORDER;
    job_free(core, job);
    return NULL;
}

const char *replay_job_created(struct core *core, struct job *job,
                               const struct fact_job_created *fact)
{
    if (job->state != JOB_FREE && !job_is_final(job->state))
        return WRONG_NO_ORDER;
    struct job_spec spec = {.min = (uint32_t)fact->min,
                            .max = (uint32_t)fact->max,
                            .join_window_ms = (int64_t)fact->join_window_ms,
                            .join_timeout_ms = fact->join_timeout_ms,
                            .settle_ms = (int64_t)fact->settle_ms,
                            .max_restarts = (uint32_t)fact->max_restarts,
                            .deadline_ms = fact->deadline_ms,
                            .pending = (uint8_t)fact->pending,
                            .strategy = (uint8_t)fact->strategy,
                            .disclosure = (uint8_t)fact->disclosure,
                            .deadlock = (uint8_t)fact->deadlock};
    if (fact->auditor.bytes == KEY_BYTES)
        memcpy(spec.auditor, fact->auditor.data, KEY_BYTES);
    job_begin(core, job, &spec, fact->due_wall_ns);
    job->first_attempt = (uint32_t)fact->first_attempt; /* 0: cancelled, and never created */
    return NULL;
}

const char *replay_job_moved(struct core *core, struct job *job, const struct fact_job_moved *fact)
{
    const char *wrong = NULL;
    struct failure *failure = replayed_failure(core, fact->failure, &wrong);
    if (wrong != NULL)
        return wrong;
    bool is_freed = job->state == JOB_CANCELLED && fact->state == JOB_FREE;
    if (fact->state >= JOB_STATE_COUNT || (job_is_final(job->state) && !is_freed))
        return WRONG_NO_ORDER;
    job->error_count = fact->errors;
    job->pause_ms = (int64_t)fact->pause_ms;
    job->is_called_off = fact->is_called_off != 0;
    job_set_state(core, job, (enum job_state)fact->state, failure);
    return NULL;
}

const char *replay_placed(struct core *core, struct party *party, const struct fact_placed *fact)
{
    if (!roster_place(&party->job->roster, party->id, (uint32_t)fact->rank,
                      party->state == PARTY_COMPLETED))
        return WRONG_NO_ORDER;
    job_place(core, party, (uint32_t)fact->rank);
    return NULL;
}

/* It waits already, by having joined; a snapshot tells in which order. */
const char *replay_queued(struct core *core, struct party *party, const struct fact_queued *fact)
{
    (void)fact;
    (void)core;
    if (party->rank != RANK_NONE || !roster_remove(&party->job->roster, party->id))
        return WRONG_NO_ORDER;
    roster_add(&party->job->roster, party->id); /* in the room that it had */
    return NULL;
}

const char *replay_epoch_begun(struct core *core, struct job *job,
                               const struct fact_epoch_begun *fact)
{
    (void)core;
    if (!roster_begin(&job->roster, fact->epoch, (uint32_t)fact->world_size))
        return WRONG_NO_ORDER;
    job->round = 0;
    return NULL;
}

const char *replay_met(struct core *core, struct job *job, const struct fact_met *fact)
{
    (void)core;
    job->round = fact->round;
    return NULL;
}

const char *replay_run_named(struct core *core, struct job *job, const struct fact_run_named *fact)
{
    return run_set_name(core, job, fact->run) ? NULL : WRONG_NO_MEMORY;
}

const char *replay_attempt_begun(struct core *core, struct job *job,
                                 const struct fact_attempt_begun *fact)
{
    LIST_EACH(link, &job->party_list)
        if (LIST_OWNER(link, struct party, job_link)->session != NULL)
            return WRONG_NO_ORDER;
    job_begin_attempt(core, job, (uint32_t)fact->attempt);
    return NULL;
}

const char *replay_event(struct core *core, struct job *job, const struct fact_event *fact)
{
    const char *wrong = NULL;
    struct tell_event event = {.id = fact->id,
                               .at_ns = fact->at_ns,
                               .broker_ns = fact->broker_ns,
                               .name = fact->name,
                               .party = fact->party,
                               .topic = fact->topic,
                               .text = fact->text,
                               .first_error = fact->first_error,
                               .last_error = fact->last_error,
                               .incarnation = (uint32_t)fact->incarnation,
                               .seq = fact->seq,
                               .count = fact->count,
                               .failure = replayed_failure(core, fact->failure, &wrong),
                               .is_late = fact->is_late != 0};
    if (wrong != NULL)
        return wrong;
    bool is_first = job->event_first == job->event_next; /* older ones went before a snapshot */
    if (is_first ? fact->id < job->event_next : fact->id != job->event_next)
        return WRONG_NO_ORDER;
    if (core->seen.now_ns < fact->broker_ns)
        core->seen = (struct core_moment){.now_ns = fact->broker_ns, .wall_ns = fact->at_ns};
    return tell_keep(core, job, &event) ? NULL : WRONG_NO_MEMORY;
}
