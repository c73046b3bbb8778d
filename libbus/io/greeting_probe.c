/* SPDX-License-Identifier: MPL-2.0 */
/* greeting_probe.c -- see greeting_probe.h. */
#include "libbus/io/greeting_probe.h"

#include "libbus/base/limits.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <stdint.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

/* A greeting of ZMTP 3 (ZeroMQ RFC 23): 10 bytes of signature, two of version, 20 of mechanism. */
enum { PROBE_MS = 500, SIGNATURE_BYTES = 10, MECHANISM_AT = 12, GREETING_BYTES = 32 };

static int64_t probe_now_ms(void)
{
    struct timespec now;
    if (clock_gettime(CLOCK_MONOTONIC, &now) != 0)
        return 0;
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static bool await_events(int fd, short events, int64_t until_ms)
{
    struct pollfd item = {.fd = fd, .events = events};
    int64_t left_ms = until_ms - probe_now_ms();
    return left_ms > 0 && poll(&item, 1, (int)left_ms) == 1;
}

/* -1: nothing accepts a connection there. */
static int open_connection(const char *endpoint, int64_t until_ms)
{
    static const char tcp[] = "tcp://";
    char host[LIMIT_ENDPOINT_BYTES + 1];
    if (strncmp(endpoint, tcp, sizeof tcp - 1) != 0 || strlen(endpoint) >= sizeof host)
        return -1;
    snprintf(host, sizeof host, "%s", endpoint + sizeof tcp - 1);
    char *colon = strrchr(host, ':');
    if (colon == NULL)
        return -1;
    *colon = '\0';
    size_t bytes = strlen(host);
    bool is_bracketed = bytes > 1 && host[0] == '[' && host[bytes - 1] == ']';
    if (is_bracketed)
        host[bytes - 1] = '\0';
    struct addrinfo hints = {.ai_family = is_bracketed ? AF_INET6 : AF_INET,
                             .ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    if (getaddrinfo(host + is_bracketed, colon + 1, &hints, &found) != 0)
        return -1;
    int fd = socket(found->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    bool is_open = fd >= 0 && (connect(fd, found->ai_addr, found->ai_addrlen) == 0 ||
                               (errno == EINPROGRESS && await_events(fd, POLLOUT, until_ms)));
    int fault = 0;
    socklen_t fault_bytes = sizeof fault;
    is_open =
        is_open && getsockopt(fd, SOL_SOCKET, SO_ERROR, &fault, &fault_bytes) == 0 && fault == 0;
    freeaddrinfo(found);
    if (fd >= 0 && !is_open)
        close(fd);
    return is_open ? fd : -1;
}

static size_t read_greeting(int fd, uint8_t greeting[GREETING_BYTES], int64_t until_ms)
{
    size_t bytes = 0;
    while (bytes < GREETING_BYTES && await_events(fd, POLLIN, until_ms)) {
        ssize_t count = recv(fd, greeting + bytes, GREETING_BYTES - bytes, 0);
        if (count <= 0)
            break;
        bytes += (size_t)count;
    }
    return bytes;
}

enum greeting greeting_probe(const char *endpoint)
{
    static const uint8_t ours[] = {0xff, 0, 0, 0, 0, 0, 0, 0, 1, 0x7f, 3};
    uint8_t theirs[GREETING_BYTES + 1] = {0};
    int64_t until_ms = probe_now_ms() + PROBE_MS;
    int fd = open_connection(endpoint, until_ms);
    if (fd < 0)
        return GREETING_NONE;
    bool is_sent = send(fd, ours, sizeof ours, MSG_NOSIGNAL) == (ssize_t)sizeof ours;
    size_t bytes = is_sent ? read_greeting(fd, theirs, until_ms) : 0;
    close(fd);
    if (bytes < GREETING_BYTES || theirs[0] != 0xff || theirs[SIGNATURE_BYTES - 1] != 0x7f)
        return GREETING_FOREIGN;
    const char *mechanism = (const char *)theirs + MECHANISM_AT;
    if (strcmp(mechanism, "CURVE") == 0)
        return GREETING_CURVE;
    return strcmp(mechanism, "NULL") == 0 ? GREETING_NULL : GREETING_FOREIGN;
}
