/* SPDX-License-Identifier: MPL-2.0 */
/* admin.c -- the administrative handle: its connections, turns of its callers, and one question. */
#include "libbus/api/admin.h"

#include "libbus/api/clock.h"
#include "libbus/api/endpoint.h"
#include "libbus/api/error.h"
#include "libbus/api/fork.h"
#include "libbus/api/lock.h"
#include "libbus/api/membership.h"
#include "libbus/api/model.h"
#include "libbus/api/news.h"
#include "libbus/api/options.h"
#include "libbus/base/must.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* A client that greets with a job creates it and keeps it; an observer must not. */
#define NO_JOB ""

#define NS_PER_S INT64_C(1000000000)

enum { HOPS_MAX = 3 }; /* brokers in a row that send a question elsewhere */

/* ---- the handle ------------------------------------------------------------------------------ */

static const struct bus_admin_options admin_defaults = {
    .struct_bytes = sizeof(struct bus_admin_options),
};

void bus_admin_options_init_sized(struct bus_admin_options *options, size_t bytes)
{
    options_give(options, bytes, &admin_defaults, sizeof admin_defaults);
}

static struct bus_admin *admin_new(void)
{
    struct bus_admin *admin = calloc(1, sizeof *admin);
    if (admin == NULL)
        return NULL;
    bus_options_init(&admin->options);
    admin->fork_generation = fork_watch();
    if (pthread_mutex_init(&admin->lock, NULL) != 0) {
        free(admin);
        return NULL;
    }
    if (api_cond_init(&admin->turn_over))
        return admin;
    pthread_mutex_destroy(&admin->lock);
    free(admin);
    return NULL;
}

static bool admin_is_foreign(const struct bus_admin *admin)
{
    return admin->fork_generation != atomic_load_explicit(&fork_generation, memory_order_relaxed);
}

static void connection_drop(struct bus **kept)
{
    if (*kept != NULL)
        (void)membership_close(kept, MEMBERSHIP_AT_ONCE); /* an observer owes nothing */
}

void bus_admin_close(struct bus_admin **admin)
{
    if (admin == NULL || *admin == NULL)
        return;
    struct bus_admin *closing = *admin;
    *admin = NULL;
    if (admin_is_foreign(closing))
        return; /* threads and locks of the parent are not here */
    connection_drop(&closing->courier);
    connection_drop(&closing->observer);
    pthread_cond_destroy(&closing->turn_over);
    pthread_mutex_destroy(&closing->lock);
    key_pair_forget(&closing->endpoints.own);
    free(closing);
}

static enum bus_err connection_open(struct bus_admin *admin, bool is_courier, struct bus **kept,
                                    bool is_patient, int64_t deadline_ns, struct bus_error **reterr)
{
    enum bus_err err =
        is_courier
            ? membership_open_courier(&admin->endpoints, &admin->options, NO_JOB, kept, reterr)
            : membership_open(&admin->endpoints, &admin->options, NO_JOB, "", kept, reterr);
    return err == BUS_OK ? membership_join(kept, is_patient, deadline_ns, reterr) : err;
}

enum bus_err bus_admin_open(const char *endpoint, const struct bus_admin_options *options,
                            int64_t timeout_ms, struct bus_admin **out_admin,
                            struct bus_error **reterr)
{
    struct bus_admin_options known = admin_defaults;
    if (out_admin == NULL || !options_time_is_valid(timeout_ms))
        return error_say(reterr, BUS_EINVAL, ERROR_TYPE_ARGUMENT,
                         "bus_admin_open() needs out_admin and a timeout_ms of at least 0, or "
                         "BUS_FOREVER");
    if (options != NULL && !options_take(&known, sizeof known, options, options->struct_bytes))
        return error_say(reterr, BUS_EINVAL, ERROR_TYPE_ARGUMENT,
                         "the options are not initialised, or were made for a newer library");
    int64_t deadline_ns = api_deadline_ns(timeout_ms);
    struct bus_admin *admin = admin_new();
    if (admin == NULL)
        return error_give(reterr, BUS_ENOMEM, &error_no_memory);
    enum bus_err err = options_job(known.job, admin->job, reterr);
    if (err == BUS_OK)
        err = endpoints_read(&admin->endpoints, endpoint, reterr);
    if (err == BUS_OK)
        err = endpoints_use_key(&admin->endpoints, known.key, reterr);
    admin->options.on_doubt = known.on_doubt;
    admin->options.on_doubt_arg = known.on_doubt_arg;
    if (err == BUS_OK)
        err = connection_open(admin, false, &admin->observer, known.is_patient != 0, deadline_ns,
                              reterr);
    admin->options.on_doubt = NULL; /* later calls tell nobody */
    if (err == BUS_OK)
        endpoints_met(&admin->endpoints);
    if (err == BUS_OK)
        *out_admin = admin;
    else
        bus_admin_close(&admin);
    return err;
}

/* ---- turns ----------------------------------------------------------------------------------- */

/* Waits until the calls before this one have ended; false: the deadline has passed. */
static bool turn_wait(struct bus_admin *admin, int64_t deadline_ns)
{
    while (admin->is_turn) {
        if (deadline_ns == INT64_MAX) {
            must(pthread_cond_wait(&admin->turn_over, &admin->lock) == 0);
            continue;
        }
        const struct timespec until = {.tv_sec = (time_t)(deadline_ns / NS_PER_S),
                                       .tv_nsec = (long)(deadline_ns % NS_PER_S)};
        int result = pthread_cond_timedwait(&admin->turn_over, &admin->lock, &until);
        must(result == 0 || result == ETIMEDOUT);
        if (result == ETIMEDOUT && admin->is_turn)
            return false;
    }
    return true;
}

static enum bus_err turn_take(struct bus_admin *admin, int64_t deadline_ns,
                              struct bus_error **reterr)
{
    enum bus_err err = BUS_OK;
    pthread_mutex_lock(&admin->lock);
    if (admin->is_turn && pthread_equal(admin->turn_owner, pthread_self()) != 0) {
        err = error_say(reterr, BUS_EINVAL, ERROR_TYPE_ARGUMENT,
                        "a bus_attachment_fn cannot call the handle that calls it");
    } else if (!turn_wait(admin, deadline_ns)) {
        err = error_give(reterr, BUS_ETIMEDOUT, &error_timed_out);
    } else {
        admin->is_turn = true;
        admin->turn_owner = pthread_self();
    }
    pthread_mutex_unlock(&admin->lock);
    return err;
}

enum bus_err admin_begin(struct bus_admin *admin, const char *job, int64_t timeout_ms,
                         struct admin_call *out_call, struct bus_error **reterr)
{
    if (admin == NULL || !options_time_is_valid(timeout_ms))
        return error_say(reterr, BUS_EINVAL, ERROR_TYPE_ARGUMENT,
                         "the call needs a handle and a timeout_ms of at least 0, or BUS_FOREVER");
    if (admin_is_foreign(admin))
        return error_give(reterr, BUS_ECLOSED, &error_forked);
    out_call->admin = admin;
    out_call->deadline_ns = api_deadline_ns(timeout_ms);
    enum bus_err err = options_job(job != NULL ? job : admin->job, out_call->job, reterr);
    return err == BUS_OK ? turn_take(admin, out_call->deadline_ns, reterr) : err;
}

void admin_end(struct admin_call *call)
{
    struct bus_admin *admin = call->admin;
    pthread_mutex_lock(&admin->lock);
    admin->is_turn = false;
    pthread_cond_signal(&admin->turn_over);
    pthread_mutex_unlock(&admin->lock);
}

/* ---- connections ----------------------------------------------------------------------------- */

/* Gives the connection of the handle, or makes one.  A connection that has ended is replaced.  One
 * that still tries its endpoints is kept. */
static enum bus_err connection_get(struct admin_call *call, bool is_courier, struct bus **out_bus,
                                   struct bus_error **reterr)
{
    struct bus_admin *admin = call->admin;
    struct bus **kept = is_courier ? &admin->courier : &admin->observer;
    enum bus_err err = BUS_OK;
    if (*kept != NULL) {
        api_lock(*kept);
        bool is_ended = api_over(*kept) != BUS_OK;
        api_unlock(*kept);
        if (is_ended)
            connection_drop(kept);
    }
    if (*kept == NULL)
        err = connection_open(admin, is_courier, kept, true, call->deadline_ns, reterr);
    if (err != BUS_OK)
        return err;
    api_lock(*kept);
    *out_bus = *kept;
    return BUS_OK;
}

enum bus_err admin_observer(struct admin_call *call, struct bus **out_bus,
                            struct bus_error **reterr)
{
    return connection_get(call, false, out_bus, reterr);
}

enum bus_err admin_courier(struct admin_call *call, struct bus **out_bus, struct bus_error **reterr)
{
    return connection_get(call, true, out_bus, reterr);
}

void admin_connection_done(struct admin_call *call, struct bus *bus, bool is_answered)
{
    struct bus_admin *admin = call->admin;
    api_unlock(bus);
    if (!is_answered)
        connection_drop(bus == admin->courier ? &admin->courier : &admin->observer);
}

enum bus_err observer_wait(struct bus *bus, int64_t deadline_ns, struct bus_error **reterr)
{
    enum bus_err err = api_over(bus);
    if (err != BUS_OK)
        return api_say_over(bus, err, reterr);
    if (api_wait(bus, &bus->news, &bus->waiters, deadline_ns))
        return BUS_OK;
    if (session_state(bus->session) != SESSION_UP)
        return membership_say_unreachable(bus, BUS_ETIMEDOUT, reterr);
    return error_give(reterr, BUS_ETIMEDOUT, &error_timed_out);
}

/* ---- one question ---------------------------------------------------------------------------- */

/* Any question is answered so that the broker's access file does not allow. */
static bool is_denied(const struct msg *row)
{
    return row->type == MSG_JOB_DONE && row->as.job_done.code == CODE_EDENIED &&
           span_equal(row->as.job_done.type, span_text(ERROR_TYPE_NOT_AUTHORISED));
}

static enum bus_err say_denied(const struct msg *row, struct bus_error **reterr)
{
    return error_say(reterr, BUS_EDENIED, ERROR_TYPE_NOT_AUTHORISED, "%.*s",
                     (int)row->as.job_done.message.bytes,
                     (const char *)row->as.job_done.message.data);
}

/* The broker says that another one has the job. */
static bool is_elsewhere(const struct msg *row)
{
    return row->type == MSG_JOB_DONE && row->as.job_done.code == CODE_EDENIED &&
           span_equal(row->as.job_done.type, span_text(ERROR_TYPE_ELSEWHERE));
}

/* Lock held.  The handle knows of endpoints what the connection knows. */
static enum bus_err say_elsewhere(struct admin_call *call, const struct bus *bus,
                                  const struct msg *row, struct bus_error **reterr)
{
    const struct msg_job_done *done = &row->as.job_done;
    call->admin->endpoints = bus->endpoints;
    memcpy(call->elsewhere, done->endpoint.data, done->endpoint.bytes);
    call->elsewhere[done->endpoint.bytes] = '\0';
    return error_say(reterr, BUS_EDENIED, ERROR_TYPE_ELSEWHERE, "%.*s", (int)done->message.bytes,
                     (const char *)done->message.data);
}

/* Lock held. */
static enum bus_err rows_collect(struct admin_call *call, struct bus *bus,
                                 enum bus_err (*on_row)(struct bus *bus, const struct msg *row,
                                                        void *arg, struct bus_error **reterr),
                                 void *arg, bool *out_is_answered, struct bus_error **reterr)
{
    struct msg row;
    for (;;) {
        while (session_answer_take(bus->session, &row)) {
            *out_is_answered = msg_is_end(&row);
            enum bus_err err = is_elsewhere(&row) ? say_elsewhere(call, bus, &row, reterr)
                               : is_denied(&row)  ? say_denied(&row, reterr)
                                                  : on_row(bus, &row, arg, reterr);
            if (err != BUS_OK || *out_is_answered)
                return err;
        }
        enum bus_err err = observer_wait(bus, call->deadline_ns, reterr);
        if (err != BUS_OK)
            return err;
    }
}

static enum bus_err ask_once(struct admin_call *call, const struct msg *question,
                             enum bus_err (*on_row)(struct bus *bus, const struct msg *row,
                                                    void *arg, struct bus_error **reterr),
                             void *arg, struct bus_error **reterr)
{
    struct bus *bus = NULL;
    bool is_answered = false;
    enum bus_err err = admin_observer(call, &bus, reterr);
    if (err != BUS_OK)
        return err;
    session_ask(bus->session, question);
    api_wake(bus);
    call->elsewhere[0] = '\0';
    err = rows_collect(call, bus, on_row, arg, &is_answered, reterr);
    admin_connection_done(call, bus, is_answered);
    return err;
}

/* The next connections of the handle go to the endpoint that the broker named.  false: it named
 * none that can be used. */
static bool go_elsewhere(struct admin_call *call)
{
    struct bus_admin *admin = call->admin;
    if (call->elsewhere[0] == '\0' || !endpoints_go(&admin->endpoints, call->elsewhere))
        return false;
    connection_drop(&admin->courier);
    connection_drop(&admin->observer);
    call->is_led = true;
    return true;
}

enum bus_err admin_ask(struct admin_call *call, const struct msg *question,
                       enum bus_err (*on_row)(struct bus *bus, const struct msg *row, void *arg,
                                              struct bus_error **reterr),
                       void *arg, struct bus_error **reterr)
{
    struct bus_error *error = NULL;
    enum bus_err err;
    unsigned hops = 0;
    do {
        bus_error_unref(&error);
        err = ask_once(call, question, on_row, arg, &error);
    } while (err == BUS_EDENIED && hops++ < HOPS_MAX && go_elsewhere(call));
    if (err != BUS_OK && error != NULL)
        return error_give(reterr, err, error);
    bus_error_unref(&error);
    return err;
}

static enum bus_err pass_over(struct bus *bus, const struct msg *row, void *arg,
                              struct bus_error **reterr)
{
    (void)bus;
    (void)row;
    (void)arg;
    (void)reterr;
    return BUS_OK; /* where the answer comes from is what matters */
}

bool admin_follow(struct admin_call *call)
{
    const struct msg question = {.type = MSG_JOB_SHOW,
                                 .as.job_show = {.job = span_text(call->job)}};
    struct bus_error *error = NULL; /* no call of the program failed yet */
    call->is_led = false;
    enum bus_err err = admin_ask(call, &question, pass_over, NULL, &error);
    bus_error_unref(&error);
    return err == BUS_OK && call->is_led;
}
