/* SPDX-License-Identifier: MPL-2.0 */
/* barrier.c -- where the members of an epoch meet: all of them, or none.
 *
 * Only sessions know who is there, and forget it with their connection.  A client that comes back
 * says it again, and so do all clients after a restart of the broker.  That all met is a fact. */
#include "broker/core/lifecycle/barrier.h"

#include "broker/core/record/failure.h"
#include "broker/core/record/note.h"
#include "broker/core/tables/effect.h"

static void barrier_answer(struct core *core, const struct session *session, uint64_t epoch,
                           uint64_t round, enum wire_code code, const char *type,
                           const char *message)
{
    struct msg *msg = effects_msg(core->effects, session->control, MSG_BARRIER_DONE);
    msg->as.barrier_done = (struct msg_barrier_done){.epoch = epoch,
                                                     .round = round,
                                                     .code = code,
                                                     .type = span_text(type),
                                                     .message = span_text(message)};
}

void barrier_forget(struct session *session)
{
    if (!session->is_at_barrier)
        return;
    session->is_at_barrier = false;
    session->job->meeting_count -= 1;
}

static struct session *member_session(const struct core *core, const struct job *job, uint32_t rank)
{
    const struct party *party = pool_find(&core->parties, job->roster.places[rank].party);
    return party != NULL ? party->session : NULL;
}

void barrier_fail(struct core *core, struct session *session, struct failure *failure)
{
    const struct job *job = session->job;
    barrier_forget(session);
    struct msg *msg = effects_msg(core->effects, session->control, MSG_BARRIER_DONE);
    msg->as.barrier_done = (struct msg_barrier_done){.epoch = job->meeting_epoch,
                                                     .round = job->round + 1,
                                                     .code = CODE_EFAILED,
                                                     .error = failure_span(failure)};
}

/* All sessions at the barrier get the same answer, and leave the barrier. */
static void dismiss(struct core *core, struct job *job, uint64_t epoch, uint64_t round,
                    enum wire_code code, const char *type, const char *message)
{
    LIST_EACH(link, &job->party_list) {
        struct session *session = LIST_OWNER(link, struct party, job_link)->session;
        if (session == NULL || !session->is_at_barrier)
            continue;
        barrier_forget(session);
        barrier_answer(core, session, epoch, round, code, type, message);
    }
}

void barrier_end(struct core *core, struct job *job, enum wire_code code, const char *type,
                 const char *message)
{
    if (job->meeting_count > 0)
        dismiss(core, job, job->meeting_epoch, job->round + 1, code, type, message);
}

/* Nobody passes while one of them may be gone already. */
static bool are_all_there(const struct core *core, const struct job *job)
{
    if (job->meeting_count != job->roster.place_count)
        return false;
    for (uint32_t rank = 0; rank < job->roster.place_count; rank++) {
        const struct session *session = member_session(core, job, rank);
        if (session == NULL || !session->is_at_barrier || session->is_suspect)
            return false;
    }
    return true;
}

void barrier_look(struct core *core, struct job *job)
{
    if (job->meeting_count == 0 || !are_all_there(core, job))
        return;
    uint64_t round = ++job->round;
    note_met(core, job);
    dismiss(core, job, job->meeting_epoch, round, CODE_OK, "", "");
}

/* What in it breaks the protocol, or NULL. */
static const char *barrier_complaint(const struct session *session, const struct msg_barrier *msg)
{
    const struct job *job = session->job;
    if (msg->epoch == 0 || msg->epoch > job->roster.epoch)
        return "a barrier of an epoch that never was";
    if (msg->epoch == job->roster.epoch && msg->round > job->round + 1)
        return "a barrier before the last one was passed";
    return NULL;
}

const char *barrier_come(struct core *core, struct session *session, const struct msg_barrier *msg)
{
    struct job *job = session->job;
    const char *wrong = barrier_complaint(session, msg);
    if (wrong != NULL)
        return wrong;
    barrier_forget(session);
    if (!msg->is_there)
        return NULL;
    if (msg->epoch < job->roster.epoch || session->party->rank == RANK_NONE) {
        barrier_answer(core, session, msg->epoch, msg->round, CODE_EFAILED, ERROR_TYPE_EPOCH,
                       "the membership changed");
    } else if (msg->round <= job->round) {
        barrier_answer(core, session, msg->epoch, msg->round, CODE_OK, "", "");
    } else if (job->roster.completed_count > 0) {
        barrier_answer(core, session, msg->epoch, msg->round, CODE_EENDED, ERROR_TYPE_COMPLETED,
                       "a member completed, and will not come");
    } else {
        session->is_at_barrier = true;
        session->barrier_ns = core_clock(core);
        job->meeting_count += 1;
        job->meeting_epoch = msg->epoch;
        barrier_look(core, job);
    }
    return NULL;
}
