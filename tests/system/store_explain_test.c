/* SPDX-License-Identifier: MPL-2.0 */
/* store_explain_test.c -- errbusd --explain-store: the nodes of a PostgreSQL by their names, and
 * whether a broker would start. */
#include "tests/lib/expect.h"
#include "tests/lib/postgres.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

static struct postgres postgres;
static struct process process;

static void fini(void)
{
    process_fini(&process);
    postgres_fini(&postgres);
}

TestSuite(store_explain, .fini = fini, .timeout = 300);

static void start(unsigned standbys)
{
    if (!postgres_is_installed())
        cr_skip_test(POSTGRES_MISSING);
    cr_assert(postgres_start(&postgres, standbys), "%s", postgres.why);
}

/* What it ends with, for so many standbys; NULL: nothing is said of them. */
static int explain(const char *replicas)
{
    const char *const argv[] = {"errbusd",         "--explain-store",
                                postgres.conninfo, replicas != NULL ? "--replicas" : NULL,
                                replicas,          NULL};
    process_fini(&process);
    cr_assert(process_start(&process, argv, NULL));
    return process_wait(&process, SOON_MS);
}

static void expect_said(const char *text)
{
    cr_expect_not_null(strstr(process_said(&process), text), "'%s' is not in: %s", text,
                       process_said(&process));
}

Test(store_explain, tells_of_a_server_alone)
{
    char row[32] = "";
    start(0);
    cr_expect_eq(explain(NULL), 1, "%s", process_said(&process));
    expect_said("server: PostgreSQL 15.");
    expect_said("\nfsync: on\n");
    expect_said("\nnode ");
    expect_said("errbusd refuses this store: ");
    cr_expect_eq(explain("0"), 0, "%s", process_said(&process));
    expect_said("a commit: ");
    expect_said(" us; of 21 the shortest took ");
    expect_said("a broker with --replicas 0 would start");
    cr_assert(postgres_query(&postgres, 0,
                             "SELECT count(*) FROM pg_tables WHERE tablename = "
                             "'errbus_probe'",
                             row, sizeof row));
    cr_expect_str_eq(row, "0", "its table stays");
}

/* Names, and who is waited for; node2 is no member of the quorum here. */
Test(store_explain, names_the_nodes_of_a_cluster)
{
    start(2);
    cr_assert(postgres_await_standbys(&postgres, 0, 2), "%s", postgres.why);
    cr_expect_eq(explain(NULL), 0, "%s", process_said(&process));
    expect_said("node node1: a standby, streaming, quorum: confirms commits\n");
    expect_said("node node2: a standby, streaming, quorum: confirms commits\n");
    cr_assert(postgres_set_standbys(&postgres, 0, "ANY 1 (node0, node1)"), "%s", postgres.why);
    cr_assert(postgres_await(&postgres, 0,
                             "SELECT 1 FROM pg_stat_replication WHERE"
                             " application_name = 'node2' AND sync_state = 'async'"),
              "%s", postgres.why);
    cr_expect_eq(explain("1"), 0, "%s", process_said(&process));
    expect_said("node node2: a standby, streaming, async: confirms nothing\n");
    cr_expect_eq(explain("2"), 1, "%s", process_said(&process));
    expect_said("node node1: a standby, streaming, quorum: confirms commits\n");
    expect_said("errbusd refuses this store: ");
}

Test(store_explain, refuses_what_is_no_number_of_standbys)
{
    static const char *const wrong[] = {"100", "-1", "x", "1x", ""};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        cr_expect_eq(explain(wrong[i]), 2, "%s", wrong[i]);
        cr_expect_not_null(strstr(process_complained(&process), "--replicas with 0 to 99"), "%s",
                           process_complained(&process));
    }
}
