/* SPDX-License-Identifier: MPL-2.0 */
/* web_child.c -- see web_child.h. */
#include "broker/io/web_child.h"

#include "broker/io/endpoint.h"
#include "broker/io/log.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <zmq.h>

#define NS_PER_MS INT64_C(1000000)
#define PAUSE_MS INT64_C(1000)
#define PAUSE_MAX_MS INT64_C(60000)
#define PROGRAM "errbus-web"
#define KEY_PATH "/proc/self/fd/3"

enum {
    Z85_BYTES = 41,
    KEY_FD = 3,
    PIPES = 1 + WEB_CHILD_STREAMS, /* its standard streams */
    EXIT_USAGE = 2,
    ARGUMENTS_MAX = 12,
    CLOSE_LOOKS = 100,
    CLOSE_LOOK_MS = 10
};

extern char **environ;

/* ---- opening --------------------------------------------------------------------------------- */

/* Beside this program, or where programs of users lie if this one lies elsewhere; or in the folder
 * of a build. */
static bool find_program(char program[PATH_MAX])
{
    static const char *const places[] = {"", "../bin/", "../clients/"};
    char own[PATH_MAX];
    ssize_t bytes = readlink("/proc/self/exe", own, sizeof own - 1);
    own[bytes > 0 ? bytes : 0] = '\0';
    char *slash = strrchr(own, '/');
    if (slash == NULL)
        return false;
    slash[1] = '\0';
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++)
        if (snprintf(program, PATH_MAX, "%s%s" PROGRAM, own, places[i]) < PATH_MAX &&
            access(program, X_OK) == 0)
            return true;
    return false;
}

/* As a file of errbus key, which only its owner reads, in memory. */
static bool draw_key(struct web_child *child)
{
    char z85_public[Z85_BYTES], z85_secret[Z85_BYTES];
    uint8_t public_key[KEY_BYTES], secret_key[KEY_BYTES];
    char secret_text[KEY_TEXT_BYTES + 1];
    char text[2 * KEY_TEXT_BYTES + 32];
    if (zmq_curve_keypair(z85_public, z85_secret) != 0 ||
        zmq_z85_decode(public_key, z85_public) == NULL ||
        zmq_z85_decode(secret_key, z85_secret) == NULL)
        return false;
    key_text_write(public_key, KEY_PUBLIC, child->key);
    key_text_write(secret_key, KEY_SECRET, secret_text);
    int bytes = snprintf(text, sizeof text, "public %s\nsecret %s\n", child->key, secret_text);
    child->key_fd = memfd_create("errbus-web.key", MFD_CLOEXEC);
    bool is_made = child->key_fd >= 0 && fchmod(child->key_fd, S_IRUSR) == 0 &&
                   write(child->key_fd, text, (size_t)bytes) == bytes;
    explicit_bzero(z85_secret, sizeof z85_secret);
    explicit_bzero(secret_key, sizeof secret_key);
    explicit_bzero(secret_text, sizeof secret_text);
    explicit_bzero(text, sizeof text);
    snprintf(child->rules, sizeof child->rules,
             "key " WEB_CHILD_NAME " %s\nallow " WEB_CHILD_NAME " tap status in *\n", child->key);
    return is_made;
}

bool web_child_may_listen(const char *address, const char *token_path,
                          char complaint[WEB_CHILD_COMPLAINT_BYTES])
{
    char endpoint[LIMIT_ENDPOINT_BYTES];
    snprintf(endpoint, sizeof endpoint, "tcp://%.200s", address);
    if (*token_path != '\0' || strchr(address, ':') == NULL || endpoint_wish_is_local(endpoint))
        return true;
    snprintf(complaint, WEB_CHILD_COMPLAINT_BYTES,
             "--web %.200s can be reached from other machines: name a file with --web-token "
             "FILE ('openssl rand -hex 32' makes a token), or listen at 127.0.0.1",
             address);
    return false;
}

bool web_child_open(struct web_child *child, const char *address, const char *token_path,
                    bool has_keys, char complaint[WEB_CHILD_COMPLAINT_BYTES])
{
    *child = (struct web_child){.address = address,
                                .token_path = token_path,
                                .key_fd = -1,
                                .input = -1,
                                .due_ns = INT64_MAX};
    child_lines_init(&child->said[0], PROGRAM, LOG_INFO);
    child_lines_init(&child->said[1], PROGRAM, LOG_WARNING);
    if (*address == '\0')
        return true;
    if (!find_program(child->program)) {
        snprintf(complaint, WEB_CHILD_COMPLAINT_BYTES,
                 "--web needs the program " PROGRAM ", which is not beside this one: install it "
                 "(built from source it needs libmicrohttpd), or remove --web");
        return false;
    }
    if (has_keys && !draw_key(child)) {
        snprintf(complaint, WEB_CHILD_COMPLAINT_BYTES, "--web: cannot make a key: %s",
                 strerror(errno));
        return false;
    }
    return true;
}

/* An address of all interfaces is reached by that of this machine. */
static const char *reachable_host(const char *control, const char **out_rest)
{
    static const struct {
        const char *all;
        const char *own;
    } hosts[] = {{"tcp://0.0.0.0:", "127.0.0.1:"}, {"tcp://[::]:", "[::1]:"}};
    for (size_t i = 0; i < sizeof hosts / sizeof hosts[0]; i++) {
        size_t bytes = strlen(hosts[i].all);
        if (strncmp(control, hosts[i].all, bytes) == 0) {
            *out_rest = control + bytes;
            return hosts[i].own;
        }
    }
    *out_rest = control + strlen("tcp://");
    return "";
}

void web_child_begin(struct web_child *child, const char *control, const char *broker_key,
                     int64_t now_ns)
{
    const char *rest = NULL;
    if (*child->address == '\0')
        return;
    if (strncmp(control, "tcp://", 6) == 0) {
        const char *host = reachable_host(control, &rest);
        snprintf(child->server, sizeof child->server, "tcp://%s%s%s%s", broker_key,
                 *broker_key != '\0' ? "@" : "", host, rest);
    } else {
        snprintf(child->server, sizeof child->server, "%s", control);
    }
    child->pause_ns = PAUSE_MS * NS_PER_MS;
    child->due_ns = now_ns;
}

/* ---- running --------------------------------------------------------------------------------- */

/* ends: of the pipes that become its standard input, output and error. */
static int spawn(struct web_child *child, const int ends[PIPES], char *const *arguments)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t none, pipes;
    sigemptyset(&none);
    sigemptyset(&pipes);
    sigaddset(&pipes, SIGPIPE);
    if (posix_spawn_file_actions_init(&actions) != 0 || posix_spawnattr_init(&attributes) != 0)
        return ENOMEM;
    int fault = 0;
    for (int i = 0; i < PIPES && fault == 0; i++)
        fault = posix_spawn_file_actions_adddup2(&actions, ends[i], i);
    if (fault == 0 && child->key_fd >= 0)
        fault = posix_spawn_file_actions_adddup2(&actions, child->key_fd, KEY_FD);
    if (fault == 0)
        fault = posix_spawnattr_setsigmask(&attributes, &none);
    if (fault == 0)
        fault = posix_spawnattr_setsigdefault(&attributes, &pipes);
    if (fault == 0)
        fault =
            posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    if (fault == 0)
        fault = posix_spawn(&child->pid, child->program, &actions, &attributes, arguments, environ);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    return fault;
}

static int start(struct web_child *child)
{
    int input[2];
    int ends[PIPES] = {-1, -1, -1};
    const char *arguments[ARGUMENTS_MAX] = {PROGRAM,       "--until-eof", "--server",
                                            child->server, "--listen",    child->address};
    unsigned count = 6;
    if (*child->token_path != '\0') {
        arguments[count++] = "--token";
        arguments[count++] = child->token_path;
    }
    if (child->key_fd >= 0) {
        arguments[count++] = "--key";
        arguments[count++] = KEY_PATH;
    }
    if (pipe2(input, O_CLOEXEC) != 0)
        return errno;
    ends[STDIN_FILENO] = input[0];
    int fault = 0;
    for (int i = 0; i < WEB_CHILD_STREAMS && fault == 0; i++)
        fault = child_lines_open(&child->said[i], &ends[i + 1]);
    if (fault == 0)
        fault = spawn(child, ends, (char *const *)(uintptr_t)arguments);
    for (int i = 0; i < PIPES; i++)
        if (ends[i] >= 0)
            close(ends[i]);
    if (fault == 0)
        child->input = input[1];
    else
        close(input[1]);
    return fault;
}

/* The pause doubles, unless it ran for long. */
static void start_later(struct web_child *child, int64_t now_ns)
{
    int64_t most_ns = PAUSE_MAX_MS * NS_PER_MS;
    if (now_ns - child->started_ns >= most_ns)
        child->pause_ns = PAUSE_MS * NS_PER_MS;
    child->due_ns = now_ns + child->pause_ns;
    child->pause_ns = 2 * child->pause_ns < most_ns ? 2 * child->pause_ns : most_ns;
}

static void end_lines(struct web_child *child)
{
    for (int i = 0; i < WEB_CHILD_STREAMS; i++)
        child_lines_close(&child->said[i]);
}

void web_child_start(struct web_child *child, int64_t now_ns)
{
    if (now_ns < child->due_ns)
        return;
    child->started_ns = now_ns;
    child->due_ns = INT64_MAX;
    int fault = start(child);
    if (fault != 0) {
        child->pid = 0;
        end_lines(child);
        start_later(child, now_ns);
        log_line(LOG_WARNING, "web: cannot start %.300s: %s", child->program, strerror(fault));
    }
}

void web_child_watch(const struct web_child *child, struct pollfd items[WEB_CHILD_STREAMS])
{
    for (int i = 0; i < WEB_CHILD_STREAMS; i++)
        items[i] = (struct pollfd){.fd = child->said[i].fd, .events = POLLIN};
}

void web_child_hear(struct web_child *child, const struct pollfd items[WEB_CHILD_STREAMS])
{
    for (int i = 0; i < WEB_CHILD_STREAMS; i++)
        if (items[i].revents != 0)
            child_lines_read(&child->said[i]);
}

static void close_input(struct web_child *child)
{
    if (child->input >= 0)
        close(child->input);
    child->input = -1;
}

void web_child_reap(struct web_child *child, int64_t now_ns)
{
    int status = 0;
    if (child->pid == 0 || waitpid(child->pid, &status, WNOHANG) != child->pid)
        return;
    child->pid = 0;
    end_lines(child);
    if (child->input < 0)
        return; /* it was let go */
    close_input(child);
    if (WIFEXITED(status) && WEXITSTATUS(status) == EXIT_USAGE) {
        log_line(LOG_WARNING, "web: " PROGRAM " was started wrongly, as it says, and stays away");
        return;
    }
    start_later(child, now_ns);
    log_line(LOG_WARNING, "web: " PROGRAM " ended with %s %d, and starts again in %lld ms",
             WIFSIGNALED(status) ? "signal" : "status",
             WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status),
             (long long)((child->due_ns - now_ns) / NS_PER_MS));
}

void web_child_end(struct web_child *child)
{
    child->due_ns = INT64_MAX;
    if (child->pid != 0)
        close_input(child); /* the end of its input ends it */
}

void web_child_close(struct web_child *child)
{
    const struct timespec moment = {.tv_nsec = CLOSE_LOOK_MS * NS_PER_MS};
    pid_t pid = child->pid;
    bool is_over = pid == 0;
    if (child->address == NULL)
        return; /* it was never opened */
    web_child_end(child);
    for (int i = 0; i < CLOSE_LOOKS && !is_over; i++) {
        is_over = waitpid(pid, NULL, WNOHANG) != 0;
        if (!is_over)
            (void)nanosleep(&moment, NULL); /* a signal makes it shorter */
    }
    if (!is_over) {
        (void)kill(pid, SIGKILL);
        (void)waitpid(pid, NULL, 0);
    }
    child->pid = 0;
    end_lines(child);
    if (child->key_fd >= 0)
        close(child->key_fd);
    child->key_fd = -1;
}
