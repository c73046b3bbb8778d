/* SPDX-License-Identifier: MPL-2.0 */
/* watch.c -- see watch.h. */
#include "clients/web/watch.h"

#include "clients/event_json.h"
#include "clients/web/answers.h"

#include <stdio.h>
#include <stdlib.h>

bool watch_is_due(const struct watch *watch, int64_t now_ms)
{
    return watch->tap == NULL && now_ms >= watch->retry_ms;
}

void watch_open(struct watch *watch, const char *endpoint, int64_t now_ms, int64_t timeout_ms)
{
    struct bus_tap_options options;
    if (!watch_is_due(watch, now_ms)) {
        return;
    }
    bus_tap_options_init(&options);
    options.job = watch->job;
    options.from_id = watch->next_id > 0 ? watch->next_id : 1;
    if (watch->lost_ms > 0) {
        options.broker_lost_ms = watch->lost_ms;
    }
    watch->retry_ms = now_ms + timeout_ms + WATCH_RETRY_MS;
    /* A broker that is away is tried again; one that refuses, too: its access file may change. */
    enum bus_err err = bus_tap_open(endpoint, &options, timeout_ms, &watch->tap, NULL);
    watch->is_refused = err == BUS_EDENIED;
}

bool watch_begin_anew(struct watch *watch, int64_t now_ms)
{
    uint64_t before = watch->instance;
    if (watch->tap == NULL) {
        return false;
    }
    watch->instance = bus_tap_instance(watch->tap);
    if (before == 0 || before == watch->instance) {
        return false;
    }
    bus_tap_close(&watch->tap);
    watch->next_id = 0;
    watch->retry_ms = now_ms;
    return true;
}

/* The line that `print` writes; NULL: no memory. */
static char *text_of(const struct bus_event *event,
                     void (*print)(FILE *out, const struct bus_event *event))
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    if (out == NULL) {
        return NULL;
    }
    print(out, event);
    bool is_whole = fflush(out) == 0 && ferror(out) == 0;
    fclose(out);
    if (!is_whole || bytes == 0) {
        free(text);
        text = NULL;
    }
    return text;
}

size_t watch_read(struct watch *watch, int64_t now_ms, struct watch_event out[WATCH_EVENTS_MAX])
{
    size_t count = 0;
    while (watch->tap != NULL && count < WATCH_EVENTS_MAX) {
        const struct bus_event *event = NULL;
        enum bus_err err = bus_tap_next(watch->tap, 0, &event, NULL);
        if (err == BUS_OK) {
            const struct bus_error *error = bus_event_error(event);
            out[count++] =
                (struct watch_event){.id = bus_event_id(event),
                                     .brief = text_of(event, answers_brief),
                                     .whole = text_of(event, event_json_print),
                                     .error = error != NULL ? bus_error_ref(error) : NULL};
            watch->next_id = bus_event_id(event) + 1;
        } else if (err == BUS_EOVERRUN) { /* readers see that ids are missing */
            uint64_t last_id = 0;
            bus_tap_gap(watch->tap, NULL, &last_id);
            watch->next_id = last_id + 1;
        } else if (err == BUS_ETIMEDOUT) {
            break;
        } else {
            bus_tap_close(&watch->tap);
            watch->retry_ms = now_ms;
        }
    }
    return count;
}

bool watch_is_caught_up(const struct watch *watch)
{
    return watch->tap != NULL &&
           watch->next_id + (watch->next_id == 0) >= bus_tap_next_id(watch->tap);
}

int watch_fd(const struct watch *watch)
{
    return watch->tap != NULL ? bus_tap_fd(watch->tap) : -1;
}
