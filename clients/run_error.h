/* SPDX-License-Identifier: MPL-2.0 */
/* run_error.h -- how a program ended, as an error: from its error file, or else from its end.
 *
 * An error file is one JSON object, in one of two forms.
 *
 * Our own form has a "type".  It is the form in which errbus prints an error.  A missing member is
 * unknown:
 *
 *   {"type": "app.disk_full", "message": "...", "stacktrace": "...", "code": 28,
 *    "recoverable": true, "retry_after_ms": 500, "blame": "alice",
 *    "blames": ["alice", "bob"], "occurred_at": "2026-11-21T06:16:24.5Z",
 *    "cause": {...}, "causes": [{...}, ...]}
 *
 * type and message are texts, and must be there.  recoverable is a boolean or null.  code and
 * retry_after_ms are whole numbers.  occurred_at is a time of RFC 3339, by the program's clock.
 * cause is an object of this form, and causes is an array of them.  blame is a party, and blames is
 * an array of them.  If both members of a pair are there, the array counts.  Other members are
 * ignored, so a line that errbus printed may be used as it is.
 *
 * The other form is that of PyTorch's elastic launcher (torch.distributed.elastic, the file named
 * by TORCHELASTIC_ERROR_FILE).  Its "message" is a text with a "timestamp" beside it, or an object
 * with these members: "message" ("TYPE: what happened"), perhaps "errorCode", and "extraInfo" with
 * "py_callstack" and "timestamp".  A timestamp is in seconds since the epoch, as text or number.
 *
 * In a file above RUN_FILE_BYTES_MAX, long texts are cut in their middle, and all else stays.  If a
 * file breaks off, the part that is there counts, and the message says so.
 *
 * A file of neither form is no error.  Then the error of the program's end says what is wrong with
 * the file. */
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
/* How much of the end of its output stands in a message.  With the sentence before it, it is within
 * the 4096 bytes of a message, so nothing is cut a second time. */
#define RUN_TAIL_BYTES_MAX 3000
/* How much of the end of its output is searched for a trace. */
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
    int64_t ran_ns;      /* when it was last seen to run, by the wall clock; 0: unknown */
    int64_t ended_ns;    /* when its end was noticed */
    const char *problem; /* why its error file is no error; NULL: there was none */
};

struct run_error {
    struct bus_error *error; /* the receiver's to unref */
    int64_t occurred_ns;     /* by the program's clock, since the epoch; 0: unknown */
    uint64_t uncertainty_ns; /* how far that may be off */
    bool is_of_file;         /* not of the end itself */
};

/* Makes an error of a whole file, or of what run_json.h made of it.  is_torn: it broke off. */
bool run_error_of_json(const char *text, size_t bytes, bool is_torn, struct run_error *out_error,
                       char problem[CLI_PROBLEM_BYTES_MAX]);

/* By the wall clock of this machine, since the epoch. */
struct run_times {
    int64_t began_ns;   /* the program was started */
    int64_t written_ns; /* its error file was written last */
    int64_t now_ns;
};

/* Whether it started, and exited with 0. */
bool run_error_is_good(const struct run_end *end);

/* Makes the error of an end, with the end of the program's output; NULL: run_error_is_good().
 *
 * What a signal ended at once has no time of its own.  Its peers may notice the loss, and stamp it,
 * before its end is noticed here.  So it is dated as a silent loss is: to when it was last seen to
 * run, as uncertain as the time from there to its end.  Not so SIGABRT and SIGPIPE: they are what a
 * program gets whose peer has gone.
 *
 * If the output has a trace, that is the stacktrace.  The message has the line of the trace that
 * says what happened, and the text behind the trace.  Without a trace, the message has the end of
 * the output, without lines that look like part of a trace.  If there are such lines, all of it is
 * the stacktrace.
 *
 * The code is the exit status, or a signal's number, negative.  For a program that cannot be
 * started it is that of a shell: 127 if it is missing, else 126. */
struct bus_error *run_error_of_end(const struct run_end *end);

/* Makes the error of an error file.  False: problem says why it is none. */
bool run_error_of_file(const char *text, size_t bytes, struct run_error *out_error,
                       char problem[CLI_PROBLEM_BYTES_MAX]);

/* Sets when the error of a file occurred: the file's own time if the program ran then; otherwise
 * when the file was written, if it was then; otherwise it stays now. */
void run_error_date(struct run_error *error, const struct run_times *times);

/* "SIGSEGV"; "SIGRTMIN+3"; "signal 99" for what has no name here. */
#define RUN_SIGNAL_BYTES_MAX 32
void run_error_signal_name(int number, char text[RUN_SIGNAL_BYTES_MAX]);

#endif
