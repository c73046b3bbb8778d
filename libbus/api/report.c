/* SPDX-License-Identifier: MPL-2.0 */
/* report.c -- a verdict with all its candidates, as the broker tells it to an observer. */
#include "libbus/api/report.h"

#include "libbus/api/admin.h"
#include "libbus/api/error.h"
#include "libbus/api/error_wire.h"
#include "libbus/api/grow.h"
#include "libbus/api/lock.h"
#include "libbus/api/model.h"
#include "libbus/api/names.h"

#include <stdlib.h>

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

static bool report_add_row(struct bus_report *report, const struct msg_verdict_row *from)
{
    struct row **rows = api_grow(report->rows, report->count, &report->room, sizeof(struct row *));
    if (rows == NULL)
        return false;
    report->rows = rows;
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

static bool report_finish(struct bus_report *report, const struct msg_verdict *from)
{
    report->texts = malloc(from->why.bytes + 1);
    if (report->texts == NULL)
        return false;
    char *at = report->texts;
    report->summary = (struct bus_report_summary){
        .state = (enum bus_report_state)from->state,
        .outlook = (enum bus_outlook)from->outlook,
        .reason = names_reason(from->reason),
        .strategy = names_strategy(from->strategy),
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

/* Lock held. */
static enum bus_err report_collect(struct bus *observer, struct bus_report *report,
                                   int64_t deadline_ns, struct bus_error **reterr)
{
    struct msg msg;
    for (;;) {
        while (session_verdict_take(observer->session, &msg)) {
            bool is_end = msg.type == MSG_VERDICT;
            bool is_kept = is_end ? report_finish(report, &msg.as.verdict)
                                  : report_add_row(report, &msg.as.verdict_row);
            if (!is_kept)
                return error_give(reterr, BUS_ENOMEM, &error_no_memory);
            if (is_end)
                return BUS_OK;
        }
        enum bus_err err = observer_wait(observer, deadline_ns, reterr);
        if (err != BUS_OK)
            return err;
    }
}

enum bus_err report_read(struct bus *observer, const struct report_question *question,
                         int64_t deadline_ns, struct bus_report **out_report,
                         struct bus_error **reterr)
{
    struct bus_report *report = calloc(1, sizeof *report);
    if (report == NULL)
        return error_give(reterr, BUS_ENOMEM, &error_no_memory);
    session_ask_verdict(observer->session, span_text(question->job), question->attempt,
                        question->is_waiting);
    api_wake(observer);
    enum bus_err err = report_collect(observer, report, deadline_ns, reterr);
    if (err == BUS_OK)
        *out_report = report;
    else
        bus_report_free(&report);
    return err;
}

/* Asks once, over the observer of the handle. */
static enum bus_err report_ask(struct admin_call *call, bool is_waiting,
                               struct bus_report **out_report, struct bus_error **reterr)
{
    struct bus *observer = NULL;
    enum bus_err err = admin_observer(call, &observer, reterr);
    if (err != BUS_OK)
        return err;
    err =
        report_read(observer, &(struct report_question){.job = call->job, .is_waiting = is_waiting},
                    call->deadline_ns, out_report, reterr);
    admin_connection_done(call, observer, err == BUS_OK);
    return err;
}

/* A broker that has no such job may know of another one that has. */
enum bus_err bus_admin_report_get(struct bus_admin *admin, const char *job, int is_waiting,
                                  int64_t timeout_ms, struct bus_report **out_report,
                                  struct bus_error **reterr)
{
    struct admin_call call;
    struct bus_report *report = NULL;
    if (out_report == NULL)
        return error_say(reterr, BUS_EINVAL, ERROR_TYPE_ARGUMENT,
                         "bus_admin_report_get() needs out_report");
    enum bus_err err = admin_begin(admin, job, timeout_ms, &call, reterr);
    if (err != BUS_OK)
        return err;
    err = report_ask(&call, is_waiting != 0, &report, reterr);
    if (err == BUS_OK && bus_report_summary(report)->outlook == BUS_OUTLOOK_UNKNOWN &&
        admin_follow(&call)) {
        bus_report_free(&report);
        err = report_ask(&call, is_waiting != 0, &report, reterr);
    }
    if (err == BUS_OK)
        *out_report = report;
    admin_end(&call);
    return err;
}

const struct bus_report_summary *bus_report_summary(const struct bus_report *report)
{
    static const struct bus_report_summary none = {
        .reason = BUS_REASON_UNKNOWN, .strategy = BUS_STRATEGY_UNKNOWN, .why = ""};
    return report != NULL ? &report->summary : &none;
}

const struct bus_error *bus_report_root(const struct bus_report *report)
{
    return report != NULL ? report->root : NULL;
}

size_t bus_report_count(const struct bus_report *report)
{
    return report != NULL ? report->count : 0;
}

const struct bus_report_row *bus_report_at(const struct bus_report *report, size_t index)
{
    return report != NULL && index < report->count ? &report->rows[index]->public : NULL;
}

const struct bus_report_row *bus_report_find(const struct bus_report *report, uint32_t number)
{
    for (size_t i = 0; report != NULL && i < report->count; i++)
        if (report->rows[i]->public.number == number)
            return &report->rows[i]->public;
    return NULL;
}
