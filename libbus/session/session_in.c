/* SPDX-License-Identifier: MPL-2.0 */
/* session_in.c -- one control message from the broker: whether it may come now, and what it
 * changes. */
#include "libbus/session/model.h"
#include "libbus/session/session_acks.h"
#include "libbus/session/session_connection.h"
#include "libbus/session/session_errors.h"
#include "libbus/session/session_courier.h"
#include "libbus/session/session_greeting.h"
#include "libbus/session/session_member.h"
#include "libbus/session/session_read.h"
#include "libbus/session/session_tasks.h"
#include "libbus/session/session_verdict.h"
#include "libbus/session/session_waiting.h"
#include "libbus/session/session_watch.h"

#include "libbus/base/must.h"

/* Whether a message may come in this phase.  WELCOME may wait for the journal, and VERDICT does
 * not: so VERDICT may come first to a client that resumes. */
static bool is_expected(const struct session *session, const struct msg *msg)
{
    enum phase phase = session->phase;
    bool is_in = phase == PHASE_ATTACH || phase == PHASE_UP;
    switch (msg_kind((unsigned)msg->type)->as.to_client.time) {
    case MSG_GREETING: return phase == PHASE_GREET;
    case MSG_ATTACHING: return phase == PHASE_ATTACH;
    case MSG_SESSION: return is_in;
    case MSG_RESUMING: return is_in || (phase == PHASE_GREET && session->token != 0);
    case MSG_ALWAYS: return true;
    }
    must(!"a message that comes at another time");
    return false;
}

/* ---- beats and endings ---------------------------------------------------------------------- */

/* Until it is known whether the link is long, each ECHO is followed by another BEAT; and so is the
 * one that tells. */
static void measure_trip(struct session *session, int64_t ns)
{
    bool was_far = trip_is_far(&session->trip);
    bool was_open = trip_is_open(&session->trip);
    trip_see(&session->trip, ns);
    bool is_far = trip_is_far(&session->trip);
    bool has_data = !session->options.is_guard && (!session->is_observer || session->is_courier);
    if (has_data || session->tap.is_on)
        session->is_trip_due = was_open || is_far != was_far;
    if (!has_data)
        return;
    flow_window_learn(&session->flow, trip_far_ns(&session->trip));
    session_set_windows(session);
}

static void echo_in(struct session *session, const struct msg_echo *echo)
{
    clock_offset_sample(&session->clock, echo->sent_ns, echo->broker_ns, session->now_ns);
    session->echo_broker_ns = echo->broker_ns;
    measure_trip(session, session->now_ns - echo->sent_ns);
    if (!session_is_behind(session))
        session->inflow_ns = session->now_ns;
    if (session->data_announced < echo->data_bytes)
        session->data_announced = echo->data_bytes;
}

static void over_in(struct session *session, const struct msg_over *over)
{
    uint8_t error[SESSION_ERROR_BYTES];
    if (over->code != CODE_EFENCED && over->code != CODE_ELOST && over->code != CODE_ECLOSED &&
        over->code != CODE_EDENIED)
        session_break(session, "over without a reason");
    else if (over->code == CODE_EDENIED && over->error.bytes == 0)
        session_finish(session, CODE_EDENIED,
                       session_error_make(session, ERROR_LOCAL,
                                          span_text(ERROR_TYPE_NOT_AUTHORISED),
                                          span_text("this key may not do that here"), error));
    else
        session_finish(session, (enum wire_code)over->code, over->error);
    session->is_let_go |= session->is_leaving && over->code == CODE_ECLOSED;
}

static void credit_in(struct session *session, const struct msg_credit *credit)
{
    struct own_topic *topic = own_topics_by_number(&session->own, (uint32_t)credit->topic);
    if (topic == NULL)
        return; /* TOPIC_OPENED was lost with a connection; the session asks again */
    if (topic->limit_bytes < credit->limit_bytes)
        topic->limit_bytes = credit->limit_bytes;
    if (credit->batch_bytes > 0)
        topic->batch_bytes =
            credit->batch_bytes < LIMIT_BATCH_BYTES ? credit->batch_bytes : LIMIT_BATCH_BYTES;
    session->news.is_credit = true;
}

static void topic_refused(struct session *session, struct own_topic *topic, uint64_t code)
{
    if (!code_is_error(code)) {
        session_break(session, "a topic was refused without a reason");
        return;
    }
    topic->state = OWN_TOPIC_REFUSED;
    topic->code = (enum wire_code)code;
}

static void topic_opened_in(struct session *session, const struct msg_topic_opened *opened)
{
    struct own_topic *topic = opened->request <= UINT32_MAX
                                  ? own_topics_find(&session->own, (uint32_t)opened->request)
                                  : NULL;
    if (topic == NULL || topic->state == OWN_TOPIC_UNKNOWN || topic->state == OWN_TOPIC_REFUSED) {
        session_break(session, "TOPIC_OPENED for a topic that was not asked for");
        return;
    }
    session->news.is_credit = true;
    topic->is_unanswered = false;
    if (opened->code != CODE_OK) {
        topic_refused(session, topic, opened->code);
        return;
    }
    enum wire_code code = own_topics_number(&session->own, topic, (uint32_t)opened->topic);
    if (code == CODE_EPROTO)
        session_break(session, "two topics with one number");
    if (code == CODE_ENOMEM)
        session_lose_link(session); /* the next connection asks again */
    if (code != CODE_OK)
        return;
    if (topic->state != OWN_TOPIC_OPEN) {
        topic->next_seq = opened->next_seq;
        topic->earlier = (struct session_earlier){.end_seq = opened->first_seq,
                                                  .incarnation = (uint32_t)opened->earlier,
                                                  .first_seq = opened->earlier_seq,
                                                  .ended_ns = opened->ended_ns};
    }
    if (topic->state != OWN_TOPIC_OPEN || topic->is_recount)
        topic->used_bytes = opened->used_bytes;
    topic->is_recount = false;
    topic->state = OWN_TOPIC_OPEN;
    if (topic->limit_bytes < opened->limit_bytes)
        topic->limit_bytes = opened->limit_bytes;
}

/* What was accepted of all that was sent moves the window of uploads. */
static void data_arrived(struct session *session)
{
    uint64_t under_way = session->outbox.under_way + session->uploads.under_way;
    if (!session->flow.round.is_on || under_way > session->data_sent)
        return; /* nothing is timed; or the link is about to take a part */
    flow_window_arrived(&session->flow, session->data_sent - under_way, session->now_ns);
    session_set_windows(session);
}

static void accepted_in(struct session *session, const struct msg_accepted *accepted)
{
    if (accepted->data_number > session->outbox.accepted)
        session_data_moved(session);
    if (!outbox_accept(&session->outbox, accepted->data_number) ||
        !controls_accept(&session->controls, accepted->control_number)) {
        session_break(session, "more was accepted than was sent");
        return;
    }
    data_arrived(session);
    leases_accept(&session->leases, accepted->control_number);
    session_set_durability(session, accepted->durability);
    session->is_ack_due = true;
    session->news.is_accepted = true;
}

static void chunked_in(struct session *session, const struct msg_chunked *chunked)
{
    session_data_moved(session);
    pace_accepted(&session->pace, (uint32_t)chunked->topic, chunked->seq, chunked->bytes,
                  session->now_ns);
    uploads_limit(&session->uploads, (uint32_t)chunked->topic, chunked->seq, chunked->limit_bytes);
    switch (
        uploads_accept(&session->uploads, (uint32_t)chunked->topic, chunked->seq, chunked->bytes)) {
    case UPLOADS_BROKEN: session_break(session, "more of a value was accepted than it has"); break;
    case UPLOADS_DONE:
        session_set_durability(session, chunked->durability);
        session->is_ack_due = true;
        session->is_task_due = true;
        session->news.is_accepted = true;
        break;
    case UPLOADS_GOES_ON:
    case UPLOADS_UNKNOWN: break; /* it was given up meanwhile */
    }
    session->news.is_credit = true; /* the next large value may begin */
    data_arrived(session);
}

static void refusal_in(struct session *session, const struct msg_refusal *refusal)
{
    struct own_topic *topic = own_topics_by_number(&session->own, (uint32_t)refusal->topic);
    if (topic == NULL) {
        session_break(session, "REFUSAL in a topic that is not ours");
        return;
    }
    if (refusal->number != 0 && refusal->number <= session->refusal_number)
        return; /* told on an earlier connection */
    if (refusal->number != 0)
        session->refusal_number = refusal->number;
    uint64_t count = refusal->count > 0 ? refusal->count : 1;
    for (uint64_t seq = refusal->seq; seq - refusal->seq < count; seq++) {
        refused_push(&session->refused, topic->id, seq, refusal->error);
        struct own_slot *slot = own_slot_find(&session->own, topic, seq);
        if (slot != NULL)
            slot->is_failed = true;
    }
    topic->is_doubtful = true;
    session->news.is_refusal = true;
}

static void notice_in(struct session *session, const struct msg_notice *notice)
{
    if (notices_push(&session->notices, notice->about, notice->error))
        session->news.is_notice = true;
}

static void result_in(struct session *session, const struct msg_result *result)
{
    if (result->code != CODE_OK && !code_is_error(result->code)) {
        session_break(session, "RESULT without a known code");
        return;
    }
    controls_answer(&session->controls, result->number);
    if (result->number == session->complete_number && result->code != CODE_OK)
        session->complete_number = 0; /* the party goes on */
    if (results_answer(&session->results, result->number, (enum wire_code)result->code,
                       result->error))
        session->news.is_result = true;
}

static void subscribed_in(struct session *session, const struct msg_subscribed *subscribed)
{
    struct inbox_sub *sub = inbox_sub_find(&session->inbox, (uint32_t)subscribed->sub);
    if (subscribed->sub > session->inbox.last_number ||
        (subscribed->code != CODE_OK && !code_is_error(subscribed->code))) {
        session_break(session, "SUBSCRIBED for nothing");
        return;
    }
    controls_answer(&session->controls, subscribed->number);
    if (sub == NULL || subscribed->code == CODE_OK || sub->code != CODE_OK)
        return;
    sub->code = (enum wire_code)subscribed->code;
    sub->error = subscribed->error.bytes > 0 ? buffer_copy(subscribed->error) : NULL;
    session_sub_notify(session, sub);
    acks_sub_refused(session, sub, subscribed->number);
}

static void wait_over_in(struct session *session, const struct msg_wait_over *msg)
{
    struct inbox_sub *sub = inbox_sub_find(&session->inbox, waiting_over_in(session, msg));
    if (sub != NULL)
        session_sub_notify(session, sub);
}

/* ---- all ------------------------------------------------------------------------------------- */

/* What operators asked for has its cases from the column `part` of messages.def. */
#define CASE_END(type) case type:
#define CASE_ROW_OF(question) CASE_END
#define CASE_ANSWER(type)
#define CASE_PIECE_OF(question) CASE_ANSWER
#define CASE_UNASKED(type)

static void message_in(struct session *session, const struct msg *msg, struct span part)
{
    switch (msg_to_client(msg)) {
    case TO_CLIENT_WELCOME: greeting_welcome_in(session, &msg->as.welcome); break;
    case TO_CLIENT_REFUSED: greeting_refused_in(session, &msg->as.refused); break;
    case TO_CLIENT_ATTACHED: greeting_attached_in(session); break;
    case TO_CLIENT_ECHO: echo_in(session, &msg->as.echo); break;
    case TO_CLIENT_OVER: over_in(session, &msg->as.over); break;
    case TO_CLIENT_TOPIC_OPENED: topic_opened_in(session, &msg->as.topic_opened); break;
    case TO_CLIENT_CREDIT: credit_in(session, &msg->as.credit); break;
    case TO_CLIENT_ACCEPTED: accepted_in(session, &msg->as.accepted); break;
    case TO_CLIENT_CHUNKED: chunked_in(session, &msg->as.chunked); break;
    case TO_CLIENT_NOTICE: notice_in(session, &msg->as.notice); break;
    case TO_CLIENT_REFUSAL: refusal_in(session, &msg->as.refusal); break;
    case TO_CLIENT_RESULT: result_in(session, &msg->as.result); break;
    case TO_CLIENT_SUBSCRIBED: subscribed_in(session, &msg->as.subscribed); break;
    case TO_CLIENT_TASK_OVER: tasks_over_in(session, &msg->as.task_over); break;
    case TO_CLIENT_EVENT:
    case TO_CLIENT_MISSED: watch_event_in(session, msg, part); break;
    case TO_CLIENT_JOB_DONE:
        if (session->is_courier)
            courier_done_in(session, &msg->as.job_done);
        else
            watch_answer_in(session, msg, part);
        break;
    case TO_CLIENT_FETCHED: courier_fetched_in(session, &msg->as.fetched); break;
    case TO_CLIENT_BROUGHT: courier_brought_in(session, &msg->as.brought); break;
    case TO_CLIENT_VERDICT:
    case TO_CLIENT_VERDICT_ROW: verdict_in(session, msg, part); break;
    case TO_CLIENT_MEMBERSHIP: member_membership_in(session, &msg->as.membership); break;
    case TO_CLIENT_BARRIER_DONE: member_barrier_in(session, &msg->as.barrier_done); break;
    case TO_CLIENT_WAIT_OVER: wait_over_in(session, &msg->as.wait_over); break;
    case TO_CLIENT_BYE: session_bye(session); break;
    case TO_CLIENT_FETCHED_PIECE:
    case TO_CLIENT_DATA_PONG: break; /* they come only on the data channel */
#define TO_CLIENT(upper, name, number, lane, time, id, wait, part, what)                           \
    CASE_##part(TO_CLIENT_##upper)
#include "schemas/messages.def"
        watch_answer_in(session, msg, part);
    }
}

/* What an old connection still had does not count. */
static bool is_connected(const struct session *session)
{
    return session->phase != PHASE_WAIT && session->phase != PHASE_OVER &&
           session->action != SESSION_CONNECT_CONTROL;
}

void session_data_refused_in(struct session *session, int64_t now_ns, struct span part)
{
    struct msg msg;
    session_see_time(session, now_ns);
    if (!is_connected(session))
        return;
    if (session->phase == PHASE_ATTACH &&
        msg_decode(part, MSG_LANE_CONTROL, MSG_TO_CLIENT, &msg, NULL) == WIRE_OK &&
        msg.type == MSG_REFUSED)
        greeting_data_refused_in(session, &msg.as.refused);
    else
        session_break(session, "a header without a batch on the data channel");
}

void session_control_in(struct session *session, int64_t now_ns, struct span part)
{
    session_see_time(session, now_ns);
    if (!is_connected(session))
        return;
    struct msg msg;
    unsigned number = 0;
    enum wire_err err = msg_decode(part, MSG_LANE_CONTROL, MSG_TO_CLIENT, &msg, &number);
    if (err != WIRE_OK) {
        session_break(session, wire_strerror(err));
        return;
    }
    if (!is_expected(session, &msg)) {
        session_break(session, "the broker said what may not be said now");
        return;
    }
    session->heard_ns = session->now_ns;
    if (session->phase == PHASE_UP)
        session->alive_ns = session->now_ns;
    message_in(session, &msg, part);
}
