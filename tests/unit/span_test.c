/* SPDX-License-Identifier: MPL-2.0 */
/* span_test.c -- bytes that somebody else owns. */
#include "libbus/base/span.h"

#include <criterion/criterion.h>

Test(span, takes_a_string_without_its_end)
{
    const char *text = "alice";
    struct span span = span_text(text);
    cr_assert_eq(span.data, text);
    cr_assert_eq(span.bytes, 5);
    cr_assert_eq(span_text("").bytes, 0);
    cr_assert_eq(span_text(NULL).bytes, 0);
    cr_assert_null(span_text(NULL).data);
}

Test(span, is_equal_by_bytes_not_by_place)
{
    char copy[] = {'a', 0, 'b'};
    cr_assert(span_equal(span_of("a\0b", 3), span_of(copy, 3)));
    cr_assert_not(span_equal(span_of("a\0c", 3), span_of(copy, 3)));
    cr_assert_not(span_equal(span_of("a\0b", 2), span_of(copy, 3)));
    cr_assert(span_equal(SPAN_NONE, span_of(copy, 0)));
    cr_assert(span_equal(SPAN_NONE, SPAN_NONE));
    cr_assert_not(span_equal(SPAN_NONE, span_of(copy, 1)));
}
