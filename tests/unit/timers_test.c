/* SPDX-License-Identifier: MPL-2.0 */
/* timers_test.c -- what is due comes in order, ties in the order of setting. */
#include "broker/core/tables/timers.h"

#include "libbus/base/must.h"
#include "tests/lib/draw.h"

#include <criterion/criterion.h>

static struct memory memory;
static struct timers timers;

static void init(void)
{
    memory_heap_init(&memory, UINT64_MAX);
    timers_init(&timers, &memory);
}

static void fini(void)
{
    timers_fini(&timers);
    must(memory.bytes_used == 0);
}

TestSuite(timers, .init = init, .fini = fini);

enum { MANY = 1000 };

Test(timers, come_in_the_order_of_their_time)
{
    static struct timer all[MANY];
    uint64_t random = 1;
    for (int i = 0; i < MANY; i++) {
        cr_assert(timers_reserve(&timers));
        timers_set(&timers, &all[i], draw_below(&random, 100));
    }
    for (int i = 0; i < MANY; i += 3)
        timers_clear(&timers, &all[i]);
    for (int i = 1; i < MANY; i += 3)
        timers_set(&timers, &all[i], 200 - i % 100);
    int64_t last = -1;
    uint64_t last_order = 0;
    int count = 0;
    struct timer *timer;
    while ((timer = timers_pop(&timers, 1000)) != NULL) {
        cr_assert(timer->due_ns > last || (timer->due_ns == last && timer->order > last_order));
        last = timer->due_ns;
        last_order = timer->order;
        count += 1;
    }
    cr_assert_eq(count, MANY - (MANY + 2) / 3);
}

Test(timers, give_none_before_its_time)
{
    struct timer one = {0};
    cr_assert(timers_reserve(&timers));
    cr_assert_eq(timers_due_ns(&timers), INT64_MAX);
    timers_set(&timers, &one, 50);
    cr_assert_eq(timers_due_ns(&timers), 50);
    cr_assert_null(timers_pop(&timers, 49));
    cr_assert_eq(timers_pop(&timers, 50), &one);
    cr_assert_null(timers_pop(&timers, 1000));
    timers_clear(&timers, &one); /* not set: no harm */
}

Test(timers, keep_room_for_every_owner)
{
    static struct timer all[200];
    for (int i = 0; i < 200; i++)
        cr_assert(timers_reserve(&timers));
    for (int i = 0; i < 200; i++)
        timers_set(&timers, &all[i], i);
    for (int i = 0; i < 200; i++)
        timers_unreserve(&timers, &all[i]);
    cr_assert_eq(timers.owners, 0);
    cr_assert_eq(timers.count, 0);
}
