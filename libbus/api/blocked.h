/* SPDX-License-Identifier: MPL-2.0 */
/* blocked.h -- a call says to the session that it is blocked, and when that is over. */
#ifndef API_BLOCKED_H
#define API_BLOCKED_H

#include "libbus/api/model.h"

/* One call, from its first wait on. */
struct blocked_call {
    enum session_wait kind;
    struct session_patience patience;
    bool is_on;
    bool is_placed;
    struct session_wait_place place; /* its texts are the caller's */
};

/* Of a call with this timeout, which does not wait yet. */
static inline struct blocked_call blocked_call(enum session_wait kind, int64_t timeout_ms)
{
    bool is_slice = timeout_ms == BUS_SLICE || timeout_ms == BUS_SLICE_LIMITED;
    bool is_timed = timeout_ms != BUS_SLICE && timeout_ms != BUS_FOREVER;
    return (struct blocked_call){.kind = kind,
                                 .patience = {.is_timed = is_timed, .is_slice = is_slice}};
}

/* All with the lock.  Once in a call, however often it waits. */
static inline void blocked_begin(struct bus *bus, struct blocked_call *call,
                                 const struct session_wait_place *place)
{
    if (call->is_on || bus->session == NULL)
        return;
    call->is_on = true;
    call->is_placed = place != NULL;
    if (place != NULL)
        call->place = *place;
    session_wait_begin(bus->session, call->kind, place, call->patience);
}

/* The session may be gone: closed during the wait. */
static inline void blocked_end(struct bus *bus, struct blocked_call *call)
{
    if (call->is_on && bus->session != NULL)
        session_wait_end(bus->session, call->kind, call->patience);
    call->is_on = false;
}

/* The same, and the call returns this: if its timeout passed, another call may go on to wait. */
static inline void blocked_end_by(struct bus *bus, struct blocked_call *call, enum bus_err err)
{
    if (call->is_on && bus->session != NULL && err == BUS_ETIMEDOUT) {
        session_wait_pause(bus->session, call->kind, call->is_placed ? &call->place : NULL,
                           call->patience);
        call->is_on = false;
    }
    blocked_end(bus, call);
}

#endif
