/* SPDX-License-Identifier: MPL-2.0 */
/* cli_notices.c -- prints what the bus lets a program know, while the program waits elsewhere. */
#include "clients/cli.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

/* One program has one bus at a time. */
static struct {
    pthread_t thread;
    struct bus *bus;
    const char *program;
    bool has_thread;
} notices;

void cli_print_notice(FILE *file, const char *program, const struct bus_error *notice)
{
    flockfile(file);
    fprintf(file, "%s: ", program);
    cli_print_text(file, bus_error_message(notice), "");
    fputc('\n', file);
    funlockfile(file);
}

static void *print_all(void *arg)
{
    struct bus_error *notice = NULL;
    (void)arg; /* there is one */
    while (bus_notice(notices.bus, BUS_FOREVER, &notice) == BUS_OK) {
        cli_print_notice(stderr, notices.program, notice);
        bus_error_unref(&notice);
    }
    return NULL;
}

static bool is_of_environment(const char *given, const char *variable)
{
    const char *value = getenv(variable);
    return given == NULL || (value != NULL && strcmp(given, value) == 0);
}

/* Whether a guard started us as its party: then the guard prints it. */
static bool has_guard(const struct cli *cli)
{
    const char *token = getenv("ERRBUS_TOKEN");
    return token != NULL && token[0] != '\0' && is_of_environment(cli->party, "ERRBUS_PARTY") &&
           is_of_environment(cli->job, "ERRBUS_JOB");
}

void cli_notices_begin(const struct cli *cli)
{
    sigset_t all;
    sigset_t before;
    if (has_guard(cli)) {
        return;
    }
    notices.bus = cli->bus;
    notices.program = cli->program;
    sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before); /* signals stay with who had them */
    notices.has_thread = pthread_create(&notices.thread, NULL, print_all, NULL) == 0;
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
}

void cli_notices_end(void)
{
    if (!notices.has_thread) {
        return;
    }
    bus_stop(notices.bus);
    (void)pthread_join(notices.thread, NULL);
    notices.has_thread = false;
}
