/* SPDX-License-Identifier: MPL-2.0 */
/* pattern_fuzz.c -- foreign bytes as a pattern and a topic, a newline between them: whether they
 * match is compared with a second way to say it, level by level and from the end of the text. */
#include "libbus/base/must.h"
#include "libbus/base/pattern.h"

#include <stdint.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

/* Cuts the first level off; false: nothing is left. */
static bool next_level(struct span *text, struct span *out_level)
{
    const uint8_t *data = text->data;
    if (data == NULL)
        return false;
    const uint8_t *end = memchr(data, '/', text->bytes);
    size_t bytes = end != NULL ? (size_t)(end - data) : text->bytes;
    *out_level = span_of(data, bytes);
    *text = end != NULL ? span_of(end + 1, text->bytes - bytes - 1) : SPAN_NONE;
    return true;
}

static bool matches_plainly(struct span pattern, struct span topic)
{
    struct span wanted, level;
    while (next_level(&pattern, &wanted)) {
        if (span_equal(wanted, span_text("#")))
            return true;
        if (!next_level(&topic, &level))
            return false;
        if (!span_equal(wanted, span_text("+")) && !span_equal(wanted, level))
            return false;
    }
    return !next_level(&topic, &level);
}

/* MQTT 5, 4.7.1.2: "sport/#" matches "sport" too. */
static void check(struct span pattern, struct span topic)
{
    if (!pattern_is_valid(pattern) || !topic_is_valid(topic))
        return;
    must(pattern_matches(pattern, topic) == matches_plainly(pattern, topic));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    const uint8_t *end = bytes > 0 ? memchr(data, '\n', bytes) : NULL;
    if (end == NULL)
        return 0;
    size_t cut = (size_t)(end - data);
    struct span pattern = span_of(data, cut);
    struct span topic = span_of(end + 1, bytes - cut - 1);
    check(pattern, topic);
    check(topic, pattern);
    check(pattern, pattern);
    return 0;
}
