/* SPDX-License-Identifier: MPL-2.0 */
/* session.c -- making a session, its connections, time, and how it ends; see session.h.
 *
 * A connection is greeted (PHASE_GREET), attached (PHASE_ATTACH) and up.  Whatever goes wrong with
 * it, and silence of two beats, ends in the same way: another one, not sooner than the back-off
 * after the last was begun.  The outbox and the inbox outlive connections; the rewind functions
 * say for each leaf what a new one means. */
#include "libbus/session/session_internal.h"

#include "libbus/base/must.h"
#include "libbus/base/pattern.h"

#include <string.h>

/* What is said about a lost broker, beside its endpoint. */
enum { LOST_TEXT_BYTES = 100 };

/* ---- periods -------------------------------------------------------------------------------- */

static int64_t ms(int64_t period_ms)
{
    return period_ms * SESSION_NS_PER_MS;
}

static int64_t earlier(int64_t a_ns, int64_t b_ns)
{
    return a_ns < b_ns ? a_ns : b_ns;
}

static int64_t later(int64_t now_ns, int64_t period_ns)
{
    return now_ns > INT64_MAX - period_ns ? INT64_MAX : now_ns + period_ns;
}

/* TCP may need twice the length of a cut to find that it is mended, so a fresh connection is tried
 * soon.  But a link can be so slow that no answer comes in that time: the distance alone makes four
 * round trips of a greeting.  Whoever gave up too often waits twice as long with each try; TCP asks
 * again within it, first after a second (RFC 6298, 2.1). */
int64_t session_patience_ns(const struct session *session, int64_t period_ns)
{
    int64_t most_ns = ms(session->options.lost_after_ms);
    for (uint32_t i = SESSION_TRIES_PROMPT; i <= session->given_up && period_ns < most_ns; i++)
        period_ns = earlier(2 * period_ns, most_ns);
    return period_ns;
}

static int64_t greet_ns(const struct session *session)
{
    int64_t beat_ns = ms(session->options.heartbeat_ms);
    return session_patience_ns(session,
                               beat_ns > SESSION_GREET_MIN_NS ? beat_ns : SESSION_GREET_MIN_NS);
}

static int64_t silence_ns(const struct session *session)
{
    return 2 * ms(session->options.heartbeat_ms) + SESSION_SILENCE_NS;
}

/* ---- life ------------------------------------------------------------------------------------ */

static struct span keep_text(struct session *session, struct span text, size_t *at)
{
    if (text.bytes > 0)
        memcpy(session->texts + *at, text.data, text.bytes);
    struct span kept = span_of(session->texts + *at, text.bytes);
    *at += text.bytes;
    return kept;
}

/* A broker answers beats, and may have nothing else to say: whoever beat more seldom than it loses
 * patience would take one that is well for lost.  Two beats missed, there is time for another link
 * before that. */
static int64_t own_heartbeat_ms(const struct session_options *options)
{
    int64_t most_ms = options->broker_lost_ms / 4;
    if (most_ms < LIMIT_HEARTBEAT_MS_MIN)
        most_ms = LIMIT_HEARTBEAT_MS_MIN;
    return options->heartbeat_ms < most_ms ? options->heartbeat_ms : most_ms;
}

static bool keep_options(struct session *session, const struct session_options *options)
{
    session->options = *options;
    session->options.heartbeat_ms = own_heartbeat_ms(options);
    session->text_bytes = options->job.bytes + options->party.bytes + options->library.bytes +
                          options->host.bytes + 1;
    session->texts = memory_take(session->memory, session->text_bytes);
    if (session->texts == NULL)
        return false;
    size_t at = 0;
    session->options.job = keep_text(session, options->job, &at);
    session->options.party = keep_text(session, options->party, &at);
    session->options.library = keep_text(session, options->library, &at);
    session->options.host = keep_text(session, options->host, &at);
    pace_init(&session->pace, options->chunk_bytes_max);
    return true;
}

static void init_leaves(struct session *session)
{
    struct memory *memory = session->memory;
    outbox_init(&session->outbox, memory, &session->spares);
    uploads_init(&session->uploads, memory);
    controls_init(&session->controls, memory);
    own_topics_init(&session->own, memory);
    results_init(&session->results, memory);
    known_topics_init(&session->known, memory);
    wants_init(&session->wants, memory);
    inbox_init(&session->inbox, memory, &session->known);
    leases_init(&session->leases, memory);
    rows_init(&session->tap.rows, memory, LIMIT_TAP_WINDOW);
    verdict_rows_init(session);
    rows_init(&session->question.rows, memory, LIMIT_CONTROL_QUEUE);
    list_init(&session->sub_news);
    list_init(&session->talk);
    list_init(&session->acking);
    list_init(&session->closing);
}

/* What must not fail later. */
static bool reserve(struct session *session)
{
    session->stage = memory_take(session->memory, LIMIT_CONTROL_BYTES);
    session->scratch = memory_take(session->memory, SESSION_SCRATCH_BYTES);
    session->spare_leave = control_new(session->memory, OWN_SLOT_SPARE_BYTES);
    session->spare_fail = control_new(session->memory, OWN_SLOT_SPARE_BYTES);
    session->spare_error_bytes = session_error_spare(session->spare_error);
    bool has_once =
        once_init(&session->once, span_of(session->spare_error, session->spare_error_bytes));
    return has_once && session->stage != NULL && session->scratch != NULL &&
           session->spare_leave != NULL && session->spare_fail != NULL;
}

enum wire_code session_new(struct memory *memory, const struct session_options *options,
                           int64_t now_ns, struct session **out_session)
{
    must(options->party.bytes == 0 || party_is_valid(options->party));
    must((options->party.bytes == 0 && options->job.bytes == 0) || party_is_valid(options->job));
    must(options->heartbeat_ms >= LIMIT_HEARTBEAT_MS_MIN);
    must(options->heartbeat_ms <= LIMIT_PERIOD_MS_MAX);
    must(options->broker_lost_ms <= LIMIT_PERIOD_MS_MAX);
    must(!options->is_courier || options->party.bytes == 0);
    struct session *session = memory_take(memory, sizeof *session);
    if (session == NULL)
        return CODE_ENOMEM;
    session->memory = memory;
    init_leaves(session);
    if (!keep_options(session, options) || !reserve(session)) {
        session_free(&session);
        return CODE_ENOMEM;
    }
    session->is_observer = options->party.bytes == 0;
    session->is_courier = options->is_courier;
    session->phase = PHASE_WAIT;
    session->now_ns = now_ns;
    session->backoff_ns = SESSION_BACKOFF_MIN_NS;
    session->data_stall_ns = silence_ns(session);
    session->inflow_stall_ns = ms(options->lost_after_ms) / 2;
    session_dial(session);
    *out_session = session;
    return CODE_OK;
}

void session_free(struct session **out_session)
{
    struct session *session = *out_session;
    *out_session = NULL;
    if (session == NULL)
        return;
    struct memory *memory = session->memory;
    leases_fini(&session->leases);
    inbox_fini(&session->inbox);
    wants_fini(&session->wants);
    known_topics_fini(&session->known);
    results_fini(&session->results);
    refused_fini(&session->refused);
    own_topics_fini(&session->own);
    controls_fini(&session->controls);
    uploads_fini(&session->uploads);
    outbox_fini(&session->outbox);
    rows_fini(&session->tap.rows);
    verdict_rows_fini(session);
    rows_fini(&session->question.rows);
    member_fini(session);
    courier_fini(session);
    buffer_unref(&session->part);
    spares_fini(&session->spares);
    once_fini(&session->once);
    control_free(memory, &session->spare_leave);
    control_free(memory, &session->spare_fail);
    memory_give(memory, session->stage, LIMIT_CONTROL_BYTES);
    memory_give(memory, session->scratch, SESSION_SCRATCH_BYTES);
    memory_give(memory, session->texts, session->text_bytes);
    memory_give(memory, session, sizeof *session);
}

enum disclosure session_disclosure(const struct session *session)
{
    return disclosure_stricter(session->options.disclosure, session->job_disclosure);
}

enum disclosure session_job_disclosure(const struct session *session)
{
    return session->job_disclosure;
}

enum session_state session_state(const struct session *session)
{
    if (session->once.code != CODE_OK)
        return SESSION_OVER;
    switch (session->phase) {
    case PHASE_ATTACH: return SESSION_GREETED;
    case PHASE_UP: return SESSION_UP;
    default: return SESSION_CONNECTING;
    }
}

bool session_is_welcome(const struct session *session)
{
    return session->is_welcome;
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

/* ---- the end --------------------------------------------------------------------------------- */

enum wire_code session_end(const struct session *session, struct buffer **out_error)
{
    if (session->once.code != CODE_OK && out_error != NULL)
        *out_error = session->once.error != NULL ? buffer_ref(session->once.error) : NULL;
    return session->once.code;
}

void session_finish(struct session *session, enum wire_code code, struct span error)
{
    if (session->phase == PHASE_OVER)
        return;
    (void)once_end(&session->once, code, error);   /* a cause that came before stands */
    (void)phase_move(&session->phase, PHASE_ENDS); /* from everywhere */
    session->action = SESSION_DISCONNECT;
    session->stage_bytes = 0;
    session->news.is_state = true;
    if (code == CODE_EFENCED)
        session_refuse_unaccepted(session);
}

void session_break(struct session *session, const char *what)
{
    uint8_t error[SESSION_ERROR_BYTES];
    session_finish(session, CODE_EPROTO,
                   session_error_make(session, ERROR_LOCAL, span_text(ERROR_TYPE_PROTOCOL),
                                      span_text(what), error));
}

static size_t add(char *text, size_t at, const char *more)
{
    size_t bytes = strlen(more);
    memcpy(text + at, more, bytes);
    return at + bytes;
}

/* before, the endpoint of the broker that welcomed us last, after. */
static void end_lost(struct session *session, const char *type, const char *before,
                     const char *after)
{
    uint8_t error[SESSION_ERROR_BYTES];
    char text[LIMIT_ENDPOINT_BYTES + LOST_TEXT_BYTES];
    must(strlen(before) + strlen(after) + sizeof " at " <= LOST_TEXT_BYTES);
    size_t bytes = add(text, 0, before);
    if (*session->welcomed != 0) {
        bytes = add(text, bytes, " at ");
        bytes = add(text, bytes, session->welcomed);
    }
    bytes = add(text, bytes, after);
    session_finish(session, CODE_ELOST,
                   session_error_make(session, ERROR_BROKER_LOST, span_text(type),
                                      span_of(text, bytes), error));
}

static void lose_broker(struct session *session)
{
    if (session->is_bye_said)
        end_lost(session, ERROR_TYPE_BROKER_STOPPED, "the broker",
                 " stopped in good order and did not come back within broker_lost_ms");
    else
        end_lost(session, ERROR_TYPE_BROKER_LOST, "no word from the broker", " for broker_lost_ms");
}

/* ---- connections ----------------------------------------------------------------------------- */

void session_dial(struct session *session)
{
    must(phase_move(&session->phase, PHASE_DIALS));
    if (session->is_hello_sent && session->token == 0)
        session->ghost_ns = later(session->now_ns, ms(session->options.lost_after_ms) +
                                                       ms(session->options.grace_ms));
    session->is_hello_sent = false;
    session->is_hello_due = true;
    session->stage_bytes = 0;
    session->action = SESSION_CONNECT_CONTROL;
    session->dials += 1;
    session->attempt_ns = session->now_ns;
    session->heard_ns = session->now_ns;
    session->step_ns = later(session->now_ns, greet_ns(session));
    session->news.is_state = true;
}

static int64_t longer_backoff_ns(const struct session *session)
{
    int64_t most_ns = ms(session->options.heartbeat_ms);
    return session->backoff_ns < most_ns / 2 ? session->backoff_ns * 2 : most_ns;
}

void session_lose_link(struct session *session)
{
    if (session->phase == PHASE_OVER || session->phase == PHASE_WAIT)
        return;
    session->stage_bytes = 0;
    if (session->part != NULL)
        spares_give(&session->spares, &session->part);
    session->retry_ns = later(session->attempt_ns, session->backoff_ns);
    if (session->phase != PHASE_UP)
        session->backoff_ns = longer_backoff_ns(session);
    (void)phase_move(&session->phase, PHASE_CLOSES); /* OVER was seen above */
    session->action = SESSION_NOTHING;
    session->news.is_state = true;
    if (session->retry_ns <= session->now_ns)
        session_dial(session);
}

/* A broker that is being restarted says so too: the session is over only when none comes back in
 * time.  From a broker that did not welcome us (a second endpoint) it says nothing about ours. */
void session_bye(struct session *session)
{
    session->is_bye_said = session->is_bye_said || session->phase != PHASE_GREET;
    session_lose_link(session);
}

void session_link_closed(struct session *session, int64_t now_ns)
{
    session_see_time(session, now_ns);
    session_lose_link(session);
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

/* We may be wrong about a link: it may be slow, or we are.  The broker would take its closing for
 * ours, and begin to count our grace before it has seen us on the next one. */
bool session_keeps_link(const struct session *session)
{
    return session->token != 0 && !session->is_bye_said && !session->options.is_guard;
}

const char *session_data_endpoint(const struct session *session)
{
    return session->data_endpoint;
}

void session_dialled(struct session *session, struct span endpoint)
{
    must(endpoint.bytes <= LIMIT_ENDPOINT_BYTES);
    memcpy(session->dialled, endpoint.data, endpoint.bytes);
    session->dialled[endpoint.bytes] = 0;
}

/* ---- time ------------------------------------------------------------------------------------ */

static int64_t lost_ns(const struct session *session)
{
    if (!session->is_welcome)
        return INT64_MAX;
    return later(session->alive_ns, ms(session->options.broker_lost_ms));
}

bool session_has_data_under_way(const struct session *session)
{
    return session->outbox.sent > session->outbox.accepted || session->uploads.under_way > 0 ||
           session->courier.bring.sent > session->courier.bring.kept;
}

void session_data_moved(struct session *session)
{
    session->data_ns = session->now_ns;
}

/* The data channel has no beats of its own.  It is taken for dead when nothing of what was sent is
 * accepted for as long as the broker may be silent; that grows each time, for a link may be so slow
 * that one part takes longer. */
static int64_t data_deadline_ns(const struct session *session)
{
    if (session->phase != PHASE_UP || !session_has_data_under_way(session))
        return INT64_MAX;
    return later(session->data_ns, session->data_stall_ns);
}

/* Towards us, what the broker says it sent tells the same. */
static int64_t inflow_deadline_ns(const struct session *session)
{
    if (session->phase != PHASE_UP || !session_is_behind(session))
        return INT64_MAX;
    return later(session->inflow_ns, session->inflow_stall_ns);
}

static void lose_data(struct session *session, int64_t *stall_ns)
{
    int64_t most_ns = ms(session->options.broker_lost_ms);
    if (*stall_ns < most_ns)
        *stall_ns = earlier(2 * *stall_ns, most_ns);
    session_lose_link(session);
}

static void lose_written(struct session *session)
{
    pace_stalled(&session->pace);
    lose_data(session, &session->data_stall_ns);
}

/* It was us who stood still for so long (stopped, asleep, waiting for a processor), and nobody else
 * is blamed for it.  We did not beat, so nobody answered, and what came all the same may lie in the
 * link: the link gets its whole time again.  Of the broker's time the standstill is not counted: it
 * may be there and say that we are fenced. */
static void forgive(struct session *session, int64_t late_ns)
{
    int64_t now_ns = session->now_ns;
    session->alive_ns = earlier(now_ns, later(session->alive_ns, late_ns));
    session->heard_ns = now_ns;
    session->data_ns = now_ns;
    session->inflow_ns = now_ns;
    if (session->phase == PHASE_GREET || session->phase == PHASE_ATTACH)
        session->step_ns = later(now_ns, greet_ns(session));
}

/* No answer came in the time that this connection had. */
static void give_up(struct session *session)
{
    session->given_up += session->given_up < UINT32_MAX;
    session_lose_link(session);
}

void session_tick(struct session *session, int64_t now_ns)
{
    int64_t deadline_ns = session_deadline_ns(session);
    session_see_time(session, now_ns);
    if (deadline_ns < now_ns - SESSION_LATE_NS)
        forgive(session, now_ns - deadline_ns);
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
            give_up(session);
        break;
    case PHASE_UP:
        if (now_ns >= later(session->heard_ns, silence_ns(session)))
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
    int64_t deadline_ns = lost_ns(session);
    int64_t step_ns = INT64_MAX;
    int64_t silent_ns = later(session->heard_ns, silence_ns(session));
    switch (session->phase) {
    case PHASE_WAIT: step_ns = session->retry_ns; break;
    case PHASE_GREET:
    case PHASE_ATTACH: step_ns = session->step_ns; break;
    case PHASE_UP:
        /* While the link does not take what is staged, no BEAT can go out: nothing to wake for. */
        step_ns = silent_ns;
        if (session->stage_bytes == 0 && session->beat_ns < silent_ns)
            step_ns = session->beat_ns;
        step_ns = earlier(step_ns, data_deadline_ns(session));
        step_ns = earlier(step_ns, inflow_deadline_ns(session));
        break;
    case PHASE_OVER:
    case PHASE_COUNT: return INT64_MAX;
    }
    return step_ns < deadline_ns ? step_ns : deadline_ns;
}
