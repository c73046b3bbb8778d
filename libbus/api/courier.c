/* SPDX-License-Identifier: MPL-2.0 */
/* courier.c -- a party's courier: opened, given attachments of errors to bring, and closed.
 *
 * A courier is a second bus: an observer with connections, a session and a thread of its own.  The
 * party tells the error first.  Then the party's thread hands the attachments to the courier, whose
 * thread reads and sends them.  So neither a slow disk nor these bytes delay a beat, an error or a
 * value.
 *
 * No thread holds two locks at once: the queues of attachments change hands between them.
 *
 * thread.c says why thread, courier and membership are a circle. */
#include "libbus/api/courier.h"

#include "libbus/api/attach_bring.h"
#include "libbus/api/attach_jobs.h"
#include "libbus/api/clock.h"
#include "libbus/api/lock.h"
#include "libbus/api/membership.h"
#include "libbus/api/model.h"
#include "libbus/api/waiters.h"

#define NS_PER_MS INT64_C(1000000)

/* ---- handing over ---------------------------------------------------------------------------- */

/* Closes a courier that has ended, and returns what it did not bring.  No lock held. */
static struct attach_job *dismiss_courier(struct bus **courier)
{
    api_lock(*courier);
    struct attach_job *jobs = (*courier)->attach_jobs;
    (*courier)->attach_jobs = NULL;
    api_unlock(*courier);
    (void)membership_close(courier, MEMBERSHIP_AT_ONCE); /* it owes nothing */
    return jobs;
}

static struct bus *courier_open(const struct bus *bus)
{
    struct bus_options options;
    struct bus *courier = NULL;
    bus_options_init(&options);
    options.heartbeat_ms = bus->options.heartbeat_ms;
    options.lost_after_ms = bus->options.lost_after_ms;
    options.broker_lost_ms = bus->options.broker_lost_ms;
    (void)membership_open_courier(&bus->endpoints, &options, bus->job, &courier,
                                  NULL); /* retried */
    if (courier == NULL)
        return NULL;
    api_lock(courier);
    courier->courier_of = bus;
    api_unlock(courier);
    return courier;
}

/* Lock held, but not while another bus is opened, closed or locked. */
static bool hand_over(struct bus *bus, int64_t now_ns)
{
    struct bus *courier = bus->courier;
    struct attach_job *jobs = bus->attach_jobs;
    bool is_over = courier != NULL && atomic_load_explicit(&courier->is_over, memory_order_acquire);
    if ((jobs == NULL && !is_over) || now_ns < bus->courier_ns)
        return false;
    bus->attach_jobs = NULL;
    bus->courier = NULL; /* nobody else uses it meanwhile */
    bus->is_handing_over = true;
    bus->courier_ns = now_ns + bus->options.heartbeat_ms * NS_PER_MS;
    api_unlock(bus);
    if (is_over) {
        struct attach_job *left = dismiss_courier(&courier);
        attach_jobs_append(&left, jobs);
        jobs = left;
    }
    if (courier == NULL && jobs != NULL)
        courier = courier_open(bus);
    if (courier != NULL) {
        api_lock(courier);
        attach_jobs_append(&courier->attach_jobs, jobs);
        jobs = NULL;
        api_unlock_wake(courier);
    }
    api_lock(bus);
    attach_jobs_append(&jobs, bus->attach_jobs); /* first those that no courier took */
    bus->attach_jobs = jobs;
    bus->courier = courier;
    bus->is_handing_over = false;
    if (courier != NULL)
        bus->courier_ns = 0;
    waiters_broadcast(bus, &bus->news);
    return true;
}

bool attach_turn(struct bus *bus, int64_t now_ns)
{
    if (bus->is_done)
        return false;
    return bus->is_courier ? attach_bring(bus, now_ns) : hand_over(bus, now_ns);
}

/* ---- waiting --------------------------------------------------------------------------------- */

/* Waits until the courier has brought everything, or is closed. */
static enum bus_err wait_for(struct bus *courier, int64_t deadline_ns)
{
    enum bus_err err = BUS_OK;
    api_lock(courier);
    while (err == BUS_OK && courier->session != NULL && courier->attach_jobs != NULL) {
        err = courier->end;
        if (err == BUS_OK && !api_wait(courier, &courier->news, &courier->waiters, deadline_ns))
            err = BUS_ETIMEDOUT;
    }
    api_unlock(courier);
    return err;
}

enum bus_err attach_flush(struct bus *bus, int64_t deadline_ns)
{
    enum bus_err err = BUS_OK;
    api_lock(bus);
    int64_t patient_ns = api_deadline_ns(membership_broker_lost_ms(bus)); /* without a courier */
    if (bus->attach_jobs == NULL && bus->courier == NULL && !bus->is_handing_over) {
        api_unlock(bus);
        return BUS_OK;
    }
    if (deadline_ns > patient_ns)
        deadline_ns = patient_ns;
    api_wake(bus);
    while (err == BUS_OK && bus->session != NULL && !bus->is_done &&
           (bus->attach_jobs != NULL || bus->is_handing_over))
        if (!api_wait(bus, &bus->news, &bus->waiters, deadline_ns))
            err = BUS_ETIMEDOUT;
    struct bus *courier = err == BUS_OK ? bus->courier : NULL;
    if (courier != NULL)
        api_ref(courier);
    api_unlock(bus);
    if (courier == NULL)
        return err;
    err = wait_for(courier, deadline_ns);
    api_unref(courier);
    return err;
}

void attach_close(struct bus *bus)
{
    if (bus->courier != NULL)
        (void)membership_close(&bus->courier,
                               MEMBERSHIP_AT_ONCE); /* what it did not bring is cut */
}
