/* SPDX-License-Identifier: MPL-2.0 */
/* reply.c -- see reply.h. */
#include "clients/web/reply.h"

#include <stdint.h>
#include <string.h>

/* The page may load what this origin has, and nothing else.  No script makes code out of text:
 * where trusted types are known, the browser itself refuses it. */
#define POLICY                                                                                     \
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src "        \
    "'self'; "                                                                                     \
    "worker-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "             \
    "require-trusted-types-for 'script'; trusted-types errbus"

enum MHD_Result reply_with(struct MHD_Connection *connection, unsigned status,
                           struct MHD_Response *response)
{
    static const struct {
        const char *name;
        const char *value;
    } headers[] = {
        {"Content-Security-Policy", POLICY},
        {"Cross-Origin-Opener-Policy", "same-origin"},
        {"Cross-Origin-Resource-Policy", "same-origin"},
        {"Referrer-Policy", "no-referrer"},
        {"X-Content-Type-Options", "nosniff"},
    };
    if (response == NULL) {
        return MHD_NO;
    }
    for (size_t i = 0; i < sizeof headers / sizeof headers[0]; i++) {
        (void)MHD_add_response_header(response, headers[i].name, headers[i].value);
    }
    if (MHD_get_response_header(response, MHD_HTTP_HEADER_CACHE_CONTROL) == NULL) {
        (void)MHD_add_response_header(response, MHD_HTTP_HEADER_CACHE_CONTROL, "no-store");
    }
    if (status == MHD_HTTP_METHOD_NOT_ALLOWED) {
        (void)MHD_add_response_header(response, MHD_HTTP_HEADER_ALLOW, "GET, HEAD");
    }
    if (status == MHD_HTTP_UNAUTHORIZED) {
        (void)MHD_add_response_header(response, MHD_HTTP_HEADER_WWW_AUTHENTICATE, "Bearer");
    }
    enum MHD_Result result = MHD_queue_response(connection, status, response);
    MHD_destroy_response(response);
    return result;
}

enum MHD_Result reply(struct MHD_Connection *connection, unsigned status, const char *type,
                      const char *bytes, size_t count)
{
    struct MHD_Response *response =
        MHD_create_response_from_buffer(count, (void *)(uintptr_t)bytes, MHD_RESPMEM_MUST_COPY);
    if (response != NULL) {
        (void)MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type);
    }
    return reply_with(connection, status, response);
}

enum MHD_Result reply_line(struct MHD_Connection *connection, unsigned status, const char *line)
{
    return reply(connection, status, "text/plain; charset=utf-8", line, strlen(line));
}

unsigned reply_status_of(enum bus_err err)
{
    if (err == BUS_OK) {
        return MHD_HTTP_OK;
    }
    if (err == BUS_EINVAL) {
        return MHD_HTTP_NOT_FOUND; /* there is no such job, error or attachment */
    }
    if (err == BUS_EDENIED) {
        return MHD_HTTP_FORBIDDEN;
    }
    return err == BUS_ETIMEDOUT || err == BUS_ELOST ? MHD_HTTP_SERVICE_UNAVAILABLE
                                                    : MHD_HTTP_INTERNAL_SERVER_ERROR;
}
