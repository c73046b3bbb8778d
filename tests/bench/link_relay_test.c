/* SPDX-License-Identifier: MPL-2.0 */
/* link_relay_test.c -- the relay that stands for a long link: bytes come through it whole, not
 * before their time and not faster than its rate; each way ends by itself. */
#include "bench/stream.h"
#include "tests/lib/process.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define ARGUMENTS_MAX 16
#define BULK_BYTES ((size_t)2 * 1024 * 1024)

static struct process relay;
static int listeners[2];
static unsigned ports[2]; /* of the relay */

static unsigned port_of(int fd)
{
    struct sockaddr_in address;
    socklen_t bytes = sizeof address;
    cr_assert_eq(getsockname(fd, (struct sockaddr *)&address, &bytes), 0);
    return ntohs(address.sin_port);
}

/* Two ports, and the relay before both. */
static void start(const char *shape)
{
    char to[64];
    char words[256];
    const char *line = NULL;
    const char *argv[ARGUMENTS_MAX] = {"link_relay", to};
    size_t count = 2;
    snprintf(words, sizeof words, "%s", shape);
    for (char *rest = words; rest != NULL && count + 1 < ARGUMENTS_MAX;) {
        argv[count++] = strsep(&rest, " ");
    }
    listeners[0] = stream_listen("tcp:0");
    listeners[1] = stream_listen("tcp:0");
    snprintf(to, sizeof to, "to=%u,%u", port_of(listeners[0]), port_of(listeners[1]));
    cr_assert(process_start(&relay, argv, NULL));
    cr_assert(process_line(&relay, 10000, &line));
    cr_assert_str_eq(line, "ready");
    cr_assert(process_line(&relay, 10000, &line));
    cr_assert_eq(sscanf(line, "%u,%u", &ports[0], &ports[1]), 2);
}

static void end(void)
{
    process_fini(&relay);
}

TestSuite(link_relay, .fini = end, .timeout = 60);

static int dial(size_t index)
{
    char endpoint[32];
    snprintf(endpoint, sizeof endpoint, "tcp:%u", ports[index]);
    return stream_connect(endpoint);
}

static void expect_byte(int fd, char expected)
{
    char byte = '\0';
    cr_assert_eq(recv(fd, &byte, 1, 0), 1);
    cr_assert_eq(byte, expected);
}

Test(link_relay, takes_a_round_trip_to_connect_and_one_to_be_answered)
{
    start("delay_us=40000");
    for (size_t i = 0; i < 2; i++) {
        int64_t start_ms = test_now_ms();
        int near = dial(i);
        cr_assert(stream_write(near, "a", 1));
        int far = accept(listeners[i], NULL, NULL);
        expect_byte(far, 'a');
        cr_expect_geq(test_now_ms() - start_ms, 119, "a round trip, and one way");
        cr_assert(stream_write(far, "b", 1));
        expect_byte(near, 'b');
        cr_expect_geq(test_now_ms() - start_ms, 159);
        cr_expect_lt(test_now_ms() - start_ms, 1000);
        close(near);
        close(far);
    }
}

static void *write_bulk(void *arg)
{
    static unsigned char bulk[BULK_BYTES];
    int fd = *(int *)arg;
    for (size_t i = 0; i < sizeof bulk; i++) {
        bulk[i] = (unsigned char)(i % 251);
    }
    cr_assert(stream_write(fd, bulk, sizeof bulk));
    shutdown(fd, SHUT_WR);
    return NULL;
}

/* Reads to the end of the stream, and looks at each byte. */
static size_t read_bulk(int fd)
{
    static unsigned char chunk[65536];
    size_t total = 0;
    ssize_t count = 0;
    while ((count = recv(fd, chunk, sizeof chunk, 0)) > 0) {
        for (ssize_t i = 0; i < count; i++, total++) {
            cr_assert_eq(chunk[i], total % 251, "byte %zu", total);
        }
    }
    cr_assert_eq(count, 0);
    return total;
}

/* Bulk one way, whose sender ends its stream; the other way goes on. */
static int64_t carry_bulk(void)
{
    pthread_t thread;
    int near = dial(0);
    int far = accept(listeners[0], NULL, NULL);
    int64_t start_ms = test_now_ms();
    cr_assert_eq(pthread_create(&thread, NULL, write_bulk, &near), 0);
    cr_assert_eq(read_bulk(far), BULK_BYTES);
    int64_t took_ms = test_now_ms() - start_ms;
    pthread_join(thread, NULL);
    cr_assert(stream_write(far, "b", 1));
    expect_byte(near, 'b');
    close(far);
    char byte = '\0';
    cr_assert_eq(recv(near, &byte, 1, 0), 0, "the end of the other way");
    close(near);
    return took_ms;
}

Test(link_relay, carries_at_its_rate_and_ends_each_way_by_itself)
{
    start("delay_us=10000 rate=40000000");
    int64_t took_ms = carry_bulk();
    cr_expect_geq(took_ms, 415, "2 MiB at 5 MB/s, and 10 ms: %lld", (long long)took_ms);
    cr_expect_lt(took_ms, 2000);
}

Test(link_relay, loses_nothing_to_jitter_and_stalls)
{
    start("delay_us=1000 rate=400000000 jitter_us=2000 late_percent=5 late_us=20000 "
          "stall_every_ms=50 stall_ms=20");
    carry_bulk();
    carry_bulk();
}

Test(link_relay, passes_on_that_nobody_listens)
{
    start("delay_us=1000");
    close(listeners[0]);
    int near = dial(0);
    char byte = '\0';
    cr_assert_leq(recv(near, &byte, 1, 0), 0);
    close(near);
}

Test(link_relay, carries_one_connection_beside_another_that_nobody_reads)
{
    start("delay_us=1000 rate=100000000");
    static char bulk[BULK_BYTES];
    int stuck = dial(0);
    int stuck_far = accept(listeners[0], NULL, NULL);
    while (send(stuck, bulk, sizeof bulk, MSG_DONTWAIT) > 0) {
        continue;
    }
    int near = dial(1);
    int far = accept(listeners[1], NULL, NULL);
    cr_assert(stream_write(near, "a", 1));
    expect_byte(far, 'a');
    close(stuck);
    close(stuck_far);
    close(near);
    close(far);
}
