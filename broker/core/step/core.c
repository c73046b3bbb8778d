/* SPDX-License-Identifier: MPL-2.0 */
/* core.c -- handles one event, and everything that follows from it in the same step.
 *
 * The order within a step is fixed.  First comes the event, or the timers that are due.  Then come
 * the lists of work that was put off, and ACCEPTED.  Last comes the pump, which sends.  So an
 * answer about a frame goes out when all consequences of the frame are decided. */
#include "broker/core/core.h"

#include "broker/core/groups/group.h"
#include "broker/core/groups/letter.h"
#include "broker/core/groups/request.h"
#include "broker/core/groups/subscription.h"
#include "broker/core/lifecycle/barrier.h"
#include "broker/core/lifecycle/ending.h"
#include "broker/core/lifecycle/forget.h"
#include "broker/core/lifecycle/greeting.h"
#include "broker/core/lifecycle/job.h"
#include "broker/core/lifecycle/judgement.h"
#include "broker/core/lifecycle/late.h"
#include "broker/core/lifecycle/liveness.h"
#include "broker/core/lifecycle/membership.h"
#include "broker/core/lifecycle/parked.h"
#include "broker/core/lifecycle/revocation.h"
#include "broker/core/lifecycle/session.h"
#include "broker/core/model.h"
#include "broker/core/record/accept.h"
#include "broker/core/record/access_news.h"
#include "broker/core/record/account.h"
#include "broker/core/record/authors.h"
#include "broker/core/record/courier.h"
#include "broker/core/record/failure.h"
#include "broker/core/record/rights.h"
#include "broker/core/record/tell.h"
#include "broker/core/settling/need.h"
#include "broker/core/settling/settle.h"
#include "broker/core/step/batch.h"
#include "broker/core/step/metrics.h"
#include "broker/core/step/shards.h"
#include "broker/core/step/status.h"
#include "broker/core/step/who.h"
#include "broker/core/streams/await.h"
#include "broker/core/streams/lead.h"
#include "broker/core/streams/notice.h"
#include "broker/core/streams/lease.h"
#include "broker/core/streams/passing.h"
#include "broker/core/streams/pump.h"
#include "broker/core/streams/rate.h"
#include "broker/core/streams/sub.h"
#include "broker/core/streams/topic.h"
#include "broker/core/tables/effect.h"
#include "broker/core/tables/event.h"
#include "broker/core/tables/needs.h"
#include "broker/core/tables/timers.h"
#include "broker/core/waits/deadlock.h"
#include "broker/core/waits/waits.h"
#include "broker/core/waits/why.h"
#include "broker/core/waits/without.h"

#include <string.h>

/* An event that comes this much later than a timer was due means a standstill: the broker was
 * stopped or swapped out, or its machine slept.  Its parties were not silent, so the clock of
 * silence does not count that time.  The limit is ten times what a loaded machine of two cores was
 * seen to be late. */
#define AWAY_SLACK_NS (500 * MS_NS)
/* After a standstill the clock counts all time for so long before the next standstill can be left
 * out.  So the clock of a broker that is always late still goes at half the speed or more, and a
 * dead party is lost after at most twice the time.  A living party is safe meanwhile: messages are
 * read before timers fire. */
#define AWAY_APART_NS (10000 * MS_NS)
/* Timers and sends of one step.  A step takes about a millisecond, so other events get their
 * turn. */
#define STEP_TIMERS_MAX 1024

void core_options_init(struct core_options *options)
{
    *options = (struct core_options){
        .broker = 1,
        .version = "",
        .data_endpoint = "tcp://*:7371",
        .topic_window_bytes = DEFAULT_TOPIC_WINDOW_BYTES,
        .topic_keep_bytes = DEFAULT_TOPIC_KEEP_BYTES,
        .topic_keep_slots = DEFAULT_TOPIC_KEEP_SLOTS,
        .job_bytes_max = DEFAULT_JOB_BYTES,
        .value_bytes_max = LIMIT_VALUE_BYTES,
        .parked_bytes_max = LIMIT_PARKED_BYTES,
        .linger_ms = DEFAULT_LINGER_MS,
        .resume_ms = DEFAULT_RESUME_MS,
        .unserved_ms = DEFAULT_UNSERVED_MS,
        .storm_told_max = LIMIT_STORM_TOLD,
        .attachment_bytes_max = DEFAULT_ATTACHMENT_BYTES,
        .attachments_max = LIMIT_ATTACHMENTS,
        .open_slots_max = LIMIT_OPEN_SLOTS,
        .topics_max = LIMIT_TOPICS,
        .parties_max = LIMIT_PARTIES,
    };
}

static void init_pools(struct core *core)
{
    accounts_init(core);
    struct memory *memory = core->memory;
    const struct core_options *options = &core->options;
    pool_init(&core->jobs, memory, sizeof(struct job), LIMIT_JOBS);
    pool_init(&core->parties, memory, sizeof(struct party), UINT32_MAX);
    pool_init(&core->sessions, memory, sizeof(struct session), LIMIT_CONNECTIONS);
    pool_init(&core->topics, memory, sizeof(struct topic), options->topics_max);
    pool_init(&core->open_slots, memory, sizeof(struct open_slot), options->open_slots_max);
    pool_init(&core->slot_terms, memory, sizeof(struct slot_terms), UINT32_MAX);
    pool_init(&core->chunk_sets, memory, sizeof(struct chunks), UINT32_MAX);
    pool_init(&core->subs, memory, sizeof(struct sub), UINT32_MAX);
    pool_init(&core->routes, memory, sizeof(struct route), UINT32_MAX);
    pool_init(&core->awaits, memory, sizeof(struct await), UINT32_MAX);
    pool_init(&core->failures, memory, sizeof(struct failure), UINT32_MAX);
    pool_init(&core->groups, memory, sizeof(struct group), UINT32_MAX);
    pool_init(&core->tasks, memory, sizeof(struct task), UINT32_MAX);
    name_map_init(&core->job_names, memory);
    name_map_init(&core->failure_ids, memory);
    id_map_init(&core->conns, memory);
    id_map_init(&core->tokens, memory);
    id_map_init(&core->replayed, memory);
    needs_init(&core->needs, memory);
    pool_init(&core->attachments, memory, sizeof(struct attachment), UINT32_MAX);
    timers_init(&core->timers, memory);
    list_init(&core->pump);
    list_init(&core->tight);
    list_init(&core->dirty);
    list_init(&core->owing);
    list_init(&core->told);
    list_init(&core->early_taps);
    list_init(&core->judged);
    list_init(&core->jobs_due);
    list_init(&core->jobs_over);
    list_init(&core->unused_failures);
    list_init(&core->unused_notices);
    list_init(&core->unused_awaits);
    list_init(&core->falling);
    list_init(&core->groups_due);
    list_init(&core->turns);
    list_init(&core->turn_waiters);
    list_init(&core->lead_waiters);
    list_init(&core->wait_walks);
    list_init(&core->metrics_walks);
}

static bool keep_strings(struct core *core)
{
    size_t version_bytes = strlen(core->options.version) + 1;
    size_t endpoint_bytes = strlen(core->options.data_endpoint) + 1;
    core->string_bytes = version_bytes + endpoint_bytes;
    core->strings = memory_take(core->memory, core->string_bytes);
    if (core->strings == NULL)
        return false;
    memcpy(core->strings, core->options.version, version_bytes);
    memcpy(core->strings + version_bytes, core->options.data_endpoint, endpoint_bytes);
    core->options.version = core->strings;
    core->options.data_endpoint = core->strings + version_bytes;
    return true;
}

struct core *core_new(struct memory *memory, const struct core_options *options, int64_t now_ns)
{
    struct core *core = memory_take(memory, sizeof *core);
    if (core == NULL)
        return NULL;
    core->memory = memory;
    core->options = *options;
    core->access = options->access;
    core->is_judged = true; /* until it replays */
    core->start_ns = now_ns;
    init_pools(core);
    core->scratch = memory_take(memory, (LIMIT_ERROR_RECORDS + 1) * sizeof *core->scratch);
    core->scratch_bytes = memory_take(memory, LIMIT_ERROR_BYTES);
    core->joined = memory_take(memory, AUTHORS_ROOM * sizeof *core->joined);
    bool is_made = core->scratch != NULL && core->scratch_bytes != NULL && core->joined != NULL &&
                   keep_strings(core) && pool_reserve(&core->failures) &&
                   failure_keep_spare(core) && timers_reserve(&core->timers) &&
                   timers_reserve(&core->timers) && timers_reserve(&core->timers) &&
                   timers_reserve(&core->timers);
    core->now_ns = now_ns;
    core->topic_windows.bytes_max = LIMIT_TOPIC_WINDOWS_BYTES;
    core->reader_windows.bytes_max = LIMIT_READER_WINDOWS_BYTES;
    complaints_init(&core->unknown, NULL, NULL);
    core->journal.timer.kind = TIMER_JOURNAL;
    core->turn_timer.kind = TIMER_TURN;
    core->lead_timer.kind = TIMER_LEAD;
    if (is_made)
        core->is_noting = options->has_facts;
    else
        core_free(&core);
    return core;
}

void core_free(struct core **core_at)
{
    struct core *core = *core_at;
    *core_at = NULL;
    if (core == NULL)
        return;
    struct effects unheard;
    effects_init(&unheard, core->memory);
    core->effects = &unheard;
    core->is_noting = false;
    waits_forget(core);
    metrics_forget(core);
    failure_forget_replayed(core);
    failure_forget_fallen(core);
    session_free_all(core);
    failure_free_unused(core);
    notice_free_unused(core);
    await_free_unused(core);
    tell_free_unused(core);
    struct failure *spare = pool_find(&core->failures, 1);
    if (spare != NULL)
        memory_give(core->memory, spare->bytes, spare->byte_count);
    effects_fini(&unheard);
    accounts_fini(core);
    pool_fini(&core->jobs);
    pool_fini(&core->parties);
    pool_fini(&core->sessions);
    pool_fini(&core->topics);
    pool_fini(&core->open_slots);
    pool_fini(&core->slot_terms);
    pool_fini(&core->chunk_sets);
    pool_fini(&core->subs);
    pool_fini(&core->routes);
    pool_fini(&core->awaits);
    pool_fini(&core->failures);
    needs_fini(&core->needs);
    pool_fini(&core->attachments);
    pool_fini(&core->groups);
    pool_fini(&core->tasks);
    name_map_fini(&core->job_names);
    name_map_fini(&core->failure_ids);
    id_map_fini(&core->conns);
    id_map_fini(&core->tokens);
    timers_clear(&core->timers, &core->unknown.timer);
    timers_clear(&core->timers, &core->journal.timer);
    timers_clear(&core->timers, &core->turn_timer);
    timers_clear(&core->timers, &core->lead_timer);
    timers_fini(&core->timers);
    memory_give(core->memory, core->strings, core->string_bytes);
    memory_give(core->memory, core->joined, AUTHORS_ROOM * sizeof *core->joined);
    memory_give(core->memory, core->scratch_bytes, LIMIT_ERROR_BYTES);
    memory_give(core->memory, core->scratch, (LIMIT_ERROR_RECORDS + 1) * sizeof *core->scratch);
    memory_give(core->memory, core, sizeof *core);
}

uint32_t core_session_count(const struct core *core)
{
    return core->sessions.used;
}

uint32_t core_job_count(const struct core *core)
{
    return core->jobs.used;
}

bool core_has_job(const struct core *core, struct span name)
{
    uint32_t id;
    return name_map_get(&core->job_names, name, &id);
}

bool core_is_observed(const struct core *core, struct span name)
{
    const struct session *session = NULL;
    while ((session = pool_next(&core->sessions, session != NULL ? session->id : 0)) != NULL)
        if (span_equal(session->job_name, name))
            return true;
    return false;
}

bool core_next_job(const struct core *core, uint32_t *at, struct span *out_name)
{
    const struct job *job = pool_next(&core->jobs, *at);
    if (job == NULL)
        return false;
    *at = job->id;
    *out_name = job->name;
    return true;
}

/* ---- messages -------------------------------------------------------------------------------- */

/* Who speaks, as a column of messages.def has it. */
static enum msg_speaker speaker_of(const struct session *session)
{
    if (session == NULL)
        return MSG_BY_NEWCOMER;
    if (session->late != NULL)
        return MSG_BY_LATE;
    if (session->party == NULL)
        return session->data != 0 ? MSG_BY_COURIER : MSG_BY_OBSERVER;
    return session->is_guard ? MSG_BY_GUARD : MSG_BY_PARTY;
}

/* The complaint about a speaker that may not say this; NULL: the message is ignored. */
static const char *speaker_complaint(enum msg_speaker speaker, const struct msg_kind *kind)
{
    if (speaker == MSG_BY_NEWCOMER)
        return "the first message is no greeting";
    if (kind->as.to_broker.speakers & MSG_BY_NEWCOMER)
        return "greeted twice";
    if (speaker == MSG_BY_LATE)
        return NULL;
    if (speaker == MSG_BY_PARTY)
        return "a party may not say that";
    return speaker == MSG_BY_GUARD ? "a guard may not say that" : "an observer may not say that";
}

/* Numbered messages come in order.  One that came before, on another connection, is answered again:
 * its answer may be lost with that connection.  The numbers of a guard are not in any fact. */
static const char *number_complaint(const struct session *session, const struct msg *msg)
{
    uint64_t number = msg_id(msg);
    bool is_gap = number > session->control_seen + 1 && !session->is_guard;
    return number == 0 || is_gap ? "a control message out of order" : NULL;
}

/* A numbered message is in force that waited for nothing. */
static void count_message(struct session *session, const struct msg *msg)
{
    if (msg_id(msg) > session->control_seen)
        session->control_seen = msg_id(msg);
}

static const char *unsubscribe(struct core *core, struct session *session, const struct msg *msg)
{
    if (!msg->as.unsubscribe.is_drained)
        return parked_take(core, session, PARKED_UNSUBSCRIBE, msg);
    sub_drain(core, session, (uint32_t)msg->as.unsubscribe.sub);
    count_message(session, msg);
    return NULL;
}

/* An observer of no job has no events to follow. */
static const char *tap(struct core *core, struct session *session, const struct msg *msg)
{
    if (session->job == NULL && session->job_name.bytes == 0)
        return "an observer may not say that";
    if (msg->type == MSG_TAP_TAKEN)
        return tell_taken(core, session, msg->as.tap_taken.id);
    session_find_job(core, session);
    tell_tap(core, session, &msg->as.tap);
    return NULL;
}

/* Handles a message that the session may send.  The session may be gone afterwards.  Returns a
 * complaint, or NULL. */
static const char *dispatch(struct core *core, struct session *session, const struct msg *msg)
{
    bool is_again = msg_id(msg) <= session->control_seen;
    switch (msg_to_broker(msg)) {
    case TO_BROKER_HELLO:
    case TO_BROKER_ATTACH: break; /* they begin a session: step_message() */
    case TO_BROKER_POSITION: session_position(core, session, &msg->as.position); break;
    case TO_BROKER_READY: return session_ready(core, session, &msg->as.ready);
    case TO_BROKER_BEAT: session_beat(core, session, &msg->as.beat); break;
    case TO_BROKER_PROGRESS: session_promise(core, session, &msg->as.progress); break;
    case TO_BROKER_COMPLETE: return parked_take(core, session, PARKED_COMPLETE, msg);
    case TO_BROKER_LEAVE: return parked_take(core, session, PARKED_LEAVE, msg);
    case TO_BROKER_FAIL_PARTY: return parked_take(core, session, PARKED_FAIL_PARTY, msg);
    case TO_BROKER_TOPIC_OPEN: return topic_open(core, session, &msg->as.topic_open);
    case TO_BROKER_FAIL: return parked_take(core, session, PARKED_FAIL, msg);
    case TO_BROKER_RETRACT: return parked_take(core, session, PARKED_RETRACT, msg);
    case TO_BROKER_SUBSCRIBE:
        sub_open(core, session, &msg->as.subscribe, is_again);
        count_message(session, msg);
        break;
    case TO_BROKER_SUB_ADD:
        sub_add(core, session, &msg->as.sub_add);
        count_message(session, msg);
        break;
    case TO_BROKER_UNSUBSCRIBE: return unsubscribe(core, session, msg);
    case TO_BROKER_TAKEN: return sub_taken(core, session, &msg->as.taken);
    case TO_BROKER_ACK: return parked_take(core, session, PARKED_ACK, msg);
    case TO_BROKER_AWAIT: return await_open(core, session, &msg->as.await);
    case TO_BROKER_UNAWAIT: await_close(core, session, msg->as.unawait.want); break;
    case TO_BROKER_TAP:
    case TO_BROKER_TAP_TAKEN: return tap(core, session, msg);
    case TO_BROKER_STATUS: tell_status(core, session, &msg->as.status); break;
    case TO_BROKER_VERDICT_ASK: judge_asked(core, session, &msg->as.verdict_ask); break;
    case TO_BROKER_JOB_CREATE: job_create(core, session, &msg->as.job_create); break;
    case TO_BROKER_JOB_SHOW: job_show(core, session, &msg->as.job_show); break;
    case TO_BROKER_JOB_FORGET: job_forget(core, session, &msg->as.job_forget); break;
    case TO_BROKER_JOB_CANCEL: job_cancel(core, session, &msg->as.job_cancel); break;
    case TO_BROKER_BARRIER: return barrier_come(core, session, &msg->as.barrier);
    case TO_BROKER_TASK: return parked_take(core, session, PARKED_TASK, msg);
    case TO_BROKER_DEAD: letter_message(core, session, &msg->as.dead); break;
    case TO_BROKER_FETCH: courier_fetch(core, session, &msg->as.fetch); break;
    case TO_BROKER_FETCH_TAKEN: return courier_taken(core, session, msg->as.fetch_taken.bytes);
    case TO_BROKER_BRING: return courier_bring(core, session, &msg->as.bring);
    case TO_BROKER_PIECE: return courier_piece(core, session, &msg->as.piece, core->payload);
    case TO_BROKER_WAITING: why_said(core, session, &msg->as.waiting); break;
    case TO_BROKER_WHY: why_ask(core, session, &msg->as.why); break;
    case TO_BROKER_WITHOUT: without_ask(core, session, &msg->as.without); break;
    case TO_BROKER_METRICS: metrics_ask(core, session, &msg->as.metrics, core->figures); break;
    case TO_BROKER_PING:
    case TO_BROKER_DATA_PING: tell_pong(core, session, msg); break;
    case TO_BROKER_ATTACHMENTS: courier_list(core, session, &msg->as.attachments); break;
    case TO_BROKER_SHARDS: tell_shards(core, session, &msg->as.shards); break;
    case TO_BROKER_WHO: tell_who(core, session, &msg->as.who); break;
    case TO_BROKER_RELOAD: access_news_asked(core, session, &msg->as.reload); break;
    }
    return NULL;
}

/* What is not allowed is answered alike, and changes nothing.  A question gets an answer.  A tap
 * has none, and a verdict comes when it comes: for these, the session of the observer is over. */
static const char *answer_denied_msg(struct core *core, struct session *session,
                                     const struct msg *msg)
{
    bool has_answer =
        msg_kind((unsigned)msg->type)->id == MSG_REQUEST && msg->type != MSG_VERDICT_ASK;
    if (has_answer)
        effects_job_done(core->effects, session->control, msg_id(msg), CODE_EDENIED,
                         ERROR_TYPE_NOT_AUTHORISED, RIGHTS_DENIED_TEXT);
    else if (session->party != NULL)
        return RIGHTS_DENIED_TEXT;
    else
        session_dismiss(core, session, CODE_EDENIED, NULL);
    return NULL;
}

/* A complaint, or NULL.  The session may be gone afterwards. */
static const char *session_message(struct core *core, struct session *session,
                                   const struct msg *msg)
{
    const struct msg_kind *kind = msg_kind((unsigned)msg->type);
    if (session->late != NULL) {
        late_message(core, session, msg);
        return NULL;
    }
    if (msg_is_numbered(msg) && number_complaint(session, msg) != NULL)
        return number_complaint(session, msg);
    if (kind->id == MSG_NUMBER || kind->id == MSG_NUMBER_OR_0)
        core_mark_dirty(core, session);
    if (core->access != NULL && !rights_allow(core, session, msg))
        return answer_denied_msg(core, session, msg);
    return dispatch(core, session, msg);
}

static void step_message(struct core *core, conn_id conn, const struct msg *msg)
{
    struct session *session = session_of_conn(core, conn);
    const struct msg_kind *kind = msg_kind((unsigned)msg->type);
    enum msg_speaker speaker = speaker_of(session);
    const char *complaint = NULL;
    if (session != NULL && !(kind->as.to_broker.speakers & MSG_BY_NEWCOMER))
        session_hear(core, session);
    if (!(kind->as.to_broker.speakers & speaker))
        complaint = speaker_complaint(speaker, kind);
    else if (msg->type == MSG_HELLO)
        session_hello(core, conn, &msg->as.hello);
    else if (msg->type == MSG_ATTACH)
        complaint = session_attach(core, conn, &msg->as.attach);
    else
        complaint = session_message(core, session, msg);
    if (complaint != NULL)
        session_violation(core, conn, complaint);
}

static void step_data(struct core *core, const struct event *event)
{
    struct session *session = session_of_conn(core, event->conn);
    const char *complaint = "a batch before ATTACH";
    if (session != NULL && session->data == event->conn) {
        session_hear(core, session);
        complaint = write_batch(core, session, event);
    }
    if (complaint != NULL)
        session_violation(core, event->conn, complaint);
}

/* ---- time ------------------------------------------------------------------------------------ */

/* The timer of a reply also fires before its deadline, to see whether a member serves the
 * request.  A broker that was late itself may not have read the value, or who serves it. */
static void fire_slot(struct core *core, struct open_slot *open)
{
    struct slot_terms *terms = open->terms;
    int64_t wait_ns = core_second_look_ns(core, &terms->timer, AWAY_SLACK_NS);
    if (wait_ns > 0 && !terms->is_looked_again) {
        terms->is_looked_again = true;
        timers_set(&core->timers, &terms->timer, core_clock(core) + wait_ns);
        return;
    }
    terms->is_looked_again = false;
    if (open->topic->passing == open && core_clock(core) < terms->ends_ns) {
        if (passing_is_stalled(core, open))
            settle_stalled(core, open);
        return;
    }
    if (!open_slot_is_reply(open) || request_look(core, open))
        settle_deadline(core, open);
}

static void fire(struct core *core, struct timer *timer)
{
    switch (timer->kind) {
    case TIMER_SESSION: session_timer(core, LIST_OWNER(timer, struct session, timer)); break;
    case TIMER_PROGRESS: session_stalled(core, LIST_OWNER(timer, struct session, progress)); break;
    case TIMER_SLOT: fire_slot(core, LIST_OWNER(timer, struct slot_terms, timer)->open); break;
    case TIMER_SUB: sub_expire(core, LIST_OWNER(timer, struct sub, timer)); break;
    case TIMER_JOB: job_linger(core, LIST_OWNER(timer, struct job, linger)); break;
    case TIMER_VERDICT: judge_look(core, LIST_OWNER(timer, struct job, judgement.timer)); break;
    case TIMER_COMPLAINTS:
        tell_complaints(core, LIST_OWNER(timer, struct complaints, timer));
        break;
    case TIMER_STORMS: tell_storms_again(core, LIST_OWNER(timer, struct job, storms_timer)); break;
    case TIMER_JOURNAL: tell_journal_again(core); break;
    case TIMER_TURN: courier_turn_over(core); break;
    case TIMER_LEAD: lead_timer(core); break;
    case TIMER_LEASE: group_lease_timer(core, LIST_OWNER(timer, struct sub, lease_timer)); break;
    case TIMER_WAITS: deadlock_look(core, LIST_OWNER(timer, struct job, wait_timer)); break;
    case TIMER_TASK: task_timer(core, LIST_OWNER(timer, struct task, timer)); break;
    case TIMER_JOB_WINDOW: job_window_over(core, LIST_OWNER(timer, struct job, window)); break;
    case TIMER_JOB_JOIN: job_join_over(core, LIST_OWNER(timer, struct job, join)); break;
    case TIMER_JOB_DEADLINE:
        job_deadline_passed(core, LIST_OWNER(timer, struct job, deadline));
        break;
    case TIMER_NOTICE: notice_timer(core, LIST_OWNER(timer, struct session, notice_timer)); break;
    case TIMER_RATE: rate_timer(core, LIST_OWNER(timer, struct account, rate_timer)); break;
    case TIMER_KIND_COUNT: break;
    }
}

static void step_tick(struct core *core)
{
    for (int i = 0; i < STEP_TIMERS_MAX; i++) {
        struct timer *timer = timers_pop(&core->timers, core_clock(core));
        if (timer == NULL)
            return;
        fire(core, timer);
    }
    core->has_more = true;
}

static void step_stop(struct core *core)
{
    core->is_stopping = true;
    struct session *session = NULL;
    uint32_t id = 0;
    struct job *job = NULL;
    while ((job = pool_next(&core->jobs, job != NULL ? job->id : 0)) != NULL)
        tell_storms(core, job, NULL);
    while ((session = pool_next(&core->sessions, id)) != NULL) {
        id = session->id;
        if (session->late != NULL)
            late_end(core, session); /* nobody waits for what it may say */
        else if (session->control != 0)
            effects_msg(core->effects, session->control, MSG_BYE)->as.bye.message =
                span_text(STOPS_TEXT);
    }
}

static void advance_clock(struct core *core, const struct event *event)
{
    must(event->now_ns >= core->now_ns);
    int64_t due_ns = timers_due_ns(&core->timers);
    int64_t late_ns = due_ns == INT64_MAX ? 0 : event->now_ns - core->away_ns - due_ns;
    int64_t gap_ns = event->now_ns - core->now_ns;
    bool was_away = late_ns > AWAY_SLACK_NS && gap_ns > AWAY_SLACK_NS;
    if (was_away && core_clock(core) >= core->excused_ns) {
        core->excused_ns = core_clock(core) + AWAY_APART_NS;
        core->away_ns += gap_ns; /* since when it was away, nobody knows */
        judge_stood_still(core, gap_ns);
    }
    core->now_ns = event->now_ns;
    if (was_away)
        session_returned_all(core, gap_ns);
    core->wall_ns = event->wall_ns;
    core->random = event->random;
    core->kept = event->kept;
}

/* Whether it asks for an answer that is put together in steps. */
static bool is_long_question(const struct event *event)
{
    return event->type == EVENT_MESSAGE &&
           (event->as.msg->type == MSG_WHY || event->as.msg->type == MSG_WITHOUT ||
            event->as.msg->type == MSG_METRICS);
}

/* How much of the answers is put together in this step: more where it takes long, because so much
 * is said in between, or an operator would never know. */
static uint32_t answer_budget(const struct core *core)
{
    int64_t parts = 1 + (core->now_ns - core->answering_ns) / (LIMIT_ANSWER_MS * MS_NS);
    return parts < LIMIT_WHY_STEP / LIMIT_ANSWER_STEP ? (uint32_t)parts * LIMIT_ANSWER_STEP
                                                      : LIMIT_WHY_STEP;
}

static bool is_answering(const struct core *core)
{
    return !list_is_empty(&core->wait_walks) || !list_is_empty(&core->metrics_walks);
}

/* A part of the answers under way.  What parties say does not wait for one: the step that takes it
 * does nothing of them, and io takes all that has come before it ticks. */
static void answer_operators(struct core *core, const struct event *event)
{
    if (!is_answering(core)) {
        core->answering_ns = 0;
        return;
    }
    if (core->answering_ns == 0)
        core->answering_ns = core->now_ns;
    if (event->type == EVENT_TICK || is_long_question(event)) {
        waits_go_on(core, answer_budget(core));
        metrics_go_on(core, answer_budget(core));
    }
    core->has_more |= is_answering(core);
}

void core_step(struct core *core, const struct event *event, struct effects *effects)
{
    core->effects = effects;
    core->has_more = false;
    core->steps += 1;
    advance_clock(core, event);
    failure_free_unused(core);
    notice_free_unused(core);
    await_free_unused(core);
    tell_free_unused(core);
    jobs_end_over(core);
    switch (event->type) {
    case EVENT_TICK: step_tick(core); break;
    case EVENT_MESSAGE:
        core->payload = event->payload;
        core->speaker = event->principal;
        core->figures = event->figures;
        core->shards = event->shards;
        step_message(core, event->conn, event->as.msg);
        break;
    case EVENT_DATA: step_data(core, event); break;
    case EVENT_CLOSED: session_closed(core, event->conn); break;
    case EVENT_VIOLATION: session_violation(core, event->conn, event->as.complaint); break;
    case EVENT_STOP: step_stop(core); break;
    case EVENT_JOURNAL: tell_journal(core, event->as.journal.health, event->as.journal.text); break;
    case EVENT_ACCESS: revocation_step(core, event->as.access); break;
    case EVENT_ACCESS_WORD:
        access_news_word(core, event->as.access_word.word, event->as.access_word.text);
        break;
    case EVENT_TYPE_COUNT: break;
    }
    need_fall(core);
    jobs_settle(core);
    groups_deal(core);
    topic_relieve(core);
    judge_all(core);
    answer_operators(core, event);
    accept_all(core, event);
    tell_pump(core);
    pump_all(core);
    core->effects = NULL;
}

int64_t core_deadline_ns(const struct core *core)
{
    if (core->has_more)
        return core->now_ns;
    int64_t answer_ns = accept_deadline_ns(core);
    int64_t due_ns = timers_due_ns(&core->timers);
    due_ns = due_ns == INT64_MAX ? INT64_MAX : due_ns + core->away_ns;
    return answer_ns < due_ns ? answer_ns : due_ns;
}
