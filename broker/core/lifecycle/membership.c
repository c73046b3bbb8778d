/* SPDX-License-Identifier: MPL-2.0 */
/* membership.c -- jobs that were created: members and their ranks, epochs, attempts, ends.
 *
 * When a party comes or goes, that is noted at once (job_joined, job_left) and weighed at the end
 * of the step (jobs_settle).  So two losses of one moment make one epoch.  A party that comes again
 * in the place that it lost leaves no hole meanwhile.  And a job that ends does not free the
 * session that is speaking.
 *
 * Only begin_epoch() begins an epoch, and only with min members there. */
#include "broker/core/lifecycle/membership.h"

#include "broker/core/groups/group.h"
#include "broker/core/lifecycle/barrier.h"
#include "broker/core/lifecycle/ending.h"
#include "broker/core/lifecycle/job.h"
#include "broker/core/lifecycle/judgement.h"
#include "broker/core/lifecycle/late.h"
#include "broker/core/lifecycle/parked.h"
#include "broker/core/lifecycle/session.h"
#include "broker/core/record/auditor.h"
#include "broker/core/record/failure.h"
#include "broker/core/record/note.h"
#include "broker/core/record/owned_span.h"
#include "broker/core/record/tell.h"
#include "broker/core/record/text.h"
#include "broker/core/streams/names.h"
#include "broker/core/streams/topic.h"
#include "broker/core/tables/effect.h"
#include "broker/core/tables/job.h"
#include "broker/core/tables/party.h"
#include "broker/core/tables/roster.h"
#include "broker/core/tables/timers.h"
#include "broker/core/tables/verdict.h"
#include "libbus/base/pattern.h"

/* The meaning of recoverable = unknown, by kind.  An error that somebody intended is not tried
 * again. */
#define DELIBERATE_KINDS                                                                           \
    (1U << ERROR_CANCELLED | 1U << ERROR_REJECTED | 1U << ERROR_PARTY_LEFT | 1U << ERROR_TERMINATED)

/* Jobs that an answer names when it does not know the one that was asked for. */
enum { JOBS_NAMED_MAX = 4 };

/* ---- state ----------------------------------------------------------------------------------- */

static void mark_due(struct core *core, struct job *job)
{
    if (job->state != JOB_FREE && !list_is_linked(&job->due_link))
        list_push(&core->jobs_due, &job->due_link);
}

static void set_failure(struct core *core, struct failure **at, struct failure *failure)
{
    struct failure *before = *at;
    *at = failure_ref(failure);
    failure_unref(core, before);
}

/* An attempt ends for all at once: nobody has a place any more. */
static void forget_members(struct core *core, struct job *job)
{
    LIST_EACH(link, &job->party_list)
        party_place(LIST_OWNER(link, struct party, job_link), RANK_NONE);
    roster_clear(&job->roster);
    set_failure(core, &job->loss, NULL);
}

void job_set_state(struct core *core, struct job *job, enum job_state state,
                   struct failure *failure)
{
    job->state = state;
    set_failure(core, &job->failure, failure);
    if (state == JOB_CANCELLED)
        job->cancelled = job->attempt;
    if (state == JOB_PAUSING || state == JOB_FAILED || state == JOB_CANCELLED)
        forget_members(core, job);
}

/* The one place where a job's state changes; failure: what it, or its last attempt, failed of. */
static bool job_move(struct core *core, struct job *job, enum job_change event,
                     struct failure *failure)
{
    enum job_state next;
    if (!job_next(job->state, event, &next))
        return false;
    job_set_state(core, job, next, failure);
    timers_clear(&core->timers, &job->window);
    timers_clear(&core->timers, &job->join);
    job->is_window_over = false;
    if (job_is_final(job->state))
        timers_clear(&core->timers, &job->deadline);
    job->over_ns = core_clock(core);
    note_job_moved(core, job);
    return true;
}

static void tell_job(struct core *core, struct job *job, const char *name, uint64_t count,
                     const char *text, struct failure *failure)
{
    tell(core, job, &(struct tell){.name = name, .count = count, .text = text, .failure = failure});
}

static void set_window(struct core *core, struct job *job, int64_t window_ms)
{
    job->is_window_over = window_ms == 0;
    if (window_ms > 0)
        timers_set(&core->timers, &job->window, core_clock(core) + window_ms * MS_NS);
}

/* ---- epochs ---------------------------------------------------------------------------------- */

static struct party *member_at(const struct core *core, const struct job *job, uint32_t rank)
{
    return pool_find(&core->parties, job->roster.places[rank].party);
}

static void tell_place(struct core *core, const struct job *job, const struct party *party,
                       const struct session *session)
{
    if (session == NULL || session->control == 0 || party_is_final(party->state))
        return;
    struct msg *msg = effects_msg(core->effects, session->control, MSG_MEMBERSHIP);
    msg->as.membership = (struct msg_membership){.epoch = job->roster.epoch,
                                                 .attempt = job->attempt,
                                                 .rank = party->rank,
                                                 .world_size = job->roster.place_count};
}

static void send_membership(struct core *core, const struct job *job, const struct party *party)
{
    tell_place(core, job, party, party->session);
    tell_place(core, job, party, party->guard);
}

void job_greet(struct core *core, struct session *session)
{
    const struct job *job = session->job;
    if (session->party->rank != RANK_NONE && (job->state == JOB_RUNNING || job->state == JOB_SHORT))
        tell_place(core, job, session->party, session);
}

void job_place(struct core *core, struct party *party, uint32_t rank)
{
    party_place(party, rank);
    (void)party_next(party->state, PARTY_STARTS, &party->state); /* no news for one that runs */
    note_placed(core, party);
}

static void tell_epoch(struct core *core, struct job *job)
{
    struct text text;
    text_init(&text);
    text_add(&text, "attempt ");
    text_add_number(&text, job->attempt);
    tell(core, job,
         &(struct tell){.name = EVENT_JOB_EPOCH,
                        .seq = job->roster.epoch,
                        .count = job->roster.place_count,
                        .text = text.data});
}

/* Gives a place to each party that can have one.  If that changes anything, all members are
 * told. */
static void begin_epoch(struct core *core, struct job *job)
{
    if (!roster_seat(&job->roster, job_spec_max(&job->spec)))
        return;
    must(job->roster.place_count >= job->spec.min);
    for (uint32_t rank = 0; rank < job->roster.place_count; rank++) {
        struct party *party = member_at(core, job, rank);
        if (party->rank != rank)
            job_place(core, party, rank);
    }
    barrier_end(core, job, CODE_EFAILED, ERROR_TYPE_EPOCH, "the membership changed");
    job->round = 0;
    set_failure(core, &job->loss, NULL); /* the job goes on without the lost parties */
    note_epoch_begun(core, job);
    tell_epoch(core, job);
    for (uint32_t rank = 0; rank < job->roster.place_count; rank++)
        send_membership(core, job, member_at(core, job, rank));
}

/* ---- the end of an attempt, and of a job ----------------------------------------------------- */

/* Made before the state moves: the fact about that says which numbers are in use. */

static struct failure *job_failure(struct core *core, struct job *job, enum error_kind kind,
                                   const char *type, const char *message, struct failure *cause)
{
    return failure_make(
        core, &(struct failure_spec){
                  .job = job, .kind = kind, .type = type, .message = message, .cause = cause});
}

/* The sessions of the party end with this error, unless a parked message ends them first. */
static void end_member(struct core *core, struct party *party, struct failure *failure)
{
    if (party->session != NULL)
        (void)parked_end(core, party->session); /* a guard may be left */
    if (party_any_session(party) != NULL)
        session_end_party(core, party_any_session(party), PARTY_IS_TERMINATED, failure,
                          CODE_EFENCED);
}

/* A party that is still connected is told that its job ends, and may answer with an error. */
static void end_judged(struct core *core, struct party *party, struct failure *failure)
{
    if (party->session != NULL)
        (void)parked_end(core, party->session);
    if (!party_is_live(party)) {
        end_member(core, party, failure);
        return;
    }
    party_terminate(core, party, failure);
    while (party_any_session(party) != NULL)
        late_begin(core, party_any_session(party), failure);
}

void job_end_sessions(struct core *core, struct job *job, struct failure *failure)
{
    bool is_judged = job->judgement.is_final;
    LIST_EACH(link, &job->party_list) {
        struct party *party = LIST_OWNER(link, struct party, job_link);
        (is_judged ? end_judged : end_member)(core, party, failure);
    }
}

void job_begin_attempt(struct core *core, struct job *job, uint32_t attempt)
{
    bool was_noting = core->is_noting;
    job->attempt = attempt;
    job->part_count = 0;
    job->is_continued = false;
    job->rest_ns = 0;
    span_drop(core, &job->run);
    note_attempt_begun(core, job);
    core->is_noting = false; /* that says it all */
    LIST_EACH(link, &job->topic_list)
        topic_restart(core, LIST_OWNER(link, struct topic, job_link));
    LIST_EACH(link, &job->party_list)
        party_forget_ends(core, LIST_OWNER(link, struct party, job_link));
    judge_anew(core, job);
    core->is_noting = was_noting;
}

static void retry(struct core *core, struct job *job, struct failure *root, int64_t retry_after_ms)
{
    struct text text;
    struct failure *over =
        job_failure(core, job, ERROR_CANCELLED, ERROR_TYPE_ATTEMPT_OVER,
                    "this attempt of the job failed, and there will be another", root);
    job->pause_ms = job_pause_ms(job->attempt - job->first_attempt, retry_after_ms, core->random);
    (void)job_move(core, job, JOB_RETRIES, root); /* from FAILING: see conclude() */
    set_window(core, job, job->pause_ms);
    text_init(&text);
    text_add(&text, "in ");
    text_add_number(&text, (uint64_t)job->pause_ms);
    text_add(&text, " ms");
    job_end_sessions(core, job, over);
    groups_tell_dropped(core, job, over);
    failure_unref(core, over);
    job_begin_attempt(core, job, job->attempt + 1);
    tell_job(core, job, EVENT_JOB_ATTEMPT, job->attempt, text.data, job->failure);
}

uint32_t job_attempts_left(const struct job *job)
{
    uint32_t used = job->attempt - job->first_attempt;
    return used < job->spec.max_restarts && !job->is_called_off ? job->spec.max_restarts - used : 0;
}

/* Whether to try again after this error; retry_after_ms: when it says so, else -1. */
static bool is_worth_another(struct core *core, const struct job *job,
                             const struct failure *failure, int64_t *out_retry_after_ms)
{
    uint32_t count = 0;
    const struct error_record *root = &core->scratch[0];
    if (job_attempts_left(job) == 0 ||
        error_decode(failure_span(failure), core->scratch, LIMIT_ERROR_RECORDS, &count) != WIRE_OK)
        return false;
    *out_retry_after_ms = root->retry_after_ms;
    if (root->recoverable == RECOVERABLE_UNKNOWN)
        return (1U << root->kind & DELIBERATE_KINDS) == 0;
    return root->recoverable == RECOVERABLE_YES;
}

static void give_up(struct core *core, struct job *job, struct failure *root)
{
    struct failure *over =
        job_failure(core, job, ERROR_CANCELLED, ERROR_TYPE_JOB_FAILED, "the job failed", root);
    (void)job_move(core, job, JOB_FAILS, root); /* from FAILING */
    job_end_sessions(core, job, over);
    failure_unref(core, over);
    tell_job(core, job, EVENT_JOB_FAILED, job->attempt, "", job->failure);
}

/* Its verdict is final: another attempt, or the end. */
static void conclude(struct core *core, struct job *job)
{
    int64_t retry_after_ms = -1;
    struct failure *root =
        failure_ref(job->judgement.is_final ? job->judgement.root : job->failure);
    if (is_worth_another(core, job, root, &retry_after_ms))
        retry(core, job, root, retry_after_ms);
    else
        give_up(core, job, root);
    failure_unref(core, root);
}

/* It cannot go on: failure is what it can show for that. */
static void break_off(struct core *core, struct job *job, struct failure *failure)
{
    if (!job_move(core, job, JOB_BREAKS, failure))
        return;
    tell_job(core, job, EVENT_JOB_FAILING, roster_present(&job->roster), "", failure);
    judge_look(core, job);
}

/* The broker's error about the job counts as the errors of parties do. */
static void break_off_for(struct core *core, struct job *job, struct failure *failure)
{
    (void)judge_error(core, job, NULL, failure); /* whether it comes late makes no difference */
    break_off(core, job, failure);
    failure_unref(core, failure);
}

static void break_for_too_few(struct core *core, struct job *job)
{
    if (job->failure != NULL)
        break_off(core, job, job->failure);
    else
        break_off_for(core, job,
                      job_failure(core, job, ERROR_PARTY_LEFT, ERROR_TYPE_TOO_FEW,
                                  "so many parties left that fewer than the job needs remain",
                                  NULL));
}

static void complete(struct core *core, struct job *job)
{
    (void)job_move(core, job, JOB_COMPLETES, NULL); /* from RUNNING: see carry_on() */
    struct failure *failure = job_failure(core, job, ERROR_TERMINATED, ERROR_TYPE_JOB_OVER,
                                          "the job completed, and this party was not needed", NULL);
    LIST_EACH(link, &job->party_list) {
        struct party *party = LIST_OWNER(link, struct party, job_link);
        if (!party_is_final(party->state))
            end_member(core, party, failure);
    }
    failure_unref(core, failure);
    tell_job(core, job, EVENT_JOB_COMPLETED, job->roster.completed_count, "", NULL);
}

/* ---- weighing -------------------------------------------------------------------------------- */

/* The join timeout runs while a party waits.  At another attempt parties wait before they are
 * back. */
static void await_members(struct core *core, struct job *job)
{
    int64_t timeout_ms = job->spec.join_timeout_ms;
    if (job->roster.waiting_count == 0 && job->attempt == job->first_attempt)
        timers_clear(&core->timers, &job->join);
    else if (job->join.place == 0 && timeout_ms >= 0)
        timers_set(&core->timers, &job->join, core_clock(core) + timeout_ms * MS_NS);
}

static void gather(struct core *core, struct job *job)
{
    uint32_t there = job->roster.waiting_count;
    await_members(core, job);
    if (there == 0) {
        timers_clear(&core->timers, &job->window);
        job->is_window_over = false;
        return;
    }
    if (job->window.place == 0 && !job->is_window_over)
        set_window(core, job, job->spec.join_window_ms);
    if (there < job->spec.min || (there < job_spec_max(&job->spec) && !job->is_window_over))
        return;
    (void)job_move(core, job, JOB_STARTS, job->failure); /* from GATHERING */
    begin_epoch(core, job);
}

static void fall_short(struct core *core, struct job *job)
{
    if (!job_move(core, job, JOB_FALLS_SHORT, job->loss))
        return; /* it is, and waits */
    tell_job(core, job, EVENT_JOB_SHORT, roster_present(&job->roster), "", job->failure);
    set_window(core, job, job->spec.join_window_ms);
    if (job->is_window_over)
        break_for_too_few(core, job);
}

struct job_parties job_parties_of(const struct job *job)
{
    const struct roster *roster = &job->roster;
    return (struct job_parties){.present = roster_present(roster),
                                .live = roster_live(roster),
                                .completed = roster->completed_count,
                                .waiting = roster->waiting_count};
}

struct job_parties job_parties_without(const struct job *job, const struct party *party)
{
    struct job_parties parties = job_parties_of(job);
    enum roster_role role = roster_role(&job->roster, party->id);
    parties.present -= role == ROSTER_HAS_PLACE;
    parties.live -= role == ROSTER_HAS_PLACE;
    parties.waiting -= role == ROSTER_WAITS;
    return parties;
}

static void carry_on(struct core *core, struct job *job)
{
    const struct job_parties parties = job_parties_of(job);
    switch (job_weigh(&job->spec, job->state, &parties)) {
    case JOB_IS_DONE: complete(core, job); break;
    case JOB_GOES_ON:
        (void)job_move(core, job, JOB_FILLS_UP, NULL); /* if it was short */
        begin_epoch(core, job);
        break;
    case JOB_WAITS_FOR_OTHERS:
    case JOB_CANNOT_GO_ON: fall_short(core, job); break;
    }
}

static void weigh(struct core *core, struct job *job)
{
    switch (job->state) {
    case JOB_GATHERING: gather(core, job); break;
    case JOB_RUNNING:
    case JOB_SHORT: carry_on(core, job); break;
    case JOB_FREE:
    case JOB_FAILING:
    case JOB_PAUSING:
    case JOB_COMPLETED:
    case JOB_FAILED:
    case JOB_CANCELLED:
    case JOB_STATE_COUNT: break;
    }
}

void jobs_settle(struct core *core)
{
    while (!list_is_empty(&core->jobs_due)) {
        struct job *job = LIST_OWNER(core->jobs_due.next, struct job, due_link);
        list_remove(&job->due_link);
        weigh(core, job);
    }
}

void job_window_over(struct core *core, struct job *job)
{
    job->is_window_over = true;
    if (job->state == JOB_SHORT)
        break_for_too_few(core, job);
    else if (job->state == JOB_FAILING)
        conclude(core, job);
    else if (job_move(core, job, JOB_GATHERS, job->failure)) /* if it paused */
        job_keep(core, job);                                 /* from now on */
    mark_due(core, job);
}

/* "2 of 4 parties joined within the join timeout of 600000 ms: alice, bob" */
static void add_missing(struct core *core, const struct job *job, struct text *text)
{
    enum { NAMED_MAX = 8 };
    const struct roster *roster = &job->roster;
    text_add_number(text, roster->waiting_count);
    text_add(text, " of ");
    text_add_number(text, job->spec.min);
    text_add(text, " parties joined within the join timeout of ");
    text_add_number(text, (uint64_t)job->spec.join_timeout_ms);
    text_add(text, " ms");
    for (uint32_t i = 0; i < roster->waiting_count && i < NAMED_MAX; i++) {
        const struct party *party = pool_find(&core->parties, roster->waiting[i]);
        text_add(text, i == 0 ? ": " : ", ");
        text_add_span(text, party->name);
    }
    if (roster->waiting_count > NAMED_MAX)
        text_add(text, " and others");
}

void job_join_over(struct core *core, struct job *job)
{
    struct text text;
    if (job->state != JOB_GATHERING || job->roster.waiting_count >= job->spec.min)
        return; /* the join window is open for more */
    text_init(&text);
    add_missing(core, job, &text);
    struct failure *failure =
        job_failure(core, job, ERROR_DEADLINE, ERROR_TYPE_TOO_FEW_JOINED, text.data, NULL);
    job->is_called_off = true; /* another attempt would wait for the same parties */
    break_off_for(core, job, failure);
    mark_due(core, job);
}

void job_deadline_passed(struct core *core, struct job *job)
{
    struct text text;
    bool was_failing = job->state == JOB_FAILING;
    text_init(&text);
    text_add(&text, "the job is not done within its deadline of ");
    text_add_number(&text, (uint64_t)job->spec.deadline_ms);
    text_add(&text, " ms");
    struct failure *failure =
        job_failure(core, job, ERROR_DEADLINE, ERROR_TYPE_JOB_DEADLINE, text.data, NULL);
    job->is_called_off = true;
    break_off_for(core, job, failure);
    if (was_failing) /* no move has said it */
        note_job_moved(core, job);
}

struct failure *job_ending(struct core *core, struct job *job)
{
    const struct judgement *judgement = &job->judgement;
    return job_failure(core, job, ERROR_CANCELLED, ERROR_TYPE_JOB_ENDING,
                       "this attempt of the job is ending",
                       judgement->is_said ? judgement->root : job->failure);
}

/* ---- parties come and go --------------------------------------------------------------------- */

const char *job_refusal(const struct job *job, const struct party *party, const char **out_type)
{
    *out_type = ERROR_TYPE_JOB_OVER;
    if (job->state == JOB_COMPLETED)
        return "the job has completed";
    if (job->state == JOB_FAILED)
        return "the job has failed";
    if (job->state == JOB_CANCELLED)
        return "the job was cancelled";
    *out_type = ERROR_TYPE_JOB_ENDING;
    if (job->state == JOB_FAILING)
        return "this attempt of the job is ending";
    *out_type = ERROR_TYPE_COMPLETED;
    if (party != NULL && party->state == PARTY_COMPLETED && party->rank != RANK_NONE)
        return "the party has completed in this attempt";
    return NULL;
}

void job_joined(struct core *core, struct party *party)
{
    struct job *job = party->job;
    party->rank = RANK_NONE;
    if (job->state == JOB_FREE) {
        (void)party_next(party->state, PARTY_STARTS, &party->state); /* from SCHEDULING */
        return;
    }
    roster_add(&job->roster, party->id);
    mark_due(core, job);
}

void job_left(struct core *core, struct party *party)
{
    struct job *job = party->job;
    if (party->state == PARTY_COMPLETED) {
        if (roster_complete(&job->roster, party->id))
            barrier_end(core, job, CODE_EENDED, ERROR_TYPE_COMPLETED,
                        "a member completed, and will not come");
    } else {
        (void)roster_remove(&job->roster, party->id); /* or it had neither */
        party_place(party, RANK_NONE);
    }
    mark_due(core, job);
}

void job_lost(struct core *core, struct party *party, struct failure *failure)
{
    struct job *job = party->job;
    if (party->rank != RANK_NONE && job->loss == NULL && party->state != PARTY_LEFT)
        set_failure(core, &job->loss, failure);
}

/* ---- what operators ask ---------------------------------------------------------------------- */

static uint32_t number_within(uint64_t number)
{
    return number <= UINT32_MAX ? (uint32_t)number : UINT32_MAX;
}

static struct job_spec spec_of(const struct msg_job_create *msg)
{
    struct job_spec spec = {.min = number_within(msg->min),
                            .max = number_within(msg->max),
                            .join_window_ms = msg->join_window_ms,
                            .join_timeout_ms = msg->join_timeout_ms,
                            .settle_ms = msg->settle_ms,
                            .max_restarts = number_within(msg->max_restarts),
                            .deadline_ms = msg->deadline_ms,
                            .pending = (uint8_t)msg->pending,
                            .strategy = (uint8_t)msg->strategy,
                            .disclosure = (uint8_t)msg->disclosure,
                            .deadlock = (uint8_t)msg->deadlock};
    if (msg->auditor.bytes == KEY_BYTES)
        memcpy(spec.auditor, msg->auditor.data, KEY_BYTES);
    return spec;
}

static const char *job_create_complaint(const struct msg_job_create *msg,
                                        const struct job_spec *spec)
{
    if (!party_is_valid(msg->job))
        return "the job's name is not well formed";
    if (msg->strategy >= VERDICT_STRATEGY_COUNT)
        return "there is no such strategy";
    if (msg->auditor.bytes > 0 && !job_spec_has_auditor(spec))
        return "the auditor is not a public key";
    return job_spec_complaint(spec);
}

static bool has_parties(const struct job *job)
{
    LIST_EACH(link, &job->party_list)
        if (party_any_session(LIST_OWNER(link, struct party, job_link)) != NULL)
            return true;
    return false;
}

bool job_is_over_for_all(const struct core *core, const struct job *job)
{
    return job->live_count == 0 && core_clock(core) - job->over_ns >= job->spec.settle_ms * MS_NS;
}

void job_free_again(struct core *core, struct job *job)
{
    job->is_called_off = false;
    (void)job_move(core, job, JOB_IS_FREED, NULL); /* from CANCELLED; a free one stays */
}

void job_begin(struct core *core, struct job *job, const struct job_spec *spec, int64_t due_wall_ns)
{
    forget_members(core, job);
    set_failure(core, &job->failure, NULL);
    job->is_called_off = false;
    job->first_attempt = job->attempt;
    job->spec = *spec;
    job->due_wall_ns = due_wall_ns;
    note_job_created(core, job);
    bool was_noting = core->is_noting;
    core->is_noting = false; /* that says it all */
    judge_anew(core, job);
    core->is_noting = was_noting;
    (void)job_next(job->state, JOB_IS_CREATED, &job->state); /* from FREE, or what is final */
}

static void tell_created(struct core *core, struct job *job)
{
    struct text text;
    text_init(&text);
    text_add(&text, "min ");
    text_add_number(&text, job->spec.min);
    text_add(&text, ", max ");
    text_add_number(&text, job_spec_max(&job->spec));
    text_add(&text, ", restarts ");
    text_add_number(&text, job->spec.max_restarts);
    tell_job(core, job, EVENT_JOB_CREATED, 0, text.data, NULL);
}

static void create(struct core *core, struct job *job, const struct job_spec *spec)
{
    int64_t due_wall_ns = spec->deadline_ms >= 0 ? core->wall_ns + spec->deadline_ms * MS_NS : 0;
    session_take_taps(core, job);
    if (job->part_count > 0)
        job_begin_attempt(core, job, job->attempt + 1);
    job_begin(core, job, spec, due_wall_ns);
    if (spec->deadline_ms >= 0)
        timers_set(&core->timers, &job->deadline, core_clock(core) + spec->deadline_ms * MS_NS);
    job_keep(core, job);
    tell_created(core, job);
}

void job_create(struct core *core, struct session *session, const struct msg_job_create *msg)
{
    struct job_spec spec = spec_of(msg);
    const char *wrong = job_create_complaint(msg, &spec);
    struct job_refusal refusal;
    struct job *job = wrong == NULL ? job_get(core, msg->job, &refusal) : NULL;
    enum wire_code code = CODE_ESETTLED;
    const char *type = ERROR_TYPE_JOB_DIFFERS;
    if (wrong != NULL) {
        code = CODE_EINVAL;
        type = ERROR_TYPE_ARGUMENT;
    } else if (job == NULL) {
        code = CODE_EFULL;
        type = refusal.type;
        wrong = refusal.message;
    } else if (job_is_final(job->state) && !job_is_over_for_all(core, job)) {
        code = CODE_EDENIED;
        wrong = job_refusal(job, NULL, &type);
    } else if (job_is_final(job->state)) {
        create(core, job, &spec);
    } else if (job->state != JOB_FREE && !job_spec_equal(&job->spec, &spec)) {
        wrong = "a job of this name was created, and is another one";
    } else if (job->state == JOB_FREE && has_parties(job)) {
        wrong = "parties are in a job of this name that nobody created";
    } else if (job->state == JOB_FREE) {
        create(core, job, &spec);
    }
    if (wrong != NULL)
        effects_job_done(core->effects, session->control, msg->request, code, type, wrong);
    else
        effects_job_done(core->effects, session->control, msg->request, CODE_OK, "", "");
}

static void add_jobs(struct core *core, struct text *text)
{
    uint32_t count = 0;
    struct job *job = NULL;
    while ((job = pool_next(&core->jobs, job != NULL ? job->id : 0)) != NULL) {
        if (++count > JOBS_NAMED_MAX)
            continue;
        text_add(text, count == 1 ? "; the jobs are " : ", ");
        text_add_span(text, job->name);
    }
    text_add(text, count == 0               ? "; there are no jobs"
                   : count > JOBS_NAMED_MAX ? " and others"
                                            : "");
}

const char *job_missing_text(struct core *core, struct span name)
{
    const char *text = text_say(&core->why_held, "there is no job ", name);
    add_jobs(core, &core->why_held);
    return text;
}

struct job *job_find(struct core *core, const struct session *session, struct span name,
                     uint64_t request)
{
    struct job *job = job_known(core, name);
    if (job != NULL)
        return job;
    effects_job_done(core->effects, session->control, request, CODE_EINVAL, ERROR_TYPE_NO_JOB,
                     job_missing_text(core, name));
    return NULL;
}

static void show_member(struct core *core, const struct session *session, uint64_t request,
                        uint32_t party_id, int64_t rank)
{
    const struct party *party = pool_find(&core->parties, party_id);
    struct msg *msg = effects_msg(core->effects, session->control, MSG_JOB_MEMBER);
    msg->as.job_member = (struct msg_job_member){.request = request,
                                                 .party = party->name,
                                                 .incarnation = party->incarnation,
                                                 .state = span_text(party_state_name(party->state)),
                                                 .rank = rank};
}

void job_show(struct core *core, struct session *session, const struct msg_job_show *msg)
{
    const struct job *job = job_find(core, session, msg->job, msg->request);
    if (job == NULL)
        return;
    const struct job_spec *spec = &job->spec;
    for (uint32_t rank = 0; rank < job->roster.place_count; rank++)
        if (job->roster.places[rank].party != 0)
            show_member(core, session, msg->request, job->roster.places[rank].party, rank);
    for (uint32_t i = 0; i < job->roster.waiting_count; i++)
        show_member(core, session, msg->request, job->roster.waiting[i], -1);
    effects_msg(core->effects, session->control, MSG_JOB_SHOWN)->as.job_shown =
        (struct msg_job_shown){.request = msg->request,
                               .state = span_text(job_state_name(job->state)),
                               .min = spec->min,
                               .max = spec->max,
                               .join_window_ms = spec->join_window_ms,
                               .join_timeout_ms = spec->join_timeout_ms,
                               .settle_ms = spec->settle_ms,
                               .max_restarts = spec->max_restarts,
                               .deadline_ms = spec->deadline_ms,
                               .pending = spec->pending,
                               .strategy = spec->strategy,
                               .attempt = job->attempt,
                               .epoch = job->roster.epoch,
                               .world_size = job->roster.place_count,
                               .error = failure_span(job->failure),
                               .disclosure = spec->disclosure,
                               .deadlock = spec->deadlock,
                               .auditor = auditor_of(job)};
}

static void cancel(struct core *core, struct job *job, struct span why)
{
    struct text text;
    text_init(&text);
    text_add(&text, "the job was cancelled");
    if (why.bytes > 0)
        text_add(&text, ": ");
    text_add_span(&text, why);
    struct failure *failure =
        job_failure(core, job, ERROR_CANCELLED, ERROR_TYPE_JOB_CANCELLED, text.data, NULL);
    job->is_called_off = true;
    (void)judge_error(core, job, NULL, failure);          /* late or not, it is over */
    (void)job_move(core, job, JOB_IS_CANCELLED, failure); /* from all that is not final */
    job_end_sessions(core, job, failure);
    tell_job(core, job, EVENT_JOB_CANCELLED, 0, text.data, failure);
    failure_unref(core, failure);
}

void job_cancel(struct core *core, struct session *session, const struct msg_job_cancel *msg)
{
    const char *type;
    struct job *job = job_find(core, session, msg->job, msg->request);
    if (job == NULL)
        return;
    if (job->state != JOB_CANCELLED && job_is_final(job->state)) {
        effects_job_done(core->effects, session->control, msg->request, CODE_EDENIED,
                         ERROR_TYPE_JOB_OVER, job_refusal(job, NULL, &type));
        return;
    }
    effects_job_done(core->effects, session->control, msg->request, CODE_OK, "", "");
    if (job->state != JOB_CANCELLED)
        cancel(core, job, msg->message); /* may end this very session */
}

/* ---- beginning again ------------------------------------------------------------------------- */

/* Windows and pauses begin anew; the deadline goes on by the wall clock. */
void job_resume(struct core *core, struct job *job)
{
    int64_t whole_ns = job->spec.deadline_ms * MS_NS;
    int64_t left_ns = job->due_wall_ns - core->wall_ns;
    job->over_ns = core_clock(core);
    if (job->state == JOB_FAILING && job->judgement.is_final)
        judge_conclude_soon(core, job);
    else if (job->state == JOB_FAILING)
        judge_look(core, job);
    if (job->state == JOB_SHORT)
        set_window(core, job, job->spec.join_window_ms);
    if (job->state == JOB_PAUSING)
        set_window(core, job, job->pause_ms);
    if (job->spec.deadline_ms >= 0 && job->state != JOB_FREE && !job_is_final(job->state))
        timers_set(&core->timers, &job->deadline,
                   core_clock(core) + (left_ns > whole_ns ? whole_ns
                                       : left_ns > 0      ? left_ns
                                                          : 0));
    mark_due(core, job);
}
