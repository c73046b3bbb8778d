/* SPDX-License-Identifier: MPL-2.0 */
/* exposition.c -- see exposition.h. */
#include "clients/web/exposition.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define OPENMETRICS_TYPE "application/openmetrics-text"
#define EXACT_MAX 9007199254740992.0 /* up to 2^53 a double has all whole numbers */

const char *exposition_type(enum exposition format)
{
    return format == EXPOSITION_OPENMETRICS ? OPENMETRICS_TYPE "; version=1.0.0; charset=utf-8"
                                            : "text/plain; version=0.0.4; charset=utf-8";
}

/* ---- Accept ---------------------------------------------------------------------------------- */

/* The quality of one range, "type/name;version=1;q=0.5", which ends at end; in thousandths. */
static long quality_of(const char *range, const char *end)
{
    for (const char *at = range; at < end; at++) {
        bool is_quality = *at == ';';
        const char *name = at + 1 + strspn(at + 1, " \t");
        if (is_quality && name + 2 <= end && strncasecmp(name, "q=", 2) == 0) {
            long whole = name + 2 < end ? name[2] - '0' : 0;
            long part = 0;
            bool is_part = name + 3 < end && name[3] == '.';
            for (int i = 4; i < 7; i++) { /* three digits at most; a missing one is 0 */
                is_part = is_part && name + i < end && name[i] >= '0' && name[i] <= '9';
                part = part * 10 + (is_part ? name[i] - '0' : 0);
            }
            return whole == 1 ? 1000 : whole == 0 ? part : 0;
        }
    }
    return 1000;
}

static bool is_range(const char *range, const char *end, const char *type)
{
    size_t bytes = strcspn(range, ";, \t");
    return range + bytes <= end && bytes == strlen(type) && strncasecmp(range, type, bytes) == 0;
}

enum exposition exposition_choose(const char *accept)
{
    long open = 0;
    long text = 0;
    if (accept == NULL) {
        return EXPOSITION_TEXT;
    }
    for (const char *range = accept; *range != '\0';) {
        range += strspn(range, " \t,");
        const char *end = range + strcspn(range, ",");
        long quality = quality_of(range, end);
        if (is_range(range, end, OPENMETRICS_TYPE) && quality > open) {
            open = quality;
        }
        if ((is_range(range, end, "text/plain") || is_range(range, end, "text/*") ||
             is_range(range, end, "*/*")) &&
            quality > text) {
            text = quality;
        }
        range = end;
    }
    return open > text ? EXPOSITION_OPENMETRICS : EXPOSITION_TEXT;
}

/* ---- text ------------------------------------------------------------------------------------ */

/* Escapes what would end the text: a backslash, a line feed, and a quote if it is quoted. */
static void put_escaped(FILE *out, const char *text, bool is_quoted)
{
    for (; *text != '\0'; text++) {
        if (*text == '\\') {
            fputs("\\\\", out);
        } else if (*text == '\n') {
            fputs("\\n", out);
        } else if (*text == '"' && is_quoted) {
            fputs("\\\"", out);
        } else {
            fputc(*text, out);
        }
    }
}

static void put_number(FILE *out, double value)
{
    if (value == floor(value) && fabs(value) < EXACT_MAX) {
        fprintf(out, "%.0f", value);
    } else {
        fprintf(out, "%.15g", value);
    }
}

/* In the older format, the name of a counter has its "_total" here, too. */
static void put_name(FILE *out, enum exposition format, const struct bus_metric *metric)
{
    bool has_total = format == EXPOSITION_TEXT && metric->type == BUS_METRIC_COUNTER;
    fprintf(out, "%s%s", metric->name, has_total ? "_total" : "");
}

static bool ends_with(const char *name, const char *unit)
{
    size_t bytes = strlen(name);
    size_t end = strlen(unit);
    return end > 0 && bytes > end && name[bytes - end - 1] == '_' &&
           strcmp(name + bytes - end, unit) == 0;
}

void exposition_metric(FILE *out, enum exposition format, const struct bus_metric *metric)
{
    static const char *const types[] = {[BUS_METRIC_COUNTER] = "counter",
                                        [BUS_METRIC_GAUGE] = "gauge",
                                        [BUS_METRIC_HISTOGRAM] = "histogram"};
    fputs("# HELP ", out);
    put_name(out, format, metric);
    fputc(' ', out);
    put_escaped(out, metric->help, format == EXPOSITION_OPENMETRICS);
    fputs("\n# TYPE ", out);
    put_name(out, format, metric);
    fprintf(out, " %s\n", types[metric->type]);
    if (format == EXPOSITION_OPENMETRICS && ends_with(metric->name, metric->unit)) {
        fprintf(out, "# UNIT %s %s\n", metric->name, metric->unit);
    }
}

void exposition_sample(FILE *out, enum exposition format, const struct bus_metric *metric,
                       const struct bus_metric_sample *sample)
{
    (void)format; /* both have samples alike */
    fprintf(out, "%s%s", metric->name, sample->suffix);
    for (size_t i = 0; i < sample->label_count; i++) {
        fprintf(out, "%s%s=\"", i == 0 ? "{" : ",", sample->labels[i].name);
        put_escaped(out, sample->labels[i].value, true);
        fputc('"', out);
    }
    fputs(sample->label_count > 0 ? "} " : " ", out);
    put_number(out, sample->value);
    fputc('\n', out);
}

void exposition_end(FILE *out, enum exposition format)
{
    if (format == EXPOSITION_OPENMETRICS) {
        fputs("# EOF\n", out);
    }
}
