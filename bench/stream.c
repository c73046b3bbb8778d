/* SPDX-License-Identifier: MPL-2.0 */
/* stream.c -- bytes over a socket of the kernel; see stream.h. */
#include "bench/stream.h"

#include "bench/peer.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

#define HELD_BYTES ((size_t)128 * 1024)
#define DIRECT_BYTES ((size_t)64 * 1024) /* a value of so many is written from where it lies */
#define INLET_BYTES ((size_t)256 * 1024)
#define LITTLE_BYTES 4096 /* are moved to the front, so that a read has all the room */
#define SOCKET_BYTES (1024 * 1024)
#define AWAIT_NS INT64_C(10000000000)
#define RETRY_NS INT64_C(2000000)

union address {
    struct sockaddr any;
    struct sockaddr_in tcp;
    struct sockaddr_un path;
};

const char *stream_path(const char *endpoint)
{
    return strncmp(endpoint, "unix:", 5) == 0 ? endpoint + 5 : NULL;
}

unsigned stream_port(const char *endpoint)
{
    return strncmp(endpoint, "tcp:", 4) == 0 ? (unsigned)strtoul(endpoint + 4, NULL, 10) : 0;
}

static socklen_t address_of(const char *endpoint, union address *address)
{
    const char *path = stream_path(endpoint);
    memset(address, 0, sizeof *address);
    if (path == NULL) {
        address->tcp.sin_family = AF_INET;
        address->tcp.sin_port = htons((uint16_t)stream_port(endpoint));
        address->tcp.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        return sizeof address->tcp;
    }
    address->path.sun_family = AF_UNIX;
    snprintf(address->path.sun_path, sizeof address->path.sun_path, "%s", path);
    return sizeof address->path;
}

static int open_socket(const union address *address)
{
    int bytes = SOCKET_BYTES;
    int on = 1;
    int fd = socket(address->any.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        bench_die("no socket: %s", strerror(errno));
    }
    if (address->any.sa_family == AF_INET) {
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    } else {
        setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
    }
    return fd;
}

int stream_listen(const char *endpoint)
{
    union address address;
    socklen_t bytes = address_of(endpoint, &address);
    int fd = open_socket(&address);
    if (bind(fd, &address.any, bytes) != 0 || listen(fd, 64) != 0) {
        bench_die("%s: %s", endpoint, strerror(errno));
    }
    return fd;
}

int stream_connect(const char *endpoint)
{
    union address address;
    socklen_t bytes = address_of(endpoint, &address);
    int64_t until_ns = test_now_ns() + AWAIT_NS;
    for (;;) {
        int fd = open_socket(&address);
        if (connect(fd, &address.any, bytes) == 0) {
            return fd;
        }
        int why = errno;
        close(fd);
        if (test_now_ns() > until_ns) {
            bench_die("%s: %s", endpoint, strerror(why));
        }
        bench_sleep_until(test_now_ns() + RETRY_NS);
    }
}

void stream_await(const char *endpoint)
{
    close(stream_connect(endpoint));
}

unsigned stream_free_port(void)
{
    union address address;
    socklen_t bytes = address_of("tcp:0", &address);
    int fd = open_socket(&address);
    if (bind(fd, &address.any, bytes) != 0 || getsockname(fd, &address.any, &bytes) != 0) {
        bench_die("no port: %s", strerror(errno));
    }
    close(fd);
    return ntohs(address.tcp.sin_port);
}

/* ---- out --------------------------------------------------------------------------------------*/

bool stream_write(int fd, const void *bytes, size_t count)
{
    const char *at = bytes;
    while (count > 0) {
        ssize_t written = send(fd, at, count, MSG_NOSIGNAL);
        if (written < 0 && errno != EINTR) {
            return false;
        }
        at += written > 0 ? written : 0;
        count -= written > 0 ? (size_t)written : 0;
    }
    return true;
}

void outlet_init(struct outlet *outlet, int fd)
{
    *outlet = (struct outlet){.fd = fd, .bytes = peer_allocate(HELD_BYTES)};
}

static void check_write(bool is_written)
{
    if (!is_written) {
        bench_die("the server is gone: %s", strerror(errno));
    }
}

/* What is held back, and these bytes behind it, in one call where the kernel takes them. */
static void write_behind(struct outlet *outlet, const char *bytes, size_t count)
{
    struct iovec parts[] = {{outlet->bytes, outlet->count}, {(void *)(uintptr_t)bytes, count}};
    ssize_t written = writev(outlet->fd, parts, 2);
    size_t done = written > 0 ? (size_t)written : 0;
    check_write(written >= 0 || errno == EINTR);
    if (done < outlet->count) {
        check_write(stream_write(outlet->fd, outlet->bytes + done, outlet->count - done));
        done = outlet->count;
    }
    check_write(
        stream_write(outlet->fd, bytes + (done - outlet->count), count - (done - outlet->count)));
    outlet->count = 0;
}

void outlet_add(struct outlet *outlet, const void *bytes, size_t count)
{
    if (count >= DIRECT_BYTES) {
        write_behind(outlet, bytes, count);
        return;
    }
    if (outlet->count + count > HELD_BYTES) {
        outlet_flush(outlet);
    }
    memcpy(outlet->bytes + outlet->count, bytes, count);
    outlet->count += count;
}

void outlet_flush(struct outlet *outlet)
{
    check_write(stream_write(outlet->fd, outlet->bytes, outlet->count));
    outlet->count = 0;
}

/* ---- in ---------------------------------------------------------------------------------------*/

void inlet_init(struct inlet *inlet, int fd, size_t largest)
{
    size_t room = 2 * largest > INLET_BYTES ? 2 * largest : INLET_BYTES;
    *inlet = (struct inlet){.fd = fd, .bytes = peer_allocate(room), .room = room};
}

static void read_more(struct inlet *inlet)
{
    ssize_t count = recv(inlet->fd, inlet->bytes + inlet->end, inlet->room - inlet->end, 0);
    if (count == 0 || (count < 0 && errno != EINTR)) {
        bench_die("the server is gone: %s", count < 0 ? strerror(errno) : "closed");
    }
    inlet->end += count > 0 ? (size_t)count : 0;
}

/* Room for so many bytes from start on. */
static void make_room(struct inlet *inlet, size_t count)
{
    if (inlet->start == inlet->end) {
        inlet->start = inlet->end = 0;
    }
    bool is_little = inlet->end - inlet->start <= LITTLE_BYTES;
    if (inlet->room - inlet->start >= count && !is_little) {
        return;
    }
    memmove(inlet->bytes, inlet->bytes + inlet->start, inlet->end - inlet->start);
    inlet->end -= inlet->start;
    inlet->start = 0;
    if (inlet->room < count) {
        bench_die("%zu bytes are more than a value can have", count);
    }
}

const char *inlet_need(struct inlet *inlet, size_t count)
{
    if (inlet->end - inlet->start < count) {
        make_room(inlet, count);
    }
    while (inlet->end - inlet->start < count) {
        read_more(inlet);
    }
    return inlet->bytes + inlet->start;
}

const char *inlet_line(struct inlet *inlet, size_t *out_bytes)
{
    size_t looked = 0;
    for (;;) {
        size_t there = inlet->end - inlet->start;
        const char *start = inlet->bytes + inlet->start;
        const char *newline = there > looked ? memchr(start + looked, '\n', there - looked) : NULL;
        if (newline != NULL) {
            size_t bytes = (size_t)(newline - start);
            *out_bytes = bytes > 0 && start[bytes - 1] == '\r' ? bytes - 1 : bytes;
            inlet->start += bytes + 1;
            return start;
        }
        looked = there;
        inlet_need(inlet, there + 1);
    }
}
