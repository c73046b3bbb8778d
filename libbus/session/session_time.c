/* SPDX-License-Identifier: MPL-2.0 */
/* session_time.c -- what happens because time passes: retries, silent links, a lost broker. */
#include "libbus/base/must.h"
#include "libbus/session/model.h"
#include "libbus/session/session_connection.h"
#include "libbus/session/session_errors.h"
#include "libbus/session/session_waiting.h"

#include <string.h>

/* The message about a lost broker, without its endpoint. */
enum { LOST_TEXT_BYTES = 128, DIGITS_MAX = 20 };

/* ---- a lost broker --------------------------------------------------------------------------- */

static size_t append_text(char *text, size_t at, const char *more)
{
    size_t bytes = strlen(more);
    memcpy(text + at, more, bytes);
    return at + bytes;
}

/* Appends the number in decimal digits. */
static size_t append_number(char *text, size_t at, uint64_t number)
{
    char digits[DIGITS_MAX];
    size_t count = 0;
    do {
        digits[count++] = (char)('0' + number % 10);
        number /= 10;
    } while (number > 0);
    while (count > 0)
        text[at++] = digits[--count];
    return at;
}

/* Ends the session.  The message is: before, the endpoint of the broker that welcomed us last,
 * after, and how long the broker was away. */
static void end_lost(struct session *session, const char *type, const char *before,
                     const char *after)
{
    uint8_t error[SESSION_ERROR_BYTES];
    char text[LIMIT_ENDPOINT_BYTES + LOST_TEXT_BYTES];
    must(strlen(before) + strlen(after) + sizeof " at  ms" + DIGITS_MAX <= LOST_TEXT_BYTES);
    size_t bytes = append_text(text, 0, before);
    if (*session->welcomed != 0) {
        bytes = append_text(text, bytes, " at ");
        bytes = append_text(text, bytes, session->welcomed);
    }
    bytes = append_text(text, bytes, after);
    bytes = append_number(text, bytes, (uint64_t)session_broker_lost_ms(session));
    bytes = append_text(text, bytes, " ms");
    session_finish(session, CODE_ELOST,
                   session_error_make(session, ERROR_BROKER_LOST, span_text(type),
                                      span_of(text, bytes), error));
}

static void lose_broker(struct session *session)
{
    if (session->is_bye_said)
        end_lost(session, ERROR_TYPE_BROKER_STOPPED, "the broker",
                 " stopped in good order and did not come back within ");
    else
        end_lost(session, ERROR_TYPE_BROKER_LOST, "no word from the broker", " for ");
}

/* ---- deadlines ------------------------------------------------------------------------------- */

static int64_t lost_ns(const struct session *session)
{
    if (!session->is_welcome)
        return INT64_MAX;
    return later_ns(session->alive_ns, ns_of_ms(session_broker_lost_ms(session)));
}

bool session_has_data_under_way(const struct session *session)
{
    return session->outbox.sent > session->outbox.accepted || session->uploads.under_way > 0 ||
           session->courier.bring.sent > session->courier.bring.kept;
}

/* The data channel has no beats of its own.  It counts as dead when the broker accepts nothing of
 * what was sent for as long as the broker may be silent.  That time doubles with each such loss: on
 * a slow link one part may take longer. */
static int64_t data_deadline_ns(const struct session *session)
{
    if (session->phase != PHASE_UP || !session_has_data_under_way(session))
        return INT64_MAX;
    return later_ns(session->data_ns, session->data_stall_ns);
}

/* The same for what comes from the broker: each ECHO says how much the broker sent. */
static int64_t inflow_deadline_ns(const struct session *session)
{
    if (session->phase != PHASE_UP || !session_is_behind(session))
        return INT64_MAX;
    return later_ns(session->inflow_ns, session->inflow_stall_ns);
}

static void lose_data(struct session *session, int64_t *stall_ns)
{
    int64_t most_ns = ns_of_ms(session->options.broker_lost_ms);
    if (*stall_ns < most_ns)
        *stall_ns = earlier_ns(2 * *stall_ns, most_ns);
    session_lose_link(session);
}

static void lose_written(struct session *session)
{
    pace_stalled(&session->pace);
    lose_data(session, &session->data_stall_ns);
}

/* This process stood still for late_ns: stopped, suspended, or without a processor.  That is not
 * the broker's fault.  We sent no beats, so no echoes came, and other messages may still lie in the
 * link.  So the link gets its whole time again.  For broker_lost_ms the standstill does not count:
 * the broker may be there, and tell us that we are fenced. */
static void extend_deadlines(struct session *session, int64_t late_ns)
{
    int64_t now_ns = session->now_ns;
    session->alive_ns = earlier_ns(now_ns, later_ns(session->alive_ns, late_ns));
    session->heard_ns = now_ns;
    session->data_ns = now_ns;
    session->inflow_ns = now_ns;
    if (session->phase == PHASE_GREET || session->phase == PHASE_ATTACH)
        session->step_ns = later_ns(now_ns, session_greet_ns(session));
}

/* The connection got no answer in its time. */
static void give_up_greeting(struct session *session)
{
    session->given_up += session->given_up < UINT32_MAX;
    session_lose_link(session);
}

/* What a link needs: if it comes late, this process stood still. */
static inline int64_t link_deadline_ns(const struct session *session)
{
    int64_t deadline_ns = lost_ns(session);
    int64_t step_ns = INT64_MAX;
    int64_t silent_ns = later_ns(session->heard_ns, session_silence_ns(session));
    switch (session->phase) {
    case PHASE_WAIT: step_ns = session->retry_ns; break;
    case PHASE_GREET: step_ns = session->step_ns; break;
    case PHASE_ATTACH:
        step_ns = session->step_ns;
        if (session->stage_bytes == 0)
            step_ns = earlier_ns(step_ns, session->beat_ns);
        break;
    case PHASE_UP:
        /* While the link does not take what is staged, no BEAT can go out: nothing to wake for. */
        step_ns = silent_ns;
        if (session->stage_bytes == 0 && session->beat_ns < silent_ns)
            step_ns = session->beat_ns;
        step_ns = earlier_ns(step_ns, data_deadline_ns(session));
        step_ns = earlier_ns(step_ns, inflow_deadline_ns(session));
        break;
    case PHASE_OVER:
    case PHASE_COUNT: return INT64_MAX;
    }
    return step_ns < deadline_ns ? step_ns : deadline_ns;
}

void session_tick(struct session *session, int64_t now_ns)
{
    int64_t deadline_ns = link_deadline_ns(session);
    session_see_time(session, now_ns);
    if (deadline_ns < now_ns - SESSION_LATE_NS)
        extend_deadlines(session, now_ns - deadline_ns);
    if (session->phase != PHASE_OVER && now_ns >= lost_ns(session))
        lose_broker(session);
    switch (session->phase) {
    case PHASE_WAIT:
        if (now_ns >= session->retry_ns)
            session_dial(session);
        break;
    case PHASE_GREET:
    case PHASE_ATTACH:
        if (now_ns >= session->step_ns)
            give_up_greeting(session);
        break;
    case PHASE_UP:
        if (now_ns >= later_ns(session->heard_ns, session_silence_ns(session)))
            session_lose_link(session);
        else if (now_ns >= data_deadline_ns(session))
            lose_written(session);
        else if (now_ns >= inflow_deadline_ns(session))
            lose_data(session, &session->inflow_stall_ns);
        break;
    case PHASE_OVER:
    case PHASE_COUNT: break;
    }
}

int64_t session_deadline_ns(const struct session *session)
{
    int64_t deadline_ns = link_deadline_ns(session);
    if (session->phase == PHASE_UP && session->stage_bytes == 0)
        deadline_ns = earlier_ns(deadline_ns, session->untold_ns);
    bool is_waiting = session->waiting.is_live && session->phase == PHASE_UP;
    return is_waiting ? earlier_ns(deadline_ns, waiting_deadline_ns(session)) : deadline_ns;
}
