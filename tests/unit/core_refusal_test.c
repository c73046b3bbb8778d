/* SPDX-License-Identifier: MPL-2.0 */
/* core_refusal_test.c -- slots that are refused together: one error, one message, one fact. */
#include "broker/core/model.h"
#include "tests/unit/core_driver.h"

TestSuite(core_refusal, .init = init, .fini = fini);

enum { VALUES = 2048 }; /* in one frame */

static uint32_t failure_count(void)
{
    uint32_t count = 0;
    const struct failure *failure = NULL;
    while ((failure = pool_next(&core->failures, failure != NULL ? failure->id : 0)) != NULL)
        count += 1;
    return count;
}

/* The topic of a writer whose job is full, so that nothing more is taken. */
static uint32_t begin_full(void)
{
    join(1);
    uint32_t a = open_topic(1, "alice/a");
    core->options.job_bytes_max = 1000;
    forget();
    return a;
}

Test(core_refusal, says_once_that_the_values_of_a_frame_are_not_kept)
{
    uint32_t a = begin_full();
    uint32_t before = failure_count();
    publish(1, a, 0, VALUES, 5);
    keep_lines("refusal", "refusal");
    EXPECT("1 < refusal #0 x2048 (rejected of alice)\n");
    cr_expect_leq(failure_count(), before + 2, "the outcome of the slots, and the refusal of it");
    crash(0);
    forget();
    resume(1, tokens[1], 0);
    keep_lines("refusal", "refusal");
    EXPECT("1 < refusal #0 x2048 (rejected of alice)\n");
}

/* Slots in a row that have other outcomes are refused for them. */
Test(core_refusal, says_for_each_outcome_that_stands_which_slots_have_it)
{
    join(1);
    uint32_t a = open_topic(1, "alice/a");
    publish(1, a, 0, 2, 5);
    for (uint64_t seq = 2; seq < 4; seq++) {
        reserve(1, a, seq);
        fail(1, a, seq, frames[1]);
    }
    publish(1, a, 4, 1, 6);
    forget();
    publish(1, a, 0, 5, 7); /* other values of the same numbers */
    keep_lines("refusal", "refusal");
    EXPECT("1 < refusal #0 x2 (rejected of alice)\n1 < refusal #2 (application of alice)\n"
           "1 < refusal #3 (application of alice)\n1 < refusal #4 (rejected of alice)\n");
}

Test(core_refusal, counts_each_slot)
{
    uint32_t a = begin_full();
    uint64_t before = 0, after = 0;
    for (unsigned i = 0; i < COUNT_REASONS; i++)
        before += core->counts.refused[i];
    publish(1, a, 0, VALUES, 5);
    for (unsigned i = 0; i < COUNT_REASONS; i++)
        after += core->counts.refused[i];
    cr_expect_eq(after - before, VALUES);
}
