/* SPDX-License-Identifier: MPL-2.0 */
/* session_greeting.c -- from HELLO to ATTACHED: what a new connection changes in the session.
 *
 * The outbox and the inbox outlive connections.  For each leaf a rewind function says what a new
 * connection means: what is sent again, and what is dropped because the broker has it. */
#include "libbus/session/session_greeting.h"

#include "libbus/session/model.h"
#include "libbus/session/session_acks.h"
#include "libbus/session/session_connection.h"
#include "libbus/session/session_courier.h"
#include "libbus/session/session_errors.h"
#include "libbus/session/session_member.h"
#include "libbus/session/session_say.h"
#include "libbus/session/session_verdict.h"
#include "libbus/session/session_watch.h"
#include "libbus/session/session_waiting.h"

#include <string.h>

/* How this WELCOME breaks the protocol; NULL: it does not. */
static const char *welcome_complaint(const struct session *session,
                                     const struct msg_welcome *welcome)
{
    bool is_resumed = session->token != 0;
    if (welcome->major != PROTOCOL_MAJOR || welcome->minor > PROTOCOL_MINOR)
        return "the broker welcomed another version of the protocol";
    if (welcome->is_resumed != is_resumed)
        return "the broker welcomed another session than was asked for";
    if (is_resumed && (welcome->token != session->token || welcome->broker != session->broker ||
                       welcome->incarnation != session->incarnation))
        return "the session changed while it was resumed";
    if (welcome->data_number < session->outbox.accepted)
        return "the broker welcomed a session of which it forgot acknowledged frames";
    if (welcome->token == 0 && (!session->is_observer || session->is_courier))
        return "the broker gave no token";
    if (memchr(welcome->data_endpoint.data, 0, welcome->data_endpoint.bytes) != NULL)
        return "the data endpoint is no text";
    if (welcome->auditor.bytes != 0 && welcome->auditor.bytes != LIMIT_KEY_BYTES)
        return "the auditor is not a public key";
    if (is_resumed &&
        !span_equal(welcome->auditor, span_of(session->job_auditor, session->job_auditor_bytes)))
        return "the auditor changed while the session was resumed";
    return NULL;
}

/* Drops what the broker has, and prepares the rest to be sent again.  false: the broker claims more
 * than it was sent. */
static bool rewind_writing(struct session *session, const struct msg_welcome *welcome)
{
    if (!outbox_accept(&session->outbox, welcome->data_number))
        return false;
    outbox_rewind(&session->outbox);
    controls_rewind(&session->controls);
    uploads_rewind(&session->uploads);
    flow_window_restart(&session->flow, 0);
    session_set_windows(session);
    session->data_sent = 0;
    pace_rewind(&session->pace);
    own_topics_rewind(&session->own);
    member_rewind(session);
    waiting_rewind(session);
    session->is_progress_due = session->is_progress_said;
    session->is_chunk_last = false;
    return true;
}

static enum wire_code rewind_reading(struct session *session)
{
    wants_rewind(&session->wants);
    inbox_reconnect(&session->inbox);
    session->data_received = 0;
    session->data_announced = 0;
    session->wants_taken = (struct session_taken){0};
    session->position_at = 0;
    session->lease_at = 0;
    session->is_task_due = true;
    acks_rewind(session);
    return inbox_positions(&session->inbox);
}

/* When the session gives this connection up without ATTACHED. */
static int64_t attach_by_ns(const struct session *session)
{
    int64_t round_ns = session->now_ns - session->hello_ns;
    int64_t beats_ns = 2 * session->options.heartbeat_ms * SESSION_NS_PER_MS;
    return session->now_ns + session_patience_ns(session, beats_ns + SESSION_GREET_MIN_NS +
                                                              SESSION_GREET_ROUNDS * round_ns);
}

/* The greeting's data part: ATTACH.  false: no memory. */
static bool make_attach(struct session *session, const struct msg_welcome *welcome)
{
    struct msg msg = {
        .type = MSG_ATTACH,
        .as.attach = {.token = welcome->token, .connection = welcome->connection},
    };
    size_t bytes = 0;
    if (session->part != NULL)
        spares_give(&session->spares, &session->part);
    session->part = spares_take(&session->spares, SESSION_SPARE_ERROR_BYTES);
    if (session->part == NULL)
        return false;
    if (msg_encode(&msg, session->part->data, session->part->room, &bytes) != WIRE_OK)
        return false;
    session->part->bytes = bytes;
    session->is_attach_part = true;
    return true;
}

static void keep_welcome(struct session *session, const struct msg_welcome *welcome)
{
    session->incarnation = (uint32_t)welcome->incarnation;
    session->attempt = (uint32_t)welcome->attempt;
    session->run = (struct session_run){.incarnations = (uint32_t)welcome->run_incarnations,
                                        .is_continued = welcome->is_continued != 0,
                                        .rest_ns = welcome->rest_ns};
    session->value_bytes_max = welcome->value_bytes_max;
    session->inbox.value_bytes_max = welcome->value_bytes_max;
    session->broker = welcome->broker;
    session->patience_ms = (int64_t)welcome->patience_ms;
    session->is_bye_said = false;
    session->tap.event_next = welcome->event_next;
    session_set_durability(session, welcome->durability);
    verdict_rewind(session);
    session->is_job_created = welcome->is_created != 0;
    session->job_disclosure = (enum disclosure)welcome->disclosure;
    memcpy(session->job_auditor, welcome->auditor.data, welcome->auditor.bytes);
    session->job_auditor_bytes = welcome->auditor.bytes;
    memcpy(session->welcomed, session->dialled, sizeof session->welcomed);
    memcpy(session->data_endpoint, welcome->data_endpoint.data, welcome->data_endpoint.bytes);
    session->data_endpoint[welcome->data_endpoint.bytes] = 0;
    clock_offset_sample(&session->clock, session->hello_ns, welcome->broker_ns, session->now_ns);
    session->echo_broker_ns = 0;
    session->beat_ns = session->now_ns + session->options.heartbeat_ms * SESSION_NS_PER_MS;
    session->trip = (struct trip){0};
    session->is_trip_due = false;
    if (session->now_ns - session->hello_ns < TRIP_NEAR_NS) /* it may have waited for a journal */
        trip_see(&session->trip, session->now_ns - session->hello_ns);
}

static void stand(struct session *session)
{
    (void)phase_move(&session->phase, PHASE_ATTACHED); /* the callers checked the phase */
    session->is_welcome = true;
    session->is_sent_on = false;
    session->hops = 0;
    session->given_up = 0;
    session->alive_ns = session->now_ns;
    session_restart_backoff(session);
    session->beat_ns = session->now_ns;
    session->news.is_state = true;
    session->news.is_accepted = true; /* WELCOME may have reached marks */
    session->news.is_credit = true;
}

/* A courier is an observer with a data channel.  It is up when both channels are. */
static void welcome_courier(struct session *session, const struct msg_welcome *welcome)
{
    courier_rewind(session);
    keep_welcome(session, welcome);
    session->step_ns = attach_by_ns(session);
    if (!make_attach(session, welcome)) {
        session_lose_link(session);
        return;
    }
    (void)phase_move(&session->phase, PHASE_WELCOMED); /* is_expected() checked the phase */
    session->action = SESSION_CONNECT_DATA;
    session->news.is_state = true;
}

static void welcome_observer(struct session *session, const struct msg_welcome *welcome)
{
    if (session->is_courier) {
        welcome_courier(session, welcome);
        return;
    }
    watch_rewind(session, welcome);
    keep_welcome(session, welcome);
    (void)phase_move(&session->phase, PHASE_WELCOMED); /* is_expected() checked the phase */
    stand(session);
}

/* A guard has a control channel alone.  It reads nothing, and its messages wait for no data. */
static void welcome_guard(struct session *session)
{
    (void)phase_move(&session->phase, PHASE_WELCOMED); /* is_expected() checked the phase */
    session->is_ready_due = true;
    session->news.is_state = true;
}

/* A broker refuses this itself, but the key is what the auditor told us, whatever the broker says.
 * true: the session is over. */
static bool refuses_auditor(struct session *session, const struct msg_welcome *welcome)
{
    struct span own = session->options.auditor;
    const char *type = NULL;
    const char *why = NULL;
    if (welcome->auditor.bytes == 0)
        return false;
    if (!session->options.can_seal) {
        type = ERROR_TYPE_CANNOT_SEAL;
        why = "traces of this job are sealed to an auditor, and this client was built without "
              "libsodium: install libsodium-dev and build it again";
    } else if (own.bytes > 0 && !span_equal(own, welcome->auditor)) {
        type = ERROR_TYPE_OTHER_AUDITOR;
        why = "the broker names another auditor than this party does: ask the auditor which key "
              "is theirs";
    }
    if (type == NULL)
        return false;
    uint8_t error[SESSION_ERROR_BYTES];
    session_finish(
        session, CODE_EDENIED,
        session_error_make(session, ERROR_REJECTED, span_text(type), span_text(why), error));
    return true;
}

void greeting_welcome_in(struct session *session, const struct msg_welcome *welcome)
{
    const char *complaint = welcome_complaint(session, welcome);
    if (complaint != NULL) {
        session_break(session, complaint);
        return;
    }
    if (session->is_observer) {
        welcome_observer(session, welcome);
        return;
    }
    if (refuses_auditor(session, welcome))
        return;
    keep_welcome(session, welcome);
    if (session->token == 0) {
        session->error_count = welcome->errors_from / 2; /* each error of ours takes two numbers */
        session->own.next_number = (uint32_t)welcome->own_numbers;
        session->own.numbers_left = welcome->own_numbers != 0 ? LIMIT_OWN_NUMBERS : 0;
    }
    session->token = welcome->token;
    session->step_ns = attach_by_ns(session);
    if (!rewind_writing(session, welcome)) {
        session_break(session, "the broker has more of the outbox than was sent");
        return;
    }
    if (session->options.is_guard) {
        welcome_guard(session);
        return;
    }
    enum wire_code code = rewind_reading(session);
    if (code == CODE_EPROTO) {
        session_break(session, "a batch is not well formed");
        return;
    }
    if (code != CODE_OK || !make_attach(session, welcome)) {
        session_lose_link(session);
        return;
    }
    (void)phase_move(&session->phase, PHASE_WELCOMED); /* is_expected() checked the phase */
    session->is_ready_due = true;
    session->action = SESSION_CONNECT_DATA;
    session->news.is_state = true;
}

void greeting_attached_in(struct session *session)
{
    if (session->is_ready_due)
        session_break(session, "ATTACHED before READY");
    else
        stand(session);
}

/* An earlier HELLO of ours may have made a session whose WELCOME never came.  The broker keeps our
 * name for it until it is lost. */
static bool is_name_held_by_us(const struct session *session, const struct msg_refused *refused)
{
    return session->token == 0 && !session->is_welcome && refused->code == CODE_EDENIED &&
           span_equal(refused->type, span_text(ERROR_TYPE_NAME_TAKEN)) &&
           session->now_ns < session->held_name_ns;
}

/* Whether the broker refuses us because we have left: only the answer to our LEAVE was lost.  If
 * the broker had lost us before the LEAVE came, everything that it had accepted still holds. */
static bool is_gone_as_asked(const struct session *session, const struct msg_refused *refused)
{
    const struct controls *controls = &session->controls;
    return session->is_leaving && refused->code == CODE_EFENCED &&
           span_equal(refused->type, span_text(ERROR_TYPE_FENCED)) &&
           controls->sent_ever == controls->last && controls->accepted + 1 == controls->last &&
           session->outbox.accepted == session->outbox.last &&
           session_uploads_under_way(session) == 0;
}

static void finish_refused(struct session *session, const struct msg_refused *refused)
{
    uint8_t error[SESSION_ERROR_BYTES];
    session_finish(session, (enum wire_code)refused->code,
                   session_error_make(
                       session, refused->code == CODE_ELOST ? ERROR_BROKER_LOST : ERROR_REJECTED,
                       refused->type, refused->message, error));
}

static size_t add_text(char *text, size_t at, struct span more)
{
    memcpy(text + at, more.data, more.bytes);
    return at + more.bytes;
}

/* Brokers that send us to each other would do so for ever. */
static void break_circle(struct session *session, struct span endpoint)
{
    static const char begin[] = "one broker after the other sent this client elsewhere: the last "
                                "one, at ";
    static const char middle[] = ", sent it to ";
    static const char end[] = "; see what they have for --advertise-control";
    char text[2 * LIMIT_ENDPOINT_BYTES + sizeof begin + sizeof middle + sizeof end];
    uint8_t error[SESSION_ERROR_BYTES];
    size_t bytes = add_text(text, 0, span_text(begin));
    bytes = add_text(text, bytes, span_text(session->dialled));
    bytes = add_text(text, bytes, span_text(middle));
    bytes = add_text(text, bytes, endpoint);
    bytes = add_text(text, bytes, span_text(end));
    session_finish(session, CODE_EDENIED,
                   session_error_make(session, ERROR_REJECTED, span_text(ERROR_TYPE_ELSEWHERE),
                                      span_of(text, bytes), error));
}

/* Another broker has the job.  The next connection goes there at once; the one behind it goes on
 * with the list, after the back-off, which grows as ever: while nobody is there, the broker that
 * says so is not asked more often than any other.  Where no broker has said where it is, one will:
 * the list is tried again. */
static void go_elsewhere(struct session *session, struct span endpoint)
{
    uint32_t hops = session->hops + 1;
    session->is_sent_on = true;
    if (endpoint.bytes == 0 || memchr(endpoint.data, 0, endpoint.bytes) != NULL) {
        session_lose_link(session);
        return;
    }
    if (hops >= SESSION_HOPS_MAX) {
        break_circle(session, endpoint);
        return;
    }
    int64_t backoff_ns = session->backoff_ns;
    session->backoff_ns = SESSION_BACKOFF_MIN_NS;
    session_lose_link(session);
    session->backoff_ns = backoff_ns;
    memcpy(session->elsewhere, endpoint.data, endpoint.bytes);
    session->elsewhere[endpoint.bytes] = 0;
    session->hops = hops;
}

void greeting_refused_in(struct session *session, const struct msg_refused *refused)
{
    if (!code_is_error(refused->code)) {
        session_break(session, "refused without a reason");
        return;
    }
    session->is_hello_sent = false; /* the broker made no session of it */
    if (span_equal(refused->type, span_text(ERROR_TYPE_ELSEWHERE))) {
        go_elsewhere(session, refused->endpoint);
        return;
    }
    /* ERROR_TYPE_JOB_ENDING: the attempt is just ending, and another may follow.
     * ERROR_TYPE_WRONG_CHANNEL, once a broker welcomed this session: another endpoint is right. */
    bool is_passing =
        (session->is_welcome && (refused->code == CODE_EFULL ||
                                 span_equal(refused->type, span_text(ERROR_TYPE_WRONG_CHANNEL)))) ||
        span_equal(refused->type, span_text(ERROR_TYPE_JOB_ENDING));
    if (is_name_held_by_us(session, refused) || is_passing) {
        session_lose_link(session);
        return;
    }
    if (is_gone_as_asked(session, refused)) {
        session->is_let_go = true;
        session_finish(session, CODE_ECLOSED, SPAN_NONE);
        return;
    }
    finish_refused(session, refused);
}

void greeting_data_refused_in(struct session *session, const struct msg_refused *refused)
{
    if (!code_is_error(refused->code))
        session_break(session, "refused without a reason");
    else if (session->is_welcome)
        session_lose_link(session); /* it has been up: another endpoint is right */
    else
        finish_refused(session, refused);
}
