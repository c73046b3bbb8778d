/* SPDX-License-Identifier: MPL-2.0 */
/* run_error.h -- how a program ended, as an error: from its error file, or else from its end.
 *
 * An error file is one JSON object, in one of two forms.
 *
 * Ours has a "type".  It is what errbus prints of an error, and what is missing is unknown:
 *
 *   {"type": "app.disk_full", "message": "...", "stacktrace": "...", "code": 28,
 *    "recoverable": true, "retry_after_ms": 500, "blame": "alice",
 *    "blames": ["alice", "bob"], "occurred_at": "2026-11-21T06:16:24.5Z",
 *    "cause": {...}, "causes": [{...}, ...]}
 *
 * type and message are texts and must be there; recoverable is a boolean or null; code and
 * retry_after_ms are whole numbers; occurred_at is a time of RFC 3339, by the program's clock;
 * cause is an object of this form, causes an array of them, and if both are there, causes is taken;
 * blame is a party, blames an array of them, likewise.
 * Other members are ignored, so a line that errbus printed may be used as it is.
 *
 * The other is that of PyTorch's elastic launcher (torch.distributed.elastic, the file named by
 * TORCHELASTIC_ERROR_FILE).  Its "message" is an object with a "message" ("TYPE: what happened"),
 * perhaps an "errorCode", and "extraInfo" with "py_callstack" and "timestamp", seconds since the
 * epoch as text or number; or it is a text, with a "timestamp" beside it.
 *
 * Of a file above RUN_FILE_BYTES_MAX, long texts are cut in their middle; all else stays.  Of one
 * that breaks off, what is there counts, and the message says so.
 *
 * A file that is neither is no error, but a problem that is said beside how the program ended. */
#ifndef CLIENTS_RUN_ERROR_H
#define CLIENTS_RUN_ERROR_H

#include "clients/cli.h"

#include <bus/bus.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RUN_FILE_BYTES_MAX ((size_t)1024 * 1024) /* of an error file: above, its texts are cut */
#define RUN_CAUSES_DEPTH_MAX 16                  /* of causes in it, one below the other */
#define RUN_CAUSES_MAX 16                        /* of one error in it */
/* Of what the program said last, inline: with the sentence before it within the 4096 bytes of a
 * message, so that nothing is cut a second time. */
#define RUN_TAIL_BYTES_MAX 3000
/* Of what the program said last: so much is searched for a trace. */
#define RUN_SEEN_BYTES_MAX ((size_t)32 * 1024)

/* Types of errors that speak of a program's end. */
#define RUN_TYPE_EXIT "run.exit_status"
#define RUN_TYPE_SIGNAL "run.signal"
#define RUN_TYPE_MEMORY "run.out_of_memory"
#define RUN_TYPE_START "run.not_started"

/* How it ended, or why it never began. */
struct run_end {
    const char *program;   /* what was started, for people */
    int start_errno;       /* 0: it did start */
    int wait_status;       /* as waitpid() gave it; if it did start */
    bool is_out_of_memory; /* the kernel killed in its control group for want of memory */
    const char *tail;      /* the end of its standard error: any bytes; NULL: nothing */
    size_t tail_bytes;
    uint64_t said_bytes; /* all that it wrote to standard error, tail_bytes at least */
    const char *problem; /* why its error file is no error; NULL: there was none */
};

struct run_error {
    struct bus_error *error; /* the receiver's to unref */
    int64_t occurred_ns;     /* by the program's clock, since the epoch; 0: unknown */
    uint64_t uncertainty_ns; /* how far that may be off */
    bool is_of_file;         /* not of the end itself */
};

/* Reads the error that a whole file is, or what run_json.h made of it.  is_torn: it broke off. */
bool run_error_of_json(const char *text, size_t bytes, bool is_torn, struct run_error *out_error,
                       char problem[CLI_PROBLEM_BYTES_MAX]);

/* By the wall clock of this machine, since the epoch. */
struct run_times {
    int64_t began_ns;   /* the program was started */
    int64_t written_ns; /* its error file was written last */
    int64_t now_ns;
};

/* It started, and exited with 0. */
bool run_error_is_good(const struct run_end *end);

/* The error that an end is, with what the program said last; NULL: run_error_is_good().  If that
 * has a trace, the message has the line of it that says what happened, and what was said after it;
 * the trace is the stacktrace.  Otherwise the message has the end of what was said, without lines
 * that look like part of a trace.  If there are any, all of it is the stacktrace.  Its code
 * is the exit status; a signal's number, negative; or what a shell gives for what it cannot start,
 * 127 if it is missing, else 126. */
struct bus_error *run_error_of_end(const struct run_end *end);

/* The error that an error file is.  False: problem is why it is none. */
bool run_error_of_file(const char *text, size_t bytes, struct run_error *out_error,
                       char problem[CLI_PROBLEM_BYTES_MAX]);

/* Sets when the error of a file occurred: the file's own time if the program ran then; otherwise
 * when the file was written, if it was then; otherwise it stays now. */
void run_error_date(struct run_error *error, const struct run_times *times);

/* "SIGSEGV"; "SIGRTMIN+3"; "signal 99" for what has no name here. */
#define RUN_SIGNAL_BYTES_MAX 32
void run_error_signal_name(int number, char text[RUN_SIGNAL_BYTES_MAX]);

#endif
