/* SPDX-License-Identifier: MPL-2.0 */
/* run_output.c -- a stream's end kept, and its lines shown. */
#include "clients/run_output.h"

#include <string.h>

void run_output_init(struct run_output *output, char *waiting)
{
    memset(output, 0, sizeof *output);
    output->waiting = waiting;
}

/* Keeps the end of the output.  kept has twice the room, so its bytes move only once in
 * RUN_KEPT_BYTES. */
static void keep(struct run_output *output, const char *bytes, size_t count)
{
    if (count > RUN_KEPT_BYTES) {
        bytes += count - RUN_KEPT_BYTES;
        count = RUN_KEPT_BYTES;
    }
    if (output->kept_bytes + count > sizeof output->kept) {
        size_t left = RUN_KEPT_BYTES - count;
        memmove(output->kept, output->kept + output->kept_bytes - left, left);
        output->kept_bytes = left;
    }
    memcpy(output->kept + output->kept_bytes, bytes, count);
    output->kept_bytes += count;
}

void run_output_add(struct run_output *output, const char *bytes, size_t count)
{
    size_t room = RUN_WAITING_BYTES_MAX - output->waiting_bytes;
    size_t taken = count < room ? count : room;
    keep(output, bytes, count);
    memcpy(output->waiting + output->waiting_bytes, bytes, taken);
    output->waiting_bytes += taken;
    output->said_bytes += count;
    output->unshown_bytes += count - taken;
}

size_t run_output_room(const struct run_output *output)
{
    size_t most = RUN_WAITING_BYTES_MAX / 2;
    return output->waiting_bytes < most ? most - output->waiting_bytes : 0;
}

const char *run_output_tail(const struct run_output *output, size_t *out_bytes)
{
    size_t bytes = output->kept_bytes < RUN_KEPT_BYTES ? output->kept_bytes : RUN_KEPT_BYTES;
    *out_bytes = bytes;
    return output->kept + output->kept_bytes - bytes;
}

static void forget(struct run_output *output, size_t count)
{
    if (count == 0) {
        return; /* waiting may be NULL */
    }
    output->waiting_bytes -= count;
    output->ahead_bytes -= count < output->ahead_bytes ? count : output->ahead_bytes;
    memmove(output->waiting, output->waiting + count, output->waiting_bytes);
}

/* The size of the next line to show from at on, with its newline; 0: there is no whole line yet. */
static size_t next_line(const struct run_output *output, size_t at, bool is_all)
{
    size_t left = output->waiting_bytes - at;
    if (left == 0) {
        return 0;
    }
    size_t most = left < RUN_LINE_BYTES_MAX ? left : RUN_LINE_BYTES_MAX;
    const char *newline = memchr(output->waiting + at, '\n', most);
    if (newline != NULL) {
        return (size_t)(newline - output->waiting) - at + 1;
    }
    return is_all || most == RUN_LINE_BYTES_MAX ? most : 0;
}

static size_t show_lines(struct run_output *output, const char *prefix, bool is_all, char *shown)
{
    size_t prefix_bytes = strlen(prefix);
    size_t count = 0;
    size_t at = 0;
    size_t line;
    while ((line = next_line(output, at, is_all)) > 0 &&
           count + prefix_bytes + line + 1 <= RUN_SHOWN_BYTES_MAX) {
        memcpy(shown + count, prefix, prefix_bytes);
        memcpy(shown + count + prefix_bytes, output->waiting + at, line);
        count += prefix_bytes + line;
        at += line;
        if (shown[count - 1] != '\n') {
            shown[count++] = '\n';
        }
    }
    forget(output, at);
    return count;
}

size_t run_output_show(struct run_output *output, const char *prefix, bool is_all, char *shown)
{
    if (prefix != NULL) {
        return show_lines(output, prefix, is_all, shown);
    }
    size_t count = output->waiting_bytes;
    if (count > RUN_SHOWN_BYTES_MAX) {
        count = RUN_SHOWN_BYTES_MAX;
    }
    memcpy(shown, output->waiting, count);
    forget(output, count);
    return count;
}

void run_output_mark(struct run_output *output)
{
    output->ahead_bytes = output->waiting_bytes;
}

bool run_output_is_ahead(const struct run_output *output, const char *prefix, bool is_all)
{
    return output->ahead_bytes > 0 && (prefix == NULL || next_line(output, 0, is_all) > 0);
}
