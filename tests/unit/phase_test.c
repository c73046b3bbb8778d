/* SPDX-License-Identifier: MPL-2.0 */
/* phase_test.c -- every pair of phase and step. */
#include "libbus/session/phase.h"

#include <criterion/criterion.h>

enum { NEVER = PHASE_COUNT };

Test(phase, has_an_answer_for_every_pair)
{
    static const int next[PHASE_COUNT][PHASE_STEP_COUNT] = {
        [PHASE_WAIT] = {PHASE_GREET, NEVER, NEVER, PHASE_WAIT, PHASE_OVER},
        [PHASE_GREET] = {PHASE_GREET, PHASE_ATTACH, NEVER, PHASE_WAIT, PHASE_OVER},
        [PHASE_ATTACH] = {PHASE_GREET, NEVER, PHASE_UP, PHASE_WAIT, PHASE_OVER},
        [PHASE_UP] = {PHASE_GREET, NEVER, NEVER, PHASE_WAIT, PHASE_OVER},
        [PHASE_OVER] = {NEVER, NEVER, NEVER, PHASE_OVER, PHASE_OVER},
    };
    for (int from = 0; from < PHASE_COUNT; from++)
        for (int step = 0; step < PHASE_STEP_COUNT; step++) {
            enum phase phase = (enum phase)from;
            bool is_made = phase_move(&phase, (enum phase_step)step);
            cr_assert_eq(is_made, next[from][step] != NEVER, "%d by %d", from, step);
            cr_assert_eq((int)phase, is_made ? next[from][step] : from, "%d by %d", from, step);
        }
}

Test(phase, never_leaves_the_end)
{
    for (int step = 0; step < PHASE_STEP_COUNT; step++) {
        enum phase phase = PHASE_OVER;
        (void)phase_move(&phase, (enum phase_step)step);
        cr_assert_eq(phase, PHASE_OVER);
    }
}
