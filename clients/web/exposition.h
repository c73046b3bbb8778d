/* SPDX-License-Identifier: MPL-2.0 */
/* exposition.h -- metrics as text for Prometheus (format 0.0.4) and as OpenMetrics 1.0. */
#ifndef CLIENTS_WEB_EXPOSITION_H
#define CLIENTS_WEB_EXPOSITION_H

#include <bus/metrics.h>
#include <stdio.h>

enum exposition { EXPOSITION_TEXT, EXPOSITION_OPENMETRICS, EXPOSITION_COUNT };

/* As Content-Type. */
const char *exposition_type(enum exposition format);
/* What the client likes best, by its header Accept; NULL: it sent none. */
enum exposition exposition_choose(const char *accept);

/* A metric's name, type, unit and help; before its samples. */
void exposition_metric(FILE *out, enum exposition format, const struct bus_metric *metric);
void exposition_sample(FILE *out, enum exposition format, const struct bus_metric *metric,
                       const struct bus_metric_sample *sample);
/* Behind the last one. */
void exposition_end(FILE *out, enum exposition format);

#endif
