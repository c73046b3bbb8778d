/* SPDX-License-Identifier: MPL-2.0 */
/* site.c -- see site.h. */
#include "clients/web/site.h"

#include "clients/web/answers.h"
#include "clients/web/assets.h"
#include "clients/web/download.h"
#include "clients/web/history.h"
#include "clients/web/question.h"
#include "clients/web/reply.h"
#include "clients/web/stream.h"
#include "clients/web/watch.h"

#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#define LINES_TYPE "application/x-ndjson; charset=utf-8"
#define TEXT_TYPE "text/plain; charset=utf-8"
/* Until the access file says otherwise: the broker is asked again and again. */
#define NO_TAP "this program may not see the events of the job: the access file must allow it tap\n"

struct visit {
    struct site *site;
    struct MHD_Connection *connection;
    struct visit *next; /* in site->waiting */
    struct question question;
    int64_t since_ms;
    bool is_waiting; /* suspended, in site->waiting */
    bool has_waited; /* it is answered with what there is */
    struct download *download;
};

/* An answer that is kept for a moment. */
struct answer {
    struct question question;
    int64_t made_ms;
    unsigned status; /* of HTTP; 0: this place is free */
    char *body;
    size_t bytes;
};

/* A job that is looked at. */
struct looked_at {
    struct watch watch;     /* of the site's thread alone, but for its job */
    struct history history; /* the rest under the lock */
    int64_t used_ms;
    bool is_used;
    bool is_caught_up;
    bool is_refused; /* this program may not see its events */
};

struct site {
    const char *endpoint;
    struct downloads *downloads;
    /* Of the site's thread; NULL: the broker was not reached last time.  A question that names a
     * job leads its handle to the shard that has the job, for good.  So /api/status has another. */
    struct bus_admin *admin;
    struct bus_admin *guide;
    struct bus_admin *scout;   /* asks for the shards, which may have to wait for their directory */
    struct bus_shards *shards; /* as they were told last */
    int64_t shards_due_ms;
    pthread_t thread;
    int wake_fd;
    pthread_mutex_t lock; /* of all below */
    struct visit *waiting;
    struct answer answers[SITE_ANSWERS_MAX];
    struct looked_at jobs[SITE_WATCHES_MAX];
    struct streams streams;
    int64_t second_ms; /* when the second began in which so many questions were taken */
    unsigned questions;
    bool is_closing;
};

static int64_t now_ms(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (int64_t)time.tv_sec * 1000 + time.tv_nsec / 1000000;
}

static void wake(struct site *site)
{
    const uint64_t one = 1;
    (void)!write(site->wake_fd, &one, sizeof one); /* full means that it is readable */
}

/* ---- answers that are kept; lock held -------------------------------------------------------- */

static const struct answer *find_answer(const struct site *site, const struct question *question)
{
    for (int i = 0; i < SITE_ANSWERS_MAX; i++) {
        const struct answer *answer = &site->answers[i];
        if (answer->status != 0 && question_is_same(&answer->question, question)) {
            return answer;
        }
    }
    return NULL;
}

/* Takes the place of an older answer to the same question, or of the oldest. */
static void keep_answer(struct site *site, const struct answer *made)
{
    struct answer *place = &site->answers[0];
    for (int i = 0; i < SITE_ANSWERS_MAX; i++) {
        struct answer *answer = &site->answers[i];
        if (answer->status != 0 && question_is_same(&answer->question, &made->question)) {
            place = answer;
            break;
        }
        if (place->status != 0 && (answer->status == 0 || answer->made_ms < place->made_ms)) {
            place = answer;
        }
    }
    free(place->body);
    *place = *made;
}

static void resume_visit(struct visit *visit)
{
    visit->is_waiting = false;
    visit->has_waited = true;
    MHD_resume_connection(visit->connection);
}

/* Those that asked this, or all (NULL). */
static void resume_visits(struct site *site, const struct question *question)
{
    struct visit **at = &site->waiting;
    while (*at != NULL) {
        struct visit *visit = *at;
        if (question != NULL && !question_is_same(&visit->question, question)) {
            at = &visit->next;
            continue;
        }
        *at = visit->next;
        resume_visit(visit);
    }
}

/* ---- jobs that are looked at; lock held ------------------------------------------------------ */

static bool needs_history(enum question_kind kind)
{
    return kind == QUESTION_EVENTS || kind == QUESTION_ERROR || kind == QUESTION_STREAM;
}

static struct looked_at *find_job(struct site *site, const char *job)
{
    for (int i = 0; i < SITE_WATCHES_MAX; i++) {
        struct looked_at *place = &site->jobs[i];
        if (place->is_used && strcmp(place->watch.job, job) == 0) {
            return place;
        }
    }
    return NULL;
}

/* The job's place, or a free one for it; NULL: all are in use. */
static struct looked_at *look_at_job(struct site *site, const char *job, int64_t now)
{
    struct looked_at *place = find_job(site, job);
    for (int i = 0; i < SITE_WATCHES_MAX && place == NULL; i++) {
        if (!site->jobs[i].is_used) {
            place = &site->jobs[i];
            *place = (struct looked_at){.is_used = true};
            snprintf(place->watch.job, sizeof place->watch.job, "%s", job);
        }
    }
    if (place != NULL) {
        place->used_ms = now;
    }
    return place;
}

/* ---- requests: the thread of the HTTP library ------------------------------------------------ */

static enum MHD_Result answer_file(struct MHD_Connection *connection, const struct asset *asset)
{
    const char *known =
        MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_IF_NONE_MATCH);
    bool is_known = known != NULL && strcmp(known, asset->tag) == 0;
    struct MHD_Response *response = MHD_create_response_from_buffer(
        is_known ? 0 : asset->count, (void *)(uintptr_t)asset->bytes, MHD_RESPMEM_PERSISTENT);
    if (response != NULL) {
        (void)MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, asset->type);
        (void)MHD_add_response_header(response, MHD_HTTP_HEADER_ETAG, asset->tag);
        (void)MHD_add_response_header(response, MHD_HTTP_HEADER_CACHE_CONTROL, "no-cache");
    }
    return reply_with(connection, is_known ? MHD_HTTP_NOT_MODIFIED : MHD_HTTP_OK, response);
}

/* Whether the broker may get one question more in this second.  Lock held. */
static bool may_ask(struct site *site, int64_t now)
{
    if (now - site->second_ms >= 1000) {
        site->second_ms = now;
        site->questions = 0;
    }
    site->questions += 1;
    return site->questions <= SITE_QUESTIONS_PER_S_MAX;
}

/* Lock held. */
static enum MHD_Result wait_for_answer(struct site *site, struct visit *visit, int64_t now)
{
    bool is_asked = false;
    for (const struct visit *other = site->waiting; other != NULL; other = other->next) {
        is_asked |= question_is_same(&other->question, &visit->question);
    }
    if (!is_asked && !may_ask(site, now)) {
        return reply_line(visit->connection, MHD_HTTP_SERVICE_UNAVAILABLE,
                          "too many different questions in this second: ask again in the next\n");
    }
    visit->since_ms = now;
    visit->is_waiting = true;
    visit->next = site->waiting;
    site->waiting = visit;
    MHD_suspend_connection(visit->connection);
    wake(site);
    return MHD_YES;
}

/* Lock held. */
static enum MHD_Result answer_from_cache(struct site *site, struct visit *visit, int64_t now)
{
    const struct answer *answer = find_answer(site, &visit->question);
    bool is_fresh = answer != NULL && now - answer->made_ms < SITE_CACHE_MS;
    if (!is_fresh && !visit->has_waited && !site->is_closing) {
        return wait_for_answer(site, visit, now);
    }
    if (answer == NULL) {
        return reply_line(visit->connection, MHD_HTTP_SERVICE_UNAVAILABLE, "stopping\n");
    }
    bool is_lines = answer->status == MHD_HTTP_OK;
    return reply(visit->connection, answer->status, is_lines ? LINES_TYPE : TEXT_TYPE, answer->body,
                 answer->bytes);
}

/* Where a stream begins: behind the last event that the page has, or as `from` says. */
static bool read_begin(struct MHD_Connection *connection, uint64_t *from)
{
    const char *last = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Last-Event-ID");
    if (last == NULL || last[0] == '\0') {
        return true;
    }
    uint64_t id = 0;
    if (!question_number(last, &id) || id == UINT64_MAX) {
        return false;
    }
    *from = id + 1;
    return true;
}

/* Lock held. */
static enum MHD_Result answer_stream(struct site *site, struct visit *visit, int64_t now)
{
    struct looked_at *job = find_job(site, visit->question.job);
    uint64_t from = visit->question.from;
    if (!read_begin(visit->connection, &from)) {
        return reply_line(visit->connection, MHD_HTTP_BAD_REQUEST,
                          "Last-Event-ID takes the id of an event, a whole number\n");
    }
    if (site->streams.count >= SITE_STREAMS_MAX) {
        return reply_line(visit->connection, MHD_HTTP_SERVICE_UNAVAILABLE,
                          "too many streams of events are open\n");
    }
    bool is_known = job != NULL && (job->is_caught_up || job->is_refused);
    if (!is_known && !visit->has_waited && !site->is_closing) {
        return wait_for_answer(site, visit, now);
    }
    if (job != NULL && job->is_refused) {
        return reply_line(visit->connection, MHD_HTTP_FORBIDDEN, NO_TAP);
    }
    if (job == NULL || site->is_closing) {
        return reply_line(visit->connection, MHD_HTTP_SERVICE_UNAVAILABLE,
                          "too many jobs are looked at, or this program stops\n");
    }
    if (from == 0 && job->is_caught_up && job->history.next_id == 0) {
        from = 1; /* there was no event yet: the page misses none that comes */
    }
    return stream_begin(&site->streams, &job->history, from, visit->connection);
}

static enum MHD_Result answer_attachment(struct site *site, struct visit *visit)
{
    if (visit->download != NULL) {
        return download_reply(&visit->download, visit->connection);
    }
    visit->download = download_begin(site->downloads, &visit->question, visit->connection);
    return visit->download != NULL
               ? MHD_YES
               : reply_line(visit->connection, MHD_HTTP_SERVICE_UNAVAILABLE,
                            "too many attachments are on their way: try again\n");
}

static const char *argument_of(void *arg, const char *name)
{
    return MHD_lookup_connection_value(arg, MHD_GET_ARGUMENT_KIND, name);
}

/* Makes the visit.  false: the request was replied to, as *out_result says. */
static bool begin_visit(struct site *site, struct MHD_Connection *connection, const char *path,
                        struct visit **out, enum MHD_Result *out_result)
{
    struct question question;
    const char *why = NULL;
    switch (question_read(path, argument_of, connection, &question, &why)) {
    case QUESTION_OK: break;
    case QUESTION_MALFORMED:
        *out_result = reply_line(connection, MHD_HTTP_BAD_REQUEST, why);
        return false;
    case QUESTION_NO_PATH:
        *out_result = reply_line(connection, MHD_HTTP_NOT_FOUND,
                                 "there is no such path; errbus-web(1) lists them\n");
        return false;
    }
    *out = calloc(1, sizeof **out);
    if (*out == NULL) {
        *out_result = MHD_NO;
        return false;
    }
    (*out)->site = site;
    (*out)->connection = connection;
    (*out)->question = question;
    return true;
}

bool site_is_file(const char *path)
{
    return assets_find(path) != NULL;
}

enum MHD_Result site_answer(struct site *site, struct MHD_Connection *connection, const char *path,
                            struct visit **visit)
{
    const struct asset *asset = assets_find(path);
    enum MHD_Result result = MHD_YES;
    if (asset != NULL) {
        return answer_file(connection, asset);
    }
    if (*visit == NULL && !begin_visit(site, connection, path, visit, &result)) {
        return result;
    }
    if ((*visit)->question.kind == QUESTION_ATTACHMENT) {
        return answer_attachment(site, *visit);
    }
    pthread_mutex_lock(&site->lock);
    result = (*visit)->question.kind == QUESTION_STREAM ? answer_stream(site, *visit, now_ms())
                                                        : answer_from_cache(site, *visit, now_ms());
    pthread_mutex_unlock(&site->lock);
    return result;
}

void site_leave(struct visit **visit)
{
    if (*visit != NULL) { /* a request that is suspended is not completed */
        download_drop(&(*visit)->download);
        free(*visit);
        *visit = NULL;
    }
}

/* ---- asking: the site's thread --------------------------------------------------------------- */

static int64_t left_until(int64_t until_ms)
{
    int64_t left_ms = until_ms - now_ms();
    return left_ms > 0 ? left_ms : 0;
}

/* A handle goes on over restarts of the broker. */
static enum bus_err open_admin(const struct site *site, struct bus_admin **admin, int64_t until_ms,
                               struct bus_error **reterr)
{
    return *admin != NULL
               ? BUS_OK
               : bus_admin_open(site->endpoint, NULL, left_until(until_ms), admin, reterr);
}

/* Which shards there are, from time to time. */
static void look_at_shards(struct site *site, int64_t until_ms)
{
    struct bus_shards *shards = NULL;
    int64_t now = now_ms();
    if (now < site->shards_due_ms) {
        return;
    }
    if (until_ms > now + SITE_SHARDS_MS) {
        until_ms = now + SITE_SHARDS_MS;
    }
    site->shards_due_ms = now + SITE_SHARDS_EVERY_MS;
    if (open_admin(site, &site->scout, until_ms, NULL) == BUS_OK &&
        bus_shards_get(site->scout, left_until(until_ms), &shards, NULL) == BUS_OK) {
        bus_shards_free(&site->shards);
        site->shards = shards;
    } else {
        bus_admin_close(&site->scout);
    }
}

/* A question that waited behind others until it was too late is not asked. */
static enum bus_err ask_broker(struct site *site, FILE *out, const struct question *question,
                               int64_t until_ms, struct bus_error **reterr)
{
    struct bus_admin **admin = question->job[0] != '\0' ? &site->guide : &site->admin;
    if (left_until(until_ms) == 0) {
        fputs("the broker does not answer in time\n", out);
        return BUS_ETIMEDOUT;
    }
    enum bus_err err = open_admin(site, admin, until_ms, reterr);
    if (err == BUS_OK && admin == &site->admin) {
        look_at_shards(site, until_ms);
    }
    if (err == BUS_OK) {
        err = answers_ask(out, *admin, question, site->shards, left_until(until_ms), reterr);
    }
    /* A question of a job may wait for the directory of shards: the next one shall not wait behind
     * it. */
    if (err == BUS_ELOST || (err == BUS_ETIMEDOUT && admin == &site->guide)) {
        bus_admin_close(admin);
    }
    return err;
}

/* The history is this thread's to change, so it reads it without the lock. */
static enum bus_err ask_history(struct site *site, FILE *out, const struct question *question,
                                int64_t until_ms)
{
    const struct looked_at *job = find_job(site, question->job);
    if (job == NULL) {
        fputs("too many jobs are looked at\n", out);
        return BUS_ETIMEDOUT;
    }
    if (job->is_refused) {
        fputs(NO_TAP, out);
        return BUS_EDENIED;
    }
    if (!job->is_caught_up) {
        fputs("the broker did not tell the history in time\n", out);
        return BUS_ETIMEDOUT;
    }
    if (question->kind == QUESTION_EVENTS) {
        answers_events(out, &job->history, question->from);
        return BUS_OK;
    }
    if (left_until(until_ms) > 0) { /* or the attachments are those that the error lists */
        (void)open_admin(site, &site->guide, until_ms, NULL);
    }
    if (answers_error(out, site->guide, &job->history, question, left_until(until_ms))) {
        return BUS_OK;
    }
    fputs("no event that is still kept tells of this error\n", out);
    return BUS_EINVAL;
}

/* status is 0 where memory is short. */
static struct answer make_answer(struct site *site, const struct question *question,
                                 int64_t until_ms)
{
    struct answer answer = {.question = *question};
    struct bus_error *error = NULL;
    FILE *out = open_memstream(&answer.body, &answer.bytes);
    if (out == NULL) {
        return answer;
    }
    enum bus_err err = needs_history(question->kind)
                           ? ask_history(site, out, question, until_ms)
                           : ask_broker(site, out, question, until_ms, &error);
    if (error != NULL) {
        fprintf(out, "%s\n", bus_error_message(error));
    } else if (err != BUS_OK && ftell(out) == 0) {
        fprintf(out, "%s\n", bus_strerror(err));
    }
    bus_error_unref(&error);
    bool is_whole = fflush(out) == 0 && ferror(out) == 0;
    fclose(out);
    answer.made_ms = now_ms();
    if (is_whole) {
        answer.status = reply_status_of(err);
    }
    return answer;
}

/* The question that waits longest, and until when; one for a history waits until that was read, or
 * so long.  Lock held. */
static bool next_question(struct site *site, int64_t now, struct question *out,
                          int64_t *out_until_ms)
{
    const struct visit *oldest = NULL;
    for (const struct visit *visit = site->waiting; visit != NULL; visit = visit->next) {
        if (needs_history(visit->question.kind)) {
            const struct looked_at *job = look_at_job(site, visit->question.job, now);
            bool is_known = job == NULL || job->is_caught_up || job->is_refused;
            if (!is_known && now - visit->since_ms < SITE_ANSWER_MS) {
                continue;
            }
        }
        if (oldest == NULL || visit->since_ms < oldest->since_ms) {
            oldest = visit;
        }
    }
    if (oldest != NULL) {
        *out = oldest->question;
        *out_until_ms = oldest->since_ms + SITE_ANSWER_MS;
    }
    return oldest != NULL;
}

static void answer_questions(struct site *site)
{
    struct question question;
    int64_t until_ms = 0;
    pthread_mutex_lock(&site->lock);
    while (!site->is_closing && next_question(site, now_ms(), &question, &until_ms)) {
        struct answer answer = {.status = 0};
        pthread_mutex_unlock(&site->lock);
        if (question.kind != QUESTION_STREAM) {
            answer = make_answer(site, &question, until_ms);
        }
        pthread_mutex_lock(&site->lock);
        if (answer.status != 0) {
            keep_answer(site, &answer);
        } else {
            free(answer.body);
        }
        resume_visits(site, &question);
    }
    pthread_mutex_unlock(&site->lock);
}

/* ---- events: the site's thread --------------------------------------------------------------- */

/* Makes the place of a job free; the caller closes its tap.  Lock held: so no stream begins in
 * between that would follow the next job of this place. */
static struct bus_tap *leave_job(struct looked_at *job)
{
    struct bus_tap *tap = job->watch.tap;
    history_fini(&job->history);
    *job = (struct looked_at){.is_used = false};
    return tap;
}

/* Moves events from the tap to the history.  true: there may be more. */
static bool read_events(struct site *site, struct looked_at *job)
{
    struct watch_event events[WATCH_EVENTS_MAX];
    bool is_anew = watch_begin_anew(&job->watch, now_ms());
    size_t count = watch_read(&job->watch, now_ms(), events);
    bool is_caught_up = watch_is_caught_up(&job->watch);
    bool is_gap = false;
    pthread_mutex_lock(&site->lock);
    if (is_anew) {
        history_forget(&job->history);
        job->is_caught_up = false;
    }
    for (size_t i = 0; i < count; i++) {
        /* No memory: readers see that the id is missing. */
        (void)history_add(&job->history, events[i].id, events[i].brief, events[i].whole,
                          events[i].error);
    }
    job->is_caught_up = (job->is_caught_up || is_caught_up) && !job->watch.is_refused;
    if (job->watch.is_refused && !job->is_refused) {
        streams_end(&site->streams, &job->history);
    }
    job->is_refused = job->watch.is_refused;
    is_gap = job->watch.next_id > job->history.next_id;
    history_skip(&job->history, job->watch.next_id);
    if (count > 0 || is_anew || is_gap) {
        streams_wake(&site->streams, &job->history);
    }
    pthread_mutex_unlock(&site->lock);
    return count == WATCH_EVENTS_MAX || is_anew;
}

/* Leaves the job if nobody has looked at it for long.  false: it is not looked at. */
static bool is_looked_at(struct site *site, struct looked_at *job, int64_t now)
{
    pthread_mutex_lock(&site->lock);
    bool is_used = job->is_used;
    if (is_used && streams_has(&site->streams, &job->history)) {
        job->used_ms = now;
    }
    bool is_idle = is_used && now - job->used_ms > SITE_WATCH_IDLE_MS;
    struct bus_tap *tap = is_idle ? leave_job(job) : NULL;
    pthread_mutex_unlock(&site->lock);
    bus_tap_close(&tap);
    return is_used && !is_idle;
}

/* One tap at a time is opened, the one that waits longest for it: a broker that does not answer
 * holds up no question for longer.  true: some job has more to read at once. */
static bool look_at_jobs(struct site *site)
{
    struct looked_at *due = NULL;
    bool has_more = false;
    int64_t now = now_ms();
    for (int i = 0; i < SITE_WATCHES_MAX; i++) {
        struct looked_at *job = &site->jobs[i];
        if (!is_looked_at(site, job, now)) {
            continue;
        }
        has_more |= read_events(site, job);
        if (watch_is_due(&job->watch, now) &&
            (due == NULL || job->watch.retry_ms < due->watch.retry_ms)) {
            has_more |= due != NULL;
            due = job;
        }
    }
    if (due != NULL) {
        watch_open(&due->watch, site->endpoint, now, SITE_TAP_MS);
        has_more |= read_events(site, due);
    }
    return has_more;
}

/* ---- the thread ------------------------------------------------------------------------------ */

/* Waits for news, and at most so long that nothing else is late. */
static void wait_for_news(struct site *site, bool has_more)
{
    struct pollfd items[SITE_WATCHES_MAX + 1] = {{.fd = site->wake_fd, .events = POLLIN}};
    uint64_t count;
    nfds_t used = 1;
    for (int i = 0; i < SITE_WATCHES_MAX; i++) {
        int fd = site->jobs[i].is_used ? watch_fd(&site->jobs[i].watch) : -1;
        if (fd >= 0) {
            items[used++] = (struct pollfd){.fd = fd, .events = POLLIN};
        }
    }
    (void)poll(items, used, has_more ? 0 : WATCH_RETRY_MS / 2);
    (void)!read(site->wake_fd, &count, sizeof count); /* empty or not */
}

static void *run(void *arg)
{
    struct site *site = arg;
    bool is_closing = false;
    while (!is_closing) {
        answer_questions(site);
        bool has_more = look_at_jobs(site);
        answer_questions(site);
        wait_for_news(site, has_more);
        pthread_mutex_lock(&site->lock);
        streams_tick(&site->streams, now_ms());
        is_closing = site->is_closing;
        pthread_mutex_unlock(&site->lock);
    }
    return NULL;
}

struct site *site_open(const char *endpoint)
{
    struct site *site = calloc(1, sizeof *site);
    if (site == NULL) {
        return NULL;
    }
    site->endpoint = endpoint;
    pthread_mutexattr_t recursive; /* a response that is refused ends its stream at once */
    pthread_mutexattr_init(&recursive);
    pthread_mutexattr_settype(&recursive, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&site->lock, &recursive);
    pthread_mutexattr_destroy(&recursive);
    streams_init(&site->streams, &site->lock);
    site->downloads = downloads_new(endpoint);
    site->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (site->downloads == NULL || site->wake_fd < 0 ||
        pthread_create(&site->thread, NULL, run, site) != 0) {
        downloads_free(&site->downloads);
        if (site->wake_fd >= 0) {
            close(site->wake_fd);
        }
        free(site);
        return NULL;
    }
    return site;
}

void site_stop(struct site *site)
{
    pthread_mutex_lock(&site->lock);
    site->is_closing = true;
    resume_visits(site, NULL);
    streams_stop(&site->streams);
    pthread_mutex_unlock(&site->lock);
    downloads_stop(site->downloads);
    wake(site);
}

void site_close(struct site **site)
{
    struct site *old = *site;
    *site = NULL;
    pthread_join(old->thread, NULL);
    for (int i = 0; i < SITE_WATCHES_MAX; i++) {
        struct bus_tap *tap = leave_job(&old->jobs[i]); /* no other thread is left */
        bus_tap_close(&tap);
    }
    for (int i = 0; i < SITE_ANSWERS_MAX; i++) {
        free(old->answers[i].body);
    }
    downloads_free(&old->downloads);
    bus_admin_close(&old->admin);
    bus_admin_close(&old->guide);
    bus_admin_close(&old->scout);
    bus_shards_free(&old->shards);
    close(old->wake_fd);
    pthread_mutex_destroy(&old->lock);
    free(old);
}
