/* SPDX-License-Identifier: MPL-2.0 */
/* sync_round_test.c -- the window grows with what is taken from a step until it is kept. */
#include "broker/core/tables/sync_round.h"

#include "libbus/base/limits.h"

#include <criterion/criterion.h>

Test(sync_round, gives_twice_what_was_taken_until_the_step_was_kept)
{
    struct sync_round round = {.step = 0};
    cr_expect_eq(sync_round_bytes(&round, 100, 700), 0, "nothing was sent");
    sync_round_sent(&round, 5, 1000);
    sync_round_sent(&round, 6, 1100); /* within the round */
    cr_expect_eq(sync_round_bytes(&round, 4, 1300), 0, "it is not over");
    cr_expect_eq(sync_round_bytes(&round, 5, 1400), 2 * 400);
    cr_expect_eq(sync_round_bytes(&round, 9, 5000), 2 * 400,
                 "what comes between two is not in any");
}

Test(sync_round, forgets_what_was_taken_in_the_last_round_but_one)
{
    struct sync_round round = {.step = 0};
    const uint64_t took[] = {400, 10, 20, 0, 0};
    const uint64_t expected[] = {800, 800, 40, 40, 0};
    uint64_t taken = 0;
    for (uint64_t i = 0; i < 5; i++) {
        sync_round_sent(&round, i + 1, taken);
        taken += took[i];
        cr_expect_eq(sync_round_bytes(&round, i + 1, taken), expected[i], "%d", (int)i);
    }
}

Test(sync_round, gives_no_more_than_the_limit)
{
    uint64_t half = LIMIT_SYNC_WINDOW_BYTES / 2;
    for (uint64_t took = half - 1; took <= half + 1; took++) {
        struct sync_round round = {.step = 0};
        sync_round_sent(&round, 1, 0);
        cr_expect_eq(sync_round_bytes(&round, 1, took),
                     took < half ? 2 * took : LIMIT_SYNC_WINDOW_BYTES);
    }
}
