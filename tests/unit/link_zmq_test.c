/* SPDX-License-Identifier: MPL-2.0 */
/* link_zmq_test.c -- the two connections of a client, against plain ROUTERs. */
#include "libbus/io/link.h"

#include "libbus/base/limits.h"
#include "tests/lib/process.h"
#include "tests/lib/stranger.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>
#include <zmq.h>

/* A bound against hanging; what is waited for comes in some ms. */
enum { SOON_MS = 20000, ENDPOINT_BYTES = 128 };
/* After so long a connection without a greeting is asked; how long nobody lets it. */
enum { ASKED_MS = 1000, WOKEN_MS = 400 };

static struct link *subject;
static void *context;
static void *routers[LINK_LANE_COUNT];
static char endpoints[LINK_LANE_COUNT][ENDPOINT_BYTES];
static bool closed[LINK_LANE_COUNT];
static const bool no_room[LINK_LANE_COUNT] = {false, false};

static void open_router_with(enum link_lane lane, int queue)
{
    int timeout_ms = SOON_MS;
    int linger_ms = 0;
    size_t bytes = ENDPOINT_BYTES;
    routers[lane] = zmq_socket(context, ZMQ_ROUTER);
    cr_assert_not_null(routers[lane]);
    zmq_setsockopt(routers[lane], ZMQ_RCVTIMEO, &timeout_ms, sizeof timeout_ms);
    zmq_setsockopt(routers[lane], ZMQ_LINGER, &linger_ms, sizeof linger_ms);
    zmq_setsockopt(routers[lane], ZMQ_RCVHWM, &queue, sizeof queue);
    cr_assert_eq(zmq_bind(routers[lane], "tcp://127.0.0.1:*"), 0);
    cr_assert_eq(zmq_getsockopt(routers[lane], ZMQ_LAST_ENDPOINT, endpoints[lane], &bytes), 0);
}

static void open_router(enum link_lane lane)
{
    open_router_with(lane, 1000);
}

static void close_router(enum link_lane lane)
{
    if (routers[lane] != NULL)
        zmq_close(routers[lane]);
    routers[lane] = NULL;
}

static void set_up(void)
{
    context = zmq_ctx_new();
    open_router(LINK_CONTROL);
    open_router(LINK_DATA);
    cr_assert_eq(link_open(&subject), LINK_OK);
}

static void tear_down(void)
{
    link_close(&subject, 0);
    close_router(LINK_CONTROL);
    close_router(LINK_DATA);
    zmq_ctx_term(context);
}

TestSuite(link_zmq, .init = set_up, .fini = tear_down, .timeout = 60);

static void wait_for(int64_t timeout_ms, const bool wants_room[LINK_LANE_COUNT])
{
    link_wait(subject, link_wait_begin(subject, wants_room) ? 0 : timeout_ms);
    link_wait_end(subject, closed);
}

/* Sends, waiting for the connection if it is not there yet. */
static void send_soon(enum link_lane lane, const char *text)
{
    bool wants[LINK_LANE_COUNT] = {lane == LINK_CONTROL, lane == LINK_DATA};
    enum link_err err;
    while ((err = link_send(subject, lane, span_text(text))) == LINK_AGAIN)
        wait_for(SOON_MS, wants);
    cr_assert_eq(err, LINK_OK);
}

/* What the router of a lane receives next; routing is filled in for answers. */
static void expect_at_router(enum link_lane lane, const char *text, uint8_t routing[5])
{
    char bytes[64];
    cr_assert_eq(zmq_recv(routers[lane], routing, 5, 0), 5);
    int count = zmq_recv(routers[lane], bytes, sizeof bytes, 0);
    cr_assert_eq(count, (int)strlen(text));
    cr_expect_arr_eq(bytes, text, strlen(text));
}

static void answer(enum link_lane lane, const uint8_t routing[5], int part_count,
                   const struct span *parts)
{
    cr_assert_eq(zmq_send(routers[lane], routing, 5, ZMQ_SNDMORE), 5);
    for (int i = 0; i < part_count; i++)
        cr_assert_geq(zmq_send(routers[lane], parts[i].data, parts[i].bytes,
                               i + 1 < part_count ? ZMQ_SNDMORE : 0),
                      0);
}

static void receive_soon(enum link_lane lane, struct buffer **out_head, struct buffer **out_part)
{
    enum link_err err;
    while ((err = link_receive(subject, lane, out_head, out_part)) == LINK_AGAIN)
        wait_for(SOON_MS, no_room);
    cr_assert_eq(err, LINK_OK);
}

static void expect_closed_soon(enum link_lane lane)
{
    closed[lane] = false;
    while (!closed[lane])
        wait_for(SOON_MS, no_room);
    cr_expect_eq(link_send(subject, lane, span_text("x")), LINK_DOWN);
    wait_for(0, no_room);
    cr_expect_not(closed[lane]); /* told once */
}

static void expect_fault(const char *endpoint, enum link_fault fault)
{
    cr_assert_eq(link_connect(subject, LINK_CONTROL, endpoint), LINK_OK, "%s", endpoint);
    expect_closed_soon(LINK_CONTROL);
    cr_expect_eq(link_fault(subject, LINK_CONTROL), fault, "%s: %d", endpoint,
                 (int)link_fault(subject, LINK_CONTROL));
}

/* Whoever is woken while it asks what listens there asks once more, later. */
Test(link_zmq, asks_again_what_listens_if_it_was_woken)
{
    struct stranger stranger;
    cr_assert(stranger_start(&stranger, STRANGER_ANSWERS));
    cr_assert_eq(link_connect(subject, LINK_CONTROL, stranger.endpoint), LINK_OK);
    int64_t begin_ms = test_now_ms();
    for (int64_t ms = 0; ms < SOON_MS && !closed[LINK_CONTROL]; ms = test_now_ms() - begin_ms) {
        if (ms >= ASKED_MS && ms < ASKED_MS + WOKEN_MS)
            link_wake(subject);
        wait_for(WOKEN_MS / 8, no_room);
    }
    cr_expect(closed[LINK_CONTROL], "it was not asked again");
    cr_expect_eq(link_fault(subject, LINK_CONTROL), LINK_FAULT_NO_ZEROMQ);
    stranger_stop(&stranger);
}

/* It is ZeroMQ, and no broker. */
Test(link_zmq, tells_that_a_password_is_asked_for)
{
    int is_plain = 1;
    char endpoint[ENDPOINT_BYTES];
    size_t bytes = sizeof endpoint;
    void *router = zmq_socket(context, ZMQ_ROUTER);
    cr_assert_eq(zmq_setsockopt(router, ZMQ_PLAIN_SERVER, &is_plain, sizeof is_plain), 0);
    cr_assert_eq(zmq_bind(router, "tcp://127.0.0.1:*"), 0);
    cr_assert_eq(zmq_getsockopt(router, ZMQ_LAST_ENDPOINT, endpoint, &bytes), 0);
    expect_fault(endpoint, LINK_FAULT_OTHER_MECHANISM);
    zmq_close(router);
}

/* A service that takes a connection, reads some of it and closes. */
static void *close_one(void *arg)
{
    char bytes[10]; /* the signature of a greeting */
    int fd = accept(*(const int *)arg, NULL, NULL);
    cr_assert_geq(fd, 0);
    (void)recv(fd, bytes, sizeof bytes, MSG_WAITALL);
    close(fd);
    return NULL;
}

Test(link_zmq, tells_how_a_connection_ended)
{
    uint8_t routing[5];
    char endpoint[ENDPOINT_BYTES];
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof address;
    pthread_t thread;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    cr_assert_eq(bind(listener, (const struct sockaddr *)&address, bytes), 0);
    cr_assert_eq(getsockname(listener, (struct sockaddr *)&address, &bytes), 0);
    snprintf(endpoint, sizeof endpoint, "tcp://127.0.0.1:%u", ntohs(address.sin_port));
    expect_fault(endpoint, LINK_FAULT_REFUSED); /* bound, and nobody listens */
    expect_fault("ipc:///nonexistent/errbus", LINK_FAULT_REFUSED);
    expect_fault("tcp://nowhere.invalid:7370", LINK_FAULT_UNRESOLVED);
    cr_assert_eq(listen(listener, 1), 0);
    cr_assert_eq(pthread_create(&thread, NULL, close_one, &listener), 0);
    expect_fault(endpoint, LINK_FAULT_FOREIGN);
    pthread_join(thread, NULL);
    close(listener);

    cr_assert_eq(link_connect(subject, LINK_CONTROL, endpoints[LINK_CONTROL]), LINK_OK);
    send_soon(LINK_CONTROL, "hello");
    expect_at_router(LINK_CONTROL, "hello", routing);
    close_router(LINK_CONTROL);
    expect_closed_soon(LINK_CONTROL);
    cr_expect_eq(link_fault(subject, LINK_CONTROL), LINK_FAULT_CLOSED);
}

Test(link_zmq, carries_parts_both_ways)
{
    uint8_t routing[5];
    struct buffer *head;
    struct buffer *part;
    cr_expect_eq(link_send(subject, LINK_CONTROL, span_text("x")), LINK_DOWN);
    cr_expect_eq(link_receive(subject, LINK_CONTROL, &head, &part), LINK_DOWN);
    cr_assert_eq(link_connect(subject, LINK_CONTROL, endpoints[LINK_CONTROL]), LINK_OK);
    cr_assert_eq(link_connect(subject, LINK_DATA, endpoints[LINK_DATA]), LINK_OK);
    send_soon(LINK_CONTROL, "hello");
    expect_at_router(LINK_CONTROL, "hello", routing);
    answer(LINK_CONTROL, routing, 1, &(struct span){"welcome", 7});
    receive_soon(LINK_CONTROL, &head, &part);
    cr_expect_null(head);
    cr_expect(span_equal(buffer_span(part), span_text("welcome")));
    buffer_unref(&part);

    /* Large and small, the batch lies on an 8-byte boundary. */
    static uint8_t large[300000];
    memset(large, 'b', sizeof large);
    send_soon(LINK_DATA, "attach");
    expect_at_router(LINK_DATA, "attach", routing);
    for (size_t bytes = 1; bytes <= sizeof large; bytes = bytes * 3 + 1) {
        struct span parts[2] = {span_text("head"), span_of(large, bytes)};
        answer(LINK_DATA, routing, 2, parts);
        receive_soon(LINK_DATA, &head, &part);
        cr_expect(span_equal(buffer_span(head), parts[0]));
        cr_expect(span_equal(buffer_span(part), parts[1]));
        cr_expect_eq((uintptr_t)part->data % 8, 0);
        buffer_unref(&head);
        buffer_unref(&part);
    }
    cr_expect_eq(link_receive(subject, LINK_DATA, &head, &part), LINK_AGAIN);
}

Test(link_zmq, shows_messages_of_another_number_of_parts)
{
    uint8_t routing[5];
    struct span parts[3] = {span_text("a"), span_text("b"), span_text("c")};
    struct buffer *head;
    struct buffer *part;
    for (int lane = 0; lane < LINK_LANE_COUNT; lane++) {
        cr_assert_eq(link_connect(subject, (enum link_lane)lane, endpoints[lane]), LINK_OK);
        send_soon((enum link_lane)lane, "x");
        expect_at_router((enum link_lane)lane, "x", routing);
        for (int count = 1; count <= 3; count++) {
            answer((enum link_lane)lane, routing, count, parts);
            receive_soon((enum link_lane)lane, &head, &part);
            cr_expect_eq(part != NULL, count == (lane == LINK_DATA ? 2 : 1));
            cr_expect_eq(head != NULL, lane == LINK_DATA && count < 3); /* alone: a refusal */
            buffer_unref(&head);
            buffer_unref(&part);
        }
    }
}

static int released;
static void count_release(struct buffer *buffer)
{
    (void)buffer; /* the test's own */
    released += 1;
}

Test(link_zmq, sends_by_reference_and_drops_it)
{
    static uint8_t bytes[100000];
    struct buffer buffer = {.data = bytes, .bytes = sizeof bytes, .release = count_release};
    struct buffer *held = &buffer;
    bool wants[LINK_LANE_COUNT] = {false, true};
    char received[8];
    atomic_init(&buffer.refs, 1);
    cr_expect_eq(link_send_buffer(subject, LINK_DATA, &buffer), LINK_DOWN);
    cr_assert_eq(link_connect(subject, LINK_DATA, endpoints[LINK_DATA]), LINK_OK);
    while (link_send_buffer(subject, LINK_DATA, &buffer) == LINK_AGAIN)
        wait_for(SOON_MS, wants);
    cr_assert_eq(zmq_recv(routers[LINK_DATA], received, sizeof received, 0), 5);
    cr_assert_eq(zmq_recv(routers[LINK_DATA], received, sizeof received, 0), (int)sizeof bytes);
    link_close(&subject, 0);
    cr_expect_eq(atomic_load(&buffer.refs), 1);
    cr_expect_eq(released, 0);
    buffer_unref(&held);
    cr_expect_eq(released, 1);
}

/* One batch comes in; the caller's. */
static struct buffer *receive_batch(const uint8_t routing[5], size_t bytes)
{
    static char batch[2 * LIMIT_BATCH_BYTES];
    struct buffer *head;
    struct buffer *part;
    answer(LINK_DATA, routing, 2, (struct span[]){{"head", 4}, {batch, bytes}});
    receive_soon(LINK_DATA, &head, &part);
    cr_assert_eq(part->bytes, bytes);
    buffer_unref(&head);
    return part;
}

static unsigned references(const struct buffer *part)
{
    return atomic_load(&part->refs);
}

/* So that the next one finds their place, and no new pages. */
Test(link_zmq, keeps_the_last_batches_for_as_long_as_others_come)
{
    uint8_t routing[5];
    cr_assert_eq(link_connect(subject, LINK_DATA, endpoints[LINK_DATA]), LINK_OK);
    send_soon(LINK_DATA, "hello");
    expect_at_router(LINK_DATA, "hello", routing);
    struct buffer *small = receive_batch(routing, 100);
    struct buffer *large = receive_batch(routing, 2 * DEFAULT_BATCH_BYTES);
    struct buffer *first = receive_batch(routing, DEFAULT_BATCH_BYTES);
    cr_expect_eq(references(small), 1);
    cr_expect_eq(references(large), 1);
    cr_expect_eq(references(first), 2);
    for (int i = 0; i < 7; i++) {
        struct buffer *other = receive_batch(routing, DEFAULT_BATCH_BYTES);
        buffer_unref(&other);
    }
    cr_expect_eq(references(first), 2);
    struct buffer *last = receive_batch(routing, DEFAULT_BATCH_BYTES);
    cr_expect_eq(references(first), 1);
    cr_expect_eq(references(last), 2);
    while (references(last) > 1) /* ends with the second wait in which nothing comes */
        wait_for(20, no_room);
    buffer_unref(&small);
    buffer_unref(&large);
    buffer_unref(&first);
    buffer_unref(&last);
}

/* Which descriptors of this process a program that it starts would have, too. */
static unsigned count_inherited(void)
{
    unsigned count = 0;
    for (int fd = 0; fd < 1024; fd++) {
        int flags = fcntl(fd, F_GETFD);
        count += flags >= 0 && (flags & FD_CLOEXEC) == 0;
    }
    return count;
}

Test(link_zmq, leaves_no_descriptors_to_programs_that_are_started)
{
    unsigned before = count_inherited();
    struct link *another = NULL;
    cr_assert_eq(link_open(&another), LINK_OK);
    cr_assert_eq(link_connect(another, LINK_CONTROL, endpoints[LINK_CONTROL]), LINK_OK);
    cr_assert_eq(link_connect(another, LINK_DATA, endpoints[LINK_DATA]), LINK_OK);
    cr_expect_eq(count_inherited(), before);
    link_close(&another, 0);
}

Test(link_zmq, gives_the_kept_batches_back_when_it_is_closed)
{
    uint8_t routing[5];
    cr_assert_eq(link_connect(subject, LINK_DATA, endpoints[LINK_DATA]), LINK_OK);
    send_soon(LINK_DATA, "hello");
    expect_at_router(LINK_DATA, "hello", routing);
    struct buffer *batch = receive_batch(routing, DEFAULT_BATCH_BYTES);
    cr_assert_eq(references(batch), 2);
    link_close(&subject, 0);
    cr_expect_eq(references(batch), 1);
    buffer_unref(&batch);
}

Test(link_zmq, takes_few_parts_of_data_when_nobody_reads)
{
    static uint8_t bytes[LIMIT_BATCH_BYTES];
    struct buffer *part = buffer_copy(span_of(bytes, sizeof bytes));
    close_router(LINK_DATA);
    open_router_with(LINK_DATA, 1);
    cr_assert_eq(link_connect(subject, LINK_DATA, endpoints[LINK_DATA]), LINK_OK);
    send_soon(LINK_DATA, "first");
    int sent = 0;
    while (sent < 1000 && link_send_buffer(subject, LINK_DATA, part) == LINK_OK)
        sent += 1;
    cr_expect_lt(sent, 1000);
    buffer_unref(&part);
}

Test(link_zmq, tells_of_a_connection_that_closes_once_all_was_received)
{
    uint8_t routing[5];
    struct buffer *head;
    struct buffer *part;
    int linger_ms = SOON_MS;
    cr_assert_eq(link_connect(subject, LINK_CONTROL, endpoints[LINK_CONTROL]), LINK_OK);
    send_soon(LINK_CONTROL, "hello");
    expect_at_router(LINK_CONTROL, "hello", routing);
    zmq_setsockopt(routers[LINK_CONTROL], ZMQ_LINGER, &linger_ms, sizeof linger_ms);
    for (int i = 0; i < 100; i++)
        answer(LINK_CONTROL, routing, 1, &(struct span){"last words", 10});
    close_router(LINK_CONTROL);
    int count = 0;
    while (count < 100) {
        wait_for(SOON_MS, no_room);
        cr_assert_not(closed[LINK_CONTROL]);
        while (link_receive(subject, LINK_CONTROL, &head, &part) == LINK_OK) {
            count += 1;
            buffer_unref(&part);
        }
    }
    expect_closed_soon(LINK_CONTROL);

    /* And a fresh one is a fresh one. */
    open_router(LINK_CONTROL);
    cr_assert_eq(link_connect(subject, LINK_CONTROL, endpoints[LINK_CONTROL]), LINK_OK);
    send_soon(LINK_CONTROL, "again");
    expect_at_router(LINK_CONTROL, "again", routing);
}

Test(link_zmq, tells_when_nobody_answers)
{
    close_router(LINK_CONTROL);
    cr_assert_eq(link_connect(subject, LINK_CONTROL, endpoints[LINK_CONTROL]), LINK_OK);
    expect_closed_soon(LINK_CONTROL);
    cr_assert_eq(link_connect(subject, LINK_CONTROL, "ipc:///nonexistent/socket"), LINK_OK);
    expect_closed_soon(LINK_CONTROL);
}

Test(link_zmq, does_not_send_later_what_was_said_to_a_closed_connection)
{
    uint8_t routing[5];
    cr_assert_eq(link_connect(subject, LINK_CONTROL, endpoints[LINK_CONTROL]), LINK_OK);
    send_soon(LINK_CONTROL, "old");
    expect_at_router(LINK_CONTROL, "old", routing);
    cr_assert_eq(link_connect(subject, LINK_CONTROL, endpoints[LINK_CONTROL]), LINK_OK);
    send_soon(LINK_CONTROL, "new");
    expect_at_router(LINK_CONTROL, "new", routing);
    link_disconnect(subject, LINK_CONTROL);
    cr_expect_eq(link_send(subject, LINK_CONTROL, span_text("x")), LINK_DOWN);
}

/* Whether the router knows the connection still. */
static bool is_known(const uint8_t routing[5])
{
    return zmq_send(routers[LINK_CONTROL], routing, 5, ZMQ_SNDMORE | ZMQ_DONTWAIT) == 5 &&
           zmq_send(routers[LINK_CONTROL], "x", 1, ZMQ_DONTWAIT) == 1;
}

static void expect_unknown_soon(const uint8_t routing[5])
{
    while (is_known(routing)) /* bounded by the suite's time */
        wait_for(1, no_room);
    cr_expect_eq(errno, EHOSTUNREACH);
}

Test(link_zmq, keeps_what_is_put_aside_open_and_unread)
{
    uint8_t routings[2 + LINK_ASIDE_MAX][5];
    struct buffer *head = NULL;
    struct buffer *part = NULL;
    int on = 1;
    zmq_setsockopt(routers[LINK_CONTROL], ZMQ_ROUTER_MANDATORY, &on, sizeof on);
    for (int i = 0; i < 2 + LINK_ASIDE_MAX; i++) {
        link_put_aside(subject);
        cr_expect_eq(link_send(subject, LINK_CONTROL, span_text("x")), LINK_DOWN);
        cr_assert_eq(link_connect(subject, LINK_CONTROL, endpoints[LINK_CONTROL]), LINK_OK);
        send_soon(LINK_CONTROL, "hello");
        expect_at_router(LINK_CONTROL, "hello", routings[i]);
    }
    expect_unknown_soon(routings[0]); /* one too many */
    for (int i = 1; i < 2 + LINK_ASIDE_MAX; i++)
        cr_expect(is_known(routings[i]), "%d", i);

    /* What comes is what comes on the newest. */
    receive_soon(LINK_CONTROL, &head, &part);
    buffer_unref(&part);
    cr_expect_eq(link_receive(subject, LINK_CONTROL, &head, &part), LINK_AGAIN);
    link_close_aside(subject);
    for (int i = 1; i <= LINK_ASIDE_MAX; i++)
        expect_unknown_soon(routings[i]);
    cr_expect(is_known(routings[1 + LINK_ASIDE_MAX]));
}

Test(link_zmq, refuses_what_is_no_endpoint)
{
    static const char *const wrong[] = {"",
                                        "here",
                                        "udp://127.0.0.1:1",
                                        "inproc://x",
                                        "tcp://",
                                        "tcp://127.0.0.1",
                                        "tcp://127.0.0.1:x",
                                        "ipc://"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        cr_expect_eq(link_connect(subject, LINK_CONTROL, wrong[i]), LINK_ENDPOINT, "%s", wrong[i]);
}

static void *wake(void *arg)
{
    link_wake(arg);
    return NULL;
}

Test(link_zmq, wakes_a_wait_from_any_thread)
{
    pthread_t thread;
    link_wake(subject);
    wait_for(-1, no_room);
    cr_assert_eq(pthread_create(&thread, NULL, wake, subject), 0);
    wait_for(-1, no_room);
    pthread_join(thread, NULL);
    wait_for(0, no_room);
    cr_expect_not(closed[LINK_CONTROL] || closed[LINK_DATA]);
}

/* With every number of free descriptors from none to plenty. */
Test(link_zmq, says_so_when_descriptors_are_exhausted)
{
    struct rlimit before;
    int refused = 0;
    cr_assert_eq(getrlimit(RLIMIT_NOFILE, &before), 0);
    int highest = dup(0);
    close(highest);
    for (int spare = 0; spare < 40; spare++) {
        struct rlimit few = {.rlim_cur = (rlim_t)(highest + spare), .rlim_max = before.rlim_max};
        struct link *other = NULL;
        cr_assert_eq(setrlimit(RLIMIT_NOFILE, &few), 0);
        enum link_err err = link_open(&other);
        if (err == LINK_OK)
            err = link_connect(other, LINK_CONTROL, endpoints[LINK_CONTROL]);
        if (err == LINK_OK)
            err = link_connect(other, LINK_DATA, endpoints[LINK_DATA]);
        link_close(&other, 0);
        cr_assert_eq(setrlimit(RLIMIT_NOFILE, &before), 0);
        cr_expect(err == LINK_OK || err == LINK_RESOURCES);
        refused += err == LINK_RESOURCES;
    }
    cr_expect_gt(refused, 16);
    cr_expect_lt(refused, 40);
}

Test(link_zmq, resolves_where_the_data_channel_is)
{
    static const struct {
        const char *control, *data, *resolved;
    } rows[] = {
        {"tcp://h:1", "tcp://*:2", "tcp://h:2"},
        {"tcp://[::1]:1", "tcp://*:2", "tcp://[::1]:2"},
        {"tcp://10.0.0.1;h:1", "tcp://*:2", "tcp://h:2"},
        {"tcp://h:1", "tcp://other:2", "tcp://other:2"},
        {"tcp://h:1", "ipc:///x", "ipc:///x"},
        {"ipc:///x", "tcp://*:2", "tcp://127.0.0.1:2"},
        {"ipc:///x", "ipc:///y", "ipc:///y"},
    };
    char out[ENDPOINT_BYTES];
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        cr_expect(link_endpoint_resolve(rows[i].control, rows[i].data, out, sizeof out));
        cr_expect_str_eq(out, rows[i].resolved);
    }
    cr_expect(link_endpoint_resolve("tcp://h:1", "tcp://*:2", out, sizeof "tcp://h:2"));
    cr_expect_not(link_endpoint_resolve("tcp://h:1", "tcp://*:2", out, sizeof "tcp://h:2" - 1));
}
