/* SPDX-License-Identifier: MPL-2.0 */
/* note.c -- what is decided, as facts for a journal; see schemas/facts.def.
 *
 * A function that changes durable state notes the fact in the same place.  A replay calls the same
 * function, so a fact and its effect cannot differ.  Facts come in the order of the changes.  Those
 * of one step are one batch of the journal, all or none.
 *
 * An error is told once, before the first fact that refers to it, and forgotten when none does. */
#include "broker/core/record/note.h"

#include "broker/core/record/attachment.h"
#include "broker/core/record/auditor.h"
#include "broker/core/record/failure.h"
#include "broker/core/tables/effect.h"
#include "broker/core/tables/job.h"
#include "broker/core/tables/needs.h"
#include "broker/core/tables/slot_table.h"

static void note(struct core *core, const struct fact *fact)
{
    effects_fact(core->effects, fact, 0);
}

/* NOTE(core, KEPT, kept, .topic = 1, ...) */
#define NOTE(core, upper, lower, ...)                                                              \
    note((core), &(struct fact){.type = FACT_##upper, .as.lower = {__VA_ARGS__}})

/* ---- failures -------------------------------------------------------------------------------- */

void note_failure_made(struct core *core, struct failure *failure)
{
    if (!core->is_noting)
        return;
    if (failure->number == 0)
        failure->number = ++core->failure_number;
    NOTE(core, FAILURE_MADE, failure_made, .failure = failure->number,
         .error = failure_span(failure));
}

/* Its number, after it was told of. */
static uint64_t failure_number(struct core *core, struct failure *failure)
{
    if (failure == NULL)
        return 0;
    if (failure->number == 0)
        note_failure_made(core, failure);
    return failure->number;
}

void note_failure_forgotten(struct core *core, const struct failure *failure)
{
    if (core->is_noting && failure->number != 0)
        NOTE(core, FAILURE_FORGOTTEN, failure_forgotten, .failure = failure->number);
}

/* ---- jobs, parties, sessions ----------------------------------------------------------------- */

void note_job_begun(struct core *core, const struct job *job)
{
    if (core->is_noting)
        NOTE(core, JOB_BEGUN, job_begun, .job = job->id, .name = job->name, .attempt = job->attempt,
             .owner = job->account->name);
}

void note_job_ended(struct core *core, const struct job *job)
{
    if (core->is_noting)
        NOTE(core, JOB_ENDED, job_ended, .job = job->id);
}

void note_job_created(struct core *core, const struct job *job)
{
    const struct job_spec *spec = &job->spec;
    if (core->is_noting)
        NOTE(core, JOB_CREATED, job_created, .job = job->id, .min = spec->min, .max = spec->max,
             .join_window_ms = (uint64_t)spec->join_window_ms,
             .join_timeout_ms = spec->join_timeout_ms, .settle_ms = (uint64_t)spec->settle_ms,
             .max_restarts = spec->max_restarts, .deadline_ms = spec->deadline_ms,
             .pending = spec->pending, .strategy = spec->strategy, .disclosure = spec->disclosure,
             .due_wall_ns = job->due_wall_ns, .first_attempt = job->first_attempt,
             .deadlock = spec->deadlock, .auditor = auditor_of(job));
}

void note_job_moved(struct core *core, const struct job *job)
{
    if (core->is_noting)
        NOTE(core, JOB_MOVED, job_moved, .job = job->id, .state = job->state,
             .failure = failure_number(core, job->failure), .errors = job->error_count,
             .pause_ms = (uint64_t)job->pause_ms, .is_called_off = job->is_called_off);
}

void note_placed(struct core *core, const struct party *party)
{
    if (core->is_noting)
        NOTE(core, PLACED, placed, .party = party->id, .rank = party->rank);
}

void note_queued(struct core *core, const struct party *party)
{
    if (core->is_noting)
        NOTE(core, QUEUED, queued, .party = party->id);
}

void note_epoch_begun(struct core *core, const struct job *job)
{
    if (core->is_noting)
        NOTE(core, EPOCH_BEGUN, epoch_begun, .job = job->id, .epoch = job->roster.epoch,
             .world_size = job->roster.place_count);
}

void note_met(struct core *core, const struct job *job)
{
    if (core->is_noting)
        NOTE(core, MET, met, .job = job->id, .round = job->round);
}

void note_attempt_begun(struct core *core, const struct job *job)
{
    if (core->is_noting)
        NOTE(core, ATTEMPT_BEGUN, attempt_begun, .job = job->id, .attempt = job->attempt);
}

void note_run_named(struct core *core, const struct job *job)
{
    if (core->is_noting)
        NOTE(core, RUN_NAMED, run_named, .job = job->id, .run = job->run);
}

void note_took_part(struct core *core, const struct party *party)
{
    if (core->is_noting)
        NOTE(core, TOOK_PART, took_part, .party = party->id, .attempt = party->attempt,
             .incarnation = party->first, .run_rule = party->run_rule,
             .owner = party->account->name);
}

void note_party_known(struct core *core, const struct party *party)
{
    if (core->is_noting)
        NOTE(core, PARTY_KNOWN, party_known, .party = party->id, .job = party->job->id,
             .name = party->name);
}

void note_party_forgotten(struct core *core, const struct party *party)
{
    if (core->is_noting)
        NOTE(core, PARTY_FORGOTTEN, party_forgotten, .party = party->id);
}

void note_party_joined(struct core *core, const struct party *party)
{
    const struct session *session = party->session;
    if (core->is_noting)
        NOTE(core, PARTY_JOINED, party_joined, .party = party->id,
             .incarnation = party->incarnation, .token = session->token,
             .heartbeat_ms = (uint64_t)(session->beat_ns / MS_NS),
             .lost_after_ms = (uint64_t)(session->lost_after_ns / MS_NS),
             .grace_ms = (uint64_t)(session->grace_ns / MS_NS), .host = session->host,
             .pid = session->pid, .run_rule = party->run_rule, .client = party->client,
             .owner = party->account->name, .trace_id = session->trace_id);
}

void note_party_ended(struct core *core, const struct party *party)
{
    if (core->is_noting)
        NOTE(core, PARTY_ENDED, party_ended, .party = party->id, .incarnation = party->incarnation,
             .state = party->state, .failure = failure_number(core, party->ended_by),
             .at_ns = party->ended_ns);
}

void note_past_end(struct core *core, const struct party *party, const struct party_end *end)
{
    if (core->is_noting)
        NOTE(core, PAST_END, past_end, .party = party->id, .first = end->first,
             .incarnation = end->incarnation, .failure = failure_number(core, end->failure));
}

void note_session_ended(struct core *core, const struct party *party)
{
    if (core->is_noting)
        NOTE(core, SESSION_ENDED, session_ended, .party = party->id);
}

void note_guard_joined(struct core *core, const struct party *party)
{
    const struct session *guard = party->guard;
    if (core->is_noting)
        NOTE(
            core, GUARD_JOINED, guard_joined, .party = party->id, .incarnation = party->incarnation,
            .token = guard->token, .heartbeat_ms = (uint64_t)(guard->beat_ns / MS_NS),
            .lost_after_ms = (uint64_t)(guard->lost_after_ns / MS_NS),
            .grace_ms = (uint64_t)(guard->grace_ns / MS_NS), .host = guard->host, .pid = guard->pid,
            .programs = party->program_count - (party->session != NULL), /* that has its own fact */
            .run_rule = party->run_rule, .client = party->client, .owner = party->account->name,
            .trace_id = guard->trace_id);
}

void note_program_joined(struct core *core, const struct party *party)
{
    const struct session *session = party->session;
    if (core->is_noting)
        NOTE(core, PROGRAM_JOINED, program_joined, .party = party->id,
             .program = party->program_count, .token = session->token,
             .heartbeat_ms = (uint64_t)(session->beat_ns / MS_NS),
             .lost_after_ms = (uint64_t)(session->lost_after_ns / MS_NS),
             .grace_ms = (uint64_t)(session->grace_ns / MS_NS), .host = session->host,
             .pid = session->pid, .client = party->program_client, .trace_id = session->trace_id);
}

void note_guard_ended(struct core *core, const struct party *party)
{
    if (core->is_noting)
        NOTE(core, GUARD_ENDED, guard_ended, .party = party->id);
}

void note_located(struct core *core, const struct session *session)
{
    if (core->is_noting)
        NOTE(core, LOCATED, located, .party = session->party->id, .is_guard = session->is_guard,
             .host = session->host, .pid = session->pid, .trace_id = session->trace_id);
}

void note_error_numbers(struct core *core, const struct party *party)
{
    if (core->is_noting)
        NOTE(core, ERROR_NUMBERS, error_numbers, .party = party->id, .limit = party->error_limit);
}

void note_numbers(struct core *core, struct session *session)
{
    uint64_t control_number = session_control_number(session);
    if (!core->is_noting ||
        (session->data_noted == session->data_number && session->control_noted == control_number &&
         session->seen_noted == session->control_seen))
        return;
    session->seen_noted = session->control_seen;
    session->data_noted = session->data_number;
    session->control_noted = control_number;
    NOTE(core, NUMBERS, numbers, .party = session->party->id, .data_number = session->data_number,
         .control_number = control_number, .control_seen = session->control_seen);
}

void note_parked(struct core *core, const struct session *session, const struct parked *op)
{
    if (core->is_noting)
        NOTE(core, PARKED, parked, .party = session->party->id, .type = op->type,
             .number = op->number, .after = op->after, .topic = op->topic, .seq = op->seq,
             .sub = op->sub, .is_told = op->is_told, .failure = failure_number(core, op->failure),
             .delivery = op->delivery, .how = op->how, .retry_after_ms = op->retry_after_ms,
             .durable = op->durable);
}

void note_progress(struct core *core, const struct session *session)
{
    if (core->is_noting)
        NOTE(core, PROGRESS_PROMISED, progress_promised, .party = session->party->id,
             .within_ms = session->progress_ms);
}

/* ---- topics ---------------------------------------------------------------------------------- */

void note_topic_known(struct core *core, const struct topic *topic)
{
    if (core->is_noting)
        NOTE(core, TOPIC_KNOWN, topic_known, .topic = topic->id, .party = topic->writer->id,
             .name = topic->name);
}

void note_topic_forgotten(struct core *core, const struct topic *topic)
{
    if (core->is_noting)
        NOTE(core, TOPIC_FORGOTTEN, topic_forgotten, .topic = topic->id);
}

void note_topic_opened(struct core *core, const struct topic *topic)
{
    if (core->is_noting)
        NOTE(core, TOPIC_OPENED, topic_opened, .topic = topic->id,
             .number = topic->number != topic->id ? topic->number : 0);
}

void note_topic_begun(struct core *core, const struct topic *topic)
{
    if (core->is_noting)
        NOTE(core, TOPIC_BEGUN, topic_begun, .topic = topic->id, .seq = topic->begin_seq);
}

void note_credit(struct core *core, const struct topic *topic)
{
    if (core->is_noting)
        NOTE(core, CREDIT, credit, .topic = topic->id, .used_bytes = topic->credit_used,
             .limit_bytes = topic->credit_limit);
}

void note_end_marked(struct core *core, const struct topic *topic, const struct end_mark *mark)
{
    if (core->is_noting)
        NOTE(core, END_MARKED, end_marked, .topic = topic->id, .incarnation = mark->incarnation,
             .seq = mark->seq, .at_ns = mark->at_ns);
}

void note_trimmed(struct core *core, const struct topic *topic)
{
    if (core->is_noting)
        NOTE(core, TRIMMED, trimmed, .topic = topic->id,
             .first_seq = slot_table_first_seq(&topic->slots));
}

/* ---- slots ----------------------------------------------------------------------------------- */

static void note_kept(struct core *core, const struct topic *topic, const struct slot_entry *entry)
{
    struct fact fact = {.type = FACT_KEPT,
                        .as.kept = {.topic = topic->id,
                                    .seq = entry->first_seq,
                                    .count = entry->count,
                                    .offset = entry->place.offset,
                                    .value_bytes = entry->place.value_bytes,
                                    .frame_count = entry->place.frame_count,
                                    .skip = entry->place.skip}};
    effects_fact(core->effects, &fact, entry->ref);
}

static void note_reserved(struct core *core, const struct topic *topic,
                          const struct slot_entry *entry)
{
    const struct open_slot *open = pool_find(&core->open_slots, entry->ref);
    const struct slot_terms *terms = open->terms;
    NOTE(core, RESERVED, reserved, .topic = topic->id, .seq = open->seq,
         .value_bytes_max = open->value_bytes_max,
         .deadline_ms = terms != NULL ? terms->deadline_ms : -1,
         .due_wall_ns = terms != NULL ? terms->due_wall_ns : 0);
}

void note_entry(struct core *core, const struct topic *topic, const struct slot_entry *entry)
{
    switch ((enum slot_state)entry->state) {
    case SLOT_VALUE: note_kept(core, topic, entry); break;
    case SLOT_OPEN: note_reserved(core, topic, entry); break;
    case SLOT_ERROR:
        NOTE(core, REJECTED, rejected, .topic = topic->id, .seq = entry->first_seq,
             .count = entry->count,
             .failure = failure_number(core, pool_find(&core->failures, entry->ref)));
        break;
    case SLOT_CHUNKED: /* begins as an open slot */
    case SLOT_STATE_COUNT: must(false); break;
    }
}

void note_attached(struct core *core, const struct job *job, const struct attachment *attachment,
                   const struct attach_piece *piece)
{
    if (!core->is_noting)
        return;
    struct fact fact = {.type = FACT_ATTACHED,
                        .as.attached = {.job = job->id,
                                        .error = attach_error(attachment),
                                        .name = attach_name(attachment),
                                        .bytes = piece->bytes,
                                        .is_last = piece->is_last}};
    effects_fact(core->effects, &fact, piece->payload);
}

void note_attachment_announced(struct core *core, const struct job *job,
                               const struct attachment *attachment)
{
    if (core->is_noting)
        NOTE(core, ATTACHMENT_ANNOUNCED, attachment_announced, .job = job->id,
             .error = attach_error(attachment), .name = attach_name(attachment),
             .promised = attachment->promised);
}

void note_attachment_dropped(struct core *core, const struct job *job,
                             const struct attachment *attachment)
{
    if (core->is_noting)
        NOTE(core, ATTACHMENT_DROPPED, attachment_dropped, .job = job->id,
             .error = attach_error(attachment), .name = attach_name(attachment),
             .state = attachment->state, .arrived = attachment->arrived);
}

void note_attachment_forgotten(struct core *core, const struct job *job,
                               const struct attachment *attachment)
{
    if (core->is_noting)
        NOTE(core, ATTACHMENT_FORGOTTEN, attachment_forgotten, .job = job->id,
             .error = attach_error(attachment), .name = attach_name(attachment));
}

void note_needed(struct core *core, const struct open_slot *open, struct need_key key)
{
    if (core->is_noting)
        NOTE(core, NEEDED, needed, .topic = open->topic->id, .seq = open->seq,
             .need_topic = key.topic, .need_seq = key.seq);
}

static void note_committed(struct core *core, const struct topic *topic,
                           const struct slot_entry *entry)
{
    struct fact fact = {.type = FACT_COMMITTED,
                        .as.committed = {.topic = topic->id,
                                         .seq = entry->first_seq,
                                         .offset = entry->place.offset,
                                         .value_bytes = entry->place.value_bytes}};
    effects_fact(core->effects, &fact, entry->ref);
}

void note_settled(struct core *core, const struct topic *topic, const struct slot_entry *entry)
{
    if (!core->is_noting)
        return;
    switch ((enum slot_state)entry->state) {
    case SLOT_VALUE: note_committed(core, topic, entry); break;
    case SLOT_CHUNKED: NOTE(core, WHOLE, whole, .topic = topic->id, .seq = entry->first_seq); break;
    case SLOT_ERROR:
        NOTE(core, FAILED, failed, .topic = topic->id, .seq = entry->first_seq,
             .failure = failure_number(core, pool_find(&core->failures, entry->ref)));
        break;
    case SLOT_OPEN:
    case SLOT_STATE_COUNT: must(false); break;
    }
}

void note_retracted(struct core *core, const struct topic *topic, const struct slot_entry *entry)
{
    if (core->is_noting)
        NOTE(core, RETRACTED, retracted, .topic = topic->id, .seq = entry->first_seq,
             .failure = failure_number(core, pool_find(&core->failures, entry->ref)),
             .count = entry->count > 1 ? entry->count : 0);
}

void note_chunk_added(struct core *core, const struct topic *topic, uint64_t seq, uint64_t total,
                      const struct chunk *chunk)
{
    if (!core->is_noting)
        return;
    struct fact fact = {.type = FACT_CHUNK_ADDED,
                        .as.chunk_added = {.topic = topic->id,
                                           .seq = seq,
                                           .total = total,
                                           .bytes = chunk->bytes,
                                           .offset = chunk->offset,
                                           .frame_bytes = chunk->frame_bytes}};
    effects_fact(core->effects, &fact, chunk->payload);
}

/* ---- answers that are given again ------------------------------------------------------------ */

void note_refused(struct core *core, const struct session *session, uint64_t number)
{
    if (!core->is_noting)
        return;
    const struct refusal *refusal = &session->refusals[number % REFUSALS_KEPT];
    NOTE(core, REFUSED, refused, .party = session->party->id, .number = number,
         .topic = refusal->topic, .seq = refusal->seq,
         .failure = failure_number(core, refusal->failure),
         .count = refusal->count > 1 ? refusal->count : 0);
}

void note_uploaded(struct core *core, const struct session *session, uint32_t topic, uint64_t seq)
{
    if (core->is_noting)
        NOTE(core, UPLOADED, uploaded, .party = session->party->id, .topic = topic, .seq = seq);
}

void note_upload_refused(struct core *core, const struct session *session)
{
    if (core->is_noting)
        NOTE(core, UPLOAD_REFUSED, upload_refused, .party = session->party->id,
             .topic = session->chunk_refused_topic, .seq = session->chunk_refused_seq);
}

void note_granted(struct core *core, const struct session *session, uint64_t number)
{
    if (core->is_noting)
        NOTE(core, GRANTED, granted, .party = session->party->id, .number = number);
}

/* ---- subscriptions --------------------------------------------------------------------------- */

void note_sub_opened(struct core *core, const struct sub *sub)
{
    if (core->is_noting)
        NOTE(core, SUB_OPENED, sub_opened, .sub = sub->id, .party = sub->party->id,
             .number = sub->session != NULL ? sub->number : 0, .name = sub->name,
             .from_seq = sub->from_seq, .is_gap = sub->is_gap, .is_expired = sub->is_expired,
             .keep_ms = (uint64_t)(sub->keep_ns / MS_NS), .window_bytes = sub->window_bytes);
}

void note_pattern_added(struct core *core, const struct sub *sub, struct span pattern)
{
    if (core->is_noting)
        NOTE(core, PATTERN_ADDED, pattern_added, .sub = sub->id, .pattern = pattern);
}

void note_watched(struct core *core, const struct watch *watch)
{
    if (core->is_noting)
        NOTE(core, WATCHED, watched, .sub = watch->sub->id, .party = watch->party->id);
}

void note_followed(struct core *core, const struct route *route, uint64_t seq)
{
    if (core->is_noting)
        NOTE(core, FOLLOWED, followed, .sub = route->sub->id, .topic = route->topic->id,
             .seq = seq);
}

void note_missed(struct core *core, const struct route *route)
{
    if (core->is_noting)
        NOTE(core, MISSED, missed, .sub = route->sub->id, .topic = route->topic->id,
             .seq = route->missed_seq, .count = route->missed_count);
}

void note_sub_attached(struct core *core, const struct sub *sub)
{
    if (core->is_noting)
        NOTE(core, SUB_ATTACHED, sub_attached, .sub = sub->id, .number = sub->number,
             .is_gap = sub->is_gap, .window_bytes = sub->window_bytes);
}

void note_sub_detached(struct core *core, const struct sub *sub)
{
    if (core->is_noting)
        NOTE(core, SUB_DETACHED, sub_detached, .sub = sub->id);
}

void note_sub_expired(struct core *core, const struct sub *sub)
{
    if (core->is_noting)
        NOTE(core, SUB_EXPIRED, sub_expired, .sub = sub->id);
}

void note_sub_closed(struct core *core, const struct sub *sub)
{
    if (core->is_noting)
        NOTE(core, SUB_CLOSED, sub_closed, .sub = sub->id);
}

void note_acknowledged(struct core *core, const struct route *route)
{
    if (core->is_noting)
        NOTE(core, ACKNOWLEDGED, acknowledged, .sub = route->sub->id, .topic = route->topic->id,
             .next_seq = route->acked_seq);
}

void note_end_due(struct core *core, const struct sub *sub, const struct ending *ending)
{
    if (core->is_noting)
        NOTE(core, END_DUE, end_due, .sub = sub->id, .party = ending->party->id,
             .incarnation = ending->incarnation, .failure = failure_number(core, ending->failure),
             .first = ending->first);
}

void note_end_told(struct core *core, const struct sub *sub)
{
    if (core->is_noting)
        NOTE(core, END_TOLD, end_told, .sub = sub->id);
}

/* ---- groups ---------------------------------------------------------------------------------- */

void note_group_made(struct core *core, const struct group *group)
{
    if (core->is_noting)
        NOTE(core, GROUP_MADE, group_made, .group = group->place->id,
             .deliver_max = group->deliver_max);
}

void note_member_joined(struct core *core, const struct sub *member)
{
    if (core->is_noting)
        NOTE(core, MEMBER_JOINED, member_joined, .group = member->group->place->id,
             .sub = member->id, .credit = member->credit,
             .lease_ms = (uint64_t)(member->lease_ns / MS_NS));
}

void note_member_drained(struct core *core, const struct sub *member)
{
    if (core->is_noting)
        NOTE(core, MEMBER_DRAINED, member_drained, .group = member->group->place->id,
             .sub = member->id);
}

void note_leased(struct core *core, const struct task *task)
{
    if (core->is_noting)
        NOTE(core, LEASED, leased, .group = task->group->place->id, .topic = task->topic->id,
             .seq = task->seq, .delivery = task->delivery, .sub = task->holder->id);
}

void note_task_back(struct core *core, const struct task *task, struct failure *failure)
{
    if (core->is_noting)
        NOTE(core, TASK_BACK, task_back, .group = task->group->place->id, .topic = task->topic->id,
             .seq = task->seq, .delivery = task->delivery, .failure = failure_number(core, failure),
             .due_wall_ns = task->delay.due_wall_ns, .later_ms = (uint64_t)task->delay.ms);
}

void note_task_error(struct core *core, const struct task *task, struct failure *failure)
{
    if (core->is_noting)
        NOTE(core, TASK_ERROR, task_error, .group = task->group->place->id,
             .topic = task->topic->id, .seq = task->seq, .failure = failure_number(core, failure));
}

void note_task_ended(struct core *core, const struct task *task)
{
    if (core->is_noting)
        NOTE(core, TASK_ENDED, task_ended, .group = task->group->place->id,
             .topic = task->topic->id, .seq = task->seq);
}

void note_passed(struct core *core, const struct route *route)
{
    if (core->is_noting)
        NOTE(core, PASSED, passed, .group = route->sub->id, .topic = route->topic->id,
             .next_seq = route->next_seq);
}

void note_requested(struct core *core, const struct topic *topic, uint64_t seq,
                    const struct open_slot *reply)
{
    if (core->is_noting)
        NOTE(core, REQUESTED, requested, .topic = topic->id, .seq = seq,
             .reply_topic = reply != NULL ? reply->topic->id : 0,
             .reply_seq = reply != NULL ? reply->seq : 0);
}

void note_letter_kept(struct core *core, const struct group *group, const struct letter *letter)
{
    if (core->is_noting)
        NOTE(core, LETTER_KEPT, letter_kept, .group = group->place->id, .number = letter->number,
             .topic = letter->topic->id, .seq = letter->seq, .deliveries = letter->deliveries,
             .at_ns = letter->at_ns, .attempt = letter->attempt);
}

void note_letter_replayed(struct core *core, const struct group *group, const struct letter *letter)
{
    if (core->is_noting)
        NOTE(core, LETTER_REPLAYED, letter_replayed, .group = group->place->id,
             .number = letter->number);
}

void note_letter_gone(struct core *core, const struct group *group, const struct letter *letter)
{
    if (core->is_noting)
        NOTE(core, LETTER_GONE, letter_gone, .group = group->place->id, .number = letter->number);
}

/* ---- history --------------------------------------------------------------------------------- */

void note_event(struct core *core, const struct job *job, const struct job_event *event)
{
    if (!core->is_noting)
        return;
    const char *party = event->text->at + event->name_bytes;
    const char *topic = party + event->party_bytes;
    const char *text = topic + event->topic_bytes;
    const char *first = text + event->text_bytes;
    NOTE(core, EVENT, event, .job = job->id, .id = event->id, .at_ns = event->at_ns,
         .name = span_of(event->text->at, event->name_bytes),
         .party = span_of(party, event->party_bytes), .incarnation = event->incarnation,
         .topic = span_of(topic, event->topic_bytes), .seq = event->seq, .count = event->count,
         .text = span_of(text, event->text_bytes), .failure = failure_number(core, event->failure),
         .is_late = event->is_late, .first_error = span_of(first, event->first_bytes),
         .last_error = span_of(first + event->first_bytes, event->last_bytes),
         .broker_ns = event->broker_ns);
}

/* ---- the verdict ----------------------------------------------------------------------------- */

/* How many bytes of out say the incarnations that it blames but the first; none for the last that
 * are 0. */
static size_t put_more_blamed(const struct judged *judged, uint8_t *out)
{
    size_t bytes = 0;
    for (uint32_t i = 1; i < LIMIT_ERROR_BLAMES; i++)
        for (uint32_t k = 0; k < 4; k++) {
            size_t at = 4 * (i - 1) + k;
            out[at] = (uint8_t)(judged->blamed[i] >> (24 - 8 * k));
            bytes = judged->blamed[i] != 0 ? at + 1 : bytes;
        }
    return bytes;
}

void note_verdict_error(struct core *core, const struct job *job, const struct judged *judged)
{
    uint8_t more[4 * (LIMIT_ERROR_BLAMES - 1)];
    if (core->is_noting)
        NOTE(core, VERDICT_ERROR, verdict_error, .job = job->id,
             .failure = failure_number(core, judged->failure), .at_ns = judged->at_ns,
             .believed_from_ns = judged->believed_from_ns, .blamed = judged->blamed[0],
             .more_blamed = span_of(more, put_more_blamed(judged, more)));
}

void note_verdict_survived(struct core *core, const struct job *job)
{
    if (core->is_noting)
        NOTE(core, VERDICT_SURVIVED, verdict_survived, .job = job->id);
}

void note_verdict_said(struct core *core, const struct job *job)
{
    const struct judgement *judgement = &job->judgement;
    if (core->is_noting)
        NOTE(core, VERDICT_SAID, verdict_said, .job = job->id, .is_final = judgement->is_final,
             .at_ns = judgement->said_ns, .failure = failure_number(core, judgement->root),
             .why = judgement->why);
}

void note_verdict_forgotten(struct core *core, const struct job *job)
{
    if (core->is_noting)
        NOTE(core, VERDICT_FORGOTTEN, verdict_forgotten, .job = job->id);
}
