/* SPDX-License-Identifier: MPL-2.0 */
/* task.h -- what asker.c and worker.c have agreed upon: how a task ends hangs on its number. */
#ifndef TESTS_PROVE_TASK_H
#define TESTS_PROVE_TASK_H

#include <stdbool.h>
#include <stdint.h>

#define TASK_GROUP "hands"
#define TASK_TOPIC "jobs"
#define TASK_REPORT "done"
#define TASK_FAILED "task.failed"
enum { TASK_DELIVER_MAX = 16 }; /* more incarnations than a task meets in a watch */

enum task_end {
    TASK_IS_DONE,     /* acknowledged, of those who want no reply */
    TASK_IS_ANSWERED, /* its request got a value */
    TASK_FAILS,       /* its request got the worker's error */
    TASK_DIES,        /* is a dead letter, and its request, if it is one, rejected */
    TASK_ENDS,
};

static inline bool task_is_request(uint64_t number)
{
    return number % 3 != 0;
}

static inline enum task_end task_end_of(uint64_t number)
{
    bool is_request = task_is_request(number);
    bool is_failing = number % 7 == 3;
    bool is_dying = number % 31 == 7 || (is_failing && !is_request);
    return is_dying                    ? TASK_DIES
           : is_failing && is_request  ? TASK_FAILS
           : !is_failing && is_request ? TASK_IS_ANSWERED
                                       : TASK_IS_DONE;
}

/* Whoever is given it first gives it back. */
static inline bool task_is_given_back(uint64_t number)
{
    return number % 11 == 5;
}

#endif
