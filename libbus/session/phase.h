/* SPDX-License-Identifier: MPL-2.0 */
/* phase.h -- the phases of a session's connection, and the steps between them. */
#ifndef SESSION_PHASE_H
#define SESSION_PHASE_H

#include <stdbool.h>

enum phase {
    PHASE_WAIT,   /* no connection; the back-off runs */
    PHASE_GREET,  /* HELLO is to be sent, or was sent */
    PHASE_ATTACH, /* WELCOME came; ATTACH, POSITION, AWAIT, READY */
    PHASE_UP,
    PHASE_OVER,
    PHASE_COUNT,
};

enum phase_step {
    PHASE_DIALS, /* a fresh connection is made */
    PHASE_WELCOMED,
    PHASE_ATTACHED,
    PHASE_CLOSES, /* the connection is given up */
    PHASE_ENDS,   /* the session sends nothing more */
    PHASE_STEP_COUNT,
};

/* Makes the step.  false: the step is not possible in this phase, and nothing changed. */
bool phase_move(enum phase *phase, enum phase_step step);

#endif
