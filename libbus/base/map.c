/* SPDX-License-Identifier: MPL-2.0 */
/* map.c -- the two maps; see map.h. */
#include "libbus/base/map.h"

#include "libbus/base/mix.h"

enum { ROOM_MIN = 16 };

static uint32_t hash_id(uint64_t key)
{
    return (uint32_t)mix_bits(key);
}

/* FNV-1a, finished as above: names are short and the map is not exposed to chosen collisions
 * beyond one job's quota of names. */
static uint32_t hash_name(struct span name)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    const unsigned char *byte = name.data;
    for (size_t i = 0; i < name.bytes; i++)
        hash = (hash ^ byte[i]) * UINT64_C(0x100000001b3);
    return hash_id(hash);
}

static bool is_crowded(uint32_t count, uint32_t room)
{
    return (uint64_t)(count + 1) * 4 > (uint64_t)room * 3;
}

void id_map_init(struct id_map *map, struct memory *memory)
{
    *map = (struct id_map){.memory = memory};
}

void id_map_fini(struct id_map *map)
{
    memory_give(map->memory, map->entries, map->room * sizeof *map->entries);
    *map = (struct id_map){.memory = map->memory};
}

static void id_insert(struct id_map *map, uint64_t key, uint32_t value)
{
    uint32_t mask = map->room - 1;
    uint32_t at = hash_id(key) & mask;
    while (map->entries[at].is_used)
        at = (at + 1) & mask;
    map->entries[at] = (struct id_map_entry){.key = key, .value = value, .is_used = 1};
    map->count += 1;
}

bool id_map_reserve(struct id_map *map)
{
    if (!is_crowded(map->count, map->room))
        return true;
    struct id_map grown = {.memory = map->memory, .room = map->room ? map->room * 2 : ROOM_MIN};
    grown.entries = memory_take(map->memory, grown.room * sizeof *grown.entries);
    if (grown.entries == NULL)
        return false;
    for (uint32_t i = 0; i < map->room; i++)
        if (map->entries[i].is_used)
            id_insert(&grown, map->entries[i].key, map->entries[i].value);
    id_map_fini(map);
    *map = grown;
    return true;
}

bool id_map_put(struct id_map *map, uint64_t key, uint32_t value)
{
    if (!id_map_reserve(map))
        return false;
    id_insert(map, key, value);
    return true;
}

static bool id_find(const struct id_map *map, uint64_t key, uint32_t *out_at)
{
    if (map->count == 0)
        return false;
    uint32_t mask = map->room - 1;
    for (uint32_t at = hash_id(key) & mask; map->entries[at].is_used; at = (at + 1) & mask)
        if (map->entries[at].key == key) {
            *out_at = at;
            return true;
        }
    return false;
}

bool id_map_get(const struct id_map *map, uint64_t key, uint32_t *out_value)
{
    uint32_t at;
    if (!id_find(map, key, &at))
        return false;
    *out_value = map->entries[at].value;
    return true;
}

void id_map_remove(struct id_map *map, uint64_t key)
{
    uint32_t hole;
    if (!id_find(map, key, &hole))
        return;
    uint32_t mask = map->room - 1;
    for (uint32_t at = (hole + 1) & mask; map->entries[at].is_used; at = (at + 1) & mask) {
        uint32_t home = hash_id(map->entries[at].key) & mask;
        if (((at - home) & mask) >= ((at - hole) & mask)) {
            map->entries[hole] = map->entries[at];
            hole = at;
        }
    }
    map->entries[hole] = (struct id_map_entry){0};
    map->count -= 1;
}

void name_map_init(struct name_map *map, struct memory *memory)
{
    *map = (struct name_map){.memory = memory};
}

void name_map_fini(struct name_map *map)
{
    memory_give(map->memory, map->entries, map->room * sizeof *map->entries);
    *map = (struct name_map){.memory = map->memory};
}

static void name_insert(struct name_map *map, struct name_map_entry entry)
{
    uint32_t mask = map->room - 1;
    uint32_t at = entry.hash & mask;
    while (map->entries[at].is_used)
        at = (at + 1) & mask;
    map->entries[at] = entry;
    map->count += 1;
}

bool name_map_reserve(struct name_map *map)
{
    if (!is_crowded(map->count, map->room))
        return true;
    struct name_map grown = {.memory = map->memory, .room = map->room ? map->room * 2 : ROOM_MIN};
    grown.entries = memory_take(map->memory, grown.room * sizeof *grown.entries);
    if (grown.entries == NULL)
        return false;
    for (uint32_t i = 0; i < map->room; i++)
        if (map->entries[i].is_used)
            name_insert(&grown, map->entries[i]);
    name_map_fini(map);
    *map = grown;
    return true;
}

bool name_map_put(struct name_map *map, struct span name, uint32_t value)
{
    if (!name_map_reserve(map))
        return false;
    name_insert(map, (struct name_map_entry){
                         .name = name, .hash = hash_name(name), .value = value, .is_used = 1});
    return true;
}

static bool name_find(const struct name_map *map, struct span name, uint32_t *out_at)
{
    if (map->count == 0)
        return false;
    uint32_t mask = map->room - 1;
    uint32_t hash = hash_name(name);
    for (uint32_t at = hash & mask; map->entries[at].is_used; at = (at + 1) & mask)
        if (map->entries[at].hash == hash && span_equal(map->entries[at].name, name)) {
            *out_at = at;
            return true;
        }
    return false;
}

bool name_map_get(const struct name_map *map, struct span name, uint32_t *out_value)
{
    uint32_t at;
    if (!name_find(map, name, &at))
        return false;
    *out_value = map->entries[at].value;
    return true;
}

void name_map_remove(struct name_map *map, struct span name)
{
    uint32_t hole;
    if (!name_find(map, name, &hole))
        return;
    uint32_t mask = map->room - 1;
    for (uint32_t at = (hole + 1) & mask; map->entries[at].is_used; at = (at + 1) & mask) {
        uint32_t home = map->entries[at].hash & mask;
        if (((at - home) & mask) >= ((at - hole) & mask)) {
            map->entries[hole] = map->entries[at];
            hole = at;
        }
    }
    map->entries[hole] = (struct name_map_entry){0};
    map->count -= 1;
}
