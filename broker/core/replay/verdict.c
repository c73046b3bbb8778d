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

/* What a fact about a verdict that is not final speaks of. */
static const char *find_verdict(struct core *core, uint64_t job, uint64_t failure,
                                struct job **out_job, struct failure **out_failure)
{
    const char *wrong = NULL; /* NULL as a failure says the same */
    struct job *found = replayed_job(core, job);
    struct failure *told = replayed_failure(core, failure, &wrong);
    if (found == NULL)
        return WRONG_NO_JOB;
    if (told == NULL)
        return WRONG_NO_ERROR;
    if (found->judgement.is_final)
        return WRONG_NO_ORDER;
    *out_job = found;
    *out_failure = told;
    return NULL;
}

const char *replay_verdict_error(struct core *core, const struct fact_verdict_error *fact)
{
    struct judged judged = {.at_ns = fact->at_ns, .believed_from_ns = fact->believed_from_ns};
    struct job *job;
    const char *wrong = find_verdict(core, fact->job, fact->failure, &job, &judged.failure);
    if (wrong != NULL)
        return wrong;
    read_blamed(fact, judged.blamed);
    return judge_restore_error(core, job, &judged) ? NULL : WRONG_NO_MEMORY;
}

const char *replay_verdict_said(struct core *core, const struct fact_verdict_said *fact)
{
    struct job *job;
    struct failure *failure;
    const char *wrong = find_verdict(core, fact->job, fact->failure, &job, &failure);
    if (wrong != NULL)
        return wrong;
    return judge_restore_said(core, job, fact->is_final != 0, fact->at_ns, failure, fact->why)
               ? NULL
               : WRONG_NO_MEMORY;
}

const char *replay_of_verdict(struct core *core, const struct fact *fact)
{
    struct job *job = replayed_job(core, fact->as.verdict_survived.job);
    if (job == NULL)
        return WRONG_NO_JOB;
    if (fact->type == FACT_VERDICT_SURVIVED)
        judge_restore_survived(job);
    else
        judge_anew(core, job);
    return NULL;
}
