/* SPDX-License-Identifier: MPL-2.0 */
/* history.h -- the newest events of one job, as texts, for any number of readers.
 *
 * Ids rise.  A reader asks for the first event from an id on.  If that event has a larger id, the
 * events between are missing: the tap missed them, or they went for newer ones.  An id that does
 * not rise means that the broker forgot events: then the history forgets all that it has. */
#ifndef CLIENTS_WEB_HISTORY_H
#define CLIENTS_WEB_HISTORY_H

#include <bus/bus.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    HISTORY_EVENTS_MAX = 16384, /* as many as a broker keeps */
    HISTORY_BYTES_MAX = 24 * 1024 * 1024,
};

struct history_event {
    uint64_t id;
    char *brief;             /* a line of JSON, of a bounded length */
    char *whole;             /* as `errbus tap --json` prints it */
    struct bus_error *error; /* a reference, or NULL */
    size_t bytes;            /* that it counts */
};

/* Zeroed it is empty. */
struct history {
    struct history_event *ring;
    size_t room; /* 0 or a power of two */
    size_t head;
    size_t count;
    size_t bytes;
    uint64_t next_id;   /* behind the newest, or behind those that are missing; 0: none so far */
    uint32_t forgotten; /* how often it forgot all */
};

/* Takes texts and error over, also if it fails: false: no memory. */
bool history_add(struct history *history, uint64_t id, char *brief, char *whole,
                 struct bus_error *error);
/* Events before this id are missing, and none of them comes any more. */
void history_skip(struct history *history, uint64_t next_id);
/* All that is here goes, ids may begin anew, and `forgotten` rises. */
void history_forget(struct history *history);
/* The first event from this id on, or NULL: there is none yet.  Good until the next call that
 * changes the history. */
const struct history_event *history_find(const struct history *history, uint64_t id);
/* The id from which on there are at most so many events. */
uint64_t history_newest(const struct history *history, size_t count);
/* The index-th event, the oldest first; index is below count. */
const struct history_event *history_at(const struct history *history, size_t index);
void history_fini(struct history *history);

#endif
