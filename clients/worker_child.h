/* SPDX-License-Identifier: MPL-2.0 */
/* worker_child.h -- one run of a worker's command: a task's value goes in, its output comes out.
 *
 * The command has a process group of its own.  Processes that it started and left behind are killed
 * when it ends. */
#ifndef CLIENTS_WORKER_CHILD_H
#define CLIENTS_WORKER_CHILD_H

#include "clients/run_child.h"
#include "clients/run_error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define WORKER_REPLY_BYTES_MAX ((size_t)64 * 1024 * 1024)
#define WORKER_MERCY_MS 5000 /* from SIGTERM to SIGKILL */

struct worker_child {
    pid_t pid;  /* 0: none runs */
    int pid_fd; /* readable when it has ended; -1: none, the process is polled */
    int input;  /* its standard input; -1: closed, as all of these */
    int output; /* its standard output */
    int errors;
    int report; /* where it says why it could not start */
    const char *value;
    size_t value_bytes; /* not written yet */
    char *reply;
    size_t reply_bytes;
    size_t reply_room;
    bool is_too_long; /* the reply */
    char tail[RUN_SEEN_BYTES_MAX];
    size_t tail_bytes;
    uint64_t said_bytes;
    int start_errno; /* once it has ended: why it did not start; else 0 */
    int wait_status; /* once it has ended */
    int64_t stop_ms; /* when it was asked to end; 0: it was not */
};

void worker_child_init(struct worker_child *child);
/* value is borrowed until the child has ended.  0, or why it cannot be started: an errno. */
int worker_child_start(struct worker_child *child, char *const *command,
                       const struct run_environment *environment, const char *value,
                       size_t value_bytes);

/* Fills polled with the descriptors to poll, and returns how many there are. */
#define WORKER_CHILD_FDS 4
struct pollfd;
size_t worker_child_poll(const struct worker_child *child, struct pollfd *polled);
/* Reads and writes what it can, and passes on its standard error.  True: it has ended, all its
 * output is here, and its processes are gone. */
bool worker_child_tend(struct worker_child *child);
/* Sends SIGTERM the first time, and SIGKILL after WORKER_MERCY_MS.  Call it again until it ends. */
void worker_child_end(struct worker_child *child);
/* How it ended, for run_error_of_end(). */
struct run_end worker_child_how(const struct worker_child *child, const char *program);
/* Frees and closes all; kills it if it runs. */
void worker_child_fini(struct worker_child *child);

#endif
