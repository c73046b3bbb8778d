/* SPDX-License-Identifier: MPL-2.0 */
/* run_together.c -- lets all copies join and leave, several at a time.
 *
 * To join takes ten turns of threads, here and in the broker.  On a machine with forty other
 * processes that want to run, each of these turns waits.  A hundred copies that joined one after
 * the other would be a minute late: nobody is busy meanwhile, and the first program has not
 * started. */
#include "clients/run.h"

#include <string.h>

/* At a time.  Each is asleep nearly always. */
#define THREADS_MAX 16
/* A copy that joined a run that another copy ended joins again.  The next run has no reason to be
 * ended, so once is enough; a broker of another mind is not asked for ever. */
#define JOINS_MAX 3

struct work {
    struct run *run;
    bool (*act)(struct run_member *member); /* false: what is not begun is not wanted any more */
    atomic_uint next;
    atomic_bool is_ended;
};

static void *do_some(void *arg)
{
    struct work *work = arg;
    unsigned index;
    while (!atomic_load(&work->is_ended) &&
           (index = atomic_fetch_add(&work->next, 1)) < work->run->copies) {
        if (!work->act(&work->run->members[index])) {
            atomic_store(&work->is_ended, true);
        }
    }
    return NULL;
}

/* Does it for each copy.  This thread takes part, so threads that cannot be had make it slower, and
 * nothing else. */
static void do_together(struct run *run, unsigned threads_max,
                        bool (*act)(struct run_member *member))
{
    pthread_t threads[THREADS_MAX - 1];
    unsigned count = 0;
    struct work work = {.run = run, .act = act};
    while (count + 1 < threads_max && count + 1 < run->copies &&
           pthread_create(&threads[count], NULL, do_some, &work) == 0) {
        count++;
    }
    (void)do_some(&work);
    while (count > 0) {
        (void)pthread_join(threads[--count], NULL); /* it cannot fail */
    }
}

/* ---- joining ----------------------------------------------------------------------------------*/

static bool join(struct run_member *member)
{
    if (member->bus != NULL) {
        return true;
    }
    member->open_err = run_party_open(member, &member->open_error);
    return member->open_err == BUS_OK;
}

static uint32_t number_of_run(const struct run_member *member)
{
    struct bus_run run = {.number = 0};
    (void)bus_run_get(member->bus, &run); /* there is a bus */
    return run.number;
}

/* A copy that was killed in the last run continues it.  A copy that ended well begins the next one,
 * and so ends what the other has just joined.  Its program has not started: it joins again. */
static bool leave_last_run(struct run *run)
{
    bool has_left = false;
    uint32_t newest = 0;
    for (unsigned i = 0; i < run->copies; i++) {
        uint32_t number = number_of_run(&run->members[i]);
        newest = number > newest ? number : newest;
    }
    for (unsigned i = 0; i < run->copies && !run->is_created; i++) {
        if (number_of_run(&run->members[i]) < newest) {
            (void)bus_close(&run->members[i].bus, BUS_POLL); /* it is fenced */
            has_left = true;
        }
    }
    return has_left;
}

/* The exit code of the first copy that could not join, and a word about it. */
static int judge_joined(struct run *run)
{
    int result = CLI_OK;
    for (unsigned i = 0; i < run->copies; i++) {
        struct run_member *member = &run->members[i];
        if (member->open_err != BUS_OK && result == CLI_OK) {
            result = run_party_not_open(run, member);
        }
        bus_error_unref(&member->open_error);
        member->open_err = BUS_OK;
    }
    return result;
}

/* A created job gives ranks in the order in which its members join, so its copies join in the order
 * of their numbers. */
int run_join_together(struct run *run)
{
    int result;
    unsigned joins = 0;
    do {
        do_together(run, run->is_created ? 1 : THREADS_MAX, join);
        result = judge_joined(run);
    } while (result == CLI_OK && ++joins < JOINS_MAX && leave_last_run(run));
    return result;
}

/* ---- leaving ----------------------------------------------------------------------------------*/

static bool leave(struct run_member *member)
{
    int64_t left_ms = member->run->leave_until_ms - cli_now_ms();
    if (member->bus != NULL) {
        run_job_end_wait(member);
        member->close_err = bus_close(&member->bus, left_ms > 0 ? left_ms : 0);
    }
    return true;
}

int run_leave_together(struct run *run, int code)
{
    run->leave_until_ms = cli_now_ms() + CLI_CLOSE_MS;
    do_together(run, THREADS_MAX, leave);
    for (unsigned i = 0; i < run->copies; i++) {
        code = run_party_closed(run, &run->members[i], code);
    }
    return code;
}
