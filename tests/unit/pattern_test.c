/* SPDX-License-Identifier: MPL-2.0 */
/* pattern_test.c -- what is a name, a party, a topic, a pattern; what matches what. */
#include "libbus/base/pattern.h"

#include "libbus/base/limits.h"

#include <criterion/criterion.h>

enum { IS_NAME = 1, IS_PARTY = 2, IS_TOPIC = 4, IS_PATTERN = 8 };

static const struct {
    const char *text;
    unsigned is;
} words[] = {
    {"", 0},
    {"alice", IS_NAME | IS_PARTY},
    {"alice/grads", IS_NAME | IS_TOPIC | IS_PATTERN},
    {"alice/grads/layer 1", IS_NAME | IS_TOPIC | IS_PATTERN},
    {"$sys", IS_NAME | IS_PARTY},
    {"J\xc3\xbcrgen", IS_NAME | IS_PARTY},
    {"+", IS_NAME}, /* no topic has one level */
    {"#", IS_NAME | IS_PATTERN},
    {"+/grads", IS_NAME | IS_PATTERN},
    {"alice/+", IS_NAME | IS_PATTERN},
    {"alice/+/x", IS_NAME | IS_PATTERN},
    {"alice/#", IS_NAME | IS_PATTERN},
    {"+/#", IS_NAME | IS_PATTERN},
    {"#/alice", IS_NAME},
    {"alice/#/x", IS_NAME},
    {"alice/gr+", IS_NAME},
    {"alice/gr#", IS_NAME},
    {"a+ice", IS_NAME},
    {"alice#", IS_NAME},
    {"alice/++", IS_NAME},
    {"alice/##", IS_NAME},
    {"/", IS_NAME},
    {"/alice", IS_NAME},
    {"alice/", IS_NAME},
    {"alice//grads", IS_NAME},
    {"a\nb", 0},
    {"a\x7f", 0},
    {"\x1f", 0},
    {"a\xc2\x80", 0}, /* U+0080 */
    {"a\xc2\x9f", 0},
    {"a\xc2\xa0", IS_NAME | IS_PARTY},
    {"a\xff", 0},
    {"alice/\xc3", 0},
};

static void check_word(struct span text, unsigned is, const char *what)
{
    cr_assert_eq(name_is_valid(text), (is & IS_NAME) != 0, "name: %s", what);
    cr_assert_eq(party_is_valid(text), (is & IS_PARTY) != 0, "party: %s", what);
    cr_assert_eq(topic_is_valid(text), (is & IS_TOPIC) != 0, "topic: %s", what);
    cr_assert_eq(pattern_is_valid(text), (is & IS_PATTERN) != 0, "pattern: %s", what);
}

Test(pattern, tells_names_parties_topics_and_patterns)
{
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        check_word(span_text(words[i].text), words[i].is, words[i].text);
    check_word(SPAN_NONE, 0, "nothing");
    check_word(span_of("a\0b", 3), 0, "a zero inside");
}

Test(pattern, holds_the_limit_of_bytes)
{
    char text[LIMIT_NAME_BYTES + 1];
    memset(text, 'x', sizeof text);
    for (size_t bytes = LIMIT_NAME_BYTES - 1; bytes <= LIMIT_NAME_BYTES + 1; bytes++)
        check_word(span_of(text, bytes), bytes <= LIMIT_NAME_BYTES ? IS_NAME | IS_PARTY : 0,
                   "x...");
    text[1] = '/';
    for (size_t bytes = LIMIT_NAME_BYTES - 1; bytes <= LIMIT_NAME_BYTES + 1; bytes++)
        check_word(span_of(text, bytes),
                   bytes <= LIMIT_NAME_BYTES ? IS_NAME | IS_TOPIC | IS_PATTERN : 0, "x/x...");
}

Test(pattern, holds_the_limit_of_levels)
{
    const char *text = "a/b/c/d/e/f/g/h/i/j/k/l/m/n/o/p/q";
    for (size_t levels = LIMIT_TOPIC_LEVELS - 1; levels <= LIMIT_TOPIC_LEVELS + 1; levels++)
        check_word(span_of(text, levels * 2 - 1),
                   levels <= LIMIT_TOPIC_LEVELS ? IS_NAME | IS_TOPIC | IS_PATTERN : IS_NAME, text);
}

static const struct {
    const char *pattern;
    const char *topic;
    bool does_match;
} matches[] = {
    {"alice/grads", "alice/grads", true},
    {"alice/grads", "alice/grad", false},
    {"alice/grads", "alice/gradsx", false},
    {"alice/grads", "alice/grads/x", false},
    {"alice/grads/x", "alice/grads", false},
    {"alice", "alice/grads", false},
    {"+/grads", "alice/grads", true},
    {"+/grads", "bob/grads", true},
    {"+/grads", "bob/x/grads", false},
    {"alice/+", "alice/grads", true},
    {"alice/+", "alice/grads/x", false},
    {"alice/+", "alice", false},
    {"+/+", "alice/grads", true},
    {"+", "alice/grads", false},
    {"+/+/x", "alice/grads/x", true},
    {"alice/#", "alice/grads", true},
    {"alice/#", "alice/grads/x/y", true},
    {"alice/#", "alice", true},
    {"alice/#", "alicex/grads", false},
    {"alice/#", "bob/grads", false},
    {"alice/grads/#", "alice/grads", true},
    {"alice/grads/#", "alice/grads/x", true},
    {"alice/grads/#", "alice/x", false},
    {"#", "alice/grads", true},
    {"#", "$sys/x", true},
    {"+/#", "alice/grads", true},
    {"+/#", "alice", true},
    {"+/grads/#", "bob/grads", true},
    {"+/grads/#", "bob/x/grads", false},
    {"J\xc3\xbcrgen/+", "J\xc3\xbcrgen/w", true},
};

Test(pattern, matches_as_mqtt_does)
{
    for (size_t i = 0; i < sizeof matches / sizeof matches[0]; i++)
        cr_assert_eq(pattern_matches(span_text(matches[i].pattern), span_text(matches[i].topic)),
                     matches[i].does_match, "%s and %s", matches[i].pattern, matches[i].topic);
}

static void check_party(const char *pattern, const char *party)
{
    struct span got = SPAN_NONE;
    cr_assert_eq(pattern_names_party(span_text(pattern), &got), party != NULL, "%s", pattern);
    cr_assert(span_equal(got, span_text(party)), "%s", pattern);
}

Test(pattern, names_its_party_unless_that_is_a_wildcard)
{
    check_party("alice", "alice");
    check_party("alice/#", "alice");
    check_party("alice/+/x", "alice");
    check_party("+/grads", NULL);
    check_party("#", NULL);
    check_party("", NULL);
    struct span topic = span_text("alice/grads");
    cr_assert(span_equal(topic_party(topic), span_text("alice")));
    cr_assert_eq(topic_party(topic).data, topic.data);
    cr_assert(span_equal(topic_party(span_text("alice")), span_text("alice")));
}

Test(pattern, meets_another_where_one_topic_may_match_both)
{
    static const struct {
        const char *pattern, *other;
        bool does_meet;
    } pairs[] = {
        {"alice/grads", "alice/grads", true},
        {"alice/grads", "alice/loss", false},
        {"alice/+", "+/grads", true},
        {"alice/+", "bob/+", false},
        {"#", "+/+/x", true},
        {"alice/#", "+/grads", true},
        {"alice/#", "bob/#", false},
        {"alice/grads/#", "alice/+", true},
        {"alice/grads/+", "alice/+", false},
        {"alice/grads/x", "alice/#", true},
        {"alice/+/x", "alice/+/y", false},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        struct span pattern = span_text(pairs[i].pattern);
        struct span other = span_text(pairs[i].other);
        cr_assert_eq(pattern_meets(pattern, other), pairs[i].does_meet, "%s and %s",
                     pairs[i].pattern, pairs[i].other);
        cr_assert_eq(pattern_meets(other, pattern), pairs[i].does_meet, "%s and %s", pairs[i].other,
                     pairs[i].pattern);
    }
}
