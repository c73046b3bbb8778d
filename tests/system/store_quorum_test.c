/* SPDX-License-Identifier: MPL-2.0 */
/* store_quorum_test.c -- what is told of a commit that waits for its quorum.
 *
 * The quorum is set aside meanwhile: the server ends the wait, and the commit is on one copy.  It
 * is not acknowledged.  Or the broker is stopped meanwhile, for so long that another one may have
 * the shard.  It acknowledges nothing before it knows that the shard is still its own. */
#include "tests/lib/shard.h"

#include <criterion/criterion.h>
#include <signal.h>

enum {
    STANDBYS = 1,
    TURNS = 5,
    UNCONFIRMED_MS = 1000,
    STOPS = 3,
    PATIENT_MS = 60000,
};
#define WAITS "SELECT 1 FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
#define IS_OVER "SELECT 1 WHERE NOT EXISTS (" WAITS ")"
/* Later than a broker is mute (PERSISTENCE_MUTE_MS). */
#define LEASE_IS_OVER "SELECT 1 FROM errbus_shard WHERE ends < clock_timestamp()"
#define QUORUM "ANY 1 (node0, node1)"

static struct postgres postgres;
static struct shard shard;

static void init(void)
{
    if (postgres_is_installed())
        cr_assert(postgres_start(&postgres, STANDBYS), "%s", postgres.why);
    shard_init(&shard, &postgres, "1");
}

static void fini(void)
{
    shard_fini(&shard);
    postgres_fini(&postgres);
}

TestSuite(store_quorum, .init = init, .fini = fini, .timeout = 300);

/* The value is there in the end, for the commit is, and a quorum has it then. */
Test(store_quorum, is_missed_by_the_commit_that_waited_for_it)
{
    shard_skip_without_server(&shard);
    struct bus *alice = shard_begin(&shard);
    for (int turn = 0; turn < TURNS; turn++) {
        postgres_kill(&postgres, 1);
        must_publish(alice, "w", "%d", SHARD_VALUES + turn);
        cr_assert(postgres_await(&postgres, 0, WAITS), "%s", postgres.why);
        cr_assert(postgres_set_standbys(&postgres, 0, ""), "%s", postgres.why);
        expect_code(bus_flush(alice, UNCONFIRMED_MS), BUS_ETIMEDOUT);
        cr_assert(postgres_set_standbys(&postgres, 0, QUORUM), "%s", postgres.why);
        cr_assert(postgres_revive(&postgres, 1), "%s", postgres.why);
        must_flush(alice);
    }
    shard_must_have(&shard, SHARD_VALUES + TURNS);
    must_close(&alice);
}

/* A client that takes a broker that is stopped for one that has nothing to say. */
static struct bus *join_for_long(const char *party)
{
    struct bus_options options = patient_options(party);
    options.heartbeat_ms = PATIENT_MS / 4;
    options.lost_after_ms = options.broker_lost_ms = PATIENT_MS;
    shard_start(&shard, 0);
    shard_must_serve(&shard, 0);
    return must_open_at(shard.everywhere, &options);
}

/* The answer of the server is there when the broker goes on.  The server says nothing more.  The
 * broker may be in the midst of any step then, so it is stopped some times. */
Test(store_quorum, is_told_by_no_broker_that_was_stopped_for_long)
{
    shard_skip_without_server(&shard);
    struct bus *alice = join_for_long("alice");
    shard_publish(alice, 0);
    for (int turn = 0; turn < STOPS; turn++) {
        postgres_kill(&postgres, 1);
        must_publish(alice, "w", "%d", SHARD_VALUES + turn);
        cr_assert(postgres_await(&postgres, 0, WAITS), "%s", postgres.why);
        process_signal(&shard.brokers[0], SIGSTOP);
        cr_assert(postgres_revive(&postgres, 1), "%s", postgres.why);
        cr_assert(postgres_await(&postgres, 0, IS_OVER), "%s", postgres.why);
        cr_assert(postgres_await(&postgres, 0, LEASE_IS_OVER), "%s", postgres.why);
        postgres_freeze(&postgres, 0);
        process_signal(&shard.brokers[0], SIGCONT);
        shard_must_say(&shard, 0, "this broker says nothing");
        expect_code(bus_flush(alice, UNCONFIRMED_MS), BUS_ETIMEDOUT);
        postgres_thaw(&postgres, 0);
        must_flush(alice);
    }
    shard_must_have(&shard, SHARD_VALUES + STOPS);
    must_close(&alice);
}
