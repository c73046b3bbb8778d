/* SPDX-License-Identifier: MPL-2.0 */
/* without.c -- what would fail if a party were lost now: the rows of the broker, in order. */
#include "libbus/api/admin.h"
#include "libbus/api/error.h"
#include "libbus/api/grow.h"
#include "libbus/api/model.h"
#include "libbus/base/pattern.h"

#include <bus/why.h>

#include <stdlib.h>
#include <string.h>

struct row {
    struct bus_without_row public;
    char name[LIMIT_NAME_BYTES + 1];
};

struct bus_without {
    struct row **rows;
    size_t count, room;
    struct bus_without_job job;
    uint64_t left_out;
};

const char *bus_without_kind_name(enum bus_without_kind kind)
{
    static const char *const names[] = {"owed",   "needs", "reply", "replaced", "party", "group",
                                        "reader", "again", "dead",  "empty",    "unread"};
    return (unsigned)kind < sizeof names / sizeof names[0] ? names[kind] : "unknown";
}

const char *bus_without_outlook_name(enum bus_without_outlook outlook)
{
    static const char *const names[] = {"goes_on", "completes", "waits", "fails"};
    return (unsigned)outlook < sizeof names / sizeof names[0] ? names[outlook] : "unknown";
}

static bool add_without_row(struct bus_without *without, const struct msg_without_row *from)
{
    struct row **rows =
        api_grow(without->rows, without->count, &without->room, sizeof(struct row *));
    if (rows == NULL)
        return false;
    without->rows = rows;
    struct row *row = malloc(sizeof *row);
    if (row == NULL)
        return false;
    char *at = row->name;
    row->public = (struct bus_without_row){
        .kind = from->kind < BUS_WITHOUT_UNKNOWN ? (enum bus_without_kind)from->kind
                                                 : BUS_WITHOUT_UNKNOWN,
        .name = api_place(&at, from->name),
        .seq = from->seq,
        .count = from->count,
    };
    without->rows[without->count++] = row;
    return true;
}

static int row_compare(const void *left, const void *right)
{
    const struct bus_without_row *a = &(*(struct row *const *)left)->public;
    const struct bus_without_row *b = &(*(struct row *const *)right)->public;
    if (a->kind != b->kind)
        return a->kind < b->kind ? -1 : 1;
    int order = strcmp(a->name, b->name);
    if (order != 0)
        return order;
    return a->seq < b->seq ? -1 : a->seq > b->seq;
}

/* Rows of slots that follow each other become one. */
static void put_in_order(struct bus_without *without)
{
    size_t kept = 0;
    if (without->count > 1)
        qsort(without->rows, without->count, sizeof(struct row *), row_compare);
    for (size_t i = 0; i < without->count; i++) {
        struct row *row = without->rows[i];
        struct bus_without_row *last = kept > 0 ? &without->rows[kept - 1]->public : NULL;
        bool follows = last != NULL && last->kind == row->public.kind &&
                       row->public.kind <= BUS_WITHOUT_REPLACED &&
                       strcmp(last->name, row->public.name) == 0 &&
                       last->seq + last->count == row->public.seq;
        if (follows) {
            last->count += row->public.count;
            free(row);
        } else {
            without->rows[kept++] = row;
        }
    }
    without->count = kept;
}

static enum bus_err take_without_end(struct bus_without *without, const struct msg_without_end *end,
                                     struct bus_error **reterr)
{
    if (end->code != CODE_OK) {
        (void)error_give(reterr, BUS_EINVAL, error_make(ERROR_REJECTED, end->type, end->message));
        return (enum bus_err)end->code;
    }
    without->left_out = end->left_out;
    without->job = (struct bus_without_job){.outlook = (enum bus_without_outlook)end->outlook,
                                            .present = (uint32_t)end->present,
                                            .min = (uint32_t)end->min,
                                            .window_ms = end->window_ms,
                                            .attempts_left = (uint32_t)end->attempts_left};
    put_in_order(without);
    return BUS_OK;
}

static enum bus_err take_row(struct bus *bus, const struct msg *row, void *arg,
                             struct bus_error **reterr)
{
    struct bus_without *without = arg;
    (void)bus; /* the row says it all */
    if (row->type == MSG_WITHOUT_END)
        return take_without_end(without, &row->as.without_end, reterr);
    return add_without_row(without, &row->as.without_row)
               ? BUS_OK
               : error_give(reterr, BUS_ENOMEM, &error_no_memory);
}

void bus_without_free(struct bus_without **without)
{
    if (without == NULL || *without == NULL)
        return;
    for (size_t i = 0; i < (*without)->count; i++)
        free((*without)->rows[i]);
    free((*without)->rows);
    free(*without);
    *without = NULL;
}

enum bus_err bus_without_get(struct bus_admin *admin, const char *job, const char *party,
                             int64_t timeout_ms, struct bus_without **out_without,
                             struct bus_error **reterr)
{
    struct admin_call call;
    if (out_without == NULL || party == NULL || !party_is_valid(span_text(party)))
        return error_say(reterr, BUS_EINVAL, ERROR_TYPE_ARGUMENT,
                         "bus_without_get() needs out_without, and the name of a party");
    enum bus_err err = admin_begin(admin, job, timeout_ms, &call, reterr);
    if (err != BUS_OK)
        return err;
    struct bus_without *without = calloc(1, sizeof *without);
    const struct msg question = {
        .type = MSG_WITHOUT, .as.without = {.job = span_text(call.job), .party = span_text(party)}};
    if (without == NULL) {
        err = error_give(reterr, BUS_ENOMEM, &error_no_memory);
        goto done;
    }
    err = admin_ask(&call, &question, take_row, without, reterr);
    if (err == BUS_OK)
        *out_without = without;
    else
        bus_without_free(&without);
done:
    admin_end(&call);
    return err;
}

size_t bus_without_count(const struct bus_without *without)
{
    return without != NULL ? without->count : 0;
}

const struct bus_without_row *bus_without_at(const struct bus_without *without, size_t index)
{
    return without != NULL && index < without->count ? &without->rows[index]->public : NULL;
}

const struct bus_without_job *bus_without_job(const struct bus_without *without)
{
    static const struct bus_without_job none;
    return without != NULL ? &without->job : &none;
}

uint64_t bus_without_left_out(const struct bus_without *without)
{
    return without != NULL ? without->left_out : 0;
}
