/* SPDX-License-Identifier: MPL-2.0 */
/* shrink.c -- leaving out what is not needed; see shrink.h. */
#include "tests/sim/shrink.h"

#include "libbus/base/must.h"

#include <stdlib.h>
#include <string.h>

static bool still_fails(struct shrink *shrink, const struct script *script, unsigned eases)
{
    if (shrink->runs == SHRINK_RUNS_MAX)
        return false;
    shrink->runs += 1;
    return shrink->fails(shrink->arg, script, eases);
}

/* Takes the shorter one over if it does as well. */
static bool try_script(struct shrink *shrink, struct script *shorter)
{
    bool is_good =
        shorter->count < shrink->script->count && still_fails(shrink, shorter, shrink->eases);
    if (is_good) {
        script_fini(shrink->script);
        *shrink->script = *shorter;
    } else {
        script_fini(shorter);
    }
    return is_good;
}

/* All that one kind of moment, or one party, does: what = UINT32_MAX means any, and so does who. */
static void leave_out_all(struct shrink *shrink, uint32_t what, uint32_t who)
{
    const struct script *script = shrink->script;
    struct script shorter = {0};
    for (uint32_t i = 0; i < script->count; i++) {
        const struct script_moment *moment = &script->moments[i];
        bool is_meant = (what == UINT32_MAX || moment->what == what) &&
                        (who == UINT32_MAX || moment->who == who);
        if (!is_meant)
            script_add(&shorter, *moment);
    }
    memcpy(shorter.phases, script->phases, sizeof shorter.phases);
    (void)try_script(shrink, &shorter); /* one way or the other it is taken over */
}

static bool leave_out_chunks(struct shrink *shrink, uint32_t chunk)
{
    bool is_shorter = false;
    /* From the end: what comes late is needed least. */
    uint32_t end = shrink->script->count;
    while (end > 0) {
        uint32_t first = end > chunk ? end - chunk : 0;
        struct script shorter;
        script_without(shrink->script, first, end, &shorter);
        is_shorter |= try_script(shrink, &shorter);
        end = first;
    }
    return is_shorter;
}

static void ease(struct shrink *shrink, unsigned ease_count)
{
    for (unsigned bit = 0; bit < ease_count; bit++) {
        unsigned eases = shrink->eases | 1u << bit;
        if (eases != shrink->eases && still_fails(shrink, shrink->script, eases))
            shrink->eases = eases;
    }
}

void shrink_run(struct shrink *shrink, unsigned ease_count)
{
    enum { KINDS = 16, PARTIES = 16 };
    for (uint32_t who = 0; who < PARTIES; who++)
        leave_out_all(shrink, UINT32_MAX, who);
    for (uint32_t what = 0; what < KINDS; what++)
        leave_out_all(shrink, what, UINT32_MAX);
    for (uint32_t chunk = shrink->script->count / 2; chunk > 1; chunk /= 2)
        (void)leave_out_chunks(shrink, chunk); /* what is left is tried in smaller pieces */
    ease(shrink, ease_count);
    while (leave_out_chunks(shrink, 1)) { /* each may make another one needless */
    }
    ease(shrink, ease_count);
}
