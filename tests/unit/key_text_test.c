/* SPDX-License-Identifier: MPL-2.0 */
/* key_text_test.c -- keys as text: there and back, and each way to mistype one. */
#include "libbus/base/key_text.h"

#include <criterion/criterion.h>

/* Base32 of 00, 32 bytes ff, and their checksum; made by other code. */
static const char all_ones[] = "ebp_ad777777777777777777777777777777777777777777777777776n4k";

static void make(uint8_t key[KEY_BYTES])
{
    for (unsigned i = 0; i < KEY_BYTES; i++)
        key[i] = (uint8_t)(i * 37 + 11);
}

Test(key_text, is_read_as_it_was_written)
{
    uint8_t key[KEY_BYTES], back[KEY_BYTES];
    char text[KEY_TEXT_BYTES + 1];
    make(key);
    for (int kind = KEY_PUBLIC; kind <= KEY_SECRET; kind++) {
        key_text_write(key, (enum key_kind)kind, text);
        cr_assert_eq(strlen(text), KEY_TEXT_BYTES);
        memset(back, 0, sizeof back);
        cr_assert_eq(key_text_read(span_text(text), (enum key_kind)kind, back), KEY_OK, "%s", text);
        cr_assert_arr_eq(back, key, KEY_BYTES);
    }
}

Test(key_text, has_the_form_that_is_documented)
{
    uint8_t key[KEY_BYTES];
    char text[KEY_TEXT_BYTES + 1];
    memset(key, 0xff, sizeof key);
    key_text_write(key, KEY_PUBLIC, text);
    cr_assert_str_eq(text, all_ones);
}

Test(key_text, tells_each_wrong_character)
{
    uint8_t key[KEY_BYTES];
    char text[KEY_TEXT_BYTES + 1];
    make(key);
    key_text_write(key, KEY_PUBLIC, text);
    for (size_t i = 4; i < KEY_TEXT_BYTES; i++) {
        for (const char *wrong = "abcdefghijklmnopqrstuvwxyz234567A1-"; *wrong != '\0'; wrong++) {
            char was = text[i];
            if (*wrong == was)
                continue;
            text[i] = *wrong;
            cr_assert_eq(key_text_read(span_text(text), KEY_PUBLIC, key), KEY_MISTYPED, "%s", text);
            text[i] = was;
        }
    }
}

Test(key_text, tells_what_is_no_key)
{
    uint8_t key[KEY_BYTES];
    char text[KEY_TEXT_BYTES + 2] = "";
    make(key);
    key_text_write(key, KEY_SECRET, text);
    cr_assert_eq(key_text_read(span_text(text), KEY_PUBLIC, key), KEY_OTHER_KIND);
    text[2] = 'p'; /* the kind is in the checksum too */
    cr_assert_eq(key_text_read(span_text(text), KEY_PUBLIC, key), KEY_MISTYPED);
    cr_assert_eq(key_text_read(SPAN_NONE, KEY_PUBLIC, key), KEY_FOREIGN);
    cr_assert_eq(key_text_read(span_text("ebp"), KEY_PUBLIC, key), KEY_FOREIGN);
    cr_assert_eq(key_text_read(span_text("ssh-ed25519"), KEY_PUBLIC, key), KEY_FOREIGN);
    key_text_write(key, KEY_PUBLIC, text);
    cr_assert_eq(key_text_read(span_of(text, KEY_TEXT_BYTES - 1), KEY_PUBLIC, key), KEY_MISTYPED);
    text[KEY_TEXT_BYTES] = 'a';
    cr_assert_eq(key_text_read(span_of(text, KEY_TEXT_BYTES + 1), KEY_PUBLIC, key), KEY_MISTYPED);
}
