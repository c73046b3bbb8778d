/* SPDX-License-Identifier: MPL-2.0 */
/* worker_child.h -- one run of a worker's command: a task's value in, what it says out.
 *
 * It has a process group of its own, which is gone with it: what it started and left behind is
 * killed. */
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
    int pid_fd; /* readable when it has ended; -1: it cannot be had, and is looked for */
    int input;  /* its standard input; -1: closed, as all of these */
    int output; /* what it says */
    int errors;
    int report; /* why it could not become the program */
    const char *value;
    size_t value_bytes; /* not written yet */
    char *reply;
    size_t reply_bytes;
    size_t reply_room;
    bool is_too_long; /* the reply */
    char tail[RUN_SEEN_BYTES_MAX];
    size_t tail_bytes;
    uint64_t said_bytes;
    int start_errno; /* once it has ended: why it never became the program; else 0 */
    int wait_status; /* once it has ended */
    int64_t stop_ms; /* when it was asked to end; 0: it was not */
};

void worker_child_init(struct worker_child *child);
/* value is borrowed until the child has ended.  0, or why it cannot be started: an errno. */
int worker_child_start(struct worker_child *child, char *const *command,
                       const struct run_environment *environment, const char *value,
                       size_t value_bytes);

/* What a poll() is to wait for; count of them are appended to polled, which has room for them. */
#define WORKER_CHILD_FDS 4
struct pollfd;
size_t worker_child_poll(const struct worker_child *child, struct pollfd *polled);
/* Reads and writes what it can, and passes on its standard error.  True: it has ended, all that it
 * said is here, and nothing of it is left. */
bool worker_child_tend(struct worker_child *child);
/* SIGTERM the first time, SIGKILL when it was shown mercy; said again and again until it ends. */
void worker_child_end(struct worker_child *child);
/* Its end, for run_error_of_end(). */
struct run_end worker_child_how(const struct worker_child *child, const char *program);
/* Frees and closes all; kills it if it runs. */
void worker_child_fini(struct worker_child *child);

#endif
