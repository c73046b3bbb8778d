/* SPDX-License-Identifier: MPL-2.0 */
/* pattern.c -- names, topics and patterns, level by level; see pattern.h. */
#include "libbus/base/pattern.h"

#include "libbus/base/limits.h"
#include "libbus/base/utf8.h"

#include <stdint.h>

/* What stands before the next '/' or the end; *rest: behind that '/', data NULL: nothing. */
static struct span level_next(struct span *rest)
{
    struct span level = *rest;
    const char *slash = level.bytes > 0 ? memchr(level.data, '/', level.bytes) : NULL;
    if (slash == NULL) {
        *rest = SPAN_NONE;
        return level;
    }
    level.bytes = (size_t)(slash - (const char *)level.data);
    *rest = span_of(slash + 1, rest->bytes - level.bytes - 1);
    return level;
}

static bool level_is(struct span level, char wildcard)
{
    return level.bytes == 1 && *(const char *)level.data == wildcard;
}

static bool has_wildcard(struct span level)
{
    return level.bytes > 0 && (memchr(level.data, '+', level.bytes) != NULL ||
                               memchr(level.data, '#', level.bytes) != NULL);
}

/* C0, DEL, and C1, which UTF-8 writes as c2 80 .. c2 9f. */
static bool has_control(struct span text)
{
    const uint8_t *data = text.data;
    for (size_t i = 0; i < text.bytes; i++) {
        if (data[i] < 0x20 || data[i] == 0x7f)
            return true;
        if (data[i] == 0xc2 && i + 1 < text.bytes && data[i + 1] < 0xa0)
            return true;
    }
    return false;
}

bool name_is_valid(struct span name)
{
    return name.bytes >= 1 && name.bytes <= LIMIT_NAME_BYTES && utf8_is_valid(name) &&
           !has_control(name);
}

bool party_is_valid(struct span party)
{
    return name_is_valid(party) && memchr(party.data, '/', party.bytes) == NULL &&
           !has_wildcard(party);
}

/* Levels of a well-formed topic or pattern; 0: it is not. */
static unsigned levels_count(struct span text, bool with_wildcards)
{
    unsigned count = 0;
    if (!name_is_valid(text))
        return 0;
    for (struct span rest = text; rest.data != NULL;) {
        struct span level = level_next(&rest);
        count += 1;
        if (level.bytes == 0 || count > LIMIT_TOPIC_LEVELS)
            return 0;
        bool is_wildcard = level_is(level, '+') || (level_is(level, '#') && rest.data == NULL);
        if (has_wildcard(level) && !(with_wildcards && is_wildcard))
            return 0;
    }
    return count;
}

bool topic_is_valid(struct span topic)
{
    return levels_count(topic, false) >= 2;
}

bool pattern_is_valid(struct span pattern)
{
    return levels_count(pattern, true) >= 2 || (pattern.bytes == 1 && level_is(pattern, '#'));
}

bool pattern_matches(struct span pattern, struct span topic)
{
    struct span wanted_rest = pattern;
    struct span given_rest = topic;
    while (wanted_rest.data != NULL) {
        struct span wanted = level_next(&wanted_rest);
        if (level_is(wanted, '#'))
            return true; /* with or without levels left: the parent matches too */
        if (given_rest.data == NULL)
            return false;
        struct span given = level_next(&given_rest);
        if (!level_is(wanted, '+') && !span_equal(wanted, given))
            return false;
    }
    return given_rest.data == NULL;
}

bool pattern_covers(struct span pattern, struct span other)
{
    struct span rest = pattern;
    struct span other_rest = other;
    while (rest.data != NULL) {
        struct span level = level_next(&rest);
        if (level_is(level, '#'))
            return true;
        if (other_rest.data == NULL)
            return false;
        struct span other_level = level_next(&other_rest);
        if (level_is(other_level, '#') ||
            (!level_is(level, '+') && !span_equal(level, other_level)))
            return false;
    }
    return other_rest.data == NULL;
}

bool pattern_meets(struct span pattern, struct span other)
{
    struct span rest = pattern;
    struct span other_rest = other;
    while (rest.data != NULL && other_rest.data != NULL) {
        struct span level = level_next(&rest);
        struct span other_level = level_next(&other_rest);
        if (level_is(level, '#') || level_is(other_level, '#'))
            return true;
        if (!level_is(level, '+') && !level_is(other_level, '+') && !span_equal(level, other_level))
            return false;
    }
    /* What is left of the longer one may be "#", which matches its parent too. */
    struct span left = rest.data != NULL ? rest : other_rest;
    return left.data == NULL || level_is(left, '#');
}

struct span topic_party(struct span topic)
{
    struct span rest = topic;
    return level_next(&rest);
}

bool pattern_names_party(struct span pattern, struct span *out_party)
{
    struct span party = topic_party(pattern);
    if (party.bytes == 0 || has_wildcard(party))
        return false;
    *out_party = party;
    return true;
}
