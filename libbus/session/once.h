/* SPDX-License-Identifier: MPL-2.0 */
/* once.h -- how a party ends: the first cause wins and stays.
 *
 * Memory for the cause is reserved at the start, so every end has its error. */
#ifndef SESSION_ONCE_H
#define SESSION_ONCE_H

#include "libbus/base/buffer.h"
#include "libbus/base/span.h"
#include "libbus/wire/error.h"

#include <stdbool.h>

struct once {
    enum wire_code code;  /* CODE_OK: not yet */
    struct buffer *error; /* encoded; NULL: none */
    struct buffer *spare; /* replaces the cause when there is no memory for a copy */
};

/* spare: encoded, copied.  false: no memory. */
bool once_init(struct once *once, struct span spare);
void once_fini(struct once *once);
/* error is copied, and may be empty.  false: it was over before, nothing changed. */
bool once_end(struct once *once, enum wire_code code, struct span error);

#endif
