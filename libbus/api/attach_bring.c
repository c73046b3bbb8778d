/* SPDX-License-Identifier: MPL-2.0 */
/* attach_bring.c -- what a courier does: it reads attachments and sends them, piece by piece. */
#include "libbus/api/attach_bring.h"

#include "libbus/api/attach_jobs.h"
#include "libbus/api/attachment_list.h"
#include "libbus/api/model.h"
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
    uint64_t bytes;                            /* at most so many are brought */
    int64_t sent_ns;                           /* the last piece */
    bool is_held_back;
    uint8_t piece[LIMIT_ATTACHMENT_PIECE_BYTES];
};

/* Reads the piece at offset, and returns its bytes.  They are fewer than a piece may have at the
 * end of the attachment, or if it cannot be read. */
static size_t read_piece(const struct carrying *carrying, uint64_t offset, uint8_t *out)
{
    const struct error_attachment *attachment = carrying->attachment;
    uint64_t left = carrying->bytes > offset ? carrying->bytes - offset : 0;
    size_t most = left < LIMIT_ATTACHMENT_PIECE_BYTES ? (size_t)left : LIMIT_ATTACHMENT_PIECE_BYTES;
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
    size_t bytes = read_piece(carrying, offset, carrying->piece);
    bool is_last = bytes < LIMIT_ATTACHMENT_PIECE_BYTES || offset + bytes == carrying->bytes;
    session_piece(bus->session, span_of(carrying->piece, bytes), is_last);
    carrying->sent_ns = now_ns;
    return true;
}

static void begin_attachment(struct bus *bus, const struct error_attachment *attachment)
{
    const struct attach_job *job = bus->attach_jobs;
    struct carrying *carrying = bus->carrying;
    carrying->attachment = attachment;
    carrying->bytes =
        attachment->fd >= 0 ? attachment_file_bytes(attachment->fd) : attachment->bytes;
    session_bring(bus->session,
                  &(struct session_attachment){.job = span_text(job->job),
                                               .error = span_text(bus_error_id(job->error)),
                                               .name = span_text(attachment->name)},
                  carrying->bytes);
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
