/* SPDX-License-Identifier: MPL-2.0 */
/* raw_relay.c -- the ceiling: a process that copies bytes from one socket to others with epoll, and
 * knows nothing of values.  Nothing is framed, counted or looked after; a reader that does not read
 * holds back everybody. */
#include "bench/peer.h"
#include "bench/stream.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define READ_BYTES ((size_t)256 * 1024)
#define FDS_MAX 256
#define EVENTS 16

/* The first bytes that a process sends: what it is, and its topic.  The first is the answer. */
enum { HELLO_ROLE, HELLO_TOPIC, HELLO_BYTES };

struct relay {
    int epoll;
    int listener;
    char roles[FDS_MAX]; /* by descriptor: 'W' 'R', or 0 */
    char topics[FDS_MAX];
    char chunk[READ_BYTES];
};

/* ---- the relay --------------------------------------------------------------------------------*/

static void watch(struct relay *relay, int fd)
{
    struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
    if (epoll_ctl(relay->epoll, EPOLL_CTL_ADD, fd, &event) != 0) {
        bench_die("a descriptor cannot be watched");
    }
}

static void welcome(struct relay *relay)
{
    char hello[HELLO_BYTES];
    int fd = accept4(relay->listener, NULL, NULL, SOCK_CLOEXEC);
    if (fd < 0 || fd >= FDS_MAX) {
        bench_die("too many processes");
    }
    if (recv(fd, hello, sizeof hello, MSG_WAITALL) != HELLO_BYTES || !stream_write(fd, hello, 1)) {
        close(fd);
        return;
    }
    relay->roles[fd] = hello[HELLO_ROLE];
    relay->topics[fd] = hello[HELLO_TOPIC];
    watch(relay, fd);
}

static void leave(struct relay *relay, int fd)
{
    relay->roles[fd] = '\0';
    close(fd);
}

static void copy_on(struct relay *relay, int from)
{
    ssize_t count = recv(from, relay->chunk, sizeof relay->chunk, 0);
    if (count <= 0) {
        leave(relay, from);
        return;
    }
    for (int fd = 0; fd < FDS_MAX; fd++) {
        if (relay->roles[fd] == 'R' && relay->topics[fd] == relay->topics[from] &&
            !stream_write(fd, relay->chunk, (size_t)count)) {
            leave(relay, fd);
        }
    }
}

static void tell(const struct peer_work *work, int listener)
{
    struct sockaddr_in address;
    socklen_t bytes = sizeof address;
    if (work->is_ipc != 0) {
        peer_tell_endpoint("unix:%s/relay", work->folder);
    } else if (getsockname(listener, (struct sockaddr *)&address, &bytes) == 0) {
        peer_tell_endpoint("tcp:%u", ntohs(address.sin_port));
    }
}

static void serve(const struct peer_work *work)
{
    char endpoint[256] = "tcp:0";
    struct relay *relay = peer_allocate(sizeof *relay);
    if (work->is_ipc != 0) {
        snprintf(endpoint, sizeof endpoint, "unix:%s/relay", work->folder);
    }
    relay->epoll = epoll_create1(EPOLL_CLOEXEC);
    relay->listener = stream_listen(endpoint);
    watch(relay, relay->listener);
    tell(work, relay->listener);
    for (;;) {
        struct epoll_event events[EVENTS];
        int count = epoll_wait(relay->epoll, events, EVENTS, -1);
        for (int i = 0; i < count; i++) {
            if (events[i].data.fd == relay->listener) {
                welcome(relay);
            } else {
                copy_on(relay, events[i].data.fd);
            }
        }
    }
}

/* ---- its clients ------------------------------------------------------------------------------*/

static int greet(const struct peer_work *work, char role)
{
    char hello[HELLO_BYTES] = {role, work->topic[0]};
    char answer = '\0';
    int fd = stream_connect(work->at);
    if (!stream_write(fd, hello, sizeof hello) || recv(fd, &answer, 1, 0) != 1 || answer != role) {
        bench_die("the relay does not answer");
    }
    return fd;
}

struct writer {
    struct outlet outlet;
    size_t bytes;
};

static void *open_writer(const struct peer_work *work)
{
    struct writer *writer = peer_allocate(sizeof *writer);
    outlet_init(&writer->outlet, greet(work, 'W'));
    writer->bytes = work->bytes;
    return writer;
}

static void send_values(void *context, const char *values, size_t count)
{
    struct writer *writer = context;
    outlet_add(&writer->outlet, values, count * writer->bytes);
}

static void flush(void *context)
{
    struct writer *writer = context;
    outlet_flush(&writer->outlet);
}

static void *open_reader(const struct peer_work *work)
{
    struct inlet *inlet = peer_allocate(sizeof *inlet);
    inlet_init(inlet, greet(work, 'R'), work->bytes);
    return inlet;
}

static void read_all(void *context, struct tally *tally)
{
    struct inlet *inlet = context;
    while (!tally_is_full(tally)) {
        tally_value(tally, inlet_need(inlet, tally->bytes), tally->bytes);
        inlet_take(inlet, tally->bytes);
    }
}

int main(int argc, char **argv)
{
    static const struct peer peer = {serve, open_writer, NULL,    send_values,
                                     flush, open_reader, read_all};
    return peer_main(&peer, argc, argv);
}
