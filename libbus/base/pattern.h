/* SPDX-License-Identifier: MPL-2.0 */
/* pattern.h -- names, topics and patterns: which are well formed, and which match.
 *
 * A topic is a list of levels with '/' between them; the first level is its writer.  In a pattern a
 * whole level may be '+', which matches any one level.  The last level may be '#', which matches
 * its parent and everything below, as in MQTT 5, section 4.7.  So "alice/#" matches "alice" too.
 * Empty levels are not allowed.  A leading '$' has no special meaning. */
#ifndef BASE_PATTERN_H
#define BASE_PATTERN_H

#include "libbus/base/span.h"

#include <stdbool.h>

/* UTF-8 without control characters, 1..LIMIT_NAME_BYTES bytes. */
bool name_is_valid(struct span name);
/* A name without '/', '+', '#'. */
bool party_is_valid(struct span party);
/* "party/name...": at least two levels, no wildcards. */
bool topic_is_valid(struct span topic);
/* Topics and patterns have LIMIT_TOPIC_LEVELS at most and are LIMIT_NAME_BYTES long at most.  A
 * pattern of one level would match no topic; "#" alone matches all. */
bool pattern_is_valid(struct span pattern);

/* Both well formed: otherwise the answer means nothing. */
bool pattern_matches(struct span pattern, struct span topic);
/* Whether each topic that matches the other matches the pattern; both well formed. */
bool pattern_covers(struct span pattern, struct span other);
/* Whether some topic may match both; both well formed. */
bool pattern_meets(struct span pattern, struct span other);

/* The first level. */
struct span topic_party(struct span topic);
/* Whether the pattern's first level names a party, rather than being a wildcard; out_party is a
 * part of pattern. */
bool pattern_names_party(struct span pattern, struct span *out_party);

#endif
