/* SPDX-License-Identifier: MPL-2.0 */
/* replay.c -- facts back into tables; see broker/design/facts.md.
 *
 * Each fact calls what made the change when it was decided; nothing is decided anew: nothing is
 * trimmed, granted, timed or sent.  What a fact speaks of must be there, and what it makes must
 * not, or it is refused: then something is missing before it, and to go on would be to guess. */
#include "broker/core/core.h"

#include "broker/core/groups/group.h"
#include "broker/core/groups/letter.h"
#include "broker/core/groups/subscription.h"
#include "broker/core/lifecycle/greeting.h"
#include "broker/core/lifecycle/guard.h"
#include "broker/core/lifecycle/job.h"
#include "broker/core/lifecycle/judgement.h"
#include "broker/core/lifecycle/liveness.h"
#include "broker/core/lifecycle/membership.h"
#include "broker/core/lifecycle/parked.h"
#include "broker/core/lifecycle/session.h"
#include "broker/core/model.h"
#include "broker/core/record/attachment.h"
#include "broker/core/record/failure.h"
#include "broker/core/record/tell.h"
#include "broker/core/settling/need.h"
#include "broker/core/settling/refusal.h"
#include "broker/core/settling/settle.h"
#include "broker/core/settling/upload.h"
#include "broker/core/streams/lease.h"
#include "broker/core/streams/names.h"
#include "broker/core/streams/open_slot.h"
#include "broker/core/streams/reply.h"
#include "broker/core/streams/sub.h"
#include "broker/core/streams/topic.h"
#include "broker/core/tables/effect.h"
#include "broker/core/tables/job.h"
#include "broker/core/tables/party.h"
#include "broker/core/tables/roster.h"
#include "broker/core/tables/slot_table.h"
#include "broker/core/tables/task.h"
#include "broker/core/tables/timers.h"

static const char no_memory[] = "the memory that the broker may use is too little for it";
static const char no_error[] = "it refers to an error that no fact before it made";
static const char no_topic[] = "it speaks of a topic that no fact before it made";
static const char no_party[] = "it speaks of a party that no fact before it made";
static const char no_job[] = "it speaks of a job that no fact before it made";
static const char no_sub[] = "it speaks of a subscription that no fact before it made";
static const char no_session[] = "it speaks of a session that is not there";
static const char no_slot[] = "it settles a slot that is not open";
static const char no_payload[] = "no bytes stand beside it";
static const char twice[] = "what it makes is there already";
static const char no_order[] = "it does not follow from the facts before it";

/* ---- what facts speak of --------------------------------------------------------------------- */

/* NULL for 0; *wrong is set if the number means nothing. */
static struct failure *failure_of(struct core *core, uint64_t number, const char **wrong)
{
    uint32_t id = 1; /* of the one that every core has */
    if (number == 0)
        return NULL;
    if (number != 1 && !id_map_get(&core->replayed, number, &id)) {
        *wrong = no_error;
        return NULL;
    }
    return pool_find(&core->failures, id);
}

static struct job *job_of(struct core *core, uint64_t id)
{
    return pool_find(&core->jobs, (uint32_t)id);
}

static struct party *party_of(struct core *core, uint64_t id)
{
    return pool_find(&core->parties, (uint32_t)id);
}

static struct topic *topic_of(struct core *core, uint64_t id)
{
    return pool_find(&core->topics, (uint32_t)id);
}

static struct sub *sub_of(struct core *core, uint64_t id)
{
    return pool_find(&core->subs, (uint32_t)id);
}

static struct session *session_of(struct core *core, uint64_t id)
{
    struct party *party = party_of(core, id);
    return party != NULL ? party->session : NULL;
}

static struct route *route_of(struct core *core, const struct sub *sub, uint64_t topic)
{
    uint32_t id;
    return id_map_get(&sub->route_ids, topic, &id) ? pool_find(&core->routes, id) : NULL;
}

/* ---- failures -------------------------------------------------------------------------------- */

static const char *failure_made(struct core *core, const struct fact_failure_made *fact)
{
    uint32_t known;
    if (fact->failure <= 1 || id_map_get(&core->replayed, fact->failure, &known))
        return twice;
    if (!id_map_reserve(&core->replayed))
        return no_memory;
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

static const char *failure_forgotten(struct core *core, const struct fact_failure_forgotten *fact)
{
    const char *wrong = NULL;
    struct failure *failure = failure_of(core, fact->failure, &wrong);
    if (failure == NULL || fact->failure == 1)
        return no_error;
    id_map_remove(&core->replayed, fact->failure);
    failure->number = 0; /* if it is still there (more is kept now than then), it is news again */
    failure_unref(core, failure);
    failure_bury(core);
    return NULL;
}

/* ---- jobs, parties, sessions ----------------------------------------------------------------- */

static const char *job_begun(struct core *core, const struct fact_job_begun *fact)
{
    uint32_t known;
    if (job_of(core, fact->job) != NULL || name_map_get(&core->job_names, fact->name, &known))
        return twice;
    struct job *job = fact->job != 0 ? job_make(core, (uint32_t)fact->job, fact->name) : NULL;
    if (job == NULL)
        return no_memory;
    job->attempt = (uint32_t)fact->attempt;
    return NULL;
}

static const char *job_ended(struct core *core, const struct fact_job_ended *fact)
{
    struct job *job = job_of(core, fact->job);
    if (job == NULL)
        return no_job;
    if (job->session_count > 0)
        return no_order;
    job_free(core, job);
    return NULL;
}

static const char *job_created(struct core *core, const struct fact_job_created *fact)
{
    struct job *job = job_of(core, fact->job);
    if (job == NULL)
        return no_job;
    if (job->state != JOB_FREE)
        return no_order;
    job_begin(core, job,
              &(struct job_spec){.min = (uint32_t)fact->min,
                                 .max = (uint32_t)fact->max,
                                 .join_window_ms = (int64_t)fact->join_window_ms,
                                 .settle_ms = (int64_t)fact->settle_ms,
                                 .max_restarts = (uint32_t)fact->max_restarts,
                                 .deadline_ms = fact->deadline_ms,
                                 .pending = (uint8_t)fact->pending,
                                 .strategy = (uint8_t)fact->strategy,
                                 .disclosure = (uint8_t)fact->disclosure},
              fact->due_wall_ns);
    return NULL;
}

static const char *job_moved(struct core *core, const struct fact_job_moved *fact)
{
    const char *wrong = NULL;
    struct job *job = job_of(core, fact->job);
    struct failure *failure = failure_of(core, fact->failure, &wrong);
    if (job == NULL || wrong != NULL)
        return job == NULL ? no_job : wrong;
    if (fact->state >= JOB_STATE_COUNT || job_is_final(job->state))
        return no_order;
    job->error_count = fact->errors;
    job->pause_ms = (int64_t)fact->pause_ms;
    job->is_called_off = fact->is_called_off != 0;
    job_set_state(core, job, (enum job_state)fact->state, failure);
    return NULL;
}

static const char *placed(struct core *core, const struct fact_placed *fact)
{
    struct party *party = party_of(core, fact->party);
    if (party == NULL)
        return no_party;
    if (!roster_place(&party->job->roster, party->id, (uint32_t)fact->rank,
                      party->state == PARTY_COMPLETED))
        return no_order;
    job_place(core, party, (uint32_t)fact->rank);
    return NULL;
}

/* It waits already, by having joined; a snapshot tells in which order. */
static const char *queued(struct core *core, const struct fact_queued *fact)
{
    struct party *party = party_of(core, fact->party);
    if (party == NULL)
        return no_party;
    if (party->rank != RANK_NONE || !roster_remove(&party->job->roster, party->id))
        return no_order;
    roster_add(&party->job->roster, party->id); /* in the room that it had */
    return NULL;
}

static const char *epoch_begun(struct core *core, const struct fact_epoch_begun *fact)
{
    struct job *job = job_of(core, fact->job);
    if (job == NULL)
        return no_job;
    if (!roster_begin(&job->roster, fact->epoch, (uint32_t)fact->world_size))
        return no_order;
    job->round = 0;
    return NULL;
}

static const char *met(struct core *core, const struct fact_met *fact)
{
    struct job *job = job_of(core, fact->job);
    if (job == NULL)
        return no_job;
    job->round = fact->round;
    return NULL;
}

static const char *attempt_begun(struct core *core, const struct fact_attempt_begun *fact)
{
    struct job *job = job_of(core, fact->job);
    if (job == NULL)
        return no_job;
    LIST_EACH(link, &job->party_list)
        if (LIST_OWNER(link, struct party, job_link)->session != NULL)
            return no_order;
    job_begin_attempt(core, job, (uint32_t)fact->attempt, fact->keeps_letters != 0);
    return NULL;
}

static const char *party_known(struct core *core, const struct fact_party_known *fact)
{
    uint32_t known;
    struct job *job = job_of(core, fact->job);
    if (job == NULL)
        return no_job;
    if (party_of(core, fact->party) != NULL || name_map_get(&job->parties, fact->name, &known))
        return twice;
    if (fact->party == 0 || party_make(core, (uint32_t)fact->party, job, fact->name) == NULL)
        return no_memory;
    return NULL;
}

static const char *party_forgotten(struct core *core, const struct fact_party_forgotten *fact)
{
    struct party *party = party_of(core, fact->party);
    if (party == NULL)
        return no_party;
    if (party_any_session(party) != NULL || !list_is_empty(&party->topics) ||
        !list_is_empty(&party->watches) || !list_is_empty(&party->durables))
        return no_order;
    party_free(core, party);
    return NULL;
}

static const char *party_joined(struct core *core, const struct fact_party_joined *fact)
{
    uint32_t known;
    struct party *party = party_of(core, fact->party);
    if (party == NULL)
        return no_party;
    if (party_any_session(party) != NULL || party_is_live(party) ||
        fact->incarnation <= party->incarnation)
        return no_order;
    if (fact->token == 0 || id_map_get(&core->tokens, fact->token, &known))
        return twice;
    struct session *session =
        session_make(core, party->job,
                     &(struct session_terms){.token = fact->token,
                                             .heartbeat_ms = fact->heartbeat_ms,
                                             .lost_after_ms = fact->lost_after_ms,
                                             .grace_ms = fact->grace_ms,
                                             .host = fact->host,
                                             .pid = fact->pid});
    if (session == NULL || !roster_reserve(&party->job->roster))
        return no_memory;
    session_begin(core, party, session, (uint32_t)fact->incarnation);
    return NULL;
}

static const char *guard_joined(struct core *core, const struct fact_guard_joined *fact)
{
    uint32_t known;
    struct party *party = party_of(core, fact->party);
    if (party == NULL)
        return no_party;
    if (party_any_session(party) != NULL || party_is_live(party) ||
        fact->incarnation <= party->incarnation)
        return no_order;
    if (fact->token == 0 || id_map_get(&core->tokens, fact->token, &known))
        return twice;
    struct session *session =
        session_make(core, party->job,
                     &(struct session_terms){.token = fact->token,
                                             .heartbeat_ms = fact->heartbeat_ms,
                                             .lost_after_ms = fact->lost_after_ms,
                                             .grace_ms = fact->grace_ms,
                                             .host = fact->host,
                                             .pid = fact->pid,
                                             .is_guard = true});
    if (session == NULL || !roster_reserve(&party->job->roster))
        return no_memory;
    session_begin(core, party, session, (uint32_t)fact->incarnation);
    party->voice_count = (uint32_t)fact->voices;
    return NULL;
}

static const char *voice_joined(struct core *core, const struct fact_voice_joined *fact)
{
    uint32_t known;
    struct party *party = party_of(core, fact->party);
    if (party == NULL)
        return no_party;
    if (party->guard == NULL || party->session != NULL || fact->voice <= party->voice_count)
        return no_order;
    if (fact->token == 0 || id_map_get(&core->tokens, fact->token, &known))
        return twice;
    struct session *session =
        session_make(core, party->job,
                     &(struct session_terms){.token = fact->token,
                                             .heartbeat_ms = fact->heartbeat_ms,
                                             .lost_after_ms = fact->lost_after_ms,
                                             .grace_ms = fact->grace_ms,
                                             .host = fact->host,
                                             .pid = fact->pid});
    if (session == NULL)
        return no_memory;
    party->voice_count = (uint32_t)fact->voice - 1;
    guard_begin_voice(core, party, session);
    return NULL;
}

static const char *guard_ended(struct core *core, const struct fact_guard_ended *fact)
{
    struct party *party = party_of(core, fact->party);
    if (party == NULL)
        return no_party;
    if (party->guard == NULL || party_is_live(party))
        return no_order;
    session_drop(core, party->guard);
    return NULL;
}

static const char *located(struct core *core, const struct fact_located *fact)
{
    const struct party *party = party_of(core, fact->party);
    if (party == NULL)
        return no_party;
    struct session *session = fact->is_guard ? party->guard : party->session;
    if (session == NULL)
        return no_order;
    session_locate(core, session, fact->host, fact->pid);
    return NULL;
}

static const char *party_ended(struct core *core, const struct fact_party_ended *fact)
{
    const char *wrong = NULL;
    struct party *party = party_of(core, fact->party);
    struct failure *failure = failure_of(core, fact->failure, &wrong);
    if (party == NULL || wrong != NULL)
        return party == NULL ? no_party : wrong;
    bool is_live = party_is_live(party);
    if (fact->state >= PARTY_STATE_COUNT || !party_is_final((enum party_state)fact->state) ||
        (is_live ? fact->incarnation != party->incarnation
                 : fact->incarnation == 0 || party->incarnation != 0))
        return no_order; /* of a party that is not live only a snapshot tells, once */
    party->state = (enum party_state)fact->state;
    party->incarnation = (uint32_t)fact->incarnation;
    party->ended_by = failure_ref(failure);
    job_left(core, party);
    party_update_bare(party);
    return NULL;
}

static const char *session_ended(struct core *core, const struct fact_session_ended *fact)
{
    struct session *session = session_of(core, fact->party);
    if (session == NULL)
        return no_session;
    bool is_needed = party_is_live(session->party) && session->party->guard == NULL;
    if (!list_is_empty(&session->subs) || is_needed)
        return no_order;
    session_drop(core, session);
    return NULL;
}

static const char *error_numbers(struct core *core, const struct fact_error_numbers *fact)
{
    struct party *party = party_of(core, fact->party);
    if (party == NULL)
        return no_party;
    party->error_limit = fact->limit;
    return NULL;
}

static const char *numbers(struct core *core, const struct fact_numbers *fact)
{
    struct session *session = session_of(core, fact->party);
    if (session == NULL)
        return no_session;
    session->data_number = fact->data_number;
    parked_passed(core, session, fact->control_number);
    session->control_seen = fact->control_seen;
    session->seen_noted = fact->control_seen;
    session->data_noted = fact->data_number;
    session->control_noted = fact->control_number;
    return NULL;
}

static const char *parked(struct core *core, const struct fact_parked *fact)
{
    const char *wrong = NULL;
    struct session *session = session_of(core, fact->party);
    struct failure *failure = failure_of(core, fact->failure, &wrong);
    struct topic *topic = topic_of(core, fact->topic);
    bool needs_topic = fact->type == MSG_FAIL || fact->type == MSG_RETRACT;
    bool needs_error = needs_topic || fact->type == MSG_FAIL_PARTY;
    if (session == NULL)
        return no_session;
    if (wrong != NULL || (needs_error && failure == NULL))
        return no_error;
    if (needs_topic && (topic == NULL || topic->writer != session->party))
        return no_topic;
    if (fact->number <= session->control_noted ||
        (!list_is_empty(&session->parked) &&
         fact->number <= LIST_OWNER(session->parked.prev, struct parked, link)->number))
        return no_order;
    if (!parked_add(core, session,
                    &(struct parked){.type = (enum msg_type)fact->type,
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
        return no_memory;
    (void)failure_ref(failure); /* the one parked */
    if (session->control_seen < fact->number)
        session->control_seen = fact->number;
    if (fact->type == MSG_FAIL_PARTY)
        (void)party_next(session->party->state, PARTY_SAYS_FAILED, &session->party->state);
    return NULL;
}

static const char *progress_promised(struct core *core, const struct fact_progress_promised *fact)
{
    struct session *session = session_of(core, fact->party);
    if (session == NULL)
        return no_session;
    session->progress_ms = fact->within_ms;
    return NULL;
}

/* ---- topics ---------------------------------------------------------------------------------- */

static const char *topic_known(struct core *core, const struct fact_topic_known *fact)
{
    uint32_t known;
    struct party *writer = party_of(core, fact->party);
    if (writer == NULL)
        return no_party;
    if (topic_of(core, fact->topic) != NULL ||
        name_map_get(&writer->job->topics, fact->name, &known))
        return twice;
    if (fact->topic == 0 || topic_make(core, (uint32_t)fact->topic, writer, fact->name) == NULL)
        return no_memory;
    return NULL;
}

static const char *topic_forgotten(struct core *core, struct topic *topic)
{
    if (topic->slots.count > 0)
        return no_order;
    struct party *writer = topic->writer;
    topic_free(core, topic);
    party_update_bare(writer);
    return NULL;
}

static const char *topic_opened(struct core *core, struct topic *topic)
{
    (void)core; /* nothing hangs on it */
    topic->is_opened = true;
    return NULL;
}

static const char *topic_begun(struct core *core, struct topic *topic, uint64_t seq)
{
    if (topic->slots.count > 0 || topic->slots.next_seq > 0)
        return no_order;
    topic_begin(core, topic, seq);
    return NULL;
}

static const char *credit(struct topic *topic, const struct fact_credit *fact)
{
    topic->credit_used = fact->used_bytes;
    topic->credit_limit = fact->limit_bytes;
    return NULL;
}

static const char *trimmed(struct core *core, struct topic *topic, uint64_t first_seq)
{
    topic_cut(core, topic, first_seq);
    return slot_table_first_seq(&topic->slots) == first_seq ? NULL : no_order;
}

/* ---- slots ----------------------------------------------------------------------------------- */

/* Whether so many slots from seq on come next. */
static const char *may_append(struct topic *topic, uint64_t seq, uint64_t count)
{
    if (seq != topic->slots.next_seq || count == 0 || seq > UINT64_MAX - 1 - count)
        return no_order;
    return slot_table_reserve(&topic->slots, 1) ? NULL : no_memory;
}

static const char *kept(struct core *core, struct topic *topic, const struct fact_kept *fact,
                        payload_id payload)
{
    if (payload == 0)
        return no_payload;
    if (fact->skip + fact->count > fact->frame_count)
        return no_order;
    const char *wrong = may_append(topic, fact->seq, fact->count);
    if (wrong == NULL)
        topic_keep(core, topic,
                   &(struct slot_entry){.first_seq = fact->seq,
                                        .count = (uint32_t)fact->count,
                                        .state = SLOT_VALUE,
                                        .ref = payload,
                                        .place = {.offset = (uint32_t)fact->offset,
                                                  .value_bytes = (uint32_t)fact->value_bytes,
                                                  .frame_count = (uint16_t)fact->frame_count,
                                                  .skip = (uint16_t)fact->skip}});
    return wrong;
}

static const char *reserved(struct core *core, struct topic *topic,
                            const struct fact_reserved *fact)
{
    const char *wrong = may_append(topic, fact->seq, 1);
    if (wrong != NULL)
        return wrong;
    if (fact->deadline_ms > LIMIT_PERIOD_MS_MAX)
        return no_order;
    return open_slot_promise(core, topic, fact->seq, fact->value_bytes_max, fact->deadline_ms,
                             fact->due_wall_ns)
               ? NULL
               : no_memory;
}

static const char *needed(struct core *core, struct topic *topic, const struct fact_needed *fact)
{
    struct open_slot *open = open_slot_find(core, topic, fact->seq);
    const struct topic *other = topic_of(core, fact->need_topic);
    if (open == NULL)
        return no_slot;
    if (other == NULL || other->job != topic->job)
        return no_topic;
    if (fact->need_seq >= other->slots.next_seq || (other == topic && fact->need_seq == fact->seq))
        return no_order;
    return need_add(core, open, other, fact->need_seq) ? NULL : no_memory;
}

static const char *rejected(struct core *core, struct topic *topic,
                            const struct fact_rejected *fact)
{
    const char *wrong = may_append(topic, fact->seq, fact->count);
    struct failure *failure = failure_of(core, fact->failure, &wrong);
    if (wrong == NULL && failure == NULL)
        wrong = no_error;
    if (wrong == NULL && !topic_append_failed(core, topic, fact->seq, fact->count, failure))
        wrong = no_memory;
    return wrong;
}

static const char *committed(struct core *core, struct topic *topic,
                             const struct fact_committed *fact, payload_id payload)
{
    struct open_slot *open = open_slot_find(core, topic, fact->seq);
    if (open == NULL)
        return no_slot;
    if (payload == 0)
        return no_payload;
    effects_retain(core->effects, payload, 1);
    settle_open(core, open, SLOT_VALUE, payload,
                (struct slot_place){.offset = (uint32_t)fact->offset,
                                    .value_bytes = (uint32_t)fact->value_bytes,
                                    .frame_count = 1});
    return NULL;
}

static const char *failed(struct core *core, struct topic *topic, const struct fact_failed *fact)
{
    const char *wrong = NULL;
    struct failure *failure = failure_of(core, fact->failure, &wrong);
    struct open_slot *open = open_slot_find(core, topic, fact->seq);
    if (open == NULL)
        return no_slot;
    if (failure == NULL)
        return no_error;
    settle_open_failed(core, open, failure);
    return NULL;
}

static const char *retracted(struct core *core, struct topic *topic,
                             const struct fact_retracted *fact)
{
    const char *wrong = NULL;
    uint32_t index;
    struct failure *failure = failure_of(core, fact->failure, &wrong);
    if (failure == NULL)
        return no_error;
    if (!slot_table_find(&topic->slots, fact->seq, &index) ||
        slot_table_at(&topic->slots, index)->state == SLOT_OPEN ||
        !slot_entry_may_move(slot_table_at(&topic->slots, index), SLOT_ERROR))
        return no_order;
    struct slot_entry *entry = slot_table_at(&topic->slots, index);
    if (fact->count > 0) {
        if (entry->first_seq != fact->seq || entry->count != fact->count)
            return no_order;
        settle_replace_entry(core, topic, entry, failure);
        topic_recount(core, topic);
        return NULL;
    }
    if (!slot_table_reserve(&topic->slots, 2))
        return no_memory;
    settle_replace(core, topic, fact->seq, failure);
    return NULL;
}

static const char *chunk_added(struct core *core, struct topic *topic,
                               const struct fact_chunk_added *fact, payload_id payload)
{
    struct open_slot *open = open_slot_find(core, topic, fact->seq);
    if (open == NULL)
        return no_slot;
    if (payload == 0)
        return no_payload;
    uint64_t have = open->chunks != NULL ? open->chunks->bytes : 0;
    if (fact->bytes > fact->total || have > fact->total - fact->bytes ||
        (open->chunks != NULL && open->chunks->total != fact->total))
        return no_order;
    return open_slot_add_chunk(core, open, fact->total,
                               &(struct chunk){.payload = payload,
                                               .bytes = (uint32_t)fact->bytes,
                                               .frame_bytes = (uint32_t)fact->frame_bytes,
                                               .offset = (uint32_t)fact->offset})
               ? NULL
               : no_memory;
}

static const char *whole(struct core *core, struct topic *topic, uint64_t seq)
{
    struct open_slot *open = open_slot_find(core, topic, seq);
    if (open == NULL)
        return no_slot;
    if (open->chunks == NULL || open->chunks->bytes != open->chunks->total)
        return no_order;
    settle_whole(core, open);
    return NULL;
}

/* Facts about one topic. */
static const char *of_topic(struct core *core, const struct fact *fact, struct topic *topic,
                            payload_id payload)
{
    if (topic == NULL)
        return no_topic;
    switch (fact->type) {
    case FACT_TOPIC_FORGOTTEN: return topic_forgotten(core, topic);
    case FACT_TOPIC_OPENED: return topic_opened(core, topic);
    case FACT_TOPIC_BEGUN: return topic_begun(core, topic, fact->as.topic_begun.seq);
    case FACT_CREDIT: return credit(topic, &fact->as.credit);
    case FACT_TRIMMED: return trimmed(core, topic, fact->as.trimmed.first_seq);
    case FACT_KEPT: return kept(core, topic, &fact->as.kept, payload);
    case FACT_RESERVED: return reserved(core, topic, &fact->as.reserved);
    case FACT_REJECTED: return rejected(core, topic, &fact->as.rejected);
    case FACT_COMMITTED: return committed(core, topic, &fact->as.committed, payload);
    case FACT_FAILED: return failed(core, topic, &fact->as.failed);
    case FACT_RETRACTED: return retracted(core, topic, &fact->as.retracted);
    case FACT_CHUNK_ADDED: return chunk_added(core, topic, &fact->as.chunk_added, payload);
    case FACT_WHOLE: return whole(core, topic, fact->as.whole.seq);
    case FACT_NEEDED: return needed(core, topic, &fact->as.needed);
    case FACT_END_MARKED:
        topic_mark_end(core, topic, (uint32_t)fact->as.end_marked.incarnation,
                       fact->as.end_marked.seq);
        return NULL;
    default: return no_order; /* replay() sends no other here */
    }
}

/* ---- answers that are given again ------------------------------------------------------------ */

static const char *refused(struct core *core, const struct fact_refused *fact)
{
    const char *wrong = NULL;
    struct session *session = session_of(core, fact->party);
    struct failure *failure = failure_of(core, fact->failure, &wrong);
    if (session == NULL)
        return no_session;
    if (failure == NULL)
        return no_error;
    if (fact->number <= session->refusal_number)
        return no_order;
    session->refusal_number = fact->number - 1;
    return refusal_remember(core, session, (uint32_t)fact->topic, fact->seq,
                            fact->count > 0 ? (uint32_t)fact->count : 1, failure)
               ? NULL
               : no_memory;
}

static const char *uploaded(struct core *core, const struct fact_uploaded *fact)
{
    struct session *session = session_of(core, fact->party);
    if (session == NULL)
        return no_session;
    upload_remember(core, session, (uint32_t)fact->topic, fact->seq);
    return NULL;
}

static const char *upload_refused(struct core *core, const struct fact_upload_refused *fact)
{
    struct session *session = session_of(core, fact->party);
    if (session == NULL)
        return no_session;
    upload_remember_refused(core, session, (uint32_t)fact->topic, fact->seq);
    return NULL;
}

static const char *granted(struct core *core, const struct fact_granted *fact)
{
    struct session *session = session_of(core, fact->party);
    if (session == NULL)
        return no_session;
    return parked_remember_granted(core, session, fact->number) ? NULL : no_memory;
}

/* ---- subscriptions --------------------------------------------------------------------------- */

static const char *attach(struct core *core, struct sub *sub, const struct sub_terms *terms)
{
    uint32_t known;
    struct session *session = sub->party->session;
    if (session == NULL)
        return no_session;
    if (sub->session != NULL || id_map_get(&session->sub_ids, terms->number, &known))
        return twice;
    return sub_attach(core, session, sub, terms) ? NULL : no_memory;
}

static const char *sub_opened(struct core *core, const struct fact_sub_opened *fact)
{
    struct party *party = party_of(core, fact->party);
    if (party == NULL)
        return no_party;
    if (sub_of(core, fact->sub) != NULL)
        return twice;
    if (fact->number == 0 && fact->name.bytes == 0)
        return no_order; /* nobody could ever read it */
    struct sub *sub = fact->sub != 0 ? sub_make(core, (uint32_t)fact->sub, party, fact->name,
                                                fact->from_seq, (int64_t)fact->keep_ms * MS_NS)
                                     : NULL;
    if (sub == NULL)
        return no_memory;
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

static const char *watched(struct core *core, struct sub *sub, const struct fact_watched *fact)
{
    struct party *party = party_of(core, fact->party);
    if (party == NULL || party->job != sub->job)
        return no_party;
    LIST_EACH(link, &sub->watches)
        if (LIST_OWNER(link, struct watch, sub_link)->party == party)
            return twice;
    return sub_watch(core, sub, party) ? NULL : no_memory;
}

static const char *followed(struct core *core, struct sub *sub, const struct fact_followed *fact)
{
    struct topic *topic = topic_of(core, fact->topic);
    if (topic == NULL || topic->job != sub->job)
        return no_topic;
    if (route_of(core, sub, fact->topic) != NULL)
        return twice;
    return sub_route(core, sub, topic, fact->seq) != NULL ? NULL : no_memory;
}

static const char *missed(struct core *core, struct sub *sub, const struct fact_missed *fact)
{
    struct route *route = route_of(core, sub, fact->topic);
    if (route == NULL)
        return no_topic;
    if (fact->count == 0 || route->missed_count > 0)
        return no_order;
    route->missed_seq = fact->seq;
    route->missed_count = fact->count;
    return NULL;
}

static const char *sub_detached(struct core *core, struct sub *sub)
{
    if (sub->session == NULL || sub->name.bytes == 0)
        return no_order;
    sub_detach(core, sub);
    return NULL;
}

static const char *acknowledged(struct core *core, struct sub *sub,
                                const struct fact_acknowledged *fact)
{
    struct route *route = route_of(core, sub, fact->topic);
    if (route == NULL)
        return no_topic;
    if (fact->next_seq < route->acked_seq)
        return no_order;
    sub_acknowledge(core, route, fact->next_seq);
    return NULL;
}

static const char *end_due(struct core *core, struct sub *sub, const struct fact_end_due *fact)
{
    const char *wrong = NULL;
    struct party *party = party_of(core, fact->party);
    struct failure *failure = failure_of(core, fact->failure, &wrong);
    if (party == NULL || party->job != sub->job)
        return no_party;
    if (wrong == NULL && !sub_add_ending(core, sub, party, (uint32_t)fact->incarnation, failure))
        wrong = no_memory;
    return wrong;
}

static const char *end_told(struct core *core, struct sub *sub)
{
    if (list_is_empty(&sub->endings))
        return no_order;
    sub_end_told(core, sub);
    return NULL;
}

/* Facts about one subscription. */
static const char *of_sub(struct core *core, const struct fact *fact, struct sub *sub)
{
    if (sub == NULL)
        return no_sub;
    switch (fact->type) {
    case FACT_PATTERN_ADDED:
        return sub_keep_pattern(core, sub, fact->as.pattern_added.pattern) ? NULL : no_memory;
    case FACT_WATCHED: return watched(core, sub, &fact->as.watched);
    case FACT_FOLLOWED: return followed(core, sub, &fact->as.followed);
    case FACT_MISSED: return missed(core, sub, &fact->as.missed);
    case FACT_SUB_ATTACHED:
        return attach(core, sub,
                      &(struct sub_terms){.number = (uint32_t)fact->as.sub_attached.number,
                                          .is_gap = fact->as.sub_attached.is_gap != 0,
                                          .window_bytes = fact->as.sub_attached.window_bytes});
    case FACT_SUB_DETACHED: return sub_detached(core, sub);
    case FACT_SUB_EXPIRED: sub_expire(core, sub); return NULL;
    case FACT_SUB_CLOSED: sub_free(core, sub); return NULL;
    case FACT_ACKNOWLEDGED: return acknowledged(core, sub, &fact->as.acknowledged);
    case FACT_END_DUE: return end_due(core, sub, &fact->as.end_due);
    case FACT_END_TOLD: return end_told(core, sub);
    default: return no_order; /* replay() sends no other here */
    }
}

/* ---- groups ---------------------------------------------------------------------------------- */

static struct group *group_of(struct core *core, uint64_t id)
{
    struct sub *place = sub_of(core, id);
    return place != NULL && sub_is_place(place) ? place->group : NULL;
}

static const char *group_made(struct core *core, const struct fact_group_made *fact)
{
    struct sub *place = sub_of(core, fact->group);
    if (place == NULL)
        return no_sub;
    if (place->group != NULL || place->session != NULL || place->name.bytes == 0 ||
        place->name.bytes > LIMIT_GROUP_NAME_BYTES || fact->deliver_max == 0)
        return no_order;
    return group_make(core, place, (uint32_t)fact->deliver_max) != NULL ? NULL : no_memory;
}

static const char *member_joined(struct core *core, struct group *group,
                                 const struct fact_member_joined *fact)
{
    struct sub *sub = sub_of(core, fact->sub);
    if (sub == NULL)
        return no_sub;
    if (sub->group != NULL || sub->session == NULL || sub->job != group->place->job ||
        !list_is_empty(&sub->routes))
        return no_order;
    return group_join(core, group, sub,
                      &(struct member_terms){.credit = (uint32_t)fact->credit,
                                             .lease_ns = (int64_t)fact->lease_ms * MS_NS})
               ? NULL
               : no_memory;
}

static const char *member_drained(struct core *core, const struct group *group, uint64_t id)
{
    struct sub *member = sub_of(core, id);
    if (member == NULL || member->group != group || sub_is_place(member))
        return no_sub;
    group_drain(core, member);
    return NULL;
}

static const char *leased(struct core *core, struct group *group, struct route *route,
                          const struct fact_leased *fact)
{
    struct sub *member = sub_of(core, fact->sub);
    struct task *task = task_find(core, group, (uint32_t)fact->topic, fact->seq);
    if (member == NULL || member->group != group || sub_is_place(member))
        return no_sub;
    if ((task != NULL && task->state == TASK_LEASED) || fact->delivery == 0)
        return no_order;
    return task_lease(core, route, task, fact->seq, (uint32_t)fact->delivery, member) != NULL
               ? NULL
               : no_memory;
}

/* Of a task that nobody had before only a snapshot tells so. */
static const char *task_came_back(struct core *core, struct group *group, struct route *route,
                                  const struct fact_task_back *fact)
{
    const char *wrong = NULL;
    struct failure *failure = failure_of(core, fact->failure, &wrong);
    struct task *task = task_find(core, group, (uint32_t)fact->topic, fact->seq);
    if (wrong == NULL && (fact->delivery == 0 || (task != NULL && task->state == TASK_DELAYED)))
        wrong = no_order;
    if (wrong == NULL && task == NULL) {
        task = task_make(core, route, NULL, fact->seq);
        if (task == NULL)
            return no_memory;
        list_push(&route->tasks, &task->route_link);
    }
    if (wrong != NULL)
        return wrong;
    task->delivery = (uint32_t)fact->delivery;
    if (task->state == TASK_WAITING) {
        list_remove(&task->holder_link);
        bool is_allowed = task_next(task->state, TASK_IS_LEASED, &task->state);
        must(is_allowed);
    }
    task_back(core, task, failure,
              (struct task_delay){.due_wall_ns = fact->due_wall_ns,
                                  .ms = fact->later_ms < LIMIT_PERIOD_MS_MAX
                                            ? (int64_t)fact->later_ms
                                            : LIMIT_PERIOD_MS_MAX});
    return NULL;
}

static const char *task_error(struct core *core, struct group *group, struct route *route,
                              const struct fact_task_error *fact)
{
    const char *wrong = NULL;
    struct failure *failure = failure_of(core, fact->failure, &wrong);
    struct task *task = task_find(core, group, (uint32_t)fact->topic, fact->seq);
    if (failure == NULL)
        return no_error;
    if (task == NULL) {
        task = task_make(core, route, NULL, fact->seq);
        if (task == NULL)
            return no_memory;
        list_push(&route->tasks, &task->route_link);
    }
    return task_add_error(task, failure) ? NULL : no_order;
}

static const char *task_ended(struct core *core, struct group *group,
                              const struct fact_task_ended *fact)
{
    struct task *task = task_find(core, group, (uint32_t)fact->topic, fact->seq);
    if (task == NULL)
        return no_order;
    task_end(core, task);
    return NULL;
}

static const char *passed(struct core *core, struct route *route, const struct fact_passed *fact)
{
    if (fact->next_seq < route->next_seq)
        return no_order;
    route_pass(core, route, fact->next_seq);
    return NULL;
}

static const char *letter_kept(struct core *core, struct group *group,
                               const struct fact_letter_kept *fact)
{
    struct topic *topic = topic_of(core, fact->topic);
    const struct job *job = group->place->job;
    uint32_t attempt = fact->attempt != 0 ? (uint32_t)fact->attempt : job->attempt;
    if (topic == NULL || topic->job != job)
        return no_topic;
    if (!list_is_empty(&group->letters) &&
        fact->number <= LIST_OWNER(group->letters.prev, struct letter, link)->number)
        return no_order;
    return letter_keep(core, group,
                       &(struct letter){.number = fact->number,
                                        .topic = topic,
                                        .seq = fact->seq,
                                        .deliveries = (uint32_t)fact->deliveries,
                                        .at_ns = fact->at_ns,
                                        .attempt = attempt})
               ? NULL
               : no_memory;
}

static const char *letter_moved(struct core *core, struct group *group, uint64_t number,
                                bool is_gone)
{
    struct letter *letter = letter_find(group, number);
    if (letter == NULL || letter->task != NULL)
        return no_order;
    if (is_gone)
        letter_free(core, group, letter);
    else if (task_of_letter(core, group, letter) == NULL)
        return no_memory;
    return NULL;
}

static const char *requested(struct core *core, const struct fact_requested *fact)
{
    struct topic *topic = topic_of(core, fact->topic);
    struct topic *replies = topic_of(core, fact->reply_topic);
    bool is_request;
    if (topic == NULL || (fact->reply_topic != 0 && replies == NULL))
        return no_topic;
    (void)reply_find(core, topic, fact->seq, &is_request);
    if (is_request)
        return twice;
    struct open_slot *reply =
        replies != NULL ? open_slot_find(core, replies, fact->reply_seq) : NULL;
    if (replies != NULL && (reply == NULL || open_slot_is_reply(reply)))
        return no_slot;
    return reply_link(core, topic, fact->seq, reply) ? NULL : no_memory;
}

/* Facts about a group, or a task of it. */
static const char *of_group(struct core *core, const struct fact *fact, struct group *group)
{
    if (group == NULL)
        return no_sub;
    switch (fact->type) {
    case FACT_MEMBER_JOINED: return member_joined(core, group, &fact->as.member_joined);
    case FACT_MEMBER_DRAINED: return member_drained(core, group, fact->as.member_drained.sub);
    case FACT_LETTER_KEPT: return letter_kept(core, group, &fact->as.letter_kept);
    case FACT_LETTER_REPLAYED:
        return letter_moved(core, group, fact->as.letter_replayed.number, false);
    case FACT_LETTER_GONE: return letter_moved(core, group, fact->as.letter_gone.number, true);
    default: break;
    }
    const struct task *task =
        task_find(core, group, (uint32_t)fact->as.leased.topic, fact->as.leased.seq);
    struct route *route =
        task != NULL ? task->route : route_of(core, group->place, fact->as.leased.topic);
    if (route == NULL)
        return no_topic;
    switch (fact->type) { /* their second field is the topic */
    case FACT_LEASED: return leased(core, group, route, &fact->as.leased);
    case FACT_TASK_BACK: return task_came_back(core, group, route, &fact->as.task_back);
    case FACT_TASK_ERROR: return task_error(core, group, route, &fact->as.task_error);
    case FACT_TASK_ENDED: return task_ended(core, group, &fact->as.task_ended);
    case FACT_PASSED: return passed(core, route, &fact->as.passed);
    default: return no_order; /* replay() sends no other here */
    }
}

/* ---- history --------------------------------------------------------------------------------- */

static const char *event(struct core *core, const struct fact_event *fact)
{
    const char *wrong = NULL;
    struct job *job = job_of(core, fact->job);
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
                               .failure = failure_of(core, fact->failure, &wrong),
                               .is_late = fact->is_late != 0};
    if (job == NULL || wrong != NULL)
        return job == NULL ? no_job : wrong;
    bool is_first = job->event_first == job->event_next; /* older ones went before a snapshot */
    if (is_first ? fact->id < job->event_next : fact->id != job->event_next)
        return no_order;
    if (core->seen.now_ns < fact->broker_ns)
        core->seen = (struct core_moment){.now_ns = fact->broker_ns, .wall_ns = fact->at_ns};
    return tell_keep(core, job, &event) ? NULL : no_memory;
}

/* ---- attachments ----------------------------------------------------------------------------- */

static const char *attachment_announced(struct core *core,
                                        const struct fact_attachment_announced *fact)
{
    struct job *job = job_of(core, fact->job);
    if (job == NULL)
        return no_job;
    if (attach_find(core, job, fact->error, fact->name) != NULL)
        return no_order;
    return attach_announce(core, job, fact->error, fact->name, fact->promised) != NULL ? NULL
                                                                                       : no_memory;
}

/* Before there were announcements, the first piece stood for one. */
static const char *attached(struct core *core, const struct fact_attached *fact, payload_id payload)
{
    struct job *job = job_of(core, fact->job);
    if (job == NULL)
        return no_job;
    if ((payload == 0) != (fact->bytes == 0))
        return no_payload;
    struct attachment *attachment =
        attach_announce(core, job, fact->error, fact->name, ERROR_BYTES_UNKNOWN);
    if (attachment == NULL)
        return no_memory;
    if (attachment->state != ATTACHMENT_COMING)
        return no_order;
    return attach_add(core, job, attachment,
                      &(struct attach_piece){.payload = payload,
                                             .bytes = (uint32_t)fact->bytes,
                                             .is_last = fact->is_last != 0})
               ? NULL
               : no_memory;
}

static const char *attachment_dropped(struct core *core, const struct fact_attachment_dropped *fact)
{
    struct job *job = job_of(core, fact->job);
    struct attachment *known = job != NULL ? attach_find(core, job, fact->error, fact->name) : NULL;
    bool is_full = fact->state == ATTACHMENT_FULL;
    if (known == NULL || (!is_full && fact->state != ATTACHMENT_DROPPED) ||
        known->state == ATTACHMENT_DROPPED || (is_full && known->state != ATTACHMENT_COMING))
        return no_order;
    attach_end(core, job, known, (enum attachment_state)fact->state);
    known->arrived = fact->arrived;
    return NULL;
}

static const char *attachment_forgotten(struct core *core,
                                        const struct fact_attachment_forgotten *fact)
{
    struct job *job = job_of(core, fact->job);
    struct attachment *known = job != NULL ? attach_find(core, job, fact->error, fact->name) : NULL;
    if (known == NULL)
        return no_order;
    attach_forget(core, job, known);
    return NULL;
}

/* ---- the verdict ----------------------------------------------------------------------------- */

static void read_blamed(const struct fact_verdict_error *fact, uint32_t *blamed)
{
    const uint8_t *more = fact->more_blamed.data;
    blamed[0] = (uint32_t)fact->blamed;
    for (size_t at = 0; at < fact->more_blamed.bytes; at++)
        blamed[1 + at / 4] |= (uint32_t)more[at] << (24 - 8 * (at % 4));
}

static const char *verdict_error(struct core *core, const struct fact_verdict_error *fact)
{
    struct judged judged = {.at_ns = fact->at_ns, .life_from_ns = fact->life_from_ns};
    const char *wrong = NULL;
    struct job *job = job_of(core, fact->job);
    struct failure *failure = failure_of(core, fact->failure, &wrong);
    if (job == NULL)
        return no_job;
    if (failure == NULL)
        return no_error;
    if (job->judgement.is_final)
        return no_order;
    judged.failure = failure;
    read_blamed(fact, judged.blamed);
    return judge_restore_error(core, job, &judged) ? NULL : no_memory;
}

static const char *verdict_said(struct core *core, const struct fact_verdict_said *fact)
{
    const char *wrong = NULL;
    struct job *job = job_of(core, fact->job);
    struct failure *failure = failure_of(core, fact->failure, &wrong);
    if (job == NULL)
        return no_job;
    if (failure == NULL)
        return no_error;
    if (job->judgement.is_final)
        return no_order;
    return judge_restore_said(core, job, fact->is_final != 0, fact->at_ns, failure, fact->why)
               ? NULL
               : no_memory;
}

/* Facts that a job is all there is to. */
static const char *of_verdict(struct core *core, enum fact_type type, struct job *job)
{
    if (job == NULL)
        return no_job;
    if (type == FACT_VERDICT_SURVIVED)
        judge_restore_survived(job);
    else
        judge_anew(core, job);
    return NULL;
}

/* ---- limits ---------------------------------------------------------------------------------- */

/* What was within its limits when it was decided is taken whatever they are now. */
static void limits_lift(struct core *core)
{
    core->jobs.used_max = UINT32_MAX;
    core->sessions.used_max = UINT32_MAX;
    core->topics.used_max = UINT32_MAX;
    core->open_slots.used_max = UINT32_MAX;
}

static void limits_set(struct core *core)
{
    core->jobs.used_max = LIMIT_JOBS;
    core->sessions.used_max = LIMIT_CONNECTIONS;
    core->topics.used_max = core->options.topics_max;
    core->open_slots.used_max = core->options.open_slots_max;
}

/* ---- all of them ----------------------------------------------------------------------------- */

static const char *replay(struct core *core, const struct fact *fact, payload_id payload)
{
    switch (fact->type) {
    case FACT_FAILURE_MADE: return failure_made(core, &fact->as.failure_made);
    case FACT_FAILURE_FORGOTTEN: return failure_forgotten(core, &fact->as.failure_forgotten);
    case FACT_JOB_BEGUN: return job_begun(core, &fact->as.job_begun);
    case FACT_JOB_ENDED: return job_ended(core, &fact->as.job_ended);
    case FACT_PARTY_KNOWN: return party_known(core, &fact->as.party_known);
    case FACT_PARTY_FORGOTTEN: return party_forgotten(core, &fact->as.party_forgotten);
    case FACT_PARTY_JOINED: return party_joined(core, &fact->as.party_joined);
    case FACT_PARTY_ENDED: return party_ended(core, &fact->as.party_ended);
    case FACT_SESSION_ENDED: return session_ended(core, &fact->as.session_ended);
    case FACT_GUARD_JOINED: return guard_joined(core, &fact->as.guard_joined);
    case FACT_VOICE_JOINED: return voice_joined(core, &fact->as.voice_joined);
    case FACT_LOCATED: return located(core, &fact->as.located);
    case FACT_GUARD_ENDED: return guard_ended(core, &fact->as.guard_ended);
    case FACT_ERROR_NUMBERS: return error_numbers(core, &fact->as.error_numbers);
    case FACT_NUMBERS: return numbers(core, &fact->as.numbers);
    case FACT_PARKED: return parked(core, &fact->as.parked);
    case FACT_PROGRESS_PROMISED: return progress_promised(core, &fact->as.progress_promised);
    case FACT_TOPIC_KNOWN: return topic_known(core, &fact->as.topic_known);
    case FACT_TOPIC_FORGOTTEN:
    case FACT_TOPIC_OPENED:
    case FACT_TOPIC_BEGUN:
    case FACT_CREDIT:
    case FACT_END_MARKED:
    case FACT_TRIMMED:
    case FACT_KEPT:
    case FACT_RESERVED:
    case FACT_REJECTED:
    case FACT_COMMITTED:
    case FACT_FAILED:
    case FACT_RETRACTED:
    case FACT_CHUNK_ADDED:
    case FACT_WHOLE:
    case FACT_NEEDED: /* their first field is the topic */
        return of_topic(core, fact, topic_of(core, fact->as.kept.topic), payload);
    case FACT_REFUSED: return refused(core, &fact->as.refused);
    case FACT_UPLOADED: return uploaded(core, &fact->as.uploaded);
    case FACT_UPLOAD_REFUSED: return upload_refused(core, &fact->as.upload_refused);
    case FACT_GRANTED: return granted(core, &fact->as.granted);
    case FACT_SUB_OPENED: return sub_opened(core, &fact->as.sub_opened);
    case FACT_PATTERN_ADDED:
    case FACT_WATCHED:
    case FACT_FOLLOWED:
    case FACT_MISSED:
    case FACT_SUB_ATTACHED:
    case FACT_SUB_DETACHED:
    case FACT_SUB_EXPIRED:
    case FACT_SUB_CLOSED:
    case FACT_ACKNOWLEDGED:
    case FACT_END_DUE:
    case FACT_END_TOLD: /* their first field is the subscription */
        return of_sub(core, fact, sub_of(core, fact->as.watched.sub));
    case FACT_EVENT: return event(core, &fact->as.event);
    case FACT_ATTACHED: return attached(core, &fact->as.attached, payload);
    case FACT_ATTACHMENT_ANNOUNCED:
        return attachment_announced(core, &fact->as.attachment_announced);
    case FACT_ATTACHMENT_DROPPED: return attachment_dropped(core, &fact->as.attachment_dropped);
    case FACT_ATTACHMENT_FORGOTTEN:
        return attachment_forgotten(core, &fact->as.attachment_forgotten);
    case FACT_VERDICT_ERROR: return verdict_error(core, &fact->as.verdict_error);
    case FACT_VERDICT_SAID: return verdict_said(core, &fact->as.verdict_said);
    case FACT_VERDICT_SURVIVED:
    case FACT_VERDICT_FORGOTTEN: /* their only field is the job */
        return of_verdict(core, fact->type, job_of(core, fact->as.verdict_survived.job));
    case FACT_JOB_CREATED: return job_created(core, &fact->as.job_created);
    case FACT_JOB_MOVED: return job_moved(core, &fact->as.job_moved);
    case FACT_PLACED: return placed(core, &fact->as.placed);
    case FACT_QUEUED: return queued(core, &fact->as.queued);
    case FACT_EPOCH_BEGUN: return epoch_begun(core, &fact->as.epoch_begun);
    case FACT_MET: return met(core, &fact->as.met);
    case FACT_ATTEMPT_BEGUN: return attempt_begun(core, &fact->as.attempt_begun);
    case FACT_GROUP_MADE: return group_made(core, &fact->as.group_made);
    case FACT_MEMBER_JOINED:
    case FACT_MEMBER_DRAINED:
    case FACT_LEASED:
    case FACT_TASK_BACK:
    case FACT_TASK_ERROR:
    case FACT_TASK_ENDED:
    case FACT_PASSED:
    case FACT_LETTER_KEPT:
    case FACT_LETTER_REPLAYED:
    case FACT_LETTER_GONE: /* their first field is the group */
        return of_group(core, fact, group_of(core, fact->as.leased.group));
    case FACT_REQUESTED: return requested(core, &fact->as.requested);
    case FACT_NONE:
    case FACT_TYPE_COUNT: break;
    }
    return no_order;
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
    failure_bury(core);
    const char *wrong = replay(core, &fact, payload);
    core->effects = NULL;
    return wrong;
}

/* ---- the end of a replay --------------------------------------------------------------------- */

/* A deadline goes on by the wall clock; one that passed meanwhile has the resume window.  However
 * far that clock jumped, no slot waits for longer than it was reserved for, or for the window. */
static void resume_slot(struct core *core, struct slot_terms *terms)
{
    int64_t window_ns = core->options.resume_ms * MS_NS;
    int64_t whole_ns = terms->deadline_ms * MS_NS;
    int64_t left_ns = terms->due_wall_ns - core->wall_ns;
    if (terms->deadline_ms < 0)
        return;
    if (left_ns > whole_ns)
        left_ns = whole_ns;
    if (left_ns < window_ns)
        left_ns = window_ns;
    terms->ends_ns = core_clock(core) + left_ns;
    timers_set(&core->timers, &terms->timer, terms->ends_ns);
}

/* Who was sent what is not known any more: every outcome stands as it is. */
static void resume_topic(struct topic *topic)
{
    for (uint32_t i = 0; i < topic->slots.count; i++) {
        struct slot_entry *entry = slot_table_at(&topic->slots, i);
        entry->is_sealed = entry->state != SLOT_OPEN;
    }
    topic->is_held_back = true; /* readers tell where they are: until then nobody is called slow */
    topic->is_slow_told = true;
}

static void resume_subs(struct core *core)
{
    struct sub *sub = NULL;
    while ((sub = pool_next(&core->subs, sub != NULL ? sub->id : 0)) != NULL) {
        bool is_unread =
            sub_is_place(sub) ? list_is_empty(&sub->group->members) : sub->session == NULL;
        if (is_unread && !sub->is_expired)
            timers_set(&core->timers, &sub->timer, core_clock(core) + sub->keep_ns);
        sub_rewind(core, sub);
    }
}

static void resume_owners(struct core *core)
{
    struct party *party = NULL;
    while ((party = pool_next(&core->parties, party != NULL ? party->id : 0)) != NULL)
        party->error_count = party->error_limit;
    struct session *session = NULL;
    while ((session = pool_next(&core->sessions, session != NULL ? session->id : 0)) != NULL)
        session_resume(core, session);
    struct job *job = NULL;
    while ((job = pool_next(&core->jobs, job != NULL ? job->id : 0)) != NULL) {
        judge_resume(core, job);
        if (job->session_count == 0)
            timers_set(&core->timers, &job->linger,
                       core_clock(core) + core->options.linger_ms * MS_NS);
        job_keep(core, job);
        job_resume(core, job);
    }
}

struct core_moment core_seen(const struct core *core)
{
    return core->seen;
}

void core_resume(struct core *core, const struct event *now, struct effects *effects)
{
    core->effects = effects;
    core->now_ns = core->start_ns = now->now_ns;
    core->wall_ns = now->wall_ns;
    core->steps += 1;
    core->is_replaying = false;
    core->is_noting = core->options.has_facts;
    limits_set(core);
    pool_mend(&core->jobs);
    pool_mend(&core->parties);
    pool_mend(&core->topics);
    pool_mend(&core->subs);
    failure_forget_replayed(core);
    resume_owners(core);
    struct slot_terms *terms = NULL;
    while ((terms = pool_next(&core->slot_terms, terms != NULL ? terms->id : 0)) != NULL)
        resume_slot(core, terms);
    terms = NULL;
    while ((terms = pool_next(&core->slot_terms, terms != NULL ? terms->id : 0)) != NULL)
        if (terms->request_topic != 0)
            reply_arm(core, terms->open);
    resume_subs(core);
    attach_resume(core);
    need_resume(core); /* before anything is trimmed */
    groups_resume(core);
    struct topic *topic = NULL;
    while ((topic = pool_next(&core->topics, topic != NULL ? topic->id : 0)) != NULL) {
        resume_topic(topic);
        topic_update(core, topic);
    }
    core->effects = NULL;
}
