/* SPDX-License-Identifier: MPL-2.0 */
/* dice.c -- xoshiro256**, its state filled by splitmix64; see dice.h. */
#include "tests/sim/dice.h"

static uint64_t splitmix(uint64_t *state)
{
    uint64_t mixed = *state += UINT64_C(0x9e3779b97f4a7c15);
    mixed = (mixed ^ (mixed >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    mixed = (mixed ^ (mixed >> 27)) * UINT64_C(0x94d049bb133111eb);
    return mixed ^ (mixed >> 31);
}

static uint64_t rotate(uint64_t word, unsigned bits)
{
    return (word << bits) | (word >> (64 - bits));
}

void dice_init(struct dice *dice, uint64_t seed)
{
    for (int i = 0; i < 4; i++)
        dice->state[i] = splitmix(&seed);
}

uint64_t dice_next(struct dice *dice)
{
    uint64_t *state = dice->state;
    uint64_t result = rotate(state[1] * 5, 7) * 9;
    uint64_t shifted = state[1] << 17;
    state[2] ^= state[0];
    state[3] ^= state[1];
    state[1] ^= state[2];
    state[0] ^= state[3];
    state[2] ^= shifted;
    state[3] = rotate(state[3], 45);
    return result;
}

/* The bias of the remainder is below 2^-32 for the counts used here. */
uint64_t dice_below(struct dice *dice, uint64_t count)
{
    return dice_next(dice) % count;
}

int64_t dice_between(struct dice *dice, int64_t least, int64_t most)
{
    return least + (int64_t)dice_below(dice, (uint64_t)(most - least) + 1);
}

bool dice_hits(struct dice *dice, uint32_t permille)
{
    return dice_below(dice, 1000) < permille;
}
