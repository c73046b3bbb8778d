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

static void call(struct poller *poller)
{
    if (poller->cond == NULL || poller->is_called)
        return;
    poller->is_called = true;
    api_signal_fd(poller->call_fd);
}

void waiters_broadcast(struct bus *bus, pthread_cond_t *cond)
{
    pthread_cond_broadcast(cond);
    for (int lane = 0; lane < LINK_LANE_COUNT; lane++)
        if (bus->pollers[lane].cond == cond)
            call(&bus->pollers[lane]);
}

void waiters_reconnected(struct bus *bus)
{
    for (int lane = 0; lane < LINK_LANE_COUNT; lane++) {
        bus->pollers[lane].fd = link_fd(bus->link, (enum link_lane)lane);
        call(&bus->pollers[lane]);
    }
}
