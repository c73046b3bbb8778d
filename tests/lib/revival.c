/* SPDX-License-Identifier: MPL-2.0 */
/* revival.c -- see revival.h. */
#include "tests/lib/revival.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>

enum { OPTIONS_MAX = 32 };

struct revival revival;

void revival_open(void)
{
    cr_assert(folder_make(&revival.folder));
    const char *path = revival.folder.path;
    snprintf(revival.control, sizeof revival.control, "ipc://%s/control", path);
    snprintf(revival.data, sizeof revival.data, "ipc://%s/data", path);
    snprintf(revival.journal, sizeof revival.journal, "%s/journal", path);
}

void revival_begin(void)
{
    revival_open();
    revival_start("process", NULL);
}

void revival_close(void)
{
    stage_close();
    folder_fini(&revival.folder);
}

void revival_start(const char *durability, const char *const *more)
{
    const char *options[OPTIONS_MAX] = {"--control", revival.control, "--data",       revival.data,
                                        "--journal", revival.journal, "--durability", durability};
    size_t count = 8;
    for (size_t i = 0; more != NULL && more[i] != NULL; i++) {
        cr_assert_lt(count + 1, OPTIONS_MAX);
        options[count++] = more[i];
    }
    stage_open_with(options);
}

bool revival_start_failing(const char *durability, const char *const *environment)
{
    /* Little is kept for who comes late, so that the journal has something to let go. */
    const char *const argv[] = {
        "errbusd_failpoints", "--control",    revival.control, "--data",
        revival.data,         "--journal",    revival.journal, "--durability",
        durability,           "--topic-keep", "150000",        NULL};
    const char *line = NULL;
    cr_assert(process_start(&stage.process, argv, environment));
    snprintf(stage.control, sizeof stage.control, "%s", revival.control);
    return process_line(&stage.process, SOON_MS, &line);
}

struct bus_options revival_patient(const char *party)
{
    struct bus_options options;
    bus_options_init(&options);
    options.party = party;
    options.heartbeat_ms = 100;
    options.broker_lost_ms = SOON_MS;
    options.send_timeout_ms = SOON_MS;
    return options;
}

struct bus *revival_open_patient(const char *party)
{
    struct bus_options options = revival_patient(party);
    return must_open_with(&options);
}

void revival_kill(void)
{
    process_signal(&stage.process, SIGKILL);
    cr_assert_eq(process_wait(&stage.process, SOON_MS), 128 + SIGKILL);
    stage_close();
}
