/* SPDX-License-Identifier: MPL-2.0 */
/* deadlock.h -- looks for parties that wait for each other, and tells of them. */
#ifndef CORE_WAITS_DEADLOCK_H
#define CORE_WAITS_DEADLOCK_H

#include "broker/core/model.h"

/* The job's timer fired: a look begins. */
void deadlock_look(struct core *core, struct job *job);
/* The waits are collected.  Taps are told of each cycle that was there at the last look, too. */
void deadlock_judge(struct core *core, struct job *job, const struct wait_walk *walk);

#endif
