/* SPDX-License-Identifier: MPL-2.0 */
/* job.c -- jobs: made by name, kept while they have sessions and for a while beyond. */
#include "broker/core/lifecycle/job.h"

#include "broker/core/groups/subscription.h"
#include "broker/core/lifecycle/judgement.h"
#include "broker/core/record/account.h"
#include "broker/core/record/attachment.h"
#include "broker/core/record/count.h"
#include "broker/core/record/failure.h"
#include "broker/core/record/note.h"
#include "broker/core/record/owned_span.h"
#include "broker/core/record/tell.h"
#include "broker/core/streams/names.h"
#include "broker/core/streams/topic.h"
#include "broker/core/tables/event.h"
#include "broker/core/tables/job.h"
#include "broker/core/tables/roster.h"
#include "broker/core/tables/storms.h"
#include "broker/core/tables/timers.h"

enum { JOB_TIMERS = 7 };

static void unreserve_timers(struct core *core, struct job *job)
{
    timers_unreserve(&core->timers, &job->linger);
    timers_unreserve(&core->timers, &job->window);
    timers_unreserve(&core->timers, &job->join);
    timers_unreserve(&core->timers, &job->deadline);
    timers_unreserve(&core->timers, &job->observers.timer);
    timers_unreserve(&core->timers, &job->storms_timer);
    timers_unreserve(&core->timers, &job->wait_timer);
}

/* false: no memory; none is reserved. */
static bool reserve_timers(struct core *core, struct job *job)
{
    unsigned count = 0;
    while (count < JOB_TIMERS && timers_reserve(&core->timers))
        count += 1;
    job->linger.kind = TIMER_JOB;
    job->window.kind = TIMER_JOB_WINDOW;
    job->join.kind = TIMER_JOB_JOIN;
    job->deadline.kind = TIMER_JOB_DEADLINE;
    job->storms_timer.kind = TIMER_STORMS;
    job->wait_timer.kind = TIMER_WAITS;
    complaints_init(&job->observers, job, NULL);
    if (count == JOB_TIMERS)
        return true;
    while (count-- > 0)
        timers_unreserve(&core->timers, &job->linger); /* none is set: it is the number alone */
    return false;
}

struct job *job_make(struct core *core, uint32_t id, struct span name, struct span owner)
{
    struct job *job = core_take(&core->jobs, id);
    if (job == NULL)
        return NULL;
    list_init(&job->party_list);
    list_init(&job->topic_list);
    list_init(&job->sub_list);
    list_init(&job->bare_list);
    list_init(&job->taps);
    list_init(&job->room_waiters);
    list_init(&job->to_trim);
    list_init(&job->tight_link);
    list_init(&job->tell_link);
    list_init(&job->due_link);
    list_init(&job->over_link);
    job_spec_init(&job->spec);
    roster_init(&job->roster, core->memory);
    storms_init(&job->storms, core->memory);
    list_init(&job->attachments);
    name_map_init(&job->attachment_names, core->memory);
    name_map_init(&job->parties, core->memory);
    name_map_init(&job->topics, core->memory);
    job->attempt = 1;
    job->event_next = 1;
    job->event_first = 1;
    if (!reserve_timers(core, job)) {
        pool_give(&core->jobs, job);
        return NULL;
    }
    if (!judge_init(core, job)) {
        unreserve_timers(core, job);
        pool_give(&core->jobs, job);
        return NULL;
    }
    job->account = account_get(core, owner);
    if (job->account == NULL || !span_keep(core, name, &job->name) ||
        !name_map_put(&core->job_names, job->name, job->id)) {
        if (job->account != NULL)
            account_unref(core, job->account);
        judge_fini(core, job);
        unreserve_timers(core, job);
        span_drop(core, &job->name);
        pool_give(&core->jobs, job);
        return NULL;
    }
    account_count(job->account, ACCESS_JOBS, 1);
    count_job_begins(core, job);
    note_job_begun(core, job);
    return job;
}

/* Whether the speaker may begin one job more. */
static bool may_begin(struct core *core, struct job_refusal *out_refusal)
{
    struct account *account = account_get(core, account_speaker(core));
    if (account == NULL)
        return false;
    bool has_room = account_has_room(account, ACCESS_JOBS, 1);
    if (!has_room)
        *out_refusal =
            (struct job_refusal){ERROR_TYPE_QUOTA, account_refuse(core, account, ACCESS_JOBS)};
    account_unref(core, account);
    return has_room;
}

struct job *job_get(struct core *core, struct span name, struct job_refusal *out_refusal)
{
    struct job *job = job_known(core, name);
    if (job != NULL)
        return job;
    *out_refusal = (struct job_refusal){ERROR_TYPE_FULL, "the broker has no room for another job"};
    if (!may_begin(core, out_refusal))
        return NULL;
    job = job_make(core, 0, name, account_speaker(core));
    if (job != NULL && core->journal.health != HEALTH_WELL)
        tell_journal_to(core, job);
    return job;
}

void job_free(struct core *core, struct job *job)
{
    LIST_EACH(link, &job->sub_list)
        sub_free(core, LIST_OWNER(link, struct sub, job_link));
    LIST_EACH(link, &job->topic_list)
        topic_free(core, LIST_OWNER(link, struct topic, job_link));
    LIST_EACH(link, &job->party_list)
        party_free(core, LIST_OWNER(link, struct party, job_link));
    judge_fini(core, job);
    attach_forget_all(core, job);
    tell_forget(core, job);
    list_remove(&job->tell_link);
    list_remove(&job->tight_link);
    list_remove(&job->due_link);
    list_remove(&job->over_link);
    failure_unref(core, job->failure);
    failure_unref(core, job->loss);
    roster_fini(&job->roster);
    name_map_remove(&core->job_names, job->name);
    name_map_fini(&job->parties);
    name_map_fini(&job->topics);
    unreserve_timers(core, job);
    account_count(job->account, ACCESS_JOBS, (uint64_t)-1);
    account_unref(core, job->account);
    span_drop(core, &job->run);
    span_drop(core, &job->name);
    count_job_ends(core, job);
    pool_give(&core->jobs, job);
}

void job_hold(struct core *core, struct job *job)
{
    job->session_count += 1;
    timers_clear(&core->timers, &job->linger);
}

void job_keep(struct core *core, struct job *job)
{
    if (job->session_count == 0)
        timers_set(&core->timers, &job->linger, core_clock(core) + core->options.linger_ms * MS_NS);
}

void job_release(struct core *core, struct job *job)
{
    job->session_count -= 1;
    job_keep(core, job);
}

void job_end(struct core *core, struct job *job)
{
    bool was_noting = core->is_noting;
    note_job_ended(core, job);
    core->is_noting = false; /* all in it goes with it */
    job_free(core, job);
    core->is_noting = was_noting;
}

/* Such a job was never held, so no linger time has begun. */
bool job_drop_unused(struct core *core, struct job *job)
{
    if (job->session_count > 0 || job->linger.place > 0)
        return false;
    job_end(core, job);
    return true;
}

/* Whether it waits for a time of its own, and not only for parties. */
static bool is_timed(const struct job *job)
{
    return job->state == JOB_SHORT || job->state == JOB_FAILING || job->state == JOB_PAUSING;
}

/* Not in this step: what it says of the job points to the job's texts. */
void job_linger(struct core *core, struct job *job)
{
    if (job->session_count > 0)
        return;
    if (is_timed(job) || job_find_owed(job) != NULL) {
        job_keep(core, job); /* it ends, or goes on, by itself; or a reader may come back */
        return;
    }
    list_push(&core->jobs_over, &job->over_link);
    core->has_more = true;
}

void jobs_end_over(struct core *core)
{
    LIST_EACH(link, &core->jobs_over)
        job_end(core, LIST_OWNER(link, struct job, over_link));
}
