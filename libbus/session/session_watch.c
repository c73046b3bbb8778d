/* SPDX-License-Identifier: MPL-2.0 */
/* session_watch.c -- following the control topic, and asking for a status. */
#include "libbus/session/session_internal.h"

#include "libbus/base/must.h"

#include <string.h>

/* How many events may be under way: with what is said about missed ones they fit into what is free
 * of the queue, for events of an earlier connection may not be taken yet.  0: not now. */
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
    session->tap.foreign = 0;
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
        session_lose_link(session); /* no memory: the tap goes on from here on the next one */
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
    if (session->tap.untold >= session->tap.window / 4)
        session->tap.is_taken_due = true;
    return true;
}

uint64_t session_event_next(const struct session *session)
{
    return session->tap.event_next;
}

/* ---- status ---------------------------------------------------------------------------------- */

void session_status(struct session *session, struct span job)
{
    must(job.bytes <= sizeof session->status.job_text);
    rows_clear(&session->status.rows);
    if (job.bytes > 0)
        memcpy(session->status.job_text, job.data, job.bytes);
    session->status.job = span_of(session->status.job_text, job.bytes);
    session->status.is_on = true;
    session->status.is_due = true;
    session->status.is_complete = false;
}

void watch_status_in(struct session *session, const struct msg *msg, struct span part)
{
    struct session_status_state *status = &session->status;
    bool is_end = msg->type == MSG_STATUS_END;
    uint64_t request = is_end ? msg->as.status_end.request : msg->as.status_row.request;
    if (request > status->request || request == 0) {
        session_break(session, "a status that was not asked for");
        return;
    }
    if (request < status->request || !status->is_on || status->is_due)
        return; /* of a question that was asked again */
    if (status->rows.count == LIMIT_CONTROL_QUEUE) {
        uint8_t error[SESSION_ERROR_BYTES];
        session_finish(session, CODE_EFULL,
                       session_error_make(session, ERROR_LOCAL, span_text(ERROR_TYPE_FULL),
                                          span_text("the status has too many rows"), error));
        return;
    }
    if (!rows_push(&status->rows, part)) {
        session_lose_link(session); /* no memory: asked again on the next one */
        return;
    }
    status->is_complete = is_end;
    status->is_on = !is_end;
    session->news.is_status = session->news.is_status || is_end;
}

bool session_status_take(struct session *session, struct msg *out_row)
{
    struct span part;
    return session->status.is_complete && rows_pop(&session->status.rows, &part) &&
           read_row(part, out_row);
}

/* ---- what is said ---------------------------------------------------------------------------- */

void watch_beat(struct session *session)
{
    session->tap.is_taken_due = session->tap.is_taken_due || session->tap.untold > 0;
}

/* "From now" is a place, and is the same after a reconnect: what happened meanwhile belongs to the
 * tap. */
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

bool watch_message(struct session *session, struct msg *out)
{
    struct session_tap_state *tap = &session->tap;
    struct session_status_state *status = &session->status;
    if (tap->is_due && tap_room(session) > 0) {
        tap_message(session, out);
        return true;
    }
    if (tap->is_taken_due && !tap->is_due) {
        out->type = MSG_TAP_TAKEN;
        out->as.tap_taken = (struct msg_tap_taken){.id = tap->taken_id};
        tap->is_taken_due = false;
        tap->untold = 0;
        return true;
    }
    if (status->is_due) {
        status->request += 1;
        out->type = MSG_STATUS;
        out->as.status = (struct msg_status){.request = status->request, .job = status->job};
        status->is_due = false;
        return true;
    }
    return false;
}

/* The newest event that the broker has of those that were received here: less than that if a crash
 * took the others before they were in its journal, none if it is another broker, which counts from
 * 1 again.  What came of their ids is told again, for those are other events now. */
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
    tap->is_taken_due = false;
}

void watch_rewind(struct session *session, const struct msg_welcome *welcome)
{
    session->tap.is_due = session->tap.is_on;
    session->tap.is_taken_due = session->tap.is_on && session->tap.untold > 0;
    forget_lost(session, welcome);
    session->status.is_due = session->status.is_on;
    if (session->status.is_on)
        rows_clear(&session->status.rows);
}
