/* SPDX-License-Identifier: MPL-2.0 */
/* fork.h -- tells a child process that a handle belongs to its parent. */
#ifndef API_FORK_H
#define API_FORK_H

#include "libbus/api/model.h"

/* Whether this is a child of the process that made it: nothing may be touched then. */
extern atomic_uint core_fork_generation;
unsigned core_watch_forks(void); /* the generation now */
static inline bool api_is_foreign(const struct bus *bus)
{
    return bus->fork_generation !=
           atomic_load_explicit(&core_fork_generation, memory_order_relaxed);
}

#endif
