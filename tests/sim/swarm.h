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

#include "tests/sim/script.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct swarm_report {
    char violation[512]; /* empty: every promise was kept */
    uint64_t digest;
    uint64_t taken_count; /* items received by anybody */
    uint64_t refused_count;
    uint64_t brought_count; /* attachments, which have secrets in them */
    uint64_t end_count;     /* parties lost or ended while others were there */
    uint64_t crash_count;   /* of the broker */
    uint64_t request_count;
    uint64_t run_count;  /* runs of jobs that were begun, beyond the first */
    uint64_t held_count; /* parties that were refused the run that they chose */
};

/* What a run can be made without, to see whether it fails all the same. */
enum swarm_ease {
    SWARM_EASE_SHORT = 1,  /* the active phase is over with the script */
    SWARM_EASE_STEADY = 2, /* no part takes much longer than others */
    SWARM_EASE_PROMPT = 4, /* timers are on time */
    SWARM_EASE_DISK = 8,   /* the journal is written at once */
    SWARM_EASE_DELAY = 16, /* parts take equally long */
};
enum { SWARM_EASES = 5 };

/* What counts as broken though it is not: to test the tests. */
enum swarm_plant {
    SWARM_PLANT_NONE,
    SWARM_PLANT_RETRACTION, /* somebody takes something back */
    SWARM_PLANT_REPLY,      /* a worker answers a request */
};

/* All NULL and zero: just the seed. */
struct swarm_options {
    FILE *trace;                   /* everything that happens, to the part */
    FILE *lines;                   /* what parties say and see, and what is done to them */
    struct script *recorded;       /* gets its moments */
    const struct script *replayed; /* ... or it has them from there; made of the same seed */
    unsigned eases;                /* swarm_ease; only with a script */
    bool has_no_rate;   /* links take any amount at once: as seeds were that have a name */
    bool is_plain;      /* without what came to the climate later: as seeds were that have a name */
    bool seals_nothing; /* likewise */
    enum swarm_plant plant;
};

void swarm_run(uint64_t seed, const struct swarm_options *options, struct swarm_report *out_report);

#endif
