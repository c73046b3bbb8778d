/* SPDX-License-Identifier: MPL-2.0 */
/* history.c -- see history.h. */
#include "clients/web/history.h"

#include <stdlib.h>
#include <string.h>

enum { ROOM_FIRST = 64 };

static struct history_event *place_at(const struct history *history, size_t index)
{
    return &history->ring[(history->head + index) & (history->room - 1)];
}

static void event_fini(struct history_event *event)
{
    free(event->brief);
    free(event->whole);
    bus_error_unref(&event->error);
}

static void drop_oldest(struct history *history)
{
    struct history_event *oldest = place_at(history, 0);
    history->bytes -= oldest->bytes;
    event_fini(oldest);
    history->head = (history->head + 1) & (history->room - 1);
    history->count -= 1;
}

static bool grow(struct history *history)
{
    size_t room = history->room > 0 ? history->room * 2 : ROOM_FIRST;
    struct history_event *ring = calloc(room, sizeof *ring);
    if (ring == NULL) {
        return false;
    }
    for (size_t i = 0; i < history->count; i++) {
        ring[i] = *place_at(history, i);
    }
    free(history->ring);
    history->ring = ring;
    history->room = room;
    history->head = 0;
    return true;
}

void history_forget(struct history *history)
{
    while (history->count > 0) {
        drop_oldest(history);
    }
    history->next_id = 0;
    history->forgotten += 1;
}

void history_skip(struct history *history, uint64_t next_id)
{
    if (next_id > history->next_id) {
        history->next_id = next_id;
    }
}

bool history_add(struct history *history, uint64_t id, char *brief, char *whole,
                 struct bus_error *error)
{
    struct history_event event = {.id = id, .brief = brief, .whole = whole, .error = error};
    bool is_made = brief != NULL && whole != NULL;
    if (is_made && id < history->next_id) {
        history_forget(history);
    }
    if (is_made && history->count == HISTORY_EVENTS_MAX) {
        drop_oldest(history);
    }
    if (!is_made || (history->count == history->room && !grow(history))) {
        event_fini(&event);
        return false;
    }
    /* The error counts as its text: it has the same again. */
    event.bytes = strlen(brief) + strlen(whole) * (error != NULL ? 2 : 1);
    *place_at(history, history->count) = event;
    history->count += 1;
    history->bytes += event.bytes;
    history->next_id = id + 1;
    while (history->bytes > HISTORY_BYTES_MAX && history->count > 1) {
        drop_oldest(history);
    }
    return true;
}

const struct history_event *history_find(const struct history *history, uint64_t id)
{
    size_t from = 0;
    size_t to = history->count;
    while (from < to) { /* events before `from` have smaller ids, those from `to` on have not */
        size_t middle = from + (to - from) / 2;
        if (place_at(history, middle)->id < id) {
            from = middle + 1;
        } else {
            to = middle;
        }
    }
    return from < history->count ? place_at(history, from) : NULL;
}

uint64_t history_newest(const struct history *history, size_t count)
{
    if (history->count == 0) {
        return history->next_id;
    }
    return place_at(history, history->count > count ? history->count - count : 0)->id;
}

const struct history_event *history_at(const struct history *history, size_t index)
{
    return place_at(history, index);
}

void history_fini(struct history *history)
{
    while (history->count > 0) {
        drop_oldest(history);
    }
    free(history->ring);
    *history = (struct history){0};
}
