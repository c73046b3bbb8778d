/* SPDX-License-Identifier: MPL-2.0 */
/* ready.c -- see ready.h. */
#include "clients/web/ready.h"

#include <stdio.h>
#include <string.h>

/* As the metric of the journal has its states. */
static const struct {
    const char *state;
    const char *why; /* NULL: it is ready */
} states[] = {
    {"", NULL},
    {"well", NULL},
    {"full", "the journal's disk is full: values wait until it has room"},
    {"refused", "the journal cannot be written now: everything waits until it can"},
    {"failed", "the journal cannot be written any more: the broker ends"},
};

/* "": there is none. */
static const char *journal_state(const struct bus_metrics *metrics)
{
    for (size_t i = 0; i < bus_metrics_count(metrics); i++) {
        const struct bus_metric *metric = bus_metrics_at(metrics, i);
        if (strcmp(metric->name, "errbus_journal_state") != 0) {
            continue;
        }
        for (size_t j = metric->first; j < metric->first + metric->count; j++) {
            const struct bus_metric_sample *sample = bus_metrics_sample_at(metrics, j);
            if (sample->value == 1) {
                return sample->labels[0].value;
            }
        }
    }
    return "";
}

bool ready_say_journal(const char *state, char text[READY_BYTES])
{
    const char *why = "the journal is in a state that this errbus web does not know";
    for (size_t i = 0; i < sizeof states / sizeof states[0]; i++) {
        if (strcmp(states[i].state, state) == 0) {
            why = states[i].why;
        }
    }
    if (why == NULL) {
        snprintf(text, READY_BYTES, "ready\n");
    } else {
        snprintf(text, READY_BYTES, "not ready: %s; errbus status says more\n", why);
    }
    return why == NULL;
}

bool ready_say(const struct bus_metrics *metrics, const struct bus_error *error,
               char text[READY_BYTES])
{
    if (metrics != NULL) {
        bool is_ready = ready_say_journal(journal_state(metrics), text);
        if (is_ready && error != NULL) {
            is_ready = false;
            snprintf(text, READY_BYTES,
                     "not ready: parties of new jobs wait, for the directory of shards does not "
                     "answer: %.*s\n",
                     READY_BYTES / 2, bus_error_message(error));
        }
        return is_ready;
    }
    snprintf(text, READY_BYTES, "not ready: the broker does not answer: %.*s\n", READY_BYTES / 2,
             error != NULL ? bus_error_message(error) : "out of memory");
    return false;
}
