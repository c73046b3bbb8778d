/* SPDX-License-Identifier: MPL-2.0 */
/* lane_wait.c -- a thread of the application that waits for a channel polls it by itself.
 *
 * Otherwise each message would wake the library's thread, and then the thread that waits for it.
 * One thread at a time polls a lane: the first that waits.  It borrows the descriptor of the lane
 * from the library's thread, and gives it back before it returns.  Other threads wait until that
 * thread, or the library's, tells them.  Receivers wait for data so, and bus_flush() for control.
 *
 * A receiver that is busy finds more data each time it asks, and needs no wake-up.  A wake-up would
 * only take the processor from it or from its writers.  So data stays in the link for API_LEAVE_MS
 * at a time: the receiver looks there before it waits, and the library's thread after that time.
 * This holds as long as no other thread waits for data, in a call or by a descriptor. */
#include "libbus/api/lane_wait.h"

#include "libbus/api/clock.h"
#include "libbus/api/event_fd.h"
#include "libbus/api/link_turn.h"
#include "libbus/api/lock.h"
#include "libbus/api/model.h"
#include "libbus/api/owned.h"

#include <poll.h>

#define NS_PER_S INT64_C(1000000000)

static bool can_poll(const struct bus *bus, struct poller *poller)
{
    if (poller->cond != NULL || bus->session == NULL || poller->fd < 0 ||
        api_thread.put_aside != NULL)
        return false;
    if (poller->call_fd < 0)
        poller->call_fd = api_event_fd();
    return poller->call_fd >= 0;
}

/* Lock held.  If the library's thread is awake, it lends the lane when it goes to sleep. */
static void lend(struct bus *bus, enum link_lane lane, bool is_lent)
{
    if (bus->is_asleep)
        link_lend(bus->link, lane, is_lent);
}

/* Without the lock. */
static void poll_until(struct pollfd items[2], int64_t deadline_ns)
{
    int64_t left_ns = deadline_ns == INT64_MAX ? 0 : deadline_ns - api_now_ns();
    if (left_ns < 0)
        left_ns = 0;
    const struct timespec left = {.tv_sec = (time_t)(left_ns / NS_PER_S),
                                  .tv_nsec = (long)(left_ns % NS_PER_S)};
    /* A signal or a lack of memory ends the wait, as if something had come. */
    (void)ppoll(items, 2, deadline_ns == INT64_MAX ? NULL : &left, NULL);
}

/* Waits beside the thread that polls, or for the library's thread. */
static bool idle(struct bus *bus, enum link_lane lane, pthread_cond_t *cond, unsigned *waiters,
                 int64_t deadline_ns)
{
    bus->idlers += lane == LINK_DATA;
    bool is_awake = api_wait(bus, cond, waiters, deadline_ns);
    bus->idlers -= lane == LINK_DATA;
    return is_awake;
}

/* Lock held; given up meanwhile.  Whether something came on the lane, or may have. */
static bool poll_lane(struct bus *bus, enum link_lane lane, unsigned *waiters, int64_t deadline_ns)
{
    const struct poller *poller = &bus->pollers[lane];
    struct pollfd items[2] = {{.fd = poller->fd, .events = POLLIN},
                              {.fd = poller->call_fd, .events = POLLIN}};
    *waiters += 1;
    pthread_mutex_unlock(&bus->lock);
    poll_until(items, deadline_ns);
    pthread_mutex_lock(&bus->lock);
    *waiters -= 1;
    return items[0].revents != 0;
}

bool lane_wait(struct bus *bus, enum link_lane lane, pthread_cond_t *cond, unsigned *waiters,
               int64_t deadline_ns)
{
    struct poller *poller = &bus->pollers[lane];
    if (!can_poll(bus, poller))
        return idle(bus, lane, cond, waiters, deadline_ns);
    if (deadline_ns != INT64_MAX && api_now_ns() >= deadline_ns)
        return false;
    api_wait_begin(bus);
    poller->cond = cond;
    lend(bus, lane, true);
    bool has_come = poll_lane(bus, lane, waiters, deadline_ns);
    poller->cond = NULL;
    bool is_called = poller->is_called;
    poller->is_called = false;
    if (is_called)
        api_clear_fd(poller->call_fd);
    if (bus->session == NULL)
        return true; /* closed meanwhile: the link may be gone */
    bool is_ours = bus->is_asleep;
    if (is_ours && has_come)
        thread_take(bus, lane);
    lend(bus, lane, lane == LINK_DATA && bus->is_left && bus->idlers == 0);
    if (is_ours || is_called || !has_come)
        return true;
    return idle(bus, lane, cond, waiters, deadline_ns); /* the library's thread takes it */
}
