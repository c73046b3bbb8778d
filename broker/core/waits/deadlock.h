/* SPDX-License-Identifier: MPL-2.0 */
/* deadlock.h -- looks for parties that wait for each other, and tells of them. */
#ifndef CORE_WAITS_DEADLOCK_H
#define CORE_WAITS_DEADLOCK_H

#include "broker/core/model.h"

/* The job's timer fired: a look begins. */
void deadlock_look(struct core *core, struct job *job);
/* The waits are collected.  Taps are told of each cycle that was there at the last look, too.  It
 * goes over the nodes and edges pass by pass, and counts each pass off *budget.  A pass that costs
 * more than a step may is a step of its own.  true: all is judged. */
bool deadlock_judge(struct core *core, struct job *job, struct wait_walk *walk, uint32_t *budget);
void deadlock_free(struct core *core, struct judging *judging); /* NULL: nothing */

#endif
