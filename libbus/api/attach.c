/* SPDX-License-Identifier: MPL-2.0 */
/* attach.c -- attachments of errors: kept with the error here, brought to the broker piece by piece
 * over a connection of their own, fetched the same way by whoever asks.
 *
 * An error is told first, and as ever.  What is attached to it follows when the application waits
 * for its words to arrive anyway: in bus_flush() and bus_close(). */
#include "libbus/api/api_internal.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "libbus/base/pattern.h"
#include "libbus/base/utf8.h"

enum { ATTACHMENTS_MAX = 16 };

struct error_attachment {
    struct error_attachment *next;
    char name[LIMIT_NAME_BYTES + 1];
    int fd; /* -1: data */
    size_t bytes;
    uint8_t data[];
};

/* An error whose attachments are still to be brought. */
struct attach_job {
    struct attach_job *next;
    struct bus_error *error; /* a reference */
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

static enum bus_err add(struct bus_error *error, const char *name, int fd, const void *data,
                        size_t bytes)
{
    unsigned count = 0;
    struct error_attachment **end = &error->attachments;
    for (; *end != NULL; end = &(*end)->next, count++)
        if (strcmp((*end)->name, name) == 0)
            return BUS_EINVAL;
    if (count == ATTACHMENTS_MAX)
        return BUS_EFULL;
    struct error_attachment *attachment = malloc(sizeof *attachment + bytes);
    if (attachment == NULL)
        return BUS_ENOMEM;
    attachment->next = NULL;
    attachment->fd = fd;
    attachment->bytes = bytes;
    memcpy(attachment->name, name, strlen(name) + 1);
    if (bytes > 0)
        memcpy(attachment->data, data, bytes);
    *end = attachment;
    return BUS_OK;
}

static enum bus_err may_add(const struct bus_error *error, const char *name)
{
    if (error == NULL || !name_is_valid(span_text(name)))
        return BUS_EINVAL;
    return error_check_fresh(error);
}

enum bus_err bus_error_attach(struct bus_error *error, const char *name, const void *data,
                              size_t bytes)
{
    enum bus_err err = may_add(error, name);
    if (err == BUS_OK && data == NULL && bytes > 0)
        err = BUS_EINVAL;
    return err == BUS_OK ? add(error, name, -1, data, bytes) : err;
}

enum bus_err bus_error_attach_file(struct bus_error *error, const char *name, const char *path)
{
    enum bus_err err = may_add(error, name);
    if (err != BUS_OK || path == NULL)
        return BUS_EINVAL;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return BUS_EINVAL;
    err = add(error, name, fd, NULL, 0);
    if (err != BUS_OK)
        close(fd);
    return err;
}

/* ---- bringing -------------------------------------------------------------------------------- */

void attach_note(struct bus *bus, const struct bus_error *error)
{
    struct bus_error *noted = (struct bus_error *)(uintptr_t)error; /* nobody else sees the mark */
    if (error->attachments == NULL || error->is_noted)
        return;
    struct attach_job *job = malloc(sizeof *job);
    if (job == NULL)
        return; /* it is told without them */
    noted->is_noted = true;
    *job = (struct attach_job){.next = bus->attach_jobs, .error = bus_error_ref(error)};
    bus->attach_jobs = job;
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
}

/* The next piece; its bytes, at most room, or -1: it cannot be read. */
static ssize_t read_piece(const struct error_attachment *attachment, uint64_t offset, uint8_t *out,
                          size_t room)
{
    if (attachment->fd >= 0)
        return pread(attachment->fd, out, room, (off_t)offset);
    size_t left = attachment->bytes - (size_t)offset;
    size_t bytes = left < room ? left : room;
    memcpy(out, attachment->data + offset, bytes);
    return (ssize_t)bytes;
}

static enum bus_err take_done(struct bus *asker, const struct msg *row, void *arg,
                              struct bus_error **reterr)
{
    (void)asker; /* the code is all there is to it */
    (void)arg;
    (void)reterr;
    return row->type == MSG_JOB_DONE ? (enum bus_err)row->as.job_done.code : BUS_EPROTO;
}

/* All of it, as it is now; what the broker does not want of it is not said again. */
static enum bus_err bring(struct bus *asker, const char *job, const struct bus_error *error,
                          const struct error_attachment *attachment, int64_t deadline_ns,
                          uint8_t *piece)
{
    struct msg question = {.type = MSG_ATTACHMENT,
                           .as.attachment = {.job = span_text(job),
                                             .error = span_text(bus_error_id(error)),
                                             .name = span_text(attachment->name)}};
    struct msg_attachment *said = &question.as.attachment;
    enum bus_err err = BUS_OK;
    while (err == BUS_OK && said->is_last == 0) {
        ssize_t bytes = read_piece(attachment, said->offset, piece, LIMIT_ATTACHMENT_PIECE_BYTES);
        said->is_last = bytes < LIMIT_ATTACHMENT_PIECE_BYTES; /* what cannot be read ends it */
        said->bytes = span_of(piece, bytes > 0 ? (size_t)bytes : 0);
        err = ask_next(asker, &question, deadline_ns, take_done, NULL, NULL);
        said->offset += said->bytes.bytes;
    }
    bool is_done_with = err == BUS_EFULL || err == BUS_ESETTLED || err == BUS_EINVAL ||
                        err == BUS_EDENIED; /* that one for good, or it is whole */
    return is_done_with ? BUS_OK : err;
}

static struct attach_job *take_job(struct bus *bus)
{
    api_lock(bus);
    struct attach_job *job = bus->attach_jobs;
    if (job != NULL)
        bus->attach_jobs = job->next;
    api_unlock(bus);
    return job;
}

static void give_back(struct bus *bus, struct attach_job *job)
{
    api_lock(bus);
    job->next = bus->attach_jobs;
    bus->attach_jobs = job;
    api_unlock(bus);
}

/* Those of one error. */
static enum bus_err bring_all(struct bus *asker, const struct bus *bus,
                              const struct bus_error *error, int64_t deadline_ns, uint8_t *piece)
{
    enum bus_err err = BUS_OK;
    for (const struct error_attachment *at = error->attachments; at != NULL && err == BUS_OK;
         at = at->next)
        err = bring(asker, bus->job, error, at, deadline_ns, piece);
    return err;
}

enum bus_err attach_send(struct bus *bus, int64_t deadline_ns)
{
    struct attach_job *job = take_job(bus);
    if (job == NULL)
        return BUS_OK;
    struct bus *asker = NULL;
    int64_t patient_ns = api_deadline_ns(bus->options.broker_lost_ms); /* where none is there */
    if (deadline_ns > patient_ns)
        deadline_ns = patient_ns;
    uint8_t *piece = malloc(LIMIT_ATTACHMENT_PIECE_BYTES);
    enum bus_err err =
        piece != NULL ? ask_open(&bus->endpoints, deadline_ns, &asker, NULL) : BUS_ENOMEM;
    while (err == BUS_OK && job != NULL) {
        err = bring_all(asker, bus, job->error, deadline_ns, piece);
        if (err != BUS_OK)
            break;
        job_free(job);
        job = take_job(bus);
    }
    if (job != NULL)
        give_back(bus, job);
    if (asker != NULL)
        ask_close(&asker);
    free(piece);
    return err;
}

/* ---- fetching -------------------------------------------------------------------------------- */

struct fetching {
    bus_attachment_fn *take;
    void *arg;
    uint64_t offset;
    bool is_over;
    bool is_whole;
};

static enum bus_err take_piece(struct bus *asker, const struct msg *row, void *arg,
                               struct bus_error **reterr)
{
    struct fetching *fetching = arg;
    const struct msg_fetched *fetched = &row->as.fetched;
    (void)asker; /* nothing is kept of it */
    if (row->type == MSG_JOB_DONE)
        return error_say(reterr, (enum bus_err)row->as.job_done.code, ERROR_TYPE_NOT_KEPT, "%.*s",
                         (int)row->as.job_done.message.bytes,
                         (const char *)row->as.job_done.message.data);
    if (row->type != MSG_FETCHED || fetched->offset != fetching->offset)
        return error_say(reterr, BUS_EPROTO, ERROR_TYPE_PROTOCOL,
                         "the broker answered another question");
    fetching->is_over = fetched->bytes.bytes == 0;
    fetching->is_whole = fetched->is_whole != 0;
    fetching->offset += fetched->bytes.bytes;
    if (!fetching->is_over &&
        fetching->take(fetched->bytes.data, fetched->bytes.bytes, fetching->arg) != 0)
        return error_say(reterr, BUS_ECLOSED, ERROR_TYPE_CLOSED, "the receiver wants no more");
    return BUS_OK;
}

static enum bus_err fetch(struct bus *asker, struct msg *question, struct fetching *fetching,
                          int64_t deadline_ns, struct bus_error **reterr)
{
    enum bus_err err = BUS_OK;
    while (err == BUS_OK && !fetching->is_over) {
        question->as.fetch.offset = fetching->offset;
        err = ask_next(asker, question, deadline_ns, take_piece, fetching, reterr);
    }
    if (err == BUS_OK && !fetching->is_whole)
        err = error_say(reterr, BUS_EOVERRUN, ERROR_TYPE_NOT_KEPT,
                        "the attachment ends in its middle: no more of it came, or is kept");
    return err;
}

enum bus_err bus_error_attachment(const char *endpoint, const char *job, const char *error_id,
                                  const char *name, int64_t timeout_ms, bus_attachment_fn *take,
                                  void *arg, struct bus_error **reterr)
{
    char job_name[LIMIT_NAME_BYTES + 1];
    struct endpoints endpoints;
    struct bus *asker = NULL;
    struct fetching fetching = {.take = take, .arg = arg};
    if (error_id == NULL || *error_id == '\0' || strlen(error_id) > LIMIT_ERROR_ID_BYTES ||
        !utf8_is_valid(span_text(error_id)) || !name_is_valid(span_text(name)) || take == NULL ||
        !options_time_is_valid(timeout_ms))
        return error_say(reterr, BUS_EINVAL, ERROR_TYPE_ARGUMENT,
                         "an error's id, a name, a timeout and a function are wanted");
    int64_t deadline_ns = api_deadline_ns(timeout_ms);
    enum bus_err err = options_job(job, job_name, reterr);
    if (err == BUS_OK)
        err = endpoints_read(&endpoints, endpoint, reterr);
    if (err == BUS_OK)
        err = ask_open(&endpoints, deadline_ns, &asker, reterr);
    if (err != BUS_OK)
        return err;
    struct msg question = {.type = MSG_FETCH,
                           .as.fetch = {.job = span_text(job_name),
                                        .error = span_text(error_id),
                                        .name = span_text(name)}};
    err = fetch(asker, &question, &fetching, deadline_ns, reterr);
    ask_close(&asker);
    return err;
}
