/* SPDX-License-Identifier: MPL-2.0 */
/* run_job.c -- the job that the programs take part in: its members, its attempts, its end. */
#include "clients/run.h"

#include <bus/admin.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

enum {
    NEWS_FIRST_MS = 3000, /* a shorter wait needs no message */
    NEWS_NEXT_MS = 30000,
    NEWS_ANSWER_MS = 1000,
};

static uint32_t number_of(int64_t wish, uint32_t otherwise)
{
    if (wish < 0) {
        return otherwise;
    }
    return wish <= UINT32_MAX ? (uint32_t)wish : UINT32_MAX; /* too many, both */
}

/* Creates the job.  If the copies here can be enough, the job does not wait for others. */
static int create(struct run *run, struct bus_admin *admin)
{
    struct bus_job_options options;
    struct bus_error *error = NULL;
    bool is_ours = run->min < 0 && run->max < 0;
    bus_job_options_init(&options);
    options.min = number_of(run->min, (uint32_t)run->copies);
    options.max = number_of(run->max, options.min <= run->copies ? (uint32_t)run->copies : 0);
    if (run->join_timeout_ms >= 0) {
        options.join_timeout_ms = run->join_timeout_ms > 0 ? run->join_timeout_ms : BUS_FOREVER;
    }
    options.max_restarts = number_of(run->max_restarts, options.max_restarts);
    options.auditor = run->auditor;
    if (run->join_window_ms >= 0 || is_ours) {
        options.join_window_ms = run->join_window_ms >= 0 ? run->join_window_ms : 0;
    }
    enum bus_err err =
        bus_admin_job_create(admin, run->job, &options, cli_open_ms(&run->cli), &error);
    return cli_report(&run->cli, err == BUS_ETIMEDOUT ? BUS_ELOST : err, &error);
}

/* Opens the tap before the first attempt, so that it misses no end. */
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

/* Reads the job; NULL: there is none yet. */
static int look_at_job(struct run *run, struct bus_job **out_job)
{
    struct bus_admin *admin = NULL;
    bool is_asked = run->min >= 0 || run->max >= 0 || run->max_restarts >= 0 ||
                    run->join_window_ms >= 0 || run->join_timeout_ms >= 0;
    int result = cli_admin_open(&run->cli, &admin);
    run->cli.is_broker_known = result == CLI_OK;
    if (result == CLI_OK && is_asked) {
        result = create(run, admin);
    }
    if (result == CLI_OK &&
        bus_admin_job_get(admin, run->job, cli_open_ms(&run->cli), out_job, NULL) != BUS_OK) {
        *out_job = NULL; /* joining will say what is wrong */
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

/* Writes "alice, bob": the parties that wait for a place.  Returns how many there are. */
static unsigned list_waiting(const struct bus_job *job, char *names, size_t room)
{
    const struct bus_job_info *info = bus_job_info(job);
    unsigned count = 0;
    size_t at = 0;
    for (size_t i = 0; i < info->member_count; i++) {
        const struct bus_job_member *member = bus_job_member_at(job, i);
        if (member->rank >= 0) {
            continue;
        }
        int bytes = snprintf(names + at, room - at, "%s%s", count > 0 ? ", " : "", member->party);
        at += bytes > 0 && at + (size_t)bytes < room ? (size_t)bytes : 0;
        names[at] = '\0'; /* a name without room is left out */
        count += 1;
    }
    return count;
}

/* Says what the members of the job wait for, or whoever waits for its end. */
static void describe(const struct bus_job *job, int64_t since_ms, char news[RUN_NEWS_BYTES_MAX])
{
    char names[RUN_NEWS_BYTES_MAX / 2] = "";
    const struct bus_job_info *info = bus_job_info(job);
    unsigned there = list_waiting(job, names, sizeof names);
    int64_t waited_s = (cli_now_ms() - since_ms) / 1000;
    if (info->state == BUS_STATE_SHORT) {
        (void)snprintf(news, RUN_NEWS_BYTES_MAX,
                       "waiting for %" PRId64 " s: the job needs %u %s, and too few are left; it "
                       "fails unless others join within its join window of %g s",
                       waited_s, info->min, info->min == 1 ? "party" : "parties",
                       (double)info->join_window_ms / 1000);
    } else if (info->state != BUS_STATE_GATHERING && there == 0) {
        (void)snprintf(news, RUN_NEWS_BYTES_MAX,
                       "waiting for %" PRId64 " s for the end of the job: it is %s", waited_s,
                       bus_state_name(info->state));
    } else if (info->state != BUS_STATE_GATHERING) {
        (void)snprintf(news, RUN_NEWS_BYTES_MAX,
                       "waiting for %" PRId64 " s: the job is %s with %u parties, and %u wait for "
                       "a place: %s",
                       waited_s, bus_state_name(info->state), info->world_size, there, names);
    } else if (there >= info->min) {
        (void)snprintf(news, RUN_NEWS_BYTES_MAX,
                       "waiting for %" PRId64 " s: %u %s there, and the job waits for more until "
                       "its join window of %g s is over: %s",
                       waited_s, there, there == 1 ? "party is" : "parties are",
                       (double)info->join_window_ms / 1000, names);
    } else {
        (void)snprintf(news, RUN_NEWS_BYTES_MAX,
                       "waiting for %" PRId64 " s: %u of %u parties are there: %s", waited_s, there,
                       info->min, names);
    }
}

/* Asks the broker what the job waits for.  False: it does not answer; the wait has its own
 * bound. */
static bool ask_for_news(const struct run *run, int64_t since_ms, char news[RUN_NEWS_BYTES_MAX])
{
    struct bus_admin_options options;
    struct bus_admin *admin = NULL;
    struct bus_job *job = NULL;
    bus_admin_options_init(&options);
    options.job = run->cli.job;
    bool is_known =
        bus_admin_open(run->cli.server, &options, NEWS_ANSWER_MS, &admin, NULL) == BUS_OK &&
        bus_admin_job_get(admin, run->job, NEWS_ANSWER_MS, &job, NULL) == BUS_OK;
    if (is_known) {
        describe(job, since_ms, news);
    }
    bus_job_free(&job);
    bus_admin_close(&admin);
    return is_known;
}

/* The pipe has room for a word of each member, also of members whose wait was ended before the word
 * was read. */
static void say_word(const struct run_member *member, bool is_waiting)
{
    const struct run_word word = {
        .index = member->index, .wait = member->wait, .is_waiting = is_waiting};
    ssize_t written = write(member->place_fd, &word, sizeof word);
    (void)written;
}

/* Waits for the member's place.  One of the waiting threads also says what they wait for: after
 * some seconds, and then from time to time. */
static void *wait_for_place(void *arg)
{
    struct run_member *member = arg;
    int64_t since_ms = cli_now_ms();
    int64_t timeout_ms = NEWS_FIRST_MS;
    bool is_noting = false;
    for (;;) {
        member->place_err = bus_membership_wait(member->bus, 0, timeout_ms, &member->place, NULL);
        if (member->place_err != BUS_ETIMEDOUT) {
            break;
        }
        is_noting = is_noting || !atomic_exchange(&member->run->is_noting, true);
        if (is_noting && ask_for_news(member->run, since_ms, member->news)) {
            say_word(member, true);
        }
        timeout_ms = NEWS_NEXT_MS;
    }
    if (is_noting) {
        atomic_store(&member->run->is_noting, false);
    }
    say_word(member, false);
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
        (void)pthread_join(member->waiter, NULL); /* it cannot fail */
        member->has_waiter = false;
    }
}

/* ---- what becomes of it -----------------------------------------------------------------------*/

/* Says what becomes of the job, once it takes long. */
static void note_job(struct run *run, int64_t since_ms)
{
    char news[RUN_NEWS_BYTES_MAX];
    if (ask_for_news(run, since_ms, news)) {
        run_note(run, "%s", news);
        run_screen_finish(run);
    }
}

/* Waits for the next event; the time that may pass before the next note is in *timeout_ms. */
static enum bus_err next_event(struct run *run, int64_t since_ms, int64_t *timeout_ms,
                               const struct bus_event **out_event)
{
    for (;;) {
        int64_t left_ms = cli_left_ms(&run->cli);
        bool is_last = left_ms >= 0 && left_ms <= *timeout_ms;
        enum bus_err err = bus_tap_next(run->tap, is_last ? left_ms : *timeout_ms, out_event, NULL);
        if (err != BUS_ETIMEDOUT || is_last) {
            return err;
        }
        note_job(run, since_ms);
        *timeout_ms = NEWS_NEXT_MS;
    }
}

bool run_job_has_next(struct run *run, int *code)
{
    const struct bus_event *event = NULL;
    enum bus_err err = BUS_OK;
    int64_t since_ms = cli_now_ms();
    int64_t timeout_ms = NEWS_FIRST_MS;
    while (err == BUS_OK || err == BUS_EOVERRUN) {
        err = next_event(run, since_ms, &timeout_ms, &event);
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
    *code = *code == CLI_OK ? cli_exit_of(err) : *code; /* nobody knows whether it ended well */
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
