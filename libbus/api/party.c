/* SPDX-License-Identifier: MPL-2.0 */
/* party.c -- the calls about this party as a whole: flush, complete, fail, progress. */
#include "libbus/api/party.h"

#include "libbus/api/clock.h"
#include "libbus/api/courier.h"
#include "libbus/api/error.h"
#include "libbus/api/error_wire.h"
#include "libbus/api/event_fd.h"
#include "libbus/api/fork.h"
#include "libbus/api/lane_wait.h"
#include "libbus/api/link_turn.h"
#include "libbus/api/lock.h"
#include "libbus/api/model.h"
#include "libbus/api/news.h"
#include "libbus/api/options.h"
#include "libbus/api/sub_list.h"
#include "libbus/base/utf8.h"

#include <stdlib.h>

/* Waits until the broker has answered all up to the mark.  If the party failed by itself, it also
 * waits until the connection is gone, because the failure is on its way until then.  Lock held. */
enum bus_err party_wait_answered(struct bus *bus, struct session_mark mark, int64_t deadline_ns)
{
    thread_say(bus);
    while (bus->session != NULL && !session_mark_reached(bus->session, mark)) {
        enum bus_err end = api_ended(bus); /* after bus_stop() what is owed can still be flushed */
        if (end == BUS_ECLOSED && bus->is_disconnected)
            return BUS_ELOST;
        if (end != BUS_OK && !session_is_leaving(bus->session))
            return end;
        if (!lane_wait(bus, LINK_CONTROL, &bus->news, &bus->waiters, deadline_ns))
            return BUS_ETIMEDOUT;
    }
    return bus->session != NULL ? BUS_OK : BUS_ECLOSED;
}

/* Lock held. */
static enum bus_err say_not_answered(struct bus *bus, enum bus_err err)
{
    if (err == BUS_OK)
        return err;
    if (err == BUS_ETIMEDOUT)
        return error_say(NULL, err, ERROR_TYPE_TIMED_OUT,
                         "the broker has not answered everything in time; call again");
    if (err == BUS_ESETTLED)
        return error_say(NULL, err, ERROR_TYPE_TOO_LATE,
                         "the broker refused something: bus_refusal() has it");
    return api_say_over(bus, err, NULL);
}

enum bus_err bus_flush(struct bus *bus, int64_t timeout_ms)
{
    if (bus == NULL || !options_time_is_valid(timeout_ms))
        return error_say_code(BUS_EINVAL, __func__);
    if (api_is_foreign(bus))
        return error_give(NULL, BUS_ECLOSED, &error_forked);
    int64_t deadline_ns = api_deadline_ns(timeout_ms);
    enum bus_err err = BUS_OK;
    enum bus_err attached = attach_flush(bus, deadline_ns);
    api_lock(bus);
    uint64_t told_before = bus->refusals_told;
    if (bus->session == NULL) {
        err = BUS_ECLOSED;
        goto done;
    }
    sub_collect_all(bus);
    err = party_wait_answered(bus, session_mark(bus->session), deadline_ns);
    if (err == BUS_OK && session_refusals_ever(bus->session) > told_before) {
        bus->refusals_told = session_refusals_ever(bus->session);
        err = BUS_ESETTLED;
    }
done:
    if (err == BUS_OK)
        err = attached;
    (void)say_not_answered(bus, err);
    thread_unlock_say(bus);
    return err;
}

enum bus_err bus_refusal(struct bus *bus, struct bus_error **out_refusal)
{
    struct span topic = SPAN_NONE;
    uint64_t seq = 0;
    struct buffer *encoded = NULL;
    if (bus == NULL || out_refusal == NULL)
        return error_say_code(BUS_EINVAL, __func__);
    if (api_is_foreign(bus))
        return error_give(NULL, BUS_ECLOSED, &error_forked);
    api_lock(bus);
    bool is_there = bus->session != NULL && session_refusal(bus->session, &topic, &seq, &encoded);
    if (is_there) /* the name of the topic is the session's */
        *out_refusal =
            error_from_wire_of(encoded != NULL ? buffer_span(encoded) : SPAN_NONE, topic, seq);
    api_unlock(bus);
    buffer_unref(&encoded);
    return is_there ? BUS_OK : error_give(NULL, BUS_ETIMEDOUT, &error_timed_out);
}

/* ---- notices --------------------------------------------------------------------------------- */

/* Whether bus_notice() would not wait.  Lock held. */
static bool has_notice(const struct bus *bus)
{
    return api_over(bus) != BUS_OK || session_has_notice(bus->session);
}

enum bus_err bus_notice(struct bus *bus, int64_t timeout_ms, struct bus_error **out_notice)
{
    if (bus == NULL || out_notice == NULL || !options_time_is_valid(timeout_ms))
        return error_say_code(BUS_EINVAL, __func__);
    if (api_is_foreign(bus))
        return error_give(NULL, BUS_ECLOSED, &error_forked);
    int64_t deadline_ns = api_deadline_ns(timeout_ms);
    api_lock(bus);
    struct buffer *encoded = NULL;
    enum bus_err err = BUS_OK;
    while (err == BUS_OK) {
        encoded = bus->session != NULL ? session_notice(bus->session) : NULL;
        if (encoded != NULL)
            break;
        err = api_over(bus);
        if (err != BUS_OK)
            (void)api_say_over(bus, err, NULL);
        else if (!api_wait(bus, &bus->news, &bus->waiters, deadline_ns))
            err = error_give(NULL, BUS_ETIMEDOUT, &error_timed_out);
    }
    if (!has_notice(bus))
        api_clear_fd(bus->notice_fd);
    api_unlock_wake(bus);
    if (err == BUS_OK)
        *out_notice = error_from_wire(buffer_span(encoded));
    buffer_unref(&encoded);
    return err;
}

int bus_notice_fd(const struct bus *bus)
{
    struct bus *own = (struct bus *)(uintptr_t)bus; /* made on demand, once */
    if (bus == NULL || api_is_foreign(bus))
        return -1;
    api_lock(own);
    if (own->notice_fd < 0) {
        own->notice_fd = api_event_fd();
        if (has_notice(own))
            api_signal_fd(own->notice_fd);
    }
    int fd = own->notice_fd;
    api_unlock(own);
    return fd;
}

/* ---- done, failed, moving -------------------------------------------------------------------- */

/* Waits for the broker's answer to a numbered request.  Lock held. */
enum bus_err party_wait_result(struct bus *bus, uint64_t number, int64_t deadline_ns)
{
    thread_say(bus);
    for (;;) {
        if (bus->session == NULL)
            return BUS_ECLOSED;
        enum wire_code code = session_result(bus->session, number, NULL);
        if (code != CODE_ETIMEDOUT)
            return (enum bus_err)code;
        enum bus_err err = api_over(bus);
        if (err == BUS_OK && !lane_wait(bus, LINK_CONTROL, &bus->news, &bus->waiters, deadline_ns))
            err = BUS_ETIMEDOUT;
        if (err != BUS_OK) {
            if (bus->session != NULL)
                api_forget_result(bus, number);
            return err;
        }
    }
}

enum bus_err bus_complete(struct bus *bus, int64_t timeout_ms)
{
    if (bus == NULL || !options_time_is_valid(timeout_ms))
        return error_say_code(BUS_EINVAL, __func__);
    if (api_is_foreign(bus))
        return error_give(NULL, BUS_ECLOSED, &error_forked);
    int64_t deadline_ns = api_deadline_ns(timeout_ms);
    uint64_t number = 0;
    api_lock(bus);
    enum bus_err err = api_over(bus);
    if (err == BUS_OK) {
        sub_collect_all(bus);
        err = (enum bus_err)session_complete(bus->session, &number);
    }
    if (err == BUS_OK)
        err = party_wait_result(bus, number, deadline_ns);
    if (err == BUS_EINVAL)
        (void)error_say(NULL, err, ERROR_TYPE_ARGUMENT,
                        "%s cannot complete: some of its slots are not settled", bus->party);
    else
        (void)say_not_answered(bus, err);
    api_unlock_wake(bus);
    return err;
}

void bus_fail(struct bus *bus, const struct bus_error *error)
{
    if (bus == NULL || api_is_foreign(bus))
        return;
    api_ref(bus); /* the handler may close it before we are out of here */
    api_lock(bus);
    bool is_failing = bus->session != NULL && session_is_failing(bus->session);
    if (api_ended(bus) == BUS_OK || is_failing) { /* it may be the root */
        struct span encoded = error_to_wire(bus, error, ERROR_TYPE_PARTY_FAILED, NULL, 0);
        session_fail_party(bus->session, encoded);
        api_tell(bus); /* so that bus_failure() knows when we return */
    }
    api_unlock_wake(bus);
    api_unref(bus);
}

int bus_failure_fd(const struct bus *bus)
{
    return bus != NULL ? bus->failure_fd : -1;
}

void bus_progress(struct bus *bus, int64_t next_within_ms)
{
    bus_progress_at(bus, next_within_ms, NULL);
}

void bus_progress_at(struct bus *bus, int64_t next_within_ms, const char *where)
{
    struct span text = span_text(where);
    char *mended = NULL;
    bool is_cut;
    if (bus == NULL || api_is_foreign(bus) || next_within_ms < BUS_FOREVER)
        return;
    if (text.bytes > LIMIT_NAME_BYTES)
        text.bytes = utf8_cut(text.data, LIMIT_NAME_BYTES);
    if (!utf8_is_valid(text)) {
        mended = error_text(text, LIMIT_NAME_BYTES, &is_cut); /* without memory it is not said */
        text = span_text(mended);
    }
    if (next_within_ms > LIMIT_PERIOD_MS_MAX)
        next_within_ms = LIMIT_PERIOD_MS_MAX;
    if (next_within_ms == 0)
        next_within_ms = 1; /* 0 on the wire is no promise */
    api_lock(bus);
    if (api_ended(bus) == BUS_OK)
        session_progress(bus->session, next_within_ms == BUS_FOREVER ? 0 : (uint64_t)next_within_ms,
                         text);
    api_unlock_wake(bus);
    free(mended);
}

struct bus_error *bus_failure(const struct bus *bus)
{
    struct bus *locked = (struct bus *)(uintptr_t)bus; /* the lock alone changes */
    if (bus == NULL || api_is_foreign(bus))
        return NULL;
    api_lock(locked);
    struct bus_error *failure = bus_error_ref(bus->failure);
    api_unlock(locked);
    return failure;
}

int bus_room_fd(const struct bus *bus)
{
    return bus != NULL ? bus->room_fd : -1;
}
