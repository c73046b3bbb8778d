/* SPDX-License-Identifier: MPL-2.0 */
/* script.h -- what was decided by lot in one run of a swarm: at which moment somebody spoke,
 * something was done to somebody, or a process started; and the dice as they lay then.
 *
 * Played again as a whole it is the same run; with moments left out, those that are left draw what
 * they drew before.  That is what lets a failing run be made short (shrink.h). */
#ifndef SIM_SCRIPT_H
#define SIM_SCRIPT_H

#include "tests/sim/dice.h"

#include <stdbool.h>
#include <stdint.h>

enum script_phase { SCRIPT_QUIET, SCRIPT_ENDING, SCRIPT_AFTER, SCRIPT_PHASES };

struct script_moment {
    int64_t at_ns;
    uint32_t what, who; /* as the swarm puts it down */
    uint64_t value;
    struct dice dice;         /* the world's ... */
    struct dice journal_dice; /* ... and the swarm's own */
};

struct script {
    struct script_moment *moments; /* in order */
    uint32_t count, room;
    bool is_fixed; /* the moments lie in memory of somebody else's, and have that room */
    struct dice phases[SCRIPT_PHASES]; /* the world's dice as each began */
};

void script_add(struct script *script, struct script_moment moment);
/* out_script: nothing yet; of the moments first to last - 1 are left out. */
void script_without(const struct script *script, uint32_t first, uint32_t last,
                    struct script *out_script);
void script_fini(struct script *script); /* takes a zeroed one, and leaves one */

#endif
