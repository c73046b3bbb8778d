/* SPDX-License-Identifier: MPL-2.0 */
/* process.c -- programs as children, over pipes and a descriptor of the process. */
#include "tests/lib/process.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define READ_BYTES ((size_t)64 * 1024)
#define ENVIRONMENT_MAX 16
#define LOOK_UP_MS 500 /* so often who waits sees whether it still shall */

static volatile sig_atomic_t stopped_by;

int64_t test_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

int64_t test_resident_kib(pid_t pid)
{
    char path[64];
    long long pages = -1;
    snprintf(path, sizeof path, "/proc/%d/statm", (int)pid);
    FILE *file = fopen(path, "re");
    if (file != NULL && fscanf(file, "%*s %lld", &pages) != 1) {
        pages = -1;
    }
    if (file != NULL) {
        fclose(file);
    }
    return pages < 0 ? -1 : pages * sysconf(_SC_PAGESIZE) / 1024;
}

unsigned test_thread_count(void)
{
    unsigned count = 0;
    DIR *tasks = opendir("/proc/self/task");
    if (tasks == NULL)
        return 0;
    for (const struct dirent *task; (task = readdir(tasks)) != NULL;)
        count += task->d_name[0] != '.';
    closedir(tasks);
    return count;
}

int64_t test_now_ms(void)
{
    return test_now_ns() / 1000000;
}

void process_stop(int number)
{
    stopped_by = number;
}

int process_stopped_by(void)
{
    return (int)stopped_by;
}

/* Of a wait until that time. */
static int64_t left_until(int64_t until_ms)
{
    return stopped_by == 0 ? until_ms - test_now_ms() : 0;
}

/* What poll() is told, for a signal that comes just before it does not end it. */
static int look_up_in(int64_t left_ms)
{
    return left_ms <= 0 ? 0 : left_ms < LOOK_UP_MS ? (int)left_ms : LOOK_UP_MS;
}

/* ---- starting ---------------------------------------------------------------------------------*/

static char own_path[512]; /* of this program; "": not known */

void process_remember_own_path(void)
{
    if (own_path[0] == '\0') {
        ssize_t count = readlink("/proc/self/exe", own_path, sizeof own_path - 1);
        own_path[count > 0 ? count : 0] = '\0';
    }
}

/* The build puts errbusd into broker/, errbus and fedavg into clients/, the rest into tests/, and
 * us into tests/ or bench/. */
static bool path_beside_us(const char *program, char *path, size_t bytes)
{
    static const char *const folders[] = {"broker", "clients", "tests", "bench"};
    char self[sizeof own_path];
    process_remember_own_path();
    snprintf(self, sizeof self, "%s", own_path);
    for (int level = 0; level < 2; level++) {
        char *slash = strrchr(self, '/');
        if (slash == NULL) {
            return false;
        }
        *slash = '\0';
    }
    for (size_t i = 0; i < sizeof folders / sizeof folders[0]; i++) {
        snprintf(path, bytes, "%s/%s/%s", self, folders[i], program);
        if (access(path, X_OK) == 0) {
            return true;
        }
    }
    return false;
}

const char *process_path(const char *program, char *path, size_t bytes)
{
    char name[64];
    size_t i = 0;
    for (; program[i] != '\0' && i + 1 < sizeof name; i++) {
        name[i] = (char)toupper((unsigned char)program[i]);
    }
    name[i] = '\0';
    const char *told = strchr(program, '/') == NULL ? getenv(name) : program;
    if (told != NULL) {
        snprintf(path, bytes, "%s", told);
    } else if (!path_beside_us(program, path, bytes)) {
        snprintf(path, bytes, "%s", program);
    }
    return path;
}

struct pipes {
    int input[2];
    int output[2];
    int errors[2];
};

static void close_pipes(struct pipes *pipes)
{
    int *fds = (int *)pipes;
    for (size_t i = 0; i < sizeof *pipes / sizeof(int); i++) {
        if (fds[i] >= 0) {
            close(fds[i]);
        }
    }
}

static bool open_pipes(struct pipes *pipes)
{
    memset(pipes, -1, sizeof *pipes);
    bool is_open = pipe2(pipes->input, O_CLOEXEC) == 0 && pipe2(pipes->output, O_CLOEXEC) == 0 &&
                   pipe2(pipes->errors, O_CLOEXEC) == 0;
    if (!is_open) {
        close_pipes(pipes);
    }
    return is_open;
}

/* In the child; returns only if the program could not be started. */
static void become(const char *path, const char *const *argv, const char *const *environment,
                   const struct pipes *pipes, pid_t parent)
{
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    struct sigaction action = {.sa_handler = SIG_DFL};
    sigaction(SIGPIPE, &action, NULL);
    dup2(pipes->input[0], STDIN_FILENO);
    dup2(pipes->output[1], STDOUT_FILENO);
    dup2(pipes->errors[1], STDERR_FILENO);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) {
        _exit(127); /* the parent was gone before we asked to be told */
    }
    for (size_t i = 0; environment != NULL && environment[i] != NULL; i++) {
        putenv((char *)(uintptr_t)environment[i]);
    }
    execvp(path, (char *const *)(uintptr_t)argv);
    dprintf(STDERR_FILENO, "%s: %s\n", path, strerror(errno));
}

bool process_start(struct process *process, const char *const *argv, const char *const *environment)
{
    char path[512];
    struct pipes pipes;
    memset(process, 0, sizeof *process);
    process->pid_fd = process->input = process->output = process->errors = -1;
    if (!open_pipes(&pipes)) {
        return false;
    }
    process_path(argv[0], path, sizeof path);
    pid_t parent = getpid();
    pid_t pid = fork();
    if (pid == 0) {
        become(path, argv, environment, &pipes, parent);
        _exit(127);
    }
    if (pid > 0) {
        process->pid = pid;
        process->pid_fd = pidfd_open(pid, 0);
        process->input = pipes.input[1];
        process->output = pipes.output[0];
        process->errors = pipes.errors[0];
        pipes.input[1] = pipes.output[0] = pipes.errors[0] = -1;
        fcntl(process->output, F_SETFL, O_NONBLOCK);
        fcntl(process->errors, F_SETFL, O_NONBLOCK);
    }
    close_pipes(&pipes);
    return pid > 0;
}

/* ---- speaking and listening -------------------------------------------------------------------*/

bool process_say(struct process *process, const void *bytes, size_t count)
{
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    struct sigaction before;
    const char *at = bytes;
    sigaction(SIGPIPE, &ignore, &before);
    while (count > 0 && process->input >= 0) {
        ssize_t written = write(process->input, at, count);
        if (written < 0 && errno != EINTR) {
            break;
        }
        at += written > 0 ? written : 0;
        count -= written > 0 ? (size_t)written : 0;
    }
    sigaction(SIGPIPE, &before, NULL);
    return count == 0;
}

void process_say_end(struct process *process)
{
    if (process->input >= 0) {
        close(process->input);
        process->input = -1;
    }
}

/* Takes what is there; closes *fd at the end. */
static void take(int *fd, struct process_text *text)
{
    while (*fd >= 0) {
        char *bytes = realloc(text->bytes, text->count + READ_BYTES + 1);
        if (bytes == NULL) {
            abort();
        }
        text->bytes = bytes;
        ssize_t count = read(*fd, bytes + text->count, READ_BYTES);
        text->count += count > 0 ? (size_t)count : 0;
        bytes[text->count] = '\0';
        if (count == 0 || (count < 0 && errno != EAGAIN && errno != EINTR)) {
            close(*fd);
            *fd = -1;
        } else if (count < 0) {
            break;
        }
    }
}

/* Waits until something was said, or it ended; false: until_ms came first. */
static bool listen_until(struct process *process, int64_t until_ms)
{
    struct pollfd fds[] = {
        {.fd = process->output, .events = POLLIN},
        {.fd = process->errors, .events = POLLIN},
    };
    int64_t left_ms = left_until(until_ms);
    int ready = poll(fds, 2, look_up_in(left_ms));
    take(&process->output, &process->said);
    take(&process->errors, &process->complained);
    return ready > 0 || left_ms > 0;
}

static bool take_line(struct process_text *text, const int *fd, const char **out_line)
{
    if (text->read >= text->count) {
        return false;
    }
    char *start = text->bytes + text->read;
    char *newline = memchr(start, '\n', text->count - text->read);
    if (newline == NULL && *fd >= 0) {
        return false;
    }
    if (newline != NULL) {
        *newline = '\0';
    }
    text->read = newline != NULL ? (size_t)(newline - text->bytes) + 1 : text->count;
    *out_line = start;
    return true;
}

static bool next_line(struct process *process, struct process_text *text, const int *fd,
                      int64_t timeout_ms, const char **out_line)
{
    int64_t until_ms = test_now_ms() + timeout_ms;
    for (;;) {
        if (take_line(text, fd, out_line)) {
            return true;
        }
        if (*fd < 0 || !listen_until(process, until_ms)) {
            return take_line(text, fd, out_line);
        }
    }
}

bool process_line(struct process *process, int64_t timeout_ms, const char **out_line)
{
    return next_line(process, &process->said, &process->output, timeout_ms, out_line);
}

bool process_complaint(struct process *process, int64_t timeout_ms, const char **out_line)
{
    return next_line(process, &process->complained, &process->errors, timeout_ms, out_line);
}

/* A line that was given out ends in NUL; the whole text has its newlines again. */
static const char *whole(const struct process_text *text)
{
    for (size_t i = 0; i < text->read; i++) {
        if (text->bytes[i] == '\0') {
            text->bytes[i] = '\n';
        }
    }
    return text->bytes != NULL ? text->bytes : "";
}

const char *process_said(const struct process *process)
{
    return whole(&process->said);
}

const char *process_complained(const struct process *process)
{
    return whole(&process->complained);
}

const char *process_complained_of(const struct process *process)
{
    const char *said = process_complained(process);
    const char *line_end = strchr(said, '\n');
    const char *waits = strstr(said, ": waiting for a broker at ");
    return waits != NULL && line_end != NULL && waits < line_end ? line_end + 1 : said;
}

/* ---- ending -----------------------------------------------------------------------------------*/

/* On a busy machine, a thread goes on for a while after SIGSTOP was sent. */
void process_signal(struct process *process, int number)
{
    siginfo_t info; /* it stays for whoever waits for the process */
    if (process->pid <= 0)
        return;
    kill(process->pid, number);
    while (number == SIGSTOP &&
           waitid(P_PID, (id_t)process->pid, &info, WSTOPPED | WEXITED | WNOWAIT) != 0 &&
           errno == EINTR)
        continue;
}

static void reap(struct process *process)
{
    int status = 0;
    while (waitpid(process->pid, &status, 0) < 0 && errno == EINTR) {
    }
    process->result = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    process->pid = 0;
    take(&process->output, &process->said);
    take(&process->errors, &process->complained);
}

int process_wait(struct process *process, int64_t timeout_ms)
{
    int64_t until_ms = test_now_ms() + timeout_ms;
    while (process->pid > 0) {
        struct pollfd fds[] = {
            {.fd = process->pid_fd, .events = POLLIN},
            {.fd = process->output, .events = POLLIN},
            {.fd = process->errors, .events = POLLIN},
        };
        int64_t left_ms = left_until(until_ms);
        int ready = poll(fds, 3, look_up_in(left_ms));
        take(&process->output, &process->said);
        take(&process->errors, &process->complained);
        if (fds[0].revents != 0) {
            reap(process);
        } else if (ready <= 0 && left_ms <= 0) {
            return -1;
        }
    }
    return process->result;
}

static void close_fd(int *fd)
{
    if (*fd >= 0) {
        close(*fd);
    }
    *fd = -1;
}

void process_fini(struct process *process)
{
    if (process->pid > 0) {
        kill(process->pid, SIGKILL);
        reap(process);
    }
    if (process->pid_fd > 0) {
        close_fd(&process->pid_fd);
        close_fd(&process->input);
        close_fd(&process->output);
        close_fd(&process->errors);
    }
    free(process->said.bytes);
    free(process->complained.bytes);
    memset(process, 0, sizeof *process);
    process->pid_fd = process->input = process->output = process->errors = -1;
}
