/* SPDX-License-Identifier: MPL-2.0 */
/* ack_prefix.h -- which slots of one topic the reader has acknowledged.
 *
 * A subscription hands slots out in ascending order.  The reader acknowledges them in any order.
 * The broker hears of a prefix: all slots below next_seq are acknowledged.  A ring holds the slots
 * from the first unacknowledged one on, in order, each with a mark.  Slot numbers are mostly
 * consecutive, so a slot is found at its distance from the first one.
 * Invariant: the first slot in the ring is not acknowledged. */
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
    uint64_t handed_end; /* the slot behind the last one handed out */
    bool is_stopped;     /* a slot was given back: it and all later slots stay unacknowledged */
};

void ack_prefix_fini(struct ack_prefix *prefix, struct memory *memory);
/* Makes room for so many more; false: no memory. */
bool ack_prefix_reserve(struct ack_prefix *prefix, struct memory *memory, uint32_t count);
/* Hands out count slots from first_seq on.  They are above all earlier ones, and room was
 * reserved. */
void ack_prefix_hand(struct ack_prefix *prefix, uint64_t first_seq, uint32_t count);
/* true: next_seq moved.  A slot that was not handed out changes nothing. */
bool ack_prefix_ack(struct ack_prefix *prefix, uint64_t seq);
/* The same for count slots from first_seq on.  A range in the order of handing out costs as much as
 * one slot. */
bool ack_prefix_ack_range(struct ack_prefix *prefix, uint64_t first_seq, uint64_t count);
/* The reader gives the slot back: acknowledgement stops before it for good. */
void ack_prefix_return(struct ack_prefix *prefix, uint64_t seq);

#endif
