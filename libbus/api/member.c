/* SPDX-License-Identifier: MPL-2.0 */
/* member.c -- taking part in a created job: rank, number of members, and barriers. */
#include "libbus/api/blocked.h"
#include "libbus/api/clock.h"
#include "libbus/api/error.h"
#include "libbus/api/error_wire.h"
#include "libbus/api/fork.h"
#include "libbus/api/lock.h"
#include "libbus/api/model.h"
#include "libbus/api/news.h"
#include "libbus/api/options.h"

static enum bus_err say_free(const struct bus *bus, struct bus_error **reterr)
{
    return error_say(reterr, BUS_EINVAL, ERROR_TYPE_NO_JOB,
                     "job '%s' was not created by bus_admin_job_create(): it has no members",
                     bus->job);
}

enum bus_err bus_membership_wait(struct bus *bus, uint64_t after_epoch, int64_t timeout_ms,
                                 struct bus_membership *out_membership, struct bus_error **reterr)
{
    if (bus == NULL || out_membership == NULL || !options_wait_is_valid(timeout_ms))
        return error_say(reterr, BUS_EINVAL, ERROR_TYPE_ARGUMENT,
                         "bus_membership_wait() needs bus, out_membership and a timeout_ms of at "
                         "least 0, or BUS_FOREVER");
    if (api_is_foreign(bus))
        return error_give(reterr, BUS_ECLOSED, &error_forked);
    int64_t deadline_ns = api_deadline_ns(timeout_ms);
    enum bus_err err = BUS_OK;
    struct session_membership membership = {0};
    struct blocked_call blocked = blocked_call(SESSION_WAIT_MEMBERS, timeout_ms);
    api_lock(bus);
    for (;;) {
        err = api_over(bus);
        if (err != BUS_OK) {
            (void)api_say_over(bus, err, reterr);
            break;
        }
        membership = session_membership(bus->session);
        if (membership.epoch > after_epoch)
            break;
        if (!session_job_is_created(bus->session)) {
            err = say_free(bus, reterr);
            break;
        }
        blocked_begin(bus, &blocked, &(struct session_wait_place){0});
        if (!api_wait(bus, &bus->news, &bus->waiters, deadline_ns))
            err = error_give(reterr, BUS_ETIMEDOUT, &error_timed_out);
        if (err != BUS_OK)
            break;
    }
    blocked_end_by(bus, &blocked, err);
    api_unlock(bus);
    if (err == BUS_OK)
        *out_membership = (struct bus_membership){.epoch = membership.epoch,
                                                  .attempt = membership.attempt,
                                                  .rank = membership.rank,
                                                  .world_size = membership.world_size};
    return err;
}

/* Looks at the barrier once; BUS_ETIMEDOUT: not yet.  Lock held. */
static enum bus_err look(struct bus *bus, uint64_t epoch, struct bus_error **reterr)
{
    struct buffer *why = NULL;
    enum bus_err err = api_over(bus);
    if (err != BUS_OK)
        return api_say_over(bus, err, reterr);
    err = (enum bus_err)session_barrier(bus->session, epoch, &why);
    if (err != BUS_OK && err != BUS_ETIMEDOUT)
        (void)error_give(reterr, err, why != NULL ? error_from_wire(buffer_span(why)) : NULL);
    buffer_unref(&why);
    return err;
}

enum bus_err bus_barrier(struct bus *bus, uint64_t epoch, int64_t timeout_ms,
                         struct bus_error **reterr)
{
    if (bus == NULL || !options_wait_is_valid(timeout_ms))
        return error_say(reterr, BUS_EINVAL, ERROR_TYPE_ARGUMENT,
                         "bus_barrier() needs bus and a timeout_ms of at least 0, or BUS_FOREVER");
    if (api_is_foreign(bus))
        return error_give(reterr, BUS_ECLOSED, &error_forked);
    int64_t deadline_ns = api_deadline_ns(timeout_ms);
    struct blocked_call blocked = blocked_call(SESSION_WAIT_BARRIER, timeout_ms);
    api_lock(bus);
    enum bus_err err = look(bus, epoch, reterr);
    api_wake(bus); /* sends BARRIER */
    if (err == BUS_ETIMEDOUT)
        blocked_begin(bus, &blocked, &(struct session_wait_place){0});
    while (err == BUS_ETIMEDOUT && api_wait(bus, &bus->news, &bus->waiters, deadline_ns))
        err = look(bus, epoch, reterr);
    blocked_end_by(bus, &blocked, err);
    if (err == BUS_ETIMEDOUT) {
        (void)error_give(reterr, err, &error_timed_out);
        if (!blocked.patience.is_slice)
            session_barrier_leave(bus->session);
    }
    api_unlock_wake(bus);
    return err;
}
