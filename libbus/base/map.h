/* SPDX-License-Identifier: MPL-2.0 */
/* map.h -- maps from a number, or from a name, to a number.
 *
 * Open addressing with linear probing, at most three quarters full.  Removal shifts entries back,
 * so there are no tombstones and look-ups stay short.  Names are borrowed: they must stay in place
 * as long as they are in the map. */
#ifndef BASE_MAP_H
#define BASE_MAP_H

#include "libbus/base/memory.h"
#include "libbus/base/span.h"

#include <stdbool.h>
#include <stdint.h>

struct id_map_entry {
    uint64_t key;
    uint32_t value;
    uint32_t is_used;
};
struct id_map {
    struct memory *memory;
    struct id_map_entry *entries;
    uint32_t room; /* 0 or a power of two */
    uint32_t count;
};

void id_map_init(struct id_map *map, struct memory *memory);
void id_map_fini(struct id_map *map);
/* Makes room for one more, so that the next put cannot fail; false: no memory. */
bool id_map_reserve(struct id_map *map);
/* Puts a key that is not there yet; false: no memory. */
bool id_map_put(struct id_map *map, uint64_t key, uint32_t value);
bool id_map_get(const struct id_map *map, uint64_t key, uint32_t *out_value);
void id_map_remove(struct id_map *map, uint64_t key); /* a missing key is a no-op */

struct name_map_entry {
    struct span name;
    uint32_t hash;
    uint32_t value;
    uint32_t is_used;
};
struct name_map {
    struct memory *memory;
    struct name_map_entry *entries;
    uint32_t room;
    uint32_t count;
};

void name_map_init(struct name_map *map, struct memory *memory);
void name_map_fini(struct name_map *map);
bool name_map_reserve(struct name_map *map);
bool name_map_put(struct name_map *map, struct span name, uint32_t value);
bool name_map_get(const struct name_map *map, struct span name, uint32_t *out_value);
void name_map_remove(struct name_map *map, struct span name);

#endif
