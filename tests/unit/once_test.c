/* SPDX-License-Identifier: MPL-2.0 */
/* once_test.c -- the first cause wins, whichever two come. */
#include "libbus/session/once.h"

#include <criterion/criterion.h>

static const struct {
    enum wire_code code;
    const char *error;
} causes[] = {
    {CODE_EFENCED, "fenced"}, {CODE_ELOST, "lost"},    {CODE_ECLOSED, "failed"},
    {CODE_ECLOSED, ""},       {CODE_EPROTO, "broken"}, {CODE_EDENIED, "denied"},
};
enum { CAUSES = sizeof causes / sizeof *causes };

Test(once, keeps_the_first_of_any_two)
{
    for (size_t first = 0; first < CAUSES; first++)
        for (size_t second = 0; second < CAUSES; second++) {
            struct once once;
            cr_assert(once_init(&once, span_text("spare")));
            cr_assert_eq(once.code, CODE_OK);
            cr_assert(once_end(&once, causes[first].code, span_text(causes[first].error)));
            cr_assert_not(once_end(&once, causes[second].code, span_text(causes[second].error)));
            cr_assert_eq(once.code, causes[first].code, "%zu then %zu", first, second);
            if (causes[first].error[0] == 0)
                cr_assert_null(once.error);
            else
                cr_assert(span_equal(buffer_span(once.error), span_text(causes[first].error)),
                          "%zu then %zu", first, second);
            once_fini(&once);
            cr_assert_null(once.error);
        }
}

Test(once, copies_its_cause)
{
    struct once once;
    char text[] = "cause";
    cr_assert(once_init(&once, SPAN_NONE));
    cr_assert(once_end(&once, CODE_ELOST, span_text(text)));
    text[0] = 'p';
    cr_assert(span_equal(buffer_span(once.error), span_text("cause")));
    once_fini(&once);
}
