/* SPDX-License-Identifier: MPL-2.0 */
/* task.h -- the states of a task, the events that change them, and the one table that decides.  A
 * task is a value that a group has given to one of its members.  Also here: what happens to a task
 * that its member did not do.
 *
 * A value that was given to no member yet is not a task.  It lies in its topic, behind the group's
 * place there. */
#ifndef CORE_TASK_H
#define CORE_TASK_H

#include <stdbool.h>
#include <stdint.h>

enum task_state {
    TASK_WAITING, /* waits for a member with credit */
    TASK_LEASED,  /* a member has it */
    TASK_DELAYED, /* waits until it may be given again */
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
    TASK_AGAIN, /* it may go to the next member at once */
    TASK_LATER, /* it may go to the next member after retry_after_ms */
    TASK_DEAD,  /* no member gets it again */
};
/* What happens to a task that was given to members `deliveries` times and is not done.  A task is
 * given at most deliver_max times. retry_after_ms: as its member said; negative: never again. */
enum task_fate task_fate(uint32_t deliveries, uint32_t deliver_max, int64_t retry_after_ms);

#endif
