/* SPDX-License-Identifier: MPL-2.0 */
/* session.c -- greeting, resuming, and how sessions, parties and jobs end.
 *
 * Promise 5 rests on two lines here: a token names one session, and a session that ended is gone
 * from core->tokens, so nothing of it is understood any more (resume); and a new session of a
 * party has a new incarnation (join). */
#include "broker/core/lifecycle/session.h"

#include "broker/core/groups/group.h"
#include "broker/core/groups/subscription.h"
#include "broker/core/lifecycle/barrier.h"
#include "broker/core/lifecycle/guard.h"
#include "broker/core/lifecycle/judgement.h"
#include "broker/core/lifecycle/late.h"
#include "broker/core/lifecycle/membership.h"
#include "broker/core/lifecycle/parked.h"
#include "broker/core/record/accept.h"
#include "broker/core/record/attachment.h"
#include "broker/core/record/courier.h"
#include "broker/core/record/failure.h"
#include "broker/core/record/note.h"
#include "broker/core/record/owned_span.h"
#include "broker/core/record/tell.h"
#include "broker/core/record/text.h"
#include "broker/core/settling/refusal.h"
#include "broker/core/settling/settle.h"
#include "broker/core/settling/upload.h"
#include "broker/core/streams/await.h"
#include "broker/core/streams/lease.h"
#include "broker/core/streams/names.h"
#include "broker/core/streams/sub.h"
#include "broker/core/streams/topic.h"
#include "broker/core/tables/effect.h"
#include "broker/core/tables/event.h"
#include "broker/core/tables/job.h"
#include "broker/core/tables/party.h"
#include "broker/core/tables/roster.h"
#include "broker/core/tables/slot_table.h"
#include "broker/core/tables/storms.h"
#include "broker/core/tables/timers.h"
#include "libbus/base/pattern.h"
#include "libbus/wire/disclosure.h"

enum { HELLO_PARTY = 0, HELLO_OBSERVER = 1, HELLO_GUARD = 2 }; /* HELLO.role */
/* Voices of one incarnation number their errors apart: each has so many bits for itself. */
enum { VOICE_ERROR_BITS = 32 };
/* Beats that may be missed before a party is suspect: two, and half a beat for the way. */
#define SUSPECT_HALF_BEATS 5
enum { JOB_TIMERS = 5, UNHEARD_RETURNS_MAX = 2 };
/* Who looks so much later than was meant was not there himself, and has not read all yet. */
#define LATE_LOOK_NS (10 * MS_NS)

struct session *session_of_conn(struct core *core, conn_id conn)
{
    uint32_t id;
    return id_map_get(&core->conns, conn, &id) ? pool_find(&core->sessions, id) : NULL;
}

static void refuse(struct core *core, conn_id conn, enum wire_code code, const char *type,
                   const char *message)
{
    struct msg *msg = effects_msg(core->effects, conn, MSG_REFUSED);
    msg->as.refused.code = code;
    msg->as.refused.type = span_text(type);
    msg->as.refused.message = span_text(message);
    effects_drop(core->effects, conn);
}

/* ---- jobs ------------------------------------------------------------------------------------ */

static void unreserve_timers(struct core *core, struct job *job)
{
    timers_unreserve(&core->timers, &job->linger);
    timers_unreserve(&core->timers, &job->window);
    timers_unreserve(&core->timers, &job->deadline);
    timers_unreserve(&core->timers, &job->observers.timer);
    timers_unreserve(&core->timers, &job->storms_timer);
}

/* false: no memory; none is reserved. */
static bool reserve_timers(struct core *core, struct job *job)
{
    unsigned count = 0;
    while (count < JOB_TIMERS && timers_reserve(&core->timers))
        count += 1;
    job->linger.kind = TIMER_JOB;
    job->window.kind = TIMER_JOB_WINDOW;
    job->deadline.kind = TIMER_JOB_DEADLINE;
    job->storms_timer.kind = TIMER_STORMS;
    complaints_init(&job->observers, job, NULL);
    if (count == JOB_TIMERS)
        return true;
    while (count-- > 0)
        timers_unreserve(&core->timers, &job->linger); /* none is set: it is the number alone */
    return false;
}

struct job *job_make(struct core *core, uint32_t id, struct span name)
{
    struct job *job = core_take(&core->jobs, id);
    if (job == NULL)
        return NULL;
    list_init(&job->party_list);
    list_init(&job->topic_list);
    list_init(&job->sub_list);
    list_init(&job->bare_list);
    list_init(&job->taps);
    list_init(&job->trim_at);
    list_init(&job->hungry);
    list_init(&job->tight_link);
    list_init(&job->tell_link);
    list_init(&job->due_link);
    job_spec_init(&job->spec);
    roster_init(&job->roster, core->memory);
    storms_init(&job->storms, core->memory);
    list_init(&job->attachments);
    name_map_init(&job->attachment_names, core->memory);
    name_map_init(&job->parties, core->memory);
    name_map_init(&job->topics, core->memory);
    job->attempt = 1;
    job->event_next = 1;
    job->event_first = 1;
    if (!reserve_timers(core, job)) {
        pool_give(&core->jobs, job);
        return NULL;
    }
    if (!judge_init(core, job)) {
        unreserve_timers(core, job);
        pool_give(&core->jobs, job);
        return NULL;
    }
    if (!span_keep(core, name, &job->name) || !name_map_put(&core->job_names, job->name, job->id)) {
        judge_fini(core, job);
        unreserve_timers(core, job);
        span_drop(core, &job->name);
        pool_give(&core->jobs, job);
        return NULL;
    }
    list_push(&job->topic_list, &job->trim_at);
    note_job_begun(core, job);
    return job;
}

struct job *job_get(struct core *core, struct span name)
{
    uint32_t id;
    if (name_map_get(&core->job_names, name, &id))
        return pool_find(&core->jobs, id);
    struct job *job = job_make(core, 0, name);
    if (job != NULL && core->journal.health != HEALTH_WELL)
        tell_journal_to(core, job);
    return job;
}

void job_free(struct core *core, struct job *job)
{
    LIST_EACH(link, &job->sub_list)
        sub_free(core, LIST_OWNER(link, struct sub, job_link));
    list_remove(&job->trim_at);
    LIST_EACH(link, &job->topic_list)
        topic_free(core, LIST_OWNER(link, struct topic, job_link));
    LIST_EACH(link, &job->party_list)
        party_free(core, LIST_OWNER(link, struct party, job_link));
    judge_fini(core, job);
    attach_forget_all(core, job);
    tell_forget(core, job);
    list_remove(&job->tell_link);
    list_remove(&job->tight_link);
    list_remove(&job->due_link);
    failure_unref(core, job->failure);
    failure_unref(core, job->loss);
    roster_fini(&job->roster);
    name_map_remove(&core->job_names, job->name);
    name_map_fini(&job->parties);
    name_map_fini(&job->topics);
    unreserve_timers(core, job);
    span_drop(core, &job->name);
    pool_give(&core->jobs, job);
}

/* Its sessions keep it in being, and a while beyond the last of them. */
static void job_hold(struct core *core, struct job *job)
{
    job->session_count += 1;
    timers_clear(&core->timers, &job->linger);
}

void job_keep(struct core *core, struct job *job)
{
    if (job->session_count == 0)
        timers_set(&core->timers, &job->linger, core_clock(core) + core->options.linger_ms * MS_NS);
}

static void job_release(struct core *core, struct job *job)
{
    job->session_count -= 1;
    job_keep(core, job);
}

void job_linger(struct core *core, struct job *job)
{
    if (job->session_count > 0)
        return;
    if (job_is_timed(job)) {
        job_keep(core, job); /* it ends, or goes on, by itself */
        return;
    }
    bool was_noting = core->is_noting;
    note_job_ended(core, job);
    core->is_noting = false; /* all in it goes with it */
    job_free(core, job);
    core->is_noting = was_noting;
}

/* ---- sessions: making and freeing ------------------------------------------------------------ */

static void drop_conn(struct core *core, conn_id *conn)
{
    if (*conn == 0)
        return;
    id_map_remove(&core->conns, *conn);
    effects_drop(core->effects, *conn);
    *conn = 0;
}

static int64_t later(int64_t a_ns, int64_t b_ns)
{
    return a_ns > b_ns ? a_ns : b_ns;
}

/* When a suspect is lost for its silence.  Not before it was suspect for half a beat: if the broker
 * was late itself (by less than core.c takes for a standstill), it looks once more. */
static int64_t silence_end_ns(const struct core *core, const struct session *session)
{
    int64_t lost_ns = session->heard_ns + session->lost_after_ns;
    int64_t sure_ns = session->suspect_ns + session->beat_ns / 2;
    return later(later(lost_ns, sure_ns), session_window_ns(core, session));
}

/* When a session is lost whose connection closed. */
static int64_t grace_end_ns(const struct core *core, const struct session *session)
{
    return later(session->closed_ns + guard_grace_ns(session), session_window_ns(core, session));
}

static void session_arm(struct core *core, struct session *session)
{
    int64_t due_ns;
    int64_t suspect_ns = session->beat_ns * SUSPECT_HALF_BEATS / 2;
    if (session->control == 0)
        due_ns = grace_end_ns(core, session);
    else if (session->party == NULL)
        due_ns = session->heard_ns + session->lost_after_ns;
    else if (session->is_suspect)
        due_ns = silence_end_ns(core, session);
    else
        due_ns = session->heard_ns + suspect_ns;
    if (session->late != NULL && session->late->until_ns < due_ns)
        due_ns = session->late->until_ns;
    timers_set(&core->timers, &session->timer, due_ns);
}

static void session_init(struct core *core, struct session *session, struct job *job,
                         const struct session_terms *terms)
{
    session->job = job;
    session->timer.kind = TIMER_SESSION;
    session->progress.kind = TIMER_PROGRESS;
    session->beat_ns = (int64_t)terms->heartbeat_ms * MS_NS;
    session->lost_after_ns = (int64_t)terms->lost_after_ms * MS_NS;
    session->grace_ns = (int64_t)terms->grace_ms * MS_NS;
    session->dial = terms->dial;
    session->is_guard = terms->is_guard;
    session->heard_ns = core_clock(core);
    session->returned_ns = INT64_MIN;
    list_init(&session->parked);
    list_init(&session->subs);
    list_init(&session->awaits);
    list_init(&session->awaits_ready);
    list_init(&session->pump_link);
    list_init(&session->turn_link);
    list_init(&session->subs_ready);
    list_init(&session->dirty_link);
    accept_init(session);
    list_init(&session->tap_link);
    list_init(&session->verdict_link);
    id_map_init(&session->sub_ids, core->memory);
    id_map_init(&session->await_ids, core->memory);
}

struct session *session_make(struct core *core, struct job *job, const struct session_terms *terms)
{
    uint64_t token = terms->token;
    conn_id conn = terms->conn;
    struct session *session = pool_take(&core->sessions);
    if (session == NULL)
        return NULL;
    session_init(core, session, job, terms);
    session->pid = terms->pid;
    bool has_host = span_keep(core, terms->host, &session->host);
    bool has_timer = has_host && timers_reserve(&core->timers);
    bool has_progress = has_timer && timers_reserve(&core->timers);
    bool has_token = has_progress && id_map_put(&core->tokens, token, session->id);
    if (has_token && (conn == 0 || id_map_put(&core->conns, conn, session->id))) {
        session->token = token;
        session->control = conn;
        if (job != NULL)
            job_hold(core, job);
        return session;
    }
    if (has_token)
        id_map_remove(&core->tokens, token);
    if (has_progress)
        timers_unreserve(&core->timers, &session->progress);
    if (has_timer)
        timers_unreserve(&core->timers, &session->timer);
    span_drop(core, &session->host);
    pool_give(&core->sessions, session);
    return NULL;
}

static uint64_t free_token(const struct core *core)
{
    uint64_t token = core->random != 0 ? core->random : 1;
    uint32_t taken;
    while (id_map_get(&core->tokens, token, &taken))
        token += 1;
    return token;
}

static struct session *session_new(struct core *core, struct job *job,
                                   const struct msg_hello *hello, conn_id conn)
{
    bool is_located = job == NULL || job->spec.disclosure < DISCLOSURE_TYPE;
    return session_make(core, job,
                        &(struct session_terms){.token = free_token(core),
                                                .conn = conn,
                                                .dial = (uint32_t)hello->dial,
                                                .heartbeat_ms = hello->heartbeat_ms,
                                                .lost_after_ms = hello->lost_after_ms,
                                                .grace_ms = hello->grace_ms,
                                                .host = is_located ? hello->host : SPAN_NONE,
                                                .pid = is_located ? hello->pid : 0,
                                                .is_guard = hello->role == HELLO_GUARD});
}

static void free_refusals(struct core *core, struct session *session)
{
    for (uint32_t i = 0; session->refusals != NULL && i < REFUSALS_KEPT; i++)
        failure_unref(core, session->refusals[i].failure);
    memory_give(core->memory, session->refusals, REFUSALS_KEPT * sizeof *session->refusals);
    memory_give(core->memory, session->granted,
                session->granted != NULL ? GRANTED_KEPT * sizeof *session->granted : 0);
}

void session_drop(struct core *core, struct session *session)
{
    struct job *job = session->job;
    barrier_forget(session);
    courier_gone(core, session);
    parked_free_all(core, session);
    LIST_EACH(link, &session->awaits)
        await_free(core, LIST_OWNER(link, struct await, session_link));
    LIST_EACH(link, &session->awaits_ready)
        await_free(core, LIST_OWNER(link, struct await, link));
    LIST_EACH(link, &session->subs)
        sub_detach(core, LIST_OWNER(link, struct sub, session_link));
    free_refusals(core, session);
    span_drop(core, &session->where);
    span_drop(core, &session->host);
    late_free(core, &session->late);
    drop_conn(core, &session->control);
    drop_conn(core, &session->data);
    id_map_remove(&core->tokens, session->token);
    id_map_fini(&session->sub_ids);
    id_map_fini(&session->await_ids);
    timers_unreserve(&core->timers, &session->timer);
    timers_unreserve(&core->timers, &session->progress);
    list_remove(&session->pump_link);
    list_remove(&session->dirty_link);
    accept_drop(session);
    list_remove(&session->tap_link);
    list_remove(&session->verdict_link);
    if (session->party != NULL && session->is_guard) {
        session->party->guard = NULL;
        party_update_bare(session->party);
        note_guard_ended(core, session->party);
    } else if (session->party != NULL) {
        session->party->session = NULL;
        party_update_bare(session->party);
        note_session_ended(core, session->party);
    }
    pool_give(&core->sessions, session);
    if (job != NULL)
        job_release(core, job);
}

bool session_outlive(struct core *core, struct session *session, struct late *late)
{
    struct job *job = session->job;
    conn_id conn = session->control;
    const struct session_terms terms = {.token = free_token(core),
                                        .conn = conn,
                                        .dial = session->dial,
                                        .heartbeat_ms = (uint64_t)(session->beat_ns / MS_NS),
                                        .lost_after_ms =
                                            (uint64_t)(session->lost_after_ns / MS_NS)};
    id_map_remove(&core->conns, conn);
    session->control = 0;
    job_hold(core, job); /* it may have been the last one */
    session_drop(core, session);
    struct session *heir = session_make(core, job, &terms);
    job_release(core, job);
    if (heir == NULL) {
        effects_drop(core->effects, conn);
        return false;
    }
    heir->late = late;
    session_arm(core, heir);
    return true;
}

void session_free_all(struct core *core)
{
    struct session *session;
    while ((session = pool_next(&core->sessions, 0)) != NULL)
        session_drop(core, session);
    struct job *job;
    while ((job = pool_next(&core->jobs, 0)) != NULL)
        job_free(core, job);
}

/* ---- greeting -------------------------------------------------------------------------------- */

static void welcome(struct core *core, struct session *session, const struct msg_hello *hello,
                    bool is_resumed)
{
    struct msg_welcome *msg =
        &effects_msg(core->effects, session->control, MSG_WELCOME)->as.welcome;
    msg->major = PROTOCOL_MAJOR;
    msg->minor = hello->minor <= PROTOCOL_MINOR ? hello->minor : PROTOCOL_MINOR;
    msg->broker = core->options.broker;
    msg->token = session->token;
    msg->incarnation = session->incarnation;
    msg->attempt = session->job != NULL ? session->job->attempt : 0;
    msg->is_resumed = is_resumed;
    msg->data_number = session->data_number;
    msg->data_endpoint = span_text(core->options.data_endpoint);
    msg->value_bytes_max = core->options.value_bytes_max;
    msg->broker_ns = core->now_ns;
    msg->connection = session->control;
    msg->event_next = session->job != NULL ? session->job->event_next : 0;
    msg->durability = core->options.durability;
    msg->disclosure = session->job != NULL ? session->job->spec.disclosure : 0;
    msg->is_created = session->job != NULL && session->job->state != JOB_FREE;
    if (session->party != NULL && !session->is_guard)
        msg->errors_from = (uint64_t)session->party->voice_count << VOICE_ERROR_BITS;
    session_arm(core, session);
}

/* A sentence about what is wrong with the greeting, or NULL. */
static const char *hello_complaint(const struct msg_hello *hello)
{
    bool is_jobless = hello->role == HELLO_OBSERVER && hello->job.bytes == 0;
    if (!is_jobless && !party_is_valid(hello->job))
        return "the job's name is not well formed";
    if (hello->role != HELLO_OBSERVER &&
        (!party_is_valid(hello->party) || span_equal(hello->party, span_text(GROUPS_PARTY))))
        return "the party's name is not well formed";
    if (hello->heartbeat_ms < LIMIT_HEARTBEAT_MS_MIN)
        return "the heartbeat is shorter than 10 ms";
    if (hello->lost_after_ms < 3 * hello->heartbeat_ms)
        return "lost_after_ms is less than three heartbeats";
    return NULL;
}

static void tell_party(struct core *core, struct party *party, const char *name, const char *text,
                       uint64_t count, struct failure *failure)
{
    tell(core, party->job,
         &(struct tell){.name = name,
                        .party = party,
                        .incarnation = party->incarnation,
                        .text = text,
                        .count = count,
                        .failure = failure});
}

static void lose(struct core *core, struct session *session, const char *type, const char *why);

void session_begin(struct core *core, struct party *party, struct session *session,
                   uint32_t incarnation)
{
    party->incarnation = incarnation;
    party->joined_ns = core->is_replaying ? 0 : core->now_ns;
    party->error_count = 0;
    party->error_limit = 0;
    failure_unref(core, party->ended_by);
    party->ended_by = NULL;
    party->voice_count = 0;
    party->voice_life = 0;
    *(session->is_guard ? &party->guard : &party->session) = session;
    session->party = party;
    session->incarnation = incarnation;
    party->state = PARTY_SCHEDULING; /* another life: the one before is over, or never was */
    party_update_bare(party);
    if (session->is_guard)
        note_guard_joined(core, party);
    else
        note_party_joined(core, party);
    job_joined(core, party);
}

/* The session that began this life, or NULL. */
static struct session *first_session(const struct party *party)
{
    return party->guard != NULL ? party->guard : party->session;
}

/* The session goes on on this connection. */
static void go_on(struct core *core, conn_id conn, struct session *session,
                  const struct msg_hello *hello)
{
    if (hello->dial > 0 && hello->dial <= session->dial) {
        effects_drop(core->effects, conn); /* it came late: the client is on another by now */
        return;
    }
    session->dial = (uint32_t)hello->dial;
    *(session == first_session(session->party) ? &session->party->dial
                                               : &session->party->voice_dial) = session->dial;
    drop_conn(core, &session->control);
    drop_conn(core, &session->data);
    barrier_forget(session);
    courier_gone(core, session);
    if (!id_map_put(&core->conns, conn, session->id)) {
        session->closed_ns = core_clock(core);
        session_arm(core, session);
        refuse(core, conn, CODE_EFULL, ERROR_TYPE_FULL, "the broker is short of memory");
        return;
    }
    session->control = conn;
    session->is_ready = false;
    session->await_sent = 0;
    session->await_taken = 0;
    session->await_topic = 0;
    session->data_told = 0;
    session->control_told = 0;
    accept_drop(session); /* WELCOME says it */
    LIST_EACH(link, &session->subs)
        sub_rewind(core, LIST_OWNER(link, struct sub, session_link));
    sub_pass_done(core, session);
    session_hear(core, session);
    welcome(core, session, hello, hello->token != 0);
    judge_tell_again(core, session);
    refusals_tell_again(core, session, hello->refusal_number);
}

/* A new incarnation of this party, or why not. */
static void join(struct core *core, conn_id conn, const struct msg_hello *hello, struct job *job)
{
    const char *type;
    struct party *party = party_get(core, job, hello->party);
    if (party == NULL || !roster_reserve(&job->roster)) {
        refuse(core, conn, CODE_EFULL, ERROR_TYPE_FULL, "this job has no room for another party");
        return;
    }
    bool is_known = hello->life != 0 && hello->life == party->life;
    if (is_known && first_session(party) != NULL) {
        go_on(core, conn, first_session(party), hello);
        return;
    }
    if (is_known && hello->dial <= party->dial) {
        effects_drop(core->effects, conn); /* it came late, and what it asked for has been */
        return;
    }
    const char *refusal = job_refusal(job, party, &type);
    if (refusal != NULL) {
        refuse(core, conn, CODE_EDENIED, type, refusal);
        return;
    }
    if ((party->session != NULL && party->session->control != 0) ||
        (party->guard != NULL && party->guard->control != 0)) {
        refuse(core, conn, CODE_EDENIED, ERROR_TYPE_NAME_TAKEN,
               "a live party of this job has this name");
        return;
    }
    while (party_any_session(party) != NULL)
        lose(core, party_any_session(party), ERROR_TYPE_REPLACED,
             "a fresh party of the same name came, and its connection was gone");
    struct session *session = session_new(core, job, hello, conn);
    if (session == NULL) {
        refuse(core, conn, CODE_EFULL, ERROR_TYPE_FULL,
               "the broker has no room for another session");
        return;
    }
    judge_joined(core, job);
    session_begin(core, party, session, party->incarnation + 1);
    party->life = hello->life;
    party->dial = session->dial;
    tell_party(core, party, EVENT_PARTY_JOINED, "", 0, NULL);
    welcome(core, session, hello, false);
}

/* The party that this guard's token is for, or NULL: it is over. */
static struct party *guarded(struct core *core, const struct msg_hello *hello)
{
    uint32_t id;
    const struct session *guard =
        id_map_get(&core->tokens, hello->guard, &id) ? pool_find(&core->sessions, id) : NULL;
    if (guard == NULL || !guard->is_guard || !party_is_live(guard->party) ||
        !span_equal(guard->party->name, hello->party) || !span_equal(guard->job->name, hello->job))
        return NULL;
    return guard->party;
}

/* Another process speaks for the incarnation of a guard: one at a time. */
static void speak(struct core *core, conn_id conn, const struct msg_hello *hello)
{
    struct party *party = guarded(core, hello);
    if (party == NULL) {
        refuse(core, conn, CODE_EFENCED, ERROR_TYPE_FENCED,
               "the incarnation that the token is for is over");
        return;
    }
    bool is_known = hello->life != 0 && hello->life == party->voice_life;
    if (is_known && party->session != NULL) {
        go_on(core, conn, party->session, hello);
        return;
    }
    if (is_known && hello->dial <= party->voice_dial) {
        effects_drop(core->effects, conn); /* as in join() */
        return;
    }
    if (party->session != NULL) {
        refuse(core, conn, CODE_EDENIED, ERROR_TYPE_NAME_TAKEN,
               "another process speaks for this party");
        return;
    }
    struct session *session = session_new(core, party->job, hello, conn);
    if (session == NULL) {
        refuse(core, conn, CODE_EFULL, ERROR_TYPE_FULL,
               "the broker has no room for another session");
        return;
    }
    guard_begin_voice(core, party, session);
    party->voice_life = hello->life;
    party->voice_dial = session->dial;
    welcome(core, session, hello, false);
}

/* Whether its job is at a later attempt than the one that gave the token. */
static bool is_of_older_attempt(const struct core *core, const struct msg_hello *hello)
{
    uint32_t id;
    const struct job *job =
        name_map_get(&core->job_names, hello->job, &id) ? pool_find(&core->jobs, id) : NULL;
    return job != NULL && hello->attempt > 0 && hello->attempt < job->attempt;
}

static void resume(struct core *core, conn_id conn, const struct msg_hello *hello)
{
    uint32_t id;
    struct session *session =
        id_map_get(&core->tokens, hello->token, &id) ? pool_find(&core->sessions, id) : NULL;
    if (session == NULL && hello->broker != 0 && hello->broker != core->options.broker) {
        refuse(core, conn, CODE_ELOST, ERROR_TYPE_SESSION,
               "this is another broker than the one that gave the session");
        return;
    }
    if (session == NULL || session->party == NULL ||
        session->is_guard != (hello->role == HELLO_GUARD) ||
        !span_equal(session->party->name, hello->party) ||
        !span_equal(session->job->name, hello->job)) {
        if (is_of_older_attempt(core, hello))
            refuse(core, conn, CODE_EFENCED, ERROR_TYPE_ATTEMPT_OVER,
                   "the attempt of the job that it was part of is over");
        else
            refuse(core, conn, CODE_EFENCED, ERROR_TYPE_FENCED,
                   "this incarnation is over: it was lost, failed or left");
        return;
    }
    go_on(core, conn, session, hello);
}

/* Whoever was told goodbye tries again at once; welcomed, it would take our end for a crash. */
static void send_away(struct core *core, conn_id conn)
{
    effects_msg(core->effects, conn, MSG_BYE)->as.bye.message = span_text(STOPS_TEXT);
    effects_drop(core->effects, conn);
}

void session_hello(struct core *core, conn_id conn, const struct msg_hello *hello)
{
    const char *complaint = hello_complaint(hello);
    if (core->is_stopping) {
        send_away(core, conn);
        return;
    }
    if (hello->major != PROTOCOL_MAJOR) {
        refuse(core, conn, CODE_EPROTO, ERROR_TYPE_VERSION,
               hello->major < PROTOCOL_MAJOR
                   ? "the client speaks an older major version than the broker's 1: upgrade it"
                   : "the client speaks a newer major version than the broker's 1: upgrade the "
                     "broker");
        return;
    }
    if (complaint != NULL) {
        refuse(core, conn, CODE_EINVAL, ERROR_TYPE_NAME, complaint);
        return;
    }
    if (hello->role != HELLO_OBSERVER && hello->token != 0) {
        resume(core, conn, hello);
        return;
    }
    if (hello->role == HELLO_PARTY && hello->guard != 0) {
        speak(core, conn, hello);
        return;
    }
    struct job *job = hello->job.bytes > 0 ? job_get(core, hello->job) : NULL;
    if (job == NULL && hello->job.bytes > 0) {
        refuse(core, conn, CODE_EFULL, ERROR_TYPE_FULL, "the broker has no room for another job");
        return;
    }
    if (hello->role != HELLO_OBSERVER) {
        join(core, conn, hello, job);
        return;
    }
    struct session *observer = session_new(core, job, hello, conn);
    if (observer != NULL)
        welcome(core, observer, hello, false);
    else
        refuse(core, conn, CODE_EFULL, ERROR_TYPE_FULL,
               "the broker has no room for another session");
}

/* Both channels stand: what the last connection may have lost is told again, frames flow. */
static void attached(struct core *core, struct session *session)
{
    if ((session->data == 0 && !session->is_guard) || !session->is_ready)
        return;
    session->returned_ns = INT64_MIN;
    effects_msg(core->effects, session->control, MSG_ATTACHED);
    job_greet(core, session);
    if (session->is_guard)
        return; /* it neither writes nor reads */
    LIST_EACH(link, &session->party->topics) {
        struct topic *topic = LIST_OWNER(link, struct topic, party_link);
        if (topic->is_opened)
            topic_grant(core, topic, true);
    }
    uploads_tell_again(core, session);
    LIST_EACH(link, &session->subs)
        sub_ready(core, LIST_OWNER(link, struct sub, session_link));
    core_mark_pump(core, session);
    core_mark_dirty(core, session);
}

/* The data channel may be far behind the control channel: an ATTACH may come when its client has
 * given up the connections that it belongs to, and has come back on others. */
const char *session_attach(struct core *core, conn_id conn, const struct msg_attach *msg)
{
    uint32_t id;
    struct session *session =
        id_map_get(&core->tokens, msg->token, &id) ? pool_find(&core->sessions, id) : NULL;
    if (session == NULL || session->is_guard || session->late != NULL)
        return "ATTACH to no session";
    if (session->control == 0 || msg->connection != session->control) {
        effects_drop(core->effects, conn);
        return NULL;
    }
    if (!id_map_put(&core->conns, conn, session->id))
        return "the broker is short of memory";
    drop_conn(core, &session->data);
    session->data = conn;
    session->data_sent = session->data_said = session->data_marked = 0;
    session->data_marked_step = 0;
    session_hear(core, session);
    if (session->party != NULL)
        attached(core, session);
    else
        effects_msg(core->effects, session->control, MSG_ATTACHED);
    return NULL;
}

/* Where to go on with the value of a slot, of which a reader says that it has so much: at its
 * beginning, if that is more than is here, or all that there will be. */
static uint64_t chunk_offset(const struct core *core, const struct topic *topic, uint64_t seq,
                             uint64_t offset)
{
    uint32_t index;
    if (!slot_table_find(&topic->slots, seq, &index))
        return 0;
    const struct slot_entry *entry = slot_table_at(&topic->slots, index);
    const struct chunks *chunks = NULL;
    if (entry->state == SLOT_OPEN)
        chunks = ((struct open_slot *)pool_find(&core->open_slots, entry->ref))->chunks;
    else if (entry->state == SLOT_CHUNKED)
        chunks = pool_find(&core->chunk_sets, entry->ref);
    bool is_here = chunks != NULL && offset <= chunks->bytes && offset < chunks->total;
    return is_here ? offset : 0;
}

void session_position(struct core *core, struct session *session, const struct msg_position *msg)
{
    struct sub *sub = sub_find(core, session, (uint32_t)msg->sub);
    if (sub == NULL)
        return; /* closed meanwhile: its UNSUBSCRIBE came on the last connection */
    if (sub_is_member(sub)) {
        lease_has(core, sub, msg);
        return;
    }
    LIST_EACH(link, &sub->routes) {
        struct route *route = LIST_OWNER(link, struct route, sub_link);
        if (route->topic->id != msg->topic || msg->next_seq > route->topic->slots.next_seq ||
            msg->next_seq < route->next_seq)
            continue;
        route->next_seq = msg->next_seq;
        route->chunk_offset = chunk_offset(core, route->topic, msg->next_seq, msg->chunk_offset);
        /* The TAKEN that told it may be lost, and none tells it again: what lies in its inbox is no
         * more than a window, so what it received counts as taken. */
        if (route->taken_seq < msg->next_seq) {
            route->taken_seq = msg->next_seq;
            topic_update(core, route->topic);
        }
        route_ready(core, route);
    }
}

void session_locate(struct core *core, struct session *session, struct span host, uint64_t pid)
{
    span_drop(core, &session->host);
    (void)span_keep(core, host, &session->host); /* or it is not known */
    session->pid = pid;
    note_located(core, session);
}

/* Said on each connection, and mostly known by then; an older client has said it in HELLO. */
static void hear_place(struct core *core, struct session *session, const struct msg_ready *msg)
{
    bool is_said = msg->host.bytes > 0 || msg->pid != 0;
    bool is_known = span_equal(msg->host, session->host) && msg->pid == session->pid;
    if (is_said && !is_known && session->job->spec.disclosure < DISCLOSURE_TYPE)
        session_locate(core, session, msg->host, msg->pid);
}

void session_ready(struct core *core, struct session *session, const struct msg_ready *msg)
{
    session->is_ready = true;
    if (session->party != NULL)
        hear_place(core, session, msg);
    if (session->party != NULL)
        attached(core, session);
    else
        effects_msg(core->effects, session->control, MSG_ATTACHED);
}

/* ---- signs of life --------------------------------------------------------------------------- */

void session_hear(struct core *core, struct session *session)
{
    session->heard_ns = core_clock(core);
    if (!session->is_suspect)
        return;
    session->is_suspect = false;
    session_arm(core, session);
    if (session->party == NULL)
        return;
    LIST_EACH(link, &session->subs)
        if (sub_is_member(LIST_OWNER(link, struct sub, session_link)))
            leases_ready(core, LIST_OWNER(link, struct sub, session_link));
    tell_party(core, session->party, EVENT_PARTY_RESUMED, "", 0, NULL);
    judge_look(core, session->job);
    barrier_look(core, session->job); /* all may have waited for it */
}

/* Frames wait until what they tell is in the journal; ECHO does not, and must not speak of frames
 * that are still held: its client would take the connection for dead.  So it says what was sent up
 * to a step that is known to be kept, which may be less. */
static uint64_t data_said(const struct core *core, struct session *session)
{
    bool is_all_kept = !core->options.has_facts || core->kept + 1 >= core->steps;
    if (is_all_kept)
        session->data_said = session->data_sent;
    else if (core->kept >= session->data_marked_step)
        session->data_said = session->data_marked;
    if (core->kept >= session->data_marked_step) {
        session->data_marked = session->data_sent;
        session->data_marked_step = core->steps;
    }
    return session->data_said;
}

void session_beat(struct core *core, struct session *session, const struct msg_beat *beat)
{
    struct msg *msg = effects_msg(core->effects, session->control, MSG_ECHO);
    msg->as.echo.sent_ns = beat->sent_ns;
    msg->as.echo.broker_ns = core->now_ns;
    msg->as.echo.data_bytes = session->data != 0 ? data_said(core, session) : 0;
}

static void await_progress(struct core *core, struct session *session)
{
    session->is_stall_excused = false;
    if (session->progress_ms == 0)
        timers_clear(&core->timers, &session->progress);
    else
        timers_set(&core->timers, &session->progress,
                   core_clock(core) + (int64_t)session->progress_ms * MS_NS);
}

/* A guard promised for both. */
static void move_guard(struct core *core, struct session *guard, struct span where)
{
    if (where.bytes > 0) {
        span_drop(core, &guard->where);
        (void)span_keep(core, where, &guard->where); /* or it is not known */
    }
    await_progress(core, guard);
}

/* Where it is, is no fact: it is said again after a restart, on the next connection.  Neither is
 * what a guard promises. */
void session_promise(struct core *core, struct session *session, const struct msg_progress *msg)
{
    bool is_told = session->job->spec.disclosure < DISCLOSURE_TYPE;
    struct span where = is_told ? msg->where : SPAN_NONE;
    span_drop(core, &session->where);
    (void)span_keep(core, where, &session->where); /* or it is not known */
    if (msg->next_within_ms != session->progress_ms) {
        session->progress_ms = msg->next_within_ms;
        if (!session->is_guard)
            note_progress(core, session);
    }
    await_progress(core, session);
    if (!session->is_guard && session->party->guard != NULL)
        move_guard(core, session->party->guard, where);
}

static void suspect(struct core *core, struct session *session, const char *text)
{
    if (session->is_suspect)
        return;
    session->is_suspect = true;
    session->is_looked_again = false;
    session->suspect_ns = core_clock(core);
    tell_party(core, session->party, EVENT_PARTY_SUSPECT, text, 0, NULL);
    judge_look(core, session->job);
}

void session_closed(struct core *core, conn_id conn)
{
    struct session *session = session_of_conn(core, conn);
    if (session == NULL) {
        effects_drop(core->effects, conn);
        return;
    }
    drop_conn(core, &session->control);
    drop_conn(core, &session->data);
    barrier_forget(session);
    courier_gone(core, session);
    if (session->party == NULL) {
        session_drop(core, session);
        return;
    }
    session->is_ready = false;
    session->is_looked_again = false;
    session->closed_ns = core_clock(core);
    suspect(core, session, "its connection closed");
    session_arm(core, session);
}

void session_violation(struct core *core, conn_id conn, const char *complaint)
{
    struct session *session = session_of_conn(core, conn);
    core->refused_count += 1;
    struct complaints *complaints = &core->strangers;
    if (session != NULL && session->party != NULL)
        complaints = &session->party->complaints;
    else if (session != NULL && session->job != NULL)
        complaints = &session->job->observers;
    tell_complaint(core, complaints, session != NULL ? session->incarnation : 0, complaint);
    session_closed(core, conn);
}

/* The broker looks late: it was not there itself, by less than core.c takes for a standstill, and
 * what was said meanwhile may not be read yet.  So this look is not the last one: there is another,
 * as much later as this one was late, and half a beat at most. */
static bool looks_again(struct core *core, struct session *session, int64_t late_ns)
{
    if (late_ns <= LATE_LOOK_NS || session->is_looked_again)
        return false;
    int64_t wait_ns = late_ns < session->beat_ns / 2 ? late_ns : session->beat_ns / 2;
    session->is_looked_again = true;
    timers_set(&core->timers, &session->timer, core_clock(core) + wait_ns);
    return true;
}

static void observer_timer(struct core *core, struct session *session)
{
    if (core_clock(core) - session->heard_ns >= session->lost_after_ns)
        session_drop(core, session);
    else if (session->late != NULL && core_clock(core) >= session->late->until_ns)
        late_end(core, session);
    else
        session_arm(core, session);
}

void session_timer(struct core *core, struct session *session)
{
    int64_t clock_ns = core_clock(core);
    int64_t suspect_ns = session->heard_ns + session->beat_ns * SUSPECT_HALF_BEATS / 2;
    if (session->party == NULL) {
        observer_timer(core, session);
        return;
    }
    int64_t late_ns = clock_ns - session->timer.due_ns;
    bool is_closed = session->control == 0 && clock_ns >= grace_end_ns(core, session);
    bool is_silent = session->is_suspect && clock_ns >= silence_end_ns(core, session);
    if ((is_closed || is_silent) && looks_again(core, session, late_ns))
        return;
    if (is_closed) {
        lose(core, session, ERROR_TYPE_CONNECTION_CLOSED,
             "its connection closed and did not come back within its grace of ");
    } else if (is_silent) {
        lose(core, session, ERROR_TYPE_SILENT, "no sign of life for ");
    } else {
        if (session->control != 0 && !session->is_suspect && clock_ns >= suspect_ns) {
            suspect(core, session, "no beat of it comes");
            session->is_looked_again = late_ns > LATE_LOOK_NS; /* half a beat is left at least */
        }
        session_arm(core, session);
    }
}

/* ---- endings --------------------------------------------------------------------------------- */

static const char *event_name(enum party_event event)
{
    switch (event) {
    case PARTY_IS_LOST: return EVENT_PARTY_LOST;
    case PARTY_LEAVES: return EVENT_PARTY_LEFT;
    case PARTY_COMPLETES: return EVENT_PARTY_COMPLETED;
    case PARTY_IS_TERMINATED: return EVENT_PARTY_TERMINATED;
    default: return EVENT_PARTY_FAILED;
    }
}

static void mark_end(struct core *core, struct topic *topic)
{
    topic_mark_end(core, topic, topic->writer->incarnation, topic->slots.next_seq);
}

/* Whether its job wants what it had committed no more. */
static bool replaces_pending(const struct party *party, enum party_event event)
{
    return party->job->spec.pending == JOB_PENDING_REPLACE &&
           (event == PARTY_FAILS || event == PARTY_IS_LOST);
}

/* Everything that hangs on the party learns of its end, in one step. */
static void end_party(struct core *core, struct party *party, enum party_event event,
                      struct failure *failure)
{
    bool was_told = party->state == PARTY_FAILING;
    if (!party_next(party->state, event, &party->state))
        return;
    tell_storms(core, party->job, party);
    party->ended_by = failure_ref(failure);
    bool is_told_to = event == PARTY_IS_TERMINATED; /* by what ended its job: no news for that */
    bool is_late = failure != NULL && !is_told_to && judge_error(core, party->job, party, failure);
    note_party_ended(core, party);
    judge_look(core, party->job);
    if (event == PARTY_COMPLETES)
        judge_completed(core, party->job);
    if (!was_told)
        tell(core, party->job,
             &(struct tell){.name = event_name(event),
                            .party = party,
                            .incarnation = party->incarnation,
                            .count = party->open_count,
                            .failure = failure,
                            .is_late = is_late});
    if (event != PARTY_COMPLETES && party->session != NULL)
        group_party_ended(core, party->session, failure);
    if (replaces_pending(party, event))
        LIST_EACH(link, &party->topics)
            settle_replace_unseen(core, LIST_OWNER(link, struct topic, party_link), failure);
    LIST_EACH(link, &party->open_slots)
        settle_open_failed(core, LIST_OWNER(link, struct open_slot, party_link), failure);
    LIST_EACH(link, &party->topics)
        mark_end(core, LIST_OWNER(link, struct topic, party_link));
    await_never(core, party, failure);
    sub_ended(core, party, failure);
    job_lost(core, party, failure);
    job_left(core, party);
}

void session_dismiss(struct core *core, struct session *session, enum wire_code code,
                     struct failure *failure)
{
    if (session->control != 0) {
        struct msg *msg = effects_msg(core->effects, session->control, MSG_OVER);
        msg->as.over.code = code;
        if (code != CODE_ECLOSED)
            msg->as.over.error = failure_span(failure);
    }
    session_drop(core, session);
}

void session_end_party(struct core *core, struct session *session, enum party_event event,
                       struct failure *failure, enum wire_code code)
{
    struct party *party = session->party;
    struct session *other = session->is_guard ? party->session : party->guard;
    end_party(core, party, event, failure);
    session_dismiss(core, session, code, failure);
    if (other != NULL) /* by the word of the one it is over for the other, too */
        session_dismiss(core, other, CODE_EFENCED, failure);
}

void party_terminate(struct core *core, struct party *party, struct failure *failure)
{
    end_party(core, party, PARTY_IS_TERMINATED, failure);
}

void session_completed(struct core *core, struct session *session)
{
    end_party(core, session->party, PARTY_COMPLETES, NULL);
}

/* why ends where the number of milliseconds is to follow, but for a replaced party. */
static void lose(struct core *core, struct session *session, const char *type, const char *why)
{
    struct party *party = session->party;
    int64_t silent_ns = core_clock(core) - session->heard_ns;
    bool is_silence = type == ERROR_TYPE_SILENT;
    if (parked_end(core, session))
        return; /* its LEAVE or failure was here before: that is how it ended */
    struct text text;
    text_init(&text);
    text_add(&text, "party ");
    text_add_span(&text, party->name);
    text_add(&text, " lost: ");
    text_add(&text, why);
    if (type != ERROR_TYPE_REPLACED) {
        int64_t had_ns = is_silence ? session->lost_after_ns : guard_grace_ns(session);
        int64_t since_ns = is_silence ? session->heard_ns : session->closed_ns;
        if (session_window_ns(core, session) > since_ns + had_ns)
            had_ns = core->options.resume_ms * MS_NS;
        text_add_number(&text, (uint64_t)(had_ns / MS_NS));
        text_add(&text, " ms");
    }
    int64_t ago_ns = is_silence ? silent_ns : core_clock(core) - session->closed_ns;
    struct failure *failure =
        failure_make(core, &(struct failure_spec){.job = session->job,
                                                  .party = party,
                                                  .session = session,
                                                  .kind = ERROR_PARTY_LOST,
                                                  .type = type,
                                                  .message = text.data,
                                                  .occurred_ns = core->now_ns - ago_ns,
                                                  .uncertainty_ns =
                                                      is_silence ? (uint64_t)session->beat_ns : 0});
    session_end_party(core, session, PARTY_IS_LOST, failure, CODE_EFENCED);
    failure_unref(core, failure);
}

void session_resume(struct core *core, struct session *session)
{
    session->returned_ns = core_clock(core);
    session->heard_ns = core_clock(core);
    session->closed_ns = core_clock(core);
    session_arm(core, session);
    if (session->progress_ms > 0)
        timers_set(&core->timers, &session->progress,
                   core_clock(core) +
                       ((int64_t)session->progress_ms + core->options.resume_ms) * MS_NS);
}

/* A broker that stood still is like one that was away.  Who had no answer meanwhile is on its way
 * by another connection, and may have closed the one that is known here; it has the resume window
 * to arrive, as behind a restart.  But the dead are not heard in between, and have no third window
 * in a row: a broker that stands still time and again loses them all the same. */
void session_returned_all(struct core *core, int64_t gap_ns)
{
    struct session *session = NULL;
    while ((session = pool_next(&core->sessions, session != NULL ? session->id : 0)) != NULL) {
        if (session->heard_ns > session->returned_ns)
            session->unheard_returns = 0;
        if (session->control != 0 && gap_ns < session->beat_ns)
            continue; /* its client has missed nothing: it is where it was */
        if (session->unheard_returns == UNHEARD_RETURNS_MAX)
            continue;
        session->unheard_returns += 1;
        session->returned_ns = core_clock(core);
    }
}

/* Who has to come back first cannot say before how far it is; and what it said may not be read yet
 * by who looks late.  Once in a promise. */
static bool excuse_stall(struct core *core, struct session *session)
{
    int64_t until_ns = session_window_ns(core, session);
    if (core_clock(core) - session->progress.due_ns > LATE_LOOK_NS)
        until_ns = later(until_ns, core_clock(core) + session->beat_ns / 2);
    if (core_clock(core) >= until_ns || session->is_stall_excused)
        return false;
    session->is_stall_excused = true;
    timers_set(&core->timers, &session->progress, until_ns);
    return true;
}

void session_stalled(struct core *core, struct session *session)
{
    struct text text;
    struct party *party = session->party;
    bool is_guard = session->is_guard;
    if (excuse_stall(core, session))
        return; /* first: what waits for its data is given up below */
    bool is_gone = party->session != NULL && parked_end(core, party->session);
    if (!party_is_live(party) || (is_gone && !is_guard))
        return; /* it is done, or has said before how it ends */
    text_init(&text);
    text_add_span(&text, session->party->name);
    text_add(&text, " beats, but made no progress within ");
    text_add_number(&text, session->progress_ms);
    text_add(&text, " ms");
    if (session->where.bytes > 0)
        text_add(&text, "; it last was at: ");
    text_add_span(&text, session->where);
    struct failure *failure = failure_make(core, &(struct failure_spec){.job = session->job,
                                                                        .party = session->party,
                                                                        .kind = ERROR_STALLED,
                                                                        .type = ERROR_TYPE_STALLED,
                                                                        .message = text.data});
    session_end_party(core, session, PARTY_FAILS, failure, CODE_EFENCED);
    failure_unref(core, failure);
}
