/* SPDX-License-Identifier: MPL-2.0 */
/* peers_test.c -- who is connected, and who is gone. */
#include "broker/io/peers.h"

#include "libbus/base/limits.h"

#include "libbus/base/must.h"

#include <criterion/criterion.h>

static struct memory memory;
static struct peers peers;

static void set_up(void)
{
    memory_heap_init(&memory, UINT64_MAX);
    peers_init(&peers, &memory);
}

static void tear_down(void)
{
    peers_fini(&peers);
    must(memory.bytes_used == 0);
}

TestSuite(peers, .init = set_up, .fini = tear_down);

/* A connection whose first part was read: its number. */
static conn_id join(enum lane lane, uint32_t routing, int fd)
{
    struct peer *peer = peers_add(&peers, lane, routing, fd);
    cr_assert_not_null(peer);
    peers_read(&peers, peer);
    return peer->conn;
}

/* The connection that is given out as closed now, or 0. */
static conn_id closed(enum lane lane)
{
    struct peer *peer = peers_closed(&peers, lane);
    conn_id conn = peer != NULL ? peer->conn : 0;
    if (peer != NULL)
        peers_remove(&peers, peer);
    return conn;
}

Test(peers, finds_a_connection_by_both_numbers_and_apart_by_lane)
{
    conn_id a = join(LANE_CONTROL, 7, 10);
    conn_id b = join(LANE_DATA, 7, 11);
    cr_expect_neq(a, b);
    cr_expect_eq(peers_by_routing(&peers, LANE_CONTROL, 7)->conn, a);
    cr_expect_eq(peers_by_routing(&peers, LANE_DATA, 7)->conn, b);
    cr_expect_eq(peers_by_conn(&peers, b)->lane, LANE_DATA);
    cr_expect_null(peers_by_routing(&peers, LANE_DATA, 8));
    peers_remove(&peers, peers_by_conn(&peers, a));
    cr_expect_null(peers_by_conn(&peers, a));
    cr_expect_null(peers_by_routing(&peers, LANE_CONTROL, 7));
    cr_expect_gt(join(LANE_CONTROL, 8, 10), b);
}

Test(peers, is_closed_only_once_the_socket_was_empty)
{
    conn_id a = join(LANE_CONTROL, 1, 10);
    peers_empty(&peers, LANE_CONTROL);
    peers_fd_closed(&peers, LANE_CONTROL, 10);
    cr_expect(peers_are_closing(&peers));
    cr_expect_eq(closed(LANE_CONTROL), 0);
    peers_empty(&peers, LANE_DATA);
    cr_expect_eq(closed(LANE_CONTROL), 0);
    peers_read(&peers, peers_by_conn(&peers, a));
    peers_empty(&peers, LANE_CONTROL);
    cr_expect_eq(closed(LANE_CONTROL), a);
    cr_expect_eq(closed(LANE_CONTROL), 0);
    cr_expect_not(peers_are_closing(&peers));
}

Test(peers, is_closed_when_others_have_had_their_turns)
{
    conn_id a = join(LANE_DATA, 1, 10);
    conn_id b = join(LANE_DATA, 2, 11);
    peers_fd_closed(&peers, LANE_DATA, 10);
    for (int i = 0; i < 15; i++)
        peers_read(&peers, peers_by_conn(&peers, b));
    peers_read(&peers, peers_by_conn(&peers, a));
    int turns = 0;
    for (; closed(LANE_DATA) == 0 && turns < 100; turns++)
        peers_read(&peers, peers_by_conn(&peers, b));
    cr_expect_gt(turns, 2 * 2);
    cr_expect_lt(turns, 100);
    cr_expect_null(peers_by_conn(&peers, a));
}

/* However many there are, the one that waits longest is the one that is asked for. */
Test(peers, are_given_out_in_the_order_in_which_they_closed)
{
    conn_id conns[8];
    for (uint32_t i = 0; i < 8; i++)
        conns[i] = join(LANE_DATA, i, (int)i);
    peers_close(&peers, peers_by_conn(&peers, conns[5]));
    peers_close(&peers, peers_by_conn(&peers, conns[2]));
    peers_close(&peers, peers_by_conn(&peers, conns[7]));
    peers_close(&peers, peers_by_conn(&peers, conns[0]));
    peers_read(&peers, peers_by_conn(&peers, conns[2])); /* goes to the end */
    peers_remove(&peers, peers_by_conn(&peers, conns[7]));
    cr_expect_eq(closed(LANE_DATA), 0);
    peers_empty(&peers, LANE_DATA);
    peers_close(&peers, peers_by_conn(&peers, conns[1])); /* the lane was not empty since */
    cr_expect_eq(closed(LANE_DATA), conns[5]);
    cr_expect_eq(closed(LANE_DATA), conns[0]);
    cr_expect_eq(closed(LANE_DATA), conns[2]);
    cr_expect_eq(closed(LANE_DATA), 0);
    cr_expect(peers_are_closing(&peers));
    peers_empty(&peers, LANE_DATA);
    cr_expect_eq(closed(LANE_DATA), conns[1]);
    cr_expect_not(peers_are_closing(&peers));
    cr_expect_eq(closed(LANE_CONTROL), 0);
}

/* Every part read in between starts its wait anew: it was not the last one. */
Test(peers, is_not_closed_while_parts_of_it_come)
{
    conn_id a = join(LANE_DATA, 1, 10);
    peers_fd_closed(&peers, LANE_DATA, 10);
    peers_empty(&peers, LANE_DATA);
    peers_read(&peers, peers_by_conn(&peers, a));
    cr_expect_eq(closed(LANE_DATA), 0);
    peers_empty(&peers, LANE_DATA);
    cr_expect_eq(closed(LANE_DATA), a);
}

Test(peers, closes_the_older_of_two_with_one_descriptor)
{
    /* The first part of the older one may be read last. */
    conn_id younger = join(LANE_CONTROL, 3, 10);
    conn_id older = join(LANE_CONTROL, 2, 10);
    peers_empty(&peers, LANE_CONTROL);
    cr_expect_eq(closed(LANE_CONTROL), older);
    conn_id youngest = join(LANE_CONTROL, 4, 10);
    peers_empty(&peers, LANE_CONTROL);
    cr_expect_eq(closed(LANE_CONTROL), younger);
    cr_expect_eq(closed(LANE_CONTROL), 0);
    peers_fd_closed(&peers, LANE_CONTROL, 10);
    peers_empty(&peers, LANE_CONTROL);
    cr_expect_eq(closed(LANE_CONTROL), youngest);
}

Test(peers, knows_that_routers_numbers_wrap)
{
    conn_id older = join(LANE_DATA, UINT32_MAX, 10);
    join(LANE_DATA, 0, 10);
    peers_empty(&peers, LANE_DATA);
    cr_expect_eq(closed(LANE_DATA), older);
}

Test(peers, is_closed_at_once_if_its_descriptor_was_closed_before_it_was_read)
{
    peers_fd_accepted(&peers, LANE_DATA, 10);
    peers_fd_closed(&peers, LANE_DATA, 10);
    conn_id a = join(LANE_DATA, 1, 10);
    peers_empty(&peers, LANE_DATA);
    cr_expect_eq(closed(LANE_DATA), a);

    peers_fd_accepted(&peers, LANE_DATA, 10);
    join(LANE_DATA, 2, 10);
    peers_empty(&peers, LANE_DATA);
    cr_expect_eq(closed(LANE_DATA), 0);
    cr_expect_not(peers_are_closing(&peers));
}

Test(peers, is_closed_when_its_descriptor_is_accepted_again)
{
    conn_id a = join(LANE_DATA, 1, 10);
    peers_fd_accepted(&peers, LANE_DATA, 10);
    peers_empty(&peers, LANE_DATA);
    cr_expect_eq(closed(LANE_DATA), a);
}

Test(peers, lives_without_descriptors)
{
    conn_id a = join(LANE_DATA, 1, -1);
    conn_id b = join(LANE_DATA, 2, -1);
    peers_fd_closed(&peers, LANE_DATA, -1);
    cr_expect_not(peers_are_closing(&peers));
    peers_close(&peers, peers_by_conn(&peers, b));
    peers_close(&peers, peers_by_conn(&peers, b));
    peers_empty(&peers, LANE_DATA);
    cr_expect_eq(closed(LANE_DATA), b);
    cr_expect_not_null(peers_by_conn(&peers, a));
}

Test(peers, takes_as_many_as_its_limit)
{
    for (uint32_t i = 0; i < LIMIT_CONNECTIONS; i++)
        cr_assert_not_null(peers_add(&peers, LANE_DATA, i, (int)i));
    cr_expect_null(peers_add(&peers, LANE_DATA, LIMIT_CONNECTIONS, 5));
    cr_expect_not(peers_are_closing(&peers));
    conn_id other = join(LANE_CONTROL, 1, 5);
    cr_expect_eq(other, LIMIT_CONNECTIONS + 1);
    peers_remove(&peers, peers_by_routing(&peers, LANE_DATA, 9));
    join(LANE_DATA, LIMIT_CONNECTIONS, 9);
}

Test(peers, refuses_without_memory_and_stays_as_it_was)
{
    conn_id a = join(LANE_DATA, 1, 10);
    memory.bytes_max = memory.bytes_used;
    for (uint32_t i = 2; i < 1000; i++)
        if (peers_add(&peers, LANE_DATA, i, -1) == NULL)
            break;
    cr_expect_lt(peers.lanes[LANE_DATA].count, 999);
    cr_expect_eq(peers_by_routing(&peers, LANE_DATA, 1)->conn, a);
}
