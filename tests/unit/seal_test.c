/* SPDX-License-Identifier: MPL-2.0 */
/* seal_test.c -- sealed boxes: only the secret half opens one, whole. */
#include "libbus/io/seal.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct key_pair own;
static struct key_pair other;

/* Keys as files have them: those of CURVE. */
static void draw(struct key_pair *pair)
{
    char folder[] = "/tmp/errbus-seal-XXXXXX";
    char path[64];
    char complaint[KEY_FILE_COMPLAINT_BYTES];
    cr_assert_not_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/key", folder);
    cr_assert_eq(key_file_make(path, pair, complaint), KEY_FILE_OK);
    cr_assert_eq(unlink(path), 0);
    cr_assert_eq(rmdir(folder), 0);
}

static void begin(void)
{
    if (!seal_is_there())
        cr_skip("this build cannot seal: libsodium was missing");
    draw(&own);
    draw(&other);
}

TestSuite(seal, .init = begin);

Test(seal, opens_with_the_secret_half_alone)
{
    uint8_t box[SEAL_BOX_BYTES + 100];
    uint8_t plain[100];
    uint8_t text[100];
    for (size_t bytes = 0; bytes <= sizeof text; bytes += 25) {
        memset(text, 'a', sizeof text);
        memset(plain, 0, sizeof plain);
        cr_assert(seal_close(own.public_key, span_of(text, bytes), box));
        struct span whole = span_of(box, SEAL_BOX_BYTES + bytes);
        cr_expect_not(seal_open(&other, whole, plain));
        cr_expect(seal_open(&own, whole, plain));
        cr_expect(bytes == 0 || memcmp(plain, text, bytes) == 0);
        struct key_pair half = own;
        memcpy(half.secret_key, other.secret_key, sizeof half.secret_key);
        cr_expect_not(seal_open(&half, whole, plain));
    }
}

Test(seal, opens_nothing_that_is_not_whole)
{
    uint8_t box[SEAL_BOX_BYTES + 9];
    uint8_t plain[sizeof box];
    cr_assert(seal_close(own.public_key, span_text("a secret."), box));
    for (size_t cut = 0; cut < sizeof box; cut++)
        cr_expect_not(seal_open(&own, span_of(box, cut), plain), "%zu", cut);
    for (size_t i = 0; i < sizeof box; i++) {
        box[i] ^= 1;
        cr_expect_not(seal_open(&own, span_of(box, sizeof box), plain), "%zu", i);
        box[i] ^= 1;
    }
    cr_expect(seal_open(&own, span_of(box, sizeof box), plain));
}

/* Two seals of the same are different, and neither shows what is in it. */
Test(seal, shows_nothing)
{
    uint8_t a[SEAL_BOX_BYTES + 8];
    uint8_t b[sizeof a];
    cr_assert(seal_close(own.public_key, span_text("a secret"), a));
    cr_assert(seal_close(own.public_key, span_text("a secret"), b));
    cr_expect_neq(memcmp(a, b, sizeof a), 0);
    cr_expect_null(memmem(a, sizeof a, "secret", 6));
    cr_expect_null(memmem(a, sizeof a, own.public_key, KEY_BYTES));
}

/* A point of small order: whatever is multiplied with it is known. */
Test(seal, refuses_a_key_that_is_none)
{
    uint8_t box[SEAL_BOX_BYTES + 1];
    uint8_t key[KEY_BYTES] = {0};
    cr_expect_not(seal_close(key, span_text("x"), box));
    key[0] = 1;
    cr_expect_not(seal_close(key, span_text("x"), box));
}

Test(seal, draws_what_nobody_can_guess)
{
    uint8_t a[16];
    uint8_t b[16];
    seal_draw(a, sizeof a);
    seal_draw(b, sizeof b);
    cr_expect_neq(memcmp(a, b, sizeof a), 0);
}
