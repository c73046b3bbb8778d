/* SPDX-License-Identifier: MPL-2.0 */
/* resume.c -- ends a replay: clocks run again, sessions wait for their clients. */
#include "broker/core/core.h"

#include "broker/core/groups/group.h"
#include "broker/core/lifecycle/job.h"
#include "broker/core/lifecycle/judgement.h"
#include "broker/core/lifecycle/liveness.h"
#include "broker/core/lifecycle/membership.h"
#include "broker/core/model.h"
#include "broker/core/record/attachment.h"
#include "broker/core/record/failure.h"
#include "broker/core/record/rights.h"
#include "broker/core/settling/need.h"
#include "broker/core/streams/notice.h"
#include "broker/core/streams/reply.h"
#include "broker/core/streams/sub.h"
#include "broker/core/streams/topic.h"
#include "broker/core/tables/effect.h"
#include "broker/core/tables/event.h"
#include "broker/core/tables/slot_table.h"
#include "broker/core/tables/timers.h"

static void limits_set(struct core *core)
{
    core->jobs.used_max = LIMIT_JOBS;
    core->sessions.used_max = LIMIT_CONNECTIONS;
    core->topics.used_max = core->options.topics_max;
    core->open_slots.used_max = core->options.open_slots_max;
}

/* A deadline goes on by the wall clock; one that passed meanwhile has the resume window.  However
 * far that clock jumped, no slot waits for longer than it was reserved for, or for the window. */
static void resume_slot(struct core *core, struct slot_terms *terms)
{
    int64_t window_ns = core->options.resume_ms * MS_NS;
    int64_t whole_ns = terms->deadline_ms * MS_NS;
    int64_t left_ns = terms->due_wall_ns - core->wall_ns;
    if (terms->deadline_ms < 0)
        return;
    if (left_ns > whole_ns)
        left_ns = whole_ns;
    if (left_ns < window_ns)
        left_ns = window_ns;
    terms->ends_ns = core_clock(core) + left_ns;
    timers_set(&core->timers, &terms->timer, terms->ends_ns);
}

/* No fact tells what was sent to whom.  So every outcome counts as sent, and is final. */
static void resume_topic(struct topic *topic)
{
    for (uint32_t i = 0; i < topic->slots.count; i++) {
        struct slot_entry *entry = slot_table_at(&topic->slots, i);
        entry->is_sealed = entry->state != SLOT_OPEN;
    }
    /* Readers tell where they are: until then nobody is called slow. */
    topic_hold_back(topic, true);
    topic->is_slow_told = true;
    topic->rate_paid = topic->credit_limit;
}

static void resume_subs(struct core *core)
{
    struct sub *sub = NULL;
    while ((sub = pool_next(&core->subs, sub != NULL ? sub->id : 0)) != NULL) {
        bool is_unread =
            sub_is_place(sub) ? list_is_empty(&sub->group->members) : sub->session == NULL;
        if (is_unread && !sub->is_expired)
            timers_set(&core->timers, &sub->timer, core_clock(core) + sub->keep_ns);
        sub_rewind(core, sub);
    }
}

static void resume_owners(struct core *core)
{
    struct party *party = NULL;
    while ((party = pool_next(&core->parties, party != NULL ? party->id : 0)) != NULL)
        party->error_count = party->error_limit;
    struct session *session = NULL;
    while ((session = pool_next(&core->sessions, session != NULL ? session->id : 0)) != NULL) {
        session_resume(core, session);
        notice_resume(core, session);
    }
    struct job *job = NULL;
    while ((job = pool_next(&core->jobs, job != NULL ? job->id : 0)) != NULL) {
        judge_resume(core, job);
        if (job->session_count == 0)
            timers_set(&core->timers, &job->linger,
                       core_clock(core) + core->options.linger_ms * MS_NS);
        job_keep(core, job);
        job_resume(core, job);
    }
}

struct core_moment core_seen(const struct core *core)
{
    return core->seen;
}

void core_resume(struct core *core, const struct event *now, struct effects *effects)
{
    core->effects = effects;
    core->now_ns = core->start_ns = now->now_ns;
    core->wall_ns = now->wall_ns;
    core->steps += 1;
    core->is_replaying = false;
    core->is_noting = core->options.has_facts;
    limits_set(core);
    pool_mend(&core->jobs);
    pool_mend(&core->parties);
    pool_mend(&core->topics);
    pool_mend(&core->subs);
    failure_forget_replayed(core);
    failure_resume_numbers(core);
    rights_resume(core);
    core->is_judged = false;
    resume_owners(core);
    struct slot_terms *terms = NULL;
    while ((terms = pool_next(&core->slot_terms, terms != NULL ? terms->id : 0)) != NULL)
        resume_slot(core, terms);
    terms = NULL;
    while ((terms = pool_next(&core->slot_terms, terms != NULL ? terms->id : 0)) != NULL)
        if (terms->request_topic != 0)
            reply_arm(core, terms->open);
    resume_subs(core);
    attach_resume(core);
    need_resume(core); /* before anything is trimmed */
    groups_resume(core);
    struct topic *topic = NULL;
    while ((topic = pool_next(&core->topics, topic != NULL ? topic->id : 0)) != NULL) {
        resume_topic(topic);
        topic_update(core, topic);
    }
    core->effects = NULL;
}
