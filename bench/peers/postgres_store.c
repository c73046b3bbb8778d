/* SPDX-License-Identifier: MPL-2.0 */
/* postgres_store.c -- what errbusd over PostgreSQL is measured against: a plain loop over libpq.
 * It commits the same bytes in the same transaction: a row with a value, and an update of a row
 * that fences.  Both statements are prepared, and go out together. */
#include "bench/harness.h"

#include <libpq-fe.h>
#include <stdlib.h>
#include <string.h>

enum { GROUP_BYTES_MAX = 1024 * 1024 };

static PGconn *connection;

static void check_result(PGresult *result)
{
    ExecStatusType status = PQresultStatus(result);
    if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK && status != PGRES_PIPELINE_SYNC) {
        bench_die("libpq: %s", PQerrorMessage(connection));
    }
    PQclear(result);
}

static void prepare_all(const char *conninfo)
{
    connection = PQconnectdb(conninfo);
    if (PQstatus(connection) != CONNECTION_OK) {
        bench_die("libpq: %s", PQerrorMessage(connection));
    }
    check_result(PQexec(connection,
                        "SET client_min_messages = warning;"
                        "DROP TABLE IF EXISTS loop_piece, loop_shard;"
                        "CREATE TABLE loop_piece (seq int8, at int8, body bytea NOT NULL,"
                        " PRIMARY KEY (seq, at)) WITH (autovacuum_enabled = false);"
                        "ALTER TABLE loop_piece ALTER body SET STORAGE EXTERNAL;"
                        "CREATE TABLE loop_shard (shard int PRIMARY KEY, epoch int8, seq int8)"
                        " WITH (fillfactor = 20);"
                        "INSERT INTO loop_shard VALUES (0, 1, 0)"));
    check_result(PQprepare(connection, "piece",
                           "INSERT INTO loop_piece VALUES ($1::int8, 0, $2::bytea)", 0, NULL));
    check_result(PQprepare(connection, "fence",
                           "WITH mine AS (UPDATE loop_shard SET seq = $1::int8"
                           " WHERE shard = 0 AND epoch = 1 AND seq = $1::int8 - 1 RETURNING 1)"
                           " SELECT 1 / count(*) FROM mine",
                           0, NULL));
    if (PQenterPipelineMode(connection) != 1) {
        bench_die("libpq: %s", PQerrorMessage(connection));
    }
}

/* One transaction, in one round trip, on a quorum when it returns. */
static void commit(uint64_t seq, const char *body, size_t bytes)
{
    char number[24];
    const char *values[] = {number, body};
    int lengths[] = {0, (int)bytes};
    int formats[] = {0, 1};
    snprintf(number, sizeof number, "%llu", (unsigned long long)seq);
    if (PQsendQueryPrepared(connection, "piece", 2, values, lengths, formats, 1) != 1 ||
        PQsendQueryPrepared(connection, "fence", 1, values, lengths, formats, 1) != 1 ||
        PQpipelineSync(connection) != 1) {
        bench_die("libpq: %s", PQerrorMessage(connection));
    }
    for (bool is_over = false; !is_over;) {
        PGresult *result = PQgetResult(connection);
        if (result != NULL) {
            is_over = PQresultStatus(result) == PGRES_PIPELINE_SYNC;
            check_result(result);
        }
    }
}

/* So many values, one due in every_ns; each commit takes all that are due by then.  every_ns 0: one
 * behind the other, each alone. */
static void commit_all(size_t bytes, uint64_t count, int64_t every_ns, char *body,
                       struct samples *samples)
{
    uint64_t seq = 0;
    int64_t start_ns = test_now_ns();
    for (uint64_t i = 0; i < count;) {
        uint64_t group = 1;
        int64_t due_ns = every_ns > 0 ? start_ns + (int64_t)i * every_ns : test_now_ns();
        bench_sleep_until(due_ns);
        if (every_ns > 0) {
            uint64_t due = (uint64_t)((test_now_ns() - start_ns) / every_ns) + 1;
            uint64_t most = GROUP_BYTES_MAX / bytes;
            due = due < count ? due : count;
            group = due - i < most ? due - i : most;
        }
        commit(++seq, body, group * bytes);
        int64_t end_ns = test_now_ns();
        for (uint64_t j = 0; j < group; j++) {
            samples_add(samples, end_ns - due_ns - (int64_t)j * every_ns);
        }
        i += group;
    }
}

/* errbusd drops its tables, too.  What comes next begins with as much memory and disk. */
static void drop_all(void)
{
    if (PQexitPipelineMode(connection) != 1) {
        bench_die("libpq: %s", PQerrorMessage(connection));
    }
    check_result(PQexec(connection, "DROP TABLE loop_piece, loop_shard"));
}

/* CONNINFO BYTES COUNT EVERY_NS: says how long it took, and a sample for each value. */
int main(int argc, char **argv)
{
    struct samples samples = {.count = 0};
    char *body = malloc(GROUP_BYTES_MAX);
    if (argc != 5 || body == NULL || strtoul(argv[2], NULL, 10) > GROUP_BYTES_MAX) {
        return 2;
    }
    memset(body, 'x', GROUP_BYTES_MAX);
    prepare_all(argv[1]);
    role_ready();
    role_wait_go();
    int64_t start_ns = test_now_ns();
    commit_all(strtoul(argv[2], NULL, 10), strtoull(argv[3], NULL, 10), strtoll(argv[4], NULL, 10),
               body, &samples);
    role_say_done(test_now_ns() - start_ns);
    samples_say(&samples);
    drop_all();
    PQfinish(connection);
    samples_fini(&samples);
    free(body);
    return 0;
}
