/* SPDX-License-Identifier: MPL-2.0 */
/* rows_test.c -- a bounded queue whose taken row stands until the next. */
#include "libbus/session/rows.h"

#include "libbus/base/must.h"

#include <criterion/criterion.h>

static struct memory memory;
static struct rows rows;

static void init(void)
{
    memory_heap_init(&memory, UINT64_MAX);
    rows_init(&rows, &memory, 3);
}

static void fini(void)
{
    rows_fini(&rows);
    must(memory.bytes_used == 0);
}

TestSuite(rows, .init = init, .fini = fini);

Test(rows, hands_out_in_order)
{
    struct span first, second;
    cr_assert_not(rows_pop(&rows, &first));
    cr_assert(rows_push(&rows, span_text("one")));
    cr_assert(rows_push(&rows, span_text("two")));
    cr_assert(rows_push(&rows, span_text("three")));
    cr_assert_not(rows_push(&rows, span_text("four")), "three is the limit");
    cr_assert(rows_pop(&rows, &first));
    cr_assert(rows_push(&rows, span_text("four")));
    cr_assert(span_equal(first, span_text("one")), "stands until the next is taken");
    cr_assert(rows_pop(&rows, &second));
    cr_assert(span_equal(second, span_text("two")));
    cr_assert(rows_pop(&rows, &second));
    rows_clear(&rows);
    cr_assert(span_equal(second, span_text("three")));
    cr_assert_not(rows_pop(&rows, &first));
    cr_assert(rows_push(&rows, span_text("five")));
    cr_assert(rows_pop(&rows, &first));
    cr_assert(span_equal(first, span_text("five")));
}

Test(rows, says_so_when_memory_is_short)
{
    memory.bytes_max = 0;
    cr_assert_not(rows_push(&rows, span_text("one")));
    cr_assert_eq(rows.count, 0);
}
