/* SPDX-License-Identifier: MPL-2.0 */
/* run_output.h -- what a program says on one of its two streams: how it ends, and how it is shown.
 *
 * Bytes go in as they come.  The end of them is kept for the error that the program may end with;
 * all of them wait here, within bounds, to be shown line by line beside what others say.  Pure. */
#ifndef CLIENTS_RUN_OUTPUT_H
#define CLIENTS_RUN_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What waits to be shown.  Reading stops at half of it, so that what a pipe holds when its program
 * ends (64 KiB, unless it asked for more) has room in any case. */
#define RUN_WAITING_BYTES_MAX ((size_t)128 * 1024)
#define RUN_LINE_BYTES_MAX ((size_t)8 * 1024)   /* longer lines are shown in pieces */
#define RUN_SHOWN_BYTES_MAX ((size_t)16 * 1024) /* room for one line with what stands before it */
#define RUN_KEPT_BYTES ((size_t)32 * 1024)      /* of the end: what is searched for a trace */

struct run_output {
    uint64_t said_bytes;    /* ever */
    uint64_t unshown_bytes; /* of them: what had no room */
    char kept[2 * RUN_KEPT_BYTES];
    size_t kept_bytes;
    char *waiting; /* RUN_WAITING_BYTES_MAX; the caller's */
    size_t waiting_bytes;
};

void run_output_init(struct run_output *output, char *waiting);

void run_output_add(struct run_output *output, const char *bytes, size_t count);

/* How much more should be read now. */
size_t run_output_room(const struct run_output *output);

/* The last bytes said, at most RUN_KEPT_BYTES. */
const char *run_output_tail(const struct run_output *output, size_t *out_bytes);

/* Moves what can be shown next to shown, which has room for RUN_SHOWN_BYTES_MAX: whole lines, each
 * behind prefix (200 bytes and some at most); or, with prefix NULL, bytes as they came.
 * is_all: what has no newline yet is shown too, and given one.  Returns how many bytes; 0: none. */
size_t run_output_show(struct run_output *output, const char *prefix, bool is_all, char *shown);

#endif
