/* SPDX-License-Identifier: MPL-2.0 */
/* service_test.c -- the broker as a service: what it tells the manager that started it, which the
 * test plays with a socket of its own. */
#include "tests/lib/expect.h"
#include "tests/lib/manager.h"
#include "tests/lib/revival.h"

#include <bus/bus.h>
#include <criterion/criterion.h>
#include <dirent.h>
#include <inttypes.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

enum { RECORDS = 40, LARGE_RECORDS = 1024, UNIT_TIMEOUT_MS = 4000, SIGNS = 3 };
/* Of signs of life that would come every 20 ms. */
enum { SILENCE_MS = 500 };

static struct manager manager = {.fd = -1};

/* ---- the manager ------------------------------------------------------------------------------*/

static void expect_heard(const char *line)
{
    cr_assert(manager_hear(&manager, SOON_MS), "'%s' does not come: %s", line,
              process_complained(&stage.process));
    cr_expect(strncmp(manager.message, line, strlen(line)) == 0, "'%s' does not begin with '%s'",
              manager.message, line);
}

static void set_up(void)
{
    char path[FOLDER_PATH_BYTES_MAX + 16];
    revival_open();
    snprintf(path, sizeof path, "%s/notify", revival.folder.path);
    manager_listen(&manager, path);
}

static void tear_down(void)
{
    manager_close(&manager);
    revival_close();
}

TestSuite(service, .init = set_up, .fini = tear_down, .timeout = 120);

/* program: errbusd, or the one for tests. */
static void start(const char *program, const char *const *environment)
{
    const char *const argv[] = {program,      "--control", revival.control, "--data",
                                revival.data, "--journal", revival.journal, NULL};
    cr_assert(process_start(&stage.process, argv, environment));
}

static void stop(void)
{
    process_signal(&stage.process, SIGTERM);
    cr_expect_eq(process_wait(&stage.process, SOON_MS), 0, "%s",
                 process_complained(&stage.process));
}

/* ---- what it is told ------------------------------------------------------------------------- */

/* Whoever connects when the manager has heard that the broker is ready gets through. */
static void expect_listening(const char *endpoint)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%s", endpoint + strlen("ipc://"));
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    cr_expect_eq(connect(fd, (struct sockaddr *)&address, sizeof address), 0, "%s", endpoint);
    close(fd);
}

Test(service, is_ready_when_it_listens)
{
    start("errbusd", (const char *const[]){manager.variable, NULL});
    expect_heard("READY=1\nSTATUS=serving");
    expect_listening(revival.control);
    expect_listening(revival.data);
    stop();
    expect_heard("STOPPING=1\n");
    cr_expect_not(manager_hear(&manager, 0), "%s", manager.message);
}

Test(service, takes_an_abstract_socket)
{
    char name[64];
    manager_close(&manager);
    snprintf(name, sizeof name, "@errbus-test-%ld", (long)getpid());
    manager_listen(&manager, name);
    start("errbusd", (const char *const[]){manager.variable, NULL});
    expect_heard("READY=1\n");
    stop();
}

/* The time in the message lets the manager tell this reload from one that it asked for before. */
Test(service, tells_of_a_reload_with_its_time)
{
    long long us = 0;
    start("errbusd", (const char *const[]){manager.variable, NULL});
    expect_heard("READY=1\n");
    int64_t before_us = test_now_ns() / 1000;
    process_signal(&stage.process, SIGHUP);
    expect_heard("RELOADING=1\nMONOTONIC_USEC=");
    cr_assert_eq(sscanf(manager.message, "RELOADING=1\nMONOTONIC_USEC=%lld\n", &us), 1, "%s",
                 manager.message);
    cr_expect(before_us <= us && us <= test_now_ns() / 1000, "%lld", us);
    expect_heard("READY=1\n");
    stop();
}

static void write_journal(void)
{
    revival_start("disk", NULL);
    struct bus *alice = revival_open_patient("alice");
    for (int i = 0; i < RECORDS; i++) {
        must_publish(alice, "a", "%d", i);
        must_flush(alice); /* so that each has a record of its own */
    }
    must_close(&alice);
    revival_kill();
}

/* In the broker for tests each record counts as five seconds. */
Test(service, asks_for_more_time_while_it_replays)
{
    int read = 0;
    int replayed = 0;
    int percent = -1;
    write_journal();
    start("errbusd_failpoints",
          (const char *const[]){manager.variable, "ERRBUS_NUMBER_EXTEND_MS=0", NULL});
    for (;;) {
        int now = 0;
        cr_assert(manager_hear(&manager, SOON_MS), "%s", process_complained(&stage.process));
        if (strncmp(manager.message, "READY=1\n", 8) == 0)
            break;
        if (strcmp(manager.message, "EXTEND_TIMEOUT_USEC=60000000\nSTATUS=reading the journal") ==
            0) {
            read += 1;
            cr_expect_eq(replayed, 0);
            continue;
        }
        cr_assert_eq(sscanf(manager.message,
                            "EXTEND_TIMEOUT_USEC=60000000\nSTATUS=replaying the journal: %d %%",
                            &now),
                     1, "%s", manager.message);
        cr_expect_geq(now, percent);
        percent = now;
        replayed += 1;
    }
    cr_expect_geq(read, RECORDS);
    cr_expect_geq(replayed, RECORDS);
    cr_expect_eq(percent, 100);
    stop();
}

/* ---- signals in the start -------------------------------------------------------------------- */

/* Each record takes so long that the start is not over when the signal comes. */
static void start_slowly(const char *slow)
{
    write_journal();
    start("errbusd_failpoints", (const char *const[]){manager.variable, slow, NULL});
    expect_heard("EXTEND_TIMEOUT_USEC=60000000\nSTATUS=reading the journal");
}

/* Nobody was promised anything yet, so nobody is told. */
Test(service, ends_at_once_when_it_is_stopped_while_it_reads_its_journal)
{
    static const int ends[] = {SIGTERM, SIGINT};
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        start_slowly("ERRBUS_SLOW=record:10000");
        process_signal(&stage.process, ends[i]);
        cr_expect_eq(process_wait(&stage.process, SOON_MS), 0, "%s",
                     process_complained(&stage.process));
        cr_expect_not(manager_hear(&manager, 0), "%s", manager.message);
        process_fini(&stage.process);
    }
}

Test(service, reads_the_access_file_again_behind_a_start_in_which_it_was_told_to)
{
    start_slowly("ERRBUS_SLOW=record:20");
    process_signal(&stage.process, SIGHUP);
    do
        cr_assert(manager_hear(&manager, SOON_MS), "%s", process_complained(&stage.process));
    while (strncmp(manager.message, "READY=1\n", 8) != 0);
    expect_heard("RELOADING=1\n");
    expect_heard("READY=1\n");
    stop();
}

/* ---- a long replay --------------------------------------------------------------------------- */

/* The end of the time that the manager gives, with what the last message asks for. */
static void extend(int64_t *until_ms)
{
    int64_t us = 0;
    const char *asked = strstr(manager.message, "EXTEND_TIMEOUT_USEC=");
    if (asked == NULL)
        return;
    cr_assert_eq(sscanf(asked, "EXTEND_TIMEOUT_USEC=%" SCNd64, &us), 1, "%s", manager.message);
    int64_t extended_ms = test_now_ms() + us / 1000;
    if (extended_ms > *until_ms)
        *until_ms = extended_ms;
}

static uint64_t folder_bytes(const char *path)
{
    uint64_t bytes = 0;
    DIR *folder = opendir(path);
    cr_assert_not_null(folder);
    for (struct dirent *entry; (entry = readdir(folder)) != NULL;) {
        struct stat status;
        if (fstatat(dirfd(folder), entry->d_name, &status, 0) == 0 && S_ISREG(status.st_mode))
            bytes += (uint64_t)status.st_size;
    }
    closedir(folder);
    return bytes;
}

/* Values that the topic keeps, each in a record of its own. */
static void write_large_journal(size_t value_bytes)
{
    char *value = malloc(value_bytes);
    cr_assert_not_null(value);
    memset(value, 'x', value_bytes);
    revival_start("process", (const char *const[]){"--topic-keep", "4G", NULL});
    struct bus *alice = revival_open_patient("alice");
    for (int i = 0; i < LARGE_RECORDS; i++) {
        expect_code(bus_publish(alice, "a", value, value_bytes), BUS_OK);
        must_flush(alice);
    }
    must_close(&alice);
    revival_kill();
    free(value);
    cr_assert_gt(folder_bytes(revival.journal), LARGE_RECORDS * (uint64_t)value_bytes);
}

/* A manager that kills what is not ready in time, unless it is asked for more.  The time stands for
 * the 90 s of a unit.  A disk on which each record takes 4 ms makes the replay longer than that,
 * and longer than the time between two messages.  TEST_LARGE=1: the journal has 1 GiB. */
Test(service, lives_through_a_replay_longer_than_its_timeout)
{
    const char *large = getenv("TEST_LARGE");
    bool is_large = large != NULL && large[0] == '1';
    int asked = 0;
    write_large_journal((is_large ? 1024 : 64) * 1024);
    int64_t began_ms = test_now_ms();
    int64_t until_ms = began_ms + UNIT_TIMEOUT_MS;
    const char *const argv[] = {
        "errbusd_failpoints", "--control",     revival.control, "--data", revival.data,
        "--journal",          revival.journal, "--topic-keep",  "4G",     NULL};
    cr_assert(process_start(&stage.process, argv,
                            (const char *const[]){manager.variable, "ERRBUS_SLOW=record:4", NULL}));
    for (;;) {
        int64_t left_ms = until_ms - test_now_ms();
        cr_assert(manager_hear(&manager, left_ms > 0 ? left_ms : 0),
                  "the manager kills it after %lld ms: %s", (long long)(test_now_ms() - began_ms),
                  process_complained(&stage.process));
        if (strncmp(manager.message, "READY=1\n", 8) == 0)
            break;
        extend(&until_ms);
        asked += 1;
    }
    cr_expect_gt(test_now_ms() - began_ms, UNIT_TIMEOUT_MS, "this replay shows nothing");
    cr_expect_geq(asked, 2, "it asks again while it replays");
    snprintf(stage.control, sizeof stage.control, "%s", revival.control);
    struct bus *bob = revival_open_patient("bob");
    struct bus_sub *sub = must_subscribe(bob, "alice/a");
    for (int i = 0; i < 2; i++) {
        struct bus_msg *msg = NULL;
        expect_code(bus_sub_recv(sub, SOON_MS, &msg, NULL), BUS_OK);
        cr_expect_eq(bus_msg_seq(msg), (uint64_t)i, "it has the values");
        bus_msg_free(&msg);
    }
    bus_sub_close(&sub);
    must_close(&bob);
    stop();
}

/* ---- signs of life --------------------------------------------------------------------------- */

Test(service, gives_signs_of_life_from_its_loop_alone)
{
    const char *line = NULL;
    start("errbusd_failpoints", (const char *const[]){manager.variable, "WATCHDOG_USEC=40000",
                                                      "ERRBUS_HOLD=round:60", NULL});
    expect_heard("READY=1\n");
    for (int i = 0; i < SIGNS; i++)
        expect_heard("WATCHDOG=1");
    do
        cr_assert(process_complaint(&stage.process, SOON_MS, &line), "the loop is not held");
    while (strcmp(line, "held") != 0);
    while (manager_hear(&manager, 0))
        cr_expect_str_eq(manager.message, "WATCHDOG=1");
    cr_expect_not(manager_hear(&manager, SILENCE_MS), "a broker whose loop is held says '%s'",
                  manager.message);
    cr_expect_eq(kill(stage.process.pid, 0), 0);
    revival_kill();
}

/* ---- no manager ------------------------------------------------------------------------------ */

Test(service, serves_when_the_manager_is_not_there)
{
    const char *line = NULL;
    start("errbusd", (const char *const[]){"NOTIFY_SOCKET=/nowhere/at/all", NULL});
    cr_assert(process_line(&stage.process, SOON_MS, &line), "%s",
              process_complained(&stage.process));
    stop();
    cr_expect_not_null(strstr(process_complained(&stage.process),
                              "warning: the service manager is not told that the broker serves: "
                              "the socket in $NOTIFY_SOCKET, '/nowhere/at/all': No such file"),
                       "%s", process_complained(&stage.process));
}

/* ---- the log --------------------------------------------------------------------------------- */

/* The text of a member, or "". */
static const char *member(const json_t *object, const char *name)
{
    const char *text = json_string_value(json_object_get(object, name));
    return text != NULL ? text : "";
}

/* Every line of a start, a party that is lost, and an end. */
Test(service, logs_an_object_a_line)
{
    bool has_loss = false;
    const char *const argv[] = {"errbusd",   "--control", revival.control, "--data", revival.data,
                                "--journal", "none",      "--log",         "json",   "--verbose",
                                NULL};
    const char *line = NULL;
    struct party alice;
    cr_assert(process_start(&stage.process, argv, NULL));
    cr_assert(process_line(&stage.process, SOON_MS, &line));
    snprintf(stage.control, sizeof stage.control, "%s", revival.control);
    party_start(&alice, "alice", (const char *const[]){"reconnect_grace_ms=0", NULL});
    party_kill(&alice);
    while (!has_loss) {
        json_error_t fault;
        cr_assert(process_complaint(&stage.process, SOON_MS, &line), "no loss is logged");
        json_t *object = json_loads(line, JSON_REJECT_DUPLICATES, &fault);
        cr_assert_not_null(object, "%s: %s", fault.text, line);
        cr_expect_eq(strlen(member(object, "time")), strlen("2026-01-01T00:00:00.000Z"));
        cr_expect_str_neq(member(object, "message"), "");
        if (strcmp(member(object, "event"), "party.lost") == 0) {
            has_loss = true;
            cr_expect_str_eq(member(object, "level"), "warning");
            cr_expect_str_eq(member(object, "job"), "default");
            cr_expect_str_eq(member(object, "party"), "alice");
            cr_expect_eq(strncmp(member(object, "error"), "default/alice/1/", 16), 0, "%s", line);
            cr_expect_null(json_object_get(object, "principal"), "nobody has a name here");
            cr_expect_eq(json_integer_value(json_object_get(object, "incarnation")), 1);
        }
        json_decref(object);
    }
    party_fini(&alice);
    stop();
}

/* What keeps it from starting is a record, too. */
Test(service, logs_why_it_does_not_start)
{
    json_error_t fault;
    const char *const argv[] = {"errbusd", "--control", "tcp://0.0.0.0:*", "--log", "json", NULL};
    cr_assert(process_start(&stage.process, argv, NULL));
    cr_expect_eq(process_wait(&stage.process, SOON_MS), 2);
    json_t *object = json_loads(process_complained(&stage.process), JSON_REJECT_DUPLICATES, &fault);
    cr_assert_not_null(object, "%s: %s", fault.text, process_complained(&stage.process));
    cr_expect_str_eq(member(object, "level"), "error");
    cr_expect_not_null(strstr(member(object, "message"), "can be reached from other machines"));
    json_decref(object);
}

/* A file stands in for the journal of systemd. */
Test(service, gives_priorities_to_the_journal)
{
    char file[FOLDER_PATH_BYTES_MAX];
    char program[512];
    cr_assert(folder_write(&revival.folder, "log", "", file));
    cr_assert_not_null(process_path("errbusd", program, sizeof program));
    const char *const argv[] = {
        "/bin/sh",
        "-c",
        "exec 2>\"$1\"; JOURNAL_STREAM=$(stat -c %d:%i \"$1\") exec \"$2\" --open "
        "--access x",
        "sh",
        file,
        program,
        NULL};
    cr_assert(process_start(&stage.process, argv, NULL));
    cr_expect_eq(process_wait(&stage.process, SOON_MS), 2);
    char line[256] = "";
    FILE *log = fopen(file, "r");
    cr_assert_not_null(log);
    cr_expect_not_null(fgets(line, sizeof line, log));
    fclose(log);
    cr_expect_str_eq(line, "<3>--open and --access exclude each other: remove one\n");
}

/* ---- the key --------------------------------------------------------------------------------- */

/* A key of the service manager comes before one of the broker's own directory. */
Test(service, takes_its_key_from_the_credentials)
{
    char access[FOLDER_PATH_BYTES_MAX];
    char key[FOLDER_PATH_BYTES_MAX + 16];
    char credentials[FOLDER_PATH_BYTES_MAX + 32];
    char made[256] = "";
    char taken[256] = "";
    const char *line = NULL;
    cr_assert(
        folder_write(&revival.folder, "access", "uid ops 0\nallow ops status in *\n", access));
    snprintf(key, sizeof key, "%s/broker.key", revival.folder.path);
    snprintf(credentials, sizeof credentials, "CREDENTIALS_DIRECTORY=%s", revival.folder.path);
    const char *argv[] = {
        "errbusd",   "--control", "tcp://127.0.0.1:*", "--data", "tcp://127.0.0.1:*",
        "--journal", "none",      "--access",          access,   "--key",
        key,         NULL};
    cr_assert(process_start(&stage.process, argv, NULL));
    cr_assert(process_line(&stage.process, SOON_MS, &line), "%s",
              process_complained(&stage.process));
    cr_assert_eq(sscanf(line, "errbusd ready control=tcp://%255[^@]@", made), 1, "%s", line);
    stop();
    process_fini(&stage.process);
    argv[9] = NULL; /* no --key; and STATE_DIRECTORY names no directory */
    cr_assert(process_start(&stage.process, argv, (const char *const[]){credentials, NULL}));
    cr_assert(process_line(&stage.process, SOON_MS, &line), "%s",
              process_complained(&stage.process));
    cr_assert_eq(sscanf(line, "errbusd ready control=tcp://%255[^@]@", taken), 1, "%s", line);
    cr_expect_str_eq(taken, made);
    stop();
}
