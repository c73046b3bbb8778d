/* SPDX-License-Identifier: MPL-2.0 */
/* assembly.h -- a value that comes in chunks, put together in one buffer. */
#ifndef SESSION_ASSEMBLY_H
#define SESSION_ASSEMBLY_H

#include "libbus/base/buffer.h"
#include "libbus/wire/frame.h"

#include <stdint.h>

struct assembly {
    struct buffer *value; /* NULL: none under way; bytes: what is here, room: at least the whole */
    uint64_t seq;
    int64_t stamp_ns; /* of each of its chunks */
    uint64_t total_bytes;
};

enum assembly_verdict {
    ASSEMBLY_GOES_ON,
    ASSEMBLY_WHOLE,     /* assembly->value is to be taken */
    ASSEMBLY_BROKEN,    /* not the chunk that follows, or larger than value_bytes_max */
    ASSEMBLY_NO_MEMORY, /* for the first chunk's value */
};
/* A chunk that is here already goes on.  The first chunk of another slot drops what was there; so
 * does that of another value of the same slot, which a broker has whose machine crashed and lost
 * what it had passed on. */
enum assembly_verdict assembly_add(struct assembly *assembly, const struct frame *frame,
                                   uint64_t value_bytes_max);
void assembly_drop(struct assembly *assembly);
/* Bytes of the value of this slot that are here. */
uint64_t assembly_offset(const struct assembly *assembly, uint64_t seq);

#endif
