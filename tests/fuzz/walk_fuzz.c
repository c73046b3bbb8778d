/* SPDX-License-Identifier: MPL-2.0 */
/* walk_fuzz.c -- foreign bytes as msgpack: what the bounded walk takes, msgpack-c takes as well, to
 * the same byte; what msgpack-c takes, the walk takes within its bounds.  And as text: what is a
 * topic is a pattern that matches itself. */
#include "libbus/base/must.h"
#include "libbus/base/pattern.h"
#include "libbus/wire/msg.h"

#include <msgpack.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

/* msgpack-c takes memory as it is told to: it is asked only about what the walk let through, or
 * found too short, too long or of no format. */
static bool second_opinion(const uint8_t *data, size_t bytes)
{
    msgpack_unpacked unpacked;
    size_t at = 0;
    msgpack_unpacked_init(&unpacked);
    msgpack_unpack_return got = msgpack_unpack_next(&unpacked, (const char *)data, bytes, &at);
    msgpack_unpacked_destroy(&unpacked);
    return got == MSGPACK_UNPACK_SUCCESS && at == bytes;
}

static void check_walk(const uint8_t *data, size_t bytes)
{
    enum wire_err err = wire_walk(span_of(data, bytes));
    if (err == WIRE_DEPTH || err == WIRE_ITEMS || err == WIRE_TOO_BIG)
        return;
    must((err == WIRE_OK) == second_opinion(data, bytes));
}

static void check_text(const uint8_t *data, size_t bytes)
{
    struct span text = span_of(data, bytes);
    struct span party;
    bool is_topic = topic_is_valid(text);
    bool is_pattern = pattern_is_valid(text);
    must(!is_topic || is_pattern);
    must(!is_pattern || name_is_valid(text));
    must(!party_is_valid(text) || (name_is_valid(text) && !is_pattern)); /* one level */
    if (is_topic) {
        must(pattern_matches(text, text));
        must(pattern_matches(span_text("#"), text));
        must(pattern_names_party(text, &party) && party_is_valid(party));
        must(span_equal(party, topic_party(text)));
    }
    if (bytes > 0) /* the first byte says where the pattern ends and the topic begins */
        (void)pattern_matches(span_of(data + 1, data[0] % bytes),
                              span_of(data + 1 + data[0] % bytes, bytes - 1 - data[0] % bytes));
    size_t cut = bytes > 0 ? utf8_cut((const char *)data, bytes) : 0;
    must(cut <= bytes && bytes - cut <= 4);
    must(!utf8_is_valid(text) || cut == bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    check_walk(data, bytes);
    check_text(data, bytes);
    return 0;
}
