/* SPDX-License-Identifier: MPL-2.0 */
/* metric.h -- what schemas/metrics.def says of each metric; and what is counted outside of the
 * core. */
#ifndef WIRE_METRIC_H
#define WIRE_METRIC_H

#include "libbus/base/histogram.h"

#include <stdbool.h>
#include <stdint.h>

enum metric {
#define METRIC(upper, name, type, unit, labels, help) METRIC_##upper,
#include "schemas/metrics.def"
    METRIC_COUNT,
};

enum metric_type { METRIC_IS_COUNTER, METRIC_IS_GAUGE, METRIC_IS_HISTOGRAM };
enum metric_unit { METRIC_IN_NONE, METRIC_IN_BYTES, METRIC_IN_SECONDS };

struct metric_kind {
    const char *name; /* with prefix, without suffix */
    enum metric_type type;
    enum metric_unit unit;
    const char *labels; /* names, with commas between */
    const char *help;
};
extern const struct metric_kind metric_kinds[METRIC_COUNT];

/* A part of METRIC_ROW: the value itself, or one of a histogram. */
enum metric_part {
    METRIC_PART_VALUE,
    METRIC_PART_BUCKET, /* this and HISTOGRAM_BUCKETS - 1 more: a bucket */
    METRIC_PART_SUM = METRIC_PART_BUCKET + HISTOGRAM_BUCKETS,
    METRIC_PART_COUNT,
};

enum metric_sample {
#define SAMPLE(metric, upper, words) SAMPLE_##upper,
#include "schemas/metrics.def"
    SAMPLE_COUNT,
};
struct metric_sample_kind {
    enum metric metric;
    const char *words;
};
extern const struct metric_sample_kind metric_sample_kinds[SAMPLE_COUNT];

/* All that is counted outside of the core, at one moment. */
struct metric_figures {
    uint64_t samples[SAMPLE_COUNT]; /* METRIC_NOT_KNOWN: it is not told */
    struct histogram journal_write;
    struct histogram step;
    struct histogram error_delivery;
};
#define METRIC_NOT_KNOWN UINT64_MAX

#endif
