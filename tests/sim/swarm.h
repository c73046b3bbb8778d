/* SPDX-License-Identifier: MPL-2.0 */
/* swarm.h -- one seed: a climate, a run under it, and all that must hold in the end.
 *
 *   active  parties act at random and faults happen
 *   quiet   faults stop, the dead stay dead, readers take and acknowledge all there is; in the end
 *           nobody waits but for what an open slot or a party to come may still bring
 *   ending  party after party ends; whoever waited for it is told
 *   after   the broker forgets the job, and has nothing left of it */
#ifndef SIM_SWARM_H
#define SIM_SWARM_H

#include <stdint.h>
#include <stdio.h>

struct swarm_report {
    char violation[512]; /* empty: every promise was kept */
    uint64_t digest;
    uint64_t taken_count; /* items received by anybody */
    uint64_t refused_count;
    uint64_t end_count;   /* parties lost or ended while others were there */
    uint64_t crash_count; /* of the broker */
};

/* trace: where everything that happens is told; NULL: nowhere. */
void swarm_run(uint64_t seed, FILE *trace, struct swarm_report *out_report);

#endif
