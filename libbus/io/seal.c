/* SPDX-License-Identifier: MPL-2.0 */
/* seal.c -- see seal.h. */
#include "libbus/io/seal.h"

#include <string.h>

#ifdef ERRBUS_HAS_SODIUM
#include <sodium.h>

_Static_assert(SEAL_BOX_BYTES == crypto_box_SEALBYTES, "what a seal adds");
_Static_assert(KEY_BYTES == crypto_box_PUBLICKEYBYTES && KEY_BYTES == crypto_box_SECRETKEYBYTES,
               "the keys of CURVE");

bool seal_is_there(void)
{
    return sodium_init() >= 0;
}

bool seal_close(const uint8_t key[KEY_BYTES], struct span plain, uint8_t *out)
{
    return seal_is_there() && crypto_box_seal(out, plain.data, plain.bytes, key) == 0;
}

bool seal_open(const struct key_pair *pair, struct span box, uint8_t *out)
{
    return seal_is_there() && box.bytes >= SEAL_BOX_BYTES &&
           crypto_box_seal_open(out, box.data, box.bytes, pair->public_key, pair->secret_key) == 0;
}

void seal_draw(uint8_t *out, size_t bytes)
{
    memset(out, 0, bytes);
    if (seal_is_there())
        randombytes_buf(out, bytes);
}

#else

bool seal_is_there(void)
{
    return false;
}

bool seal_close(const uint8_t key[KEY_BYTES], struct span plain, uint8_t *out)
{
    (void)key;
    (void)plain;
    (void)out;
    return false;
}

bool seal_open(const struct key_pair *pair, struct span box, uint8_t *out)
{
    (void)pair;
    (void)box;
    (void)out;
    return false;
}

void seal_draw(uint8_t *out, size_t bytes)
{
    memset(out, 0, bytes);
}

#endif
