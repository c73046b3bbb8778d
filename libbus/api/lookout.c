/* SPDX-License-Identifier: MPL-2.0 */
/* lookout.c -- a thread of the application that waits for data looks out for it itself.
 *
 * Otherwise a frame would wake the library's thread, and that the one it is for.  One at a time
 * looks out, the first who waits; others wait to be told, by it or by the library's thread, which
 * leaves the data channel's descriptor alone meanwhile: it is lent.  Who looks out gives it back
 * before it returns, and takes in what came or leaves it to the library's thread.
 *
 * A receiver that is busy with what came before, and finds more each time it asks, need not be told
 * of it, and whoever did would take the processor from it or from its writers: 12 us a batch for
 * the library's thread alone.  So what comes is left where it is for API_LEAVE_MS at a time: a
 * receiver looks for itself before it waits, and the library's thread does when that time is over.
 * Not if somebody else waits for data, in a call or by a descriptor. */
#include "libbus/api/api_internal.h"

#include <poll.h>

#include "libbus/base/must.h"

#define NS_PER_MS INT64_C(1000000)
#define NS_PER_S INT64_C(1000000000)

static bool can_look_out(struct bus *bus)
{
    if (bus->lookout != NULL || bus->session == NULL || bus->data_fd < 0 ||
        api_thread.put_aside != NULL)
        return false;
    if (bus->lookout_fd < 0)
        bus->lookout_fd = api_event_fd();
    return bus->lookout_fd >= 0;
}

/* Lock.  The library's thread sees to it when it goes to sleep, if it is up. */
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
    /* Interrupted, or out of memory: as if something had come. */
    (void)ppoll(items, 2, deadline_ns == INT64_MAX ? NULL : &left, NULL);
}

static bool idle(struct bus *bus, pthread_cond_t *cond, unsigned *waiters, int64_t deadline_ns)
{
    bus->idlers += 1;
    bool is_awake = api_wait(bus, cond, waiters, deadline_ns);
    bus->idlers -= 1;
    return is_awake;
}

void lookout_found(struct bus *bus)
{
    bus->taken_ns = api_now_ns();
}

bool lookout_may_leave(const struct bus *bus)
{
    return bus->idlers == 0 && !bus->has_sub_fd && bus->taken_ns != 0 &&
           api_now_ns() - bus->taken_ns < API_LEAVE_MS * NS_PER_MS;
}

bool lookout_wait(struct bus *bus, pthread_cond_t *cond, unsigned *waiters, int64_t deadline_ns)
{
    if (!can_look_out(bus))
        return idle(bus, cond, waiters, deadline_ns);
    if (deadline_ns != INT64_MAX && api_now_ns() >= deadline_ns)
        return false;
    struct pollfd items[2] = {{.fd = bus->data_fd, .events = POLLIN},
                              {.fd = bus->lookout_fd, .events = POLLIN}};
    api_wait_begin(bus);
    bus->lookout = cond;
    lend(bus, true);
    *waiters += 1;
    pthread_mutex_unlock(&bus->lock);
    poll_until(items, deadline_ns);
    pthread_mutex_lock(&bus->lock);
    *waiters -= 1;
    bus->lookout = NULL;
    bool is_called = bus->is_lookout_called;
    bus->is_lookout_called = false;
    if (is_called)
        api_clear_fd(bus->lookout_fd);
    if (bus->session == NULL)
        return true; /* closed meanwhile: the link may be gone */
    bool is_ours = bus->is_asleep;
    if (is_ours && items[0].revents != 0)
        thread_take_data(bus);
    lend(bus, bus->is_left && bus->idlers == 0);
    if (is_ours || is_called || items[0].revents == 0)
        return true;
    return idle(bus, cond, waiters, deadline_ns); /* it is being taken in just now */
}

static void call(struct bus *bus)
{
    if (bus->lookout == NULL || bus->is_lookout_called)
        return;
    bus->is_lookout_called = true;
    api_signal_fd(bus->lookout_fd);
}

void lookout_broadcast(struct bus *bus, pthread_cond_t *cond)
{
    pthread_cond_broadcast(cond);
    if (bus->lookout == cond)
        call(bus);
}

void lookout_reconnected(struct bus *bus)
{
    bus->data_fd = link_data_fd(bus->link);
    call(bus);
}
