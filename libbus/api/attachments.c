/* SPDX-License-Identifier: MPL-2.0 */
/* attachments.c -- attachments of errors as an operator sees them: listed, and fetched.
 * attach_bring.c is their way to the broker. */
#include "libbus/api/admin.h"
#include "libbus/api/error.h"
#include "libbus/api/grow.h"
#include "libbus/api/lock.h"
#include "libbus/api/model.h"
#include "libbus/base/pattern.h"
#include "libbus/base/utf8.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static enum bus_err error_id_check(const char *error_id, struct bus_error **reterr)
{
    if (error_id != NULL && *error_id != '\0' && strlen(error_id) <= LIMIT_ERROR_ID_BYTES &&
        utf8_is_valid(span_text(error_id)))
        return BUS_OK;
    return error_say(reterr, BUS_EINVAL, ERROR_TYPE_ARGUMENT, "the call needs the id of an error");
}

/* ---- fetched -------------------------------------------------------------------------------- */

/* Says why the attachment is not whole. */
static enum bus_err attachment_say_state(const struct session_attached *attached,
                                         struct bus_error **reterr)
{
    static const char *const words[ATTACHMENT_STATE_COUNT] = {
        [ATTACHMENT_COMING] = "it is still being sent",
        [ATTACHMENT_AWAY] = "its sender is not connected at the moment",
        [ATTACHMENT_CUT] = "its sender is gone, and the rest is lost",
        [ATTACHMENT_FULL] = "the job's room for attachments is used up, and the rest is lost",
        [ATTACHMENT_DROPPED] = "the broker dropped it to make room for newer ones",
    };
    char promised[40] = "";
    enum bus_err err = attached->state == ATTACHMENT_DROPPED ? BUS_EINVAL : BUS_EOVERRUN;
    if (attached->promised != ERROR_BYTES_UNKNOWN)
        (void)snprintf(promised, sizeof promised, " of %llu", /* it has room */
                       (unsigned long long)attached->promised);
    if (attached->state == ATTACHMENT_WHOLE)
        return BUS_OK;
    return error_say(reterr, err, ERROR_TYPE_NOT_KEPT, "%llu%s bytes of the attachment came: %s",
                     (unsigned long long)attached->bytes, promised, words[attached->state]);
}

/* Who takes the pieces. */
struct taker {
    bus_attachment_fn *take;
    void *arg;
    bool has_some;
};

/* Lock held, but not during take(): the application's code may use another bus. */
static enum bus_err fetch_pieces(struct bus *courier, struct taker *taker, int64_t deadline_ns,
                                 bool *out_is_answered, struct bus_error **reterr)
{
    struct session_attached attached;
    struct span bytes;
    struct span why;
    for (;;) {
        while (session_fetch_take(courier->session, &bytes)) {
            api_unlock(courier);
            taker->has_some = true;
            bool is_enough = taker->take(bytes.data, bytes.bytes, taker->arg) != 0; /* borrowed */
            api_lock(courier);
            if (is_enough)
                return error_say(reterr, BUS_ECLOSED, ERROR_TYPE_CLOSED,
                                 "the receiving function asked to stop");
            api_wake(courier); /* there is room for more */
        }
        api_wake(courier); /* more may be asked for */
        enum wire_code code = session_fetched(courier->session, &attached, &why);
        enum bus_err err = api_over(courier);
        *out_is_answered = code != CODE_ETIMEDOUT && err == BUS_OK;
        if (code == CODE_OK)
            return attachment_say_state(&attached, reterr);
        if (*out_is_answered)
            return error_say(reterr, (enum bus_err)code, ERROR_TYPE_NOT_KEPT, "%.*s",
                             (int)why.bytes, (const char *)why.data);
        err = observer_wait(courier, deadline_ns, reterr);
        if (err != BUS_OK)
            return err;
    }
}

static enum bus_err fetch_once(struct admin_call *call, const struct session_attachment *attachment,
                               struct taker *taker, struct bus_error **reterr)
{
    struct bus *courier = NULL;
    bool is_answered = false;
    enum bus_err err = admin_courier(call, &courier, reterr);
    if (err != BUS_OK)
        return err;
    session_fetch(courier->session, attachment);
    err = fetch_pieces(courier, taker, call->deadline_ns, &is_answered, reterr);
    admin_connection_done(call, courier, is_answered);
    return err;
}

enum bus_err bus_admin_attachment_fetch(struct bus_admin *admin, const char *job,
                                        const char *error_id, const char *name, int64_t timeout_ms,
                                        bus_attachment_fn *take, void *arg,
                                        struct bus_error **reterr)
{
    struct admin_call call;
    struct taker taker = {.take = take, .arg = arg};
    struct bus_error *error = NULL;
    enum bus_err err = error_id_check(error_id, reterr);
    if (err != BUS_OK)
        return err;
    if (!name_is_valid(span_text(name)) || take == NULL)
        return error_say(reterr, BUS_EINVAL, ERROR_TYPE_ARGUMENT,
                         "the call needs the name of an attachment and a function");
    err = admin_begin(admin, job, timeout_ms, &call, reterr);
    if (err != BUS_OK)
        return err;
    const struct session_attachment attachment = {
        .job = span_text(call.job), .error = span_text(error_id), .name = span_text(name)};
    err = fetch_once(&call, &attachment, &taker, &error);
    if (err == BUS_EDENIED && !taker.has_some && admin_follow(&call)) {
        bus_error_unref(&error);
        err = fetch_once(&call, &attachment, &taker, &error);
    }
    admin_end(&call);
    return err == BUS_OK ? BUS_OK : error_give(reterr, err, error);
}

/* ---- listed ---------------------------------------------------------------------------------- */

/* A row and its name, in one block. */
struct attachment {
    struct bus_attachment public;
    char name[];
};

struct bus_attachments {
    struct attachment **rows;
    size_t count;
    size_t room;
};

static const enum bus_attachment_state states[ATTACHMENT_STATE_COUNT] = {
    [ATTACHMENT_COMING] = BUS_ATTACHMENT_COMING, [ATTACHMENT_AWAY] = BUS_ATTACHMENT_AWAY,
    [ATTACHMENT_WHOLE] = BUS_ATTACHMENT_WHOLE,   [ATTACHMENT_CUT] = BUS_ATTACHMENT_CUT,
    [ATTACHMENT_FULL] = BUS_ATTACHMENT_FULL,     [ATTACHMENT_DROPPED] = BUS_ATTACHMENT_DROPPED,
};

static int64_t bytes_known(uint64_t bytes)
{
    return bytes <= INT64_MAX ? (int64_t)bytes : -1;
}

static bool attachments_have_room(struct bus_attachments *list)
{
    struct attachment **rows = api_grow(list->rows, list->count, &list->room, sizeof *rows);
    if (rows != NULL)
        list->rows = rows;
    return rows != NULL;
}

static enum bus_err attachment_add(struct bus_attachments *list,
                                   const struct msg_attachment_row *from, struct bus_error **reterr)
{
    struct attachment *row =
        attachments_have_room(list) ? malloc(sizeof *row + from->name.bytes + 1) : NULL;
    if (row == NULL)
        return error_give(reterr, BUS_ENOMEM, &error_no_memory);
    char *at = row->name;
    row->public = (struct bus_attachment){
        .name = api_place(&at, from->name),
        .bytes = bytes_known(from->promised),
        .arrived = bytes_known(from->bytes),
        .state = states[from->state],
    };
    list->rows[list->count++] = row;
    return BUS_OK;
}

static enum bus_err attachment_row(struct bus *observer, const struct msg *row, void *arg,
                                   struct bus_error **reterr)
{
    (void)observer; /* the row is enough */
    if (row->type == MSG_JOB_DONE && row->as.job_done.code != CODE_OK)
        return error_say(reterr, (enum bus_err)row->as.job_done.code, ERROR_TYPE_NO_JOB, "%.*s",
                         (int)row->as.job_done.message.bytes,
                         (const char *)row->as.job_done.message.data);
    if (row->type == MSG_JOB_DONE)
        return BUS_OK;
    if (row->type != MSG_ATTACHMENT_ROW || row->as.attachment_row.state >= ATTACHMENT_STATE_COUNT)
        return error_say(reterr, BUS_EPROTO, ERROR_TYPE_PROTOCOL,
                         "the broker's answer does not fit the question");
    return attachment_add(arg, &row->as.attachment_row, reterr);
}

enum bus_err bus_admin_attachment_list(struct bus_admin *admin, const char *job,
                                       const char *error_id, int64_t timeout_ms,
                                       struct bus_attachments **out_list, struct bus_error **reterr)
{
    struct admin_call call;
    enum bus_err err = error_id_check(error_id, reterr);
    if (err != BUS_OK)
        return err;
    if (out_list == NULL)
        return error_say(reterr, BUS_EINVAL, ERROR_TYPE_ARGUMENT,
                         "bus_admin_attachment_list() needs out_list");
    err = admin_begin(admin, job, timeout_ms, &call, reterr);
    if (err != BUS_OK)
        return err;
    struct bus_attachments *list = calloc(1, sizeof *list);
    const struct msg question = {
        .type = MSG_ATTACHMENTS,
        .as.attachments = {.job = span_text(call.job), .error = span_text(error_id)}};
    err = list != NULL ? admin_ask(&call, &question, attachment_row, list, reterr)
                       : error_give(reterr, BUS_ENOMEM, &error_no_memory);
    if (err == BUS_OK)
        *out_list = list;
    else
        bus_attachments_free(&list);
    admin_end(&call);
    return err;
}

size_t bus_attachments_count(const struct bus_attachments *list)
{
    return list != NULL ? list->count : 0;
}

const struct bus_attachment *bus_attachments_at(const struct bus_attachments *list, size_t index)
{
    return list != NULL && index < list->count ? &list->rows[index]->public : NULL;
}

void bus_attachments_free(struct bus_attachments **list)
{
    if (list == NULL || *list == NULL)
        return;
    for (size_t i = 0; i < (*list)->count; i++)
        free((*list)->rows[i]);
    free((*list)->rows);
    free(*list);
    *list = NULL;
}
