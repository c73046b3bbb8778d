/* SPDX-License-Identifier: MPL-2.0 */
/* child_lines.h -- what a child writes becomes records of the log, one for each line.
 *
 * So the log has one form, whatever the child says, and whichever of its libraries says it. */
#ifndef IO_CHILD_LINES_H
#define IO_CHILD_LINES_H

#include "broker/io/log.h"

#include <stdbool.h>
#include <stddef.h>

enum { CHILD_LINE_BYTES = 2048 }; /* a longer line becomes several records */

struct child_lines {
    int fd; /* our end of the pipe; -1: there is none */
    enum log_level level;
    const char *program; /* as the log names it; borrowed */
    size_t count;        /* of a line whose end has not come */
    char bytes[CHILD_LINE_BYTES];
};

void child_lines_init(struct child_lines *lines, const char *program, enum log_level level);
/* Makes a pipe; the child writes to *out_end, which the caller closes.  0, or an errno. */
int child_lines_open(struct child_lines *lines, int *out_end);
/* Writes what is there to the log, a bounded part of it, and closes the pipe at its end. */
void child_lines_read(struct child_lines *lines);
/* The child is over: writes all that it left, and closes the pipe. */
void child_lines_close(struct child_lines *lines);

#endif
