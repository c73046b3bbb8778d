/* SPDX-License-Identifier: MPL-2.0 */
/* late.c -- what parties report after the final verdict on their attempt.
 *
 * The attempt is over, and so are its sessions.  But a client whose connection stands may know more
 * about the failure than any other.  So the broker hears it for a while, with a session like that
 * of an observer.  The client beats, and may report how it failed; that report is history, and
 * marked late.  Then it leaves.  All its other messages are ignored.  Only the event is a fact.  A
 * closed connection, or the end of the broker, ends it. */
#include "broker/core/lifecycle/late.h"

#include "broker/core/lifecycle/ending.h"
#include "broker/core/lifecycle/liveness.h"
#include "broker/core/lifecycle/session.h"
#include "broker/core/record/failure.h"
#include "broker/core/record/owned_span.h"
#include "broker/core/record/tell.h"

static struct late *late_new(struct core *core, const struct session *session, struct failure *over)
{
    struct late *late = memory_take(core->memory, sizeof *late);
    if (late == NULL)
        return NULL;
    late->incarnation = session->incarnation;
    late->attempt = session->job->attempt;
    late->until_ns = core_clock(core) + DEFAULT_LATE_MS * MS_NS;
    late->over = failure_ref(over);
    if (!span_keep(core, session->party->name, &late->party))
        late_free(core, &late);
    return late;
}

void late_free(struct core *core, struct late **late)
{
    if (*late == NULL)
        return;
    span_drop(core, &(*late)->party);
    failure_unref(core, (*late)->over);
    memory_give(core->memory, *late, sizeof **late);
    *late = NULL;
}

void late_begin(struct core *core, struct session *session, struct failure *over)
{
    struct late *late = session->control != 0 ? late_new(core, session, over) : NULL;
    if (late == NULL)
        session_dismiss(core, session, CODE_EFENCED, over);
    else if (!session_outlive(core, session, late))
        late_free(core, &late); /* its client finds out when it comes again */
}

void late_end(struct core *core, struct session *session)
{
    struct failure *over = failure_ref(session->late->over);
    session_dismiss(core, session, CODE_EFENCED, over);
    failure_unref(core, over);
}

/* How it failed, in its own words: no news for the verdict. */
static void report(struct core *core, struct session *session, struct span error)
{
    const struct late *late = session->late;
    uint32_t id;
    if (!name_map_get(&session->job->parties, late->party, &id))
        return; /* others have taken its place */
    struct party *party = pool_find(&core->parties, id);
    struct failure *failure =
        failure_take_late(core, party, late->incarnation, late->attempt, error);
    if (failure == NULL)
        return;
    tell(core, session->job,
         &(struct tell){.name = EVENT_PARTY_FAILED,
                        .party = party,
                        .incarnation = late->incarnation,
                        .failure = failure,
                        .is_late = true});
    failure_unref(core, failure);
}

/* The client may beat.  Any other message that messages.def allows here is its last one. */
void late_message(struct core *core, struct session *session, const struct msg *msg)
{
    if (msg->type == MSG_BEAT) {
        session_beat(core, session, &msg->as.beat);
        return;
    }
    if (msg->type == MSG_FAIL_PARTY)
        report(core, session, msg->as.fail_party.error);
    late_end(core, session);
}
