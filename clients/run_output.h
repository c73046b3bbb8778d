/* SPDX-License-Identifier: MPL-2.0 */
/* run_output.h -- the output of a program on one of its two streams.  Pure.
 *
 * Bytes go in as they come. Their end is kept for the error of the program's end.  All bytes wait
 * here, within bounds, until they are shown line by line beside the output of other copies. */
#ifndef CLIENTS_RUN_OUTPUT_H
#define CLIENTS_RUN_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The most bytes that wait to be shown.  Reading stops at half of it.  So there is always room for
 * what a pipe holds when its program ends: 64 KiB, unless the program asked for more. */
#define RUN_WAITING_BYTES_MAX ((size_t)128 * 1024)
#define RUN_LINE_BYTES_MAX ((size_t)8 * 1024)   /* longer lines are shown in pieces */
#define RUN_SHOWN_BYTES_MAX ((size_t)16 * 1024) /* room for one line with its prefix */
#define RUN_KEPT_BYTES ((size_t)32 * 1024)      /* of the end, which is searched for a trace */

struct run_output {
    uint64_t said_bytes;    /* ever */
    uint64_t unshown_bytes; /* of them, for which there was no room */
    char kept[2 * RUN_KEPT_BYTES];
    size_t kept_bytes;
    char *waiting; /* RUN_WAITING_BYTES_MAX; the caller's */
    size_t waiting_bytes;
    size_t ahead_bytes; /* of them: those that were there at run_output_mark() */
};

void run_output_init(struct run_output *output, char *waiting);

void run_output_add(struct run_output *output, const char *bytes, size_t count);

/* How many more bytes may be read now. */
size_t run_output_room(const struct run_output *output);

/* The last bytes said, at most RUN_KEPT_BYTES. */
const char *run_output_tail(const struct run_output *output, size_t *out_bytes);

/* Moves the next bytes to shown, which has room for RUN_SHOWN_BYTES_MAX: whole lines, each behind
 * prefix (little more than 200 bytes); or, with prefix NULL, bytes as they came.  is_all: a last
 * line without a newline is shown too, and gets one.  Returns how many bytes were moved. */
size_t run_output_show(struct run_output *output, const char *prefix, bool is_all, char *shown);

/* Marks what waits now, so that a message about the program can be shown behind it. */
void run_output_mark(struct run_output *output);

/* Whether something that was marked is still to be shown, and run_output_show() can show it. */
bool run_output_is_ahead(const struct run_output *output, const char *prefix, bool is_all);

#endif
