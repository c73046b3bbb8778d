/* SPDX-License-Identifier: MPL-2.0 */
/* status.c -- a snapshot of the broker. */
#include "libbus/api/admin.h"
#include "libbus/api/error.h"
#include "libbus/api/grow.h"
#include "libbus/api/model.h"
#include "libbus/api/names.h"

#include <stdlib.h>
#include <string.h>

/* A row and its texts, in one block. */
struct row {
    struct bus_status_row public;
    char texts[];
};

struct bus_status {
    struct row **rows;
    size_t count;
    size_t room;
    char version[LIMIT_NAME_BYTES + 1];
    uint64_t uptime_ms;
    uint64_t cpu_ms;
    uint64_t instance;
    uint64_t refused;
    uint64_t cursor; /* where the next part begins; 0: there is none */
    enum bus_durability durability;
    struct bus_status_journal journal;
    char texts[LIMIT_NAME_BYTES + LIMIT_ENDPOINT_BYTES + LIMIT_ERROR_MESSAGE_BYTES + 3];
};

static bool status_add_row(struct bus_status *status, const struct msg_status_row *from)
{
    struct row **rows = api_grow(status->rows, status->count, &status->room, sizeof(struct row *));
    if (rows == NULL)
        return false;
    status->rows = rows;
    size_t texts = from->job.bytes + from->name.bytes + from->party.bytes + from->pattern.bytes +
                   from->reason.bytes + from->open_topic.bytes + from->where.bytes + 7;
    struct row *row = malloc(sizeof *row + texts);
    if (row == NULL)
        return false;
    char *at = row->texts;
    row->public = (struct bus_status_row){
        .kind = from->is_group ? BUS_STATUS_GROUP : (enum bus_status_kind)from->kind,
        .job = api_place(&at, from->job),
        .state = names_state(from->state),
        .incarnation = (uint32_t)from->incarnation,
        .silent_ms = from->silent_ms,
        .ended_ms = from->ended_ms,
        .open = from->open,
        .pending = from->pending,
        .pending_bytes = from->pending_bytes,
        .next_seq = from->next_seq,
        .window_bytes = from->window_bytes,
        .members = (uint32_t)from->members,
        .credit = from->credit,
        .leased = from->leased,
        .waiting = from->waiting,
        .dead = (uint32_t)from->dead,
        .open_seq = from->open_seq,
        .open_ms = from->open_ms,
    };
    row->public.name = api_place(&at, from->name);
    row->public.party = api_place(&at, from->party);
    row->public.pattern = api_place(&at, from->pattern);
    row->public.reason = api_place(&at, from->reason);
    row->public.open_topic = api_place(&at, from->open_topic);
    row->public.where = api_place(&at, from->where);
    status->rows[status->count++] = row;
    return true;
}

static void finish_journal(struct bus_status *status, const struct msg_status_end *end)
{
    struct bus_status_journal *journal = &status->journal;
    char *at = status->texts;
    journal->backend = api_place(&at, end->journal);
    journal->directory = api_place(&at, end->journal_directory);
    journal->reason = api_place(&at, end->journal_reason);
    journal->state = end->journal_state < BUS_JOURNAL_UNKNOWN
                         ? (enum bus_journal_state)end->journal_state
                         : BUS_JOURNAL_UNKNOWN;
    journal->bytes = end->journal_bytes;
    journal->first = end->journal_first;
    journal->next = end->journal_next;
    journal->synced = end->journal_synced;
    journal->spilled = end->spilled;
    journal->spilled_bytes = end->spilled_bytes;
}

static void status_finish(struct bus_status *status, const struct msg_status_end *end)
{
    finish_journal(status, end);
    if (end->version.bytes > 0)
        memcpy(status->version, end->version.data, end->version.bytes);
    status->version[end->version.bytes] = '\0';
    status->uptime_ms = end->uptime_ms;
    status->cpu_ms = end->cpu_ms;
    status->refused = end->refused;
    status->cursor = end->cursor;
}

static int status_row_compare(const void *left, const void *right)
{
    const struct bus_status_row *a = &(*(struct row *const *)left)->public;
    const struct bus_status_row *b = &(*(struct row *const *)right)->public;
    int order = strcmp(a->job, b->job);
    if (order == 0 && a->kind != b->kind)
        return a->kind < b->kind ? -1 : 1;
    if (order == 0)
        order = strcmp(a->name, b->name);
    if (order == 0)
        order = strcmp(a->party, b->party);
    if (order == 0 && a->incarnation != b->incarnation)
        return a->incarnation < b->incarnation ? -1 : 1;
    return order;
}

static enum bus_err status_take_row(struct bus *bus, const struct msg *row, void *arg,
                                    struct bus_error **reterr)
{
    struct bus_status *status = arg;
    if (row->type == MSG_STATUS_END) {
        status_finish(status, &row->as.status_end);
        status->durability = (enum bus_durability)session_durability(bus->session);
        status->instance = session_instance(bus->session);
        return BUS_OK;
    }
    if (!status_add_row(status, &row->as.status_row))
        return error_give(reterr, BUS_ENOMEM, &error_no_memory);
    return BUS_OK;
}

enum bus_err bus_admin_status_get(struct bus_admin *admin, const char *job, int64_t timeout_ms,
                                  struct bus_status **out_status, struct bus_error **reterr)
{
    return bus_admin_status_get_some(admin, job, BUS_STATUS_ALL, timeout_ms, out_status, reterr);
}

enum bus_err bus_admin_status_get_some(struct bus_admin *admin, const char *job, unsigned kinds,
                                       int64_t timeout_ms, struct bus_status **out_status,
                                       struct bus_error **reterr)
{
    struct admin_call call;
    bool is_all = job != NULL && *job == '\0'; /* BUS_JOB_ALL */
    if (out_status == NULL || kinds >= BUS_STATUS_ONLY(BUS_STATUS_GROUP + 1))
        return error_say(reterr, BUS_EINVAL, ERROR_TYPE_ARGUMENT,
                         "bus_admin_status_get() needs out_status, and kinds that there are");
    enum bus_err err = admin_begin(admin, is_all ? NULL : job, timeout_ms, &call, reterr);
    if (err != BUS_OK)
        return err;
    struct bus_status *status = calloc(1, sizeof *status);
    struct msg question = {
        .type = MSG_STATUS,
        .as.status = {.job = is_all ? SPAN_NONE : span_text(call.job), .kinds = kinds}};
    if (status == NULL) {
        err = error_give(reterr, BUS_ENOMEM, &error_no_memory);
        goto done;
    }
    do {
        question.as.status.cursor = status->cursor;
        err = admin_ask(&call, &question, status_take_row, status, reterr);
    } while (err == BUS_OK && status->cursor != 0);
    if (err != BUS_OK) {
        bus_status_free(&status);
        goto done;
    }
    if (status->count > 0)
        qsort(status->rows, status->count, sizeof(struct row *), status_row_compare);
    *out_status = status;
done:
    admin_end(&call);
    return err;
}

size_t bus_status_count(const struct bus_status *status)
{
    return status != NULL ? status->count : 0;
}

const struct bus_status_row *bus_status_at(const struct bus_status *status, size_t index)
{
    return status != NULL && index < status->count ? &status->rows[index]->public : NULL;
}

const char *bus_status_version(const struct bus_status *status)
{
    return status != NULL ? status->version : "";
}

enum bus_durability bus_status_durability(const struct bus_status *status)
{
    return status != NULL ? status->durability : BUS_DURABILITY_MEMORY;
}

const struct bus_status_journal *bus_status_journal(const struct bus_status *status)
{
    static const struct bus_status_journal none = {
        .backend = "", .directory = "", .state = BUS_JOURNAL_UNKNOWN, .reason = ""};
    return status != NULL ? &status->journal : &none;
}

uint64_t bus_status_uptime_ms(const struct bus_status *status)
{
    return status != NULL ? status->uptime_ms : 0;
}

uint64_t bus_status_cpu_ms(const struct bus_status *status)
{
    return status != NULL ? status->cpu_ms : 0;
}

uint64_t bus_status_instance(const struct bus_status *status)
{
    return status != NULL ? status->instance : 0;
}

uint64_t bus_status_refused(const struct bus_status *status)
{
    return status != NULL ? status->refused : 0;
}

void bus_status_free(struct bus_status **status)
{
    if (status == NULL || *status == NULL)
        return;
    for (size_t i = 0; i < (*status)->count; i++)
        free((*status)->rows[i]);
    free((*status)->rows);
    free(*status);
    *status = NULL;
}
