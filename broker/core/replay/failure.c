/* SPDX-License-Identifier: MPL-2.0 */
/* failure.c -- replays facts about errors that others refer to. */
#include "broker/core/replay/facts.h"

#include "broker/core/record/failure.h"
#include "broker/core/replay/lookup.h"

const char *replay_failure_made(struct core *core, const struct fact_failure_made *fact)
{
    uint32_t known;
    if (fact->failure <= 1 || id_map_get(&core->replayed, fact->failure, &known))
        return WRONG_TWICE;
    if (!id_map_reserve(&core->replayed))
        return WRONG_NO_MEMORY;
    struct failure *failure = failure_restore(core, fact->error);
    if (failure == NULL)
        return "its error cannot be read, or there is no memory for it";
    bool is_put = id_map_put(&core->replayed, fact->failure, failure->id);
    must(is_put); /* reserved */
    failure->number = fact->failure;
    if (core->failure_number < fact->failure)
        core->failure_number = fact->failure;
    return NULL;
}

const char *replay_failure_forgotten(struct core *core, const struct fact_failure_forgotten *fact)
{
    const char *wrong = NULL;
    struct failure *failure = replayed_failure(core, fact->failure, &wrong);
    if (failure == NULL || fact->failure == 1)
        return WRONG_NO_ERROR;
    id_map_remove(&core->replayed, fact->failure);
    failure->number = 0; /* if it is still there (more is kept now than then), it is news again */
    failure_unref(core, failure);
    failure_free_unused(core);
    return NULL;
}
