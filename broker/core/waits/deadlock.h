/* SPDX-License-Identifier: MPL-2.0 */
/* deadlock.h -- parties that wait for each other: looks for such cycles, and what follows. */
#ifndef CORE_WAITS_DEADLOCK_H
#define CORE_WAITS_DEADLOCK_H

#include "broker/core/model.h"

/* The job's timer fired: a look begins. */
void deadlock_look(struct core *core, struct job *job);
/* The waits are collected: a cycle that stood at the last look, too, is told. */
void deadlock_judge(struct core *core, struct job *job, const struct wait_walk *walk);

#endif
