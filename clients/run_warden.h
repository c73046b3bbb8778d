/* SPDX-License-Identifier: MPL-2.0 */
/* run_warden.h -- sees to it that no program outlives errbus run, however that ends.
 *
 * The warden is a process of its own, in a session of its own, which knows the process groups that
 * run at the moment and waits at a pipe for its parent's end.  If the parent ends with groups
 * left, even by SIGKILL, it kills them.  The kernel does that for a program itself
 * (PR_SET_PDEATHSIG), but not for what the program has started. */
#ifndef CLIENTS_RUN_WARDEN_H
#define CLIENTS_RUN_WARDEN_H

#include <stdbool.h>
#include <sys/types.h>

struct run_warden {
    pid_t pid;
    int pipe; /* the end that we write to */
};

/* Forks; before this process has threads.  False, with errno. */
bool run_warden_start(struct run_warden *warden);

/* A process group begins or ends. */
void run_warden_add(struct run_warden *warden, pid_t group);
void run_warden_remove(struct run_warden *warden, pid_t group);

/* Nothing runs any more: ends it. */
void run_warden_stop(struct run_warden *warden);

#endif
