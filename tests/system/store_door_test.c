/* SPDX-License-Identifier: MPL-2.0 */
/* store_door_test.c -- the door to PostgreSQL, before a server of its own. */
#include "broker/journal/postgres_store.h"
#include "tests/lib/postgres.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define QUORUM "ANY 1 (node0, node1)"
#define SLOW "SELECT pg_sleep(3)"
#define WORKS "SELECT 1 FROM pg_stat_activity WHERE state = 'active' AND query = '" SLOW "'"

static struct postgres postgres;
static unsigned calls;
static bool did_server_work;

static void count_call(void *arg)
{
    (void)arg;
    calls++;
}

static void see_server(void *arg)
{
    count_call(NULL);
    did_server_work = postgres_await(arg, 0, WORKS);
}

static void run(struct door *door, const char *sql, enum door_verdict expected)
{
    struct door_statement statement = {.count = 0};
    struct door_answer answer;
    snprintf(statement.sql, sizeof statement.sql, "%s", sql);
    door->ops->run(door, &statement, 1, &answer);
    cr_expect_eq(answer.verdict, expected, "%s", answer.why);
    door->ops->clear(&answer);
}

/* What is to be done while the server works is done then, once, and also where nothing is sent. */
Test(store_door, lets_the_caller_work_while_the_server_does, .timeout = 120)
{
    char why[DOOR_WHY_BYTES];
    if (!postgres_is_installed())
        cr_skip_test(POSTGRES_MISSING); /* the door is to a real server; .ci/run requires one */
    cr_assert(postgres_start(&postgres, 0), "%s", postgres.why);
    struct door *door = door_new();
    cr_assert_not_null(door);
    cr_assert(door->ops->connect(door, postgres.conninfo, why), "%s", why);
    door->meanwhile = see_server;
    door->meanwhile_arg = &postgres;
    run(door, SLOW, DOOR_DONE);
    cr_expect(did_server_work);
    run(door, "SELECT 1", DOOR_DONE);
    cr_expect_eq(calls, 1);
    door->ops->disconnect(door);
    door->meanwhile = count_call;
    run(door, "SELECT 1", DOOR_DOUBT);
    cr_expect_eq(calls, 2);
    door->ops->close(door);
    postgres_fini(&postgres);
}

static void give_up(struct door *door)
{
    atomic_store(&door->is_given_up, true);
}

/* Of a server that is started for it, with so many standbys, of which one must confirm. */
static void take_shard(struct store *store, unsigned standbys)
{
    if (!postgres_is_installed())
        cr_skip_test(POSTGRES_MISSING); /* the store is of a real server, as above */
    cr_assert(postgres_start(&postgres, standbys), "%s", postgres.why);
    struct door *door = door_new();
    cr_assert_not_null(door);
    cr_assert_eq(store_init(store, &door, postgres.conninfo, 0, standbys), 0);
    cr_assert(store_connect(store), "%s", store->why);
    cr_assert_eq(store_prepare(store), 0, "%s", store->why);
    cr_assert_eq(store_take(store), 0, "%s", store->why);
}

static void leave_shard(struct store *store)
{
    store_fini(store);
    postgres_fini(&postgres);
}

static int commit(struct store *store)
{
    struct store_change change;
    store_change_init(&change);
    int result = store_commit(store, &change);
    store_change_fini(&change);
    return result;
}

static uint64_t committed(void)
{
    char seq[32];
    cr_assert(postgres_query(&postgres, 0, "SELECT seq FROM errbus_shard", seq, sizeof seq), "%s",
              postgres.why);
    return strtoull(seq, NULL, 10);
}

/* The server has no look at its settings but this commit.  Nothing of it is there. */
Test(store_door, commits_nothing_under_settings_that_nobody_looked_at, .timeout = 120)
{
    struct store store;
    take_shard(&store, 1);
    struct door_ops ops = *store.door->ops;
    ops.rest = give_up;
    store.door->ops = &ops;
    cr_assert_eq(commit(&store), 0, "%s", store.why);
    uint64_t before = committed();
    cr_expect_eq(store.seq, before);
    cr_assert(postgres_set_standbys(&postgres, 0, ""), "%s", postgres.why);
    cr_expect_eq(commit(&store), -ECANCELED);
    cr_expect_eq(committed(), before);
    cr_assert(postgres_set_standbys(&postgres, 0, QUORUM), "%s", postgres.why);
    atomic_store(&store.door->is_given_up, false);
    cr_assert_eq(commit(&store), 0, "%s", store.why);
    cr_expect_eq(committed(), before + 1);
    leave_shard(&store);
}

/* With the name of a standby that is not there, of so many characters of two bytes each. */
static void set_long_standbys(unsigned characters)
{
    char name[2 * STORE_TERMS_CHARACTERS + 1] = "";
    char sql[2 * STORE_TERMS_CHARACTERS + 200], answer[16];
    for (unsigned i = 0; i < characters; i++)
        memcpy(name + 2 * (size_t)i, "\xc3\xa4", 3);
    snprintf(sql, sizeof sql,
             "ALTER SYSTEM SET synchronous_standby_names = 'ANY 1 (node0, node1, \"%s\")'", name);
    (void)postgres_query(&postgres, 0, sql, answer, sizeof answer); /* it answers nothing */
    cr_assert(postgres_query(&postgres, 0, "SELECT pg_reload_conf()", answer, sizeof answer), "%s",
              postgres.why);
    snprintf(sql, sizeof sql,
             "SELECT 1 WHERE strpos(current_setting('synchronous_standby_names'), '\"%s\"') > 0",
             name);
    cr_assert(postgres_await(&postgres, 0, sql), "%s", postgres.why);
}

/* Of so many characters that all are compared, and of one more. */
Test(store_door, commits_under_settings_of_any_length, .timeout = 120)
{
    struct store store;
    take_shard(&store, 1);
    unsigned others = (unsigned)strlen("on on ANY 1 (node0, node1, \"\")");
    for (unsigned all = STORE_TERMS_CHARACTERS - 1; all <= STORE_TERMS_CHARACTERS + 1; all++) {
        unsigned compared = all < STORE_TERMS_CHARACTERS ? all : STORE_TERMS_CHARACTERS;
        set_long_standbys(all - others);
        cr_assert_eq(commit(&store), 0, "%s", store.why);
        cr_expect_eq(store.seq, committed());
        cr_expect_eq(strlen(store.found.terms), compared + (all - others));
    }
    leave_shard(&store);
}

/* A row that is gone is no row that was changed. */
Test(store_door, counts_no_commit_whose_row_is_gone, .timeout = 120)
{
    struct store store;
    char gone[32];
    take_shard(&store, 0);
    cr_assert_eq(commit(&store), 0, "%s", store.why);
    cr_assert(
        postgres_query(&postgres, 0, "DELETE FROM errbus_shard RETURNING shard", gone, sizeof gone),
        "%s", postgres.why);
    cr_expect_eq(commit(&store), -DISK_FORGOT);
    leave_shard(&store);
}

/* A server whose client is gone without a word learns it soon, and keeps no locks for it. */
Test(store_door, lets_the_server_learn_that_its_client_is_gone, .timeout = 120)
{
    static const struct door_statement ask = {
        .sql = "SELECT current_setting('tcp_keepalives_idle') || ' ' ||"
               " current_setting('tcp_keepalives_interval') || ' ' ||"
               " current_setting('tcp_keepalives_count')"};
    char conninfo[POSTGRES_CONNINFO_BYTES];
    struct store store;
    struct door_answer answer;
    if (!postgres_is_installed())
        cr_skip_test(POSTGRES_MISSING); /* as above */
    cr_assert(postgres_start(&postgres, 0) && postgres_make_certificate(&postgres, "server") &&
                  postgres_serve_tls(&postgres, 0),
              "%s", postgres.why);
    snprintf(conninfo, sizeof conninfo, "host=%s user=postgres dbname=postgres sslmode=require",
             postgres.address);
    struct door *door = door_new();
    cr_assert_not_null(door);
    cr_assert_eq(store_init(&store, &door, conninfo, 0, 0), 0);
    cr_assert(store_connect(&store), "%s", store.why);
    store.door->ops->run(store.door, &ask, 1, &answer);
    cr_assert_eq(answer.verdict, DOOR_DONE, "%s", answer.why);
    cr_expect_str_eq(store.door->ops->field(&answer, 0, 0).data, "5 1 3");
    store.door->ops->clear(&answer);
    store_fini(&store);
    postgres_fini(&postgres);
}
