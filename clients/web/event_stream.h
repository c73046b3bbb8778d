/* SPDX-License-Identifier: MPL-2.0 */
/* event_stream.h -- events of a history as the text of server-sent events.
 *
 * The id of each is the event's, so a page that comes back names the last one that it has, and
 * continues behind it.  Ids that the history has no more are told as `gap`.  When the broker forgot
 * events and counts from a smaller id, `reset` is told first.
 *   https://html.spec.whatwg.org/multipage/server-sent-events.html */
#ifndef CLIENTS_WEB_EVENT_STREAM_H
#define CLIENTS_WEB_EVENT_STREAM_H

#include "clients/web/history.h"

enum { EVENT_STREAM_TEXT_BYTES = 32 * 1024 }; /* of one text; its last event may lie beyond */

/* What comes next for a reader that has all events before *next_id (0: none); NULL: nothing, or no
 * memory.  The text is the caller's, and *next_id and *forgotten move on. */
char *event_stream_text(const struct history *history, uint64_t *next_id, uint32_t *forgotten);

#endif
