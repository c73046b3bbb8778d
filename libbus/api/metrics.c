/* SPDX-License-Identifier: MPL-2.0 */
/* metrics.c -- a snapshot of the broker's metrics, by the names of metrics.def. */
#include "libbus/api/admin.h"
#include "libbus/api/error.h"
#include "libbus/api/grow.h"
#include "libbus/api/model.h"
#include "libbus/wire/metric.h"

#include <bus/metrics.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NS_PER_S 1e9

enum { LABELS_BYTES = 64 };

/* As histogram_bounds_ns[] has them, in seconds.  A text, because a locale may have no point. */
static const char *const bounds[HISTOGRAM_BUCKETS] = {
    "0.00005", "0.0001", "0.00025", "0.0005", "0.001", "0.0025", "0.005", "0.01", "0.025",
    "0.05",    "0.1",    "0.25",    "0.5",    "1",     "2.5",    "5",     "10",   "+Inf",
};

/* A sample and its texts, in one block. */
struct sample {
    struct bus_metric_sample public;
    uint32_t metric;
    uint32_t order; /* as it came, and a histogram's count behind its sum */
    char names[LABELS_BYTES];
    char texts[];
};

struct bus_metrics {
    struct sample **samples;
    size_t count;
    size_t room;
    struct bus_metric metrics[METRIC_COUNT];
    uint64_t buckets[METRIC_COUNT]; /* of a histogram: counted so far, in the order of bounds */
    uint32_t next;                  /* order of the next sample */
};

/* ---- samples --------------------------------------------------------------------------------- */

/* Cuts text at its commas; at most most words, whose count is returned. */
static size_t cut_words(char *text, const char **words, size_t most)
{
    size_t count = 0;
    while (*text != '\0' && count < most) {
        words[count++] = text;
        char *comma = strchr(text, ',');
        if (comma == NULL || count == most)
            break;
        *comma = '\0';
        text = comma + 1;
    }
    return count;
}

/* Gives each label its value: job and group have their own fields, all others are words. */
static void place_labels(struct sample *sample, const char *job, const char *group, char *words)
{
    struct bus_metric_sample *public = &sample->public;
    const char *values[BUS_METRIC_LABELS_MAX] = {"", "", "", ""};
    const char *names[BUS_METRIC_LABELS_MAX];
    size_t value = 0;
    size_t count;
    snprintf(sample->names, sizeof sample->names, "%s", metric_kinds[sample->metric].labels);
    count = cut_words(sample->names, names, BUS_METRIC_LABELS_MAX - 1); /* one is for "le" */
    size_t word_labels = count;
    for (size_t i = 0; i < count; i++)
        word_labels -= strcmp(names[i], "job") == 0 || strcmp(names[i], "group") == 0;
    (void)cut_words(words, values, word_labels);
    for (size_t i = 0; i < count; i++) {
        bool is_job = strcmp(names[i], "job") == 0;
        bool is_group = strcmp(names[i], "group") == 0;
        public->labels[i].name = names[i];
        public->labels[i].value = is_job ? job : is_group ? group : values[value++];
    }
    public->label_count = count;
}

static struct sample *sample_new(struct bus_metrics *metrics, uint32_t metric, struct span job,
                                 struct span group, struct span words)
{
    struct sample **samples =
        api_grow(metrics->samples, metrics->count, &metrics->room, sizeof *samples);
    if (samples == NULL)
        return NULL;
    metrics->samples = samples;
    struct sample *sample = calloc(1, sizeof *sample + job.bytes + group.bytes + words.bytes + 3);
    if (sample == NULL)
        return NULL;
    char *at = sample->texts;
    sample->metric = metric;
    sample->order = metrics->next++;
    sample->public.suffix = metric_kinds[metric].type == METRIC_IS_COUNTER ? "_total" : "";
    const char *job_text = api_place(&at, job);
    const char *group_text = api_place(&at, group);
    char *words_text = at;
    (void)api_place(&at, words);
    place_labels(sample, job_text, group_text, words_text);
    metrics->samples[metrics->count++] = sample;
    return sample;
}

static double scaled(uint32_t metric, uint64_t value)
{
    return metric_kinds[metric].unit == METRIC_IN_SECONDS ? (double)value / NS_PER_S
                                                          : (double)value;
}

/* A bucket counts what is below it, too, as Prometheus has it. */
static bool add_bucket(struct bus_metrics *metrics, uint32_t metric, unsigned bucket,
                       uint64_t count)
{
    struct sample *sample = sample_new(metrics, metric, SPAN_NONE, SPAN_NONE, SPAN_NONE);
    if (sample == NULL)
        return false;
    metrics->buckets[metric] += count;
    sample->public.suffix = "_bucket";
    sample->public.labels[0].name = "le";
    sample->public.labels[0].value = bounds[bucket];
    sample->public.label_count = 1;
    sample->public.value = (double)metrics->buckets[metric];
    return true;
}

/* The count of a histogram is that of its last bucket. */
static bool add_sum(struct bus_metrics *metrics, uint32_t metric, uint64_t value)
{
    struct sample *sum = sample_new(metrics, metric, SPAN_NONE, SPAN_NONE, SPAN_NONE);
    if (sum == NULL)
        return false;
    sum->public.suffix = "_sum";
    sum->public.value = scaled(metric, value);
    struct sample *count = sample_new(metrics, metric, SPAN_NONE, SPAN_NONE, SPAN_NONE);
    if (count == NULL)
        return false;
    count->public.suffix = "_count";
    count->public.value = (double)metrics->buckets[metric];
    return true;
}

/* A metric of a newer broker is left out. */
static bool add_row(struct bus_metrics *metrics, const struct msg_metric_row *row)
{
    uint32_t metric = (uint32_t)row->metric;
    if (metric >= METRIC_COUNT || row->part >= METRIC_PART_COUNT)
        return true;
    if (row->part == METRIC_PART_SUM)
        return add_sum(metrics, metric, row->value);
    if (row->part >= METRIC_PART_BUCKET)
        return add_bucket(metrics, metric, (unsigned)row->part - METRIC_PART_BUCKET, row->value);
    struct sample *sample = sample_new(metrics, metric, row->job, row->group, row->words);
    if (sample != NULL)
        sample->public.value = scaled(metric, row->value);
    return sample != NULL;
}

/* ---- snapshots ------------------------------------------------------------------------------- */

static int sample_compare(const void *left, const void *right)
{
    const struct sample *a = *(struct sample *const *)left;
    const struct sample *b = *(struct sample *const *)right;
    if (a->metric != b->metric)
        return a->metric < b->metric ? -1 : 1;
    return a->order < b->order ? -1 : a->order > b->order;
}

static void metrics_finish(struct bus_metrics *metrics)
{
    size_t at = 0;
    if (metrics->count > 0)
        qsort(metrics->samples, metrics->count, sizeof *metrics->samples, sample_compare);
    for (uint32_t i = 0; i < METRIC_COUNT; i++) {
        const struct metric_kind *kind = &metric_kinds[i];
        struct bus_metric *metric = &metrics->metrics[i];
        *metric = (struct bus_metric){
            .name = kind->name,
            .help = kind->help,
            .unit = kind->unit == METRIC_IN_SECONDS ? "seconds"
                    : kind->unit == METRIC_IN_BYTES ? "bytes"
                                                    : "",
            .type = (enum bus_metric_type)kind->type,
            .first = at,
        };
        while (at < metrics->count && metrics->samples[at]->metric == i)
            at++;
        metric->count = at - metric->first;
    }
}

static enum bus_err take_row(struct bus *observer, const struct msg *row, void *arg,
                             struct bus_error **reterr)
{
    (void)observer; /* the row is enough */
    if (row->type == MSG_JOB_DONE)
        return error_say(reterr, BUS_ENOMEM, ERROR_TYPE_FULL, "%.*s",
                         (int)row->as.job_done.message.bytes,
                         (const char *)row->as.job_done.message.data);
    if (row->type == MSG_METRICS_END)
        return BUS_OK;
    if (row->type != MSG_METRIC_ROW)
        return error_say(reterr, BUS_EPROTO, ERROR_TYPE_PROTOCOL,
                         "the broker's answer does not fit the question");
    return add_row(arg, &row->as.metric_row) ? BUS_OK
                                             : error_give(reterr, BUS_ENOMEM, &error_no_memory);
}

enum bus_err bus_admin_metrics_get(struct bus_admin *admin, int64_t timeout_ms,
                                   struct bus_metrics **out_metrics, struct bus_error **reterr)
{
    struct admin_call call;
    const struct msg question = {.type = MSG_METRICS};
    if (out_metrics == NULL)
        return error_say(reterr, BUS_EINVAL, ERROR_TYPE_ARGUMENT,
                         "bus_admin_metrics_get() needs out_metrics");
    enum bus_err err = admin_begin(admin, NULL, timeout_ms, &call, reterr);
    if (err != BUS_OK)
        return err;
    struct bus_metrics *metrics = calloc(1, sizeof *metrics);
    err = metrics != NULL ? admin_ask(&call, &question, take_row, metrics, reterr)
                          : error_give(reterr, BUS_ENOMEM, &error_no_memory);
    if (err == BUS_OK) {
        metrics_finish(metrics);
        *out_metrics = metrics;
    } else {
        bus_metrics_free(&metrics);
    }
    admin_end(&call);
    return err;
}

size_t bus_metrics_count(const struct bus_metrics *metrics)
{
    return metrics != NULL ? METRIC_COUNT : 0;
}

const struct bus_metric *bus_metrics_at(const struct bus_metrics *metrics, size_t index)
{
    return metrics != NULL && index < METRIC_COUNT ? &metrics->metrics[index] : NULL;
}

const struct bus_metric_sample *bus_metrics_sample_at(const struct bus_metrics *metrics,
                                                      size_t index)
{
    return metrics != NULL && index < metrics->count ? &metrics->samples[index]->public : NULL;
}

void bus_metrics_free(struct bus_metrics **metrics)
{
    if (metrics == NULL || *metrics == NULL)
        return;
    for (size_t i = 0; i < (*metrics)->count; i++)
        free((*metrics)->samples[i]);
    free((*metrics)->samples);
    free(*metrics);
    *metrics = NULL;
}
