/* SPDX-License-Identifier: MPL-2.0 */
/* event_warnings.h -- warnings about parties that are lost: which are lines of the log, and which
 * are summed.
 *
 * A client may come and be lost again all the time, and must not fill the log.  So of each kind of
 * event LIMIT_EVENT_WARNINGS are lines at once, and one a second from then on.  The others are
 * counted, and a line in LIMIT_EVENT_WARNINGS_MS has their number.  Pure: the caller writes the
 * lines.  Taps are told of each event; this bounds the log alone. */
#ifndef IO_EVENT_WARNINGS_H
#define IO_EVENT_WARNINGS_H

#include "libbus/base/span.h"
#include "libbus/base/token_bucket.h"

#include <stdbool.h>
#include <stdint.h>

enum { EVENT_WARNINGS_KINDS = 2, EVENT_WARNINGS_LAST_BYTES = 512, EVENT_WARNINGS_TEXT_BYTES = 768 };

struct event_warnings {
    struct event_warnings_kind {
        struct token_bucket lines;
        uint64_t held;                        /* events since since_ns that are no lines */
        int64_t since_ns;                     /* of the first of them */
        char last[EVENT_WARNINGS_LAST_BYTES]; /* what the line of the last one would have said */
    } kinds[EVENT_WARNINGS_KINDS];
};

void event_warnings_init(struct event_warnings *warnings, int64_t now_ns);
/* Whether this event is a line; text: that line, which begins with the name and a blank.  false:
 * the event is counted. */
bool event_warnings_take(struct event_warnings *warnings, struct span name, const char *text,
                         int64_t now_ns);
/* When a number is to be told; INT64_MAX: there is none. */
int64_t event_warnings_due_ns(const struct event_warnings *warnings);
/* The next number that is due, or, if the broker ends, that there is.  Returns the name of the
 * event; NULL: there is no more. */
const char *event_warnings_next(struct event_warnings *warnings, int64_t now_ns, bool is_end,
                                char text[EVENT_WARNINGS_TEXT_BYTES]);

#endif
