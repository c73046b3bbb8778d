/* SPDX-License-Identifier: MPL-2.0 */
/* opener_test.c -- a sealed attachment is opened piece by piece, and each piece must be the next of
 * this attachment of this error. */
#include "libbus/api/opener.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PIECES_MAX = 3, TOTAL_MAX = PIECES_MAX * LIMIT_ATTACHMENT_PIECE_BYTES };

static struct key_pair pair;
static struct opener opener;
static uint8_t sealed[TOTAL_MAX];
static size_t sealed_count;
static uint8_t got[TOTAL_MAX];
static size_t got_count;
static size_t most; /* that are taken */

static int take(const void *bytes, size_t count, void *arg)
{
    cr_assert_eq(arg, got);
    memcpy(got + got_count, bytes, count);
    got_count += count;
    return got_count >= most;
}

static void begin_anew(void)
{
    memset(&opener, 0, sizeof opener);
    opener.pair = pair;
    opener.next.attachment = 2;
    memset(opener.next.label, 7, sizeof opener.next.label);
    opener.take = take;
    opener.arg = got;
    sealed_count = got_count = 0;
    most = SIZE_MAX;
}

static void begin(void)
{
    char folder[] = "/tmp/errbus-opener-XXXXXX";
    char path[64];
    char complaint[KEY_FILE_COMPLAINT_BYTES];
    if (!seal_is_there())
        cr_skip("this build cannot seal: libsodium was missing");
    cr_assert_not_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/key", folder);
    cr_assert_eq(key_file_make(path, &pair, complaint), KEY_FILE_OK);
    cr_assert_eq(unlink(path), 0);
    cr_assert_eq(rmdir(folder), 0);
    begin_anew();
}

TestSuite(opener, .init = begin);

/* Seals a piece of bytes that follow from their offset, as the next one. */
static void put(struct sealed_piece piece, size_t bytes)
{
    static uint8_t plain[SEALED_PIECE_HEAD_BYTES + SEALED_PIECE_BYTES];
    sealed_piece_write(&piece, plain);
    for (size_t i = 0; i < bytes; i++)
        plain[SEALED_PIECE_HEAD_BYTES + i] = (uint8_t)((piece.offset + i) * 31 % 251);
    struct span whole = span_of(plain, SEALED_PIECE_HEAD_BYTES + bytes);
    cr_assert(seal_close(pair.public_key, whole, sealed + sealed_count));
    sealed_count += whole.bytes + SEAL_BOX_BYTES;
}

static struct sealed_piece place(uint64_t offset, bool is_last)
{
    struct sealed_piece piece = {.attachment = 2, .offset = offset, .is_last = is_last};
    memset(piece.label, 7, sizeof piece.label);
    return piece;
}

static void put_all(void)
{
    put(place(0, false), SEALED_PIECE_BYTES);
    put(place(SEALED_PIECE_BYTES, false), SEALED_PIECE_BYTES);
    put(place(2 * SEALED_PIECE_BYTES, true), 5);
}

static void expect_wrong(const char *words)
{
    bool is_well = opener_add(&opener, sealed, sealed_count);
    cr_expect_not(is_well && opener_end(&opener));
    cr_assert_not_null(opener.wrong);
    cr_expect_not_null(strstr(opener.wrong, words), "%s", opener.wrong);
}

Test(opener, opens_in_portions_of_any_size)
{
    static const size_t portions[] = {1000, LIMIT_ATTACHMENT_PIECE_BYTES - 1,
                                      LIMIT_ATTACHMENT_PIECE_BYTES,
                                      LIMIT_ATTACHMENT_PIECE_BYTES + 1, TOTAL_MAX};
    for (size_t i = 0; i < sizeof portions / sizeof portions[0]; i++) {
        begin_anew();
        put_all();
        for (size_t at = 0; at < sealed_count; at += portions[i]) {
            size_t left = sealed_count - at;
            cr_assert(opener_add(&opener, sealed + at, left < portions[i] ? left : portions[i]));
        }
        cr_expect(opener_end(&opener));
        cr_assert_eq(got_count, 2 * SEALED_PIECE_BYTES + 5);
        for (size_t at = 0; at < got_count; at++)
            cr_assert_eq(got[at], at * 31 % 251);
    }
}

Test(opener, notices_a_piece_of_another_place)
{
    struct sealed_piece piece = place(SEALED_PIECE_BYTES, false);
    put(piece, SEALED_PIECE_BYTES); /* the second one first */
    put(place(0, false), SEALED_PIECE_BYTES);
    expect_wrong("another place");
    cr_expect_eq(got_count, 0);
    begin_anew();
    put(place(0, false), SEALED_PIECE_BYTES); /* twice the same */
    put(place(0, true), 5);
    expect_wrong("another place");
    begin_anew();
    piece = place(0, true);
    piece.attachment = 1;
    put(piece, 5);
    expect_wrong("another place");
    begin_anew();
    piece = place(0, true);
    piece.label[15] = 8; /* of another error */
    put(piece, 5);
    expect_wrong("another place");
}

Test(opener, notices_what_is_missing)
{
    put(place(0, false), SEALED_PIECE_BYTES);
    expect_wrong("its last piece is missing");
    begin_anew();
    expect_wrong("its last piece is missing");
    begin_anew();
    put_all();
    sealed_count -= 1;
    expect_wrong("is cut, or was changed");
    cr_expect_eq(got_count, 2 * SEALED_PIECE_BYTES, "what came before it");
    begin_anew();
    put_all();
    sealed[100] ^= 1;
    expect_wrong("is cut, or was changed");
}

Test(opener, notices_what_comes_behind_the_last)
{
    put(place(0, true), SEALED_PIECE_BYTES);
    put(place(SEALED_PIECE_BYTES, true), 1);
    expect_wrong("another place");
}

Test(opener, stops_when_no_more_is_wanted)
{
    most = 10;
    put_all();
    cr_expect_not(opener_add(&opener, sealed, sealed_count));
    cr_expect(opener.is_enough && opener.wrong == NULL);
    cr_expect_eq(got_count, SEALED_PIECE_BYTES);
    cr_expect(opener_end(&opener));
}
