/* SPDX-License-Identifier: MPL-2.0 */
/* pool.c -- chunks of objects; a free object holds the number of the next free one; see pool.h. */
#include "libbus/base/pool.h"

#include "libbus/base/must.h"

#include <string.h>

struct item_head {
    uint32_t id;
    uint32_t next_free;
};

static struct item_head *item_at(const struct pool *pool, uint32_t id)
{
    uint32_t index = id - 1;
    char *chunk = pool->chunks[index / POOL_CHUNK_ITEMS];
    return (struct item_head *)(void *)(chunk + (index % POOL_CHUNK_ITEMS) * pool->item_bytes);
}

void pool_init(struct pool *pool, struct memory *memory, size_t item_bytes, uint32_t used_max)
{
    must(item_bytes >= sizeof(struct item_head));
    *pool = (struct pool){.memory = memory, .item_bytes = item_bytes, .used_max = used_max};
}

void pool_fini(struct pool *pool)
{
    for (uint32_t i = 0; i < pool->chunk_count; i++)
        memory_give(pool->memory, pool->chunks[i], pool->item_bytes * POOL_CHUNK_ITEMS);
    memory_give(pool->memory, pool->chunks, pool->chunk_room * sizeof *pool->chunks);
    pool_init(pool, pool->memory, pool->item_bytes, pool->used_max);
}

static bool grow(struct pool *pool)
{
    if (pool->chunk_count == pool->chunk_room) {
        uint32_t room = pool->chunk_room ? pool->chunk_room * 2 : 8;
        void **chunks = memory_resize(pool->memory, pool->chunks, pool->chunk_room * sizeof *chunks,
                                      room * sizeof *chunks);
        if (chunks == NULL)
            return false;
        pool->chunks = chunks;
        pool->chunk_room = room;
    }
    void *chunk = memory_take(pool->memory, pool->item_bytes * POOL_CHUNK_ITEMS);
    if (chunk == NULL)
        return false;
    uint32_t first = pool->chunk_count * POOL_CHUNK_ITEMS + 1;
    pool->chunks[pool->chunk_count++] = chunk;
    for (uint32_t i = POOL_CHUNK_ITEMS; i-- > 0;) {
        item_at(pool, first + i)->next_free = pool->free_id;
        pool->free_id = first + i;
    }
    return true;
}

bool pool_reserve(struct pool *pool)
{
    return pool->free_id != 0 || grow(pool);
}

void *pool_take(struct pool *pool)
{
    if (pool->used >= pool->used_max)
        return NULL;
    if (!pool_reserve(pool))
        return NULL;
    uint32_t id = pool->free_id;
    struct item_head *item = item_at(pool, id);
    pool->free_id = item->next_free;
    pool->used += 1;
    memset(item, 0, pool->item_bytes);
    item->id = id;
    return item;
}

void *pool_take_at(struct pool *pool, uint32_t id)
{
    if (id == 0 || id > pool->used_max || pool->used >= pool->used_max)
        return NULL;
    while ((id - 1) / POOL_CHUNK_ITEMS >= pool->chunk_count)
        if (!grow(pool))
            return NULL;
    struct item_head *item = item_at(pool, id);
    must(item->id == 0);
    memset(item, 0, pool->item_bytes);
    item->id = id;
    pool->used += 1;
    return item;
}

void pool_mend(struct pool *pool)
{
    pool->free_id = 0;
    for (uint32_t id = pool->chunk_count * POOL_CHUNK_ITEMS; id > 0; id--) {
        struct item_head *item = item_at(pool, id);
        if (item->id != 0)
            continue;
        item->next_free = pool->free_id;
        pool->free_id = id;
    }
}

void pool_give(struct pool *pool, void *item)
{
    struct item_head *head = item;
    must(head->id != 0 && item_at(pool, head->id) == head);
    uint32_t id = head->id;
    head->id = 0;
    head->next_free = pool->free_id;
    pool->free_id = id;
    pool->used -= 1;
}

void *pool_next(const struct pool *pool, uint32_t after)
{
    uint32_t end = pool->chunk_count * POOL_CHUNK_ITEMS;
    for (uint64_t next = (uint64_t)after + 1; next <= end; next++) {
        uint32_t id = (uint32_t)next;
        struct item_head *item = item_at(pool, id);
        if (item->id == id)
            return item;
    }
    return NULL;
}
