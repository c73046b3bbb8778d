/* SPDX-License-Identifier: MPL-2.0 */
/* replay.c -- facts back into tables; see broker/design/facts.md.
 *
 * Each fact calls the function that made the change when it was decided.  A replay decides nothing:
 * it trims, grants, times and sends nothing.  What a fact speaks of must be there, and what it
 * makes must not; otherwise the fact is refused.  Then a fact is missing before it, and to go on
 * would be to guess. */
#include "broker/core/core.h"

#include "broker/core/model.h"
#include "broker/core/record/failure.h"
#include "broker/core/record/tell.h"
#include "broker/core/replay/facts.h"
#include "broker/core/replay/lookup.h"
#include "broker/core/tables/effect.h"

/* ---- limits ---------------------------------------------------------------------------------- */

/* Facts were within the limits when they were noted, so a replay takes them under any limits. */
static void limits_lift(struct core *core)
{
    core->jobs.used_max = UINT32_MAX;
    core->sessions.used_max = UINT32_MAX;
    core->topics.used_max = UINT32_MAX;
    core->open_slots.used_max = UINT32_MAX;
}

/* ---- all of them ----------------------------------------------------------------------------- */

/* The case of a fact, by its column `of` in facts.def: finds the thing, calls replay_<fact>(). */
#define THING(type, thing, field, wrong, name, ...)                                                \
    case type: {                                                                                   \
        struct thing *it = replayed_##thing(core, fact->as.name.field);                            \
        return it != NULL ? replay_##name(core, it, __VA_ARGS__) : (wrong);                        \
    }
#define OF_NOTHING(type, name)                                                                     \
    case type:                                                                                     \
        return replay_##name(core, &fact->as.name);
#define OF_JOB(type, name) THING(type, job, job, WRONG_NO_JOB, name, &fact->as.name)
#define OF_JOB_BYTES(type, name) THING(type, job, job, WRONG_NO_JOB, name, &fact->as.name, payload)
#define OF_PARTY(type, name) THING(type, party, party, WRONG_NO_PARTY, name, &fact->as.name)
#define OF_SESSION(type, name) THING(type, session, party, WRONG_NO_SESSION, name, &fact->as.name)
#define OF_TOPIC(type, name) THING(type, topic, topic, WRONG_NO_TOPIC, name, &fact->as.name)
#define OF_TOPIC_BYTES(type, name)                                                                 \
    THING(type, topic, topic, WRONG_NO_TOPIC, name, &fact->as.name, payload)
#define OF_SUB(type, name) THING(type, sub, sub, WRONG_NO_SUB, name, &fact->as.name)
#define OF_GROUP(type, name) THING(type, group, group, WRONG_NO_SUB, name, &fact->as.name)
#define OF_TASK(type, name)                                                                        \
    case type: {                                                                                   \
        struct group *group = replayed_group(core, fact->as.name.group);                           \
        if (group == NULL)                                                                         \
            return WRONG_NO_SUB;                                                                   \
        struct route *it =                                                                         \
            replayed_task_route(core, group, fact->as.name.topic, fact->as.name.seq);              \
        return it != NULL ? replay_##name(core, it, &fact->as.name) : WRONG_NO_TOPIC;              \
    }

static const char *replay(struct core *core, const struct fact *fact, payload_id payload)
{
    switch (fact->type) {
#define FACT(upper, name, number, weight, of, what) OF_##of(FACT_##upper, name)
#include "schemas/facts.def"
    case FACT_NONE:
    case FACT_TYPE_COUNT: break;
    }
    return WRONG_NO_ORDER;
}

const char *core_replay(struct core *core, struct span record, payload_id payload,
                        struct effects *effects)
{
    struct fact fact;
    enum wire_err err = fact_decode(record, &fact);
    if (err == WIRE_UNKNOWN)
        return "a newer version of the broker wrote it";
    if (err != WIRE_OK)
        return wire_strerror(err);
    if (!core->is_replaying)
        limits_lift(core);
    core->effects = effects;
    core->is_replaying = true;
    core->is_noting = false;
    failure_free_unused(core);
    tell_free_unused(core);
    const char *wrong = replay(core, &fact, payload);
    core->effects = NULL;
    return wrong;
}
