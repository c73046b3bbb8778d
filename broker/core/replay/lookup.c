/* SPDX-License-Identifier: MPL-2.0 */
/* lookup.c -- finds what a fact speaks of. */
#include "broker/core/replay/lookup.h"

#include "broker/core/streams/lease.h"

struct failure *replayed_failure(struct core *core, uint64_t number, const char **wrong)
{
    uint32_t id = 1; /* of the one that every core has */
    if (number == 0)
        return NULL;
    if (number != 1 && !id_map_get(&core->replayed, number, &id)) {
        *wrong = WRONG_NO_ERROR;
        return NULL;
    }
    return pool_find(&core->failures, id);
}

struct job *replayed_job(struct core *core, uint64_t id)
{
    return pool_find(&core->jobs, (uint32_t)id);
}

struct party *replayed_party(struct core *core, uint64_t id)
{
    return pool_find(&core->parties, (uint32_t)id);
}

struct topic *replayed_topic(struct core *core, uint64_t id)
{
    return pool_find(&core->topics, (uint32_t)id);
}

struct sub *replayed_sub(struct core *core, uint64_t id)
{
    return pool_find(&core->subs, (uint32_t)id);
}

struct session *replayed_session(struct core *core, uint64_t id)
{
    struct party *party = replayed_party(core, id);
    return party != NULL ? party->session : NULL;
}

struct route *replayed_route(struct core *core, const struct sub *sub, uint64_t topic)
{
    uint32_t id;
    return id_map_get(&sub->route_ids, topic, &id) ? pool_find(&core->routes, id) : NULL;
}

struct group *replayed_group(struct core *core, uint64_t id)
{
    struct sub *place = replayed_sub(core, id);
    return place != NULL && sub_is_place(place) ? place->group : NULL;
}

struct route *replayed_task_route(struct core *core, struct group *group, uint64_t topic,
                                  uint64_t seq)
{
    const struct task *task = task_find(core, group, (uint32_t)topic, seq);
    return task != NULL ? task->route : replayed_route(core, group->place, topic);
}
