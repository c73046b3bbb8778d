/* SPDX-License-Identifier: MPL-2.0 */
/* refused_test.c -- the newest are kept, all are counted. */
#include "libbus/session/refused.h"

#include <criterion/criterion.h>

static struct refused refused;

static void expect_range(uint64_t first, uint64_t end)
{
    struct refused_one one;
    for (uint64_t seq = first; seq < end; seq++) {
        cr_assert(refused_pop(&refused, &one));
        cr_assert_eq(one.seq, seq);
        cr_assert_eq(one.topic, 7);
        cr_assert(span_equal(buffer_span(one.error), span_text("why")));
        buffer_unref(&one.error);
    }
    cr_assert_not(refused_pop(&refused, &one));
}

Test(refused, keeps_the_newest)
{
    static const uint64_t counts[] = {
        0, 1, LIMIT_REFUSALS - 1, LIMIT_REFUSALS, LIMIT_REFUSALS + 1, 3 * LIMIT_REFUSALS};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        uint64_t lost = counts[i] > LIMIT_REFUSALS ? counts[i] - LIMIT_REFUSALS : 0;
        refused = (struct refused){0};
        for (uint64_t seq = 0; seq < counts[i]; seq++)
            refused_push(&refused, 7, seq, span_text("why"));
        cr_assert_eq(refused.ever, counts[i]);
        cr_assert_eq(refused.lost, lost);
        expect_range(lost, counts[i]);
        refused_push(&refused, 7, 5, span_text("why"));
        refused_fini(&refused);
        cr_assert_eq(refused.count, 0);
    }
}
