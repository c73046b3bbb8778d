/* SPDX-License-Identifier: MPL-2.0 */
/* phase.c -- the table; see phase.h. */
#include "libbus/session/phase.h"

enum { NEVER = PHASE_COUNT };

bool phase_move(enum phase *phase, enum phase_step step)
{
    static const unsigned char next[PHASE_COUNT][PHASE_STEP_COUNT] = {
        /*                DIALS        WELCOMED      ATTACHED  CLOSES      ENDS */
        [PHASE_WAIT] = {PHASE_GREET, NEVER, NEVER, PHASE_WAIT, PHASE_OVER},
        [PHASE_GREET] = {PHASE_GREET, PHASE_ATTACH, NEVER, PHASE_WAIT, PHASE_OVER},
        [PHASE_ATTACH] = {PHASE_GREET, NEVER, PHASE_UP, PHASE_WAIT, PHASE_OVER},
        [PHASE_UP] = {PHASE_GREET, NEVER, NEVER, PHASE_WAIT, PHASE_OVER},
        [PHASE_OVER] = {NEVER, NEVER, NEVER, PHASE_OVER, PHASE_OVER},
    };
    if (next[*phase][step] == NEVER)
        return false;
    *phase = (enum phase)next[*phase][step];
    return true;
}
