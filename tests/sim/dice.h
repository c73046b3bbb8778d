/* SPDX-License-Identifier: MPL-2.0 */
/* dice.h -- chance that can be had again: xoshiro256** (Blackman and Vigna 2018), one seed, one
 * run.  Whatever a simulation leaves to chance it takes from here. */
#ifndef SIM_DICE_H
#define SIM_DICE_H

#include <stdbool.h>
#include <stdint.h>

struct dice {
    uint64_t state[4];
};

void dice_init(struct dice *dice, uint64_t seed);
uint64_t dice_next(struct dice *dice);
/* 0 .. count-1; count > 0. */
uint64_t dice_below(struct dice *dice, uint64_t count);
/* least .. most, both included. */
int64_t dice_between(struct dice *dice, int64_t least, int64_t most);
/* True so often in a thousand. */
bool dice_hits(struct dice *dice, uint32_t permille);

#endif
