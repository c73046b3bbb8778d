/* SPDX-License-Identifier: MPL-2.0 */
/* listen_filter_test.c -- the kernel lets a refused address begin no connection, and every other
 * one; a connection that stands stays. */
#include "broker/io/listen_filter.h"

#include "broker/io/peer_address.h"
#include "tests/lib/knock.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { PATIENCE_MS = 60000 };

struct host {
    struct sockaddr_storage address;
    socklen_t bytes;
};

static struct host host_of(const char *text, in_port_t port)
{
    struct host host;
    struct sockaddr_in ipv4 = {.sin_family = AF_INET, .sin_port = port};
    struct sockaddr_in6 ipv6 = {.sin6_family = AF_INET6, .sin6_port = port};
    bool is_ipv4 = inet_pton(AF_INET, text, &ipv4.sin_addr) == 1;
    memset(&host, 0, sizeof host);
    cr_assert(is_ipv4 || inet_pton(AF_INET6, text, &ipv6.sin6_addr) == 1, "%s", text);
    host.bytes = is_ipv4 ? sizeof ipv4 : sizeof ipv6;
    memcpy(&host.address, is_ipv4 ? (const void *)&ipv4 : (const void *)&ipv6, host.bytes);
    return host;
}

static const struct sockaddr *at(const struct host *host)
{
    return (const struct sockaddr *)&host->address;
}

static uint64_t number_of(const char *text)
{
    struct host host = host_of(text, 0);
    return peer_address_number(&host.address);
}

/* A socket that listens at a free port of this address. */
static int listen_at(const char *text, struct host *out_to)
{
    struct host to = host_of(text, 0);
    int fd = socket(to.address.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    cr_assert_geq(fd, 0);
    cr_assert_eq(bind(fd, at(&to), to.bytes), 0, "this machine has no %s", text);
    cr_assert_eq(listen(fd, 16), 0);
    cr_assert_eq(getsockname(fd, (struct sockaddr *)&to.address, &to.bytes), 0);
    *out_to = to;
    return fd;
}

/* Begins a connection from this address; out_is_done: it stands at once, as it does within one
 * machine. */
static int begin_from(const char *from, const struct host *to, bool *out_is_done)
{
    struct host host = host_of(from, 0);
    int fd = socket(host.address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    struct pollfd item = {.fd = fd, .events = POLLOUT};
    cr_assert_geq(fd, 0);
    cr_assert_eq(bind(fd, at(&host), host.bytes), 0, "this machine has no %s", from);
    (void)connect(fd, at(to), to->bytes); /* it is on its way, or will never be */
    *out_is_done = poll(&item, 1, 0) == 1 && item.revents == POLLOUT;
    return fd;
}

static void expect_let_in(const char *from, const struct host *to)
{
    bool is_done = false;
    int fd = begin_from(from, to, &is_done);
    struct pollfd item = {.fd = fd, .events = POLLOUT};
    cr_expect(is_done || (poll(&item, 1, PATIENCE_MS) == 1 && item.revents == POLLOUT), "%s", from);
    close(fd);
}

static void expect_refused(const char *from, const struct host *to)
{
    bool is_done = true;
    int fd = begin_from(from, to, &is_done);
    cr_expect_not(is_done, "%s", from);
    close(fd);
}

static void refuse(int fd, const char *const *texts)
{
    struct refused_addresses refused = {.count = 0};
    for (; *texts != NULL; texts++)
        refused_addresses_add(&refused, number_of(*texts), 0);
    cr_assert(listen_filter_set(fd, &refused));
}

#define REFUSE(fd, ...) refuse(fd, (const char *const[]){__VA_ARGS__, NULL})

/* Without a filter nothing of this can be seen; see knock_can_be_filtered(). */
static void init_filter(void)
{
    if (!knock_can_be_filtered())
        cr_skip_test("this kernel lets nobody but root filter what a socket gets");
}

TestSuite(listen_filter, .init = init_filter, .timeout = 120);

Test(listen_filter, drops_what_comes_from_a_refused_address)
{
    struct host to;
    int fd = listen_at("127.0.0.1", &to);
    expect_let_in("127.0.0.2", &to);
    REFUSE(fd, "10.0.0.1", "127.0.0.2", "2001:db8::1", "127.0.0.4");
    expect_refused("127.0.0.2", &to);
    expect_refused("127.0.0.4", &to);
    expect_let_in("127.0.0.1", &to);
    expect_let_in("127.0.0.3", &to);
    REFUSE(fd, "127.0.0.3");
    expect_let_in("127.0.0.2", &to);
    expect_refused("127.0.0.3", &to);
    close(fd);
}

Test(listen_filter, drops_what_comes_from_a_refused_network)
{
    struct host to;
    int fd = listen_at("::1", &to);
    expect_let_in("::1", &to);
    REFUSE(fd, "2001:db8::1", "127.0.0.1", "0.0.0.0");
    expect_let_in("::1", &to);
    REFUSE(fd, "2001:db8::1", "127.0.0.1", "::1");
    expect_refused("::1", &to);
    close(fd);
}

/* A socket of IPv6 listens for IPv4, too. */
Test(listen_filter, knows_ipv4_at_a_socket_of_ipv6)
{
    struct host any, to;
    int fd = listen_at("::", &any);
    in_port_t port = ((struct sockaddr_in6 *)&any.address)->sin6_port;
    REFUSE(fd, "127.0.0.2");
    to = host_of("127.0.0.1", port);
    expect_refused("127.0.0.2", &to);
    expect_let_in("127.0.0.3", &to);
    to = host_of("::1", port);
    expect_let_in("::1", &to);
    close(fd);
}

Test(listen_filter, lets_in_who_waited_when_there_is_none_any_more)
{
    struct host to;
    bool is_done = true;
    int fd = listen_at("127.0.0.1", &to);
    REFUSE(fd, "127.0.0.2");
    int waiting = begin_from("127.0.0.2", &to, &is_done);
    cr_expect_not(is_done);
    cr_assert(listen_filter_set(fd, &(struct refused_addresses){.count = 0}));
    cr_assert(listen_filter_set(fd, &(struct refused_addresses){.count = 0})); /* there is none */
    struct pollfd item = {.fd = waiting, .events = POLLOUT};
    cr_expect_eq(poll(&item, 1, PATIENCE_MS), 1); /* its packet is sent again */
    cr_expect_eq(item.revents, POLLOUT);
    close(waiting);
    close(fd);
}

Test(listen_filter, leaves_connections_alone_that_stand)
{
    struct host to;
    char byte = 'x';
    bool is_done = false;
    int fd = listen_at("127.0.0.1", &to);
    int client = begin_from("127.0.0.2", &to, &is_done);
    int server = accept(fd, NULL, NULL);
    cr_assert_geq(server, 0);
    REFUSE(fd, "127.0.0.2");
    cr_assert_eq(send(client, &byte, 1, MSG_NOSIGNAL), 1);
    cr_expect_eq(recv(server, &byte, 1, 0), 1);
    close(server);
    close(client);
    close(fd);
}

Test(listen_filter, has_room_for_the_most_addresses_of_either_kind)
{
    struct host to;
    struct refused_addresses refused = {.count = 0};
    int fd = listen_at("::1", &to);
    for (uint64_t i = 1; i < LIMIT_REFUSED_ADDRESSES; i++)
        refused_addresses_add(&refused, UINT64_C(0x20010db800000000) + i, 0);
    refused_addresses_add(&refused, number_of("::1"), 0);
    cr_assert_eq(refused.count, LIMIT_REFUSED_ADDRESSES);
    cr_assert(listen_filter_set(fd, &refused));
    expect_refused("::1", &to);
    close(fd);
    fd = listen_at("127.0.0.1", &to);
    refused = (struct refused_addresses){.count = 0};
    for (uint64_t i = 1; i < LIMIT_REFUSED_ADDRESSES; i++)
        refused_addresses_add(&refused, number_of("255.255.255.0") + i, 0);
    refused_addresses_add(&refused, number_of("127.0.0.2"), 0);
    cr_assert(listen_filter_set(fd, &refused));
    expect_refused("127.0.0.2", &to);
    close(fd);
}

Test(listen_filter, is_refused_by_what_is_no_socket)
{
    struct refused_addresses refused = {.count = 0};
    cr_expect_not(listen_filter_set(-1, &refused));
    refused_addresses_add(&refused, number_of("127.0.0.2"), 0);
    cr_expect_not(listen_filter_set(-1, &refused));
}
