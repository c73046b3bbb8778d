/* SPDX-License-Identifier: MPL-2.0 */
/* lock.h -- the lock of a bus, waits with it, and the count that keeps the bus. */
#ifndef API_LOCK_H
#define API_LOCK_H

#include "libbus/api/clock.h"
#include "libbus/api/model.h"
#include "libbus/api/owned.h"

void api_ref(struct bus *bus);
void api_unref(struct bus *bus);

static inline void api_lock(struct bus *bus)
{
    pthread_mutex_lock(&bus->lock);
    api_thread.locks_held++;
}

void api_after_unlock(struct bus *bus, bool has_waited);
static inline void api_unlock(struct bus *bus)
{
    bool has_waited = api_thread.has_waited;
    api_thread.has_waited = false;
    pthread_mutex_unlock(&bus->lock);
    api_thread.locks_held--;
    if (has_waited || api_thread.put_aside != NULL)
        api_after_unlock(bus, has_waited);
}
/* Something was put into the session: wakes the library's thread if it sleeps, once in each sleep.
 * Lock held, so that the link stays. */
void api_wake(struct bus *bus);
void api_unlock_wake(struct bus *bus);
/* Waits for cond, whose waiters are counted in waiters, until deadline_ns (INT64_MAX: for ever).
 * false: it has passed.  Buffers put aside are released first, without the lock. */
bool api_wait(struct bus *bus, pthread_cond_t *cond, unsigned *waiters, int64_t deadline_ns);
/* Begins such a wait: takes a reference of the bus until the lock is released. */
void api_wait_begin(struct bus *bus);
bool api_cond_init(pthread_cond_t *cond);
void api_see_time(struct bus *bus, int64_t now_ns);
/* About now, for the stamp of a value: reading a clock costs as much as all else of a small value.
 * So one reading serves API_STAMP_USES values, in one turn or one sleep of the library's thread.
 * Lock held. */
static inline int64_t api_stamp_ns(struct bus *bus)
{
    if (bus->stamp_uses == 0)
        api_see_time(bus, api_now_ns());
    bus->stamp_uses--;
    return bus->stamp_ns;
}

#endif
