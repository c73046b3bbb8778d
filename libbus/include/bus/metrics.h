/* SPDX-License-Identifier: MPL-2.0 */
/* metrics.h -- figures of a broker, for a monitoring system.
 *
 * The calls take a handle of bus/admin.h, whose conventions hold here too. */
#ifndef BUS_METRICS_H
#define BUS_METRICS_H

#include <bus/admin.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- bus_admin_metrics: figures for a monitoring system ---------------------------------------*/

struct bus_metrics; /* a snapshot of all metrics of a broker */

enum bus_metric_type {
    BUS_METRIC_COUNTER = 0, /* since the broker started */
    BUS_METRIC_GAUGE = 1,
    BUS_METRIC_HISTOGRAM = 2, /* its samples are buckets, a sum and a count, as in Prometheus */
};
struct bus_metric {
    const char *name; /* "errbus_slots_settled" */
    const char *help; /* a sentence */
    const char *unit; /* "seconds", "bytes" or "" */
    enum bus_metric_type type;
    size_t first; /* index of its first sample */
    size_t count; /* of its samples; may be 0 */
};
/* Labels of one sample.  Their number is bounded: no label names a party, a topic or an error. */
#define BUS_METRIC_LABELS_MAX 4
struct bus_metric_sample {
    const char *suffix; /* behind the name: "_total", "_bucket", "_sum", "_count" or "" */
    struct {
        const char *name;
        const char *value; /* a job and a group have names of users: any UTF-8 */
    } labels[BUS_METRIC_LABELS_MAX];
    size_t label_count;
    double value;
};
/* Takes a snapshot.  The broker tells of 200 jobs and of 200 groups by name, and of all others
 * together as "_other".  errbus-web(1) lists the metrics.  The caller frees the snapshot.
 * [any]  Wire: METRICS */
BUS_API BUS_MUST_USE enum bus_err bus_admin_metrics_get(struct bus_admin *admin, int64_t timeout_ms,
                                                        struct bus_metrics **out_metrics,
                                                        struct bus_error **reterr);
/* How many metrics there are: the same number always, with samples or without.  [any] */
BUS_API size_t bus_metrics_count(const struct bus_metrics *metrics);
/* NULL: index is not below the count.  [any] */
BUS_API const struct bus_metric *bus_metrics_at(const struct bus_metrics *metrics, size_t index);
/* NULL: there is no sample with this index.  [any] */
BUS_API const struct bus_metric_sample *bus_metrics_sample_at(const struct bus_metrics *metrics,
                                                              size_t index);
BUS_API void bus_metrics_free(struct bus_metrics **metrics); /* [one] */

#ifdef __cplusplus
}
#endif

#endif
