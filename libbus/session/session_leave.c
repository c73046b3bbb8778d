/* SPDX-License-Identifier: MPL-2.0 */
/* session_leave.c -- how a party reports progress, reports its own failure, and leaves. */
#include "libbus/base/must.h"
#include "libbus/session/model.h"
#include "libbus/session/session_acks.h"
#include "libbus/session/session_connection.h"
#include "libbus/session/session_say.h"
#include "libbus/session/session_tasks.h"

#include <string.h>

void session_fail_party(struct session *session, struct span error)
{
    must(error.bytes > 0 && error.bytes <= LIMIT_ERROR_BYTES);
    if (!session_is_failing(session) && !once_end(&session->once, CODE_ECLOSED, error))
        return;
    session->news.is_state = true;
    if (session->token == 0) {
        session_finish(session, CODE_ECLOSED, SPAN_NONE);
        return;
    }
    struct msg msg = {
        .type = MSG_FAIL_PARTY,
        .as.fail_party = {.number = session->controls.last + 1,
                          .after = session->outbox.last,
                          .error = error},
    };
    session_say_surely(session, &msg, &msg.as.fail_party.error, &session->spare_fail, 0);
    controls_hurry(&session->controls); /* a failure waits for no upload */
    session->is_leaving = true;
}

void session_leave(struct session *session)
{
    if ((session->once.code != CODE_OK && !session_is_failing(session)) || session->is_leaving)
        return;
    session->is_leaving = true;
    if (session->token == 0) {
        session_finish(session, CODE_ECLOSED, SPAN_NONE);
        return;
    }
    uint64_t after_upload = session_uploads_under_way(session);
    (void)acks_say_all(session, after_upload); /* without memory these come again later */
    (void)tasks_say_all(session, after_upload);
    struct msg msg = {
        .type = MSG_LEAVE,
        .as.leave = {.number = session->controls.last + 1, .after = session->outbox.last},
    };
    session_say_surely(session, &msg, NULL, &session->spare_leave, after_upload);
}

void session_progress(struct session *session, uint64_t next_within_ms, struct span where)
{
    must(where.bytes <= sizeof session->where);
    if (where.bytes > 0)
        memcpy(session->where, where.data, where.bytes);
    session->where_bytes = (uint32_t)where.bytes;
    session->is_progress_said = true;
    session->is_progress_due = true;
    session->progress_ms =
        next_within_ms < (uint64_t)LIMIT_PERIOD_MS_MAX ? next_within_ms : LIMIT_PERIOD_MS_MAX;
}
