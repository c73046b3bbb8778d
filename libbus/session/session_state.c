/* SPDX-License-Identifier: MPL-2.0 */
/* session_state.c -- what can be read of a session: state, numbers, broker time, end, news. */
#include "libbus/session/model.h"
#include "libbus/session/session_disclosure.h"

enum disclosure session_disclosure(const struct session *session)
{
    return disclosure_stricter(session->options.disclosure, session->job_disclosure);
}

enum disclosure session_job_disclosure(const struct session *session)
{
    return session->job_disclosure;
}

struct span session_auditor(const struct session *session)
{
    if (session->options.auditor.bytes > 0)
        return session->options.auditor;
    bool may_see_all = session_disclosure(session) < DISCLOSURE_MESSAGE;
    return span_of(session->job_auditor, may_see_all ? session->job_auditor_bytes : 0);
}

enum session_state session_state(const struct session *session)
{
    if (session->once.code != CODE_OK)
        return SESSION_OVER;
    switch (session->phase) {
    case PHASE_ATTACH: return SESSION_GREETED;
    case PHASE_UP: return SESSION_UP;
    case PHASE_WAIT:
    case PHASE_GREET:
    case PHASE_OVER:
    case PHASE_COUNT: break;
    }
    return SESSION_CONNECTING;
}

uint64_t session_value_bytes_max(const struct session *session)
{
    return session->value_bytes_max;
}

bool session_is_welcome(const struct session *session)
{
    return session->is_welcome;
}

int64_t session_broker_lost_ms(const struct session *session)
{
    int64_t own_ms = session->options.broker_lost_ms;
    return session->patience_ms > own_ms ? session->patience_ms : own_ms;
}

uint32_t session_incarnation(const struct session *session)
{
    return session->incarnation;
}

uint64_t session_token(const struct session *session)
{
    return session->token;
}

uint32_t session_attempt(const struct session *session)
{
    return session->attempt;
}

struct session_run session_run(const struct session *session)
{
    return session->run;
}

uint8_t session_durability(const struct session *session)
{
    return session->durability;
}

int64_t session_broker_ns(const struct session *session, int64_t now_ns, uint64_t *out_uncertainty)
{
    return clock_offset_broker_ns(&session->clock, now_ns, out_uncertainty);
}

struct session_news session_news(struct session *session)
{
    struct session_news news = session->news;
    session->news = (struct session_news){0};
    return news;
}

enum wire_code session_end(const struct session *session, struct buffer **out_error)
{
    if (session->once.code != CODE_OK && out_error != NULL)
        *out_error = session->once.error != NULL ? buffer_ref(session->once.error) : NULL;
    return session->once.code;
}
