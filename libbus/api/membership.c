/* SPDX-License-Identifier: MPL-2.0 */
/* membership.c -- how a bus is put together, joins its job, leaves it, and is taken apart. */
#include "libbus/api/membership.h"

#include "libbus/api/await_table.h"
#include "libbus/api/clock.h"
#include "libbus/api/courier.h"
#include "libbus/api/endpoint.h"
#include "libbus/api/error.h"
#include "libbus/api/error_fields.h"
#include "libbus/api/event_fd.h"
#include "libbus/api/fork.h"
#include "libbus/api/handler.h"
#include "libbus/api/link_turn.h"
#include "libbus/api/lock.h"
#include "libbus/api/model.h"
#include "libbus/api/news.h"
#include "libbus/api/open_list.h"
#include "libbus/api/options.h"
#include "libbus/api/sub_list.h"
#include "libbus/api/thread.h"
#include "libbus/base/pattern.h"
#include "libbus/io/seal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SESSION_MEMORY_MAX (UINT64_C(1) << 40) /* the session's own limits are narrower */

/* ---- beginning ------------------------------------------------------------------------------- */

static bool lock_init(pthread_mutex_t *lock)
{
    pthread_mutexattr_t attributes;
    if (pthread_mutexattr_init(&attributes) != 0)
        return false;
    /* The lock is held for less time than a system call takes: so waiters spin first. */
    bool is_made = pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_ADAPTIVE_NP) == 0 &&
                   pthread_mutex_init(lock, &attributes) == 0;
    pthread_mutexattr_destroy(&attributes);
    return is_made;
}

/* Without session, link and threads; NULL: no memory. */
static struct bus *membership_new(void)
{
    struct bus *bus = calloc(1, sizeof *bus);
    if (bus == NULL)
        return NULL;
    atomic_init(&bus->refs, 1);
    atomic_init(&bus->is_stopped, false);
    bus->failure_fd = bus->room_fd = bus->tap_fd = bus->notice_fd = -1;
    bus->answers_fd = -1;
    for (int lane = 0; lane < LINK_LANE_COUNT; lane++)
        bus->pollers[lane].call_fd = bus->pollers[lane].fd = -1;
    bus->fork_generation = fork_watch();
    bus->opener = gettid();
    bus->process_began_ns = api_process_began_ns();
    memory_heap_init(&bus->memory, SESSION_MEMORY_MAX);
    id_map_init(&bus->subs_by_number, &bus->memory);
    list_init(&bus->subs);
    list_init(&bus->open);
    bool has_lock = lock_init(&bus->lock);
    bool has_news = has_lock && api_cond_init(&bus->news);
    if (has_news && api_cond_init(&bus->handler_news))
        return bus;
    if (has_news)
        pthread_cond_destroy(&bus->news);
    if (has_lock)
        pthread_mutex_destroy(&bus->lock);
    free(bus);
    return NULL;
}

static bool session_make(struct bus *bus)
{
    char host[LIMIT_NAME_BYTES + 1] = "";
    char library[64];
    uint8_t auditor[KEY_BYTES];
    bool has_auditor = false;
    (void)options_auditor(bus->options.auditor, auditor, &has_auditor, NULL); /* checked before */
    uint8_t trace_id[LIMIT_TRACE_ID_BYTES];
    bool has_trace = false;
    (void)options_traceparent(bus->options.traceparent, trace_id, &has_trace, NULL); /* as well */
    trace_set(&bus->trace, span_of(trace_id, has_trace ? sizeof trace_id : 0));
    (void)gethostname(host, sizeof host - 1); /* for people; without a name there is none */
    (void)snprintf(library, sizeof library, "libbus %s", bus_version()); /* for people as well */
    const struct session_options options = {
        .job = span_text(bus->job),
        .party = span_text(bus->party),
        .library = span_text(library),
        .host = name_is_valid(span_text(host)) ? span_text(host) : SPAN_NONE,
        .pid = (uint64_t)getpid(),
        .trace_id = span_of(bus->trace.id, bus->trace.is_set ? sizeof bus->trace.id : 0),
        .client = api_random(),
        .heartbeat_ms = bus->options.heartbeat_ms,
        .lost_after_ms = bus->options.lost_after_ms,
        .grace_ms = bus->options.reconnect_grace_ms,
        .broker_lost_ms = bus->options.broker_lost_ms,
        .endpoints = bus->endpoints.listed,
        .outbox_bytes_max = bus->options.outbox_bytes_max,
        .inbox_bytes_max = bus->options.inbox_bytes_max,
        .is_guard = bus->options.is_guard != 0,
        .is_courier = bus->is_courier,
        .disclosure = (enum disclosure)bus->options.disclosure,
        .guard = bus->guard,
        .run = span_text(bus->options.run),
        .run_rule = (uint8_t)bus->options.run_rule,
        .auditor = span_of(auditor, has_auditor ? KEY_BYTES : 0),
        .can_seal = seal_is_there(),
    };
    return session_new(&bus->memory, &options, api_now_ns(), &bus->session) == CODE_OK;
}

int64_t membership_broker_lost_ms(const struct bus *bus)
{
    return bus->session != NULL ? session_broker_lost_ms(bus->session)
                                : bus->options.broker_lost_ms;
}

/* What only a party has, not an observer. */
static bool party_make(struct bus *bus)
{
    if (*bus->party == '\0')
        return true;
    snprintf(bus->replies, sizeof bus->replies, "%s/_replies", bus->party);
    bus->encoder = calloc(1, sizeof *bus->encoder);
    bus->awaits = await_table_new();
    bus->topics = calloc(API_TOPIC_CACHE, sizeof *bus->topics);
    bus->failure_fd = api_event_fd();
    bus->room_fd = api_event_fd();
    return bus->encoder != NULL && bus->awaits != NULL && bus->topics != NULL &&
           bus->failure_fd >= 0 && bus->room_fd >= 0;
}

static bool threads_start(struct bus *bus)
{
    bool wants_handler = bus->options.on_failure != NULL || bus->options.failure_signal != 0;
    api_ref(bus);
    bus->has_thread = thread_start(&bus->thread, "errbus", thread_main, bus);
    if (!bus->has_thread)
        api_unref(bus);
    if (!bus->has_thread || !wants_handler)
        return bus->has_thread;
    api_ref(bus);
    bus->has_handler = thread_start(&bus->handler, "errbus-failure", handler_main, bus);
    if (!bus->has_handler)
        api_unref(bus);
    return bus->has_handler;
}

static enum bus_err open_as(bool is_courier, const struct endpoints *endpoints,
                            const struct bus_options *options, const char *job, const char *party,
                            struct bus **out_bus, struct bus_error **reterr)
{
    uint64_t guard = 0;
    enum bus_err err = *party != '\0' ? options_token(options, &guard, reterr) : BUS_OK;
    if (err != BUS_OK)
        return err;
    struct bus *bus = membership_new();
    if (bus == NULL)
        return error_give(reterr, BUS_ENOMEM, &error_no_memory);
    bus->options = *options;
    bus->options.token = NULL; /* the caller's */
    bus->guard = guard;
    bus->is_courier = is_courier;
    bus->endpoints = *endpoints;
    memcpy(bus->job, job, strlen(job) + 1);
    memcpy(bus->party, party, strlen(party) + 1);
    bus->options.job = bus->job;
    bus->options.party = bus->party;
    bus->turn = thread_turn_new();
    if (bus->turn == NULL || !party_make(bus) || !session_make(bus) ||
        link_open(&bus->link) != LINK_OK || !threads_start(bus)) {
        (void)membership_close(&bus, MEMBERSHIP_AT_ONCE); /* it owes nothing yet */
        return error_give(reterr, BUS_ENOMEM, &error_no_resources);
    }
    bus->options.run = NULL; /* the caller's */
    bus->options.auditor = NULL;
    bus->options.traceparent = NULL;
    *out_bus = bus;
    return BUS_OK;
}

enum bus_err membership_open(const struct endpoints *endpoints, const struct bus_options *options,
                             const char *job, const char *party, struct bus **out_bus,
                             struct bus_error **reterr)
{
    return open_as(false, endpoints, options, job, party, out_bus, reterr);
}

enum bus_err membership_open_courier(const struct endpoints *endpoints,
                                     const struct bus_options *options, const char *job,
                                     struct bus **out_bus, struct bus_error **reterr)
{
    return open_as(true, endpoints, options, job, "", out_bus, reterr);
}

enum bus_err membership_say_unreachable(struct bus *bus, enum bus_err err,
                                        struct bus_error **reterr)
{
    char text[(LIMIT_ENDPOINTS + 2) * (2 * LIMIT_ENDPOINT_BYTES + 160)];
    endpoints_describe(&bus->endpoints, text, sizeof text);
    bool is_silent = err == BUS_ETIMEDOUT && endpoints_are_silent(&bus->endpoints);
    return error_say(reterr, err, is_silent ? ERROR_TYPE_NO_GREETING : ERROR_TYPE_UNREACHABLE,
                     "no broker in reach: %s", text);
}

static enum bus_err say_denied(struct bus *bus, struct bus_error **reterr)
{
    char text[(LIMIT_ENDPOINTS + 2) * (2 * LIMIT_ENDPOINT_BYTES + 160)];
    bool has_broker = endpoints_have_broker(&bus->endpoints);
    endpoints_describe(&bus->endpoints, text, sizeof text);
    return error_say(reterr, BUS_EDENIED,
                     has_broker ? ERROR_TYPE_NOT_AUTHORISED : ERROR_TYPE_UNREACHABLE, "%s", text);
}

/* Lock held, but not while the application is told.  Whether it was. */
static bool tell_doubt(struct bus *bus)
{
    char text[2 * LIMIT_ENDPOINT_BYTES + 320];
    bus_doubt_fn *on_doubt = bus->options.on_doubt;
    if (on_doubt == NULL || !endpoints_doubt(&bus->endpoints, text, sizeof text))
        return false;
    api_unlock(bus);
    on_doubt(text, bus->options.on_doubt_arg);
    api_lock(bus);
    return true;
}

enum bus_err membership_join(struct bus **bus, bool is_patient, int64_t deadline_ns,
                             struct bus_error **reterr)
{
    struct bus *joining = *bus;
    enum bus_err err = BUS_OK;
    api_lock(joining);
    while (session_state(joining->session) != SESSION_UP) {
        err = joining->end;
        if (joining->unfit != NULL) {
            err = BUS_EINVAL;
            (void)error_give(reterr, err, bus_error_ref(joining->unfit));
        } else if (err != BUS_OK) {
            (void)api_say_over(joining, err, reterr);
        } else if (endpoints_are_denied(&joining->endpoints) ||
                   endpoints_data_is_denied(&joining->endpoints)) {
            err = say_denied(joining, reterr);
        } else if (!is_patient && endpoints_are_out_of_reach(&joining->endpoints)) {
            err = membership_say_unreachable(joining, BUS_ELOST, reterr);
        } else if (endpoints_lack_data(&joining->endpoints)) {
            err = membership_say_unreachable(joining, BUS_ELOST, reterr);
        } else if (tell_doubt(joining)) {
            continue; /* there may be news by now */
        } else if (!api_wait(joining, &joining->news, &joining->waiters, deadline_ns)) {
            err = membership_say_unreachable(joining, BUS_ETIMEDOUT, reterr);
        }
        if (err != BUS_OK)
            break;
    }
    if (err == BUS_OK && joining->options.is_guard)
        (void)snprintf(joining->token, sizeof joining->token, "%016" PRIx64,
                       session_token(joining->session));
    api_unlock(joining);
    if (err != BUS_OK)
        (void)membership_close(
            bus, MEMBERSHIP_AT_ONCE); /* the caller needs the reason of the failed join */
    return err;
}

/* ---- end ------------------------------------------------------------------------------------- */

/* Waits until the broker has answered all that was said.  Lock held. */
static enum bus_err wait_answered(struct bus *bus, int64_t deadline_ns)
{
    struct session_mark mark = session_mark(bus->session);
    while (!session_mark_reached(bus->session, mark)) {
        if (bus->end != BUS_OK)
            return bus->end == BUS_ECLOSED ? BUS_OK : bus->end;
        if (!api_wait(bus, &bus->news, &bus->waiters, deadline_ns))
            return BUS_ETIMEDOUT;
    }
    return BUS_OK;
}

/* Sends what is left, and leaves.  Lock held. */
static enum bus_err leave(struct bus *bus, int64_t deadline_ns)
{
    sub_collect_all(bus);
    api_wake(bus);
    enum bus_err err = bus->end == BUS_OK && session_is_welcome(bus->session)
                           ? wait_answered(bus, deadline_ns)
                           : BUS_OK;
    if (bus->end != BUS_OK && bus->end != BUS_ECLOSED)
        err = bus->end;
    session_leave(bus->session);
    api_tell(bus);
    api_wake(bus);
    while (!bus->is_disconnected) {
        if (!api_wait(bus, &bus->news, &bus->waiters, deadline_ns))
            return err == BUS_OK && session_is_welcome(bus->session) ? BUS_ETIMEDOUT : err;
    }
    if (err == BUS_OK && bus->end != BUS_ECLOSED)
        err = bus->end;
    if (err == BUS_OK && session_refusals_ever(bus->session) > bus->refusals_told)
        err = BUS_ESETTLED;
    return err;
}

static void stop_thread(struct bus *bus)
{
    api_lock(bus);
    bus->is_done = true;
    link_wake(bus->link);
    api_unlock(bus);
    pthread_join(bus->thread, NULL);
    bus->has_thread = false;
}

enum bus_err membership_close(struct bus **bus, int64_t deadline_ns)
{
    struct bus *closing = *bus;
    enum bus_err err = BUS_OK;
    atomic_store_explicit(&closing->is_stopped, true, memory_order_release);
    if (closing->has_thread) {
        api_lock(closing);
        err = leave(closing, deadline_ns);
        api_unlock(closing);
        stop_thread(closing);
    }
    open_list_remove(closing); /* only now: until here, the end of the process flushes it */
    attach_close(closing);
    api_lock(closing);
    closing->is_closed = true;
    pthread_cond_broadcast(&closing->handler_news);
    sub_detach_all(closing);
    await_discard_all(closing);
    session_free(&closing->session);
    api_tell_all(closing);
    api_unlock(closing);
    if (closing->has_handler && !handler_finish(closing, deadline_ns))
        err = BUS_ETIMEDOUT;
    *bus = NULL; /* not before: a handler that runs may use it */
    link_close(&closing->link, API_CLOSE_LINGER_MS);
    api_unref(closing);
    return err;
}
