/* SPDX-License-Identifier: MPL-2.0 */
/* shrink.h -- a failing run made short: moments are left out, in halves, quarters and so on down to
 * single ones, as long as the run goes on failing in the same way (delta debugging: Zeller and
 * Hildebrandt 2002); and what made the world harder than it need be is eased. */
#ifndef SIM_SHRINK_H
#define SIM_SHRINK_H

#include "tests/sim/script.h"

#include <stdbool.h>
#include <stdint.h>

enum { SHRINK_RUNS_MAX = 1500 };

struct shrink {
    struct script *script; /* fails, and goes on doing so */
    unsigned eases;        /* bits that were found to change nothing */
    uint32_t runs;         /* so many were tried */
    /* Whether a run of that script, eased so, fails in the way that is looked for. */
    bool (*fails)(void *arg, const struct script *script, unsigned eases);
    void *arg;
};

/* ease_count: bits 0 to ease_count - 1 may be set. */
void shrink_run(struct shrink *shrink, unsigned ease_count);

#endif
