/* SPDX-License-Identifier: MPL-2.0 */
/* backup_test.c -- a journal is copied while a broker writes it: what was acknowledged before the
 * time that the command names is in the copy, and a broker goes on with it. */
#include "tests/lib/revival.h"

#include <bus/bus.h>
#include <criterion/criterion.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { VALUES_MAX = 20000, VALUE_BYTES = 6000, BACKUPS = 3, BEFORE = 60, PATH_BYTES = 192 };

static const char *const small_files[] = {
    "ERRBUS_NUMBER_CHECKPOINT_BYTES=300000", "ERRBUS_NUMBER_CHECKPOINT_MS=0",
    "ERRBUS_NUMBER_RECENT_BYTES=150000",     "ERRBUS_NUMBER_FLUSH_BYTES=150000",
    "ERRBUS_NUMBER_SEGMENT_BYTES=131072",    NULL};

TestSuite(backup, .init = revival_open, .fini = revival_close, .timeout = 300);

/* ---- the writer, in a thread of its own -------------------------------------------------------*/

static int64_t accepted_us[VALUES_MAX]; /* when each value was known to be acknowledged */
static atomic_int accepted;
static atomic_bool is_over;
static char complaint[256];

static int64_t wall_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

/* "NUMBER ", filled up. */
static const char *value_of(int number)
{
    static char value[VALUE_BYTES];
    memset(value, 'x', sizeof value);
    int bytes = snprintf(value, sizeof value, "%d", number);
    value[bytes] = ' ';
    return value;
}

/* Values that are kept, and beside each some that nobody keeps, so that files go. */
static void *write_values(void *arg)
{
    struct bus *alice = arg;
    for (int i = 0; i < VALUES_MAX && !atomic_load(&is_over); i++) {
        enum bus_err err = bus_publish(alice, "kept", value_of(i), i % 10 == 0 ? VALUE_BYTES : 16);
        for (int k = 0; k < 3 && err == BUS_OK; k++)
            err = bus_publish(alice, "gone", value_of(k), VALUE_BYTES);
        if (err == BUS_OK)
            err = bus_flush(alice, SOON_MS);
        if (err != BUS_OK) {
            snprintf(complaint, sizeof complaint, "value %d: %s", i, bus_strerror(err));
            break;
        }
        accepted_us[i] = wall_us();
        atomic_store(&accepted, i + 1);
    }
    return NULL;
}

static void await_accepted(int count)
{
    int64_t end_ms = test_now_ms() + 4 * SOON_MS;
    while (atomic_load(&accepted) < count && test_now_ms() < end_ms)
        usleep(1000);
    cr_assert_geq(atomic_load(&accepted), count, "%s", complaint);
}

/* ---- backups ----------------------------------------------------------------------------------*/

static void place_of(int number, char path[PATH_BYTES])
{
    snprintf(path, PATH_BYTES, "%s/backup%d", revival.folder.path, number);
}

/* The time that the command names, in microseconds of the wall clock. */
static int64_t time_in(const char *said)
{
    struct tm parts = {.tm_isdst = 0};
    long us = 0;
    const char *before = strstr(said, "acknowledged before ");
    cr_assert_not_null(before, "%s", said);
    const char *rest =
        strptime(before + strlen("acknowledged before "), "%Y-%m-%dT%H:%M:%S", &parts);
    cr_assert_not_null(rest, "%s", said);
    cr_assert_eq(sscanf(rest, ".%6ldZ is in it\n", &us), 1, "%s", said);
    return (int64_t)timegm(&parts) * 1000000 + us;
}

static int64_t back_up(const char *path)
{
    struct process process;
    const char *const argv[] = {"errbusd", "--backup", path, "--journal", revival.journal, NULL};
    cr_assert(process_start(&process, argv, NULL));
    cr_assert_eq(process_wait(&process, 4 * SOON_MS), 0, "%s", process_complained(&process));
    cr_expect_str_empty(process_complained(&process));
    int64_t until_us = time_in(process_said(&process));
    process_fini(&process);
    return until_us;
}

static void expect_whole(const char *path)
{
    struct process process;
    const char *const argv[] = {"errbusd", "--check", path, NULL};
    cr_assert(process_start(&process, argv, NULL));
    cr_expect_eq(process_wait(&process, SOON_MS), 0, "%s", process_said(&process));
    process_fini(&process);
}

/* How many of the values were acknowledged by then. */
static int count_until(int64_t us)
{
    int count = 0;
    while (count < atomic_load(&accepted) && accepted_us[count] < us)
        count++;
    return count;
}

/* A broker over the copy has these values, each as it was. */
static void expect_values(const char *path, const char *durability, int count)
{
    char control[PATH_BYTES];
    char data[PATH_BYTES];
    snprintf(control, sizeof control, "ipc://%s/copy", revival.folder.path);
    snprintf(data, sizeof data, "ipc://%s/copy.data", revival.folder.path);
    stage_open_with((const char *const[]){"--control", control, "--data", data, "--journal", path,
                                          "--durability", durability, NULL});
    struct bus *bob = must_open("bob");
    struct bus_sub_options options;
    bus_sub_options_init(&options);
    options.name = "keeper";
    struct bus_sub *sub = must_subscribe_with(bob, "alice/kept", &options);
    for (int i = 0; i < count; i++) {
        struct bus_msg *msg = NULL;
        size_t bytes = 0;
        enum bus_err err = bus_sub_recv(sub, SOON_MS, &msg, NULL);
        cr_assert_eq(err, BUS_OK, "value %d of %d: %s; %s", i, count, bus_strerror(err),
                     process_complained(&stage.process));
        const char *value = bus_msg_value(msg, &bytes);
        cr_assert_eq(bytes, i % 10 == 0 ? VALUE_BYTES : 16, "value %d", i);
        cr_assert_eq(memcmp(value, value_of(i), bytes), 0, "value %d", i);
        bus_msg_free(&msg);
    }
    bus_sub_close(&sub);
    must_close(&bob);
    stage_close();
}

static void copy_under_load(const char *durability)
{
    int64_t until_us[BACKUPS];
    char path[PATH_BYTES];
    pthread_t thread;
    cr_assert(revival_start_failing(durability, small_files,
                                    (const char *const[]){"--topic-window", "512M", NULL}),
              "%s", process_complained(&stage.process));
    struct bus *bob = revival_open_patient("bob");
    struct bus *alice = revival_open_patient("alice");
    struct bus_sub_options options;
    bus_sub_options_init(&options);
    options.name = "keeper";
    struct bus_sub *sub = must_subscribe_with(bob, "alice/kept", &options);
    bus_sub_close(&sub);
    must_close(&bob);
    atomic_store(&accepted, 0);
    atomic_store(&is_over, false);
    cr_assert_eq(pthread_create(&thread, NULL, write_values, alice), 0);
    for (int i = 0; i < BACKUPS; i++) {
        await_accepted(atomic_load(&accepted) + BEFORE);
        place_of(i, path);
        until_us[i] = back_up(path);
    }
    await_accepted(atomic_load(&accepted) + 1); /* it was not stopped */
    atomic_store(&is_over, true);
    pthread_join(thread, NULL);
    cr_expect_str_empty(complaint);
    must_close(&alice);
    revival_kill();
    for (int i = 0; i < BACKUPS; i++) {
        place_of(i, path);
        expect_whole(path);
        int count = count_until(until_us[i]);
        cr_expect_geq(count, (i + 1) * BEFORE);
        expect_values(path, durability, count);
    }
}

Test(backup, has_what_was_acknowledged_before_its_time)
{
    copy_under_load("disk");
}

/* Here files are written over when they are of no use any more. */
Test(backup, has_it_at_durability_process_too)
{
    copy_under_load("process");
}

/* ---- refusals ---------------------------------------------------------------------------------*/

static void expect_refusal(const char *const *argv, int status, const char *words)
{
    struct process process;
    cr_assert(process_start(&process, argv, NULL));
    cr_expect_eq(process_wait(&process, SOON_MS), status);
    cr_expect_str_empty(process_said(&process));
    cr_expect_not_null(strstr(process_complained(&process), words), "%s",
                       process_complained(&process));
    process_fini(&process);
}

Test(backup, refuses_what_it_cannot_do)
{
    char path[PATH_BYTES];
    char file[FOLDER_PATH_BYTES_MAX];
    place_of(0, path);
    expect_refusal((const char *const[]){"errbusd", "--backup", path, "--journal", "none", NULL}, 2,
                   "errbusd: --backup: the options say that there is no journal");
    expect_refusal(
        (const char *const[]){"errbusd", "--backup", path, "--journal", revival.journal, NULL}, 1,
        "errbusd: no backup was made: there is no directory '");
    expect_refusal((const char *const[]){"errbusd", "--backup", path, "--nonsense", NULL}, 2,
                   "unknown option '--nonsense'");
    expect_refusal((const char *const[]){"errbusd", "--backup", NULL}, 2,
                   "errbusd: --backup takes a directory");
    revival_start("disk", NULL);
    cr_assert(folder_write(&revival.folder, "other", "text", file));
    expect_refusal((const char *const[]){"errbusd", "--backup", revival.folder.path, "--journal",
                                         revival.journal, NULL},
                   1, "is not empty: name a directory that is empty or does not exist");
    stage_close();
}
