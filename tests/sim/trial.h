/* SPDX-License-Identifier: MPL-2.0 */
/* trial.h -- runs of a swarm in processes of their own, for those that may die of what they find;
 * and the way from a failing seed to a transcript short enough to be read. */
#ifndef SIM_TRIAL_H
#define SIM_TRIAL_H

#include "tests/sim/shrink.h"
#include "tests/sim/swarm.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct trial {
    uint64_t seed;
    enum swarm_plant plant;
    struct swarm_report first;
    struct shrink shrink;
    struct script script;
};

/* Runs the seed; true: it fails, and the script says how. */
bool trial_open(struct trial *trial, uint64_t seed, enum swarm_plant plant);
/* Makes it as short as it gets, and prints what it then does. */
void trial_shorten(struct trial *trial, FILE *out);
void trial_close(struct trial *trial);

#endif
