/* SPDX-License-Identifier: MPL-2.0 */
/* endpoint.c -- where the broker listens; see endpoint.h. */
#include "broker/io/endpoint.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>
#include <zmq.h>

static const char tcp[] = "tcp://";
static const char ipc[] = "ipc://";

static bool begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

/* The file of an ipc endpoint; NULL: it has none. */
static const char *path_of(const char *endpoint)
{
    const char *path = begins(endpoint, ipc) ? endpoint + strlen(ipc) : NULL;
    return path != NULL && path[0] != '@' ? path : NULL;
}

/* Where the port of tcp://HOST:PORT begins; NULL: none. */
static const char *port_of(const char *endpoint)
{
    const char *colon = begins(endpoint, tcp) ? strrchr(endpoint + strlen(tcp), ':') : NULL;
    return colon != NULL ? colon + 1 : NULL;
}

/* Copies the endpoint, with tcp:// in front of a plain HOST:PORT.  false: it does not fit. */
static bool complete(const char *endpoint, char out[LIMIT_ENDPOINT_BYTES])
{
    const char *close = strrchr(endpoint, ']');
    bool is_short =
        strstr(endpoint, "://") == NULL && strchr(close != NULL ? close : endpoint, ':') != NULL;
    int length = snprintf(out, LIMIT_ENDPOINT_BYTES, "%s%s", is_short ? tcp : "", endpoint);
    return length >= 0 && length < LIMIT_ENDPOINT_BYTES;
}

/* libzmq takes any number for a port, and then what is left of it in 16 bits. */
static bool is_port(const char *text, long least)
{
    size_t digits = strspn(text, "0123456789");
    long port = digits > 0 && digits <= 5 ? strtol(text, NULL, 10) : -1;
    return text[digits] == '\0' && port >= least && port <= 65535;
}

/* 0: the broker may listen at this path; otherwise an errno that says why not. */
static int path_fault(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct stat status;
    if (strlen(path) >= sizeof address.sun_path)
        return ENAMETOOLONG;
    if (lstat(path, &status) != 0)
        return errno == ENOENT ? 0 : errno;
    if (!S_ISSOCK(status.st_mode))
        return EEXIST;
    memcpy(address.sun_path, path, strlen(path) + 1);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return errno;
    int fault = 0;
    if (connect(fd, (const struct sockaddr *)&address, sizeof address) == 0)
        fault = EADDRINUSE;
    else if (errno != ECONNREFUSED && errno != ENOENT)
        fault = errno;
    close(fd);
    return fault;
}

static const char *fault_text(int fault)
{
    switch (fault) {
    case EADDRINUSE: return "it is in use by another process; name another one";
    case EDOM: return "the port must be 1 to 65535, or * or 0 for a free one";
    case EACCES:
    case EPERM: return "permission denied";
    case EADDRNOTAVAIL:
    case ENODEV: return "this machine has no such address; name one of its own, or * for all";
    case EINVAL: return "expected HOST:PORT, tcp://HOST:PORT or ipc://PATH";
    case EEXIST: return "a file of this name exists and is not a socket";
    default: return zmq_strerror(fault);
    }
}

/* 0, or why not. */
static int bind_fault(void *socket, const char *endpoint)
{
    static const char local[] = "tcp://localhost:";
    char numeric[LIMIT_ENDPOINT_BYTES];
    /* libzmq listens at addresses and interfaces alone; this name is what everybody tries. */
    if (begins(endpoint, local)) {
        snprintf(numeric, sizeof numeric, "tcp://127.0.0.1:%.8s", port_of(endpoint));
        endpoint = numeric;
    }
    int fault = path_of(endpoint) != NULL ? path_fault(path_of(endpoint)) : 0;
    if (fault != 0)
        return fault;
    int wants_v6 = strchr(endpoint, '[') != NULL;
    if (zmq_setsockopt(socket, ZMQ_IPV6, &wants_v6, sizeof wants_v6) != 0)
        return errno;
    return zmq_bind(socket, endpoint) == 0 ? 0 : errno;
}

bool endpoint_bind(void *socket, const char *endpoint, char out_real[LIMIT_ENDPOINT_BYTES],
                   char complaint[ENDPOINT_COMPLAINT_BYTES])
{
    char whole[LIMIT_ENDPOINT_BYTES];
    const char *wrong = endpoint_fault(endpoint);
    int fault = wrong == NULL && complete(endpoint, whole) ? bind_fault(socket, whole) : EINVAL;
    size_t bytes = LIMIT_ENDPOINT_BYTES;
    if (fault == 0 && zmq_getsockopt(socket, ZMQ_LAST_ENDPOINT, out_real, &bytes) != 0)
        fault = errno;
    if (fault != 0)
        snprintf(complaint, ENDPOINT_COMPLAINT_BYTES, "cannot listen at %s: %s", endpoint,
                 wrong != NULL ? wrong : fault_text(fault));
    return fault == 0;
}

void endpoint_remove(const char *endpoint)
{
    if (path_of(endpoint) != NULL)
        unlink(path_of(endpoint)); /* it may be gone already */
}

const char *endpoint_fault(const char *endpoint)
{
    char whole[LIMIT_ENDPOINT_BYTES];
    if (!complete(endpoint, whole))
        return fault_text(ENAMETOOLONG);
    const char *port = port_of(whole);
    if (port != NULL && strcmp(port, "*") != 0 && !is_port(port, 0))
        return fault_text(EDOM);
    bool is_tcp = port != NULL && port - 1 > whole + strlen(tcp);
    /* A path of libzmq's choosing would be relative to a folder that clients do not know. */
    bool is_ipc = begins(whole, ipc) && whole[strlen(ipc)] != '\0' && strcmp(whole, "ipc://*") != 0;
    return is_tcp || is_ipc ? NULL : fault_text(EINVAL);
}

bool endpoint_is_local(const char *real)
{
    return begins(real, ipc) || begins(real, "tcp://127.") || begins(real, "tcp://[::1]:");
}

bool endpoint_wish_is_local(const char *endpoint)
{
    char whole[LIMIT_ENDPOINT_BYTES];
    return complete(endpoint, whole) &&
           (endpoint_is_local(whole) || begins(whole, "tcp://localhost:"));
}

static bool is_same_host(const char *a, const char *b)
{
    const char *port_a = port_of(a);
    const char *port_b = port_of(b);
    return port_a != NULL && port_b != NULL && port_a - a == port_b - b &&
           strncmp(a, b, (size_t)(port_a - a)) == 0;
}

/* A name or an address; of IPv6 in brackets. */
static bool is_host(const char *text, size_t bytes)
{
    bool is_v6 = bytes > 2 && text[0] == '[' && text[bytes - 1] == ']';
    for (size_t i = is_v6; i < bytes - is_v6; i++) {
        if ((unsigned char)text[i] <= 0x20 || strchr(is_v6 ? "/[]" : "/[]:*", text[i]) != NULL)
            return false;
    }
    return bytes > 0;
}

/* Whether a client can connect to this endpoint. */
static bool is_reachable(const char *advertise)
{
    const char *port = port_of(advertise);
    if (port != NULL)
        return is_host(advertise + strlen(tcp), (size_t)(port - 1 - advertise) - strlen(tcp)) &&
               is_port(port, 1);
    if (begins(advertise, ipc))
        return advertise[strlen(ipc)] != '\0';
    return is_host(advertise, strlen(advertise));
}

const char *endpoint_advertise_fault(const char *wish)
{
    char advertise[LIMIT_ENDPOINT_BYTES];
    bool is_good = complete(wish, advertise) && is_reachable(advertise);
    return is_good ? NULL : "expected a host name, HOST:PORT, tcp://HOST:PORT or ipc://PATH";
}

bool endpoint_advertise(const char *control, const char *data, const char *wish,
                        char out[LIMIT_ENDPOINT_BYTES])
{
    const char *port = port_of(data);
    char advertise[LIMIT_ENDPOINT_BYTES];
    int length;
    if (!complete(wish, advertise) || (advertise[0] != '\0' && !is_reachable(advertise)))
        return false;
    if (strstr(advertise, "://") != NULL)
        length = snprintf(out, LIMIT_ENDPOINT_BYTES, "%s", advertise);
    else if (advertise[0] != '\0' && port != NULL)
        length = snprintf(out, LIMIT_ENDPOINT_BYTES, "tcp://%s:%s", advertise, port);
    else if (is_same_host(control, data) || begins(data, "tcp://0.0.0.0:") ||
             begins(data, "tcp://[::]:"))
        length = snprintf(out, LIMIT_ENDPOINT_BYTES, "tcp://*:%s", port);
    else
        length = snprintf(out, LIMIT_ENDPOINT_BYTES, "%s", data);
    return length >= 0 && length < LIMIT_ENDPOINT_BYTES;
}

/* The host of what clients are told; "": it has none. */
static void copy_host(const char *advertise, char out[LIMIT_ENDPOINT_BYTES])
{
    const char *port = port_of(advertise);
    if (port != NULL)
        snprintf(out, LIMIT_ENDPOINT_BYTES, "%.*s",
                 (int)((size_t)(port - 1 - advertise) - strlen(tcp)), advertise + strlen(tcp));
    else
        snprintf(out, LIMIT_ENDPOINT_BYTES, "%s", begins(advertise, ipc) ? "" : advertise);
}

bool endpoint_announce(const char *control, const char *wish, const char *advertise,
                       const char *host, char out[LIMIT_ENDPOINT_BYTES])
{
    char data[LIMIT_ENDPOINT_BYTES];
    char named[LIMIT_ENDPOINT_BYTES] = "";
    bool is_everywhere = begins(control, "tcp://0.0.0.0:") || begins(control, "tcp://[::]:");
    if (*wish != '\0' || !is_everywhere)
        return endpoint_advertise("", control, *wish != '\0' ? wish : control, out);
    if (complete(advertise, data))
        copy_host(data, named);
    return endpoint_advertise("", control, *named != '\0' ? named : host, out) &&
           strchr(out, '*') == NULL;
}
