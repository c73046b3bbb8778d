/* SPDX-License-Identifier: MPL-2.0 */
/* verdict.c -- why a job failed: for a party that waits for the final word, and for operators.
 *
 * A party is told by its own connection as long as that stands.  One that failed, was fenced or
 * has left has none, so it asks like anybody else, as an observer. */
#include "libbus/api/api_internal.h"

#include <bus/admin.h>

#include <stdlib.h>
#include <string.h>

/* Who greets with a job brings it into being, and keeps it there: a question does not. */
#define NO_JOB ""

#define STATE_FINAL 2 /* of VERDICT */

struct row {
    struct bus_report_row public;
    char texts[];
};

struct bus_report {
    struct row **rows;
    size_t count;
    size_t room;
    struct bus_error *root;
    struct bus_report_summary summary;
    char *texts; /* behind the strings of summary */
};

/* ---- reports --------------------------------------------------------------------------------- */

static bool add_row(struct bus_report *report, const struct msg_verdict_row *from)
{
    if (report->count == report->room) {
        size_t room = report->room > 0 ? report->room * 2 : 32;
        struct row **grown = realloc(report->rows, room * sizeof *grown);
        if (grown == NULL)
            return false;
        report->rows = grown;
        report->room = room;
    }
    size_t texts = from->id.bytes + from->party.bytes + from->type.bytes + from->message.bytes + 4;
    struct row *row = malloc(sizeof *row + texts);
    if (row == NULL)
        return false;
    char *at = row->texts;
    row->public = (struct bus_report_row){
        .role = (enum bus_report_role)from->role,
        .number = (uint32_t)from->row,
        .next = from->role == BUS_REPORT_VICTIM ? (uint32_t)from->next : (uint32_t)from->row,
        .is_blame = from->link == 2,
        .steps = (uint32_t)from->steps,
        .stamp_ns = from->stamp_ns,
        .uncertainty_ns = from->uncertainty_ns,
        .kind = error_kind_name(from->kind),
        .incarnation = (uint32_t)from->incarnation,
    };
    row->public.id = api_place(&at, from->id);
    row->public.party = api_place(&at, from->party);
    row->public.type = api_place(&at, from->type);
    row->public.message = api_place(&at, from->message);
    report->rows[report->count++] = row;
    return true;
}

static bool finish(struct bus_report *report, const struct msg_verdict *from)
{
    static const char *const states[] = {"none", "provisional", "final"};
    report->texts = malloc(from->why.bytes + from->reason.bytes + from->strategy.bytes + 3);
    if (report->texts == NULL)
        return false;
    char *at = report->texts;
    report->summary = (struct bus_report_summary){
        .state = states[from->state],
        .attempt = (uint32_t)from->attempt,
        .candidates = (uint32_t)from->candidates,
        .close = (uint32_t)from->close,
        .victims = (uint32_t)from->victims,
        .apart = (uint32_t)from->apart,
        .aside = (uint32_t)from->aside,
        .unknown_causes = (uint32_t)from->unknown,
        .is_complete = (int)from->is_complete,
        .rows_left_out = (uint32_t)from->rows_left_out,
    };
    report->summary.why = api_place(&at, from->why);
    report->summary.reason = api_place(&at, from->reason);
    report->summary.strategy = api_place(&at, from->strategy);
    if (from->error.bytes > 0)
        report->root = error_from_wire(from->error);
    return true;
}

void bus_report_free(struct bus_report **report)
{
    if (report == NULL || *report == NULL)
        return;
    for (size_t i = 0; i < (*report)->count; i++)
        free((*report)->rows[i]);
    free((*report)->rows);
    free((*report)->texts);
    bus_error_unref(&(*report)->root);
    free(*report);
    *report = NULL;
}

/* ---- asking ---------------------------------------------------------------------------------- */

/* Lock. */
static enum bus_err collect(struct bus *bus, struct bus_report *report, int64_t deadline_ns,
                            struct bus_error **reterr)
{
    struct msg msg;
    for (;;) {
        while (session_verdict_take(bus->session, &msg)) {
            bool is_end = msg.type == MSG_VERDICT;
            bool is_kept =
                is_end ? finish(report, &msg.as.verdict) : add_row(report, &msg.as.verdict_row);
            if (!is_kept)
                return error_say_static(reterr, BUS_ENOMEM, &error_no_memory);
            if (is_end)
                return BUS_OK;
        }
        enum bus_err err = api_over(bus);
        if (err != BUS_OK)
            return api_say_over(bus, err, reterr);
        if (!api_wait(bus, &bus->news, &bus->waiters, deadline_ns))
            return error_say_static(reterr, BUS_ETIMEDOUT, &error_timed_out);
    }
}

struct question {
    const char *job;
    uint32_t attempt; /* 0: the newest */
    bool is_waiting;  /* until it is final */
};

/* What the broker says. */
static enum bus_err ask(const struct endpoints *endpoints, const struct bus_options *options,
                        const struct question *question, int64_t join_ns, int64_t deadline_ns,
                        struct bus_report **out_report, struct bus_error **reterr)
{
    struct bus *bus = NULL;
    struct bus_report *report = calloc(1, sizeof *report);
    if (report == NULL)
        return error_say_static(reterr, BUS_ENOMEM, &error_no_memory);
    enum bus_err err = core_open(endpoints, options, NO_JOB, "", &bus, reterr);
    if (err == BUS_OK)
        err = core_join(&bus, join_ns, reterr);
    if (err == BUS_OK) {
        api_lock(bus);
        session_ask_verdict(bus->session, span_text(question->job), question->attempt,
                            question->is_waiting);
        api_wake(bus);
        err = collect(bus, report, deadline_ns, reterr);
        api_unlock(bus);
        (void)core_close(&bus, BUS_POLL); /* an observer owes nothing */
    }
    if (err == BUS_OK)
        *out_report = report;
    else
        bus_report_free(&report);
    return err;
}

enum bus_err bus_report_get(const char *endpoint, const char *job, int is_waiting,
                            int64_t timeout_ms, struct bus_report **out_report,
                            struct bus_error **reterr)
{
    struct endpoints endpoints;
    struct bus_options options;
    char name[LIMIT_NAME_BYTES + 1];
    if (out_report == NULL || !options_time_is_valid(timeout_ms))
        return error_say(
            reterr, BUS_EINVAL, ERROR_TYPE_ARGUMENT,
            "bus_report_get() needs out_report and a timeout_ms of at least 0, or BUS_FOREVER");
    int64_t deadline_ns = api_deadline_ns(timeout_ms);
    bus_options_init(&options);
    enum bus_err err = options_job(job, name, reterr);
    if (err == BUS_OK)
        err = endpoints_read(&endpoints, endpoint, reterr);
    if (err == BUS_OK)
        err = ask(&endpoints, &options,
                  &(struct question){.job = name, .is_waiting = is_waiting != 0}, deadline_ns,
                  deadline_ns, out_report, reterr);
    return err;
}

const struct bus_report_summary *bus_report_summary(const struct bus_report *report)
{
    return &report->summary;
}

const struct bus_error *bus_report_root(const struct bus_report *report)
{
    return report->root;
}

size_t bus_report_count(const struct bus_report *report)
{
    return report->count;
}

const struct bus_report_row *bus_report_at(const struct bus_report *report, size_t index)
{
    return index < report->count ? &report->rows[index]->public : NULL;
}

const struct bus_report_row *bus_report_find(const struct bus_report *report, uint32_t number)
{
    for (size_t i = 0; i < report->count; i++)
        if (report->rows[i]->public.number == number)
            return &report->rows[i]->public;
    return NULL;
}

/* ---- a party that waits ---------------------------------------------------------------------- */

/* The final word, if this party was told; lock. */
static struct bus_error *told(const struct bus *bus)
{
    struct buffer *encoded = NULL;
    struct bus_error *verdict = NULL;
    if (bus->session != NULL && session_verdict(bus->session, &encoded) == STATE_FINAL)
        verdict = error_from_wire(buffer_span(encoded));
    buffer_unref(&encoded);
    return verdict;
}

/* Whether word may still come by its own connection; lock. */
static bool is_in_touch(const struct bus *bus)
{
    return bus->session != NULL && !bus->is_disconnected &&
           (bus->end == BUS_OK || session_is_condemned(bus->session));
}

/* As observer, with a bound on the broker's absence. */
static enum bus_err ask_for_final(struct bus *bus, const struct endpoints *endpoints,
                                  uint32_t attempt, int64_t deadline_ns,
                                  struct bus_error **out_verdict)
{
    const struct question question = {.job = bus->job, .attempt = attempt, .is_waiting = true};
    struct bus_report *report = NULL;
    int64_t lost_ns = api_deadline_ns(bus->options.broker_lost_ms);
    int64_t join_ns = lost_ns < deadline_ns ? lost_ns : deadline_ns;
    enum bus_err err =
        ask(endpoints, &bus->options, &question, join_ns, deadline_ns, &report, NULL);
    if (err == BUS_ETIMEDOUT && join_ns == lost_ns && api_deadline_ns(BUS_POLL) < deadline_ns)
        err = BUS_ELOST;
    if (err == BUS_OK && bus_report_root(report) != NULL)
        *out_verdict = bus_error_ref(bus_report_root(report));
    else if (err == BUS_OK)
        *out_verdict = bus_failure(bus); /* the job is forgotten: this is the last word */
    bus_report_free(&report);
    return err;
}

enum bus_err bus_verdict(struct bus *bus, int64_t timeout_ms, struct bus_error **out_verdict)
{
    if (bus == NULL || out_verdict == NULL || !options_time_is_valid(timeout_ms))
        return BUS_EINVAL;
    if (api_is_foreign(bus))
        return BUS_ECLOSED;
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
    api_unlock(bus);
    if (verdict == NULL && err == BUS_OK)
        err = ask_for_final(bus, &endpoints, attempt, deadline_ns, &verdict);
    if (err == BUS_OK)
        *out_verdict = verdict;
    api_unref(bus);
    return err;
}
