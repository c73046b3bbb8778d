/* SPDX-License-Identifier: MPL-2.0 */
/* session_mark.c -- marks: whether the broker has answered everything up to a point. */
#include "libbus/session/model.h"
#include "libbus/session/session_acks.h"
#include "libbus/session/session_tasks.h"

struct session_mark session_mark(struct session *session)
{
    tasks_say(session);
    uint64_t ack_number = acks_mark(session); /* first, because it may queue messages */
    return (struct session_mark){.data_number = session->outbox.last,
                                 .control_number = session->controls.last,
                                 .bulk_number = session->uploads.last,
                                 .ack_number = ack_number,
                                 .task_number = session->leases.settled};
}

bool session_is_leaving(const struct session *session)
{
    return session->is_leaving;
}

bool session_is_answered(const struct session *session)
{
    return session->is_let_go || (session->outbox.accepted == session->outbox.last &&
                                  session->controls.accepted == session->controls.last &&
                                  uploads_reached(&session->uploads, session->uploads.last));
}

bool session_mark_reached(const struct session *session, struct session_mark mark)
{
    if (session->is_let_go)
        return true;
    /* WELCOME accepts values, and refusals of some of them follow.  All refusals have come when
     * both channels are up. */
    if (session->phase != PHASE_UP && session->phase != PHASE_OVER)
        return false;
    /* While a session resumes, a REFUSAL may still follow for what WELCOME accepted. */
    return session->phase != PHASE_ATTACH && session->outbox.accepted >= mark.data_number &&
           session->controls.accepted >= mark.control_number &&
           uploads_reached(&session->uploads, mark.bulk_number) &&
           acks_mark_reached(session, mark.ack_number) &&
           leases_reached(&session->leases, mark.task_number);
}
