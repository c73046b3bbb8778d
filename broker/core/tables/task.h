/* SPDX-License-Identifier: MPL-2.0 */
/* task.h -- a task that a group has given to one of its members: states, events,
 * and the one table that decides; and what becomes of a task whose member did not do it.
 *
 * A value that was given to nobody yet is no task: it lies in its topic, and the group's place is
 * before it. */
#ifndef CORE_TASK_H
#define CORE_TASK_H

#include <stdbool.h>
#include <stdint.h>

enum task_state {
    TASK_WAITING, /* for a member with credit */
    TASK_LEASED,  /* to one */
    TASK_DELAYED, /* put off: for its time */
    TASK_OVER,    /* final: done, cancelled or dead */
    TASK_STATE_COUNT,
};

enum task_event {
    TASK_IS_LEASED,
    TASK_COMES_BACK, /* given back, or its member is gone */
    TASK_IS_PUT_OFF,
    TASK_IS_DUE,
    TASK_ENDS,
    TASK_EVENT_COUNT,
};

/* The state after event, or false: it may not happen now. */
bool task_next(enum task_state state, enum task_event event, enum task_state *out_next);
const char *task_state_name(enum task_state state);

enum task_fate {
    TASK_AGAIN, /* it is for the next member at once */
    TASK_LATER, /* ... after a while */
    TASK_DEAD,  /* nobody gets it any more */
};
/* What becomes of a task that was given to members so often, and was not done: it is given
 * deliver_max times at most.  retry_after_ms: as its member said; negative: never again. */
enum task_fate task_fate(uint32_t deliveries, uint32_t deliver_max, int64_t retry_after_ms);

#endif
