/* SPDX-License-Identifier: MPL-2.0 */
/* utf8_test.c -- text as RFC 3629 has it, against a decoder that is slow and plain. */
#include "libbus/base/utf8.h"

#include <criterion/criterion.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

static size_t encode(uint32_t character, uint8_t out[4])
{
    if (character < 0x80) {
        out[0] = (uint8_t)character;
        return 1;
    }
    size_t more = character < 0x800 ? 1 : character < 0x10000 ? 2 : 3;
    static const uint8_t leads[] = {0, 0xc0, 0xe0, 0xf0};
    out[0] = (uint8_t)(leads[more] | character >> (6 * more));
    for (size_t i = 1; i <= more; i++)
        out[i] = (uint8_t)(0x80 | (character >> (6 * (more - i)) & 0x3f));
    return more + 1;
}

Test(utf8, takes_every_character_but_surrogates)
{
    for (uint32_t character = 0; character < 0x120000; character++) {
        uint8_t bytes[4];
        size_t count = encode(character, bytes);
        bool is_good = character < 0x110000 && (character < 0xd800 || character > 0xdfff);
        cr_assert_eq(utf8_is_valid(span_of(bytes, count)), is_good, "U+%04X", character);
        for (size_t less = 1; less < count; less++)
            if (utf8_is_valid(span_of(bytes, less)))
                cr_assert_fail("U+%04X, %zu bytes of it", character, less);
    }
}

Test(utf8, refuses_what_is_longer_than_needed_and_what_stands_alone)
{
    static const char *const bad[] = {"\xc0\x80",
                                      "\xc1\xbf",
                                      "\xe0\x80\x80",
                                      "\xe0\x9f\xbf",
                                      "\xf0\x80\x80\x80",
                                      "\xf0\x8f\xbf\xbf",
                                      "\x80",
                                      "\xbf",
                                      "\xfe",
                                      "\xff",
                                      "\xf5\x80\x80\x80",
                                      "\xc3\x28",
                                      "\xe2\x28\xa1",
                                      "\xe2\x82\x28",
                                      "\xf0\x90\x28\xbc",
                                      "\xf0\x28\x8c\xbc",
                                      "abcdefgh\xc3",
                                      "abcdefghijklmno\xff"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        cr_assert_not(utf8_is_valid(span_text(bad[i])), "case %zu", i);
    cr_assert(utf8_is_valid(SPAN_NONE));
}

Test(utf8, finds_a_bad_byte_wherever_it_is)
{
    char text[40];
    for (size_t at = 0; at < sizeof text; at++) {
        memset(text, 'a', sizeof text);
        cr_assert(utf8_is_valid(span_of(text, sizeof text)));
        text[at] = '\xff';
        cr_assert_not(utf8_is_valid(span_of(text, sizeof text)), "at %zu", at);
    }
}

Test(utf8, cuts_between_characters)
{
    const char *text = "a\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80z"; /* of 1, 2, 3, 4, 1 bytes */
    static const size_t cuts[] = {0, 1, 1, 3, 3, 3, 6, 6, 6, 6, 10, 11};
    for (size_t bytes = 0; bytes <= 11; bytes++) {
        cr_assert_eq(utf8_cut(text, bytes), cuts[bytes], "at %zu", bytes);
        cr_assert(utf8_is_valid(span_of(text, utf8_cut(text, bytes))));
    }
}

Test(utf8, cuts_anywhere_what_is_not_utf8)
{
    char text[9];
    memset(text, '\x80', sizeof text);
    for (size_t bytes = 0; bytes <= sizeof text; bytes++)
        cr_assert_eq(utf8_cut(text, bytes), bytes);
}

Test(utf8, mends_what_is_no_character_and_nothing_else)
{
    static const char *const rows[][2] = {{"", ""},
                                          {"plain", "plain"},
                                          {"a\xc3\xa4\xe2\x82\xac", "a\xc3\xa4\xe2\x82\xac"},
                                          {"gr\xfc\xdf", "gr??"},
                                          {"\xff\xc3\xa4", "?\xc3\xa4"},
                                          {"cut \xe2\x82", "cut ??"},
                                          {"\xc3", "?"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char text[32];
        snprintf(text, sizeof text, "%s", rows[i][0]);
        utf8_mend(text);
        cr_expect_str_eq(text, rows[i][1]);
        cr_expect(utf8_is_valid(span_of(text, strlen(text))));
    }
}
