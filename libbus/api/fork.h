/* SPDX-License-Identifier: MPL-2.0 */
/* fork.h -- tells a child process that a handle belongs to its parent. */
#ifndef API_FORK_H
#define API_FORK_H

#include "libbus/api/model.h"

/* Whether this is a child of the process that made it: nothing may be touched then. */
extern atomic_uint fork_generation;
unsigned fork_watch(void); /* the generation now */
static inline bool api_is_foreign(const struct bus *bus)
{
    return bus->fork_generation != atomic_load_explicit(&fork_generation, memory_order_relaxed);
}

#endif
