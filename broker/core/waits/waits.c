/* SPDX-License-Identifier: MPL-2.0 */
/* waits.c -- questions and looks under way: so much of them in a step. */
#include "broker/core/waits/waits.h"

#include "broker/core/record/rights.h"
#include "broker/core/tables/effect.h"
#include "broker/core/waits/collect.h"
#include "broker/core/waits/deadlock.h"
#include "broker/core/waits/walk.h"
#include "broker/core/waits/why.h"
#include "broker/core/waits/without.h"

/* Who asked; NULL: nobody any more, or it is a look. */
static struct session *asker_of(const struct core *core, const struct wait_walk *walk)
{
    struct session *session = pool_find(&core->sessions, walk->session);
    bool is_same = session != NULL && session->token == walk->token && session->control != 0;
    return is_same ? session : NULL;
}

/* Whoever asked may have lost the right since then: the rest of the answer is not theirs. */
static bool may_still_ask(const struct core *core, const struct session *asker,
                          const struct wait_walk *walk, const struct job *job)
{
    struct msg question = {.type = walk->without != NULL ? MSG_WITHOUT : MSG_WHY};
    if (walk->without != NULL)
        question.as.without.job = job->name;
    else
        question.as.why.job = job->name;
    return asker == NULL || rights_allow(core, asker, &question);
}

/* true: it is over. */
static bool walk_on(struct core *core, struct wait_walk *walk, uint32_t *budget)
{
    struct job *job = walk_job(core, walk);
    struct session *asker = asker_of(core, walk);
    if (job == NULL || (walk->session != 0 && asker == NULL))
        return true;
    if (!may_still_ask(core, asker, walk, job)) {
        effects_job_done(core->effects, asker->control, walk->request, CODE_EDENIED,
                         ERROR_TYPE_NOT_AUTHORISED, RIGHTS_DENIED_TEXT);
        return true;
    }
    if (walk->without != NULL)
        return without_go_on(core, asker, walk, budget);
    if (*budget == 0 || !collect_some(core, walk, budget))
        return false;
    if (asker != NULL)
        return why_tell_some(core, asker, walk, budget);
    return deadlock_judge(core, job, walk, budget);
}

void waits_go_on(struct core *core, uint32_t budget)
{
    LIST_EACH(link, &core->wait_walks) {
        struct wait_walk *walk = LIST_OWNER(link, struct wait_walk, link);
        if (walk_on(core, walk, &budget))
            walk_free(core, walk);
    }
}

void waits_forget(struct core *core)
{
    LIST_EACH(link, &core->wait_walks)
        walk_free(core, LIST_OWNER(link, struct wait_walk, link));
}
