/* SPDX-License-Identifier: MPL-2.0 */
/* task_test.c -- every pair of state and event of a task, and what becomes of one that was
 * not done. */
#include "broker/core/tables/task.h"

#include <criterion/criterion.h>
#include <stdint.h>

/* What the rules say, one by one; TASK_STATE_COUNT: it may not happen. */
static enum task_state by_the_rules(enum task_state state, enum task_event event)
{
    if (state == TASK_OVER)
        return TASK_STATE_COUNT;
    if (event == TASK_ENDS)
        return TASK_OVER; /* cancelled, whoever has it */
    if (event == TASK_IS_LEASED)
        return state == TASK_WAITING ? TASK_LEASED : TASK_STATE_COUNT;
    if (event == TASK_IS_DUE)
        return state == TASK_DELAYED ? TASK_WAITING : TASK_STATE_COUNT;
    if (state != TASK_LEASED)
        return TASK_STATE_COUNT; /* nobody has it who could give it back */
    return event == TASK_COMES_BACK ? TASK_WAITING : TASK_DELAYED;
}

Test(task, every_pair_of_state_and_event_is_decided_by_the_rules)
{
    for (int state = 0; state < TASK_STATE_COUNT; state++)
        for (int event = 0; event < TASK_EVENT_COUNT; event++) {
            enum task_state next = TASK_STATE_COUNT;
            bool moves = task_next((enum task_state)state, (enum task_event)event, &next);
            cr_expect_eq(next, by_the_rules((enum task_state)state, (enum task_event)event),
                         "%s %d", task_state_name((enum task_state)state), event);
            cr_expect_eq(moves, next != TASK_STATE_COUNT);
        }
}

Test(task, each_state_has_a_name_of_its_own)
{
    for (int a = 0; a < TASK_STATE_COUNT; a++)
        for (int b = 0; b < a; b++)
            cr_expect_str_neq(task_state_name((enum task_state)a),
                              task_state_name((enum task_state)b));
}

Test(task, is_given_so_often_and_no_more)
{
    for (uint32_t most = 1; most <= 16; most++)
        for (uint32_t given = 1; given <= most + 1; given++) {
            bool is_left = given < most;
            cr_expect_eq(task_fate(given, most, 0), is_left ? TASK_AGAIN : TASK_DEAD);
            cr_expect_eq(task_fate(given, most, 1), is_left ? TASK_LATER : TASK_DEAD);
            cr_expect_eq(task_fate(given, most, INT64_MAX), is_left ? TASK_LATER : TASK_DEAD);
            cr_expect_eq(task_fate(given, most, -1), TASK_DEAD, "never means never");
        }
}
