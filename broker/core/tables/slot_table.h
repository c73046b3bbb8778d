/* SPDX-License-Identifier: MPL-2.0 */
/* slot_table.h -- the slots of one topic, in order, with their outcomes.
 *
 * An entry is one slot, or a range of slots with the same outcome or with values that lie in one
 * frame of a payload: a frame of a thousand small values is one entry.  Entries cover
 * [first kept, next) without a hole.
 *
 * The one rule, promise 1: a slot goes from OPEN to one of the others and stays there; a value
 * that nobody was sent yet (not sealed) may still become an error.  slot_entry_move() is the one
 * place where a state changes and checks the move against its table. */
#ifndef CORE_SLOT_TABLE_H
#define CORE_SLOT_TABLE_H

#include "libbus/base/memory.h"

#include <stdbool.h>
#include <stdint.h>

enum slot_state {
    SLOT_OPEN,    /* reserved; ref: the open slot's record */
    SLOT_VALUE,   /* ref: payload, with place */
    SLOT_CHUNKED, /* ref: the record of its chunks */
    SLOT_ERROR,   /* ref: the failure */
    SLOT_STATE_COUNT,
};

/* VALUE: where its values lie.  ERROR: value_bytes alone, what it pays for (streams/entry.c). */
struct slot_place {
    uint32_t offset;      /* of their frame in the payload */
    uint32_t value_bytes; /* of each, without padding */
    uint16_t frame_count; /* values in the frame */
    uint16_t skip;        /* ... before the entry's first */
};

struct slot_entry {
    uint64_t first_seq;
    uint32_t count; /* slots; 1 if OPEN or CHUNKED */
    uint32_t ref;   /* see the states */
    struct slot_place place;
    uint8_t state;  /* enum slot_state */
    bool is_sealed; /* somebody was sent it */
};

struct slot_table {
    struct memory *memory;
    struct slot_entry *ring; /* room is 0 or a power of two */
    uint32_t room;
    uint32_t head;
    uint32_t count;
    uint64_t next_seq; /* the first number that is free */
};

void slot_table_init(struct slot_table *table, struct memory *memory);
void slot_table_fini(struct slot_table *table);
/* Room for so many entries more; false: no memory. */
bool slot_table_reserve(struct slot_table *table, uint32_t count);
/* first_seq must be next_seq, or the table is empty; room was reserved. */
struct slot_entry *slot_table_append(struct slot_table *table, struct slot_entry entry);
/* index 0 is the oldest; below table->count.  Good until the next append, split or pop. */
struct slot_entry *slot_table_at(const struct slot_table *table, uint32_t index);
uint64_t slot_table_first_seq(const struct slot_table *table); /* next_seq if empty */
/* The index of the entry that covers seq; false: older than what is kept, or not yet reserved. */
bool slot_table_find(const struct slot_table *table, uint64_t seq, uint32_t *out_index);
void slot_table_pop(struct slot_table *table);
/* Makes the slot seq of entry index an entry of its own and gives its index; needs room for two. */
uint32_t slot_table_isolate(struct slot_table *table, uint32_t index, uint64_t seq);

static inline uint64_t slot_entry_end(const struct slot_entry *entry)
{
    return entry->first_seq + entry->count;
}

/* Changes the state; what is refused by the table of moves is a broken invariant. */
void slot_entry_move(struct slot_entry *entry, enum slot_state to, uint32_t ref);
bool slot_entry_may_move(const struct slot_entry *entry, enum slot_state to);

#endif
