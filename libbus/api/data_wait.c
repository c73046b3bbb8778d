/* SPDX-License-Identifier: MPL-2.0 */
/* data_wait.c -- a thread of the application that waits for data polls for it by itself.
 *
 * Otherwise each frame would wake the library's thread, and then the thread that waits for it.  One
 * thread at a time polls: the first that waits.  It borrows the descriptor of the data channel from
 * the library's thread, and gives it back before it returns.  Other threads wait until that thread,
 * or the library's, tells them.
 *
 * A receiver that is busy finds more data each time it asks, and needs no wake-up.  A wake-up would
 * only take the processor from it or from its writers.  So data stays in the link for API_LEAVE_MS
 * at a time: the receiver looks there before it waits, and the library's thread after that time.
 * This holds as long as no other thread waits for data, in a call or by a descriptor. */
#include "libbus/api/data_wait.h"

#include "libbus/api/clock.h"
#include "libbus/api/event_fd.h"
#include "libbus/api/link_turn.h"
#include "libbus/api/lock.h"
#include "libbus/api/model.h"
#include "libbus/api/owned.h"

#include <poll.h>

#define NS_PER_S INT64_C(1000000000)

static bool can_poll(struct bus *bus)
{
    if (bus->poller != NULL || bus->session == NULL || bus->data_fd < 0 ||
        api_thread.put_aside != NULL)
        return false;
    if (bus->poller_fd < 0)
        bus->poller_fd = api_event_fd();
    return bus->poller_fd >= 0;
}

/* Lock held.  If the library's thread is awake, it lends the data lane when it goes to sleep. */
static void lend(struct bus *bus, bool is_lent)
{
    if (bus->is_asleep)
        link_lend_data(bus->link, is_lent);
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

static bool idle(struct bus *bus, pthread_cond_t *cond, unsigned *waiters, int64_t deadline_ns)
{
    bus->idlers += 1;
    bool is_awake = api_wait(bus, cond, waiters, deadline_ns);
    bus->idlers -= 1;
    return is_awake;
}

bool data_wait(struct bus *bus, pthread_cond_t *cond, unsigned *waiters, int64_t deadline_ns)
{
    if (!can_poll(bus))
        return idle(bus, cond, waiters, deadline_ns);
    if (deadline_ns != INT64_MAX && api_now_ns() >= deadline_ns)
        return false;
    struct pollfd items[2] = {{.fd = bus->data_fd, .events = POLLIN},
                              {.fd = bus->poller_fd, .events = POLLIN}};
    api_wait_begin(bus);
    bus->poller = cond;
    lend(bus, true);
    *waiters += 1;
    pthread_mutex_unlock(&bus->lock);
    poll_until(items, deadline_ns);
    pthread_mutex_lock(&bus->lock);
    *waiters -= 1;
    bus->poller = NULL;
    bool is_called = bus->is_poller_called;
    bus->is_poller_called = false;
    if (is_called)
        api_clear_fd(bus->poller_fd);
    if (bus->session == NULL)
        return true; /* closed meanwhile: the link may be gone */
    bool is_ours = bus->is_asleep;
    if (is_ours && items[0].revents != 0)
        thread_take_data(bus);
    lend(bus, bus->is_left && bus->idlers == 0);
    if (is_ours || is_called || items[0].revents == 0)
        return true;
    return idle(bus, cond, waiters, deadline_ns); /* the library's thread takes it */
}
