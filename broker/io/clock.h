/* SPDX-License-Identifier: MPL-2.0 */
/* clock.h -- where the broker's time and randomness come from. */
#ifndef IO_CLOCK_H
#define IO_CLOCK_H

#include "broker/io/core_port.h"

#include <stdint.h>

enum { CLOCK_DICE_COUNT = 64 };

/* Random numbers are read from the kernel several at a time.  They become session tokens, so they
 * must not be guessed. */
struct clock {
    uint64_t dice[CLOCK_DICE_COUNT];
    unsigned left;
};

/* The two clocks and a fresh random number, never 0. */
struct core_port_now clock_now(struct clock *clock);
int64_t clock_monotonic_ns(void);
int64_t clock_wall_ns(void);

#endif
