/* SPDX-License-Identifier: MPL-2.0 */
/* job.c -- jobs from outside: created, looked at, cancelled. */
#include "libbus/api/admin.h"
#include "libbus/api/error.h"
#include "libbus/api/error_wire.h"
#include "libbus/api/grow.h"
#include "libbus/api/model.h"
#include "libbus/api/names.h"
#include "libbus/api/options.h"
#include "libbus/base/utf8.h"

#include <stdlib.h>
#include <string.h>

/* ---- what both say --------------------------------------------------------------------------- */

static const struct bus_job_options job_defaults = {
    .struct_bytes = sizeof(struct bus_job_options),
    .min = 1,
    .join_window_ms = DEFAULT_JOIN_WINDOW_MS,
    .join_timeout_ms = DEFAULT_JOIN_TIMEOUT_MS,
    .settle_ms = DEFAULT_SETTLE_MS,
    .deadline_ms = BUS_FOREVER,
};

void bus_job_options_init_sized(struct bus_job_options *options, size_t bytes)
{
    options_give(options, bytes, &job_defaults, sizeof job_defaults);
}

/* What the broker says about the question; the type is for programs, the message for people. */
static enum bus_err job_done_say(const struct msg_job_done *done, struct bus_error **reterr)
{
    if (done->code == CODE_OK)
        return BUS_OK;
    return error_give(reterr, (enum bus_err)done->code,
                      error_make(ERROR_REJECTED, done->type, done->message));
}

static enum bus_err job_done_row(struct bus *bus, const struct msg *row, void *arg,
                                 struct bus_error **reterr)
{
    (void)bus; /* this answer has one row, and nothing is kept of it */
    (void)arg;
    if (row->type != MSG_JOB_DONE)
        return error_say(reterr, BUS_EPROTO, ERROR_TYPE_PROTOCOL,
                         "the broker's answer does not fit the question");
    return job_done_say(&row->as.job_done, reterr);
}

/* ---- created, cancelled ---------------------------------------------------------------------- */

enum bus_err bus_admin_job_create(struct bus_admin *admin, const char *job,
                                  const struct bus_job_options *options, int64_t timeout_ms,
                                  struct bus_error **reterr)
{
    struct admin_call call;
    struct bus_job_options known = job_defaults;
    uint8_t auditor[KEY_BYTES];
    bool has_auditor = false;
    if (options != NULL && !options_take(&known, sizeof known, options, options->struct_bytes))
        return error_say(reterr, BUS_EINVAL, ERROR_TYPE_ARGUMENT,
                         "the options are not initialised, or were made for a newer library");
    if (known.pending < 0 || known.pending > UINT8_MAX || known.strategy < 0 ||
        known.strategy > UINT8_MAX || known.disclosure < 0 || known.disclosure > UINT8_MAX ||
        known.deadlock < 0 || known.deadlock > UINT8_MAX)
        return error_say(reterr, BUS_EINVAL, ERROR_TYPE_ARGUMENT,
                         "pending, strategy, disclosure or deadlock has an unknown value");
    enum bus_err err = options_auditor(known.auditor, auditor, &has_auditor, reterr);
    if (err == BUS_OK)
        err = admin_begin(admin, job, timeout_ms, &call, reterr);
    if (err != BUS_OK)
        return err;
    const struct msg question = {
        .type = MSG_JOB_CREATE,
        .as.job_create = {.job = span_text(call.job),
                          .min = known.min,
                          .max = known.max,
                          .join_window_ms = known.join_window_ms,
                          .join_timeout_ms = known.join_timeout_ms,
                          .settle_ms = known.settle_ms,
                          .max_restarts = known.max_restarts,
                          .deadline_ms = known.deadline_ms,
                          .pending = (uint64_t)known.pending,
                          .strategy = (uint64_t)known.strategy,
                          .disclosure = (uint64_t)known.disclosure,
                          .deadlock = (uint64_t)known.deadlock,
                          .auditor = span_of(auditor, has_auditor ? KEY_BYTES : 0)}};
    err = admin_ask(&call, &question, job_done_row, NULL, reterr);
    admin_end(&call);
    return err;
}

enum bus_err bus_admin_job_cancel(struct bus_admin *admin, const char *job, const char *why,
                                  int64_t timeout_ms, struct bus_error **reterr)
{
    struct admin_call call;
    struct span message = span_text(why);
    if (!utf8_is_valid(message))
        return error_say(reterr, BUS_EINVAL, ERROR_TYPE_INVALID_UTF8, "the reason is not UTF-8");
    if (message.bytes > SESSION_WHY_BYTES)
        message.bytes = utf8_cut(message.data, SESSION_WHY_BYTES);
    enum bus_err err = admin_begin(admin, job, timeout_ms, &call, reterr);
    if (err != BUS_OK)
        return err;
    const struct msg question = {.type = MSG_JOB_CANCEL,
                                 .as.job_cancel = {.job = span_text(call.job), .message = message}};
    err = admin_ask(&call, &question, job_done_row, NULL, reterr);
    admin_end(&call);
    return err;
}

static enum bus_err forgotten_row(struct bus *bus, const struct msg *row, void *arg,
                                  struct bus_error **reterr)
{
    const struct msg_job_done *done = &row->as.job_done;
    struct bus_job_forgotten *forgotten = arg;
    enum bus_err err = job_done_row(bus, row, NULL, reterr);
    if (err == BUS_OK && forgotten != NULL)
        *forgotten = (struct bus_job_forgotten){.parties = (uint32_t)done->parties,
                                                .topics = (uint32_t)done->topics,
                                                .slots = done->slots,
                                                .slots_bytes = done->slot_bytes,
                                                .names = (uint32_t)done->names,
                                                .dead = (uint32_t)done->dead};
    return err;
}

enum bus_err bus_admin_job_forget(struct bus_admin *admin, const char *job, int64_t timeout_ms,
                                  struct bus_job_forgotten *out_forgotten,
                                  struct bus_error **reterr)
{
    struct admin_call call;
    enum bus_err err = admin_begin(admin, job, timeout_ms, &call, reterr);
    if (err != BUS_OK)
        return err;
    const struct msg question = {.type = MSG_JOB_FORGET,
                                 .as.job_forget = {.job = span_text(call.job)}};
    err = admin_ask(&call, &question, forgotten_row, out_forgotten, reterr);
    admin_end(&call);
    return err;
}

/* ---- looked at ------------------------------------------------------------------------------- */

/* A member and its texts, in one block. */
struct member {
    struct bus_job_member public;
    char texts[];
};

struct bus_job {
    struct bus_job_info info;
    char name[LIMIT_NAME_BYTES + 1];
    char auditor[KEY_TEXT_BYTES + 1];
    struct bus_error *error;
    struct member **members;
    size_t room;
};

static bool add_member(struct bus_job *job, const struct msg_job_member *from)
{
    struct member **members =
        api_grow(job->members, job->info.member_count, &job->room, sizeof(struct member *));
    if (members == NULL)
        return false;
    job->members = members;
    struct member *member = malloc(sizeof *member + from->party.bytes + 1);
    if (member == NULL)
        return false;
    char *at = member->texts;
    member->public = (struct bus_job_member){
        .party = api_place(&at, from->party),
        .incarnation = (uint32_t)from->incarnation,
        .state = names_state(from->state),
        .rank = from->rank,
    };
    job->members[job->info.member_count++] = member;
    return true;
}

static void job_fill(struct bus_job *job, const struct msg_job_shown *shown)
{
    size_t member_count = job->info.member_count;
    if (shown->error.bytes > 0)
        job->error = error_from_wire(shown->error);
    if (shown->auditor.bytes == KEY_BYTES)
        key_text_write(shown->auditor.data, KEY_PUBLIC, job->auditor);
    job->info = (struct bus_job_info){
        .name = job->name,
        .state = names_state(shown->state),
        .min = (uint32_t)shown->min,
        .max = (uint32_t)shown->max,
        .join_window_ms = shown->join_window_ms,
        .join_timeout_ms = shown->join_timeout_ms,
        .settle_ms = shown->settle_ms,
        .max_restarts = (uint32_t)shown->max_restarts,
        .deadline_ms = shown->deadline_ms,
        .pending = (int)shown->pending,
        .strategy = (int)shown->strategy,
        .attempt = (uint32_t)shown->attempt,
        .epoch = shown->epoch,
        .world_size = (uint32_t)shown->world_size,
        .member_count = member_count,
        .error = job->error,
        .disclosure = (int)shown->disclosure,
        .deadlock = (int)shown->deadlock,
        .auditor = job->auditor,
    };
}

static enum bus_err job_row(struct bus *bus, const struct msg *row, void *arg,
                            struct bus_error **reterr)
{
    struct bus_job *job = arg;
    (void)bus; /* the row says it all */
    if (row->type == MSG_JOB_DONE)
        return job_done_say(&row->as.job_done, reterr);
    if (row->type == MSG_JOB_SHOWN)
        job_fill(job, &row->as.job_shown);
    else if (!add_member(job, &row->as.job_member))
        return error_give(reterr, BUS_ENOMEM, &error_no_memory);
    return BUS_OK;
}

enum bus_err bus_admin_job_get(struct bus_admin *admin, const char *job, int64_t timeout_ms,
                               struct bus_job **out_job, struct bus_error **reterr)
{
    struct admin_call call;
    if (out_job == NULL)
        return error_say(reterr, BUS_EINVAL, ERROR_TYPE_ARGUMENT,
                         "bus_admin_job_get() needs out_job");
    enum bus_err err = admin_begin(admin, job, timeout_ms, &call, reterr);
    if (err != BUS_OK)
        return err;
    struct bus_job *picture = calloc(1, sizeof *picture);
    const struct msg question = {.type = MSG_JOB_SHOW, .as.job_show = {.job = span_text(call.job)}};
    if (picture == NULL) {
        err = error_give(reterr, BUS_ENOMEM, &error_no_memory);
        goto done;
    }
    memcpy(picture->name, call.job, sizeof picture->name);
    err = admin_ask(&call, &question, job_row, picture, reterr);
    if (err == BUS_OK)
        *out_job = picture;
    else
        bus_job_free(&picture);
done:
    admin_end(&call);
    return err;
}

const struct bus_job_info *bus_job_info(const struct bus_job *job)
{
    static const struct bus_job_info none = {
        .name = "", .strategy = BUS_STRATEGY_UNKNOWN, .auditor = ""};
    return job != NULL ? &job->info : &none;
}

const struct bus_job_member *bus_job_member_at(const struct bus_job *job, size_t index)
{
    return job != NULL && index < job->info.member_count ? &job->members[index]->public : NULL;
}

void bus_job_free(struct bus_job **job)
{
    if (job == NULL || *job == NULL)
        return;
    for (size_t i = 0; i < (*job)->info.member_count; i++)
        free((*job)->members[i]);
    free((*job)->members);
    bus_error_unref(&(*job)->error);
    free(*job);
    *job = NULL;
}
