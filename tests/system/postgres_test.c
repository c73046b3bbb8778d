/* SPDX-License-Identifier: MPL-2.0 */
/* postgres_test.c -- a journal in a real PostgreSQL, which each test starts in a folder of its own,
 * and reaches by a socket in it. */
#include "broker/journal/directory.h"
#include "broker/journal/postgres_door.h"
#include "tests/lib/shard.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/shm.h>

enum { COMMITS = 200 };

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

TestSuite(postgres, .init = init, .fini = fini, .timeout = 300);

/* A server that is killed leaves its shared memory where it was.  So that is in its own folder,
 * which is removed with it. */
Test(postgres, has_its_shared_memory_in_its_own_folder)
{
    shard_skip_without_server(&shard);
    char path[64];
    char line[512];
    bool is_in_folder = false;
    snprintf(path, sizeof path, "/proc/%d/maps", (int)postgres.nodes[0].server.pid);
    FILE *maps = fopen(path, "re");
    cr_assert_not_null(maps);
    while (fgets(line, sizeof line, maps) != NULL) {
        cr_expect_null(strstr(line, "/dev/shm/PostgreSQL"), "%s", line);
        is_in_folder = is_in_folder || strstr(line, "/pg_dynshmem/") != NULL;
    }
    (void)fclose(maps);
    cr_expect(is_in_folder, "no shared memory was found");
}

/* But for the segment by which it sees whether another server has its folder. */
Test(postgres, leaves_no_segment_behind_when_it_is_killed)
{
    shard_skip_without_server(&shard);
    struct shmid_ds told;
    int segment = postgres_segment(&postgres, 0);
    cr_assert_eq(shmctl(segment, IPC_STAT, &told), 0);
    postgres_kill(&postgres, 0);
    /* It goes with the last process that has it, and these may still be ending. */
    bool is_there = shmctl(segment, IPC_STAT, &told) == 0;
    cr_expect(!is_there || (told.shm_perm.mode & SHM_DEST) != 0);
}

Test(postgres, goes_on_elsewhere_when_a_broker_is_killed)
{
    shard_skip_without_server(&shard);
    struct bus *alice = shard_begin(&shard);
    for (int turn = 0; turn < 2; turn++) {
        shard_start_spare(&shard, (turn + 1) % SHARD_PLACES);
        shard_kill(&shard, turn % SHARD_PLACES);
        shard_must_serve(&shard, (turn + 1) % SHARD_PLACES);
        shard_publish(alice, (turn + 1) * SHARD_VALUES);
    }
    shard_must_have(&shard, 3 * SHARD_VALUES);
    must_close(&alice);
}

/* More commits than one answer has pieces, and numbers that are not ordered as their texts are. */
Test(postgres, has_every_commit_of_a_killed_broker)
{
    shard_skip_without_server(&shard);
    struct bus *alice = shard_begin(&shard);
    for (int i = SHARD_VALUES; i < COMMITS; i++) {
        must_publish(alice, "w", "%d", i);
        must_flush(alice);
    }
    shard_start_spare(&shard, 1);
    shard_kill(&shard, 0);
    shard_must_serve(&shard, 1);
    shard_must_have(&shard, COMMITS);
    must_close(&alice);
}

/* A broker that was stopped for longer than its lease writes nothing more, and ends. */
Test(postgres, fences_a_broker_that_was_stopped)
{
    shard_skip_without_server(&shard);
    struct bus *alice = shard_begin(&shard);
    shard_start_spare(&shard, 1);
    process_signal(&shard.brokers[0], SIGSTOP);
    shard_must_serve(&shard, 1);
    process_signal(&shard.brokers[0], SIGCONT);
    shard_must_end(&shard, 0, "another broker has taken over");
    shard_publish(alice, SHARD_VALUES);
    must_close(&alice);
}

/* Where a server was promoted that lacks commits, the next holder may have made as many as this one
 * by now.  So the number of the commit is not enough. */
static void must_not_commit_behind(const char *sql,
                                   void (*must_end)(struct shard *, int, const char *),
                                   const char *last_words)
{
    char before[32], behind[32];
    struct bus *alice = shard_begin(&shard);
    cr_assert(postgres_query(&postgres, 0, sql, before, sizeof before), "%s", postgres.why);
    must_publish(alice, "w", "%d", SHARD_VALUES);
    must_end(&shard, 0, last_words);
    cr_assert(postgres_query(&postgres, 0, "SELECT seq FROM errbus_shard", behind, sizeof behind),
              "%s", postgres.why);
    cr_expect_str_eq(behind, before);
    (void)bus_close(&alice, 0);
}

Test(postgres, commits_nothing_under_a_later_epoch)
{
    shard_skip_without_server(&shard);
    must_not_commit_behind("UPDATE errbus_shard SET epoch = epoch + 1 RETURNING seq",
                           shard_must_end, "another broker has taken over");
}

Test(postgres, commits_nothing_where_another_has_its_epoch)
{
    shard_skip_without_server(&shard);
    must_not_commit_behind("UPDATE errbus_shard SET holder = 'another' RETURNING seq",
                           shard_must_end_by_forgetting, "the store forgot");
}

/* A commit whose wait for a standby is cancelled succeeds on one node alone: nobody is told that it
 * did until a later one is confirmed. */
Test(postgres, acknowledges_no_commit_that_was_cancelled)
{
    unsigned long pid = 0;
    shard_skip_without_server(&shard);
    struct bus *alice = shard_begin(&shard);
    cr_assert(postgres_set_standbys(&postgres, 0, "ANY 1 (nobody)"), "%s", postgres.why);
    must_publish(alice, "w", "%d", SHARD_VALUES);
    for (int i = 0; i < 3; i++)
        cr_assert(postgres_cancel_commit(&postgres, 0, &pid), "%s", postgres.why);
    expect_code(bus_flush(alice, 100), BUS_ETIMEDOUT);
    cr_assert(postgres_set_standbys(&postgres, 0, ""), "%s", postgres.why);
    must_flush(alice);
    must_close(&alice);
}

Test(postgres, refuses_a_server_that_does_not_keep_the_promise)
{
    shard_skip_without_server(&shard);
    shard.replicas = "1";
    shard_start(&shard, 0);
    shard_must_end(&shard, 0, "set it to 'ANY 1 (NAME, NAME)'");
}

/* A session that wrote a piece, and goes no further with its commit: as that of a broker that is
 * stopped.  The next holder writes over the last piece first. */
static void hold_a_commit(struct process *session)
{
    static const char sql[] = "DO $$ DECLARE piece text; BEGIN"
                              " SELECT 'errbus_piece_0_' || file INTO piece FROM errbus_file"
                              " WHERE name LIKE '%.journal' ORDER BY name DESC LIMIT 1;"
                              " EXECUTE format('INSERT INTO %I SELECT (SELECT seq + 1 FROM "
                              "errbus_shard), max(at), ''x'' FROM %I',"
                              " piece, piece);"
                              " PERFORM pg_sleep(600); END $$";
    const char *const argv[] = {"/usr/bin/psql", "-XqAt", "-d", postgres.conninfo, "-c", sql, NULL};
    cr_assert(process_start(session, argv, NULL));
    cr_assert(
        postgres_await(&postgres, 0, "SELECT 1 FROM pg_stat_activity WHERE wait_event = 'PgSleep'"),
        "%s: %s", postgres.why, process_complained(session));
}

Test(postgres, waits_for_no_commit_that_another_broker_began)
{
    struct process session = {0};
    shard_skip_without_server(&shard);
    struct bus *alice = shard_begin(&shard);
    shard_start_spare(&shard, 1);
    shard_kill(&shard, 0);
    hold_a_commit(&session);
    shard_must_serve(&shard, 1);
    shard_publish(alice, SHARD_VALUES);
    shard_must_have(&shard, 2 * SHARD_VALUES);
    must_close(&alice);
    process_fini(&session);
}

static void must_query(const char *sql, char *out, size_t bytes)
{
    cr_assert(postgres_query(&postgres, 0, sql, out, bytes), "%s", postgres.why);
}

static enum door_verdict ask(struct door *door, const char *sql, char *out, size_t bytes)
{
    struct door_statement statement = {.count = 0};
    struct door_answer answer;
    snprintf(statement.sql, sizeof statement.sql, "%s", sql);
    door->ops->run(door, &statement, 1, &answer);
    if (out != NULL && answer.verdict == DOOR_DONE && door->ops->rows(&answer) == 1)
        snprintf(out, bytes, "%s", (const char *)door->ops->field(&answer, 0, 0).data);
    door->ops->clear(&answer);
    return answer.verdict;
}

/* The broker's path to the server broke in the midst of a commit, and the server was not told: that
 * session waits for the rest of it.  What it wrote has the key of each piece that may come next. */
static void leave_half_a_commit(struct door *door)
{
    char why[DOOR_WHY_BYTES], pid[16], piece[64], sql[300];
    process_signal(&shard.brokers[0], SIGSTOP);
    must_query("SELECT pg_terminate_backend(session) FROM errbus_shard", sql, sizeof sql);
    cr_assert(postgres_await(&postgres, 0,
                             "SELECT 1 FROM errbus_shard WHERE NOT EXISTS"
                             " (SELECT FROM pg_stat_activity WHERE pid = session)"),
              "%s", postgres.why);
    must_query("SELECT 'errbus_piece_0_' || file FROM errbus_file WHERE name LIKE '%.journal'"
               " ORDER BY name DESC LIMIT 1",
               piece, sizeof piece);
    cr_assert(door->ops->connect(door, postgres.conninfo, why), "%s", why);
    cr_assert_eq(ask(door, "SELECT pg_backend_pid()::text", pid, sizeof pid), DOOR_DONE);
    cr_assert_eq(ask(door, "BEGIN", NULL, 0), DOOR_DONE);
    snprintf(sql, sizeof sql,
             "INSERT INTO %s SELECT (SELECT seq + 1 FROM errbus_shard), at, 'x'"
             " FROM generate_series(0, 65536) AS at",
             piece);
    cr_assert_eq(ask(door, sql, NULL, 0), DOOR_DONE);
    snprintf(sql, sizeof sql,
             "UPDATE errbus_shard SET session = %s,"
             " ends = clock_timestamp() + interval '6 s' RETURNING 1",
             pid);
    must_query(sql, piece, sizeof piece);
    process_signal(&shard.brokers[0], SIGCONT);
}

Test(postgres, waits_for_no_commit_that_it_began_itself)
{
    shard_skip_without_server(&shard);
    struct bus *alice = shard_begin(&shard);
    struct door *door = door_new();
    cr_assert_not_null(door);
    leave_half_a_commit(door);
    shard_publish(alice, SHARD_VALUES);
    cr_expect_neq(ask(door, "SELECT 1", NULL, 0), DOOR_DONE, "its session is there still");
    shard_must_have(&shard, 2 * SHARD_VALUES);
    door->ops->close(door);
    must_close(&alice);
}

/* ---- the directory --------------------------------------------------------------------------- */

/* All rows of a shard, in a line. */
static void must_be_there(const char *rows)
{
    char found[200] = "";
    cr_assert(postgres_query(&postgres, 0,
                             "SELECT (SELECT string_agg(job || ' ' || shard, ',' ORDER BY job)"
                             " FROM errbus_job) || '; ' || (SELECT control FROM errbus_endpoint)",
                             found, sizeof found),
              "%s", postgres.why);
    cr_expect_str_eq(found, rows);
}

/* What it says of itself and of its jobs comes behind what the next holder said.  Where a server
 * was promoted that lacks an epoch, that epoch has two holders. */
Test(postgres, lets_a_replaced_holder_change_nothing_in_the_directory)
{
    char where[POSTGRES_CONNINFO_BYTES + 16];
    const struct disk_shard place = {.number = 0};
    struct directory_begun begun = {.ours = NULL};
    shard_skip_without_server(&shard);
    shard_start(&shard, 0); /* makes the tables */
    shard_must_serve(&shard, 0);
    shard_kill(&shard, 0);
    snprintf(where, sizeof where, "postgres:%s", postgres.conninfo);
    struct directory *old = directory_open(where, &place, &(struct directory_asker){7, "b"});
    struct directory *next = directory_open(where, &place, &(struct directory_asker){8, "b"});
    struct directory *other = directory_open(where, &place, &(struct directory_asker){8, "c"});
    cr_assert(postgres_query(&postgres, 0,
                             "UPDATE errbus_shard SET epoch = 8, holder = 'b' RETURNING 1",
                             (char[8]){""}, 8),
              "%s", postgres.why);
    cr_assert_eq(directory_begin(next, "tcp://next:1", "mine", &begun), 0, "%s",
                 directory_why(next));
    free(begun.ours);
    must_be_there("mine 0; tcp://next:1");
    cr_expect_eq(directory_begin(old, "tcp://old:1", "other", &begun), -DISK_FENCED);
    must_be_there("mine 0; tcp://next:1");
    cr_expect_eq(directory_begin(other, "tcp://other:1", "other", &begun), -DISK_FENCED);
    must_be_there("mine 0; tcp://next:1");
    cr_expect_eq(directory_leave(old, "mine"), 0);
    cr_expect_eq(directory_leave(other, "mine"), 0);
    must_be_there("mine 0; tcp://next:1");
    directory_close(&other);
    directory_close(&old);
    directory_close(&next);
}
