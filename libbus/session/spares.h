/* SPDX-License-Identifier: MPL-2.0 */
/* spares.h -- a small pool of buffers that are used again.
 *
 * malloc takes each large buffer fresh from the kernel, which costs page faults for each batch.  A
 * program could raise malloc's thresholds, but a library must not tune its host.  The link may
 * still hold a buffer that was given back: the pool hands it out again once it has the only
 * reference. */
#ifndef SESSION_SPARES_H
#define SESSION_SPARES_H

#include "libbus/base/buffer.h"

#include <stddef.h>
#include <stdint.h>

enum { SPARE_SIZES = 6, SPARES_EACH = 16 };

struct spares {
    struct buffer *kept[SPARE_SIZES][SPARES_EACH];
    uint32_t counts[SPARE_SIZES];
};

void spares_fini(struct spares *spares);
/* A buffer of its own with at least this room, bytes 0; NULL: no memory. */
struct buffer *spares_take(struct spares *spares, size_t room);
/* Takes one reference over, and keeps the buffer for later or drops it. */
void spares_give(struct spares *spares, struct buffer **buffer);

#endif
