/* SPDX-License-Identifier: MPL-2.0 */
/* rotation_test.c -- the key of a client, and that of the broker, are changed while a party writes
 * and another reads: no value is lost, and none comes twice.  A key ends with its day. */
#include "tests/lib/expect.h"
#include "tests/lib/folder.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <bus/access.h>

#define PATH_BYTES 256
#define TEXT_BYTES 2048

enum {
    DAY_S = 24 * 3600,
    AT_ONCE = 200
}; /* values that are written before the next thing is changed */

static struct folder folder;
static char alice_path[PATH_BYTES], bob_path[PATH_BYTES], new_path[PATH_BYTES];
static char alice_key[BUS_KEY_TEXT_BYTES], bob_key[BUS_KEY_TEXT_BYTES];
static char new_key[BUS_KEY_TEXT_BYTES];
static char broker_path[PATH_BYTES], journal[PATH_BYTES], access_path[FOLDER_PATH_BYTES_MAX];

static void make_key(const char *name, char path[PATH_BYTES], char key[BUS_KEY_TEXT_BYTES])
{
    snprintf(path, PATH_BYTES, "%s/%s", folder.path, name);
    expect_code(bus_key_new(path, key, NULL), BUS_OK);
}

/* The keys of alice; NULL: no second one. */
static void write_access(const char *first, const char *second)
{
    char text[TEXT_BYTES];
    snprintf(text, sizeof text,
             "key alice %s\n%s%s%skey bob %s\nallow alice party in default\n"
             "allow bob party in default\nallow bob admin\n",
             first, second != NULL ? "key alice " : "", second != NULL ? second : "",
             second != NULL ? "\n" : "", bob_key);
    cr_assert(folder_write(&folder, "access", text, access_path));
}

static void open_all(void)
{
    unsetenv("ERRBUS_KEY");
    cr_assert(folder_make(&folder));
    make_key("alice.key", alice_path, alice_key);
    make_key("bob.key", bob_path, bob_key);
    snprintf(broker_path, sizeof broker_path, "%s/broker.key", folder.path);
    snprintf(journal, sizeof journal, "%s/journal", folder.path);
    write_access(alice_key, NULL);
    stage_open_with((const char *const[]){"--access", access_path, "--key", broker_path,
                                          "--journal", journal, NULL});
}

static void close_all(void)
{
    stage_close();
    folder_fini(&folder);
}

TestSuite(rotation, .init = open_all, .fini = close_all, .timeout = 180);

static struct bus *must_open_as(const char *party, const char *path, const char *endpoint)
{
    struct bus_options options;
    struct bus *bus = NULL;
    bus_options_init(&options);
    options.party = party;
    options.key = path;
    options.reconnect_grace_ms = 2 * SOON_MS;
    options.broker_lost_ms = 4 * SOON_MS;
    options.send_timeout_ms = 4 * SOON_MS;
    expect_code(bus_open(endpoint, &options, SOON_MS, &bus, NULL), BUS_OK);
    return bus;
}

/* ---- a party that writes all the time -------------------------------------------------------- */

static struct {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t news;
    struct bus *bus;
    uint64_t written;
    bool is_last; /* what it writes now is the last */
    bool is_over;
    enum bus_err err;
} writer = {.lock = PTHREAD_MUTEX_INITIALIZER, .news = PTHREAD_COND_INITIALIZER};
static uint64_t taken; /* by the reader */

static void *write_on(void *arg)
{
    bool is_over = false;
    (void)arg; /* all is in writer */
    while (!is_over) {
        char text[32];
        snprintf(text, sizeof text, "value %llu", (unsigned long long)writer.written);
        enum bus_err err = bus_publish(writer.bus, "w", text, strlen(text));
        pthread_mutex_lock(&writer.lock);
        writer.err = err;
        writer.written += err == BUS_OK;
        is_over = writer.is_last || err != BUS_OK;
        writer.is_over = is_over;
        pthread_cond_signal(&writer.news);
        pthread_mutex_unlock(&writer.lock);
    }
    return NULL;
}

static void begin_to_write(struct bus *bus)
{
    writer.bus = bus;
    cr_assert_eq(pthread_create(&writer.thread, NULL, write_on, NULL), 0);
}

static void take_next(struct bus_sub *sub)
{
    expect_value(sub, "alice/w", taken, "value %llu", (unsigned long long)taken);
    taken += 1;
}

/* Each value is there, once, in its place. */
static void take_some(struct bus_sub *sub)
{
    for (int i = 0; i < AT_ONCE; i++)
        take_next(sub);
}

/* Whether another value was written; false: it is over, and all are taken. */
static bool is_more_written(void)
{
    pthread_mutex_lock(&writer.lock);
    while (writer.written == taken && !writer.is_over)
        pthread_cond_wait(&writer.news, &writer.lock);
    bool is_more = writer.written > taken;
    pthread_mutex_unlock(&writer.lock);
    return is_more;
}

static void end_writing(struct bus_sub *sub)
{
    pthread_mutex_lock(&writer.lock);
    writer.is_last = true;
    pthread_mutex_unlock(&writer.lock);
    while (is_more_written())
        take_next(sub);
    pthread_join(writer.thread, NULL);
    cr_assert_eq(writer.err, BUS_OK, "%s", code_name(writer.err));
}

/* ---- the key of a client --------------------------------------------------------------------- */

static struct bus_admin *must_administer(const char *endpoint)
{
    struct bus_admin_options options;
    struct bus_admin *admin = NULL;
    bus_admin_options_init(&options);
    options.key = bob_path;
    expect_code(bus_admin_open(endpoint, &options, SOON_MS, &admin, NULL), BUS_OK);
    return admin;
}

static void expect_key(struct bus_admin *admin, const char *party, const char *key)
{
    struct bus_who *who = NULL;
    bool is_there = false;
    expect_code(bus_who_get(admin, SOON_MS, &who, NULL), BUS_OK);
    for (size_t i = 0; i < bus_who_count(who); i++)
        is_there |= strcmp(bus_who_at(who, i)->party, party) == 0 &&
                    strcmp(bus_who_at(who, i)->identity, key) == 0;
    bus_who_free(&who);
    cr_expect(is_there, "%s has not the key %s", party, key);
}

/* The four steps of errbus-access(1). */
Test(rotation, of_a_client_loses_nothing)
{
    struct bus *alice = must_open_as("alice", alice_path, stage.control);
    struct bus *bob = must_open_as("bob", bob_path, stage.control);
    struct bus_admin *admin = must_administer(stage.control);
    struct bus_sub *sub = must_subscribe(bob, "alice/w");
    struct bus_slot *slot = must_reserve(alice, "promised");
    uint32_t revoked = 1;
    begin_to_write(alice);
    take_some(sub);
    make_key("new.key", new_path, new_key);
    write_access(alice_key, new_key);
    expect_code(bus_access_reload(admin, SOON_MS, &revoked, NULL), BUS_OK);
    take_some(sub);
    cr_assert_eq(rename(new_path, alice_path), 0);
    take_some(sub);
    expect_key(admin, "alice", alice_key); /* the connection is still the old one */
    write_access(new_key, NULL);
    expect_code(bus_access_reload(admin, SOON_MS, &revoked, NULL), BUS_OK);
    cr_expect_eq(revoked, 0);
    take_some(sub);
    take_some(sub);
    end_writing(sub);
    must_commit(&slot, "kept");
    must_flush(alice);
    expect_key(admin, "alice", new_key);
    expect_awaited(bob, "alice/promised", 0, "kept");
    bus_sub_close(&sub);
    bus_admin_close(&admin);
    must_close(&bob);
    must_close(&alice);
}

/* ---- the key of the broker ------------------------------------------------------------------- */

/* "tcp://ebp_...@HOST:PORT" in two parts. */
static void split(const char *endpoint, char key[BUS_KEY_TEXT_BYTES], char address[PATH_BYTES])
{
    const char *at = strchr(endpoint, '@');
    cr_assert(strncmp(endpoint, "tcp://ebp_", 10) == 0 && at != NULL, "%s", endpoint);
    snprintf(key, BUS_KEY_TEXT_BYTES, "%.*s", (int)(at - endpoint - 6), endpoint + 6);
    snprintf(address, PATH_BYTES, "%s", at + 1);
}

static void start_with_key(const char *path, const char *control, const char *data)
{
    char at[2][PATH_BYTES + 8];
    const char *line = NULL;
    snprintf(at[0], sizeof at[0], "tcp://%s", control);
    snprintf(at[1], sizeof at[1], "tcp://%s", data);
    const char *const argv[] = {"errbusd",   "--control", at[0], "--data",    at[1],   "--access",
                                access_path, "--key",     path,  "--journal", journal, NULL};
    cr_assert(process_start(&stage.process, argv, NULL));
    cr_assert(process_line(&stage.process, 2 * SOON_MS, &line), "%s",
              process_complained(&stage.process));
}

Test(rotation, of_the_broker_loses_nothing)
{
    char old_key[BUS_KEY_TEXT_BYTES], data_key[BUS_KEY_TEXT_BYTES];
    char control[PATH_BYTES], data[PATH_BYTES], both[3 * PATH_BYTES];
    split(stage.control, old_key, control);
    snprintf(data, sizeof data, "%s", stage.data);
    if (strchr(stage.data, '@') != NULL)
        split(stage.data, data_key, data);
    else
        memmove(data, data + strlen("tcp://"), strlen(data) - strlen("tcp://") + 1);
    make_key("broker-2.key", new_path, new_key);
    snprintf(both, sizeof both, "tcp://%s@%s,tcp://%s@%s", old_key, control, new_key, control);
    struct bus *alice = must_open_as("alice", alice_path, both);
    struct bus *bob = must_open_as("bob", bob_path, both);
    struct bus_sub *sub = must_subscribe(bob, "alice/w");
    begin_to_write(alice);
    take_some(sub);
    process_signal(&stage.process, SIGTERM);
    cr_assert_eq(process_wait(&stage.process, SOON_MS), 0);
    process_fini(&stage.process);
    start_with_key(new_path, control, data);
    take_some(sub);
    take_some(sub);
    end_writing(sub);
    must_flush(alice);
    bus_sub_close(&sub);
    must_close(&bob);
    must_close(&alice);
    snprintf(both, sizeof both, "tcp://%s@%s", new_key, control); /* the new one suffices now */
    alice = must_open_as("alice", alice_path, both);
    must_close(&alice);
}

/* ---- the last day of a key ------------------------------------------------------------------- */

/* As in tests/lib/skew/skew.c: what the clocks of the broker are ahead. */
enum { OF_MACHINE, ON_WALL, CLOCKS };
static _Atomic int64_t *ahead_s;

static void start_with_clocks(void)
{
    char path[PATH_BYTES], variable[PATH_BYTES + 32], control[PATH_BYTES];
    const char *line = NULL;
    stage_close();
    snprintf(path, sizeof path, "%s/clocks", folder.path);
    snprintf(variable, sizeof variable, "ERRBUS_SKEW_FILE=%s", path);
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    cr_assert_geq(fd, 0);
    cr_assert_eq(ftruncate(fd, CLOCKS * sizeof *ahead_s), 0);
    void *found = mmap(NULL, CLOCKS * sizeof *ahead_s, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    cr_assert_neq(found, MAP_FAILED);
    ahead_s = found;
    close(fd);
    const char *const argv[] = {"errbusd_failpoints",
                                "--control",
                                "tcp://127.0.0.1:*",
                                "--data",
                                "tcp://127.0.0.1:*",
                                "--access",
                                access_path,
                                "--key",
                                broker_path,
                                "--journal",
                                "none",
                                NULL};
    cr_assert(process_start(&stage.process, argv, (const char *const[]){variable, NULL}));
    cr_assert(process_line(&stage.process, 2 * SOON_MS, &line), "%s",
              process_complained(&stage.process));
    cr_assert_eq(sscanf(line, "errbusd ready control=%255s ", control), 1);
    snprintf(stage.control, sizeof stage.control, "%s", control);
}

/* The first key of alice ends tomorrow, as carol's only one; alice has another one as well. */
static void write_access_until_tomorrow(const char *carol_key)
{
    char text[TEXT_BYTES], day[32];
    time_t tomorrow = time(NULL) + DAY_S;
    struct tm date;
    cr_assert_not_null(gmtime_r(&tomorrow, &date));
    cr_assert_gt(strftime(day, sizeof day, "%Y-%m-%d", &date), 0);
    snprintf(text, sizeof text,
             "key alice %s until %s\nkey alice %s\nkey carol %s until %s\nkey bob %s\n"
             "group all alice bob carol\nallow all party in default\nallow bob admin\n",
             alice_key, day, new_key, carol_key, day, bob_key);
    cr_assert(folder_write(&folder, "access", text, access_path));
}

/* Nobody reloads anything: the clock alone ends the key.  Whoever has another key goes on. */
Test(rotation, of_a_key_that_ends_with_its_day)
{
    char carol_path[PATH_BYTES], carol_key[BUS_KEY_TEXT_BYTES];
    struct bus_error *error = NULL;
    struct bus_msg *msg = NULL;
    make_key("carol.key", carol_path, carol_key);
    make_key("new.key", new_path, new_key);
    write_access_until_tomorrow(carol_key);
    start_with_clocks();
    struct bus *alice = must_open_as("alice", alice_path, stage.control);
    struct bus *bob = must_open_as("bob", bob_path, stage.control);
    struct bus *carol = must_open_as("carol", carol_path, stage.control);
    struct bus_admin *admin = must_administer(stage.control);
    struct bus_sub *sub = must_subscribe(bob, "alice/w");
    must_publish(alice, "w", "before");
    must_publish(carol, "w", "before");
    expect_awaited(bob, "carol/w", 0, "before");
    expect_value(sub, "alice/w", 0, "before");
    cr_assert_eq(rename(new_path, alice_path), 0);
    expect_key(admin, "alice", alice_key); /* nothing has ended yet */
    atomic_store(&ahead_s[ON_WALL], 2 * DAY_S);
    expect_code_of(bus_await(carol, "bob/never", 0, 2 * SOON_MS, &msg, &error), BUS_EDENIED,
                   &error);
    must_publish(alice, "w", "after");
    must_flush(alice);
    expect_value(sub, "alice/w", 1, "after"); /* by the same incarnation */
    expect_key(admin, "alice", new_key);
    (void)bus_close(&carol, BUS_POLL); /* the broker does not let it in */
    bus_sub_close(&sub);
    bus_admin_close(&admin);
    must_close(&bob);
    must_close(&alice);
    munmap(ahead_s, CLOCKS * sizeof *ahead_s);
}
