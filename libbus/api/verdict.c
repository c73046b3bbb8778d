/* SPDX-License-Identifier: MPL-2.0 */
/* verdict.c -- a party that waits for the final verdict.
 *
 * A party hears the verdict over its own connection as long as that stands.  A party that failed,
 * was fenced or has left has none: it asks as an observer. */
#include "libbus/api/clock.h"
#include "libbus/api/error.h"
#include "libbus/api/error_wire.h"
#include "libbus/api/fork.h"
#include "libbus/api/lock.h"
#include "libbus/api/membership.h"
#include "libbus/api/model.h"
#include "libbus/api/options.h"
#include "libbus/api/report.h"

#include <stdlib.h>

/* A client that greets with a job creates it and keeps it; an observer must not. */
#define NO_JOB ""

#define STATE_FINAL 2 /* of VERDICT */

/* The final verdict, if this party heard it.  Lock held. */
static struct bus_error *told(const struct bus *bus)
{
    struct buffer *encoded = NULL;
    struct bus_error *verdict = NULL;
    if (bus->session != NULL && session_verdict(bus->session, &encoded) == STATE_FINAL)
        verdict = error_from_wire(buffer_span(encoded));
    buffer_unref(&encoded);
    return verdict;
}

/* Whether a verdict may still come over the party's own connection.  Lock held. */
static bool is_in_touch(const struct bus *bus)
{
    return bus->session != NULL && !bus->is_disconnected &&
           (bus->end == BUS_OK || session_is_failing(bus->session));
}

static enum bus_err ask_as_observer(struct bus *bus, const struct endpoints *endpoints,
                                    const struct report_question *question, int64_t join_ns,
                                    int64_t deadline_ns, struct bus_report **out_report)
{
    struct bus *observer = NULL;
    enum bus_err err = membership_open(endpoints, &bus->options, NO_JOB, "", &observer, NULL);
    if (err == BUS_OK)
        err = membership_join(&observer, true, join_ns, NULL);
    if (err != BUS_OK)
        return err;
    api_lock(observer);
    err = report_read(observer, question, deadline_ns, out_report, NULL);
    api_unlock(observer);
    (void)membership_close(&observer, MEMBERSHIP_AT_ONCE); /* an observer owes nothing */
    return err;
}

/* Asks as an observer, with a bound on the broker's absence. */
static enum bus_err ask_for_final(struct bus *bus, const struct endpoints *endpoints,
                                  uint32_t attempt, int64_t lost_ms, int64_t deadline_ns,
                                  struct bus_error **out_verdict)
{
    const struct report_question question = {
        .job = bus->job, .attempt = attempt, .is_waiting = true};
    struct bus_report *report = NULL;
    int64_t lost_ns = api_deadline_ns(lost_ms);
    int64_t join_ns = lost_ns < deadline_ns ? lost_ns : deadline_ns;
    enum bus_err err = ask_as_observer(bus, endpoints, &question, join_ns, deadline_ns, &report);
    if (err == BUS_ETIMEDOUT && join_ns == lost_ns && api_deadline_ns(BUS_POLL) < deadline_ns)
        err = BUS_ELOST;
    if (err == BUS_OK && bus_report_root(report) != NULL)
        *out_verdict = bus_error_ref(bus_report_root(report));
    else if (err == BUS_OK)
        *out_verdict = bus_failure(bus); /* the broker has forgotten the job */
    bus_report_free(&report);
    return err;
}

enum bus_err bus_verdict(struct bus *bus, int64_t timeout_ms, struct bus_error **out_verdict)
{
    if (bus == NULL || out_verdict == NULL || !options_time_is_valid(timeout_ms))
        return error_say_code(BUS_EINVAL, __func__);
    if (api_is_foreign(bus))
        return error_give(NULL, BUS_ECLOSED, &error_forked);
    int64_t deadline_ns = api_deadline_ns(timeout_ms);
    struct endpoints endpoints;
    struct bus_error *verdict = NULL;
    enum bus_err err = BUS_OK;
    api_ref(bus); /* a handler may close it meanwhile */
    api_lock(bus);
    while ((verdict = told(bus)) == NULL && err == BUS_OK && is_in_touch(bus)) {
        bool is_stopped = atomic_load_explicit(&bus->is_stopped, memory_order_acquire);
        if (is_stopped && bus->end == BUS_OK)
            err = BUS_ECLOSED;
        else if (!api_wait(bus, &bus->news, &bus->waiters, deadline_ns))
            err = BUS_ETIMEDOUT;
    }
    bool is_broker_gone = bus->end == BUS_ELOST || bus->end == BUS_EPROTO;
    if (verdict == NULL && err == BUS_OK && is_broker_gone)
        verdict = bus_error_ref(bus->failure);
    if (verdict == NULL && err == BUS_OK && bus->failure == NULL)
        err = BUS_ECLOSED;
    endpoints = bus->endpoints;
    uint32_t attempt = bus->session != NULL ? session_attempt(bus->session) : 0;
    int64_t lost_ms = membership_broker_lost_ms(bus);
    api_unlock(bus);
    if (verdict == NULL && err == BUS_OK)
        err = ask_for_final(bus, &endpoints, attempt, lost_ms, deadline_ns, &verdict);
    if (err == BUS_OK)
        *out_verdict = verdict;
    api_unref(bus);
    return error_say_code(err, __func__);
}
