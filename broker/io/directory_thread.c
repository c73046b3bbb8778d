/* SPDX-License-Identifier: MPL-2.0 */
/* directory_thread.c -- see directory_thread.h. */
#include "broker/io/directory_thread.h"

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

/* Where this broker is, is said again after a second when that was refused, then after twice the
 * time, and so on up to half a minute.  What is refused is told again after a minute. */
enum { BEGIN_S_MIN = 1, BEGIN_S_MAX = 30, REFUSAL_EVERY_S = 60 };

/* A question, and then its answer. */
struct errand {
    struct errand *next;
    struct directory_answer answer;
};
struct errands {
    struct errand *first, *last;
};

struct directory_thread {
    struct directory *directory;
    char *control;
    char *jobs;
    pthread_t handle;
    int fd;
    /* the thread's */
    bool is_away;   /* it was told that the server does not answer */
    bool is_begun;  /* the directory knows where this broker is */
    bool is_over;   /* another broker has the shard, or nobody asks any more */
    time_t begin_s; /* until that is said again */
    time_t told_s;  /* when a refusal was told last, as `refusal` */
    char refusal[DISK_COMPLAINT_BYTES];
    pthread_mutex_t lock;
    pthread_cond_t work;
    /* with the lock */
    bool is_closing;
    struct errands asked;
    struct errands answered;
};

static void put_errand(struct errands *errands, struct errand *errand)
{
    errand->next = NULL;
    if (errands->last != NULL)
        errands->last->next = errand;
    else
        errands->first = errand;
    errands->last = errand;
}

static struct errand *take_errand(struct errands *errands)
{
    struct errand *errand = errands->first;
    if (errand == NULL)
        return NULL;
    errands->first = errand->next;
    if (errands->first == NULL)
        errands->last = NULL;
    return errand;
}

static void free_errand(struct errand *errand)
{
    free(errand->answer.places);
    free(errand->answer.names);
    free(errand);
}

static void free_errands(struct errands *errands)
{
    struct errand *errand;
    while ((errand = take_errand(errands)) != NULL)
        free_errand(errand);
}

/* ---- the thread ------------------------------------------------------------------------------ */

static void hand_out(struct directory_thread *thread, struct errand *errand)
{
    static const uint64_t one = 1;
    pthread_mutex_lock(&thread->lock);
    put_errand(&thread->answered, errand);
    pthread_mutex_unlock(&thread->lock);
    (void)!write(thread->fd, &one, sizeof one); /* a full counter is readable, too */
}

/* For the log.  Without memory nobody is told. */
static void say(struct directory_thread *thread, const char *why, const char *more)
{
    struct errand *errand = calloc(1, sizeof *errand);
    if (errand == NULL)
        return;
    errand->answer.kind = DIRECTORY_TEXT;
    snprintf(errand->answer.why, sizeof errand->answer.why, "%.900s%s", why, more);
    hand_out(thread, errand);
}

/* Whether it is to be asked again, after a while. */
static bool is_again(struct directory_thread *thread, int result)
{
    if (result != -EAGAIN) {
        thread->is_away = thread->is_away && result < 0;
        return false;
    }
    if (!thread->is_away)
        say(thread, directory_why(thread->directory), ": it is asked again until it answers");
    thread->is_away = true;
    directory_rest(thread->directory);
    return true;
}

static time_t seconds_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec;
}

/* The same refusal is told once a minute. */
static void see_refusal(struct directory_thread *thread)
{
    const char *why = directory_why(thread->directory);
    bool is_same = strncmp(why, thread->refusal, sizeof thread->refusal - 1) == 0;
    if (is_same && seconds_now() - thread->told_s < REFUSAL_EVERY_S)
        return;
    thread->told_s = seconds_now();
    snprintf(thread->refusal, sizeof thread->refusal, "%s", why);
    say(thread, why, ": until then nobody is let in to a job that this broker does not have");
}

static int run_once(struct directory_thread *thread, struct directory_answer *answer)
{
    switch (answer->kind) {
    case DIRECTORY_ASSIGN:
        answer->count = 1;
        return directory_assign(thread->directory, answer->job, answer->places);
    case DIRECTORY_LOOK:
        answer->count = 1;
        return directory_look(thread->directory, answer->job, answer->places);
    case DIRECTORY_LEAVE: return directory_leave(thread->directory, answer->job);
    case DIRECTORY_LIST:
        return directory_list(thread->directory, answer->places, DIRECTORY_PLACES_MAX,
                              &answer->count);
    case DIRECTORY_TEXT:
    case DIRECTORY_BEGUN: break; /* nobody asks that */
    }
    must(!"a question that the directory answers");
    return -EINVAL;
}

/* Which jobs are this shard's, and for the log, which ones are not.  Without memory nobody is told;
 * then each newcomer of a job is asked about. */
static void tell_begun(struct directory_thread *thread, struct directory_begun *begun)
{
    struct errand *errand = calloc(1, sizeof *errand);
    char more[DIRECTORY_NAMES_BYTES + 80];
    if (begun->others > 0) {
        snprintf(more, sizeof more, "%u of the jobs of this journal (%s)", begun->others,
                 begun->names);
        say(thread, more,
            " are assigned to other shards: new clients are sent there, and those that are here "
            "stay");
    }
    if (errand == NULL) {
        free(begun->ours);
        return;
    }
    errand->answer.kind = DIRECTORY_BEGUN;
    errand->answer.names = begun->ours;
    hand_out(thread, errand);
}

/* Says where this broker is.  The journal's own thread learns, too, that another broker has the
 * shard, and ends this process. */
static int begin(struct directory_thread *thread)
{
    struct directory_begun begun = {.ours = NULL};
    int result;
    do
        result = directory_begin(thread->directory, thread->control, thread->jobs, &begun);
    while (is_again(thread, result));
    thread->is_begun = result == 0;
    thread->is_over = result < 0 && result != -EACCES;
    if (result == -DISK_FENCED)
        say(thread, "another broker has the shard: the directory is asked nothing more", "");
    if (result == -EACCES) {
        see_refusal(thread);
        thread->begin_s = thread->begin_s == 0                ? BEGIN_S_MIN
                          : 2 * thread->begin_s < BEGIN_S_MAX ? 2 * thread->begin_s
                                                              : BEGIN_S_MAX;
    } else if (thread->begin_s > 0 && result == 0) {
        say(thread, "the server lets this broker in to the directory again", "");
    }
    if (result == 0)
        tell_begun(thread, &begun);
    return result;
}

/* Answers the question, or frees it: nobody waits for it. */
static void run_errand(struct directory_thread *thread, struct errand *errand)
{
    struct directory_answer *answer = &errand->answer;
    int result = thread->is_begun ? 0 : begin(thread);
    if (result == 0)
        do
            result = run_once(thread, answer);
        while (is_again(thread, result));
    if (result == -EACCES) {
        see_refusal(thread);
        answer->is_refused = true;
        answer->count = 0;
        snprintf(answer->why, sizeof answer->why, "%s", directory_why(thread->directory));
    }
    if ((result == 0 || result == -EACCES) && answer->kind != DIRECTORY_LEAVE) {
        hand_out(thread, errand);
    } else {
        free_errand(errand);
    }
}

/* Waits for a question, or until where this broker is has to be said again.  false: neither is
 * wanted any more.  *out NULL: no question. */
static bool next_asked(struct directory_thread *thread, struct errand **out)
{
    struct timespec until;
    int waited = 0;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += thread->begin_s;
    pthread_mutex_lock(&thread->lock);
    while (!thread->is_closing && thread->asked.first == NULL && waited == 0)
        waited = thread->is_begun ? pthread_cond_wait(&thread->work, &thread->lock)
                                  : pthread_cond_clockwait(&thread->work, &thread->lock,
                                                           CLOCK_MONOTONIC, &until);
    bool is_closing = thread->is_closing;
    *out = is_closing ? NULL : take_errand(&thread->asked);
    pthread_mutex_unlock(&thread->lock);
    return !is_closing;
}

static void *directory_run(void *arg)
{
    struct directory_thread *thread = arg;
    struct errand *errand;
    (void)begin(thread); /* again with the first question */
    while (!thread->is_over && next_asked(thread, &errand)) {
        if (errand != NULL)
            run_errand(thread, errand);
        else
            (void)begin(thread); /* and again */
    }
    return NULL;
}

/* ---- opening and closing --------------------------------------------------------------------- */

/* Signals are for the loop. */
static bool start_directory(struct directory_thread *thread)
{
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    if (pthread_sigmask(SIG_SETMASK, &all, &before) != 0)
        return false;
    bool is_started = pthread_create(&thread->handle, NULL, directory_run, thread) == 0;
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL); /* as it was: cannot fail */
    if (is_started)
        (void)pthread_setname_np(thread->handle, "directory"); /* for people with a debugger */
    return is_started;
}

static void directory_thread_free(struct directory_thread *thread)
{
    free_errands(&thread->asked);
    free_errands(&thread->answered);
    directory_close(&thread->directory);
    if (thread->fd >= 0)
        close(thread->fd);
    free(thread->control);
    free(thread->jobs);
    pthread_cond_destroy(&thread->work);
    pthread_mutex_destroy(&thread->lock);
    free(thread);
}

struct directory_thread *directory_thread_open(struct directory **directory, const char *control,
                                               const char *jobs)
{
    struct directory_thread *thread = calloc(1, sizeof *thread);
    if (thread == NULL || pthread_mutex_init(&thread->lock, NULL) != 0) {
        free(thread);
        directory_close(directory);
        return NULL;
    }
    must(pthread_cond_init(&thread->work, NULL) == 0); /* with glibc it cannot fail */
    thread->directory = *directory;
    *directory = NULL;
    thread->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    thread->control = strdup(control);
    thread->jobs = strdup(jobs);
    if (thread->fd < 0 || thread->control == NULL || thread->jobs == NULL ||
        !start_directory(thread)) {
        directory_thread_free(thread);
        return NULL;
    }
    return thread;
}

void directory_thread_close(struct directory_thread **thread)
{
    struct directory_thread *old = *thread;
    *thread = NULL;
    if (old == NULL)
        return;
    pthread_mutex_lock(&old->lock);
    old->is_closing = true;
    pthread_cond_signal(&old->work);
    pthread_mutex_unlock(&old->lock);
    directory_give_up(old->directory);
    pthread_join(old->handle, NULL);
    directory_thread_free(old);
}

/* ---- the loop's side ------------------------------------------------------------------------- */

bool directory_thread_ask(struct directory_thread *thread, enum directory_kind kind,
                          struct span job)
{
    struct errand *errand = calloc(1, sizeof *errand);
    size_t count = kind == DIRECTORY_LIST ? DIRECTORY_PLACES_MAX : 1;
    must(job.bytes <= LIMIT_NAME_BYTES);
    if (errand == NULL)
        return false;
    errand->answer.kind = kind;
    errand->answer.places = calloc(count, sizeof *errand->answer.places);
    if (errand->answer.places == NULL) {
        free(errand);
        return false;
    }
    if (job.bytes > 0)
        memcpy(errand->answer.job, job.data, job.bytes);
    pthread_mutex_lock(&thread->lock);
    put_errand(&thread->asked, errand);
    pthread_cond_signal(&thread->work);
    pthread_mutex_unlock(&thread->lock);
    return true;
}

bool directory_thread_next(struct directory_thread *thread, struct directory_answer *out)
{
    uint64_t count;
    (void)!read(thread->fd, &count, sizeof count); /* nothing in it is what is wanted */
    pthread_mutex_lock(&thread->lock);
    struct errand *errand = take_errand(&thread->answered);
    pthread_mutex_unlock(&thread->lock);
    if (errand == NULL)
        return false;
    *out = errand->answer;
    free(errand);
    return true;
}

int directory_thread_fd(const struct directory_thread *thread)
{
    return thread->fd;
}
