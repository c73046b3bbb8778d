/* SPDX-License-Identifier: MPL-2.0 */
/* payload.c -- the received parts that the core wants kept; see payload.h. */
#include "broker/io/payload.h"

#include "libbus/base/must.h"

enum { ROOM_FIRST = 64 };

/* An id that the core should not have is a mistake of ours, never a peer's. */
static struct payload *find(const struct payload_table *table, payload_id id)
{
    must(id >= 1 && id <= table->used);
    struct payload *payload = &table->items[id - 1];
    must(payload->buffer != NULL);
    return payload;
}

static bool grow(struct payload_table *table)
{
    if (table->used < table->room)
        return true;
    if (table->room > UINT32_MAX / 2)
        return false;
    uint32_t room = table->room > 0 ? table->room * 2 : ROOM_FIRST;
    size_t size = sizeof *table->items;
    struct payload *items =
        memory_resize(table->memory, table->items, table->room * size, room * size);
    if (items == NULL)
        return false;
    table->items = items;
    table->room = room;
    return true;
}

void payload_table_init(struct payload_table *table, struct memory *memory)
{
    *table = (struct payload_table){.memory = memory};
}

void payload_table_fini(struct payload_table *table)
{
    for (uint32_t i = 0; i < table->used; i++)
        buffer_unref(&table->items[i].buffer);
    memory_give(table->memory, table->items, table->room * sizeof *table->items);
    *table = (struct payload_table){.memory = table->memory};
}

bool payload_add(struct payload_table *table, struct buffer **buffer, payload_id *out_id)
{
    payload_id id = table->free;
    if (id != 0) {
        table->free = table->items[id - 1].next;
    } else {
        if (!grow(table))
            return false;
        id = ++table->used;
    }
    table->items[id - 1] = (struct payload){.buffer = *buffer, .refs = 1};
    table->count += 1;
    table->bytes += (*buffer)->bytes;
    *buffer = NULL;
    *out_id = id;
    return true;
}

void payload_retain(struct payload_table *table, payload_id id, uint32_t refs)
{
    struct payload *payload = find(table, id);
    must(refs <= UINT32_MAX - payload->refs);
    payload->refs += refs;
}

void payload_release(struct payload_table *table, payload_id id, uint32_t refs)
{
    struct payload *payload = find(table, id);
    must(refs <= payload->refs);
    payload->refs -= refs;
    if (payload->refs > 0 || payload->is_doomed)
        return;
    payload->is_doomed = true;
    payload->next = table->doomed;
    table->doomed = id;
}

struct buffer *payload_buffer(const struct payload_table *table, payload_id id)
{
    return find(table, id)->buffer;
}

void payload_table_sweep(struct payload_table *table)
{
    while (table->doomed != 0) {
        payload_id id = table->doomed;
        struct payload *payload = &table->items[id - 1];
        table->doomed = payload->next;
        payload->is_doomed = false;
        if (payload->refs > 0)
            continue;
        table->count -= 1;
        table->bytes -= payload->buffer->bytes;
        buffer_unref(&payload->buffer);
        payload->next = table->free;
        table->free = id;
    }
}
