/* SPDX-License-Identifier: MPL-2.0 */
/* store_tools_test.c -- the tables of a journal in PostgreSQL: those of an older and of a newer
 * errbusd, damaged ones, and what the tools for a journal say to them. */
#include "tests/lib/shard.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

/* The tables of version 1, which had no directory. */
#define TABLES_1                                                                                   \
    "CREATE TABLE errbus_meta (version int NOT NULL);"                                             \
    "CREATE TABLE errbus_shard (shard int PRIMARY KEY, epoch int8 NOT NULL DEFAULT 0,"             \
    " seq int8 NOT NULL DEFAULT 0, holder text, session int,"                                      \
    " ends timestamptz NOT NULL DEFAULT '-infinity') WITH (fillfactor = 20);"                      \
    "CREATE TABLE errbus_file (shard int, file int8, name text NOT NULL, bytes int8 NOT NULL,"     \
    " PRIMARY KEY (shard, file));"                                                                 \
    "INSERT INTO errbus_meta VALUES (1)"
/* One byte in the midst of the third commit of each file is another one. */
#define DAMAGE                                                                                     \
    "DO $$ DECLARE t text; BEGIN FOR t IN SELECT relname FROM pg_class"                            \
    " WHERE relkind = 'r' AND relname ~ '^errbus_piece_0_[0-9]+$' LOOP EXECUTE format("            \
    "'UPDATE %I SET body = set_byte(body, length(body) / 2, get_byte(body, length(body) / 2) # 1)" \
    " WHERE seq = (SELECT min(seq) + 2 FROM %I)', t, t); END LOOP; END $$"

static struct postgres postgres;
static struct shard shard;

static void init(void)
{
    shard_open(&shard, &postgres);
}

static void fini(void)
{
    shard_close(&shard, &postgres);
}

TestSuite(store_tools, .init = init, .fini = fini, .timeout = 300);

static void run_sql(const char *sql)
{
    char answer[200];
    (void)postgres_query(&postgres, 0, sql, answer, sizeof answer); /* it answers nothing */
}

static void expect_version(const char *expected)
{
    char version[32] = "";
    cr_assert(
        postgres_query(&postgres, 0, "SELECT version FROM errbus_meta", version, sizeof version));
    cr_expect_str_eq(version, expected);
}

/* The journal of version 1 is served on, and has a directory then. */
Test(store_tools, take_tables_of_version_1)
{
    shard_skip_without_server(&shard);
    run_sql(TABLES_1);
    expect_version("1");
    struct bus *alice = shard_begin(&shard);
    expect_version("2");
    shard_kill(&shard, 0);
    run_sql("DROP TABLE errbus_job, errbus_endpoint");
    run_sql("UPDATE errbus_meta SET version = 1");
    shard_start(&shard, 0);
    shard_must_serve(&shard, 0);
    expect_version("2");
    shard_publish(alice, SHARD_VALUES);
    shard_must_have(&shard, 2 * SHARD_VALUES);
    must_close(&alice);
}

/* All that was committed behind commit %s is put by, and the row is that of an older holder, who is
 * well. */
#define HAND_TO_AN_OLDER_HOLDER                                                                    \
    "CREATE TABLE put_by (piece text, seq int8, at int8, body bytea);"                             \
    "DO $$ DECLARE t text; BEGIN FOR t IN SELECT relname FROM pg_class"                            \
    " WHERE relkind = 'r' AND relname ~ '^errbus_piece_0_[0-9]+$' LOOP EXECUTE format("            \
    "'WITH gone AS (DELETE FROM %%I WHERE seq > %s RETURNING *)"                                   \
    " INSERT INTO put_by SELECT %%L, * FROM gone', t, t); END LOOP; END $$;"                       \
    "DROP TABLE errbus_job, errbus_endpoint, errbus_taken;"                                        \
    "UPDATE errbus_meta SET version = 1;"                                                          \
    "UPDATE errbus_shard SET seq = %s, holder = 'older 1 0', ends = now() + interval '1 hour'"
/* What an errbusd of version 1 does in a commit: its pieces, then its row, by these statements. */
#define COMMIT_AS_VERSION_1                                                                        \
    "DO $$ DECLARE s int8; t text; BEGIN FOR s IN SELECT DISTINCT seq FROM put_by ORDER BY seq"    \
    " LOOP FOR t IN SELECT DISTINCT piece FROM put_by WHERE seq = s LOOP EXECUTE format("          \
    "'INSERT INTO %I (seq, at, body) SELECT seq, at, body FROM put_by"                             \
    " WHERE seq = $1 AND piece = $2', t) USING s, t; END LOOP;"                                    \
    "WITH mine AS (UPDATE errbus_shard SET seq = s, session = pg_backend_pid(),"                   \
    " ends = clock_timestamp() + 6000 * interval '1 ms'"                                           \
    " WHERE shard = 0 AND epoch = 1 AND seq = s - 1 RETURNING 1)"                                  \
    " SELECT 1 / count(*) INTO t FROM mine; END LOOP; END $$"

/* Spares are upgraded first.  The older holder knows nothing of that, and is killed at last. */
Test(store_tools, let_a_newer_spare_wait_beside_an_older_holder)
{
    shard_skip_without_server(&shard);
    char seq[32], sql[2000], answer[32];
    struct bus *alice = shard_begin(&shard);
    cr_assert(postgres_query(&postgres, 0, "SELECT seq FROM errbus_shard", seq, sizeof seq));
    shard_publish(alice, SHARD_VALUES);
    shard_kill(&shard, 0);
    snprintf(sql, sizeof sql, HAND_TO_AN_OLDER_HOLDER, seq, seq);
    run_sql(sql);
    expect_version("1");
    shard_start_spare(&shard, 1);
    expect_version("2");
    run_sql(COMMIT_AS_VERSION_1);
    shard_must_serve(&shard, 1);
    cr_assert(postgres_query(&postgres, 0,
                             "SELECT 1 FROM errbus_taken WHERE epoch = 2"
                             " AND seq = (SELECT max(seq) + 1 FROM put_by)",
                             answer, sizeof answer),
              "the older holder cannot commit: %s", postgres.why);
    shard_publish(alice, 2 * SHARD_VALUES);
    shard_must_have(&shard, 3 * SHARD_VALUES);
    must_close(&alice);
}

Test(store_tools, leave_tables_of_a_later_version)
{
    shard_skip_without_server(&shard);
    run_sql(TABLES_1);
    run_sql("UPDATE errbus_meta SET version = 3");
    shard_start(&shard, 0);
    shard_must_end(&shard, 0, "a newer errbusd made the tables (version 3, not 2)");
    expect_version("3");
}

/* What errbusd says with these words behind its name; its exit status. */
static int run_errbusd(struct process *process, const char *option, const char *value,
                       const char *journal)
{
    const char *argv[] = {"errbusd", option, value, NULL, NULL, NULL};
    if (journal != NULL) {
        argv[3] = "--journal";
        argv[4] = journal;
    }
    cr_assert(process_start(process, argv, NULL));
    return process_wait(process, SOON_MS);
}

/* No server is asked for that. */
Test(store_tools, refuse_a_journal_without_files)
{
    static const char *const options[] = {"--check", "--export", "--repair"};
    static const char refusal[] = "a journal in PostgreSQL has no files to look at";
    struct process process = {0};
    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++) {
        cr_expect_eq(run_errbusd(&process, options[i], "postgres:host=/nowhere", NULL), 1);
        cr_expect_not_null(strstr(process_complained(&process), refusal), "%s: %s", options[i],
                           process_complained(&process));
        cr_expect_str_eq(process_said(&process), "");
        process_fini(&process);
    }
    cr_expect_eq(run_errbusd(&process, "--backup", "/nowhere", "postgres:host=/nowhere"), 1);
    cr_expect_not_null(strstr(process_complained(&process), refusal), "%s",
                       process_complained(&process));
    process_fini(&process);
}

/* What a broker names, and what it says of that, is of use. */
Test(store_tools, find_the_damage_where_the_broker_says)
{
    shard_skip_without_server(&shard);
    static const char before[] = "'errbusd --check ";
    char folder[POSTGRES_PATH_BYTES] = "";
    struct process process = {0};
    struct bus *alice = shard_begin(&shard);
    shard_publish(alice, SHARD_VALUES);
    shard_publish(alice, 2 * SHARD_VALUES);
    shard_kill(&shard, 0);
    run_sql(DAMAGE);
    shard_start(&shard, 0);
    shard_must_end(&shard, 0, "Restore the database");
    const char *words = process_complained(&shard.brokers[0]);
    const char *at = strstr(words, before);
    cr_assert_not_null(at, "%s", words);
    cr_assert_null(strstr(words, "--repair"), "%s", words);
    snprintf(folder, sizeof folder, "%.*s", (int)strcspn(at + sizeof before - 1, "'"),
             at + sizeof before - 1);
    cr_expect_eq(run_errbusd(&process, "--check", folder, NULL), 1);
    cr_expect_not_null(strstr(process_said(&process), "is damaged"), "%s: %s%s", folder,
                       process_said(&process), process_complained(&process));
    process_fini(&process);
    cr_expect_eq(run_errbusd(&process, "--export", folder, NULL), 1);
    cr_expect_not_null(strstr(process_said(&process), "\"crc\":false"));
    process_fini(&process);
    (void)bus_close(&alice, 0); /* its broker is gone */
}
