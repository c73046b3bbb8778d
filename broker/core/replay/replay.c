/* SPDX-License-Identifier: MPL-2.0 */
/* replay.c -- facts back into tables; see broker/design/facts.md.
 *
 * Each fact calls the function that made the change when it was decided.  A replay decides nothing:
 * it trims, grants, times and sends nothing.  What a fact speaks of must be there, and what it
 * makes must not; otherwise the fact is refused.  Then a fact is missing before it, and to go on
 * would be to guess. */
#include "broker/core/core.h"

#include "broker/core/model.h"
#include "broker/core/record/failure.h"
#include "broker/core/replay/attachment.h"
#include "broker/core/replay/failure.h"
#include "broker/core/replay/group.h"
#include "broker/core/replay/job.h"
#include "broker/core/replay/lookup.h"
#include "broker/core/replay/party.h"
#include "broker/core/replay/sub.h"
#include "broker/core/replay/topic.h"
#include "broker/core/replay/verdict.h"
#include "broker/core/tables/effect.h"

/* ---- limits ---------------------------------------------------------------------------------- */

/* Facts were within the limits when they were noted, so a replay takes them under any limits. */
static void limits_lift(struct core *core)
{
    core->jobs.used_max = UINT32_MAX;
    core->sessions.used_max = UINT32_MAX;
    core->topics.used_max = UINT32_MAX;
    core->open_slots.used_max = UINT32_MAX;
}

/* ---- all of them ----------------------------------------------------------------------------- */

static const char *replay(struct core *core, const struct fact *fact, payload_id payload)
{
    switch (fact->type) {
    case FACT_FAILURE_MADE: return replay_failure_made(core, &fact->as.failure_made);
    case FACT_FAILURE_FORGOTTEN: return replay_failure_forgotten(core, &fact->as.failure_forgotten);
    case FACT_JOB_BEGUN: return replay_job_begun(core, &fact->as.job_begun);
    case FACT_JOB_ENDED: return replay_job_ended(core, &fact->as.job_ended);
    case FACT_PARTY_KNOWN: return replay_party_known(core, &fact->as.party_known);
    case FACT_PARTY_FORGOTTEN:
    case FACT_TOOK_PART:
    case FACT_PARTY_JOINED:
    case FACT_GUARD_JOINED:
    case FACT_PROGRAM_JOINED:
    case FACT_GUARD_ENDED:
    case FACT_LOCATED:
    case FACT_PARTY_ENDED:
    case FACT_PAST_END:
    case FACT_ERROR_NUMBERS: /* their first field is the party */
        return replay_of_party(core, fact, replayed_party(core, fact->as.located.party));
    case FACT_SESSION_ENDED:
    case FACT_NUMBERS:
    case FACT_PARKED:
    case FACT_PROGRESS_PROMISED:
    case FACT_REFUSED:
    case FACT_UPLOADED:
    case FACT_UPLOAD_REFUSED:
    case FACT_GRANTED: /* their first field is the party of the session */
        return replay_of_session(core, fact, replayed_session(core, fact->as.numbers.party));
    case FACT_TOPIC_KNOWN: return replay_topic_known(core, &fact->as.topic_known);
    case FACT_TOPIC_FORGOTTEN:
    case FACT_TOPIC_OPENED:
    case FACT_TOPIC_BEGUN:
    case FACT_CREDIT:
    case FACT_END_MARKED:
    case FACT_TRIMMED:
    case FACT_KEPT:
    case FACT_RESERVED:
    case FACT_REJECTED:
    case FACT_COMMITTED:
    case FACT_FAILED:
    case FACT_RETRACTED:
    case FACT_CHUNK_ADDED:
    case FACT_WHOLE:
    case FACT_NEEDED: /* their first field is the topic */
        return replay_of_topic(core, fact, replayed_topic(core, fact->as.kept.topic), payload);
    case FACT_SUB_OPENED: return replay_sub_opened(core, &fact->as.sub_opened);
    case FACT_PATTERN_ADDED:
    case FACT_WATCHED:
    case FACT_FOLLOWED:
    case FACT_MISSED:
    case FACT_SUB_ATTACHED:
    case FACT_SUB_DETACHED:
    case FACT_SUB_EXPIRED:
    case FACT_SUB_CLOSED:
    case FACT_ACKNOWLEDGED:
    case FACT_END_DUE:
    case FACT_END_TOLD: /* their first field is the subscription */
        return replay_of_sub(core, fact, replayed_sub(core, fact->as.watched.sub));
    case FACT_EVENT: return replay_event(core, &fact->as.event);
    case FACT_ATTACHED:
    case FACT_ATTACHMENT_ANNOUNCED:
    case FACT_ATTACHMENT_DROPPED:
    case FACT_ATTACHMENT_FORGOTTEN: /* their first field is the job */
        return replay_of_attachment(core, fact, replayed_job(core, fact->as.attached.job), payload);
    case FACT_VERDICT_ERROR: return replay_verdict_error(core, &fact->as.verdict_error);
    case FACT_VERDICT_SAID: return replay_verdict_said(core, &fact->as.verdict_said);
    case FACT_VERDICT_SURVIVED:
    case FACT_VERDICT_FORGOTTEN: /* their only field is the job */
        return replay_of_verdict(core, fact);
    case FACT_JOB_CREATED: return replay_job_created(core, &fact->as.job_created);
    case FACT_JOB_MOVED: return replay_job_moved(core, &fact->as.job_moved);
    case FACT_PLACED: return replay_placed(core, &fact->as.placed);
    case FACT_QUEUED: return replay_queued(core, &fact->as.queued);
    case FACT_EPOCH_BEGUN: return replay_epoch_begun(core, &fact->as.epoch_begun);
    case FACT_MET: return replay_met(core, &fact->as.met);
    case FACT_RUN_NAMED: return replay_run_named(core, &fact->as.run_named);
    case FACT_ATTEMPT_BEGUN: return replay_attempt_begun(core, &fact->as.attempt_begun);
    case FACT_GROUP_MADE: return replay_group_made(core, &fact->as.group_made);
    case FACT_MEMBER_JOINED:
    case FACT_MEMBER_DRAINED:
    case FACT_LEASED:
    case FACT_TASK_BACK:
    case FACT_TASK_ERROR:
    case FACT_TASK_ENDED:
    case FACT_PASSED:
    case FACT_LETTER_KEPT:
    case FACT_LETTER_REPLAYED:
    case FACT_LETTER_GONE: /* their first field is the group */
        return replay_of_group(core, fact, replayed_group(core, fact->as.leased.group));
    case FACT_REQUESTED: return replay_requested(core, &fact->as.requested);
    case FACT_NONE:
    case FACT_TYPE_COUNT: break;
    }
    return WRONG_NO_ORDER;
}

const char *core_replay(struct core *core, struct span record, payload_id payload,
                        struct effects *effects)
{
    struct fact fact;
    enum wire_err err = fact_decode(record, &fact);
    if (err == WIRE_UNKNOWN)
        return "a newer version of the broker wrote it";
    if (err != WIRE_OK)
        return wire_strerror(err);
    if (!core->is_replaying)
        limits_lift(core);
    core->effects = effects;
    core->is_replaying = true;
    core->is_noting = false;
    failure_free_unused(core);
    const char *wrong = replay(core, &fact, payload);
    core->effects = NULL;
    return wrong;
}
