/* SPDX-License-Identifier: MPL-2.0 */
/* http.c -- see http.h. */
#include "clients/web/http.h"

#include "clients/web/reply.h"

#include <errno.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#define LOGIN_COOKIE "errbus-token"

/* One request, from its headers to its end. */
struct request {
    struct MHD_Connection *connection;
    struct request *next; /* suspended */
    bool has_waited;      /* it is answered with what there is */
    struct visit *visit;  /* of the page and what stands behind it; or NULL */
};

struct http {
    struct http_options options;
    struct MHD_Daemon *daemon;
    int wanted_fd;
    pthread_mutex_t lock; /* of all below */
    struct request *suspended;
    struct http_answer answer;
    int64_t answer_ms; /* when it came; INT64_MIN: there is none */
    bool is_closing;
};

static int64_t now_ms(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (int64_t)time.tv_sec * 1000 + time.tv_nsec / 1000000;
}

/* ---- answers --------------------------------------------------------------------------------- */

/* Lock held. */
static enum MHD_Result respond_from_cache(struct http *http, struct MHD_Connection *connection,
                                          bool is_metrics)
{
    const struct http_answer *answer = &http->answer;
    if (http->answer_ms == INT64_MIN) {
        return reply_line(connection, MHD_HTTP_SERVICE_UNAVAILABLE, "stopping\n");
    }
    if (!is_metrics) {
        return reply_line(connection, answer->is_ready ? MHD_HTTP_OK : MHD_HTTP_SERVICE_UNAVAILABLE,
                          answer->ready);
    }
    const char *accept =
        MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_ACCEPT);
    enum exposition format = exposition_choose(accept);
    return reply(connection, MHD_HTTP_OK, exposition_type(format), answer->metrics[format],
                 answer->metrics_bytes[format]);
}

/* The broker's answer of this second; or the request waits for the next one. */
static enum MHD_Result answer_or_wait(struct http *http, struct request *request, bool is_metrics)
{
    const uint64_t one = 1;
    enum MHD_Result result = MHD_YES;
    pthread_mutex_lock(&http->lock);
    bool is_fresh = http->answer_ms != INT64_MIN && now_ms() - http->answer_ms < HTTP_CACHE_MS;
    if (is_fresh || request->has_waited || http->is_closing) {
        result = respond_from_cache(http, request->connection, is_metrics);
    } else {
        request->has_waited = true;
        request->next = http->suspended;
        http->suspended = request;
        MHD_suspend_connection(request->connection);
        (void)!write(http->wanted_fd, &one, sizeof one); /* full means that it is readable */
    }
    pthread_mutex_unlock(&http->lock);
    return result;
}

/* ---- requests -------------------------------------------------------------------------------- */

static const char *header_of(struct MHD_Connection *connection, const char *name)
{
    return MHD_lookup_connection_value(connection, MHD_HEADER_KIND, name);
}

static enum MHD_Result count_host(void *count, enum MHD_ValueKind kind, const char *name,
                                  const char *value)
{
    (void)kind; /* headers alone are asked for */
    (void)value;
    *(unsigned *)count += strcasecmp(name, MHD_HTTP_HEADER_HOST) == 0;
    return MHD_YES;
}

/* A page of another site whose name was made to point here has that name in Host, and neither the
 * token nor the cookie, which a browser keeps for each name.  So a token guards as well, and lets
 * names through that nobody can list beforehand: of a service, or the address of a pod.  Two hosts
 * are none: a proxy in front may have looked at the other one. */
static bool is_meant(const struct http_options *options, struct MHD_Connection *connection)
{
    unsigned count = 0;
    if (options->token != NULL) {
        return true;
    }
    (void)MHD_get_connection_values(connection, MHD_HEADER_KIND, count_host, &count); /* a number */
    return count == 1 && listen_is_meant(&options->address, options->host,
                                         header_of(connection, MHD_HTTP_HEADER_HOST));
}

/* By the header, or by the cookie that /api/login gave. */
static bool is_authorized(const struct http_options *options, struct MHD_Connection *connection)
{
    return options->token == NULL ||
           listen_is_authorized(options->token,
                                header_of(connection, MHD_HTTP_HEADER_AUTHORIZATION)) ||
           listen_is_token(options->token,
                           MHD_lookup_connection_value(connection, MHD_COOKIE_KIND, LOGIN_COOKIE));
}

/* A page cannot send a header with each request that a browser makes for it.  So it gives the token
 * once, and gets it back as a cookie that no script can read and no other site can send. */
static enum MHD_Result answer_login(const struct http_options *options,
                                    struct MHD_Connection *connection)
{
    char cookie[HTTP_TOKEN_BYTES_MAX + 64];
    static const char line[] = "ok\n";
    struct MHD_Response *response = MHD_create_response_from_buffer(
        sizeof line - 1, (void *)(uintptr_t)line, MHD_RESPMEM_PERSISTENT);
    if (response != NULL && options->token != NULL) {
        snprintf(cookie, sizeof cookie, LOGIN_COOKIE "=%s; Path=/; HttpOnly; SameSite=Strict",
                 options->token);
        (void)MHD_add_response_header(response, MHD_HTTP_HEADER_SET_COOKIE, cookie);
    }
    return reply_with(connection, MHD_HTTP_OK, response);
}

static enum MHD_Result answer_request(struct http *http, struct request *request, const char *path)
{
    struct MHD_Connection *connection = request->connection;
    const struct http_options *options = &http->options;
    if (!is_meant(options, connection)) {
        return reply_line(connection, MHD_HTTP_FORBIDDEN,
                          "this host is not known here: name it with --host NAME, or ask for a "
                          "token with --token FILE (of errbusd: --web-token FILE)\n");
    }
    if (strcmp(path, "/healthz") == 0) {
        return reply_line(connection, MHD_HTTP_OK, "ok\n");
    }
    if (site_is_file(path)) { /* files say nothing: what they ask for needs the token */
        return site_answer(options->site, connection, path, &request->visit);
    }
    if (!is_authorized(options, connection)) {
        return reply_line(connection, MHD_HTTP_UNAUTHORIZED, "a token is needed\n");
    }
    if (strcmp(path, "/api/login") == 0) {
        return answer_login(options, connection);
    }
    if (strcmp(path, "/metrics") == 0 || strcmp(path, "/readyz") == 0) {
        return answer_or_wait(http, request, strcmp(path, "/metrics") == 0);
    }
    return site_answer(options->site, connection, path, &request->visit);
}

static bool is_served(const char *method)
{
    return strcmp(method, MHD_HTTP_METHOD_GET) == 0 || strcmp(method, MHD_HTTP_METHOD_HEAD) == 0;
}

/* The first call is for the headers; a method that is not served is refused before its body comes.
 * The body of another request is read, and dropped, by libmicrohttpd. */
static enum MHD_Result on_request(void *arg, struct MHD_Connection *connection, const char *path,
                                  const char *method, const char *version, const char *body,
                                  size_t *body_bytes, void **slot)
{
    struct http *http = arg;
    struct request *request = *slot;
    (void)version; /* both of HTTP/1 are served */
    (void)body;
    if (request == NULL) {
        request = calloc(1, sizeof *request);
        *slot = request;
        if (request == NULL) {
            return MHD_NO;
        }
        request->connection = connection;
        return is_served(method)
                   ? MHD_YES
                   : reply_line(connection, MHD_HTTP_METHOD_NOT_ALLOWED, "only GET and HEAD\n");
    }
    if (*body_bytes > 0) {
        *body_bytes = 0;
        return MHD_YES;
    }
    return answer_request(http, request, path);
}

static void on_completed(void *arg, struct MHD_Connection *connection, void **slot,
                         enum MHD_RequestTerminationCode code)
{
    struct request *request = *slot;
    (void)arg; /* a suspended request is not completed */
    (void)connection;
    (void)code;
    if (request != NULL) {
        site_leave(&request->visit);
    }
    free(request);
    *slot = NULL;
}

/* Paths are compared as they were sent: so no path has two spellings. */
static size_t leave_escaped(void *arg, struct MHD_Connection *connection, char *text)
{
    (void)arg; /* the text is enough */
    (void)connection;
    return strlen(text);
}

/* ---- publishing ------------------------------------------------------------------------------ */

static void answer_free(struct http_answer *answer)
{
    for (int i = 0; i < EXPOSITION_COUNT; i++) {
        free(answer->metrics[i]);
    }
    free(answer->ready);
    *answer = (struct http_answer){0};
}

/* Lock held. */
static void resume_all(struct http *http)
{
    while (http->suspended != NULL) {
        struct request *request = http->suspended;
        http->suspended = request->next;
        MHD_resume_connection(request->connection);
    }
}

void http_publish(struct http *http, struct http_answer *answer, int64_t at_ms)
{
    uint64_t count;
    pthread_mutex_lock(&http->lock);
    (void)!read(http->wanted_fd, &count, sizeof count); /* empty or not: all are answered */
    answer_free(&http->answer);
    http->answer = *answer;
    http->answer_ms = at_ms;
    *answer = (struct http_answer){0};
    resume_all(http);
    pthread_mutex_unlock(&http->lock);
}

/* ---- opening and closing --------------------------------------------------------------------- */

static struct MHD_Daemon *start(struct http *http)
{
    const struct sockaddr *address = (const struct sockaddr *)&http->options.address.address;
    unsigned flags = MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME;
    if (address->sa_family == AF_INET6) {
        flags |= MHD_USE_IPv6;
    }
    return MHD_start_daemon(flags, 0, NULL, NULL, on_request, http, MHD_OPTION_SOCK_ADDR, address,
                            MHD_OPTION_CONNECTION_LIMIT, (unsigned)HTTP_CONNECTIONS_MAX,
                            MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)HTTP_HEADERS_BYTES_MAX,
                            MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)HTTP_IDLE_S,
                            MHD_OPTION_NOTIFY_COMPLETED, on_completed, http,
                            MHD_OPTION_UNESCAPE_CALLBACK, leave_escaped, NULL, MHD_OPTION_END);
}

struct http *http_open(const struct http_options *options, char *complaint, size_t bytes)
{
    struct http *http = calloc(1, sizeof *http);
    if (http == NULL) {
        snprintf(complaint, bytes, "out of memory");
        return NULL;
    }
    http->options = *options;
    http->answer_ms = INT64_MIN;
    pthread_mutex_init(&http->lock, NULL);
    http->wanted_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    errno = 0;
    http->daemon = http->wanted_fd >= 0 ? start(http) : NULL;
    if (http->daemon == NULL) {
        snprintf(complaint, bytes, "%s", errno != 0 ? strerror(errno) : "it is refused");
        http_close(&http);
    }
    return http;
}

void http_close(struct http **http)
{
    struct http *old = *http;
    *http = NULL;
    pthread_mutex_lock(&old->lock);
    old->is_closing = true;
    if (old->daemon != NULL) {
        resume_all(old); /* else MHD_stop_daemon() waits for them */
    }
    pthread_mutex_unlock(&old->lock);
    if (old->daemon != NULL) {
        site_stop(old->options.site);
        MHD_stop_daemon(old->daemon);
    }
    if (old->wanted_fd >= 0) {
        close(old->wanted_fd);
    }
    pthread_mutex_destroy(&old->lock);
    answer_free(&old->answer);
    free(old);
}

unsigned http_port(const struct http *http)
{
    const union MHD_DaemonInfo *info = MHD_get_daemon_info(http->daemon, MHD_DAEMON_INFO_BIND_PORT);
    return info != NULL ? info->port : 0;
}

int http_wanted_fd(const struct http *http)
{
    return http->wanted_fd;
}
