/* SPDX-License-Identifier: MPL-2.0 */
/* log.h -- lines for the operator, on standard error: time, level, text.
 *
 * What peers sent may be in a line: characters that steer a terminal are shown as '?'. */
#ifndef IO_LOG_H
#define IO_LOG_H

#include <stdbool.h>

enum log_level {
    LOG_DETAIL, /* of single parties; unless asked for, not written */
    LOG_INFO,
    LOG_WARNING,
};

/* Whether lines of LOG_DETAIL are written. */
void log_init(bool is_verbose);
void log_line(enum log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
