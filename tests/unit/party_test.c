/* SPDX-License-Identifier: MPL-2.0 */
/* party_test.c -- every pair of state and event of a party's life. */
#include "broker/core/party.h"

#include <criterion/criterion.h>
#include <string.h>

Test(party, final_states_are_left_only_by_a_new_life)
{
    for (int state = 0; state < PARTY_STATE_COUNT; state++)
        for (int event = 0; event < PARTY_EVENT_COUNT; event++) {
            enum party_state next = PARTY_STATE_COUNT;
            bool moves = party_next((enum party_state)state, (enum party_event)event, &next);
            if (party_is_final((enum party_state)state))
                cr_expect_eq(moves, event == PARTY_JOINS, "%d %d", state, event);
            if (moves && event == PARTY_JOINS)
                cr_expect_eq(next, PARTY_RUNNING);
            if (!moves)
                cr_expect_eq(next, PARTY_STATE_COUNT, "written though nothing changed");
        }
}

Test(party, a_running_party_can_end_in_every_way)
{
    static const struct {
        enum party_event event;
        enum party_state next;
    } ways[] = {{PARTY_SAYS_FAILED, PARTY_FAILING}, {PARTY_COMPLETES, PARTY_COMPLETED},
                {PARTY_FAILS, PARTY_FAILED},        {PARTY_IS_LOST, PARTY_LOST},
                {PARTY_LEAVES, PARTY_LEFT},         {PARTY_IS_TERMINATED, PARTY_TERMINATED}};
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        enum party_state next;
        cr_assert(party_next(PARTY_RUNNING, ways[i].event, &next));
        cr_expect_eq(next, ways[i].next);
    }
    enum party_state next;
    cr_expect_not(party_next(PARTY_RUNNING, PARTY_JOINS, &next));
}

Test(party, who_said_that_it_failed_has_failed_however_it_ends)
{
    for (int event = PARTY_FAILS; event < PARTY_EVENT_COUNT; event++) {
        enum party_state next;
        cr_assert(party_next(PARTY_FAILING, (enum party_event)event, &next));
        cr_expect_eq(next, PARTY_FAILED);
    }
}

Test(party, who_has_not_joined_can_only_join)
{
    for (int event = 0; event < PARTY_EVENT_COUNT; event++) {
        enum party_state next;
        cr_expect_eq(party_next(PARTY_SCHEDULING, (enum party_event)event, &next),
                     event == PARTY_JOINS);
    }
}

Test(party, each_state_has_a_name_of_its_own)
{
    for (int a = 0; a < PARTY_STATE_COUNT; a++)
        for (int b = 0; b < a; b++)
            cr_expect_str_neq(party_state_name((enum party_state)a),
                              party_state_name((enum party_state)b));
}
