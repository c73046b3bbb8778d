/* SPDX-License-Identifier: MPL-2.0 */
/* attach_bring.c -- what a courier does: it reads attachments and sends them, piece by piece. */
#include "libbus/api/attach_bring.h"

#include "libbus/api/attach_jobs.h"
#include "libbus/api/attachment_list.h"
#include "libbus/api/error.h"
#include "libbus/api/model.h"
#include "libbus/api/sealing.h"
#include "libbus/api/waiters.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NS_PER_MS INT64_C(1000000)

/* While values wait for the link, a piece is still sent once in this time. */
#define STARVED_NS (100 * NS_PER_MS)
enum { HELD_BACK_MS = 5 /* between two looks whether values wait */ };

struct carrying {
    const struct error_attachment *attachment; /* of the first job; NULL: none is begun */
    const struct error_sealing *sealing;       /* of its error; NULL: it is brought in the open */
    uint32_t number;                           /* of the attachment, from 0 */
    uint64_t bytes;                            /* at most so many of it are brought */
    int64_t sent_ns;                           /* the last piece */
    bool is_held_back;
    uint8_t piece[LIMIT_ATTACHMENT_PIECE_BYTES];
    uint8_t plain[SEALED_PIECE_HEAD_BYTES + SEALED_PIECE_BYTES]; /* what is sealed into a piece */
};

/* Reads the attachment from offset on, and returns how many bytes.  They are fewer than room at its
 * end, or if it cannot be read. */
static size_t read_bytes(const struct carrying *carrying, uint64_t offset, size_t room,
                         uint8_t *out)
{
    const struct error_attachment *attachment = carrying->attachment;
    uint64_t left = carrying->bytes > offset ? carrying->bytes - offset : 0;
    size_t most = left < room ? (size_t)left : room;
    size_t bytes = 0;
    if (attachment->fd < 0) {
        memcpy(out, attachment->data + (most > 0 ? offset : 0), most);
        return most;
    }
    while (bytes < most) {
        ssize_t got = pread(attachment->fd, out + bytes, most - bytes, (off_t)(offset + bytes));
        if (got <= 0)
            break;
        bytes += (size_t)got;
    }
    return bytes;
}

/* The same with a piece that is sealed.  All but the last one are whole, so the offset says which
 * one is next.  A piece that cannot be sealed has no bytes. */
static size_t read_sealed(struct carrying *carrying, uint64_t offset, bool *out_is_last)
{
    uint64_t from = offset / LIMIT_ATTACHMENT_PIECE_BYTES * SEALED_PIECE_BYTES;
    size_t bytes =
        read_bytes(carrying, from, SEALED_PIECE_BYTES, carrying->plain + SEALED_PIECE_HEAD_BYTES);
    struct sealed_piece piece = {.attachment = carrying->number, .offset = from};
    struct span plain = span_of(carrying->plain, SEALED_PIECE_HEAD_BYTES + bytes);
    *out_is_last = bytes < SEALED_PIECE_BYTES || from + bytes == carrying->bytes;
    piece.is_last = *out_is_last;
    memcpy(piece.label, carrying->sealing->label, sizeof piece.label);
    sealed_piece_write(&piece, carrying->plain);
    if (seal_close(carrying->sealing->data, plain, carrying->piece))
        return plain.bytes + SEAL_BOX_BYTES;
    *out_is_last = true;
    return 0;
}

/* Reads the piece at offset, and returns its bytes. */
static size_t read_piece(struct carrying *carrying, uint64_t offset, bool *out_is_last)
{
    if (carrying->sealing != NULL)
        return read_sealed(carrying, offset, out_is_last);
    size_t bytes = read_bytes(carrying, offset, LIMIT_ATTACHMENT_PIECE_BYTES, carrying->piece);
    *out_is_last = bytes < LIMIT_ATTACHMENT_PIECE_BYTES || offset + bytes == carrying->bytes;
    return bytes;
}

static bool may_send_piece(struct bus *bus, int64_t now_ns)
{
    struct carrying *carrying = bus->carrying;
    bool is_due = bus->courier_of != NULL &&
                  atomic_load_explicit(&bus->courier_of->is_data_due, memory_order_relaxed);
    carrying->is_held_back = is_due && now_ns < carrying->sent_ns + STARVED_NS;
    return !carrying->is_held_back;
}

static bool send_piece(struct bus *bus, int64_t now_ns)
{
    struct carrying *carrying = bus->carrying;
    uint64_t offset = 0;
    carrying->is_held_back = false;
    if (!session_piece_wanted(bus->session, &offset) || !may_send_piece(bus, now_ns))
        return false;
    bool is_last = false;
    size_t bytes = read_piece(carrying, offset, &is_last);
    session_piece(bus->session, span_of(carrying->piece, bytes), is_last);
    carrying->sent_ns = now_ns;
    return true;
}

static void begin_attachment(struct bus *bus, const struct error_attachment *attachment)
{
    const struct attach_job *job = bus->attach_jobs;
    struct carrying *carrying = bus->carrying;
    char sealed[SEALED_NAME_BYTES];
    carrying->attachment = attachment;
    carrying->sealing = error_identity_of(job->error)->sealing;
    carrying->bytes =
        attachment->fd >= 0 ? attachment_file_bytes(attachment->fd) : attachment->bytes;
    carrying->number = 0;
    for (const struct error_attachment *at = job->error->attachments; at != attachment;
         at = at->next)
        carrying->number += 1;
    sealed_name(carrying->number, sealed);
    bool is_sealed = carrying->sealing != NULL;
    session_bring(
        bus->session,
        &(struct session_attachment){.job = span_text(job->job),
                                     .error = span_text(bus_error_id(job->error)),
                                     .name = span_text(is_sealed ? sealed : attachment->name)},
        is_sealed ? sealed_bytes(carrying->bytes) : carrying->bytes);
}

/* Goes on behind the attachment under way, whether all of it came or not: the broker knows that. */
static void finish_attachment(struct bus *bus)
{
    struct attach_job *job = bus->attach_jobs;
    const struct error_attachment *next = bus->carrying->attachment->next;
    bus->carrying->attachment = NULL;
    if (next != NULL) {
        begin_attachment(bus, next);
        return;
    }
    bus->attach_jobs = job->next;
    attach_job_free(job);
    waiters_broadcast(bus, &bus->news);
}

bool attach_bring(struct bus *bus, int64_t now_ns)
{
    if (bus->attach_jobs == NULL)
        return false;
    if (bus->carrying == NULL)
        bus->carrying = calloc(1, sizeof *bus->carrying);
    if (bus->end != BUS_OK || bus->carrying == NULL) {
        atomic_store_explicit(&bus->is_over, true, memory_order_release);
        return false;
    }
    if (bus->carrying->attachment == NULL) {
        begin_attachment(bus, bus->attach_jobs->error->attachments);
        return true;
    }
    enum wire_code code = session_brought(bus->session, NULL);
    if (code == CODE_ETIMEDOUT)
        return send_piece(bus, now_ns);
    if (code == CODE_OK || code == CODE_EFULL || code == CODE_EINVAL || code == CODE_EDENIED)
        finish_attachment(bus);
    return true; /* any other code ended the session; this turn tells it */
}

int64_t attach_sleep_ms(const struct bus *bus, int64_t left_ms)
{
    bool is_held_back = bus->carrying != NULL && bus->carrying->is_held_back;
    return is_held_back && left_ms > HELD_BACK_MS ? HELD_BACK_MS : left_ms;
}
