/* SPDX-License-Identifier: MPL-2.0 */
/* uploads.c -- see uploads.h. */
#include "libbus/session/uploads.h"

#include "libbus/base/limits.h"
#include "libbus/base/must.h"
#include "libbus/wire/frame.h"

#include <string.h>

static struct upload *owner(struct list *link)
{
    return LIST_OWNER(link, struct upload, link);
}

void uploads_init(struct uploads *uploads, struct memory *memory)
{
    *uploads = (struct uploads){
        .memory = memory, .all_bytes = UINT64_MAX, .window_bytes = LIMIT_UPLOAD_BYTES};
    list_init(&uploads->items);
}

static void remove_upload(struct uploads *uploads, struct upload *upload)
{
    if (uploads->turn == upload)
        uploads->turn = upload->link.next == &uploads->items ? NULL : owner(upload->link.next);
    list_remove(&upload->link);
    uploads->bytes -= upload->value->bytes;
    uploads->under_way -= upload->sent - upload->accepted;
    uploads->unsent -= upload->value->bytes - upload->sent;
    buffer_unref(&upload->value);
    memory_give(uploads->memory, upload, sizeof *upload);
}

void uploads_fini(struct uploads *uploads)
{
    LIST_EACH(link, &uploads->items)
        remove_upload(uploads, owner(link));
}

bool uploads_add(struct uploads *uploads, const struct upload *upload, struct buffer **value)
{
    struct upload *added = memory_take(uploads->memory, sizeof *added);
    if (added == NULL)
        return false;
    *added = *upload;
    added->ordinal = ++uploads->last;
    added->limit = UINT64_MAX;
    added->value = *value;
    *value = NULL;
    list_push(&uploads->items, &added->link);
    uploads->bytes += added->value->bytes;
    uploads->unsent += added->value->bytes;
    return true;
}

static struct upload *find_upload(const struct uploads *uploads, uint32_t topic, uint64_t seq)
{
    for (struct list *link = uploads->items.next; link != &uploads->items; link = link->next)
        if (owner(link)->seq == seq && owner(link)->topic == topic)
            return owner(link);
    return NULL;
}

void uploads_drop(struct uploads *uploads, uint32_t topic, uint64_t seq)
{
    struct upload *upload = find_upload(uploads, topic, seq);
    if (upload != NULL)
        remove_upload(uploads, upload);
}

void uploads_back(struct uploads *uploads, uint64_t last)
{
    while (!list_is_empty(&uploads->items) && owner(uploads->items.prev)->ordinal > last)
        remove_upload(uploads, owner(uploads->items.prev));
}

/* Values of one topic are read one after the other, and so they are sent. */
static bool is_first(const struct uploads *uploads, const struct upload *upload)
{
    LIST_EACH(link, &uploads->items) {
        const struct upload *other = owner(link);
        if (other == upload)
            return true;
        if (other->topic == upload->topic && other->sent < other->value->bytes)
            return false;
    }
    return true;
}

static bool may_send(const struct uploads *uploads, const struct upload *upload,
                     uint64_t frames_sent)
{
    return upload->after <= frames_sent && upload->sent < upload->value->bytes &&
           upload->sent < upload->limit &&
           upload->sent - upload->accepted < uploads->window_bytes &&
           uploads->under_way < uploads->all_bytes && is_first(uploads, upload);
}

uint64_t uploads_unsent_of(const struct uploads *uploads, uint32_t topic)
{
    uint64_t bytes = 0;
    LIST_EACH(link, &uploads->items) {
        const struct upload *upload = owner(link);
        if (upload->topic == topic)
            bytes += upload->value->bytes - upload->sent;
    }
    return bytes;
}

struct upload *uploads_next(struct uploads *uploads, uint64_t frames_sent)
{
    if (list_is_empty(&uploads->items))
        return NULL;
    struct list *first = uploads->turn != NULL ? &uploads->turn->link : uploads->items.next;
    struct list *link = first;
    do {
        if (link != &uploads->items && may_send(uploads, owner(link), frames_sent))
            return owner(link);
        link = link->next;
    } while (link != first);
    return NULL;
}

static size_t chunk_bytes(const struct upload *upload)
{
    uint64_t left = upload->value->bytes - upload->sent;
    return left < upload->piece_bytes ? (size_t)left : upload->piece_bytes;
}

size_t upload_part_bytes(const struct upload *upload)
{
    return BATCH_HEADER_BYTES + frame_total(FRAME_CHUNK_PREFIX_BYTES + chunk_bytes(upload));
}

void upload_part_write(const struct upload *upload, uint8_t *out)
{
    size_t bytes = chunk_bytes(upload);
    bool is_last = upload->sent + bytes == upload->value->bytes;
    struct frame frame = {
        .flags = (uint16_t)(FRAME_CHUNK | (is_last ? FRAME_LAST_CHUNK : 0)),
        .delivery = 1,
        .attempt = upload->attempt,
        .topic = upload->topic,
        .seq = upload->seq,
        .stamp_ns = upload->stamp_ns,
        .reply_to = FRAME_NO_REPLY,
        .value = span_of(NULL, FRAME_CHUNK_PREFIX_BYTES + bytes),
    };
    size_t frame_bytes = frame_total(frame.value.bytes);
    batch_header_write(out, 1, (uint32_t)frame_bytes, 0);
    frame_header_write(out + BATCH_HEADER_BYTES, &frame);
    uint8_t *value = out + BATCH_HEADER_BYTES + FRAME_HEADER_BYTES;
    frame_chunk_prefix_write(value, upload->value->bytes, upload->sent);
    memcpy(value + FRAME_CHUNK_PREFIX_BYTES, upload->value->data + upload->sent, bytes);
    memset(value + frame.value.bytes, 0xc0, frame_padded(frame.value.bytes) - frame.value.bytes);
}

void uploads_sent(struct uploads *uploads, struct upload *upload)
{
    size_t bytes = chunk_bytes(upload);
    upload->sent += bytes;
    uploads->under_way += bytes;
    uploads->unsent -= bytes;
    uploads->turn = upload->link.next == &uploads->items ? NULL : owner(upload->link.next);
}

enum uploads_verdict uploads_accept(struct uploads *uploads, uint32_t topic, uint64_t seq,
                                    uint64_t bytes)
{
    struct upload *upload = find_upload(uploads, topic, seq);
    if (upload == NULL)
        return UPLOADS_UNKNOWN;
    if (bytes > upload->value->bytes)
        return UPLOADS_BROKEN;
    uploads->under_way -= upload->sent - upload->accepted;
    uploads->unsent -= upload->value->bytes - upload->sent;
    if (upload->accepted < bytes) {
        uploads->accepted += bytes - upload->accepted;
        upload->accepted = bytes;
    }
    if (upload->sent < bytes)
        upload->sent = bytes;
    uploads->under_way += upload->sent - upload->accepted;
    uploads->unsent += upload->value->bytes - upload->sent;
    if (upload->accepted < upload->value->bytes)
        return UPLOADS_GOES_ON;
    remove_upload(uploads, upload);
    return UPLOADS_DONE;
}

void uploads_limit(struct uploads *uploads, uint32_t topic, uint64_t seq, uint64_t limit)
{
    struct upload *upload = find_upload(uploads, topic, seq);
    if (upload != NULL)
        upload->limit = limit > 0 ? limit : UINT64_MAX;
}

void uploads_rewind(struct uploads *uploads)
{
    uploads->turn = NULL;
    uploads->under_way = 0;
    uploads->unsent = uploads->bytes;
    LIST_EACH(link, &uploads->items) {
        owner(link)->sent = 0;
        owner(link)->accepted = 0;
        owner(link)->limit = UINT64_MAX; /* another broker may have room */
    }
}

uint64_t uploads_accepted_of(const struct uploads *uploads, uint32_t topic)
{
    uint64_t bytes = 0;
    LIST_EACH(link, &uploads->items) {
        const struct upload *upload = LIST_OWNER(link, struct upload, link);
        if (upload->topic == topic)
            bytes += upload->accepted;
    }
    return bytes;
}

bool uploads_reached(const struct uploads *uploads, uint64_t ordinal)
{
    return list_is_empty(&uploads->items) || owner(uploads->items.next)->ordinal > ordinal;
}
