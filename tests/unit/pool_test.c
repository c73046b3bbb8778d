/* SPDX-License-Identifier: MPL-2.0 */
/* pool_test.c -- objects stay where they are, under numbers that are used again. */
#include "libbus/base/must.h"
#include "libbus/base/pool.h"

#include <criterion/criterion.h>

struct thing {
    uint32_t id;
    uint32_t number;
};

static struct memory memory;
static struct pool pool;

static void begin(uint32_t limit, uint64_t bytes)
{
    memory_heap_init(&memory, bytes);
    pool_init(&pool, &memory, sizeof(struct thing), limit);
}

static void end(void)
{
    pool_fini(&pool);
    must(memory.bytes_used == 0);
}

TestSuite(pool, .fini = end);

Test(pool, gives_zeroed_objects_that_stay_where_they_are)
{
    begin(1000, UINT64_MAX);
    struct thing *first = pool_take(&pool);
    first->number = 42;
    for (int i = 1; i < 1000; i++) {
        struct thing *thing = pool_take(&pool);
        cr_assert_not_null(thing);
        cr_assert_eq(thing->number, 0);
        thing->number = 1;
    }
    cr_assert_null(pool_take(&pool), "the limit is 1000");
    cr_assert_eq(pool_find(&pool, first->id), first);
    cr_assert_eq(first->number, 42);
    pool_give(&pool, first);
    cr_assert_null(pool_find(&pool, 1));
    struct thing *again = pool_take(&pool);
    cr_assert_eq(again, first);
    cr_assert_eq(again->number, 0);
}

Test(pool, finds_nothing_under_numbers_that_were_never_given)
{
    begin(10, UINT64_MAX);
    cr_assert_null(pool_find(&pool, 0));
    cr_assert_null(pool_find(&pool, 1));
    cr_assert_null(pool_find(&pool, UINT32_MAX));
    struct thing *one = pool_take(&pool);
    cr_assert_null(pool_find(&pool, one->id + 1));
    cr_assert_eq(pool_next(&pool, 0), one);
    cr_assert_null(pool_next(&pool, one->id));
}

Test(pool, says_so_when_memory_is_short)
{
    begin(10, 16);
    cr_assert_null(pool_take(&pool));
    cr_assert_not(pool_reserve(&pool));
}

Test(pool, rebuilds_what_was_under_its_numbers)
{
    begin(300, UINT64_MAX);
    cr_assert_null(pool_take_at(&pool, 0));
    cr_assert_null(pool_take_at(&pool, 301), "beyond the limit");
    struct thing *last = pool_take_at(&pool, 300);
    struct thing *second = pool_take_at(&pool, 2);
    cr_assert(last != NULL && last->id == 300 && second != NULL && second->id == 2);
    pool_give(&pool, last);
    cr_assert_eq(pool_take_at(&pool, 300), last);
    pool_mend(&pool);
    struct thing *first = pool_take(&pool);
    cr_assert_eq(first->id, 1, "the smallest that is free");
    for (uint32_t id = 3; id < 300; id++)
        cr_assert_eq(((struct thing *)pool_take(&pool))->id, id);
    cr_assert_null(pool_take(&pool), "all are in use");
    cr_assert_null(pool_take_at(&pool, 5));
}
