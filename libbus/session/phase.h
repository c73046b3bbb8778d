/* SPDX-License-Identifier: MPL-2.0 */
/* phase.h -- where a session stands with its broker, and what may change that. */
#ifndef SESSION_PHASE_H
#define SESSION_PHASE_H

#include <stdbool.h>

enum phase {
    PHASE_WAIT,   /* no connection; the next is made at its time */
    PHASE_GREET,  /* HELLO is to be said or was said */
    PHASE_ATTACH, /* WELCOME came; ATTACH, POSITION, AWAIT, READY */
    PHASE_UP,
    PHASE_OVER,
    PHASE_COUNT,
};

enum phase_step {
    PHASE_DIALS, /* a fresh connection is made */
    PHASE_WELCOMED,
    PHASE_ATTACHED,
    PHASE_CLOSES, /* the connection is of no use any more */
    PHASE_ENDS,   /* nothing more will be said */
    PHASE_STEP_COUNT,
};

/* Makes the step; false: it may not be made here, and nothing changed. */
bool phase_move(enum phase *phase, enum phase_step step);

#endif
