/* SPDX-License-Identifier: MPL-2.0 */
/* party_test.c -- every pair of state and event of a party. */
#include "broker/core/tables/party.h"

#include <criterion/criterion.h>
#include <string.h>

static const struct end {
    enum party_event event;
    enum party_state next;
} ends[] = {{PARTY_COMPLETES, PARTY_COMPLETED},
            {PARTY_FAILS, PARTY_FAILED},
            {PARTY_IS_LOST, PARTY_LOST},
            {PARTY_LEAVES, PARTY_LEFT},
            {PARTY_IS_TERMINATED, PARTY_TERMINATED}};
enum { ENDS = sizeof ends / sizeof *ends };

/* What the rules say, one by one; PARTY_STATE_COUNT: nothing changes. */
static enum party_state by_the_rules(enum party_state state, enum party_event event)
{
    enum party_state end = PARTY_STATE_COUNT;
    for (size_t i = 0; i < ENDS; i++)
        if (ends[i].event == event)
            end = ends[i].next;
    switch (state) {
    case PARTY_SCHEDULING:
        if (event == PARTY_STARTS)
            return PARTY_RUNNING;
        return event == PARTY_SAYS_FAILED ? PARTY_FAILING : end;
    case PARTY_RUNNING: return event == PARTY_SAYS_FAILED ? PARTY_FAILING : end;
    case PARTY_FAILING: /* however it ends, it failed; but it cannot be done well any more */
        return end != PARTY_STATE_COUNT && event != PARTY_COMPLETES ? PARTY_FAILED
                                                                    : PARTY_STATE_COUNT;
    default: return PARTY_STATE_COUNT; /* final */
    }
}

Test(party, every_pair_of_state_and_event_is_decided_by_the_rules)
{
    for (int state = 0; state < PARTY_STATE_COUNT; state++)
        for (int event = 0; event < PARTY_EVENT_COUNT; event++) {
            enum party_state next = PARTY_STATE_COUNT;
            bool moves = party_next((enum party_state)state, (enum party_event)event, &next);
            cr_expect_eq(next, by_the_rules((enum party_state)state, (enum party_event)event),
                         "%s %d", party_state_name((enum party_state)state), event);
            cr_expect_eq(moves, next != PARTY_STATE_COUNT);
        }
}

Test(party, final_states_never_change)
{
    unsigned count = 0;
    for (int state = 0; state < PARTY_STATE_COUNT; state++) {
        if (!party_is_final((enum party_state)state))
            continue;
        count += 1;
        for (int event = 0; event < PARTY_EVENT_COUNT; event++) {
            enum party_state next;
            cr_expect_not(party_next((enum party_state)state, (enum party_event)event, &next));
        }
    }
    cr_expect_eq(count, ENDS, "a final state for each way to end");
}

Test(party, each_state_has_a_name_of_its_own)
{
    for (int a = 0; a < PARTY_STATE_COUNT; a++)
        for (int b = 0; b < a; b++)
            cr_expect_str_neq(party_state_name((enum party_state)a),
                              party_state_name((enum party_state)b));
}
