/* SPDX-License-Identifier: MPL-2.0 */
/* judgement.c -- why a job cannot go on: collects its errors, and gives its verdict.
 *
 * tables/verdict.h has the rules.  The errors that count are those with which parties ended, each
 * with the chain of its causes, and the broker's errors about the job.  The error of a slot does
 * not count alone: a party that fails because of it names it as a cause.  An error is added before
 * its party counts as ended. judge_all() weighs at the end of the step, because one step may end
 * an incarnation and begin the next.
 *
 * A job that nobody created survives its losses, and goes on while a party of it takes part.  Its
 * verdict is given when the last party has ended.  A party that completes shows that the job went
 * on after the errors before it.  A party that joins after the final verdict begins a new
 * judgement.  For a created job, membership.c decides when it cannot go on, and learns of the
 * final verdict. */
#include "broker/core/lifecycle/judgement.h"

#include "broker/core/record/failure.h"
#include "broker/core/record/note.h"
#include "broker/core/record/owned_span.h"
#include "broker/core/record/tell.h"
#include "broker/core/record/text.h"
#include "broker/core/streams/names.h"
#include "broker/core/tables/effect.h"
#include "broker/core/tables/job.h"
#include "broker/core/tables/party.h"
#include "broker/core/tables/roster.h"
#include "broker/core/tables/timers.h"
#include "broker/core/tables/verdict.h"

#include <string.h>

#define US_NS INT64_C(1000)
#define CONSEQUENCES (UINT64_C(1) << ERROR_TERMINATED | UINT64_C(1) << ERROR_DEPENDENCY)

static struct job *job_of(struct judgement *judgement)
{
    return LIST_OWNER(judgement, struct job, judgement);
}

/* ---- beginning and ending -------------------------------------------------------------------- */

static void judgement_begin(struct core *core, struct job *job)
{
    verdict_init(&job->judgement.verdict, core->memory,
                 &(struct verdict_options){.attempt = job->attempt,
                                           .strategy = (enum verdict_strategy)job->spec.strategy,
                                           .consequence_kinds = CONSEQUENCES,
                                           .settle_ns = DEFAULT_SETTLE_MS * MS_NS});
    /* Before the first count of parties nothing is survived; nor during a replay. */
    (void)verdict_step(&job->judgement.verdict, core->now_ns,
                       &(struct verdict_job){.remaining_min = 1});
    name_map_init(&job->judgement.by_id, core->memory);
}

bool judge_init(struct core *core, struct job *job)
{
    struct judgement *judgement = &job->judgement;
    if (!timers_reserve(&core->timers))
        return false;
    judgement->timer.kind = TIMER_VERDICT;
    list_init(&judgement->link);
    list_init(&judgement->waiters);
    judgement_begin(core, job);
    return true;
}

static void judgement_let_go(struct core *core, struct judgement *judgement)
{
    for (uint32_t i = 0; i < judgement->count; i++)
        failure_unref(core, judgement->errors[i].failure);
    memory_give(core->memory, judgement->errors, judgement->room * sizeof *judgement->errors);
    name_map_fini(&judgement->by_id);
    failure_unref(core, judgement->root);
    span_drop(core, &judgement->why);
    span_drop(core, &judgement->why_before);
    verdict_fini(&judgement->verdict);
}

static void verdict_answer(struct core *core, struct session *session, const struct job *job,
                           uint64_t request);

void judge_fini(struct core *core, struct job *job)
{
    struct judgement *judgement = &job->judgement;
    LIST_EACH(link, &judgement->waiters) {
        struct session *session = LIST_OWNER(link, struct session, verdict_link);
        list_remove(link);
        verdict_answer(core, session, NULL, session->verdict_request);
    }
    list_remove(&judgement->link);
    timers_unreserve(&core->timers, &judgement->timer);
    judgement_let_go(core, judgement);
}

void judge_anew(struct core *core, struct job *job)
{
    struct judgement *judgement = &job->judgement;
    judgement_let_go(core, judgement);
    timers_clear(&core->timers, &judgement->timer);
    judgement->errors = NULL;
    judgement->count = judgement->room = judgement->survived_count = 0;
    judgement->bytes = 0;
    judgement->root = NULL;
    judgement->is_said = judgement->is_final = false;
    judgement->said_ns = 0;
    judgement_begin(core, job);
    note_verdict_forgotten(core, job);
}

void judge_joined(struct core *core, struct job *job)
{
    if (job->judgement.is_final)
        judge_anew(core, job);
    judge_look(core, job);
}

void judge_look(struct core *core, struct job *job)
{
    struct judgement *judgement = &job->judgement;
    if (!judgement->is_final && !list_is_linked(&judgement->link))
        list_push(&core->judged, &judgement->link);
}

/* ---- what is weighed ------------------------------------------------------------------------- */

static void mark_survived(struct core *core, struct job *job)
{
    job->judgement.survived_count = job->judgement.count;
    note_verdict_survived(core, job);
}

/* The incarnation of the blamed party that took part when the error occurred; 0: not known. */
static uint32_t blamed_incarnation(struct core *core, const struct job *job,
                                   const struct error_record *record, struct span blamed)
{
    uint32_t id;
    if (blamed.bytes == 0 || !name_map_get(&job->parties, blamed, &id))
        return 0;
    const struct party *party = pool_find(&core->parties, id);
    int64_t slack_ns = (int64_t)(record->uncertainty_ns & INT64_MAX);
    bool is_of_it = party->joined_ns > 0 && slack_ns < record->occurred_ns &&
                    record->occurred_ns - slack_ns >= party->joined_ns;
    return is_of_it ? party->incarnation : 0;
}

static void find_blamed(struct core *core, const struct job *job, const struct error_record *record,
                        uint32_t *blamed)
{
    blamed[0] = blamed_incarnation(core, job, record, record->blames);
    for (uint32_t i = 0; i < record->more_blame_count; i++)
        blamed[1 + i] = blamed_incarnation(core, job, record, record->more_blames[i]);
}

/* What the verdict takes from a record: its causes and its blames. */
struct links {
    struct span causes[LIMIT_ERROR_CAUSES];
    struct verdict_blame blames[LIMIT_ERROR_BLAMES];
};

/* What a party claims of others is not weighed. */
static bool is_weighed(const struct error_record *cause)
{
    return cause->id.bytes > 0 && cause->claimed_by.bytes == 0;
}

static struct verdict_error weighable(const struct error_record *records, uint32_t index,
                                      const uint32_t *blamed, struct links *links)
{
    const struct error_record *record = &records[index];
    struct verdict_error error = {.id = record->id,
                                  .party = record->party,
                                  .incarnation = record->incarnation,
                                  .attempt = record->attempt,
                                  .kind = record->kind,
                                  .recoverable = record->recoverable,
                                  .origin = record->origin,
                                  .code = record->code,
                                  .occurred_ns = record->occurred_ns,
                                  .uncertainty_ns = record->uncertainty_ns,
                                  .is_hearsay = index > 0,
                                  .causes = links->causes,
                                  .blames = links->blames};
    for (uint32_t i = 0; i < record->cause_count; i++)
        if (is_weighed(&records[record->causes[i]]))
            links->causes[error.cause_count++] = records[record->causes[i]].id;
    if (record->blames.bytes > 0)
        links->blames[error.blame_count++] = (struct verdict_blame){record->blames, blamed[0]};
    for (uint32_t i = 0; i < record->more_blame_count; i++)
        links->blames[error.blame_count++] =
            (struct verdict_blame){record->more_blames[i], blamed[1 + i]};
    return error;
}

/* Adds the error itself, and its causes of this attempt as hearsay.  Of an error that is not kept
 * they are left out, too: no fact tells of them. */
static enum verdict_err add_records(struct core *core, struct job *job, struct judged *judged)
{
    static const uint32_t unknown[LIMIT_ERROR_BLAMES] = {0};
    struct error_record *records = core->scratch;
    struct links links;
    uint32_t count = 0;
    enum wire_err read =
        error_decode(failure_span(judged->failure), records, LIMIT_ERROR_RECORDS, &count);
    must(read == WIRE_OK && count > 0); /* it was encoded here */
    if (!core->is_replaying)
        find_blamed(core, job, &records[0], judged->blamed);
    struct verdict_error head = weighable(records, 0, judged->blamed, &links);
    head.attempt = job->attempt;
    head.is_fatal = true;
    head.believed_from_ns = judged->believed_from_ns;
    enum verdict_err err = verdict_add(&job->judgement.verdict, judged->at_ns, &head);
    bool is_kept = err == VERDICT_OK || err == VERDICT_KNOWN;
    for (uint32_t i = 1; i < count && is_kept; i++) {
        struct verdict_error cause = weighable(records, i, unknown, &links);
        if (is_weighed(&records[i]) && cause.attempt == job->attempt)
            (void)verdict_add(&job->judgement.verdict, judged->at_ns, &cause);
    }
    return err;
}

static bool has_room_for_error(const struct judgement *judgement, const struct failure *failure)
{
    return judgement->count < LIMIT_VERDICT_ERRORS &&
           judgement->bytes + failure->byte_count <= LIMIT_VERDICT_BYTES;
}

static void forget_oldest(struct core *core, struct judgement *judgement)
{
    struct failure *failure = judgement->errors[0].failure;
    name_map_remove(&judgement->by_id, failure_id(failure));
    judgement->bytes -= failure->byte_count;
    judgement->count -= 1;
    judgement->survived_count -= 1;
    memmove(judgement->errors, judgement->errors + 1, judgement->count * sizeof *judgement->errors);
    failure_unref(core, failure);
}

/* Reserves room to keep an error before it is weighed.  Facts speak of the errors that are kept,
 * and a replay must weigh the same ones. */
static bool reserve_kept(struct core *core, struct judgement *judgement)
{
    if (!name_map_reserve(&judgement->by_id))
        return false;
    if (judgement->count < judgement->room)
        return true;
    uint32_t room = judgement->room > 0 ? 2 * judgement->room : 16;
    struct judged *errors = memory_resize(core->memory, judgement->errors,
                                          judgement->room * sizeof *errors, room * sizeof *errors);
    if (errors == NULL)
        return false;
    judgement->errors = errors;
    judgement->room = room;
    return true;
}

/* Keeps an error, unless it is kept already; reserve_kept() came first.  At the limit, survived
 * errors go, the oldest first.  If none is left, the new error is weighed and not kept. */
static void judgement_keep(struct core *core, struct job *job, const struct judged *judged)
{
    struct judgement *judgement = &job->judgement;
    struct span id = failure_id(judged->failure);
    uint32_t known;
    if (name_map_get(&judgement->by_id, id, &known))
        return;
    while (!has_room_for_error(judgement, judged->failure) && judgement->survived_count > 0)
        forget_oldest(core, judgement);
    if (!has_room_for_error(judgement, judged->failure))
        return;
    bool is_put = name_map_put(&judgement->by_id, id, judged->failure->id);
    must(is_put); /* reserved */
    judgement->errors[judgement->count++] = *judged;
    judgement->bytes += judged->failure->byte_count;
    (void)failure_ref(judged->failure);
    note_verdict_error(core, job, judged);
}

/* A party may fail before it joins, and say so when it has joined. */
static int64_t believed_from_ns(const struct party *party)
{
    const int64_t start_up_ns = LIMIT_START_UP_MS * INT64_C(1000000);
    if (party == NULL || party->joined_ns == 0)
        return 0;
    return party->joined_ns > start_up_ns ? party->joined_ns - start_up_ns : 1;
}

bool judge_error(struct core *core, struct job *job, const struct party *party,
                 struct failure *failure)
{
    struct judged judged = {
        .failure = failure, .at_ns = core->now_ns, .believed_from_ns = believed_from_ns(party)};
    if (verdict_survive(&job->judgement.verdict, core->now_ns))
        mark_survived(core, job);
    enum verdict_err err = reserve_kept(core, &job->judgement)
                               ? add_records(core, job, &judged)
                               : verdict_leave_out(&job->judgement.verdict, core->now_ns);
    if (err == VERDICT_OK || err == VERDICT_KNOWN)
        judgement_keep(core, job, &judged);
    judge_look(core, job);
    return err == VERDICT_LATE;
}

void judge_completed(struct core *core, struct job *job)
{
    if (job->state != JOB_FREE || job->judgement.verdict.fresh_count == 0 || job->judgement.is_said)
        return; /* for a created job the minimum decides whether it goes on */
    verdict_set_survived(&job->judgement.verdict);
    mark_survived(core, job);
}

/* ---- who is told ----------------------------------------------------------------------------- */

static struct failure *kept_failure(struct core *core, const struct judgement *judgement,
                                    struct span id)
{
    uint32_t failure;
    return name_map_get(&judgement->by_id, id, &failure) ? pool_find(&core->failures, failure)
                                                         : NULL;
}

/* The root as its own party said it.  If that is not kept, the copy in the first row whose chain
 * has it: chains may differ in what they had to leave out.  One reference for the caller. */
static struct failure *whole_root(struct core *core, const struct job *job,
                                  const struct verdict_result *result)
{
    const struct judgement *judgement = &job->judgement;
    const struct verdict_error *root = result->rows[result->root].error;
    struct failure *failure = failure_ref(kept_failure(core, judgement, root->id));
    for (uint32_t i = 0; failure == NULL && i < result->row_count; i++) {
        const struct failure *kept = kept_failure(core, judgement, result->rows[i].error->id);
        if (kept != NULL)
            failure = failure_extract(core, kept, root->id);
    }
    return failure != NULL ? failure : failure_recall(core, job, root);
}

static void add_duration(struct text *text, uint64_t ns)
{
    uint64_t ms = ns / (uint64_t)MS_NS;
    text_add_number(text, ms >= 10000 ? ms / 1000 : ms > 0 ? ms : ns / (uint64_t)US_NS);
    text_add(text, ms >= 10000 ? " s" : ms > 0 ? " ms" : " us");
}

static void add_incarnation(struct text *text, const struct verdict_error *error)
{
    if (error->party.bytes == 0) {
        text_add(text, "the broker's word");
        return;
    }
    text_add_span(text, error->party);
    text_add(text, "/");
    text_add_number(text, error->incarnation);
}

/* The sentence about the root, with its rival and how far they are apart. */
static void add_why(struct text *text, const struct verdict_result *result)
{
    const char *rest = verdict_reason_text(result->reason);
    for (const char *brace; (brace = strchr(rest, '{')) != NULL;) {
        text_add_span(text, span_of(rest, (size_t)(brace - rest)));
        if (brace[1] == 'a')
            add_duration(text, result->apart_ns);
        else
            add_incarnation(text, result->rows[result->rival].error);
        rest = strchr(brace, '}') + 1;
    }
    text_add(text, rest);
}

/* VERDICT.outlook. */
enum outlook { OUTLOOK_NO_JOB, OUTLOOK_GOES_ON, OUTLOOK_ENDED_WELL, OUTLOOK_FAILED };

/* How the job fares now.  A job that nobody created goes on while a party of it takes part. */
static enum outlook outlook_of(const struct job *job)
{
    if (job->judgement.is_said)
        return OUTLOOK_FAILED;
    if (job->state != JOB_FREE && !job_is_final(job->state))
        return OUTLOOK_GOES_ON;
    if (job->state != JOB_FREE)
        return job->state == JOB_COMPLETED ? OUTLOOK_ENDED_WELL : OUTLOOK_FAILED;
    LIST_EACH(link, &job->party_list)
        if (party_is_live(LIST_OWNER(link, struct party, job_link)))
            return OUTLOOK_GOES_ON;
    return OUTLOOK_ENDED_WELL;
}

static void put_verdict(struct msg_verdict *msg, const struct job *job)
{
    const struct judgement *judgement = &job->judgement;
    msg->outlook = outlook_of(job);
    msg->state = judgement->is_final ? 2 : judgement->is_said ? 1 : 0;
    msg->attempt = job->attempt;
    msg->error = failure_span(judgement->root);
    msg->why = judgement->why;
}

static void put_result(struct msg_verdict *msg, const struct verdict *verdict,
                       const struct verdict_result *result)
{
    msg->reason = span_text(verdict_reason_name(result->reason));
    msg->strategy = span_text(verdict_strategy_name(verdict->options.strategy));
    msg->candidates = result->candidate_count;
    msg->close = result->close_count;
    msg->victims = result->victim_count;
    msg->apart = result->apart_count;
    msg->unknown = result->unknown_count;
    msg->is_complete = result->is_complete;
    for (uint32_t i = 0; i < result->row_count; i++)
        msg->aside += result->rows[i].role == VERDICT_ASIDE;
}

void judge_tell_again(struct core *core, struct session *session)
{
    const struct job *job = session->job;
    if (session->control == 0 || !job->judgement.is_said)
        return;
    struct msg *msg = effects_msg(core->effects, session->control, MSG_VERDICT);
    put_verdict(&msg->as.verdict, job);
    put_result(&msg->as.verdict, &job->judgement.verdict, verdict_result(&job->judgement.verdict));
    msg->as.verdict.is_over = party_is_live(session->party);
}

/* type and message: of the error itself, if it is kept. */
static void put_row(struct core *core, struct msg_verdict_row *msg, const struct job *job,
                    const struct verdict_row *row)
{
    struct error_record *record = core->scratch;
    uint32_t count = 0;
    const struct failure *failure = kept_failure(core, &job->judgement, row->error->id);
    msg->role = row->role;
    msg->link = row->link;
    msg->next = row->next;
    msg->steps = row->steps;
    msg->stamp_ns = row->stamp_ns;
    msg->uncertainty_ns = row->error->uncertainty_ns;
    msg->id = row->error->id;
    msg->party = row->error->party;
    msg->incarnation = row->error->incarnation;
    msg->kind = row->error->kind;
    if (failure == NULL || error_decode(failure_span(failure), record, 1, &count) != WIRE_OK)
        return;
    msg->type = record->type;
    msg->message = record->message;
}

/* job: NULL: there is none. */
static void verdict_answer(struct core *core, struct session *session, const struct job *job,
                           uint64_t request)
{
    const struct verdict_result *result =
        job != NULL ? verdict_result(&job->judgement.verdict) : NULL;
    uint32_t told = 0;
    uint32_t left_out = 0;
    if (session->control == 0)
        return;
    for (uint32_t i = 0; result != NULL && i < result->row_count; i++) {
        if (result->rows[i].role == VERDICT_ASIDE)
            continue;
        if (told++ >= LIMIT_VERDICT_ROWS && i != result->root) {
            left_out += 1;
            continue;
        }
        struct msg *msg = effects_msg(core->effects, session->control, MSG_VERDICT_ROW);
        msg->as.verdict_row.request = request;
        msg->as.verdict_row.row = i;
        put_row(core, &msg->as.verdict_row, job, &result->rows[i]);
    }
    struct msg_verdict *msg =
        &effects_msg(core->effects, session->control, MSG_VERDICT)->as.verdict;
    msg->request = request;
    msg->rows_left_out = left_out;
    if (job != NULL) {
        put_verdict(msg, job);
        put_result(msg, &job->judgement.verdict, result);
    }
}

/* Of the last attempt only the root is kept; of the attempts before it, nothing. */
static void answer_earlier(struct core *core, const struct session *session, const struct job *job,
                           const struct msg_verdict_ask *asked)
{
    if (session->control == 0)
        return;
    struct msg_verdict *msg =
        &effects_msg(core->effects, session->control, MSG_VERDICT)->as.verdict;
    msg->request = asked->request;
    msg->attempt = asked->attempt;
    if (asked->attempt + 1 != job->attempt || job->failure == NULL)
        return;
    msg->state = 2;
    msg->outlook = OUTLOOK_FAILED;
    msg->error = failure_span(job->failure);
}

void judge_asked(struct core *core, struct session *session, const struct msg_verdict_ask *msg)
{
    struct job *job = job_known(core, msg->job);
    list_remove(&session->verdict_link);
    if (job != NULL && msg->attempt != 0 && msg->attempt < job->attempt) {
        answer_earlier(core, session, job, msg);
        return;
    }
    if (job != NULL && msg->is_waiting && !job->judgement.is_final) {
        session->verdict_request = msg->request;
        list_push(&job->judgement.waiters, &session->verdict_link);
        return;
    }
    if (job != NULL)
        (void)verdict_weigh(&job->judgement.verdict, core->now_ns); /* the final one stays */
    verdict_answer(core, session, job, msg->request);
}

/* The event names the party of the root. */
static void tell_verdict(struct core *core, struct job *job, const struct verdict_result *result)
{
    const struct verdict_error *root = result->rows[result->root].error;
    struct judgement *judgement = &job->judgement;
    struct text why;
    uint32_t id;
    text_init(&why);
    text_add_span(&why, judgement->why);
    bool is_known = name_map_get(&job->parties, root->party, &id);
    tell(core, job,
         &(struct tell){.name =
                            judgement->is_final ? EVENT_VERDICT_FINAL : EVENT_VERDICT_PROVISIONAL,
                        .party = is_known ? pool_find(&core->parties, id) : NULL,
                        .incarnation = (uint32_t)root->incarnation,
                        .count = result->victim_count,
                        .text = why.data,
                        .failure = judgement->root});
}

static void tell_everybody(struct core *core, struct job *job)
{
    struct judgement *judgement = &job->judgement;
    LIST_EACH(link, &job->party_list) {
        const struct party *party = LIST_OWNER(link, struct party, job_link);
        if (party->session != NULL)
            judge_tell_again(core, party->session);
        if (party->guard != NULL)
            judge_tell_again(core, party->guard);
    }
    if (!judgement->is_final)
        return;
    LIST_EACH(link, &judgement->waiters) {
        struct session *session = LIST_OWNER(link, struct session, verdict_link);
        list_remove(link);
        verdict_answer(core, session, job, session->verdict_request);
    }
}

/* ---- when it is said ------------------------------------------------------------------------- */

/* The judgement keeps what was said until the next verdict. */
static void judgement_remember(struct core *core, struct job *job,
                               const struct verdict_result *result)
{
    struct judgement *judgement = &job->judgement;
    struct failure *old = judgement->root;
    struct text why;
    text_init(&why);
    add_why(&why, result);
    judgement->root = whole_root(core, job, result);
    failure_unref(core, old);
    span_drop(core, &judgement->why_before);
    judgement->why_before = judgement->why;
    (void)span_keep(core, span_of(why.data, why.bytes), &judgement->why); /* or it is not said */
    judgement->is_said = true;
    judgement->is_final = result->is_final;
    judgement->said_ns = core->now_ns;
}

static void judgement_say(struct core *core, struct job *job)
{
    const struct verdict_result *result = verdict_result(&job->judgement.verdict);
    if (result->root == VERDICT_NONE)
        return; /* every error had to be left out */
    judgement_remember(core, job, result);
    note_verdict_said(core, job);
    tell_verdict(core, job, result);
    tell_everybody(core, job);
}

/* session may be NULL in both functions: a party has one or two sessions. */
static bool is_doubtful(const struct session *session)
{
    return session != NULL && (session->is_suspect || session->control == 0);
}

static int64_t session_doubt_ns(const struct session *session)
{
    return session != NULL ? session->lost_after_ns + session->grace_ns : 0;
}

static void count_members(const struct job *job, struct verdict_job *out)
{
    out->remaining = roster_present(&job->roster) + job->roster.waiting_count;
    out->remaining_min = job->spec.min;
    out->awaits_spares =
        job->state == JOB_GATHERING || job->state == JOB_SHORT || job->state == JOB_PAUSING;
    out->is_called_off = job->is_called_off;
}

/* Counts the parties.  The windows are as long as the slowest party may take to report. */
static void count_parties(struct job *job, struct verdict_job *out)
{
    int64_t longest_ns = 0;
    *out = (struct verdict_job){.remaining_min = 1};
    LIST_EACH(link, &job->party_list) {
        const struct party *party = LIST_OWNER(link, struct party, job_link);
        if (!party_is_live(party))
            continue;
        out->unended += 1;
        out->remaining += party->state == PARTY_RUNNING;
        out->doubtful += is_doubtful(party->session) || is_doubtful(party->guard);
        if (longest_ns < session_doubt_ns(party->session))
            longest_ns = session_doubt_ns(party->session);
        if (longest_ns < session_doubt_ns(party->guard))
            longest_ns = session_doubt_ns(party->guard);
    }
    if (job->state != JOB_FREE)
        count_members(job, out);
    verdict_set_windows(&job->judgement.verdict, job->spec.settle_ms * MS_NS, longest_ns);
}

static void judgement_arm(struct core *core, struct judgement *judgement)
{
    int64_t due_ns = verdict_due_ns(&judgement->verdict);
    if (due_ns == INT64_MAX)
        timers_clear(&core->timers, &judgement->timer);
    else
        timers_set(&core->timers, &judgement->timer, due_ns - core->away_ns);
}

static void judgement_look(struct core *core, struct job *job)
{
    struct judgement *judgement = &job->judgement;
    struct verdict_job now;
    if (judgement->verdict.item_count == 0)
        return;
    count_parties(job, &now);
    uint32_t fresh_before = judgement->verdict.fresh_count;
    enum verdict_says says = verdict_step(&judgement->verdict, core->now_ns, &now);
    if (fresh_before > 0 && judgement->verdict.fresh_count == 0)
        mark_survived(core, job);
    bool is_any = says != VERDICT_SAYS_NOTHING;
    while (says != VERDICT_SAYS_NOTHING) /* the final verdict follows at once if all parties have
                                          * ended */
        says = verdict_step(&judgement->verdict, core->now_ns, &now);
    if (is_any)
        judgement_say(core, job);
    judgement_arm(core, judgement);
}

/* Not in this step: the messages of the verdict point to what the next attempt forgets. */
void judge_conclude_soon(struct core *core, struct job *job)
{
    timers_set(&core->timers, &job->window, core_clock(core));
}

static void judge(struct core *core, struct job *job)
{
    const struct judgement *judgement = &job->judgement;
    judgement_look(core, job);
    if (job->state == JOB_FAILING && (judgement->is_final || !judgement->is_said))
        judge_conclude_soon(core,
                            job); /* no verdict was given: there was no memory for any error */
}

void judge_all(struct core *core)
{
    LIST_EACH(link, &core->judged) {
        struct judgement *judgement = LIST_OWNER(link, struct judgement, link);
        list_remove(link);
        judge(core, job_of(judgement));
    }
}

/* The timers of judgements follow core_clock(), which did not count that time either. */
void judge_stood_still(struct core *core, int64_t gap_ns)
{
    struct job *job = NULL;
    while ((job = pool_next(&core->jobs, job != NULL ? job->id : 0)) != NULL)
        verdict_stood_still(&job->judgement.verdict, gap_ns);
}

/* ---- beginning again ------------------------------------------------------------------------- */

bool judge_restore_error(struct core *core, struct job *job, const struct judged *judged)
{
    struct judged copy = *judged;
    if (!reserve_kept(core, &job->judgement))
        return false;
    enum verdict_err err = add_records(core, job, &copy);
    judgement_keep(core, job, &copy);
    return err != VERDICT_NO_MEMORY;
}

void judge_restore_survived(struct job *job)
{
    verdict_set_survived(&job->judgement.verdict);
    job->judgement.survived_count = job->judgement.count;
}

bool judge_restore_said(struct core *core, struct job *job, bool is_final, int64_t at_ns,
                        struct failure *root, struct span why)
{
    struct judgement *judgement = &job->judgement;
    struct failure *old = judgement->root;
    span_drop(core, &judgement->why);
    if (!span_keep(core, why, &judgement->why))
        return false;
    judgement->root = failure_ref(root);
    failure_unref(core, old);
    judgement->is_said = true;
    judgement->is_final = is_final;
    judgement->said_ns = at_ns;
    if (is_final)
        verdict_restore_final(&judgement->verdict, at_ns);
    return true;
}

/* Parties have time to come back after a restart.  A provisional verdict is given again when the
 * job, as it is then, cannot go on. */
void judge_resume(struct core *core, struct job *job)
{
    struct judgement *judgement = &job->judgement;
    if (!judgement->is_final && judgement->verdict.fresh_count > 0)
        timers_set(&core->timers, &judgement->timer, core_clock(core));
}
