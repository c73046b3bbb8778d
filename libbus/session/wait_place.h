/* SPDX-License-Identifier: MPL-2.0 */
/* wait_place.h -- what a call of the application is blocked in; a part of session.h. */
#ifndef SESSION_WAIT_PLACE_H
#define SESSION_WAIT_PLACE_H

#include "libbus/base/span.h"

#include <stdint.h>

struct session;

enum session_wait { SESSION_WAIT_SLOTS, SESSION_WAIT_ROOM, SESSION_WAIT_READS, SESSION_WAIT_COUNT };

struct session_wait_place {
    struct span topic; /* of an awaited slot */
    uint64_t seq;
    uint32_t sub; /* a subscription */
};

/* A call is blocked from now on, until session_wait_end().  place: in what; NULL: in several
 * things.  Cheap: no clock, and no message now. */
void session_wait_begin(struct session *session, enum session_wait kind,
                        const struct session_wait_place *place);
void session_wait_end(struct session *session, enum session_wait kind);

#endif
