/* SPDX-License-Identifier: MPL-2.0 */
/* spill_test.c -- values beyond --memory are in the journal alone until their reader comes.
 *
 * A durable reader is away while 64 MiB are published past a broker that may hold 4 MiB of them;
 * TEST_LARGE=1: 10 GiB and 256 MiB. */
#include "tests/lib/revival.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define KIB UINT64_C(1024)
#define MIB (1024 * KIB)
#define VALUE_BYTES (40 * KIB)
#define SMALL_BYTES 200
/* What the broker has beside values: queues of what is on its way, tables, itself. */
#define CONSTANT_BYTES (32 * MIB)
/* Of a journal in which little is pending: segments that wait for the next checkpoint and flush,
 * the spare one, and four files that are kept to be written over. */
#define DIRECTORY_BYTES (640 * MIB)

static uint64_t backlog_bytes;
static uint64_t memory_bytes;

static void start_broker(void)
{
    char memory[32];
    char window[32];
    char job[32];
    snprintf(memory, sizeof memory, "%lluM", (unsigned long long)(memory_bytes / MIB));
    snprintf(window, sizeof window, "%lluM", (unsigned long long)(backlog_bytes / MIB * 2));
    snprintf(job, sizeof job, "%lluM", (unsigned long long)(backlog_bytes / MIB * 20));
    const char *const more[] = {"--memory",       memory, "--job-bytes", job,
                                "--topic-window", window, NULL};
    revival_start("process", more);
}

static void set_up(void)
{
    bool is_large = is_asked("TEST_LARGE");
    backlog_bytes = is_large ? 10 * KIB * MIB : 64 * MIB;
    memory_bytes = is_large ? 256 * MIB : 4 * MIB;
    revival_open();
    start_broker();
}

TestSuite(spill, .init = set_up, .fini = revival_close, .timeout = 1200);

static struct bus *open_patient(const char *party)
{
    struct bus_options options;
    bus_options_init(&options);
    options.party = party;
    options.broker_lost_ms = 3 * SOON_MS;
    options.send_timeout_ms = 3 * SOON_MS;
    return must_open_with(&options);
}

static struct bus_sub *subscribe_durably(struct bus *bus)
{
    struct bus_sub_options options;
    bus_sub_options_init(&options);
    options.name = "reader";
    return must_subscribe_with(bus, "alice/#", &options);
}

/* A number of the kernel's about the broker, which it gives in KiB. */
static uint64_t broker_bytes(const char *name)
{
    char path[64];
    char line[256];
    unsigned long long kib = 0;
    snprintf(path, sizeof path, "/proc/%d/status", (int)stage.process.pid);
    FILE *file = fopen(path, "re");
    cr_assert_not_null(file);
    while (kib == 0 && fgets(line, sizeof line, file) != NULL)
        if (strncmp(line, name, strlen(name)) == 0)
            kib = strtoull(line + strlen(name), NULL, 10);
    fclose(file);
    cr_assert_gt(kib, 0);
    return kib * KIB;
}

/* The most memory that the broker ever had.  Under a sanitizer, which maps terabytes for itself and
 * keeps what is freed, that tells nothing. */
static void expect_small(void)
{
    uint64_t bound = 2 * (memory_bytes + CONSTANT_BYTES);
    uint64_t peak = broker_bytes("VmHWM:");
    if (broker_bytes("VmSize:") > KIB * KIB * MIB)
        return;
    cr_log_info("the broker had %llu MiB at most", (unsigned long long)(peak / MIB));
    cr_expect_lt(peak, bound, "%llu MiB, not %llu at most", (unsigned long long)(peak / MIB),
                 (unsigned long long)(bound / MIB));
}

/* ---- values that tell which they are --------------------------------------------------------- */

static uint8_t value[VALUE_BYTES];

static const void *value_of(uint64_t number, size_t bytes)
{
    for (size_t i = 0; i + sizeof number <= bytes; i += 512)
        memcpy(value + i, &number, sizeof number);
    return value;
}

static void publish(struct bus *bus, const char *topic, uint64_t from, uint64_t until, size_t bytes)
{
    for (uint64_t i = from; i < until; i++)
        expect_code(bus_publish(bus, topic, value_of(i, bytes), bytes), BUS_OK);
}

/* The next of either topic: each in order, and whole. */
static void expect_next(struct bus_sub *sub, uint64_t *large, uint64_t *small)
{
    struct bus_msg *msg = NULL;
    struct bus_error *error = NULL;
    size_t got = 0;
    enum bus_err err = bus_sub_recv(sub, 3 * SOON_MS, &msg, &error);
    expect_code_of(err, BUS_OK, &error);
    bool is_small = strcmp(bus_msg_topic(msg), "alice/small") == 0;
    uint64_t *next = is_small ? small : large;
    size_t bytes = is_small ? SMALL_BYTES : VALUE_BYTES;
    cr_assert_eq(bus_msg_seq(msg), *next);
    const void *received = bus_msg_value(msg, &got);
    cr_assert_eq(got, bytes);
    cr_assert_eq(memcmp(received, value_of(*next, bytes), bytes), 0, "value %llu is not itself",
                 (unsigned long long)*next);
    bus_msg_free(&msg);
    *next += 1;
}

/* Small ones among them, so that payloads of many frames are read back as well. */
static void publish_backlog(struct bus *alice, uint64_t from, uint64_t until)
{
    for (uint64_t i = from; i < until; i += 16) {
        publish(alice, "large", i, i + 16, VALUE_BYTES);
        publish(alice, "small", i, i + 16, SMALL_BYTES);
    }
}

static void leave_reader_behind(void)
{
    struct bus *bob = open_patient("bob");
    struct bus_sub *sub = subscribe_durably(bob);
    bus_sub_close(&sub);
    must_close(&bob);
}

static uint64_t value_count(void)
{
    return backlog_bytes / VALUE_BYTES / 16 * 16;
}

static void expect_backlog(struct bus_sub *sub)
{
    uint64_t large = 0;
    uint64_t small = 0;
    int64_t begin_ms = test_now_ms();
    while (large < value_count() || small < value_count())
        expect_next(sub, &large, &small);
    int64_t took_ms = test_now_ms() - begin_ms;
    cr_log_info("read back in %lld ms", (long long)took_ms);
}

/* What the journal has, in files. */
static uint64_t journal_bytes(void)
{
    uint64_t bytes = 0;
    char path[sizeof revival.journal + 300];
    struct stat status;
    const struct dirent *entry = NULL;
    DIR *names = opendir(revival.journal);
    cr_assert_not_null(names);
    while ((entry = readdir(names)) != NULL) {
        snprintf(path, sizeof path, "%s/%s", revival.journal, entry->d_name);
        if (stat(path, &status) == 0 && S_ISREG(status.st_mode))
            bytes += (uint64_t)status.st_size;
    }
    closedir(names);
    return bytes;
}

/* A status tells what of the backlog is in the journal alone, and how large that is. */
static void expect_spilled(void)
{
    struct bus_status *status = NULL;
    struct bus_error *error = NULL;
    expect_code_of(bus_admin_status_get(stage_admin(), BUS_JOB_ALL, SOON_MS, &status, &error),
                   BUS_OK, &error);
    const struct bus_status_journal *journal = bus_status_journal(status);
    uint64_t there = journal_bytes();
    cr_expect_geq(journal->spilled_bytes, backlog_bytes - 2 * memory_bytes);
    cr_expect_gt(journal->spilled, 0);
    cr_expect_geq(journal->next - journal->first, journal->spilled_bytes);
    /* A segment may have come meanwhile; the file of the lock is not counted. */
    cr_expect(journal->bytes + 65 * MIB > there && there + 65 * MIB > journal->bytes,
              "%llu and %llu", (unsigned long long)journal->bytes, (unsigned long long)there);
    bus_status_free(&status);
}

/* ---- the tests ------------------------------------------------------------------------------- */

Test(spill, gives_a_reader_that_was_away_all_of_it_in_order)
{
    leave_reader_behind();
    struct bus *alice = open_patient("alice");
    publish_backlog(alice, 0, value_count());
    expect_code(bus_flush(alice, 6 * SOON_MS), BUS_OK);
    expect_small();
    expect_spilled();
    struct bus *bob = open_patient("bob");
    struct bus_sub *sub = subscribe_durably(bob);
    expect_backlog(sub);
    expect_nothing(bob, sub);
    expect_small();
    bus_sub_close(&sub);
    must_close(&bob);
    must_close(&alice);
}

Test(spill, goes_on_with_it_after_the_broker_was_killed)
{
    leave_reader_behind();
    struct bus *alice = open_patient("alice");
    publish_backlog(alice, 0, value_count() / 32 * 16);
    revival_kill();
    start_broker();
    publish_backlog(alice, value_count() / 32 * 16, value_count());
    expect_code(bus_flush(alice, 6 * SOON_MS), BUS_OK);
    expect_small();
    revival_kill();
    start_broker();
    struct bus *bob = open_patient("bob");
    struct bus_sub *sub = subscribe_durably(bob);
    expect_backlog(sub);
    expect_small();
    bus_sub_close(&sub);
    must_close(&bob);
    must_close(&alice);
}

/* Within what is sent before anything is taken. */
#define DAMAGED_AT (64 * KIB)

static char damaged[64]; /* the name of the segment */

static void find_second_segment(void)
{
    struct dirent **names = NULL;
    unsigned segments = 0;
    int count = scandir(revival.journal, &names, NULL, alphasort);
    cr_assert_geq(count, 0);
    for (int i = 0; i < count; i++) {
        segments += strstr(names[i]->d_name, ".journal") != NULL;
        if (segments == 2 && strstr(names[i]->d_name, ".journal") != NULL)
            snprintf(damaged, sizeof damaged, "%.60s", names[i]->d_name);
        free(names[i]);
    }
    free(names);
    cr_assert_geq(segments, 2);
}

/* A byte of the second segment turns while the broker runs: the first one is small, and its values
 * may be written anew. */
static void damage_value(void)
{
    char path[sizeof revival.journal + 2 * sizeof damaged];
    uint8_t byte = 0;
    find_second_segment();
    snprintf(path, sizeof path, "%s/%s", revival.journal, damaged);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    cr_assert_geq(fd, 0);
    cr_assert_eq(pread(fd, &byte, 1, (off_t)DAMAGED_AT), 1);
    byte ^= 0x10;
    cr_assert_eq(pwrite(fd, &byte, 1, (off_t)DAMAGED_AT), 1);
    close(fd);
}

Test(spill, ends_rather_than_send_what_is_damaged)
{
    leave_reader_behind();
    struct bus *alice = open_patient("alice");
    backlog_bytes = 24 * MIB; /* less than makes a checkpoint */
    publish_backlog(alice, 0, value_count());
    must_flush(alice);
    damage_value();
    struct bus *bob = open_patient("bob");
    struct bus_sub_options options;
    struct bus_sub *sub = NULL;
    bus_sub_options_init(&options);
    options.name = "reader";
    expect_code(bus_sub_open(bob, "alice/#", &options, &sub), BUS_OK);
    cr_expect_eq(process_wait(&stage.process, SOON_MS), 1);
    const char *said = process_complained(&stage.process);
    cr_expect_not_null(strstr(said, "cannot read back a value that must be sent"), "%s", said);
    cr_expect_not_null(strstr(said, damaged), "%s", said);
    cr_expect_not_null(strstr(said, "' has no valid record"), "%s", said);
    bus_sub_close(&sub);
    (void)bus_close(&bob, 0);   /* they have no broker */
    (void)bus_close(&alice, 0); /* any more */
}

static bool is_below(void *bytes_max)
{
    return journal_bytes() < *(const uint64_t *)bytes_max;
}

/* Waits until the journal has less: what was given up goes when the rest is on the disk. */
static uint64_t await_journal_below(uint64_t bytes_max)
{
    (void)folder_await(revival.journal, is_below, &bytes_max, SOON_MS);
    return journal_bytes();
}

/* One value that nobody takes does not keep all that came and went behind it. */
Test(spill, does_not_let_one_old_value_hold_all_behind_it)
{
    enum { COUNT = 16 * 1024 }; /* of 40 KiB: 640 MiB */
    struct bus *carol = open_patient("carol");
    leave_reader_behind();
    struct bus *alice = open_patient("alice");
    publish(alice, "small", 0, 3, SMALL_BYTES);
    publish(carol, "passing", 0, COUNT, VALUE_BYTES);
    expect_code(bus_flush(carol, 3 * SOON_MS), BUS_OK);
    uint64_t bytes = await_journal_below(DIRECTORY_BYTES);
    cr_log_info("the journal has %llu MiB", (unsigned long long)(bytes / MIB));
    cr_expect_lt(bytes, DIRECTORY_BYTES, "%llu MiB", (unsigned long long)(bytes / MIB));
    revival_kill();
    start_broker();
    struct bus *bob = open_patient("bob");
    struct bus_sub *sub = subscribe_durably(bob);
    uint64_t large = 0;
    uint64_t small = 0;
    while (small < 3)
        expect_next(sub, &large, &small);
    expect_nothing(bob, sub);
    bus_sub_close(&sub);
    must_close(&bob);
    must_close(&alice);
    must_close(&carol);
}
