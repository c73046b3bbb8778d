/* SPDX-License-Identifier: MPL-2.0 */
/* map_test.c -- both maps against a plain array, and when memory is short. */
#include "libbus/base/map.h"

#include <criterion/criterion.h>
#include <stdio.h>

enum { KEYS = 500, STEPS = 20000 };

struct mirror {
    bool is_in[KEYS];
    uint32_t value[KEYS];
};

/* A generator of Knuth's, "Seminumerical Algorithms", 3.3.4: the steps are the same each time. */
static uint32_t next_random(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(*state >> 33);
}

static uint64_t key_of(uint32_t number)
{
    return (uint64_t)number * 0x10000; /* alike in their low bits */
}

static void check_ids(const struct id_map *map, const struct mirror *mirror)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < KEYS; i++) {
        uint32_t value = 0;
        cr_assert_eq(id_map_get(map, key_of(i), &value), mirror->is_in[i], "key %u", i);
        if (mirror->is_in[i])
            cr_assert_eq(value, mirror->value[i]);
        count += mirror->is_in[i];
    }
    cr_assert_eq(map->count, count);
    cr_assert_leq(map->count * 4, map->room * 3);
}

Test(map, of_ids_knows_what_an_array_knows)
{
    struct memory memory;
    struct id_map map;
    struct mirror mirror = {0};
    uint64_t random = 1;
    memory_heap_init(&memory, UINT64_MAX);
    id_map_init(&map, &memory);
    for (uint32_t step = 0; step < STEPS; step++) {
        uint32_t i = next_random(&random) % KEYS;
        if (mirror.is_in[i]) {
            id_map_remove(&map, key_of(i));
            mirror.is_in[i] = false;
        } else {
            cr_assert(id_map_put(&map, key_of(i), step));
            mirror.is_in[i] = true;
            mirror.value[i] = step;
        }
        if (step % 500 == 0)
            check_ids(&map, &mirror);
    }
    check_ids(&map, &mirror);
    id_map_fini(&map);
    cr_assert_eq(memory.bytes_used, 0);
}

static void check_names(const struct name_map *map, const struct mirror *mirror,
                        const char names[KEYS][16])
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < KEYS; i++) {
        uint32_t value = 0;
        bool is_in = name_map_get(map, span_text(names[i]), &value);
        cr_assert_eq(is_in, mirror->is_in[i], "name %s", names[i]);
        if (is_in)
            cr_assert_eq(value, mirror->value[i]);
        count += mirror->is_in[i];
    }
    cr_assert_eq(map->count, count);
}

Test(map, of_names_knows_what_an_array_knows)
{
    static char names[KEYS][16];
    struct memory memory;
    struct name_map map;
    struct mirror mirror = {0};
    uint64_t random = 2;
    for (uint32_t i = 0; i < KEYS; i++)
        snprintf(names[i], sizeof names[i], "n%u", i);
    memory_heap_init(&memory, UINT64_MAX);
    name_map_init(&map, &memory);
    for (uint32_t step = 0; step < STEPS; step++) {
        uint32_t i = next_random(&random) % KEYS;
        if (mirror.is_in[i]) {
            name_map_remove(&map, span_text(names[i]));
            mirror.is_in[i] = false;
        } else {
            cr_assert(name_map_put(&map, span_text(names[i]), step));
            mirror.is_in[i] = true;
            mirror.value[i] = step;
        }
        if (step % 500 == 0)
            check_names(&map, &mirror, (const char(*)[16])names);
    }
    check_names(&map, &mirror, (const char(*)[16])names);
    name_map_fini(&map);
    cr_assert_eq(memory.bytes_used, 0);
}

Test(map, does_not_miss_what_it_never_had)
{
    struct memory memory;
    struct id_map ids;
    struct name_map names;
    uint32_t value = 7;
    memory_heap_init(&memory, UINT64_MAX);
    id_map_init(&ids, &memory);
    name_map_init(&names, &memory);
    cr_assert_not(id_map_get(&ids, 1, &value));
    cr_assert_not(name_map_get(&names, span_text("a"), &value));
    id_map_remove(&ids, 1);
    name_map_remove(&names, span_text("a"));
    cr_assert_eq(value, 7);
    cr_assert(id_map_put(&ids, 0, 1));
    cr_assert(name_map_put(&names, SPAN_NONE, 2));
    cr_assert(id_map_get(&ids, 0, &value) && value == 1);
    cr_assert(name_map_get(&names, span_text(""), &value) && value == 2);
    id_map_fini(&ids);
    name_map_fini(&names);
}

Test(map, keeps_what_it_has_when_memory_is_short)
{
    struct memory memory;
    struct id_map map;
    uint32_t put = 0;
    uint32_t value;
    memory_heap_init(&memory, 64 * sizeof(struct id_map_entry));
    id_map_init(&map, &memory);
    while (put < 1000 && id_map_put(&map, put, put + 1))
        put += 1;
    cr_assert_eq(put, 24, "three quarters of 32: 64 would need 32 beside, it took %u", put);
    cr_assert_not(id_map_reserve(&map));
    for (uint32_t i = 0; i < put; i++)
        cr_assert(id_map_get(&map, i, &value) && value == i + 1);
    id_map_remove(&map, 0);
    cr_assert(id_map_reserve(&map));
    uint64_t calls = memory.calls;
    cr_assert(id_map_put(&map, 99, 1));
    cr_assert_eq(memory.calls, calls, "what was reserved needs no memory");
    id_map_fini(&map);
    cr_assert_eq(memory.bytes_used, 0);
}
