/* SPDX-License-Identifier: MPL-2.0 */
/* results_test.c -- one answer to each question. */
#include "libbus/session/results.h"

#include "libbus/base/limits.h"

#include "libbus/base/must.h"

#include <criterion/criterion.h>

static struct memory memory;
static struct results results;

static void init(void)
{
    memory_heap_init(&memory, UINT64_MAX);
    results_init(&results, &memory);
}

static void fini(void)
{
    results_fini(&results);
    must(memory.bytes_used == 0);
}

TestSuite(results, .init = init, .fini = fini);

Test(results, hands_each_answer_out_once)
{
    struct buffer *error = NULL;
    cr_assert_eq(results_take(&results, 1, NULL), CODE_EINVAL);
    cr_assert_eq(results_expect(&results, 1), CODE_OK);
    cr_assert_eq(results_expect(&results, 2), CODE_OK);
    cr_assert_eq(results_take(&results, 1, &error), CODE_ETIMEDOUT);
    cr_assert_not(results_answer(&results, 3, CODE_OK, SPAN_NONE));
    cr_assert(results_answer(&results, 1, CODE_ESETTLED, span_text("sealed")));
    cr_assert_not(results_answer(&results, 1, CODE_OK, SPAN_NONE));
    cr_assert_eq(results_take(&results, 1, &error), CODE_ESETTLED);
    cr_assert(span_equal(buffer_span(error), span_text("sealed")));
    buffer_unref(&error);
    cr_assert_eq(results_take(&results, 1, &error), CODE_EINVAL);
    cr_assert(results_answer(&results, 2, CODE_OK, SPAN_NONE));
    cr_assert_eq(results_take(&results, 2, &error), CODE_OK);
    cr_assert_null(error);
    cr_assert_eq(results_expect(&results, 3), CODE_OK);
    cr_assert(results_answer(&results, 3, CODE_EINVAL, span_text("not asked for")));
    cr_assert_eq(results_take(&results, 3, NULL), CODE_EINVAL);
    cr_assert_eq(results_expect(&results, 4), CODE_OK);
    cr_assert(results_answer(&results, 4, CODE_EINVAL, span_text("never taken")));
}

Test(results, forgets_what_was_not_asked_after_all)
{
    cr_assert_eq(results_expect(&results, 1), CODE_OK);
    results_forget(&results, 1);
    results_forget(&results, 1);
    cr_assert_not(results_answer(&results, 1, CODE_OK, SPAN_NONE));
}

Test(results, is_bounded)
{
    for (uint64_t number = 1; number <= LIMIT_RESULTS; number++)
        cr_assert_eq(results_expect(&results, number), CODE_OK);
    cr_assert_eq(results_expect(&results, LIMIT_RESULTS + 1), CODE_EFULL);
    results_forget(&results, 1);
    cr_assert_eq(results_expect(&results, LIMIT_RESULTS + 1), CODE_OK);
}

Test(results, says_so_when_memory_is_short)
{
    memory.bytes_max = 0;
    cr_assert_eq(results_expect(&results, 1), CODE_ENOMEM);
    memory.bytes_max = UINT64_MAX;
    cr_assert_eq(results_expect(&results, 1), CODE_OK);
}
