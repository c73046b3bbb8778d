/* SPDX-License-Identifier: MPL-2.0 */
/* blocked.h -- a call says to the session that it is blocked, and when that is over. */
#ifndef API_BLOCKED_H
#define API_BLOCKED_H

#include "libbus/api/model.h"

/* All with the lock.  Once in a call, however often it waits; is_on is the call's. */
static inline void blocked_begin(struct bus *bus, bool *is_on, enum session_wait kind,
                                 const struct session_wait_place *place)
{
    if (*is_on || bus->session == NULL)
        return;
    *is_on = true;
    session_wait_begin(bus->session, kind, place);
}

/* The session may be gone: closed during the wait. */
static inline void blocked_end(struct bus *bus, bool *is_on, enum session_wait kind)
{
    if (*is_on && bus->session != NULL)
        session_wait_end(bus->session, kind);
    *is_on = false;
}

#endif
