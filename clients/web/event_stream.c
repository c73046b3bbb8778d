/* SPDX-License-Identifier: MPL-2.0 */
/* event_stream.c -- see event_stream.h. */
#include "clients/web/event_stream.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void write_gap(FILE *out, uint64_t first_id, uint64_t last_id)
{
    fprintf(out,
            "id: %" PRIu64 "\nevent: gap\ndata: {\"first_id\":%" PRIu64 ",\"last_id\":%" PRIu64
            "}\n\n",
            last_id, first_id, last_id);
}

static void write_events(FILE *out, const struct history *history, uint64_t *next_id)
{
    const struct history_event *event = history_find(history, *next_id);
    for (size_t bytes = 0; event != NULL && bytes < EVENT_STREAM_TEXT_BYTES;
         event = history_find(history, *next_id)) {
        if (*next_id > 0 && event->id > *next_id) {
            write_gap(out, *next_id, event->id - 1);
        }
        /* The line ends with a newline, and a blank line ends the event. */
        fprintf(out, "id: %" PRIu64 "\ndata: %s\n", event->id, event->brief);
        bytes += strlen(event->brief);
        *next_id = event->id + 1;
    }
    /* The last ones are missing: nobody knows when the next event comes. */
    if (event == NULL && *next_id > 0 && history->next_id > *next_id) {
        write_gap(out, *next_id, history->next_id - 1);
        *next_id = history->next_id;
    }
}

char *event_stream_text(const struct history *history, uint64_t *next_id, uint32_t *forgotten)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    if (out == NULL) {
        return NULL;
    }
    uint64_t behind = history->next_id > 0 ? history->next_id : 1;
    if (*forgotten != history->forgotten || *next_id > behind) {
        fputs("event: reset\ndata: {}\n\n", out);
        *forgotten = history->forgotten;
        *next_id = 1; /* all that the broker has now is new to the page */
    }
    write_events(out, history, next_id);
    bool is_whole = fflush(out) == 0 && ferror(out) == 0;
    fclose(out);
    if (!is_whole || bytes == 0) {
        free(text);
        text = NULL;
    }
    return text;
}
