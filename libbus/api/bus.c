/* SPDX-License-Identifier: MPL-2.0 */
/* bus.c -- opening, stopping and closing a membership; what it is called. */
#include "libbus/api/api_internal.h"

#include "libbus/base/must.h"

/* The public header cannot include the tables; what both say is held together here. */
_Static_assert(BUS_NAME_BYTES_MAX == LIMIT_NAME_BYTES, "one limit of names");
_Static_assert((int)BUS_OK == (int)CODE_OK, "codes");
_Static_assert((int)BUS_EINVAL == (int)CODE_EINVAL, "codes");
_Static_assert((int)BUS_ENOMEM == (int)CODE_ENOMEM, "codes");
_Static_assert((int)BUS_ETIMEDOUT == (int)CODE_ETIMEDOUT, "codes");
_Static_assert((int)BUS_EFULL == (int)CODE_EFULL, "codes");
_Static_assert((int)BUS_ETOOBIG == (int)CODE_ETOOBIG, "codes");
_Static_assert((int)BUS_EPROTO == (int)CODE_EPROTO, "codes");
_Static_assert((int)BUS_ELOST == (int)CODE_ELOST, "codes");
_Static_assert((int)BUS_EOVERRUN == (int)CODE_EOVERRUN, "codes");
_Static_assert((int)BUS_EFAILED == (int)CODE_EFAILED, "codes");
_Static_assert((int)BUS_ESETTLED == (int)CODE_ESETTLED, "codes");
_Static_assert((int)BUS_EFENCED == (int)CODE_EFENCED, "codes");
_Static_assert((int)BUS_EDENIED == (int)CODE_EDENIED, "codes");
_Static_assert((int)BUS_ECLOSED == (int)CODE_ECLOSED, "codes");
_Static_assert((int)BUS_EENDED == (int)CODE_EENDED, "codes");

#define VERSION_TEXT_OF(major, minor, patch) #major "." #minor "." #patch
#define VERSION_TEXT(major, minor, patch) VERSION_TEXT_OF(major, minor, patch)

const char *bus_version(void)
{
    return VERSION_TEXT(BUS_VERSION_MAJOR, BUS_VERSION_MINOR, BUS_VERSION_PATCH);
}

int bus_version_number(void)
{
    return BUS_VERSION_NUMBER;
}

const char *bus_strerror(enum bus_err err)
{
    switch (err) {
    case BUS_OK: return "fine";
#define CODE(upper, number, what)                                                                  \
    case BUS_##upper:                                                                              \
        return what;
#include "schemas/errors.def"
#undef CODE
    }
    return "an unknown result code";
}

enum bus_err bus_open(const char *endpoint, const struct bus_options *options, int64_t timeout_ms,
                      struct bus **out_bus, struct bus_error **reterr)
{
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
        err = core_open(&endpoints, &known, job, party, &bus, reterr);
    if (err == BUS_OK)
        err = core_join(&bus, deadline_ns, reterr);
    if (err != BUS_OK)
        return err;
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

enum bus_err bus_close(struct bus **bus, int64_t timeout_ms)
{
    if (bus == NULL || *bus == NULL)
        return BUS_OK;
    if (!options_time_is_valid(timeout_ms))
        return BUS_EINVAL;
    if (api_is_foreign(*bus)) {
        /* Threads and locks of the parent are not here; its memory goes with the child. */
        *bus = NULL;
        return BUS_ECLOSED;
    }
    int64_t deadline_ns = api_deadline_ns(timeout_ms);
    enum bus_err attached = timeout_ms != BUS_POLL ? attach_flush(*bus, deadline_ns) : BUS_OK;
    enum bus_err err = core_close(bus, timeout_ms);
    return err == BUS_OK ? attached : err;
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

const char *bus_party(const struct bus *bus)
{
    return bus->party;
}

const char *bus_job(const struct bus *bus)
{
    return bus->job;
}
