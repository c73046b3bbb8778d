/* SPDX-License-Identifier: MPL-2.0 */
/* log.c -- lines for the operator; see log.h. */
#include "broker/io/log.h"

#include "libbus/base/limits.h"
#include "libbus/base/utf8.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define OWN_NAME "errbusd"

/* A line of JSON has room for one text, a few names and the id of an error, each byte as \uXXXX,
 * and for what stands around them. */
enum {
    TEXT_BYTES = 4096,
    NAME_BYTES = 256,
    NAMES_MAX = 8,
    ESCAPED = 6,
    LINE_BYTES = ESCAPED * (TEXT_BYTES + NAMES_MAX * NAME_BYTES + LIMIT_ERROR_ID_BYTES) + 256,
    DATE_BYTES = 40
};

static struct log_style log_style; /* set once, before there are threads */

static const struct {
    const char *name;
    int priority; /* of syslog(3) */
} levels[] = {[LOG_DETAIL] = {"info", 6},
              [LOG_INFO] = {"info", 6},
              [LOG_WARNING] = {"warning", 4},
              [LOG_ERROR] = {"error", 3}};

void log_init(const struct log_style *style)
{
    log_style = *style;
}

bool log_is_journal(const char *journal_stream)
{
    struct stat status;
    uintmax_t device = 0;
    uintmax_t inode = 0;
    int end = 0;
    if (journal_stream == NULL || fstat(STDERR_FILENO, &status) != 0 ||
        sscanf(journal_stream, "%ju:%ju%n", &device, &inode, &end) != 2 ||
        journal_stream[end] != '\0')
        return false;
    return device == (uintmax_t)status.st_dev && inode == (uintmax_t)status.st_ino;
}

static void tame(char *text)
{
    for (unsigned char *at = (unsigned char *)text; *at != '\0'; at++)
        if (*at < 0x20 || *at == 0x7f)
            *at = '?';
}

static void write_date(char date[DATE_BYTES])
{
    struct timespec now;
    struct tm parts;
    char seconds[DATE_BYTES / 2] = "";
    clock_gettime(CLOCK_REALTIME, &now);
    if (gmtime_r(&now.tv_sec, &parts) != NULL)
        strftime(seconds, sizeof seconds, "%Y-%m-%dT%H:%M:%S", &parts);
    snprintf(date, DATE_BYTES, "%s.%03ldZ", seconds, now.tv_nsec / 1000000);
}

/* ---- JSON ------------------------------------------------------------------------------------ */

struct line {
    char bytes[LINE_BYTES];
    size_t count;
};

static void add(struct line *line, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void add(struct line *line, const char *format, ...)
{
    va_list args;
    size_t room = sizeof line->bytes - line->count;
    va_start(args, format);
    int bytes = vsnprintf(line->bytes + line->count, room, format, args);
    va_end(args);
    if (bytes > 0)
        line->count += (size_t)bytes < room ? (size_t)bytes : room - 1;
}

/* Bytes of the character at the beginning of a text; 0: there is none of UTF-8. */
static size_t character_bytes(struct span text)
{
    enum { CHARACTER_BYTES_MAX = 4 };
    for (size_t bytes = 1; bytes <= CHARACTER_BYTES_MAX && bytes <= text.bytes; bytes++)
        if (utf8_is_valid(span_of(text.data, bytes)))
            return bytes;
    return 0;
}

/* C1 controls steer terminals, too: U+0080 to U+009F, which are C2 80 to C2 9F. */
static void add_character(struct line *line, const unsigned char *at, size_t bytes)
{
    if (bytes == 0)
        add(line, "\\ufffd");
    else if (*at == '"' || *at == '\\')
        add(line, "\\%c", *at);
    else if (*at < 0x20 || *at == 0x7f)
        add(line, "\\u%04x", *at);
    else if (bytes == 2 && at[0] == 0xc2 && at[1] < 0xa0)
        add(line, "\\u%04x", at[1]);
    else
        add(line, "%.*s", (int)bytes, (const char *)at);
}

/* Of the text, at most so many bytes. */
static void add_member(struct line *line, const char *name, struct span text, size_t most)
{
    const unsigned char *bytes = text.data;
    add(line, "%s\"%s\":\"", line->bytes[line->count - 1] == '{' ? "" : ",", name);
    if (text.bytes > most)
        text.bytes = utf8_cut(text.data, most);
    for (size_t at = 0; at < text.bytes;) {
        size_t count = character_bytes(span_of(bytes + at, text.bytes - at));
        add_character(line, bytes + at, count);
        at += count > 0 ? count : 1;
    }
    add(line, "\"");
}

static void add_known(struct line *line, const char *name, struct span text, size_t most)
{
    if (text.bytes > 0)
        add_member(line, name, text, most);
}

static void add_event(struct line *line, const struct log_event *event)
{
    add_known(line, "event", event->name, NAME_BYTES);
    add_known(line, "job", event->job, NAME_BYTES);
    add_known(line, "party", event->party, NAME_BYTES);
    if (event->party.bytes > 0)
        add(line, ",\"incarnation\":%" PRIu64, event->incarnation);
    add_known(line, "principal", event->principal, NAME_BYTES);
    add_known(line, "peer", event->peer, NAME_BYTES);
    add_known(line, "error", event->error, LIMIT_ERROR_ID_BYTES);
}

static void write_json(enum log_level level, const char *program, const struct log_event *event,
                       struct span text)
{
    struct line line = {.count = 0};
    char date[DATE_BYTES];
    write_date(date);
    if (log_style.has_priority)
        add(&line, "<%d>", levels[level].priority);
    add(&line, "{");
    add_member(&line, "time", span_text(date), NAME_BYTES);
    add_member(&line, "level", span_text(levels[level].name), NAME_BYTES);
    add_member(&line, "program", span_text(program), NAME_BYTES);
    if (event != NULL)
        add_event(&line, event);
    add_member(&line, "message", text, TEXT_BYTES);
    add(&line, "}\n");
    fwrite(line.bytes, 1, line.count, stderr);
}

/* ---- lines ----------------------------------------------------------------------------------- */

static void write_text(enum log_level level, const char *text)
{
    char tamed[TEXT_BYTES];
    char date[DATE_BYTES];
    snprintf(tamed, sizeof tamed, "%s", text);
    tame(tamed);
    write_date(date);
    if (log_style.has_priority)
        fprintf(stderr, "<%d>%s\n", levels[level].priority, tamed);
    else if (level == LOG_ERROR)
        fprintf(stderr, OWN_NAME ": %s\n", tamed);
    else
        fprintf(stderr, "%s " OWN_NAME " %s: %s\n", date, levels[level].name, tamed);
}

void log_line(enum log_level level, const char *format, ...)
{
    if (level == LOG_DETAIL && !log_style.is_verbose)
        return;
    char text[TEXT_BYTES];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (log_style.is_json)
        write_json(level, OWN_NAME, NULL, span_text(text));
    else
        write_text(level, text);
}

void log_event(enum log_level level, const struct log_event *event, const char *line)
{
    if (level == LOG_DETAIL && !log_style.is_verbose)
        return;
    if (log_style.is_json)
        write_json(level, OWN_NAME, event, span_text(line));
    else
        write_text(level, line);
}

void log_program(enum log_level level, const char *program, struct span line)
{
    char text[TEXT_BYTES];
    if (log_style.is_json) {
        write_json(level, program, NULL, line);
        return;
    }
    snprintf(text, sizeof text, "%.*s", (int)line.bytes, (const char *)line.data);
    tame(text);
    if (log_style.has_priority)
        fprintf(stderr, "<%d>%s\n", levels[level].priority, text);
    else
        fprintf(stderr, "%s\n", text);
}
