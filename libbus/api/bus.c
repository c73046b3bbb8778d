/* SPDX-License-Identifier: MPL-2.0 */
/* bus.c -- opening, stopping and closing a membership. */
#include "libbus/api/clock.h"
#include "libbus/api/courier.h"
#include "libbus/api/endpoint.h"
#include "libbus/api/error.h"
#include "libbus/api/fork.h"
#include "libbus/api/lock.h"
#include "libbus/api/membership.h"
#include "libbus/api/model.h"
#include "libbus/api/news.h"
#include "libbus/api/open_list.h"
#include "libbus/api/options.h"
#include "libbus/api/party.h"

#include <stdlib.h>
#include <string.h>

/* ---- when the process ends ------------------------------------------------------------------- */

/* Waits until the broker has answered everything.  The library's own thread cannot wait: it would
 * wait for itself.  Lock held. */
static void flush_said(struct bus *bus, int64_t deadline_ns)
{
    if (bus->session == NULL || pthread_equal(pthread_self(), bus->thread))
        return;
    struct session_mark mark = session_mark(bus->session);
    if (!session_is_answered(bus->session))
        (void)party_wait_answered(bus, mark, deadline_ns);
    api_unlock(bus);
    (void)attach_flush(bus, deadline_ns);
    api_lock(bus);
}

static void flush_at_exit(void)
{
    open_list_visit(api_deadline_ns(API_EXIT_MS), flush_said);
}

static void watch_exit(void)
{
    (void)atexit(flush_at_exit); /* without memory for it the process ends as by _exit() */
}

/* ---- opening and closing --------------------------------------------------------------------- */

/* A run of the job may end while a party joins it.  The party has done nothing in that run yet, so
 * it joins the next one. */
static enum bus_err join(const struct endpoints *endpoints, const struct bus_options *options,
                         const char *job, const char *party, int64_t deadline_ns,
                         struct bus **out_bus, struct bus_error **reterr)
{
    struct bus_error *why = NULL;
    enum bus_err err;
    bool is_over;
    do {
        bus_error_unref(&why);
        err = membership_open(endpoints, options, job, party, out_bus, &why);
        if (err == BUS_OK)
            err = membership_join(out_bus, true, deadline_ns, &why);
        is_over = err == BUS_EFENCED && strcmp(bus_error_type(why), ERROR_TYPE_ATTEMPT_OVER) == 0;
    } while (is_over && api_now_ns() < deadline_ns);
    return err != BUS_OK ? error_give(reterr, err, why) : BUS_OK;
}

enum bus_err bus_open(const char *endpoint, const struct bus_options *options, int64_t timeout_ms,
                      struct bus **out_bus, struct bus_error **reterr)
{
    static pthread_once_t exit_once = PTHREAD_ONCE_INIT;
    struct endpoints endpoints;
    struct bus_options known;
    char job[LIMIT_NAME_BYTES + 1];
    char party[LIMIT_NAME_BYTES + 1];
    struct bus *bus = NULL;
    int64_t deadline_ns = 0;
    if (out_bus == NULL || !options_time_is_valid(timeout_ms))
        return error_say(reterr, BUS_EINVAL, ERROR_TYPE_ARGUMENT,
                         "bus_open() needs out_bus and a timeout_ms of at least 0, or BUS_FOREVER");
    deadline_ns = api_deadline_ns(timeout_ms);
    enum bus_err err = options_of_bus(options, &known, job, party, reterr);
    if (err == BUS_OK)
        err = endpoints_read(&endpoints, endpoint, reterr);
    if (err == BUS_OK)
        err = endpoints_use_key(&endpoints, known.key, reterr);
    if (err == BUS_OK)
        err = join(&endpoints, &known, job, party, deadline_ns, &bus, reterr);
    key_pair_forget(&endpoints.own);
    if (err != BUS_OK)
        return err;
    (void)pthread_once(&exit_once, watch_exit);
    bus->options.on_doubt = NULL; /* later calls tell nobody: its argument may be gone */
    open_list_add(bus);
    *out_bus = bus;
    api_lock(bus); /* from here on the handler may run */
    bus->is_handed_over = true;
    pthread_cond_broadcast(&bus->handler_news);
    api_unlock(bus);
    return BUS_OK;
}

const char *bus_token(const struct bus *bus)
{
    return bus != NULL ? bus->token : "";
}

void bus_stop(struct bus *bus)
{
    if (bus == NULL || api_is_foreign(bus))
        return;
    atomic_store_explicit(&bus->is_stopped, true, memory_order_release);
    link_wake(bus->link);
}

static enum bus_err say_not_closed(struct bus *bus, enum bus_err err)
{
    if (err == BUS_ETIMEDOUT)
        return error_say(NULL, err, ERROR_TYPE_TIMED_OUT,
                         "the broker did not acknowledge everything in time, or the failure "
                         "handler still runs");
    if (err == BUS_ESETTLED)
        return error_say(NULL, err, ERROR_TYPE_TOO_LATE,
                         "the broker refused something that no bus_flush() told of");
    return api_say_over(bus, err, NULL);
}

enum bus_err bus_close(struct bus **bus, int64_t timeout_ms)
{
    if (bus == NULL || !options_time_is_valid(timeout_ms))
        return error_say_code(BUS_EINVAL, __func__);
    if (*bus == NULL)
        return BUS_OK;
    if (api_is_foreign(*bus)) {
        /* Threads and locks of the parent are not here; its memory goes with the child. */
        *bus = NULL;
        return error_give(NULL, BUS_ECLOSED, &error_forked);
    }
    int64_t deadline_ns = api_deadline_ns(timeout_ms);
    enum bus_err attached = timeout_ms != BUS_POLL ? attach_flush(*bus, deadline_ns) : BUS_OK;
    struct bus *closed = *bus;
    api_ref(closed); /* its failure outlives it */
    enum bus_err err = membership_close(bus, deadline_ns);
    if (err == BUS_OK)
        err = attached;
    if (err != BUS_OK)
        (void)say_not_closed(closed, err);
    api_unref(closed);
    return err;
}

enum bus_durability bus_durability(const struct bus *bus)
{
    struct bus *locked = (struct bus *)(uintptr_t)bus; /* the lock alone changes */
    if (bus == NULL || api_is_foreign(bus))
        return BUS_DURABILITY_MEMORY;
    api_lock(locked);
    uint8_t durability = session_durability(bus->session);
    api_unlock(locked);
    return (enum bus_durability)durability;
}

enum bus_err bus_run_get(const struct bus *bus, struct bus_run *out_run)
{
    struct bus *locked = (struct bus *)(uintptr_t)bus; /* the lock alone changes */
    if (bus == NULL || out_run == NULL)
        return error_say_code(BUS_EINVAL, __func__);
    if (api_is_foreign(bus))
        return error_give(NULL, BUS_ECLOSED, &error_forked);
    api_lock(locked);
    struct session_run run = session_run(bus->session);
    uint32_t number = session_attempt(bus->session);
    api_unlock(locked);
    *out_run = (struct bus_run){.number = number,
                                .incarnations = run.incarnations,
                                .is_continued = run.is_continued,
                                .rest_ns = run.rest_ns};
    return BUS_OK;
}

const char *bus_party(const struct bus *bus)
{
    return bus != NULL ? bus->party : "";
}

const char *bus_job(const struct bus *bus)
{
    return bus != NULL ? bus->job : "";
}
