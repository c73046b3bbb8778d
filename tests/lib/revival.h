/* SPDX-License-Identifier: MPL-2.0 */
/* revival.h -- a stage whose broker can be killed and started again: it has its endpoints and its
 * journal in a folder of its own.  As expect.h, from the test's own thread alone. */
#ifndef TESTS_LIB_REVIVAL_H
#define TESTS_LIB_REVIVAL_H

#include "tests/lib/expect.h"

#define REVIVAL_PATH_BYTES (FOLDER_PATH_BYTES_MAX + 16)

struct revival {
    struct folder folder;
    char control[REVIVAL_PATH_BYTES]; /* endpoints, the same after each start */
    char data[REVIVAL_PATH_BYTES];
    char journal[2 * REVIVAL_PATH_BYTES]; /* the directory, or a store */
};

/* The one of the running test; test files name these functions as init and fini. */
extern struct revival revival;
/* The folder and the names; no broker yet. */
void revival_open(void);
/* The same, and its broker, with durability process. */
void revival_begin(void);
void revival_close(void);
/* Starts the stage's broker over the journal; more: other options, NULL at their end, or NULL. */
void revival_start(const char *durability, const char *const *more);
/* The same with the broker that dies where it is told to (broker/io/failpoint.h), by this
 * environment.  False: it did so before it was ready. */
bool revival_start_failing(const char *durability, const char *const *environment,
                           const char *const *more);
/* A party that waits while the broker is away. */
struct bus *revival_open_patient(const char *party);
/* SIGKILL, and the stage is empty. */
void revival_kill(void);

#endif
