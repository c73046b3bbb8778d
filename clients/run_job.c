/* SPDX-License-Identifier: MPL-2.0 */
/* run_job.c -- the job that the programs take part in: its members, its attempts, its end. */
#include "clients/run.h"

#include <bus/admin.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

static uint32_t number_of(int64_t wish, uint32_t otherwise)
{
    if (wish < 0) {
        return otherwise;
    }
    return wish <= UINT32_MAX ? (uint32_t)wish : UINT32_MAX; /* too many, both */
}

/* Where nothing is said of others, all members are ours, and nobody else is waited for. */
static int create(struct run *run, struct bus_admin *admin)
{
    struct bus_job_options options;
    struct bus_error *error = NULL;
    bool is_ours = run->min < 0 && run->max < 0;
    bus_job_options_init(&options);
    options.min = number_of(run->min, (uint32_t)run->copies);
    options.max = number_of(run->max, is_ours ? (uint32_t)run->copies : options.max);
    options.max_restarts = number_of(run->max_restarts, options.max_restarts);
    if (run->join_window_ms >= 0 || is_ours) {
        options.join_window_ms = run->join_window_ms >= 0 ? run->join_window_ms : 0;
    }
    enum bus_err err =
        bus_admin_job_create(admin, run->job, &options, cli_open_ms(&run->cli), &error);
    return cli_report(&run->cli, err == BUS_ETIMEDOUT ? BUS_ELOST : err, &error);
}

/* The tap is there before the first attempt, so none of its ends is missed. */
static int follow(struct run *run)
{
    struct bus_tap_options options;
    struct bus_error *error = NULL;
    bus_tap_options_init(&options);
    options.job = run->job;
    options.broker_lost_ms = CLI_LOST_MS;
    enum bus_err err =
        bus_tap_open(run->cli.server, &options, cli_open_ms(&run->cli), &run->tap, &error);
    return cli_report(&run->cli, err == BUS_ETIMEDOUT ? BUS_ELOST : err, &error);
}

/* The job as it is now; NULL: there is none yet. */
static int look_at_job(struct run *run, struct bus_job **out_job)
{
    struct bus_admin *admin = NULL;
    bool is_asked =
        run->min >= 0 || run->max >= 0 || run->max_restarts >= 0 || run->join_window_ms >= 0;
    int result = cli_admin_open(&run->cli, &admin);
    if (result == CLI_OK && is_asked) {
        result = create(run, admin);
    }
    if (result == CLI_OK &&
        bus_admin_job_get(admin, run->job, cli_open_ms(&run->cli), out_job, NULL) != BUS_OK) {
        *out_job = NULL; /* there is none yet; or joining says what is wrong */
    }
    bus_admin_close(&admin);
    return result;
}

int run_job_prepare(struct run *run)
{
    struct bus_job *job = NULL;
    int result = look_at_job(run, &job);
    if (result != CLI_OK || job == NULL) {
        return result;
    }
    const struct bus_job_info *info = bus_job_info(job);
    run->is_created = info->state != BUS_STATE_FREE;
    run->restarts_max = info->max_restarts;
    run->attempt = info->attempt;
    bus_job_free(&job);
    if (run->is_created && pipe2(run->place_pipe, O_CLOEXEC) != 0) {
        perror("errbus run: pipe");
        return CLI_FAILED;
    }
    return run->is_created && run->restarts_max > 0 ? follow(run) : CLI_OK;
}

void run_job_finish(struct run *run)
{
    bus_tap_close(&run->tap);
    for (int i = 0; i < 2 && run->is_created; i++) {
        (void)close(run->place_pipe[i]);
    }
}

/* ---- places -----------------------------------------------------------------------------------*/

static void *wait_for_place(void *arg)
{
    struct run_member *member = arg;
    member->place_err = bus_membership_wait(member->bus, 0, BUS_FOREVER, &member->place, NULL);
    /* A pipe has room for a word of each, and of those whose wait was ended before it was read. */
    const struct run_word word = {.index = member->index, .wait = member->wait};
    ssize_t written = write(member->place_fd, &word, sizeof word);
    (void)written;
    return NULL;
}

bool run_job_wait_for_place(struct run *run, struct run_member *member)
{
    member->place_fd = run->place_pipe[1];
    member->wait += 1;
    member->has_waiter = pthread_create(&member->waiter, NULL, wait_for_place, member) == 0;
    return member->has_waiter;
}

void run_job_end_wait(struct run_member *member)
{
    if (member->has_waiter) {
        bus_stop(member->bus);
        (void)pthread_join(member->waiter, NULL); /* ours, and joined once */
        member->has_waiter = false;
    }
}

/* ---- what becomes of it -----------------------------------------------------------------------*/

bool run_job_has_next(struct run *run, int *code)
{
    const struct bus_event *event = NULL;
    enum bus_err err = BUS_OK;
    while (err == BUS_OK || err == BUS_EOVERRUN) {
        err = bus_tap_next(run->tap, cli_left_ms(&run->cli), &event, NULL);
        const char *name = err == BUS_OK ? bus_event_name(event) : "";
        if (strcmp(name, "job.attempt") == 0 && bus_event_count(event) > run->attempt) {
            run->attempt = (unsigned)bus_event_count(event);
            return true;
        }
        if (strcmp(name, "job.completed") == 0) {
            return false;
        }
        if (strcmp(name, "job.failed") == 0 || strcmp(name, "job.cancelled") == 0) {
            const struct bus_error *error = bus_event_error(event);
            *code = error != NULL ? run_job_code(run, error) : *code;
            return false;
        }
    }
    *code = *code == CLI_OK ? cli_exit_of(err) : *code; /* it is not known to have ended well */
    return false;
}

int run_job_code(const struct run *run, const struct bus_error *error)
{
    const struct bus_error *root = bus_error_root(error);
    const char *kind = bus_error_kind(root);
    bool is_ours = false;
    for (unsigned i = 0; i < run->copies; i++) {
        is_ours |= strcmp(bus_error_party(root), run->members[i].party) == 0;
    }
    bool is_loss = strcmp(kind, "party_lost") == 0;
    if (strcmp(kind, "broker_lost") == 0) {
        return CLI_LOST;
    }
    if (strcmp(kind, "terminated") == 0) {
        return CLI_OK; /* the job completed without it */
    }
    if (is_ours) {
        return is_loss ? CLI_DENIED : CLI_FAILED;
    }
    return is_loss ? CLI_PARTY_LOST : CLI_REMOTE;
}
