/* SPDX-License-Identifier: MPL-2.0 */
/* seeds.h -- which seeds a run of the simulation tries, by the environment. */
#ifndef SIM_SEEDS_H
#define SIM_SEEDS_H

#include <stdint.h>

/* A variable of the environment, or what else if it is absent. */
uint64_t seeds_number(const char *name, uint64_t otherwise);
uint64_t seeds_first(void);                   /* ERRBUS_SIM_FROM, or 1 */
uint64_t seeds_count(uint64_t default_count); /* ERRBUS_SIM_SEEDS */

#define SEEDS_EACH(seed, count)                                                                    \
    for (uint64_t seed = seeds_first(); seed < seeds_first() + (count); seed++)

#endif
