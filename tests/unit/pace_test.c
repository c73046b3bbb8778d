/* SPDX-License-Identifier: MPL-2.0 */
/* pace_test.c -- how large frames become, and when they are small again. */
#include "libbus/session/pace.h"

#include "libbus/base/limits.h"

#include <criterion/criterion.h>

#define KIB UINT64_C(1024)

static struct pace pace;

static void init(void)
{
    pace_init(&pace, 0);
}

TestSuite(pace, .init = init);

/* One piece, answered after so long. */
static void answer_after(int64_t ns)
{
    pace_sent(&pace, 3, 7, 1000, 50);
    pace_accepted(&pace, 3, 7, 1000, 50 + ns);
}

Test(pace, begins_small_and_stays_within_its_bound)
{
    static const uint64_t bounds[] = {1,
                                      DEFAULT_CHUNK_BYTES - 1,
                                      DEFAULT_CHUNK_BYTES,
                                      512 * KIB,
                                      LIMIT_CHUNK_BYTES - 1,
                                      LIMIT_CHUNK_BYTES,
                                      UINT64_MAX,
                                      0};
    for (size_t i = 0; i < sizeof bounds / sizeof *bounds; i++) {
        uint64_t most =
            bounds[i] == 0 || bounds[i] > LIMIT_CHUNK_BYTES ? LIMIT_CHUNK_BYTES : bounds[i];
        pace_init(&pace, bounds[i]);
        cr_assert_eq(pace.bytes, most < DEFAULT_CHUNK_BYTES ? most : DEFAULT_CHUNK_BYTES);
        answer_after(0);
        cr_assert_eq(pace.bytes, most);
        pace_stalled(&pace);
        cr_assert_eq(pace.bytes, most < DEFAULT_CHUNK_BYTES ? most : DEFAULT_CHUNK_BYTES);
    }
}

Test(pace, follows_the_answers)
{
    answer_after(PACE_SOON_NS);
    cr_assert_eq(pace.bytes, DEFAULT_CHUNK_BYTES);
    answer_after(PACE_SOON_NS - 1);
    cr_assert_eq(pace.bytes, LIMIT_CHUNK_BYTES);
    answer_after(PACE_SOON_NS + 1);
    cr_assert_eq(pace.bytes, DEFAULT_CHUNK_BYTES);
}

Test(pace, takes_the_answer_to_what_it_timed)
{
    pace_sent(&pace, 3, 7, 1000, 0);
    pace_sent(&pace, 3, 7, 2000, 1); /* the one before is not answered yet */
    pace_accepted(&pace, 4, 7, 1000, 2);
    pace_accepted(&pace, 3, 8, 1000, 2);
    pace_accepted(&pace, 3, 7, 999, 2);
    cr_assert_eq(pace.bytes, DEFAULT_CHUNK_BYTES);
    pace_accepted(&pace, 3, 7, 1001, 2);
    cr_assert_eq(pace.bytes, LIMIT_CHUNK_BYTES);
}

Test(pace, times_another_if_no_answer_comes)
{
    pace_sent(&pace, 3, 7, 1000, 0); /* its slot is retracted */
    pace_sent(&pace, 3, 8, 1000, PACE_SOON_NS);
    pace_accepted(&pace, 3, 8, 1000, PACE_SOON_NS + 1);
    cr_assert_eq(pace.bytes, LIMIT_CHUNK_BYTES);
}

Test(pace, forgets_what_went_down_with_its_connection)
{
    pace_sent(&pace, 3, 7, 1000, 0);
    pace_rewind(&pace);
    pace_accepted(&pace, 3, 7, 1000, 1); /* WELCOME told of it */
    cr_assert_eq(pace.bytes, DEFAULT_CHUNK_BYTES);
}
