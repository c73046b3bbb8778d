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
#include "libbus/wire/error.h"
#include "libbus/wire/msg.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NS_PER_MS INT64_C(1000000)

/* Room for REFUSED: a name and an endpoint in a sentence, the endpoint again, and heads. */
enum {
    TEXT_BYTES = LIMIT_NAME_BYTES + LIMIT_ENDPOINT_BYTES + 256,
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
    sharding->answer.places = NULL;
    sharding->has_answer = false;
}

void sharding_fini(struct sharding *sharding)
{
    answer_done(sharding);
    directory_thread_close(&sharding->thread);
    shard_jobs_fini(&sharding->jobs);
}

/* The names of all jobs with '/' between, which no name has.  NULL: no memory. */
static char *names_of(struct sharding *sharding, const struct core *core)
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
        if (!shard_jobs_add(&sharding->jobs, name)) {
            free(names);
            return NULL;
        }
    }
    return names;
}

bool sharding_begin(struct sharding *sharding, const struct config *config, uint64_t epoch,
                    const struct authentication *authentication, const char *control,
                    const struct core_port *port)
{
    struct disk_shard shard = {
        .number = config->shard, .replicas = config->replicas, .cache = config->cache};
    char host[LIMIT_NAME_BYTES] = "";
    char announced[LIMIT_ENDPOINT_BYTES];
    if (!journal_is_shared(config->journal))
        return true;
    (void)gethostname(host, sizeof host - 1); /* without it the user has to name one */
    if (!endpoint_announce(control, config->advertise_control, config->advertise, host, announced))
        return false;
    char *names = names_of(sharding, core_port_core(port));
    struct directory *directory =
        names != NULL ? directory_open(config->journal, &shard, epoch) : NULL;
    if (directory != NULL)
        sharding->thread = directory_thread_open(&directory, announced, names);
    free(names);
    sharding->shard = config->shard;
    sharding->authentication = authentication;
    sharding->review_ns = clock_monotonic_ns() + SHARDING_REVIEW_MS * NS_PER_MS;
    return sharding->thread != NULL;
}

/* ---- hearing --------------------------------------------------------------------------------- */

/* The core refuses, or lets in as a stranger, whoever may do nothing in the job.  The directory is
 * not asked for them: each question may write a row. */
static bool may_ask(const struct sharding *sharding, const struct peer *peer,
                    const struct msg_hello *hello)
{
    const struct access *access = sharding->authentication->access;
    bool may =
        access == NULL || access_may_be(access, peer->principal, hello->job, hello->party) != 0;
    for (unsigned right = ACCESS_TAP; !may && right <= ACCESS_ADMIN; right *= 2)
        may = access_may(access, peer->principal, (enum access_right)right, hello->job) != 0;
    return may;
}

bool sharding_holds(struct sharding *sharding, const struct core_port *port, struct peer *peer,
                    struct span said)
{
    struct msg msg;
    if (sharding->thread == NULL || wire_number(said) != MSG_HELLO ||
        msg_decode(said, MSG_LANE_CONTROL, MSG_TO_BROKER, &msg, NULL) != WIRE_OK)
        return false;
    struct span job = msg.as.hello.job;
    if (!party_is_valid(job) || core_has_job(core_port_core(port), job) ||
        !may_ask(sharding, peer, &msg.as.hello))
        return false;
    enum shard_word word = shard_jobs_greet(&sharding->jobs, peer->conn, job, said);
    peer->is_mute |= word == SHARD_DROP;
    if (word == SHARD_ASK)
        must(directory_thread_ask(sharding->thread, DIRECTORY_ASSIGN, job)); /* as in effect.h */
    return word != SHARD_IS_OURS;
}

void sharding_drop(struct sharding *sharding, conn_id conn)
{
    if (sharding->thread != NULL)
        shard_jobs_drop(&sharding->jobs, conn);
}

/* ---- answering ------------------------------------------------------------------------------- */

static struct buffer *refusal(const struct directory_answer *answer)
{
    char text[TEXT_BYTES];
    uint8_t bytes[MESSAGE_BYTES];
    size_t count = 0;
    const struct directory_place *place = &answer->places[0];
    bool is_known = place->endpoint[0] != '\0';
    snprintf(text, sizeof text, "job '%s' is on shard %u, whose broker %s%s", answer->job,
             place->shard, is_known ? "is at " : "has not started yet", place->endpoint);
    struct msg refused = {.type = MSG_REFUSED,
                          .as.refused = {.code = CODE_EDENIED,
                                         .type = span_text(ERROR_TYPE_ELSEWHERE),
                                         .message = span_text(text),
                                         .endpoint = span_text(place->endpoint)}};
    must(msg_encode(&refused, bytes, sizeof bytes, &count) == WIRE_OK);
    struct buffer *part = buffer_copy(span_of(bytes, count));
    must(part != NULL); /* as in effect.h: what was decided must be said */
    return part;
}

/* Takes the next answer that somebody waits for. */
static bool take_answer(struct sharding *sharding)
{
    struct directory_answer *answer = &sharding->answer;
    while (!sharding->has_answer && directory_thread_next(sharding->thread, answer)) {
        if (answer->kind == DIRECTORY_TEXT) {
            log_line(LOG_WARNING, "directory: %.1000s", answer->why);
            continue;
        }
        sharding->has_answer = true;
        shard_jobs_told(&sharding->jobs, span_text(answer->job),
                        answer->places[0].shard == sharding->shard);
    }
    return sharding->has_answer;
}

bool sharding_next(struct sharding *sharding, struct peers *peers, struct sharding_out *out)
{
    conn_id conn;
    struct buffer *part;
    while (sharding->thread != NULL && take_answer(sharding)) {
        const struct directory_answer *answer = &sharding->answer;
        if (!shard_jobs_next(&sharding->jobs, span_text(answer->job), &conn, &part)) {
            answer_done(sharding);
            continue;
        }
        const struct peer *peer = peers_by_conn(peers, conn);
        bool is_refused = answer->places[0].shard != sharding->shard;
        bool is_gone = peer == NULL || peer->is_forgotten || peer->is_closing;
        if (is_refused || is_gone)
            buffer_unref(&part);
        if (is_gone)
            continue;
        *out = (struct sharding_out){
            .peer = peer, .part = is_refused ? refusal(answer) : part, .is_refused = is_refused};
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
