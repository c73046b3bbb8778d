/* SPDX-License-Identifier: MPL-2.0 */
/* attach.c -- attachments of errors: kept with the error here, brought to the broker piece by piece
 * by a courier, fetched by another.
 *
 * A courier is a second bus: an observer with connections, a session and a thread of its own.  The
 * error is told first, and as ever; then the party's thread hands what is attached to its courier,
 * whose thread reads and sends it, while the party goes on, or is over.  So neither a slow disk nor
 * all these bytes are in the way of a beat, an error or a value.
 *
 * No two locks are held at once: jobs change hands between them. */
#include "libbus/api/api_internal.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "libbus/base/pattern.h"
#include "libbus/base/utf8.h"

struct error_attachment {
    struct error_attachment *next;
    char name[LIMIT_NAME_BYTES + 1];
    bool is_elsewhere; /* told by the wire: there is nothing of it here */
    int fd;            /* -1: data */
    uint64_t bytes;    /* of data; of the file when it was opened; ERROR_BYTES_UNKNOWN */
    uint8_t data[];
};

#define NS_PER_MS INT64_C(1000000)

/* An error whose attachments are still to be brought. */
struct attach_job {
    struct attach_job *next;
    struct bus_error *error; /* a reference */
    char job[LIMIT_NAME_BYTES + 1];
};

void attachments_free(struct error_attachment *attachments)
{
    while (attachments != NULL) {
        struct error_attachment *now = attachments;
        attachments = now->next;
        if (now->fd >= 0)
            close(now->fd);
        free(now);
    }
}

/* ---- attaching ------------------------------------------------------------------------------- */

/* As the record of the error has them. */
static void list_again(struct bus_error *error)
{
    struct error_attached list[LIMIT_ERROR_ATTACHMENTS];
    uint32_t count = 0;
    for (const struct error_attachment *at = error->attachments; at != NULL; at = at->next)
        list[count++] = (struct error_attached){.name = span_text(at->name), .bytes = at->bytes};
    if (count > 0)
        error->attached->bytes = error_attached_write(list, count, error->attached->data);
}

/* One without bytes behind it, at the end. */
static enum bus_err add(struct bus_error *error, struct span name, size_t data_bytes,
                        struct error_attachment **out_attachment)
{
    unsigned count = 0;
    struct error_attachment **end = &error->attachments;
    for (; *end != NULL; end = &(*end)->next, count++)
        if (span_equal(span_text((*end)->name), name))
            return BUS_EINVAL;
    if (count == LIMIT_ERROR_ATTACHMENTS)
        return BUS_EFULL;
    if (error->attached == NULL)
        error->attached = calloc(1, sizeof *error->attached);
    struct error_attachment *attachment = malloc(sizeof *attachment + data_bytes);
    if (error->attached == NULL || attachment == NULL) {
        free(attachment);
        return BUS_ENOMEM;
    }
    *attachment = (struct error_attachment){.fd = -1, .bytes = data_bytes};
    memcpy(attachment->name, name.data, name.bytes);
    attachment->name[name.bytes] = '\0';
    *end = attachment;
    *out_attachment = attachment;
    return BUS_OK;
}

static enum bus_err may_add(const struct bus_error *error, const char *name)
{
    if (error == NULL || !name_is_valid(span_text(name)))
        return BUS_EINVAL;
    return error_check_fresh(error);
}

enum bus_err bus_error_add_data(struct bus_error *error, const char *name, const void *data,
                                size_t bytes)
{
    enum bus_err err = may_add(error, name);
    if (err == BUS_OK && data == NULL && bytes > 0)
        err = BUS_EINVAL;
    struct error_attachment *attachment = NULL;
    if (err == BUS_OK)
        err = add(error, span_text(name), bytes, &attachment);
    if (err == BUS_OK && bytes > 0)
        memcpy(attachment->data, data, bytes);
    if (err == BUS_OK)
        list_again(error);
    return err;
}

/* Of a pipe, or a file of the kernel's, nobody knows. */
static uint64_t file_bytes(int fd)
{
    struct stat stat;
    return fstat(fd, &stat) == 0 && S_ISREG(stat.st_mode) && stat.st_size > 0
               ? (uint64_t)stat.st_size
               : ERROR_BYTES_UNKNOWN;
}

enum bus_err bus_error_add_file(struct bus_error *error, const char *name, const char *path)
{
    enum bus_err err = may_add(error, name);
    if (err != BUS_OK || path == NULL)
        return BUS_EINVAL;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return BUS_EINVAL;
    struct error_attachment *attachment = NULL;
    err = add(error, span_text(name), 0, &attachment);
    if (err != BUS_OK) {
        close(fd);
        return err;
    }
    attachment->fd = fd;
    attachment->bytes = file_bytes(fd);
    list_again(error);
    return BUS_OK;
}

bool attachments_read(struct bus_error *error, struct span list)
{
    struct error_attached attached;
    struct error_attachment *attachment = NULL;
    while (error_attached_next(&list, &attached)) {
        enum bus_err err = add(error, attached.name, 0, &attachment);
        if (err == BUS_ENOMEM)
            return false;
        if (err != BUS_OK)
            continue; /* there twice: once will do */
        attachment->is_elsewhere = true;
        attachment->bytes = attached.bytes;
    }
    list_again(error);
    return true;
}

const char *bus_error_attachment_at(const struct bus_error *error, size_t index, int64_t *out_bytes)
{
    const struct error_attachment *at = error->attachments;
    for (; at != NULL && index > 0; index--)
        at = at->next;
    if (at == NULL)
        return NULL;
    if (out_bytes != NULL)
        *out_bytes = at->bytes <= INT64_MAX ? (int64_t)at->bytes : -1;
    return at->name;
}

/* ---- handing over ---------------------------------------------------------------------------- */

static void append(struct attach_job **jobs, struct attach_job *more)
{
    while (*jobs != NULL)
        jobs = &(*jobs)->next;
    *jobs = more;
}

void attach_note(struct bus *bus, const struct bus_error *error)
{
    struct bus_error *noted = (struct bus_error *)(uintptr_t)error; /* nobody else sees the mark */
    if (error->attachments == NULL || error->attachments->is_elsewhere || error->is_noted)
        return;
    struct attach_job *job = malloc(sizeof *job);
    if (job == NULL)
        return; /* they are cut before their beginning */
    noted->is_noted = true;
    *job = (struct attach_job){.error = bus_error_ref(error)};
    memcpy(job->job, bus->job, sizeof job->job);
    append(&bus->attach_jobs, job);
}

static void job_free(struct attach_job *job)
{
    bus_error_unref(&job->error);
    free(job);
}

void attach_fini(struct bus *bus)
{
    while (bus->attach_jobs != NULL) {
        struct attach_job *job = bus->attach_jobs;
        bus->attach_jobs = job->next;
        job_free(job);
    }
    free(bus->carrying);
}

/* A courier that can go on no more gives back what it did not bring.  No lock. */
static struct attach_job *dismiss_courier(struct bus **courier)
{
    api_lock(*courier);
    struct attach_job *jobs = (*courier)->attach_jobs;
    (*courier)->attach_jobs = NULL;
    api_unlock(*courier);
    (void)core_close(courier, BUS_POLL); /* it owes nothing */
    return jobs;
}

static struct bus *courier_open(const struct bus *bus)
{
    struct bus_options options;
    struct bus *courier = NULL;
    bus_options_init(&options);
    options.heartbeat_ms = bus->options.heartbeat_ms;
    options.lost_after_ms = bus->options.lost_after_ms;
    options.broker_lost_ms = bus->options.broker_lost_ms;
    (void)core_open_courier(&bus->endpoints, &options, &courier, NULL); /* tried again */
    if (courier == NULL)
        return NULL;
    api_lock(courier);
    courier->employer = bus;
    api_unlock(courier);
    return courier;
}

/* Lock; without it while it waits for others. */
static bool hand_over(struct bus *bus, int64_t now_ns)
{
    struct bus *courier = bus->courier;
    struct attach_job *jobs = bus->attach_jobs;
    bool is_over = courier != NULL && atomic_load_explicit(&courier->is_over, memory_order_acquire);
    if ((jobs == NULL && !is_over) || now_ns < bus->courier_ns)
        return false;
    bus->attach_jobs = NULL;
    bus->courier = NULL; /* nobody else takes it meanwhile */
    bus->is_handing_over = true;
    bus->courier_ns = now_ns + bus->options.heartbeat_ms * NS_PER_MS;
    api_unlock(bus);
    if (is_over) {
        struct attach_job *left = dismiss_courier(&courier);
        append(&left, jobs);
        jobs = left;
    }
    if (courier == NULL && jobs != NULL)
        courier = courier_open(bus);
    if (courier != NULL) {
        api_lock(courier);
        append(&courier->attach_jobs, jobs);
        jobs = NULL;
        api_unlock_wake(courier);
    }
    api_lock(bus);
    append(&jobs, bus->attach_jobs); /* none was open: those come first */
    bus->attach_jobs = jobs;
    bus->courier = courier;
    bus->is_handing_over = false;
    if (courier != NULL)
        bus->courier_ns = 0;
    lookout_broadcast(bus, &bus->news);
    return true;
}

/* ---- bringing: the courier's ----------------------------------------------------------------- */

/* While values wait for the link, a piece goes all the same each ... */
#define STARVED_NS (100 * NS_PER_MS)
enum { HELD_BACK_MS = 5 /* ... and so often it is looked whether they do */ };

struct carrying {
    const struct error_attachment *attachment; /* of the first job; NULL: none is begun */
    uint64_t bytes;                            /* so many are brought at most */
    int64_t sent_ns;                           /* the last piece */
    bool is_held_back;
    uint8_t piece[LIMIT_ATTACHMENT_PIECE_BYTES];
};

/* The next piece; its bytes, fewer than there is room for at the end, or if it cannot be read. */
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

static bool may_send(struct bus *bus, int64_t now_ns)
{
    struct carrying *carrying = bus->carrying;
    bool is_due = bus->employer != NULL &&
                  atomic_load_explicit(&bus->employer->is_data_due, memory_order_relaxed);
    carrying->is_held_back = is_due && now_ns < carrying->sent_ns + STARVED_NS;
    return !carrying->is_held_back;
}

static bool send_piece(struct bus *bus, int64_t now_ns)
{
    struct carrying *carrying = bus->carrying;
    uint64_t offset = 0;
    carrying->is_held_back = false;
    if (!session_piece_wanted(bus->session, &offset) || !may_send(bus, now_ns))
        return false;
    size_t bytes = read_piece(carrying, offset, carrying->piece);
    bool is_last = bytes < LIMIT_ATTACHMENT_PIECE_BYTES || offset + bytes == carrying->bytes;
    session_piece(bus->session, span_of(carrying->piece, bytes), is_last);
    carrying->sent_ns = now_ns;
    return true;
}

static void begin(struct bus *bus, const struct error_attachment *attachment)
{
    const struct attach_job *job = bus->attach_jobs;
    struct carrying *carrying = bus->carrying;
    carrying->attachment = attachment;
    carrying->bytes = attachment->fd >= 0 ? file_bytes(attachment->fd) : attachment->bytes;
    session_bring(bus->session,
                  &(struct session_attachment){.job = span_text(job->job),
                                               .error = span_text(bus_error_id(job->error)),
                                               .name = span_text(attachment->name)},
                  carrying->bytes);
}

/* The one under way is through, well or not: the broker knows how. */
static void go_on(struct bus *bus)
{
    struct attach_job *job = bus->attach_jobs;
    const struct error_attachment *next = bus->carrying->attachment->next;
    bus->carrying->attachment = NULL;
    if (next != NULL) {
        begin(bus, next);
        return;
    }
    bus->attach_jobs = job->next;
    job_free(job);
    lookout_broadcast(bus, &bus->news);
}

static bool bring(struct bus *bus, int64_t now_ns)
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
        begin(bus, bus->attach_jobs->error->attachments);
        return true;
    }
    enum wire_code code = session_brought(bus->session, NULL);
    if (code == CODE_ETIMEDOUT)
        return send_piece(bus, now_ns);
    if (code == CODE_OK || code == CODE_EFULL || code == CODE_EINVAL || code == CODE_EDENIED)
        go_on(bus);
    return true; /* otherwise it ended: told within this turn */
}

bool attach_turn(struct bus *bus, int64_t now_ns)
{
    if (bus->is_done)
        return false;
    return bus->is_courier ? bring(bus, now_ns) : hand_over(bus, now_ns);
}

int64_t attach_sleep_ms(const struct bus *bus, int64_t left_ms)
{
    bool is_held_back = bus->carrying != NULL && bus->carrying->is_held_back;
    return is_held_back && left_ms > HELD_BACK_MS ? HELD_BACK_MS : left_ms;
}

/* ---- waiting --------------------------------------------------------------------------------- */

/* Waits until the courier has brought all it has.  BUS_OK: or there is another by now. */
static enum bus_err wait_for(struct bus *courier, int64_t deadline_ns)
{
    enum bus_err err = BUS_OK;
    api_lock(courier);
    while (err == BUS_OK && courier->session != NULL && courier->attach_jobs != NULL) {
        err = courier->end;
        if (err == BUS_OK && !api_wait(courier, &courier->news, &courier->waiters, deadline_ns))
            err = BUS_ETIMEDOUT;
    }
    api_unlock(courier);
    return err;
}

enum bus_err attach_flush(struct bus *bus, int64_t deadline_ns)
{
    enum bus_err err = BUS_OK;
    int64_t patient_ns = api_deadline_ns(bus->options.broker_lost_ms); /* where none is there */
    api_lock(bus);
    if (bus->attach_jobs == NULL && bus->courier == NULL && !bus->is_handing_over) {
        api_unlock(bus);
        return BUS_OK;
    }
    if (deadline_ns > patient_ns)
        deadline_ns = patient_ns;
    api_wake(bus);
    while (err == BUS_OK && bus->session != NULL && !bus->is_done &&
           (bus->attach_jobs != NULL || bus->is_handing_over))
        if (!api_wait(bus, &bus->news, &bus->waiters, deadline_ns))
            err = BUS_ETIMEDOUT;
    struct bus *courier = err == BUS_OK ? bus->courier : NULL;
    if (courier != NULL)
        api_ref(courier);
    api_unlock(bus);
    if (courier == NULL)
        return err;
    err = wait_for(courier, deadline_ns);
    api_unref(courier);
    return err;
}

void attach_close(struct bus *bus)
{
    if (bus->courier != NULL)
        (void)core_close(&bus->courier, BUS_POLL); /* what it did not bring is cut */
}
