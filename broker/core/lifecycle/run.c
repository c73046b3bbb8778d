/* SPDX-License-Identifier: MPL-2.0 */
/* run.c -- the runs of a job that nobody created; broker/design/runs.md has the cases.
 *
 * A run is an attempt, and the next one is begun as after a failed one: topics are empty and number
 * from 0.  It begins in the step in which a party joins that took part in this run and ended well,
 * if nobody is left in the run and nothing of it is owed to anybody.  What the party says of itself
 * goes before that rule.  Nothing but run_begin() ends a run. */
#include "broker/core/lifecycle/run.h"

#include "broker/core/groups/group.h"
#include "broker/core/groups/subscription.h"
#include "broker/core/lifecycle/membership.h"
#include "broker/core/record/failure.h"
#include "broker/core/record/note.h"
#include "broker/core/record/owned_span.h"
#include "broker/core/record/tell.h"
#include "broker/core/streams/sub.h"
#include "broker/core/tables/job.h"
#include "broker/core/streams/topic.h"
#include "broker/core/tables/party.h"

/* All parties of a run are started together, so those that join within this time belong to one run.
 * A party that was there for longer has done work, which is not thrown away. */
#define GATHER_MS 60000
/* Parties that a refusal names. */
#define NAMED_MAX 3

/* ---- what holds a run ------------------------------------------------------------------------ */

/* A reader that holds no run has got all that there was for it. */
static bool is_up_to_date(const struct session *session)
{
    LIST_EACH(sub_link, &session->subs) {
        const struct sub *sub = LIST_OWNER(sub_link, struct sub, session_link);
        if (!list_is_empty(&sub->endings))
            return false;
        LIST_EACH(link, &sub->routes)
            if (route_is_unread(LIST_OWNER(link, struct route, sub_link)))
                return false;
    }
    return true;
}

/* Whether the run goes on for its sake. */
static bool is_there(const struct party *party)
{
    if (party_any_session(party) == NULL)
        return false;
    return party->run_rule != RUN_FOLLOW ||
           (party->session != NULL && !is_up_to_date(party->session));
}

static bool is_anybody_there(const struct job *job)
{
    if (job->live_count != job->follower_count)
        return true;
    if (job->live_count == 0)
        return false;
    LIST_EACH(link, &job->party_list)
        if (is_there(LIST_OWNER(link, struct party, job_link)))
            return true;
    return false;
}

static bool is_at_rest(const struct job *job)
{
    return !is_anybody_there(job) && job_find_owed(job) == NULL;
}

/* ---- whether the next one begins ------------------------------------------------------------- */

static bool has_written(const struct party *party)
{
    LIST_EACH(link, &party->topics)
        if (LIST_OWNER(link, struct topic, party_link)->slots.next_seq > 0)
            return true;
    return false;
}

/* Whether the run went on without this party: a step from a shell wrote in it since the party
 * ended.  The party has something to go on with then, also if it ended well. */
static bool was_written_since(const struct party *party)
{
    LIST_EACH(link, &party->job->party_list) {
        const struct party *other = LIST_OWNER(link, struct party, job_link);
        if (other->attempt == party->attempt && other->run_rule == RUN_CONTINUE &&
            other->ended_ns > party->ended_ns && has_written(other))
            return true;
    }
    return false;
}

static bool ended_well(const struct party *party)
{
    return party->attempt == party->job->attempt &&
           (party->state == PARTY_COMPLETED || party->state == PARTY_LEFT ||
            party->state == PARTY_TERMINATED);
}

/* Whether all connected parties joined since the run was at rest, a moment ago.  Then they can be
 * part of the next run. */
static bool is_gathering(const struct core *core, const struct job *job)
{
    if (!job->is_continued || core_clock(core) - job->woken_ns >= GATHER_MS * MS_NS)
        return false;
    LIST_EACH(link, &job->party_list) {
        const struct party *party = LIST_OWNER(link, struct party, job_link);
        if (party->run_rule != RUN_AS_FOUND && is_there(party))
            return false;
    }
    return job_find_owed(job) == NULL;
}

void run_add_parties(const struct job *job, struct text *text)
{
    uint32_t count = 0;
    LIST_EACH(link, &job->party_list) {
        const struct party *party = LIST_OWNER(link, struct party, job_link);
        if (party_any_session(party) == NULL || ++count > NAMED_MAX)
            continue;
        text_add(text, count > 1 ? ", " : "");
        text_add_span(text, party->name);
    }
    if (count > NAMED_MAX) {
        text_add(text, " and ");
        text_add_number(text, count - NAMED_MAX);
        text_add(text, " more");
    }
}

static void say_held(const struct job *job, bool is_by_parties, struct text *text)
{
    const struct sub *owed = job_find_owed(job);
    text_init(text);
    text_add(text, "run ");
    text_add_number(text, job->attempt);
    text_add(text, " of the job is not over: ");
    if (is_by_parties) {
        run_add_parties(job, text);
        text_add(text, " did not end yet; stop them, or join their run");
        return;
    }
    text_add(text, sub_is_place(owed) ? "the group " : "the durable name ");
    text_add_span(text, owed->name);
    if (!sub_is_place(owed)) {
        text_add(text, " of ");
        text_add_span(text, owed->party->name);
    }
    text_add(text, sub_is_place(owed) ? " has tasks that nobody did" : " has not read everything");
    text_add(text, "; let it, or forget the job");
}

/* Whether the party wants another run than this one, whatever happened in it. */
static bool asks_for_another(const struct job *job, const struct msg_hello *hello)
{
    if (job->state != JOB_FREE || job->part_count == 0)
        return false;
    return hello->run.bytes > 0 ? !span_equal(hello->run, job->run) : hello->run_rule == RUN_NEXT;
}

bool run_is_held(const struct party *party, const struct msg_hello *hello, struct text *out_why)
{
    const struct job *job = party->job;
    bool is_by_parties = false;
    if (!asks_for_another(job, hello))
        return false;
    LIST_EACH(link, &job->party_list) {
        const struct party *other = LIST_OWNER(link, struct party, job_link);
        is_by_parties = is_by_parties || (other != party && is_there(other));
    }
    if (!is_by_parties && job_find_owed(job) == NULL)
        return false;
    say_held(job, is_by_parties, out_why);
    return true;
}

enum run_choice run_choose(struct core *core, const struct party *party,
                           const struct msg_hello *hello, struct text *out_why)
{
    const struct job *job = party->job;
    if (job->state == JOB_CANCELLED)
        return RUN_BEGINS; /* see run_is_free_again() */
    if (job->state != JOB_FREE || job->part_count == 0)
        return RUN_SAME;
    if (asks_for_another(job, hello)) {
        if (is_at_rest(job))
            return RUN_BEGINS;
        say_held(job, is_anybody_there(job), out_why);
        return RUN_IS_HELD;
    }
    if (hello->run.bytes > 0)
        return RUN_SAME;
    if (hello->run_rule != RUN_AS_FOUND || !ended_well(party) || was_written_since(party))
        return RUN_SAME;
    return is_at_rest(job) || is_gathering(core, job) ? RUN_BEGINS : RUN_SAME;
}

bool run_is_free_again(const struct core *core, const struct job *job)
{
    return job->state == JOB_CANCELLED && job->spec.min == 0 && job->judgement.is_final &&
           job_is_over_for_all(core, job);
}

/* ---- beginning, and going on ----------------------------------------------------------------- */

bool run_set_name(struct core *core, struct job *job, struct span name)
{
    struct span kept;
    if (!span_keep(core, name, &kept))
        return false;
    span_drop(core, &job->run);
    job->run = kept;
    note_run_named(core, job);
    return true;
}

void run_take_part(struct party *party, uint32_t incarnation)
{
    struct job *job = party->job;
    if (party->attempt == job->attempt)
        return; /* it was part of it before */
    party->attempt = job->attempt;
    party->first = incarnation;
    job->part_count += 1;
}

/* Whether anybody ended who held the run, and when the last one did.  Viewers have left nothing
 * that could be continued. */
static bool find_last_end(const struct job *job, int64_t *out_ns)
{
    bool is_found = false;
    *out_ns = 0;
    LIST_EACH(link, &job->party_list) {
        const struct party *party = LIST_OWNER(link, struct party, job_link);
        if (party->attempt != job->attempt || party->run_rule == RUN_FOLLOW)
            continue;
        is_found = is_found || party_is_final(party->state);
        if (party->ended_ns > *out_ns)
            *out_ns = party->ended_ns;
    }
    return is_found;
}

void run_join(struct core *core, struct party *party, const struct msg_hello *hello)
{
    struct job *job = party->job;
    if (job->state != JOB_FREE)
        return;
    if (job->part_count == 0 && hello->run.bytes > 0)
        (void)run_set_name(core, job, hello->run); /* without memory it has none: refused later */
    int64_t rest_ns;
    if (hello->run_rule == RUN_FOLLOW || !is_at_rest(job) || !find_last_end(job, &rest_ns))
        return;
    job->is_continued = true;
    job->rest_ns = rest_ns;
    job->woken_ns = core_clock(core);
}

static void tell_begun(struct core *core, struct job *job, struct party *party)
{
    tell(core, job,
         &(struct tell){.name = EVENT_JOB_RUN,
                        .party = party,
                        .incarnation = party->incarnation + 1,
                        .count = job->attempt});
}

void run_begin(struct core *core, struct party *party, const struct msg_hello *hello)
{
    struct job *job = party->job;
    struct text text;
    text_init(&text);
    text_add(&text, "run ");
    text_add_number(&text, (uint64_t)job->attempt + 1);
    text_add(&text, " of the job began when ");
    text_add_span(&text, party->name);
    text_add(&text, " joined: open the bus again to take part");
    struct failure *over =
        failure_make(core, &(struct failure_spec){.job = job,
                                                  .kind = ERROR_CANCELLED,
                                                  .type = ERROR_TYPE_ATTEMPT_OVER,
                                                  .message = text.data});
    job_end_sessions(core, job, over);
    job_free_again(core, job);
    groups_tell_dropped(core, job, over);
    failure_unref(core, over);
    job_begin_attempt(core, job, job->attempt + 1);
    if (hello->run.bytes > 0)
        (void)run_set_name(core, job, hello->run); /* as in run_join() */
    tell_begun(core, job, party);
}
