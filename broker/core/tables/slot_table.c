/* SPDX-License-Identifier: MPL-2.0 */
/* slot_table.c -- a ring of entries, found by halving. */
#include "broker/core/tables/slot_table.h"

#include "libbus/base/must.h"

/* [from][to]: 0 never, 1 always, 2 unless sealed */
static const uint8_t moves[SLOT_STATE_COUNT][SLOT_STATE_COUNT] = {
    /*                 OPEN VALUE CHUNKED ERROR */
    [SLOT_OPEN] = {0, 1, 1, 1},
    [SLOT_VALUE] = {0, 0, 0, 2},
    [SLOT_CHUNKED] = {0, 0, 0, 2},
    [SLOT_ERROR] = {0, 0, 0, 0},
};

bool slot_entry_may_move(const struct slot_entry *entry, enum slot_state to)
{
    uint8_t rule = moves[entry->state][to];
    return rule == 1 || (rule == 2 && !entry->is_sealed);
}

void slot_entry_move(struct slot_entry *entry, enum slot_state to, uint32_t ref)
{
    must(slot_entry_may_move(entry, to));
    entry->state = (uint8_t)to;
    entry->ref = ref;
    entry->place = (struct slot_place){0};
}

void slot_table_init(struct slot_table *table, struct memory *memory)
{
    *table = (struct slot_table){.memory = memory};
}

void slot_table_fini(struct slot_table *table)
{
    memory_give(table->memory, table->ring, table->room * sizeof *table->ring);
    slot_table_init(table, table->memory);
}

struct slot_entry *slot_table_at(const struct slot_table *table, uint32_t index)
{
    must(index < table->count);
    return &table->ring[(table->head + index) & (table->room - 1)];
}

bool slot_table_reserve(struct slot_table *table, uint32_t count)
{
    uint32_t room = table->room ? table->room : 4;
    while (room - table->count < count)
        room *= 2;
    if (room == table->room)
        return true;
    const struct ring_use use = {table->room, table->head, table->count};
    struct slot_entry *ring =
        memory_grow_ring(table->memory, table->ring, sizeof *ring, &use, room);
    if (ring == NULL)
        return false;
    table->ring = ring;
    table->room = room;
    table->head = 0;
    return true;
}

struct slot_entry *slot_table_append(struct slot_table *table, struct slot_entry entry)
{
    must(table->count < table->room && entry.count > 0);
    must(entry.first_seq == table->next_seq || table->count == 0);
    table->count += 1;
    table->next_seq = slot_entry_end(&entry);
    struct slot_entry *place = slot_table_at(table, table->count - 1);
    *place = entry;
    return place;
}

uint64_t slot_table_first_seq(const struct slot_table *table)
{
    return table->count > 0 ? slot_table_at(table, 0)->first_seq : table->next_seq;
}

bool slot_table_find(const struct slot_table *table, uint64_t seq, uint32_t *out_index)
{
    if (seq < slot_table_first_seq(table) || seq >= table->next_seq)
        return false;
    uint32_t low = 0;
    uint32_t high = table->count - 1;
    if (slot_table_at(table, high)->first_seq <= seq)
        low = high; /* most that is looked for is the newest */
    while (low < high) {
        uint32_t middle = low + (high - low + 1) / 2;
        if (slot_table_at(table, middle)->first_seq <= seq)
            low = middle;
        else
            high = middle - 1;
    }
    *out_index = low;
    return true;
}

void slot_table_pop(struct slot_table *table)
{
    must(table->count > 0);
    table->head = (table->head + 1) & (table->room - 1);
    table->count -= 1;
}

/* Opens a place at index, moving what is behind it. */
static struct slot_entry *insert(struct slot_table *table, uint32_t index)
{
    must(table->count < table->room);
    table->count += 1;
    for (uint32_t i = table->count - 1; i > index; i--)
        *slot_table_at(table, i) = *slot_table_at(table, i - 1);
    return slot_table_at(table, index);
}

/* Cuts the entry at index so that a new one behind it begins with seq. */
static void entry_cut(struct slot_table *table, uint32_t index, uint64_t seq)
{
    struct slot_entry rest = *slot_table_at(table, index);
    uint32_t kept = (uint32_t)(seq - rest.first_seq);
    slot_table_at(table, index)->count = kept;
    rest.first_seq = seq;
    rest.count -= kept;
    rest.place.skip += (uint16_t)kept; /* of no meaning but for values, which are 2048 at most */
    *insert(table, index + 1) = rest;
}

uint32_t slot_table_isolate(struct slot_table *table, uint32_t index, uint64_t seq)
{
    if (slot_table_at(table, index)->first_seq < seq)
        entry_cut(table, index++, seq);
    if (slot_table_at(table, index)->count > 1)
        entry_cut(table, index, seq + 1);
    return index;
}
