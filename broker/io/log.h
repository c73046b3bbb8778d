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

/* An event of a job. */
struct log_event {
    struct span name;
    struct span job;
    struct span party; /* empty: of the whole job */
    uint64_t incarnation;
};
/* line: all of it as text.  JSON also has each member of the event. */
void log_event(enum log_level level, const struct log_event *event, const char *line);

#endif
