/* SPDX-License-Identifier: MPL-2.0 */
/* stream.h -- events of a history as server-sent events, to any number of pages.
 *
 * A stream that has nothing to say is suspended until the history changes. */
#ifndef CLIENTS_WEB_STREAM_H
#define CLIENTS_WEB_STREAM_H

#include "clients/web/history.h"

#include <microhttpd.h>
#include <pthread.h>

struct stream;
struct streams {
    pthread_mutex_t *lock; /* of all of this, and of the histories */
    struct stream *first;
    unsigned count;
    int64_t comment_ms; /* when the quiet ones had their line */
    bool is_stopped;
};

/* Lock held by the caller in all of these but streams_init(). */
void streams_init(struct streams *streams, pthread_mutex_t *lock);
/* Replies with a stream from this event on; 0: from some way back. */
enum MHD_Result stream_begin(struct streams *streams, const struct history *history, uint64_t from,
                             struct MHD_Connection *connection);
bool streams_has(const struct streams *streams, const struct history *history);
/* After the history has changed. */
void streams_wake(struct streams *streams, const struct history *history);
/* Has each quiet stream say a comment from time to time, so that a dead connection is noticed. */
void streams_tick(struct streams *streams, int64_t now_ms);
/* Ends those of the history: who reads them asks again, and is told why not. */
void streams_end(struct streams *streams, const struct history *history);
/* Ends all of them. */
void streams_stop(struct streams *streams);

#endif
