/* SPDX-License-Identifier: MPL-2.0 */
/* log.h -- lines for the operator, on standard error: time, level, text; or an object of JSON.
 *
 * A line is one record, and is written at once.  What peers sent may be in it: as text, characters
 * that steer a terminal are shown as '?'; in JSON they are escaped, and bytes that are no UTF-8 are
 * shown as U+FFFD. */
#ifndef IO_LOG_H
#define IO_LOG_H

#include "libbus/base/span.h"

#include <stdbool.h>
#include <stdint.h>

enum log_level {
    LOG_DETAIL, /* of single parties; unless asked for, not written */
    LOG_INFO,
    LOG_WARNING,
    LOG_ERROR, /* why the program ends with a failure, as "errbusd: TEXT" */
};

struct log_style {
    bool is_verbose; /* lines of LOG_DETAIL are written, too */
    bool is_json;
    bool has_priority; /* "<N>" stands before each line, as syslog has it; as text without a time */
};
/* Once, before there are threads.  Before that, all members are false. */
void log_init(const struct log_style *style);
/* Whether standard error is the stream that $JOURNAL_STREAM names, as DEVICE:INODE.  NULL: no. */
bool log_is_journal(const char *journal_stream);

void log_line(enum log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* A line of another program, which this one started; as text it stays as it is. */
void log_program(enum log_level level, const char *program, struct span line);

/* What a line is about.  What is empty is not known, or there is none. */
struct log_event {
    struct span name;
    struct span job;
    struct span party;
    uint64_t incarnation;  /* of the party */
    struct span principal; /* whom the party belongs to */
    struct span peer;      /* where the connection comes from */
    struct span error;     /* id of the error that the event tells of */
};
/* line: the event as text.  JSON also has each member that is known. */
void log_event(enum log_level level, const struct log_event *event, const char *line);

#endif
