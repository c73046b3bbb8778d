/* SPDX-License-Identifier: MPL-2.0 */
/* backup_test.c -- a journal is copied while it is written: before each call that the copy makes,
 * its writer may do anything, and the copy is a journal of some moment all the same. */
#include "broker/journal/backup.h"

#include "broker/journal/tool.h"
#include "tests/lib/disk/disk_memory.h"
#include "tests/lib/draw.h"
#include "tests/unit/journal_driver.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

enum { SEEDS = 150, BEFORE = 60, LISTS_MAX = 8192, BATCH_MAX = 6, NAME_BYTES = 32, COPIES = 60 };

/* ---- a disk that lets the writer work before each call --------------------------------------- */

static struct journal *writer;
static uint64_t random_state;
static uint64_t next_number;          /* of the next record */
static uint64_t listed_at[LISTS_MAX]; /* next_number at each list of the copy */
static size_t list_count;
static unsigned busy; /* of 100 calls, how many let the writer work */
static struct disk *beneath;
static int failing; /* so many calls until one fails; -1: none does */

static void append_some(void)
{
    uint64_t count = 1 + draw(&random_state) % BATCH_MAX;
    driver_must_append(writer, next_number, (size_t)count);
    next_number += count;
}

/* Gives up all but the newest records.  What replaces them is a checkpoint of one record. */
static void trim_some(void)
{
    uint64_t next = journal_next(writer);
    cr_assert_eq(driver_append(writer, next_number, 1,
                               JOURNAL_CHECKPOINT_BEGIN | JOURNAL_CHECKPOINT_END, NULL),
                 JOURNAL_OK);
    next_number += 1;
    cr_assert_eq(journal_trim(writer, next), JOURNAL_OK, "%s", journal_complaint(writer));
}

static void flush_all(void)
{
    struct journal_flush *flush = NULL;
    cr_assert_eq(journal_flush_begin(writer, &flush), JOURNAL_OK);
    if (flush == NULL)
        return;
    journal_flush_run(flush);
    cr_assert_eq(journal_flush_end(writer, &flush), JOURNAL_OK);
}

static void work(void)
{
    if (writer == NULL)
        return;
    while (draw(&random_state) % 100 < busy) {
        switch (draw(&random_state) % 8) {
        case 0: trim_some(); break;
        case 1: flush_all(); break;
        case 2: driver_must_sync(writer); break;
        default: append_some(); break;
        }
    }
}

static bool fails(void)
{
    return failing >= 0 && failing-- == 0;
}

static int watched_list(struct disk *disk, void (*visit)(void *arg, const char *name), void *arg)
{
    (void)disk;
    work();
    cr_assert_lt(list_count, LISTS_MAX);
    listed_at[list_count++] = next_number;
    return fails() ? -EIO : beneath->ops->list(beneath, visit, arg);
}

static int watched_open(struct disk *disk, const char *name, enum disk_how how)
{
    (void)disk;
    work();
    cr_assert_eq(how, DISK_READ, "the copy writes to '%s' of the journal", name);
    return fails() ? -EIO : beneath->ops->open(beneath, name, how);
}

static void watched_shut(struct disk *disk, int file)
{
    (void)disk;
    work();
    beneath->ops->shut(beneath, file);
}

static int64_t watched_read(struct disk *disk, int file, const struct iovec *pieces, int count,
                            uint64_t offset)
{
    (void)disk;
    work();
    return fails() ? -EIO : beneath->ops->read(beneath, file, pieces, count, offset);
}

static int64_t watched_size(struct disk *disk, int file)
{
    (void)disk;
    work();
    return fails() ? -EIO : beneath->ops->size(beneath, file);
}

static void watched_close(struct disk *disk)
{
    (void)disk;
    disk_close(&beneath);
}

/* What is not here the copy must not call. */
static const struct disk_ops watched_ops = {.list = watched_list,
                                            .open = watched_open,
                                            .shut = watched_shut,
                                            .read = watched_read,
                                            .size = watched_size,
                                            .close = watched_close};
static struct disk watched = {.ops = &watched_ops, .scheme = "watched", .name = "watched"};

static struct {
    uint64_t least; /* records that it must have */
    struct backup_done done;
} copies[COPIES];

/* ---- one copy ---------------------------------------------------------------------------------*/

static char complaint[DISK_COMPLAINT_BYTES + JOURNAL_COMPLAINT_BYTES];

static struct disk *open_memory(const char *name)
{
    struct disk *disk = NULL;
    cr_assert_eq(disk_memory_open(name, true, &disk, complaint), 0, "%s", complaint);
    return disk;
}

static struct journal *open_journal(const char *name, bool is_lazy)
{
    struct journal *journal = NULL;
    struct disk *disk = open_memory(name);
    struct journal_options options = {
        .may_create = true, .id = DRIVER_ID, .segment_bytes = DRIVER_SEGMENT, .is_lazy = is_lazy};
    enum journal_err err = journal_open_disk(&disk, &options, &journal, &driver_opened, complaint);
    cr_assert_eq(err, JOURNAL_OK, "%s", complaint);
    return journal;
}

static enum journal_err take(const char *from, const char *to, struct backup_done *done)
{
    struct disk *source = &watched;
    struct disk *target = open_memory(to);
    beneath = open_memory(from);
    list_count = 0;
    complaint[0] = '\0';
    return backup_take(&source, &target, done, complaint);
}

static void ignore(void *arg, const char *line)
{
    (void)arg;
    (void)line;
}

/* The copy has each record from its first one on, up to a moment of the last round at least. */
static void expect_copy(const char *to, bool is_lazy, uint64_t least,
                        const struct backup_done *done)
{
    struct disk *disk = open_memory(to);
    cr_expect_eq(tool_check(&disk, ignore, NULL), JOURNAL_OK);
    struct journal *copy = open_journal(to, is_lazy);
    cr_expect_str_eq(driver_opened.cut, "");
    cr_expect_not(driver_opened.is_new);
    cr_expect_leq(done->until, journal_next(copy));
    uint64_t number = driver_read_all(copy, journal_first(copy), driver_first_number(copy));
    cr_expect_geq(number, least);
    cr_expect_leq(number, next_number);
    driver_must_append(copy, number, 3); /* it goes on */
    journal_close(&copy);
}

static void copy_beside_a_writer(uint64_t seed, bool is_lazy)
{
    char from[NAME_BYTES];
    char to[NAME_BYTES];
    struct backup_done done;
    snprintf(from, sizeof from, "from-%d-%d", (int)seed, is_lazy);
    snprintf(to, sizeof to, "to-%d-%d", (int)seed, is_lazy);
    random_state = seed;
    failing = -1;
    next_number = 0;
    busy = (unsigned)(draw(&random_state) % 30);
    writer = open_journal(from, is_lazy);
    for (uint64_t i = draw(&random_state) % BEFORE; i > 0; i--)
        append_some();
    append_some();
    enum journal_err err = take(from, to, &done);
    cr_assert_eq(err, JOURNAL_OK, "seed %d: %s", (int)seed, complaint);
    cr_assert_geq(list_count, 2);
    expect_copy(to, is_lazy, listed_at[list_count - 2], &done);
    journal_close(&writer);
}

Test(backup, copies_beside_a_writer)
{
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        copy_beside_a_writer(seed, false);
        copy_beside_a_writer(seed, true);
    }
}

/* ---- beside a thread --------------------------------------------------------------------------*/

static atomic_ulong appended; /* records that were appended */
static atomic_bool is_over;

static void *write_on(void *arg)
{
    (void)arg;
    while (!atomic_load(&is_over)) {
        if (draw(&random_state) % 16 == 0)
            trim_some();
        else
            append_some();
        if (draw(&random_state) % 4 == 0)
            flush_all();
        atomic_store(&appended, next_number);
    }
    return NULL;
}

/* A thread writes: so a file may come, or go, between any two calls of the copy. */
static void copy_beside_a_thread(bool is_lazy)
{
    char to[NAME_BYTES];
    struct backup_done done;
    pthread_t thread;
    struct journal *journal = open_journal(is_lazy ? "thread-lazy" : "thread", is_lazy);
    writer = journal;
    next_number = 0;
    append_some();
    atomic_store(&appended, next_number);
    atomic_store(&is_over, false);
    cr_assert_eq(pthread_create(&thread, NULL, write_on, NULL), 0);
    for (int i = 0; i < COPIES; i++) {
        struct disk *source = open_memory(is_lazy ? "thread-lazy" : "thread");
        snprintf(to, sizeof to, "copy-%d-%d", i, is_lazy);
        struct disk *target = open_memory(to);
        uint64_t least = atomic_load(&appended);
        enum journal_err err = backup_take(&source, &target, &done, complaint);
        cr_expect_eq(err, JOURNAL_OK, "copy %d: %s", i, complaint);
        if (err != JOURNAL_OK)
            break;
        copies[i].least = least;
        copies[i].done = done;
    }
    atomic_store(&is_over, true);
    pthread_join(thread, NULL);
    for (int i = 0; i < COPIES; i++) {
        snprintf(to, sizeof to, "copy-%d-%d", i, is_lazy);
        expect_copy(to, is_lazy, copies[i].least, &copies[i].done);
    }
    journal_close(&journal);
}

Test(backup, copies_beside_a_thread)
{
    failing = -1;
    random_state = 7;
    copy_beside_a_thread(false);
    copy_beside_a_thread(true);
}

/* ---- what it refuses --------------------------------------------------------------------------*/

static void write_journal(const char *name)
{
    random_state = 1;
    next_number = 0;
    busy = 0;
    failing = -1;
    writer = open_journal(name, false);
    while (driver_opened.is_new && next_number < BEFORE)
        append_some();
    journal_close(&writer);
}

Test(backup, refuses_a_place_that_is_not_empty)
{
    struct backup_done done;
    write_journal("full-from");
    write_journal("full-to");
    cr_expect_eq(take("full-from", "full-to", &done), JOURNAL_LOCKED);
    cr_expect_str_eq(complaint, "'memory:full-to' is not empty: name a directory that is empty or "
                                "does not exist");
    /* Nothing was changed there. */
    struct journal *journal = open_journal("full-to", false);
    cr_expect_eq(driver_read_all(journal, journal_first(journal), 0), next_number);
    journal_close(&journal);
}

Test(backup, refuses_what_is_no_journal)
{
    struct backup_done done;
    failing = -1;
    cr_expect_eq(take("nothing", "nowhere", &done), JOURNAL_MISSING);
    cr_expect_str_eq(complaint, "there is no journal in 'watched'");
}

static void count_journals(void *arg, const char *name)
{
    uint64_t first = 0;
    *(size_t *)arg += segment_name_read(name, &first);
}

/* Each call of the disk fails in turn: the copy says so, and leaves nothing that passes for one. */
Test(backup, leaves_no_half_of_a_journal)
{
    struct backup_done done;
    enum journal_err err = JOURNAL_IO;
    write_journal("failing");
    int at = 0;
    for (; err != JOURNAL_OK; at++) {
        size_t count = 0;
        failing = at;
        err = take("failing", "half", &done);
        cr_assert(err == JOURNAL_OK || err == JOURNAL_IO, "call %d: %s", at, complaint);
        cr_expect_eq(err == JOURNAL_IO, complaint[0] != '\0');
        struct disk *disk = open_memory("half");
        cr_assert_eq(disk->ops->list(disk, count_journals, &count), 0);
        disk_close(&disk);
        cr_expect_eq(count > 0, err == JOURNAL_OK, "call %d", at);
    }
    cr_expect_gt(at, 5);
}

/* A byte of an old segment has changed. */
Test(backup, tells_of_a_damaged_journal)
{
    struct backup_done done;
    uint8_t byte = 0xff;
    struct iovec piece = {&byte, 1};
    write_journal("damaged");
    struct disk *disk = open_memory("damaged");
    int file = disk->ops->open(disk, DRIVER_FIRST, DISK_WRITE);
    cr_assert_geq(file, 0);
    cr_assert_eq(disk_write_all(disk, file, &piece, 1, FORMAT_SEGMENT_BYTES + 500), 0);
    disk->ops->shut(disk, file);
    disk_close(&disk);
    enum journal_err err = take("damaged", "damaged-too", &done);
    cr_expect_eq(err, JOURNAL_DAMAGED, "%s", journal_strerror(err));
    cr_expect_str_eq(complaint,
                     "the journal in 'watched' is damaged: records are missing between two "
                     "of its files");
}

static void keep_second(void *arg, const char *name)
{
    char *second = arg;
    uint64_t first = 0;
    if (segment_name_read(name, &first) && first > 0 &&
        (*second == '\0' || strcmp(name, second) < 0))
        snprintf(second, FORMAT_NAME_BYTES, "%s", name);
}

/* A file that is kept for another segment may get it between its opening and the look at its head.
 * Where its name stays, it is damaged. */
Test(backup, takes_no_segment_for_another)
{
    struct backup_done done;
    char second[FORMAT_NAME_BYTES] = "";
    write_journal("taken");
    struct disk *disk = open_memory("taken");
    cr_assert_eq(disk->ops->list(disk, keep_second, second), 0);
    cr_assert_neq(second[0], '\0', "there is one file alone");
    cr_assert_eq(disk->ops->rename(disk, second, DRIVER_FIRST), 0);
    disk_close(&disk);
    enum journal_err err = take("taken", "taken-too", &done);
    cr_expect_eq(err, JOURNAL_DAMAGED, "%s", journal_strerror(err));
    cr_expect_not_null(strstr(complaint, "is damaged in its head"), "%s", complaint);
}
