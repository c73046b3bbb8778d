/* SPDX-License-Identifier: MPL-2.0 */
/* signals.c -- see signals.h. */
#include "broker/io/signals.h"

#include "broker/io/log.h"

#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/signalfd.h>
#include <unistd.h>

static void fill_signals(sigset_t *signals)
{
    sigemptyset(signals);
    sigaddset(signals, SIGTERM);
    sigaddset(signals, SIGINT);
    sigaddset(signals, SIGHUP);
    sigaddset(signals, SIGCHLD);
}

static void end_start(int signal)
{
    (void)signal;
    _exit(EXIT_SUCCESS);
}

/* What SIGTERM and SIGINT do unless they are blocked. */
static void set_end(void (*end)(int))
{
    struct sigaction action = {.sa_handler = end};
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGINT, &action, NULL);
}

void signals_end_start(void)
{
    sigset_t ends;
    signals_wait();
    sigemptyset(&ends);
    sigaddset(&ends, SIGTERM);
    sigaddset(&ends, SIGINT);
    set_end(end_start);
    sigprocmask(SIG_UNBLOCK, &ends, NULL);
}

void signals_wait(void)
{
    sigset_t signals;
    fill_signals(&signals);
    sigprocmask(SIG_BLOCK, &signals, NULL);
    set_end(SIG_DFL);
}

int signals_open(void)
{
    sigset_t signals;
    fill_signals(&signals);
    return signalfd(-1, &signals, SFD_NONBLOCK | SFD_CLOEXEC);
}

void signals_release(int fd)
{
    sigset_t signals;
    if (fd >= 0)
        close(fd);
    fill_signals(&signals);
    sigprocmask(SIG_UNBLOCK, &signals, NULL);
}

void signals_log_stop(const struct signalfd_siginfo *info)
{
    const char *name = info->ssi_signo == SIGINT ? "SIGINT" : "SIGTERM";
    if (info->ssi_code == SI_USER)
        log_line(LOG_INFO, "stopping: %s from process %u of user %u", name, info->ssi_pid,
                 info->ssi_uid);
    else
        log_line(LOG_INFO, "stopping: %s", name);
}
