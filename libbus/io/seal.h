/* SPDX-License-Identifier: MPL-2.0 */
/* seal.h -- sealed boxes of libsodium (crypto_box_seal): anybody can make one with a public key,
 * and only its secret half opens it.
 *
 * X25519, XSalsa20 and Poly1305, as in CURVE, so a key pair of a key file fits.  The sender draws a
 * key for each box and forgets it: it cannot open the box either.  Without libsodium this is built,
 * too; nothing can be sealed or opened then. */
#ifndef IO_SEAL_H
#define IO_SEAL_H

#include "libbus/base/span.h"
#include "libbus/io/key_file.h"

#include <stdbool.h>

enum { SEAL_BOX_BYTES = 48 }; /* a box is so much longer than what is in it */

/* Whether this build can seal. */
bool seal_is_there(void);
/* out has room for SEAL_BOX_BYTES more than plain has.  false: it cannot be sealed, as with a key
 * that is none. */
bool seal_close(const uint8_t key[KEY_BYTES], struct span plain, uint8_t *out);
/* out has room for SEAL_BOX_BYTES less than box has.  false: it is not for this key, or is not
 * whole. */
bool seal_open(const struct key_pair *pair, struct span box, uint8_t *out);
/* Bytes that nobody can guess; zeros without libsodium. */
void seal_draw(uint8_t *out, size_t bytes);

#endif
