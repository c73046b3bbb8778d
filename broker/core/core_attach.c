/* SPDX-License-Identifier: MPL-2.0 */
/* core_attach.c -- attachments of errors: complete output, beside the error and never in it.
 *
 * Whoever has an error's id may bring what belongs to it, piece by piece and each answered before
 * the next, and whoever has the id may fetch it.  They come and go over connections of their own,
 * so what a party has to say of itself never stands behind them.  The core knows of a piece its
 * payload and its length; the bytes are those of io, in memory or in the journal alone, as a
 * value is.
 *
 * A job keeps so many bytes of them.  Beyond that the oldest go, whole; one that would not fit
 * alone ends where there is no room, and is what it is. */
#include "broker/core/core_internal.h"

#include "libbus/base/pattern.h"
#include "libbus/wire/disclosure.h"

#include <string.h>

enum { KEY_BYTES_MAX = LIMIT_ERROR_ID_BYTES + 1 + LIMIT_NAME_BYTES };

/* The error's id, a byte that no text has, and the name. */
static struct span key_of(struct span error, struct span name, char out[KEY_BYTES_MAX])
{
    memcpy(out, error.data, error.bytes);
    out[error.bytes] = '\0';
    memcpy(out + error.bytes + 1, name.data, name.bytes);
    return span_of(out, error.bytes + 1 + name.bytes);
}

static struct span error_of(const struct attachment *attachment)
{
    return span_of(attachment->key.data, attachment->error_bytes);
}

static struct span name_of(const struct attachment *attachment)
{
    size_t begin = attachment->error_bytes + 1;
    return span_of((const char *)attachment->key.data + begin, attachment->key.bytes - begin);
}

struct attachment *attach_find(struct core *core, const struct job *job, struct span error,
                               struct span name)
{
    char bytes[KEY_BYTES_MAX];
    uint32_t id;
    return name_map_get(&job->attachment_names, key_of(error, name, bytes), &id)
               ? pool_find(&core->attachments, id)
               : NULL;
}

static struct attachment *attachment_new(struct core *core, struct job *job, struct span error,
                                         struct span name)
{
    char bytes[KEY_BYTES_MAX];
    struct attachment *attachment = pool_take(&core->attachments);
    if (attachment == NULL)
        return NULL;
    attachment->error_bytes = (uint32_t)error.bytes;
    if (!span_keep(core, key_of(error, name, bytes), &attachment->key) ||
        !name_map_put(&job->attachment_names, attachment->key, attachment->id)) {
        span_drop(core, &attachment->key);
        pool_give(&core->attachments, attachment);
        return NULL;
    }
    list_push(&job->attachments, &attachment->link);
    job->attachment_count += 1;
    return attachment;
}

void attach_forget(struct core *core, struct job *job, struct attachment *attachment)
{
    note_attachment_forgotten(core, job, error_of(attachment), name_of(attachment));
    for (uint32_t i = 0; i < attachment->count; i++)
        effects_release(core->effects, attachment->pieces[i].payload, 1);
    job->attachment_bytes -= attachment->bytes;
    job->attachment_count -= 1;
    memory_give(core->memory, attachment->pieces, attachment->room * sizeof *attachment->pieces);
    name_map_remove(&job->attachment_names, attachment->key);
    list_remove(&attachment->link);
    span_drop(core, &attachment->key);
    pool_give(&core->attachments, attachment);
}

void attach_forget_all(struct core *core, struct job *job)
{
    LIST_EACH(link, &job->attachments)
        attach_forget(core, job, LIST_OWNER(link, struct attachment, link));
    name_map_fini(&job->attachment_names);
}

static bool reserve_piece(struct core *core, struct attachment *attachment)
{
    if (attachment->count < attachment->room)
        return true;
    uint32_t room = attachment->room > 0 ? attachment->room * 2 : 4;
    struct piece *pieces = memory_resize(core->memory, attachment->pieces,
                                         attachment->room * sizeof *pieces, room * sizeof *pieces);
    if (pieces == NULL)
        return false;
    attachment->pieces = pieces;
    attachment->room = room;
    return true;
}

bool attach_add(struct core *core, struct job *job, const struct attach_piece *piece)
{
    struct attachment *attachment = attach_find(core, job, piece->error, piece->name);
    if (attachment == NULL)
        attachment = attachment_new(core, job, piece->error, piece->name);
    if (attachment == NULL || (piece->payload != 0 && !reserve_piece(core, attachment)))
        return false; /* one without pieces is as good as none, and goes as they do */
    if (piece->payload != 0) {
        effects_retain(core->effects, piece->payload, 1);
        attachment->pieces[attachment->count++] =
            (struct piece){.payload = piece->payload, .bytes = piece->bytes};
        attachment->bytes += piece->bytes;
        job->attachment_bytes += piece->bytes;
    }
    attachment->is_whole = piece->is_last;
    note_attached(core, job, piece);
    return true;
}

/* ---- what is said ---------------------------------------------------------------------------- */

static void answer(struct core *core, struct session *session, uint64_t request,
                   enum wire_code code, const char *type, const char *message)
{
    struct msg *msg = effects_msg(core->effects, session->control, MSG_JOB_DONE);
    msg->as.job_done.request = request;
    msg->as.job_done.code = code;
    msg->as.job_done.type = span_text(type);
    msg->as.job_done.message = span_text(message);
}

static struct job *find_job(struct core *core, struct session *session, uint64_t request,
                            struct span name)
{
    uint32_t id;
    if (name_map_get(&core->job_names, name, &id))
        return pool_find(&core->jobs, id);
    answer(core, session, request, CODE_EINVAL, ERROR_TYPE_NO_JOB, "there is no such job");
    return NULL;
}

/* An id of this job: job/party/incarnation/number. */
static bool is_of_job(const struct job *job, struct span error)
{
    return error.bytes > job->name.bytes + 1 &&
           memcmp(error.data, job->name.data, job->name.bytes) == 0 &&
           ((const char *)error.data)[job->name.bytes] == '/';
}

/* Whether so many bytes more of this one may be kept; older ones go for them. */
static bool make_room(struct core *core, struct job *job, const struct attachment *attachment,
                      uint64_t bytes)
{
    LIST_EACH(link, &job->attachments) {
        struct attachment *oldest = LIST_OWNER(link, struct attachment, link);
        bool is_fine = job->attachment_bytes + bytes <= core->options.attachment_bytes_max &&
                       job->attachment_count < LIMIT_ATTACHMENTS;
        if (is_fine)
            return true;
        if (oldest != attachment)
            attach_forget(core, job, oldest);
    }
    return job->attachment_bytes + bytes <= core->options.attachment_bytes_max;
}

void attach_message(struct core *core, struct session *session, const struct msg_attachment *msg,
                    payload_id payload)
{
    struct job *job = find_job(core, session, msg->request, msg->job);
    if (job == NULL)
        return;
    if (!is_of_job(job, msg->error) || !name_is_valid(msg->name)) {
        answer(core, session, msg->request, CODE_EINVAL, ERROR_TYPE_NAME,
               "the id of an error of this job and a name are wanted");
        return;
    }
    if (job->spec.disclosure >= DISCLOSURE_MESSAGE) {
        answer(core, session, msg->request, CODE_EDENIED, ERROR_TYPE_NOT_AUTHORISED,
               "this job lets nobody see attachments");
        return;
    }
    struct attachment *attachment = attach_find(core, job, msg->error, msg->name);
    uint64_t have = attachment != NULL ? attachment->bytes : 0;
    bool is_again = attachment != NULL && msg->offset + msg->bytes.bytes <= have &&
                    (!msg->is_last || attachment->is_whole);
    if (is_again) { /* its answer was lost */
        answer(core, session, msg->request, CODE_OK, "", "");
        return;
    }
    if (msg->offset != have || (attachment != NULL && attachment->is_whole)) {
        answer(core, session, msg->request, CODE_ESETTLED, ERROR_TYPE_TOO_LATE,
               "the attachment is whole, or what lies before this piece is kept no more");
        return;
    }
    bool has_room = make_room(core, job, attachment, msg->bytes.bytes);
    const struct attach_piece piece = {.error = msg->error,
                                       .name = msg->name,
                                       .payload = has_room ? payload : 0,
                                       .bytes = has_room ? (uint32_t)msg->bytes.bytes : 0,
                                       .is_last = has_room && msg->is_last != 0};
    if (has_room && attach_add(core, job, &piece))
        answer(core, session, msg->request, CODE_OK, "", "");
    else
        answer(core, session, msg->request, CODE_EFULL, ERROR_TYPE_FULL,
               "the job keeps all the attachments it may");
}

/* io puts the bytes in. */
static void send_piece(struct core *core, struct session *session, const struct msg_fetch *asked,
                       const struct attachment *attachment)
{
    uint64_t begin = 0;
    struct msg_fetched *msg =
        &effects_msg(core->effects, session->control, MSG_FETCHED)->as.fetched;
    struct effect *effect = &core->effects->items[core->effects->count - 1];
    msg->request = asked->request;
    msg->total = attachment->bytes;
    msg->offset = asked->offset < msg->total ? asked->offset : msg->total;
    msg->is_whole = attachment->is_whole;
    for (uint32_t i = 0; i < attachment->count; i++) {
        const struct piece *piece = &attachment->pieces[i];
        if (msg->offset < begin + piece->bytes) {
            effect->payload = piece->payload;
            effect->offset = (uint32_t)(msg->offset - begin);
            return;
        }
        begin += piece->bytes;
    }
}

void attach_fetch(struct core *core, struct session *session, const struct msg_fetch *msg)
{
    const struct job *job = find_job(core, session, msg->request, msg->job);
    if (job == NULL)
        return;
    const struct attachment *attachment = attach_find(core, job, msg->error, msg->name);
    if (attachment != NULL)
        send_piece(core, session, msg, attachment);
    else
        answer(core, session, msg->request, CODE_EINVAL, ERROR_TYPE_NOT_KEPT,
               "the error has no attachment of this name, or it is kept no more");
}

void attach_snapshot(struct core *core, const struct job *job)
{
    LIST_EACH(link, &job->attachments) {
        const struct attachment *attachment = LIST_OWNER(link, struct attachment, link);
        struct attach_piece piece = {.error = error_of(attachment),
                                     .name = name_of(attachment),
                                     .is_last = attachment->is_whole};
        if (attachment->count == 0)
            note_attached(core, job, &piece);
        for (uint32_t i = 0; i < attachment->count; i++) {
            piece.payload = attachment->pieces[i].payload;
            piece.bytes = attachment->pieces[i].bytes;
            piece.is_last = attachment->is_whole && i + 1 == attachment->count;
            note_attached(core, job, &piece);
        }
    }
}
