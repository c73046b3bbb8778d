/* SPDX-License-Identifier: MPL-2.0 */
/* session_verdict.c -- why the job cannot go on: what a party hears of it, and questions about it.
 *
 * VERDICT may tell a party that its attempt is over.  The party has ended then, but its connection
 * stays until it leaves: the final verdict, and a failure of its own, may still come. */
#include "libbus/session/session_verdict.h"

#include "libbus/base/must.h"
#include "libbus/session/model.h"
#include "libbus/session/session_connection.h"

#include <string.h>

/* ---- what is told ---------------------------------------------------------------------------- */

static void told(struct session *session, const struct msg_verdict *msg)
{
    struct session_verdict *verdict = &session->verdict;
    if (msg->state < verdict->state || msg->state == 0)
        return; /* a later verdict came first */
    struct buffer *error = buffer_copy(msg->error);
    if (error == NULL)
        error = buffer_copy(span_of(session->spare_error, session->spare_error_bytes));
    buffer_unref(&verdict->error);
    verdict->error = error; /* NULL: no memory */
    verdict->state = error != NULL ? (unsigned)msg->state : verdict->state;
    session->news.is_state = true;
    if (!msg->is_over || session->is_leaving)
        return;
    if (once_end(&session->once, CODE_EFENCED, msg->error))
        session->is_failing = true;
}

bool session_is_failing(const struct session *session)
{
    return session->is_failing && session->phase != PHASE_OVER && !session->is_leaving;
}

unsigned session_verdict(const struct session *session, struct buffer **out_error)
{
    if (session->verdict.error == NULL)
        return 0;
    *out_error = buffer_ref(session->verdict.error);
    return session->verdict.state;
}

/* ---- asking ---------------------------------------------------------------------------------- */

void session_ask_verdict(struct session *session, struct span job, uint32_t attempt,
                         bool is_waiting)
{
    struct session_verdict *verdict = &session->verdict;
    must(job.bytes > 0 && job.bytes <= sizeof verdict->job_text);
    rows_clear(&verdict->rows);
    memcpy(verdict->job_text, job.data, job.bytes);
    verdict->job = span_of(verdict->job_text, job.bytes);
    verdict->is_waiting = is_waiting;
    verdict->attempt = attempt;
    verdict->is_on = true;
    verdict->is_due = true;
    verdict->is_complete = false;
}

void verdict_in(struct session *session, const struct msg *msg, struct span part)
{
    struct session_verdict *verdict = &session->verdict;
    bool is_end = msg->type == MSG_VERDICT;
    uint64_t request = is_end ? msg->as.verdict.request : msg->as.verdict_row.request;
    if (is_end && request == 0 && !session->is_observer) {
        told(session, &msg->as.verdict);
        return;
    }
    if (request > verdict->request || request == 0) {
        session_break(session, "a verdict that was not asked for");
        return;
    }
    if (request < verdict->request || !verdict->is_on || verdict->is_due)
        return; /* of a question before this one */
    if (!rows_push(&verdict->rows, part)) {
        session_lose_link(session); /* no memory, or too many rows: the next connection asks */
        return;
    }
    verdict->is_complete = is_end;
    verdict->is_on = !is_end;
    session->news.is_status = session->news.is_status || is_end;
}

bool session_verdict_take(struct session *session, struct msg *out_row)
{
    struct span part;
    unsigned number;
    return session->verdict.is_complete && rows_pop(&session->verdict.rows, &part) &&
           msg_decode(part, MSG_LANE_CONTROL, MSG_TO_CLIENT, out_row, &number) == WIRE_OK;
}

bool verdict_message(struct session *session, struct msg *out)
{
    struct session_verdict *verdict = &session->verdict;
    if (!verdict->is_due)
        return false;
    verdict->is_due = false;
    verdict->request += 1;
    out->type = MSG_VERDICT_ASK;
    out->as.verdict_ask = (struct msg_verdict_ask){.request = verdict->request,
                                                   .job = verdict->job,
                                                   .is_waiting = verdict->is_waiting,
                                                   .attempt = verdict->attempt};
    return true;
}

void verdict_rewind(struct session *session)
{
    session->verdict.is_due = session->verdict.is_on;
    if (session->verdict.is_on)
        rows_clear(&session->verdict.rows);
}

void verdict_rows_init(struct session *session)
{
    rows_init(&session->verdict.rows, session->memory, LIMIT_VERDICT_ROWS + 2);
}

void verdict_rows_fini(struct session *session)
{
    rows_fini(&session->verdict.rows);
    buffer_unref(&session->verdict.error);
}
