/* SPDX-License-Identifier: MPL-2.0 */
/* lease_test.c -- when a broker may take a shard from another one, and when that one falls silent:
 * one millisecond before each limit, at it, and behind it.  The store is the model of nodes.h.  It
 * reads the limits from the statement.  No time passes by itself. */
#include "tests/sim/around.h"
#include "tests/sim/nodes.h"

#include "broker/io/journal_thread.h"
#include "broker/io/persistence.h"
#include "libbus/base/must.h"

#include <criterion/criterion.h>
#include <errno.h>

enum { HOLDER, SPARE, BROKERS };
#define NS_PER_MS INT64_C(1000000)

static struct nodes *nodes;
static struct store stores[BROKERS];

static void stand_still(void *arg, unsigned client, int64_t ms)
{
    (void)arg;
    (void)client;
    (void)ms;
    nodes_pass(nodes, 0);
}

static void connect_broker(int number)
{
    struct door *door = nodes_door(nodes, (unsigned)number);
    must(store_init(&stores[number], &door, "", 0, 1) == 0);
    cr_assert(store_connect(&stores[number]), "%s", stores[number].why);
}

static void init(void)
{
    around_set(0, "nowhere"); /* who a holder is */
    nodes = nodes_new(1, stand_still, NULL);
    connect_broker(HOLDER);
    cr_assert_eq(store_prepare(&stores[HOLDER]), 0, "%s", stores[HOLDER].why);
    cr_assert_eq(store_take(&stores[HOLDER]), 0, "%s", stores[HOLDER].why);
}

static void fini(void)
{
    for (int i = 0; i < BROKERS; i++)
        store_fini(&stores[i]);
    nodes_free(&nodes);
}

TestSuite(lease, .init = init, .fini = fini);

/* Connects the spare, lets it settle, and lets the holder renew its lease. */
static void settle_spare(void)
{
    connect_broker(SPARE);
    nodes_pass(nodes, STORE_SETTLED_MS + 1);
    cr_assert_eq(store_keep(&stores[HOLDER]), 0, "%s", stores[HOLDER].why);
}

/* So long after the moment of now, it is refused one millisecond before, and at the limit. */
static void expect_taken_behind(int64_t limit_ms)
{
    nodes_pass(nodes, limit_ms - 1);
    cr_expect_eq(store_take(&stores[SPARE]), -EWOULDBLOCK, "1 ms before %lld", (long long)limit_ms);
    nodes_pass(nodes, 1);
    cr_expect_eq(store_take(&stores[SPARE]), -EWOULDBLOCK, "at %lld ms", (long long)limit_ms);
    nodes_pass(nodes, 1);
    cr_expect_eq(store_take(&stores[SPARE]), 0, "1 ms behind %lld", (long long)limit_ms);
    cr_expect_eq(nodes_epoch(nodes), 2);
    cr_expect_null(nodes_wrong(nodes), "%s", nodes_wrong(nodes));
}

Test(lease, ends_for_a_holder_that_hangs)
{
    settle_spare();
    expect_taken_behind(STORE_LEASE_MS);
}

Test(lease, ends_sooner_where_the_session_is_gone)
{
    settle_spare();
    nodes_terminate(nodes, HOLDER);
    expect_taken_behind(STORE_GONE_MS);
}

/* Sessions vanish when a standby is promoted: the holder then gets time to connect again. */
Test(lease, is_left_to_its_holder_by_whoever_came_just_now)
{
    nodes_terminate(nodes, HOLDER);
    nodes_pass(nodes, STORE_LEASE_MS + 1);
    connect_broker(SPARE);
    expect_taken_behind(STORE_SETTLED_MS);
}

Test(lease, goes_on_with_each_sign)
{
    settle_spare();
    for (int i = 0; i < 3; i++) {
        nodes_pass(nodes, STORE_LEASE_MS);
        cr_expect_eq(store_take(&stores[SPARE]), -EWOULDBLOCK);
        cr_expect_eq(store_keep(&stores[HOLDER]), 0, "%s", stores[HOLDER].why);
    }
    expect_taken_behind(STORE_LEASE_MS);
    cr_expect_eq(store_keep(&stores[HOLDER]), -DISK_FENCED);
}

/* Whoever released it waits for nobody. */
Test(lease, ends_at_once_where_it_is_released)
{
    connect_broker(SPARE);
    store_release(&stores[HOLDER]);
    cr_expect_eq(store_take(&stores[SPARE]), 0);
}

/* A holder that hangs is mute before another one can have its shard, and renews the lease often
 * enough for that. */
Test(lease, outlives_a_holder_that_speaks)
{
    const int64_t kept_ns = 7 * NS_PER_MS, mute_ns = PERSISTENCE_MUTE_MS * NS_PER_MS;
    cr_expect_not(persistence_is_too_late(kept_ns, kept_ns + mute_ns - NS_PER_MS));
    cr_expect_not(persistence_is_too_late(kept_ns, kept_ns + mute_ns));
    cr_expect(persistence_is_too_late(kept_ns, kept_ns + mute_ns + NS_PER_MS));
    cr_expect_not(persistence_is_too_late(INT64_MAX, kept_ns), "a disk of its own needs no signs");
    cr_expect_lt(PERSISTENCE_MUTE_MS, STORE_LEASE_MS);
    cr_expect_lt(2 * JOURNAL_THREAD_KEEP_MS, PERSISTENCE_MUTE_MS);
    cr_expect_lt(STORE_GONE_MS, STORE_SETTLED_MS);
}
