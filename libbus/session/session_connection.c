/* SPDX-License-Identifier: MPL-2.0 */
/* session_connection.c -- one connection after the other: made, given up, closed for good.
 *
 * A connection is greeted (PHASE_GREET), attached (PHASE_ATTACH) and up.  Whatever goes wrong with
 * it ends in the same way: session_lose_link() closes it, and the next connection begins after the
 * back-off.  session_finish() ends the session itself. */
#include "libbus/session/session_connection.h"

#include "libbus/base/mix.h"
#include "libbus/base/must.h"
#include "libbus/session/model.h"
#include "libbus/session/session_errors.h"
#include "libbus/session/session_unaccepted.h"

#include <string.h>

/* ---- patience -------------------------------------------------------------------------------- */

/* After a cut TCP may stay silent for twice the length of the cut, so the session soon tries a
 * fresh connection.  But on a very slow link no answer can come in that time: a greeting takes four
 * round trips.  So after several tries each further try gets twice the time.  TCP sends again
 * within it, first after one second (RFC 6298, 2.1).  Several endpoints are as many links: one that
 * is silent says nothing of the next one, so the tries of each are counted.
 *
 * A broker that begins at one of several endpoints gives each session 10 s to come.  Another one of
 * them may be silent for good, as a machine that is off.  So each gets less time, and a round of
 * all of them takes about half of lost_after_ms (10 s) at most.
 *
 * A long link is not lost.  Where its round trip is known from the last connection, the greeting
 * gets the rounds that it needs.  Where no broker answered yet, a connection that somebody accepted
 * gets several beats: it is not cut. */
int64_t session_patience_ns(const struct session *session, int64_t period_ns)
{
    bool is_alone = session->options.endpoints <= 1;
    uint32_t endpoints = is_alone ? 1 : session->options.endpoints;
    int64_t most_ns = ns_of_ms(session->options.lost_after_ms) / (is_alone ? 1 : 2 * endpoints);
    uint32_t tries = session->given_up / endpoints;
    for (uint32_t i = SESSION_TRIES_PROMPT; i <= tries && period_ns < most_ns; i++)
        period_ns = earlier_ns(2 * period_ns, most_ns);
    return period_ns;
}

int64_t session_greet_ns(const struct session *session)
{
    int64_t beat_ns = ns_of_ms(session->options.heartbeat_ms);
    int64_t rounds_ns = SESSION_GREET_ROUNDS * trip_far_ns(&session->trip);
    if (beat_ns < SESSION_GREET_MIN_NS)
        beat_ns = SESSION_GREET_MIN_NS;
    if (session->is_link_made && !session->is_welcome)
        beat_ns *= SESSION_GREET_ROUNDS;
    return session_patience_ns(session, beat_ns + rounds_ns);
}

void session_link_made(struct session *session)
{
    if (session->phase != PHASE_GREET || session->is_link_made)
        return;
    session->is_link_made = true;
    int64_t until_ns = later_ns(session->attempt_ns, session_greet_ns(session));
    if (session->step_ns < until_ns)
        session->step_ns = until_ns;
}

int64_t session_silence_ns(const struct session *session)
{
    return 2 * ns_of_ms(session->options.heartbeat_ms) + SESSION_SILENCE_NS;
}

/* ---- the end --------------------------------------------------------------------------------- */

void session_finish(struct session *session, enum wire_code code, struct span error)
{
    if (session->phase == PHASE_OVER)
        return;
    (void)once_end(&session->once, code, error);   /* an earlier cause stands */
    (void)phase_move(&session->phase, PHASE_ENDS); /* every phase allows it */
    session->action = SESSION_DISCONNECT;
    session->stage_bytes = 0;
    session->news.is_state = true;
    if (code == CODE_EFENCED)
        session_refuse_unaccepted(session);
}

void session_denied(struct session *session, struct span message)
{
    uint8_t error[SESSION_ERROR_BYTES];
    session_finish(session, CODE_EDENIED,
                   session_error_make(session, ERROR_LOCAL, span_text(ERROR_TYPE_NOT_AUTHORISED),
                                      message, error));
}

void session_break(struct session *session, const char *what)
{
    uint8_t error[SESSION_ERROR_BYTES];
    session_finish(session, CODE_EPROTO,
                   session_error_make(session, ERROR_LOCAL, span_text(ERROR_TYPE_PROTOCOL),
                                      span_text(what), error));
}

/* ---- connections ----------------------------------------------------------------------------- */

void session_dial(struct session *session)
{
    must(phase_move(&session->phase, PHASE_DIALS));
    if (session->is_hello_sent && session->token == 0)
        session->held_name_ns = later_ns(session->now_ns, ns_of_ms(session->options.lost_after_ms) +
                                                              ns_of_ms(session->options.grace_ms));
    session->is_hello_sent = false;
    session->is_hello_due = true;
    session->stage_bytes = 0;
    session->action = SESSION_CONNECT_CONTROL;
    session->dials += 1;
    session->attempt_ns = session->now_ns;
    session->is_link_made = false;
    session->heard_ns = session->now_ns;
    session->step_ns = later_ns(session->now_ns, session_greet_ns(session));
    session->news.is_state = true;
}

/* Who is sent on by a broker asks that one with each round, so it takes its time. */
static int64_t longest_backoff_ns(const struct session *session)
{
    int64_t beat_ns = ns_of_ms(session->options.heartbeat_ms);
    bool is_hasty = session->options.endpoints > 1 && session->is_welcome && !session->is_sent_on &&
                    session->now_ns - session->alive_ns < SESSION_HASTE_NS;
    return is_hasty ? beat_ns / SESSION_HASTE_PARTS : beat_ns;
}

static int64_t longer_backoff_ns(const struct session *session)
{
    int64_t most_ns = longest_backoff_ns(session);
    return session->backoff_ns < most_ns / 2 ? session->backoff_ns * 2 : most_ns;
}

/* The back-off behind a connection that was up.  A client with a short grace takes less time. */
void session_restart_backoff(struct session *session)
{
    int64_t backoff_ns = ns_of_ms(session->options.grace_ms) / SESSION_GRACE_PARTS;
    if (backoff_ns < SESSION_BACKOFF_MIN_NS)
        backoff_ns = SESSION_BACKOFF_MIN_NS;
    if (backoff_ns > SESSION_BACKOFF_LOST_NS)
        backoff_ns = SESSION_BACKOFF_LOST_NS;
    session->backoff_ns = earlier_ns(backoff_ns, longest_backoff_ns(session));
}

/* A time below that.  When a broker ends, all of its clients lose their connections at the same
 * moment.  If they all dialled at the same moments, too, they would take the processors of their
 * machines from everybody else, and would come to the next broker at once.  The time depends on the
 * client's id and its dials alone, so a simulation repeats it. */
static int64_t drawn_ns(const struct session *session, int64_t below_ns)
{
    uint64_t drawn = mix_bits(session->options.client + session->dials);
    return (int64_t)(drawn % (uint64_t)below_ns);
}

/* Whether a connection that was up ends, and not because its broker is silent, or stops.  Then the
 * broker may be well, and what broke is the connection.  The broker counts our grace by now, so the
 * next connection goes to the same endpoint.  Another endpoint may be a machine that is off, whose
 * silence takes all of our grace.  If this broker has ended, its machine refuses us at once. */
static bool is_broker_likely_there(const struct session *session)
{
    int64_t silent_ns = later_ns(session->heard_ns, session_silence_ns(session));
    return session->phase == PHASE_UP && !session->is_bye_said && session->now_ns < silent_ns;
}

static void lose_link_until(struct session *session, int64_t retry_ns)
{
    if (session->phase == PHASE_OVER || session->phase == PHASE_WAIT)
        return;
    session->is_again = is_broker_likely_there(session);
    session->stage_bytes = 0;
    if (session->part != NULL)
        spares_give(&session->spares, &session->part);
    session->retry_ns = retry_ns;
    if (session->phase != PHASE_UP)
        session->backoff_ns = longer_backoff_ns(session);
    session->hops = 0;
    (void)phase_move(&session->phase, PHASE_CLOSES); /* the phase is not OVER: see above */
    session->action = SESSION_NOTHING;
    session->news.is_state = true;
    if (session->retry_ns <= session->now_ns)
        session_dial(session);
}

/* Behind an attempt at the same endpoint the next one is tried at once. */
void session_lose_link(struct session *session)
{
    int64_t pause_ns = session->backoff_ns - drawn_ns(session, session->backoff_ns / 2);
    bool is_at_once =
        session->is_again && session->phase != PHASE_UP && session->options.endpoints > 1;
    lose_link_until(session,
                    is_at_once ? session->now_ns : later_ns(session->attempt_ns, pause_ns));
}

/* The other side closed the connection, as it may have closed those of all its clients. */
static void lose_closed_link(struct session *session)
{
    if (session->phase == PHASE_UP)
        lose_link_until(session, later_ns(session->now_ns, drawn_ns(session, session->backoff_ns)));
    else
        session_lose_link(session);
}

/* A broker that restarts sends BYE too.  So the session ends only if no broker comes back in time.
 * A BYE from a broker that did not welcome us (at a second endpoint) says nothing about our
 * broker. */
void session_bye(struct session *session)
{
    session->is_bye_said = session->is_bye_said || session->phase != PHASE_GREET;
    lose_closed_link(session);
}

void session_link_closed(struct session *session, int64_t now_ns)
{
    session_see_time(session, now_ns);
    lose_closed_link(session);
}

enum session_action session_action(struct session *session)
{
    enum session_action action = session->action;
    session->action = SESSION_NOTHING;
    return action;
}

bool session_has_action(const struct session *session)
{
    return session->action != SESSION_NOTHING;
}

/* The old link may only be slow, as may this process.  If the old link closed at once, the broker
 * would start our grace before it sees us on the next link. */
bool session_keeps_link(const struct session *session)
{
    return session->token != 0 && !session->is_bye_said && !session->options.is_guard;
}

bool session_dials_again(const struct session *session)
{
    return session->is_again;
}

const char *session_data_endpoint(const struct session *session)
{
    return session->data_endpoint;
}

void session_elsewhere(struct session *session, char out[LIMIT_ENDPOINT_BYTES + 1])
{
    memcpy(out, session->elsewhere, sizeof session->elsewhere);
    session->elsewhere[0] = 0;
}

void session_dialled(struct session *session, struct span endpoint)
{
    must(endpoint.bytes <= LIMIT_ENDPOINT_BYTES);
    memcpy(session->dialled, endpoint.data, endpoint.bytes);
    session->dialled[endpoint.bytes] = 0;
}

void session_data_moved(struct session *session)
{
    session->data_ns = session->now_ns;
}
