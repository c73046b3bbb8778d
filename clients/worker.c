/* SPDX-License-Identifier: MPL-2.0 */
/* worker.c -- errbus worker: a command for each task of a group, its output the reply.
 *
 * The task's value is the command's standard input.  What it says on standard error is passed on,
 * and its end is in the error if it fails.  While it runs it is looked whether anybody still waits
 * for it: a request that was cancelled, or a signal to us, ends the command. */
#include "clients/errbus.h"

#include "clients/cli.h"
#include "clients/run_error.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define LOOK_MS 100      /* between two looks at whether the task is still wanted */
#define MERCY_MS 5000    /* from SIGTERM to SIGKILL */
#define READ_BYTES 65536 /* of a pipe at once */
#define TRY_AGAIN 75     /* EX_TEMPFAIL of sysexits.h: not here, or not now */
#define RETRY_MS 1000    /* without --retry */
#define REPLY_BYTES_MAX ((size_t)64 * 1024 * 1024)

struct worker {
    struct cli cli;
    const char *group;
    const char *pattern;
    char **command;
    int64_t retry_ms;
    int64_t lease_ms;
    int64_t deliver_max;
    struct bus_sub *sub;
    int64_t done; /* tasks */
};

/* One run of the command. */
struct child {
    pid_t pid;
    int input;  /* its standard input; -1: closed, as all of these */
    int output; /* what it says */
    int errors;
    int report; /* why it could not become the program */
    const char *value;
    size_t value_bytes; /* not written yet */
    char *reply;
    size_t reply_bytes;
    size_t reply_room;
    bool is_too_long; /* the reply */
    char tail[RUN_TAIL_BYTES_MAX];
    size_t tail_bytes;
    uint64_t said_bytes;
    int start_errno;
    int wait_status;
    int64_t stop_ms; /* when it was asked to end; 0: it was not */
};

enum why { WHY_NONE, WHY_OVER, WHY_STOPPED };

/* ---- starting -------------------------------------------------------------------------------- */

static void close_end(int *fd)
{
    if (*fd >= 0) {
        (void)close(*fd);
    }
    *fd = -1;
}

/* In the child, from here to the program or the end. */
static void become(const struct worker *worker, const struct bus_msg *msg, const int ends[3],
                   int report)
{
    char number[32];
    sigset_t none;
    (void)setpgid(0, 0);
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    (void)sigaction(SIGPIPE, &(struct sigaction){.sa_handler = SIG_DFL}, NULL);
    (void)setenv("ERRBUS_TASK_TOPIC", bus_msg_topic(msg), 1);
    (void)snprintf(number, sizeof number, "%" PRIu64, bus_msg_seq(msg));
    (void)setenv("ERRBUS_TASK_SEQ", number, 1);
    (void)snprintf(number, sizeof number, "%u", bus_msg_delivery(msg));
    (void)setenv("ERRBUS_TASK_DELIVERY", number, 1);
    if (dup2(ends[0], STDIN_FILENO) >= 0 && dup2(ends[1], STDOUT_FILENO) >= 0 &&
        dup2(ends[2], STDERR_FILENO) >= 0) {
        (void)execvp(worker->command[0], worker->command);
    }
    int reason = errno;
    ssize_t written = write(report, &reason, sizeof reason);
    (void)written; /* the parent has gone: nobody asks */
    _exit(127);
}

/* 0, or an errno. */
static int start(const struct worker *worker, const struct bus_msg *msg, struct child *child)
{
    int pipes[4][2] = {{-1, -1}, {-1, -1}, {-1, -1}, {-1, -1}};
    int result = 0;
    for (int i = 0; i < 4 && result == 0; i++) {
        result = pipe2(pipes[i], O_CLOEXEC) == 0 ? 0 : errno;
    }
    child->pid = result == 0 ? fork() : -1;
    if (child->pid == 0) {
        const int ends[3] = {pipes[0][0], pipes[1][1], pipes[2][1]};
        become(worker, msg, ends, pipes[3][1]);
    }
    if (child->pid < 0 && result == 0) {
        result = errno;
    }
    close_end(&pipes[0][0]);
    for (int i = 1; i < 4; i++) {
        close_end(&pipes[i][1]);
    }
    child->input = pipes[0][1];
    child->output = pipes[1][0];
    child->errors = pipes[2][0];
    child->report = pipes[3][0];
    (void)fcntl(child->input, F_SETFL, O_NONBLOCK);
    (void)fcntl(child->output, F_SETFL, O_NONBLOCK);
    (void)fcntl(child->errors, F_SETFL, O_NONBLOCK);
    return result;
}

/* ---- listening ------------------------------------------------------------------------------- */

static void feed(struct child *child)
{
    ssize_t count = write(child->input, child->value, child->value_bytes);
    if (count > 0) {
        child->value += count;
        child->value_bytes -= (size_t)count;
    }
    bool is_refused = count < 0 && errno != EAGAIN && errno != EINTR; /* it does not read */
    if (is_refused || child->value_bytes == 0) {
        close_end(&child->input);
    }
}

static void keep_reply(struct child *child, const char *bytes, size_t count)
{
    if (child->reply_bytes + count > child->reply_room) {
        size_t room = child->reply_room > 0 ? child->reply_room : READ_BYTES;
        while (room < child->reply_bytes + count) {
            room *= 2;
        }
        char *grown = room <= REPLY_BYTES_MAX ? realloc(child->reply, room) : NULL;
        if (grown == NULL) {
            child->is_too_long = true;
            return;
        }
        child->reply = grown;
        child->reply_room = room;
    }
    memcpy(child->reply + child->reply_bytes, bytes, count);
    child->reply_bytes += count;
}

static void keep_tail(struct child *child, const char *bytes, size_t count)
{
    child->said_bytes += count;
    fwrite(bytes, 1, count, stderr);
    if (count > sizeof child->tail) {
        bytes += count - sizeof child->tail;
        count = sizeof child->tail;
    }
    size_t kept = child->tail_bytes;
    if (kept + count > sizeof child->tail) {
        kept = sizeof child->tail - count;
        memmove(child->tail, child->tail + child->tail_bytes - kept, kept);
    }
    memcpy(child->tail + kept, bytes, count);
    child->tail_bytes = kept + count;
}

/* Takes in what is there; closes at the end. */
static void hear(struct child *child, int *fd, void (*keep)(struct child *, const char *, size_t))
{
    char bytes[READ_BYTES];
    ssize_t count = *fd >= 0 ? read(*fd, bytes, sizeof bytes) : -1;
    while (count > 0) {
        keep(child, bytes, (size_t)count);
        count = read(*fd, bytes, sizeof bytes);
    }
    if (count == 0) {
        close_end(fd);
    }
}

static void ask_to_end(struct child *child)
{
    int64_t now_ms = cli_now_ms();
    if (child->stop_ms == 0) {
        child->stop_ms = now_ms;
        (void)kill(-child->pid, SIGTERM);
    } else if (now_ms - child->stop_ms > MERCY_MS) {
        (void)kill(-child->pid, SIGKILL);
    }
}

/* Until it has ended and all that it said is here.  Why it was asked to end, if it was. */
static enum why attend(struct child *child, const struct bus_msg *msg)
{
    enum why why = WHY_NONE;
    bool has_ended = false;
    while (!has_ended) {
        struct pollfd polled[] = {
            {.fd = child->input, .events = POLLOUT},
            {.fd = child->output, .events = POLLIN},
            {.fd = child->errors, .events = POLLIN},
        };
        bool is_quiet = child->output < 0 && child->errors < 0;
        (void)poll(polled, 3, is_quiet ? LOOK_MS / 10 : LOOK_MS);
        if (child->input >= 0 && polled[0].revents != 0) {
            feed(child);
        }
        has_ended = waitpid(child->pid, &child->wait_status, WNOHANG) == child->pid;
        hear(child, &child->output, keep_reply);
        hear(child, &child->errors, keep_tail);
        if (why == WHY_NONE && cli_is_stopped()) {
            why = WHY_STOPPED;
        } else if (why == WHY_NONE && bus_msg_is_over(msg, NULL)) {
            why = WHY_OVER;
        }
        if (why != WHY_NONE && !has_ended) {
            ask_to_end(child);
        }
    }
    (void)kill(-child->pid, SIGKILL); /* what it left behind; or there is nothing any more */
    ssize_t count = read(child->report, &child->start_errno, sizeof child->start_errno);
    if (count != (ssize_t)sizeof child->start_errno) {
        child->start_errno = 0;
    }
    return why;
}

/* ---- what becomes of the task ---------------------------------------------------------------- */

static struct bus_error *error_of(const struct worker *worker, const struct child *child)
{
    struct run_end end = {.program = worker->command[0],
                          .start_errno = child->start_errno,
                          .wait_status = child->wait_status,
                          .tail = child->tail_bytes > 0 ? child->tail : NULL,
                          .tail_bytes = child->tail_bytes,
                          .said_bytes = child->said_bytes};
    if (!run_error_is_good(&end)) {
        return run_error_of_end(&end);
    }
    return child->is_too_long
               ? bus_error_new("errbus.too_big", NULL, "the reply of %s is longer than %zu bytes",
                               worker->command[0], REPLY_BYTES_MAX)
               : NULL;
}

static enum bus_err settle(const struct worker *worker, const struct child *child,
                           struct bus_msg **msg)
{
    enum bus_err err = BUS_OK;
    struct bus_error *error = error_of(worker, child);
    bool is_exit = WIFEXITED(child->wait_status);
    if (error == NULL && bus_msg_is_request(*msg)) {
        err = bus_msg_reply(msg, child->reply, child->reply_bytes);
        bus_msg_return(msg); /* where it did not take it: to somebody else */
    } else if (error == NULL) {
        bus_msg_free(msg);
    } else if (is_exit && WEXITSTATUS(child->wait_status) == TRY_AGAIN) {
        bus_msg_reject(msg, error, worker->retry_ms);
    } else if (!is_exit) {
        bus_msg_reject(msg, error, 0); /* killed: another may have more luck */
    } else {
        bus_msg_fail(msg, error);
    }
    bus_error_unref(&error);
    return err == BUS_ESETTLED ? BUS_OK : err; /* nobody waits for it any more */
}

/* CLI_OK: go on. */
static int work(struct worker *worker, struct bus_msg **msg)
{
    struct child child = {.input = -1, .output = -1, .errors = -1, .report = -1};
    int result = CLI_OK;
    child.value = bus_msg_value(*msg, &child.value_bytes);
    child.start_errno = start(worker, *msg, &child);
    enum why why = child.start_errno == 0 ? attend(&child, *msg) : WHY_NONE;
    if (child.start_errno != 0) {
        bus_msg_return(msg);
        fprintf(stderr, "%s: cannot start %s: %s\n", worker->cli.program, worker->command[0],
                strerror(child.start_errno));
        result = CLI_FAILED;
    } else if (why == WHY_NONE) {
        enum bus_err err = settle(worker, &child, msg);
        worker->done += 1;
        result = err == BUS_OK ? CLI_OK : cli_report(&worker->cli, err, NULL);
    } else {
        bus_msg_return(msg); /* over: that is about nothing */
    }
    close_end(&child.input);
    close_end(&child.output);
    close_end(&child.errors);
    close_end(&child.report);
    free(child.reply);
    return result;
}

static int work_all(struct worker *worker)
{
    int result = CLI_OK;
    while (result == CLI_OK && (worker->cli.count < 0 || worker->done < worker->cli.count)) {
        struct bus_msg *msg = NULL;
        struct bus_error *error = NULL;
        enum bus_err err = bus_sub_recv(worker->sub, cli_left_ms(&worker->cli), &msg, &error);
        if (err == BUS_EFAILED) { /* an error stands in the place of a task: nothing to do */
            cli_print_error(stderr, worker->cli.program, error);
            bus_error_unref(&error);
            continue;
        }
        result = err == BUS_OK ? work(worker, &msg) : cli_report(&worker->cli, err, &error);
        if (cli_is_stopped()) {
            break;
        }
    }
    return result;
}

static int run(struct worker *worker)
{
    struct bus_sub_options options;
    bus_sub_options_init(&options);
    options.group = worker->group;
    options.lease_ms = worker->lease_ms;
    options.deliver_max = (int)worker->deliver_max;
    int result = cli_open(&worker->cli, NULL);
    if (result != CLI_OK) {
        return result;
    }
    enum bus_err err = bus_sub_open(worker->cli.bus, worker->pattern, &options, &worker->sub);
    if (err == BUS_OK) {
        result = work_all(worker);
    } else if (err == BUS_EINVAL) {
        result = cli_usage(&worker->cli,
                           "'%.180s' is no name of a group, '%.200s' no pattern, --deliver not 1 "
                           "to 16, or --lease longer than a day",
                           worker->group, worker->pattern);
    } else {
        result = cli_report(&worker->cli, err, NULL);
    }
    bus_sub_close(&worker->sub);
    return cli_close(&worker->cli, result);
}

int worker_main(int argc, char **argv)
{
    char pattern[2 * BUS_NAME_BYTES_MAX];
    struct worker worker = {
        .cli = {.program = "errbus worker",
                .prints_lines = true,
                .operands = "GROUP -- COMMAND [ARG...]",
                .summary = "Runs a command for each task that a group is given, with the task on "
                           "its standard input; its output is the reply."},
        .retry_ms = RETRY_MS,
    };
    const struct cli_flag flags[] = {
        {'t', "topic", CLI_TEXT, &worker.pattern, "PATTERN", "where tasks are (+/GROUP)"},
        {0, "retry", CLI_SECONDS, &worker.retry_ms, "SECONDS",
         "after status 75 it is tried again (1)"},
        {0, "deliver", CLI_NUMBER, &worker.deliver_max, "N", "a task is tried so often (5)"},
        {0, "lease", CLI_SECONDS, &worker.lease_ms, "SECONDS",
         "silence after which others get the task"},
    };
    int result = CLI_OK;
    if (!cli_start(&worker.cli, argc, argv, flags, sizeof flags / sizeof flags[0], &result)) {
        return result;
    }
    if (worker.cli.argc < 2) {
        return cli_usage(&worker.cli, "a group and a command are wanted: GROUP -- COMMAND");
    }
    worker.group = worker.cli.argv[0];
    worker.command = worker.cli.argv + 1;
    if (worker.pattern == NULL) {
        (void)snprintf(pattern, sizeof pattern, "+/%.200s", worker.group); /* or it is refused */
        worker.pattern = pattern;
    }
    if (worker.deliver_max > INT16_MAX) {
        worker.deliver_max = INT16_MAX; /* refused, too */
    }
    return run(&worker);
}
