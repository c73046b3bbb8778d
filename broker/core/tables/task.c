/* SPDX-License-Identifier: MPL-2.0 */
/* task.c -- the states of a task, as a table. */
#include "broker/core/tables/task.h"

#define NEVER TASK_STATE_COUNT

static const enum task_state table[TASK_STATE_COUNT][TASK_EVENT_COUNT] = {
    /* is leased, comes back, is put off, is due, ends */
    [TASK_WAITING] = {TASK_LEASED, NEVER, NEVER, NEVER, TASK_OVER},
    [TASK_LEASED] = {NEVER, TASK_WAITING, TASK_DELAYED, NEVER, TASK_OVER},
    [TASK_DELAYED] = {NEVER, NEVER, NEVER, TASK_WAITING, TASK_OVER},
    [TASK_OVER] = {NEVER, NEVER, NEVER, NEVER, NEVER},
};

bool task_next(enum task_state state, enum task_event event, enum task_state *out_next)
{
    if (table[state][event] == NEVER)
        return false;
    *out_next = table[state][event];
    return true;
}

const char *task_state_name(enum task_state state)
{
    static const char *const names[TASK_STATE_COUNT] = {
        [TASK_WAITING] = "waiting",
        [TASK_LEASED] = "leased",
        [TASK_DELAYED] = "delayed",
        [TASK_OVER] = "over",
    };
    return names[state];
}

enum task_fate task_fate(uint32_t deliveries, uint32_t deliver_max, int64_t retry_after_ms)
{
    if (retry_after_ms < 0 || deliveries >= deliver_max)
        return TASK_DEAD;
    return retry_after_ms > 0 ? TASK_LATER : TASK_AGAIN;
}
