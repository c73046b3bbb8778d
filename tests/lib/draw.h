/* SPDX-License-Identifier: MPL-2.0 */
/* draw.h -- for tests: numbers by chance that are the same in each run. */
#ifndef TESTS_LIB_DRAW_H
#define TESTS_LIB_DRAW_H

#include <stdint.h>

/* The next number; *state is the seed before the first. */
static inline uint32_t draw(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(*state >> 32);
}

/* 0 .. count-1; count > 0. */
static inline uint32_t draw_below(uint64_t *state, uint32_t count)
{
    return draw(state) % count;
}

#endif
