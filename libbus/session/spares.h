/* SPDX-License-Identifier: MPL-2.0 */
/* spares.h -- buffers of a few sizes that are used again.
 *
 * A large allocation a batch means page faults a batch (performance.md, 6), and a library must not
 * tune its host's allocator.  A buffer that was given back may still be in the hands of the link:
 * it is handed out again only once nobody else holds it. */
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
/* Takes one reference over: the buffer is kept for later, or dropped. */
void spares_give(struct spares *spares, struct buffer **buffer);

#endif
