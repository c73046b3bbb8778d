/* SPDX-License-Identifier: MPL-2.0 */
/* greeting_probe_test.c -- what a probe makes of brokers, of other services, and of nobody. */
#include "libbus/io/greeting_probe.h"
#include "tests/lib/stranger.h"

#include <criterion/criterion.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <zmq.h>

enum { LISTEN_MS = 200, FOREVER_MS = 3600 * 1000 };

static const struct sockaddr_storage unknown = {.ss_family = AF_UNSPEC};
static const char *const names[] = {
    [GREETING_WOKEN] = "woken",   [GREETING_OTHER] = "other",     [GREETING_UNCLEAR] = "unclear",
    [GREETING_SILENT] = "silent", [GREETING_HUNG_UP] = "hung up", [GREETING_FOREIGN] = "foreign",
    [GREETING_NULL] = "NULL",     [GREETING_CURVE] = "CURVE"};

static void expect_found(const char *endpoint, enum greeting wanted, const char *where)
{
    enum greeting found = greeting_probe(&unknown, endpoint, LISTEN_MS, -1);
    cr_expect_eq(found, wanted, "%s: %s, not %s", where, names[found], names[wanted]);
}

Test(greeting_probe, tells_services_apart_that_are_no_broker)
{
    static const enum greeting wanted[STRANGER_COUNT] = {[STRANGER_SILENT] = GREETING_SILENT,
                                                         [STRANGER_CLOSES] = GREETING_UNCLEAR,
                                                         [STRANGER_GREETS] = GREETING_FOREIGN,
                                                         [STRANGER_ANSWERS] = GREETING_FOREIGN,
                                                         [STRANGER_HANGS_UP] = GREETING_HUNG_UP};
    static const char *const where[STRANGER_COUNT] = {"silent", "closes", "greets", "answers",
                                                      "hangs up"};
    for (enum stranger_kind kind = 0; kind < STRANGER_COUNT; kind++) {
        struct stranger stranger;
        cr_assert(stranger_start(&stranger, kind));
        expect_found(stranger.endpoint, wanted[kind], where[kind]);
        stranger_stop(&stranger);
    }
}

static void expect_mechanism(int is_curve, enum greeting wanted)
{
    void *context = zmq_ctx_new();
    void *socket = zmq_socket(context, ZMQ_ROUTER);
    char endpoint[64];
    size_t bytes = sizeof endpoint;
    char public_key[41];
    char secret_key[41];
    cr_assert_eq(zmq_curve_keypair(public_key, secret_key), 0);
    if (is_curve) {
        cr_assert_eq(zmq_setsockopt(socket, ZMQ_CURVE_SERVER, &is_curve, sizeof is_curve), 0);
        cr_assert_eq(zmq_setsockopt(socket, ZMQ_CURVE_SECRETKEY, secret_key, sizeof secret_key), 0);
    }
    cr_assert_eq(zmq_bind(socket, "tcp://127.0.0.1:*"), 0);
    cr_assert_eq(zmq_getsockopt(socket, ZMQ_LAST_ENDPOINT, endpoint, &bytes), 0);
    expect_found(endpoint, wanted, names[wanted]);
    zmq_close(socket);
    zmq_ctx_term(context);
}

Test(greeting_probe, tells_whether_a_broker_asks_for_a_key)
{
    expect_mechanism(0, GREETING_NULL);
    expect_mechanism(1, GREETING_CURVE);
}

/* A greeting that asks for a password: ZeroMQ, and no broker's. */
Test(greeting_probe, tells_another_mechanism)
{
    int is_plain = 1;
    char endpoint[64];
    size_t bytes = sizeof endpoint;
    void *context = zmq_ctx_new();
    void *socket = zmq_socket(context, ZMQ_ROUTER);
    cr_assert_eq(zmq_setsockopt(socket, ZMQ_PLAIN_SERVER, &is_plain, sizeof is_plain), 0);
    cr_assert_eq(zmq_bind(socket, "tcp://127.0.0.1:*"), 0);
    cr_assert_eq(zmq_getsockopt(socket, ZMQ_LAST_ENDPOINT, endpoint, &bytes), 0);
    expect_found(endpoint, GREETING_OTHER, "PLAIN");
    zmq_close(socket);
    zmq_ctx_term(context);
}

/* A name may be looked up for longer than a program may wait.  Where a connection was made, its
 * address is known. */
Test(greeting_probe, looks_no_name_up_whose_address_is_known)
{
    struct stranger stranger;
    struct sockaddr_storage peer;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    char endpoint[64];
    cr_assert(stranger_start(&stranger, STRANGER_GREETS));
    const char *port = strrchr(stranger.endpoint, ':') + 1;
    (void)snprintf(endpoint, sizeof endpoint, "tcp://nowhere.invalid:%s", port);
    address.sin_port = htons((uint16_t)strtoul(port, NULL, 10));
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    cr_assert_eq(connect(fd, (const struct sockaddr *)&address, sizeof address), 0);
    greeting_probe_peer(fd, endpoint, &peer);
    cr_expect_eq(greeting_probe(&peer, endpoint, LISTEN_MS, -1), GREETING_FOREIGN);
    greeting_probe_peer(fd, "tcp://nowhere.invalid:1", &peer);
    cr_expect_eq(peer.ss_family, AF_UNSPEC, "this descriptor is another connection");
    close(fd);
    greeting_probe_peer(fd, endpoint, &peer);
    cr_expect_eq(peer.ss_family, AF_UNSPEC, "it is closed");
    stranger_stop(&stranger);
}

Test(greeting_probe, finds_nothing_where_nobody_listens)
{
    struct stranger stranger;
    cr_assert(stranger_start(&stranger, STRANGER_SILENT));
    stranger_stop(&stranger);
    expect_found(stranger.endpoint, GREETING_UNCLEAR, "gone");
    expect_found("ipc:///nonexistent/errbus", GREETING_UNCLEAR, "ipc");
    expect_found("tcp://no-port", GREETING_UNCLEAR, "no port");
}

Test(greeting_probe, ends_as_soon_as_it_is_woken, .timeout = 60)
{
    struct stranger stranger;
    uint64_t one = 1;
    int wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    cr_assert(stranger_start(&stranger, STRANGER_SILENT));
    cr_assert_eq(write(wake_fd, &one, sizeof one), (ssize_t)sizeof one);
    cr_expect_eq(greeting_probe(&unknown, stranger.endpoint, FOREVER_MS, wake_fd), GREETING_WOKEN);
    stranger_stop(&stranger);
    close(wake_fd);
}
