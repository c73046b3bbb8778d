/* SPDX-License-Identifier: MPL-2.0 */
/* cli_waiting.c -- tells people that a program waits for a broker, while it waits. */
#include "clients/cli.h"

#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

enum { TOLD_AFTER_S = 1 };

/* There is one, because a program opens one thing at a time. */
static struct {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t ended;
    const char *program;
    const char *server;
    bool has_thread;
    bool is_ended;
    bool is_told; /* once is enough */
} waiting = {.lock = PTHREAD_MUTEX_INITIALIZER};

static const char *server_of(const struct cli *cli)
{
    const char *server = cli->server != NULL ? cli->server : getenv("ERRBUS_SERVER");
    return server != NULL && server[0] != '\0' ? server : BUS_SERVER_DEFAULT;
}

static void *tell_late(void *arg)
{
    struct timespec until;
    int result = 0;
    (void)arg; /* there is one */
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += TOLD_AFTER_S;
    pthread_mutex_lock(&waiting.lock);
    while (!waiting.is_ended && result == 0) {
        result = pthread_cond_timedwait(&waiting.ended, &waiting.lock, &until);
    }
    if (!waiting.is_ended) {
        waiting.is_told = true;
        fprintf(stderr, "%s: waiting for a broker at %s ...\n", waiting.program, waiting.server);
    }
    pthread_mutex_unlock(&waiting.lock);
    return NULL;
}

/* The new thread takes no signals. */
static bool start_thread(void)
{
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    bool is_started = pthread_create(&waiting.thread, NULL, tell_late, NULL) == 0;
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return is_started;
}

void cli_waiting_begin(const struct cli *cli)
{
    pthread_condattr_t attributes;
    if (waiting.has_thread || waiting.is_told || pthread_condattr_init(&attributes) != 0) {
        return; /* then nobody is told */
    }
    waiting.program = cli->program;
    waiting.server = server_of(cli);
    waiting.is_ended = false;
    if (pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC) == 0 &&
        pthread_cond_init(&waiting.ended, &attributes) == 0) {
        waiting.has_thread = start_thread();
        if (!waiting.has_thread) {
            pthread_cond_destroy(&waiting.ended);
        }
    }
    pthread_condattr_destroy(&attributes);
}

void cli_waiting_end(void)
{
    if (!waiting.has_thread) {
        return;
    }
    pthread_mutex_lock(&waiting.lock);
    waiting.is_ended = true;
    pthread_cond_signal(&waiting.ended);
    pthread_mutex_unlock(&waiting.lock);
    pthread_join(waiting.thread, NULL);
    pthread_cond_destroy(&waiting.ended);
    waiting.has_thread = false;
}

void *cli_doubt_arg(const struct cli *cli)
{
    return (void *)(uintptr_t)cli->program; /* it is only read */
}

void cli_tell_doubt(const char *what, void *arg)
{
    flockfile(stderr);
    fprintf(stderr, "%s: ", (const char *)arg);
    cli_print_text(stderr, what, "");
    fputs("; waiting on ...\n", stderr);
    funlockfile(stderr);
}
