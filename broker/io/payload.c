/* SPDX-License-Identifier: MPL-2.0 */
/* payload.c -- the received parts that the core wants kept; see payload.h. */
#include "broker/io/payload.h"

#include "broker/journal/journal.h"
#include "libbus/base/must.h"

enum { ROOM_FIRST = 64 };

/* An id that the core should not have is a mistake of ours, never a peer's. */
static struct payload *payload_find(const struct payload_table *table, payload_id id)
{
    must(id >= 1 && id <= table->used);
    struct payload *payload = &table->items[id - 1];
    must(payload->bytes > 0);
    return payload;
}

static bool payload_grow(struct payload_table *table)
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

void payload_table_use_store(struct payload_table *table, const struct payload_store *store)
{
    table->store = *store;
}

void payload_table_fini(struct payload_table *table)
{
    for (uint32_t i = 0; i < table->used; i++)
        buffer_unref(&table->items[i].buffer);
    memory_give(table->memory, table->items, table->room * sizeof *table->items);
    *table = (struct payload_table){.memory = table->memory};
}

/* ---- what may go from memory ----------------------------------------------------------------- */

static struct payload *place(struct payload_table *table, uint32_t id)
{
    return &table->items[id - 1];
}

static void queue_push(struct payload_table *table, payload_id id)
{
    struct payload *payload = place(table, id);
    payload->before = table->newest;
    payload->behind = 0;
    if (table->newest != 0)
        place(table, table->newest)->behind = id;
    else
        table->oldest = id;
    table->newest = id;
}

static void queue_remove(struct payload_table *table, const struct payload *payload)
{
    if (payload->before != 0)
        place(table, payload->before)->behind = payload->behind;
    else
        table->oldest = payload->behind;
    if (payload->behind != 0)
        place(table, payload->behind)->before = payload->before;
    else
        table->newest = payload->before;
}

/* The bytes go from memory; those of a place that has none are gone already. */
static void forget_bytes(struct payload_table *table, struct payload *payload)
{
    if (payload->buffer == NULL)
        return;
    if (payload->at != PAYLOAD_NOWHERE)
        queue_remove(table, payload);
    table->memory_used -= payload->bytes;
    table->memory_count -= 1;
    buffer_unref(&payload->buffer);
}

/* Makes room in memory for so many bytes, as far as there is something that may go. */
static void shed(struct payload_table *table, uint64_t bytes)
{
    if (table->store.fetch == NULL)
        return;
    while (table->oldest != 0 && table->memory_used + bytes > table->store.memory_bytes)
        forget_bytes(table, place(table, table->oldest));
}

/* ---- coming and going ------------------------------------------------------------------------ */

/* A free place, with one reference; NULL: no memory. */
static struct payload *take(struct payload_table *table, uint32_t bytes, payload_id *out_id)
{
    payload_id id = table->free;
    if (id != 0) {
        table->free = table->items[id - 1].next;
    } else {
        if (!payload_grow(table))
            return NULL;
        id = ++table->used;
        table->items[id - 1].serial = 0;
    }
    struct payload *payload = &table->items[id - 1];
    *payload = (struct payload){
        .bytes = bytes, .serial = payload->serial + 1, .at = PAYLOAD_NOWHERE, .refs = 1};
    table->count += 1;
    table->bytes += bytes;
    *out_id = id;
    return payload;
}

bool payload_add(struct payload_table *table, struct buffer **buffer, payload_id *out_id)
{
    must((*buffer)->bytes > 0 && (*buffer)->bytes <= UINT32_MAX);
    struct payload *payload = take(table, (uint32_t)(*buffer)->bytes, out_id);
    if (payload == NULL)
        return false;
    payload->buffer = *buffer;
    table->memory_used += payload->bytes;
    table->memory_count += 1;
    *buffer = NULL;
    return true;
}

bool payload_add_stored(struct payload_table *table, uint64_t at, uint32_t bytes,
                        payload_id *out_id)
{
    must(bytes > 0 && at != PAYLOAD_NOWHERE);
    struct payload *payload = take(table, bytes, out_id);
    if (payload == NULL)
        return false;
    table->logged_count += 1;
    payload->at = at;
    payload->is_given = true;
    return true;
}

bool payload_give(struct payload_table *table, payload_id id)
{
    struct payload *payload = payload_find(table, id);
    if (payload->is_given)
        return false;
    payload_give_anew(table, id);
    return true;
}

void payload_give_anew(struct payload_table *table, payload_id id)
{
    struct payload *payload = payload_find(table, id);
    payload->is_given = true;
    payload->given_as = ++table->given_count;
}

uint32_t payload_behind(const struct payload_table *table, payload_id id)
{
    const struct payload *payload = payload_find(table, id);
    must(payload->is_given);
    return table->given_count - payload->given_as;
}

uint64_t payload_at(const struct payload_table *table, payload_id id)
{
    return payload_find(table, id)->at;
}

uint32_t payload_bytes(const struct payload_table *table, payload_id id)
{
    return payload_find(table, id)->bytes;
}

uint64_t payload_key(const struct payload_table *table, payload_id id)
{
    return (uint64_t)payload_find(table, id)->serial << 32 | id;
}

void payload_logged(struct payload_table *table, uint64_t key, uint64_t at)
{
    payload_id id = (payload_id)key;
    must(id >= 1 && id <= table->used);
    struct payload *payload = &table->items[id - 1];
    if (payload->bytes == 0 || payload->serial != key >> 32)
        return;
    bool is_new = payload->at == PAYLOAD_NOWHERE;
    table->moving_count -= payload->is_moving;
    payload->is_moving = false;
    table->logged_count += is_new;
    payload->at = at;
    payload->is_given = true;
    if (is_new && payload->buffer != NULL)
        queue_push(table, id);
    shed(table, 0);
}

uint64_t payload_oldest(const struct payload_table *table)
{
    uint64_t oldest = UINT64_MAX;
    for (uint32_t i = 0; i < table->used; i++)
        if (table->items[i].bytes > 0 && table->items[i].at < oldest)
            oldest = table->items[i].at;
    return oldest;
}

/* Positions are counted in so many buckets: that is exact enough, and needs no order. */
enum { BUCKETS = 256 };

/* What is wanted from a position on, in buckets of this width. */
struct wanted {
    uint64_t from;
    uint64_t width;
    uint64_t bytes[BUCKETS];
};

static void count_wanted(const struct payload_table *table, uint64_t from, uint64_t end,
                         struct wanted *out)
{
    *out = (struct wanted){.from = from, .width = journal_between(from, end) / BUCKETS + 1};
    for (uint32_t i = 0; i < table->used; i++) {
        const struct payload *payload = &table->items[i];
        if (payload->bytes > 0 && payload->at >= from && payload->at < end)
            out->bytes[journal_between(from, payload->at) / out->width] += payload->bytes;
    }
}

/* Up to where all of it has no more than a fourth that is wanted; `from`: nowhere. */
static uint64_t sparse_until(const struct wanted *wanted)
{
    uint64_t until = wanted->from;
    uint64_t bytes = 0;
    for (uint64_t i = 0; i < BUCKETS; i++) {
        bytes += wanted->bytes[i];
        if (bytes <= (i + 1) * wanted->width / PAYLOAD_SPARSE)
            until = journal_ahead(wanted->from, (i + 1) * wanted->width);
    }
    return until;
}

/* Up to where no more than bytes_max are wanted.  Where the first bucket has more, it is looked at
 * by itself, in smaller ones.  `from`: the first payload has more. */
static uint64_t few_until(const struct payload_table *table, uint64_t from, uint64_t end,
                          uint64_t bytes_max)
{
    struct wanted wanted;
    for (;;) {
        uint64_t bytes = 0;
        uint64_t i = 0;
        count_wanted(table, from, end, &wanted);
        while (i < BUCKETS && bytes + wanted.bytes[i] <= bytes_max)
            bytes += wanted.bytes[i++];
        uint64_t until = journal_ahead(from, i * wanted.width);
        if (i > 0 || wanted.width == 1)
            return until < end ? until : end;
        end = journal_ahead(from, wanted.width);
    }
}

uint64_t payload_sparse_below(const struct payload_table *table, uint64_t end, uint64_t bytes_max)
{
    struct wanted wanted;
    uint64_t oldest = payload_oldest(table);
    if (oldest >= end)
        return 0;
    count_wanted(table, oldest, end, &wanted);
    uint64_t until = sparse_until(&wanted);
    uint64_t below = few_until(table, oldest, until < end ? until : end, bytes_max);
    return below > oldest ? below : 0;
}

uint64_t payload_bytes_below(const struct payload_table *table, uint64_t end, uint64_t *out_next)
{
    uint64_t bytes = 0;
    *out_next = UINT64_MAX;
    for (uint32_t i = 0; i < table->used; i++) {
        const struct payload *payload = &table->items[i];
        if (payload->bytes > 0 && payload->at < end)
            bytes += payload->bytes;
        else if (payload->bytes > 0 && payload->at < *out_next)
            *out_next = payload->at;
    }
    return bytes;
}

payload_id payload_move(struct payload_table *table, uint32_t *at, uint64_t below)
{
    for (; *at < table->used; *at += 1) {
        struct payload *payload = &table->items[*at];
        if (payload->bytes == 0 || payload->at >= below || payload->is_moving)
            continue;
        payload->is_moving = true;
        table->moving_count += 1;
        *at += 1;
        return *at;
    }
    return 0;
}

void payload_retain(struct payload_table *table, payload_id id, uint32_t refs)
{
    struct payload *payload = payload_find(table, id);
    must(refs <= UINT32_MAX - payload->refs);
    payload->refs += refs;
}

void payload_release(struct payload_table *table, payload_id id, uint32_t refs)
{
    struct payload *payload = payload_find(table, id);
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
    return payload_find(table, id)->buffer;
}

struct buffer *payload_fetch(struct payload_table *table, payload_id id)
{
    struct payload *payload = payload_find(table, id);
    if (payload->buffer != NULL)
        return payload->buffer;
    must(table->store.fetch != NULL);
    shed(table, payload->bytes);
    struct buffer *buffer = buffer_new(payload->bytes);
    must(buffer != NULL); /* as in effect.h: what was decided must be said */
    buffer->bytes = payload->bytes;
    if (!table->store.fetch(table->store.arg, payload->at, buffer->data, buffer->bytes)) {
        buffer_unref(&buffer);
        return NULL;
    }
    payload->buffer = buffer;
    table->memory_used += payload->bytes;
    table->memory_count += 1;
    queue_push(table, id);
    return buffer;
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
        forget_bytes(table, payload);
        table->count -= 1;
        table->logged_count -= payload->at != PAYLOAD_NOWHERE;
        table->moving_count -= payload->is_moving;
        table->bytes -= payload->bytes;
        payload->bytes = 0;
        payload->next = table->free;
        table->free = id;
    }
}
