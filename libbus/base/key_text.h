/* SPDX-License-Identifier: MPL-2.0 */
/* key_text.h -- keys of CURVE as people read and copy them.
 *
 * A text is a prefix and 56 characters of base32 (RFC 4648, in lower case).  They hold the kind,
 * the 32 bytes of the key, and a checksum.  So a double click selects the whole text, no shell
 * changes it, and a typing error is told as one. */
#ifndef BASE_KEY_TEXT_H
#define BASE_KEY_TEXT_H

#include "libbus/base/span.h"

#include <stdint.h>

enum { KEY_BYTES = 32, KEY_TEXT_BYTES = 60 };

enum key_kind {
    KEY_PUBLIC, /* ebp_...: may be shown to anybody */
    KEY_SECRET, /* ebs_...: stays with its owner */
};

enum key_fault {
    KEY_OK = 0,
    KEY_FOREIGN,    /* not of this form */
    KEY_MISTYPED,   /* a character is wrong */
    KEY_OTHER_KIND, /* a secret key in the place of a public one, or the reverse */
};

enum key_fault key_text_read(struct span text, enum key_kind kind, uint8_t out_key[KEY_BYTES]);
void key_text_write(const uint8_t key[KEY_BYTES], enum key_kind kind,
                    char out_text[KEY_TEXT_BYTES + 1]);

#endif
