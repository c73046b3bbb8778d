/* SPDX-License-Identifier: MPL-2.0 */
/* verdict.c -- replays facts about verdicts. */
#include "broker/core/replay/facts.h"

#include "broker/core/lifecycle/judgement.h"
#include "broker/core/replay/lookup.h"

static void read_blamed(const struct fact_verdict_error *fact, uint32_t *blamed)
{
    const uint8_t *more = fact->more_blamed.data;
    blamed[0] = (uint32_t)fact->blamed;
    for (size_t at = 0; at < fact->more_blamed.bytes; at++)
        blamed[1 + at / 4] |= (uint32_t)more[at] << (24 - 8 * (at % 4));
}

/* The error of a fact about a verdict that is not final. */
static const char *find_told(struct core *core, const struct job *job, uint64_t number,
                             struct failure **out_failure)
{
    const char *wrong = NULL; /* NULL as a failure says the same */
    struct failure *failure = replayed_failure(core, number, &wrong);
    if (failure == NULL)
        return WRONG_NO_ERROR;
    if (job->judgement.is_final)
        return WRONG_NO_ORDER;
    *out_failure = failure;
    return NULL;
}

const char *replay_verdict_error(struct core *core, struct job *job,
                                 const struct fact_verdict_error *fact)
{
    struct judged judged = {.at_ns = fact->at_ns, .believed_from_ns = fact->believed_from_ns};
    const char *wrong = find_told(core, job, fact->failure, &judged.failure);
    if (wrong != NULL)
        return wrong;
    read_blamed(fact, judged.blamed);
    return judge_restore_error(core, job, &judged) ? NULL : WRONG_NO_MEMORY;
}

const char *replay_verdict_said(struct core *core, struct job *job,
                                const struct fact_verdict_said *fact)
{
    struct failure *failure;
    const char *wrong = find_told(core, job, fact->failure, &failure);
    if (wrong != NULL)
        return wrong;
    return judge_restore_said(core, job, fact->is_final != 0, fact->at_ns, failure, fact->why)
               ? NULL
               : WRONG_NO_MEMORY;
}

const char *replay_verdict_survived(struct core *core, struct job *job,
                                    const struct fact_verdict_survived *fact)
{
    (void)core;
    (void)fact;
    judge_restore_survived(job);
    return NULL;
}

const char *replay_verdict_forgotten(struct core *core, struct job *job,
                                     const struct fact_verdict_forgotten *fact)
{
    (void)fact;
    judge_anew(core, job);
    return NULL;
}
