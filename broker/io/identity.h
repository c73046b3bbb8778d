/* SPDX-License-Identifier: MPL-2.0 */
/* identity.h -- what a peer has proved to libzmq, or the kernel has said of it. */
#ifndef IO_IDENTITY_H
#define IO_IDENTITY_H

#include "libbus/base/key_text.h"

#include <stdbool.h>
#include <stdint.h>

struct identity {
    uint8_t key[KEY_BYTES]; /* with has_key */
    uint32_t uid;           /* with has_uid */
    bool has_key, has_uid;  /* neither: nothing is known */
};

#endif
