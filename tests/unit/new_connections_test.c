/* SPDX-License-Identifier: MPL-2.0 */
/* new_connections_test.c -- who has said nothing goes when its time is over, or when there are too
 * many; who has said something stays. */
#include "broker/io/new_connections.h"

#include "libbus/base/limits.h"

#include "libbus/base/must.h"

#include <criterion/criterion.h>

enum { OPEN_MAX = 4 * LIMIT_NEW_CONNECTIONS, WAIT_NS = 1000 };

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

enum { HOST = 7, OTHER = 8, THIRD = 9 };

static void came(enum lane lane, int fd, uint64_t address, int64_t now_ns)
{
    cr_assert(new_connections_came(&connections, lane, fd, address, now_ns));
}

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
        came(LANE_CONTROL, fd, HOST, now_ns);
}

Test(new_connections, go_when_their_time_is_over)
{
    expect_none(INT64_MAX - 1);
    came(LANE_CONTROL, 7, HOST, 10);
    came(LANE_DATA, 8, HOST, 20);
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
    new_connections_left(&connections, LANE_CONTROL, 8, false, 0);
    new_connections_left(&connections, LANE_CONTROL, 8, false, 0);
    cr_expect_eq(connections.open, 2);
    came(LANE_CONTROL, 7, HOST, 500); /* that 7 was closed was not told */
    cr_expect_eq(connections.open, 2);
    expect_next(WAIT_NS, 9);
    expect_none(499 + WAIT_NS);
    expect_next(500 + WAIT_NS, 7);
    cr_expect_eq(connections.leaving, 2);
    new_connections_left(&connections, LANE_CONTROL, 9, false, 0);
    came(LANE_CONTROL, 7, HOST, 600);
    cr_expect_eq(connections.leaving, 0);
    cr_expect_eq(connections.open, 1);
    expect_next(600 + WAIT_NS, 7);
    new_connections_spoke(&connections, LANE_CONTROL, 7); /* too late */
    new_connections_forgotten(&connections, LANE_CONTROL, 7, 700);
    expect_none(INT64_MAX - 1);
    new_connections_left(&connections, LANE_CONTROL, 7, false, 0);
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
    connections.open_max = 20;
    come(0, 9, 0);
    for (int fd = 0; fd < 8; fd++)
        new_connections_spoke(&connections, LANE_CONTROL, fd);
    come(9, 1, 0);
    expect_none(1);
    come(10, 1, 0);
    expect_next(1, 8);
    expect_none(1); /* it counts as gone before it is */
    new_connections_left(&connections, LANE_CONTROL, 8, false, 0);
    expect_none(1);
    new_connections_spoke(&connections, LANE_CONTROL, 9);
    new_connections_spoke(&connections, LANE_CONTROL, 10);
    come(11, 1, 0);
    cr_expect_not(new_connections_is_leaving(&connections, LANE_CONTROL, 11));
    expect_next(1, 11); /* there are nothing but peers: who comes is one too many */
    cr_expect(new_connections_is_leaving(&connections, LANE_CONTROL, 11));
    cr_expect_not(new_connections_is_leaving(&connections, LANE_DATA, 11));
    expect_none(1);
}

/* Ten descriptors are enough for five parties.  The fourth's data connection is slow: its place is
 * kept, whoever else comes. */
Test(new_connections, keep_a_place_for_the_data_connection_of_who_is_in)
{
    connections.open_max = 10;
    for (int fd = 0; fd < 5; fd++) {
        came(LANE_CONTROL, fd, HOST, 0);
        new_connections_spoke(&connections, LANE_CONTROL, fd);
        expect_none(1);
    }
    for (int fd = 10; fd < 14; fd++) {
        came(LANE_DATA, fd, HOST, 0);
        new_connections_spoke(&connections, LANE_DATA, fd);
    }
    came(LANE_CONTROL, 20, HOST, 0);
    expect_next(1, 20);
    new_connections_left(&connections, LANE_CONTROL, 20, false, 1);
    came(LANE_DATA, 14, HOST, 1);
    expect_none(2);
    new_connections_spoke(&connections, LANE_DATA, 14);
    came(LANE_DATA, 15, HOST, 2);
    expect_next(2, 15); /* it is nobody's */
    new_connections_left(&connections, LANE_DATA, 15, false, 2);
    new_connections_left(&connections, LANE_DATA, 14, false, 3);
    new_connections_left(&connections, LANE_CONTROL, 4, false, 3);
    came(LANE_CONTROL, 20, HOST, 3);
    expect_none(4);
}

Test(new_connections, without_a_descriptor_or_memory_are_not_known)
{
    came(LANE_CONTROL, -1, HOST, 0);
    came(LANE_CONTROL, INT32_MAX, HOST, 0);
    memory.bytes_max = memory.bytes_used;
    come(3, 1, 0);
    new_connections_spoke(&connections, LANE_CONTROL, 3);
    new_connections_forgotten(&connections, LANE_CONTROL, 3, 0);
    new_connections_left(&connections, LANE_CONTROL, 3, false, 0);
    cr_expect_eq(connections.open, 0);
    expect_none(INT64_MAX - 1);
}

/* ---- addresses ------------------------------------------------------------------------------- */

Test(new_connections, go_first_from_the_address_that_has_most)
{
    came(LANE_CONTROL, 0, OTHER, 0);
    came(LANE_DATA, 0, THIRD, 0);
    for (int fd = 1; fd < LIMIT_NEW_CONNECTIONS; fd++)
        came(LANE_CONTROL, fd, HOST, 1);
    expect_next(2, 1);
    expect_none(2);
    came(LANE_CONTROL, LIMIT_NEW_CONNECTIONS, OTHER, 1);
    expect_next(2, 2);
    new_connections_spoke(&connections, LANE_CONTROL, 0);
    came(LANE_CONTROL, LIMIT_NEW_CONNECTIONS + 1, THIRD, 1);
    expect_none(2);
    came(LANE_CONTROL, LIMIT_NEW_CONNECTIONS + 2, OTHER, 1);
    expect_next(2, 3);
    expect_next(WAIT_NS, 0); /* its time is over, whoever it is */
}

Test(new_connections, of_many_addresses_take_turns)
{
    for (int fd = 0; fd < LIMIT_NEW_CONNECTIONS; fd++)
        came(LANE_CONTROL, fd, 100 + (uint64_t)fd / 2, 0);
    came(LANE_CONTROL, LIMIT_NEW_CONNECTIONS, OTHER, 1);
    expect_next(1, 0);
    came(LANE_CONTROL, LIMIT_NEW_CONNECTIONS + 1, OTHER, 1);
    expect_next(1, 2);
    came(LANE_CONTROL, LIMIT_NEW_CONNECTIONS + 2, OTHER, 1);
    expect_next(1, LIMIT_NEW_CONNECTIONS);
}

/* Connections of one address that come and end without a word, one after the other; how many of
 * them were let in. */
static int fail_from(uint64_t address, int count, int64_t now_ns)
{
    int let_in = 0;
    for (int i = 0; i < count; i++) {
        let_in += new_connections_came(&connections, LANE_CONTROL, 5, address, now_ns);
        new_connections_left(&connections, LANE_CONTROL, 5, false, now_ns);
    }
    return let_in;
}

#define S INT64_C(1000000000)

Test(new_connections, of_an_address_may_fail_so_often_and_no_more)
{
    connections.counts_failures = true;
    cr_expect_eq(fail_from(HOST, LIMIT_HANDSHAKE_BURST - 1, 0), LIMIT_HANDSHAKE_BURST - 1);
    cr_expect_eq(fail_from(HOST, 1, 0), 1);
    cr_expect_eq(fail_from(HOST, 1000, 0), 0);
    cr_expect_eq(fail_from(OTHER, 2, 0), 2); /* another host has its own */
    cr_expect_eq(connections.open, 0);
    cr_expect_eq(connections.leaving, 0);
    cr_expect_eq(fail_from(HOST, 1000, S), LIMIT_HANDSHAKE_FAILURES);
    int let_in = 0;
    for (int64_t now_ns = S; now_ns <= 11 * S; now_ns += S / 200) /* 2000 a second */
        let_in += fail_from(HOST, 10, now_ns);
    cr_expect_geq(let_in, 9 * LIMIT_HANDSHAKE_FAILURES, "%d", let_in);
    cr_expect_leq(let_in, 10 * LIMIT_HANDSHAKE_FAILURES, "%d", let_in);
    cr_expect_eq(fail_from(HOST, 1000, 100 * S), LIMIT_HANDSHAKE_BURST);
}

/* A thousand clients may look what listens there, while the broker is slow. */
Test(new_connections, of_an_address_may_leave_more_handshakes_in_the_middle)
{
    connections.counts_failures = true;
    for (int count = 0; count < LIMIT_UNFINISHED_BURST; count++) {
        cr_assert(new_connections_came(&connections, LANE_CONTROL, 5, HOST, 0), "%d", count);
        new_connections_left(&connections, LANE_CONTROL, 5, true, 0);
    }
    cr_expect_not(new_connections_came(&connections, LANE_CONTROL, 5, HOST, 0));
    new_connections_left(&connections, LANE_CONTROL, 5, true, 0);
    cr_expect_eq(fail_from(HOST, 1, 0), 0, "it is refused");
    cr_expect_eq(fail_from(OTHER, LIMIT_HANDSHAKE_BURST + 1, 0), LIMIT_HANDSHAKE_BURST);
    int64_t later_ns = LIMIT_REFUSED_ADDRESS_MS * (S / 1000);
    cr_expect_eq(fail_from(HOST, 1000, later_ns), LIMIT_HANDSHAKE_BURST, "they have their own");
}

/* A client dials for data early, and may go again without a word. */
Test(new_connections, that_showed_a_known_key_may_end_without_a_word)
{
    enum { MANY = 1000 };
    connections.counts_failures = true;
    for (int fd = 0; fd < MANY; fd++) {
        came(LANE_DATA, fd, HOST, 0);
        new_connections_proved(&connections, HOST, 0);
    }
    for (int fd = 0; fd < MANY; fd++) {
        if (fd % 2 == 0)
            new_connections_spoke(&connections, LANE_DATA, fd);
        new_connections_left(&connections, LANE_DATA, fd, false, 0);
    }
    cr_expect_eq(fail_from(HOST, MANY, 0), LIMIT_HANDSHAKE_BURST, "nothing is left of them");
    new_connections_proved(&connections, OTHER, 0);
    cr_expect_eq(fail_from(OTHER, MANY, 0), LIMIT_HANDSHAKE_BURST + 1);
}

Test(new_connections, of_an_address_with_too_many_failures_are_refused_for_a_while)
{
    struct refused_addresses *refused = &connections.refused;
    int64_t until_ns = LIMIT_REFUSED_ADDRESS_MS * (S / 1000);
    connections.counts_failures = true;
    fail_from(HOST, LIMIT_HANDSHAKE_BURST - 1, 0);
    cr_expect_not(refused_addresses_take_change(refused, 0));
    fail_from(HOST, 1, 0);
    cr_expect(refused_addresses_take_change(refused, 0));
    cr_expect(refused_addresses_has(refused, HOST, until_ns - 1));
    cr_expect_eq(fail_from(HOST, 1, until_ns - 1), 0); /* it has failures again, and must wait */
    cr_expect_eq(fail_from(OTHER, 1, until_ns - 1), 1);
    cr_expect_eq(fail_from(HOST, 1, until_ns), 1);
}

/* Each of them is known here, too, and closed when it is accepted. */
Test(new_connections, of_more_addresses_than_can_be_refused_are_closed)
{
    connections.counts_failures = true;
    for (uint64_t host = 1; host <= LIMIT_REFUSED_ADDRESSES + 1; host++)
        fail_from(host, LIMIT_HANDSHAKE_BURST, 0);
    cr_expect_eq(connections.refused.count, LIMIT_REFUSED_ADDRESSES);
    cr_expect_not(new_connections_came(&connections, LANE_DATA, 5, LIMIT_REFUSED_ADDRESSES, 0));
    cr_expect_not(new_connections_came(&connections, LANE_DATA, 6, LIMIT_REFUSED_ADDRESSES + 1, 0));
    cr_expect(new_connections_came(&connections, LANE_DATA, 7, LIMIT_REFUSED_ADDRESSES + 2, 0));
}

Test(new_connections, that_greet_count_nothing_however_many_there_are)
{
    connections.counts_failures = true;
    for (int fd = 0; fd < 2000; fd++) {
        came(LANE_CONTROL, fd, HOST, 0);
        new_connections_spoke(&connections, LANE_CONTROL, fd);
    }
    for (int fd = 0; fd < 2000; fd++) { /* and go, dropped by the core or not */
        if (fd % 2 == 0)
            new_connections_forgotten(&connections, LANE_CONTROL, fd, 0);
        new_connections_left(&connections, LANE_CONTROL, fd, false, 0);
    }
    cr_expect_eq(fail_from(HOST, LIMIT_HANDSHAKE_BURST, 0), LIMIT_HANDSHAKE_BURST);
}

Test(new_connections, that_are_silent_count_when_they_are_closed)
{
    connections.counts_failures = true;
    for (int fd = 0; fd < LIMIT_HANDSHAKE_BURST; fd++)
        came(LANE_CONTROL, fd, HOST, 0);
    for (int fd = 0; fd < LIMIT_HANDSHAKE_BURST; fd++)
        expect_next(WAIT_NS, fd);
    came(LANE_CONTROL, 1000, HOST, WAIT_NS); /* they are not closed yet */
    new_connections_spoke(&connections, LANE_CONTROL, 1000);
    for (int fd = 0; fd < LIMIT_HANDSHAKE_BURST; fd++)
        new_connections_left(&connections, LANE_CONTROL, fd, false, WAIT_NS);
    cr_expect_not(new_connections_came(&connections, LANE_CONTROL, 0, HOST, WAIT_NS));
}

Test(new_connections, without_an_address_or_without_keys_are_never_refused)
{
    cr_expect_eq(fail_from(HOST, 1000, 0), 1000);
    connections.counts_failures = true;
    cr_expect_eq(fail_from(0, 1000, 0), 1000);
}

Test(new_connections, of_more_addresses_than_there_is_room_for_forget_the_oldest)
{
    connections.counts_failures = true;
    cr_expect_eq(fail_from(1, 1000, 0), LIMIT_HANDSHAKE_BURST);
    for (uint64_t address = 2; address <= LIMIT_NEW_ADDRESSES; address++)
        fail_from(address, 1, 0);
    cr_expect_eq(fail_from(1, 1000, 0), 0);
    for (uint64_t address = LIMIT_NEW_ADDRESSES + 1; address <= 2 * LIMIT_NEW_ADDRESSES; address++)
        fail_from(address, 1, S);
    cr_expect_eq(connections.host_count, LIMIT_NEW_ADDRESSES);
    cr_expect_eq(fail_from(1, 1000, S), LIMIT_HANDSHAKE_BURST);
}
