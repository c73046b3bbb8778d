/* SPDX-License-Identifier: MPL-2.0 */
/* sharding.c -- see sharding.h. */
#include "broker/io/sharding.h"

#include "broker/io/clock.h"
#include "broker/io/endpoint.h"
#include "broker/io/log.h"
#include "broker/journal/journal.h"
#include "libbus/base/access.h"
#include "libbus/base/must.h"
#include "libbus/base/pattern.h"
#include "libbus/base/utf8.h"
#include "libbus/wire/error.h"
#include "libbus/wire/msg.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NS_PER_MS INT64_C(1000000)

/* The name under which SHARDS waits for the list; no job has it.  Behind it, a question waits for
 * the job of that name. */
#define LIST_NAME "/"

/* Room for REFUSED: a name and an endpoint in a sentence, or a reason; an endpoint, and heads. */
enum {
    WAITING_NAME_BYTES = LIMIT_NAME_BYTES + sizeof LIST_NAME,
    TEXT_BYTES = LIMIT_NAME_BYTES + LIMIT_ENDPOINT_BYTES + DISK_COMPLAINT_BYTES + 256,
    MESSAGE_BYTES = TEXT_BYTES + LIMIT_ENDPOINT_BYTES + 128,
};

void sharding_init(struct sharding *sharding, struct memory *memory)
{
    *sharding = (struct sharding){.review_ns = INT64_MAX};
    shard_jobs_init(&sharding->jobs, memory);
}

static void answer_done(struct sharding *sharding)
{
    free(sharding->answer.places);
    free(sharding->answer.names);
    sharding->answer.places = NULL;
    sharding->answer.names = NULL;
    sharding->has_answer = false;
}

static void forget_list(struct sharding *sharding)
{
    free(sharding->places);
    free(sharding->rows);
    sharding->places = NULL;
    sharding->rows = NULL;
    sharding->list = (struct event_shards){.count = 0};
}

void sharding_fini(struct sharding *sharding)
{
    answer_done(sharding);
    forget_list(sharding);
    directory_thread_close(&sharding->thread);
    shard_jobs_fini(&sharding->jobs);
}

/* The names of all jobs with '/' between, which no name has.  NULL: no memory. */
static char *names_of(const struct core *core)
{
    struct span name;
    size_t bytes = 1;
    for (uint32_t at = 0; core_next_job(core, &at, &name);)
        bytes += name.bytes + 1;
    char *names = calloc(1, bytes);
    char *end = names;
    for (uint32_t at = 0; names != NULL && core_next_job(core, &at, &name);) {
        if (end != names)
            *end++ = '/';
        memcpy(end, name.data, name.bytes);
        end += name.bytes;
    }
    return names;
}

static const struct event_shards *tell_list(void *arg)
{
    const struct sharding *sharding = arg;
    return &sharding->list;
}

void sharding_see(struct sharding *sharding, const struct journal *journal)
{
    if (journal == NULL)
        return;
    sharding->epoch = journal_lease(journal);
    snprintf(sharding->holder, sizeof sharding->holder, "%s", journal_holder(journal));
}

bool sharding_begin(struct sharding *sharding, const struct config *config,
                    const struct authentication *authentication, const char *control,
                    struct core_port *port)
{
    struct disk_shard shard = {
        .number = config->shard, .replicas = config->replicas, .cache = config->cache};
    const struct directory_asker asker = {sharding->epoch, sharding->holder};
    char host[LIMIT_NAME_BYTES] = "";
    char announced[LIMIT_ENDPOINT_BYTES];
    if (!journal_is_shared(config->journal))
        return true;
    (void)gethostname(host, sizeof host - 1); /* without it the user has to name one */
    if (!endpoint_announce(control, config->advertise_control, config->advertise, host, announced))
        return false;
    char *names = names_of(core_port_core(port));
    struct directory *directory =
        names != NULL ? directory_open(config->journal, &shard, &asker) : NULL;
    if (directory != NULL)
        sharding->thread = directory_thread_open(&directory, announced, names);
    free(names);
    core_port_use_shards(port, &(struct core_port_shards){tell_list, sharding});
    sharding->shard = config->shard;
    sharding->authentication = authentication;
    sharding->port = port;
    sharding->review_ns = clock_monotonic_ns() + SHARDING_REVIEW_MS * NS_PER_MS;
    return sharding->thread != NULL;
}

/* ---- hearing --------------------------------------------------------------------------------- */

/* The questions about one job that are answered with JOB_DONE, and where they name it. */
#define JOB_OF(upper, lower)                                                                       \
    {                                                                                              \
        MSG_##upper, offsetof(struct msg_##lower, job)                                             \
    }
static const struct {
    enum msg_type type;
    size_t at;
} questions[] = {
    JOB_OF(HELLO, hello),
    JOB_OF(STATUS, status),
    JOB_OF(JOB_CREATE, job_create),
    JOB_OF(JOB_SHOW, job_show),
    JOB_OF(JOB_CANCEL, job_cancel),
    JOB_OF(DEAD, dead),
    JOB_OF(JOB_FORGET, job_forget),
    JOB_OF(ATTACHMENTS, attachments),
    JOB_OF(WHY, why),
    JOB_OF(WITHOUT, without),
    JOB_OF(FETCH, fetch),
};

/* What a message asks the directory for: a job, the list, or nothing. */
static struct span subject_of(struct span said, struct msg *out_msg)
{
    unsigned number = wire_number(said);
    size_t at = 0;
    struct span job = SPAN_NONE;
    while (at < sizeof questions / sizeof questions[0] && questions[at].type != number)
        at++;
    bool is_question = at < sizeof questions / sizeof questions[0];
    if ((!is_question && number != MSG_SHARDS) ||
        msg_decode(said, MSG_LANE_CONTROL, MSG_TO_BROKER, out_msg, NULL) != WIRE_OK)
        return SPAN_NONE;
    if (!is_question)
        return span_text(LIST_NAME);
    memcpy(&job, (const char *)&out_msg->as + questions[at].at, sizeof job);
    return party_is_valid(job) ? job : SPAN_NONE;
}

/* A job that is nowhere is here from then on for whoever makes it or waits for it.  A question
 * makes nothing. */
static enum directory_kind kind_of(const struct msg *msg)
{
    if (msg->type == MSG_SHARDS)
        return DIRECTORY_LIST;
    return msg->type == MSG_HELLO || msg->type == MSG_JOB_CREATE ? DIRECTORY_ASSIGN
                                                                 : DIRECTORY_LOOK;
}

/* Under which a message waits for its answer; room is of WAITING_NAME_BYTES. */
static struct span waiting_name(enum directory_kind kind, struct span job, char *room)
{
    const char *before = kind == DIRECTORY_ASSIGN ? "" : LIST_NAME;
    bool is_list = kind == DIRECTORY_LIST;
    int bytes = snprintf(room, WAITING_NAME_BYTES, "%s%.*s", before, is_list ? 0 : (int)job.bytes,
                         is_list ? "" : (const char *)job.data);
    return span_of(room, (size_t)bytes);
}

/* The core refuses, or lets in as a stranger, whoever may do nothing in the job.  The directory is
 * not asked for them: each question may write a row. */
static bool may_ask(const struct sharding *sharding, const struct peer *peer, struct span job,
                    const struct msg *msg)
{
    const struct access *access = sharding->authentication->access;
    bool may =
        access == NULL || (msg->type == MSG_HELLO &&
                           access_may_be(access, peer->principal, job, msg->as.hello.party) != 0);
    for (unsigned right = ACCESS_TAP; !may && right <= ACCESS_ADMIN; right *= 2)
        may = access_may(access, peer->principal, (enum access_right)right, job) != 0;
    return may;
}

/* Whoever comes new to a job that this broker has may belong elsewhere: another shard may have a
 * job of that name by now.  A session that is resumed is here, and so is whoever joins a guard. */
static bool is_newcomer(const struct msg *msg)
{
    return msg->type == MSG_HELLO && msg->as.hello.token == 0 && msg->as.hello.guard == 0;
}

bool sharding_holds(struct sharding *sharding, const struct core_port *port, struct peer *peer,
                    struct span said)
{
    struct msg msg;
    struct span job = sharding->thread != NULL ? subject_of(said, &msg) : SPAN_NONE;
    if (job.bytes == 0 || (core_has_job(core_port_core(port), job) && !is_newcomer(&msg)))
        return false;
    enum directory_kind kind = kind_of(&msg);
    if (kind != DIRECTORY_LIST && !may_ask(sharding, peer, job, &msg))
        return false;
    char room[WAITING_NAME_BYTES];
    struct span name = waiting_name(kind, job, room);
    enum shard_word word = shard_jobs_greet(&sharding->jobs, peer->conn, name, said);
    peer->is_mute |= word == SHARD_DROP;
    if (word == SHARD_ASK) /* the must is as in effect.h */
        must(
            directory_thread_ask(sharding->thread, kind, kind == DIRECTORY_LIST ? SPAN_NONE : job));
    return word != SHARD_IS_OURS;
}

void sharding_drop(struct sharding *sharding, conn_id conn)
{
    if (sharding->thread != NULL)
        shard_jobs_drop(&sharding->jobs, conn);
}

/* ---- answering ------------------------------------------------------------------------------- */

/* What somebody is told in place of an answer. */
struct refusal {
    enum wire_code code;
    const char *type;
    const char *endpoint;
    char text[TEXT_BYTES];
};

static void refuse_elsewhere(const struct directory_answer *answer, struct refusal *out)
{
    const struct directory_place *place = &answer->places[0];
    bool is_known = place->endpoint[0] != '\0';
    *out = (struct refusal){CODE_EDENIED, ERROR_TYPE_ELSEWHERE, place->endpoint, ""};
    snprintf(out->text, sizeof out->text, "job '%s' is on shard %u, whose broker %s%s", answer->job,
             place->shard, is_known ? "is at " : "has not started yet", place->endpoint);
}

/* Whoever was up comes again; for others that is an end. */
static void refuse_unknown(const struct directory_answer *answer, struct refusal *out)
{
    *out = (struct refusal){CODE_EFULL, ERROR_TYPE_NO_DIRECTORY, "", ""};
    snprintf(out->text, sizeof out->text,
             "this broker cannot learn on which shard job '%s' is: its database refuses that: %s",
             answer->job, answer->why);
    utf8_mend(out->text); /* a database has words in an encoding of its own */
}

static void refuse_message(const struct refusal *refusal, struct span said, struct msg *out)
{
    struct msg question;
    must(msg_decode(said, MSG_LANE_CONTROL, MSG_TO_BROKER, &question, NULL) == WIRE_OK);
    if (question.type == MSG_HELLO)
        *out = (struct msg){.type = MSG_REFUSED,
                            .as.refused = {.code = refusal->code,
                                           .type = span_text(refusal->type),
                                           .message = span_text(refusal->text),
                                           .endpoint = span_text(refusal->endpoint)}};
    else
        *out = (struct msg){.type = MSG_JOB_DONE,
                            .as.job_done = {.request = msg_id(&question),
                                            .code = refusal->code,
                                            .type = span_text(refusal->type),
                                            .message = span_text(refusal->text),
                                            .endpoint = span_text(refusal->endpoint)}};
}

/* Turns the part into its refusal. */
static void answer_refusal(const struct refusal *refusal, struct sharding_out *out)
{
    uint8_t bytes[MESSAGE_BYTES];
    size_t count = 0;
    struct msg msg;
    refuse_message(refusal, buffer_span(out->part), &msg);
    must(msg_encode(&msg, bytes, sizeof bytes, &count) == WIRE_OK);
    buffer_unref(&out->part);
    out->part = buffer_copy(span_of(bytes, count));
    must(out->part != NULL); /* as in effect.h: what was decided must be said */
    out->is_answer = true;
    out->is_over = msg.type == MSG_REFUSED;
}

/* Keeps what SHARDS is told.  Without memory it is told nothing. */
static void take_list(struct sharding *sharding)
{
    struct directory_answer *answer = &sharding->answer;
    forget_list(sharding);
    sharding->rows = calloc(answer->count + 1, sizeof *sharding->rows);
    for (size_t i = 0; sharding->rows != NULL && i < answer->count; i++)
        sharding->rows[i] =
            (struct event_shard){.number = answer->places[i].shard,
                                 .endpoint = span_text(answer->places[i].endpoint),
                                 .is_here = answer->places[i].shard == sharding->shard};
    sharding->list = (struct event_shards){
        .items = sharding->rows, .count = sharding->rows != NULL ? (uint32_t)answer->count : 0};
    sharding->places = answer->places;
    answer->places = NULL;
}

static struct span name_of(const struct directory_answer *answer, char *room)
{
    return waiting_name(answer->kind, span_text(answer->job), room);
}

/* The directory was told of the journal's jobs.  What is not here is assigned to another shard, or
 * there is no room for it: each newcomer of that job is asked about. */
static void take_begun(struct sharding *sharding)
{
    const char *at = sharding->answer.names;
    sharding->is_begun = true;
    while (*at != '\0') {
        size_t bytes = strcspn(at, "/");
        (void)shard_jobs_add(&sharding->jobs, span_of(at, bytes));
        at += bytes + (at[bytes] == '/');
    }
}

/* As long as the directory does not let this broker in at all, it serves the jobs that it has. */
static bool is_served(const struct sharding *sharding)
{
    return !sharding->is_begun &&
           core_has_job(core_port_core(sharding->port), span_text(sharding->answer.job));
}

/* Whether those who wait are refused.  SHARDS is never: it is told the list that is known. */
static bool is_refusal(const struct sharding *sharding, struct refusal *out)
{
    const struct directory_answer *answer = &sharding->answer;
    if (answer->kind == DIRECTORY_LIST)
        return false;
    if (answer->is_refused && is_served(sharding))
        return false;
    if (answer->is_refused)
        refuse_unknown(answer, out);
    else if (answer->places[0].shard != sharding->shard)
        refuse_elsewhere(answer, out);
    else
        return false;
    return true;
}

/* Takes the next answer that somebody waits for. */
static bool take_answer(struct sharding *sharding)
{
    struct directory_answer *answer = &sharding->answer;
    char room[WAITING_NAME_BYTES];
    while (!sharding->has_answer && directory_thread_next(sharding->thread, answer)) {
        if (answer->kind == DIRECTORY_TEXT) {
            log_line(LOG_WARNING, "directory: %.1000s", answer->why);
            continue;
        }
        if (answer->kind == DIRECTORY_BEGUN) {
            take_begun(sharding);
            answer_done(sharding);
            continue;
        }
        sharding->has_answer = true;
        if (answer->kind == DIRECTORY_LIST && !answer->is_refused)
            take_list(sharding);
        bool is_ours = answer->kind == DIRECTORY_ASSIGN && !answer->is_refused &&
                       answer->places[0].shard == sharding->shard;
        shard_jobs_told(&sharding->jobs, name_of(answer, room), is_ours);
    }
    return sharding->has_answer;
}

bool sharding_next(struct sharding *sharding, struct peers *peers, struct sharding_out *out)
{
    conn_id conn;
    char room[WAITING_NAME_BYTES];
    struct refusal refusal;
    while (sharding->thread != NULL && take_answer(sharding)) {
        struct span name = name_of(&sharding->answer, room);
        *out = (struct sharding_out){.peer = NULL};
        if (!shard_jobs_next(&sharding->jobs, name, &conn, &out->part)) {
            answer_done(sharding);
            continue;
        }
        out->peer = peers_by_conn(peers, conn);
        if (out->peer == NULL || out->peer->is_forgotten || out->peer->is_closing) {
            buffer_unref(&out->part);
            continue;
        }
        if (is_refusal(sharding, &refusal))
            answer_refusal(&refusal, out);
        return true;
    }
    return false;
}

/* ---- jobs that are gone ---------------------------------------------------------------------- */

void sharding_review(struct sharding *sharding, const struct core_port *port,
                     const struct persistence *persistence)
{
    int64_t now_ns = sharding->thread != NULL ? clock_monotonic_ns() : 0;
    struct span name;
    char copy[LIMIT_NAME_BYTES];
    const struct core *core = core_port_core(port);
    if (sharding->thread == NULL || now_ns < sharding->review_ns)
        return;
    sharding->review_ns = now_ns + SHARDING_REVIEW_MS * NS_PER_MS;
    for (uint32_t at = 0; shard_jobs_each(&sharding->jobs, &at, &name);) {
        memcpy(copy, name.data, name.bytes);
        struct span job = span_of(copy, name.bytes);
        bool is_used = core_has_job(core, job) || core_is_observed(core, job);
        if (shard_jobs_review(&sharding->jobs, job, is_used, core_port_steps(port),
                              persistence->kept_steps) &&
            !directory_thread_ask(sharding->thread, DIRECTORY_LEAVE, job))
            (void)shard_jobs_add(&sharding->jobs, job); /* it leaves another time */
    }
}

int64_t sharding_due_ns(const struct sharding *sharding)
{
    return sharding->review_ns;
}

int sharding_fd(const struct sharding *sharding)
{
    return sharding->thread != NULL ? directory_thread_fd(sharding->thread) : -1;
}
