/* SPDX-License-Identifier: MPL-2.0 */
/* link_endpoint.c -- the data endpoint as this client can reach it; see link.h. */
#include "libbus/io/link.h"

#include <stdio.h>
#include <string.h>

static const char tcp[] = "tcp://";
static const char any_host[] = "tcp://*:";
enum { TCP_BYTES = sizeof tcp - 1, ANY_HOST_BYTES = sizeof any_host - 1 };

bool link_endpoint_resolve(const char *control_endpoint, const char *data_endpoint, char *out,
                           size_t room)
{
    /* A broker reached by anything but tcp is on this machine. */
    const char *host = "127.0.0.1";
    size_t host_bytes = strlen(host);
    int length;
    if (strncmp(control_endpoint, tcp, TCP_BYTES) == 0) {
        const char *colon = strrchr(control_endpoint + TCP_BYTES, ':');
        const char *source = strchr(control_endpoint, ';'); /* "tcp://source;host:port" */
        host = source != NULL ? source + 1 : control_endpoint + TCP_BYTES;
        host_bytes = colon != NULL && colon > host ? (size_t)(colon - host) : strlen(host);
    }
    if (strncmp(data_endpoint, any_host, ANY_HOST_BYTES) == 0)
        length = snprintf(out, room, "tcp://%.*s:%s", (int)host_bytes, host,
                          data_endpoint + ANY_HOST_BYTES);
    else
        length = snprintf(out, room, "%s", data_endpoint);
    return length >= 0 && (size_t)length < room;
}
