/* SPDX-License-Identifier: MPL-2.0 */
/* tap.c -- observers of a job's control topic: a session of its own, without a party.
 *
 * A tap takes one event ahead of the application, so that its descriptor tells whether there is
 * one.  It takes the next event only when that one was given out.  So a tap that nobody reads fills
 * no memory here, and the broker counts what it misses. */
#include "libbus/api/clock.h"
#include "libbus/api/endpoint.h"
#include "libbus/api/error.h"
#include "libbus/api/error_wire.h"
#include "libbus/api/event_fd.h"
#include "libbus/api/fork.h"
#include "libbus/api/lock.h"
#include "libbus/api/membership.h"
#include "libbus/api/model.h"
#include "libbus/api/news.h"
#include "libbus/api/options.h"

#include <bus/tap.h>

#include <inttypes.h>
#include <stdlib.h>

#define NO_JOB "/" /* no job has this name */

struct bus_event {
    bool is_gap; /* first_id..id were missed */
    bool is_durable;
    bool is_late;
    uint64_t first_id;
    uint64_t id;
    int64_t at_ns;
    uint32_t incarnation;
    uint64_t seq;
    uint64_t count;
    struct bus_error *error;
    char *texts; /* name, party, topic, text, first_error, last_error, each with its NUL */
    const char *job;
    const char *name;
    const char *party;
    const char *topic;
    const char *text;
    const char *first_error;
    const char *last_error;
};

struct bus_tap {
    struct bus *bus;
    struct bus_event *given; /* borrowed by the application */
    struct bus_event *ahead; /* the one after it, if it has come */
    uint64_t gap_first;
    uint64_t gap_last;
    uint64_t next_id;  /* of the job, when the tap was opened */
    uint64_t wanted;   /* the next that may come */
    uint64_t until_id; /* UINT64_MAX: no end */
};

/* ---- events ---------------------------------------------------------------------------------- */

static void event_free(struct bus_event **event)
{
    if (*event == NULL)
        return;
    bus_error_unref(&(*event)->error);
    free((*event)->texts);
    free(*event);
    *event = NULL;
}

static bool event_fill(struct bus_event *event, const struct msg_event *from)
{
    event->texts = malloc(from->name.bytes + from->party.bytes + from->topic.bytes +
                          from->text.bytes + from->first_error.bytes + from->last_error.bytes + 6);
    if (event->texts == NULL)
        return false;
    char *at = event->texts;
    event->at_ns = from->at_ns;
    event->incarnation = (uint32_t)from->incarnation;
    event->seq = from->seq;
    event->count = from->count;
    event->is_durable = from->is_durable != 0;
    event->is_late = from->is_late != 0;
    event->name = api_place(&at, from->name);
    event->party = api_place(&at, from->party);
    event->topic = api_place(&at, from->topic);
    event->text = api_place(&at, from->text);
    event->first_error = api_place(&at, from->first_error);
    event->last_error = api_place(&at, from->last_error);
    if (from->error.bytes > 0)
        event->error = error_from_wire(from->error);
    return true;
}

/* The next that the session has; NULL: none, or no memory for even a gap.  Lock held. */
static struct bus_event *event_take(struct bus *bus)
{
    struct msg msg;
    struct bus_event *event = calloc(1, sizeof *event);
    if (event == NULL || bus->session == NULL || !session_event_take(bus->session, &msg)) {
        free(event);
        return NULL;
    }
    event->job = bus->job;
    event->name = event->party = event->topic = event->text = "";
    event->first_error = event->last_error = "";
    if (msg.type == MSG_MISSED) {
        event->is_gap = true;
        event->first_id = msg.as.missed.first_id;
        event->id = msg.as.missed.last_id;
        return event;
    }
    event->id = event->first_id = msg.as.event.id;
    event->is_gap = !event_fill(event, &msg.as.event); /* without memory it is missed */
    return event;
}

/* The event, or one without content in place of NULL. */
static const struct bus_event *event_or_none(const struct bus_event *event)
{
    static const struct bus_event none = {.job = "",
                                          .name = "",
                                          .party = "",
                                          .topic = "",
                                          .text = "",
                                          .first_error = "",
                                          .last_error = ""};
    return event != NULL ? event : &none;
}

uint64_t bus_event_id(const struct bus_event *event)
{
    return event_or_none(event)->id;
}

int64_t bus_event_at_ns(const struct bus_event *event)
{
    return event_or_none(event)->at_ns;
}

const char *bus_event_job(const struct bus_event *event)
{
    return event_or_none(event)->job;
}

const char *bus_event_name(const struct bus_event *event)
{
    return event_or_none(event)->name;
}

const char *bus_event_party(const struct bus_event *event)
{
    return event_or_none(event)->party;
}

uint32_t bus_event_incarnation(const struct bus_event *event)
{
    return event_or_none(event)->incarnation;
}

const char *bus_event_topic(const struct bus_event *event)
{
    return event_or_none(event)->topic;
}

uint64_t bus_event_seq(const struct bus_event *event)
{
    return event_or_none(event)->seq;
}

uint64_t bus_event_count(const struct bus_event *event)
{
    return event_or_none(event)->count;
}

const char *bus_event_text(const struct bus_event *event)
{
    return event_or_none(event)->text;
}

int bus_event_is_durable(const struct bus_event *event)
{
    return event_or_none(event)->is_durable;
}

const char *bus_event_first_error(const struct bus_event *event)
{
    return event_or_none(event)->first_error;
}

const char *bus_event_last_error(const struct bus_event *event)
{
    return event_or_none(event)->last_error;
}

int bus_event_is_late(const struct bus_event *event)
{
    return event_or_none(event)->is_late;
}

const struct bus_error *bus_event_error(const struct bus_event *event)
{
    return event_or_none(event)->error;
}

/* ---- the tap --------------------------------------------------------------------------------- */

static const struct bus_tap_options tap_defaults = {
    .struct_bytes = sizeof(struct bus_tap_options),
    .from_id = BUS_TAP_NOW,
    .heartbeat_ms = 1000,
    .broker_lost_ms = 30000,
};

void bus_tap_options_init_sized(struct bus_tap_options *options, size_t bytes)
{
    options_give(options, bytes, &tap_defaults, sizeof tap_defaults);
}

static enum bus_err open_observer(const char *endpoint, const struct bus_tap_options *options,
                                  int64_t deadline_ns, struct bus **out_bus,
                                  struct bus_error **reterr)
{
    struct endpoints endpoints;
    struct bus_options periods;
    char job[LIMIT_NAME_BYTES + 1];
    bus_options_init(&periods);
    periods.heartbeat_ms = options->heartbeat_ms;
    periods.broker_lost_ms = options->broker_lost_ms;
    periods.on_doubt = options->on_doubt;
    periods.on_doubt_arg = options->on_doubt_arg;
    if (periods.lost_after_ms < 3 * periods.heartbeat_ms &&
        periods.heartbeat_ms <= LIMIT_PERIOD_MS_MAX / 3)
        periods.lost_after_ms = 3 * periods.heartbeat_ms;
    enum bus_err err = options_job(options->job, job, reterr);
    if (err == BUS_OK)
        err = options_periods(&periods, reterr);
    if (err == BUS_OK)
        err = endpoints_read(&endpoints, endpoint, reterr);
    if (err == BUS_OK)
        err = endpoints_use_key(&endpoints, options->key, reterr);
    if (err == BUS_OK)
        err = membership_open(&endpoints, &periods, job, "", out_bus, reterr);
    key_pair_forget(&endpoints.own);
    if (err == BUS_OK)
        err = membership_join(out_bus, true, deadline_ns, reterr);
    return err;
}

/* Sends TAP and a question, and waits for the answer to the question: then the broker has seen TAP
 * too.  The question is about a job that does not exist.  So the answer is one message, also if it
 * is a refusal. */
static enum bus_err follow(struct bus *bus, uint64_t from_id, int64_t deadline_ns,
                           uint64_t *out_next_id, struct bus_error **reterr)
{
    enum bus_err err = BUS_OK;
    struct msg msg = {.type = MSG_NONE};
    api_lock(bus);
    session_tap(bus->session, from_id);
    session_ask(bus->session,
                &(const struct msg){.type = MSG_STATUS, .as.status = {.job = span_text(NO_JOB)}});
    api_wake(bus);
    while (err == BUS_OK && (msg.type == MSG_NONE || !msg_is_end(&msg))) {
        if (session_answer_take(bus->session, &msg))
            continue;
        err = api_over(bus);
        if (err != BUS_OK)
            (void)api_say_over(bus, err, reterr);
        else if (!api_wait(bus, &bus->news, &bus->waiters, deadline_ns))
            err = error_give(reterr, BUS_ETIMEDOUT, &error_timed_out);
    }
    if (err == BUS_OK)
        *out_next_id = session_event_next(bus->session);
    api_unlock(bus);
    return err;
}

enum bus_err bus_tap_open(const char *endpoint, const struct bus_tap_options *options,
                          int64_t timeout_ms, struct bus_tap **out_tap, struct bus_error **reterr)
{
    struct bus_tap_options known = tap_defaults;
    if (out_tap == NULL || !options_time_is_valid(timeout_ms))
        return error_say(
            reterr, BUS_EINVAL, ERROR_TYPE_ARGUMENT,
            "bus_tap_open() needs out_tap and a timeout_ms of at least 0, or BUS_FOREVER");
    if (options != NULL && !options_take(&known, sizeof known, options, options->struct_bytes))
        return error_say(reterr, BUS_EINVAL, ERROR_TYPE_ARGUMENT,
                         "the options are not initialised, or were made for a newer library");
    if (known.until_id > 0 && known.from_id != BUS_TAP_NOW && known.from_id > known.until_id)
        return error_say(reterr, BUS_EINVAL, ERROR_TYPE_ARGUMENT, "until_id is less than from_id");
    struct bus_tap *tap = calloc(1, sizeof *tap);
    if (tap == NULL)
        return error_give(reterr, BUS_ENOMEM, &error_no_memory);
    int64_t deadline_ns = api_deadline_ns(timeout_ms);
    enum bus_err err = open_observer(endpoint, &known, deadline_ns, &tap->bus, reterr);
    if (err == BUS_OK)
        err = follow(tap->bus, known.from_id, deadline_ns, &tap->next_id, reterr);
    tap->until_id = known.until_id > 0 ? known.until_id : UINT64_MAX;
    tap->wanted = known.from_id < tap->next_id ? known.from_id : tap->next_id;
    if (err == BUS_OK)
        *out_tap = tap;
    else if (tap->bus != NULL)
        bus_tap_close(&tap);
    else
        free(tap);
    return err;
}

static bool is_ended(const struct bus_tap *tap)
{
    return tap->wanted > tap->until_id;
}

/* Lock held. */
static void settle_fd(struct bus_tap *tap)
{
    if (tap->ahead == NULL && !is_ended(tap) && api_over(tap->bus) == BUS_OK)
        api_clear_fd(tap->bus->tap_fd);
}

/* Whether there is an event to give out, or the end.  Lock held. */
static bool look_ahead(struct bus_tap *tap)
{
    if (tap->ahead == NULL)
        tap->ahead = event_take(tap->bus);
    if (tap->ahead != NULL && tap->ahead->first_id > tap->until_id)
        tap->wanted = tap->ahead->first_id; /* the broker keeps the wanted events no more */
    return tap->ahead != NULL || is_ended(tap);
}

/* Moves on to the next event.  Lock held. */
static enum bus_err move_on(struct bus_tap *tap, int64_t deadline_ns, struct bus_error **reterr)
{
    struct bus *bus = tap->bus;
    event_free(&tap->given);
    while (!look_ahead(tap)) {
        enum bus_err err = api_over(bus);
        if (err != BUS_OK)
            return api_say_over(bus, err, reterr);
        settle_fd(tap);
        api_wake(bus); /* the taken events make room for more */
        if (!api_wait(bus, &bus->news, &bus->waiters, deadline_ns))
            return error_give(reterr, BUS_ETIMEDOUT, &error_timed_out);
    }
    if (is_ended(tap))
        return error_say(reterr, BUS_EENDED, ERROR_TYPE_CLOSED,
                         "event %" PRIu64 " was the last event of the range", tap->until_id);
    tap->given = tap->ahead;
    if (tap->given->id > tap->until_id)
        tap->given->id = tap->until_id; /* the gap goes on behind the range */
    tap->wanted = tap->given->id + 1;
    tap->ahead = event_take(bus);
    settle_fd(tap);
    return BUS_OK;
}

enum bus_err bus_tap_next(struct bus_tap *tap, int64_t timeout_ms,
                          const struct bus_event **out_event, struct bus_error **reterr)
{
    if (tap == NULL || out_event == NULL || !options_time_is_valid(timeout_ms))
        return error_say(
            reterr, BUS_EINVAL, ERROR_TYPE_ARGUMENT,
            "bus_tap_next() needs tap, out_event and a timeout_ms of at least 0, or BUS_FOREVER");
    if (api_is_foreign(tap->bus))
        return error_give(reterr, BUS_ECLOSED, &error_forked);
    int64_t deadline_ns = api_deadline_ns(timeout_ms);
    api_lock(tap->bus);
    enum bus_err err = move_on(tap, deadline_ns, reterr);
    api_unlock_wake(tap->bus);
    if (err != BUS_OK)
        return err;
    if (tap->given->is_gap) {
        tap->gap_first = tap->given->first_id;
        tap->gap_last = tap->given->id;
        return error_say(reterr, BUS_EOVERRUN, ERROR_TYPE_NOT_KEPT,
                         "this tap missed events %" PRIu64 " to %" PRIu64, tap->gap_first,
                         tap->gap_last);
    }
    *out_event = tap->given;
    return BUS_OK;
}

void bus_tap_gap(const struct bus_tap *tap, uint64_t *out_first_id, uint64_t *out_last_id)
{
    if (tap == NULL)
        return;
    if (out_first_id != NULL)
        *out_first_id = tap->gap_first;
    if (out_last_id != NULL)
        *out_last_id = tap->gap_last;
}

uint64_t bus_tap_next_id(const struct bus_tap *tap)
{
    if (tap == NULL || api_is_foreign(tap->bus))
        return 0;
    api_lock(tap->bus);
    uint64_t now = tap->bus->session != NULL ? session_event_next(tap->bus->session) : tap->next_id;
    api_unlock(tap->bus);
    return now < tap->next_id ? now : tap->next_id;
}

uint64_t bus_tap_instance(const struct bus_tap *tap)
{
    if (tap == NULL || api_is_foreign(tap->bus))
        return 0;
    api_lock(tap->bus);
    uint64_t instance = tap->bus->session != NULL ? session_instance(tap->bus->session) : 0;
    api_unlock(tap->bus);
    return instance;
}

int bus_tap_fd(const struct bus_tap *tap)
{
    if (tap == NULL || api_is_foreign(tap->bus))
        return -1;
    struct bus *bus = tap->bus;
    api_lock(bus);
    if (bus->tap_fd < 0) {
        bus->tap_fd = api_event_fd();
        api_signal_fd(bus->tap_fd); /* the first bus_tap_next() that finds nothing clears it */
    }
    int fd = bus->tap_fd;
    api_unlock(bus);
    return fd;
}

void bus_tap_stop(struct bus_tap *tap)
{
    if (tap != NULL)
        bus_stop(tap->bus);
}

void bus_tap_close(struct bus_tap **tap)
{
    if (tap == NULL || *tap == NULL)
        return;
    struct bus_tap *closing = *tap;
    *tap = NULL;
    if (!api_is_foreign(closing->bus))
        (void)membership_close(&closing->bus, MEMBERSHIP_AT_ONCE); /* an observer owes nothing */
    event_free(&closing->given);
    event_free(&closing->ahead);
    free(closing);
}
