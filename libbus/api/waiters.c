/* SPDX-License-Identifier: MPL-2.0 */
/* waiters.c -- wakes threads of the application, and knows which of them wait for data. */
#include "libbus/api/waiters.h"

#include "libbus/api/clock.h"
#include "libbus/api/event_fd.h"
#include "libbus/api/model.h"

#define NS_PER_MS INT64_C(1000000)

void waiters_found_data(struct bus *bus)
{
    bus->taken_ns = api_now_ns();
}

bool waiters_may_leave_data(const struct bus *bus)
{
    return bus->idlers == 0 && !bus->has_reader_fd && bus->taken_ns != 0 &&
           api_now_ns() - bus->taken_ns < API_LEAVE_MS * NS_PER_MS;
}

static void call(struct bus *bus)
{
    if (bus->poller == NULL || bus->is_poller_called)
        return;
    bus->is_poller_called = true;
    api_signal_fd(bus->poller_fd);
}

void waiters_broadcast(struct bus *bus, pthread_cond_t *cond)
{
    pthread_cond_broadcast(cond);
    if (bus->poller == cond)
        call(bus);
}

void waiters_reconnected(struct bus *bus)
{
    bus->data_fd = link_data_fd(bus->link);
    call(bus);
}
