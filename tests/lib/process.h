/* SPDX-License-Identifier: MPL-2.0 */
/* process.h -- programs as children: started, spoken to, listened to, and never left behind.
 *
 * A child is killed when the process that started it ends, however that comes about; start one from
 * the main thread alone, for the kernel ties this to the thread.  Nothing here knows Criterion. */
#ifndef TESTS_LIB_PROCESS_H
#define TESTS_LIB_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Monotonic. */
int64_t test_now_ms(void);
int64_t test_now_ns(void);
/* Of memory that a process has in use; -1: it is gone. */
int64_t test_resident_kib(pid_t pid);
/* Of this process: each connection of the library has some.  0: it cannot be told. */
unsigned test_thread_count(void);

struct process_text {
    char *bytes; /* NUL behind count; NULL: nothing came yet */
    size_t count;
    size_t read; /* lines before this were given out */
};

struct process {
    pid_t pid; /* 0: none, or reaped */
    int pid_fd;
    int input; /* our end of its standard input; -1: closed */
    int output;
    int errors;
    struct process_text said;       /* on standard output */
    struct process_text complained; /* on standard error */
    int result;                     /* once reaped: exit code, or 128 + signal */
};

/* Looks up once where this program lies.  Call it before leaving the mount namespace: in a chroot
 * the system cannot tell it afterwards. */
void process_remember_own_path(void);
/* Where the program of this name was built: $ERRBUSD for "errbusd" and so on, else beside us. */
const char *process_path(const char *program, char *path, size_t bytes);

/* argv[0] is a name for process_path(), or a path.  environment: "NAME=value" entries that replace
 * ours, NULL at the end; NULL: none. */
bool process_start(struct process *process, const char *const *argv,
                   const char *const *environment);

bool process_say(struct process *process, const void *bytes, size_t count);
void process_say_end(struct process *process); /* closes its standard input */

/* The next line of its standard output, without the newline; false: none within timeout_ms, or the
 * end.  The line is good until the next call. */
bool process_line(struct process *process, int64_t timeout_ms, const char **out_line);
/* The same, on standard error. */
bool process_complaint(struct process *process, int64_t timeout_ms, const char **out_line);

/* Where the signal is SIGSTOP, the process stands still on return. */
void process_signal(struct process *process, int number);

/* Reads all it says until it ends.  Exit code, 128 + signal, or -1: it did not end within
 * timeout_ms. */
int process_wait(struct process *process, int64_t timeout_ms);

const char *process_said(const struct process *process);       /* everything, never NULL */
const char *process_complained(const struct process *process); /* the same of standard error */
/* Without the line that it waits for a broker, which it says on a busy machine. */
const char *process_complained_of(const struct process *process);

/* From a signal handler: from now on nobody waits for a process any more; each wait ends as if its
 * time were over.  number: of the signal, which process_stopped_by() tells; 0: none came. */
void process_stop(int number);
int process_stopped_by(void);

/* Kills it if it still runs, reaps it, frees all.  Takes a zeroed struct too. */
void process_fini(struct process *process);

#endif
