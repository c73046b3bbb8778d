/* SPDX-License-Identifier: MPL-2.0 */
/* waiting_batches_test.c -- batches that wait for room: in order, and no more than the limits
 * allow. */
#include "broker/io/waiting_batches.h"

#include "libbus/base/must.h"

#include <criterion/criterion.h>

static struct memory memory;
static struct peers peers;
static struct waiting_batches batches;
static uint32_t routing;

static void init(void)
{
    memory_heap_init(&memory, UINT64_MAX);
    peers_init(&peers, &memory);
    waiting_batches_init(&batches, &memory);
}

static void fini(void)
{
    waiting_batches_fini(&batches);
    peers_fini(&peers);
    must(memory.bytes_used == 0);
}

TestSuite(waiting_batches, .init = init, .fini = fini);

/* Pointers to peers do not outlive the next one: they are named by conn. */
static conn_id connect_one(void)
{
    struct peer *peer = peers_add(&peers, LANE_DATA, ++routing, -1);
    cr_assert_not_null(peer);
    return peer->conn;
}

/* A batch that counts so many bytes. */
static bool take(conn_id conn, size_t bytes)
{
    struct buffer *part = buffer_new(bytes - WAITING_BATCHES_BATCH_BYTES);
    part->bytes = bytes - WAITING_BATCHES_BATCH_BYTES;
    bool is_taken = waiting_batches_take(&batches, peers_by_conn(&peers, conn), &part);
    cr_assert_eq(is_taken, part == NULL);
    buffer_unref(&part);
    return is_taken;
}

static void expect_next(conn_id conn)
{
    struct held held;
    cr_assert(waiting_batches_next(&batches, &peers, &held));
    cr_assert_eq(held.conn, conn);
    buffer_unref(&held.part);
}

static void expect_none(void)
{
    struct held held;
    cr_assert_not(waiting_batches_next(&batches, &peers, &held));
    cr_assert(waiting_batches_is_empty(&batches));
    cr_assert_eq(batches.bytes, 0);
}

Test(waiting_batches, gives_batches_back_in_order)
{
    conn_id a = connect_one();
    conn_id b = connect_one();
    cr_assert(take(a, 1000) && take(b, 2000) && take(a, 3000));
    expect_next(a);
    cr_assert(take(b, 1000));
    expect_next(b);
    expect_next(a);
    expect_next(b);
    expect_none();
    cr_assert_eq(peers_by_conn(&peers, a)->parked_bytes, 0);
}

Test(waiting_batches, takes_so_much_of_a_connection_and_not_a_byte_more)
{
    for (size_t spare = 0; spare <= 2; spare++) { /* one byte less than the limit, it, one more */
        conn_id conn = connect_one();
        size_t last = WAITING_BATCHES_PEER_BYTES / 2 - 1 + spare;
        cr_assert(take(conn, WAITING_BATCHES_PEER_BYTES / 2));
        cr_assert_eq(take(conn, last), spare < 2);
        cr_assert_eq(peers_by_conn(&peers, conn)->is_shed, spare == 2);
        waiting_batches_drop(&batches, peers_by_conn(&peers, conn));
    }
    expect_none();
}

Test(waiting_batches, takes_nothing_behind_a_gap)
{
    conn_id conn = connect_one();
    cr_assert(take(conn, 1000));
    cr_assert_not(take(conn, WAITING_BATCHES_PEER_BYTES));
    cr_assert_not(take(conn, 1000));
    expect_next(conn);
    cr_assert_not(take(conn, 1000), "though there is room by now");
    expect_none();
}

Test(waiting_batches, takes_so_much_of_all_and_not_a_byte_more)
{
    size_t shares = WAITING_BATCHES_BYTES / WAITING_BATCHES_PEER_BYTES;
    for (size_t spare = 0; spare <= 2; spare++) {
        conn_id first = connect_one();
        cr_assert(take(first, 1000));
        for (size_t i = 0; i < shares - 1; i++)
            cr_assert(take(connect_one(), WAITING_BATCHES_PEER_BYTES));
        conn_id last = connect_one();
        cr_assert_eq(take(last, WAITING_BATCHES_PEER_BYTES - 1001 + spare), spare < 2);
        conn_id late = connect_one();
        cr_assert_eq(take(late, WAITING_BATCHES_BATCH_BYTES + 1), spare == 2,
                     "nothing of it was let in");
        for (conn_id conn = first; conn <= late; conn++)
            waiting_batches_drop(&batches, peers_by_conn(&peers, conn));
        expect_none();
    }
}

Test(waiting_batches, forgets_what_came_by_a_connection_that_is_gone)
{
    conn_id a = connect_one();
    conn_id b = connect_one();
    cr_assert(take(a, 1000) && take(b, 2000) && take(a, 3000) && take(b, 1000));
    waiting_batches_drop(&batches, peers_by_conn(&peers, a));
    cr_assert_eq(batches.bytes, 3000);
    peers_remove(&peers, peers_by_conn(&peers, a));
    expect_next(b);
    peers_remove(&peers, peers_by_conn(&peers, b)); /* nobody said so: it is of no one now */
    expect_next(b);
    expect_none();
}
