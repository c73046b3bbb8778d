/* SPDX-License-Identifier: MPL-2.0 */
/* notices_test.c -- one notice about each thing, up to a limit, in the order in which they came. */
#include "libbus/session/notices.h"

#include <criterion/criterion.h>
#include <stdio.h>

static struct notices notices;

static void fini(void)
{
    notices_fini(&notices);
}

TestSuite(notices, .fini = fini);

static bool push(unsigned number)
{
    char about[32];
    char error[32];
    (void)snprintf(about, sizeof about, "party %u", number);
    (void)snprintf(error, sizeof error, "error %u", number);
    return notices_push(&notices, span_text(about), span_text(error));
}

static void expect_next(unsigned number)
{
    char error[32];
    (void)snprintf(error, sizeof error, "error %u", number);
    cr_assert(notices_has_next(&notices));
    struct buffer *next = notices_pop(&notices);
    cr_assert_not_null(next);
    cr_expect(span_equal(buffer_span(next), span_text(error)), "%u", number);
    buffer_unref(&next);
}

Test(notices, are_told_once_whether_taken_or_not)
{
    cr_expect(push(1));
    cr_expect_not(push(1));
    cr_expect(push(2));
    expect_next(1);
    cr_expect_not(push(1));
    expect_next(2);
    cr_expect_not(notices_has_next(&notices));
    cr_expect_null(notices_pop(&notices));
    cr_expect(push(3));
    expect_next(3);
}

Test(notices, are_so_many_at_most)
{
    for (unsigned i = 1; i <= LIMIT_NOTICES + 1; i++)
        cr_expect_eq(push(i), i <= LIMIT_NOTICES, "%u", i);
    for (unsigned i = 1; i <= LIMIT_NOTICES; i++)
        expect_next(i);
    cr_expect_null(notices_pop(&notices));
    cr_expect_not(push(LIMIT_NOTICES + 1), "taking makes no room");
}
