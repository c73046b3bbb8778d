/* SPDX-License-Identifier: MPL-2.0 */
/* newcomers_test.c -- first messages wait until it was told who is gone, and no longer. */
#include "broker/io/newcomers.h"

#include "libbus/base/must.h"

#include <criterion/criterion.h>

static struct memory memory;
static struct peers peers;
static struct newcomers newcomers;
static uint32_t routing;

static void init(void)
{
    memory_heap_init(&memory, UINT64_MAX);
    peers_init(&peers, &memory);
    newcomers_init(&newcomers, &memory);
}

static void fini(void)
{
    newcomers_fini(&newcomers);
    peers_fini(&peers);
    must(memory.bytes_used == 0);
}

TestSuite(newcomers, .init = init, .fini = fini);

/* Pointers to peers do not outlive the next one: they are named by conn. */
static conn_id connect_in(enum lane lane)
{
    struct peer *peer = peers_add(&peers, lane, ++routing, -1);
    cr_assert_not_null(peer);
    peers_read(&peers, peer);
    return peer->conn;
}

static conn_id connect_one(void)
{
    return connect_in(LANE_CONTROL);
}

static struct peer *peer_of(conn_id conn)
{
    return peers_by_conn(&peers, conn);
}

/* A connection that has closed, and is not given out yet. */
static conn_id leave_one(void)
{
    conn_id conn = connect_one();
    peers_close(&peers, peer_of(conn));
    return conn;
}

static bool hold(conn_id conn, const char *said)
{
    return newcomers_hold(&newcomers, &peers, peer_of(conn), span_text(said));
}

/* The connection that is given out as closed now is this one. */
static void expect_closed(conn_id conn)
{
    struct peer *peer = peers_closed(&peers, LANE_CONTROL);
    cr_assert_not_null(peer);
    cr_assert_eq(peer->conn, conn);
    peers_remove(&peers, peer);
}

static void expect_next(bool is_all, conn_id conn, const char *said)
{
    struct buffer *part = NULL;
    const struct peer *peer = newcomers_next(&newcomers, &peers, is_all, &part);
    cr_assert_not_null(peer);
    cr_assert_eq(peer->conn, conn);
    cr_assert(span_equal(buffer_span(part), span_text(said)));
    buffer_unref(&part);
}

static void expect_none(bool is_all)
{
    struct buffer *part = NULL;
    cr_assert_null(newcomers_next(&newcomers, &peers, is_all, &part));
}

Test(newcomers, wait_for_nobody_where_nobody_leaves)
{
    conn_id gone = connect_in(LANE_DATA);
    peers_close(&peers, peer_of(gone));
    cr_expect_not(hold(connect_one(), "hello"), "who leaves the other channel is not waited for");
    expect_none(true);
}

Test(newcomers, wait_until_who_left_is_given_out)
{
    conn_id gone = leave_one();
    conn_id first = connect_one();
    cr_assert(hold(first, "one"));
    cr_assert_eq(peer_of(first)->waiting, 1);
    conn_id second = connect_one();
    cr_assert(hold(second, "two"));
    expect_none(false);
    cr_assert_null(peers_closed(&peers, LANE_CONTROL));
    peers_empty(&peers, LANE_CONTROL);
    expect_closed(gone);
    conn_id third = connect_one();
    cr_expect_not(hold(third, "three"), "all who left are given out");
    expect_next(false, first, "one");
    expect_next(false, second, "two");
    expect_none(false);
    cr_expect_eq(newcomers.bytes, 0);
}

/* Whoever left behind it need not be waited for. */
Test(newcomers, do_not_wait_for_who_leaves_later)
{
    conn_id later = connect_one();
    conn_id gone = leave_one();
    conn_id first = connect_one();
    cr_assert(hold(first, "one"));
    peers_empty(&peers, LANE_CONTROL);
    expect_closed(gone);
    peers_close(&peers, peer_of(later));
    conn_id second = connect_one();
    cr_assert(hold(second, "two"));
    expect_next(false, first, "one");
    expect_none(false);
}

/* A channel that is never empty is served in turn. */
Test(newcomers, wait_until_others_have_had_their_turns)
{
    conn_id busy = connect_one();
    conn_id gone = leave_one();
    conn_id conn = connect_one();
    cr_assert(hold(conn, "hello"));
    int turns = 0;
    while (peers_closed(&peers, LANE_CONTROL) == NULL) {
        expect_none(false);
        peers_read(&peers, peer_of(busy));
        cr_assert_lt(++turns, 100);
    }
    expect_closed(gone);
    for (int more = 0; more < 4; more++)
        peers_read(&peers, peer_of(busy));
    expect_next(false, conn, "hello");
}

Test(newcomers, wait_with_all_that_they_say)
{
    conn_id old = connect_one();
    cr_assert_not(hold(old, "hello"));
    conn_id gone = leave_one();
    cr_expect_not(hold(old, "more"), "it is known already");
    conn_id conn = connect_one();
    cr_assert(hold(conn, "hello"));
    cr_assert(hold(conn, "more"));
    cr_assert_eq(peer_of(conn)->waiting, 2);
    peers_empty(&peers, LANE_CONTROL);
    expect_closed(gone);
    cr_assert(hold(conn, "and more"), "what came before is not let in yet");
    expect_next(false, conn, "hello");
    expect_next(false, conn, "more");
    expect_next(false, conn, "and more");
    cr_assert_eq(peer_of(conn)->waiting, 0);
    cr_expect_not(hold(conn, "the rest"));
    expect_none(true);
}

Test(newcomers, are_passed_over_when_they_are_not_heard_any_more)
{
    (void)leave_one();
    conn_id conns[4];
    for (int i = 0; i < 4; i++) {
        conns[i] = connect_one();
        cr_assert(hold(conns[i], "hello"));
    }
    peer_of(conns[0])->is_forgotten = true;
    peer_of(conns[1])->is_mute = true;
    peers_remove(&peers, peer_of(conns[2]));
    expect_next(true, conns[3], "hello");
    expect_none(true);
    cr_expect_eq(newcomers.bytes, 0);
}

Test(newcomers, wait_with_so_many_bytes_and_not_one_more)
{
    static uint8_t bytes[NEWCOMERS_BYTES];
    (void)leave_one();
    for (size_t spare = 0; spare <= 2; spare++) { /* one byte less than the limit, it, one more */
        conn_id conn = connect_one();
        struct span most = span_of(bytes, NEWCOMERS_BYTES - 4);
        cr_assert(newcomers_hold(&newcomers, &peers, peer_of(conn), most));
        conn_id last = connect_one();
        struct span rest = span_of(bytes, 3 + spare);
        cr_assert_eq(newcomers_hold(&newcomers, &peers, peer_of(last), rest), spare < 2);
        cr_assert_eq(peer_of(last)->waiting, spare < 2 ? 1 : 0);
        struct buffer *part = NULL;
        while (newcomers_next(&newcomers, &peers, true, &part) != NULL)
            buffer_unref(&part);
        cr_assert_eq(newcomers.bytes, 0);
    }
}
