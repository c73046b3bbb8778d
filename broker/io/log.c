/* SPDX-License-Identifier: MPL-2.0 */
/* log.c -- lines for the operator; see log.h. */
#include "broker/io/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <time.h>

static bool is_verbose_log; /* set once, before there are threads */

void log_init(bool is_verbose)
{
    is_verbose_log = is_verbose;
}

static void tame(char *text)
{
    for (unsigned char *at = (unsigned char *)text; *at != '\0'; at++)
        if (*at < 0x20 || *at == 0x7f)
            *at = '?';
}

void log_line(enum log_level level, const char *format, ...)
{
    if (level == LOG_DETAIL && !is_verbose_log)
        return;
    char text[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    tame(text);

    struct timespec now;
    struct tm parts;
    char date[32] = "";
    clock_gettime(CLOCK_REALTIME, &now);
    if (gmtime_r(&now.tv_sec, &parts) != NULL)
        strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%S", &parts);
    fprintf(stderr, "%s.%03ldZ errbusd %s: %s\n", date, now.tv_nsec / 1000000,
            level == LOG_WARNING ? "warning" : "info", text);
}
