/* SPDX-License-Identifier: MPL-2.0 */
/* postgres_standby_test.c -- a journal in a real PostgreSQL with two standbys, of which one must
 * confirm each commit.  Nodes are killed, and standbys promoted: the right one, and one that lags.
 */
#include "tests/lib/shard.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STANDBYS = 2, LAGS_MORE = 9 };

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

TestSuite(postgres_standby, .init = init, .fini = fini, .timeout = 300);

static void skip_without_server(void)
{
    if (postgres.count == 0)
        cr_skip_test(POSTGRES_MISSING);
}

#define MUST(call) cr_assert(call, "%s", postgres.why)

static void kill_standbys(void)
{
    for (unsigned node = 1; node <= STANDBYS; node++)
        postgres_kill(&postgres, node);
}

static void revive_standbys(void)
{
    for (unsigned node = 1; node <= STANDBYS; node++)
        MUST(postgres_revive(&postgres, node));
}

/* ---- the quorum ------------------------------------------------------------------------------ */

/* The setting waits for nobody, or for standbys that are not there. */
Test(postgres_standby, refuses_to_serve_while_no_quorum_is_in_force)
{
    skip_without_server();
    MUST(postgres_set_standbys(&postgres, 0, ""));
    shard_start(&shard, 0);
    shard_must_end(&shard, 0, "set it to 'ANY 1 (NAME, NAME)'");
    MUST(postgres_set_standbys(&postgres, 0, "ANY 1 (nobody)"));
    shard_start(&shard, 0);
    shard_must_end(&shard, 0, "too few synchronous standbys are connected");
    MUST(postgres_set_standbys(&postgres, 0, "ANY 1 (node1, node2)"));
    MUST(postgres_await_standbys(&postgres, 0, STANDBYS));
    shard_start(&shard, 0);
    shard_must_serve(&shard, 0);
}

/* A standby was promoted by mistake, and stands first in the list: it takes writes, and has no
 * standbys.  The one behind it has. */
Test(postgres_standby, passes_over_a_server_that_takes_writes_alone)
{
    char store[POSTGRES_CONNINFO_BYTES];
    skip_without_server();
    MUST(postgres_promote(&postgres, 2));
    snprintf(store, sizeof store, "host=%s,%s,%s user=postgres dbname=postgres",
             postgres.nodes[2].sockets, postgres.nodes[1].sockets, postgres.nodes[0].sockets);
    shard.stores[0] = store;
    struct bus *alice = shard_begin(&shard);
    shard_must_have(&shard, SHARD_VALUES);
    must_close(&alice);
}

/* One standby may go.  Without both nothing is accepted, and nothing is lost. */
Test(postgres_standby, waits_while_both_standbys_are_gone)
{
    skip_without_server();
    struct bus *alice = shard_begin(&shard);
    postgres_kill(&postgres, 1);
    shard_publish(alice, SHARD_VALUES);
    postgres_kill(&postgres, 2);
    for (int i = 0; i < SHARD_VALUES; i++)
        must_publish(alice, "w", "%d", 2 * SHARD_VALUES + i);
    shard_must_say(&shard, 0, "says nothing to anybody");
    expect_code(bus_flush(alice, 100), BUS_ETIMEDOUT);
    revive_standbys();
    must_flush(alice);
    shard_must_have(&shard, 3 * SHARD_VALUES);
    must_close(&alice);
}

/* The setting is changed under a broker that serves: it accepts nothing, and says why. */
Test(postgres_standby, serves_no_more_when_the_quorum_is_set_aside)
{
    skip_without_server();
    struct bus *alice = shard_begin(&shard);
    MUST(postgres_set_standbys(&postgres, 0, ""));
    shard_must_say(&shard, 0, "its store is away: synchronous_standby_names lets too few");
    must_publish(alice, "w", "%d", SHARD_VALUES);
    expect_code(bus_flush(alice, 100), BUS_ETIMEDOUT);
    MUST(postgres_set_standbys(&postgres, 0, "ANY 1 (node1, node2)"));
    must_flush(alice);
    shard_must_have(&shard, SHARD_VALUES + 1);
    must_close(&alice);
}

/* The wait of a commit is cancelled on a primary that is then lost: the standbys never had it. */
Test(postgres_standby, takes_no_cancelled_wait_for_a_quorum)
{
    unsigned long pid = 0;
    unsigned foremost = 0;
    skip_without_server();
    struct bus *alice = shard_begin(&shard);
    kill_standbys();
    must_publish(alice, "w", "%d", SHARD_VALUES);
    MUST(postgres_cancel_commit(&postgres, 0, &pid));
    shard_must_say(&shard, 0, "says nothing to anybody");
    expect_code(bus_flush(alice, 100), BUS_ETIMEDOUT);
    postgres_kill(&postgres, 0);
    revive_standbys();
    MUST(postgres_foremost(&postgres, &foremost));
    MUST(postgres_promote(&postgres, foremost));
    must_flush(alice);
    shard_must_have(&shard, SHARD_VALUES + 1);
    must_close(&alice);
}

/* ---- promotion ------------------------------------------------------------------------------- */

Test(postgres_standby, keeps_all_when_the_right_standby_is_promoted)
{
    skip_without_server();
    struct bus *alice = shard_begin(&shard);
    for (int turn = 1; turn <= 2; turn++) {
        unsigned primary = postgres_primary(&postgres);
        for (int i = 0; i < SHARD_VALUES; i++)
            must_publish(alice, "w", "%d", turn * SHARD_VALUES + i);
        postgres_kill(&postgres, primary); /* with commits under way */
        unsigned foremost = 0;
        MUST(postgres_foremost(&postgres, &foremost));
        MUST(postgres_promote(&postgres, foremost));
        must_flush(alice);
        MUST(postgres_join(&postgres, primary));
        MUST(postgres_await_standbys(&postgres, foremost, STANDBYS));
    }
    shard_must_have(&shard, 3 * SHARD_VALUES);
    must_close(&alice);
}

struct receivers {
    pid_t pids[STANDBYS]; /* the processes of the standbys that receive */
    bool are_let_go;
};

static void stop_receivers(struct receivers *receivers)
{
    for (unsigned i = 0; i < STANDBYS; i++) {
        char pid[32];
        MUST(postgres_query(&postgres, i + 1, "SELECT pid FROM pg_stat_wal_receiver", pid,
                            sizeof pid));
        receivers->pids[i] = (pid_t)strtol(pid, NULL, 10);
        cr_assert_gt(receivers->pids[i], 1);
        cr_assert_eq(kill(receivers->pids[i], SIGSTOP), 0);
    }
}

static void let_receivers_go(void *arg)
{
    struct receivers *receivers = arg;
    receivers->are_let_go = true;
    for (unsigned i = 0; i < STANDBYS; i++)
        (void)kill(receivers->pids[i], SIGCONT);
}

/* The primary is gone, and the standbys have not read yet what it had sent.  They do once they were
 * asked and receive still. */
Test(postgres_standby, are_not_compared_while_one_receives)
{
    struct receivers receivers = {.are_let_go = false};
    unsigned foremost = 0;
    skip_without_server();
    MUST(postgres_await_standbys(&postgres, 0, STANDBYS));
    stop_receivers(&receivers);
    postgres_kill(&postgres, 0);
    postgres.in_vain = let_receivers_go;
    postgres.in_vain_arg = &receivers;
    bool is_told = postgres_foremost(&postgres, &foremost);
    postgres.in_vain = NULL;
    MUST(is_told);
    cr_expect(receivers.are_let_go, "it did not wait");
}

/* Publishes what a standby lacks. */
static void publish_past_a_standby(struct bus *alice)
{
    MUST(postgres_await(&postgres, 0,
                        "SELECT 1 FROM pg_stat_replication WHERE application_name = 'node1'"
                        " AND flush_lsn >= pg_current_wal_lsn()")); /* it has what came so far */
    postgres_kill(&postgres, 1);
    shard_publish(alice, SHARD_VALUES);
}

static void promote_that_standby(void)
{
    postgres_kill(&postgres, 2);
    postgres_kill(&postgres, 0);
    MUST(postgres_revive(&postgres, 1));
    MUST(postgres_promote(&postgres, 1));
    MUST(postgres_join(&postgres, 2));
}

static void promote_a_lagging_standby(void)
{
    struct bus *alice = shard_begin(&shard);
    publish_past_a_standby(alice);
    promote_that_standby();
    shard_must_end_by_forgetting(&shard, 0, "the store forgot");
    shard_start(&shard, 1);
    shard_must_serve(&shard, 1);
    shard_must_say(&shard, 1, "broker.forgot default/alice/1");
    struct bus_msg *msg = NULL;
    struct bus_error *error = NULL;
    expect_code(bus_await(alice, "nobody/x", 0, SOON_MS, &msg, &error), BUS_ELOST);
    cr_expect_str_eq(bus_error_type(error), "errbus.forgotten");
    cr_expect_not_null(strstr(bus_error_message(error), "has 11 of 21 frames"), "%s",
                       bus_error_message(error));
    bus_error_unref(&error);
    expect_code(bus_close(&alice, SOON_MS), BUS_ELOST);
}

/* Commits that the other standby confirmed are gone with it: the broker sees that and ends, and the
 * next one is told by the writer.  TEST_LONG=1: ten times. */
Test(postgres_standby, notices_that_a_lagging_standby_was_promoted)
{
    skip_without_server();
    promote_a_lagging_standby();
    for (int more = is_asked("TEST_LONG") ? LAGS_MORE : 0; more > 0; more--) {
        fini();
        init();
        promote_a_lagging_standby();
    }
}

/* A spare is sooner, and takes the shard from what is left.  The broker that was replaced says what
 * became of its commits all the same. */
Test(postgres_standby, notices_that_a_spare_took_over_what_lags)
{
    skip_without_server();
    struct bus *alice = shard_begin(&shard);
    shard_start_spare(&shard, 1);
    publish_past_a_standby(alice);
    process_signal(&shard.brokers[0], SIGSTOP);
    promote_that_standby();
    shard_must_serve(&shard, 1);
    process_signal(&shard.brokers[0], SIGCONT);
    shard_must_end_by_forgetting(&shard, 0, "the store forgot what it had confirmed");
    (void)bus_close(&alice, 0);
}

/* ---- zombies --------------------------------------------------------------------------------- */

/* A broker that is stopped while a spare takes over has a writer who knows no other broker. */
Test(postgres_standby, lets_no_zombie_accept_anything)
{
    struct bus_options options = patient_options("carol");
    skip_without_server();
    struct bus *alice = shard_begin(&shard);
    struct bus *carol = must_open_at(shard.endpoints[0], &options);
    must_publish(carol, "w", "%d", 0);
    must_flush(carol);
    shard_start_spare(&shard, 1);
    process_signal(&shard.brokers[0], SIGSTOP);
    must_publish(carol, "w", "%d", 1);
    shard_must_serve(&shard, 1);
    process_signal(&shard.brokers[0], SIGCONT);
    shard_must_end(&shard, 0, "another broker has taken over");
    expect_code(bus_flush(carol, 100), BUS_ETIMEDOUT);
    shard_publish(alice, SHARD_VALUES);
    shard_must_have(&shard, 2 * SHARD_VALUES);
    must_close(&alice);
    (void)bus_close(&carol, 0); /* she never hears of another broker */
}
