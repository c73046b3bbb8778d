/* SPDX-License-Identifier: MPL-2.0 */
/* party.c -- replays facts about parties and what their sessions are owed. */
#include "broker/core/replay/facts.h"

#include "broker/core/lifecycle/greeting.h"
#include "broker/core/lifecycle/guard.h"
#include "broker/core/lifecycle/membership.h"
#include "broker/core/lifecycle/parked.h"
#include "broker/core/lifecycle/session.h"
#include "broker/core/record/account.h"
#include "broker/core/record/failure.h"
#include "broker/core/replay/lookup.h"
#include "broker/core/settling/refusal.h"
#include "broker/core/settling/upload.h"
#include "broker/core/streams/names.h"
#include "broker/core/streams/number.h"
#include "broker/core/tables/party.h"
#include "broker/core/tables/roster.h"

const char *replay_party_known(struct core *core, const struct fact_party_known *fact)
{
    uint32_t known;
    struct job *job = replayed_job(core, fact->job);
    if (job == NULL)
        return WRONG_NO_JOB;
    if (replayed_party(core, fact->party) != NULL ||
        name_map_get(&job->parties, fact->name, &known))
        return WRONG_TWICE;
    if (fact->party == 0 || party_make(core, (uint32_t)fact->party, job, fact->name) == NULL)
        return WRONG_NO_MEMORY;
    return NULL;
}

const char *replay_party_forgotten(struct core *core, struct party *party,
                                   const struct fact_party_forgotten *fact)
{
    (void)fact;
    if (party_any_session(party) != NULL || !list_is_empty(&party->topics) ||
        !list_is_empty(&party->watches) || !list_is_empty(&party->durables))
        return WRONG_NO_ORDER;
    party_free(core, party);
    return NULL;
}

static bool token_is_new(const struct core *core, uint64_t token)
{
    uint32_t known;
    return token != 0 && !id_map_get(&core->tokens, token, &known);
}

/* Who joined last, by name in the access file; false: no memory. */
static bool take_owner(struct core *core, struct party *party, struct span owner)
{
    struct account *account = account_get(core, owner);
    if (account == NULL)
        return false;
    account_take_party(core, party, account);
    return true;
}

const char *replay_took_part(struct core *core, struct party *party,
                             const struct fact_took_part *fact)
{
    if (party->incarnation != 0 || fact->attempt == 0 || fact->attempt > party->job->attempt)
        return WRONG_NO_ORDER;
    party->attempt = (uint32_t)fact->attempt;
    party->first = (uint32_t)fact->incarnation;
    if (!take_owner(core, party, fact->owner))
        return WRONG_NO_MEMORY;
    party->run_rule = (uint8_t)fact->run_rule;
    party->job->part_count += party->attempt == party->job->attempt;
    return NULL;
}

/* The terms in a fact of one that joined: each of the three has the same fields. */
#define TERMS_OF(fact)                                                                             \
    {                                                                                              \
        .token = (fact)->token, .heartbeat_ms = (fact)->heartbeat_ms,                              \
        .lost_after_ms = (fact)->lost_after_ms, .grace_ms = (fact)->grace_ms,                      \
        .host = (fact)->host, .pid = (fact)->pid, .trace_id = (fact)->trace_id                     \
    }

/* What a fact says of a new incarnation, beside the terms of its session. */
struct beginning {
    uint64_t incarnation;
    uint64_t run_rule;
    uint64_t client;
};

#define BEGINNING_OF(fact)                                                                         \
    ((struct beginning){.incarnation = (fact)->incarnation,                                        \
                        .run_rule = (fact)->run_rule,                                              \
                        .client = (fact)->client})

static const char *begin_incarnation(struct core *core, struct party *party,
                                     struct beginning beginning, const struct session_terms *terms)
{
    if (party_any_session(party) != NULL || party_is_live(party) ||
        beginning.incarnation <= party->incarnation)
        return WRONG_NO_ORDER;
    if (!token_is_new(core, terms->token))
        return WRONG_TWICE;
    struct session *session = session_make(core, party->job, terms);
    if (session == NULL || !roster_reserve(&party->job->roster))
        return WRONG_NO_MEMORY;
    party->run_rule = (uint8_t)beginning.run_rule;
    party->client = beginning.client;
    if (!take_owner(core, party, terms->owner))
        return WRONG_NO_MEMORY;
    session_begin(core, party, session, (uint32_t)beginning.incarnation);
    return NULL;
}

const char *replay_party_joined(struct core *core, struct party *party,
                                const struct fact_party_joined *fact)
{
    struct session_terms terms = TERMS_OF(fact);
    terms.owner = fact->owner;
    return begin_incarnation(core, party, BEGINNING_OF(fact), &terms);
}

const char *replay_guard_joined(struct core *core, struct party *party,
                                const struct fact_guard_joined *fact)
{
    struct session_terms terms = TERMS_OF(fact);
    terms.is_guard = true;
    terms.owner = fact->owner;
    const char *wrong = begin_incarnation(core, party, BEGINNING_OF(fact), &terms);
    if (wrong == NULL)
        party->program_count = (uint32_t)fact->programs;
    return wrong;
}

const char *replay_program_joined(struct core *core, struct party *party,
                                  const struct fact_program_joined *fact)
{
    struct session_terms terms = TERMS_OF(fact);
    terms.owner = party->account->name;
    if (party->guard == NULL || party->session != NULL || fact->program <= party->program_count)
        return WRONG_NO_ORDER;
    if (!token_is_new(core, fact->token))
        return WRONG_TWICE;
    struct session *session = session_make(core, party->job, &terms);
    if (session == NULL)
        return WRONG_NO_MEMORY;
    party->program_count = (uint32_t)fact->program - 1;
    party->program_client = fact->client;
    guard_begin_program(core, party, session);
    return NULL;
}

const char *replay_guard_ended(struct core *core, struct party *party,
                               const struct fact_guard_ended *fact)
{
    (void)fact;
    if (party->guard == NULL || party_is_live(party))
        return WRONG_NO_ORDER;
    session_drop(core, party->guard);
    return NULL;
}

const char *replay_located(struct core *core, struct party *party, const struct fact_located *fact)
{
    struct session *session = fact->is_guard ? party->guard : party->session;
    if (session == NULL)
        return WRONG_NO_ORDER;
    session_locate(core, session, fact->host, fact->pid, fact->trace_id);
    return NULL;
}

const char *replay_party_ended(struct core *core, struct party *party,
                               const struct fact_party_ended *fact)
{
    const char *wrong = NULL;
    struct failure *failure = replayed_failure(core, fact->failure, &wrong);
    if (wrong != NULL)
        return wrong;
    bool is_live = party_is_live(party);
    if (fact->state >= PARTY_STATE_COUNT || !party_is_final((enum party_state)fact->state) ||
        (is_live ? fact->incarnation != party->incarnation
                 : fact->incarnation == 0 || party->incarnation != 0))
        return WRONG_NO_ORDER; /* of a party that is not live only a snapshot tells, once */
    party->state = (enum party_state)fact->state;
    party->incarnation = (uint32_t)fact->incarnation;
    party->ended_by = failure_ref(failure);
    party->ended_ns = fact->at_ns;
    job_left(core, party);
    party_update_bare(party);
    return NULL;
}

const char *replay_error_numbers(struct core *core, struct party *party,
                                 const struct fact_error_numbers *fact)
{
    (void)core;
    party->error_limit = fact->limit;
    return NULL;
}

/* Only a snapshot tells of them, the oldest first. */
const char *replay_past_end(struct core *core, struct party *party,
                            const struct fact_past_end *fact)
{
    const char *wrong = NULL;
    struct failure *failure = replayed_failure(core, fact->failure, &wrong);
    uint32_t before = party->end_count > 0 ? party->ends[party->end_count - 1].incarnation : 0;
    if (wrong != NULL)
        return wrong;
    if (party->incarnation != 0 || party->end_count == LIMIT_PARTY_ENDS || fact->first <= before ||
        fact->incarnation < fact->first)
        return WRONG_NO_ORDER;
    party->ends[party->end_count++] = (struct party_end){.first = (uint32_t)fact->first,
                                                         .incarnation = (uint32_t)fact->incarnation,
                                                         .failure = failure_ref(failure)};
    return NULL;
}

const char *replay_session_ended(struct core *core, struct session *session,
                                 const struct fact_session_ended *fact)
{
    (void)fact;
    bool is_needed = party_is_live(session->party) && session->party->guard == NULL;
    if (!list_is_empty(&session->subs) || is_needed)
        return WRONG_NO_ORDER;
    session_drop(core, session);
    return NULL;
}

const char *replay_numbers(struct core *core, struct session *session,
                           const struct fact_numbers *fact)
{
    session->data_number = fact->data_number;
    parked_passed(core, session, fact->control_number);
    session->control_seen = fact->control_seen;
    session->seen_noted = fact->control_seen;
    session->data_noted = fact->data_number;
    session->control_noted = fact->control_number;
    return NULL;
}

const char *replay_parked(struct core *core, struct session *session,
                          const struct fact_parked *fact)
{
    const char *wrong = NULL;
    struct failure *failure = replayed_failure(core, fact->failure, &wrong);
    struct topic *topic = replayed_topic(core, fact->topic);
    bool needs_topic = fact->type == PARKED_FAIL || fact->type == PARKED_RETRACT;
    bool needs_error = needs_topic || fact->type == PARKED_FAIL_PARTY;
    if (wrong != NULL || (needs_error && failure == NULL))
        return WRONG_NO_ERROR;
    bool is_own = topic != NULL ? topic->writer == session->party
                                : number_is_own(session->party, (uint32_t)fact->topic);
    if (needs_topic && !is_own)
        return WRONG_NO_TOPIC;
    if (!parked_is_type(fact->type))
        return WRONG_NO_WAIT;
    if (fact->number <= session->control_noted ||
        (!list_is_empty(&session->parked) &&
         fact->number <= LIST_OWNER(session->parked.prev, struct parked, link)->number))
        return WRONG_NO_ORDER;
    if (!parked_add(core, session,
                    &(struct parked){.type = (enum parked_type)fact->type,
                                     .number = fact->number,
                                     .after = fact->after,
                                     .topic = (uint32_t)fact->topic,
                                     .seq = fact->seq,
                                     .sub = (uint32_t)fact->sub,
                                     .is_told = fact->is_told != 0,
                                     .failure = failure,
                                     .delivery = (uint32_t)fact->delivery,
                                     .how = (uint32_t)fact->how,
                                     .retry_after_ms = fact->retry_after_ms,
                                     .durable = (uint32_t)fact->durable}))
        return WRONG_NO_MEMORY;
    (void)failure_ref(failure); /* the one parked */
    if (session->control_seen < fact->number)
        session->control_seen = fact->number;
    if (fact->type == PARKED_FAIL_PARTY)
        (void)party_next(session->party->state, PARTY_SAYS_FAILED, &session->party->state);
    return NULL;
}

const char *replay_refused(struct core *core, struct session *session,
                           const struct fact_refused *fact)
{
    const char *wrong = NULL;
    struct failure *failure = replayed_failure(core, fact->failure, &wrong);
    if (failure == NULL)
        return WRONG_NO_ERROR;
    if (fact->number <= session->refusal_number)
        return WRONG_NO_ORDER;
    session->refusal_number = fact->number - 1;
    return refusal_remember(core, session, (uint32_t)fact->topic, fact->seq,
                            fact->count > 0 ? (uint32_t)fact->count : 1, failure)
               ? NULL
               : WRONG_NO_MEMORY;
}

const char *replay_progress_promised(struct core *core, struct session *session,
                                     const struct fact_progress_promised *fact)
{
    (void)core;
    session->progress_ms = fact->within_ms;
    return NULL;
}

const char *replay_uploaded(struct core *core, struct session *session,
                            const struct fact_uploaded *fact)
{
    upload_remember(core, session, (uint32_t)fact->topic, fact->seq);
    return NULL;
}

const char *replay_upload_refused(struct core *core, struct session *session,
                                  const struct fact_upload_refused *fact)
{
    upload_remember_refused(core, session, (uint32_t)fact->topic, fact->seq);
    return NULL;
}

const char *replay_granted(struct core *core, struct session *session,
                           const struct fact_granted *fact)
{
    return parked_remember_granted(core, session, fact->number) ? NULL : WRONG_NO_MEMORY;
}
