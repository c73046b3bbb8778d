/* SPDX-License-Identifier: MPL-2.0 */
/* broker.c -- a real errbusd on free ports. */
#include "tests/lib/broker.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ARGUMENTS_MAX 40
#define READY_WITHIN_MS 20000

/* "errbusd ready control=ENDPOINT data=ENDPOINT" */
static bool read_ready_line(struct broker *broker, const char *line)
{
    return sscanf(line, "errbusd ready control=%255s data=%255s", broker->control, broker->data) ==
           2;
}

static bool is_among(const char *const *more, const char *option)
{
    for (size_t i = 0; more != NULL && more[i] != NULL; i++) {
        if (strcmp(more[i], option) == 0) {
            return true;
        }
    }
    return false;
}

bool broker_start(struct broker *broker, const char *const *more)
{
    const char *journal = getenv("ERRBUS_TEST_JOURNAL");
    bool is_chosen = journal != NULL && journal[0] != '\0' && !is_among(more, "--journal");
    const char *const own[][2] = {{"--control", "tcp://127.0.0.1:*"},
                                  {"--data", "tcp://127.0.0.1:*"},
                                  {"--journal", is_chosen ? journal : "none"}};
    const char *argv[ARGUMENTS_MAX] = {is_chosen ? "errbusd_failpoints" : "errbusd"};
    size_t count = 1;
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++) {
        if (!is_among(more, own[i][0])) {
            argv[count++] = own[i][0];
            argv[count++] = own[i][1];
        }
    }
    for (size_t i = 0; more != NULL && more[i] != NULL && count + 1 < ARGUMENTS_MAX; i++) {
        argv[count++] = more[i];
    }
    memset(broker, 0, sizeof *broker);
    const char *line = NULL;
    return process_start(&broker->process, argv, NULL) &&
           process_line(&broker->process, READY_WITHIN_MS, &line) && read_ready_line(broker, line);
}

int broker_stop(struct broker *broker, int64_t timeout_ms)
{
    process_signal(&broker->process, SIGTERM);
    return process_wait(&broker->process, timeout_ms);
}

void broker_fini(struct broker *broker)
{
    process_fini(&broker->process);
}
