/* SPDX-License-Identifier: MPL-2.0 */
/* pool.h -- objects of one kind that never move, each with a number from 1 on.
 *
 * The first member of an object is `uint32_t id`: its number while it is in use, else 0.  Numbers
 * are used again: the one that was given back last is the next. */
#ifndef BASE_POOL_H
#define BASE_POOL_H

#include "libbus/base/memory.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { POOL_CHUNK_ITEMS = 128 }; /* objects allocated together */

struct pool {
    struct memory *memory;
    size_t item_bytes;
    void **chunks;
    uint32_t chunk_count;
    uint32_t chunk_room;
    uint32_t free_id; /* head of the chain of free numbers; 0: none */
    uint32_t used;
    uint32_t used_max; /* the limit */
};

void pool_init(struct pool *pool, struct memory *memory, size_t item_bytes, uint32_t used_max);
void pool_fini(struct pool *pool); /* whatever is still in use goes with it */
/* Zeroed but for id; NULL: the limit is reached, or no memory. */
void *pool_take(struct pool *pool);
/* Makes room for one more, so that the next take does not fail for memory; false: no memory. */
bool pool_reserve(struct pool *pool);
void pool_give(struct pool *pool, void *item);
/* Rebuilds an earlier pool: takes the object with this number, which must not be in use.  After the
 * first such call, pool_mend() must come before pool_take().  NULL: the number is above the limit,
 * or there is no memory. */
void *pool_take_at(struct pool *pool, uint32_t id);
/* Builds the chain of free numbers again, smallest first.  Its time grows with the largest number
 * in use. */
void pool_mend(struct pool *pool);
/* NULL: not in use. */
static inline void *pool_find(const struct pool *pool, uint32_t id)
{
    uint32_t index = id - 1; /* of number 0: beyond all */
    if (index / POOL_CHUNK_ITEMS >= pool->chunk_count)
        return NULL;
    char *chunk = pool->chunks[index / POOL_CHUNK_ITEMS];
    uint32_t *item = (uint32_t *)(void *)(chunk + index % POOL_CHUNK_ITEMS * pool->item_bytes);
    return *item == id ? item : NULL;
}
/* Walks all in use by number: the first with a number above after, or NULL. */
void *pool_next(const struct pool *pool, uint32_t after);

#endif
