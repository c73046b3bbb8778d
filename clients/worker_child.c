/* SPDX-License-Identifier: MPL-2.0 */
/* worker_child.c -- a command with a task on its standard input. */
#include "clients/worker_child.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define READ_BYTES 65536 /* of a pipe at once */

void worker_child_init(struct worker_child *child)
{
    *child =
        (struct worker_child){.pid_fd = -1, .input = -1, .output = -1, .errors = -1, .report = -1};
}

static void close_end(int *fd)
{
    if (*fd >= 0) {
        (void)close(*fd);
    }
    *fd = -1;
}

/* ---- starting -------------------------------------------------------------------------------- */

/* Runs in the child.  It may only do what a signal handler may do: other threads of the parent may
 * have held locks. */
_Noreturn static void become(char *const *command, char *const *environment, const int ends[3],
                             int report)
{
    struct sigaction action = {.sa_handler = SIG_DFL};
    sigset_t none;
    (void)setpgid(0, 0); /* the parent does it too, whoever is first */
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    (void)sigaction(SIGPIPE, &action, NULL);
    if (dup2(ends[0], STDIN_FILENO) >= 0 && dup2(ends[1], STDOUT_FILENO) >= 0 &&
        dup2(ends[2], STDERR_FILENO) >= 0) {
        (void)execvpe(command[0], command, environment);
    }
    int reason = errno;
    ssize_t written = write(report, &reason, sizeof reason);
    (void)written; /* on failure the parent is gone */
    _exit(127);
}

static void keep_end(int *fd, int *out_fd)
{
    (void)fcntl(*fd, F_SETFL, O_NONBLOCK); /* a pipe of ours: cannot fail */
    *out_fd = *fd;
    *fd = -1;
}

int worker_child_start(struct worker_child *child, char *const *command,
                       const struct run_environment *environment, const char *value,
                       size_t value_bytes)
{
    int pipes[4][2] = {{-1, -1}, {-1, -1}, {-1, -1}, {-1, -1}};
    char **variables = run_environment_make(environment);
    int result = variables != NULL ? 0 : ENOMEM;
    for (int i = 0; i < 4 && result == 0; i++) {
        result = pipe2(pipes[i], O_CLOEXEC) == 0 ? 0 : errno;
    }
    pid_t pid = result == 0 ? fork() : 0;
    if (result == 0 && pid == 0) {
        const int ends[3] = {pipes[0][0], pipes[1][1], pipes[2][1]};
        become(command, variables, ends, pipes[3][1]);
    }
    if (pid < 0) {
        result = errno;
    } else if (result == 0) {
        (void)setpgid(pid, pid); /* or it has done so, and is another program already */
        child->pid = pid;
        child->pid_fd = pidfd_open(pid, 0);
        child->value = value;
        child->value_bytes = value_bytes;
        keep_end(&pipes[0][1], &child->input);
        keep_end(&pipes[1][0], &child->output);
        keep_end(&pipes[2][0], &child->errors);
        keep_end(&pipes[3][0], &child->report);
    }
    for (int i = 0; i < 4; i++) {
        close_end(&pipes[i][0]);
        close_end(&pipes[i][1]);
    }
    free(variables);
    return result;
}

/* ---- listening ------------------------------------------------------------------------------- */

static void feed(struct worker_child *child)
{
    ssize_t count =
        child->value_bytes > 0 ? write(child->input, child->value, child->value_bytes) : 0;
    if (count > 0) {
        child->value += count;
        child->value_bytes -= (size_t)count;
    }
    bool is_refused = count < 0 && errno != EAGAIN && errno != EINTR; /* nobody reads it */
    if (is_refused || child->value_bytes == 0) {
        close_end(&child->input);
    }
}

static void keep_reply(struct worker_child *child, const char *bytes, size_t count)
{
    if (child->reply_bytes + count > child->reply_room) {
        size_t room = child->reply_room > 0 ? child->reply_room : READ_BYTES;
        while (room < child->reply_bytes + count) {
            room *= 2;
        }
        char *grown = room <= WORKER_REPLY_BYTES_MAX ? realloc(child->reply, room) : NULL;
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

static void keep_tail(struct worker_child *child, const char *bytes, size_t count)
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

/* Reads what is there.  Closes the descriptor at its end. */
static void hear(struct worker_child *child, int *fd,
                 void (*keep)(struct worker_child *, const char *, size_t))
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

size_t worker_child_poll(const struct worker_child *child, struct pollfd *polled)
{
    polled[0] = (struct pollfd){.fd = child->input, .events = POLLOUT};
    polled[1] = (struct pollfd){.fd = child->output, .events = POLLIN};
    polled[2] = (struct pollfd){.fd = child->errors, .events = POLLIN};
    polled[3] = (struct pollfd){.fd = child->pid_fd, .events = POLLIN};
    return WORKER_CHILD_FDS;
}

/* Whether it has ended.  It is not reaped, so nobody else gets the number of its group. */
static bool has_ended(const struct worker_child *child)
{
    siginfo_t info = {.si_pid = 0};
    return waitid(P_PID, (id_t)child->pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
           info.si_pid == child->pid;
}

bool worker_child_tend(struct worker_child *child)
{
    bool is_over = has_ended(child);
    if (is_over) {
        (void)kill(-child->pid, SIGKILL); /* processes that it left behind, if any */
    } else if (child->input >= 0) {
        feed(child);
    }
    hear(child, &child->output, keep_reply);
    hear(child, &child->errors, keep_tail);
    if (!is_over) {
        return false;
    }
    ssize_t count = read(child->report, &child->start_errno, sizeof child->start_errno);
    if (count != (ssize_t)sizeof child->start_errno) {
        child->start_errno = 0;
    }
    (void)waitpid(child->pid, &child->wait_status, 0);
    child->pid = 0;
    return true;
}

void worker_child_end(struct worker_child *child)
{
    int64_t now_ms = cli_now_ms();
    if (child->stop_ms == 0) {
        child->stop_ms = now_ms;
        (void)kill(-child->pid, SIGTERM);
    } else if (now_ms - child->stop_ms > WORKER_MERCY_MS) {
        (void)kill(-child->pid, SIGKILL);
    }
}

struct run_end worker_child_how(const struct worker_child *child, const char *program)
{
    return (struct run_end){.program = program,
                            .start_errno = child->start_errno,
                            .wait_status = child->wait_status,
                            .tail = child->tail_bytes > 0 ? child->tail : NULL,
                            .tail_bytes = child->tail_bytes,
                            .said_bytes = child->said_bytes};
}

void worker_child_fini(struct worker_child *child)
{
    if (child->pid > 0) {
        (void)kill(-child->pid, SIGKILL);
        (void)waitpid(child->pid, &child->wait_status, 0);
    }
    close_end(&child->pid_fd);
    close_end(&child->input);
    close_end(&child->output);
    close_end(&child->errors);
    close_end(&child->report);
    free(child->reply);
    worker_child_init(child);
}
