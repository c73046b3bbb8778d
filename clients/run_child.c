/* SPDX-License-Identifier: MPL-2.0 */
/* run_child.c -- a program as a child: started, listened to, signalled, and its end understood. */
#include "clients/run_child.h"

#include "clients/run_json.h"
#include "clients/run_memory.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define SECOND_NS INT64_C(1000000000)

enum {
    READ_BYTES = 65536,
    RUN_READ_BYTES_MAX = 256 * 1024 * 1024, /* of an error file, the rest is not looked at */
    CORE_FLAG = 0x80,                       /* of a wait status */
};

extern char **environ;

void run_child_init(struct run_child *child)
{
    child->pid = 0;
    child->report = -1;
    child->has_ended = false;
    child->is_asked = false;
    child->has_told = false;
    child->began_wall_ns = 0;
    child->ran_wall_ns = 0;
    for (int i = 0; i < RUN_STREAMS; i++) {
        struct run_stream *stream = &child->streams[i];
        stream->fd = -1;
        stream->file = -1;
        stream->file_errno = 0;
        stream->unkept = 0;
        run_output_init(&stream->output, stream->waiting);
    }
}

/* ---- environment ------------------------------------------------------------------------------*/

void run_environment_set(struct run_environment *environment, const char *name, const char *format,
                         ...)
{
    char *text = environment->texts[environment->count];
    va_list args;
    int bytes = snprintf(text, RUN_VARIABLE_BYTES_MAX, "%s=", name);
    va_start(args, format);
    (void)vsnprintf(text + bytes, RUN_VARIABLE_BYTES_MAX - (size_t)bytes, format, args);
    va_end(args);
    environment->count += environment->count + 1 < RUN_VARIABLES_MAX;
}

static bool is_replaced(const struct run_environment *environment, const char *entry)
{
    size_t name_bytes = strcspn(entry, "=") + 1;
    for (unsigned i = 0; i < environment->count; i++) {
        if (strncmp(environment->texts[i], entry, name_bytes) == 0) {
            return true;
        }
    }
    return false;
}

char **run_environment_make(const struct run_environment *environment)
{
    size_t count = 0;
    size_t at = 0;
    while (environ[count] != NULL) {
        count++;
    }
    char **entries = calloc(count + environment->count + 1, sizeof *entries);
    if (entries == NULL) {
        return NULL;
    }
    for (size_t i = 0; i < count; i++) {
        if (!is_replaced(environment, environ[i])) {
            entries[at++] = environ[i];
        }
    }
    for (unsigned i = 0; i < environment->count; i++) {
        entries[at++] = (char *)environment->texts[i];
    }
    return entries;
}

/* ---- files ------------------------------------------------------------------------------------*/

static int make_file(struct run_stream *stream, const char *folder, const char *name)
{
    char path[RUN_PATH_BYTES_MAX + 16];
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    stream->file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    return stream->file < 0 ? errno : 0;
}

int run_child_make_files(struct run_child *child, const char *folder)
{
    (void)snprintf(child->folder, sizeof child->folder, "%s", folder);
    (void)snprintf(child->error_file, sizeof child->error_file, "%s/error.json", child->folder);
    if (mkdir(child->folder, 0777) != 0 && errno != EEXIST) {
        return errno;
    }
    if (unlink(child->error_file) != 0 && errno != ENOENT) { /* of another run */
        return errno;
    }
    int reason = make_file(&child->streams[RUN_STDOUT], child->folder, "stdout");
    return reason != 0 ? reason : make_file(&child->streams[RUN_STDERR], child->folder, "stderr");
}

/* Writes all bytes to the stream's file.  After a failure the file gets no more: a hole in it would
 * not be seen. */
static void keep(struct run_stream *stream, const char *bytes, size_t count)
{
    while (stream->file >= 0 && count > 0) {
        ssize_t written = write(stream->file, bytes, count);
        if (written < 0 && errno != EINTR) {
            stream->file_errno = errno;
            (void)close(stream->file);
            stream->file = -1;
        } else if (written > 0) {
            bytes += written;
            count -= (size_t)written;
        }
    }
    stream->unkept += count;
}

static int64_t wall_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_REALTIME, &now); /* there is one */
    return now.tv_sec * SECOND_NS + now.tv_nsec;
}

/* ---- starting ---------------------------------------------------------------------------------*/

/* The ends of pipes that the program gets. */
struct ends {
    int input;
    int output;
    int errors;
    int report; /* where the child says why it could not start the program */
};

/* In the child, where nothing but what a signal handler may do is allowed: others of our threads
 * may have held locks. */
_Noreturn static void become(const struct run_start *start, char *const *environment,
                             const struct ends *ends, pid_t parent)
{
    struct sigaction action = {.sa_handler = SIG_DFL};
    (void)setpgid(0, 0); /* the parent does it too, whoever is first */
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && getppid() == parent &&
        dup2(ends->input, STDIN_FILENO) >= 0 && dup2(ends->output, STDOUT_FILENO) >= 0 &&
        dup2(ends->errors, STDERR_FILENO) >= 0 && sigaction(SIGPIPE, &action, NULL) == 0 &&
        sigprocmask(SIG_SETMASK, start->mask, NULL) == 0) {
        (void)execvpe(start->command[0], start->command, environment);
    }
    int reason = errno;
    ssize_t written = write(ends->report, &reason, sizeof reason);
    (void)written;
    _exit(127);
}

static void close_all(int *fds, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (fds[i] >= 0) {
            (void)close(fds[i]);
        }
    }
}

/* Moves an end that we read to its place. */
static void adopt(int *fd, int *out_fd)
{
    (void)fcntl(*fd, F_SETFL, O_NONBLOCK); /* a pipe of ours: cannot fail */
    *out_fd = *fd;
    *fd = -1;
}

int run_child_start(struct run_child *child, const struct run_start *start)
{
    enum { OUTPUT, OUTPUT_END, ERRORS, ERRORS_END, REPORT, REPORT_END, INPUT, FD_COUNT };
    int fds[FD_COUNT] = {-1, -1, -1, -1, -1, -1, -1};
    int reason = 0;
    pid_t parent = getpid();
    char **environment = run_environment_make(start->environment);
    if (environment == NULL) {
        return ENOMEM;
    }
    fds[INPUT] = start->has_input ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3)
                                  : open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (fds[INPUT] < 0 || pipe2(fds + OUTPUT, O_CLOEXEC) != 0 ||
        pipe2(fds + ERRORS, O_CLOEXEC) != 0 || pipe2(fds + REPORT, O_CLOEXEC) != 0) {
        reason = errno;
        goto done;
    }
    child->kills_before = run_memory_kills("");
    child->began_wall_ns = wall_ns();
    child->ran_wall_ns = child->began_wall_ns;
    child->pid = fork();
    if (child->pid == 0) {
        become(start, environment,
               &(struct ends){.input = fds[INPUT],
                              .output = fds[OUTPUT_END],
                              .errors = fds[ERRORS_END],
                              .report = fds[REPORT_END]},
               parent);
    }
    if (child->pid < 0) {
        reason = errno;
        child->pid = 0;
        goto done;
    }
    (void)setpgid(child->pid, child->pid); /* fails if the child did it and is the program */
    adopt(&fds[OUTPUT], &child->streams[RUN_STDOUT].fd);
    adopt(&fds[ERRORS], &child->streams[RUN_STDERR].fd);
    adopt(&fds[REPORT], &child->report);
done:
    close_all(fds, FD_COUNT);
    free(environment);
    return reason;
}

bool run_child_hear(struct run_child *child, int *out_reason)
{
    int reason = 0;
    ssize_t count;
    if (child->report < 0) {
        return false;
    }
    do {
        count = read(child->report, &reason, sizeof reason);
    } while (count < 0 && errno == EINTR);
    if (count < 0 && errno == EAGAIN) {
        return false;
    }
    (void)close(child->report);
    child->report = -1;
    *out_reason = count == (ssize_t)sizeof reason ? reason : 0;
    if (*out_reason != 0) {
        child->has_ended = true; /* or will at once */
        run_child_reap(child);
    }
    return true;
}

/* ---- listening --------------------------------------------------------------------------------*/

bool run_child_read(struct run_child *child, enum run_stream_number number, size_t limit)
{
    char bytes[READ_BYTES];
    struct run_stream *stream = &child->streams[number];
    size_t total = 0;
    while (stream->fd >= 0 && total < limit) {
        size_t left = limit - total;
        ssize_t count = read(stream->fd, bytes, left < sizeof bytes ? left : sizeof bytes);
        if (count > 0) {
            keep(stream, bytes, (size_t)count);
            run_output_add(&stream->output, bytes, (size_t)count);
            total += (size_t)count;
        } else if (count == 0 || (errno != EAGAIN && errno != EINTR)) {
            (void)close(stream->fd);
            stream->fd = -1;
        } else if (errno == EAGAIN) {
            break;
        }
    }
    return total > 0;
}

size_t run_child_unread(const struct run_child *child, enum run_stream_number number)
{
    int bytes = 0;
    int fd = child->streams[number].fd;
    return fd >= 0 && ioctl(fd, FIONREAD, &bytes) == 0 ? (size_t)bytes : 0;
}

bool run_child_is_quiet(const struct run_child *child)
{
    return child->streams[RUN_STDOUT].fd < 0 && child->streams[RUN_STDERR].fd < 0;
}

/* ---- ending -----------------------------------------------------------------------------------*/

bool run_child_has_ended(struct run_child *child, int *out_wait_status)
{
    siginfo_t info = {.si_pid = 0};
    if (child->pid == 0 || child->report >= 0 || child->has_ended ||
        waitid(P_PID, (id_t)child->pid, &info, WEXITED | WNOHANG | WNOWAIT) != 0 ||
        info.si_pid == 0) {
        return false;
    }
    child->has_ended = true;
    switch (info.si_code) {
    case CLD_EXITED: *out_wait_status = W_EXITCODE(info.si_status, 0); break;
    case CLD_DUMPED: *out_wait_status = W_EXITCODE(0, info.si_status) | CORE_FLAG; break;
    default: *out_wait_status = W_EXITCODE(0, info.si_status); break;
    }
    return true;
}

static size_t read_bytes(int fd, char *text, size_t room)
{
    size_t count = 0;
    ssize_t more = 0;
    while (count < room &&
           ((more = read(fd, text + count, room - count)) > 0 || (more < 0 && errno == EINTR))) {
        count += more > 0 ? (size_t)more : 0;
    }
    return count;
}

/* The flags of a process that the kernel takes apart (its PF_EXITING). */
#define FLAG_EXITING 0x4

/* Whether a line of /proc/PID/stat is of a process that runs.  The name in it may have blanks and
 * brackets; the flags are the seventh word behind it, and the state is the first. */
static bool is_of_running(const char *line)
{
    char state = 'Z';
    unsigned flags = 0;
    const char *behind = strrchr(line, ')');
    return behind != NULL &&
           sscanf(behind + 1, " %c %*d %*d %*d %*d %*d %u", &state, &flags) == 2 && state != 'Z' &&
           state != 'X' && (flags & FLAG_EXITING) == 0;
}

void run_child_look(struct run_child *child)
{
    char path[64];
    char line[512];
    if (child->pid == 0 || child->has_ended)
        return;
    int64_t now_ns = wall_ns(); /* before the look */
    (void)snprintf(path, sizeof path, "/proc/%d/stat", (int)child->pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        child->ran_wall_ns = now_ns; /* its parent sees no more of it than that it is there */
        return;
    }
    size_t bytes = read_bytes(fd, line, sizeof line - 1);
    line[bytes] = '\0';
    (void)close(fd);
    if (is_of_running(line)) {
        child->ran_wall_ns = now_ns;
    }
}

void run_child_signal(struct run_child *child, int number)
{
    bool is_passed = number == SIGUSR1 || number == SIGUSR2;
    if (!is_passed && !child->is_asked && !child->has_ended) {
        child->is_asked = true;
        child->has_told = access(child->error_file, F_OK) == 0;
    }
    if (child->pid > 0) {
        (void)kill(-child->pid, number); /* until it is reaped, nobody else gets this number */
    }
    /* A stopped process acts on no signal before SIGCONT. */
    if (child->pid > 0 && number != SIGKILL && !is_passed) {
        (void)kill(-child->pid, SIGCONT);
    }
}

void run_child_reap(struct run_child *child)
{
    for (int i = 0; i < RUN_STREAMS; i++) {
        int fds[] = {child->streams[i].fd, child->streams[i].file};
        close_all(fds, 2);
        child->streams[i].fd = -1;
        child->streams[i].file = -1;
    }
    close_all(&child->report, 1);
    child->report = -1;
    int flags = child->has_ended ? 0 : WNOHANG; /* nobody waits for a process that does not end */
    while (child->pid > 0 && waitpid(child->pid, NULL, flags) < 0 && errno == EINTR) {
    }
    child->pid = 0;
}

/* ---- errors -----------------------------------------------------------------------------------*/

/* Opens the error file for reading; -1: there is none, or problem says why it cannot be used. */
static int open_error_file(const char *path, int64_t *out_written_ns,
                           char problem[CLI_PROBLEM_BYTES_MAX])
{
    struct stat about;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0) {
        if (errno != ENOENT) {
            (void)snprintf(problem, CLI_PROBLEM_BYTES_MAX, "%s", strerror(errno));
        }
        return -1;
    }
    if (fstat(fd, &about) != 0 || !S_ISREG(about.st_mode)) {
        (void)snprintf(problem, CLI_PROBLEM_BYTES_MAX, "it is not a regular file");
        (void)close(fd);
        return -1;
    }
    *out_written_ns = about.st_mtim.tv_sec * SECOND_NS + about.st_mtim.tv_nsec;
    return fd;
}

/* Reads a file whose beginning is text.  It reads the rest piece by piece, and cuts long
 * strings. */
static bool read_long(int fd, const char *text, size_t bytes, struct run_error *out_error,
                      char problem[CLI_PROBLEM_BYTES_MAX])
{
    char piece[READ_BYTES];
    size_t count = 0;
    bool is_torn = false;
    struct run_json *json = run_json_new();
    if (json == NULL) {
        (void)snprintf(problem, CLI_PROBLEM_BYTES_MAX, "no memory");
        return false;
    }
    bool is_wanted = run_json_feed(json, text, bytes);
    for (size_t all = bytes; is_wanted && all < RUN_READ_BYTES_MAX; all += count) {
        count = read_bytes(fd, piece, sizeof piece);
        is_wanted = count > 0 && run_json_feed(json, piece, count);
    }
    const char *saved = run_json_finish(json, &count, &is_torn);
    bool is_read = run_error_of_json(saved, count, is_torn, out_error, problem);
    run_json_free(&json);
    return is_read;
}

/* False: there is no error file, or problem is why it is none. */
static bool read_error(const struct run_child *child, struct run_error *out_error,
                       char problem[CLI_PROBLEM_BYTES_MAX])
{
    int64_t written_ns = 0;
    bool is_read = false;
    int fd = open_error_file(child->error_file, &written_ns, problem);
    if (fd < 0) {
        return false;
    }
    char *text = malloc(RUN_FILE_BYTES_MAX + 1); /* one more, to see that the file is longer */
    if (text == NULL) {
        (void)snprintf(problem, CLI_PROBLEM_BYTES_MAX, "no memory");
    } else {
        size_t bytes = read_bytes(fd, text, RUN_FILE_BYTES_MAX + 1);
        is_read = bytes > RUN_FILE_BYTES_MAX ? read_long(fd, text, bytes, out_error, problem)
                                             : run_error_of_file(text, bytes, out_error, problem);
    }
    free(text);
    (void)close(fd);
    if (is_read) {
        out_error->is_of_file = true;
        run_error_date(out_error, &(struct run_times){.began_ns = child->began_wall_ns,
                                                      .written_ns = written_ns,
                                                      .now_ns = wall_ns()});
    }
    return is_read;
}

bool run_child_told(struct run_child *child, struct run_error *out_error)
{
    char problem[CLI_PROBLEM_BYTES_MAX] = "";
    bool is_due = child->is_asked ? child->has_told : child->began_wall_ns > 0;
    return is_due && read_error(child, out_error, problem);
}

void run_child_error(struct run_child *child, const char *program, bool is_started,
                     int errno_or_status, struct run_error *out_error)
{
    char problem[CLI_PROBLEM_BYTES_MAX] = "";
    struct run_stream *errors = &child->streams[RUN_STDERR];
    if (is_started && read_error(child, out_error, problem)) {
        return;
    }
    struct run_end end = {
        .program = program,
        .start_errno = is_started ? 0 : errno_or_status,
        .wait_status = is_started ? errno_or_status : 0,
        .is_out_of_memory = is_started && run_memory_kills("") > child->kills_before,
        .said_bytes = errors->output.said_bytes,
        .ran_ns = is_started ? child->ran_wall_ns : 0,
        .ended_ns = wall_ns(),
        .problem = problem[0] != '\0' ? problem : NULL,
    };
    end.tail = run_output_tail(&errors->output, &end.tail_bytes);
    *out_error = (struct run_error){.error = run_error_of_end(&end)};
}
