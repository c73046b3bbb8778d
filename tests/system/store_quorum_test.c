/* SPDX-License-Identifier: MPL-2.0 */
/* store_quorum_test.c -- a quorum that is set aside while a commit waits for it: the server ends
 * the wait, and the commit is on one copy.  It is not acknowledged. */
#include "tests/lib/shard.h"

#include <criterion/criterion.h>

enum { STANDBYS = 1, TURNS = 5, UNCONFIRMED_MS = 1000 };
#define WAITS "SELECT 1 FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
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
    if (postgres.count == 0)
        cr_skip_test(POSTGRES_MISSING);
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
