/* SPDX-License-Identifier: MPL-2.0 */
/* download.c -- see download.h. */
#include "clients/web/download.h"

#include "clients/web/reply.h"

#include <bus/report.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define FETCH_MS INT64_C(600000) /* a whole attachment, however slowly the browser takes it */
enum { OPEN_MS = 2000, CLOSE_S = 5, NAME_BYTES = 128 };

struct downloads {
    const char *endpoint;
    pthread_mutex_t lock; /* of all below, and of all downloads */
    pthread_cond_t moved; /* bytes were taken, or a download ended */
    struct download *first;
    unsigned count; /* threads */
    bool is_closing;
};

struct download {
    struct downloads *all;
    struct download *next;
    struct question question;
    struct MHD_Connection *connection; /* that reads; NULL: none any more */
    bool is_suspended;
    bool is_dropped; /* nobody wants more */
    bool is_ended;   /* the thread is done, and touches this no more */
    enum bus_err err;
    char why[256];     /* if err is not BUS_OK */
    uint64_t produced; /* bytes that came from the broker, and ... */
    uint64_t consumed; /* ... that the browser took */
    char buffer[DOWNLOAD_BUFFER_BYTES];
};

/* ---- the thread ------------------------------------------------------------------------------ */

/* Lock held. */
static void resume(struct download *download)
{
    if (download->is_suspended) {
        download->is_suspended = false;
        MHD_resume_connection(download->connection);
    }
}

static int take(const void *bytes, size_t count, void *arg)
{
    struct download *download = arg;
    struct downloads *all = download->all;
    const char *from = bytes;
    pthread_mutex_lock(&all->lock);
    while (count > 0 && !download->is_dropped) {
        size_t used = (size_t)(download->produced - download->consumed);
        size_t at = (size_t)(download->produced % DOWNLOAD_BUFFER_BYTES);
        size_t room = DOWNLOAD_BUFFER_BYTES - used;
        if (room > DOWNLOAD_BUFFER_BYTES - at) {
            room = DOWNLOAD_BUFFER_BYTES - at;
        }
        if (room == 0) {
            pthread_cond_wait(&all->moved, &all->lock);
            continue;
        }
        size_t part = count < room ? count : room;
        memcpy(download->buffer + at, from, part);
        download->produced += part;
        from += part;
        count -= part;
        resume(download);
    }
    bool is_dropped = download->is_dropped;
    pthread_mutex_unlock(&all->lock);
    return is_dropped;
}

/* Lock held. */
static void unlink_download(struct download *download)
{
    struct download **at = &download->all->first;
    while (*at != download) {
        at = &(*at)->next;
    }
    *at = download->next;
}

/* Lock held.  Whoever is the last frees it. */
static void free_if_over(struct download *download)
{
    if (download->is_ended && download->is_dropped) {
        unlink_download(download);
        free(download);
    }
}

static void *fetch(void *arg)
{
    struct download *download = arg;
    struct downloads *all = download->all;
    const struct question *question = &download->question;
    struct bus_admin *admin = NULL;
    struct bus_error *error = NULL;
    enum bus_err err = bus_admin_open(all->endpoint, NULL, OPEN_MS, &admin, &error);
    if (err == BUS_OK) {
        err = bus_admin_attachment_fetch(admin, question->job, question->id, question->name,
                                         FETCH_MS, take, download, &error);
    }
    bus_admin_close(&admin);
    pthread_mutex_lock(&all->lock);
    download->err = err;
    snprintf(download->why, sizeof download->why, "%.200s\n",
             error != NULL ? bus_error_message(error) : "the attachment cannot be read");
    bus_error_unref(&error);
    download->is_ended = true;
    resume(download);
    free_if_over(download);
    all->count -= 1;
    pthread_cond_broadcast(&all->moved);
    pthread_mutex_unlock(&all->lock);
    return NULL;
}

/* ---- the reader ------------------------------------------------------------------------------ */

static ssize_t read_bytes(void *arg, uint64_t position, char *out, size_t room)
{
    struct download *download = arg;
    struct downloads *all = download->all;
    ssize_t result = 0;
    (void)position; /* the bytes are read once, in order */
    pthread_mutex_lock(&all->lock);
    size_t at = (size_t)(download->consumed % DOWNLOAD_BUFFER_BYTES);
    size_t count = (size_t)(download->produced - download->consumed);
    if (count > DOWNLOAD_BUFFER_BYTES - at) {
        count = DOWNLOAD_BUFFER_BYTES - at;
    }
    if (count > room) {
        count = room;
    }
    if (count > 0) {
        memcpy(out, download->buffer + at, count);
        download->consumed += count;
        pthread_cond_broadcast(&all->moved);
        result = (ssize_t)count;
    } else if (download->is_ended) {
        result = download->err == BUS_OK ? MHD_CONTENT_READER_END_OF_STREAM
                                         : MHD_CONTENT_READER_END_WITH_ERROR;
    } else if (all->is_closing) {
        result = MHD_CONTENT_READER_END_WITH_ERROR;
    } else {
        download->is_suspended = true;
        MHD_suspend_connection(download->connection);
    }
    pthread_mutex_unlock(&all->lock);
    return result;
}

static void drop(void *arg)
{
    struct download *download = arg;
    struct downloads *all = download->all;
    pthread_mutex_lock(&all->lock);
    download->is_dropped = true;
    download->is_suspended = false;
    pthread_cond_broadcast(&all->moved);
    free_if_over(download);
    pthread_mutex_unlock(&all->lock);
}

/* A name for a file that no file system, and no header, takes for something else. */
static void file_name(const char *name, char out[NAME_BYTES])
{
    size_t bytes = 0;
    for (; name[bytes] != '\0' && bytes + 1 < NAME_BYTES; bytes++) {
        char c = name[bytes];
        bool is_plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                        (c >= '0' && c <= '9') || c == '-' || (c == '.' && bytes > 0);
        out[bytes] = '_';
        if (is_plain) {
            out[bytes] = c;
        }
    }
    out[bytes] = '\0';
}

enum MHD_Result download_reply(struct download **download, struct MHD_Connection *connection)
{
    struct download *taken = *download;
    char name[NAME_BYTES];
    char disposition[NAME_BYTES + 40];
    pthread_mutex_lock(&taken->all->lock);
    bool has_failed = taken->is_ended && taken->err != BUS_OK && taken->produced == 0;
    pthread_mutex_unlock(&taken->all->lock);
    if (has_failed) {
        enum MHD_Result result = reply_line(connection, reply_status_of(taken->err), taken->why);
        download_drop(download);
        return result;
    }
    struct MHD_Response *response = MHD_create_response_from_callback(
        MHD_SIZE_UNKNOWN, DOWNLOAD_BUFFER_BYTES / 4, read_bytes, taken, drop);
    if (response == NULL) {
        return MHD_NO; /* the caller still has it */
    }
    *download = NULL;
    file_name(taken->question.name, name);
    snprintf(disposition, sizeof disposition, "attachment; filename=\"%s\"", name);
    (void)MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE,
                                  "application/octet-stream");
    (void)MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_DISPOSITION, disposition);
    return reply_with(connection, MHD_HTTP_OK, response);
}

/* ---- begin and end --------------------------------------------------------------------------- */

struct downloads *downloads_new(const char *endpoint)
{
    struct downloads *all = calloc(1, sizeof *all);
    if (all != NULL) {
        all->endpoint = endpoint;
        pthread_mutex_init(&all->lock, NULL);
        pthread_cond_init(&all->moved, NULL);
    }
    return all;
}

struct download *download_begin(struct downloads *downloads, const struct question *question,
                                struct MHD_Connection *connection)
{
    pthread_t thread;
    pthread_attr_t detached;
    struct download *download = calloc(1, sizeof *download);
    if (download == NULL) {
        return NULL;
    }
    download->all = downloads;
    download->question = *question;
    download->connection = connection;
    pthread_attr_init(&detached);
    pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
    pthread_mutex_lock(&downloads->lock);
    bool is_begun = downloads->count < DOWNLOADS_MAX && !downloads->is_closing &&
                    pthread_create(&thread, &detached, fetch, download) == 0;
    if (is_begun) { /* its thread waits for the lock before it resumes */
        downloads->count += 1;
        download->next = downloads->first;
        downloads->first = download;
        download->is_suspended = true;
        MHD_suspend_connection(connection);
    }
    pthread_mutex_unlock(&downloads->lock);
    pthread_attr_destroy(&detached);
    if (!is_begun) {
        free(download);
        download = NULL;
    }
    return download;
}

void download_drop(struct download **download)
{
    if (*download != NULL) {
        drop(*download);
        *download = NULL;
    }
}

void downloads_stop(struct downloads *downloads)
{
    pthread_mutex_lock(&downloads->lock);
    downloads->is_closing = true;
    for (struct download *at = downloads->first; at != NULL; at = at->next) {
        resume(at);
    }
    pthread_mutex_unlock(&downloads->lock);
}

void downloads_free(struct downloads **downloads)
{
    struct downloads *old = *downloads;
    struct timespec until;
    int result = 0;
    *downloads = NULL;
    if (old == NULL) {
        return;
    }
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += CLOSE_S;
    pthread_mutex_lock(&old->lock);
    while (old->count > 0 && result == 0) {
        result = pthread_cond_timedwait(&old->moved, &old->lock, &until);
    }
    bool is_over = old->count == 0;
    pthread_mutex_unlock(&old->lock);
    if (is_over) {
        pthread_cond_destroy(&old->moved);
        pthread_mutex_destroy(&old->lock);
        free(old);
    }
}
