/* SPDX-License-Identifier: MPL-2.0 */
/* liveness.c -- signs of life: beats, silence, closed connections, promises of progress. */
#include "broker/core/lifecycle/liveness.h"

#include "broker/core/lifecycle/barrier.h"
#include "broker/core/lifecycle/ending.h"
#include "broker/core/lifecycle/judgement.h"
#include "broker/core/lifecycle/late.h"
#include "broker/core/lifecycle/parked.h"
#include "broker/core/lifecycle/session.h"
#include "broker/core/record/count.h"
#include "broker/core/record/courier.h"
#include "broker/core/record/failure.h"
#include "broker/core/record/note.h"
#include "broker/core/record/owned_span.h"
#include "broker/core/record/tell.h"
#include "broker/core/record/text.h"
#include "broker/core/streams/lease.h"
#include "broker/core/tables/effect.h"
#include "broker/core/tables/party.h"
#include "broker/core/tables/timers.h"
#include "libbus/wire/disclosure.h"

/* After five half beats of silence a party is suspect: two beats are missing, and half a beat is
 * for the way. hello_complaint() requires lost_after_ms to be at least three beats.  So the party
 * is suspect for half a beat or more before it is lost. */
#define SUSPECT_HALF_BEATS 5

enum { UNHEARD_RETURNS_MAX = 2 };

static int64_t later_ns(int64_t a_ns, int64_t b_ns)
{
    return a_ns > b_ns ? a_ns : b_ns;
}

/* When a suspect party is lost for its silence, at the earliest after half a beat as a suspect.  A
 * broker that was late itself, by less than AWAY_SLACK_NS in core.c, checks once more. */
static int64_t silence_end_ns(const struct core *core, const struct session *session)
{
    int64_t lost_ns = session->heard_ns + session->lost_after_ns;
    int64_t sure_ns = session->suspect_ns + session->beat_ns / 2;
    return later_ns(later_ns(lost_ns, sure_ns), session_window_ns(core, session));
}

/* When a session is lost whose connection closed. */
static int64_t grace_end_ns(const struct core *core, const struct session *session)
{
    return later_ns(session->closed_ns + session_grace_ns(session),
                    session_window_ns(core, session));
}

void session_arm(struct core *core, struct session *session)
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
    party_tell(core, session->party, EVENT_PARTY_RESUMED, "", 0, NULL);
    judge_look(core, session->job);
    barrier_look(core, session->job); /* the others may have waited for this party */
}

/* Frames wait for the journal, and ECHO does not.  If ECHO counted frames that still wait, the
 * client would take the connection for dead.  So ECHO counts the frames up to a step that is known
 * to be in the journal, which may be fewer. */
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

/* All windows of the session follow its link, or need not. */
static void know_trip(struct session *session, int64_t trip_ns)
{
    if (trip_ns == session->trip_ns)
        return;
    session->trip_ns = trip_ns;
    flow_window_learn(&session->await_flow, trip_ns);
    flow_window_set_trip(&session->tap_flow, trip_ns);
    courier_windows_learn(session, trip_ns);
    LIST_EACH(link, &session->subs)
        flow_window_learn(&LIST_OWNER(link, struct sub, session_link)->flow, trip_ns);
}

/* A client that heard this broker after its standstill is here, on this connection.  It needs no
 * time to come back.  Any other message may have been on its way since before. */
static void end_window(const struct core *core, struct session *session,
                       const struct msg_beat *beat)
{
    if (beat->broker_ns < core->back_ns)
        return;
    session->returned_ns = INT64_MIN;
    session->unheard_returns = 0;
}

void session_beat(struct core *core, struct session *session, const struct msg_beat *beat)
{
    session->is_unjudged = beat->is_unjudged != 0;
    know_trip(session, (int64_t)beat->trip_ns);
    end_window(core, session, beat);
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

/* The progress of the program also keeps the promise of its guard. */
static void move_guard(struct core *core, struct session *guard, struct span where)
{
    if (where.bytes > 0) {
        span_drop(core, &guard->where);
        (void)span_keep(core, where, &guard->where); /* or it is not known */
    }
    await_progress(core, guard);
}

/* `where` and the guard's promise are no facts: after a restart the client sends them again. */
void session_promise(struct core *core, struct session *session, const struct msg_progress *msg)
{
    bool is_told = session->job->spec.disclosure < DISCLOSURE_TYPE;
    session->blocked.words += 1;
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
    party_tell(core, session->party, EVENT_PARTY_SUSPECT, text, 0, NULL);
    judge_look(core, session->job);
}

void session_closed(struct core *core, conn_id conn)
{
    struct session *session = session_of_conn(core, conn);
    if (session == NULL) {
        effects_drop(core->effects, conn);
        return;
    }
    session_drop_conn(core, &session->control);
    session_drop_conn(core, &session->data);
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
    count_refusal(core, ERROR_TYPE_PROTOCOL);
    struct complaints *complaints = &core->unknown;
    enum count_speaker speaker = session != NULL ? COUNT_OBSERVER : COUNT_UNKNOWN;
    if (session != NULL && session->party != NULL) {
        complaints = &session->party->complaints;
        speaker = COUNT_PARTY;
    } else if (session != NULL && session->job != NULL) {
        complaints = &session->job->observers;
    }
    core->counts.violations[speaker] += 1;
    tell_complaint(core, complaints, conn, session != NULL ? session->incarnation : 0, complaint);
    session_closed(core, conn);
}

/* The timer fired late, by less than AWAY_SLACK_NS in core.c: the broker was late itself, and
 * messages may not be read yet.  So it checks again, after as much time as it was late, at most
 * half a beat. */
static bool looks_again(struct core *core, struct session *session)
{
    int64_t wait_ns = core_second_look_ns(core, &session->timer, session->beat_ns / 2);
    if (wait_ns == 0 || session->is_looked_again)
        return false;
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
    if ((is_closed || is_silent) && looks_again(core, session))
        return;
    if (is_closed) {
        session_lose(core, session, ERROR_TYPE_CONNECTION_CLOSED,
                     "its connection closed and did not come back within its grace of ");
    } else if (is_silent) {
        session_lose(core, session, ERROR_TYPE_SILENT, "no sign of life for ");
    } else {
        if (session->control != 0 && !session->is_suspect && clock_ns >= suspect_ns) {
            suspect(core, session, "no beat of it comes");
            session->is_looked_again = late_ns > LATE_LOOK_NS; /* the next check is half a beat
                                                                * away or more */
        }
        session_arm(core, session);
    }
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

/* After a standstill the broker treats its sessions as after a restart.  A client that got no
 * answer may be on its way by another connection, and may have closed the known one.  It has the
 * resume window to arrive.  A session that is not heard between two standstills gets no third
 * window in a row.  Otherwise a broker with many standstills would never lose a dead party. */
void session_returned_all(struct core *core, int64_t gap_ns)
{
    struct session *session = NULL;
    core->back_ns = core->now_ns;
    while ((session = pool_next(&core->sessions, session != NULL ? session->id : 0)) != NULL) {
        if (session->heard_ns > session->returned_ns)
            session->unheard_returns = 0;
        if (session->control != 0 && gap_ns < session->beat_ns)
            continue; /* its client missed no beat, and its connection stands */
        if (session->unheard_returns == UNHEARD_RETURNS_MAX)
            continue;
        session->unheard_returns += 1;
        session->returned_ns = core_clock(core);
    }
}

/* A client that must reconnect cannot report progress before it is back.  And a broker that was
 * late may not have read the report.  Each promise is extended once for these reasons. */
static bool excuse_stall(struct core *core, struct session *session)
{
    int64_t until_ns = session_window_ns(core, session);
    if (core_clock(core) - session->progress.due_ns > LATE_LOOK_NS)
        until_ns = later_ns(until_ns, core_clock(core) + session->beat_ns / 2);
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
        return; /* before parked_end(), which gives up what waits for its data */
    bool is_gone = party->session != NULL && parked_end(core, party->session);
    if (!party_is_live(party) || (is_gone && !is_guard))
        return; /* it has completed, or has said how it ends */
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
