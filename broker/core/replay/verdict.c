/* SPDX-License-Identifier: MPL-2.0 */
/* verdict.c -- replays facts about verdicts. */
#include "broker/core/replay/verdict.h"

#include "broker/core/lifecycle/judgement.h"
#include "broker/core/replay/lookup.h"

static void read_blamed(const struct fact_verdict_error *fact, uint32_t *blamed)
{
    const uint8_t *more = fact->more_blamed.data;
    blamed[0] = (uint32_t)fact->blamed;
    for (size_t at = 0; at < fact->more_blamed.bytes; at++)
        blamed[1 + at / 4] |= (uint32_t)more[at] << (24 - 8 * (at % 4));
}

const char *replay_verdict_error(struct core *core, const struct fact_verdict_error *fact)
{
    struct judged judged = {.at_ns = fact->at_ns, .incarnation_from_ns = fact->incarnation_from_ns};
    const char *wrong = NULL;
    struct job *job = replayed_job(core, fact->job);
    struct failure *failure = replayed_failure(core, fact->failure, &wrong);
    if (job == NULL)
        return WRONG_NO_JOB;
    if (failure == NULL)
        return WRONG_NO_ERROR;
    if (job->judgement.is_final)
        return WRONG_NO_ORDER;
    judged.failure = failure;
    read_blamed(fact, judged.blamed);
    return judge_restore_error(core, job, &judged) ? NULL : WRONG_NO_MEMORY;
}

const char *replay_verdict_said(struct core *core, const struct fact_verdict_said *fact)
{
    const char *wrong = NULL;
    struct job *job = replayed_job(core, fact->job);
    struct failure *failure = replayed_failure(core, fact->failure, &wrong);
    if (job == NULL)
        return WRONG_NO_JOB;
    if (failure == NULL)
        return WRONG_NO_ERROR;
    if (job->judgement.is_final)
        return WRONG_NO_ORDER;
    return judge_restore_said(core, job, fact->is_final != 0, fact->at_ns, failure, fact->why)
               ? NULL
               : WRONG_NO_MEMORY;
}

const char *replay_of_verdict(struct core *core, enum fact_type type, struct job *job)
{
    if (job == NULL)
        return WRONG_NO_JOB;
    if (type == FACT_VERDICT_SURVIVED)
        judge_restore_survived(job);
    else
        judge_anew(core, job);
    return NULL;
}
