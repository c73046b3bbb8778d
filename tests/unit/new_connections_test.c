/* SPDX-License-Identifier: MPL-2.0 */
/* new_connections_test.c -- who has said nothing goes when its time is over, or when there are too
 * many; who has said something stays. */
#include "broker/io/new_connections.h"

#include "libbus/base/limits.h"

#include "libbus/base/must.h"

#include <criterion/criterion.h>

enum { OPEN_MAX = 2 * LIMIT_NEW_CONNECTIONS, WAIT_NS = 1000 };

static struct memory memory;
static struct new_connections connections;

static void init(void)
{
    memory_heap_init(&memory, UINT64_MAX);
    new_connections_init(&connections, &memory, OPEN_MAX, WAIT_NS);
}

static void fini(void)
{
    new_connections_fini(&connections);
    must(memory.bytes_used == 0);
}

TestSuite(new_connections, .init = init, .fini = fini);

static void expect_next(int64_t now_ns, int expected)
{
    int fd = -1;
    cr_assert_leq(new_connections_due_ns(&connections), now_ns);
    cr_assert(new_connections_next(&connections, now_ns, &fd));
    cr_assert_eq(fd, expected, "%d", fd);
}

static void expect_none(int64_t now_ns)
{
    int fd;
    cr_assert_gt(new_connections_due_ns(&connections), now_ns);
    cr_assert_not(new_connections_next(&connections, now_ns, &fd));
}

static void come(int first, int count, int64_t now_ns)
{
    for (int fd = first; fd < first + count; fd++)
        new_connections_came(&connections, LANE_CONTROL, fd, now_ns);
}

Test(new_connections, go_when_their_time_is_over)
{
    expect_none(INT64_MAX - 1);
    new_connections_came(&connections, LANE_CONTROL, 7, 10);
    new_connections_came(&connections, LANE_DATA, 8, 20);
    cr_expect_eq(new_connections_due_ns(&connections), 10 + WAIT_NS);
    expect_none(9 + WAIT_NS);
    expect_next(10 + WAIT_NS, 7);
    expect_none(19 + WAIT_NS);
    expect_next(20 + WAIT_NS, 8);
    expect_none(INT64_MAX - 1);
}

Test(new_connections, stay_when_they_have_spoken_until_nobody_hears_them)
{
    come(7, 3, 0);
    new_connections_spoke(&connections, LANE_CONTROL, 8);
    new_connections_spoke(&connections, LANE_CONTROL, 8); /* once is enough */
    new_connections_spoke(&connections, LANE_DATA, 9);    /* another connection */
    expect_next(WAIT_NS, 7);
    expect_next(WAIT_NS, 9);
    expect_none(INT64_MAX - 1);
    new_connections_forgotten(&connections, LANE_CONTROL, 8, 5 * WAIT_NS);
    new_connections_forgotten(&connections, LANE_CONTROL, 8, 6 * WAIT_NS); /* its time has begun */
    expect_none(6 * WAIT_NS - 1);
    expect_next(6 * WAIT_NS, 8);
}

Test(new_connections, that_left_are_none_and_their_descriptors_are_used_again)
{
    come(7, 3, 0);
    new_connections_left(&connections, LANE_CONTROL, 8);
    new_connections_left(&connections, LANE_CONTROL, 8);
    cr_expect_eq(connections.open, 2);
    new_connections_came(&connections, LANE_CONTROL, 7, 500); /* that 7 was closed was not told */
    cr_expect_eq(connections.open, 2);
    expect_next(WAIT_NS, 9);
    expect_none(499 + WAIT_NS);
    expect_next(500 + WAIT_NS, 7);
    cr_expect_eq(connections.leaving, 2);
    new_connections_left(&connections, LANE_CONTROL, 9);
    new_connections_came(&connections, LANE_CONTROL, 7, 600);
    cr_expect_eq(connections.leaving, 0);
    cr_expect_eq(connections.open, 1);
    expect_next(600 + WAIT_NS, 7);
    new_connections_spoke(&connections, LANE_CONTROL, 7); /* too late */
    new_connections_forgotten(&connections, LANE_CONTROL, 7, 700);
    expect_none(INT64_MAX - 1);
    new_connections_left(&connections, LANE_CONTROL, 7);
    cr_expect_eq(connections.open, 0);
}

Test(new_connections, are_only_so_many)
{
    come(0, LIMIT_NEW_CONNECTIONS - 1, 0);
    expect_none(1);
    come(LIMIT_NEW_CONNECTIONS - 1, 1, 0);
    expect_none(1);
    come(LIMIT_NEW_CONNECTIONS, 1, 0);
    expect_next(1, 0);
    expect_none(1);
    new_connections_spoke(&connections, LANE_CONTROL, 1);
    come(LIMIT_NEW_CONNECTIONS + 1, 2, 0);
    expect_next(1, 2);
    expect_none(1);
}

Test(new_connections, make_room_for_connections_as_long_as_there_are_any)
{
    connections.open_max = 10;
    come(0, 9, 0);
    for (int fd = 0; fd < 8; fd++)
        new_connections_spoke(&connections, LANE_CONTROL, fd);
    come(9, 1, 0);
    expect_none(1);
    come(10, 1, 0);
    expect_next(1, 8);
    expect_none(1); /* it counts as gone before it is */
    new_connections_left(&connections, LANE_CONTROL, 8);
    expect_none(1);
    new_connections_spoke(&connections, LANE_CONTROL, 9);
    new_connections_spoke(&connections, LANE_CONTROL, 10);
    come(11, 1, 0);
    expect_next(1, 11); /* there are nothing but peers: who comes is one too many */
    expect_none(1);
}

Test(new_connections, without_a_descriptor_or_memory_are_not_known)
{
    new_connections_came(&connections, LANE_CONTROL, -1, 0);
    new_connections_came(&connections, LANE_CONTROL, INT32_MAX, 0);
    memory.bytes_max = memory.bytes_used;
    come(3, 1, 0);
    new_connections_spoke(&connections, LANE_CONTROL, 3);
    new_connections_forgotten(&connections, LANE_CONTROL, 3, 0);
    new_connections_left(&connections, LANE_CONTROL, 3);
    cr_expect_eq(connections.open, 0);
    expect_none(INT64_MAX - 1);
}
