/* SPDX-License-Identifier: MPL-2.0 */
/* metric.c -- see metric.h. */
#include "libbus/wire/metric.h"

const struct metric_kind metric_kinds[METRIC_COUNT] = {
#define METRIC(upper, name, type, unit, labels, help)                                              \
    {"errbus_" name, METRIC_IS_##type, METRIC_IN_##unit, labels, help},
#include "schemas/metrics.def"
};

const struct metric_sample_kind metric_sample_kinds[SAMPLE_COUNT] = {
#define SAMPLE(metric, upper, words) {METRIC_##metric, words},
#include "schemas/metrics.def"
};
