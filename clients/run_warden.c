/* SPDX-License-Identifier: MPL-2.0 */
/* run_warden.c -- waits at a pipe, and kills what is left when nobody holds its other end. */
#include "clients/run_warden.h"

#include "clients/run_core.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* The pipe carries the number of a group that begins, or the negative number of a group that ends.
 * Each is written whole, because it is shorter than PIPE_BUF. */

static void note(pid_t *groups, pid_t word)
{
    for (size_t i = 0; i < RUN_COPIES_MAX; i++) {
        if (word > 0 && groups[i] == 0) {
            groups[i] = word;
            return;
        }
        if (word < 0 && groups[i] == -word) {
            groups[i] = 0;
            return;
        }
    }
}

/* Closes all descriptors that the warden inherited: nobody shall wait for a stream because it holds
 * one. */
static void let_go(int pipe)
{
    int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        (void)dup2(nothing, fd); /* on failure the stream stays open as long as the parent lives */
    }
    int kept = dup2(pipe, STDERR_FILENO + 1);
    (void)close_range((unsigned)kept + 1, ~0U, 0); /* a failure has the same effect */
}

_Noreturn static void watch(int pipe)
{
    pid_t groups[RUN_COPIES_MAX] = {0};
    pid_t word = 0;
    ssize_t count;
    (void)setsid(); /* cannot fail: a new child leads no group */
    (void)prctl(PR_SET_NAME, "errbus-warden");
    let_go(pipe);
    pipe = STDERR_FILENO + 1;
    while ((count = read(pipe, &word, sizeof word)) > 0 || (count < 0 && errno == EINTR)) {
        if (count == (ssize_t)sizeof word) {
            note(groups, word);
        }
    }
    for (size_t i = 0; i < RUN_COPIES_MAX; i++) {
        if (groups[i] > 0) {
            (void)kill(-groups[i], SIGKILL); /* it may be gone already */
        }
    }
    _exit(0);
}

bool run_warden_start(struct run_warden *warden)
{
    int ends[2];
    sigset_t all;
    sigset_t before;
    if (pipe2(ends, O_CLOEXEC) != 0) {
        return false;
    }
    sigfillset(&all);
    (void)sigprocmask(SIG_SETMASK, &all, &before); /* signals are for the parent */
    warden->pid = fork();
    if (warden->pid == 0) {
        (void)close(ends[1]);
        watch(ends[0]);
    }
    int reason = errno;
    (void)sigprocmask(SIG_SETMASK, &before, NULL);
    (void)close(ends[0]);
    if (warden->pid < 0) {
        (void)close(ends[1]);
        errno = reason;
        return false;
    }
    warden->pipe = ends[1];
    return true;
}

/* Tells the warden.  If somebody killed it, the write fails without a signal: SIGPIPE is
 * ignored. */
static void tell(struct run_warden *warden, pid_t word)
{
    ssize_t written = write(warden->pipe, &word, sizeof word);
    (void)written;
}

void run_warden_add(struct run_warden *warden, pid_t group)
{
    tell(warden, group);
}

void run_warden_remove(struct run_warden *warden, pid_t group)
{
    tell(warden, -group);
}

void run_warden_stop(struct run_warden *warden)
{
    (void)close(warden->pipe);
    while (waitpid(warden->pid, NULL, 0) < 0 && errno == EINTR) {
    }
    *warden = (struct run_warden){.pipe = -1};
}
