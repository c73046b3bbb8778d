/* SPDX-License-Identifier: MPL-2.0 */
/* site.h -- the live page and what stands behind it: files, questions, events as they happen.
 *
 * The thread of the HTTP library never asks the broker.  A thread of the site does.  A request that
 * finds no answer of this second is suspended until there is one.  So any number of pages costs the
 * broker one question of each kind in a second, and one tap for each job that is looked at. */
#ifndef CLIENTS_WEB_SITE_H
#define CLIENTS_WEB_SITE_H

#include <microhttpd.h>
#include <stdbool.h>

enum {
    SITE_CACHE_MS = 1000,
    SITE_ANSWER_MS = 2000,         /* a broker that takes longer counts as down */
    SITE_TAP_MS = 1000,            /* so long a tap may take to open, while questions wait */
    SITE_SHARDS_MS = 500,          /* so long the question for the shards may take, and ... */
    SITE_SHARDS_EVERY_MS = 5000,   /* ... so often it is asked */
    SITE_QUESTIONS_PER_S_MAX = 32, /* that the broker gets at most */
    SITE_ANSWERS_MAX = 64,         /* kept */
    SITE_WATCHES_MAX = 8,          /* jobs that are looked at, at a time */
    SITE_WATCH_IDLE_MS = 30000,    /* a job that nobody looked at for so long is left */
    SITE_STREAMS_MAX = 32,         /* of events, at a time */
    SITE_STREAM_BEGIN = 2000,      /* events of the past that a new stream begins with */
    SITE_COMMENT_MS = 15000, /* a quiet stream has a line as often: so a dead one is noticed */
};

struct site;
struct visit; /* one request */

/* endpoint is borrowed.  NULL: no memory, or no thread. */
struct site *site_open(const char *endpoint);
/* Wakes all requests: then the HTTP library can be stopped. */
void site_stop(struct site *site);
/* After it was stopped. */
void site_close(struct site **site);

/* Files of the page need no token: they say nothing. */
bool site_is_file(const char *path);
/* Answers a GET or HEAD of any path, or suspends the request: then the library calls again.  visit
 * is NULL at the first call. */
enum MHD_Result site_answer(struct site *site, struct MHD_Connection *connection, const char *path,
                            struct visit **visit);
/* When the request is completed; NULL is allowed. */
void site_leave(struct visit **visit);

#endif
