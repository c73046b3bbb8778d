/* SPDX-License-Identifier: MPL-2.0 */
/* greeting_probe.c -- see greeting_probe.h. */
#include "libbus/io/greeting_probe.h"

#include "libbus/base/limits.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdint.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

/* A greeting of ZMTP 3 (ZeroMQ RFC 23): 10 bytes of signature, two of version, 20 of mechanism, one
 * of role, and 31 of filler. */
enum { CONNECT_MS = 500, ANSWER_MS = 500, SIGNATURE_BYTES = 10, MECHANISM_AT = 12, ROLE_AT = 32 };
/* The server then sends the whole of its own greeting.  Ours never ends, so the server does not
 * close because the mechanism is another one.  What stands in the filler does not matter to it.  A
 * service that speaks in lines gets one, and answers. */
static const uint8_t greeting[] = "\xff\0\0\0\0\0\0\0\1\x7f\3\0"
                                  "NULL\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"
                                  "\r\n\r\n";

struct probe {
    int fd;
    int wake_fd;
    bool is_woken;
    bool is_closed; /* by the other side */
    size_t bytes;
    uint8_t heard[ROLE_AT + 1]; /* a NUL follows the mechanism */
};

static int64_t probe_now_ms(void)
{
    struct timespec now;
    if (clock_gettime(CLOCK_MONOTONIC, &now) != 0)
        return 0;
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* false: not in time, or somebody wants us elsewhere. */
static bool await_events(struct probe *probe, short events, int64_t until_ms)
{
    struct pollfd items[] = {{.fd = probe->fd, .events = events},
                             {.fd = probe->wake_fd, .events = POLLIN}};
    int64_t left_ms = until_ms - probe_now_ms();
    if (left_ms <= 0 || poll(items, 2, (int)left_ms) <= 0)
        return false;
    probe->is_woken = items[1].revents != 0;
    return !probe->is_woken;
}

/* false: it is no endpoint of tcp, or the host has no address. */
static bool look_up(const char *endpoint, struct sockaddr_storage *out_address)
{
    static const char tcp[] = "tcp://";
    char host[LIMIT_ENDPOINT_BYTES + 1];
    if (strncmp(endpoint, tcp, sizeof tcp - 1) != 0 || strlen(endpoint) >= sizeof host)
        return false;
    snprintf(host, sizeof host, "%s", endpoint + sizeof tcp - 1);
    char *colon = strrchr(host, ':');
    if (colon == NULL)
        return false;
    *colon = '\0';
    size_t bytes = strlen(host);
    bool is_bracketed = bytes > 1 && host[0] == '[' && host[bytes - 1] == ']';
    if (is_bracketed)
        host[bytes - 1] = '\0';
    struct addrinfo hints = {.ai_family = is_bracketed ? AF_INET6 : AF_INET,
                             .ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    if (getaddrinfo(host + is_bracketed, colon + 1, &hints, &found) != 0)
        return false;
    memcpy(out_address, found->ai_addr, found->ai_addrlen);
    freeaddrinfo(found);
    return true;
}

static in_port_t port_of(const struct sockaddr_storage *address)
{
    struct sockaddr_in ipv4;
    struct sockaddr_in6 ipv6;
    if (address->ss_family == AF_INET) {
        memcpy(&ipv4, address, sizeof ipv4);
        return ntohs(ipv4.sin_port);
    }
    if (address->ss_family != AF_INET6)
        return 0;
    memcpy(&ipv6, address, sizeof ipv6);
    return ntohs(ipv6.sin6_port);
}

void greeting_probe_peer(int fd, const char *endpoint, struct sockaddr_storage *out_peer)
{
    socklen_t bytes = sizeof *out_peer;
    const char *colon = strrchr(endpoint, ':');
    memset(out_peer, 0, sizeof *out_peer);
    bool is_known = colon != NULL && getpeername(fd, (struct sockaddr *)out_peer, &bytes) == 0 &&
                    port_of(out_peer) == strtoul(colon + 1, NULL, 10);
    if (!is_known)
        memset(out_peer, 0, sizeof *out_peer); /* AF_UNSPEC is 0 */
}

/* false: nothing accepts a connection there. */
static bool open_connection(struct probe *probe, const struct sockaddr_storage *address)
{
    int64_t until_ms = probe_now_ms() + CONNECT_MS;
    socklen_t bytes =
        address->ss_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
    probe->fd = socket(address->ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    bool is_open =
        probe->fd >= 0 && (connect(probe->fd, (const struct sockaddr *)address, bytes) == 0 ||
                           (errno == EINPROGRESS && await_events(probe, POLLOUT, until_ms)));
    int fault = 0;
    socklen_t fault_bytes = sizeof fault;
    return is_open && getsockopt(probe->fd, SOL_SOCKET, SO_ERROR, &fault, &fault_bytes) == 0 &&
           fault == 0;
}

/* Waits until that many bytes were heard. */
static void hear(struct probe *probe, size_t wanted, int64_t ms)
{
    int64_t until_ms = probe_now_ms() + ms;
    while (!probe->is_closed && probe->bytes < wanted && await_events(probe, POLLIN, until_ms)) {
        ssize_t count = recv(probe->fd, probe->heard + probe->bytes, wanted - probe->bytes, 0);
        probe->is_closed = count <= 0;
        probe->bytes += count > 0 ? (size_t)count : 0;
    }
}

/* false: the connection was closed before. */
static bool greet(const struct probe *probe)
{
    ssize_t bytes = sizeof greeting - 1;
    return send(probe->fd, greeting, (size_t)bytes, MSG_NOSIGNAL) == bytes;
}

static bool is_signature(const struct probe *probe)
{
    return probe->heard[0] == 0xff &&
           (probe->bytes < SIGNATURE_BYTES || probe->heard[SIGNATURE_BYTES - 1] == 0x7f);
}

static enum greeting judge(const struct probe *probe)
{
    const char *mechanism = (const char *)probe->heard + MECHANISM_AT;
    if (!is_signature(probe))
        return GREETING_FOREIGN;
    if (probe->bytes < ROLE_AT)
        return GREETING_UNCLEAR;
    if (strcmp(mechanism, "CURVE") == 0)
        return GREETING_CURVE;
    return strcmp(mechanism, "NULL") == 0 ? GREETING_NULL : GREETING_OTHER;
}

static enum greeting ask(struct probe *probe, int64_t listen_ms)
{
    hear(probe, 1, listen_ms); /* a server of ZMTP speaks first */
    if (probe->bytes > 0 && !is_signature(probe))
        return GREETING_FOREIGN;
    if (probe->is_closed || !greet(probe))
        return GREETING_UNCLEAR;
    hear(probe, ROLE_AT, ANSWER_MS);
    if (probe->bytes > 0)
        return judge(probe);
    return probe->is_closed ? GREETING_HUNG_UP : GREETING_SILENT;
}

enum greeting greeting_probe(const struct sockaddr_storage *peer, const char *endpoint,
                             int64_t listen_ms, int wake_fd)
{
    struct probe probe = {.fd = -1, .wake_fd = wake_fd};
    struct sockaddr_storage address = *peer;
    bool is_known = address.ss_family != AF_UNSPEC || look_up(endpoint, &address);
    enum greeting found =
        is_known && open_connection(&probe, &address) ? ask(&probe, listen_ms) : GREETING_UNCLEAR;
    if (probe.fd >= 0)
        close(probe.fd);
    return probe.is_woken ? GREETING_WOKEN : found;
}
