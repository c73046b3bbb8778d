/* SPDX-License-Identifier: MPL-2.0 */
/* revival.c -- see revival.h. */
#include "tests/lib/revival.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

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

/* Fills argv with the options of the broker, and those in more. */
static void make_options(const char **argv, const char *durability, const char *const *more)
{
    const char *const usual[] = {"--control", revival.control, "--data",       revival.data,
                                 "--journal", revival.journal, "--durability", durability};
    size_t count = sizeof usual / sizeof usual[0];
    memcpy(argv, usual, sizeof usual);
    for (size_t i = 0; more != NULL && more[i] != NULL; i++) {
        cr_assert_lt(count + 1, OPTIONS_MAX);
        argv[count++] = more[i];
    }
}

void revival_start(const char *durability, const char *const *more)
{
    const char *options[OPTIONS_MAX] = {NULL};
    make_options(options, durability, more);
    stage_open_with(options);
}

bool revival_start_failing(const char *durability, const char *const *environment,
                           const char *const *more)
{
    /* Little is kept for who comes late, so that the journal has something to let go. */
    const char *argv[3 + OPTIONS_MAX] = {"errbusd_failpoints", "--topic-keep", "150000"};
    const char *line = NULL;
    make_options(argv + 3, durability, more);
    cr_assert(process_start(&stage.process, argv, environment));
    snprintf(stage.control, sizeof stage.control, "%s", revival.control);
    return process_line(&stage.process, SOON_MS, &line);
}

struct bus *revival_open_patient(const char *party)
{
    struct bus_options options = patient_options(party);
    return must_open_with(&options);
}

void revival_kill(void)
{
    process_signal(&stage.process, SIGKILL);
    cr_assert_eq(process_wait(&stage.process, SOON_MS), 128 + SIGKILL);
    stage_close();
}
