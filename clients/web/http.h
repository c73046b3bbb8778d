/* SPDX-License-Identifier: MPL-2.0 */
/* http.h -- the HTTP side of errbus web: GET and HEAD of a few paths, answered from a cache.
 *
 * libmicrohttpd has one thread of its own, which never asks the broker.  A request that finds the
 * cache too old is suspended, and wanted_fd becomes readable.  Whoever asks the broker then gives
 * the answer with http_publish(), which resumes all suspended requests.  So any number of requests
 * costs the broker at most one question in CACHE_MS. */
#ifndef CLIENTS_WEB_HTTP_H
#define CLIENTS_WEB_HTTP_H

#include "clients/web/exposition.h"
#include "clients/web/listen.h"
#include "clients/web/site.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    HTTP_CACHE_MS = 1000,
    HTTP_CONNECTIONS_MAX = 64,
    HTTP_HEADERS_BYTES_MAX = 8192, /* the request line and all headers */
    HTTP_IDLE_S = 10,
    HTTP_TOKEN_BYTES_MAX = 256,
};

struct http;

struct http_options {
    struct listen_address address;
    const char *host;  /* without a token: as in listen_is_meant(); borrowed */
    const char *token; /* that requests must have; NULL: none; borrowed */
    struct site *site; /* for all other paths; borrowed */
};

/* What a broker answered, or that it did not; texts are the caller's to give away. */
struct http_answer {
    char *metrics[EXPOSITION_COUNT];
    size_t metrics_bytes[EXPOSITION_COUNT];
    char *ready; /* a line for people */
    bool is_ready;
};

/* NULL: complaint says why. */
struct http *http_open(const struct http_options *options, char *complaint, size_t bytes);
void http_close(struct http **http);

unsigned http_port(const struct http *http); /* that was really bound */
/* Readable: a request waits for an answer. */
int http_wanted_fd(const struct http *http);
/* Takes the texts over. */
void http_publish(struct http *http, struct http_answer *answer, int64_t now_ms);

#endif
