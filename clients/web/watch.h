/* SPDX-License-Identifier: MPL-2.0 */
/* watch.h -- a job that somebody looks at: a tap, and what it says as texts.
 *
 * The tap begins with the oldest event that the broker keeps.  When it is lost, the next one goes
 * on behind the last event.  Another broker instance has none of these events: the watch then
 * begins anew. */
#ifndef CLIENTS_WEB_WATCH_H
#define CLIENTS_WEB_WATCH_H

#include <bus/tap.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    WATCH_EVENTS_MAX = 256, /* that are read at a time */
    WATCH_RETRY_MS = 500,   /* between two tries to open a tap */
};

struct watch {
    char job[BUS_NAME_BYTES_MAX + 1];
    struct bus_tap *tap; /* NULL: none, or none at the moment */
    int64_t retry_ms;    /* when to open one */
    int64_t lost_ms;     /* without a broker for so long a tap is lost; 0: as taps usually are */
    uint64_t next_id;    /* behind the last event, or behind the last gap; 0: none so far */
    bool is_refused;     /* the broker said the last time that this program may not have it */
    uint64_t instance;   /* of the broker whose events they are; 0: none so far */
};

/* One event: texts and the reference are the caller's. */
struct watch_event {
    uint64_t id;
    char *brief; /* NULL: no memory */
    char *whole;
    struct bus_error *error; /* or NULL */
};

/* Whether there is no tap, and it is time to try to open one. */
bool watch_is_due(const struct watch *watch, int64_t now_ms);
/* Opens a tap if that is due; then waits timeout_ms at most. */
void watch_open(struct watch *watch, const char *endpoint, int64_t now_ms, int64_t timeout_ms);
/* Whether the tap has come to another broker instance.  Then it is closed, and the next one begins
 * with the oldest event. */
bool watch_begin_anew(struct watch *watch, int64_t now_ms);
/* Reads what is there; how many events it is. */
size_t watch_read(struct watch *watch, int64_t now_ms, struct watch_event out[WATCH_EVENTS_MAX]);
/* Whether all events were read that the broker had when the tap was opened. */
bool watch_is_caught_up(const struct watch *watch);
int watch_fd(const struct watch *watch); /* readable: there may be events; -1: there is no tap */

#endif
