/* SPDX-License-Identifier: MPL-2.0 */
/* core_dump.c -- walks the core's tables in the order of their numbers; see core_dump.h. */
#include "tests/lib/core_dump.h"

#include "broker/core/groups/group.h"
#include "broker/core/model.h"
#include "broker/core/settling/settle.h"
#include "broker/core/streams/topic.h"
#include "tests/lib/fnv.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- text ------------------------------------------------------------------------------------ */

static char *room_for(struct core_dump *dump, size_t bytes)
{
    while (dump->room - dump->bytes < bytes + 1) {
        dump->room = dump->room > 0 ? dump->room * 2 : 4096;
        dump->text = realloc(dump->text, dump->room);
        must(dump->text != NULL);
    }
    return dump->text + dump->bytes;
}

static void put(struct core_dump *dump, const char *data, size_t bytes)
{
    char *at = room_for(dump, bytes);
    if (bytes > 0)
        memcpy(at, data, bytes);
    at[bytes] = 0;
    dump->bytes += bytes;
}

static void word(struct core_dump *dump, const char *text)
{
    put(dump, text, strlen(text));
}

static void name(struct core_dump *dump, struct span text)
{
    put(dump, " ", 1);
    put(dump, text.data, text.bytes);
}

static void number(struct core_dump *dump, uint64_t value)
{
    char digits[24];
    size_t at = sizeof digits;
    do
        digits[--at] = (char)('0' + value % 10);
    while ((value /= 10) > 0);
    digits[--at] = ' ';
    put(dump, digits + at, sizeof digits - at);
}

static void numbers(struct core_dump *dump, const uint64_t *values, size_t count)
{
    for (size_t i = 0; i < count; i++)
        number(dump, values[i]);
    put(dump, "\n", 1);
}

/* A line: a word, numbers. */
#define LINE(dump, text, ...)                                                                      \
    do {                                                                                           \
        const uint64_t values_[] = {__VA_ARGS__};                                                  \
        word((dump), (text));                                                                      \
        numbers((dump), values_, sizeof values_ / sizeof values_[0]);                              \
    } while (0)

/* ---- what there is --------------------------------------------------------------------------- */

static uint64_t failure_number(const struct core *core, uint32_t id)
{
    const struct failure *failure = pool_find(&core->failures, id);
    return failure != NULL ? failure->number : UINT64_MAX;
}

static uint64_t number_of(const struct failure *failure)
{
    return failure != NULL ? failure->number : 0;
}

static int by_number(const void *a, const void *b)
{
    const struct failure *const *left = a;
    const struct failure *const *right = b;
    return (*left)->number < (*right)->number ? -1 : (*left)->number > (*right)->number;
}

static void put_failures(struct core_dump *dump, const struct core *core)
{
    const struct failure *failure = NULL;
    const struct failure **all = calloc(core->failures.used + 1, sizeof *all);
    size_t count = 0;
    must(all != NULL);
    while ((failure = pool_next(&core->failures, failure != NULL ? failure->id : 0)) != NULL)
        if (failure->number > 1)
            all[count++] = failure;
    qsort(all, count, sizeof *all, by_number);
    for (size_t i = 0; i < count; i++)
        LINE(dump, "failure", all[i]->number, all[i]->byte_count,
             fnv(FNV_BEGIN, all[i]->bytes, all[i]->byte_count), all[i]->kind);
    free(all);
}

static void put_chunks(struct core_dump *dump, const struct chunks *chunks)
{
    LINE(dump, "    chunks", chunks->count, chunks->bytes, chunks->total);
    for (uint32_t i = 0; i < chunks->count; i++)
        LINE(dump, "     ", chunks->items[i].payload, chunks->items[i].bytes,
             chunks->items[i].frame_bytes, chunks->items[i].offset);
}

static void put_open(struct core_dump *dump, const struct open_slot *open)
{
    const struct slot_terms *terms = open->terms;
    LINE(dump, "   open", open->seq, open->value_bytes_max,
         terms != NULL ? (uint64_t)terms->deadline_ms : UINT64_MAX,
         terms != NULL ? (uint64_t)terms->due_wall_ns : 0);
    if (open_slot_is_reply(open))
        LINE(dump, "    request", terms->request_topic, terms->request_seq);
    if (open->chunks != NULL)
        put_chunks(dump, open->chunks);
    if (terms == NULL)
        return;
    LIST_EACH(link, &terms->needs) {
        const struct need_edge *edge = LIST_OWNER(link, struct need_edge, slot_link);
        LINE(dump, "    needs", edge->head->key.topic, edge->head->key.seq);
    }
}

static void put_entry(struct core_dump *dump, const struct core *core,
                      const struct slot_entry *entry)
{
    const struct slot_place *place = &entry->place;
    switch ((enum slot_state)entry->state) {
    case SLOT_OPEN: put_open(dump, pool_find(&core->open_slots, entry->ref)); break;
    case SLOT_VALUE:
        LINE(dump, "   value", entry->first_seq, entry->count, entry->ref, place->offset,
             place->value_bytes, place->frame_count, place->skip);
        break;
    case SLOT_CHUNKED:
        LINE(dump, "   chunked", entry->first_seq);
        put_chunks(dump, pool_find(&core->chunk_sets, entry->ref));
        break;
    case SLOT_ERROR:
        LINE(dump, "   error", entry->first_seq, entry->count, failure_number(core, entry->ref));
        break;
    case SLOT_STATE_COUNT: break;
    }
}

/* Without errors.  Which slot pays for an error that several have is no state of its own: their job
 * has the sum. */
static uint64_t topic_bytes(const struct topic *topic)
{
    uint64_t bytes = topic->bytes;
    for (uint32_t i = 0; i < topic->slots.count; i++)
        if (slot_table_at(&topic->slots, i)->state == SLOT_ERROR)
            bytes -= slot_table_at(&topic->slots, i)->place.value_bytes;
    return bytes;
}

static void put_topics(struct core_dump *dump, const struct core *core)
{
    const struct topic *topic = NULL;
    while ((topic = pool_next(&core->topics, topic != NULL ? topic->id : 0)) != NULL) {
        word(dump, "topic");
        name(dump, topic->name);
        LINE(dump, "", topic->id, topic->number, topic->writer->id, topic->job->id,
             topic->is_opened, topic->begin_seq, topic->slots.next_seq, topic->open_count,
             topic_bytes(topic), topic->credit_used, topic->credit_limit);
        if (topic->request_ids.count > 0)
            LINE(dump, "   requests", topic->request_ids.count);
        for (uint32_t i = 0; i < topic->mark_count; i++)
            LINE(dump, "   mark", topic->marks[i].incarnation, topic->marks[i].seq,
                 (uint64_t)topic->marks[i].at_ns);
        for (uint32_t i = 0; i < topic->slots.count; i++)
            put_entry(dump, core, slot_table_at(&topic->slots, i));
    }
}

/* Nothing of a process that did not say it. */
static void put_process(struct core_dump *dump, const struct session *session)
{
    if (session->pid == 0 && session->host.bytes == 0 && session->trace_id.bytes == 0)
        return;
    word(dump, "    process");
    name(dump, session->host);
    name(dump, session->trace_id);
    LINE(dump, "", session->pid);
}

static void put_session(struct core_dump *dump, const struct session *session)
{
    LINE(dump, "   session", session->token, session->incarnation, (uint64_t)session->beat_ns,
         (uint64_t)session->lost_after_ns, (uint64_t)session->grace_ns, session->data_number,
         session_control_number(session), session->control_seen, session->refusal_number,
         session->progress_ms, session->chunk_refused_topic, session->chunk_refused_seq);
    put_process(dump, session);
    LIST_EACH(link, &session->parked) {
        const struct parked *op = LIST_OWNER(link, struct parked, link);
        LINE(dump, "    parked", op->type, op->number, op->after, op->topic, op->seq, op->sub,
             op->is_told, number_of(op->failure));
        if (op->type == PARKED_ACK)
            LINE(dump, "     durable", op->durable);
        if (op->type == PARKED_TASK)
            LINE(dump, "     task", op->delivery, op->how, (uint64_t)op->retry_after_ms);
    }
    uint64_t last = session->refusal_number;
    for (uint64_t i = last > REFUSALS_KEPT ? last - REFUSALS_KEPT + 1 : 1; i <= last; i++) {
        const struct refusal *refusal = &session->refusals[i % REFUSALS_KEPT];
        LINE(dump, "    refusal", i, refusal->topic, refusal->seq, refusal->count,
             refusal->failure->number);
    }
    for (uint32_t i = 0; i < UPLOADED_KEPT; i++) { /* oldest first, wherever the ring begins */
        uint32_t at = (session->uploaded_at + i) % UPLOADED_KEPT;
        if (session->uploaded[at].topic != 0)
            LINE(dump, "    uploaded", session->uploaded[at].topic, session->uploaded[at].seq);
    }
    for (uint32_t i = 0; session->granted != NULL && i < GRANTED_KEPT; i++)
        if (session->granted[i] != 0)
            LINE(dump, "    granted", session->granted[i]);
}

static void put_parties(struct core_dump *dump, const struct core *core)
{
    const struct party *party = NULL;
    while ((party = pool_next(&core->parties, party != NULL ? party->id : 0)) != NULL) {
        word(dump, "party");
        name(dump, party->name);
        if (party->account->name.bytes > 0)
            name(dump, party->account->name);
        LINE(dump, "", party->id, party->job->id, party->state, party->incarnation,
             party->error_limit, number_of(party->ended_by), party->open_count, party->attempt,
             party->first, (uint64_t)party->ended_ns, party->run_rule,
             party_any_session(party) != NULL ? party->client : 0);
        for (uint32_t i = 0; i < party->end_count; i++)
            LINE(dump, "   end", party->ends[i].first, party->ends[i].incarnation,
                 number_of(party->ends[i].failure));
        if (party->guard != NULL)
            LINE(dump, "   guard", party->guard->token, party->guard->incarnation,
                 (uint64_t)party->guard->beat_ns, (uint64_t)party->guard->lost_after_ns,
                 (uint64_t)party->guard->grace_ns, party->program_count,
                 party->session != NULL ? party->program_client : 0);
        if (party->guard != NULL)
            put_process(dump, party->guard);
        if (party->session != NULL)
            put_session(dump, party->session);
    }
}

static void put_routes(struct core_dump *dump, const struct core *core, const struct sub *sub)
{
    const struct topic *topic = NULL;
    while ((topic = pool_next(&core->topics, topic != NULL ? topic->id : 0)) != NULL) {
        uint32_t id;
        if (!id_map_get(&sub->route_ids, topic->id, &id))
            continue;
        const struct route *route = pool_find(&core->routes, id);
        LINE(dump, "   route", topic->id, sub->name.bytes > 0 ? route->acked_seq : 0);
        if (route->missed_count > 0)
            LINE(dump, "    missed", route->missed_seq, route->missed_count);
    }
}

static void put_task(struct core_dump *dump, const struct task *task)
{
    LINE(dump, "   task", task->route->topic->id, task->topic->id, task->seq,
         task->state == TASK_LEASED, task->delivery, task->holder != NULL ? task->holder->id : 0,
         (uint64_t)task->delay.due_wall_ns, (uint64_t)task->delay.ms,
         task->letter != NULL ? task->letter->number + 1 : 0);
    for (uint32_t i = 0; i < task->error_count; i++)
        LINE(dump, "    error", task->errors[i]->number);
}

static void put_group(struct core_dump *dump, const struct group *group)
{
    LINE(dump, "   group", group->deliver_max, group->letter_count);
    LIST_EACH(link, &group->members)
        LINE(dump, "   member", LIST_OWNER(link, struct sub, member_link)->id);
    LIST_EACH(link, &group->letters) {
        const struct letter *letter = LIST_OWNER(link, struct letter, link);
        LINE(dump, "   letter", letter->number, letter->topic->id, letter->seq, letter->deliveries,
             (uint64_t)letter->at_ns, letter->attempt);
        if (letter->task != NULL)
            put_task(dump, letter->task);
    }
    LIST_EACH(link, &group->place->routes) {
        const struct route *route = LIST_OWNER(link, struct route, sub_link);
        LINE(dump, "   place", route->topic->id, route->next_seq);
        LIST_EACH(task, &route->tasks)
            put_task(dump, LIST_OWNER(task, struct task, route_link));
    }
}

static void put_subs(struct core_dump *dump, const struct core *core)
{
    const struct sub *sub = NULL;
    while ((sub = pool_next(&core->subs, sub != NULL ? sub->id : 0)) != NULL) {
        word(dump, "sub");
        name(dump, sub->name);
        LINE(dump, "", sub->id, sub->party->id, sub->session != NULL ? sub->number : 0,
             (uint64_t)sub->from_seq, sub->is_gap, sub->is_expired, (uint64_t)sub->keep_ns,
             sub->window_bytes);
        for (uint32_t i = 0; i < sub->pattern_count; i++) {
            word(dump, "   pattern");
            name(dump, sub->patterns[i]);
            word(dump, "\n");
        }
        put_routes(dump, core, sub);
        if (sub_is_place(sub))
            put_group(dump, sub->group);
        else if (sub->group != NULL)
            LINE(dump, "   shares", sub->group->place->id, sub->credit, (uint64_t)sub->lease_ns);
        LIST_EACH(link, &sub->watches)
            LINE(dump, "   watch", LIST_OWNER(link, struct watch, sub_link)->party->id);
        LIST_EACH(link, &sub->endings) {
            const struct ending *ending = LIST_OWNER(link, struct ending, link);
            LINE(dump, "   ending", ending->party->id, ending->first, ending->incarnation,
                 number_of(ending->failure));
        }
    }
}

static void put_judgement(struct core_dump *dump, const struct judgement *judgement)
{
    LINE(dump, "   judgement", judgement->survived_count, judgement->verdict.fresh_count,
         judgement->is_said, judgement->is_final, (uint64_t)judgement->said_ns,
         number_of(judgement->root));
    word(dump, "   why");
    name(dump, judgement->why);
    word(dump, "\n");
    for (uint32_t i = 0; i < judgement->count; i++) {
        const struct judged *judged = &judgement->errors[i];
        LINE(dump, "    judged", number_of(judged->failure), (uint64_t)judged->at_ns,
             (uint64_t)judged->believed_from_ns, judged->blamed[0], judged->blamed[1],
             judged->blamed[2], judged->blamed[LIMIT_ERROR_BLAMES - 1]);
    }
    const struct verdict_result *result = verdict_result(&judgement->verdict);
    for (uint32_t i = 0; judgement->is_final && i < result->row_count; i++) {
        word(dump, "    row");
        name(dump, result->rows[i].error->id);
        LINE(dump, "", result->rows[i].role, result->rows[i].next, result->rows[i].steps);
    }
}

static void put_members(struct core_dump *dump, const struct core *core, const struct job *job)
{
    const struct job_spec *spec = &job->spec;
    const struct roster *roster = &job->roster;
    if (job->state == JOB_FREE)
        return;
    LINE(dump, "   created", spec->min, spec->max, (uint64_t)spec->join_window_ms,
         (uint64_t)spec->settle_ms, spec->max_restarts, (uint64_t)spec->deadline_ms, spec->pending,
         spec->strategy, (uint64_t)job->due_wall_ns);
    LINE(dump, "   joins", (uint64_t)spec->join_timeout_ms, spec->deadlock);
    LINE(dump, "   members", job->state, number_of(job->failure), (uint64_t)job->pause_ms,
         job->is_called_off, roster->epoch, job->round, roster->place_count, roster->hole_count,
         roster->completed_count);
    for (uint32_t rank = 0; rank < roster->place_count; rank++) {
        const struct party *party = pool_find(&core->parties, roster->places[rank].party);
        LINE(dump, "    place", roster->places[rank].party, roster->places[rank].is_completed,
             party != NULL ? party->rank : 0);
    }
    for (uint32_t i = 0; i < roster->waiting_count; i++)
        LINE(dump, "    waits", roster->waiting[i]);
}

static void put_jobs(struct core_dump *dump, const struct core *core)
{
    const struct job *job = NULL;
    while ((job = pool_next(&core->jobs, job != NULL ? job->id : 0)) != NULL) {
        word(dump, "job");
        name(dump, job->name);
        name(dump, job->run);
        if (job->account->name.bytes > 0)
            name(dump, job->account->name);
        LINE(dump, "", job->id, job->attempt, job->first_attempt, job->part_count, job->live_count,
             job->follower_count, job->party_count, job->bytes, job->open_count, job->event_first,
             job->event_next, job->event_bytes);
        put_members(dump, core, job);
        LIST_EACH(link, &job->attachments) {
            const struct attachment *attachment = LIST_OWNER(link, struct attachment, link);
            word(dump, "   attachment");
            name(dump, attachment->key);
            LINE(dump, "", attachment->bytes, attachment->arrived, attachment->promised,
                 attachment->count, attachment->state);
            for (uint32_t i = 0; i < attachment->count; i++)
                LINE(dump, "    piece", attachment->pieces[i].payload, attachment->pieces[i].bytes);
        }
        for (uint64_t id = job->event_first; id < job->event_next; id++) {
            const struct job_event *event = &job->events[id & (job->event_room - 1)];
            word(dump, "   event");
            name(dump, span_of(event->text->at, event->name_bytes + event->party_bytes +
                                                    event->topic_bytes + event->text_bytes +
                                                    event->first_bytes + event->last_bytes));
            LINE(dump, "", event->id, (uint64_t)event->at_ns, event->incarnation, event->seq,
                 event->count, number_of(event->failure));
            if (event->is_late)
                word(dump, "    late\n");
        }
        if (job->judgement.count > 0 || job->judgement.is_said)
            put_judgement(dump, &job->judgement);
    }
}

void core_dump_take(struct core_dump *dump, const struct core *core)
{
    dump->bytes = 0;
    word(dump, "");
    put_failures(dump, core);
    put_jobs(dump, core);
    put_parties(dump, core);
    put_topics(dump, core);
    put_subs(dump, core);
}

static uint64_t entry_value_bytes(const struct core *core, const struct slot_entry *entry)
{
    switch (entry->state) {
    case SLOT_VALUE:
    case SLOT_CHUNKED:
        return topic_weight(core, entry) - (entry->state == SLOT_CHUNKED ? COST_SLOT_BYTES : 0);
    case SLOT_OPEN: return topic_weight(core, entry) - COST_SLOT_BYTES;
    default: return 0;
    }
}

static uint64_t job_value_bytes(const struct core *core, const struct job *job)
{
    uint64_t bytes = 0;
    const struct topic *topic = NULL;
    while ((topic = pool_next(&core->topics, topic != NULL ? topic->id : 0)) != NULL)
        for (uint32_t i = 0; topic->job == job && topic->letters == NULL && i < topic->slots.count;
             i++)
            bytes += entry_value_bytes(core, slot_table_at(&topic->slots, i));
    return bytes;
}

uint64_t core_dump_value_bytes(const struct core *core)
{
    uint64_t most = 0;
    const struct job *job = NULL;
    while ((job = pool_next(&core->jobs, job != NULL ? job->id : 0)) != NULL) {
        uint64_t bytes = job_value_bytes(core, job);
        most = bytes > most ? bytes : most;
    }
    return most;
}

static uint64_t refusal_bytes(const struct session *session)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; session->refusals != NULL && i < REFUSALS_KEPT; i++) {
        const struct failure *failure = session->refusals[i].failure;
        bytes += sizeof session->refusals[i];
        if (failure != NULL)
            bytes += sizeof *failure + failure->byte_count;
    }
    return bytes;
}

uint64_t core_dump_told_bytes(const struct core *core)
{
    uint64_t bytes = 0;
    const struct job *job = NULL;
    const struct session *session = NULL;
    while ((job = pool_next(&core->jobs, job != NULL ? job->id : 0)) != NULL)
        bytes += job->event_bytes + (job->event_next - job->event_first) * sizeof(struct failure);
    while ((session = pool_next(&core->sessions, session != NULL ? session->id : 0)) != NULL)
        bytes += refusal_bytes(session);
    LIST_EACH(link, &core->unused_failures)
        bytes += LIST_OWNER(link, struct failure, unused_link)->byte_count;
    return bytes;
}

static bool is_served(const struct group *group)
{
    LIST_EACH(link, &group->members)
        if (LIST_OWNER(link, struct sub, member_link)->session != NULL)
            return true;
    return false;
}

static bool has_next(const struct route *route)
{
    uint32_t index;
    const struct slot_table *slots = &route->topic->slots;
    uint64_t seq = route->next_seq;
    if (seq < slot_table_first_seq(slots))
        seq = slot_table_first_seq(slots);
    return slot_table_find(slots, seq, &index) && slot_table_at(slots, index)->state != SLOT_OPEN;
}

static void tell_undone(char *text, const struct group *group, const struct route *route,
                        uint64_t seq, const char *state)
{
    if (text != NULL && text[0] == 0)
        (void)snprintf(text, CORE_DUMP_TEXT, "%.*s %llu of %.*s, %s", (int)route->topic->name.bytes,
                       (const char *)route->topic->name.data, (unsigned long long)seq,
                       (int)group->place->name.bytes, (const char *)group->place->name.data,
                       state); /* may be cut */
}

uint64_t core_dump_undone(const struct core *core, char *text)
{
    uint64_t count = 0;
    const struct group *group = NULL;
    const struct task *task = NULL;
    if (text != NULL)
        text[0] = 0;
    while ((task = pool_next(&core->tasks, task != NULL ? task->id : 0)) != NULL) {
        if (!is_served(task->group))
            continue;
        count += 1;
        tell_undone(text, task->group, task->route, task->seq, task_state_name(task->state));
    }
    while ((group = pool_next(&core->groups, group != NULL ? group->id : 0)) != NULL)
        LIST_EACH(link, &group->place->routes) {
            const struct route *route = LIST_OWNER(link, struct route, sub_link);
            if (!is_served(group) || !has_next(route))
                continue;
            count += route->topic->slots.next_seq - route->next_seq;
            tell_undone(text, group, route, route->next_seq, "given to nobody");
        }
    return count;
}

static uint64_t unsent(const struct core *core, const struct route *route)
{
    uint64_t count = 0;
    uint32_t index = 0;
    const struct slot_table *slots = &route->topic->slots;
    uint64_t first_seq = slot_table_first_seq(slots);
    if (!has_next(route) ||
        !slot_table_find(slots, route->next_seq > first_seq ? route->next_seq : first_seq, &index))
        return 0;
    for (; index < slots->count && slot_table_at(slots, index)->state != SLOT_OPEN; index++)
        count += 1 + entry_value_bytes(core, slot_table_at(slots, index));
    return count > route->chunk_offset ? count - route->chunk_offset : 0;
}

uint64_t core_dump_unsent(const struct core *core)
{
    uint64_t count = 0;
    const struct sub *sub = NULL;
    while ((sub = pool_next(&core->subs, sub != NULL ? sub->id : 0)) != NULL)
        if (sub->session != NULL && sub->group == NULL)
            LIST_EACH(link, &sub->routes)
                count += unsent(core, LIST_OWNER(link, struct route, sub_link));
    return count;
}

static const char *wrong_member(const struct sub *member)
{
    uint32_t count = 0;
    LIST_EACH(link, &member->leases) {
        const struct task *task = LIST_OWNER(link, struct task, holder_link);
        if (task->holder != member || task->state != TASK_LEASED || task->group != member->group)
            return "a member has a task that is not leased to it";
        count += 1;
    }
    if (count != member->held_count)
        return "a member has not as many tasks as it is said to have";
    return member->credit > 0 && count > member->credit ? "a member has more tasks than credit"
                                                        : NULL;
}

const char *core_dump_wrong_lease(const struct core *core)
{
    uint64_t leased = 0, held = 0;
    const char *wrong = NULL;
    const struct group *group = NULL;
    const struct task *task = NULL;
    while ((task = pool_next(&core->tasks, task != NULL ? task->id : 0)) != NULL)
        leased += task->state == TASK_LEASED;
    while ((group = pool_next(&core->groups, group != NULL ? group->id : 0)) != NULL)
        LIST_EACH(link, &group->members) {
            const struct sub *member = LIST_OWNER(link, struct sub, member_link);
            held += member->held_count;
            wrong = wrong != NULL ? wrong : wrong_member(member);
        }
    return wrong == NULL && leased != held ? "a task is leased to who is no member" : wrong;
}

void core_dump_fini(struct core_dump *dump)
{
    free(dump->text);
    *dump = (struct core_dump){0};
}

static int line_bytes(const char *text)
{
    return (int)strcspn(text, "\n");
}

const char *core_dump_differ(const struct core_dump *left, const struct core_dump *right)
{
    static char text[1024];
    const char *a = left->text;
    const char *b = right->text;
    if (left->bytes == right->bytes && memcmp(a, b, left->bytes) == 0)
        return NULL;
    while (line_bytes(a) == line_bytes(b) && strncmp(a, b, strcspn(a, "\n")) == 0) {
        a += line_bytes(a) + 1; /* they differ somewhere, so neither is at its end */
        b += line_bytes(b) + 1;
    }
    (void)snprintf(text, sizeof text, "%.*s | %.*s", line_bytes(a), a, line_bytes(b), b);
    return text;
}
