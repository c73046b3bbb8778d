/* SPDX-License-Identifier: MPL-2.0 */
/* child_lines.c -- see child_lines.h. */
#include "broker/io/child_lines.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

/* A pipe holds 64 KiB.  So what a dead child left is read whole, unless a child of its own goes on
 * writing. */
enum { TURN_READS = 4, LAST_READS = 256 };

void child_lines_init(struct child_lines *lines, const char *program, enum log_level level)
{
    *lines = (struct child_lines){.fd = -1, .level = level, .program = program};
}

int child_lines_open(struct child_lines *lines, int *out_end)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
        return errno;
    if (fcntl(ends[0], F_SETFL, O_NONBLOCK) != 0) { /* ours alone: the child waits for room */
        int fault = errno;
        close(ends[0]);
        close(ends[1]);
        return fault;
    }
    lines->fd = ends[0];
    lines->count = 0;
    *out_end = ends[1];
    return 0;
}

static void write_line(const struct child_lines *lines, const char *line, size_t bytes)
{
    if (bytes > 0)
        log_program(lines->level, lines->program, span_of(line, bytes));
}

/* Writes the lines that are whole, or a full buffer, and keeps the rest. */
static void write_lines(struct child_lines *lines)
{
    char *at = lines->bytes;
    size_t left = lines->count;
    const char *end;
    while ((end = memchr(at, '\n', left)) != NULL) {
        size_t bytes = (size_t)(end - at);
        write_line(lines, at, bytes);
        at += bytes + 1;
        left -= bytes + 1;
    }
    if (left == sizeof lines->bytes) {
        write_line(lines, at, left);
        left = 0;
    }
    memmove(lines->bytes, at, left);
    lines->count = left;
}

/* false: nothing more is there, or the pipe was at its end and is closed. */
static bool read_once(struct child_lines *lines)
{
    ssize_t bytes;
    do
        bytes = read(lines->fd, lines->bytes + lines->count, sizeof lines->bytes - lines->count);
    while (bytes < 0 && errno == EINTR);
    if (bytes > 0) {
        lines->count += (size_t)bytes;
        write_lines(lines);
        return true;
    }
    if (bytes < 0 && errno == EAGAIN)
        return false;
    write_line(lines, lines->bytes, lines->count);
    lines->count = 0;
    close(lines->fd);
    lines->fd = -1;
    return false;
}

void child_lines_read(struct child_lines *lines)
{
    for (int i = 0; i < TURN_READS && lines->fd >= 0 && read_once(lines); i++)
        continue;
}

void child_lines_close(struct child_lines *lines)
{
    for (int i = 0; i < LAST_READS && lines->fd >= 0 && read_once(lines); i++)
        continue;
    if (lines->fd < 0)
        return;
    write_line(lines, lines->bytes, lines->count);
    lines->count = 0;
    close(lines->fd);
    lines->fd = -1;
}
