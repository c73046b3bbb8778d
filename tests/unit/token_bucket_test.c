/* SPDX-License-Identifier: MPL-2.0 */
/* token_bucket_test.c -- the rate holds over any time, whatever the steps and sizes; a debt is paid
 * first. */
#include "libbus/base/token_bucket.h"

#include <criterion/criterion.h>

#define S INT64_C(1000000000)
#define MS INT64_C(1000000)

static struct token_bucket bucket;

/* Spends all that there is at each of these times, for so long; returns what was spent. */
static uint64_t spend_all(int64_t from_ns, int64_t until_ns, int64_t step_ns)
{
    uint64_t spent = 0;
    for (int64_t now_ns = from_ns; now_ns <= until_ns; now_ns += step_ns) {
        int64_t level = token_bucket_level(&bucket, now_ns);
        if (level > 0) {
            token_bucket_spend(&bucket, (uint64_t)level);
            spent += (uint64_t)level;
        }
    }
    return spent;
}

Test(token_bucket, is_full_at_first_and_gives_its_rate_from_then_on)
{
    static const int64_t steps_ns[] = {17, 1000, 333333, 10 * MS, 250 * MS};
    for (size_t i = 0; i < sizeof steps_ns / sizeof steps_ns[0]; i++) {
        int64_t until_ns = steps_ns[i] < 1000 ? 10 * MS : 10 * S;
        token_bucket_init(&bucket, 8000000, 2000000, 0);
        uint64_t spent = spend_all(0, until_ns, steps_ns[i]);
        uint64_t flowed = 8 * (uint64_t)until_ns / 1000;
        cr_assert_leq(spent, 2000000 + flowed, "%ld", (long)steps_ns[i]);
        cr_assert_geq(spent, 2000000 + flowed - 8 * (uint64_t)steps_ns[i] / 1000 - 1);
    }
}

Test(token_bucket, holds_its_burst_and_no_more)
{
    token_bucket_init(&bucket, 100, 64, 5 * S);
    cr_assert_eq(token_bucket_level(&bucket, 5 * S), 64);
    cr_assert_eq(token_bucket_level(&bucket, 1000000 * S), 64);
    token_bucket_spend(&bucket, 64);
    cr_assert_eq(token_bucket_level(&bucket, 1000000 * S), 0);
    cr_assert_eq(token_bucket_level(&bucket, 1000000 * S + 9 * MS), 0);
    cr_assert_eq(token_bucket_level(&bucket, 1000000 * S + 10 * MS), 1);
    cr_assert_eq(token_bucket_level(&bucket, 1000000 * S + 630 * MS), 63);
    cr_assert_eq(token_bucket_level(&bucket, 1000000 * S + 640 * MS), 64);
    cr_assert_eq(token_bucket_level(&bucket, 1000000 * S + 650 * MS), 64);
    cr_assert_eq(token_bucket_level(&bucket, 0), 64); /* a clock that goes back changes nothing */
}

Test(token_bucket, lets_a_debt_be_paid_first)
{
    token_bucket_init(&bucket, 1000, 100, 0);
    token_bucket_spend(&bucket, 5100);
    cr_assert_eq(token_bucket_level(&bucket, 0), -5000);
    cr_assert_eq(token_bucket_level(&bucket, 2 * S), -3000);
    cr_assert_eq(token_bucket_due_ns(&bucket, 1), 5 * S + MS + 1);
    cr_assert_eq(token_bucket_level(&bucket, 5 * S), 0);
    cr_assert_eq(token_bucket_level(&bucket, 50 * S), 100);
}

Test(token_bucket, says_when_it_will_be_so_full)
{
    token_bucket_init(&bucket, 3, 10, 7);
    cr_assert_eq(token_bucket_due_ns(&bucket, 10), 7);
    cr_assert_eq(token_bucket_due_ns(&bucket, 11), INT64_MAX);
    token_bucket_spend(&bucket, 10);
    for (int64_t level = 1; level <= 10; level++) {
        struct token_bucket then = bucket;
        int64_t due_ns = token_bucket_due_ns(&bucket, level);
        cr_assert_geq(token_bucket_level(&then, due_ns), level);
        then = bucket;
        cr_assert_lt(token_bucket_level(&then, due_ns - 3), level);
    }
}

Test(token_bucket, takes_the_largest_rates_and_none)
{
    uint64_t most = UINT64_C(1) << 56;
    token_bucket_init(&bucket, most, most / 4, 0);
    token_bucket_spend(&bucket, most / 4);
    cr_assert_eq(token_bucket_level(&bucket, 125 * MS), (int64_t)(most / 8));
    cr_assert_leq(token_bucket_due_ns(&bucket, (int64_t)(most / 4)), 250 * MS + 8);
    cr_assert_eq(token_bucket_level(&bucket, 1000000 * S), (int64_t)(most / 4));
    token_bucket_init(&bucket, 0, 0, 0);
    cr_assert_eq(token_bucket_level(&bucket, 1000 * S), 0);
    cr_assert_eq(token_bucket_due_ns(&bucket, 1), INT64_MAX);
    token_bucket_spend(&bucket, UINT64_MAX);
    token_bucket_spend(&bucket, UINT64_MAX);
    cr_assert_lt(token_bucket_level(&bucket, 1000 * S), 0);
}
