/* SPDX-License-Identifier: MPL-2.0 */
/* worker.c -- errbus worker: runs a command for each task of a group; its output is the reply.
 *
 * The worker's credit is the number of commands that it runs at a time, so each task that is leased
 * to it runs at once.  When the worker is to end, it is drained: it gets no more tasks, returns
 * those that were on their way, and finishes those that run.
 *
 * The task's value is the command's standard input.  The command's standard error is passed on, and
 * its end stands in the error if the command fails.  A cancelled request, the time limit, or a
 * second signal to the worker ends the command. */
#include "clients/errbus.h"

#include "clients/cli.h"
#include "clients/run_error.h"
#include "clients/worker_child.h"

#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#define LOOK_MS 100   /* between two looks at whether tasks are still wanted */
#define TRY_AGAIN 75  /* EX_TEMPFAIL of sysexits.h: try elsewhere or later */
#define RETRY_MS 1000 /* without --retry */
#define JOBS_MAX 256
#define DELIVER_MAX 16
#define GROUP_BYTES_MAX 180
#define TYPE_TIME_LIMIT "run.time_limit"

enum why {
    WHY_NONE,
    WHY_OVER,    /* nobody waits for it any more */
    WHY_LIMIT,   /* it ran for too long */
    WHY_STOPPED, /* we are to end at once */
};

/* A place, in which one command runs at a time. */
struct place {
    struct bus_msg *msg; /* the command's task; NULL: none runs */
    struct worker_child child;
    int64_t started_ms;
    enum why why; /* the command was asked to end */
};

struct worker {
    struct cli cli;
    const char *group;
    const char *pattern;
    char **command;
    int64_t jobs;
    int64_t limit_ms; /* BUS_FOREVER: none */
    int64_t retry_ms;
    int64_t lease_ms;
    int64_t deliver_max;
    struct bus_sub *sub;
    bool is_deaf;         /* its descriptor tells nothing more */
    struct place *places; /* jobs of them */
    struct pollfd *polled;
    int64_t taken;   /* tasks, without those that were not done */
    bool is_ending;  /* the worker takes no more tasks ... */
    bool is_told;    /* said after a signal what it waits for */
    bool is_drained; /* ... and the broker gives it none */
    int result;
};

/* Takes no more tasks.  result: why; CLI_OK: as it was asked to. */
static void end_with(struct worker *worker, int result)
{
    worker->is_ending = true;
    if (worker->result == CLI_OK) {
        worker->result = result;
    }
}

/* ---- what becomes of a task ------------------------------------------------------------------ */

static struct bus_error *limit_error(const struct worker *worker, const struct bus_error *cause)
{
    struct bus_error *error =
        bus_error_new(TYPE_TIME_LIMIT, cause, "%s was ended: it ran for longer than %g s",
                      worker->command[0], (double)worker->limit_ms / 1000);
    return error;
}

/* The error of a command that ended; NULL: it did its task. */
static struct bus_error *error_of(const struct worker *worker, const struct place *place)
{
    struct run_end end = worker_child_how(&place->child, worker->command[0]);
    struct bus_error *error = run_error_is_good(&end) ? NULL : run_error_of_end(&end);
    if (place->why == WHY_LIMIT) {
        struct bus_error *cause = error;
        error = limit_error(worker, cause);
        bus_error_unref(&cause);
    } else if (error == NULL && place->child.is_too_long) {
        error = bus_error_new("run.too_big", NULL, "the reply of %s is longer than %zu bytes",
                              worker->command[0], WORKER_REPLY_BYTES_MAX);
    }
    return error;
}

static enum bus_err settle(const struct worker *worker, struct place *place)
{
    enum bus_err err = BUS_OK;
    struct bus_msg **msg = &place->msg;
    const struct worker_child *child = &place->child;
    struct bus_error *error = error_of(worker, place);
    bool is_exit = WIFEXITED(child->wait_status);
    if (error == NULL && bus_msg_is_request(*msg)) {
        err = bus_msg_reply(msg, child->reply, child->reply_bytes);
        bus_msg_return(msg); /* the broker gives it to somebody else */
    } else if (error == NULL) {
        bus_msg_free(msg);
    } else if (place->why == WHY_LIMIT) {
        bus_msg_fail(msg, error);
    } else if (is_exit && WEXITSTATUS(child->wait_status) == TRY_AGAIN) {
        bus_msg_reject(msg, error, worker->retry_ms);
    } else if (!is_exit) {
        bus_msg_reject(msg, error, 0); /* it was killed: another worker may do it */
    } else {
        bus_msg_fail(msg, error);
    }
    bus_error_unref(&error);
    return err == BUS_ESETTLED ? BUS_OK : err; /* nobody waits for it any more */
}

/* The command could not be started. */
static void give_up(struct worker *worker, struct place *place, int reason)
{
    bus_msg_return(&place->msg);
    worker->taken -= 1;
    fprintf(stderr, "%s: cannot start %s: %s\n", worker->cli.program, worker->command[0],
            strerror(reason));
    end_with(worker, CLI_FAILED);
}

/* The command has ended. */
static void finish(struct worker *worker, struct place *place)
{
    if (place->child.start_errno != 0) {
        give_up(worker, place, place->child.start_errno);
    } else if (place->why == WHY_OVER || place->why == WHY_STOPPED) {
        bus_msg_return(&place->msg); /* the lease is over: no effect */
        worker->taken -= 1;
    } else {
        enum bus_err err = settle(worker, place);
        if (err != BUS_OK) {
            end_with(worker, cli_report(&worker->cli, err, NULL));
        }
    }
    worker_child_fini(&place->child);
}

/* ---- a command ------------------------------------------------------------------------------- */

static void begin(struct worker *worker, struct place *place)
{
    struct run_environment environment = {.count = 0};
    size_t bytes = 0;
    const char *value = bus_msg_value(place->msg, &bytes);
    run_environment_set(&environment, "ERRBUS_TASK_GROUP", "%s", worker->group);
    run_environment_set(&environment, "ERRBUS_TASK_TOPIC", "%s", bus_msg_topic(place->msg));
    run_environment_set(&environment, "ERRBUS_TASK_SEQ", "%" PRIu64, bus_msg_seq(place->msg));
    run_environment_set(&environment, "ERRBUS_TASK_DELIVERY", "%u", bus_msg_delivery(place->msg));
    run_environment_set(&environment, "ERRBUS_TASK_REQUEST", "%d", bus_msg_is_request(place->msg));
    run_environment_set(&environment, "ERRBUS_PARTY", "%s", ""); /* the command is not this party */
    run_environment_set(&environment, "ERRBUS_TOKEN", "%s", "");
    if (worker->cli.server != NULL) {
        run_environment_set(&environment, "ERRBUS_SERVER", "%s", worker->cli.server);
    }
    if (worker->cli.job != NULL) {
        run_environment_set(&environment, "ERRBUS_JOB", "%s", worker->cli.job);
    }
    place->why = WHY_NONE;
    place->started_ms = cli_now_ms();
    worker->taken += 1;
    int reason = worker_child_start(&place->child, worker->command, &environment, value, bytes);
    if (reason != 0) {
        give_up(worker, place, reason);
    }
}

/* Why the command must end now, if it must. */
static enum why look(const struct worker *worker, const struct place *place)
{
    if (cli_signal_count() > 1) {
        return WHY_STOPPED;
    }
    if (bus_msg_is_over(place->msg, NULL)) {
        return WHY_OVER;
    }
    bool is_limited = worker->limit_ms != BUS_FOREVER;
    return is_limited && cli_now_ms() - place->started_ms >= worker->limit_ms ? WHY_LIMIT
                                                                              : WHY_NONE;
}

static void tend(struct worker *worker, struct place *place)
{
    if (worker_child_tend(&place->child)) {
        finish(worker, place);
        return;
    }
    if (place->why == WHY_NONE) {
        place->why = look(worker, place);
    }
    if (place->why != WHY_NONE) {
        worker_child_end(&place->child);
    }
}

/* ---- all of them ----------------------------------------------------------------------------- */

/* The next task, or NULL: there is none now. */
static struct bus_msg *receive(struct worker *worker)
{
    struct bus_msg *msg = NULL;
    enum bus_err err = BUS_EFAILED;
    while (err == BUS_EFAILED && !worker->is_deaf) {
        struct bus_error *error = NULL;
        err = bus_sub_recv(worker->sub, BUS_POLL, &msg, &error);
        if (err == BUS_EFAILED) { /* an error in place of a task: nothing to do */
            cli_print_error(stderr, worker->cli.program, error);
        } else if (err != BUS_OK && err != BUS_ETIMEDOUT) {
            worker->is_deaf = true;
            end_with(worker, cli_report(&worker->cli, err, &error));
        }
        bus_error_unref(&error);
    }
    return msg;
}

static int64_t busy_count(const struct worker *worker)
{
    int64_t busy = 0;
    for (int64_t i = 0; i < worker->jobs; i++) {
        busy += worker->places[i].msg != NULL;
    }
    return busy;
}

static void end_by_signal(struct worker *worker)
{
    int64_t busy = busy_count(worker);
    end_with(worker, CLI_OK);
    if (busy > 0 && !worker->is_told) {
        fprintf(stderr, "%s: %" PRId64 " %s finished first; another signal gives back what runs\n",
                worker->cli.program, busy, busy == 1 ? "task is" : "tasks are");
    }
    worker->is_told = true;
}

static void look_whether_to_end(struct worker *worker)
{
    if (cli_is_stopped()) {
        end_by_signal(worker);
    } else if (worker->cli.count >= 0 && worker->taken >= worker->cli.count) {
        end_with(worker, CLI_OK);
    } else if (!worker->is_ending && cli_left_ms(&worker->cli) == 0) {
        end_with(worker, cli_report(&worker->cli, BUS_ETIMEDOUT, NULL));
    }
    if (worker->is_ending && !worker->is_drained) {
        worker->is_drained = bus_sub_drain(worker->sub) != BUS_ENOMEM; /* or it is over */
    }
}

/* Starts the tasks that come, if a place is free.  When the worker ends, returns them. */
static void take_all(struct worker *worker)
{
    for (int64_t i = 0; i < worker->jobs; i++) {
        struct place *place = &worker->places[i];
        look_whether_to_end(worker);
        if (place->msg == NULL && !worker->is_ending) {
            place->msg = receive(worker);
            if (place->msg != NULL) {
                begin(worker, place);
            }
        }
    }
    struct bus_msg *msg = worker->is_ending ? receive(worker) : NULL;
    while (msg != NULL) {
        bus_msg_return(&msg);
        msg = receive(worker);
    }
}

/* Waits until there may be something to do. */
static void wait_for_news(const struct worker *worker, int64_t busy)
{
    size_t count = 0;
    struct pollfd *polled = worker->polled;
    int64_t left_ms = worker->is_ending ? BUS_FOREVER : cli_left_ms(&worker->cli);
    if (busy > 0 && (left_ms < 0 || left_ms > LOOK_MS)) {
        left_ms = LOOK_MS;
    }
    if (!worker->is_ending) {
        polled[count++] = (struct pollfd){.fd = cli_stop_fd(), .events = POLLIN};
    }
    if (!worker->is_deaf && (worker->is_ending || busy < worker->jobs)) {
        polled[count++] = (struct pollfd){.fd = bus_sub_fd(worker->sub), .events = POLLIN};
    }
    for (int64_t i = 0; i < worker->jobs; i++) {
        if (worker->places[i].msg != NULL) {
            count += worker_child_poll(&worker->places[i].child, polled + count);
        }
    }
    (void)poll(polled, count, left_ms > INT32_MAX ? INT32_MAX : (int)left_ms);
}

static int work(struct worker *worker)
{
    int64_t busy = 0;
    take_all(worker);
    while ((busy = busy_count(worker)) > 0 || !worker->is_ending) {
        wait_for_news(worker, busy);
        for (int64_t i = 0; i < worker->jobs; i++) {
            if (worker->places[i].msg != NULL) {
                tend(worker, &worker->places[i]);
            }
        }
        take_all(worker);
    }
    return worker->result;
}

/* ---- joining --------------------------------------------------------------------------------- */

static int run(struct worker *worker)
{
    size_t jobs = (size_t)worker->jobs;
    worker->places = calloc(jobs, sizeof *worker->places);
    worker->polled = calloc(2 + jobs * WORKER_CHILD_FDS, sizeof *worker->polled);
    if (worker->places == NULL || worker->polled == NULL) {
        free(worker->places);
        free(worker->polled);
        return cli_report(&worker->cli, BUS_ENOMEM, NULL);
    }
    struct bus_sub_options options;
    bus_sub_options_init(&options);
    options.group = worker->group;
    options.lease_ms = worker->lease_ms;
    options.deliver_max = worker->deliver_max > 0 ? (int)worker->deliver_max : 0; /* the default */
    bool is_short = worker->cli.count > 0 && worker->cli.count < worker->jobs;
    options.credit = (int)(is_short ? worker->cli.count : worker->jobs);
    worker->cli.run_rule = BUS_RUN_CONTINUE;
    int result = cli_open(&worker->cli, NULL);
    if (result != CLI_OK) {
        goto done;
    }
    cli_take_time();
    for (size_t i = 0; i < jobs; i++) {
        worker_child_init(&worker->places[i].child);
    }
    cli_notices_begin(&worker->cli);
    enum bus_err err = bus_sub_open(worker->cli.bus, worker->pattern, &options, &worker->sub);
    if (err == BUS_OK) {
        result = work(worker);
    } else if (err == BUS_EINVAL) {
        result =
            cli_usage(&worker->cli,
                      "'%.200s' is not a pattern: expected levels between '/', '+' for any one "
                      "level, '#' at the end for the rest, at most %d bytes",
                      worker->pattern, BUS_NAME_BYTES_MAX);
    } else {
        result = cli_report(&worker->cli, err, NULL);
    }
    bus_sub_close(&worker->sub);
    result = cli_close(&worker->cli, result);
done:
    free(worker->places);
    free(worker->polled);
    return result;
}

int worker_main(int argc, char **argv)
{
    char pattern[2 * BUS_NAME_BYTES_MAX];
    struct worker worker = {
        .cli = {.program = "errbus worker",
                .prints_lines = true,
                .count_help = "end after N tasks (no limit)",
                .operands = "GROUP -- COMMAND [ARG...]",
                .summary = "Joins a group and runs COMMAND for each task that it gets. The task is "
                           "on the command's\nstandard input; its standard output is the reply."},
        .jobs = 1,
        .limit_ms = BUS_FOREVER,
        .retry_ms = RETRY_MS,
        .deliver_max = -1,
    };
    const struct cli_flag flags[] = {
        {'t', "topic", CLI_TEXT, &worker.pattern, "PATTERN",
         "topics whose values are tasks (+/GROUP)"},
        {0, "jobs", CLI_NUMBER, &worker.jobs, "N", "commands that run at a time, 1 to 256 (1)"},
        {0, "limit", CLI_SECONDS, &worker.limit_ms, "SECONDS",
         "end a command that runs for longer; its task failed (no limit)"},
        {0, "retry", CLI_SECONDS, &worker.retry_ms, "SECONDS",
         "wait so long before a task is tried again after status 75 (1)"},
        {0, "deliver", CLI_NUMBER, &worker.deliver_max, "N",
         "give a task to workers at most so often, 1 to 16 (5)"},
        {0, "lease", CLI_SECONDS, &worker.lease_ms, "SECONDS",
         "give the tasks to others after this silence (when lost)"},
    };
    int result = CLI_OK;
    if (!cli_start(&worker.cli, argc, argv, flags, sizeof flags / sizeof flags[0], &result)) {
        return result;
    }
    if (worker.cli.argc < 2) {
        return cli_usage(&worker.cli, "expected a group and a command: GROUP -- COMMAND");
    }
    worker.group = worker.cli.argv[0];
    if (!cli_is_name(worker.group, GROUP_BYTES_MAX)) {
        return cli_usage(&worker.cli,
                         "'%.200s' is not a group's name: expected 1 to %d bytes of UTF-8, without "
                         "'/', '+', '#' and control characters",
                         worker.group, GROUP_BYTES_MAX);
    }
    worker.command = worker.cli.argv + 1;
    if (worker.pattern == NULL) {
        (void)snprintf(pattern, sizeof pattern, "+/%.200s", worker.group); /* or it is refused */
        worker.pattern = pattern;
    }
    if (!cli_is_pattern(&worker.cli, worker.pattern)) {
        return CLI_USAGE;
    }
    const struct cli_range ranges[] = {
        {"jobs", worker.jobs, 1, JOBS_MAX, false},
        {"deliver", worker.deliver_max, 1, DELIVER_MAX, false},
        {"lease", worker.lease_ms, 0, CLI_DAY_MS, true},
    };
    result = cli_check_ranges(&worker.cli, ranges, sizeof ranges / sizeof *ranges);
    return result == CLI_OK ? run(&worker) : result;
}
