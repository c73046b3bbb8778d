/* SPDX-License-Identifier: MPL-2.0 */
/* journal_thread.c -- the journal's own thread; see journal_thread.h.
 *
 * "Lock" before a function: its caller holds the lock.  "Given up meanwhile": the function lets go
 * of the lock while it waits or writes, and holds it again when it returns. */
#include "broker/io/journal_thread.h"

#include "broker/io/clock.h"
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

#define NS_PER_MS INT64_C(1000000)
#define BYTES_AT_ONCE (UINT64_C(16) * 1024 * 1024) /* unless one step has more */

/* What the second thread does. */
enum flushing { FLUSH_NONE, FLUSH_ASKED, FLUSH_DONE };

struct steps {
    struct journal_step *first;
    struct journal_step *last;
};

struct journal_thread {
    struct journal *journal; /* the thread's */
    enum journal_pace pace;
    bool has_flushes;   /* the second thread syncs; else this one */
    bool is_kept;       /* it must be said again and again that the journal is ours */
    bool has_trimmed;   /* and not looked since whether that made room; the thread's */
    uint64_t untrimmed; /* what lies below may go, and did not; the thread's; 0: nothing */
    int fd;
    bool has_news;            /* the loop is to be told; the thread's, as what follows */
    bool is_given_up;         /* the next flush lets segments go */
    bool has_flush_by;        /* a flush waits for this moment: */
    struct timespec flush_by; /* something is not on the disk, or could not be flushed */
    uint64_t flush_logged;    /* of the flush under way: what is logged when it began */
    uint64_t flush_logged_steps;
    int64_t bulk_until_ns;       /* until then the second thread syncs, however little it is */
    struct journal_flush *flush; /* of the thread whose turn it is */
    pthread_t handle;
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
    struct journal_news news;
    struct histogram writes;
    int64_t kept_ns; /* when the last call began after which the journal was still ours */
    char complaint[JOURNAL_COMPLAINT_BYTES];
    uint64_t last_bytes; /* of the last batch */
    bool is_gathering;   /* the thread waits for more of a stream */
    bool is_closing;
    bool is_over; /* the second thread is not needed any more */

    char told[JOURNAL_COMPLAINT_BYTES]; /* the loop's copy */
};

/* ---- steps ----------------------------------------------------------------------------------- */

static void thread_push(struct steps *steps, struct journal_step *step)
{
    step->next = NULL;
    if (steps->last != NULL)
        steps->last->next = step;
    else
        steps->first = step;
    steps->last = step;
}

static struct journal_step *pop(struct steps *steps)
{
    struct journal_step *step = steps->first;
    if (step == NULL)
        return NULL;
    steps->first = step->next;
    if (steps->first == NULL)
        steps->last = NULL;
    return step;
}

/* The bodies that are copied lie behind the records. */
struct journal_step *journal_step_new(size_t count, size_t body_bytes)
{
    size_t record_bytes = count * sizeof(struct journal_record);
    struct journal_step *step = malloc(sizeof *step + record_bytes + body_bytes);
    if (step != NULL)
        *step = (struct journal_step){.body = (uint8_t *)(step->records + count)};
    return step;
}

uint8_t *journal_step_body(struct journal_step *step, uint16_t kind, size_t bytes)
{
    uint8_t *body = step->body;
    step->records[step->count++] =
        (struct journal_record){.kind = kind, .body = span_of(body, bytes)};
    step->body += bytes;
    step->bytes += bytes;
    return body;
}

void journal_step_add(struct journal_step *step, uint16_t kind, struct span body)
{
    uint8_t *copy = journal_step_body(step, kind, body.bytes);
    if (body.bytes > 0)
        memcpy(copy, body.data, body.bytes);
}

void journal_step_payload(struct journal_step *step, uint16_t kind, uint64_t key,
                          struct buffer *payload)
{
    must(step->count == 0);
    step->key = key;
    step->payload = buffer_ref(payload);
    step->records[step->count++] =
        (struct journal_record){.kind = kind, .body = buffer_span(payload)};
    step->bytes += payload->bytes;
}

void journal_step_free(struct journal_step **step)
{
    if (*step != NULL)
        buffer_unref(&(*step)->payload);
    free(*step);
    *step = NULL;
}

static void free_all(struct steps *steps)
{
    struct journal_step *step;
    while ((step = pop(steps)) != NULL)
        journal_step_free(&step);
}

/* ---- the thread ------------------------------------------------------------------------------ */

/* Lock; given up meanwhile.  The loop may run at once, in this thread's place, and takes the lock:
 * so it is told without it. */
static void tell_loop(struct journal_thread *thread)
{
    const uint64_t one = 1;
    if (!thread->has_news)
        return;
    thread->has_news = false;
    pthread_mutex_unlock(&thread->lock);
    (void)!write(thread->fd, &one, sizeof one); /* full means that it is readable already */
    pthread_mutex_lock(&thread->lock);
}

/* Lock. */
static void set_state(struct journal_thread *thread, enum journal_state state)
{
    if (state != JOURNAL_IS_WELL)
        snprintf(thread->complaint, sizeof thread->complaint, "%s",
                 journal_complaint(thread->journal));
    thread->news.state = state;
    thread->news.has_forgotten = journal_has_forgotten(thread->journal);
}

/* Lock, or alone. */
static void note_place(struct journal_thread *thread)
{
    const struct journal *journal = thread->journal;
    thread->news.first = journal_first(journal);
    thread->news.start = journal_start(journal);
    thread->news.first_end = journal_first_end(journal);
    thread->news.next = journal_next(journal);
    thread->news.on_disk = journal_synced(journal);
    thread->news.bytes = journal_bytes(journal);
    thread->news.room = journal_room(journal);
    thread->news.aside = journal_aside(journal);
}

static enum journal_err thread_append(struct journal_thread *thread, size_t count, unsigned how)
{
    struct journal *journal = thread->journal;
    return journal_append(journal, journal_lease(journal), journal_next(journal), thread->records,
                          count, how, thread->positions);
}

static bool wants_sync(const struct journal_thread *thread)
{
    return thread->pace != JOURNAL_PACE_LAZY;
}

/* What an append that failed means, and whether it may be tried again. */
static enum journal_state state_of(const struct journal_thread *thread, enum journal_err err)
{
    bool is_over = err == JOURNAL_FAILED || err == JOURNAL_FENCED || err == JOURNAL_POSITION ||
                   err == JOURNAL_LIMIT;
    bool is_final = thread->pace == JOURNAL_PACE_SHARED && err != JOURNAL_FULL;
    return is_over || is_final ? JOURNAL_IS_FAILED : JOURNAL_IS_REFUSED;
}

/* Trims what the newest whole checkpoint does not need.  If that fails, the next checkpoint trims
 * it; on a full disk it is tried again before that. */
static void thread_trim(struct journal_thread *thread, uint64_t needed_from)
{
    failpoint_reach("trim");
    uint64_t start = journal_start(thread->journal);
    uint64_t first = journal_first(thread->journal);
    uint64_t below = start < needed_from ? start : needed_from;
    thread->untrimmed = journal_trim(thread->journal, below) == JOURNAL_OK ? 0 : below;
    thread->has_trimmed = journal_first(thread->journal) > first;
    thread->is_given_up = thread->has_flushes;
    failpoint_reach("trimmed");
}

/* All that was appended, at once. */
static enum journal_err sync_here(struct journal *journal, bool has_flushes)
{
    struct journal_flush *flush = NULL;
    if (!has_flushes)
        return journal_sync(journal, journal_next(journal));
    enum journal_err err = journal_sync_begin(journal, &flush);
    if (err != JOURNAL_OK || flush == NULL)
        return err;
    journal_flush_run(flush);
    return journal_flush_end(journal, &flush);
}

/* Lock.  A flush that failed is the end, as a sync that failed is. */
static void end_flush(struct journal_thread *thread)
{
    thread->flushing = FLUSH_NONE;
    if (journal_flush_end(thread->journal, &thread->flush) == JOURNAL_OK) {
        thread->has_trimmed = true; /* it may have been that */
        thread->news.synced = thread->flush_logged;
        thread->news.synced_steps = thread->flush_logged_steps;
    } else {
        set_state(thread, JOURNAL_IS_FAILED);
    }
    note_place(thread);
    thread->has_news = true;
}

/* Whether something may go, and is there still. */
static bool can_let_go(const struct journal_thread *thread)
{
    bool is_going = thread->is_given_up || thread->flush != NULL;
    return thread->untrimmed != 0 || (wants_sync(thread) && is_going);
}

/* Trims at once what may go.  Where all is synced as it comes, it is gone behind this; what fails
 * is told by the next append. */
static void let_go(struct journal_thread *thread)
{
    if (thread->untrimmed != 0)
        thread_trim(thread, thread->untrimmed);
    if (!wants_sync(thread) || !thread->has_flushes)
        return;
    pthread_mutex_lock(&thread->lock);
    while (thread->flushing == FLUSH_ASKED)
        pthread_cond_wait(&thread->work, &thread->lock);
    if (thread->flushing == FLUSH_DONE)
        end_flush(thread);
    pthread_mutex_unlock(&thread->lock);
    thread->is_given_up = sync_here(thread->journal, true) != JOURNAL_OK;
}

/* Appends the first count records.  If there is no room, first what may go does so; if that makes
 * no room, the records go into the reserve. */
static enum journal_state write_records(struct journal_thread *thread, size_t count, unsigned how)
{
    enum journal_state state = JOURNAL_IS_WELL;
    enum journal_err err = thread_append(thread, count, how);
    if (err == JOURNAL_FULL && can_let_go(thread)) {
        let_go(thread);
        err = thread_append(thread, count, how);
    }
    if (err == JOURNAL_FULL) {
        state = JOURNAL_IS_FULL;
        err = thread_append(thread, count, how | JOURNAL_ESSENTIAL);
    }
    return err == JOURNAL_OK ? state : state_of(thread, err);
}

/* What the last step of a batch asks for, now that it is written. */
static void follow_up(struct journal_thread *thread, const struct journal_step *last)
{
    if ((last->how & JOURNAL_CHECKPOINT_END) != 0) {
        journal_set_aside(thread->journal, last->aside);
        thread->untrimmed = last->needed_from;
    }
    if (last->is_trim)
        thread_trim(thread, last->needed_from);
}

/* Gathers steps into one batch, at least one of them, and those of a checkpoint alone; the last of
 * it. */
static struct journal_step *gather(struct journal_thread *thread, struct journal_step *first,
                                   size_t *out_count)
{
    struct journal_step *last = NULL;
    size_t count = 0;
    uint64_t bytes = 0;
    for (struct journal_step *step = first; step != NULL; step = step->next) {
        bytes += step->bytes;
        if (last != NULL &&
            (count + step->count > JOURNAL_THREAD_RECORDS || bytes > BYTES_AT_ONCE ||
             step->how != 0 || last->how != 0 || last->is_trim))
            break;
        must(step->count <= JOURNAL_THREAD_RECORDS);
        memcpy(thread->records + count, step->records, step->count * sizeof *step->records);
        count += step->count;
        last = step;
    }
    *out_count = count;
    return last;
}

/* Lock.  Steps up to last are logged. */
static void note_logged(struct journal_thread *thread, const struct journal_step *last)
{
    size_t at = 0;
    bool is_last;
    thread->news.logged = last->ticket;
    thread->news.logged_steps = last->steps;
    thread->last_bytes = 0;
    do {
        struct journal_step *step = pop(&thread->waiting);
        is_last = step == last;
        thread->waiting_bytes -= step->bytes;
        thread->last_bytes += step->bytes;
        step->payload_at = thread->positions[at];
        at += step->count;
        if (step->payload != NULL)
            thread_push(&thread->logged, step);
        else
            journal_step_free(&step);
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

/* Lock.  Whether more of a stream is worth waiting for. */
static bool has_more_to_come(const struct journal_thread *thread)
{
    return thread->has_flushes && !thread->is_closing &&
           thread->last_bytes >= JOURNAL_THREAD_STREAM_BYTES &&
           thread->waiting_bytes < JOURNAL_THREAD_STREAM_BYTES;
}

/* Lock; given up meanwhile.  Behind a batch of a stream: waits for more of it. */
static void await_stream(struct journal_thread *thread)
{
    if (!has_more_to_come(thread))
        return;
    tell_loop(thread);
    if (!has_more_to_come(thread))
        return;
    struct timespec until = time_in_us(JOURNAL_THREAD_STREAM_US);
    thread->is_gathering = true;
    (void)pthread_cond_timedwait(&thread->work, &thread->lock, &until); /* or sooner */
    thread->is_gathering = false;
}

/* Lock; given up meanwhile.  Waits, or until it is time to try again, to flush, or to say that the
 * journal is still ours. */
static void wait_for_work(struct journal_thread *thread, bool is_again)
{
    bool is_flush_near = thread->has_flush_by && thread->flushing == FLUSH_NONE;
    struct timespec again =
        time_in(is_again ? JOURNAL_THREAD_AGAIN_MS : JOURNAL_THREAD_KEEP_MS / 2);
    if (is_again || thread->is_kept)
        pthread_cond_timedwait(&thread->work, &thread->lock, &again);
    else if (is_flush_near)
        pthread_cond_timedwait(&thread->work, &thread->lock, &thread->flush_by);
    else
        pthread_cond_wait(&thread->work, &thread->lock);
}

/* Lock; given up meanwhile.  Whether it went well. */
static bool write_waiting(struct journal_thread *thread)
{
    size_t count = 0;
    struct journal_step *last = gather(thread, thread->waiting.first, &count);
    pthread_mutex_unlock(&thread->lock);
    failpoint_reach("append");
    int64_t began_ns = clock_monotonic_ns();
    enum journal_state state = write_records(thread, count, last->how);
    int64_t took_ns = clock_monotonic_ns() - began_ns;
    failpoint_reach("appended");
    if (state == JOURNAL_IS_WELL || state == JOURNAL_IS_FULL)
        follow_up(thread, last);
    pthread_mutex_lock(&thread->lock);
    bool is_logged = state == JOURNAL_IS_WELL || state == JOURNAL_IS_FULL;
    histogram_see(&thread->writes, took_ns);
    note_place(thread);
    bool is_news = is_logged || state != thread->news.state;
    set_state(thread, state);
    if (is_logged)
        note_logged(thread, last);
    if (is_news)
        thread->has_news = true;
    return is_logged;
}

/* What cannot be begun now is begun later. */
static void put_off_flush(struct journal_thread *thread)
{
    thread->flush_by = time_in(JOURNAL_THREAD_AGAIN_MS);
    thread->has_flush_by = true;
}

/* Lock; given up meanwhile. */
static void sync_logged(struct journal_thread *thread)
{
    const struct journal_news before = thread->news;
    pthread_mutex_unlock(&thread->lock);
    int64_t began_ns = clock_monotonic_ns();
    uint64_t synced = journal_synced(thread->journal);
    failpoint_reach("sync");
    enum journal_err err = sync_here(thread->journal, thread->has_flushes);
    failpoint_reach("synced");
    pthread_mutex_lock(&thread->lock);
    note_place(thread);
    if (err == JOURNAL_OK) {
        thread->news.synced = before.logged;
        thread->news.synced_steps = before.logged_steps;
        /* A trim may have synced all: then the disk was asked nothing, and keep() asks it. */
        if (journal_synced(thread->journal) > synced)
            thread->kept_ns = began_ns;
    } else if (err == JOURNAL_MEMORY) {
        put_off_flush(thread);
        return;
    } else {
        set_state(thread, JOURNAL_IS_FAILED);
    }
    thread->has_news = true;
}

/* Lock. */
static bool is_keep_due(const struct journal_thread *thread)
{
    return thread->is_kept &&
           clock_monotonic_ns() - thread->kept_ns >= JOURNAL_THREAD_KEEP_MS * NS_PER_MS;
}

/* Lock; given up meanwhile.  A journal that is another's by now is over. */
static void keep(struct journal_thread *thread)
{
    pthread_mutex_unlock(&thread->lock);
    int64_t began_ns = clock_monotonic_ns();
    failpoint_reach("keep");
    enum journal_err err = journal_keep(thread->journal);
    pthread_mutex_lock(&thread->lock);
    if (err == JOURNAL_OK)
        thread->kept_ns = began_ns;
    else
        set_state(thread, JOURNAL_IS_FAILED);
    thread->has_news = true;
}

/* Lock; given up meanwhile.  The disk was full: whether it is still. */
static void probe(struct journal_thread *thread)
{
    pthread_mutex_unlock(&thread->lock);
    if (thread->untrimmed != 0)
        thread_trim(thread, thread->untrimmed);
    thread->has_trimmed = false;
    thread->records[0] = (struct journal_record){.kind = JOURNAL_THREAD_KIND_PROBE};
    enum journal_err err = thread_append(thread, 1, 0);
    pthread_mutex_lock(&thread->lock);
    note_place(thread);
    if (err == JOURNAL_FULL)
        return;
    set_state(thread, err == JOURNAL_OK ? JOURNAL_IS_WELL : state_of(thread, err));
    thread->has_news = true;
}

/* ---- flushing -------------------------------------------------------------------------------- */

static uint64_t unsynced_bytes(const struct journal_thread *thread)
{
    return journal_unsynced(thread->journal);
}

/* Lock.  Where all is synced as it comes: whether that is left to the other thread.  A few bytes
 * are synced as fast as they are handed over, if nothing waits for that and no bulk is about. */
static bool is_sync_worth_a_thread(struct journal_thread *thread)
{
    int64_t now_ns = clock_monotonic_ns();
    if (unsynced_bytes(thread) >= JOURNAL_THREAD_SYNC_BYTES)
        thread->bulk_until_ns = now_ns + JOURNAL_THREAD_BULK_MS * NS_PER_MS;
    return thread->is_given_up || thread->waiting.first != NULL || now_ns < thread->bulk_until_ns;
}

/* Whether it is time to flush.  On a full disk it is whenever that lets segments go. */
static bool is_flush_due(struct journal_thread *thread)
{
    struct timespec now;
    uint64_t bytes = unsynced_bytes(thread);
    uint64_t flush_bytes = failpoint_number("FLUSH_BYTES", JOURNAL_THREAD_FLUSH_BYTES);
    if (bytes == 0 && !thread->is_given_up)
        return false;
    if (wants_sync(thread) && !thread->has_flush_by)
        return is_sync_worth_a_thread(thread);
    if (!thread->has_flush_by)
        thread->flush_by = time_in(JOURNAL_THREAD_FLUSH_MS);
    thread->has_flush_by = true;
    if (thread->is_given_up && (bytes >= flush_bytes || thread->news.state == JOURNAL_IS_FULL))
        return true;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec > thread->flush_by.tv_sec ||
           (now.tv_sec == thread->flush_by.tv_sec && now.tv_nsec >= thread->flush_by.tv_nsec);
}

/* Lock.  Hands a flush to the other thread; what cannot be begun now is begun later. */
static void begin_flush(struct journal_thread *thread)
{
    enum journal_err err = wants_sync(thread)
                               ? journal_sync_begin(thread->journal, &thread->flush)
                               : journal_flush_begin(thread->journal, &thread->flush);
    thread->is_given_up = thread->is_given_up && err != JOURNAL_OK;
    thread->has_flush_by = false;
    if (wants_sync(thread) && err != JOURNAL_OK)
        put_off_flush(thread);
    if (thread->flush == NULL)
        return;
    thread->flush_logged = thread->news.logged;
    thread->flush_logged_steps = thread->news.logged_steps;
    thread->flushing = FLUSH_ASKED;
    pthread_cond_signal(&thread->flush_work);
}

/* Lock.  Whether appending must wait until a flush has ended. */
static bool care_for_flushes(struct journal_thread *thread)
{
    if (thread->flushing == FLUSH_DONE)
        end_flush(thread);
    if (thread->flushing == FLUSH_NONE && thread->has_flushes &&
        thread->news.state != JOURNAL_IS_FAILED && is_flush_due(thread))
        begin_flush(thread);
    return thread->flushing == FLUSH_ASKED &&
           unsynced_bytes(thread) >= JOURNAL_THREAD_UNSYNCED_BYTES;
}

/* The second thread. */
static void *run_flushes(void *arg)
{
    struct journal_thread *thread = arg;
    pthread_mutex_lock(&thread->lock);
    while (!thread->is_over) {
        if (thread->flushing == FLUSH_ASKED) {
            pthread_mutex_unlock(&thread->lock);
            failpoint_reach(wants_sync(thread) ? "sync" : "flush");
            journal_flush_run(thread->flush);
            failpoint_reach(wants_sync(thread) ? "synced" : "flushed");
            pthread_mutex_lock(&thread->lock);
            thread->flushing = FLUSH_DONE;
            pthread_cond_signal(&thread->work);
        } else {
            pthread_cond_wait(&thread->flush_work, &thread->lock);
        }
    }
    pthread_mutex_unlock(&thread->lock);
    return NULL;
}

/* Lock; given up meanwhile.  The second thread has nothing to do any more. */
static void finish_flushes(struct journal_thread *thread)
{
    while (thread->flushing == FLUSH_ASKED)
        pthread_cond_wait(&thread->work, &thread->lock);
    if (thread->flushing == FLUSH_DONE)
        end_flush(thread);
    thread->is_over = true;
    pthread_cond_signal(&thread->flush_work);
}

/* ---- the thread, all of it ------------------------------------------------------------------- */

/* Lock; given up meanwhile.  Nothing can be done at once. */
static void rest(struct journal_thread *thread, bool is_refused)
{
    bool is_full = thread->news.state == JOURNAL_IS_FULL;
    if (!is_full || !thread->has_trimmed)
        wait_for_work(thread, is_refused || is_full);
    if (!is_refused && thread->news.state == JOURNAL_IS_FULL && thread->waiting.first == NULL)
        probe(thread);
}

static void *thread_run(void *arg)
{
    struct journal_thread *thread = arg;
    bool is_refused = false;
    pthread_mutex_lock(&thread->lock);
    while (thread->news.state != JOURNAL_IS_FAILED) {
        bool must_wait = care_for_flushes(thread);
        bool has_work = thread->waiting.first != NULL && !is_refused && !must_wait;
        bool is_behind = wants_sync(thread) && thread->news.synced < thread->news.logged;
        bool is_in_turns = thread->pace == JOURNAL_PACE_SHARED && !thread->has_flushes;
        bool is_sync_first = is_behind && is_in_turns;
        bool is_syncing = thread->flushing != FLUSH_NONE || thread->has_flush_by;
        bool is_sync_next = is_behind && !is_syncing && (is_sync_first || !has_work);
        /* What is only logged is of no use to anybody yet. */
        bool is_told_later = is_sync_next && thread->pace == JOURNAL_PACE_SHARED;
        if (thread->news.state == JOURNAL_IS_FAILED) {
            break;
        } else if (thread->has_news && !is_told_later) {
            tell_loop(thread);
        } else if (has_work && !is_sync_first) {
            is_refused = !write_waiting(thread);
            if (!is_refused)
                await_stream(thread);
        } else if (is_sync_next) {
            sync_logged(thread);
        } else if (is_keep_due(thread) && !thread->is_closing) {
            keep(thread);
        } else if (thread->is_closing && !must_wait && !is_behind) {
            break;
        } else {
            rest(thread, is_refused);
            is_refused = false;
        }
    }
    finish_flushes(thread);
    tell_loop(thread);
    pthread_mutex_unlock(&thread->lock);
    return NULL;
}

/* ---- opening and closing --------------------------------------------------------------------- */

static bool start_threads(struct journal_thread *thread)
{
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    if (pthread_sigmask(SIG_SETMASK, &all, &before) != 0)
        return false;
    bool is_started = pthread_create(&thread->flusher, NULL, run_flushes, thread) == 0;
    if (is_started && pthread_create(&thread->handle, NULL, thread_run, thread) != 0) {
        pthread_mutex_lock(&thread->lock);
        thread->is_over = true;
        pthread_cond_signal(&thread->flush_work);
        pthread_mutex_unlock(&thread->lock);
        pthread_join(thread->flusher, NULL);
        is_started = false;
    }
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL); /* as it was: cannot fail */
    if (is_started) {
        (void)pthread_setname_np(thread->handle, "journal"); /* for people with a debugger */
        (void)pthread_setname_np(thread->flusher, "flush");
    }
    return is_started;
}

static void journal_thread_free(struct journal_thread *thread)
{
    free_all(&thread->waiting);
    free_all(&thread->logged);
    if (thread->fd >= 0)
        close(thread->fd);
    free(thread->records);
    free(thread->positions);
    pthread_cond_destroy(&thread->work);
    pthread_cond_destroy(&thread->flush_work);
    pthread_mutex_destroy(&thread->lock);
    free(thread);
}

static bool init_locks(struct journal_thread *thread)
{
    pthread_condattr_t attributes;
    if (pthread_mutex_init(&thread->lock, NULL) != 0)
        return false;
    bool is_made = pthread_condattr_init(&attributes) == 0 &&
                   pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC) == 0 &&
                   pthread_cond_init(&thread->work, &attributes) == 0 &&
                   pthread_cond_init(&thread->flush_work, NULL) == 0;
    if (!is_made)
        pthread_mutex_destroy(&thread->lock);
    return is_made;
}

struct journal_thread *journal_thread_open(struct journal **journal, enum journal_pace pace)
{
    struct journal_thread *thread = calloc(1, sizeof *thread);
    if (thread == NULL)
        return NULL;
    if (!init_locks(thread)) {
        free(thread);
        return NULL;
    }
    thread->pace = pace;
    thread->journal = *journal;
    thread->has_flushes = journal_is_lazy(*journal);
    thread->is_given_up = thread->has_flushes; /* the last process may have left some */
    thread->is_kept = journal_needs_keeping(*journal);
    thread->kept_ns = clock_monotonic_ns();
    note_place(thread);
    thread->records = calloc(JOURNAL_THREAD_RECORDS, sizeof *thread->records);
    thread->positions = calloc(JOURNAL_THREAD_RECORDS, sizeof *thread->positions);
    thread->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (thread->records == NULL || thread->positions == NULL || thread->fd < 0 ||
        !start_threads(thread)) {
        journal_thread_free(thread);
        return NULL;
    }
    *journal = NULL;
    return thread;
}

void journal_thread_close(struct journal_thread **thread)
{
    struct journal_thread *old = *thread;
    *thread = NULL;
    if (old == NULL)
        return;
    pthread_mutex_lock(&old->lock);
    old->is_closing = true;
    pthread_cond_signal(&old->work);
    pthread_mutex_unlock(&old->lock);
    struct timespec until = time_in(JOURNAL_THREAD_LEAVE_MS);
    if (pthread_clockjoin_np(old->handle, NULL, CLOCK_MONOTONIC, &until) != 0) {
        journal_give_up(old->journal);
        pthread_join(old->handle, NULL);
    }
    pthread_join(old->flusher, NULL);
    if (old->news.state != JOURNAL_IS_FAILED)
        (void)journal_sync(old->journal, journal_next(old->journal)); /* what it can */
    journal_close(&old->journal);
    journal_thread_free(old);
}

/* ---- the loop's side ------------------------------------------------------------------------- */

/* The thread may run at once, in the place of the loop, and takes the lock: so it is woken without
 * it. */
uint64_t journal_thread_give(struct journal_thread *thread, struct journal_step **step)
{
    struct journal_step *given = *step;
    *step = NULL;
    must(given->count > 0 && given->count <= JOURNAL_THREAD_RECORDS);
    pthread_mutex_lock(&thread->lock);
    uint64_t ticket = ++thread->last_ticket;
    given->ticket = ticket;
    thread->waiting_bytes += given->bytes;
    bool is_enough = thread->is_gathering
                         ? thread->waiting_bytes >= JOURNAL_THREAD_STREAM_BYTES &&
                               thread->waiting_bytes - given->bytes < JOURNAL_THREAD_STREAM_BYTES
                         : thread->waiting.first == NULL;
    thread_push(&thread->waiting, given);
    pthread_mutex_unlock(&thread->lock);
    if (is_enough)
        pthread_cond_signal(&thread->work);
    return ticket;
}

uint64_t journal_thread_waiting_bytes(struct journal_thread *thread)
{
    pthread_mutex_lock(&thread->lock);
    uint64_t bytes = thread->waiting_bytes;
    pthread_mutex_unlock(&thread->lock);
    return bytes;
}

uint64_t journal_thread_room(struct journal_thread *thread)
{
    pthread_mutex_lock(&thread->lock);
    uint64_t room = thread->news.room;
    uint64_t waiting = thread->waiting_bytes;
    pthread_mutex_unlock(&thread->lock);
    return room > waiting ? room - waiting : 0;
}

bool journal_thread_has_room(struct journal_thread *thread)
{
    return journal_thread_waiting_bytes(thread) < JOURNAL_THREAD_WAITING_BYTES;
}

int journal_thread_fd(const struct journal_thread *thread)
{
    return thread->fd;
}

struct journal_news journal_thread_news(struct journal_thread *thread)
{
    uint64_t count;
    (void)!read(thread->fd, &count, sizeof count); /* nothing in it is what is wanted */
    pthread_mutex_lock(&thread->lock);
    struct journal_news news = thread->news;
    pthread_mutex_unlock(&thread->lock);
    return news;
}

void journal_thread_writes(struct journal_thread *thread, struct histogram *out_writes)
{
    pthread_mutex_lock(&thread->lock);
    *out_writes = thread->writes;
    pthread_mutex_unlock(&thread->lock);
}

int64_t journal_thread_kept_ns(struct journal_thread *thread)
{
    pthread_mutex_lock(&thread->lock);
    int64_t kept_ns = thread->is_kept ? thread->kept_ns : INT64_MAX;
    pthread_mutex_unlock(&thread->lock);
    return kept_ns;
}

void journal_thread_away(const struct journal_thread *thread, char *out)
{
    journal_away(thread->journal, out);
}

struct journal_step *journal_thread_logged(struct journal_thread *thread, uint64_t until)
{
    pthread_mutex_lock(&thread->lock);
    bool is_reached = thread->logged.first != NULL && thread->logged.first->ticket <= until;
    struct journal_step *step = is_reached ? pop(&thread->logged) : NULL;
    pthread_mutex_unlock(&thread->lock);
    return step;
}

const char *journal_thread_complaint(struct journal_thread *thread)
{
    pthread_mutex_lock(&thread->lock);
    memcpy(thread->told, thread->complaint, sizeof thread->told);
    pthread_mutex_unlock(&thread->lock);
    return thread->told;
}
