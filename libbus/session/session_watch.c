/* SPDX-License-Identifier: MPL-2.0 */
/* session_watch.c -- follows the control topic, and asks one question at a time. */
#include "libbus/session/session_watch.h"

#include "libbus/base/must.h"
#include "libbus/session/model.h"
#include "libbus/session/session_connection.h"
#include "libbus/session/session_errors.h"

#include <string.h>

/* How many events may be under way; 0: none now.  The events, and as many messages about missed
 * ones, must fit into the free part of the queue.  Events of an earlier connection may fill the
 * other part. */
static uint32_t tap_room(const struct session *session)
{
    return (LIMIT_TAP_WINDOW - session->tap.rows.count) / 2;
}

/* ---- tap ------------------------------------------------------------------------------------- */

void session_tap(struct session *session, uint64_t from_id)
{
    rows_clear(&session->tap.rows);
    session->tap.is_on = true;
    session->tap.is_due = true;
    session->tap.is_any = false;
    session->tap.from_id = from_id;
    session->tap.untold = 0;
    session->tap.untold_bytes = 0;
    session->tap.foreign = 0;
    if (session->trip.count > 0) /* else an answer is still to come */
        session->is_trip_due = session->is_trip_due || trip_is_open(&session->trip);
}

static uint64_t newest_id(const struct msg *msg)
{
    return msg->type == MSG_EVENT ? msg->as.event.id : msg->as.missed.last_id;
}

void watch_event_in(struct session *session, const struct msg *msg, struct span part)
{
    if (!session->tap.is_on || session->tap.rows.count == LIMIT_TAP_WINDOW) {
        session_break(session, "more events than were asked for");
        return;
    }
    if (!rows_push(&session->tap.rows, part)) {
        session_lose_link(session); /* no memory: the next connection continues here */
        return;
    }
    session->tap.is_any = true;
    session->tap.received_id = newest_id(msg);
    session->news.is_tap = true;
}

static bool read_row(struct span part, struct msg *out)
{
    unsigned number;
    /* It was decoded when it came. */
    return msg_decode(part, MSG_LANE_CONTROL, MSG_TO_CLIENT, out, &number) == WIRE_OK;
}

/* The broker sends no more than a window that was not told to be taken.  Over a slow link that is
 * less than on one machine. */
static bool is_much_untold(const struct session *session)
{
    const struct session_tap_state *tap = &session->tap;
    bool is_step = trip_is_far(&session->trip) && tap->untold_bytes >= FLOW_STEP_BYTES;
    return is_step || tap->untold >= tap->window / 4 || tap->untold >= DEFAULT_TAP_WINDOW / 4;
}

bool session_event_take(struct session *session, struct msg *out_event)
{
    struct span part;
    if (!rows_pop(&session->tap.rows, &part) || !read_row(part, out_event))
        return false;
    if (session->tap.foreign > 0) {
        session->tap.foreign -= 1;
        return true;
    }
    session->tap.taken_id = newest_id(out_event);
    session->tap.untold += 1;
    session->tap.untold_bytes += part.bytes;
    if (is_much_untold(session))
        session->tap.is_taken_due = true;
    return true;
}

uint64_t session_event_next(const struct session *session)
{
    return session->tap.event_next;
}

uint64_t session_instance(const struct session *session)
{
    return session->broker;
}

/* ---- questions ------------------------------------------------------------------------------- */

void session_ask(struct session *session, const struct msg *question)
{
    struct session_question *asked = &session->question;
    const struct msg_kind *kind = msg_kind((unsigned)question->type);
    must(kind != NULL && kind->direction == MSG_TO_BROKER && kind->id == MSG_REQUEST);
    rows_clear(&asked->rows);
    asked->msg = *question;
    must(msg_keep(&asked->msg, asked->texts, sizeof asked->texts));
    asked->is_on = true;
    asked->is_due = true;
    asked->is_complete = false;
}

void watch_answer_in(struct session *session, const struct msg *msg, struct span part)
{
    struct session_question *asked = &session->question;
    bool is_end = msg_is_end(msg);
    uint64_t request = msg_id(msg);
    if (request > asked->request || request == 0) {
        session_break(session, "an answer to what was not asked");
        return;
    }
    if (request < asked->request || !asked->is_on || asked->is_due)
        return; /* of a question before this one */
    if (asked->rows.count == LIMIT_CONTROL_QUEUE) {
        uint8_t error[SESSION_ERROR_BYTES];
        session_finish(session, CODE_EFULL,
                       session_error_make(session, ERROR_LOCAL, span_text(ERROR_TYPE_FULL),
                                          span_text("the answer has too many rows"), error));
        return;
    }
    if (!rows_push(&asked->rows, part)) {
        session_lose_link(session); /* no memory: the next connection asks again */
        return;
    }
    asked->is_complete = is_end;
    asked->is_on = !is_end;
    session->news.is_status = session->news.is_status || is_end;
}

bool session_answer_take(struct session *session, struct msg *out_row)
{
    struct span part;
    return session->question.is_complete && rows_pop(&session->question.rows, &part) &&
           read_row(part, out_row);
}

/* ---- what is said ---------------------------------------------------------------------------- */

void watch_beat(struct session *session)
{
    session->tap.is_taken_due = session->tap.is_taken_due || session->tap.untold > 0;
}

/* "From now" means the same place after a reconnect, so the tap also gets what happened
 * meanwhile. */
static void tap_message(struct session *session, struct msg *out)
{
    struct session_tap_state *tap = &session->tap;
    if (!tap->is_any && tap->event_next > 0 && tap->from_id >= tap->event_next) {
        tap->is_any = true;
        tap->received_id = tap->event_next - 1;
    }
    tap->window = tap_room(session);
    tap->is_due = false;
    out->type = MSG_TAP;
    out->as.tap = (struct msg_tap){.from_id = tap->is_any ? tap->received_id + 1 : tap->from_id,
                                   .window = tap->window};
}

static void question_message(struct session *session, struct msg *out)
{
    struct session_question *asked = &session->question;
    uint64_t request = ++asked->request;
    asked->is_due = false;
    *out = asked->msg;
    msg_id_set(out, request);
}

bool watch_message(struct session *session, struct msg *out)
{
    struct session_tap_state *tap = &session->tap;
    if (tap->is_due && tap_room(session) > 0) {
        tap_message(session, out);
        return true;
    }
    if (tap->is_taken_due && !tap->is_due) {
        out->type = MSG_TAP_TAKEN;
        out->as.tap_taken = (struct msg_tap_taken){.id = tap->taken_id};
        tap->is_taken_due = false;
        tap->untold = 0;
        tap->untold_bytes = 0;
        return true;
    }
    if (session->question.is_due) {
        question_message(session, out);
        return true;
    }
    return false;
}

/* Finds the newest received event that this broker has.  After a crash the broker may lack events
 * that were not in its journal.  Another broker has none of them, and counts from 1 again.  The tap
 * asks again for the ids behind that event, because they now name other events. */
static void forget_lost(struct session *session, const struct msg_welcome *welcome)
{
    struct session_tap_state *tap = &session->tap;
    bool is_other = session->is_welcome && session->broker != welcome->broker;
    bool is_behind = welcome->event_next > 0 && welcome->event_next <= tap->received_id;
    if (!tap->is_any || (!is_other && !is_behind))
        return;
    tap->received_id = is_other ? 0 : welcome->event_next - 1;
    tap->foreign = tap->rows.count;
    tap->untold = 0;
    tap->untold_bytes = 0;
    tap->is_taken_due = false;
}

void watch_rewind(struct session *session, const struct msg_welcome *welcome)
{
    session->tap.is_due = session->tap.is_on;
    session->tap.is_taken_due = session->tap.is_on && session->tap.untold > 0;
    forget_lost(session, welcome);
    session->question.is_due = session->question.is_on;
    if (session->question.is_on)
        rows_clear(&session->question.rows);
}
