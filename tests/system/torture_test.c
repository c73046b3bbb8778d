/* SPDX-License-Identifier: MPL-2.0 */
/* torture_test.c -- writers and readers at work while the broker is killed and started again,
 * they are killed, stopped and started again, and the journal's volume fills up: by their diaries
 * nothing acknowledged is lost, nothing comes twice (tests/lib/diaries.h).
 *
 *   TORTURE_SEED=N    another course of events; it is told if the test fails
 *   TORTURE_KILLS=N   so many kills of the broker
 *   TEST_LONG=1       at least 100 of them */
#include "tests/lib/diaries.h"
#include "tests/lib/expect.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    WRITERS = 3,
    READERS = 2,
    PARTIES = WRITERS + READERS,
    KILLS = 5,
    KILLS_LONG = 110,
    EXIT_OVER = 3,
    VOLUME_MIB = 400, /* with room for a few segments, and not for all that is written */
    AN_END_MS = 120000,
};

struct victim {
    struct process process;
    char name[16];
    unsigned starts;
    bool is_writer;
    bool is_done;
};

static struct folder folder;
static char control[FOLDER_PATH_BYTES_MAX + 16];
static char data[FOLDER_PATH_BYTES_MAX + 16];
static char journal[FOLDER_PATH_BYTES_MAX + 16];
static bool has_volume;
static struct broker broker;
static struct victim victims[PARTIES];
static uint64_t seed;
static uint64_t dice;
static unsigned over_count;
static unsigned kill_count; /* of the broker */
static unsigned full_count; /* the broker noticed that the volume was full */
static bool is_ending;

static uint64_t below(uint64_t count)
{
    dice = dice * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (dice >> 33) % count;
}

static uint64_t number_of(const char *variable, uint64_t usual)
{
    const char *value = getenv(variable);
    return value != NULL && value[0] != '\0' ? strtoull(value, NULL, 10) : usual;
}

/* A file system of its own, seen by us and our children alone, that goes with us. */
static bool mount_volume(const char *path)
{
    char options[64];
    snprintf(options, sizeof options, "size=%dm", VOLUME_MIB);
    return mkdir(path, 0700) == 0 && unshare(CLONE_NEWNS) == 0 &&
           mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
           mount("errbus-torture", path, "tmpfs", 0, options) == 0;
}

/* ---- the broker -------------------------------------------------------------------------------*/

/* One with smaller files trims more often, and is full sooner; those of both sizes lie beside each
 * other. */
static void start_broker_as(bool is_small, const char *durability)
{
    static const char *const small[] = {
        "ERRBUS_NUMBER_SEGMENT_BYTES=4194304", "ERRBUS_NUMBER_CHECKPOINT_BYTES=16777216",
        "ERRBUS_NUMBER_RECENT_BYTES=33554432", "ERRBUS_NUMBER_FLUSH_BYTES=33554432", NULL};
    const char *line = NULL;
    const char *const argv[] = {is_small ? "errbusd_failpoints" : "errbusd",
                                "--control",
                                control,
                                "--data",
                                data,
                                "--journal",
                                journal,
                                "--durability",
                                durability,
                                NULL};
    cr_assert(process_start(&broker.process, argv, is_small ? small : NULL) &&
                  process_line(&broker.process, SOON_MS, &line) &&
                  strncmp(line, "errbusd ready ", 14) == 0,
              "seed %llu: errbusd is not ready: %s%s", (unsigned long long)seed,
              process_said(&broker.process), process_complained(&broker.process));
}

static void start_broker(void)
{
    start_broker_as(below(2) == 0, below(2) == 0 ? "process" : "disk");
}

static void kill_broker(void)
{
    process_signal(&broker.process, SIGKILL);
    int code = process_wait(&broker.process, SOON_MS);
    cr_assert_eq(code, 128 + SIGKILL, "seed %llu: errbusd ended by itself, with %d: %s",
                 (unsigned long long)seed, code, process_complained(&broker.process));
    broker_fini(&broker);
    kill_count += 1;
}

/* ---- the parties ------------------------------------------------------------------------------*/

static void start_victim(struct victim *victim)
{
    char incarnation[16];
    char diary[FOLDER_PATH_BYTES_MAX + 32];
    char last[32];
    snprintf(incarnation, sizeof incarnation, "%u", victim->starts++);
    snprintf(diary, sizeof diary, "%s/%s.diary", folder.path, victim->name);
    snprintf(last, sizeof last, "%llu",
             (unsigned long long)(victim->is_writer ? below(UINT32_MAX) : WRITERS));
    const char *const argv[] = {"test_torturer",
                                control,
                                victim->is_writer ? "write" : "read",
                                victim->name,
                                incarnation,
                                diary,
                                last,
                                NULL};
    cr_assert(process_start(&victim->process, argv, NULL), "test_torturer cannot be started");
    if (is_ending && victim->is_writer)
        process_say(&victim->process, "\n", 1);
}

static void wait_until_ready(struct victim *victim)
{
    const char *line = NULL;
    cr_assert(process_line(&victim->process, SOON_MS, &line) && strcmp(line, "ready") == 0,
              "seed %llu: %s is not ready: %s", (unsigned long long)seed, victim->name,
              process_complained(&victim->process));
}

/* Whether it has ended; an incarnation that the bus declared over gets another one. */
static bool look_at(struct victim *victim)
{
    if (victim->is_done)
        return true;
    int code = process_wait(&victim->process, 0);
    if (code < 0)
        return false;
    cr_assert(code == EXIT_OVER || (code == 0 && is_ending), "seed %llu: %s ended with %d: %s%s",
              (unsigned long long)seed, victim->name, code, process_complained(&victim->process),
              process_complained(&broker.process));
    process_fini(&victim->process);
    victim->is_done = code == 0;
    over_count += code != 0;
    if (code != 0)
        start_victim(victim);
    return victim->is_done;
}

static void kill_victim(struct victim *victim)
{
    process_signal(&victim->process, SIGKILL);
    (void)process_wait(&victim->process, SOON_MS);
    process_fini(&victim->process);
}

/* ---- what happens -----------------------------------------------------------------------------*/

static void pass_ms(uint64_t ms)
{
    (void)poll(NULL, 0, (int)ms);
    for (int i = 0; i < PARTIES; i++)
        (void)look_at(&victims[i]);
}

static void restart_broker(void)
{
    kill_broker();
    if (below(3) == 0)
        pass_ms(below(400));
    start_broker();
}

static void restart_victim(void)
{
    struct victim *victim = &victims[below(PARTIES)];
    kill_victim(victim);
    (void)poll(NULL, 0, (int)below(300));
    start_victim(victim);
}

/* For a moment; or, rarely, until it is taken for lost. */
static void stop_victim(void)
{
    struct victim *victim = &victims[below(PARTIES)];
    process_signal(&victim->process, SIGSTOP);
    (void)poll(NULL, 0, below(6) == 0 ? 3200 : (int)below(300));
    process_signal(&victim->process, SIGCONT);
}

static void fill(int fd)
{
    static const char zeros[1 << 16];
    while (write(fd, zeros, sizeof zeros) > 0)
        continue;
}

/* What it lets go is filled, too. */
static void fill_until_noticed(int fd)
{
    int64_t until_ms = test_now_ms() + SOON_MS;
    const char *line = "";
    while (strstr(line, "no values are accepted until") == NULL) {
        cr_assert(test_now_ms() < until_ms, "seed %llu: errbusd is never full: %s",
                  (unsigned long long)seed, process_complained(&broker.process));
        fill(fd);
        pass_ms(0);
        if (!process_complaint(&broker.process, 20, &line))
            line = "";
    }
    full_count += 1;
}

/* Of a broker that keeps no files for later: it notices at the end of the one it writes to. */
static void fill_volume(void)
{
    char path[sizeof journal + 16];
    snprintf(path, sizeof path, "%s/volume/ballast", folder.path);
    int fd = has_volume ? open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600) : -1;
    if (fd < 0)
        return;
    kill_broker();
    start_broker_as(true, "disk");
    fill_until_noticed(fd);
    for (uint64_t rounds = 15 + below(35); rounds > 0; rounds--) {
        fill(fd);
        pass_ms(20);
    }
    close(fd);
    if (below(2) == 0)
        restart_broker();
    cr_assert_eq(unlink(path), 0);
}

static void happen(void)
{
    switch (below(8)) {
    case 0:
    case 1:
    case 2: restart_broker(); break;
    case 3:
    case 4: restart_victim(); break;
    case 5:
    case 6: stop_victim(); break;
    default: fill_volume(); break;
    }
}

static void come_to_an_end(void)
{
    bool is_over = false;
    int64_t until_ms = test_now_ms() + AN_END_MS;
    is_ending = true;
    for (int i = 0; i < WRITERS; i++)
        process_say(&victims[i].process, "\n", 1);
    while (!is_over) {
        is_over = true;
        for (int i = 0; i < PARTIES; i++) {
            bool is_done = look_at(&victims[i]);
            is_over &= is_done;
            cr_assert(is_done || test_now_ms() < until_ms, "seed %llu: %s comes to no end: %s",
                      (unsigned long long)seed, victims[i].name,
                      process_complained(&broker.process));
        }
        (void)poll(NULL, 0, 20);
    }
}

/* ---- the test ---------------------------------------------------------------------------------*/

static void set_up(void)
{
    char volume[FOLDER_PATH_BYTES_MAX + 16];
    cr_assert(folder_make(&folder));
    snprintf(control, sizeof control, "ipc://%s/control", folder.path);
    snprintf(data, sizeof data, "ipc://%s/data", folder.path);
    snprintf(volume, sizeof volume, "%s/volume", folder.path);
    has_volume = mount_volume(volume);
    snprintf(journal, sizeof journal, "%s/%s", folder.path, has_volume ? "volume/j" : "journal");
    seed = number_of("TORTURE_SEED", (uint64_t)test_now_ns() % 1000000);
    dice = seed;
}

static void tear_down(void)
{
    char volume[FOLDER_PATH_BYTES_MAX + 16];
    for (int i = 0; i < PARTIES; i++)
        process_fini(&victims[i].process);
    broker_fini(&broker);
    snprintf(volume, sizeof volume, "%s/volume", folder.path);
    if (has_volume && umount2(volume, MNT_DETACH) != 0)
        abort(); /* an assertion fails no test here */
    folder_fini(&folder);
}

Test(torture, loses_nothing_that_was_acknowledged, .init = set_up, .fini = tear_down,
     .timeout = 3600)
{
    char complaint[DIARIES_COMPLAINT_BYTES];
    struct diaries_sums sums;
    uint64_t kills_wanted = number_of("TORTURE_KILLS", is_asked("TEST_LONG") ? KILLS_LONG : KILLS);
    start_broker();
    for (int i = PARTIES - 1; i >= 0; i--) { /* readers first: they shall miss nothing */
        bool is_writer = i < WRITERS;
        victims[i].is_writer = is_writer;
        snprintf(victims[i].name, sizeof victims[i].name, "%c%d", is_writer ? 'w' : 'r',
                 is_writer ? i : i - WRITERS);
        start_victim(&victims[i]);
        if (!is_writer)
            wait_until_ready(&victims[i]);
    }
    fill_volume(); /* once at least */
    while (kill_count < kills_wanted) {
        pass_ms(below(600));
        happen();
    }
    come_to_an_end();
    cr_assert(diaries_check(folder.path, WRITERS, READERS, &sums, complaint), "seed %llu: %s",
              (unsigned long long)seed, complaint);
    cr_assert_gt(sums.written, 100 * kills_wanted);
    cr_assert_gt(sums.promises, kills_wanted);
    fprintf(stderr,
            "torture: seed %llu, %u kills, %u incarnations over, %u times full; %llu written, %llu "
            "promises, "
            "%llu outcomes, %llu failures of the bus's, %llu again\n",
            (unsigned long long)seed, kill_count, over_count, full_count,
            (unsigned long long)sums.written, (unsigned long long)sums.promises,
            (unsigned long long)sums.outcomes, (unsigned long long)sums.failures,
            (unsigned long long)sums.again);
}
