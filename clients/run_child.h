/* SPDX-License-Identifier: MPL-2.0 */
/* run_child.h -- one copy of the program: its process, its output, its files. */
#ifndef CLIENTS_RUN_CHILD_H
#define CLIENTS_RUN_CHILD_H

#include "clients/run_error.h"
#include "clients/run_output.h"

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define RUN_PATH_BYTES_MAX 4096

enum run_stream_number { RUN_STDOUT, RUN_STDERR, RUN_STREAMS };

struct run_stream {
    int fd;          /* its output; -1: nobody can write to it any more */
    int file;        /* the file with all of it; -1: writing failed */
    int file_errno;  /* why */
    uint64_t unkept; /* bytes that are not in the file */
    struct run_output output;
    char waiting[RUN_WAITING_BYTES_MAX];
};

struct run_child {
    pid_t pid;  /* also of its process group; 0: there is none */
    int report; /* where it says why it could not start the program; -1: that is known */
    bool has_ended;
    bool is_asked;                      /* to end, before it ended by itself */
    bool has_told;                      /* ... and its error file was there by then */
    int64_t began_wall_ns;              /* when it was started */
    int64_t ran_wall_ns;                /* when it was last seen to run */
    enum run_stream_number last_stream; /* on which it wrote last */
    uint64_t kills_before;              /* memory kills in its control group, until it started */
    char folder[RUN_PATH_BYTES_MAX];
    char error_file[RUN_PATH_BYTES_MAX + 16];
    struct run_stream streams[RUN_STREAMS];
};

/* Names and values for the environment of a program. */
#define RUN_VARIABLES_MAX 32
#define RUN_VARIABLE_BYTES_MAX 1024
struct run_environment {
    char texts[RUN_VARIABLES_MAX][RUN_VARIABLE_BYTES_MAX]; /* "NAME=value" */
    unsigned count;
};
void run_environment_set(struct run_environment *environment, const char *name, const char *format,
                         ...) BUS_PRINTF(3, 4);
/* The environment of this process, in which environment replaces or adds names; NULL: no memory.
 * The caller frees the array alone. */
char **run_environment_make(const struct run_environment *environment);

void run_child_init(struct run_child *child);

/* Makes folder with the files in it, empty.  0, or an errno. */
int run_child_make_files(struct run_child *child, const char *folder);

struct run_start {
    char *const *command;
    const struct run_environment *environment;
    bool has_input;       /* it reads what we would read; else /dev/null */
    const sigset_t *mask; /* the signals to block in it */
};
/* Starts the program in a process group of its own.  The kernel kills it when the calling thread
 * ends. 0: it is about to start, and child->report becomes readable when run_child_hear() can tell
 * how that went.  Otherwise why it did not start: an errno. */
int run_child_start(struct run_child *child, const struct run_start *start);
/* Whether it is known how the start went: *out_reason is 0, or an errno.  A program that did not
 * start is reaped. */
bool run_child_hear(struct run_child *child, int *out_reason);

/* Whether it has ended, and how; call it once it is known to have started.  The process is not
 * reaped, so nobody else gets the number of its group. */
bool run_child_has_ended(struct run_child *child, int *out_wait_status);

/* Notes that it runs now, unless it has ended or is about to: the kernel closes what a process has
 * open, and others may notice that, before its parent hears of its end. */
void run_child_look(struct run_child *child);

void run_child_signal(struct run_child *child, int number); /* its whole group */
void run_child_reap(struct run_child *child);               /* what it still writes is lost */

/* Reads at most limit bytes of a stream.  False: nothing was there. */
bool run_child_read(struct run_child *child, enum run_stream_number number, size_t limit);
size_t run_child_unread(const struct run_child *child, enum run_stream_number number);
bool run_child_is_quiet(const struct run_child *child); /* nobody writes to its output */

/* Makes the error of its end: from its error file, or else from how it ended.  errno_or_status
 * comes from run_child_start() or from run_child_has_ended(). */
void run_child_error(struct run_child *child, const char *program, bool is_started,
                     int errno_or_status, struct run_error *out_error);

/* Makes the error of its error file, if the file was there when the program ended or was asked to
 * end. A later file follows from the request.  False: there is none. */
bool run_child_told(struct run_child *child, struct run_error *out_error);

#endif
