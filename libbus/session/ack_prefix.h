/* SPDX-License-Identifier: MPL-2.0 */
/* ack_prefix.h -- which slots of one topic of one subscription are done with.
 *
 * Slots are handed out in ascending order and acknowledged in any order; the broker is told a
 * prefix.  The slots from the first that is not acknowledged on stand in a ring, in order, each
 * with a mark; as numbers mostly follow each other, one is found at its distance from the first.
 * Invariant: the first in the ring is not acknowledged. */
#ifndef SESSION_ACK_PREFIX_H
#define SESSION_ACK_PREFIX_H

#include "libbus/base/memory.h"

#include <stdbool.h>
#include <stdint.h>

/* The largest slot number that may be handed out: the bit above it is the mark. */
#define ACK_PREFIX_SEQ_MAX (UINT64_MAX >> 1)

struct ack_prefix {
    uint64_t *seqs; /* ring */
    uint32_t room;  /* 0 or a power of two */
    uint32_t head;
    uint32_t count;
    uint64_t next_seq;   /* the first slot that is not acknowledged: what the broker may be told */
    uint64_t handed_end; /* behind the last slot that was handed out */
    bool is_stopped;     /* one was returned: nothing from it on is ever acknowledged */
};

void ack_prefix_fini(struct ack_prefix *prefix, struct memory *memory);
/* Makes room for so many more; false: no memory. */
bool ack_prefix_reserve(struct ack_prefix *prefix, struct memory *memory, uint32_t count);
/* count slots from first_seq on are handed out: above all before; room was reserved. */
void ack_prefix_hand(struct ack_prefix *prefix, uint64_t first_seq, uint32_t count);
/* true: next_seq moved.  A slot that is not out is a no-op. */
bool ack_prefix_ack(struct ack_prefix *prefix, uint64_t seq);
/* The same for count slots from first_seq on; what is acknowledged in the order in which it was
 * handed out costs no more than one slot does. */
bool ack_prefix_ack_run(struct ack_prefix *prefix, uint64_t first_seq, uint64_t count);
/* The slot is out and stays so: acknowledgement stops before it. */
void ack_prefix_return(struct ack_prefix *prefix, uint64_t seq);

#endif
