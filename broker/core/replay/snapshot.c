/* SPDX-License-Identifier: MPL-2.0 */
/* snapshot.c -- tables into facts: those that build all durable state from nothing.
 *
 * The order follows from what facts refer to: failures; jobs, parties, topics with their slots;
 * incarnations with their sessions; places in jobs; subscriptions; and last the history. */
#include "broker/core/core.h"

#include "broker/core/model.h"
#include "broker/core/record/attachment.h"
#include "broker/core/record/note.h"
#include "broker/core/streams/lease.h"
#include "broker/core/streams/sub.h"
#include "broker/core/tables/effect.h"
#include "broker/core/tables/job.h"
#include "broker/core/tables/needs.h"
#include "broker/core/tables/party.h"
#include "broker/core/tables/roster.h"
#include "broker/core/tables/slot_table.h"
#include "broker/core/tables/task.h"

static void snap_failures(struct core *core)
{
    struct failure *failure = NULL;
    while ((failure = pool_next(&core->failures, failure != NULL ? failure->id : 0)) != NULL)
        if (failure->number > 1) /* 1 is everybody's */
            note_failure_made(core, failure);
}

/* ---- topics ---------------------------------------------------------------------------------- */

static void snap_chunks(struct core *core, const struct topic *topic, uint64_t seq,
                        const struct chunks *chunks)
{
    for (uint32_t i = 0; i < chunks->count; i++)
        note_chunk_added(core, topic, seq, chunks->total, &chunks->items[i]);
}

/* As it came about: promised, in pieces, whole. */
static void snap_chunked(struct core *core, const struct topic *topic,
                         const struct slot_entry *entry)
{
    struct fact fact = {
        .type = FACT_RESERVED,
        .as.reserved = {.topic = topic->id, .seq = entry->first_seq, .deadline_ms = -1}};
    effects_fact(core->effects, &fact, 0);
    snap_chunks(core, topic, entry->first_seq, pool_find(&core->chunk_sets, entry->ref));
    note_settled(core, topic, entry);
}

static void snap_entry(struct core *core, const struct topic *topic, const struct slot_entry *entry)
{
    if (entry->state == SLOT_CHUNKED) {
        snap_chunked(core, topic, entry);
        return;
    }
    note_appended(core, topic, entry);
    const struct open_slot *open =
        entry->state == SLOT_OPEN ? pool_find(&core->open_slots, entry->ref) : NULL;
    if (open != NULL && open->chunks != NULL)
        snap_chunks(core, topic, entry->first_seq, open->chunks);
}

static void snap_topic(struct core *core, const struct topic *topic)
{
    note_topic_known(core, topic);
    if (topic->is_opened)
        note_topic_opened(core, topic);
    if (topic->begin_seq > 0)
        note_topic_begun(core, topic);
    if (slot_table_first_seq(&topic->slots) > topic->begin_seq)
        note_trimmed(core, topic);
    for (uint32_t i = 0; i < topic->mark_count; i++)
        note_end_marked(core, topic, &topic->marks[i]);
    for (uint32_t i = 0; i < topic->slots.count; i++)
        snap_entry(core, topic, slot_table_at(&topic->slots, i));
    note_credit(core, topic); /* slots counted what they cost anew: this says what is right */
}

/* A needed slot may be in a later topic, so this runs when all topics are written. */
static void snap_needs(struct core *core, const struct job *job)
{
    LIST_EACH(party_link, &job->party_list)
        LIST_EACH(slot_link, &LIST_OWNER(party_link, struct party, job_link)->open_slots) {
            const struct open_slot *open = LIST_OWNER(slot_link, struct open_slot, party_link);
            if (open->terms == NULL)
                continue;
            LIST_EACH(link, &open->terms->needs)
                note_needed(core, open, LIST_OWNER(link, struct need_edge, slot_link)->head->key);
        }
}

/* ---- incarnations ---------------------------------------------------------------------------- */

static void snap_session(struct core *core, struct session *session)
{
    session->data_noted = UINT64_MAX; /* as if nothing had been said of it */
    note_numbers(core, session);
    LIST_EACH(link, &session->parked)
        note_parked(core, session, LIST_OWNER(link, struct parked, link));
    if (session->progress_ms > 0)
        note_progress(core, session);
    uint64_t refusal = session->refusal_number;
    uint64_t first = refusal > REFUSALS_KEPT ? refusal - REFUSALS_KEPT + 1 : 1;
    for (uint64_t number = first; number <= refusal; number++)
        note_refused(core, session, number);
    for (uint32_t i = 0; i < UPLOADED_KEPT; i++) {
        uint32_t at = (session->uploaded_at + i) % UPLOADED_KEPT;
        if (session->uploaded[at].topic != 0)
            note_uploaded(core, session, session->uploaded[at].topic, session->uploaded[at].seq);
    }
    if (session->chunk_refused_topic != 0)
        note_upload_refused(core, session);
    for (uint32_t i = 0; session->granted != NULL && i < GRANTED_KEPT; i++)
        if (session->granted[i] != 0)
            note_granted(core, session, session->granted[i]);
}

static void snap_incarnation(struct core *core, const struct party *party)
{
    if (party->attempt != 0)
        note_took_part(core, party);
    for (uint32_t i = 0; i < party->end_count; i++)
        note_past_end(core, party, &party->ends[i]);
    if (party->guard != NULL)
        note_guard_joined(core, party);
    if (party->session != NULL && party->guard != NULL)
        note_program_joined(core, party);
    else if (party->session != NULL)
        note_party_joined(core, party);
    if (party_is_final(party->state))
        note_party_ended(core, party);
    if (party->error_limit > 0)
        note_error_numbers(core, party);
    if (party->session != NULL)
        snap_session(core, party->session);
}

/* ---- subscriptions --------------------------------------------------------------------------- */

static void snap_sub(struct core *core, const struct sub *sub)
{
    note_sub_opened(core, sub);
    for (uint32_t i = 0; i < sub->pattern_count; i++)
        note_pattern_added(core, sub, sub->patterns[i]);
    LIST_EACH(link, &sub->watches)
        note_watched(core, LIST_OWNER(link, struct watch, sub_link));
    LIST_EACH(link, &sub->routes) {
        const struct route *route = LIST_OWNER(link, struct route, sub_link);
        note_followed(core, route, route_floor(route));
        if (route->missed_count > 0)
            note_missed(core, route);
    }
    LIST_EACH(link, &sub->endings)
        note_end_due(core, sub, LIST_OWNER(link, struct ending, link));
}

/* ---- groups ---------------------------------------------------------------------------------- */

/* As it came about: given, and given back, with the errors of all deliveries but the last. */
static void snap_task(struct core *core, const struct task *task)
{
    struct failure *last = NULL;
    uint32_t before = task->error_count;
    if (task->letter != NULL)
        note_letter_replayed(core, task->group, task->letter);
    if (task->state != TASK_LEASED && before > 0)
        last = task->errors[--before];
    if (task->state == TASK_LEASED)
        note_leased(core, task);
    for (uint32_t i = 0; i < before; i++)
        note_task_error(core, task, task->errors[i]);
    if (task->state != TASK_LEASED && task->delivery > task_deliveries_before(task))
        note_task_back(core, task, last);
}

static void snap_tasks(struct core *core, const struct route *route)
{
    LIST_EACH(link, &route->tasks)
        snap_task(core, LIST_OWNER(link, struct task, route_link));
    note_passed(core, route);
}

static void snap_group(struct core *core, const struct group *group)
{
    note_group_made(core, group);
    LIST_EACH(link, &group->members)
        note_member_joined(core, LIST_OWNER(link, struct sub, member_link));
    LIST_EACH(link, &group->letters)
        note_letter_kept(core, group, LIST_OWNER(link, struct letter, link));
    LIST_EACH(link, &group->place->routes)
        snap_tasks(core, LIST_OWNER(link, struct route, sub_link));
    LIST_EACH(link, &group->letters) {
        const struct letter *letter = LIST_OWNER(link, struct letter, link);
        if (letter->task != NULL)
            snap_task(core, letter->task);
    }
}

static void snap_groups(struct core *core, const struct job *job)
{
    LIST_EACH(link, &job->sub_list) {
        const struct sub *sub = LIST_OWNER(link, struct sub, job_link);
        if (sub_is_place(sub))
            snap_group(core, sub->group);
    }
}

/* Its replies lie in topics that have all been told. */
static void snap_requests(struct core *core, const struct topic *topic)
{
    LIST_EACH(link, &topic->requests) {
        const struct slot_terms *terms = LIST_OWNER(link, struct slot_terms, request_link);
        note_requested(core, topic, terms->request_seq, terms->open);
    }
    for (uint32_t i = 0; i < topic->request_ids.room; i++) {
        const struct id_map_entry *entry = &topic->request_ids.entries[i];
        if (entry->is_used && entry->value == 0)
            note_requested(core, topic, entry->key, NULL);
    }
}

/* ---- the verdict ----------------------------------------------------------------------------- */

static void snap_judgement(struct core *core, const struct job *job)
{
    const struct judgement *judgement = &job->judgement;
    for (uint32_t i = 0; i < judgement->count; i++) {
        note_verdict_error(core, job, &judgement->errors[i]);
        if (i + 1 == judgement->survived_count)
            note_verdict_survived(core, job);
    }
    if (judgement->is_said)
        note_verdict_said(core, job);
}

/* ---- membership ------------------------------------------------------------------------------ */

static void snap_roster(struct core *core, const struct job *job)
{
    const struct roster *roster = &job->roster;
    for (uint32_t i = 0; i < roster->waiting_count; i++)
        note_queued(core, pool_find(&core->parties, roster->waiting[i]));
    for (uint32_t rank = 0; rank < roster->place_count; rank++)
        if (roster->places[rank].party != 0)
            note_placed(core, pool_find(&core->parties, roster->places[rank].party));
    if (roster->epoch > 0)
        note_epoch_begun(core, job);
    if (job->round > 0)
        note_met(core, job);
}

/* ---- all of it ------------------------------------------------------------------------------- */

static void snap_events(struct core *core, const struct job *job)
{
    for (uint64_t id = job->event_first; id < job->event_next; id++)
        note_event(core, job, &job->events[id & (job->event_room - 1)]);
}

static void snap_job(struct core *core, const struct job *job)
{
    note_job_begun(core, job);
    if (job->run.bytes > 0)
        note_run_named(core, job);
    if (job->state != JOB_FREE) {
        note_job_created(core, job);
        note_job_moved(core, job);
    }
    LIST_EACH(link, &job->party_list)
        note_party_known(core, LIST_OWNER(link, struct party, job_link));
    LIST_EACH(link, &job->topic_list)
        snap_topic(core, LIST_OWNER(link, struct topic, job_link));
    snap_needs(core, job);
    LIST_EACH(link, &job->topic_list)
        snap_requests(core, LIST_OWNER(link, struct topic, job_link));
    LIST_EACH(link, &job->party_list)
        snap_incarnation(core, LIST_OWNER(link, struct party, job_link));
    snap_roster(core, job);
    LIST_EACH(link, &job->sub_list)
        snap_sub(core, LIST_OWNER(link, struct sub, job_link));
    snap_groups(core, job);
    attach_snapshot(core, job);
    snap_judgement(core, job);
    snap_events(core, job);
}

void core_snapshot(struct core *core, struct effects *effects)
{
    bool was_noting = core->is_noting;
    core->effects = effects;
    core->is_noting = true;
    snap_failures(core);
    struct job *job = NULL;
    while ((job = pool_next(&core->jobs, job != NULL ? job->id : 0)) != NULL)
        snap_job(core, job);
    core->is_noting = was_noting;
    core->effects = NULL;
}
