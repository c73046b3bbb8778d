/* SPDX-License-Identifier: MPL-2.0 */
/* party.c -- the states of an incarnation, as a table. */
#include "broker/core/tables/party.h"

#define STAY PARTY_STATE_COUNT

static const enum party_state table[PARTY_STATE_COUNT][PARTY_EVENT_COUNT] = {
    /* starts, says failed, completes, fails, is lost, leaves, is terminated */
    [PARTY_SCHEDULING] = {PARTY_RUNNING, PARTY_FAILING, PARTY_COMPLETED, PARTY_FAILED, PARTY_LOST,
                          PARTY_LEFT, PARTY_TERMINATED},
    [PARTY_RUNNING] = {STAY, PARTY_FAILING, PARTY_COMPLETED, PARTY_FAILED, PARTY_LOST, PARTY_LEFT,
                       PARTY_TERMINATED},
    [PARTY_FAILING] = {STAY, STAY, STAY, PARTY_FAILED, PARTY_FAILED, PARTY_FAILED, PARTY_FAILED},
    [PARTY_COMPLETED] = {STAY, STAY, STAY, STAY, STAY, STAY, STAY},
    [PARTY_FAILED] = {STAY, STAY, STAY, STAY, STAY, STAY, STAY},
    [PARTY_LOST] = {STAY, STAY, STAY, STAY, STAY, STAY, STAY},
    [PARTY_LEFT] = {STAY, STAY, STAY, STAY, STAY, STAY, STAY},
    [PARTY_TERMINATED] = {STAY, STAY, STAY, STAY, STAY, STAY, STAY},
};

bool party_next(enum party_state state, enum party_event event, enum party_state *out_next)
{
    if (table[state][event] == STAY)
        return false;
    *out_next = table[state][event];
    return true;
}

bool party_is_final(enum party_state state)
{
    return state >= PARTY_COMPLETED;
}

const char *party_state_name(enum party_state state)
{
    static const char *const names[PARTY_STATE_COUNT] = {
        [PARTY_SCHEDULING] = "scheduling",
        [PARTY_RUNNING] = "running",
        [PARTY_FAILING] = "failing",
        [PARTY_COMPLETED] = "completed",
        [PARTY_FAILED] = "failed",
        [PARTY_LOST] = "lost",
        [PARTY_LEFT] = "left",
        [PARTY_TERMINATED] = "terminated",
    };
    return names[state];
}
