/* SPDX-License-Identifier: MPL-2.0 */
/* ack_prefix.c -- see ack_prefix.h. */
#include "libbus/session/ack_prefix.h"

#include "libbus/base/must.h"

enum { RING_ROOM_MIN = 16 };
#define DONE_MARK (ACK_PREFIX_SEQ_MAX + 1)

static uint64_t *entry_at(const struct ack_prefix *prefix, uint32_t index)
{
    return &prefix->seqs[(prefix->head + index) & (prefix->room - 1)];
}

static uint64_t seq_at(const struct ack_prefix *prefix, uint32_t index)
{
    return *entry_at(prefix, index) & ACK_PREFIX_SEQ_MAX;
}

void ack_prefix_fini(struct ack_prefix *prefix, struct memory *memory)
{
    memory_give(memory, prefix->seqs, prefix->room * sizeof *prefix->seqs);
    *prefix = (struct ack_prefix){0};
}

bool ack_prefix_reserve(struct ack_prefix *prefix, struct memory *memory, uint32_t count)
{
    if (prefix->room - prefix->count >= count || prefix->is_stopped)
        return true;
    uint32_t room = prefix->room > 0 ? prefix->room : RING_ROOM_MIN;
    while (room - prefix->count < count) {
        if (room > UINT32_MAX / 2)
            return false;
        room *= 2;
    }
    uint64_t *seqs = memory_take(memory, room * sizeof *seqs);
    if (seqs == NULL)
        return false;
    for (uint32_t i = 0; i < prefix->count; i++)
        seqs[i] = *entry_at(prefix, i);
    memory_give(memory, prefix->seqs, prefix->room * sizeof *seqs);
    prefix->seqs = seqs;
    prefix->room = room;
    prefix->head = 0;
    return true;
}

void ack_prefix_hand(struct ack_prefix *prefix, uint64_t first_seq, uint32_t count)
{
    must(count > 0 && first_seq >= prefix->handed_end);
    must(first_seq <= ACK_PREFIX_SEQ_MAX - (count - 1));
    prefix->handed_end = first_seq + count;
    if (prefix->is_stopped)
        return;
    must(prefix->room - prefix->count >= count);
    if (prefix->count == 0)
        prefix->next_seq = first_seq;
    prefix->count += count;
    for (uint32_t i = 0; i < count; i++)
        *entry_at(prefix, prefix->count - count + i) = first_seq + i;
}

static bool find_index(const struct ack_prefix *prefix, uint64_t seq, uint32_t *out_index)
{
    if (prefix->count == 0 || seq < seq_at(prefix, 0) || seq > ACK_PREFIX_SEQ_MAX)
        return false;
    uint64_t distance = seq - seq_at(prefix, 0);
    if (distance < prefix->count && seq_at(prefix, (uint32_t)distance) == seq) {
        *out_index = (uint32_t)distance;
        return true;
    }
    uint32_t low = 0;
    uint32_t high = prefix->count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (seq_at(prefix, middle) < seq)
            low = middle + 1;
        else
            high = middle;
    }
    *out_index = low;
    return low < prefix->count && seq_at(prefix, low) == seq;
}

/* Removes the acknowledged slots from the front of the ring. */
static void pop_done(struct ack_prefix *prefix)
{
    while (prefix->count > 0 && (*entry_at(prefix, 0) & DONE_MARK) != 0) {
        prefix->head = (prefix->head + 1) & (prefix->room - 1);
        prefix->count -= 1;
    }
    prefix->next_seq = prefix->count > 0 ? seq_at(prefix, 0) : prefix->handed_end;
}

bool ack_prefix_ack(struct ack_prefix *prefix, uint64_t seq)
{
    uint32_t index;
    if (!find_index(prefix, seq, &index))
        return false;
    if (prefix->is_stopped && index == prefix->count - 1)
        return false;
    *entry_at(prefix, index) |= DONE_MARK;
    if (index > 0)
        return false;
    pop_done(prefix);
    return true;
}

bool ack_prefix_ack_range(struct ack_prefix *prefix, uint64_t first_seq, uint64_t count)
{
    /* Numbers ascend: if first and last stand count - 1 places apart, so do all between them. */
    bool is_head = count > 0 && count <= prefix->count && !prefix->is_stopped &&
                   seq_at(prefix, 0) == first_seq &&
                   seq_at(prefix, (uint32_t)count - 1) == first_seq + count - 1;
    bool has_moved = is_head;
    if (is_head) {
        prefix->head = (prefix->head + (uint32_t)count) & (prefix->room - 1);
        prefix->count -= (uint32_t)count;
        pop_done(prefix);
    }
    for (uint64_t i = 0; !is_head && i < count; i++)
        has_moved |= ack_prefix_ack(prefix, first_seq + i);
    return has_moved;
}

void ack_prefix_return(struct ack_prefix *prefix, uint64_t seq)
{
    uint32_t index;
    if (!find_index(prefix, seq, &index))
        return;
    /* Nothing behind this slot counts any more.  The slot itself stays as the end of the ring. */
    *entry_at(prefix, index) = seq;
    prefix->count = index + 1;
    prefix->is_stopped = true;
}
