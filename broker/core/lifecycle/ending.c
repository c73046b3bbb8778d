/* SPDX-License-Identifier: MPL-2.0 */
/* ending.c -- how an incarnation ends: who learns of it, in one step.
 *
 * This file and six others call each other in a circle, because one end leads to another in the
 * same step:
 *
 *   ending.c      drops the session; a LEAVE or a failure that is parked in it comes first
 *   parked.c      a LEAVE or a failure that waited for its data ends the incarnation
 *   membership.c  a member that is lost may end the job, and the end of a job ends its members
 *   liveness.c    silence, a closed connection or a violation ends the incarnation; while a party
 *                 is heard, what is parked goes on
 *   session.c     a session that is made arms its timer; one that is dropped frees what is parked
 *                 and what it said late
 *   late.c        a party that is heard after the verdict has outlived its session, until its time
 *                 is over
 *   guard.c       the program of a guard ends without its incarnation, as parked.c is told */
#include "broker/core/lifecycle/ending.h"

#include "broker/core/groups/group.h"
#include "broker/core/lifecycle/judgement.h"
#include "broker/core/lifecycle/membership.h"
#include "broker/core/lifecycle/parked.h"
#include "broker/core/lifecycle/session.h"
#include "broker/core/record/failure.h"
#include "broker/core/record/note.h"
#include "broker/core/record/tell.h"
#include "broker/core/record/text.h"
#include "broker/core/settling/settle.h"
#include "broker/core/streams/await.h"
#include "broker/core/streams/sub.h"
#include "broker/core/streams/topic.h"
#include "broker/core/tables/effect.h"
#include "broker/core/tables/job.h"
#include "broker/core/tables/party.h"

void party_tell(struct core *core, struct party *party, const char *name, const char *text,
                uint64_t count, struct failure *failure)
{
    tell(core, party->job,
         &(struct tell){.name = name,
                        .party = party,
                        .incarnation = party->incarnation,
                        .text = text,
                        .count = count,
                        .failure = failure});
}

static const char *event_name(enum party_event event)
{
    switch (event) {
    case PARTY_IS_LOST: return EVENT_PARTY_LOST;
    case PARTY_LEAVES: return EVENT_PARTY_LEFT;
    case PARTY_COMPLETES: return EVENT_PARTY_COMPLETED;
    case PARTY_IS_TERMINATED: return EVENT_PARTY_TERMINATED;
    case PARTY_SAYS_FAILED:
    case PARTY_FAILS: return EVENT_PARTY_FAILED;
    case PARTY_STARTS:
    case PARTY_EVENT_COUNT: break;
    }
    must(false); /* no end */
    return "";
}

static void mark_end(struct core *core, struct topic *topic)
{
    topic_mark_end(core, topic,
                   &(struct end_mark){.incarnation = topic->writer->incarnation,
                                      .seq = topic->slots.next_seq,
                                      .at_ns = core->wall_ns});
}

bool ending_replaces_pending(const struct party *party, enum party_event event)
{
    return party->job->spec.pending == JOB_PENDING_REPLACE &&
           (event == PARTY_FAILS || event == PARTY_IS_LOST);
}

/* Everything that hangs on the party learns of its end, in one step. */
static void party_end(struct core *core, struct party *party, enum party_event event,
                      struct failure *failure)
{
    bool was_told = party->state == PARTY_FAILING;
    if (!party_next(party->state, event, &party->state))
        return;
    tell_storms(core, party->job, party);
    party->ended_ns = core->wall_ns;
    party->ended_by = failure_ref(failure);
    bool is_told_to = event == PARTY_IS_TERMINATED; /* by what ended its job: no news for that */
    bool is_late = failure != NULL && !is_told_to && judge_error(core, party->job, party, failure);
    note_party_ended(core, party);
    judge_look(core, party->job);
    if (event == PARTY_COMPLETES)
        judge_completed(core, party->job);
    if (!was_told)
        tell(core, party->job,
             &(struct tell){.name = event_name(event),
                            .party = party,
                            .incarnation = party->incarnation,
                            .count = party->open_count,
                            .failure = failure,
                            .is_late = is_late});
    if (event != PARTY_COMPLETES && party->session != NULL)
        group_party_ended(core, party->session, failure);
    if (ending_replaces_pending(party, event))
        LIST_EACH(link, &party->topics)
            settle_replace_unseen(core, LIST_OWNER(link, struct topic, party_link), failure);
    LIST_EACH(link, &party->open_slots)
        settle_open_failed(core, LIST_OWNER(link, struct open_slot, party_link), failure);
    LIST_EACH(link, &party->topics)
        mark_end(core, LIST_OWNER(link, struct topic, party_link));
    await_never(core, party, failure);
    sub_ended(core, party);
    job_lost(core, party, failure);
    job_left(core, party);
}

void session_dismiss(struct core *core, struct session *session, enum wire_code code,
                     struct failure *failure)
{
    if (session->control != 0) {
        struct msg *msg = effects_msg(core->effects, session->control, MSG_OVER);
        msg->as.over.code = code;
        if (code != CODE_ECLOSED)
            msg->as.over.error = failure_span(failure);
    }
    session_drop(core, session);
}

void session_end_party(struct core *core, struct session *session, enum party_event event,
                       struct failure *failure, enum wire_code code)
{
    struct party *party = session->party;
    struct session *other = session->is_guard ? party->session : party->guard;
    party_end(core, party, event, failure);
    session_dismiss(core, session, code, failure);
    if (other != NULL) /* by the word of the one it is over for the other, too */
        session_dismiss(core, other, code == CODE_ELOST ? code : CODE_EFENCED, failure);
}

void party_terminate(struct core *core, struct party *party, struct failure *failure)
{
    party_end(core, party, PARTY_IS_TERMINATED, failure);
}

void session_completed(struct core *core, struct session *session)
{
    party_end(core, session->party, PARTY_COMPLETES, NULL);
}

void session_lose(struct core *core, struct session *session, const char *type, const char *why)
{
    struct party *party = session->party;
    int64_t silent_ns = core_clock(core) - session->heard_ns;
    bool is_silence = type == ERROR_TYPE_SILENT;
    if (parked_end(core, session))
        return; /* its LEAVE or failure was here before: that is how it ended */
    struct text text;
    text_init(&text);
    text_add(&text, "party ");
    text_add_span(&text, party->name);
    text_add(&text, " lost: ");
    text_add(&text, why);
    if (type != ERROR_TYPE_REPLACED) {
        int64_t had_ns = is_silence ? session->lost_after_ns : session_grace_ns(session);
        int64_t since_ns = is_silence ? session->heard_ns : session->closed_ns;
        if (session_window_ns(core, session) > since_ns + had_ns)
            had_ns = core->options.resume_ms * MS_NS;
        text_add_number(&text, (uint64_t)(had_ns / MS_NS));
        text_add(&text, " ms");
    }
    int64_t ago_ns = is_silence ? silent_ns : core_clock(core) - session->closed_ns;
    struct failure *failure =
        failure_make(core, &(struct failure_spec){.job = session->job,
                                                  .party = party,
                                                  .session = session,
                                                  .kind = ERROR_PARTY_LOST,
                                                  .type = type,
                                                  .message = text.data,
                                                  .occurred_ns = core->now_ns - ago_ns,
                                                  .uncertainty_ns =
                                                      is_silence ? (uint64_t)session->beat_ns : 0});
    session_end_party(core, session, PARTY_IS_LOST, failure, CODE_EFENCED);
    failure_unref(core, failure);
}
