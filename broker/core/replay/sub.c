/* SPDX-License-Identifier: MPL-2.0 */
/* sub.c -- replays facts about subscriptions and where they are. */
#include "broker/core/replay/facts.h"

#include "broker/core/groups/subscription.h"
#include "broker/core/replay/lookup.h"
#include "broker/core/streams/sub.h"

static const char *attach(struct core *core, struct sub *sub, const struct sub_terms *terms)
{
    uint32_t known;
    struct session *session = sub->party->session;
    if (session == NULL)
        return WRONG_NO_SESSION;
    if (sub->session != NULL || id_map_get(&session->sub_ids, terms->number, &known))
        return WRONG_TWICE;
    return sub_attach(core, session, sub, terms) ? NULL : WRONG_NO_MEMORY;
}

const char *replay_sub_opened(struct core *core, const struct fact_sub_opened *fact)
{
    struct party *party = replayed_party(core, fact->party);
    if (party == NULL)
        return WRONG_NO_PARTY;
    if (replayed_sub(core, fact->sub) != NULL)
        return WRONG_TWICE;
    if (fact->number == 0 && fact->name.bytes == 0)
        return WRONG_NO_ORDER; /* nobody could ever read it */
    struct sub *sub = fact->sub != 0 ? sub_make(core, (uint32_t)fact->sub, party, fact->name,
                                                fact->from_seq, (int64_t)fact->keep_ms * MS_NS)
                                     : NULL;
    if (sub == NULL)
        return WRONG_NO_MEMORY;
    struct sub_terms terms = {.number = (uint32_t)fact->number,
                              .is_gap = fact->is_gap != 0,
                              .window_bytes = fact->window_bytes};
    const char *wrong = fact->number != 0 ? attach(core, sub, &terms) : NULL;
    if (wrong != NULL) {
        sub_free(core, sub);
        return wrong;
    }
    sub->is_gap = terms.is_gap;
    sub->window_bytes = terms.window_bytes;
    sub->is_expired = fact->is_expired != 0;
    return NULL;
}

const char *replay_pattern_added(struct core *core, struct sub *sub,
                                 const struct fact_pattern_added *fact)
{
    return sub_keep_pattern(core, sub, fact->pattern) ? NULL : WRONG_NO_MEMORY;
}

const char *replay_watched(struct core *core, struct sub *sub, const struct fact_watched *fact)
{
    struct party *party = replayed_party(core, fact->party);
    if (party == NULL || party->job != sub->job)
        return WRONG_NO_PARTY;
    LIST_EACH(link, &sub->watches)
        if (LIST_OWNER(link, struct watch, sub_link)->party == party)
            return WRONG_TWICE;
    return sub_watch(core, sub, party) ? NULL : WRONG_NO_MEMORY;
}

const char *replay_followed(struct core *core, struct sub *sub, const struct fact_followed *fact)
{
    struct topic *topic = replayed_topic(core, fact->topic);
    if (topic == NULL || topic->job != sub->job)
        return WRONG_NO_TOPIC;
    if (replayed_route(core, sub, fact->topic) != NULL)
        return WRONG_TWICE;
    return sub_route(core, sub, topic, fact->seq) != NULL ? NULL : WRONG_NO_MEMORY;
}

const char *replay_missed(struct core *core, struct sub *sub, const struct fact_missed *fact)
{
    struct route *route = replayed_route(core, sub, fact->topic);
    if (route == NULL)
        return WRONG_NO_TOPIC;
    if (fact->count == 0 || route->missed_count > 0)
        return WRONG_NO_ORDER;
    route->missed_seq = fact->seq;
    route->missed_count = fact->count;
    return NULL;
}

const char *replay_sub_attached(struct core *core, struct sub *sub,
                                const struct fact_sub_attached *fact)
{
    return attach(core, sub,
                  &(struct sub_terms){.number = (uint32_t)fact->number,
                                      .is_gap = fact->is_gap != 0,
                                      .window_bytes = fact->window_bytes});
}

const char *replay_sub_detached(struct core *core, struct sub *sub,
                                const struct fact_sub_detached *fact)
{
    (void)fact;
    if (sub->session == NULL || sub->name.bytes == 0)
        return WRONG_NO_ORDER;
    sub_detach(core, sub);
    return NULL;
}

const char *replay_sub_expired(struct core *core, struct sub *sub,
                               const struct fact_sub_expired *fact)
{
    (void)fact;
    sub_expire(core, sub);
    return NULL;
}

const char *replay_sub_closed(struct core *core, struct sub *sub,
                              const struct fact_sub_closed *fact)
{
    (void)fact;
    sub_free(core, sub);
    return NULL;
}

const char *replay_acknowledged(struct core *core, struct sub *sub,
                                const struct fact_acknowledged *fact)
{
    struct route *route = replayed_route(core, sub, fact->topic);
    if (route == NULL)
        return WRONG_NO_TOPIC;
    if (fact->next_seq < route->acked_seq)
        return WRONG_NO_ORDER;
    sub_acknowledge(core, route, fact->next_seq);
    return NULL;
}

const char *replay_end_due(struct core *core, struct sub *sub, const struct fact_end_due *fact)
{
    const char *wrong = NULL;
    struct party *party = replayed_party(core, fact->party);
    struct failure *failure = replayed_failure(core, fact->failure, &wrong);
    if (party == NULL || party->job != sub->job)
        return WRONG_NO_PARTY;
    if (fact->first > fact->incarnation)
        return WRONG_NO_ORDER;
    struct party_end end = {.first = (uint32_t)(fact->first > 0 ? fact->first : fact->incarnation),
                            .incarnation = (uint32_t)fact->incarnation,
                            .failure = failure};
    if (wrong == NULL && !sub_add_ending(core, sub, party, end))
        wrong = WRONG_NO_MEMORY;
    return wrong;
}

const char *replay_end_told(struct core *core, struct sub *sub, const struct fact_end_told *fact)
{
    (void)fact;
    if (list_is_empty(&sub->endings))
        return WRONG_NO_ORDER;
    sub_end_told(core, sub);
    return NULL;
}
