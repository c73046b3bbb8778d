/* SPDX-License-Identifier: MPL-2.0 */
/* session_member.c -- this party's place in a created job, and barriers.
 *
 * An epoch and a number within it name a barrier.  So a party that comes to a barrier again, after
 * a reconnect or after it left, means the same barrier. */
#include "libbus/session/session_member.h"

#include "libbus/session/model.h"
#include "libbus/session/session_connection.h"
#include "libbus/session/session_errors.h"

/* ---- membership ------------------------------------------------------------------------------ */

void member_membership_in(struct session *session, const struct msg_membership *msg)
{
    if (msg->epoch == 0 || msg->rank >= msg->world_size) {
        session_break(session, "a membership without a place");
        return;
    }
    session->is_job_created = true;
    if (msg->epoch <= session->membership.epoch)
        return; /* repeated on a new connection */
    session->membership = (struct session_membership){.epoch = msg->epoch,
                                                      .attempt = (uint32_t)msg->attempt,
                                                      .rank = (uint32_t)msg->rank,
                                                      .world_size = (uint32_t)msg->world_size};
    session->news.is_result = true;
}

struct session_membership session_membership(const struct session *session)
{
    return session->membership;
}

bool session_job_is_created(const struct session *session)
{
    return session->is_job_created;
}

/* ---- barriers -------------------------------------------------------------------------------- */

static void forget_answer(struct session_barrier *barrier)
{
    barrier->is_answered = false;
    buffer_unref(&barrier->error);
}

static enum wire_code refuse_barrier(struct session *session, enum wire_code code, const char *type,
                                     const char *message, struct buffer **out_error)
{
    uint8_t error[SESSION_ERROR_BYTES];
    if (out_error != NULL)
        *out_error = buffer_copy(
            session_error_make(session, ERROR_LOCAL, span_text(type), span_text(message), error));
    return code;
}

static enum wire_code take_answer(struct session_barrier *barrier, struct buffer **out_error)
{
    enum wire_code code = barrier->code;
    if (out_error != NULL) {
        *out_error = barrier->error;
        barrier->error = NULL;
    }
    forget_answer(barrier);
    barrier->is_there = false;
    if (code == CODE_OK)
        barrier->round += 1;
    return code;
}

enum wire_code session_barrier(struct session *session, uint64_t epoch, struct buffer **out_error)
{
    struct session_barrier *barrier = &session->barrier;
    if (session->once.code != CODE_OK)
        return session_end(session, out_error);
    if (epoch == 0 || epoch > session->membership.epoch)
        return refuse_barrier(session, CODE_EINVAL, ERROR_TYPE_ARGUMENT,
                              "no such epoch was told to this party", out_error);
    if (epoch < session->membership.epoch) {
        forget_answer(barrier);
        barrier->is_there = false;
        return refuse_barrier(session, CODE_EFAILED, ERROR_TYPE_EPOCH, "the membership changed",
                              out_error);
    }
    if (barrier->epoch != epoch) {
        forget_answer(barrier);
        *barrier = (struct session_barrier){.epoch = epoch, .round = 1};
    }
    if (barrier->is_answered)
        return take_answer(barrier, out_error);
    if (!barrier->is_there) {
        barrier->is_there = true;
        barrier->is_due = true;
    }
    return CODE_ETIMEDOUT;
}

void session_barrier_leave(struct session *session)
{
    struct session_barrier *barrier = &session->barrier;
    if (!barrier->is_there || barrier->is_answered)
        return;
    barrier->is_there = false;
    barrier->is_due = true;
}

void member_barrier_in(struct session *session, const struct msg_barrier_done *msg)
{
    struct session_barrier *barrier = &session->barrier;
    if (msg->epoch != barrier->epoch || msg->round != barrier->round || barrier->is_answered)
        return; /* of an earlier barrier, or repeated on a new connection */
    if (msg->code != CODE_OK && msg->code > CODE_EENDED) {
        session_break(session, "a barrier is answered without a known code");
        return;
    }
    barrier->is_answered = true;
    barrier->is_there = false;
    barrier->is_due = false;
    barrier->code = (enum wire_code)msg->code;
    if (msg->code != CODE_OK && msg->error.bytes > 0) {
        barrier->error = buffer_copy(msg->error);
    } else if (msg->code != CODE_OK) {
        uint8_t error[SESSION_ERROR_BYTES];
        barrier->error =
            buffer_copy(session_error_make(session, ERROR_LOCAL, msg->type, msg->message, error));
    }
    session->news.is_result = true;
}

bool member_message(struct session *session, struct msg *out)
{
    struct session_barrier *barrier = &session->barrier;
    if (!barrier->is_due)
        return false;
    barrier->is_due = false;
    out->type = MSG_BARRIER;
    out->as.barrier = (struct msg_barrier){
        .epoch = barrier->epoch, .round = barrier->round, .is_there = barrier->is_there};
    return true;
}

void member_rewind(struct session *session)
{
    session->barrier.is_due = session->barrier.is_there;
}

void member_fini(struct session *session)
{
    buffer_unref(&session->barrier.error);
}
