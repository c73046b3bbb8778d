/* SPDX-License-Identifier: MPL-2.0 */
/* collect.h -- finds the waits of a job in the tables of the core. */
#ifndef CORE_WAITS_COLLECT_H
#define CORE_WAITS_COLLECT_H

#include "broker/core/model.h"

/* Looks at no more than *budget objects, and counts them off it.  true: all were looked at. */
bool collect_some(struct core *core, struct wait_walk *walk, uint32_t *budget);
/* The slot, who owes it, and the slots that it needs, directly or not. */
void collect_slot(struct core *core, struct wait_walk *walk, struct topic *topic, uint64_t seq);

#endif
