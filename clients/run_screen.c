/* SPDX-License-Identifier: MPL-2.0 */
/* run_screen.c -- shows the output of the copies on our own output, in whole lines, by turns.
 *
 * Other processes share our streams and rely on them to block.  So the streams stay blocking.  A
 * stream is written when poll() reports room, which is enough for PIPE_BUF bytes. */
#include "clients/run.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define STUCK_MS 5000 /* at the end: then nobody reads it */

/* Our messages are about what the copies did.  So they come behind what the copies had written. */
static void add_note(struct run *run, const char *text, size_t bytes)
{
    for (unsigned i = 0; i < run->copies; i++) {
        run_output_mark(&run->members[i].child.streams[RUN_STDERR].output);
    }
    run_output_add(&run->notes, text, bytes);
}

static void say(struct run *run, const char *text)
{
    add_note(run, text, strlen(text));
}

void run_note(struct run *run, const char *format, ...)
{
    char text[RUN_PATH_BYTES_MAX + 1024];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    say(run, "errbus run: ");
    say(run, text);
    say(run, "\n");
}

void run_note_end(struct run *run, const char *who, const struct bus_error *error)
{
    char *text = NULL;
    size_t bytes = 0;
    bool has_lines = strchr(bus_error_message(error), '\n') != NULL;
    FILE *file = has_lines ? open_memstream(&text, &bytes) : NULL;
    if (file == NULL) {
        run_note_error(run, who, error);
        return;
    }
    fprintf(file, "%s: %s: %s %s: ", who, bus_error_party(error), bus_error_kind(error),
            bus_error_type(error));
    cli_print_last_line(file, bus_error_message(error));
    fprintf(file, " (%s)\n", bus_error_id(error));
    if (fclose(file) == 0) {
        add_note(run, text, bytes);
    }
    free(text);
}

void run_note_notice(struct run *run, const struct bus_error *notice)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *file = open_memstream(&text, &bytes);
    if (file == NULL) {
        run_note(run, "%s", bus_error_message(notice));
        return;
    }
    cli_print_notice(file, run->cli.program, notice);
    if (fclose(file) == 0) {
        add_note(run, text, bytes);
    }
    free(text);
}

void run_note_error(struct run *run, const char *who, const struct bus_error *error)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *file = open_memstream(&text, &bytes);
    if (file == NULL) {
        run_note(run, "%s", bus_error_message(error));
        return;
    }
    cli_print_error(file, who, error);
    if (fclose(file) == 0) {
        add_note(run, text, bytes);
    }
    free(text);
}

static const char *prefix_of(const struct run *run, const struct run_member *member)
{
    return run->is_plain ? NULL : member->prefix;
}

static bool notes_are_due(const struct run *run)
{
    for (unsigned i = 0; i < run->copies; i++) {
        const struct run_member *member = &run->members[i];
        const struct run_stream *stream = &member->child.streams[RUN_STDERR];
        if (run_output_is_ahead(&stream->output, prefix_of(run, member), stream->fd < 0)) {
            return false;
        }
    }
    return true;
}

/* Takes the next output: of the copies by turns, and on standard error of our own messages. */
static size_t fill_from(struct run *run, enum run_stream_number number, unsigned index)
{
    struct run_screen *screen = &run->screens[number];
    if (index == run->copies) {
        return number == RUN_STDERR && notes_are_due(run)
                   ? run_output_show(&run->notes, NULL, true, screen->shown)
                   : 0;
    }
    struct run_member *member = &run->members[index];
    struct run_stream *stream = &member->child.streams[number];
    return run_output_show(&stream->output, prefix_of(run, member), stream->fd < 0, screen->shown);
}

/* Drops all output of a stream that nobody reads, so that it does not hold up the programs. */
static void drop_all(struct run *run, enum run_stream_number number)
{
    for (unsigned i = 0; i <= run->copies; i++) {
        while (fill_from(run, number, i) > 0) {
        }
    }
}

bool run_screen_is_due(struct run *run, enum run_stream_number number)
{
    struct run_screen *screen = &run->screens[number];
    unsigned turns = (unsigned)run->copies + 1;
    if (screen->is_closed) {
        drop_all(run, number);
        return false;
    }
    for (unsigned i = 0; i < turns && screen->at == screen->count; i++) {
        screen->at = 0;
        screen->count = fill_from(run, number, screen->turn);
        screen->turn = (screen->turn + 1) % turns;
    }
    return screen->at < screen->count;
}

void run_screen_write(struct run *run, enum run_stream_number number)
{
    struct run_screen *screen = &run->screens[number];
    size_t left = screen->count - screen->at;
    ssize_t written =
        write(screen->fd, screen->shown + screen->at, left < PIPE_BUF ? left : PIPE_BUF);
    if (written > 0) {
        screen->at += (size_t)written;
    } else if (written < 0 && errno != EINTR && errno != EAGAIN) {
        screen->is_closed = true; /* the program goes on, and its files get the output */
    }
}

void run_screen_finish(struct run *run)
{
    for (enum run_stream_number n = RUN_STDOUT; n < RUN_STREAMS; n++) {
        struct pollfd screen = {.fd = run->screens[n].fd, .events = POLLOUT};
        while (run_screen_is_due(run, n)) {
            if (poll(&screen, 1, STUCK_MS) > 0) {
                run_screen_write(run, n);
            } else {
                run->screens[n].is_closed = true;
            }
        }
    }
}
