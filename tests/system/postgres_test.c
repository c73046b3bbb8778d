/* SPDX-License-Identifier: MPL-2.0 */
/* postgres_test.c -- a journal in a real PostgreSQL, which each test starts in a folder of its own,
 * and reaches by a socket in it.  As root the server runs as the user nobody. */
#include "tests/lib/expect.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PROGRAMS "/usr/lib/postgresql/15/bin/"
enum {
    PLACES = 2,
    VALUES = 10,
    SERVER_MS = 60000,
    PATH_BYTES = FOLDER_PATH_BYTES_MAX + 64,
    ARGS_MAX = 32,
    POLL_US = 20000,
};

static struct folder folder;
static struct process server;
static struct process brokers[PLACES];
static char servers[2 * PATH_BYTES]; /* both places, for clients */

/* ---- the server ------------------------------------------------------------------------------ */

/* Starts a program of PostgreSQL, as a user who may run it; NULL behind the arguments. */
static void start_program(struct process *process, const char *const *arguments)
{
    static const char *const as_nobody[] = {"/usr/bin/setpriv", "--reuid=nobody", "--regid=nogroup",
                                            "--clear-groups", "--pdeathsig=KILL"};
    const char *argv[ARGS_MAX] = {NULL};
    size_t count = 0;
    if (geteuid() == 0)
        for (; count < sizeof as_nobody / sizeof as_nobody[0]; count++)
            argv[count] = as_nobody[count];
    for (size_t i = 0; arguments[i] != NULL && count + 1 < ARGS_MAX; i++)
        argv[count++] = arguments[i];
    cr_assert(process_start(process, argv, NULL));
}

static void run_program(const char *const *arguments)
{
    struct process process = {0};
    start_program(&process, arguments);
    int code = process_wait(&process, SERVER_MS);
    cr_assert_eq(code, 0, "%s: %d: %s", arguments[0], code, process_complained(&process));
    process_fini(&process);
}

/* What a query answers: one field, or lines.  false: it failed, or it has no answer. */
static bool query(const char *sql, char *out, size_t bytes)
{
    const char *const argv[] = {PROGRAMS "psql", "-XqAt", "-h", folder.path, "-U",
                                "postgres",      "-c",    sql,  NULL};
    struct process process = {0};
    start_program(&process, argv);
    int code = process_wait(&process, SERVER_MS);
    snprintf(out, bytes, "%s", process_said(&process));
    process_fini(&process);
    return code == 0 && *out != '\0';
}

static void wait_for(const char *sql)
{
    char answer[200];
    int64_t end_ms = test_now_ms() + SERVER_MS;
    while (!query(sql, answer, sizeof answer)) {
        cr_assert_lt(test_now_ms(), end_ms, "no answer to: %s", sql);
        usleep(POLL_US);
    }
}

static void start_server(void)
{
    char data[PATH_BYTES], sockets[PATH_BYTES];
    snprintf(data, sizeof data, "%s/data", folder.path);
    snprintf(sockets, sizeof sockets, "unix_socket_directories=%s", folder.path);
    const char *const make[] = {PROGRAMS "initdb", "-D", data, "-A", "trust", "-N", "-U",
                                "postgres",        NULL};
    const char *const serve[] = {PROGRAMS "postgres",  "-D", data,    "-c",
                                 "listen_addresses=",  "-c", sockets, "-c",
                                 "max_connections=30", NULL};
    run_program(make);
    start_program(&server, serve);
    wait_for("SELECT 1");
}

/* From here on commits wait for a standby that there is not, or for none. */
static void set_standbys(const char *names)
{
    char sql[200];
    char answer[200];
    snprintf(sql, sizeof sql, "ALTER SYSTEM SET synchronous_standby_names = '%s'", names);
    (void)query(sql, answer, sizeof answer); /* it answers nothing */
    cr_assert(query("SELECT pg_reload_conf()", answer, sizeof answer));
    snprintf(sql, sizeof sql, "SELECT 1 WHERE current_setting('synchronous_standby_names') = '%s'",
             names);
    wait_for(sql);
}

static void init(void)
{
    cr_assert(folder_make(&folder));
    cr_assert_eq(chmod(folder.path, 0777), 0); /* for the user of the server */
    snprintf(servers, sizeof servers, "ipc://%s/control0,ipc://%s/control1", folder.path,
             folder.path);
    if (access(PROGRAMS "postgres", X_OK) == 0)
        start_server();
}

static void fini(void)
{
    for (int place = 0; place < PLACES; place++)
        process_fini(&brokers[place]);
    process_fini(&server);
    folder_fini(&folder);
}

TestSuite(postgres, .init = init, .fini = fini, .timeout = 300);

static void skip_without_server(void)
{
    if (server.pid == 0)
        cr_skip_test("there is no PostgreSQL: install the package postgresql-15");
}

/* ---- brokers --------------------------------------------------------------------------------- */

/* Each place is a machine: it has a cache of its own. */
static void start_broker(int place, const char *replicas)
{
    char control[PATH_BYTES], data[PATH_BYTES], cache[PATH_BYTES], journal[2 * PATH_BYTES];
    snprintf(control, sizeof control, "ipc://%s/control%d", folder.path, place);
    snprintf(data, sizeof data, "ipc://%s/data%d", folder.path, place);
    snprintf(cache, sizeof cache, "%s/cache%d", folder.path, place);
    snprintf(journal, sizeof journal, "postgres:host=%s user=postgres dbname=postgres",
             folder.path);
    const char *const argv[] = {"errbusd", "--control", control, "--data",     data,     "--cache",
                                cache,     "--journal", journal, "--replicas", replicas, NULL};
    process_fini(&brokers[place]);
    cr_assert(process_start(&brokers[place], argv, NULL));
}

static void must_serve(int place)
{
    const char *line = NULL;
    cr_assert(process_line(&brokers[place], SOON_MS, &line), "%s",
              process_complained(&brokers[place]));
}

static void kill_broker(int place)
{
    process_signal(&brokers[place], SIGKILL);
    cr_assert_eq(process_wait(&brokers[place], SOON_MS), 128 + SIGKILL);
}

/* It waits, and says so. */
static void start_spare(int place)
{
    const char *line = NULL;
    start_broker(place, "0");
    cr_assert(process_complaint(&brokers[place], SOON_MS, &line));
    cr_expect_not_null(strstr(line, "another broker has the shard"), "%s", line);
}

static void publish(struct bus *alice, int from)
{
    for (int i = from; i < from + VALUES; i++)
        must_publish(alice, "w", "%d", i);
    must_flush(alice);
}

static void expect_values(struct bus_sub *sub, int until)
{
    for (int i = 0; i < until; i++)
        expect_value(sub, "alice/w", (uint64_t)i, "%d", i);
}

/* ---- tests ----------------------------------------------------------------------------------- */

Test(postgres, goes_on_elsewhere_when_a_broker_is_killed)
{
    skip_without_server();
    struct bus_options options = patient_options("alice");
    start_broker(0, "0");
    must_serve(0);
    struct bus *alice = must_open_at(servers, &options);
    publish(alice, 0);
    for (int turn = 0; turn < 2; turn++) {
        start_spare((turn + 1) % PLACES);
        kill_broker(turn % PLACES);
        must_serve((turn + 1) % PLACES);
        publish(alice, (turn + 1) * VALUES);
    }
    options.party = "bob";
    struct bus *bob = must_open_at(servers, &options);
    struct bus_sub *sub = must_subscribe(bob, "alice/w");
    expect_values(sub, 3 * VALUES);
    bus_sub_close(&sub);
    must_close(&bob);
    must_close(&alice);
}

/* A broker that was stopped for longer than its lease writes nothing more, and ends. */
Test(postgres, fences_a_broker_that_was_stopped)
{
    skip_without_server();
    struct bus_options options = patient_options("alice");
    start_broker(0, "0");
    must_serve(0);
    struct bus *alice = must_open_at(servers, &options);
    publish(alice, 0);
    start_spare(1);
    process_signal(&brokers[0], SIGSTOP);
    must_serve(1);
    process_signal(&brokers[0], SIGCONT);
    cr_expect_eq(process_wait(&brokers[0], SOON_MS), 1);
    cr_expect_not_null(strstr(process_complained(&brokers[0]), "another broker has taken over"),
                       "%s", process_complained(&brokers[0]));
    publish(alice, VALUES);
    must_close(&alice);
}

/* A commit whose wait for a standby is cancelled succeeds on one node alone: nobody is told that it
 * did until a later one is confirmed. */
Test(postgres, acknowledges_no_commit_that_was_cancelled)
{
    skip_without_server();
    char answer[200];
    struct bus_options options = patient_options("alice");
    start_broker(0, "0");
    must_serve(0);
    struct bus *alice = must_open_at(servers, &options);
    publish(alice, 0);
    set_standbys("ANY 1 (nobody)");
    must_publish(alice, "w", "%d", VALUES);
    for (int i = 0; i < 2; i++) {
        wait_for("SELECT 1 FROM pg_stat_activity WHERE wait_event = 'SyncRep'");
        cr_assert(query("SELECT pg_cancel_backend(pid) FROM pg_stat_activity"
                        " WHERE wait_event = 'SyncRep'",
                        answer, sizeof answer));
    }
    wait_for("SELECT 1 FROM pg_stat_activity WHERE wait_event = 'SyncRep'");
    expect_code(bus_flush(alice, 100), BUS_ETIMEDOUT);
    set_standbys("");
    must_flush(alice);
    must_close(&alice);
}

Test(postgres, refuses_a_server_that_does_not_keep_the_promise)
{
    skip_without_server();
    start_broker(0, "1");
    cr_expect_eq(process_wait(&brokers[0], SOON_MS), 1);
    cr_expect_not_null(strstr(process_complained(&brokers[0]), "set it to 'ANY 1 (NAME, NAME)'"),
                       "%s", process_complained(&brokers[0]));
}
