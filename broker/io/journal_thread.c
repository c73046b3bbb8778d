/* SPDX-License-Identifier: MPL-2.0 */
/* journal_thread.c -- the journal's own thread; see journal_thread.h. */
#include "broker/io/journal_thread.h"

#include "broker/io/failpoint.h"
#include "libbus/base/must.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

enum { RECORDS_AT_ONCE = 4096 };
#define BYTES_AT_ONCE (UINT64_C(16) * 1024 * 1024) /* unless one step has more */

/* What the second thread is at. */
enum flushing { FLUSH_NONE, FLUSH_ASKED, FLUSH_DONE };

struct steps {
    struct scribe_step *first;
    struct scribe_step *last;
};

struct scribe {
    struct journal *journal; /* the thread's */
    bool wants_sync;
    bool has_trimmed;   /* and not looked since whether that made room; the thread's */
    uint64_t untrimmed; /* what lies below may go, and did not; the thread's; 0: nothing */
    int fd;
    bool is_given_up;         /* the next flush lets segments go; the thread's, as what follows */
    bool has_flush_by;        /* there is something that is not on the disk */
    struct timespec flush_by; /* ... and until then it is flushed */
    struct journal_flush *flush; /* of the thread whose turn it is */
    pthread_t thread;
    pthread_t flusher;
    struct journal_record *records; /* of all steps that are written together; the thread's */
    uint64_t *positions;

    pthread_mutex_t lock; /* protects all below */
    pthread_cond_t work;
    pthread_cond_t flush_work; /* the second thread waits for it */
    enum flushing flushing;
    struct steps waiting;
    struct steps logged; /* with payloads, until the loop fetches them */
    uint64_t waiting_bytes;
    uint64_t last_ticket;
    struct scribe_news news;
    char complaint[JOURNAL_COMPLAINT_BYTES];
    uint64_t last_bytes; /* of the last batch */
    bool is_gathering;   /* the thread waits for more of a stream */
    bool is_closing;
    bool is_over; /* the second thread is not needed any more */

    char told[JOURNAL_COMPLAINT_BYTES]; /* the loop's copy */
};

/* ---- steps ----------------------------------------------------------------------------------- */

static void push(struct steps *steps, struct scribe_step *step)
{
    step->next = NULL;
    if (steps->last != NULL)
        steps->last->next = step;
    else
        steps->first = step;
    steps->last = step;
}

static struct scribe_step *pop(struct steps *steps)
{
    struct scribe_step *step = steps->first;
    if (step == NULL)
        return NULL;
    steps->first = step->next;
    if (steps->first == NULL)
        steps->last = NULL;
    return step;
}

/* The bodies that are copied lie behind the records. */
struct scribe_step *scribe_step_new(size_t count, size_t body_bytes)
{
    size_t record_bytes = count * sizeof(struct journal_record);
    struct scribe_step *step = malloc(sizeof *step + record_bytes + body_bytes);
    if (step != NULL)
        *step = (struct scribe_step){.body = (uint8_t *)(step->records + count)};
    return step;
}

uint8_t *scribe_step_body(struct scribe_step *step, uint16_t kind, size_t bytes)
{
    uint8_t *body = step->body;
    step->records[step->count++] =
        (struct journal_record){.kind = kind, .body = span_of(body, bytes)};
    step->body += bytes;
    step->bytes += bytes;
    return body;
}

void scribe_step_add(struct scribe_step *step, uint16_t kind, struct span body)
{
    uint8_t *copy = scribe_step_body(step, kind, body.bytes);
    if (body.bytes > 0)
        memcpy(copy, body.data, body.bytes);
}

void scribe_step_payload(struct scribe_step *step, uint16_t kind, uint64_t key,
                         struct buffer *payload)
{
    must(step->count == 0);
    step->key = key;
    step->payload = buffer_ref(payload);
    step->records[step->count++] =
        (struct journal_record){.kind = kind, .body = buffer_span(payload)};
    step->bytes += payload->bytes;
}

void scribe_step_free(struct scribe_step **step)
{
    if (*step != NULL)
        buffer_unref(&(*step)->payload);
    free(*step);
    *step = NULL;
}

static void free_all(struct steps *steps)
{
    struct scribe_step *step;
    while ((step = pop(steps)) != NULL)
        scribe_step_free(&step);
}

/* ---- the thread ------------------------------------------------------------------------------ */

static void tell(struct scribe *scribe)
{
    const uint64_t one = 1;
    (void)!write(scribe->fd, &one, sizeof one); /* full means that it is readable already */
}

/* Lock. */
static void set_state(struct scribe *scribe, enum scribe_state state)
{
    if (state != SCRIBE_WELL)
        snprintf(scribe->complaint, sizeof scribe->complaint, "%s",
                 journal_complaint(scribe->journal));
    scribe->news.state = state;
}

/* Lock, or alone. */
static void note_place(struct scribe *scribe)
{
    const struct journal *journal = scribe->journal;
    scribe->news.first = journal_first(journal);
    scribe->news.start = journal_start(journal);
    scribe->news.first_end = journal_first_end(journal);
    scribe->news.next = journal_next(journal);
    scribe->news.on_disk = journal_synced(journal);
    scribe->news.bytes = journal_bytes(journal);
    scribe->news.room = journal_room(journal);
    scribe->news.aside = journal_aside(journal);
}

static enum journal_err append(struct scribe *scribe, size_t count, unsigned how)
{
    struct journal *journal = scribe->journal;
    return journal_append(journal, journal_lease(journal), journal_next(journal), scribe->records,
                          count, how, scribe->positions);
}

/* What an append that failed means, and whether it may be tried again. */
static enum scribe_state state_of(enum journal_err err)
{
    return err == JOURNAL_FAILED || err == JOURNAL_FENCED || err == JOURNAL_POSITION ||
                   err == JOURNAL_LIMIT
               ? SCRIBE_FAILED
               : SCRIBE_REFUSED;
}

/* What the newest whole checkpoint does not need goes, or with the next one if it cannot go now; on
 * a full disk it is tried again before that. */
static void trim(struct scribe *scribe, uint64_t needed_from)
{
    failpoint_reach("trim");
    uint64_t start = journal_start(scribe->journal);
    uint64_t first = journal_first(scribe->journal);
    uint64_t below = start < needed_from ? start : needed_from;
    scribe->untrimmed = journal_trim(scribe->journal, below) == JOURNAL_OK ? 0 : below;
    scribe->has_trimmed = journal_first(scribe->journal) > first;
    scribe->is_given_up = !scribe->wants_sync;
    failpoint_reach("trimmed");
}

/* Appends the first count records; where there is no room, what waits for a trim goes at once, and
 * if that makes none, into what is set aside. */
static enum scribe_state write_records(struct scribe *scribe, size_t count, unsigned how)
{
    enum scribe_state state = SCRIBE_WELL;
    enum journal_err err = append(scribe, count, how);
    if (err == JOURNAL_FULL && scribe->untrimmed != 0) {
        trim(scribe, scribe->untrimmed);
        err = append(scribe, count, how);
    }
    if (err == JOURNAL_FULL) {
        state = SCRIBE_FULL;
        err = append(scribe, count, how | JOURNAL_ESSENTIAL);
    }
    return err == JOURNAL_OK ? state : state_of(err);
}

/* What the last step of a batch asks for, now that it is written. */
static void follow_up(struct scribe *scribe, const struct scribe_step *last)
{
    if ((last->how & JOURNAL_CHECKPOINT_END) != 0) {
        journal_set_aside(scribe->journal, last->aside);
        scribe->untrimmed = last->needed_from;
    }
    if (last->is_trim)
        trim(scribe, last->needed_from);
}

/* Gathers steps into one batch, at least one of them, and those of a checkpoint alone; the last of
 * it. */
static struct scribe_step *gather(struct scribe *scribe, struct scribe_step *first,
                                  size_t *out_count)
{
    struct scribe_step *last = NULL;
    size_t count = 0;
    uint64_t bytes = 0;
    for (struct scribe_step *step = first; step != NULL; step = step->next) {
        bytes += step->bytes;
        if (last != NULL && (count + step->count > RECORDS_AT_ONCE || bytes > BYTES_AT_ONCE ||
                             step->how != 0 || last->how != 0 || last->is_trim))
            break;
        must(step->count <= RECORDS_AT_ONCE);
        memcpy(scribe->records + count, step->records, step->count * sizeof *step->records);
        count += step->count;
        last = step;
    }
    *out_count = count;
    return last;
}

/* Lock.  Steps up to last are logged. */
static void note_logged(struct scribe *scribe, const struct scribe_step *last)
{
    size_t at = 0;
    bool is_last;
    scribe->news.logged = last->ticket;
    scribe->last_bytes = 0;
    do {
        struct scribe_step *step = pop(&scribe->waiting);
        is_last = step == last;
        scribe->waiting_bytes -= step->bytes;
        scribe->last_bytes += step->bytes;
        step->payload_at = scribe->positions[at];
        at += step->count;
        if (step->payload != NULL)
            push(&scribe->logged, step);
        else
            scribe_step_free(&step);
    } while (!is_last);
}

static struct timespec time_in_us(long us)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += us % 1000000 * 1000L;
    until.tv_sec += us / 1000000 + until.tv_nsec / 1000000000L;
    until.tv_nsec %= 1000000000L;
    return until;
}

static struct timespec time_in(long ms)
{
    return time_in_us(ms * 1000);
}

/* Lock; given up meanwhile.  Behind a batch of a stream: waits for more of it. */
static void await_stream(struct scribe *scribe)
{
    if (scribe->wants_sync || scribe->is_closing || scribe->last_bytes < SCRIBE_STREAM_BYTES ||
        scribe->waiting_bytes >= SCRIBE_STREAM_BYTES)
        return;
    struct timespec until = time_in_us(SCRIBE_STREAM_US);
    scribe->is_gathering = true;
    (void)pthread_cond_timedwait(&scribe->work, &scribe->lock, &until); /* or sooner */
    scribe->is_gathering = false;
}

/* Lock; given up meanwhile.  Waits, or until it is time to try again, or to flush. */
static void wait_for_work(struct scribe *scribe, bool is_again)
{
    bool is_flush_near = scribe->has_flush_by && scribe->flushing == FLUSH_NONE;
    struct timespec again = time_in(SCRIBE_AGAIN_MS);
    if (is_again)
        pthread_cond_timedwait(&scribe->work, &scribe->lock, &again);
    else if (is_flush_near)
        pthread_cond_timedwait(&scribe->work, &scribe->lock, &scribe->flush_by);
    else
        pthread_cond_wait(&scribe->work, &scribe->lock);
}

/* Lock; given up meanwhile.  Whether it went well. */
static bool write_waiting(struct scribe *scribe)
{
    size_t count = 0;
    struct scribe_step *last = gather(scribe, scribe->waiting.first, &count);
    pthread_mutex_unlock(&scribe->lock);
    failpoint_reach("append");
    enum scribe_state state = write_records(scribe, count, last->how);
    failpoint_reach("appended");
    if (state == SCRIBE_WELL || state == SCRIBE_FULL)
        follow_up(scribe, last);
    pthread_mutex_lock(&scribe->lock);
    bool is_logged = state == SCRIBE_WELL || state == SCRIBE_FULL;
    note_place(scribe);
    bool is_news = is_logged || state != scribe->news.state;
    set_state(scribe, state);
    if (is_logged)
        note_logged(scribe, last);
    if (is_news)
        tell(scribe);
    return is_logged;
}

/* Lock; given up meanwhile. */
static void sync_logged(struct scribe *scribe)
{
    uint64_t ticket = scribe->news.logged;
    pthread_mutex_unlock(&scribe->lock);
    failpoint_reach("sync");
    enum journal_err err = journal_sync(scribe->journal, journal_next(scribe->journal));
    failpoint_reach("synced");
    pthread_mutex_lock(&scribe->lock);
    note_place(scribe);
    if (err == JOURNAL_OK)
        scribe->news.synced = ticket;
    else
        set_state(scribe, SCRIBE_FAILED);
    tell(scribe);
}

/* Lock; given up meanwhile.  The disk was full: whether it is still. */
static void probe(struct scribe *scribe)
{
    pthread_mutex_unlock(&scribe->lock);
    if (scribe->untrimmed != 0)
        trim(scribe, scribe->untrimmed);
    scribe->has_trimmed = false;
    scribe->records[0] = (struct journal_record){.kind = SCRIBE_KIND_PROBE};
    enum journal_err err = append(scribe, 1, 0);
    pthread_mutex_lock(&scribe->lock);
    note_place(scribe);
    if (err == JOURNAL_FULL)
        return;
    set_state(scribe, err == JOURNAL_OK ? SCRIBE_WELL : state_of(err));
    tell(scribe);
}

/* ---- flushing -------------------------------------------------------------------------------- */

static uint64_t unsynced_bytes(const struct scribe *scribe)
{
    return journal_next(scribe->journal) - journal_synced(scribe->journal);
}

/* Whether it is time to flush.  On a full disk it is whenever that lets segments go. */
static bool is_flush_due(struct scribe *scribe)
{
    struct timespec now;
    uint64_t bytes = unsynced_bytes(scribe);
    uint64_t flush_bytes = failpoint_number("FLUSH_BYTES", SCRIBE_FLUSH_BYTES);
    if (bytes == 0 && !scribe->is_given_up)
        return false;
    if (!scribe->has_flush_by)
        scribe->flush_by = time_in(SCRIBE_FLUSH_MS);
    scribe->has_flush_by = true;
    if (scribe->is_given_up && (bytes >= flush_bytes || scribe->news.state == SCRIBE_FULL))
        return true;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec > scribe->flush_by.tv_sec ||
           (now.tv_sec == scribe->flush_by.tv_sec && now.tv_nsec >= scribe->flush_by.tv_nsec);
}

/* Lock.  Hands a flush to the other thread; what cannot be begun now is begun later. */
static void begin_flush(struct scribe *scribe)
{
    enum journal_err err = journal_flush_begin(scribe->journal, &scribe->flush);
    scribe->is_given_up = scribe->is_given_up && err != JOURNAL_OK;
    scribe->has_flush_by = false;
    if (scribe->flush == NULL)
        return;
    scribe->flushing = FLUSH_ASKED;
    pthread_cond_signal(&scribe->flush_work);
}

/* Lock.  A flush that failed is the end, as a sync that failed is. */
static void end_flush(struct scribe *scribe)
{
    scribe->flushing = FLUSH_NONE;
    if (journal_flush_end(scribe->journal, &scribe->flush) == JOURNAL_OK) {
        scribe->has_trimmed = true; /* it may have been that */
    } else {
        set_state(scribe, SCRIBE_FAILED);
    }
    note_place(scribe);
    tell(scribe);
}

/* Lock.  Whether appending must wait until a flush has ended. */
static bool care_for_flushes(struct scribe *scribe)
{
    if (scribe->flushing == FLUSH_DONE)
        end_flush(scribe);
    if (scribe->flushing == FLUSH_NONE && !scribe->wants_sync &&
        scribe->news.state != SCRIBE_FAILED && is_flush_due(scribe))
        begin_flush(scribe);
    return scribe->flushing == FLUSH_ASKED && unsynced_bytes(scribe) >= SCRIBE_UNSYNCED_BYTES;
}

/* The second thread. */
static void *run_flushes(void *arg)
{
    struct scribe *scribe = arg;
    pthread_mutex_lock(&scribe->lock);
    while (!scribe->is_over) {
        if (scribe->flushing == FLUSH_ASKED) {
            pthread_mutex_unlock(&scribe->lock);
            failpoint_reach("flush");
            journal_flush_run(scribe->flush);
            failpoint_reach("flushed");
            pthread_mutex_lock(&scribe->lock);
            scribe->flushing = FLUSH_DONE;
            pthread_cond_signal(&scribe->work);
        } else {
            pthread_cond_wait(&scribe->flush_work, &scribe->lock);
        }
    }
    pthread_mutex_unlock(&scribe->lock);
    return NULL;
}

/* Lock; given up meanwhile.  The second thread has nothing to do any more. */
static void finish_flushes(struct scribe *scribe)
{
    while (scribe->flushing == FLUSH_ASKED)
        pthread_cond_wait(&scribe->work, &scribe->lock);
    if (scribe->flushing == FLUSH_DONE)
        end_flush(scribe);
    scribe->is_over = true;
    pthread_cond_signal(&scribe->flush_work);
}

/* ---- the thread, all of it ------------------------------------------------------------------- */

/* Lock; given up meanwhile.  Nothing can be done at once. */
static void rest(struct scribe *scribe, bool is_refused)
{
    bool is_full = scribe->news.state == SCRIBE_FULL;
    if (!is_full || !scribe->has_trimmed)
        wait_for_work(scribe, is_refused || is_full);
    if (!is_refused && scribe->news.state == SCRIBE_FULL && scribe->waiting.first == NULL)
        probe(scribe);
}

static void *run(void *arg)
{
    struct scribe *scribe = arg;
    bool is_refused = false;
    pthread_mutex_lock(&scribe->lock);
    while (scribe->news.state != SCRIBE_FAILED) {
        bool must_wait = care_for_flushes(scribe);
        bool has_work = scribe->waiting.first != NULL && !is_refused && !must_wait;
        bool is_behind = scribe->wants_sync && scribe->news.synced < scribe->news.logged;
        if (scribe->news.state == SCRIBE_FAILED) {
            break;
        } else if (has_work) {
            is_refused = !write_waiting(scribe);
            if (!is_refused)
                await_stream(scribe);
        } else if (is_behind) {
            sync_logged(scribe);
        } else if (scribe->is_closing && !must_wait) {
            break;
        } else {
            rest(scribe, is_refused);
            is_refused = false;
        }
    }
    finish_flushes(scribe);
    pthread_mutex_unlock(&scribe->lock);
    return NULL;
}

/* ---- opening and closing --------------------------------------------------------------------- */

static bool start_threads(struct scribe *scribe)
{
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    if (pthread_sigmask(SIG_SETMASK, &all, &before) != 0)
        return false;
    bool is_started = pthread_create(&scribe->flusher, NULL, run_flushes, scribe) == 0;
    if (is_started && pthread_create(&scribe->thread, NULL, run, scribe) != 0) {
        pthread_mutex_lock(&scribe->lock);
        scribe->is_over = true;
        pthread_cond_signal(&scribe->flush_work);
        pthread_mutex_unlock(&scribe->lock);
        pthread_join(scribe->flusher, NULL);
        is_started = false;
    }
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL); /* as it was: cannot fail */
    if (is_started) {
        (void)pthread_setname_np(scribe->thread, "journal"); /* for people with a debugger */
        (void)pthread_setname_np(scribe->flusher, "flush");
    }
    return is_started;
}

static void scribe_free(struct scribe *scribe)
{
    free_all(&scribe->waiting);
    free_all(&scribe->logged);
    if (scribe->fd >= 0)
        close(scribe->fd);
    free(scribe->records);
    free(scribe->positions);
    pthread_cond_destroy(&scribe->work);
    pthread_cond_destroy(&scribe->flush_work);
    pthread_mutex_destroy(&scribe->lock);
    free(scribe);
}

static bool init_locks(struct scribe *scribe)
{
    pthread_condattr_t attributes;
    if (pthread_mutex_init(&scribe->lock, NULL) != 0)
        return false;
    bool is_made = pthread_condattr_init(&attributes) == 0 &&
                   pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC) == 0 &&
                   pthread_cond_init(&scribe->work, &attributes) == 0 &&
                   pthread_cond_init(&scribe->flush_work, NULL) == 0;
    if (!is_made)
        pthread_mutex_destroy(&scribe->lock);
    return is_made;
}

struct scribe *scribe_open(struct journal **journal, bool wants_sync)
{
    struct scribe *scribe = calloc(1, sizeof *scribe);
    if (scribe == NULL)
        return NULL;
    if (!init_locks(scribe)) {
        free(scribe);
        return NULL;
    }
    scribe->wants_sync = wants_sync;
    scribe->is_given_up = !wants_sync; /* the last process may have left some */
    scribe->journal = *journal;
    note_place(scribe);
    scribe->records = calloc(RECORDS_AT_ONCE, sizeof *scribe->records);
    scribe->positions = calloc(RECORDS_AT_ONCE, sizeof *scribe->positions);
    scribe->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (scribe->records == NULL || scribe->positions == NULL || scribe->fd < 0 ||
        !start_threads(scribe)) {
        scribe_free(scribe);
        return NULL;
    }
    *journal = NULL;
    return scribe;
}

void scribe_close(struct scribe **scribe)
{
    struct scribe *old = *scribe;
    *scribe = NULL;
    if (old == NULL)
        return;
    pthread_mutex_lock(&old->lock);
    old->is_closing = true;
    pthread_cond_signal(&old->work);
    pthread_mutex_unlock(&old->lock);
    pthread_join(old->thread, NULL);
    pthread_join(old->flusher, NULL);
    if (old->news.state != SCRIBE_FAILED)
        (void)journal_sync(old->journal, journal_next(old->journal)); /* what it can */
    journal_close(&old->journal);
    scribe_free(old);
}

/* ---- the loop's side ------------------------------------------------------------------------- */

uint64_t scribe_give(struct scribe *scribe, struct scribe_step **step)
{
    struct scribe_step *given = *step;
    *step = NULL;
    must(given->count > 0 && given->count <= RECORDS_AT_ONCE);
    pthread_mutex_lock(&scribe->lock);
    uint64_t ticket = ++scribe->last_ticket;
    given->ticket = ticket;
    scribe->waiting_bytes += given->bytes;
    bool is_enough = scribe->is_gathering
                         ? scribe->waiting_bytes >= SCRIBE_STREAM_BYTES &&
                               scribe->waiting_bytes - given->bytes < SCRIBE_STREAM_BYTES
                         : scribe->waiting.first == NULL;
    push(&scribe->waiting, given);
    if (is_enough)
        pthread_cond_signal(&scribe->work);
    pthread_mutex_unlock(&scribe->lock);
    return ticket;
}

uint64_t scribe_waiting_bytes(struct scribe *scribe)
{
    pthread_mutex_lock(&scribe->lock);
    uint64_t bytes = scribe->waiting_bytes;
    pthread_mutex_unlock(&scribe->lock);
    return bytes;
}

uint64_t scribe_room(struct scribe *scribe)
{
    pthread_mutex_lock(&scribe->lock);
    uint64_t room = scribe->news.room;
    uint64_t waiting = scribe->waiting_bytes;
    pthread_mutex_unlock(&scribe->lock);
    return room > waiting ? room - waiting : 0;
}

bool scribe_has_room(struct scribe *scribe)
{
    return scribe_waiting_bytes(scribe) < SCRIBE_WAITING_BYTES;
}

int scribe_fd(const struct scribe *scribe)
{
    return scribe->fd;
}

struct scribe_news scribe_news(struct scribe *scribe)
{
    uint64_t count;
    (void)!read(scribe->fd, &count, sizeof count); /* nothing in it is what is wanted */
    pthread_mutex_lock(&scribe->lock);
    struct scribe_news news = scribe->news;
    pthread_mutex_unlock(&scribe->lock);
    return news;
}

struct scribe_step *scribe_logged(struct scribe *scribe)
{
    pthread_mutex_lock(&scribe->lock);
    struct scribe_step *step = pop(&scribe->logged);
    pthread_mutex_unlock(&scribe->lock);
    return step;
}

const char *scribe_complaint(struct scribe *scribe)
{
    pthread_mutex_lock(&scribe->lock);
    memcpy(scribe->told, scribe->complaint, sizeof scribe->told);
    pthread_mutex_unlock(&scribe->lock);
    return scribe->told;
}
