/* SPDX-License-Identifier: MPL-2.0 */
/* assembly.h -- a value that arrives in chunks: put together in a buffer, or passed on in
 * pieces. */
#ifndef SESSION_ASSEMBLY_H
#define SESSION_ASSEMBLY_H

#include "libbus/base/buffer.h"
#include "libbus/wire/frame.h"

#include <stdbool.h>
#include <stdint.h>

struct assembly {
    bool is_begun;        /* a value is under way */
    struct buffer *value; /* its bytes so far, with room for all; NULL: passed on */
    uint64_t passed;      /* bytes that were passed on */
    uint64_t seq;
    int64_t stamp_ns; /* of each of its chunks */
    uint64_t total_bytes;
};

enum assembly_verdict {
    ASSEMBLY_GOES_ON,
    ASSEMBLY_WHOLE,     /* it is to be taken, or its last piece was passed on */
    ASSEMBLY_BROKEN,    /* not the chunk that follows, or larger than value_bytes_max */
    ASSEMBLY_NO_MEMORY, /* for the first chunk's value */
};
/* A chunk that came before changes nothing (ASSEMBLY_GOES_ON).  The first chunk of another slot
 * drops what was there.  So does the first chunk of another value of the same slot: a broker whose
 * machine crashed may have lost the value that it had begun to send. */
enum assembly_verdict assembly_add(struct assembly *assembly, const struct frame *frame,
                                   uint64_t value_bytes_max);
/* The value that is whole. */
struct buffer *assembly_take(struct assembly *assembly);

struct assembly_piece {
    struct span bytes; /* in the frame; empty: they were passed on before */
    uint64_t offset;
    uint64_t total_bytes;
};
/* The same for a value that is not put together; never ASSEMBLY_NO_MEMORY. */
enum assembly_verdict assembly_pass(struct assembly *assembly, const struct frame *frame,
                                    uint64_t value_bytes_max, struct assembly_piece *out_piece);
void assembly_drop(struct assembly *assembly);
/* How many bytes of this slot's value are here, or were passed on. */
uint64_t assembly_offset(const struct assembly *assembly, uint64_t seq);

#endif
