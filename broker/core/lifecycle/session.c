/* SPDX-License-Identifier: MPL-2.0 */
/* session.c -- sessions: made, found, dropped. */
#include "broker/core/lifecycle/session.h"

#include "broker/core/groups/subscription.h"
#include "broker/core/lifecycle/barrier.h"
#include "broker/core/lifecycle/job.h"
#include "broker/core/lifecycle/late.h"
#include "broker/core/lifecycle/liveness.h"
#include "broker/core/lifecycle/parked.h"
#include "broker/core/record/accept.h"
#include "broker/core/record/account.h"
#include "broker/core/record/courier.h"
#include "broker/core/record/failure.h"
#include "broker/core/record/note.h"
#include "broker/core/record/owned_span.h"
#include "broker/core/streams/await.h"
#include "broker/core/streams/names.h"
#include "broker/core/streams/notice.h"
#include "broker/core/tables/effect.h"
#include "broker/core/tables/party.h"
#include "broker/core/tables/timers.h"

int64_t session_grace_ns(const struct session *session)
{
    const struct session *guard = session->party != NULL ? session->party->guard : NULL;
    return guard != NULL && guard->grace_ns > session->grace_ns ? guard->grace_ns
                                                                : session->grace_ns;
}

struct session *session_of_conn(struct core *core, conn_id conn)
{
    uint32_t id;
    return id_map_get(&core->conns, conn, &id) ? pool_find(&core->sessions, id) : NULL;
}

const char *session_state_name(const struct party *party)
{
    const struct session *live = party_is_live(party) ? party_any_session(party) : NULL;
    if (live != NULL && live->control == 0)
        return "grace";
    if (live != NULL && live->is_suspect)
        return "suspect";
    return party_state_name(party->state);
}

/* ---- creating and freeing a session ---------------------------------------------------------- */

void session_drop_conn(struct core *core, conn_id *conn)
{
    if (*conn == 0)
        return;
    id_map_remove(&core->conns, *conn);
    effects_drop(core->effects, *conn);
    *conn = 0;
}

static void session_init(struct core *core, struct session *session, struct job *job,
                         const struct session_terms *terms)
{
    session->job = job;
    session->timer.kind = TIMER_SESSION;
    session->progress.kind = TIMER_PROGRESS;
    session->notice_timer.kind = TIMER_NOTICE;
    session->beat_ns = (int64_t)terms->heartbeat_ms * MS_NS;
    session->lost_after_ns = (int64_t)terms->lost_after_ms * MS_NS;
    session->grace_ns = (int64_t)terms->grace_ms * MS_NS;
    session->principal = terms->principal;
    session->dial = terms->dial;
    session->is_guard = terms->is_guard;
    session->heard_ns = core_clock(core);
    session->greeted_ns = session->heard_ns;
    session->returned_ns = INT64_MIN;
    list_init(&session->parked);
    list_init(&session->subs);
    list_init(&session->awaits);
    list_init(&session->awaits_ready);
    list_init(&session->awaits_coming);
    list_init(&session->pump_link);
    list_init(&session->subs_ready);
    list_init(&session->dirty_link);
    accept_init(session);
    flow_window_init(&session->await_flow, &core->reader_windows, DEFAULT_SUB_WINDOW_BYTES,
                     LIMIT_SUB_WINDOW_BYTES);
    flow_window_init(&session->tap_flow, &core->reader_windows, DEFAULT_TAP_WINDOW_BYTES,
                     LIMIT_TAP_WINDOW_BYTES);
    courier_windows_init(core, session);
    list_init(&session->tap_link);
    list_init(&session->verdict_link);
    list_init(&session->notices);
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
    session->account = account_get(core, terms->owner);
    bool has_host = session->account != NULL && span_keep(core, terms->host, &session->host);
    bool has_trace = has_host && span_keep(core, terms->trace_id, &session->trace_id);
    bool has_timer = has_trace && timers_reserve(&core->timers);
    bool has_progress = has_timer && timers_reserve(&core->timers);
    bool has_notices = has_progress && timers_reserve(&core->timers);
    bool has_token = has_notices && id_map_put(&core->tokens, token, session->id);
    if (has_token && (conn == 0 || id_map_put(&core->conns, conn, session->id))) {
        session->token = token;
        session->control = conn;
        account_count(session->account, ACCESS_CONNECTIONS, 1);
        if (job != NULL)
            job_hold(core, job);
        return session;
    }
    if (has_token)
        id_map_remove(&core->tokens, token);
    if (has_notices)
        timers_unreserve(&core->timers, &session->notice_timer);
    if (has_progress)
        timers_unreserve(&core->timers, &session->progress);
    if (has_timer)
        timers_unreserve(&core->timers, &session->timer);
    span_drop(core, &session->host);
    span_drop(core, &session->trace_id);
    if (session->account != NULL)
        account_unref(core, session->account);
    pool_give(&core->sessions, session);
    return NULL;
}

uint64_t session_free_token(const struct core *core)
{
    uint64_t token = core->random != 0 ? core->random : 1;
    uint32_t taken;
    while (id_map_get(&core->tokens, token, &taken))
        token += 1;
    return token;
}

static void free_refusals(struct core *core, struct session *session)
{
    for (uint32_t i = 0; session->refusals != NULL && i < REFUSALS_KEPT; i++)
        failure_unref(core, session->refusals[i].failure);
    memory_give(core->memory, session->refusals, REFUSALS_KEPT * sizeof *session->refusals);
    memory_give(core->memory, session->granted,
                session->granted != NULL ? GRANTED_KEPT * sizeof *session->granted : 0);
}

/* The only one of the party, or NULL: it has two, or none. */
static struct session *last_session(const struct party *party)
{
    bool has_both = party->session != NULL && party->guard != NULL;
    return has_both ? NULL : party_any_session(party);
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
    flow_window_fini(&session->await_flow);
    flow_window_fini(&session->tap_flow);
    courier_windows_fini(session);
    span_drop(core, &session->where);
    span_drop(core, &session->host);
    span_drop(core, &session->trace_id);
    span_drop(core, &session->job_name);
    late_free(core, &session->late);
    session_drop_conn(core, &session->control);
    session_drop_conn(core, &session->data);
    id_map_remove(&core->tokens, session->token);
    id_map_fini(&session->sub_ids);
    id_map_fini(&session->await_ids);
    timers_unreserve(&core->timers, &session->timer);
    timers_unreserve(&core->timers, &session->progress);
    timers_unreserve(&core->timers, &session->notice_timer);
    notice_forget(core, session);
    list_remove(&session->pump_link);
    list_remove(&session->dirty_link);
    accept_drop(session);
    list_remove(&session->tap_link);
    list_remove(&session->verdict_link);
    if (session->party != NULL && session == last_session(session->party)) {
        job->live_count -= 1;
        job->follower_count -= session->party->run_rule == RUN_FOLLOW;
    }
    if (session->party != NULL && session->is_guard) {
        session->party->guard = NULL;
        party_update_bare(session->party);
        note_guard_ended(core, session->party);
    } else if (session->party != NULL) {
        session->party->session = NULL;
        party_update_bare(session->party);
        note_session_ended(core, session->party);
    }
    account_count(session->account, ACCESS_CONNECTIONS, (uint64_t)-1);
    account_unref(core, session->account);
    pool_give(&core->sessions, session);
    if (job != NULL)
        job_release(core, job);
}

bool session_outlive(struct core *core, struct session *session, struct late *late)
{
    struct job *job = session->job;
    conn_id conn = session->control;
    const struct session_terms terms = {.token = session_free_token(core),
                                        .principal = session->principal,
                                        .owner = session->account->name,
                                        .conn = conn,
                                        .dial = session->dial,
                                        .heartbeat_ms = (uint64_t)(session->beat_ns / MS_NS),
                                        .lost_after_ms =
                                            (uint64_t)(session->lost_after_ns / MS_NS)};
    id_map_remove(&core->conns, conn);
    session->control = 0;
    struct account *account = account_ref(session->account); /* it may have been the last one */
    job_hold(core, job);                                     /* the same */
    session_drop(core, session);
    struct session *heir = session_make(core, job, &terms);
    job_release(core, job);
    account_unref(core, account);
    if (heir == NULL) {
        effects_drop(core->effects, conn);
        return false;
    }
    heir->late = late;
    session_arm(core, heir);
    return true;
}

/* ---- observers of jobs that do not exist yet ------------------------------------------------- */

static void take_job(struct core *core, struct session *observer, struct job *job)
{
    bool is_tap = list_is_linked(&observer->tap_link);
    list_remove(&observer->tap_link);
    span_drop(core, &observer->job_name);
    observer->job = job;
    job_hold(core, job);
    if (is_tap)
        list_push(&job->taps, &observer->tap_link);
}

void session_find_job(struct core *core, struct session *observer)
{
    struct job *job = observer->job == NULL ? job_known(core, observer->job_name) : NULL;
    if (job != NULL)
        take_job(core, observer, job);
}

void session_take_taps(struct core *core, struct job *job)
{
    LIST_EACH(link, &core->early_taps) {
        struct session *observer = LIST_OWNER(link, struct session, tap_link);
        if (span_equal(observer->job_name, job->name))
            take_job(core, observer, job);
    }
}

/* ---- the end --------------------------------------------------------------------------------- */

void session_free_all(struct core *core)
{
    struct session *session;
    while ((session = pool_next(&core->sessions, 0)) != NULL)
        session_drop(core, session);
    struct job *job;
    while ((job = pool_next(&core->jobs, 0)) != NULL)
        job_free(core, job);
}
