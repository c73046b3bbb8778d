/* SPDX-License-Identifier: MPL-2.0 */
/* handler.c -- runs the failure handler: once, on a thread of its own, with no lock held.
 *
 * The thread starts when the bus is opened, so that a failure finds it.  It waits for the first
 * failure, which news.c notes once, and until *out_bus is written.  bus_close() waits for it after
 * the last moment at which a failure can come. */
#include "libbus/api/handler.h"

#include "libbus/api/alone.h"
#include "libbus/api/clock.h"
#include "libbus/api/lock.h"
#include "libbus/api/model.h"

#include <signal.h>
#include <unistd.h>

/* Lock held. */
static bool is_due(const struct bus *bus)
{
    return bus->failure != NULL && bus->is_handed_over;
}

static void tell_application(struct bus *bus, const struct bus_error *verdict)
{
    /* By its number: a thread that has ended is then not found, rather than a stale handle. */
    if (bus->options.failure_signal != 0)
        (void)tgkill(getpid(), bus->opener, bus->options.failure_signal);
    if (bus->options.on_failure != NULL)
        bus->options.on_failure(verdict, bus->options.on_failure_arg);
}

void *handler_main(void *arg)
{
    struct bus *bus = arg;
    alone_thread_begins();
    api_lock(bus);
    while (!is_due(bus) && !bus->is_closed)
        pthread_cond_wait(&bus->handler_news, &bus->lock);
    alone_thread_ends(); /* from here on it may run the application's handler */
    if (is_due(bus)) {
        struct bus_error *verdict = bus_error_ref(bus->failure);
        bus->is_handler_running = true;
        api_unlock(bus);
        tell_application(bus, verdict);
        bus_error_unref(&verdict);
        api_lock(bus);
        bus->is_handler_running = false;
    }
    bus->is_handler_done = true;
    pthread_cond_broadcast(&bus->handler_news);
    api_unlock(bus);
    api_unref(bus);
    return NULL;
}

bool handler_finish(struct bus *bus, int64_t deadline_ns)
{
    if (pthread_equal(pthread_self(), bus->handler)) {
        pthread_detach(bus->handler);
        return true;
    }
    unsigned waiters = 0;
    bool is_done = true;
    int64_t least_ns = api_deadline_ns(API_HANDLER_WAIT_MS);
    if (deadline_ns < least_ns)
        deadline_ns = least_ns;
    api_lock(bus);
    while (!bus->is_handler_done && is_done)
        is_done = api_wait(bus, &bus->handler_news, &waiters, deadline_ns);
    api_unlock(bus);
    if (is_done)
        pthread_join(bus->handler, NULL);
    else
        pthread_detach(bus->handler);
    return is_done;
}
