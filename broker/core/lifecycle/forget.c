/* SPDX-License-Identifier: MPL-2.0 */
/* forget.c -- an operator has a job forgotten that no party is in.
 *
 * All of the job goes, as at the end of its linger time: values, durable names, groups, dead
 * letters, events and the verdict.  A job with a party in it is refused; the operator cancels it
 * first. */
#include "broker/core/lifecycle/forget.h"

#include "broker/core/lifecycle/job.h"
#include "broker/core/lifecycle/membership.h"
#include "broker/core/lifecycle/run.h"
#include "broker/core/lifecycle/session.h"
#include "broker/core/record/note.h"
#include "broker/core/record/text.h"
#include "broker/core/streams/sub.h"
#include "broker/core/tables/effect.h"

/* Observers of the job connect again, if they want to see another one of its name.  The one that
 * speaks stays, as an observer of no job. */
static void send_observers_away(struct core *core, struct job *job, struct session *speaker)
{
    uint32_t id = 0;
    struct session *session;
    while ((session = pool_next(&core->sessions, id)) != NULL) {
        id = session->id;
        if (session->job == job && session != speaker)
            session_drop(core, session);
    }
    if (speaker->job != job)
        return;
    list_remove(&speaker->tap_link);
    list_remove(&speaker->verdict_link);
    speaker->tap_window = 0;
    speaker->job = NULL;
    job_release(core, job);
}

/* What goes with the job. */
static void count_all(const struct job *job, struct msg_job_done *done)
{
    LIST_EACH(link, &job->party_list)
        done->parties += LIST_OWNER(link, struct party, job_link)->incarnation > 0;
    LIST_EACH(link, &job->topic_list) {
        const struct topic *topic = LIST_OWNER(link, struct topic, job_link);
        if (topic->letters != NULL)
            continue; /* counted below */
        done->topics += 1;
        done->slots += topic->slots.next_seq - slot_table_first_seq(&topic->slots);
        done->slot_bytes += topic->bytes;
    }
    LIST_EACH(link, &job->sub_list) {
        const struct sub *sub = LIST_OWNER(link, struct sub, job_link);
        done->names += sub->name.bytes > 0;
        if (sub_is_place(sub))
            done->dead += sub->group->letter_count;
    }
}

void job_forget(struct core *core, struct session *session, const struct msg_job_forget *msg)
{
    conn_id conn = session->control;
    struct job *job = job_find(core, session, msg->job, msg->request);
    if (job == NULL)
        return;
    if (job->live_count > 0) {
        struct text *why = &core->why_held;
        text_init(why);
        run_add_parties(job, why);
        text_add(why, " did not end yet: stop them, or cancel the job");
        effects_job_done(core->effects, conn, msg->request, CODE_EDENIED, ERROR_TYPE_RUN_UNDER_WAY,
                         why->data);
        return;
    }
    struct msg_job_done gone = {.request = msg->request};
    count_all(job, &gone);
    send_observers_away(core, job, session);
    job_end(core, job);
    effects_msg(core->effects, conn, MSG_JOB_DONE)->as.job_done = gone;
}
