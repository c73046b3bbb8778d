/* SPDX-License-Identifier: MPL-2.0 */
/* attachment.c -- attachments of errors: complete output, beside the error and never in it.
 *
 * An error lists its attachments and their lengths.  So the core knows an attachment as soon as it
 * knows the error, whatever becomes of the attachment.  Couriers bring the bytes (courier.c).  The
 * bytes are kept as values are: the core knows payload and length of a piece, and io has its bytes.
 *
 * A job keeps a bounded number of bytes.  Beyond it the bytes of the oldest attachments go, and the
 * core remembers that they were there.  An attachment that is too large alone ends where there is
 * no room. */
#include "broker/core/record/attachment.h"

#include "broker/core/record/account.h"
#include "broker/core/record/courier.h"
#include "broker/core/record/note.h"
#include "broker/core/record/owned_span.h"
#include "broker/core/record/rights.h"
#include "broker/core/tables/effect.h"
#include "libbus/base/pattern.h"

#include <string.h>

enum { KEY_BYTES_MAX = LIMIT_ERROR_ID_BYTES + 1 + LIMIT_NAME_BYTES };

/* The error's id, a byte that no text has, and the name. */
static struct span attachment_key(struct span error, struct span name, char out[KEY_BYTES_MAX])
{
    memcpy(out, error.data, error.bytes);
    out[error.bytes] = '\0';
    memcpy(out + error.bytes + 1, name.data, name.bytes);
    return span_of(out, error.bytes + 1 + name.bytes);
}

struct span attach_error(const struct attachment *attachment)
{
    return span_of(attachment->key.data, attachment->error_bytes);
}

struct span attach_name(const struct attachment *attachment)
{
    size_t begin = attachment->error_bytes + 1;
    return span_of((const char *)attachment->key.data + begin, attachment->key.bytes - begin);
}

struct attachment *attach_find(struct core *core, const struct job *job, struct span error,
                               struct span name)
{
    char bytes[KEY_BYTES_MAX];
    uint32_t id;
    return name_map_get(&job->attachment_names, attachment_key(error, name, bytes), &id)
               ? pool_find(&core->attachments, id)
               : NULL;
}

/* ---- how it fares ---------------------------------------------------------------------------- */

/* What may become of it, by what it is.  AWAY and CUT are not decided but seen: attach_state(). */
static void attachment_move(struct attachment *attachment, enum attachment_state state)
{
    static const bool moves[ATTACHMENT_STATE_COUNT][ATTACHMENT_STATE_COUNT] = {
        [ATTACHMENT_COMING] =
            {[ATTACHMENT_WHOLE] = true, [ATTACHMENT_FULL] = true, [ATTACHMENT_DROPPED] = true},
        [ATTACHMENT_WHOLE] = {[ATTACHMENT_DROPPED] = true},
        [ATTACHMENT_FULL] = {[ATTACHMENT_DROPPED] = true},
    };
    must(moves[attachment->state][state]);
    attachment->state = state;
}

enum attachment_state attach_state(const struct core *core, const struct attachment *attachment)
{
    int64_t away_ns = core_clock(core) - attachment->left_ns;
    if (attachment->state != ATTACHMENT_COMING || attachment->courier != NULL)
        return attachment->state;
    return away_ns < core->options.resume_ms * MS_NS ? ATTACHMENT_AWAY : ATTACHMENT_CUT;
}

/* ---- forgetting and announcing --------------------------------------------------------------- */

static void release_pieces(struct core *core, struct job *job, struct attachment *attachment)
{
    courier_cut(core, attachment);
    for (uint32_t i = 0; i < attachment->count; i++)
        effects_release(core->effects, attachment->pieces[i].payload, 1);
    memory_give(core->memory, attachment->pieces, attachment->room * sizeof *attachment->pieces);
    attachment->pieces = NULL;
    attachment->count = attachment->room = 0;
    job->attachment_bytes -= attachment->bytes;
    account_count(attachment->account, ACCESS_ATTACHMENTS, -attachment->bytes);
    attachment->bytes = 0;
}

void attach_forget(struct core *core, struct job *job, struct attachment *attachment)
{
    note_attachment_forgotten(core, job, attachment);
    courier_lose(core, attachment, ATTACHMENT_DROPPED);
    release_pieces(core, job, attachment);
    job->attachment_count -= 1;
    name_map_remove(&job->attachment_names, attachment->key);
    list_remove(&attachment->link);
    account_unref(core, attachment->account);
    span_drop(core, &attachment->key);
    pool_give(&core->attachments, attachment);
}

void attach_forget_all(struct core *core, struct job *job)
{
    LIST_EACH(link, &job->attachments)
        attach_forget(core, job, LIST_OWNER(link, struct attachment, link));
    name_map_fini(&job->attachment_names);
}

/* The account of the party that an error is of; nobody's if the job does not know the party. */
static struct account *account_of(struct core *core, const struct job *job, struct span error)
{
    uint32_t id;
    const struct party *party = name_map_get(&job->parties, rights_party_of(error), &id)
                                    ? pool_find(&core->parties, id)
                                    : NULL;
    return account_ref(party != NULL ? party->account : &core->nobody);
}

struct attachment *attach_announce(struct core *core, struct job *job, struct span error,
                                   struct span name, uint64_t promised)
{
    char bytes[KEY_BYTES_MAX];
    struct attachment *attachment = attach_find(core, job, error, name);
    if (attachment != NULL)
        return attachment;
    if (!core->is_replaying && job->attachment_count >= core->options.attachments_max)
        attach_forget(core, job, LIST_OWNER(job->attachments.next, struct attachment, link));
    attachment = pool_take(&core->attachments);
    if (attachment == NULL)
        return NULL;
    attachment->error_bytes = (uint32_t)error.bytes;
    if (!span_keep(core, attachment_key(error, name, bytes), &attachment->key) ||
        !name_map_put(&job->attachment_names, attachment->key, attachment->id)) {
        span_drop(core, &attachment->key);
        pool_give(&core->attachments, attachment);
        return NULL;
    }
    attachment->account = account_of(core, job, error);
    attachment->promised = promised;
    attachment->state = ATTACHMENT_COMING;
    attachment->left_ns = core_clock(core);
    list_init(&attachment->fetchers);
    list_push(&job->attachments, &attachment->link);
    job->attachment_count += 1;
    note_attachment_announced(core, job, attachment);
    return attachment;
}

void attach_take(struct core *core, struct job *job, const struct error_record *record)
{
    struct span list = record->attachments;
    struct error_attached attached;
    while (error_attached_next(&list, &attached))
        if (name_is_valid(attached.name)) /* without memory it is not known before it is brought */
            (void)attach_announce(core, job, record->id, attached.name, attached.bytes);
}

/* ---- keeping --------------------------------------------------------------------------------- */

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

bool attach_add(struct core *core, struct job *job, struct attachment *attachment,
                const struct attach_piece *piece)
{
    if (piece->payload != 0 && !reserve_piece(core, attachment))
        return false;
    if (piece->payload != 0) {
        effects_retain(core->effects, piece->payload, 1);
        attachment->pieces[attachment->count++] =
            (struct piece){.payload = piece->payload, .bytes = piece->bytes};
        attachment->bytes += piece->bytes;
        job->attachment_bytes += piece->bytes;
        account_count(attachment->account, ACCESS_ATTACHMENTS, piece->bytes);
    }
    attachment->arrived = attachment->bytes;
    if (piece->is_last)
        attachment_move(attachment, ATTACHMENT_WHOLE);
    note_attached(core, job, attachment, piece);
    return true;
}

void attach_end(struct core *core, struct job *job, struct attachment *attachment,
                enum attachment_state state)
{
    attachment_move(attachment, state);
    if (state == ATTACHMENT_DROPPED)
        release_pieces(core, job, attachment);
    note_attachment_dropped(core, job, attachment);
    courier_lose(core, attachment, state);
}

bool attach_make_room(struct core *core, struct job *job, const struct attachment *attachment,
                      uint64_t bytes)
{
    uint64_t most = core->options.attachment_bytes_max;
    if (attachment->bytes + bytes > most)
        return false; /* it would not fit alone */
    if (!account_has_room(attachment->account, ACCESS_ATTACHMENTS, bytes)) {
        core->counts.quota_refused[ACCESS_ATTACHMENTS] += 1;
        return false; /* what stands is not taken away */
    }
    LIST_EACH(link, &job->attachments) {
        struct attachment *oldest = LIST_OWNER(link, struct attachment, link);
        if (job->attachment_bytes + bytes <= most)
            break;
        if (oldest != attachment && oldest->bytes > 0)
            attach_end(core, job, oldest, ATTACHMENT_DROPPED);
    }
    return job->attachment_bytes + bytes <= most;
}

/* When it was announced again, its party may have had no owner yet. */
static void find_owners(struct core *core, const struct job *job)
{
    LIST_EACH(link, &job->attachments) {
        struct attachment *attachment = LIST_OWNER(link, struct attachment, link);
        struct account *before = attachment->account;
        attachment->account = account_of(core, job, attach_error(attachment));
        account_count(before, ACCESS_ATTACHMENTS, -attachment->bytes);
        account_count(attachment->account, ACCESS_ATTACHMENTS, attachment->bytes);
        account_unref(core, before);
    }
}

void attach_resume(struct core *core)
{
    struct attachment *attachment = NULL;
    const struct job *job = NULL;
    uint32_t id = 0;
    while ((attachment = pool_next(&core->attachments, id)) != NULL) {
        id = attachment->id;
        attachment->left_ns = core_clock(core);
    }
    while ((job = pool_next(&core->jobs, job != NULL ? job->id : 0)) != NULL)
        find_owners(core, job);
}

void attach_snapshot(struct core *core, const struct job *job)
{
    LIST_EACH(link, &job->attachments) {
        const struct attachment *attachment = LIST_OWNER(link, struct attachment, link);
        bool is_whole = attachment->state == ATTACHMENT_WHOLE;
        note_attachment_announced(core, job, attachment);
        if (is_whole && attachment->count == 0)
            note_attached(core, job, attachment, &(struct attach_piece){.is_last = true});
        for (uint32_t i = 0; i < attachment->count; i++)
            note_attached(
                core, job, attachment,
                &(struct attach_piece){.payload = attachment->pieces[i].payload,
                                       .bytes = attachment->pieces[i].bytes,
                                       .is_last = is_whole && i + 1 == attachment->count});
        if (attachment->state != ATTACHMENT_COMING && !is_whole)
            note_attachment_dropped(core, job, attachment);
    }
}
