/* SPDX-License-Identifier: MPL-2.0 */
/* stream.c -- see stream.h. */
#include "clients/web/stream.h"

#include "clients/web/event_stream.h"
#include "clients/web/reply.h"
#include "clients/web/site.h"

#include <stdlib.h>
#include <string.h>

enum { BLOCK_BYTES = 16 * 1024 };

struct stream {
    struct streams *all;
    struct stream *next;
    struct MHD_Connection *connection;
    const struct history *history;
    uint64_t next_id;
    uint32_t forgotten;
    char *text; /* that is on its way */
    size_t bytes, sent;
    bool is_suspended;
    bool is_new;
    bool is_over;
    bool wants_comment;
};

/* ---- the connection -------------------------------------------------------------------------- */

/* Finds something to say. */
static void fill(struct stream *stream)
{
    if (stream->sent < stream->bytes) {
        return;
    }
    free(stream->text);
    stream->text = NULL;
    if (stream->is_new) {
        stream->text = strdup("retry: 1000\n\n");
    } else {
        stream->text = event_stream_text(stream->history, &stream->next_id, &stream->forgotten);
        if (stream->text == NULL && stream->wants_comment) {
            stream->text = strdup(":\n\n");
        }
        stream->wants_comment = false;
    }
    stream->is_new = false;
    stream->bytes = stream->text != NULL ? strlen(stream->text) : 0;
    stream->sent = 0;
}

static ssize_t read_text(void *arg, uint64_t position, char *out, size_t room)
{
    struct stream *stream = arg;
    ssize_t result = 0;
    (void)position; /* a stream is read once, in order */
    pthread_mutex_lock(stream->all->lock);
    fill(stream);
    size_t count = stream->bytes - stream->sent;
    if (stream->all->is_stopped || stream->is_over) {
        result = MHD_CONTENT_READER_END_OF_STREAM;
    } else if (count > 0) {
        count = count < room ? count : room;
        memcpy(out, stream->text + stream->sent, count);
        stream->sent += count;
        result = (ssize_t)count;
    } else {
        stream->is_suspended = true;
        MHD_suspend_connection(stream->connection);
    }
    pthread_mutex_unlock(stream->all->lock);
    return result;
}

static void end(void *arg)
{
    struct stream *stream = arg;
    struct streams *all = stream->all;
    pthread_mutex_lock(all->lock);
    struct stream **at = &all->first;
    while (*at != stream) {
        at = &(*at)->next;
    }
    *at = stream->next;
    all->count -= 1;
    pthread_mutex_unlock(all->lock);
    free(stream->text);
    free(stream);
}

static void resume(struct stream *stream)
{
    if (stream->is_suspended) {
        stream->is_suspended = false;
        MHD_resume_connection(stream->connection);
    }
}

void streams_init(struct streams *streams, pthread_mutex_t *lock)
{
    *streams = (struct streams){.lock = lock};
}

enum MHD_Result stream_begin(struct streams *streams, const struct history *history, uint64_t from,
                             struct MHD_Connection *connection)
{
    struct stream *stream = calloc(1, sizeof *stream);
    struct MHD_Response *response =
        stream != NULL ? MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, BLOCK_BYTES, read_text,
                                                           stream, end)
                       : NULL;
    if (response == NULL) {
        free(stream);
        return MHD_NO;
    }
    stream->all = streams;
    stream->connection = connection;
    stream->history = history;
    stream->next_id = from > 0 ? from : history_newest(history, SITE_STREAM_BEGIN);
    stream->forgotten = history->forgotten;
    stream->is_new = true;
    stream->next = streams->first;
    streams->first = stream;
    streams->count += 1;
    (void)MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, "text/event-stream");
    return reply_with(connection, MHD_HTTP_OK, response);
}

bool streams_has(const struct streams *streams, const struct history *history)
{
    const struct stream *stream = streams->first;
    while (stream != NULL && stream->history != history) {
        stream = stream->next;
    }
    return stream != NULL;
}

void streams_wake(struct streams *streams, const struct history *history)
{
    for (struct stream *stream = streams->first; stream != NULL; stream = stream->next) {
        if (stream->history == history) {
            resume(stream);
        }
    }
}

void streams_tick(struct streams *streams, int64_t now_ms)
{
    if (now_ms - streams->comment_ms < SITE_COMMENT_MS) {
        return;
    }
    streams->comment_ms = now_ms;
    for (struct stream *stream = streams->first; stream != NULL; stream = stream->next) {
        stream->wants_comment = true;
        resume(stream);
    }
}

void streams_end(struct streams *streams, const struct history *history)
{
    for (struct stream *stream = streams->first; stream != NULL; stream = stream->next) {
        stream->is_over |= stream->history == history;
    }
    streams_wake(streams, history);
}

void streams_stop(struct streams *streams)
{
    streams->is_stopped = true;
    for (struct stream *stream = streams->first; stream != NULL; stream = stream->next) {
        resume(stream);
    }
}
