/* SPDX-License-Identifier: MPL-2.0 */
/* lock.c -- the lock of a bus, waits with it, and the count that keeps the bus. */
#include "libbus/api/lock.h"

#include "libbus/api/attach_jobs.h"
#include "libbus/api/clock.h"
#include "libbus/api/model.h"
#include "libbus/api/owned.h"
#include "libbus/base/must.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define NS_PER_S INT64_C(1000000000)

/* ---- counting -------------------------------------------------------------------------------- */

void api_ref(struct bus *bus)
{
    atomic_fetch_add_explicit(&bus->refs, 1, memory_order_relaxed);
}

static void close_fd(int fd)
{
    if (fd >= 0)
        close(fd);
}

void api_unref(struct bus *bus)
{
    if (atomic_fetch_sub_explicit(&bus->refs, 1, memory_order_acq_rel) != 1)
        return;
    close_fd(bus->failure_fd);
    close_fd(bus->room_fd);
    close_fd(bus->tap_fd);
    close_fd(bus->notice_fd);
    close_fd(bus->answers_fd);
    for (int lane = 0; lane < LINK_LANE_COUNT; lane++)
        close_fd(bus->pollers[lane].call_fd);
    bus_error_unref(&bus->failure);
    bus_error_unref(&bus->unfit);
    id_map_fini(&bus->subs_by_number);
    pthread_cond_destroy(&bus->handler_news);
    pthread_cond_destroy(&bus->news);
    pthread_mutex_destroy(&bus->lock);
    attach_fini(bus);
    free(bus->sub_slots);
    free(bus->forgotten);
    free(bus->encoder);
    free(bus->awaits);
    free(bus->topics);
    free(bus->turn);
    key_pair_forget(&bus->endpoints.own);
    free(bus);
}

/* ---- lock and waits -------------------------------------------------------------------------- */

void api_see_time(struct bus *bus, int64_t now_ns)
{
    bus->stamp_ns = now_ns;
    bus->stamp_uses = API_STAMP_USES;
}

void api_after_unlock(struct bus *bus, bool has_waited)
{
    if (api_thread.put_aside != NULL && api_thread.locks_held == 0)
        owned_release_put_aside();
    if (has_waited)
        api_unref(bus);
}

void api_wake(struct bus *bus)
{
    if (!bus->is_asleep)
        return;
    bus->is_asleep = false;
    link_wake(bus->link);
}

void api_unlock_wake(struct bus *bus)
{
    api_wake(bus);
    api_unlock(bus);
}

/* A handler may close the bus during the wait.  The reference keeps it until this call returns. */
void api_wait_begin(struct bus *bus)
{
    if (api_thread.has_waited)
        return;
    api_thread.has_waited = true;
    api_ref(bus);
}

bool api_wait(struct bus *bus, pthread_cond_t *cond, unsigned *waiters, int64_t deadline_ns)
{
    if (deadline_ns != INT64_MAX && api_now_ns() >= deadline_ns)
        return false;
    if (api_thread.put_aside != NULL) { /* the event may depend on their release */
        api_ref(bus);
        api_unlock(bus);
        api_lock(bus);
        api_thread.has_waited = true;
        return true;
    }
    api_wait_begin(bus);
    int result = 0;
    *waiters += 1;
    if (deadline_ns == INT64_MAX) {
        result = pthread_cond_wait(cond, &bus->lock);
    } else {
        const struct timespec until = {.tv_sec = (time_t)(deadline_ns / NS_PER_S),
                                       .tv_nsec = (long)(deadline_ns % NS_PER_S)};
        result = pthread_cond_timedwait(cond, &bus->lock, &until);
    }
    *waiters -= 1;
    must(result == 0 || result == ETIMEDOUT);
    return true; /* the caller looks again, and the next call sees the deadline */
}

bool api_cond_init(pthread_cond_t *cond)
{
    pthread_condattr_t attributes;
    if (pthread_condattr_init(&attributes) != 0)
        return false;
    bool is_made = pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC) == 0 &&
                   pthread_cond_init(cond, &attributes) == 0;
    pthread_condattr_destroy(&attributes);
    return is_made;
}
