/* SPDX-License-Identifier: MPL-2.0 */
/* run_trace.h -- tells a trace from a message in what a program wrote to standard error.  Pure.
 *
 * These traces are known: Python (chains, groups, syntax errors, faulthandler; also with a prefix
 * before each line), Java, Node, .NET, Ruby, Go, Rust, and the sanitizers of C.  A trace may lack
 * its beginning.  Of any other text, the lines are known that look like a frame or like a source
 * line that is shown: they stand above a line of carets, or below a warning of Python. */
#ifndef CLIENTS_RUN_TRACE_H
#define CLIENTS_RUN_TRACE_H

#include <stdbool.h>
#include <stddef.h>

/* A part of the text. */
struct run_part {
    size_t at;
    size_t bytes; /* 0: there is none */
};

struct run_trace {
    struct run_part what;  /* the line that says what happened, without what leads to it */
    struct run_part cause; /* the same line of its cause, in a trace that ends with the cause */
    struct run_part whole; /* the last trace, with the traces that it is chained to */
    size_t end;            /* the text behind the last trace begins here; 0: there is no trace */
};

/* Finds the last trace in text.  is_cut: text may begin within a trace, because more came
 * before. */
void run_trace_find(const char *text, size_t bytes, bool is_cut, struct run_trace *out_trace);

/* Copies text without the lines that are of a trace or show source; out has room for bytes.
 * Returns how many bytes are left. */
size_t run_trace_strip(const char *text, size_t bytes, char *out);

/* The last line that is not empty and of no trace; out has room for bytes.  Returns its length. */
size_t run_trace_last_line(const char *text, size_t bytes, bool is_cut, char *out);

#endif
